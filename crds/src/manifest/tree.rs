//! A YAML document as a tree whose every node knows its line and column.
//!
//! Scalars resolve as `kubectl` resolves them (YAML 1.1 as `sigs.k8s.io/yaml` reads it), so `on` is a
//! boolean here too. Duplicate keys are reported, not lost. Depth and number of nodes are
//! bounded, aliases included, so a hostile file costs little; building never recurses.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use super::scalar::{Scalar, resolve};

/// Deepest nesting of a manifest.
pub(super) const MAX_DEPTH: usize = 48;
/// Most nodes of a file after aliases are expanded.
pub(super) const MAX_NODES: usize = 200_000;

/// A place in a file; both count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// In single or double quotes.
    Quoted,
    /// After `|`.
    Literal,
    /// After `>`.
    Folded,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub start: Position,
    pub value: NodeValue,
}

#[derive(Clone, Debug)]
pub(super) enum NodeValue {
    /// Resolved value, text as written, style.
    Scalar(Scalar, String, Style),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub key: String,
    pub key_start: Position,
    pub value: Node,
}

impl Node {
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            NodeValue::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Scalar(Scalar::Text(text), _, _) => Some(text),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.value, NodeValue::Scalar(Scalar::Null, _, _))
    }

    fn size(&self) -> usize {
        match &self.value {
            NodeValue::Scalar(..) => 1,
            NodeValue::List(items) => 1 + items.iter().map(Node::size).sum::<usize>(),
            NodeValue::Map(entries) => 1 + entries.iter().map(|entry| entry.value.size()).sum::<usize>(),
        }
    }

    fn depth(&self) -> usize {
        1 + match &self.value {
            NodeValue::Scalar(..) => 0,
            NodeValue::List(items) => items.iter().map(Node::depth).max().unwrap_or(0),
            NodeValue::Map(entries) => entries.iter().map(|entry| entry.value.depth()).max().unwrap_or(0),
        }
    }
}

/// Why a file has no tree, or what is wrong beside it.
#[derive(Clone, Debug)]
pub(super) struct TreeError {
    pub rule: &'static str,
    pub at: Position,
    pub message: String,
}

/// The documents of a file and what is wrong with their YAML. After an error of syntax the documents before it are kept.
pub(super) fn parse(text: &str) -> (Vec<Node>, Vec<TreeError>) {
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(text);
    loop {
        match parser.next_event() {
            None => break,
            Some(Err(error)) => {
                let at = position(*error.marker());
                builder.error("yaml-syntax", at, format!("this is not YAML: {}{}", error.info(), syntax_hint(text, at)));
                builder.documents_only();
                break;
            }
            Some(Ok((Event::StreamEnd, _))) => break,
            Some(Ok((event, span))) => {
                if !builder.event(event, span) {
                    builder.documents_only();
                    break;
                }
            }
        }
    }
    (builder.documents, builder.errors)
}

/// What to write where YAML's own words do not tell.
fn syntax_hint(text: &str, at: Position) -> &'static str {
    let line = text.lines().nth(at.line.saturating_sub(1)).unwrap_or_default();
    let rest = line.chars().skip(at.column.saturating_sub(1)).collect::<String>();
    if line.contains("${") {
        "; a text with ${..} must stand in quotes inside {..} and [..]: {path: \"${lake}/x\"}"
    } else if rest.trim_start().starts_with(['@', '`', '%']) {
        "; a text that begins with @, ` or % must stand in quotes"
    } else if line.contains('\t') {
        "; indent by spaces"
    } else {
        ""
    }
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

#[derive(Default)]
struct Builder {
    documents: Vec<Node>,
    stack: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    errors: Vec<TreeError>,
    nodes: usize,
}

struct Open {
    start: Position,
    anchor: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<(String, Position)> },
}

impl Builder {
    fn error(&mut self, rule: &'static str, at: Position, message: impl Into<String>) {
        self.errors.push(TreeError { rule, at, message: message.into() });
    }

    fn documents_only(&mut self) {
        self.stack.clear();
    }

    /// False when the file is given up.
    fn event(&mut self, event: Event<'_>, span: Span) -> bool {
        let start = position(span.start);
        match event {
            Event::DocumentStart(_) => {
                self.anchors.clear();
                true
            }
            Event::Scalar(text, style, anchor, tag) => {
                let (style, plain) = match style {
                    ScalarStyle::Plain => (Style::Plain, true),
                    ScalarStyle::Literal => (Style::Literal, false),
                    ScalarStyle::Folded => (Style::Folded, false),
                    _ => (Style::Quoted, false),
                };
                let forced_text = tag.is_some_and(|tag| tag.suffix == "str");
                let scalar = if plain && !forced_text { resolve(&text) } else { Scalar::Text(text.to_string()) };
                self.finish(Node { start, value: NodeValue::Scalar(scalar, text.into_owned(), style) }, anchor)
            }
            Event::SequenceStart(anchor, _) => self.open(start, anchor, OpenKind::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.open(start, anchor, OpenKind::Map { entries: Vec::new(), key: None }),
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(Open { start, anchor, kind: OpenKind::List(items) }) => {
                    self.finish(Node { start, value: NodeValue::List(items) }, anchor)
                }
                Some(Open { start, anchor, kind: OpenKind::Map { entries, .. } }) => {
                    let entries = self.merged(entries);
                    self.finish(Node { start, value: NodeValue::Map(entries) }, anchor)
                }
                None => true,
            },
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(node) => {
                    self.nodes += node.size();
                    if self.stack.len() + node.depth() > MAX_DEPTH {
                        self.error("yaml-depth", start, format!("nested deeper than {MAX_DEPTH} levels"));
                        return false;
                    }
                    self.finish(node, 0)
                }
                None => {
                    self.error("yaml-syntax", start, "an alias stands for itself or for nothing");
                    false
                }
            },
            _ => true,
        }
    }

    fn open(&mut self, start: Position, anchor: usize, kind: OpenKind) -> bool {
        if self.stack.len() >= MAX_DEPTH {
            self.error("yaml-depth", start, format!("nested deeper than {MAX_DEPTH} levels"));
            return false;
        }
        self.stack.push(Open { start, anchor, kind });
        true
    }

    fn finish(&mut self, node: Node, anchor: usize) -> bool {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            self.error(
                "yaml-size",
                node.start,
                format!("more than {MAX_NODES} values, aliases expanded; write fewer aliases, or several files"),
            );
            return false;
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let mut problem = None;
        match self.stack.last_mut() {
            None => self.documents.push(node),
            Some(Open { kind: OpenKind::List(items), .. }) => items.push(node),
            Some(Open { kind: OpenKind::Map { entries, key }, .. }) => match key.take() {
                None => match node.value {
                    NodeValue::Scalar(_, text, _) => *key = Some((text, node.start)),
                    _ => problem = Some(("yaml-key", node.start, "a key must be a plain text".to_owned())),
                },
                Some((name, key_start)) => {
                    if name != "<<"
                        && let Some(first) = entries.iter().find(|entry| entry.key == name)
                    {
                        let message = format!("`{name}` is given twice, first in line {}; remove one of them", first.key_start.line);
                        problem = Some(("duplicate-key", key_start, message));
                    } else {
                        entries.push(Entry { key: name, key_start, value: node });
                    }
                }
            },
        }
        match problem {
            None => true,
            Some((rule, at, message)) => {
                let go_on = rule == "duplicate-key";
                self.error(rule, at, message);
                go_on
            }
        }
    }

    /// Expands `<<: *anchor`; own keys win.
    fn merged(&mut self, entries: Vec<Entry>) -> Vec<Entry> {
        if entries.iter().all(|entry| entry.key != "<<") {
            return entries;
        }
        let (merges, mut own): (Vec<Entry>, Vec<Entry>) = entries.into_iter().partition(|entry| entry.key == "<<");
        for merge in merges {
            let maps = match merge.value.value {
                NodeValue::List(items) => items,
                _ => vec![merge.value],
            };
            for map in maps {
                let NodeValue::Map(added) = map.value else {
                    self.error("yaml-merge", merge.key_start, "`<<` takes a map, or a list of maps");
                    continue;
                };
                for entry in added {
                    if own.iter().all(|known| known.key != entry.key) {
                        own.push(entry);
                    }
                }
            }
        }
        own
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nodes_know_where_they_are() {
        let (documents, errors) = parse("a:\n  b: [1, 'x']\n---\nc: true\n");
        assert!(errors.is_empty());
        let b = documents[0].get("a").unwrap().get("b").unwrap();
        assert_eq!((b.start.line, b.start.column), (2, 6));
        assert_eq!(documents[1].get("c").unwrap().start.line, 4);
    }

    #[test]
    fn what_must_be_quoted_is_said() {
        for (text, hint) in [
            ("a: {path: ${lake}/x}", "${lake}/x\"}"),
            ("a:\n- {b: 1, path: s3://${lake}/x}\n", "${lake}/x\"}"),
            ("a: [${x}]", "${..}"),
            ("cron: @daily", "begins with @"),
            ("cron: {cron: @daily}", "begins with @"),
        ] {
            let (_, errors) = parse(text);
            assert!(errors.iter().any(|error| error.message.contains(hint)), "{text}: {errors:?}");
        }
        let (_, errors) = parse("a: [1");
        assert!(!errors[0].message.contains("quotes"), "{errors:?}");
    }

    #[test]
    fn a_bomb_of_aliases_is_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let refs = vec![format!("*a{}", level - 1); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
        }
        let (_, errors) = parse(&text);
        assert_eq!(errors[0].rule, "yaml-size");
        let (_, errors) = parse(&format!("a: {}{}", "[".repeat(60), "]".repeat(60)));
        assert_eq!(errors[0].rule, "yaml-depth");
    }

    #[test]
    fn duplicate_keys_and_merges() {
        let (documents, errors) = parse("base: &b {x: 1, y: 2}\nown: {<<: *b, x: 3}\nown: 4\n");
        assert_eq!(errors.len(), 1);
        assert_eq!((errors[0].rule, errors[0].at.line), ("duplicate-key", 3));
        let own = documents[0].get("own").unwrap();
        let NodeValue::Scalar(Scalar::Int(x), _, _) = own.get("x").unwrap().value else { unreachable!() };
        assert_eq!(x, 3);
        assert!(own.get("y").is_some());
    }

    proptest! {
        #[test]
        fn never_panics(text in "[ a-c:\\n\\-\\[\\]{}&*|>'\"#!,0-9<]{0,80}") {
            let _ = parse(&text);
        }
    }
}
