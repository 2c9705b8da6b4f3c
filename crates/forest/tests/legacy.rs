//! Models in XGBoost's old binary format are those that the same XGBoost wrote as JSON.
//!
//! tests/models/binary has what XGBoost 1.6.2 saved under two names, `NAME.bin` and `NAME.json`; the trees of `regression`
//! were pruned, so that some nodes are deleted.

#![allow(clippy::panic, clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::path::Path;

use forest::xgboost::{self, ReadOptions, legacy};

fn file(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/binary").join(name);
    std::fs::read(path).expect("a file")
}

fn read(json: &[u8]) -> String {
    let options = ReadOptions { covers: true, ..ReadOptions::default() };
    let mut ensemble = xgboost::read_with(json, options).expect("a model");
    // Of nodes that no path leads to, the reader may keep what it likes.
    for tree in &mut ensemble.trees {
        tree.covers.clear();
    }
    format!("{ensemble:?}")
}

const MODELS: [&str; 6] = ["regression", "binary", "classes", "dart", "linear", "poisson"];

#[test]
fn a_binary_model_is_what_it_is_as_json() {
    for name in MODELS {
        let json = legacy::to_json(&file(&format!("{name}.bin"))).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read(json.as_bytes()), read(&file(&format!("{name}.json"))), "{name}");
    }
}

#[test]
fn what_is_cut_or_changed_is_an_error_or_a_model() {
    for name in MODELS {
        let whole = file(&format!("{name}.bin"));
        for end in (0..whole.len()).step_by(3) {
            assert!(legacy::to_json(&whole[..end]).is_err(), "{name} {end}");
        }
        for at in (0..whole.len()).step_by(5) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            if let Ok(json) = legacy::to_json(&damaged) {
                // Takes no more than it is worth, and does not panic.
                assert!(json.len() < 100 * whole.len());
                let _ = xgboost::read(json.as_bytes());
            }
        }
    }
}
