//! The float matrix never exists whole. Alone in its process, since the peak is the process's.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::*;
use learn::rows::{Chunk, Rows, Stop};
use learn::xgboost::{Task, train};
use serde_json::json;

const WIDTH: usize = 40;
const ROWS: usize = 400_000;
const CHUNK: usize = 10_000;

/// Rows that are made up as they are asked for.
struct MadeUp {
    random: Random,
    left: usize,
    features: Vec<f32>,
    labels: Vec<f32>,
}

impl Rows for MadeUp {
    fn width(&self) -> usize {
        WIDTH
    }

    fn rewind(&mut self) -> Result<(), Stop> {
        self.random = Random::new(1);
        self.left = ROWS;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= CHUNK;
        self.features.clear();
        self.features.extend((0..CHUNK * WIDTH / 4).flat_map(|_| {
            let bits = self.random.bits();
            [bits, bits >> 16, bits >> 32, bits >> 48].map(|bits| (bits & 0xfff) as f32)
        }));
        self.labels.clear();
        self.labels.extend(self.features.chunks(WIDTH).map(|row| row[0] + row[1]));
        Ok(Some(Chunk { features: &self.features, labels: &self.labels, weights: None }))
    }
}

fn status_kilobytes(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    value.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn training_takes_less_memory_than_the_rows_would() {
    let library = library();
    let params = parse(Task::Regression, json!({"n_estimators": 3, "max_depth": 4, "nthread": 2})).unwrap();
    let columns = learn::xgboost::Columns::new(
        (0..WIDTH)
            .map(|i| learn::xgboost::Column { name: format!("c{i}"), kind: learn::xgboost::ColumnKind::Quantitative })
            .collect(),
    )
    .unwrap();
    let mut rows = MadeUp { random: Random::new(1), left: 0, features: Vec::new(), labels: Vec::new() };
    let before = status_kilobytes("VmRSS:");
    let trained = train(&library, &params, &columns, &mut rows, None, &[], &mut quiet).unwrap();
    assert_eq!(trained.rows, ROWS as u64);
    let peak = status_kilobytes("VmHWM:") - before;
    let matrix = ROWS * WIDTH * 4 / 1024;
    println!("peak {} MB, the matrix would be {} MB, {:?}", peak / 1024, matrix / 1024, trained.elapsed);
    assert!(peak < matrix, "{peak} kB at the peak, {matrix} kB of features");
}
