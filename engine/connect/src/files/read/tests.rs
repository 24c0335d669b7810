//! Files to rows: slices, modes, damaged and missing files.
#![allow(clippy::unwrap_used)]

use std::io::Write;

use arrow::array::Array;
use arrow::datatypes::{DataType, TimeUnit};
use proptest::prelude::*;
use weir_decode::time::Zone;

use super::*;
use crate::render::{Purpose, render};
use crate::testing::storage;

fn schema(fields: &[(&str, DataType)]) -> FileSchema {
    let fields = fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
    FileSchema::new(
        fields.collect(),
        Vec::new(),
        None,
        metadata::field(&FormatOptions::parse("csv", &Options::default(), &BTreeMap::new()).unwrap()),
    )
}

fn two_strings() -> FileSchema {
    schema(&[("a", DataType::Utf8), ("b", DataType::Utf8)])
}

/// A folder with files, to be read any number of times.
struct Files {
    _dir: tempfile::TempDir,
    settings: Arc<ReadSettings>,
    tasks: Vec<FileTask>,
}

impl Files {
    fn new(format: &str, options: &[(&str, &str)], schema: FileSchema, files: &[(&str, &[u8])], conf: &[(&str, &str)]) -> Result<Self> {
        Self::of(format, options, schema, files, conf, MalformedRecords::ByMode)
    }

    fn of(
        format: &str,
        options: &[(&str, &str)],
        schema: FileSchema,
        files: &[(&str, &[u8])],
        conf: &[(&str, &str)],
        malformed: MalformedRecords,
    ) -> Result<Self> {
        let apart = malformed == MalformedRecords::SetApart;
        let dir = tempfile::tempdir().unwrap();
        let folder = storage().open(dir.path().to_str().unwrap()).unwrap();
        let conf: BTreeMap<String, String> = conf.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let options = Options::new(options.iter().copied());
        let unreadable = Unreadable::parse(&options, &conf)?;
        let mut format = FormatOptions::parse(format, &options, &conf)?;
        let malformed = if apart && format.set_malformed_apart()? { MalformedRecords::SetApart } else { MalformedRecords::ByMode };
        let settings = Arc::new(ReadSettings::new(format, schema, folder.store().clone(), unreadable).with_malformed(malformed));
        let mut tasks = Vec::new();
        for (name, content) in files {
            if *content != b"missing" {
                std::fs::write(dir.path().join(name), content).unwrap();
            }
            tasks.push(FileTask { path: folder.path_of(name), uri: (*name).to_owned(), root_depth: usize::MAX });
        }
        Ok(Self { _dir: dir, settings, tasks })
    }

    fn readers(&self, scan: &Scan, most: usize) -> Result<Vec<Box<dyn PartitionReader>>> {
        partition_readers(&self.settings, self.tasks.clone(), scan, most)
    }
}

async fn read(
    format: &str,
    options: &[(&str, &str)],
    schema: FileSchema,
    files: &[(&str, &[u8])],
    scan: Scan,
    conf: &[(&str, &str)],
) -> Result<Vec<Vec<String>>> {
    let files = Files::new(format, options, schema, files, conf)?;
    let mut slices = Vec::new();
    for mut reader in files.readers(&scan, 4)? {
        while let Some(batch) = reader.next().await? {
            assert!(batch.num_rows() > 0 && batch.num_rows() <= scan.max_rows);
            slices.push((0..batch.num_rows()).map(|row| text(&batch, row)).collect());
        }
    }
    Ok(slices)
}

fn text(batch: &RecordBatch, row: usize) -> String {
    let mut out = String::new();
    for (at, column) in batch.columns().iter().enumerate() {
        out.push_str(if at > 0 { "|" } else { "" });
        render(column.as_ref(), row, &Zone::UTC, Purpose::Show, &mut out);
    }
    out
}

fn all(max_rows: usize) -> Scan {
    Scan { columns: vec![0, 1], max_rows, max_bytes: 1 << 20 }
}

async fn csv(options: &[(&str, &str)], schema: FileSchema, content: &str) -> Result<Vec<String>> {
    let columns = (0..schema.data.fields().len()).collect();
    let scan = Scan { columns, ..all(100) };
    read("csv", options, schema, &[("x.csv", content.as_bytes())], scan, &[]).await.map(|slices| slices.concat())
}

// Every case was run through Spark 4.2.
#[tokio::test]
async fn csv_rows_are_sparks() {
    assert_eq!(csv(&[], two_strings(), "\"abc,2\nd,e\n").await.unwrap(), ["abc,2|NULL", "d|e"]);
    assert_eq!(csv(&[("multiLine", "true")], two_strings(), "\"x\r\ny\",2\nd,e\n").await.unwrap(), ["x\ny|2", "d|e"]);
    assert_eq!(csv(&[("nullValue", "-")], two_strings(), "\"\",\n-,x\n").await.unwrap(), ["|NULL", "NULL|x"]);
    assert_eq!(csv(&[("emptyValue", "E")], two_strings(), "\"\",\n-,x\n").await.unwrap(), ["E|NULL", "-|x"]);
    let corrupt = schema(&[("a", DataType::Utf8), ("b", DataType::Utf8), ("_corrupt_record", DataType::Utf8)]);
    assert_eq!(csv(&[], corrupt, "1\n2,3,4\n5,6\n").await.unwrap(), ["1|NULL|1", "2|3|2,3,4", "5|6|NULL"]);
    assert_eq!(csv(&[("mode", "DROPMALFORMED")], two_strings(), "1\n2,3,4\n5,6\n").await.unwrap(), ["5|6"]);
    assert!(csv(&[("mode", "FAILFAST")], two_strings(), "1\n").await.is_err());
    assert_eq!(csv(&[("comment", "#")], two_strings(), "#c\na,b\n\n  \nx,y\n").await.unwrap(), ["a|b", "x|y"]);
    assert_eq!(csv(&[("sep", "||")], two_strings(), "a||b\nc||\"d||e\"\n").await.unwrap(), ["a|b", "c|d||e"]);
    assert_eq!(csv(&[("sep", "\\t")], two_strings(), "a\tb\n").await.unwrap(), ["a|b"]);
    assert_eq!(csv(&[("header", "true")], two_strings(), "\nk,v\na,1\n").await.unwrap(), ["a|1"]);
    assert!(csv(&[("header", "true"), ("enforceSchema", "false")], two_strings(), "x,v\na,1\n").await.is_err());
    assert_eq!(csv(&[], two_strings(), "\u{feff}a,b\n").await.unwrap(), ["a|b"]);
    assert_eq!(csv(&[("lineSep", ";")], two_strings(), "a,b;c,d;").await.unwrap(), ["a|b", "c|d"]);
    let numbers = schema(&[("a", DataType::Int32), ("b", DataType::Float64)]);
    let found = csv(&[], numbers, "+5,1.5\n  7,NaN\n0x1,Inf\n8,-Inf\n12345678901,1e3\n4, 2\n").await.unwrap();
    assert_eq!(found, ["5|1.5", "NULL|NaN", "NULL|Infinity", "8|-Infinity", "NULL|1000.0", "4|2.0"]);
    let times = schema(&[("a", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))), ("b", DataType::Decimal128(5, 2))]);
    let found = csv(&[], times, "2024-01-01T10:00:00Z,1.005\n2024-01-01,99999\n2024,1e2\n").await.unwrap();
    assert_eq!(found, ["2024-01-01 10:00:00|1.01", "2024-01-01 00:00:00|NULL", "2024-01-01 00:00:00|100.00"]);
}

#[tokio::test]
async fn a_pruned_scan_does_not_count_fields() {
    let scan = Scan { columns: vec![0], ..all(100) };
    let found = read("csv", &[("mode", "DROPMALFORMED")], two_strings(), &[("x.csv", b"1\n2,3,4\n")], scan, &[]).await.unwrap();
    assert_eq!(found.concat(), ["1", "2"]);
    let scan = Scan { columns: vec![], ..all(100) };
    let found = read("json", &[], two_strings(), &[("x.json", b"{}\n{}\n")], scan, &[]).await.unwrap();
    assert_eq!(found.concat().len(), 2);
}

#[tokio::test]
async fn multi_line_json_and_whole_text() {
    let found =
        read("json", &[("multiLine", "true")], two_strings(), &[("x.json", b"[{\"a\":\"1\",\n\"b\":\"2\"},{\"a\":\"3\"}]")], all(10), &[])
            .await
            .unwrap();
    assert_eq!(found.concat(), ["1|2", "3|NULL"]);
    let value = schema(&[("value", DataType::Utf8)]);
    let scan = Scan { columns: vec![0], ..all(10) };
    let found = read("text", &[("wholetext", "true")], value, &[("x", b"a\nb\n"), ("y", b"")], scan, &[]).await.unwrap();
    assert_eq!(found.concat(), ["a\nb\n", ""]);
}

#[tokio::test]
async fn damaged_and_missing_files_fail_unless_ignored() {
    let cut = |lines: u32, left: fn(usize) -> usize| {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        (0..lines).for_each(|n| writeln!(gz, "{{\"a\":\"{}\"}}", n.wrapping_mul(2_654_435_761)).unwrap());
        let mut gz = gz.finish().unwrap();
        gz.truncate(left(gz.len()));
        gz
    };
    let (half, all_but_the_end) = (cut(20_000, |size| size / 2), cut(100, |size| size - 4));
    let files: [(&str, &[u8]); 4] =
        [("w.json.gz", &all_but_the_end), ("x.json.gz", &half), ("y.json", b"missing"), ("z.json", b"{\"a\":\"last\"}")];
    let error = read("json", &[], two_strings(), &files, all(1000), &[]).await.unwrap_err();
    assert_eq!(error.condition(), CORRUPT_FILE);
    let corrupt = ("spark.sql.files.ignoreCorruptFiles", "true");
    let error = read("json", &[], two_strings(), &files, all(1000), &[corrupt]).await.unwrap_err();
    assert_eq!(error.condition(), FILE_NOT_EXIST);
    let missing = ("spark.sql.files.ignoreMissingFiles", "true");
    let found = read("json", &[], two_strings(), &files, all(1000), &[corrupt, missing]).await.unwrap();
    assert_eq!(found.last().unwrap(), &["last|NULL"]);
    // Every record that can be decompressed counts, as in Spark, whatever batches they make.
    let mut whole = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(half.as_slice()), &mut whole).unwrap_err();
    let whole = whole.iter().filter(|byte| **byte == b'\n').count();
    assert!(whole > 1000 && whole % 1000 != 0, "{whole}");
    assert_eq!(found.concat().len(), 100 + whole + 1);
}

#[tokio::test]
async fn huge_records_make_small_slices() {
    let line = format!("{{\"a\":\"{}\"}}\n", "x".repeat(100_000));
    let scan = Scan { max_bytes: 150_000, ..all(1000) };
    let found = read("json", &[], two_strings(), &[("x.json", line.repeat(10).as_bytes())], scan, &[]).await.unwrap();
    assert_eq!(found.len(), 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn slices_never_change_rows(content in "([ab1\",\\\\\n\r{}: ]|\\{\"a\":\"1\"\\}\n|\\[\\{\\},\\{\\},\\{\\}\\]\n){0,60}", max_rows in 1usize..5, max_bytes in 1usize..40) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for (format, options) in [("json", vec![]), ("csv", vec![]), ("csv", vec![("multiLine", "true")])] {
                let files = [("x", content.as_bytes())];
                let whole = read(format, &options, two_strings(), &files, all(10_000), &[]).await.unwrap();
                let scan = Scan { max_bytes, ..all(max_rows) };
                let sliced = read(format, &options, two_strings(), &files, scan, &[]).await.unwrap();
                assert_eq!(whole.concat(), sliced.concat());
            }
        });
    }
}

#[tokio::test]
async fn a_record_is_corrupt_whichever_columns_are_read() {
    let lines: &[u8] = b"{\"a\":1,\"b\":2}\n{\"a\":\"x\",\"b\":2}\n{\"a\":1,\"b\":\"y\"}\n";
    for (format, content) in [("csv", &b"1,2\nx,2\n1,y\n"[..]), ("json", lines)] {
        for columns in [vec![2], vec![0, 2], vec![0, 1, 2]] {
            let schema = schema(&[("a", DataType::Int32), ("b", DataType::Int32), ("_corrupt_record", DataType::Utf8)]);
            let scan = Scan { columns: columns.clone(), ..all(100) };
            let rows = read(format, &[], schema, &[("x", content)], scan, &[]).await.unwrap().concat();
            let good: Vec<bool> = rows.iter().map(|row| row.ends_with("NULL")).collect();
            assert_eq!(good, [true, false, false], "{format} {columns:?}: {rows:?}");
        }
    }
}

#[tokio::test]
async fn a_reader_goes_on_at_every_position_of_another() {
    let contents: [(&str, &[u8]); 4] = [("a", b"1,1\n2,2\n3,3\n"), ("b", b""), ("c", b"4,4\n5,5\n"), ("d", b"6,6\n")];
    let files = Files::new("csv", &[], two_strings(), &contents, &[]).unwrap();
    let rest = async |position: Option<u64>, max_rows: usize| {
        let mut reader = files.readers(&all(max_rows), 1).unwrap().remove(0);
        if let Some(position) = position {
            reader.skip_to(position);
        }
        let mut rows = Vec::new();
        while let Some(batch) = reader.next().await.unwrap() {
            rows.extend((0..batch.num_rows()).map(|row| (text(&batch, row), reader.position())));
        }
        rows
    };
    for max_rows in [1, 2, 100] {
        let whole = rest(None, max_rows).await;
        assert_eq!(whole.len(), 6);
        for (at, (_, position)) in whole.iter().enumerate() {
            let handed_out = whole.iter().take_while(|(_, other)| other <= position).count();
            assert!(at < handed_out);
            for again in [1, 2, 100] {
                let left: Vec<String> = rest(Some(*position), again).await.into_iter().map(|(row, _)| row).collect();
                assert!(left.iter().eq(whole[handed_out..].iter().map(|(row, _)| row)), "{max_rows} {again} {position}: {left:?}");
            }
        }
    }
    let names = |max_rows| files.readers(&all(max_rows), 2).unwrap().iter().map(|reader| reader.name()).collect::<Vec<_>>();
    assert_eq!(names(1), names(100));
    assert!(names(1)[0].starts_with("a b as Csv"), "{:?}", names(1));
}

/// The rows of a reader that sets bad records apart, and those: file, number, offset, text and reason.
async fn apart(files: &Files, scan: &Scan, skip_to: Option<u64>) -> (Vec<(String, u64)>, Vec<String>) {
    let mut reader = files.readers(scan, 1).unwrap().remove(0);
    if let Some(position) = skip_to {
        reader.skip_to(position);
    }
    let (mut rows, mut bad) = (Vec::new(), Vec::new());
    loop {
        let slice = reader.next().await.unwrap();
        for BadRows { reason, record, place } in reader.take_bad_records() {
            let crate::bad_records::Places::Files { path, number, byte } = place else { panic!("no file") };
            for row in 0..reason.len() {
                let place = format!("{}:{}@{}", path.value(row), number.value(row), byte.value(row));
                bad.push(format!("{place} {} {}", record.value(row), reason.value(row)));
            }
        }
        let Some(slice) = slice else { break };
        rows.extend((0..slice.num_rows()).map(|row| (text(&slice, row), reader.position())));
    }
    assert_eq!(reader.counters().malformed_records, bad.len() as u64);
    (rows, bad)
}

#[tokio::test]
async fn bad_records_are_set_apart_with_their_places() {
    let numbers = || schema(&[("a", DataType::Int32), ("b", DataType::Utf8)]);
    let json: [(&str, &[u8]); 4] = [
        ("a", b"\xef\xbb\xbf{\"a\":1}\r\nno\r\n\r\n{\"a\":2}\r\n"),
        ("b", b"{\"a\":\"x\"}\n[]\n[{\"a\":3},{\"a\":\"y\"}]\n\xff"),
        ("c", b"[1]"),
        ("d", b"{\"a\":4}"),
    ];
    let files = Files::of("json", &[], numbers(), &json, &[], MalformedRecords::SetApart).unwrap();
    // A column less is read: what is bad stays the same.
    let of_b = Scan { columns: vec![1], ..all(100) };
    let (rows, whole) = apart(&files, &all(100), None).await;
    assert_eq!(rows.iter().map(|(row, _)| row.as_str()).collect::<Vec<_>>(), ["1|NULL", "2|NULL", "4|NULL"]);
    let places: Vec<&str> = whole.iter().map(|bad| bad.split(' ').next().unwrap()).collect();
    assert_eq!(places, ["a:2@12", "b:1@0", "b:3@13", "b:4@33", "c:1@0"], "{whole:#?}");
    assert!(whole[0].starts_with("a:2@12 no ") && whole[3].contains("\u{fffd} "), "{whole:#?}");
    assert_eq!(apart(&files, &of_b, None).await.1, whole);
    for (max_rows, max_bytes) in [(1, 1), (1, 1 << 20), (100, 60)] {
        let scan = Scan { max_rows, max_bytes, ..all(100) };
        let (again, bad) = apart(&files, &scan, None).await;
        assert!(again.iter().map(|(row, _)| row).eq(rows.iter().map(|(row, _)| row)) && bad == whole, "{max_rows} {max_bytes} {bad:#?}");
        for (at, (_, position)) in again.iter().enumerate() {
            let (left, bad) = apart(&files, &scan, Some(*position)).await;
            let handed_out = again.iter().take_while(|(_, other)| other <= position).count();
            assert!(at < handed_out && left.iter().map(|(row, _)| row).eq(rows[handed_out..].iter().map(|(row, _)| row)), "{left:?}");
            assert_eq!(bad, whole, "all bad records come again, whatever rows took effect");
        }
    }
    let csv: [(&str, &[u8]); 1] = [("x", b"a,b\n1,x\nq,\"y\nz\"\n2\n# no\n3,w,4\n")];
    let options = [("header", "true"), ("multiLine", "true"), ("comment", "#"), ("mode", "PERMISSIVE")];
    let files = Files::of("csv", &options, numbers(), &csv, &[], MalformedRecords::SetApart).unwrap();
    let (rows, bad) = apart(&files, &of_b, None).await;
    assert_eq!(rows.into_iter().map(|(row, _)| row).collect::<Vec<_>>(), ["x"]);
    let expected = [
        "x:3@8 q,\"y\nz\" the value 'q' does not fit the column a",
        "x:4@16 2 it has 1 fields, the schema has 2",
        "x:6@23 3,w,4 it has 3 fields, the schema has 2",
    ];
    assert_eq!(bad, expected);
    let refused = Files::of("csv", &[("mode", "failFast")], numbers(), &csv, &[], MalformedRecords::SetApart).err().unwrap();
    assert_eq!(refused.condition(), "BAD_RECORDS_UNDER_FAILFAST");
    let names = |malformed| Files::of("csv", &[("mode", "DROPMALFORMED")], numbers(), &csv, &[], malformed).unwrap();
    let name = |files: Files| files.readers(&all(1), 1).unwrap()[0].name();
    assert_ne!(name(names(MalformedRecords::ByMode)), name(names(MalformedRecords::SetApart)), "their rows differ under pruning");
}
