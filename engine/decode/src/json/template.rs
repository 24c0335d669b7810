//! The shape of a record that was read before: the bytes between its values.
//!
//! A record of the same shape is read without looking at names: the bytes
//! before each value are compared, the value is appended to its field. Any
//! difference means "not this shape", never an error, and costs a cut back.

use super::convert::{self, Context, Quality, Step};
use super::lexer::Lexer;
use crate::column::StructColumn;

/// More fields than this are not worth a template.
const MAX_STEPS: usize = 256;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    steps: Vec<Literal>,
    /// From the last value to the closing brace.
    end: Box<[u8]>,
    /// Fields that the shape lacks.
    absent: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq)]
struct Literal {
    before: Box<[u8]>,
    field: Option<usize>,
}

impl Template {
    /// The shape of a record read in full, unless a name came twice.
    pub(super) fn learn(record: &[u8], end: usize, trace: &[Step], fields: usize) -> Option<Self> {
        if trace.is_empty() || trace.len() > MAX_STEPS {
            return None;
        }
        let mut absent: Vec<usize> = (0..fields).collect();
        let mut from = 0;
        let mut steps = Vec::with_capacity(trace.len());
        for step in trace {
            if let Some(field) = step.field {
                let at = absent.iter().position(|candidate| *candidate == field)?;
                absent.remove(at);
            }
            steps.push(Literal { before: record[from..step.start].into(), field: step.field });
            from = step.end;
        }
        Some(Self { steps, end: record[from..end].into(), absent })
    }

    /// Whether the record has this shape and all its values fitted; if not,
    /// the columns are left as they came.
    #[inline]
    pub(super) fn apply(&self, target: &mut StructColumn, row: usize, lexer: &mut Lexer<'_>, context: &mut Context<'_>) -> bool {
        if self.try_apply(target, lexer, context).is_some() {
            return true;
        }
        target.fields.iter_mut().for_each(|field| field.truncate(row));
        lexer.pos = 0;
        lexer.depth = 0;
        context.cause = None;
        false
    }

    #[inline]
    fn try_apply(&self, target: &mut StructColumn, lexer: &mut Lexer<'_>, context: &mut Context<'_>) -> Option<()> {
        lexer.depth = 1;
        for step in &self.steps {
            take(lexer, &step.before)?;
            match step.field {
                Some(field) => {
                    let quality = convert::append(&mut target.fields[field], lexer, context).ok()?;
                    if quality == Quality::Partial {
                        return None;
                    }
                }
                None => lexer.skip_value().ok()?,
            }
        }
        take(lexer, &self.end)?;
        for field in &self.absent {
            target.fields[*field].append_null();
        }
        Some(())
    }
}

#[inline]
fn take(lexer: &mut Lexer<'_>, literal: &[u8]) -> Option<()> {
    let end = lexer.pos + literal.len();
    (lexer.bytes.get(lexer.pos..end)? == literal).then(|| lexer.pos = end)
}
