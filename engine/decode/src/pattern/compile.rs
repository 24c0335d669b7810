//! Pattern text to items, with Spark's restrictions and the JDK's.
//!
//! Spark first refuses week-based letters, letters that its legacy parser
//! gave another meaning, and narrow text; then `y` means the proleptic year
//! unless an era letter is present; then the JDK's own rules apply.

use super::{Field, Item, Minutes, OffsetShape, Purpose, Sign, Style};
use crate::error::DecodeError;

pub(super) fn compile(pattern: &str, purpose: Purpose) -> Result<Vec<Item>, DecodeError> {
    check_spark(pattern, purpose).and_then(|()| Compiler::new(pattern, purpose).run()).map_err(|reason| {
        if legacy_accepts(pattern) {
            DecodeError::new(
                "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION",
                format!(
                    "The datetime pattern `{pattern}` was understood by Spark before 3.0 only: \
                         {}. Write a pattern of the datetime patterns guide.",
                    reason.text
                ),
            )
        } else {
            DecodeError::new(reason.condition, format!("Unrecognized datetime pattern `{pattern}`: {}.", reason.text))
        }
    })
}

struct Reason {
    condition: &'static str,
    text: String,
}

fn illegal(letter: char) -> Reason {
    Reason { condition: "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER", text: format!("illegal pattern character `{letter}`") }
}

fn too_many(letter: char) -> Reason {
    Reason { condition: "INVALID_DATETIME_PATTERN.LENGTH", text: format!("too many letters `{letter}`") }
}

fn unquoted(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split('\'').step_by(2)
}

fn check_spark(pattern: &str, purpose: Purpose) -> Result<(), Reason> {
    for part in unquoted(pattern) {
        for letter in part.chars() {
            let refused = matches!(letter, 'Y' | 'W' | 'w' | 'u')
                || matches!(letter, 'A' | 'B' | 'c' | 'e' | 'n' | 'N' | 'p')
                || (purpose == Purpose::Parse && matches!(letter, 'E' | 'F' | 'q' | 'Q'));
            if refused {
                return Err(illegal(letter));
            }
        }
        for letter in ['G', 'M', 'L', 'E', 'Q', 'q'] {
            if part.contains(&String::from(letter).repeat(5)) {
                return Err(too_many(letter));
            }
        }
    }
    Ok(())
}

/// Whether java.text.SimpleDateFormat would have taken the pattern.
fn legacy_accepts(pattern: &str) -> bool {
    pattern.matches('\'').count().is_multiple_of(2)
        && unquoted(pattern).flat_map(str::chars).filter(char::is_ascii_alphabetic).all(|letter| "GyYMLwWDdFEuaHkKhmsSzZX".contains(letter))
        && !unquoted(pattern).any(|part| part.contains("XXXX"))
}

struct Compiler<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    purpose: Purpose,
    year: Field,
    /// Open sections, the outermost first.
    stack: Vec<Vec<Item>>,
    /// Index in the current section of a number that fixed-width ones may follow.
    adjacent: Option<usize>,
}

impl<'a> Compiler<'a> {
    fn new(pattern: &'a str, purpose: Purpose) -> Self {
        let era = unquoted(pattern).any(|part| part.contains('G'));
        Self {
            chars: pattern.chars().peekable(),
            purpose,
            year: if era { Field::YearOfEra } else { Field::Year },
            stack: vec![Vec::new()],
            adjacent: None,
        }
    }

    fn run(mut self) -> Result<Vec<Item>, Reason> {
        while let Some(c) = self.chars.next() {
            match c {
                'a'..='z' | 'A'..='Z' => {
                    let mut count = 1u32;
                    while self.chars.next_if_eq(&c).is_some() {
                        count += 1;
                    }
                    self.letters(c, count)?;
                }
                '\'' => self.quoted()?,
                '[' => {
                    self.adjacent = None;
                    self.stack.push(Vec::new());
                }
                ']' => {
                    self.adjacent = None;
                    let inner = if self.stack.len() > 1 { self.stack.pop() } else { None };
                    self.add(Item::Optional(inner.ok_or_else(|| illegal(']'))?));
                }
                '{' | '}' | '#' => return Err(illegal(c)),
                other => self.literal(other),
            }
        }
        // Sections still open end with the pattern.
        while self.stack.len() > 1 {
            let inner = self.stack.pop().unwrap_or_default();
            self.add(Item::Optional(inner));
        }
        Ok(self.stack.pop().unwrap_or_default())
    }

    fn quoted(&mut self) -> Result<(), Reason> {
        let mut text = String::new();
        loop {
            match self.chars.next() {
                Some('\'') if self.chars.next_if_eq(&'\'').is_some() => text.push('\''),
                Some('\'') => break,
                Some(c) => text.push(c),
                None => return Err(illegal('\'')),
            }
        }
        if text.is_empty() {
            text.push('\'');
        }
        self.add(Item::Literal(text));
        Ok(())
    }

    fn literal(&mut self, c: char) {
        self.adjacent = None;
        let items = self.stack.last_mut();
        if let Some(Item::Literal(text)) = items.and_then(|items| items.last_mut()) {
            text.push(c);
        } else {
            self.add(Item::Literal(c.to_string()));
        }
    }

    fn add(&mut self, item: Item) {
        self.adjacent = None;
        if let Some(items) = self.stack.last_mut() {
            items.push(item);
        }
    }

    /// Numbers side by side: the first of variable width leaves the digits
    /// that the fixed ones after it need.
    fn add_number(&mut self, item: Item) {
        let width = match &item {
            Item::Number { min, max, sign: Sign::Never, .. } if min == max => Some(*max),
            Item::TwoDigitYear { .. } => Some(2),
            Item::Fraction { min, max } if min == max => Some(*max),
            _ => None,
        };
        let Some(items) = self.stack.last_mut() else { return };
        match (self.adjacent, width) {
            (Some(first), Some(width)) => {
                if let Item::Number { reserved, .. } | Item::TwoDigitYear { reserved, .. } = &mut items[first] {
                    *reserved += width;
                }
            }
            _ => self.adjacent = Some(items.len()),
        }
        items.push(item);
    }

    fn number(&mut self, field: Field, min: u32, max: u32, sign: Sign) {
        self.add_number(Item::Number { field, min, max, sign, reserved: 0 });
    }

    /// One letter is a number of any width, two are two digits.
    fn one_or_two(&mut self, letter: char, field: Field, count: u32) -> Result<(), Reason> {
        match count {
            1 => self.number(field, 1, 19, Sign::Normal),
            2 => self.number(field, 2, 2, Sign::Never),
            _ => return Err(too_many(letter)),
        }
        Ok(())
    }

    fn letters(&mut self, letter: char, count: u32) -> Result<(), Reason> {
        let style = if count == 4 { Style::Full } else { Style::Short };
        match letter {
            'y' => match count {
                2 => self.add_number(Item::TwoDigitYear { field: self.year, reserved: 0 }),
                1 | 3 => self.number(self.year, count, 19, Sign::Normal),
                4..=6 => self.number(self.year, count, 19, Sign::ExceedsPad),
                _ => return Err(too_many(letter)),
            },
            'M' | 'L' if count > 2 => self.add(Item::Month(style)),
            'M' | 'L' => self.one_or_two(letter, Field::Month, count)?,
            'Q' | 'q' if count > 2 => self.add(Item::Quarter(style)),
            'Q' | 'q' => self.one_or_two(letter, Field::Quarter, count)?,
            'E' => self.add(Item::Weekday(style)),
            'F' if count == 1 => self.number(Field::AlignedWeekday, 1, 19, Sign::Normal),
            'd' => self.one_or_two(letter, Field::Day, count)?,
            'D' => match count {
                1 => self.number(Field::DayOfYear, 1, 19, Sign::Normal),
                2 | 3 => self.number(Field::DayOfYear, count, 3, Sign::Never),
                _ => return Err(too_many(letter)),
            },
            'H' => self.one_or_two(letter, Field::Hour24, count)?,
            'k' => self.one_or_two(letter, Field::ClockHour24, count)?,
            'K' => self.one_or_two(letter, Field::Hour12, count)?,
            'h' => self.one_or_two(letter, Field::ClockHour12, count)?,
            'm' => self.one_or_two(letter, Field::Minute, count)?,
            's' => self.one_or_two(letter, Field::Second, count)?,
            'S' if count <= 9 => {
                let min = if self.purpose == Purpose::Parse { 1 } else { count };
                let item = Item::Fraction { min, max: count };
                if min == count { self.add_number(item) } else { self.add(item) }
            }
            'S' => {
                return Err(Reason {
                    condition: "INVALID_DATETIME_PATTERN.SECONDS_FRACTION",
                    text: "a fraction of a second has at most 9 digits".to_owned(),
                });
            }
            'a' if count == 1 => self.add(Item::AmPm),
            'G' => self.add(Item::Era(style)),
            'V' if count == 2 => self.add(Item::ZoneId),
            'V' => {
                return Err(Reason { condition: "INVALID_DATETIME_PATTERN.LENGTH", text: "the letter `V` comes in pairs".to_owned() });
            }
            'v' if matches!(count, 1 | 4) => self.add(Item::ZoneName(style)),
            'z' if count <= 4 => self.add(Item::ZoneName(style)),
            'O' if matches!(count, 1 | 4) => self.add(Item::LocalizedOffset(style)),
            'Z' if count == 4 => self.add(Item::LocalizedOffset(Style::Full)),
            'X' | 'x' | 'Z' if count <= 5 => self.add(offset(letter, count)),
            'F' | 'a' | 'v' | 'z' | 'O' | 'X' | 'x' | 'Z' => return Err(too_many(letter)),
            other => return Err(illegal(other)),
        }
        Ok(())
    }
}

fn offset(letter: char, count: u32) -> Item {
    let shape = |minutes, seconds, colon| OffsetShape { minutes, seconds, colon };
    let (shape, zero) = match (letter, count) {
        ('Z', 1..=3) => (shape(Minutes::Always, false, false), "+0000"),
        ('Z', _) => (shape(Minutes::Always, true, true), "Z"),
        (_, count) => {
            let zero = match (letter, count) {
                ('X', _) => "Z",
                (_, 1) => "+00",
                (_, 3 | 5) => "+00:00",
                _ => "+0000",
            };
            let minutes = if count == 1 { Minutes::IfNonZero } else { Minutes::Always };
            (shape(minutes, count >= 4, matches!(count, 3 | 5)), zero)
        }
    };
    Item::Offset { shape, zero }
}
