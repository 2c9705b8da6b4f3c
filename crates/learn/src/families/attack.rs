//! Tiny and odd problems, and damaged models, for families that predict by distances or kernels: whatever comes, there
//! is a model or an error, and never a panic or a training without an end.

use bytes::Bytes;

use crate::Error;
use crate::families::fit;
use crate::families::gaussian_process;
use crate::families::kernel_ridge;
use crate::families::knn;
use crate::families::svm::libsvm;
use crate::families::testing::given;
use crate::family::{Control, Family, Model, Predict, Problem, Stored, Task};
use crate::random::Random;

const FAMILIES: &[(&Family, &[&str])] = &[
    (&knn::REGRESSION, KNN),
    (&knn::CLASSIFICATION, KNN),
    (&libsvm::REGRESSION, SVM),
    (&libsvm::NU_REGRESSION, SVM),
    (&libsvm::CLASSIFICATION, SVM_OF_CLASSES),
    (&libsvm::NU_CLASSIFICATION, SVM_OF_CLASSES),
    (
        &kernel_ridge::REGRESSION,
        &["{}", r#"{"alpha": 0}"#, r#"{"kernel": "cosine"}"#, r#"{"kernel": "poly", "degree": 2.5, "coef0": -1}"#],
    ),
    (&gaussian_process::REGRESSION, GAUSSIAN),
    (&gaussian_process::CLASSIFICATION, GAUSSIAN),
];

const KNN: &[&str] = &[
    r#"{"n_neighbors": 1}"#,
    r#"{"n_neighbors": 3, "weights": "distance"}"#,
    r#"{"n_neighbors": 2, "metric": "cosine", "weights": "distance"}"#,
    r#"{"n_neighbors": 2, "metric": "minkowski", "p": 0.5}"#,
    r#"{"n_neighbors": 2, "metric": "chebyshev"}"#,
];
const SVM: &[&str] = &[
    "{}",
    r#"{"kernel": "linear", "C": 1e6, "max_iter": 2000}"#,
    r#"{"kernel": "poly", "gamma": 0}"#,
    r#"{"kernel": "sigmoid", "coef0": -3, "cache_size": 1e-6, "max_iter": 2000}"#,
];
const SVM_OF_CLASSES: &[&str] = &[
    "{}",
    r#"{"kernel": "linear", "probability": true, "max_iter": 2000}"#,
    r#"{"kernel": "sigmoid", "break_ties": true, "cache_size": 1e-6, "max_iter": 2000}"#,
];
const GAUSSIAN: &[&str] = &["{}", r#"{"kernel": "matern", "nu": 2.5}"#, r#"{"kernel": "rational_quadratic"}"#];

/// Few values, so that there are equal rows, constant columns and, seldom, very large numbers.
fn problem_of<'a>(
    random: &mut Random,
    family: &Family,
    features: &'a mut Vec<f32>,
    labels: &'a mut Vec<f32>,
    weights: &'a mut Vec<f32>,
) -> Problem<'a> {
    let (rows, width) = (1 + random.index(40), 1 + random.index(4));
    let scale = [1.0, 1e-20, 1e10, 3e38, 0.0][random.index(5).min(random.index(8))];
    let kinds = 1 + random.index(4);
    *features = (0..rows * width).map(|_| (random.index(kinds) as f32 - 1.0) / 2.0 * scale).collect();
    let classes = 1 + random.index(rows.min(4));
    *labels = match family.task {
        // Each class has a row.
        Task::Classification => (0..rows).map(|row| (row % classes) as f32).collect(),
        _ => (0..rows).map(|_| random.normal() as f32 * scale.min(1e20)).collect(),
    };
    *weights = (0..rows).map(|_| random.index(3) as f32).collect();
    weights[0] = 1.0;
    Problem {
        rows,
        width,
        features,
        targets: 1,
        labels,
        classes: if family.task == Task::Classification { classes } else { 0 },
        weights: (random.index(3) == 0 && family.takes_weights).then_some(weights),
        categories: &[],
        one_hot: &[],
        seed: random.bits(),
    }
}

fn predict(model: &dyn Predict, features: &[f32]) {
    let mut values = vec![0.0; features.len() / model.width() * model.values()];
    model.predict_rows(features, &mut values);
}

/// Overwrites some bytes, most of them behind the header.
fn damage(random: &mut Random, model: &Model) -> Vec<u8> {
    let mut bytes = model.to_bytes(&[]).unwrap();
    for _ in 0..1 + random.index(4) {
        let at = random.index(bytes.len());
        bytes[at] = match random.index(3) {
            0 => b'0' + random.index(10) as u8,
            1 => 0xff,
            _ => random.bits() as u8,
        };
    }
    bytes
}

fn attack(times: usize, seed: u64) {
    let mut random = Random::new(seed);
    let (mut features, mut labels, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for time in 0..times {
        let (family, hyperparams) = FAMILIES[random.index(FAMILIES.len())];
        let hyperparams = hyperparams[random.index(hyperparams.len())];
        let problem = problem_of(&mut random, family, &mut features, &mut labels, &mut weights);
        let mut checks = 0u32;
        let mut ask = |_| {
            checks += 1;
            assert!(checks < 100_000, "{} {hyperparams} does not end: time {time}", family.name);
            Ok(())
        };
        let fitted = fit(family, &problem, &given(family, hyperparams).unwrap(), &mut Control::new(&mut ask));
        let model = match fitted {
            Ok(model) => model,
            Err(Error::Diverged(_) | Error::InvalidParameter { .. }) => continue,
            Err(error) => panic!("{} {hyperparams}: {error}", family.name),
        };
        let opened = crate::forms::open_new(&model).unwrap();
        assert_eq!(opened.width(), problem.width);
        let expected = if problem.classes > 0 { problem.classes } else { 1 };
        assert_eq!(opened.values(), expected, "{} {hyperparams}", family.name);
        predict(&*opened, problem.features);
        for _ in 0..8 {
            let bytes = Bytes::from(damage(&mut random, &model));
            if let Ok(opened) = Stored::read(bytes).and_then(|stored| crate::forms::open(&stored)) {
                // A model without support vectors may be of any width.
                if opened.width() < 1 << 20 {
                    assert!(opened.values() <= problem.rows.max(2), "{} {hyperparams}", family.name);
                    predict(&*opened, &vec![0.5; opened.width()]);
                }
            }
        }
    }
}

#[test]
fn odd_problems_and_damaged_models_end_in_a_model_or_an_error() {
    attack(400, 1);
}

/// For longer: `cargo test -p learn --release attack -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn many_odd_problems_and_damaged_models_end_in_a_model_or_an_error() {
    attack(20_000, 2);
}
