//! Linear support vector machines. The objectives are those of LIBLINEAR, which scikit-learn's LinearSVC and LinearSVR
//! run: `C` times the sum of the losses and half the squares of the coefficients, the intercept among them.
//!
//! Where the loss is squared its least is searched by its slope. Where it is not, the dual is solved, one row's multiplier
//! at a time: Hsieh, Chang, Lin, Keerthi and Sundararajan (2008) for classes, Ho and Lin (2012) for numbers.

use crate::Error;
use crate::families::common::{COUNT, FIT_INTERCEPT, NOT_NEGATIVE, POSITIVE, RANDOM_STATE};
use crate::families::common::{ignored, linear_model, seed, takes, told_whether_converged, weights};
use crate::families::linear::losses::{LinearLosses, Plain};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::dot;
use crate::numerics::minimise::{Minimum, Search};
use crate::numerics::pace::Pace;
use crate::random::Random;

const C: Parameter = takes("C", POSITIVE, "1.0", "The inverse of the strength of the penalty.");
const TOL: Parameter = takes("tol", POSITIVE, "0.0001", "The tolerance of the solution.");
const MAX_ITER: Parameter = takes("max_iter", COUNT, "1000", "The maximum number of passes over the rows.");
const SCALING: Parameter = takes(
    "intercept_scaling",
    POSITIVE,
    "1.0",
    "The intercept is the coefficient of a feature with this value in every row; the larger the value, the smaller its penalty.",
);

/// `linear_svm` in classification, as scikit-learn's LinearSVC.
pub(crate) const CLASSIFIER: Family = Family {
    name: "linear_svm",
    task: Task::Classification,
    parameters: &[
        takes("penalty", Kind::Choice(&["l2", "l1"]), "\"l2\"", "Whether the penalty of the coefficients is L2 or L1."),
        takes("loss", Kind::Choice(&["squared_hinge", "hinge"]), "\"squared_hinge\"", "The loss function."),
        C,
        TOL,
        MAX_ITER,
        FIT_INTERCEPT,
        SCALING,
        takes("multi_class", Kind::Choice(&["ovr"]), "\"ovr\"", "Several classes are trained as one against the rest."),
        RANDOM_STATE,
        ignored("dual", "\"auto\""),
        ignored("verbose", "0"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: classify,
    form: &linear::FORM,
};

/// `linear_svm` in regression, as scikit-learn's LinearSVR.
pub(crate) const REGRESSOR: Family = Family {
    name: "linear_svm",
    task: Task::Regression,
    parameters: &[
        takes("epsilon", NOT_NEGATIVE, "0.0", "The error up to which the loss is 0."),
        takes(
            "loss",
            Kind::Choice(&["epsilon_insensitive", "squared_epsilon_insensitive"]),
            "\"epsilon_insensitive\"",
            "The loss of an error above epsilon.",
        ),
        C,
        TOL,
        MAX_ITER,
        FIT_INTERCEPT,
        SCALING,
        RANDOM_STATE,
        ignored("dual", "\"auto\""),
        ignored("verbose", "0"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: regress,
    form: &linear::FORM,
};

/// What the objective is made of.
struct Machine<'a> {
    problem: &'a Problem<'a>,
    /// `C` times the weight of each row.
    costs: Vec<f64>,
    /// The value of the feature whose coefficient makes the intercept.
    constant: Option<f64>,
    absolute: bool,
    tol: f64,
    max_iter: usize,
}

impl<'a> Machine<'a> {
    fn new(problem: &'a Problem<'a>, given: &Given, weights: &[f64], absolute: bool) -> Machine<'a> {
        let c = given.number("C");
        Machine {
            problem,
            costs: weights.iter().map(|weight| c * weight).collect(),
            constant: given.flag("fit_intercept").then(|| given.number("intercept_scaling")),
            absolute,
            tol: given.number("tol"),
            max_iter: given.count("max_iter"),
        }
    }

    /// The least where the loss has a slope. `loss` gives the loss of a row's score, and its slope.
    fn smooth(
        &self,
        control: &mut Control<'_>,
        loss: impl Fn(usize, f64) -> (f64, f64),
    ) -> Result<(Plain, bool), Error> {
        let rows = LinearLosses::new(self.problem, self.costs.clone(), self.constant.is_some(), !self.absolute);
        let total = rows.total();
        let part = 1.0 / total;
        let mut absolute = Vec::new();
        if self.absolute {
            absolute.extend(rows.scales.iter().map(|scale| part / scale));
            absolute.extend(self.constant.map(|constant| part / constant));
        }
        let search = Search { l1: &absolute, max_iter: self.max_iter, tol: 1e-3 * self.tol };
        let start = vec![0.0; rows.parameters()];
        let square_part = if self.absolute { 0.0 } else { part };
        let Minimum { at, converged } = search.from(start, control, |at, slope, control| {
            let model = rows.plain(at);
            let (sum, mut by_model) = rows.losses(&model, control, |row, scores| {
                let Some(score) = scores.first_mut() else { return 0.0 };
                let (value, slope) = loss(row, *score);
                *score = slope;
                value
            })?;
            let mut squares = 0.0;
            for (slope, coefficient) in by_model.coefficients.iter_mut().zip(&model.coefficients) {
                *slope = *slope * part + square_part * coefficient;
                squares += coefficient * coefficient;
            }
            let scale = self.constant.unwrap_or(1.0).powi(2);
            for (slope, intercept) in by_model.intercepts.iter_mut().zip(&model.intercepts) {
                *slope = *slope * part + square_part * intercept / scale;
                squares += intercept * intercept / scale;
            }
            rows.slope(&by_model, slope);
            Ok(sum * part + 0.5 * square_part * squares)
        })?;
        Ok((rows.plain(&at), converged))
    }

    /// The square of each row's length, with the constant.
    fn lengths(&self) -> Vec<f64> {
        let constant = self.constant.map_or(0.0, |constant| constant * constant);
        let length = |row: usize| self.problem.row(row).iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
        (0..self.problem.rows).map(|row| length(row) + constant).collect()
    }

    /// Classes with the hinge loss.
    fn hinge(&self, signs: &[f64], mut random: Random, control: &mut Control<'_>) -> Result<(Plain, bool), Error> {
        let lengths = self.lengths();
        let mut model = Dual::new(self);
        let mut multipliers = vec![0.0; self.problem.rows];
        let all: Vec<usize> =
            (0..self.problem.rows).filter(|row| self.costs[*row] > 0.0 && lengths[*row] > 0.0).collect();
        let mut active = all.clone();
        let (mut highest, mut lowest) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut pace = Pace::default();
        for _ in 0..self.max_iter {
            let (mut most, mut least) = (f64::NEG_INFINITY, f64::INFINITY);
            random.shuffle(&mut active);
            let mut stopped = None;
            active.retain(|row| {
                if stopped.is_some() {
                    return true;
                }
                stopped = pace.spend(4 * self.problem.width, control).err();
                let (features, sign, bound) = (self.problem.row(*row), signs[*row], self.costs[*row]);
                let slope = sign * model.score(features) - 1.0;
                let multiplier = multipliers[*row];
                // What is at a bound, and far from leaving it, waits until the others are done.
                if (multiplier == 0.0 && slope > highest) || (multiplier == bound && slope < lowest) {
                    return false;
                }
                let free = if multiplier == 0.0 { slope.min(0.0) } else { slope };
                let free = if multiplier == bound { free.max(0.0) } else { free };
                (most, least) = (most.max(free), least.min(free));
                if free.abs() > 1e-12 {
                    let after = (multiplier - slope / lengths[*row]).clamp(0.0, bound);
                    multipliers[*row] = after;
                    model.add(features, (after - multiplier) * sign);
                }
                true
            });
            if let Some(error) = stopped {
                return Err(error);
            }
            if most - least <= self.tol || active.is_empty() {
                if active.len() == all.len() {
                    return Ok((model.plain(), true));
                }
                active.clone_from(&all);
                (highest, lowest) = (f64::INFINITY, f64::NEG_INFINITY);
                continue;
            }
            highest = if most > 0.0 { most } else { f64::INFINITY };
            lowest = if least < 0.0 { least } else { f64::NEG_INFINITY };
        }
        Ok((model.plain(), false))
    }

    /// Numbers with errors beyond `epsilon` for a loss.
    fn tube(
        &self,
        targets: &[f64],
        epsilon: f64,
        mut random: Random,
        control: &mut Control<'_>,
    ) -> Result<(Plain, bool), Error> {
        let lengths = self.lengths();
        let mut model = Dual::new(self);
        let mut multipliers = vec![0.0; self.problem.rows];
        let all: Vec<usize> =
            (0..self.problem.rows).filter(|row| self.costs[*row] > 0.0 && lengths[*row] > 0.0).collect();
        let mut active = all.clone();
        let (mut largest, mut first) = (f64::INFINITY, None);
        let mut pace = Pace::default();
        for _ in 0..self.max_iter {
            let (mut most, mut sum) = (0.0_f64, 0.0);
            random.shuffle(&mut active);
            let mut stopped = None;
            active.retain(|row| {
                if stopped.is_some() {
                    return true;
                }
                stopped = pace.spend(4 * self.problem.width, control).err();
                let (features, bound, length) = (self.problem.row(*row), self.costs[*row], lengths[*row]);
                let multiplier: f64 = multipliers[*row];
                let slope = model.score(features) - targets[*row];
                let (up, down) = (slope + epsilon, slope - epsilon);
                let waits = (multiplier == 0.0 && up > largest && down < -largest)
                    || (multiplier >= bound && up < -largest)
                    || (multiplier <= -bound && down > largest);
                if waits {
                    return false;
                }
                let violation = violation(multiplier, bound, up, down);
                most = most.max(violation);
                sum += violation;
                let step = if up < length * multiplier {
                    -up / length
                } else if down > length * multiplier {
                    -down / length
                } else {
                    -multiplier
                };
                if step.abs() > 1e-12 {
                    let after = (multiplier + step).clamp(-bound, bound);
                    multipliers[*row] = after;
                    model.add(features, after - multiplier);
                }
                true
            });
            if let Some(error) = stopped {
                return Err(error);
            }
            let first = *first.get_or_insert(sum);
            if sum <= self.tol * first {
                if active.len() == all.len() {
                    return Ok((model.plain(), true));
                }
                active.clone_from(&all);
                largest = f64::INFINITY;
                continue;
            }
            largest = most;
        }
        Ok((model.plain(), false))
    }
}

/// How far a row is from its condition: `up` and `down` are the slopes of its loss as its multiplier grows and falls.
fn violation(multiplier: f64, bound: f64, up: f64, down: f64) -> f64 {
    if multiplier == 0.0 {
        (-up).max(down).max(0.0)
    } else if multiplier >= bound {
        up.max(0.0)
    } else if multiplier <= -bound {
        (-down).max(0.0)
    } else if multiplier > 0.0 {
        up.abs()
    } else {
        down.abs()
    }
}

/// A model that is the sum of rows.
struct Dual {
    coefficients: Vec<f64>,
    last: f64,
    constant: Option<f64>,
}

impl Dual {
    fn new(machine: &Machine<'_>) -> Dual {
        Dual { coefficients: vec![0.0; machine.problem.width], last: 0.0, constant: machine.constant }
    }

    fn score(&self, features: &[f32]) -> f64 {
        dot(&self.coefficients, features) + self.constant.map_or(0.0, |constant| constant * self.last)
    }

    fn add(&mut self, features: &[f32], factor: f64) {
        for (coefficient, value) in self.coefficients.iter_mut().zip(features) {
            *coefficient += factor * f64::from(*value);
        }
        self.last += self.constant.map_or(0.0, |constant| constant * factor);
    }

    fn plain(self) -> Plain {
        let intercept = self.constant.map_or(0.0, |constant| constant * self.last);
        Plain { coefficients: self.coefficients, intercepts: vec![intercept] }
    }
}

fn regress(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let machine = Machine::new(problem, given, &weights(problem)?, false);
    let (targets, epsilon) = (problem.target(0), given.number("epsilon"));
    let (plain, converged) = match given.word("loss") {
        "epsilon_insensitive" => machine.tube(&targets, epsilon, Random::new(seed(problem, given)), control)?,
        _ => machine.smooth(control, |row, score| {
            let error = score - targets[row];
            let beyond = (error.abs() - epsilon).max(0.0);
            (beyond * beyond, 2.0 * beyond.copysign(error))
        })?,
    };
    let model = linear_model(problem, plain.coefficients, plain.intercepts, Link::Identity)?;
    Ok(told_whether_converged(model, converged))
}

fn classify(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let (absolute, hinge) = (given.word("penalty") == "l1", given.word("loss") == "hinge");
    if absolute && hinge {
        return Err(given.refuse("loss", "\"squared_hinge\" where penalty is \"l1\""));
    }
    let (classes, balanced) = (problem.class_of_rows(), weights(problem)?);
    let binary = problem.classes <= 2;
    let (mut coefficients, mut intercepts, mut converged) = (Vec::new(), Vec::new(), true);
    for class in if binary { 1..2 } else { 0..problem.classes } {
        let signs: Vec<f64> = classes.iter().map(|own| if *own == class { 1.0 } else { -1.0 }).collect();
        // Against the rest, only the class itself has its weight.
        let weights: Vec<f64> = (0..problem.rows)
            .map(|row| if binary || classes[row] == class { balanced[row] } else { problem.weight(row) })
            .collect();
        let machine = Machine::new(problem, given, &weights, absolute);
        let (plain, ended) = match hinge {
            true => machine.hinge(&signs, Random::new(seed(problem, given)), control)?,
            false => machine.smooth(control, |row, score| {
                let short = (1.0 - signs[row] * score).max(0.0);
                (short * short, -2.0 * signs[row] * short)
            })?,
        };
        coefficients.extend(plain.coefficients);
        intercepts.extend(plain.intercepts);
        converged &= ended;
    }
    let model = linear_model(problem, coefficients, intercepts, Link::Scores)?;
    Ok(told_whether_converged(model, converged))
}
