//! Stochastic gradient descent, one row after the other, for linear models: `stochastic_gradient_descent` itself, and what
//! is a form of it, the perceptron (Rosenblatt, 1958) and the passive-aggressive algorithms (Crammer et al., 2006).
//!
//! The learning rates are those of scikit-learn; "optimal" is Bottou's. Absolute values as a cost follow Tsuruoka, Tsujii
//! and Ananiadou (2009), whose sum of what was not yet subtracted lets coefficients reach 0 and stay there.

use crate::Error;
use crate::families::common::{COUNT, FIT_INTERCEPT, NOT_NEGATIVE, POSITIVE, RANDOM_STATE, ignored, linear_model};
use crate::families::common::{seed, takes, told_whether_converged, weights};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::linear::{self, Link, logistic};
use crate::numerics::algebra::dot;
use crate::numerics::pace::Pace;
use crate::random::Random;

const MAX_ITER: Parameter = takes("max_iter", COUNT, "1000", "The maximum number of passes over the rows.");
const TOL: Parameter = takes(
    "tol",
    Kind::OrNull(&NOT_NEGATIVE),
    "0.001",
    "The training ends when the objective has not decreased by this amount for n_iter_no_change passes; null for never.",
);
const SHUFFLE: Parameter = takes("shuffle", Kind::Flag, "true", "Whether the rows are shuffled before each pass.");
const EARLY_STOPPING: Parameter = takes(
    "early_stopping",
    Kind::Flag,
    "false",
    "Whether the score on rows that are held back, instead of the objective, decides when the training ends.",
);
const VALIDATION_FRACTION: Parameter = takes(
    "validation_fraction",
    Kind::Number(1e-9, 1.0 - 1e-9),
    "0.1",
    "The share of the rows that early_stopping holds back.",
);
const N_ITER_NO_CHANGE: Parameter =
    takes("n_iter_no_change", COUNT, "5", "The number of passes without improvement after which the training ends.");
const AVERAGE: Parameter = takes(
    "average",
    Kind::Any(&[Kind::Flag, COUNT]),
    "false",
    "Whether the coefficients are averaged over all rows' updates; a number averages from that row on.",
);
const PENALTY_ALPHA: Parameter = takes("alpha", NOT_NEGATIVE, "0.0001", "The strength of the penalty.");
const L1_RATIO: Parameter = takes(
    "l1_ratio",
    Kind::OrNull(&Kind::Number(0.0, 1.0)),
    "0.15",
    "The share of the L1 penalty if penalty is \"elasticnet\".",
);
const EPSILON: Parameter =
    takes("epsilon", NOT_NEGATIVE, "0.1", "The error up to which the loss is 0 or, with huber, quadratic.");

const fn penalty(default: &'static str) -> Parameter {
    takes(
        "penalty",
        Kind::OrNull(&Kind::Choice(&["l2", "l1", "elasticnet"])),
        default,
        "The penalty of the coefficients: L2, L1, or both by `l1_ratio`; null for none.",
    )
}

const fn rate(default: &'static str) -> Parameter {
    takes(
        "learning_rate",
        Kind::Choice(&["constant", "optimal", "invscaling", "adaptive", "pa1", "pa2"]),
        default,
        "The step size: eta0; 1 / (alpha * (t0 + t)); eta0 / t^power_t; eta0, divided by five when the loss no longer falls; \
         or that of the passive-aggressive algorithms.",
    )
}

const fn eta0(default: &'static str) -> Parameter {
    takes("eta0", POSITIVE, default, "The initial step size.")
}

const fn power_t(default: &'static str) -> Parameter {
    takes(
        "power_t",
        Kind::Number(f64::NEG_INFINITY, f64::INFINITY),
        default,
        "The exponent where learning_rate is \"invscaling\".",
    )
}

const AGGRESSIVENESS: Parameter = takes("C", POSITIVE, "1.0", "The maximum step size.");

/// `stochastic_gradient_descent` in regression, as scikit-learn's SGDRegressor.
pub(crate) const REGRESSOR: Family = Family {
    name: "stochastic_gradient_descent",
    task: Task::Regression,
    parameters: &[
        takes(
            "loss",
            Kind::Choice(&["squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive"]),
            "\"squared_error\"",
            "The loss function.",
        ),
        penalty("\"l2\""),
        PENALTY_ALPHA,
        L1_RATIO,
        FIT_INTERCEPT,
        MAX_ITER,
        TOL,
        SHUFFLE,
        EPSILON,
        RANDOM_STATE,
        rate("\"invscaling\""),
        eta0("0.01"),
        power_t("0.25"),
        EARLY_STOPPING,
        VALIDATION_FRACTION,
        N_ITER_NO_CHANGE,
        AVERAGE,
        ignored("warm_start", "false"),
        ignored("verbose", "0"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: |problem, given, control| regress(problem, given, plan(given)?, control),
    form: &linear::FORM,
};

/// `stochastic_gradient_descent` in classification, as scikit-learn's SGDClassifier.
pub(crate) const CLASSIFIER: Family = Family {
    name: "stochastic_gradient_descent",
    task: Task::Classification,
    parameters: &[
        takes(
            "loss",
            Kind::Choice(&[
                "hinge",
                "log_loss",
                "modified_huber",
                "squared_hinge",
                "perceptron",
                "squared_error",
                "huber",
                "epsilon_insensitive",
                "squared_epsilon_insensitive",
            ]),
            "\"hinge\"",
            "The loss function; \"log_loss\" and \"modified_huber\" give probabilities.",
        ),
        penalty("\"l2\""),
        PENALTY_ALPHA,
        L1_RATIO,
        FIT_INTERCEPT,
        MAX_ITER,
        TOL,
        SHUFFLE,
        EPSILON,
        RANDOM_STATE,
        rate("\"optimal\""),
        eta0("0.01"),
        power_t("0.5"),
        EARLY_STOPPING,
        VALIDATION_FRACTION,
        N_ITER_NO_CHANGE,
        AVERAGE,
        ignored("warm_start", "false"),
        ignored("verbose", "0"),
        ignored("n_jobs", "null"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: |problem, given, control| classify(problem, given, plan(given)?, control),
    form: &linear::FORM,
};

/// `perceptron`, as scikit-learn's Perceptron.
pub(crate) const PERCEPTRON: Family = Family {
    name: "perceptron",
    task: Task::Classification,
    parameters: &[
        penalty("null"),
        PENALTY_ALPHA,
        L1_RATIO,
        FIT_INTERCEPT,
        MAX_ITER,
        TOL,
        SHUFFLE,
        RANDOM_STATE,
        eta0("1.0"),
        EARLY_STOPPING,
        VALIDATION_FRACTION,
        N_ITER_NO_CHANGE,
        ignored("warm_start", "false"),
        ignored("verbose", "0"),
        ignored("n_jobs", "null"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: |problem, given, control| {
        let own = Plan { loss: Loss::Hinge(0.0), rate: Rate::Constant, eta0: given.number("eta0"), ..usual(given) };
        classify(problem, given, Plan { penalty: penalty_of(given)?, ..own }, control)
    },
    form: &linear::FORM,
};

/// `passive_aggressive` in regression, as scikit-learn's PassiveAggressiveRegressor.
pub(crate) const PASSIVE_AGGRESSIVE_REGRESSOR: Family = Family {
    name: "passive_aggressive",
    task: Task::Regression,
    parameters: &[
        AGGRESSIVENESS,
        FIT_INTERCEPT,
        MAX_ITER,
        TOL,
        EARLY_STOPPING,
        VALIDATION_FRACTION,
        N_ITER_NO_CHANGE,
        SHUFFLE,
        takes(
            "loss",
            Kind::Choice(&["epsilon_insensitive", "squared_epsilon_insensitive"]),
            "\"epsilon_insensitive\"",
            "Whether C bounds the steps (PA-I) or damps them (PA-II).",
        ),
        EPSILON,
        RANDOM_STATE,
        AVERAGE,
        ignored("warm_start", "false"),
        ignored("verbose", "0"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: |problem, given, control| {
        let loss = Loss::Absolute(given.number("epsilon"));
        let rate = if given.word("loss") == "epsilon_insensitive" { Rate::Capped } else { Rate::Damped };
        regress(problem, given, Plan { loss, rate, eta0: given.number("C"), ..usual(given) }, control)
    },
    form: &linear::FORM,
};

/// `passive_aggressive` in classification, as scikit-learn's PassiveAggressiveClassifier.
pub(crate) const PASSIVE_AGGRESSIVE_CLASSIFIER: Family = Family {
    name: "passive_aggressive",
    task: Task::Classification,
    parameters: &[
        AGGRESSIVENESS,
        FIT_INTERCEPT,
        MAX_ITER,
        TOL,
        EARLY_STOPPING,
        VALIDATION_FRACTION,
        N_ITER_NO_CHANGE,
        SHUFFLE,
        takes(
            "loss",
            Kind::Choice(&["hinge", "squared_hinge"]),
            "\"hinge\"",
            "Whether C bounds the steps (PA-I) or damps them (PA-II).",
        ),
        RANDOM_STATE,
        AVERAGE,
        ignored("warm_start", "false"),
        ignored("verbose", "0"),
        ignored("n_jobs", "null"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: |problem, given, control| {
        let rate = if given.word("loss") == "hinge" { Rate::Capped } else { Rate::Damped };
        classify(problem, given, Plan { rate, eta0: given.number("C"), ..usual(given) }, control)
    },
    form: &linear::FORM,
};

/// What an error costs. Classes are -1 and 1.
#[derive(Clone, Copy, PartialEq)]
enum Loss {
    /// Half the square of the error.
    Squared,
    /// Half the square of a small error, and this times a larger one's size less half of this.
    Huber(f64),
    /// An error's size beyond this.
    Absolute(f64),
    /// The square of that.
    SquaredBeyond(f64),
    /// How far the score is from this on the right side: 1, or 0 for the perceptron.
    Hinge(f64),
    /// The square of how far the score is from 1 on the right side.
    SquaredHinge,
    /// The logarithm of the odds.
    Log,
    /// A squared hinge that is linear far on the wrong side.
    ModifiedHuber,
}

impl Loss {
    fn of(given: &Given) -> Loss {
        let epsilon = given.number("epsilon");
        match given.word("loss") {
            "squared_error" => Loss::Squared,
            "huber" => Loss::Huber(epsilon),
            "epsilon_insensitive" => Loss::Absolute(epsilon),
            "squared_epsilon_insensitive" => Loss::SquaredBeyond(epsilon),
            "log_loss" => Loss::Log,
            "modified_huber" => Loss::ModifiedHuber,
            "squared_hinge" => Loss::SquaredHinge,
            "perceptron" => Loss::Hinge(0.0),
            _ => Loss::Hinge(1.0),
        }
    }

    /// The loss of a score where `target` is right.
    fn value(self, target: f64, score: f64) -> f64 {
        let (error, margin) = (target - score, target * score);
        match self {
            Loss::Squared => 0.5 * error * error,
            Loss::Huber(bound) if error.abs() <= bound => 0.5 * error * error,
            Loss::Huber(bound) => bound * error.abs() - 0.5 * bound * bound,
            Loss::Absolute(free) => (error.abs() - free).max(0.0),
            Loss::SquaredBeyond(free) => (error.abs() - free).max(0.0).powi(2),
            Loss::Hinge(threshold) => (threshold - margin).max(0.0),
            Loss::SquaredHinge => (1.0 - margin).max(0.0).powi(2),
            Loss::Log => (-margin).max(0.0) + (-margin.abs()).exp().ln_1p(),
            Loss::ModifiedHuber if margin < -1.0 => -4.0 * margin,
            Loss::ModifiedHuber => (1.0 - margin).max(0.0).powi(2),
        }
    }

    /// How much the loss grows with the score.
    fn slope(self, target: f64, score: f64) -> f64 {
        let (error, margin) = (target - score, target * score);
        match self {
            Loss::Squared => -error,
            Loss::Huber(bound) => -error.clamp(-bound, bound),
            Loss::Absolute(free) if error.abs() > free => -error.signum(),
            Loss::Absolute(_) => 0.0,
            Loss::SquaredBeyond(free) => -2.0 * (error.abs() - free).max(0.0).copysign(error),
            Loss::Hinge(threshold) if margin <= threshold => -target,
            Loss::Hinge(_) => 0.0,
            Loss::SquaredHinge => -2.0 * target * (1.0 - margin).max(0.0),
            Loss::Log => -target * logistic(-margin),
            Loss::ModifiedHuber if margin < -1.0 => -4.0 * target,
            Loss::ModifiedHuber => -2.0 * target * (1.0 - margin).max(0.0),
        }
    }
}

/// How long the steps are.
#[derive(Clone, Copy, PartialEq)]
enum Rate {
    Constant,
    Optimal,
    /// Falls with this power of the number of rows seen.
    Inverse(f64),
    Adaptive,
    /// PA-I.
    Capped,
    /// PA-II.
    Damped,
}

/// A training as the hyperparameters have it.
#[derive(Clone, Copy)]
struct Plan {
    loss: Loss,
    rate: Rate,
    eta0: f64,
    /// The cost of the coefficients, and the part of the absolute values in it.
    penalty: Option<(f64, f64)>,
    intercept: bool,
    max_iter: usize,
    tol: Option<f64>,
    shuffle: bool,
    /// The part of the rows that is held back.
    validation: Option<f64>,
    patience: usize,
    /// From which row on models are averaged; 0 for never.
    average: usize,
}

/// What the algorithms have in common.
fn usual(given: &Given) -> Plan {
    Plan {
        loss: Loss::Hinge(1.0),
        rate: Rate::Constant,
        eta0: 1.0,
        penalty: None,
        intercept: given.flag("fit_intercept"),
        max_iter: given.count("max_iter"),
        tol: given.maybe_number("tol"),
        shuffle: given.flag("shuffle"),
        validation: given.flag("early_stopping").then(|| given.number("validation_fraction")),
        patience: given.count("n_iter_no_change"),
        average: averaged(given),
    }
}

fn penalty_of(given: &Given) -> Result<Option<(f64, f64)>, Error> {
    let ratio = match given.word("penalty") {
        "l2" => 0.0,
        "l1" => 1.0,
        "elasticnet" => given
            .maybe_number("l1_ratio")
            .ok_or_else(|| given.refuse("l1_ratio", "a number where penalty is \"elasticnet\""))?,
        _ => return Ok(None),
    };
    Ok(Some((given.number("alpha"), ratio)))
}

/// The plan of `stochastic_gradient_descent`.
fn plan(given: &Given) -> Result<Plan, Error> {
    let (loss, alpha) = (Loss::of(given), given.number("alpha"));
    let rate = match given.word("learning_rate") {
        "constant" => Rate::Constant,
        "optimal" if alpha == 0.0 => {
            return Err(given.refuse("alpha", "a number above 0 where learning_rate is \"optimal\""));
        }
        "optimal" => Rate::Optimal,
        "invscaling" => Rate::Inverse(given.number("power_t")),
        "adaptive" => Rate::Adaptive,
        word => {
            if !matches!(loss, Loss::Hinge(1.0) | Loss::Absolute(_)) {
                let why = "only where loss is \"hinge\", or \"epsilon_insensitive\" in a regression";
                return Err(given.refuse("learning_rate", why));
            }
            if word == "pa1" { Rate::Capped } else { Rate::Damped }
        }
    };
    Ok(Plan { loss, rate, eta0: given.number("eta0"), penalty: penalty_of(given)?, ..usual(given) })
}

/// From which row on the models are averaged, where the family knows of it.
fn averaged(given: &Given) -> usize {
    if !given.has("average") {
        return 0;
    }
    given.maybe_count("average").unwrap_or(usize::from(given.flag("average")))
}

fn regress(problem: &Problem<'_>, given: &Given, plan: Plan, control: &mut Control<'_>) -> Result<Model, Error> {
    let mut random = Random::new(seed(problem, given));
    let (targets, weights) = (problem.target(0), weights(problem)?);
    let held = held_back(problem, given, plan, &mut random)?;
    let rows = Rows { problem, targets: &targets, weights: &weights, held: &held, alpha: alpha_of(given) };
    let found = rows.descend(plan, random, control)?;
    let model = linear_model(problem, found.coefficients, vec![found.intercept], Link::Identity)?;
    Ok(told_whether_converged(model, found.converged))
}

fn classify(problem: &Problem<'_>, given: &Given, plan: Plan, control: &mut Control<'_>) -> Result<Model, Error> {
    let link = match plan.loss {
        Loss::Log => Link::OneVersusRest,
        Loss::ModifiedHuber => Link::Clipped,
        _ => Link::Scores,
    };
    let mut random = Random::new(seed(problem, given));
    let held = held_back(problem, given, plan, &mut random)?;
    let (classes, balanced) = (problem.class_of_rows(), weights(problem)?);
    let binary = problem.classes <= 2;
    let scores = if binary { 1..2 } else { 0..problem.classes };
    let (mut coefficients, mut intercepts, mut converged) = (Vec::new(), Vec::new(), true);
    for class in scores {
        let targets: Vec<f64> = classes.iter().map(|own| if *own == class { 1.0 } else { -1.0 }).collect();
        // Against the rest, only the class itself has its weight.
        let weights: Vec<f64> = (0..problem.rows)
            .map(|row| if binary || classes[row] == class { balanced[row] } else { problem.weight(row) })
            .collect();
        let rows = Rows { problem, targets: &targets, weights: &weights, held: &held, alpha: alpha_of(given) };
        let found = rows.descend(plan, Random::new(random.bits()), control)?;
        coefficients.extend(found.coefficients);
        intercepts.push(found.intercept);
        converged &= found.converged;
    }
    let model = linear_model(problem, coefficients, intercepts, link)?;
    Ok(told_whether_converged(model, converged))
}

/// The hyperparameter `alpha`, by which "optimal" steps are as long also where there is no penalty.
fn alpha_of(given: &Given) -> f64 {
    if given.has("alpha") { given.number("alpha") } else { 0.0 }
}

/// Which rows are held back, the same part of each class; empty where none is.
fn held_back(problem: &Problem<'_>, given: &Given, plan: Plan, random: &mut Random) -> Result<Vec<bool>, Error> {
    let Some(part) = plan.validation else { return Ok(Vec::new()) };
    let mut order: Vec<usize> = (0..problem.rows).collect();
    random.shuffle(&mut order);
    if problem.classes > 0 {
        order.sort_by_key(|row| problem.labels[*row] as usize);
    }
    // Every so manieth in the order of the classes.
    let mut held = vec![false; problem.rows];
    let mut count = 0;
    for (index, row) in order.into_iter().enumerate() {
        if ((index + 1) as f64 * part).floor() > count as f64 {
            held[row] = true;
            count += 1;
        }
    }
    match count > 0 && count < problem.rows {
        true => Ok(held),
        false => Err(given.refuse("validation_fraction", "some of the rows, and not all of them")),
    }
}

struct Rows<'a> {
    problem: &'a Problem<'a>,
    targets: &'a [f64],
    weights: &'a [f64],
    held: &'a [bool],
    alpha: f64,
}

struct Fitted {
    coefficients: Vec<f64>,
    intercept: f64,
    converged: bool,
}

/// A model on its way.
struct State {
    coefficients: Vec<f64>,
    intercept: f64,
    /// The sum of the squares of the coefficients.
    square: f64,
    /// What each coefficient has been lowered by for its absolute value, and what it should have been.
    lowered: Vec<f64>,
    should: f64,
    mean: Vec<f64>,
    mean_intercept: f64,
    /// How many rows have been seen, and one more.
    time: f64,
}

/// The largest slope that a row moves the model by.
const STEEPEST: f64 = 1e12;

/// What an adaptive rate ends below.
const SHORTEST: f64 = 1e-6;

impl Rows<'_> {
    fn descend(&self, plan: Plan, mut random: Random, control: &mut Control<'_>) -> Result<Fitted, Error> {
        let width = self.problem.width;
        let mut order: Vec<usize> =
            (0..self.problem.rows).filter(|row| !self.held.get(*row).copied().unwrap_or(false)).collect();
        let mut state = State {
            coefficients: vec![0.0; width],
            intercept: 0.0,
            square: 0.0,
            lowered: vec![0.0; width],
            should: 0.0,
            mean: vec![0.0; if plan.average > 0 { width } else { 0 }],
            mean_intercept: 0.0,
            time: 1.0,
        };
        let (mut eta, mut best, mut idle, mut converged) = (plan.eta0, f64::INFINITY, 0, false);
        for pass in 0..plan.max_iter {
            if plan.shuffle {
                random.shuffle(&mut order);
            }
            let objective = self.pass(&order, plan, eta, &mut state, control)?;
            if !state.intercept.is_finite() || !state.coefficients.iter().all(|value| value.is_finite()) {
                return Err(Error::Diverged(
                    "the coefficients grew beyond all bounds; features of one scale, or a smaller eta0, can help",
                ));
            }
            let worth = match plan.validation {
                Some(_) => -self.score(&state),
                None => objective / order.len().max(1) as f64,
            };
            let gained = plan.tol.is_none_or(|tol| worth <= best - tol);
            idle = if gained { 0 } else { idle + 1 };
            best = best.min(worth);
            if idle >= plan.patience {
                if plan.rate != Rate::Adaptive || eta <= SHORTEST {
                    converged = true;
                    break;
                }
                eta /= 5.0;
                idle = 0;
            }
            control.progress(pass as u64 + 1, plan.max_iter as u64)?;
        }
        let whole = plan.average > 0 && plan.average as f64 <= state.time - 1.0;
        let (coefficients, intercept) =
            if whole { (state.mean, state.mean_intercept) } else { (state.coefficients, state.intercept) };
        Ok(Fitted { coefficients, intercept, converged: converged || plan.tol.is_none() })
    }

    /// Goes over all rows, and gives the sum of the objective.
    fn pass(
        &self,
        order: &[usize],
        plan: Plan,
        mut eta: f64,
        state: &mut State,
        control: &mut Control<'_>,
    ) -> Result<f64, Error> {
        let passive = matches!(plan.rate, Rate::Capped | Rate::Damped);
        let (cost, ratio) = plan.penalty.unwrap_or((0.0, 0.0));
        let first = self.first(plan);
        let mut objective = 0.0;
        let mut pace = Pace::default();
        for row in order {
            let features = self.problem.row(*row);
            let target = self.targets[*row];
            pace.spend(8 * features.len(), control)?;
            let score = dot(&state.coefficients, features) + state.intercept;
            let loss = plan.loss.value(target, score);
            objective += loss;
            if plan.penalty.is_some() && !passive {
                let absolute = match ratio > 0.0 {
                    true => state.coefficients.iter().map(|value| value.abs()).sum::<f64>(),
                    false => 0.0,
                };
                objective += cost * ((1.0 - ratio) * 0.5 * state.square + ratio * absolute);
            }
            let mut step = match plan.rate {
                Rate::Capped | Rate::Damped => {
                    let length: f64 = features.iter().map(|value| f64::from(*value).powi(2)).sum();
                    if length == 0.0 && plan.rate == Rate::Capped {
                        continue;
                    }
                    let size = match plan.rate {
                        Rate::Capped => (loss / length).min(plan.eta0),
                        _ => loss / (length + 0.5 / plan.eta0),
                    };
                    if matches!(plan.loss, Loss::Hinge(_)) { size * target } else { size.copysign(target - score) }
                }
                rate => {
                    eta = match rate {
                        Rate::Optimal => 1.0 / (self.alpha * (first + state.time - 1.0)),
                        Rate::Inverse(power) => plan.eta0 / state.time.powf(power),
                        _ => eta,
                    };
                    -eta * plan.loss.slope(target, score).clamp(-STEEPEST, STEEPEST)
                }
            };
            step *= self.weights[*row];
            let shrink = if plan.penalty.is_some() { (1.0 - (1.0 - ratio) * eta * cost).max(0.0) } else { 1.0 };
            state.step(features, shrink, step, plan.intercept);
            if plan.average > 0 && plan.average as f64 <= state.time {
                state.average(plan.average);
            }
            if plan.penalty.is_some() && ratio > 0.0 {
                state.should += ratio * eta * cost;
                state.lower();
            }
            state.time += 1.0;
        }
        Ok(objective)
    }

    /// The number of rows that an "optimal" rate takes for seen before the first: Bottou's choice, by a typical score.
    fn first(&self, plan: Plan) -> f64 {
        let typical = (1.0 / self.alpha.sqrt()).sqrt();
        let eta = typical / plan.loss.slope(1.0, -typical).max(1.0);
        1.0 / (eta * self.alpha)
    }

    /// The score on the rows held back: the share that is right, or the coefficient of determination.
    fn score(&self, state: &State) -> f64 {
        let held = || (0..self.problem.rows).filter(|row| self.held.get(*row).copied().unwrap_or(false));
        let score = |row: usize| dot(&state.coefficients, self.problem.row(row)) + state.intercept;
        let count = held().count().max(1) as f64;
        if self.problem.classes > 0 {
            return held().filter(|row| (score(*row) > 0.0) == (self.targets[*row] > 0.0)).count() as f64 / count;
        }
        let mean = held().map(|row| self.targets[row]).sum::<f64>() / count;
        let total: f64 = held().map(|row| (self.targets[row] - mean).powi(2)).sum();
        let residual: f64 = held().map(|row| (self.targets[row] - score(row)).powi(2)).sum();
        if total > 0.0 { 1.0 - residual / total } else { -residual }
    }
}

impl State {
    /// Shrinks the coefficients and moves the model along a row.
    fn step(&mut self, features: &[f32], shrink: f64, step: f64, intercept: bool) {
        if step == 0.0 {
            if shrink != 1.0 {
                for coefficient in &mut self.coefficients {
                    *coefficient *= shrink;
                }
                self.square *= shrink * shrink;
            }
            return;
        }
        let mut squares = [0.0; 4];
        let (mut own, values) = (self.coefficients.chunks_exact_mut(4), features.chunks_exact(4));
        let rest = values.remainder();
        for (four, values) in own.by_ref().zip(values) {
            for lane in 0..4 {
                four[lane] = shrink * four[lane] + step * f64::from(values[lane]);
                squares[lane] += four[lane] * four[lane];
            }
        }
        for (coefficient, value) in own.into_remainder().iter_mut().zip(rest) {
            *coefficient = shrink * *coefficient + step * f64::from(*value);
            squares[0] += *coefficient * *coefficient;
        }
        self.square = squares.iter().sum();
        if intercept {
            self.intercept += step;
        }
    }

    /// Takes the model as it is into the mean of those since row `from`.
    fn average(&mut self, from: usize) {
        let part = 1.0 / (self.time - from as f64 + 1.0);
        for (mean, coefficient) in self.mean.iter_mut().zip(&self.coefficients) {
            *mean += (coefficient - *mean) * part;
        }
        self.mean_intercept += (self.intercept - self.mean_intercept) * part;
    }

    /// Lowers the coefficients by what they should have been lowered by so far, at most to 0.
    fn lower(&mut self) {
        self.square = 0.0;
        for (coefficient, lowered) in self.coefficients.iter_mut().zip(&mut self.lowered) {
            let before = *coefficient;
            if before > 0.0 {
                *coefficient = (before - (self.should + *lowered)).max(0.0);
            } else if before < 0.0 {
                *coefficient = (before + (self.should - *lowered)).min(0.0);
            }
            *lowered += *coefficient - before;
            self.square += *coefficient * *coefficient;
        }
    }
}
