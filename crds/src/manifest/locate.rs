//! From the path of a field to its line and column.
//!
//! Paths are written as in messages: `spec.tasks[bronze].queries[readings].sql`, list items by
//! their name where they have one, keys with other characters as `["kafka.bootstrap.servers"]`.
//! A path that is not in the file is found at its nearest ancestor that is.

use std::collections::{BTreeMap, HashMap};

use super::substitute::{substitute, written_offset};
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
    /// The texts at those spots, where parameters are not replaced yet.
    texts: HashMap<String, String>,
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
        Self { file: file.to_owned(), spots: HashMap::new(), texts: HashMap::new(), lines: text.lines().map(str::to_owned).collect() }
    }

    pub(super) fn add(&mut self, path: &str, spot: Spot) {
        self.spots.entry(path.to_owned()).or_insert(spot);
    }

    pub(super) fn add_text(&mut self, path: &str, text: &str) {
        self.texts.entry(path.to_owned()).or_insert_with(|| text.to_owned());
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
    /// from 1 within the text after its parameters were replaced.
    ///
    /// YAML folds, indents and escapes; it keeps the order and number of all characters that are not
    /// blank. So the place is found by counting those.
    pub fn inside(&self, path: &str, parameters: &BTreeMap<String, String>, line: usize, column: usize) -> Position {
        let (Some(spot), Some(text)) = (self.spots.get(path), self.texts.get(path)) else { return self.find(path, End::Value) };
        let replaced = substitute(text, parameters).unwrap_or_else(|_| text.clone());
        let offset = written_offset(text, parameters, offset_of(&replaced, line, column));
        let before = text.get(..offset).unwrap_or(text).chars().filter(|c| !c.is_whitespace()).count();
        let is_blank = text.get(offset..).is_none_or(|rest| rest.starts_with(char::is_whitespace) || rest.is_empty());
        let from = match spot.style {
            Style::Plain => spot.value,
            Style::Quoted => Position { column: spot.value.column + 1, ..spot.value },
            // The parser places these behind their `|` or `>`, at the text.
            Style::Literal | Style::Folded => Position { column: 1, ..spot.value },
        };
        let quote = self.lines.get(spot.value.line - 1).and_then(|line| line.chars().nth(spot.value.column - 1));
        let quote = quote.filter(|_| spot.style == Style::Quoted);
        let mut written = Written { lines: &self.lines, characters: Vec::new(), read: 0, at: from, quote };
        for _ in 1..before {
            written.next_visible();
        }
        // The place after the last visible character is the nearest to a blank one, or to the end.
        match (before, is_blank) {
            (0, _) => written.next_visible().0,
            (_, true) => written.next_visible().1,
            (_, false) => {
                written.next_visible();
                written.next_visible().0
            }
        }
    }
}

/// The byte offset of a line and column, both from 1; the end of the line when it is shorter.
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let begin = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>();
    let rest = text[begin..].split('\n').next().unwrap_or_default();
    begin + rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(at, _)| at)
}

/// A scalar as it is written in the file, read character by character.
struct Written<'a> {
    lines: &'a [String],
    /// The line that was read last, and its number.
    characters: Vec<char>,
    read: usize,
    at: Position,
    /// The quote around the scalar.
    quote: Option<char>,
}

impl Written<'_> {
    /// Begin and end of the next character of the text that is not blank.
    fn next_visible(&mut self) -> (Position, Position) {
        while let Some(line) = self.lines.get(self.at.line - 1) {
            if self.read != self.at.line {
                self.characters = line.chars().collect();
                self.read = self.at.line;
            }
            let rest = self.characters.get(self.at.column - 1..).unwrap_or_default();
            let blank = rest.iter().take_while(|c| c.is_whitespace()).count();
            let Some(c) = rest.get(blank) else {
                self.at = Position { line: self.at.line + 1, column: 1 };
                continue;
            };
            let (length, is_visible) = match (self.quote, c, rest.get(blank + 1)) {
                (Some('\''), '\'', Some('\'')) => (2, true),
                // A line that ends in a backslash goes on in the next one.
                (Some('"'), '\\', None) => (1, false),
                (Some('"'), '\\', Some('n' | 't' | 'r' | ' ' | '\t' | 'v' | 'f' | 'N' | '_' | 'L' | 'P')) => (2, false),
                (Some('"'), '\\', Some('x')) => (4, true),
                (Some('"'), '\\', Some('u')) => (6, true),
                (Some('"'), '\\', Some('U')) => (10, true),
                (Some('"'), '\\', Some(_)) => (2, true),
                _ => (1, true),
            };
            let begin = Position { column: self.at.column + blank, ..self.at };
            self.at.column = begin.column + length;
            if is_visible {
                return (begin, self.at);
            }
        }
        (self.at, self.at)
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
