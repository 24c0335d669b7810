//! JSON paths of `get_json_object`.
//!
//! `$`, `.name`, `['name']`, `[n]` and `[*]`; `.*` parses and matches nothing,
//! as in Spark. Wildcards give one value or an array of several, nested
//! wildcards flatten. Source: JsonPathParser and GetJsonObjectEvaluator of
//! Spark's catalyst.

use weir_decode::json::{Fault, Lexer};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A field.
    Name(String),
    /// An element, from 0.
    Index(u64),
    /// All elements.
    All,
    /// All fields, which matches nothing.
    AllFields,
}

/// The steps of a path; none if it is not one.
pub fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(".*").or_else(|| rest.strip_prefix("['*']")) {
            steps.push(Step::AllFields);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return None;
            }
            steps.push(Step::Name(after[..end].to_owned()));
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix("['") {
            let end = after.find('\'').filter(|end| *end > 0)?;
            steps.push(Step::Name(after[..end].to_owned()));
            rest = after[end..].strip_prefix("']")?;
        } else {
            let after = rest.strip_prefix('[')?;
            let end = after.find(']')?;
            steps.push(if &after[..end] == "*" { Step::All } else { Step::Index(after[..end].parse().ok()?) });
            rest = &after[end + 1..];
        }
    }
    Some(steps)
}

/// The text at a path, if there is any.
pub fn get(json: &str, path: &[Step]) -> Option<String> {
    let leniency = weir_decode::Leniency { non_numeric_numbers: false, ..Default::default() };
    let mut lexer = Lexer::new(json.as_bytes(), leniency);
    let mut out = Output::default();
    let found = evaluate(&mut lexer, &mut out, Style::Raw, path).ok()?;
    found.then(|| String::from_utf8_lossy(&out.text).into_owned())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// A string is written without quotes.
    Raw,
    /// Values are elements of an array.
    Quoted,
    /// Arrays are replaced by their elements.
    Flatten,
}

/// JSON text with commas where they belong.
#[derive(Default)]
struct Output {
    text: Vec<u8>,
    /// Elements written so far, per open array.
    open: Vec<usize>,
}

impl Output {
    fn element(&mut self) {
        if let Some(count) = self.open.last_mut() {
            if *count > 0 {
                self.text.push(b',');
            }
            *count += 1;
        }
    }

    fn begin(&mut self) {
        self.element();
        self.text.push(b'[');
        self.open.push(0);
    }

    fn end(&mut self) {
        self.open.pop();
        self.text.push(b']');
    }
}

/// Calls `each` with the lexer at every element of an array; `each` takes the element.
fn elements<'a>(lexer: &mut Lexer<'a>, mut each: impl FnMut(&mut Lexer<'a>) -> Result<(), Fault>) -> Result<(), Fault> {
    lexer.open()?;
    if lexer.close(b']')? {
        return Ok(());
    }
    loop {
        lexer.value_start()?;
        each(lexer)?;
        if !lexer.more(b']')? {
            return Ok(());
        }
    }
}

fn evaluate(lexer: &mut Lexer<'_>, out: &mut Output, style: Style, path: &[Step]) -> Result<bool, Fault> {
    let first = lexer.value_start()?;
    match (first, path) {
        (quote, []) if style == Style::Raw && lexer.is_quote(quote) => {
            let span = lexer.string()?;
            let mut scratch = Vec::new();
            out.text.extend_from_slice(lexer.text(span, &mut scratch));
            Ok(true)
        }
        (b'[', []) if style == Style::Flatten => {
            let mut found = false;
            elements(lexer, |lexer| {
                found |= evaluate(lexer, out, style, path)?;
                Ok(())
            })?;
            Ok(found)
        }
        (_, []) => {
            out.element();
            lexer.rewrite_value(&mut out.text)?;
            Ok(true)
        }
        (b'{', [Step::Name(name), rest @ ..]) => field(lexer, out, style, name, rest),
        (b'[', [Step::All, Step::All, rest @ ..]) => {
            let mut found = false;
            out.begin();
            elements(lexer, |lexer| {
                found |= evaluate(lexer, out, Style::Flatten, rest)?;
                Ok(())
            })?;
            out.end();
            Ok(found)
        }
        (b'[', [Step::All, rest @ ..]) if style != Style::Quoted => {
            let inner = if style == Style::Raw { Style::Quoted } else { Style::Flatten };
            let mut buffer = Output::default();
            let mut found = 0;
            buffer.begin();
            elements(lexer, |lexer| {
                found += usize::from(evaluate(lexer, &mut buffer, inner, rest)?);
                Ok(())
            })?;
            buffer.end();
            if found > 0 {
                out.element();
                let text = &buffer.text;
                out.text.extend_from_slice(if found == 1 { &text[1..text.len() - 1] } else { text });
            }
            Ok(found > 0)
        }
        (b'[', [Step::All, rest @ ..]) => {
            let mut found = false;
            out.begin();
            elements(lexer, |lexer| {
                found |= evaluate(lexer, out, Style::Quoted, rest)?;
                Ok(())
            })?;
            out.end();
            Ok(found)
        }
        (b'[', [Step::Index(wanted), rest @ ..]) => {
            let inner = if rest.first() == Some(&Step::All) { Style::Quoted } else { style };
            let (mut found, mut index) = (false, 0);
            elements(lexer, |lexer| {
                if index == *wanted {
                    found = evaluate(lexer, out, inner, rest)?;
                } else {
                    lexer.skip_value()?;
                }
                index += 1;
                Ok(())
            })?;
            Ok(found)
        }
        _ => {
            lexer.skip_value()?;
            Ok(false)
        }
    }
}

/// The first field of that name with a match; the others are only checked.
fn field(lexer: &mut Lexer<'_>, out: &mut Output, style: Style, name: &str, rest: &[Step]) -> Result<bool, Fault> {
    let mut found = false;
    let mut scratch = Vec::new();
    lexer.open()?;
    if lexer.close(b'}')? {
        return Ok(false);
    }
    loop {
        let span = lexer.name()?;
        let same = lexer.text(span, &mut scratch) == name.as_bytes();
        if found || !same || lexer.value_start()? == b'n' {
            lexer.skip_value()?;
        } else {
            found = evaluate(lexer, out, style, rest)?;
        }
        if !lexer.more(b'}')? {
            return Ok(found);
        }
    }
}

/// Names and texts of fields.
type Fields = Vec<(String, Option<String>)>;

/// Top-level fields of an object, in order, as `json_tuple` shows them: strings
/// as they are, null as none, other values as JSON. None if it is no object.
pub fn top_level(json: &str) -> Option<Fields> {
    let mut lexer = Lexer::new(json.as_bytes(), weir_decode::Leniency { non_numeric_numbers: false, ..Default::default() });
    let mut read = || -> Result<Option<Fields>, Fault> {
        let mut fields = Vec::new();
        let mut scratch = Vec::new();
        if lexer.value_start()? != b'{' {
            return Ok(None);
        }
        lexer.open()?;
        if lexer.close(b'}')? {
            return Ok(Some(fields));
        }
        loop {
            let span = lexer.name()?;
            let name = String::from_utf8_lossy(lexer.text(span, &mut scratch)).into_owned();
            let first = lexer.value_start()?;
            let mut text = Vec::new();
            if lexer.is_quote(first) {
                let span = lexer.string()?;
                text.extend_from_slice(lexer.text(span, &mut scratch));
            } else {
                lexer.rewrite_value(&mut text)?;
            }
            let value = (first != b'n').then(|| String::from_utf8_lossy(&text).into_owned());
            fields.push((name, value));
            if !lexer.more(b'}')? {
                return Ok(Some(fields));
            }
        }
    };
    read().ok().flatten()
}

/// Elements of a top-level array; none if it is not one.
pub fn array_length(json: &str) -> Option<i32> {
    let mut lexer = Lexer::new(json.as_bytes(), weir_decode::Leniency { non_numeric_numbers: false, ..Default::default() });
    if lexer.value_start().ok()? != b'[' {
        return None;
    }
    let mut count = 0;
    elements(&mut lexer, |lexer| {
        count += 1;
        lexer.skip_value()
    })
    .ok()?;
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_find_what_spark_finds() {
        let json = r#"{"a":{"b":[1,{"c":"x"},[2,3]]},"s":"q\"t","n":null,"l":[{"v":1},{"v":2},{"w":3}],"f":1.10,"k.d":4}"#;
        let cases = [
            ("$.a.b[1].c", Some("x")),
            ("$.a.b", Some(r#"[1,{"c":"x"},[2,3]]"#)),
            ("$.s", Some("q\"t")),
            ("$.n", None),
            ("$.zz", None),
            ("$.l[*].v", Some("[1,2]")),
            ("$.l[*].w", Some("3")),
            ("$.l[5]", None),
            ("$['f']", Some("1.1")),
            ("$['k.d']", Some("4")),
            ("$.*", None),
            ("$.l[0]", Some(r#"{"v":1}"#)),
            ("a", None),
            ("$.", None),
        ];
        for (path, expected) in cases {
            let found = parse(path).and_then(|steps| get(json, &steps));
            assert_eq!(found.as_deref(), expected, "{path}");
        }
        let nested = parse("$[*][*]").unwrap_or_default();
        assert_eq!(get("[[1,2],[3]]", &nested).as_deref(), Some("[1,2,3]"));
        assert_eq!(get("{bad", &parse("$.a").unwrap_or_default()), None);
    }
}
