//! Least angle regression (Efron, Hastie, Johnstone and Tibshirani, 2004): from no feature to all, always in the direction
//! that has the same angle with each feature chosen so far, and another feature whenever it has that angle too. Where a
//! feature leaves as its coefficient becomes 0, the way is that of the lasso as its cost falls.

use faer::Mat;

use crate::Error;
use crate::families::common::{COUNT, FIT_INTERCEPT, NOT_NEGATIVE, RANDOM_STATE, ignored, linear_model, seed, takes};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::{Moments, labels, weights};
use crate::numerics::factor::Factor;
use crate::random::Random;

const JITTER: Parameter = takes(
    "jitter",
    Kind::OrNull(&NOT_NEGATIVE),
    "null",
    "The upper bound of the random number that is added to each label, so that no two features have the same angle.",
);

/// `least_angle`, as scikit-learn's Lars.
pub(crate) const LEAST_ANGLE: Family = Family {
    name: "least_angle",
    task: Task::Regression,
    parameters: &[
        takes("n_nonzero_coefs", COUNT, "500", "The maximum number of coefficients that are not 0."),
        FIT_INTERCEPT,
        JITTER,
        RANDOM_STATE,
        ignored("eps", "2.220446049250313e-16"),
        ignored("fit_path", "true"),
        ignored("precompute", "\"auto\""),
        ignored("copy_X", "true"),
        ignored("verbose", "false"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: |problem, given, control| {
        let way = PathLimits { least: 0.0, lasso: false, positive: false, most: given.count("n_nonzero_coefs") };
        fit(problem, given, way, control)
    },
    form: &linear::FORM,
};

/// `lasso_least_angle`, as scikit-learn's LassoLars.
pub(crate) const LASSO: Family = Family {
    name: "lasso_least_angle",
    task: Task::Regression,
    parameters: &[
        takes("alpha", NOT_NEGATIVE, "1.0", "The strength of the L1 penalty."),
        takes("max_iter", COUNT, "500", "The maximum number of steps."),
        takes("positive", Kind::Flag, "false", "Whether no coefficient may be negative."),
        FIT_INTERCEPT,
        JITTER,
        RANDOM_STATE,
        ignored("eps", "2.220446049250313e-16"),
        ignored("fit_path", "true"),
        ignored("precompute", "\"auto\""),
        ignored("copy_X", "true"),
        ignored("verbose", "false"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: |problem, given, control| {
        let (least, positive) = (given.number("alpha"), given.flag("positive"));
        fit(problem, given, PathLimits { least, lasso: true, positive, most: given.count("max_iter") }, control)
    },
    form: &linear::FORM,
};

/// How far to go, and how.
struct PathLimits {
    /// The way ends at this product of features and residuals, a row.
    least: f64,
    /// Whether features leave whose coefficients become 0.
    lasso: bool,
    positive: bool,
    /// The most steps.
    most: usize,
}

/// How much of a feature must not be a sum of those chosen already.
const NEW: f64 = 1e-7;

/// What takes part as little as this in the products at the start is rounding.
const ROUNDING: f64 = 1e-13;

/// By how much of itself rounding may make the way steeper.
const SLACK: f64 = 1e-6;

fn fit(problem: &Problem<'_>, given: &Given, way: PathLimits, control: &mut Control<'_>) -> Result<Model, Error> {
    let weights = weights(problem);
    let total = weights.as_ref().map_or(problem.rows as f64, |weights| weights.iter().sum());
    let mut targets = labels(problem);
    if let Some(jitter) = given.maybe_number("jitter") {
        let mut random = Random::new(seed(problem, given));
        for target in &mut targets {
            *target += jitter * random.unit();
        }
    }
    let moments = Moments::new(problem, &targets, weights.as_deref(), given.flag("fit_intercept"), control)?;
    let (coefficients, ended) = way.walk(&moments, total, control)?;
    let intercept = moments.intercept(&coefficients, 0);
    let model = linear_model(problem, coefficients, vec![intercept], Link::Identity)?;
    Ok(match ended {
        true => model,
        false => model.warn("the training ended by max_iter before the end of the path"),
    })
}

/// The features with coefficients.
#[derive(Default)]
struct Chosen {
    features: Vec<usize>,
    /// The signs of their products as they joined.
    signs: Vec<f64>,
    /// Of their products with each other.
    factor: Factor,
    /// Of all features, whether it may join.
    free: Vec<bool>,
}

impl Chosen {
    /// The steepest of the free features joins that is no sum of the chosen ones, if one is steeper than `end`.
    fn join(&mut self, gram: &Mat<f64>, products: &[f64], size: impl Fn(usize) -> f64, end: f64) {
        loop {
            let steepest = (0..self.free.len()).rev().filter(|feature| self.free[*feature]);
            let steepest = steepest.max_by(|a, b| size(*a).total_cmp(&size(*b)));
            let Some(feature) = steepest.filter(|feature| size(*feature) > end) else { return };
            self.free[feature] = false;
            if self.factor.push(gram, &self.features, feature, NEW) {
                self.features.push(feature);
                self.signs.push(products[feature].signum());
                return;
            }
        }
    }

    /// The one at `index` leaves: gives which feature that is.
    fn leave(&mut self, gram: &Mat<f64>, index: usize) -> usize {
        let feature = self.features.remove(index);
        self.signs.remove(index);
        self.free[feature] = true;
        self.factor = Factor::of(gram, &self.features);
        feature
    }
}

/// The products of the features with what the coefficients leave of the target.
fn products_left(moments: &Moments, coefficients: &[f64], products: &mut [f64]) {
    products.copy_from_slice(moments.products.col_as_slice(0));
    for (feature, coefficient) in coefficients.iter().enumerate().filter(|(_, value)| **value != 0.0) {
        for (product, value) in products.iter_mut().zip(moments.gram.col_as_slice(feature)) {
            *product -= coefficient * value;
        }
    }
}

impl PathLimits {
    /// The coefficients at the end of the way, and whether it was gone to there.
    fn walk(&self, moments: &Moments, total: f64, control: &mut Control<'_>) -> Result<(Vec<f64>, bool), Error> {
        let gram = &moments.gram;
        let width = gram.ncols();
        let size = |product: f64| if self.positive { product } else { product.abs() };
        let mut coefficients = vec![0.0; width];
        let mut products = moments.products.col_as_slice(0).to_vec();
        let end = (self.least * total).max(ROUNDING * products.iter().copied().map(size).fold(0.0, f64::max));
        let mut chosen = Chosen { free: vec![true; width], ..Chosen::default() };
        let mut left = None;
        for _ in 0..self.most {
            control.check()?;
            // The steepest of the features that are not chosen joins, unless one has just left.
            if left.is_none() {
                chosen.join(gram, &products, |feature| size(products[feature]), end);
            }
            let Some(steep) = chosen.features.first().map(|feature| size(products[*feature])) else {
                return Ok((coefficients, true));
            };
            if steep <= end {
                return Ok((coefficients, true));
            }
            let direction = chosen.factor.solve(&chosen.signs);
            let mut falls = vec![0.0; width];
            for (feature, part) in chosen.features.iter().zip(&direction) {
                for (fall, value) in falls.iter_mut().zip(gram.col_as_slice(*feature)) {
                    *fall += part * value;
                }
            }
            let others = (0..width).filter(|feature| chosen.free[*feature]);
            let meets = others
                .filter_map(|feature| self.meets(steep, products[feature], falls[feature], Some(feature) == left));
            let meets = meets.fold(f64::INFINITY, f64::min);
            let next = meets < steep - end;
            let mut step = if next { meets } else { steep - end };
            left = None;
            if self.lasso {
                for (index, (feature, part)) in chosen.features.iter().zip(&direction).enumerate() {
                    let zero = -coefficients[*feature] / part;
                    if zero > 0.0 && zero < step {
                        (step, left) = (zero, Some(index));
                    }
                }
            }
            let corner = coefficients.clone();
            for (feature, part) in chosen.features.iter().zip(&direction) {
                coefficients[*feature] += step * part;
            }
            let is_last = left.is_none() && !next;
            if let Some(index) = left {
                let feature = chosen.leave(gram, index);
                coefficients[feature] = 0.0;
                left = Some(feature);
            }
            // Afresh, so that rounding does not add up.
            products_left(moments, &coefficients, &mut products);
            // It gets less steep all the way. Where it does not, features are so nearly sums of others that nothing but
            // rounding was left of the direction: the corner before is as far as the way can be known.
            if chosen.features.iter().any(|feature| size(products[*feature]) > steep * (1.0 + SLACK)) {
                return Ok((corner, true));
            }
            if is_last {
                return Ok((coefficients, true));
            }
        }
        Ok((coefficients, !self.lasso))
    }

    /// After which step a feature is as steep as the chosen ones, by its product and how fast that falls, if it gets there.
    fn meets(&self, steep: f64, product: f64, fall: f64, just_left: bool) -> Option<f64> {
        let sides = [(product, fall), (-product, -fall)].into_iter().filter(|(side, rise)| {
            // What has just left is still there with its old sign, and may come back with the other.
            let is_old = just_left && *side > 0.0;
            let is_refused = is_old || self.positive && *side != product;
            !is_refused && 1.0 - rise > f64::EPSILON
        });
        let steps = sides.map(|(side, rise)| ((steep - side) / (1.0 - rise)).max(0.0));
        steps.reduce(f64::min)
    }
}
