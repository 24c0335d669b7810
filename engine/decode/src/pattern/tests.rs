//! Patterns against results of java.time under Spark's rules.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

fn read(pattern: &str, text: &str) -> Option<String> {
    let parsed = DatePattern::parse(pattern, Purpose::Parse).unwrap();
    let micros = parsed.read_instant(text, &Zone::UTC)?;
    let iso = DatePattern::parse("yyyy-MM-dd HH:mm:ss.SSSSSS", Purpose::Format).unwrap();
    Some(iso.format_instant(micros, &Zone::UTC).unwrap())
}

fn write(pattern: &str, micros: i64, zone: &str) -> String {
    let zone = Zone::parse(zone).unwrap();
    DatePattern::parse(pattern, Purpose::Format).unwrap().format_instant(micros, &zone).unwrap()
}

fn condition(pattern: &str, purpose: Purpose) -> String {
    DatePattern::parse(pattern, purpose).unwrap_err().condition().to_owned()
}

#[test]
fn text_is_read_as_java_reads_it() {
    let cases = [
        ("MM/dd/yyyy HH:mm", "06/01/2024 10:11", Some("2024-06-01 10:11:00.000000")),
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-06-01 10:11:12.5", Some("2024-06-01 10:11:12.500000")),
        ("yyyy-MM-dd hh:mm:ss a", "2024-06-01 10:11:12 pm", Some("2024-06-01 22:11:12.000000")),
        ("d MMM yyyy", "1 Jun 2024", Some("2024-06-01 00:00:00.000000")),
        ("d MMMM yyyy", "1 june 2024", Some("2024-06-01 00:00:00.000000")),
        ("yyMMdd", "240601", Some("2024-06-01 00:00:00.000000")),
        ("yyyyMMddHHmmss", "20240601101112", Some("2024-06-01 10:11:12.000000")),
        ("yyyyMMdd'T'HHmmssX", "20240601T101112+02", Some("2024-06-01 08:11:12.000000")),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-06-01T10:11:12+02:00", Some("2024-06-01 08:11:12.000000")),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-06-01T10:11:12Z", Some("2024-06-01 10:11:12.000000")),
        ("yyyy-MM-dd HH:mm:ss VV", "2024-06-01 10:11:12 Europe/Berlin", Some("2024-06-01 08:11:12.000000")),
        ("yyyy-MM-dd HH:mm:ss z", "2024-06-01 10:11:12 PST", Some("2024-06-01 17:11:12.000000")),
        ("yyyy-MM-dd[ HH:mm]", "2024-06-01", Some("2024-06-01 00:00:00.000000")),
        ("yyyy-MM-dd[ HH:mm]", "2024-06-01 10:11", Some("2024-06-01 10:11:00.000000")),
        ("HH:mm", "10:11", Some("1970-01-01 10:11:00.000000")),
        ("yyyy D", "2024 153", Some("2024-06-01 00:00:00.000000")),
        ("yyyy-MM-dd", "2024-02-30", None),
        ("yyyy-MM-dd", "2024-6-1", None),
        ("yyyy-MM-dd", "20240-06-01", None),
        ("yyyy-MM-dd", "2024-06-01 ", None),
        ("yyyy-M-d", "2024-06-01", Some("2024-06-01 00:00:00.000000")),
        ("yyyy-MM-dd HH:mm", "2024-06-01 24:00", None),
        ("yyyyMMddHHmmssSSS", "20240601101112123", None),
    ];
    for (pattern, text, expected) in cases {
        assert_eq!(read(pattern, text).as_deref(), expected, "{pattern} of {text}");
    }
}

#[test]
fn values_are_written_as_java_writes_them() {
    let micros = 1_717_279_872_123_456; // 2024-06-01T22:11:12.123456Z
    let cases = [
        ("hh:mm a", "UTC", "10:11 PM"),
        ("EEEE d MMMM yyyy", "UTC", "Saturday 1 June 2024"),
        ("E D Q QQQ QQQQ", "UTC", "Sat 153 2 Q2 2nd quarter"),
        ("VV z", "UTC", "UTC UTC"),
        ("VV z O OOOO", "Europe/Berlin", "Europe/Berlin CEST GMT+2 GMT+02:00"),
        ("X XX XXX x xxx Z ZZZZ ZZZZZ", "UTC", "Z Z Z +00 +00:00 +0000 GMT Z"),
        ("X XX XXX Z", "Asia/Kolkata", "+0530 +0530 +05:30 +0530"),
        ("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "UTC", "2024-06-01T22:11:12.123Z"),
        ("yy k K h F SSSSSS ''", "UTC", "24 22 10 10 1 123456 '"),
        ("G yyyy", "UTC", "AD 2024"),
    ];
    for (pattern, zone, expected) in cases {
        assert_eq!(write(pattern, micros, zone), expected, "{pattern}");
    }
}

#[test]
fn refusals_have_sparks_conditions() {
    let cross = "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION";
    assert_eq!(condition("Y", Purpose::Format), cross);
    assert_eq!(condition("EEE, d MMM yyyy", Purpose::Parse), cross);
    assert_eq!(condition("yyyy-MM-dd AA", Purpose::Format), "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER");
    assert_eq!(condition("yyyy-MM-dd e", Purpose::Format), "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER");
}

proptest! {
    #[test]
    fn written_timestamps_are_read_back(micros in -62_135_596_800_000_000i64..253_402_300_800_000_000) {
        let pattern = "yyyy-MM-dd HH:mm:ss.SSSSSSXXX";
        let zone = Zone::parse("+05:30").unwrap();
        let local = zone.to_local(micros);
        prop_assume!((-62_135_596_800_000_000i64..253_402_300_800_000_000).contains(&local));
        let text = DatePattern::parse(pattern, Purpose::Format).unwrap().format_instant(micros, &zone).unwrap();
        let back = DatePattern::parse(pattern, Purpose::Parse).unwrap().read_instant(&text, &Zone::UTC);
        prop_assert_eq!(back, Some(micros));
    }

    #[test]
    fn no_pattern_or_text_panics(pattern in "[GyMLDdEahHkKmsSVzOXxZQq'\\[\\] .:/-]{0,12}", text in "\\PC{0,20}") {
        for purpose in [Purpose::Parse, Purpose::Format] {
            if let Ok(compiled) = DatePattern::parse(&pattern, purpose) {
                let _ = compiled.read(&text);
                let _ = compiled.format_local(0);
            }
        }
    }
}
