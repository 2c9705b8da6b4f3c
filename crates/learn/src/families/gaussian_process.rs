//! Gaussian processes (Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006): of regression the
//! mean (their algorithm 2.1), of classification Laplace's approximation (3.1), of several classes each against the rest.

use faer::Mat;

use crate::Error;
use crate::families::common::{POSITIVE, RANDOM_STATE, ignored, seed, takes};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task, large_zeros, zeros};
use crate::forms::kernel::{self, Link, Parts};
use crate::forms::laplace::{self, Binary};
use crate::numerics::cholesky::{Cholesky, gram};
use crate::numerics::kernel::{Kernel, Shape};
use crate::numerics::simplex;
use crate::numerics::tiles::Tiles;
use crate::random::Random;

/// Rows up to which there is a regression: their kernels with one another take 3.2 GB.
const MOST: usize = 20_000;

/// Elements of the factors of a classification's model, 256 MB, which bound its rows.
const MOST_ELEMENTS: usize = 1 << 25;

/// Between which, as logarithms, hyperparameters of kernels are searched.
const BOUNDS: (f64, f64) = (-11.512_925_464_970_229, 11.512_925_464_970_229);

/// How often the likelihood is worked out in a search.
const EVALUATIONS: usize = 100;

/// `gaussian_process` in regression, as scikit-learn's GaussianProcessRegressor.
pub(crate) const REGRESSION: Family = Family {
    name: "gaussian_process",
    task: Task::Regression,
    parameters: &[
        KERNEL,
        LENGTH_SCALE,
        NU,
        SCALE_MIXTURE,
        takes(
            "alpha",
            Kind::Number(0.0, f64::INFINITY),
            "1e-10",
            "The variance of the noise in the labels, which also keeps the training exact.",
        ),
        OPTIMIZER,
        RESTARTS,
        takes(
            "normalize_y",
            Kind::Flag,
            "false",
            "Whether the labels are scaled to mean 0 and standard deviation 1 first.",
        ),
        ignored("copy_X_train", "true"),
        ignored("n_targets", "null"),
        RANDOM_STATE,
    ],
    joint: true,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: regress,
    form: &kernel::FORM,
};

/// `gaussian_process` in classification, as scikit-learn's GaussianProcessClassifier.
pub(crate) const CLASSIFICATION: Family = Family {
    name: "gaussian_process",
    task: Task::Classification,
    parameters: &[
        KERNEL_OF_CLASSES,
        LENGTH_SCALE,
        NU,
        SCALE_MIXTURE,
        OPTIMIZER,
        RESTARTS,
        takes(
            "max_iter_predict",
            Kind::Integer(1, i32::MAX as i64),
            "100",
            "The maximum number of Newton steps for Laplace's approximation.",
        ),
        takes(
            "multi_class",
            Kind::Choice(&["one_vs_rest"]),
            "\"one_vs_rest\"",
            "The method by which several classes are reduced to two.",
        ),
        ignored("warm_start", "false"),
        ignored("copy_X_train", "true"),
        ignored("n_jobs", "null"),
        RANDOM_STATE,
    ],
    joint: false,
    fit: classify,
    form: &laplace::FORM,
    takes_weights: false,
    ..REGRESSION
};

const KERNELS: Kind = Kind::OrNull(&Kind::Choice(&["rbf", "matern", "rational_quadratic"]));
const KERNEL: Parameter = takes(
    "kernel",
    KERNELS,
    "null",
    "The kernel, which is the similarity of two rows; null for rbf times a constant, which is optimized too. Since all rows \
     are compared with each other, there may be 20,000 rows at most.",
);
const KERNEL_OF_CLASSES: Parameter = takes(
    "kernel",
    KERNELS,
    "null",
    "The kernel, which is the similarity of two rows; null for rbf with the given length scale, which is not optimized then. \
     Since all rows are compared with each other, there may be 8,192 rows at most, and with n > 2 classes 8,192 / √n.",
);
const LENGTH_SCALE: Parameter =
    takes("length_scale", POSITIVE, "1.0", "The length scale of the kernel; the initial value of the optimization.");
const NU: Parameter =
    takes("nu", Kind::Number(0.5, 2.5), "1.5", "The smoothness of the kernel matern: 0.5, 1.5 or 2.5.");
const SCALE_MIXTURE: Parameter = takes(
    "scale_mixture",
    POSITIVE,
    "1.0",
    "The mixture of length scales in the kernel rational_quadratic (alpha of scikit-learn's RationalQuadratic); the initial \
     value of the optimization.",
);
const OPTIMIZER: Parameter = takes(
    "optimizer",
    Kind::OrNull(&Kind::Choice(&["fmin_l_bfgs_b"])),
    "\"fmin_l_bfgs_b\"",
    "Null keeps the kernel's parameters as given; otherwise they are optimized by their marginal likelihood, by a method of its own.",
);
const RESTARTS: Parameter = takes(
    "n_restarts_optimizer",
    Kind::Integer(0, 1000),
    "0",
    "The number of restarts of the optimizer, from random parameters of the kernel.",
);

/// A kernel whose constants may be searched for.
struct Search {
    shape: Shape,
    /// Logarithms of the length scale, then of a mixture or a constant, where there is one.
    start: Vec<f64>,
    has_mixture: bool,
    has_constant: bool,
    /// How often; 0 where the kernel stays as it is.
    times: usize,
    seed: u64,
}

impl Search {
    fn new(problem: &Problem<'_>, given: &Given) -> Result<Search, Error> {
        let shape = match given.word("kernel") {
            "matern" => match given.number("nu") {
                0.5 => Shape::Matern12,
                1.5 => Shape::Matern32,
                2.5 => Shape::Matern52,
                _ => return Err(given.refuse("nu", "0.5, 1.5 or 2.5")),
            },
            "rational_quadratic" => Shape::RationalQuadratic,
            _ => Shape::Rbf,
        };
        let (default, classes) = (given.word("kernel").is_empty(), problem.classes > 0);
        let (has_mixture, has_constant) = (shape == Shape::RationalQuadratic, default && !classes);
        let mut start = vec![given.number("length_scale").ln()];
        if has_mixture {
            start.push(given.number("scale_mixture").ln());
        }
        if has_constant {
            start.push(0.0);
        }
        let fixed = given.word("optimizer").is_empty() || (default && classes);
        let times = if fixed { 0 } else { 1 + given.count("n_restarts_optimizer") };
        Ok(Search { shape, start, has_mixture, has_constant, times, seed: seed(problem, given) })
    }

    /// The kernel at a point of the search, and its constant.
    fn kernel(&self, at: &[f64]) -> (Kernel, f64) {
        let length = at[0].exp();
        let second = at.get(1).map_or(1.0, |second| second.exp());
        let mixture = if self.has_mixture { second } else { 1.0 };
        let gamma = match self.shape {
            Shape::Matern12 => 1.0 / length,
            Shape::Matern32 => 3f64.sqrt() / length,
            Shape::Matern52 => 5f64.sqrt() / length,
            Shape::RationalQuadratic => 0.5 / (mixture * length * length),
            _ => 0.5 / (length * length),
        };
        let kernel = Kernel { shape: self.shape, gamma, coef0: 0.0, degree: mixture };
        (kernel, if self.has_constant { second } else { 1.0 })
    }

    /// The kernel of the least cost, and its constant.
    fn best(&self, cost: &mut dyn FnMut(&Kernel, f64) -> Result<f64, Error>) -> Result<(Kernel, f64), Error> {
        let mut random = Random::new(self.seed);
        let mut best = (self.start.clone(), f64::INFINITY);
        for time in 0..self.times {
            let start: Vec<f64> = match time {
                0 => self.start.clone(),
                _ => self.start.iter().map(|_| BOUNDS.0 + (BOUNDS.1 - BOUNDS.0) * random.unit()).collect(),
            };
            let found = simplex::least(&start, BOUNDS, EVALUATIONS, &mut |at| {
                let (kernel, constant) = self.kernel(at);
                cost(&kernel, constant)
            })?;
            if found.1 < best.1 {
                best = found;
            }
        }
        Ok(self.kernel(&best.0))
    }
}

fn regress(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    problem.at_most("gaussian_process", MOST)?;
    let search = Search::new(problem, given)?;
    let order: Vec<usize> = (0..problem.rows).collect();
    let tiles = Tiles::of(Tiles::pack(problem.features, problem.width, &order)?, problem.rows, problem.width);
    let mut labels = zeros(problem.rows, problem.targets)?;
    let mut scales = Vec::with_capacity(problem.targets);
    for target in 0..problem.targets {
        let values = problem.target(target);
        let (mut mean, mut deviation) = (0.0, 1.0);
        if given.flag("normalize_y") {
            mean = values.iter().sum::<f64>() / values.len() as f64;
            deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
            if deviation <= 10.0 * f64::EPSILON * mean.abs() {
                deviation = 1.0;
            }
        }
        for (row, value) in values.iter().enumerate() {
            labels[(row, target)] = (value - mean) / deviation;
        }
        scales.push((mean, deviation));
    }
    let alpha = given.number("alpha");
    let factor = |kernel: &Kernel, constant: f64, control: &mut Control<'_>| {
        let mut matrix = gram(kernel, &tiles, control)?;
        for column in 0..problem.rows {
            control.check()?;
            matrix.col_as_slice_mut(column).iter_mut().for_each(|value| *value *= constant);
            matrix[(column, column)] += alpha;
        }
        Cholesky::new(matrix, control)
    };
    let (kernel, constant) = search.best(&mut |kernel, constant| {
        let Some(cholesky) = factor(kernel, constant, control)? else { return Ok(f64::INFINITY) };
        let mut half = labels.clone();
        cholesky.forward(&mut half, control)?;
        // Less what does not depend on the kernel.
        Ok(half.squared_norm_l2() / 2.0 + cholesky.log_determinant() * problem.targets as f64)
    })?;
    let Some(cholesky) = factor(&kernel, constant, control)? else {
        return Err(
            given.refuse("alpha", "with this value the kernel matrix is not positive definite; a larger value helps")
        );
    };
    cholesky.solve(&mut labels, control)?;
    let mut duals = Vec::with_capacity(problem.rows * problem.targets);
    for row in 0..problem.rows {
        let each = scales.iter().enumerate();
        duals.extend(each.map(|(target, (_, deviation))| labels[(row, target)] * deviation * constant));
    }
    let model = kernel::model(Parts {
        kernel,
        tiles: Tiles::pack(problem.features, problem.width, &order)?,
        rows: problem.rows,
        width: problem.width,
        duals,
        intercepts: scales.iter().map(|(mean, _)| *mean).collect(),
        link: Link::Values,
    })?;
    Ok(told_of_weights(problem, model))
}

/// Says that weights have no effect, as in scikit-learn.
fn told_of_weights(problem: &Problem<'_>, model: Model) -> Model {
    match problem.weights {
        None => model,
        Some(_) => model.warn("algorithm \"gaussian_process\" does not use the weights of rows"),
    }
}

fn classify(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    // Two classes need one, the second against the first.
    let positives: Vec<usize> = if problem.classes == 2 { vec![1] } else { (0..problem.classes).collect() };
    let most = (2 * MOST_ELEMENTS / positives.len().max(1)).isqrt();
    problem.at_most("gaussian_process", most)?;
    let search = Search::new(problem, given)?;
    let order: Vec<usize> = (0..problem.rows).collect();
    let tiles = Tiles::of(Tiles::pack(problem.features, problem.width, &order)?, problem.rows, problem.width);
    let classes = problem.class_of_rows();
    let mut parts = Vec::with_capacity(positives.len());
    for (index, positive) in positives.iter().enumerate() {
        control.progress(index as u64, positives.len() as u64)?;
        let truths: Vec<bool> = classes.iter().map(|class| class == positive).collect();
        let steps = given.count("max_iter_predict");
        let (kernel, _) = search.best(&mut |kernel, _| {
            Ok(mode(&gram(kernel, &tiles, control)?, &truths, steps, control)?.map_or(f64::INFINITY, |mode| mode.cost))
        })?;
        let mode = mode(&gram(&kernel, &tiles, control)?, &truths, steps, control)?
            .ok_or(Error::Diverged("Laplace's approximation did not work out; scale the features"))?;
        parts.push(Binary { kernel, gradients: mode.gradients, roots: mode.roots, factor: mode.cholesky.factor });
    }
    let model = laplace::model(Tiles::pack(problem.features, problem.width, &order)?, problem, parts)?;
    Ok(told_of_weights(problem, model))
}

/// The mode of the posterior of the latent function at the training rows.
struct Mode {
    /// Of the logarithm of the likelihood.
    gradients: Vec<f64>,
    /// The roots of the negative second derivatives of that.
    roots: Vec<f64>,
    /// Of 1 + the kernels, times the roots from both sides.
    cholesky: Cholesky,
    /// Less the logarithm of the likelihood of the kernel.
    cost: f64,
}

fn mode(gram: &Mat<f64>, truths: &[bool], steps: usize, control: &mut Control<'_>) -> Result<Option<Mode>, Error> {
    let rows = truths.len();
    let mut latent = vec![0.0f64; rows];
    let mut found: Option<Mode> = None;
    for _ in 0..steps {
        let probabilities: Vec<f64> = latent.iter().map(|value| 1.0 / (1.0 + (-value).exp())).collect();
        let gradients: Vec<f64> =
            probabilities.iter().zip(truths).map(|(p, truth)| f64::from(u8::from(*truth)) - p).collect();
        let roots: Vec<f64> = probabilities.iter().map(|p| (p * (1.0 - p)).sqrt()).collect();
        let mut matrix = large_zeros(rows, rows, control)?;
        for column in 0..rows {
            control.check()?;
            // The lower triangle is all that is factored.
            let values = matrix.col_as_slice_mut(column).iter_mut().zip(gram.col_as_slice(column)).zip(&roots);
            for ((value, kernel), root) in values.skip(column) {
                *value = kernel * root * roots[column];
            }
            matrix[(column, column)] += 1.0;
        }
        let Some(cholesky) = Cholesky::new(matrix, control)? else { return Ok(None) };
        let b = Mat::from_fn(rows, 1, |row, _| roots[row] * roots[row] * latent[row] + gradients[row]);
        let mut a = gram * &b;
        a.col_as_slice_mut(0).iter_mut().zip(&roots).for_each(|(value, root)| *value *= root);
        cholesky.solve(&mut a, control)?;
        let a = Mat::from_fn(rows, 1, |row, _| b[(row, 0)] - roots[row] * a[(row, 0)]);
        latent = (gram * &a).col_as_slice(0).to_vec();
        let fit: f64 = latent.iter().zip(a.col_as_slice(0)).map(|(latent, a)| latent * a).sum();
        let surprise: f64 = latent
            .iter()
            .zip(truths)
            .map(|(latent, truth)| {
                let against = if *truth { -latent } else { *latent };
                // The logarithm of 1 + exp, without a number that is too large.
                against.max(0.0) + (-against.abs()).exp().ln_1p()
            })
            .sum();
        let cost = fit / 2.0 + surprise + cholesky.log_determinant();
        let before = found.as_ref().map_or(f64::INFINITY, |mode| mode.cost);
        found = Some(Mode { gradients, roots, cholesky, cost });
        if before - cost < 1e-10 || cost.is_nan() {
            break;
        }
    }
    Ok(found.filter(|mode| mode.cost.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::{classification, data_set, fit_of, regression, split, try_fit};

    #[test]
    fn the_mean_goes_through_the_labels() {
        let features = [0.0, 1.0, 2.5, 4.0];
        let labels = [1.0, -1.0, 3.0, 0.0, 5.0, 2.0, 7.0, -3.0];
        for hyperparams in ["{}", r#"{"normalize_y": true}"#, r#"{"kernel": "matern", "nu": 0.5}"#] {
            let model = fit_of(&REGRESSION, &regression(&features, 1, &labels), hyperparams);
            for (row, labels) in features.iter().zip(labels.chunks(2)) {
                let mut values = [0.0; 2];
                model.predict(&[*row], &mut values);
                assert!(values.iter().zip(labels).all(|(a, b)| (a - b).abs() < 1e-3), "{hyperparams} {values:?}");
            }
        }
    }

    #[test]
    fn equal_rows_with_unequal_labels_end_in_their_mean_or_an_error() {
        let problem = regression(&[1.0, 1.0, 1.0], 1, &[1.0, 2.0, 3.0]);
        let mut value = [0.0];
        fit_of(&REGRESSION, &problem, "{}").predict(&[1.0], &mut value);
        assert!((value[0] - 2.0).abs() < 1e-3, "{value:?}");
        let error = try_fit(&REGRESSION, &problem, r#"{"alpha": 0}"#).err().unwrap();
        assert!(error.to_string().starts_with("hyperparameter \"alpha\" cannot be 0: "), "{error}");
    }

    #[test]
    fn a_seed_means_a_kernel() {
        let (features, width, labels) = data_set("iris");
        let (train, test) = split(&features, width, &labels);
        let problem = classification(&train.0[..40 * width], width, &train.1[..40]);
        let hyperparams = r#"{"kernel": "rational_quadratic", "n_restarts_optimizer": 1, "random_state": 7}"#;
        let [first, second] = [(); 2].map(|()| fit_of(&CLASSIFICATION, &problem, hyperparams));
        let (mut a, mut b) = ([0.0; 2], [0.0; 2]);
        for row in test.0.chunks(width) {
            first.predict(row, &mut a);
            second.predict(row, &mut b);
            assert_eq!(a, b);
            assert!((a[0] + a[1] - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn one_row_and_one_class_end_in_a_model() {
        let mut value = [0.0];
        fit_of(&REGRESSION, &regression(&[1.0], 1, &[2.0]), "{}").predict(&[1.0], &mut value);
        assert!((value[0] - 2.0).abs() < 1e-6);
        fit_of(&CLASSIFICATION, &classification(&[1.0, 2.0], 1, &[0.0, 0.0]), "{}").predict(&[1.0], &mut value);
        assert_eq!(value, [1.0]);
    }
}
