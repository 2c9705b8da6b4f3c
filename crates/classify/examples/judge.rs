//! Judges statements by the catalog of a real database.
//!
//! ```text
//! judge CATALOG < STATEMENTS
//! judge --query
//! ```
//!
//! CATALOG is a file of what `Catalog::QUERY` answers (`--query` prints it), statements come on standard input. Records
//! end with a byte 30, their columns are parted by a byte 31: `psql -A -t -F $'\x1f' -R $'\x1e'` writes such a file. For
//! each statement a line: its kind, `ro` or `rw`, why it is not pipelined or `-`, and what that is about.

use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

use classify::{Catalog, Classifier};

fn run(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path)?;
    let mut rows = Vec::new();
    for record in text.trim_end_matches('\n').split('\x1e') {
        let columns: Vec<&str> = record.split('\x1f').collect();
        rows.push(<[&str; 5]>::try_from(columns).map_err(|columns| format!("not five columns: {columns:?}"))?);
    }
    let mut classifier = Classifier::new(10_000);
    classifier.set_catalog(Arc::new(Catalog::from_rows(rows)?));
    let mut statements = Vec::new();
    std::io::stdin().read_to_end(&mut statements)?;
    for statement in statements.split(|&byte| byte == 0x1e) {
        let verdict = classifier.classify(statement, true);
        let kind = format!("{:?}", verdict.kind);
        let (label, subject) = match &verdict.pipelinable {
            Ok(()) => ("-", ""),
            Err(reason) => (reason.label(), reason.subject().unwrap_or_default()),
        };
        let access = if verdict.read_only { "ro" } else { "rw" };
        println!("{} {access} {label} {subject}", kind.split([' ', '(']).next().unwrap_or_default());
    }
    Ok(())
}

fn main() -> ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        Some("--query") => {
            print!("{}", Catalog::QUERY);
            Ok(())
        }
        Some(path) => run(path),
        None => Err("usage: judge CATALOG < STATEMENTS, or judge --query".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("judge: {error}");
            ExitCode::FAILURE
        }
    }
}
