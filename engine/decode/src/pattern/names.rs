//! English names of months, weekdays and quarters, and the zone names that
//! the pattern letter `z` reads.
//!
//! Only names live here; matching ignores case and prefers the longest.

pub(super) const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

pub(super) const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

pub(super) const QUARTERS: [&str; 4] = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"];

/// Zone abbreviations with the region that an English JDK reads them as.
pub(super) const ZONE_NAMES: [(&str, &str); 22] = [
    ("PST", "America/Los_Angeles"),
    ("PDT", "America/Los_Angeles"),
    ("MST", "America/Denver"),
    ("MDT", "America/Denver"),
    ("CST", "America/Chicago"),
    ("CDT", "America/Chicago"),
    ("EST", "America/New_York"),
    ("EDT", "America/New_York"),
    ("AKST", "America/Anchorage"),
    ("AKDT", "America/Anchorage"),
    ("HST", "Pacific/Honolulu"),
    ("CET", "Europe/Paris"),
    ("CEST", "Europe/Paris"),
    ("EET", "Europe/Bucharest"),
    ("EEST", "Europe/Bucharest"),
    ("WET", "Europe/Lisbon"),
    ("WEST", "Europe/Lisbon"),
    ("BST", "Europe/London"),
    ("MSK", "Europe/Moscow"),
    ("IST", "Asia/Kolkata"),
    ("JST", "Asia/Tokyo"),
    ("AEST", "Australia/Sydney"),
];

/// Index and length of the longest name, full or of three letters, that begins the text.
pub(super) fn find(names: &[&str], text: &str, short: bool) -> Option<(usize, usize)> {
    names
        .iter()
        .map(|name| if short { &name[..3] } else { name })
        .enumerate()
        .filter(|(_, name)| text.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name)))
        .map(|(index, name)| (index, name.len()))
        .max_by_key(|(_, length)| *length)
}
