//! Linear regression whose costs are learnt too, from the rows themselves: the evidence of the data is made as large as
//! it gets (MacKay, 1992). One cost for all coefficients is `bayesian_ridge` (Tipping, 2001, has these updates), one for
//! each is `automatic_relevance_determination`, which removes what explains nothing.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};

use crate::Error;
use crate::families::common::told_whether_converged;
use crate::families::common::{COUNT, FIT_INTERCEPT, NOT_NEGATIVE, POSITIVE, ignored, linear_model, takes};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::{Centred, Moments, eigenvalues, labels, singular_values, weights};
use crate::numerics::helper_thread::on_helper_thread;

const MAX_ITER: Parameter = takes("max_iter", COUNT, "300", "The maximum number of rounds.");
const TOL: Parameter = takes(
    "tol",
    NOT_NEGATIVE,
    "0.001",
    "The training ends when the sum of the coefficients' changes in a round is smaller.",
);
const ALPHA_1: Parameter = takes("alpha_1", NOT_NEGATIVE, "1e-6", "The shape of the prior of the noise's precision.");
const ALPHA_2: Parameter = takes("alpha_2", NOT_NEGATIVE, "1e-6", "The rate of the prior of the noise's precision.");
const LAMBDA_1: Parameter =
    takes("lambda_1", NOT_NEGATIVE, "1e-6", "The shape of the prior of the coefficients' precision.");
const LAMBDA_2: Parameter =
    takes("lambda_2", NOT_NEGATIVE, "1e-6", "The rate of the prior of the coefficients' precision.");

/// `bayesian_ridge`, as scikit-learn's BayesianRidge.
pub(crate) const RIDGE: Family = Family {
    name: "bayesian_ridge",
    task: Task::Regression,
    parameters: &[
        MAX_ITER,
        TOL,
        ALPHA_1,
        ALPHA_2,
        LAMBDA_1,
        LAMBDA_2,
        takes(
            "alpha_init",
            Kind::OrNull(&POSITIVE),
            "null",
            "The initial precision of the noise; null for one over the label's variance.",
        ),
        takes(
            "lambda_init",
            Kind::OrNull(&NOT_NEGATIVE),
            "null",
            "The initial precision of the coefficients; null for 1.",
        ),
        FIT_INTERCEPT,
        ignored("compute_score", "false"),
        ignored("copy_X", "true"),
        ignored("verbose", "false"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: ridge,
    form: &linear::FORM,
};

/// `automatic_relevance_determination`, as scikit-learn's ARDRegression.
pub(crate) const RELEVANCE: Family = Family {
    name: "automatic_relevance_determination",
    task: Task::Regression,
    parameters: &[
        MAX_ITER,
        TOL,
        ALPHA_1,
        ALPHA_2,
        LAMBDA_1,
        LAMBDA_2,
        takes("threshold_lambda", NOT_NEGATIVE, "10000.0", "Coefficients with a greater precision become 0."),
        FIT_INTERCEPT,
        ignored("compute_score", "false"),
        ignored("copy_X", "true"),
        ignored("verbose", "false"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: relevance,
    form: &linear::FORM,
};

/// The priors.
struct Priors {
    noise: (f64, f64),
    coefficients: (f64, f64),
}

impl Priors {
    fn of(given: &Given) -> Priors {
        Priors {
            noise: (given.number("alpha_1"), given.number("alpha_2")),
            coefficients: (given.number("lambda_1"), given.number("lambda_2")),
        }
    }

    /// The precision of the noise, from the number of rows and that of well-determined parameters.
    fn noise(&self, rows: f64, determined: f64, errors: f64) -> f64 {
        ratio(rows - determined + 2.0 * self.noise.0, errors + 2.0 * self.noise.1)
    }

    fn coefficients(&self, determined: f64, squares: f64) -> f64 {
        ratio(determined + 2.0 * self.coefficients.0, squares + 2.0 * self.coefficients.1)
    }
}

/// A precision, within what can be computed with.
fn ratio(above: f64, below: f64) -> f64 {
    (above.max(0.0) / below.max(f64::MIN_POSITIVE)).clamp(1e-200, 1e200)
}

/// How far the coefficients moved.
fn moved(before: &[f64], after: &[f64]) -> f64 {
    before.iter().zip(after).map(|(before, after)| (before - after).abs()).sum()
}

/// Rows by their principal directions.
struct Directions {
    /// Features by directions.
    basis: Mat<f64>,
    /// The variance along each, times the rows.
    sizes: Vec<f64>,
    /// The product of each and the targets.
    products: Vec<f64>,
    /// The sum of the squares of the targets.
    square: f64,
}

/// The intercept that goes with coefficients.
type Intercept = dyn Fn(&[f64]) -> f64;

fn ridge(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let intercept = given.flag("fit_intercept");
    let weights = weights(problem);
    let total = weights.as_ref().map_or(problem.rows as f64, |weights| weights.iter().sum());
    let (directions, intercept_of): (Directions, Box<Intercept>) = if problem.width <= problem.rows {
        let mut moments = Moments::new(problem, &labels(problem), weights.as_deref(), intercept, control)?;
        let eigen = eigenvalues(std::mem::replace(&mut moments.gram, Mat::new()), control)?;
        let mut products = (eigen.U().transpose() * &moments.products).col_as_slice(0).to_vec();
        let mut sizes: Vec<f64> = eigen.S().column_vector().iter().copied().collect();
        // Of what is this small beside the largest, sums of products hold nothing but rounding.
        let least = sizes.iter().copied().fold(0.0, f64::max) * f64::EPSILON * problem.width as f64;
        for (size, product) in sizes.iter_mut().zip(&mut products).filter(|(size, _)| **size <= least) {
            (*size, *product) = (0.0, 0.0);
        }
        let directions = Directions { basis: eigen.U().to_owned(), sizes, products, square: moments.squares[0] };
        (directions, Box::new(move |coefficients| moments.intercept(coefficients, 0)))
    } else {
        let mut centred = Centred::new(problem, intercept, control)?;
        let svd = singular_values(std::mem::replace(&mut centred.features, Mat::new()), control)?;
        let singular: Vec<f64> = svd.S().column_vector().iter().copied().collect();
        let projected = svd.U().transpose() * &centred.targets;
        let products = projected.col_as_slice(0).iter().zip(&singular).map(|(value, size)| value * size).collect();
        let square = centred.targets.col_as_slice(0).iter().map(|target| target * target).sum();
        let sizes = singular.iter().map(|size| size * size).collect();
        let directions = Directions { basis: svd.V().to_owned(), sizes, products, square };
        (directions, Box::new(move |coefficients| centred.intercept(coefficients, 0)))
    };
    let targets = problem.target(0);
    let mean = crate::numerics::algebra::mean(&targets, weights.as_deref());
    let squares: Vec<f64> = targets.iter().map(|target| (target - mean).powi(2)).collect();
    let variance = crate::numerics::algebra::mean(&squares, weights.as_deref());
    let start = given.maybe_number("alpha_init").unwrap_or(1.0 / (variance + f64::EPSILON));
    let (coefficients, converged) = directions.evidence(given, total, start, control)?;
    let intercept = intercept_of(&coefficients);
    let model = linear_model(problem, coefficients, vec![intercept], Link::Identity)?;
    Ok(told_whether_converged(model, converged))
}

impl Directions {
    fn evidence(
        &self,
        given: &Given,
        rows: f64,
        mut noise: f64,
        control: &mut Control<'_>,
    ) -> Result<(Vec<f64>, bool), Error> {
        let priors = Priors::of(given);
        let mut precision = given.maybe_number("lambda_init").unwrap_or(1.0);
        let along = |noise: f64, precision: f64| -> Vec<f64> {
            let parts = self.products.iter().zip(&self.sizes);
            let part = |(product, size): (&f64, &f64)| {
                let below = size + precision / noise;
                if below > 0.0 { product / below } else { 0.0 }
            };
            parts.map(part).collect()
        };
        let whole = |parts: &[f64]| -> Vec<f64> {
            let parts = Mat::from_fn(parts.len(), 1, |row, _| parts[row]);
            (&self.basis * parts).col_as_slice(0).to_vec()
        };
        let mut before: Option<Vec<f64>> = None;
        let mut converged = false;
        for _ in 0..given.count("max_iter") {
            control.check()?;
            let parts = along(noise, precision);
            let coefficients = whole(&parts);
            let mut errors = self.square;
            for ((part, size), product) in parts.iter().zip(&self.sizes).zip(&self.products) {
                errors += part * (part * size - 2.0 * product);
            }
            let determined: f64 = self
                .sizes
                .iter()
                .filter(|size| **size > 0.0)
                .map(|size| noise * size / (precision + noise * size))
                .sum();
            precision = priors.coefficients(determined, parts.iter().map(|part| part * part).sum());
            noise = priors.noise(rows, determined, errors.max(0.0));
            converged = before.as_ref().is_some_and(|before| moved(before, &coefficients) < given.number("tol"));
            if converged {
                break;
            }
            before = Some(coefficients);
        }
        Ok((whole(&along(noise, precision)), converged))
    }
}

fn relevance(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let priors = Priors::of(given);
    let weights = weights(problem);
    let total = weights.as_ref().map_or(problem.rows as f64, |weights| weights.iter().sum());
    let moments = Moments::new(problem, &labels(problem), weights.as_deref(), given.flag("fit_intercept"), control)?;
    let products = moments.products.col_as_slice(0);
    let variance = match given.flag("fit_intercept") {
        true => moments.squares[0] / total,
        false => {
            let targets = problem.target(0);
            let mean = crate::numerics::algebra::mean(&targets, weights.as_deref());
            moments.squares[0] / total - mean * mean
        }
    };
    let mut noise = 1.0 / (variance.max(0.0) + f64::EPSILON);
    let mut precisions = vec![1.0; problem.width];
    let mut kept: Vec<usize> = (0..problem.width).collect();
    let mut coefficients = vec![0.0; problem.width];
    let mut before: Option<Vec<f64>> = None;
    let mut converged = false;
    for _ in 0..given.count("max_iter") {
        control.check()?;
        let variances = posterior(&moments, &kept, &precisions, noise, &mut coefficients, control)?;
        let mut determined = 0.0;
        for (feature, variance) in kept.iter().zip(&variances) {
            let own = 1.0 - precisions[*feature] * variance;
            determined += own;
            precisions[*feature] = priors.coefficients(own, coefficients[*feature].powi(2));
        }
        let explained: f64 =
            coefficients.iter().zip(products).map(|(coefficient, product)| coefficient * product).sum();
        let column = Mat::from_fn(problem.width, 1, |row, _| coefficients[row]);
        let square = (column.transpose() * (&moments.gram * &column))[(0, 0)];
        noise = priors.noise(total, determined, (moments.squares[0] - 2.0 * explained + square).max(0.0));
        kept.retain(|feature| precisions[*feature] < given.number("threshold_lambda"));
        for feature in 0..problem.width {
            if precisions[feature] >= given.number("threshold_lambda") {
                coefficients[feature] = 0.0;
            }
        }
        converged = before.as_ref().is_some_and(|before| moved(before, &coefficients) < given.number("tol"));
        if converged || kept.is_empty() {
            converged = true;
            break;
        }
        before = Some(coefficients.clone());
    }
    if !kept.is_empty() {
        posterior(&moments, &kept, &precisions, noise, &mut coefficients, control)?;
    }
    let intercept = moments.intercept(&coefficients, 0);
    let model = linear_model(problem, coefficients, vec![intercept], Link::Identity)?;
    Ok(told_whether_converged(model, converged))
}

/// Sets the coefficients of the features that are kept, and gives their variances.
fn posterior(
    moments: &Moments,
    kept: &[usize],
    precisions: &[f64],
    noise: f64,
    coefficients: &mut [f64],
    control: &mut Control<'_>,
) -> Result<Vec<f64>, Error> {
    // In units in which each precision is 1, so that none is lost beside the others.
    let roots: Vec<f64> = kept.iter().map(|feature| precisions[*feature].sqrt().recip()).collect();
    let matrix = Mat::from_fn(kept.len(), kept.len(), |row, column| {
        noise * moments.gram[(kept[row], kept[column])] * roots[row] * roots[column]
            + f64::from(u8::from(row == column))
    });
    let size = kept.len();
    let inverse = on_helper_thread(2.0 * (size as f64).powi(3), control, move || {
        matrix.llt(Side::Lower).ok().map(|factor| factor.solve(Mat::<f64>::identity(size, size)))
    })?;
    let inverse = inverse.ok_or(Error::Diverged("the posterior is not positive definite"))?;
    let right = Mat::from_fn(kept.len(), 1, |row, _| noise * moments.products[(kept[row], 0)] * roots[row]);
    let solution = &inverse * right;
    for (index, feature) in kept.iter().enumerate() {
        coefficients[*feature] = solution[(index, 0)] * roots[index];
    }
    Ok((0..kept.len()).map(|index| inverse[(index, index)] * roots[index] * roots[index]).collect())
}
