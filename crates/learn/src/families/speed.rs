//! How long families take that predict by distances or kernels, on 20,000 rows of 20 features and on digits:
//!
//!     cargo test -p learn --release --lib families::speed -- --ignored --nocapture
//!     python crates/learn/oracle/speed.py

use std::time::Instant;

use crate::families::fit;
use crate::families::knn;
use crate::families::svm::libsvm;
use crate::families::testing::{classification, data_set, given, regression, split};
use crate::family::{Control, Family, Task};
use crate::random::Random;

const ROWS: usize = 20_000;
const WIDTH: usize = 20;

/// The rows of `oracle/speed.py`: features of variance 1, and a number that is no linear function of them.
fn rows() -> (Vec<f32>, Vec<f32>) {
    let mut random = Random::new(0);
    let features: Vec<f32> = (0..ROWS * WIDTH).map(|_| ((2.0 * random.unit() - 1.0) * 3f64.sqrt()) as f32).collect();
    let labels = features
        .chunks(WIDTH)
        .map(|row| {
            let [a, b, c] = [row[0], row[1], row[2]].map(f64::from);
            ((2.0 * a).sin() + b * c + 0.5 * (2.0 * random.unit() - 1.0)) as f32
        })
        .collect();
    (features, labels)
}

fn measure(data: &str, family: &Family, width: usize, train: &(Vec<f32>, Vec<f32>), test: &[f32]) {
    let problem = match family.task {
        Task::Classification => classification(&train.0, width, &train.1),
        _ => regression(&train.0, width, &train.1),
    };
    let begun = Instant::now();
    let mut ask = |_| Ok(());
    let model = fit(family, &problem, &given(family, "{}").unwrap(), &mut Control::new(&mut ask)).unwrap();
    let fitted = begun.elapsed();
    let model = crate::forms::open_new(&model).unwrap();
    let mut values = vec![0.0; test.len() / width * model.values()];
    let begun = Instant::now();
    model.predict_rows(test, &mut values);
    let (name, task) = (family.name, family.task.name());
    println!("{data} {task} {name}: fit {:.3} s, predict {:.3} s", fitted.as_secs_f64(), begun.elapsed().as_secs_f64());
}

#[test]
#[ignore = "measures"]
fn how_long_it_takes() {
    let (features, labels) = rows();
    let (mut train, test) = split(&features, WIDTH, &labels);
    for family in [&knn::REGRESSION, &libsvm::REGRESSION, &libsvm::NU_REGRESSION] {
        measure("20000x20", family, WIDTH, &train, &test.0);
    }
    train.1.iter_mut().for_each(|label| *label = f32::from(u8::from(*label > 0.0)));
    for family in [&knn::CLASSIFICATION, &libsvm::CLASSIFICATION, &libsvm::NU_CLASSIFICATION] {
        measure("20000x20", family, WIDTH, &train, &test.0);
    }
    let (features, width, labels) = data_set("digits");
    let (train, test) = split(&features, width, &labels);
    for family in [&knn::CLASSIFICATION, &libsvm::CLASSIFICATION, &libsvm::NU_CLASSIFICATION] {
        measure("digits", family, width, &train, &test.0);
    }
}
