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
    steps: Vec<(Literal, Option<usize>)>,
    /// From the last value to the closing brace.
    end: Literal,
    /// Fields that the shape lacks.
    absent: Vec<usize>,
}

/// Bytes that must come next; the first sixteen are compared as one number.
#[derive(Clone, Debug, PartialEq)]
struct Literal {
    bytes: Box<[u8]>,
    head: u128,
    mask: u128,
}

impl Literal {
    fn new(bytes: &[u8]) -> Self {
        let mut head = [0; 16];
        let length = bytes.len().min(16);
        head[..length].copy_from_slice(&bytes[..length]);
        let mask = if length == 16 { u128::MAX } else { (1 << (8 * length)) - 1 };
        Self { bytes: bytes.into(), head: u128::from_le_bytes(head), mask }
    }

    /// Moves past the bytes if they come next.
    #[inline]
    fn take(&self, lexer: &mut Lexer<'_>) -> Option<()> {
        let rest = lexer.bytes.get(lexer.pos..)?;
        let same = match rest.first_chunk::<16>() {
            Some(chunk) => {
                (u128::from_le_bytes(*chunk) ^ self.head) & self.mask == 0 && (self.bytes.len() <= 16 || rest.starts_with(&self.bytes))
            }
            None => match *self.bytes {
                [byte] => rest.first() == Some(&byte),
                _ => rest.starts_with(&self.bytes),
            },
        };
        same.then(|| lexer.pos += self.bytes.len())
    }
}

/// The bytes, if all are ASCII.
fn ascii(bytes: &[u8]) -> Option<&[u8]> {
    bytes.is_ascii().then_some(bytes)
}

impl Template {
    /// The shape of a record read in full, unless a name came twice or has
    /// characters beyond ASCII: those are checked by the general decoder alone.
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
            steps.push((Literal::new(ascii(&record[from..step.start])?), step.field));
            from = step.end;
        }
        Some(Self { steps, end: Literal::new(ascii(&record[from..end])?), absent })
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
        for (before, field) in &self.steps {
            before.take(lexer)?;
            match field {
                Some(field) => {
                    let quality = convert::append_fast(&mut target.fields[*field], lexer, context).ok()?;
                    if quality == Quality::Partial {
                        return None;
                    }
                }
                None => lexer.skip_value().ok()?,
            }
        }
        self.end.take(lexer)?;
        for field in &self.absent {
            target.fields[*field].append_null();
        }
        Some(())
    }
}
