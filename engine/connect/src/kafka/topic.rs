//! What a topic may be called. Brokers hold to it, but a client asks them for any name, again and again.

use weir_core::Result;

use super::errors;

/// The most characters of a name.
const LONGEST: usize = 249;

/// Says why brokers take no topic of this name.
pub fn check(name: &str) -> Result<(), String> {
    match name {
        "" => Err("it is empty".to_owned()),
        "." | ".." => Err("it is '.' or '..'".to_owned()),
        name if name.len() > LONGEST => Err(format!("it is longer than {LONGEST} characters")),
        name => match name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '_' | '-')) {
            Some(odd) => Err(format!("it has a {odd:?}, and a topic's name has only letters of ASCII, digits, '.', '_' and '-'")),
            None => Ok(()),
        },
    }
}

/// The value of an option that names a topic.
pub fn given(option: &str, name: Option<String>) -> Result<Option<String>> {
    name.map(|name| check(&name).map_err(|why| errors::invalid_option(option, &name, &format!("{why}; name a topic"))).map(|()| name))
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_brokers_take() {
        for name in ["a", "A.b_c-9", "...", &"x".repeat(249)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for (name, words) in [("", "empty"), ("..", "'..'"), ("bad/name", "'/'"), ("a b", "' '"), ("\u{e9}", "ASCII"), ("a\0", "'\\0'")] {
            assert!(check(name).is_err_and(|why| why.contains(words)), "{name}");
        }
        assert!(check(&"x".repeat(250)).is_err());
    }
}
