//! A connector's options as its code reads them: by name, in any case.
//!
//! The manifest's options were checked against the option tables of `weir-crds`
//! before; this view only gives typed access. Names compare without case, as
//! Spark's do. Errors carry Spark's sentence where it has one. Nothing here
//! knows which options exist.

use std::collections::BTreeMap;

use weir_core::{Error, Result};

/// Option values by name, compared without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// The options of a manifest.
    pub fn new(values: impl IntoIterator<Item = (impl AsRef<str>, impl Into<String>)>) -> Self {
        Self(values.into_iter().map(|(name, value)| (name.as_ref().to_ascii_lowercase(), value.into())).collect())
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    /// All options, names in lower case.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The first value among several spellings of one option.
    pub fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// The value of an option that the connector cannot do without.
    pub fn required(&self, format: &str, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| {
            Error::config("MISSING_OPTION", format!("the format '{format}' needs the option '{name}'; add it under options"))
        })
    }

    /// `true` or `false`, in any case.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(invalid(name, text, "must be 'true' or 'false'")),
        }
    }

    /// A number, or nothing when the option is not set.
    pub fn number<N: std::str::FromStr>(&self, name: &str, allowed: &str) -> Result<Option<N>> {
        self.get(name).map(|text| text.trim().parse().map_err(|_| invalid(name, text, allowed))).transpose()
    }
}

/// Spark's sentence for a value that an option cannot have.
pub fn invalid(name: &str, value: &str, allowed: &str) -> Error {
    Error::config("INVALID_OPTION_VALUE", format!("Invalid value '{value}' for option '{name}', {allowed}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_compare_without_case() {
        let options = Options::new([("MaxFilesPerTrigger", "3"), ("latestFirst", "maybe")]);
        assert_eq!(options.get("maxfilespertrigger"), Some("3"));
        assert_eq!(options.number::<u32>("maxFilesPerTrigger", "").unwrap(), Some(3));
        let error = options.flag("latestFirst", false).unwrap_err();
        assert_eq!(error.message(), "Invalid value 'maybe' for option 'latestFirst', must be 'true' or 'false'");
        assert!(options.flag("other", true).unwrap());
        assert!(options.required("json", "path").is_err());
    }
}
