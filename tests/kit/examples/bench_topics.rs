//! The broker of `make bench`: an idle topic and one that is full of records.
//!
//! Usage: `bench_topics RECORDS PARTITIONS`. Prints one line of JSON when both topics are ready and lives until its standard input ends, so
//! the broker goes with whoever asked for it. The records are the same in every run: bids of 200 bytes, `price` evenly spread below 10 000.

use std::io::Read;

use anyhow::{Context, Result};
use weir_testkit::kafka::{Broker, BrokerOptions, Message};

const BYTES: usize = 200;

/// A number that depends on nothing but `seed` (Steele, Lea and Flood's SplitMix64).
fn scattered(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn bid(number: u64, partitions: u64) -> Message {
    let random = scattered(number);
    let channel = ["apple", "google", "facebook", "baidu"][(random >> 60) as usize % 4];
    let mut text = format!(
        r#"{{"auction":{},"bidder":{},"price":{},"channel":"{channel}","url":"https://www.example.com/item.htm?query={}","date_time":"2026-01-{:02}T{:02}:{:02}:{:02}.{:03}Z","extra":""#,
        1000 + random % 5000,
        1000 + (random >> 13) % 20_000,
        (random >> 28) % 10_000,
        (random >> 41) % 100_000,
        1 + number / 86_400_000 % 28,
        number / 3_600_000 % 24,
        number / 60_000 % 60,
        number / 1000 % 60,
        number % 1000,
    );
    let filling = (0..).map(|at| char::from(b'a' + (scattered(random ^ at) % 26) as u8));
    text.extend(filling.take(BYTES.saturating_sub(text.len() + 2)));
    text.push_str("\"}");
    Message::of(text).partition((number % partitions) as i32)
}

fn main() -> Result<()> {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>().context("reading the arguments")?;
    let [records, partitions] = numbers[..] else { anyhow::bail!("usage: bench_topics RECORDS PARTITIONS") };
    let broker = Broker::start_with(BrokerOptions { heap: "1g".into(), ..BrokerOptions::default() })?;
    broker.create_topic("idle", partitions as i32, &[])?;
    broker.create_topic("bids", partitions as i32, &[])?;
    broker.produce("bids", (0..records).map(|number| bid(number, partitions)))?;
    println!(r#"{{"servers":"{}","records":{records},"partitions":{partitions},"bytes":{BYTES}}}"#, broker.bootstrap_servers());
    std::io::stdin().read_to_end(&mut Vec::new()).context("waiting for the end of the input")?;
    Ok(())
}
