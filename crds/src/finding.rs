//! What a check found: a rule that is broken, where, and what to write instead.
//!
//! Findings are made without knowledge of files; `manifest` turns them into located problems.
//! Every finding names the object and what to do; nothing here prints secret values.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The job is refused.
    Error,
    /// The job is accepted; something is likely not meant so.
    Warning,
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Name of the rule, for example `unknown-option`.
    pub rule: &'static str,
    /// Where, relative to whoever asked; for options the name of the option as it was written.
    pub path: String,
    /// What was found there; absent for secrets and for what is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What is allowed, where that can be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// The known name or value that is most like what was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// What to write instead; may be empty when the message says it all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Finding {
    /// A finding that refuses the job.
    pub fn error(rule: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            rule,
            path: path.into(),
            found: None,
            message: message.into(),
            allowed: Vec::new(),
            nearest: None,
            remedy: String::new(),
        }
    }

    /// A finding that the job survives.
    pub fn warning(rule: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(rule, path, message) }
    }

    /// What was found; long texts are shortened.
    pub fn found(mut self, found: &str) -> Self {
        self.found = Some(shortened(found));
        self
    }

    /// What is allowed.
    pub fn allowed<T: Into<String>>(mut self, allowed: impl IntoIterator<Item = T>) -> Self {
        self.allowed = allowed.into_iter().map(Into::into).collect();
        self
    }

    /// The most alike of some known names, if any is alike.
    pub fn nearest_of<'a>(mut self, found: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        self.nearest = nearest(found, known).map(str::to_owned);
        self
    }

    /// What to write instead.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Message, nearest name, allowed values and remedy in one line.
    pub fn sentence(&self) -> String {
        let more = self.nearest.is_some() || !self.allowed.is_empty() || !self.remedy.is_empty();
        let mut text = if more { self.message.trim_end_matches('.').to_owned() } else { self.message.clone() };
        if let Some(nearest) = &self.nearest {
            text.push_str(&format!("; did you mean `{nearest}`?"));
        }
        if !self.allowed.is_empty() && (self.nearest.is_none() || self.allowed.len() <= 8) {
            text.push_str(&format!(" (allowed: {})", self.allowed.join(", ")));
        }
        if !self.remedy.is_empty() {
            text.push_str("; ");
            text.push_str(&self.remedy);
        }
        text
    }
}

/// The nearest of some known names as the end of a sentence; nothing if none is alike.
pub fn did_you_mean<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(found.trim(), known).map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}

/// The known name that is most like the one found: equal but for case, or few letters away.
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.to_lowercase();
    if found.len() > 128 {
        return None;
    }
    let mut best: Option<(f64, &str)> = None;
    for name in known {
        let lower = name.to_lowercase();
        let mut score = strsim::normalized_damerau_levenshtein(&found, &lower);
        if found.len() >= 4 && (lower.starts_with(&found) || found.starts_with(&lower) && lower.len() >= 4) {
            score = score.max(0.7);
        }
        if score >= 0.6 && best.is_none_or(|(other, _)| score > other) {
            best = Some((score, name));
        }
    }
    best.map(|(_, name)| name)
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 120;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    let start: String = text.chars().take(LONGEST).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_name_that_was_meant() {
        let known = ["maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst"];
        assert_eq!(nearest("maxFilePerTrigger", known), Some("maxFilesPerTrigger"));
        assert_eq!(nearest("MAXBYTESPERTRIGGER", known), Some("maxBytesPerTrigger"));
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(did_you_mean(" latestFirs", known), "; did you mean `latestFirst`?");
        assert_eq!(did_you_mean("zzz", known), "");
    }
}
