//! Linear families against rows that are few, alike, constant, huge or tiny: each training ends, with a model that
//! predicts or with an error that says why.

use std::time::{Duration, Instant};

use crate::Error;
use crate::families::testing::given;
use crate::families::{FAMILIES, fit};
use crate::family::{Control, Family, Model, Problem, Task};
use crate::random::Random;
use crate::rows::Stop;

/// Those of this directory's linear families.
fn linear() -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().copied().filter(|family| matches!(family.form.name, "linear" | "normal_densities"))
}

/// Rows as bad as they come.
struct Rows {
    features: Vec<f32>,
    width: usize,
    labels: Vec<f32>,
    weights: Vec<f32>,
    classes: usize,
}

fn column(random: &mut Random, rows: usize) -> Vec<f32> {
    let scale = [1.0, 1.0, 1e-30, 1e30, 1e-3, 1e9][random.index(6)];
    let shift = [0.0, 0.0, 1e6, -1e30][random.index(4)];
    match random.index(5) {
        0 => vec![(scale * random.normal() + shift) as f32; rows],
        1 => (0..rows).map(|_| random.index(2) as f32).collect(),
        2 => (0..rows).map(|_| if random.index(8) == 0 { scale as f32 } else { 0.0 }).collect(),
        _ => (0..rows).map(|_| (scale * random.normal() + shift) as f32).collect(),
    }
}

impl Rows {
    fn new(random: &mut Random, task: Task) -> Rows {
        let (rows, width) = (1 + random.index(14), 1 + random.index(6));
        let mut columns: Vec<Vec<f32>> = Vec::new();
        for index in 0..width {
            let own = match index > 0 && random.index(4) == 0 {
                true => columns[random.index(index)].clone(),
                false => column(random, rows),
            };
            columns.push(own);
        }
        let features = (0..rows * width).map(|index| columns[index % width][index / width]).collect();
        let classes = if task == Task::Classification { 2 + random.index(2) } else { 0 };
        let labels: Vec<f32> = match task {
            Task::Classification => (0..rows).map(|row| (row % classes) as f32).collect(),
            _ => column(random, rows),
        };
        let mut weights: Vec<f32> = Vec::new();
        if random.index(2) == 0 {
            weights = (0..rows).map(|_| random.index(3) as f32 * random.unit() as f32).collect();
            // All rows of a class, and at least one row that counts.
            if random.index(3) == 0 {
                for (weight, label) in weights.iter_mut().zip(&labels) {
                    *weight = if *label == 1.0 { 0.0 } else { *weight };
                }
            }
            weights[0] = 1.0;
        }
        Rows { features, width, labels, weights, classes }
    }

    fn problem(&self) -> Problem<'_> {
        Problem {
            rows: self.labels.len(),
            width: self.width,
            features: &self.features,
            targets: 1,
            labels: &self.labels,
            classes: self.classes,
            weights: (!self.weights.is_empty()).then_some(&self.weights),
            categories: &[],
            one_hot: &[],
            seed: 7,
        }
    }
}

/// Trains for some seconds at most.
fn train(family: &Family, problem: &Problem<'_>, hyperparams: &str) -> Result<Model, Error> {
    let end = Instant::now() + Duration::from_secs(10);
    let mut ask = |_| if Instant::now() < end { Ok(()) } else { Err(Box::new("it takes too long") as Stop) };
    fit(family, problem, &given(family, hyperparams)?, &mut Control::new(&mut ask))
}

#[test]
fn no_rows_make_a_family_fail_badly() {
    let mut random = Random::new(20_261_122);
    let rounds = std::env::var("ATTACK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(15);
    for round in 0..rounds {
        for family in linear() {
            let rows = Rows::new(&mut random, family.task);
            let problem = rows.problem();
            // As many classes as have a row.
            if problem.rows < problem.classes {
                continue;
            }
            let bounded = family.parameters.iter().any(|parameter| parameter.name == "max_iter");
            let theil_sen = r#"{"max_subpopulation": 50}"#;
            let hyperparams = if family.name == "theil_sen" {
                theil_sen
            } else if bounded {
                r#"{"max_iter": 60}"#
            } else {
                "{}"
            };
            let case = || {
                let Rows { features, labels, weights, .. } = &rows;
                format!("{} {} in round {round}: {features:?} {labels:?} {weights:?}", family.task.name(), family.name)
            };
            match train(family, &problem, hyperparams) {
                Ok(model) => {
                    let model = crate::forms::open_new(&model).unwrap();
                    let mut values = vec![0.0; model.values()];
                    for row in 0..problem.rows {
                        model.predict(problem.row(row), &mut values);
                        assert!(!values.iter().any(|value| value.is_nan()), "{}: {values:?}", case());
                    }
                }
                Err(Error::Diverged(_) | Error::InvalidParameter { .. }) => {}
                Err(error) => panic!("{}: {error}", case()),
            }
        }
    }
}

/// Dates as seconds, keys and one-hot categories are features of very different sizes, and some are nearly sums of others.
#[test]
fn features_of_all_sizes_do_not_make_a_model_worse_than_none() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let rows = 400_u32;
        let mut features = Vec::new();
        for row in 0..rows {
            let number = f64::from(row + 1);
            let drawn = [100.0 * random.unit(), (10.0 * random.unit()).floor(), random.unit(), random.unit()];
            let steps = [1.577_836_8e9 + 86_400.0 * number, 1.577_836_8e9 + 46_800.0 * number, 3_780.0 * number];
            let keys = [number * 1_000_000_007.0, number * 1.5, number % 24.0 * 3_600.0 + number % 60.0 * 60.0 + 1.5];
            let parts = [2020.0 + (number / 366.0).floor(), 1.0 + number % 31.0, number % 7.0, number * 13.0 % 24.0];
            let months = [1.0 + (number / 30.5).floor() % 12.0, 1.0 + (number / 56.0).floor() % 12.0];
            let one_hot = |place: u32, of: u32| (0..of).map(move |each| f64::from(u8::from(place % of == each)));
            let categories =
                one_hot(row, 4).chain(one_hot(row % 60 * 7, 16)).chain(one_hot(row, 3)).chain([f64::from(row % 2)]);
            let all = drawn.into_iter().chain(steps).chain(keys).chain(parts).chain(months).chain(categories);
            features.extend(all.map(|value| value as f32));
        }
        let labels: Vec<f32> = (0..rows).map(|_| (100.0 * random.unit()) as f32).collect();
        let mean = labels.iter().sum::<f32>() / rows as f32;
        let spread: f64 = labels.iter().map(|label| f64::from(label - mean).powi(2)).sum();
        let problem = crate::families::testing::regression(&features, features.len() / rows as usize, &labels);
        for family in linear().filter(|family| ["least_angle", "bayesian_ridge"].contains(&family.name)) {
            let model = crate::forms::open_new(&train(family, &problem, "{}").unwrap()).unwrap();
            let mut value = [0.0];
            let mut errors = 0.0;
            for (row, label) in labels.iter().enumerate() {
                model.predict(problem.row(row), &mut value);
                errors += f64::from(label - value[0]).powi(2);
            }
            assert!(errors <= 1.01 * spread, "{} of seed {seed}: {errors} of {spread}", family.name);
        }
    }
}

#[test]
fn every_regressor_serves_several_targets() {
    let mut random = Random::new(3);
    let features: Vec<f32> = (0..120).map(|_| random.normal() as f32).collect();
    let sums = features.chunks(3).map(|row| row[0] - 2.0 * row[1] + 0.5 * random.normal() as f32);
    // The second target is the first with the other sign, and so are its predictions.
    let labels: Vec<f32> = sums.flat_map(|sum| [sum, -sum]).collect();
    let problem = crate::families::testing::regression(&features, 3, &labels);
    for family in linear().filter(|family| family.task == Task::Regression) {
        let model = crate::forms::open_new(&train(family, &problem, "{}").unwrap()).unwrap();
        assert_eq!(model.values(), 2, "{}", family.name);
        let mut values = [0.0; 2];
        model.predict(&[0.5, -0.5, 0.25], &mut values);
        assert!((values[0] + values[1]).abs() < 2e-3 * values[0].abs().max(1.0), "{}: {values:?}", family.name);
    }
}
