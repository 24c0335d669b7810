//! Partition columns in folder names: `day=2024-01-01/kind=a%3Ab`.
//!
//! Names and values are escaped as Hive does (`ExternalCatalogUtils`);
//! `__HIVE_DEFAULT_PARTITION__` is null. Types are inferred as Spark infers
//! them (int, bigint, decimal, double, date, timestamp, else string) and widened
//! over all folders; a declared schema decides the type of the columns it names.

use arrow::datatypes::{DataType, Field, TimeUnit};
use object_store::path::Path;
use weir_core::{Error, Result};
use weir_decode::Formats;

use super::listing::FoundFile;

/// The folder value that stands for null.
pub const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// The `(name, value)` pairs of the folders between root and file; null is `None`.
pub fn values_of(path: &Path, root_depth: usize) -> Vec<(String, Option<String>)> {
    let folders = path.parts_count().saturating_sub(1);
    let parts: Vec<String> = path.parts().take(folders).skip(root_depth).map(|part| part.as_ref().to_owned()).collect();
    parts.iter().filter_map(|part| pair(part)).collect()
}

/// Whether a file is in partition folders.
pub fn is_partitioned(path: &Path, root_depth: usize) -> bool {
    let folders = path.parts_count().saturating_sub(1);
    path.parts().take(folders).skip(root_depth).any(|part| pair(part.as_ref()).is_some())
}

fn pair(folder: &str) -> Option<(String, Option<String>)> {
    let (name, value) = folder.split_once('=')?;
    if name.is_empty() || value.is_empty() {
        return None;
    }
    let value = if value == NULL_FOLDER { None } else { Some(unescape(value)) };
    Some((unescape(name), value))
}

/// The partition columns of some files, with inferred types.
pub fn infer(files: &[FoundFile], formats: &Formats) -> Result<Vec<Field>> {
    let mut names: Option<(Vec<String>, &FoundFile)> = None;
    let mut kinds: Vec<Inferred> = Vec::new();
    for file in files {
        let values = values_of(&file.path, file.root_depth);
        if values.is_empty() {
            continue;
        }
        let these: Vec<String> = values.iter().map(|(name, _)| name.clone()).collect();
        match &names {
            None => {
                kinds = vec![Inferred::Null; these.len()];
                names = Some((these, file));
            }
            Some((known, first)) if *known != these => {
                return Err(Error::config(
                    "CONFLICTING_PARTITION_COLUMN_NAMES",
                    format!(
                        "Conflicting partition column names detected: {} has ({}), {} has ({}); keep only folders with the same columns under the path, or set the option recursiveFileLookup to true",
                        first.uri,
                        known.join(", "),
                        file.uri,
                        these.join(", ")
                    ),
                ));
            }
            Some(_) => {}
        }
        for (kind, (_, value)) in kinds.iter_mut().zip(&values) {
            if let Some(value) = value {
                *kind = kind.widen(Inferred::of(value, formats));
            }
        }
    }
    let names = names.map(|(names, _)| names).unwrap_or_default();
    Ok(names.into_iter().zip(kinds).map(|(name, kind)| Field::new(name, kind.data_type(), true)).collect())
}

/// The inferred type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inferred {
    Null,
    Int,
    Long,
    Decimal(u8),
    Double,
    Date,
    Timestamp,
    Text,
}

impl Inferred {
    fn of(value: &str, formats: &Formats) -> Self {
        if value.parse::<i32>().is_ok() {
            return Self::Int;
        }
        if value.parse::<i64>().is_ok() {
            return Self::Long;
        }
        let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
        if !digits.is_empty() && digits.len() <= 38 && digits.bytes().all(|b| b.is_ascii_digit()) {
            return Self::Decimal(u8::try_from(digits.len()).unwrap_or(38));
        }
        if is_double(value) {
            return Self::Double;
        }
        if is_plain_date(value) && formats.date(value.as_bytes()).is_some() {
            return Self::Date;
        }
        if is_plain_timestamp(value) && formats.timestamp(value.as_bytes()).is_some() {
            return Self::Timestamp;
        }
        Self::Text
    }

    fn widen(self, other: Self) -> Self {
        use Inferred::{Date, Decimal, Double, Int, Long, Null, Text, Timestamp};
        match (self, other) {
            (a, b) if a == b => a,
            (Null, kind) | (kind, Null) => kind,
            (Int, Long) | (Long, Int) => Long,
            (Int, Double) | (Double, Int) => Double,
            (Decimal(a), Decimal(b)) => Decimal(a.max(b)),
            (Int | Long, Decimal(digits)) | (Decimal(digits), Int | Long) => Decimal(digits.max(20)),
            (Date, Timestamp) | (Timestamp, Date) => Timestamp,
            _ => Text,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Int => DataType::Int32,
            Self::Long => DataType::Int64,
            Self::Decimal(digits) => DataType::Decimal128(digits, 0),
            Self::Double => DataType::Float64,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Null | Self::Text => DataType::Utf8,
        }
    }
}

/// What `Double.parseDouble` takes and an integer is not.
fn is_double(value: &str) -> bool {
    let bare = value.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(value);
    let starts_right = bare.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
    matches!(value, "NaN" | "Infinity" | "-Infinity" | "+Infinity") || (starts_right && bare.parse::<f64>().is_ok())
}

fn is_plain_date(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.len() == 10 && bytes[4] == b'-' && bytes[7] == b'-'
}

/// The pattern `yyyy-MM-dd HH:mm:ss[.S]` of Spark's inference.
fn is_plain_timestamp(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.len() >= 19 && is_plain_date(&value[..10.min(value.len())]) && bytes[10] == b' ' && bytes[13] == b':' && bytes[16] == b':'
}

/// Characters that Hive escapes in folder names.
fn is_escaped(c: char) -> bool {
    c.is_ascii_control() || "\"#%'*/:=?\\{[]^".contains(c) || c == '\u{7f}'
}

/// Escapes a name or value for a folder.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            out.push_str(&format!("%{:02X}", c as u32));
        } else {
            out.push(c);
        }
    }
    out
}

/// Undoes `escape`; a `%` without two hex digits stays.
pub fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'%').then(|| bytes.get(at + 1..at + 3)).flatten();
        let code = code.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(code) => {
                let mut buffer = [0; 4];
                out.extend_from_slice(char::from(code).encode_utf8(&mut buffer).as_bytes());
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The folder of one partition value.
pub fn folder(name: &str, value: Option<&str>) -> String {
    // An empty string cannot be told from null in a folder name.
    let value = value.filter(|value| !value.is_empty()).map_or_else(|| NULL_FOLDER.to_owned(), escape);
    format!("{}={value}", escape(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use weir_decode::time::Zone;

    fn infer_of(paths: &[&str]) -> Result<Vec<Field>> {
        let files: Vec<FoundFile> = paths
            .iter()
            .map(|path| FoundFile { uri: (*path).to_owned(), path: Path::parse(path).unwrap(), size: 0, modified_ms: 0, root_depth: 1 })
            .collect();
        infer(&files, &Formats::iso(Zone::UTC))
    }

    fn type_of(values: &[&str]) -> DataType {
        let paths: Vec<String> = values.iter().map(|value| format!("t/p={value}/x")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        infer_of(&paths).unwrap()[0].data_type().clone()
    }

    #[test]
    fn types_are_sparks() {
        assert_eq!(type_of(&["1", "2"]), DataType::Int32);
        assert_eq!(type_of(&["1", "12345678901"]), DataType::Int64);
        assert_eq!(type_of(&["123456789012345678901"]), DataType::Decimal128(21, 0));
        assert_eq!(type_of(&["1", "1.5"]), DataType::Float64);
        assert_eq!(type_of(&["12345678901", "1.5"]), DataType::Utf8);
        assert_eq!(type_of(&["2024-01-01", NULL_FOLDER]), DataType::Date32);
        assert_eq!(type_of(&["2024-01-01", "2024-01-01 10%3A00%3A00"]), DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
        assert_eq!(type_of(&["2024-01-01", "x"]), DataType::Utf8);
        assert_eq!(type_of(&[NULL_FOLDER]), DataType::Utf8);
    }

    #[test]
    fn nested_and_conflicting_folders() {
        let fields = infer_of(&["t/a=1/b=x/f", "t/a=2/b=y/f"]).unwrap();
        assert_eq!(fields.iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let error = infer_of(&["t/a=1/f", "t/b=2/f"]).unwrap_err();
        assert_eq!(error.condition(), "CONFLICTING_PARTITION_COLUMN_NAMES");
        assert!(infer_of(&["t/f"]).unwrap().is_empty());
    }

    #[test]
    fn folders_are_hives() {
        assert_eq!(folder("k", Some("a/b:c=d%")), "k=a%2Fb%3Ac%3Dd%25");
        assert_eq!(folder("k", None), "k=__HIVE_DEFAULT_PARTITION__");
        assert_eq!(folder("k", Some("")), "k=__HIVE_DEFAULT_PARTITION__");
        assert_eq!(folder("k", Some("2024-01-01 10:00:00")), "k=2024-01-01 10%3A00%3A00");
    }

    proptest! {
        #[test]
        fn any_value_survives(value in "\\PC{1,12}") {
            let path = format!("t/{}/f", folder("k", Some(&value)));
            prop_assume!(value != NULL_FOLDER);
            let read = values_of(&Path::parse(path).unwrap(), 1);
            prop_assert_eq!(read, vec![("k".to_owned(), Some(value))]);
        }
    }
}
