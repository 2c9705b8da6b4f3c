//! What the tests against the real library share.
#![allow(dead_code, reason = "no test needs all of it")]

use std::path::PathBuf;

use learn::Error;
use learn::rows::{Chunk, Rows, Stop};
use learn::xgboost::{Algorithm, Column, ColumnKind, Columns, Library, Params, Round, Task, Trained, train};
use serde_json::{Map, Value};

/// The real library, or a failure that says how to get it.
pub fn library() -> Library {
    let path = std::env::var_os("HOWDAH_XGBOOST_LIB").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/xgboost/xgboost/lib/libxgboost.so")),
        PathBuf::from,
    );
    assert!(path.exists(), "there is no XGBoost at {}: run `make setup`", path.display());
    Library::open(&path).unwrap()
}

/// Rows in memory, given in chunks, and counted.
#[derive(Clone)]
pub struct Memory {
    pub width: usize,
    pub features: Vec<f32>,
    pub labels: Vec<f32>,
    pub weights: Option<Vec<f32>>,
    pub chunk: usize,
    pub at: usize,
    pub passes: usize,
    pub calls: usize,
}

impl Memory {
    pub fn new(width: usize, features: Vec<f32>, labels: Vec<f32>) -> Memory {
        assert_eq!(features.len(), labels.len() * width);
        Memory { width, features, labels, weights: None, chunk: 100, at: 0, passes: 0, calls: 0 }
    }
}

impl Rows for Memory {
    fn width(&self) -> usize {
        self.width
    }

    fn rewind(&mut self) -> Result<(), Stop> {
        self.at = 0;
        self.passes += 1;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop> {
        self.calls += 1;
        let (from, to) = (self.at, (self.at + self.chunk).min(self.labels.len()));
        if from == to {
            return Ok(None);
        }
        self.at = to;
        Ok(Some(Chunk {
            features: &self.features[from * self.width..to * self.width],
            labels: &self.labels[from..to],
            weights: self.weights.as_ref().map(|weights| &weights[from..to]),
        }))
    }
}

/// A small generator of random numbers (xorshift64*), so that data are the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to below 1.
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 24) as f32
    }
}

/// `rows` rows of `width` uniform features, labelled by `label`, which may draw noise.
pub fn data(rows: usize, width: usize, seed: u64, label: impl Fn(&[f32], &mut Random) -> f32) -> Memory {
    let mut random = Random::new(seed);
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let row: Vec<f32> = (0..width).map(|_| random.unit()).collect();
        labels.push(label(&row, &mut random));
        features.extend(row);
    }
    Memory::new(width, features, labels)
}

/// Something to learn: a step, a slope and a product.
pub fn wavy(rows: usize, seed: u64) -> Memory {
    data(rows, 4, seed, |x, random| {
        let step = if x[0] > 0.5 { 3.0 } else { 0.0 };
        step + 2.0 * x[1] + 4.0 * x[2] * x[3] + 0.1 * random.unit()
    })
}

/// Columns a, b, c, ... of numbers.
pub fn numbers(width: usize) -> Columns {
    named((0..width).map(|_| ColumnKind::Quantitative).collect())
}

pub fn named(kinds: Vec<ColumnKind>) -> Columns {
    let name = |i: usize| char::from(b'a' + i as u8).to_string();
    Columns::new(kinds.into_iter().enumerate().map(|(i, kind)| Column { name: name(i), kind }).collect()).unwrap()
}

pub fn object(json: Value) -> Map<String, Value> {
    json.as_object().unwrap().clone()
}

pub fn parse(task: Task, json: Value) -> Result<Params, Error> {
    let mut params = Params::parse(Algorithm::Xgboost, task, &object(json))?;
    // Tests run side by side, and threads that wait for one another on busy processors are slow.
    params.default_nthread(1);
    Ok(params)
}

/// Trains without evaluation rows.
pub fn fit(library: &Library, task: Task, json: Value, columns: &Columns, rows: &Memory) -> Trained {
    let params = parse(task, json).unwrap();
    train(library, &params, columns, &mut rows.clone(), None, &[], &mut quiet).unwrap()
}

pub fn quiet(_: &Round<'_>) -> Result<(), Stop> {
    Ok(())
}

pub fn mean_squared_error(library: &Library, model: &[u8], rows: &Memory) -> f64 {
    let predicted = library.predict(model, &rows.features, rows.width, false).unwrap();
    assert_eq!(predicted.len(), rows.labels.len());
    let squares = predicted.iter().zip(&rows.labels).map(|(p, y)| f64::from(p - y).powi(2));
    squares.sum::<f64>() / rows.labels.len() as f64
}

pub fn variance(rows: &Memory) -> f64 {
    let mean = rows.labels.iter().map(|&y| f64::from(y)).sum::<f64>() / rows.labels.len() as f64;
    rows.labels.iter().map(|&y| (f64::from(y) - mean).powi(2)).sum::<f64>() / rows.labels.len() as f64
}
