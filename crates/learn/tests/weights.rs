//! What a row weighs counts in every family that says so, and is refused by every other.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use learn::families::{FAMILIES, fit};
use learn::family::{Control, Family, Given, Problem, Task};
use serde_json::Map;

const WIDTH: usize = 3;
const CLEAN: usize = 160;

/// Rows on a plane, or in three classes, and behind them as many whose labels are wrong.
fn rows(task: Task) -> (Vec<f32>, Vec<f32>) {
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    let mut state = 9_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1 << 24) as f32) * 4.0 - 2.0
    };
    for row in 0..2 * CLEAN {
        let (a, b, c) = (next(), next(), next());
        features.extend([a, b, c]);
        let wrong = row >= CLEAN;
        labels.push(match task {
            Task::Classification => {
                let class = if a > 0.7 {
                    0.0
                } else if b > 0.0 {
                    1.0
                } else {
                    2.0
                };
                if wrong { (class + 1.0) % 3.0 } else { class }
            }
            _ => (3.0 * a - 2.0 * b) * if wrong { -1.0 } else { 1.0 } + 0.05 * next(),
        });
    }
    (features, labels)
}

fn predictions(family: &'static Family, rows: usize, weights: Option<&[f32]>) -> Result<Vec<f32>, learn::Error> {
    let (features, labels) = rows_of(family, rows);
    let classes = if family.task == Task::Classification { 3 } else { 0 };
    let problem = Problem {
        rows,
        width: WIDTH,
        features: &features,
        targets: 1,
        labels: &labels,
        classes,
        weights,
        categories: &[],
        one_hot: &[],
        seed: 7,
    };
    let given = Given::check(family.parameters, &Map::new())?;
    let model = fit(family, &problem, &given, &mut Control::new(&mut |_| Ok(())))?;
    let predict = learn::forms::open_new(&model)?;
    let mut values = vec![0.0; CLEAN * predict.values()];
    predict.predict_rows(&features[..CLEAN * WIDTH], &mut values);
    Ok(values)
}

fn rows_of(family: &Family, count: usize) -> (Vec<f32>, Vec<f32>) {
    let (mut features, mut labels) = rows(family.task);
    features.truncate(count * WIDTH);
    labels.truncate(count);
    (features, labels)
}

fn distance(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / one.len() as f64
}

#[test]
fn rows_that_weigh_nothing_move_a_model_little() {
    let library = std::env::var_os("HOWDAH_LIGHTGBM_LIB").map_or_else(
        || concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/lightgbm/lightgbm/lib/lib_lightgbm.so").into(),
        std::path::PathBuf::from,
    );
    assert!(library.exists(), "there is no LightGBM at {}: run `make setup`", library.display());
    learn::lightgbm::set_library(library);
    let mut weights = vec![1.0; CLEAN];
    weights.resize(2 * CLEAN, 0.0);
    let mut wrong = Vec::new();
    for family in FAMILIES.iter().filter(|family| matches!(family.task, Task::Regression | Task::Classification)) {
        let clean = predictions(family, CLEAN, None).unwrap();
        let misled = predictions(family, 2 * CLEAN, None).unwrap();
        let name = format!("{} ({})", family.name, family.task.name());
        match predictions(family, 2 * CLEAN, Some(&weights)) {
            Ok(weighted) => {
                let (near, far) = (distance(&clean, &weighted), distance(&clean, &misled));
                if !family.takes_weights || near > 0.5 * far {
                    wrong.push(format!("{name}: {near:.4} of {far:.4}"));
                }
            }
            Err(error) if family.takes_weights => wrong.push(format!("{name}: {error}")),
            Err(error) => assert!(error.to_string().contains("takes no weights"), "{error}"),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
