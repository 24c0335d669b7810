//! A checksum that an entry of a log carries in itself.
//!
//! It is the last field of one JSON line of the entry, under a name that Spark
//! passes by when it reads. It covers the entry's whole text and its number, so
//! that a change by hand, a fault of a disk and a file under another's name are
//! told from what was written. Entries without one (Spark's, those of earlier
//! versions) are taken as they are. FNV-1a, which any change of one byte alters:
//! no secret is kept here.

use std::borrow::Cow;

/// The field, as it begins.
const FIELD: &str = ",\"weirChecksum\":\"";
const NAME: &str = "weirChecksum";
const DIGITS: usize = 16;
const CHANGED: &str = "its text was changed after it was written, or it is another entry under this name (its weirChecksum does not fit; where \
                       the change is meant, take that field out)";

/// Whether an entry vouches for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// It carries its checksum.
    Whole,
    /// It carries none.
    Absent,
}

/// The text of entry `id`, whose line `line` (from 0) is a JSON object with fields, with its checksum.
pub fn seal(id: u64, text: &str, line: usize) -> String {
    let end = text.split('\n').take(line + 1).map(|line| line.len() + 1).sum::<usize>() - 1;
    match text.get(..end).and_then(|head| head.strip_suffix('}')) {
        Some(head) => format!("{head}{FIELD}{:0DIGITS$x}\"}}{}", sum(id, text), &text[end..]),
        None => text.to_owned(),
    }
}

/// The text of entry `id` as it was before it was sealed; the error says what is wrong with it.
pub fn open(id: u64, text: &str) -> Result<(Cow<'_, str>, Seal), &'static str> {
    let Some((head, sealed)) = text.split_once(FIELD) else {
        return if text.contains(NAME) { Err(CHANGED) } else { Ok((Cow::Borrowed(text), Seal::Absent)) };
    };
    let digits = sealed.get(..DIGITS).filter(|_| sealed.get(DIGITS..DIGITS + 2) == Some("\"}"));
    let plain = format!("{head}}}{}", sealed.get(DIGITS + 2..).unwrap_or_default());
    match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
        Some(found) if found == sum(id, &plain) => Ok((Cow::Owned(plain), Seal::Whole)),
        _ => Err(CHANGED),
    }
}

fn sum(id: u64, text: &str) -> u64 {
    let bytes = id.to_be_bytes().into_iter().chain(text.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "v1\n{\"batchWatermarkMs\":0,\"conf\":{}}\n{\"logOffset\":4}\n-";

    #[test]
    fn an_entry_vouches_for_itself_and_its_number() {
        let sealed = seal(7, TEXT, 1);
        assert!(
            sealed.starts_with("v1\n{\"batchWatermarkMs\":0,\"conf\":{},\"weirChecksum\":\"")
                && sealed.ends_with("\"}\n{\"logOffset\":4}\n-"),
            "{sealed}"
        );
        assert_eq!(open(7, &sealed).unwrap(), (TEXT.into(), Seal::Whole));
        assert_eq!(open(7, TEXT).unwrap(), (TEXT.into(), Seal::Absent));
        assert!(open(8, &sealed).is_err(), "under another name");
        assert_eq!(open(0, &seal(0, "v1\n{\"a\":1}", 1)).unwrap().0, "v1\n{\"a\":1}");
        assert_eq!(seal(0, "v1", 0), "v1", "nothing to carry it");
    }

    proptest! {
        #[test]
        fn no_change_of_a_sealed_text_passes_as_another(at in 0..200_usize, byte in any::<u8>(), text in any::<String>()) {
            let sealed = seal(3, TEXT, 1);
            let mut bytes = sealed.clone().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(changed) = std::str::from_utf8(&bytes) {
                // Where the field itself is damaged, the entry says what it has said.
                let without = |text: &str| text.lines().map(|line| line.split(",\"").next().unwrap().to_owned()).collect::<Vec<_>>();
                // Or it is no entry any more, which whoever reads its lines finds.
                let is_entry = |text: &str| text.lines().skip(1).all(|line| line == "-" || serde_json::from_str::<serde_json::Value>(line).is_ok());
                let is_same = |plain: &str| plain == TEXT || without(plain) == without(TEXT);
                prop_assert!(open(3, changed).map_or(true, |(plain, _)| is_same(&plain) || !is_entry(&plain)), "{changed}");
            }
            prop_assert!(open(3, &text).map_or(true, |(_, seal)| seal == Seal::Absent));
        }
    }
}
