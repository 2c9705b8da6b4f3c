//! How fast rows are predicted, beside the real XGBoost on one thread in the same process.
//!
//! `cargo bench -p forest --bench predict` measures with Criterion: one row, batches of 20, 1000 and 100,000; 25, 100
//! and 1000 trees of depth 4, 6, 10 and 16. `HOWDAH_BENCH=quick` keeps to 25 and 100 trees of depth 6;
//! `HOWDAH_BENCH=ratios` prints instead how many times faster than XGBoost each kernel is, taking turns so that a noisy
//! machine is unfair to all alike; numbers are other depths. `HOWDAH_BENCH=ratios,quick,7,8` is all of these.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a bench fails as a test does")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Duration;

use common::{Model, Spec, cpu_seconds, random_model};
use criterion::{BenchmarkId, Criterion, Throughput};
use forest::{Ensemble, Forest, Form, Kernel, compile_as, xgboost};

const FEATURES: usize = 11;
const BATCHES: [usize; 4] = [1, 20, 1000, 100_000];

/// An image as a mapping has it: at the beginning of a page.
struct Page {
    bytes: Vec<u8>,
    start: usize,
}

impl Page {
    fn new(image: &[u8]) -> Self {
        let mut bytes = vec![0; image.len() + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        bytes[start..start + image.len()].copy_from_slice(image);
        bytes.truncate(start + image.len());
        Self { bytes, start }
    }
}

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

// SAFETY: nobody else can reach the bytes, which lie on the heap.
unsafe impl forest::ImageBytes for Page {}

/// One model, and all that predict it.
struct Case {
    depth: usize,
    trees: usize,
    kernels: Vec<(&'static str, Forest<Page>)>,
}

fn kernels(ensemble: &Ensemble) -> Vec<(&'static str, Forest<Page>)> {
    let mut kernels = Vec::new();
    for form in [Form::Rank, Form::Compact] {
        for kernel in [Kernel::Rank, Kernel::Scalar] {
            let image = compile_as(ensemble, &[], form).expect("a model that compiles");
            let forest = Forest::open(Page::new(&image)).expect("a sound image");
            if let Some(forest) = forest.with_kernel(kernel) {
                let name = match (kernel, form) {
                    (Kernel::Rank, _) => "ranks",
                    (Kernel::Scalar, Form::Compact) => "compact walks",
                    (Kernel::Scalar, _) => "walks",
                };
                kernels.push((name, forest));
            }
        }
    }
    kernels
}

fn train(depth: usize, rounds: usize) -> (Model, Ensemble) {
    let rows = if depth > 6 { 30_000 } else { 50_000 };
    let extra = vec![("max_leaves", "2000".to_owned()), ("eta", "0.1".to_owned())];
    let spec = Spec { features: FEATURES, rows, depth, rounds, missing: 0.05, extra, ..Spec::default() };
    let model = random_model(depth as u64, &spec);
    let ensemble = xgboost::read(&model.ubj).expect("a model of the library");
    (model, ensemble)
}

fn each_case(quick: bool, mut run: impl FnMut(&Case, &Model, &[f32])) {
    let mode = std::env::var("HOWDAH_BENCH").unwrap_or_default();
    let mut depths: Vec<usize> = mode.split(',').filter_map(|word| word.parse().ok()).collect();
    if depths.is_empty() {
        depths = if quick { vec![6] } else { vec![4, 6, 8, 10, 16] };
    }
    for depth in depths {
        let counts: &[usize] = if quick { &[25, 100] } else { &[25, 100, 1000] };
        let (model, ensemble) = train(depth, counts[counts.len() - 1]);
        let rows: Vec<f32> = model.rows.iter().copied().cycle().take(BATCHES[3] * FEATURES).collect();
        for &trees in counts {
            let mut ensemble = ensemble.clone();
            ensemble.trees.truncate(trees);
            run(&Case { depth, trees, kernels: kernels(&ensemble) }, &model, &rows);
        }
    }
}

/// A part of the rows to predict: another at each call, so that no branch is learnt by heart.
fn part<'a>(rows: &'a [f32], batch: usize, turn: &mut usize) -> &'a [f32] {
    *turn = (*turn + batch) % (rows.len() / FEATURES - batch + 1).min(5000);
    &rows[*turn * FEATURES..(*turn + batch) * FEATURES]
}

fn predict(forest: &Forest<Page>, rows: &[f32], out: &mut [f32]) {
    if rows.len() == FEATURES {
        forest.predict_row(rows, out).expect("a row");
    } else {
        forest.predict_batch(rows, out).expect("rows");
    }
}

fn criterion(quick: bool) {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(if quick { 500 } else { 1000 }))
        .without_plots();
    each_case(quick, |case, model, rows| {
        for batch in BATCHES {
            let mut group = criterion.benchmark_group(format!("depth-{}/trees-{}", case.depth, case.trees));
            group.throughput(Throughput::Elements(batch as u64));
            let (mut turn, mut out) = (0, vec![0.0; batch]);
            group.bench_function(BenchmarkId::new("xgboost", batch), |bencher| {
                bencher.iter(|| {
                    let rows = part(rows, batch, &mut turn);
                    model.booster.predict(black_box(rows), FEATURES, false, case.trees)
                });
            });
            for (name, forest) in &case.kernels {
                group.bench_function(BenchmarkId::new(*name, batch), |bencher| {
                    bencher.iter(|| predict(forest, black_box(part(rows, batch, &mut turn)), &mut out));
                });
            }
            group.finish();
        }
    });
    criterion.final_summary();
}

/// The least of several turns, in nanoseconds a row.
fn ratios(quick: bool) {
    println!("depth trees batch  xgboost ns/row  times faster (ns/row)");
    each_case(quick, |case, model, rows| {
        for batch in BATCHES {
            let mut turn = 0;
            let mut out = vec![0.0; batch];
            let mut least = vec![f64::INFINITY; 1 + case.kernels.len()];
            for _ in 0..5 {
                let time = |calls: usize, call: &mut dyn FnMut()| {
                    let start = cpu_seconds();
                    (0..calls).for_each(|_| call());
                    (cpu_seconds() - start) * 1e9 / (calls * batch) as f64
                };
                let calls = (400_000 / case.trees / batch).clamp(1, 1000);
                least[0] = least[0].min(time(calls, &mut || {
                    let rows = part(rows, batch, &mut turn);
                    black_box(model.booster.predict(black_box(rows), FEATURES, false, case.trees)).expect("rows");
                }));
                let calls = (3_000_000 / case.trees / batch).max(1);
                for ((_, forest), least) in case.kernels.iter().zip(&mut least[1..]) {
                    *least = least
                        .min(time(calls, &mut || predict(forest, black_box(part(rows, batch, &mut turn)), &mut out)));
                }
            }
            print!("{:5} {:5} {batch:6} {:10.0}    ", case.depth, case.trees, least[0]);
            for ((name, _), ns) in case.kernels.iter().zip(&least[1..]) {
                print!("  {name} {:.1}x ({ns:.0})", least[0] / ns);
            }
            println!();
        }
    });
}

fn main() {
    let mode = std::env::var("HOWDAH_BENCH").unwrap_or_default();
    let quick = mode.split(',').any(|word| word == "quick");
    if mode.split(',').any(|word| word == "ratios") { ratios(quick) } else { criterion(quick) }
}
