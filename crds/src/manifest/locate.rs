//! From the path of a field to its line and column.
//!
//! Paths are written as in messages: `spec.tasks[bronze].queries[readings].sql`, list items by
//! their name where they have one, keys with other characters as `["kafka.bootstrap.servers"]`.
//! A path that is not in the file is found at its nearest ancestor that is.

use std::collections::HashMap;

use super::tree::{Position, Style};

#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub key: Position,
    pub value: Position,
    pub style: Style,
}

/// Where the fields of one document are.
#[derive(Clone, Debug, Default)]
pub struct Locator {
    file: String,
    spots: HashMap<String, Spot>,
    lines: Vec<String>,
}

/// Which end of a field is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its name.
    Key,
    /// Its value.
    Value,
}

impl Locator {
    pub(super) fn new(file: &str, text: &str) -> Self {
        Self { file: file.to_owned(), spots: HashMap::new(), lines: text.lines().map(str::to_owned).collect() }
    }

    pub(super) fn add(&mut self, path: &str, spot: Spot) {
        self.spots.entry(path.to_owned()).or_insert(spot);
    }

    /// The file as it was named.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where a field is, or its nearest ancestor.
    pub fn find(&self, path: &str, end: End) -> Position {
        let mut path = path;
        let mut exact = true;
        loop {
            if let Some(spot) = self.spots.get(path) {
                return if exact && end == End::Value { spot.value } else { spot.key };
            }
            exact = false;
            match parent(path) {
                Some(shorter) => path = shorter,
                None => return Position { line: 1, column: 1 },
            }
        }
    }

    /// Whether the field is in the file.
    pub fn has(&self, path: &str) -> bool {
        self.spots.contains_key(path)
    }

    /// Where a place inside a text is, for example inside the SQL of a query. `line` and `column` count
    /// from 1 within the text. Folded and quoted texts over several lines give the begin of the text.
    pub fn inside(&self, path: &str, line: usize, column: usize) -> Position {
        let Some(spot) = self.spots.get(path) else { return self.find(path, End::Value) };
        let (line, column) = (line.max(1), column.max(1));
        match spot.style {
            Style::Literal => {
                let first = self.header_of(spot) + 1;
                let indent = self.indent_of(first);
                Position { line: first + line - 1, column: indent + column }
            }
            Style::Plain if line == 1 => Position { line: spot.value.line, column: spot.value.column + column - 1 },
            Style::Quoted if line == 1 => Position { line: spot.value.line, column: spot.value.column + column },
            _ => spot.value,
        }
    }

    /// The line of the `|` of a literal text: at the key or after it, before the text.
    fn header_of(&self, spot: &Spot) -> usize {
        let ends_with_bar = |line: usize| {
            let text = self.lines.get(line - 1).map_or("", String::as_str);
            let text = text.split(" #").next().unwrap_or(text).trim_end();
            text.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '+').ends_with('|')
        };
        (spot.key.line.max(1)..spot.value.line).find(|line| ends_with_bar(*line)).unwrap_or(spot.value.line)
    }

    /// Indentation of the first line with text at or after a line; lines count from 1.
    fn indent_of(&self, line: usize) -> usize {
        self.lines
            .iter()
            .skip(line.saturating_sub(1))
            .find(|text| !text.trim().is_empty())
            .map_or(0, |text| text.chars().take_while(|c| *c == ' ').count())
    }
}

/// The path of a key of a map.
pub(super) fn child(path: &str, key: &str) -> String {
    let simple = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (path.is_empty(), simple) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        _ => format!("{path}[\"{key}\"]"),
    }
}

/// The path of an item of a list.
pub(super) fn item(path: &str, name: &str) -> String {
    format!("{path}[{name}]")
}

/// The path without its last step.
pub(super) fn parent(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    if let Some(body) = path.strip_suffix("\"]") {
        return body.rfind("[\"").map(|at| &path[..at]);
    }
    if let Some(body) = path.strip_suffix(']') {
        return body.rfind('[').map(|at| &path[..at]);
    }
    Some(path.rfind('.').map_or("", |at| &path[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_parents() {
        let path = child(&child(&item("spec.tasks", "a.b"), "options"), "kafka.bootstrap.servers");
        assert_eq!(path, "spec.tasks[a.b].options[\"kafka.bootstrap.servers\"]");
        let mut steps = vec![];
        let mut at = path.as_str();
        while let Some(shorter) = parent(at) {
            steps.push(shorter.to_owned());
            at = shorter;
        }
        assert_eq!(steps, ["spec.tasks[a.b].options", "spec.tasks[a.b]", "spec.tasks", "spec", ""]);
    }
}
