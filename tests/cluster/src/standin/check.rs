//! `weir check` of the stand-in: refuses what says `REFUSE: reason`, accepts all else; `-` is standard input.
//!
//! Prints what `weir check --output json` prints, by the same types.

use std::path::PathBuf;
use std::{fs, io};

use weir_crds::finding::Finding;
use weir_crds::manifest::Problem;

/// Prints the findings; 20 when there are some.
pub fn run(files: &[PathBuf]) -> i32 {
    let mut problems = Vec::new();
    for file in files {
        let is_input = file.as_os_str() == "-";
        let read = if is_input { io::read_to_string(io::stdin()) } else { fs::read_to_string(file) };
        match read {
            Ok(text) => problems.extend(refusals(&file.display().to_string(), &text)),
            Err(error) => {
                eprintln!("could not read {}: {error}", file.display());
                return 10;
            }
        }
    }
    println!("{}", serde_json::to_string_pretty(&problems).expect("findings are strings and numbers"));
    if problems.is_empty() { 0 } else { 20 }
}

/// The reason ends where the line, a JSON string or a line inside one ends.
pub fn refusals(file: &str, text: &str) -> Vec<Problem> {
    let lines = text.lines().enumerate();
    let found = lines.filter_map(|(number, line)| line.find("REFUSE:").map(|at| (number, at, &line[at + "REFUSE:".len()..])));
    found
        .map(|(number, at, rest)| {
            let end = [rest.find('"'), rest.find("\\n")].into_iter().flatten().min().unwrap_or(rest.len());
            let finding = Finding::error("refused-by-test", "spec", rest[..end].trim());
            Problem { file: file.to_owned(), line: number + 1, column: at + 1, finding }
        })
        .collect()
}
