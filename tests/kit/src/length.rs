//! Short and long forms of the same test.
//!
//! `make test` runs every test in its short form. `make soak` and `make crash` set `WEIR_TEST_LENGTH=long` and select tests by name: those with
//! `soak` or `crash` in theirs. A test that has two forms asks [`Length::of_this_run`] for its numbers; both forms check the same things.

use std::ffi::OsStr;

/// Which form of a test is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    Short,
    Long,
}

impl Length {
    pub fn of_this_run() -> Length {
        Length::parse(std::env::var_os("WEIR_TEST_LENGTH").as_deref())
    }

    fn parse(variable: Option<&OsStr>) -> Length {
        if variable == Some(OsStr::new("long")) { Length::Long } else { Length::Short }
    }

    pub fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Length::Short => short,
            Length::Long => long,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_long_asks_for_the_long_form() {
        assert_eq!(Length::parse(Some(OsStr::new("long"))).pick(1, 2), 2);
        assert_eq!(Length::parse(Some(OsStr::new(""))).pick(1, 2), 1);
        assert_eq!(Length::parse(None).pick(1, 2), 1);
    }
}
