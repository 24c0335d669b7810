//! Rows as Spark's `Dataset.showString` lays them out.
//!
//! Columns are at least three wide; cells are cut to `truncate` characters and
//! aligned right when cutting is on, left when it is off. Width is counted in
//! half-width characters, as `Utils.stringHalfWidth` counts East Asian ones.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use weir_decode::time::Zone;

use super::Shown;
use crate::render::{Purpose, render as render_value};

/// Whether long cells are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncate {
    /// To so many characters.
    At(usize),
    /// Never.
    Never,
}

/// The table of the first rows.
pub fn render(schema: &SchemaRef, batches: &[RecordBatch], shown: Shown, zone: &Zone) -> String {
    let header: Vec<String> = schema.fields().iter().map(|field| escape(field.name())).collect();
    let mut rows: Vec<Vec<String>> = vec![header.iter().map(|cell| cut(cell, shown.truncate)).collect()];
    let total: usize = batches.iter().map(RecordBatch::num_rows).sum();
    for batch in batches {
        for row in 0..batch.num_rows() {
            if rows.len() > shown.rows {
                break;
            }
            let cells = batch.columns().iter().map(|column| {
                let mut text = String::new();
                render_value(column, row, zone, Purpose::Show, &mut text);
                cut(&escape(&text), shown.truncate)
            });
            rows.push(cells.collect());
        }
    }
    let widths: Vec<usize> = (0..header.len()).map(|at| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0).max(3)).collect();
    let rule: String = widths.iter().map(|width| format!("+{}", "-".repeat(*width))).collect::<String>() + "+\n";
    let mut out = rule.clone();
    for (at, row) in rows.iter().enumerate() {
        for (cell, wide) in row.iter().zip(&widths) {
            let padding = " ".repeat(wide - width(cell));
            let (before, after) = if shown.truncate == Truncate::Never { ("", padding.as_str()) } else { (padding.as_str(), "") };
            out.push_str(&format!("|{before}{cell}{after}"));
        }
        out.push_str("|\n");
        if at == 0 {
            out.push_str(&rule);
        }
    }
    out.push_str(&rule);
    if total > shown.rows {
        let rows = if shown.rows == 1 { "row" } else { "rows" };
        out.push_str(&format!("only showing top {} {rows}\n", shown.rows));
    }
    out
}

/// Control characters would break the table.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\u{8}' => out.push_str("\\b"),
            '\u{7}' => out.push_str("\\a"),
            c => out.push(c),
        }
    }
    out
}

fn cut(text: &str, truncate: Truncate) -> String {
    match truncate {
        Truncate::At(most) if text.chars().count() > most => {
            if most < 4 {
                text.chars().take(most).collect()
            } else {
                text.chars().take(most - 3).chain("...".chars()).collect()
            }
        }
        _ => text.to_owned(),
    }
}

fn width(text: &str) -> usize {
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

/// The ranges of `Utils.fullWidthRegex`.
fn is_wide(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{303e}' | '\u{3041}'..='\u{33ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{fe10}'..='\u{fe19}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}')
}
