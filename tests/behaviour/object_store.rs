//! A checkpoint and a table in an S3 store: conditional puts make claims, plans and commits.

use std::collections::BTreeSet;

use serde_json::json;
use weir_testkit::judge::{Input, Judge};
use weir_testkit::store::{BUCKET, Store, environment};
use weir_testkit::unique_name;

use crate::crash::home::download;
use crate::support::{Place, repository};

/// The quickstart with everything but its input in the store: it runs twice and reads nothing twice, and the rows are those of
/// the run on the disk.
#[test]
fn s3_holds_the_checkpoint_and_the_table_of_the_quickstart() {
    let (place, folder) = (Place::new("s3-quickstart"), unique_name("quickstart"));
    let example = repository().join("examples/quickstart");
    let manifest = std::fs::read_to_string(example.join("job.yaml")).unwrap();
    let input = example.join("input").display().to_string();
    let lake = format!("s3://{BUCKET}/{folder}");
    let stored = manifest.replace("input: input", &format!("input: {input}")).replace("lake: out", &format!("lake: {lake}"));
    let stored = stored.replace("checkpointLocation: out/", &format!("checkpointLocation: {lake}/"));
    assert_eq!(stored.matches(&lake).count(), 2, "{stored}");
    let variables = environment(Store::shared().port());
    let variables: Vec<(&str, &str)> = variables.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let batches =
        |run: crate::support::Ended| run.assert_code(0).progress("readings").iter().filter(|p| p["numInputRows"] != json!(0)).count();
    assert_eq!(batches(place.run_once_with(&stored, &[], &variables)), 5, "one a day");
    assert_eq!(batches(place.run_once_with(&stored, &[], &variables)), 0);

    let local = manifest.replace("input: input", &format!("input: {input}"));
    place.run_once(&local, &["--state-dir", "of-the-disk"]).assert_code(0);
    download(&format!("{folder}/readings"), &place.path().join("copy"));
    let query = "SELECT origin, time, day, celsius, humid, pressure, wind_speed FROM source";
    let rows = |at: &str| Judge::shared().query(&Input::at("delta", place.at(at)), query).unwrap().rows;
    let expected = rows("out/readings");
    assert!(expected.len() > 300 && rows("copy") == expected, "{}", expected.len());

    download(&format!("{folder}/checkpoints/readings"), &place.path().join("checkpoint"));
    let logs: BTreeSet<String> = ["offsets", "commits"].iter().map(|log| names(&place, log)).collect();
    assert_eq!(logs, BTreeSet::from(["0 1 2 3 4".to_owned()]));
}

fn names(place: &Place, log: &str) -> String {
    let entries = std::fs::read_dir(place.path().join("checkpoint").join(log)).unwrap();
    let names: BTreeSet<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.into_iter().collect::<Vec<_>>().join(" ")
}
