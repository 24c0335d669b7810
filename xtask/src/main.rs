//! `cargo xtask codegen` writes the generated files, `cargo xtask tidy` prints what breaks a house rule, `xtask suite` runs the test binaries
//! that cargo's messages on standard input name (`scripts/test.sh`).
//!
//! The same checks run as an ordinary test (`tests/tidy.rs`), so nothing depends on anyone calling this program.

use std::process::ExitCode;

use anyhow::Result;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let repository = xtask::repository();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["codegen"] => {
            for path in xtask::generated::write_all(&repository)? {
                println!("wrote {}", path.display());
            }
            Ok(ExitCode::SUCCESS)
        }
        ["tidy"] => {
            let findings = xtask::tidy::check_repository(&repository)?;
            findings.iter().for_each(|finding| println!("{finding}"));
            Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ["suite", ..] => {
            let messages = std::io::read_to_string(std::io::stdin())?;
            let good = xtask::suite::run(xtask::suite::binaries(&messages)?, xtask::suite::at_once(), &arguments[1..])?;
            Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(101) })
        }
        _ => {
            eprintln!("usage: cargo xtask codegen | tidy | suite [TEST ARGUMENTS] <MESSAGES");
            Ok(ExitCode::from(2))
        }
    }
}
