//! How fast predictions are explained, beside the real XGBoost's `pred_contribs` on one thread in the same process.
//!
//! `cargo bench -p forest --bench explain` prints the time a row at 25 and 100 trees of depth 4, 6 and 10, for one row at
//! a time and for many at once, and how many times faster than XGBoost it is. Both take turns, so that a noisy machine is
//! unfair to both alike; the least of several turns counts, in processor time of the thread.

#![allow(clippy::panic, clippy::expect_used, reason = "a bench fails as a test does")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;

use common::{DMatrix, Spec, cpu_seconds, random_model};
use forest::Explainer;
use forest::xgboost::{ReadOptions, read_with};

const FEATURES: usize = 11;
const TURNS: usize = 4;

/// The time a row, of as many calls as a tenth of a second takes.
fn microseconds(rows: usize, call: &mut dyn FnMut()) -> f64 {
    let (start, mut calls) = (cpu_seconds(), 0);
    loop {
        call();
        calls += 1;
        let passed = cpu_seconds() - start;
        if passed > 0.1 {
            return passed * 1e6 / (calls * rows) as f64;
        }
    }
}

fn main() {
    println!("depth trees  rows  xgboost us/row  us/row  times faster");
    for depth in [4, 6, 10] {
        let extra = vec![("eta", "0.1".to_owned())];
        let spec =
            Spec { features: FEATURES, rows: 20_000, depth, rounds: 100, missing: 0.05, extra, ..Spec::default() };
        let model = random_model(depth as u64, &spec);
        for trees in [25, 100] {
            let options = ReadOptions { covers: true, ..ReadOptions::default() };
            let mut ensemble = read_with(&model.ubj, options).expect("a model");
            ensemble.trees.truncate(trees);
            let explainer = Explainer::new(&ensemble).expect("a model with covers");
            for count in [1, 100] {
                let rows = &model.rows[..count * FEATURES];
                let matrix = DMatrix::new(rows, FEATURES).expect("a matrix");
                let mut out = vec![0.0; count * explainer.num_values()];
                let (mut theirs, mut ours) = (f64::INFINITY, f64::INFINITY);
                for _ in 0..TURNS {
                    theirs = theirs.min(microseconds(count, &mut || {
                        black_box(model.booster.contributions(&matrix, trees).expect("contributions"));
                    }));
                    ours = ours.min(microseconds(count, &mut || {
                        explainer.explain(black_box(rows), &mut out, || {}).expect("rows");
                    }));
                }
                println!("{depth:5} {trees:5} {count:5} {theirs:15.1} {ours:7.1} {:13.1}", theirs / ours);
            }
        }
    }
}
