//! What a folder of numbered files holds, and what has no place among them.
//!
//! Batches, steps, owners and epochs are files with a number for a name. A name
//! of digits that is no such number, or that is not a file, is damage: taken for
//! a number it would make a later one wrong, passed by it would stand in the way
//! of the file to come. Names of other shapes are nobody's.

use super::entries::damage_of;
use crate::error::{Error, Result};
use crate::storage::Folder;

/// The highest number of a file: no query comes so far, and what is counted on from it fits.
pub const HIGHEST: u64 = 999_999_999_999;
/// The last moment of the year 9999, in milliseconds since the epoch: no file and no run of a source has a later time.
pub const LATEST_MS: i64 = 253_402_300_799_999;
/// Digits of an epoch's name.
const EPOCH_DIGITS: usize = 12;
/// What ends the name of an entry that holds those before it too.
pub const COMPACT: &str = ".compact";

/// How the numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// As they are.
    Plain,
    /// With twelve digits, so that names sort by epoch.
    Epochs,
    /// As they are, some with `.compact` behind them.
    Compactible,
}

/// The files of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbered {
    /// Their numbers, rising.
    pub ids: Vec<u64>,
    /// Their names.
    pub names: Vec<String>,
    /// What is there and is no numbered file, a sentence each.
    pub strange: Vec<String>,
}

/// What stands for the number in a name.
fn stem(name: &str, naming: Naming) -> &str {
    match naming {
        Naming::Compactible => name.strip_suffix(COMPACT).unwrap_or(name),
        Naming::Plain | Naming::Epochs => name,
    }
}

/// The number in a name, if it is one.
pub fn id_of(name: &str, naming: Naming) -> Option<u64> {
    let digits = stem(name, naming);
    let id = digits.parse().ok().filter(|id| *id <= HIGHEST)?;
    let written = if naming == Naming::Epochs { format!("{id:0EPOCH_DIGITS$}") } else { u64::to_string(&id) };
    (written == digits).then_some(id)
}

/// Reads what a folder holds.
pub async fn look(folder: &Folder, naming: Naming) -> Result<Numbered> {
    Ok(sorted(folder.url().as_str(), folder.names().await?, naming))
}

/// The same of a folder that must hold nothing strange.
pub async fn files(folder: &Folder, naming: Naming) -> Result<Numbered> {
    let found = look(folder, naming).await?;
    if found.strange.is_empty() { Ok(found) } else { Err(Error::incompatible("CHECKPOINT_DAMAGED", found.strange.join("; "))) }
}

/// Their numbers, rising.
pub async fn ids(folder: &Folder, naming: Naming) -> Result<Vec<u64>> {
    files(folder, naming).await.map(|found| found.ids)
}

/// `names` says of each whether it is a file.
fn sorted(location: &str, names: Vec<(String, bool)>, naming: Naming) -> Numbered {
    let mut found = Numbered::default();
    for (name, is_file) in names {
        let stem = stem(&name, naming);
        if stem.is_empty() || !stem.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        match id_of(&name, naming) {
            Some(id) if is_file => {
                found.ids.push(id);
                found.names.push(name);
            }
            Some(_) => found.strange.push(damage_of(&format!("{location}/{name}"), "it is not a file")),
            None => {
                found.strange.push(damage_of(&format!("{location}/{name}"), "nothing that is written here has such a number; take it away"))
            }
        }
    }
    found.ids.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_one_way() {
        let of = |name: &str| [Naming::Plain, Naming::Epochs, Naming::Compactible].map(|naming| id_of(name, naming));
        assert_eq!(of("7"), [Some(7), None, Some(7)]);
        assert_eq!(of("000000000007"), [None, Some(7), None]);
        assert_eq!(of("999999999999"), [Some(HIGHEST); 3]);
        assert_eq!(of("9.compact"), [None, None, Some(9)]);
        for name in ["", "+7", "07", "-1", "1000000000000", "18446744073709551615", "7 ", ".7.crc", "compact", "7.compact.compact"] {
            assert_eq!(of(name), [None; 3], "{name}");
        }
    }

    #[test]
    fn what_is_no_number_and_what_is_no_file_is_told() {
        let names = [
            ("0", true),
            ("2", true),
            ("10", true),
            ("3", false),
            ("007", true),
            ("18446744073709551615", true),
            ("x", false),
            ("4.tmp", true),
        ];
        let names: Vec<(String, bool)> = names.into_iter().map(|(name, is_file)| (name.to_owned(), is_file)).collect();
        let found = sorted("ck/offsets", names, Naming::Plain);
        assert_eq!(found.ids, [0, 2, 10]);
        let begin: Vec<&str> = found.strange.iter().map(|text| text.split(':').next().unwrap_or_default()).collect();
        assert_eq!(begin, ["ck/offsets/3 is damaged", "ck/offsets/007 is damaged", "ck/offsets/18446744073709551615 is damaged"]);
        assert!(found.strange.iter().all(|text| text.contains("restore")), "{found:?}");
    }
}
