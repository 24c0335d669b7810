//! Decoding of 207-byte records with seven fields: weir-decode beside arrow-json.
//!
//! `cargo run --release -p weir-decode --example decode_bench`
//!
//! Runs of the two decoders alternate, because the speed of a shared machine
//! drifts; each figure is the median of its runs, and the ratio is what counts.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::json::ReaderBuilder;
use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_decode::time::Zone;
use weir_decode::{JsonDecoder, JsonOptions, Origin};

const RECORDS: usize = 200_000;
const BATCH: usize = 4_096;
const RUNS: usize = 9;

fn records() -> Vec<String> {
    (0..RECORDS as u64)
        .map(|i| {
            let spread = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut text = String::new();
            let _ = write!(
                text,
                r#"{{"auction":{},"bidder":{},"price":{},"channel":"channel-{:04}","url":"https://www.nexmark.com/item/{:016x}.htm?query=1","date_time":{},"extra":"#,
                1_000 + spread % 9_000,
                1_000 + (spread >> 13) % 9_000,
                (spread >> 26) % 100_000_000,
                (spread >> 40) % 10_000,
                spread,
                1_717_236_672_000u64 + i,
            );
            let room = 207usize.saturating_sub(text.len() + 3);
            text.push('"');
            text.extend(std::iter::repeat_n("abcdefghij", room / 10 + 1).collect::<String>().chars().take(room));
            text.push_str("\"}");
            text
        })
        .collect()
}

fn schema() -> SchemaRef {
    let fields = [
        ("auction", DataType::Int64),
        ("bidder", DataType::Int64),
        ("price", DataType::Int64),
        ("channel", DataType::Utf8),
        ("url", DataType::Utf8),
        ("date_time", DataType::Int64),
        ("extra", DataType::Utf8),
    ];
    Arc::new(Schema::new(fields.map(|(name, kind)| Field::new(name, kind, true)).to_vec()))
}

fn weir(schema: &SchemaRef, records: &[String], distinct: usize) -> Result<(Duration, u64), Box<dyn Error>> {
    let mut decoder = JsonDecoder::new(schema.clone(), JsonOptions::new(Origin::File, Zone::UTC))?;
    let start = Instant::now();
    for from in (0..RECORDS).step_by(BATCH) {
        let from = from % distinct;
        let chunk = &records[from..(from + BATCH).min(RECORDS)];
        for record in chunk {
            decoder.push(Some(record.as_bytes()))?;
        }
        black_box(decoder.flush()?);
    }
    let elapsed = start.elapsed();
    Ok((elapsed, decoder.take_counts().template_hits))
}

fn arrow_json(schema: &SchemaRef, records: &[String], distinct: usize) -> Result<Duration, Box<dyn Error>> {
    let mut decoder = ReaderBuilder::new(schema.clone()).with_batch_size(BATCH).build_decoder()?;
    let start = Instant::now();
    for from in (0..RECORDS).step_by(BATCH) {
        let from = from % distinct;
        let chunk = &records[from..(from + BATCH).min(RECORDS)];
        for record in chunk {
            decoder.decode(record.as_bytes())?;
        }
        black_box(decoder.flush()?);
    }
    Ok(start.elapsed())
}

fn median(mut runs: Vec<Duration>) -> f64 {
    runs.sort();
    runs[runs.len() / 2].as_nanos() as f64 / RECORDS as f64
}

fn main() -> Result<(), Box<dyn Error>> {
    let records = records();
    let all = schema();
    let two = Arc::new(all.project(&[0, 3])?);
    println!("{} records of {} bytes, batches of {BATCH}, medians of {RUNS}", RECORDS, records[0].len());
    // Texts beyond the caches cost every decoder the same wait for memory; the
    // same batch again and again shows the decoders alone.
    let cases = [
        ("7 of 7 columns, from memory", &all, RECORDS),
        ("2 of 7 columns, from memory", &two, RECORDS),
        ("7 of 7 columns, from cache", &all, BATCH),
        ("2 of 7 columns, from cache", &two, BATCH),
    ];
    for (name, schema, distinct) in cases {
        let (mut ours, mut theirs, mut hits) = (Vec::new(), Vec::new(), 0);
        for _ in 0..RUNS {
            let (elapsed, found) = weir(schema, &records, distinct)?;
            ours.push(elapsed);
            hits = found;
            theirs.push(arrow_json(schema, &records, distinct)?);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "{name}: weir-decode {ours:.0} ns/record, arrow-json {theirs:.0} ns/record, ratio {:.1}, template hits {hits}",
            theirs / ours
        );
    }
    Ok(())
}
