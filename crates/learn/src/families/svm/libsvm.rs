//! Support vector machines (Cortes and Vapnik, 1995) with kernels, in the formulation with a cost C and in that with a
//! share nu (Schölkopf, Smola, Williamson and Bartlett, 2000); of several classes each two against one another.

use crate::Error;
use crate::families::common::told_whether_converged;
use crate::families::common::{NOT_NEGATIVE, POSITIVE, RANDOM_STATE, ignored, seed, takes, weights};
use crate::families::svm::smo::{Effort, Programme, Solution, solve};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::kernel::{self, Link, Parts, pair};
use crate::numerics::kernel::{Kernel, Shape};
use crate::numerics::platt::sigmoid;
use crate::numerics::tiles::Tiles;
use crate::random::Random;

/// `svm` in classification, as scikit-learn's SVC.
pub(crate) const CLASSIFICATION: Family = Family {
    name: "svm",
    task: Task::Classification,
    parameters: &[
        COST,
        KERNEL,
        DEGREE,
        GAMMA,
        COEF0,
        SHRINKING,
        PROBABILITY,
        TOL,
        CACHE_SIZE,
        MAX_ITER,
        BREAK_TIES,
        RANDOM_STATE,
        DECISION_FUNCTION_SHAPE,
        VERBOSE,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: |problem, given, control| classify(problem, given, Formulation::Cost(given.number("C")), control),
    form: &kernel::FORM,
};

/// `nu_svm` in classification, as scikit-learn's NuSVC.
pub(crate) const NU_CLASSIFICATION: Family = Family {
    name: "nu_svm",
    parameters: &[
        NU,
        KERNEL,
        DEGREE,
        GAMMA,
        COEF0,
        SHRINKING,
        PROBABILITY,
        TOL,
        CACHE_SIZE,
        MAX_ITER,
        BREAK_TIES,
        RANDOM_STATE,
        DECISION_FUNCTION_SHAPE,
        VERBOSE,
    ],
    fit: |problem, given, control| classify(problem, given, Formulation::Nu(given.number("nu")), control),
    ..CLASSIFICATION
};

/// `svm` in regression, as scikit-learn's SVR.
pub(crate) const REGRESSION: Family = Family {
    name: "svm",
    task: Task::Regression,
    parameters: &[
        COST,
        takes("epsilon", NOT_NEGATIVE, "0.1", "The error up to which the loss is 0."),
        KERNEL,
        DEGREE,
        GAMMA,
        COEF0,
        SHRINKING,
        TOL,
        CACHE_SIZE,
        MAX_ITER,
        VERBOSE,
    ],
    fit: |problem, given, control| regress(problem, given, Formulation::Cost(given.number("epsilon")), control),
    ..CLASSIFICATION
};

/// `nu_svm` in regression, as scikit-learn's NuSVR.
pub(crate) const NU_REGRESSION: Family = Family {
    name: "nu_svm",
    parameters: &[NU, COST, KERNEL, DEGREE, GAMMA, COEF0, SHRINKING, TOL, CACHE_SIZE, MAX_ITER, VERBOSE],
    fit: |problem, given, control| regress(problem, given, Formulation::Nu(given.number("nu")), control),
    ..REGRESSION
};

/// `one_class_svm`, as scikit-learn's OneClassSVM (Schölkopf, Platt, Shawe-Taylor, Smola and Williamson, "Estimating the support
/// of a high-dimensional distribution", 2001): by how much a row is outside of the region of most training rows.
pub(crate) const ONE_CLASS: Family = Family {
    name: "one_class_svm",
    task: Task::Anomaly,
    parameters: &[
        takes(
            "nu",
            Kind::Above(0.0, 1.0),
            "0.5",
            "An upper bound of the share of training rows that are outliers, and a lower bound of the share of support vectors.",
        ),
        KERNEL,
        DEGREE,
        GAMMA,
        COEF0,
        SHRINKING,
        TOL,
        CACHE_SIZE,
        MAX_ITER,
        VERBOSE,
    ],
    takes_weights: false,
    fit: |problem, given, control| enclose(problem, given, control),
    ..CLASSIFICATION
};

const COST: Parameter =
    takes("C", POSITIVE, "1.0", "The penalty of an error: a larger C means a weaker regularisation.");
const NU: Parameter = takes(
    "nu",
    Kind::Above(0.0, 1.0),
    "0.5",
    "An upper bound of the share of margin errors, and a lower bound of the share of support vectors.",
);
const KERNEL: Parameter =
    takes("kernel", Kind::Choice(&["linear", "poly", "rbf", "sigmoid"]), "\"rbf\"", "The kernel.");
const DEGREE: Parameter = takes("degree", Kind::Integer(0, 1000), "3", "The degree of the kernel poly.");
const GAMMA: Parameter = takes(
    "gamma",
    Kind::Any(&[Kind::Choice(&["scale", "auto"]), NOT_NEGATIVE]),
    "\"scale\"",
    "The factor in the kernels rbf, poly and sigmoid; \"auto\" is one over the number of features, \"scale\" that divided \
     by the variance of all of them.",
);
const COEF0: Parameter = takes(
    "coef0",
    Kind::Number(f64::NEG_INFINITY, f64::INFINITY),
    "0.0",
    "The constant term in the kernels poly and sigmoid.",
);
const SHRINKING: Parameter = takes("shrinking", Kind::Flag, "true", "No effect: the solution is the same.");
const TOL: Parameter = takes("tol", POSITIVE, "0.001", "The tolerance of the solution.");
const CACHE_SIZE: Parameter =
    takes("cache_size", POSITIVE, "200", "The size of the kernel cache during the training, in megabytes.");
const MAX_ITER: Parameter = takes(
    "max_iter",
    Kind::Integer(-1, i64::MAX),
    "-1",
    "The maximum number of iterations for each pair of classes; -1 for 100 times the number of rows, and at least 10 million.",
);
const PROBABILITY: Parameter = takes(
    "probability",
    Kind::Flag,
    "false",
    "Whether the model gives probabilities, which take five more trainings, instead of scores.",
);
const BREAK_TIES: Parameter = takes(
    "break_ties",
    Kind::Flag,
    "false",
    "Whether scores decide between classes with equally many votes, instead of the order of the classes.",
);
const DECISION_FUNCTION_SHAPE: Parameter = ignored("decision_function_shape", "\"ovr\"");
const VERBOSE: Parameter = ignored("verbose", "false");

/// Parts that the rows are divided into, to learn probabilities from decisions on rows that were not trained on.
const FOLDS: usize = 5;

/// What a solution makes a compromise of.
#[derive(Debug, Clone, Copy)]
enum Formulation {
    /// With the cost C; in classification it is this number, in regression this is the epsilon.
    Cost(f64),
    /// With this share nu.
    Nu(f64),
}

fn kernel_of(problem: &Problem<'_>, given: &Given) -> Kernel {
    let width = problem.width as f64;
    let gamma = match given.word("gamma") {
        "auto" => 1.0 / width,
        "scale" => {
            let values = || problem.features.iter().map(|value| f64::from(*value));
            let mean = values().sum::<f64>() / problem.features.len() as f64;
            let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / problem.features.len() as f64;
            if variance > 0.0 { 1.0 / (width * variance) } else { 1.0 }
        }
        _ => given.number("gamma"),
    };
    let kernel = Kernel::given(given, gamma);
    // What the linear kernel has no use for.
    if kernel.shape == Shape::Linear { Kernel { gamma: 1.0, ..kernel } } else { kernel }
}

fn effort_of(problem: &Problem<'_>, given: &Given) -> Effort {
    // A number of steps that only a training without progress reaches.
    let many = (100 * problem.rows as u64).max(10_000_000);
    let most = given.maybe_count("max_iter").map_or(many, |most| most as u64);
    Effort { tol: given.number("tol"), cache: (given.number("cache_size") * 1e6).min(1e15) as usize, most }
}

/// What separates classes by two.
struct Separator<'a> {
    problem: &'a Problem<'a>,
    given: &'a Given,
    kernel: Kernel,
    effort: Effort,
    formulation: Formulation,
    weights: Vec<f64>,
}

impl Separator<'_> {
    /// Fits a machine for two classes, of which the first has the first `positives` rows. Returns the dual coefficients and
    /// the constant.
    fn separate(&self, rows: &[usize], positives: usize, control: &mut Control<'_>) -> Result<Solution, Error> {
        if positives == 0 || positives == rows.len() {
            // A class that is alone is the answer.
            let rho = if positives > 0 { -1.0 } else { 1.0 };
            return Ok(Solution { beta: vec![0.0; rows.len()], rho, margin: 0.0, converged: true });
        }
        let tiles = Tiles::of(self.kernel.pack(self.problem, rows)?, rows.len(), self.problem.width);
        let weights: Vec<f64> = rows.iter().map(|row| self.weights[*row]).collect();
        let mut programme = Programme {
            kernel: &self.kernel,
            tiles: &tiles,
            positives,
            linear: (0..rows.len()).map(|place| if place < positives { -1.0 } else { 1.0 }).collect(),
            bounds: weights.clone(),
            start: vec![0.0; rows.len()],
            nu: false,
        };
        match self.formulation {
            Formulation::Cost(cost) => {
                programme.bounds.iter_mut().for_each(|bound| *bound *= cost);
                solve(&programme, &self.effort, control)
            }
            Formulation::Nu(nu) => {
                programme.nu = true;
                programme.linear.fill(0.0);
                programme.start = self.share(nu, weights.split_at(positives))?;
                let mut solution = solve(&programme, &self.effort, control)?;
                // Where no direction tells the classes apart there is no margin to measure by.
                let scale = if solution.margin > 0.0 { 1.0 / solution.margin } else { 0.0 };
                solution.beta.iter_mut().for_each(|beta| *beta *= scale);
                solution.rho *= scale;
                Ok(solution)
            }
        }
    }

    /// Begins with the first rows of each class, as many as nu says.
    fn share(&self, nu: f64, (positive, negative): (&[f64], &[f64])) -> Result<Vec<f64>, Error> {
        let (first, second) = (positive.iter().sum::<f64>(), negative.iter().sum::<f64>());
        let each = nu * (first + second) / 2.0;
        // A little more may be rounding.
        if each > first.min(second) * (1.0 + 1e-9) {
            let most = 2.0 * first.min(second) / (first + second);
            return Err(self.given.refuse(
                "nu",
                format!(
                    "of two of the classes one is so rare that at most {most:.6} of their rows can be support vectors"
                ),
            ));
        }
        let mut start = Vec::with_capacity(positive.len() + negative.len());
        for weights in [positive, negative] {
            start.extend(fill(weights, each));
        }
        Ok(start)
    }

    /// The sigmoid that makes probabilities of decisions, from decisions on rows that were not trained on.
    fn sigmoid(
        &self,
        rows: &[usize],
        positives: usize,
        random: &mut Random,
        control: &mut Control<'_>,
    ) -> Result<(f64, f64), Error> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        random.shuffle(&mut order);
        let mut decisions = vec![0.0; rows.len()];
        for fold in 0..FOLDS {
            let held = fold * rows.len() / FOLDS..(fold + 1) * rows.len() / FOLDS;
            let mut rest: Vec<usize> = order[..held.start].iter().chain(&order[held.end..]).copied().collect();
            rest.sort_unstable();
            let held = &order[held];
            let of_first = rest.partition_point(|place| *place < positives);
            let of_rest: Vec<usize> = rest.iter().map(|place| rows[*place]).collect();
            let solution = match self.separate(&of_rest, of_first, control) {
                // A share that all rows have room for may be too large for a part of them.
                Err(Error::InvalidParameter { .. }) => continue,
                solution => solution?,
            };
            let support: Vec<usize> = (0..rest.len()).filter(|place| solution.beta[*place] != 0.0).collect();
            let of_support: Vec<usize> = support.iter().map(|place| of_rest[*place]).collect();
            let tiles = Tiles::of(self.kernel.pack(self.problem, &of_support)?, support.len(), self.problem.width);
            for place in held {
                let query = self.kernel.query(self.problem.row(rows[*place]));
                let kernels = self.kernel.measure_all(&tiles, &query);
                let sum: f64 = support.iter().zip(kernels).map(|(place, kernel)| solution.beta[*place] * kernel).sum();
                decisions[*place] = sum - solution.rho;
                control.check()?;
            }
        }
        let positive: Vec<bool> = (0..rows.len()).map(|place| place < positives).collect();
        Ok(sigmoid(&decisions, &positive))
    }
}

/// Fills up the first bounds until there is nothing left.
fn fill(bounds: &[f64], mut left: f64) -> impl Iterator<Item = f64> {
    bounds.iter().map(move |bound| {
        let part = bound.min(left);
        left -= part;
        part
    })
}

fn classify(
    problem: &Problem<'_>,
    given: &Given,
    formulation: Formulation,
    control: &mut Control<'_>,
) -> Result<Model, Error> {
    let weights = weights(problem)?;
    let (kernel, effort) = (kernel_of(problem, given), effort_of(problem, given));
    let separator = Separator { problem, given, kernel, effort, formulation, weights };
    let mut rows_of = vec![Vec::new(); problem.classes];
    for (row, class) in problem.class_of_rows().into_iter().enumerate() {
        // A row without weight is none.
        if separator.weights[row] > 0.0 {
            rows_of[class].push(row);
        }
    }
    let (classes, mut random) = (problem.classes, Random::new(seed(problem, given)));
    let pairs: Vec<(usize, usize)> =
        (0..classes).flat_map(|first| (first + 1..classes).map(move |second| (first, second))).collect();
    // A dual coefficient against each other class; zeros are left out in the end.
    let columns = classes.saturating_sub(1);
    let mut duals: Vec<Vec<f64>> = rows_of.iter().map(|rows| vec![0.0; rows.len() * columns]).collect();
    let (mut intercepts, mut sigmoids, mut converged) = (vec![0.0; pairs.len()], Vec::new(), true);
    for (index, (first, second)) in pairs.iter().copied().enumerate() {
        control.progress(index as u64, pairs.len() as u64)?;
        let rows: Vec<usize> = rows_of[first].iter().chain(&rows_of[second]).copied().collect();
        let positives = rows_of[first].len();
        if given.flag("probability") {
            sigmoids.push(separator.sigmoid(&rows, positives, &mut random, control)?);
        }
        let solution = separator.separate(&rows, positives, control)?;
        converged &= solution.converged;
        intercepts[pair(first, second, classes)] = -solution.rho;
        let (of_first, of_second) = solution.beta.split_at(positives);
        for (class, column, beta) in [(first, second - 1, of_first), (second, first, of_second)] {
            for (duals, beta) in duals[class].chunks_exact_mut(columns).zip(beta) {
                duals[column] = *beta;
            }
        }
    }
    let (mut support, mut starts, mut kept) = (Vec::new(), vec![0], Vec::new());
    for (rows, duals) in rows_of.iter().zip(&duals) {
        for (row, duals) in rows.iter().zip(duals.chunks_exact(columns.max(1))) {
            if duals.iter().any(|dual| *dual != 0.0) {
                support.push(*row);
                kept.extend_from_slice(duals);
            }
        }
        starts.push(support.len() as u32);
    }
    let model = kernel::model(Parts {
        kernel,
        tiles: kernel.pack(problem, &support)?,
        rows: support.len(),
        width: problem.width,
        duals: kept,
        intercepts,
        link: Link::Pairs { starts, sigmoids, break_ties: given.flag("break_ties") },
    })?;
    Ok(told_whether_converged(model, converged))
}

fn regress(
    problem: &Problem<'_>,
    given: &Given,
    formulation: Formulation,
    control: &mut Control<'_>,
) -> Result<Model, Error> {
    let (kernel, effort, cost) = (kernel_of(problem, given), effort_of(problem, given), given.number("C"));
    let rows: Vec<usize> = (0..problem.rows).filter(|row| problem.weight(*row) > 0.0).collect();
    let tiles = Tiles::of(kernel.pack(problem, &rows)?, rows.len(), problem.width);
    let labels = || rows.iter().map(|row| f64::from(problem.labels[*row]));
    let (epsilon, nu) = match formulation {
        Formulation::Cost(epsilon) => (epsilon, 0.0),
        Formulation::Nu(nu) => (0.0, nu),
    };
    let bounds: Vec<f64> = rows.iter().map(|row| cost * problem.weight(*row)).collect();
    let start: Vec<f64> = fill(&bounds, nu * bounds.iter().sum::<f64>() / 2.0).collect();
    let programme = Programme {
        kernel: &kernel,
        tiles: &tiles,
        positives: rows.len(),
        linear: labels().map(|label| epsilon - label).chain(labels().map(|label| -epsilon - label)).collect(),
        bounds: bounds.iter().chain(&bounds).copied().collect(),
        start: start.iter().chain(&start).copied().collect(),
        nu: matches!(formulation, Formulation::Nu(_)),
    };
    let solution = solve(&programme, &effort, control)?;
    let (support, duals): (Vec<usize>, Vec<f64>) =
        rows.iter().zip(&solution.beta).filter(|(_, beta)| **beta != 0.0).map(|(row, beta)| (*row, *beta)).unzip();
    let model = kernel::model(Parts {
        kernel,
        tiles: kernel.pack(problem, &support)?,
        rows: support.len(),
        width: problem.width,
        duals,
        intercepts: vec![-solution.rho],
        link: Link::Values,
    })?;
    Ok(told_whether_converged(model, solution.converged))
}

/// The region of most rows: what of the kernel's sum is lacking there tells an outlier.
fn enclose(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let (kernel, effort) = (kernel_of(problem, given), effort_of(problem, given));
    let rows: Vec<usize> = (0..problem.rows).collect();
    let tiles = Tiles::of(kernel.pack(problem, &rows)?, rows.len(), problem.width);
    let bounds = vec![1.0; rows.len()];
    let start = fill(&bounds, given.number("nu") * rows.len() as f64).collect();
    let linear = vec![0.0; rows.len()];
    let programme =
        Programme { kernel: &kernel, tiles: &tiles, positives: rows.len(), linear, bounds, start, nu: false };
    let solution = solve(&programme, &effort, control)?;
    let support: Vec<usize> = rows.into_iter().filter(|row| solution.beta[*row] != 0.0).collect();
    let model = kernel::model(Parts {
        kernel,
        tiles: kernel.pack(problem, &support)?,
        rows: support.len(),
        width: problem.width,
        duals: support.iter().map(|row| -solution.beta[*row]).collect(),
        intercepts: vec![solution.rho],
        link: Link::Values,
    })?;
    Ok(told_whether_converged(model, solution.converged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::{accuracy, classification, data_set, fit_of, regression, split, try_fit};
    use crate::family::{Meaning, Predict};

    const FAMILIES: [&Family; 4] = [&CLASSIFICATION, &NU_CLASSIFICATION, &REGRESSION, &NU_REGRESSION];

    fn predicted(model: &dyn Predict, row: &[f32]) -> Vec<f32> {
        let mut values = vec![0.0; model.values()];
        model.predict(row, &mut values);
        values
    }

    #[test]
    fn the_widest_margin_is_found() {
        // Of 0, 1 against 3, 4 the margin is 1 wide, around 2.
        let problem = classification(&[0.0, 1.0, 3.0, 4.0], 1, &[0.0, 0.0, 1.0, 1.0]);
        let model = fit_of(&CLASSIFICATION, &problem, r#"{"kernel": "linear", "C": 100, "tol": 1e-6}"#);
        for (at, expected) in [(2.0, 0.0), (3.0, 1.0), (1.0, -1.0), (0.0, -2.0)] {
            let scores = predicted(&*model, &[at]);
            assert!((scores[1] - expected).abs() < 1e-3 && scores[0] == -scores[1], "{at} {scores:?}");
        }
    }

    #[test]
    fn probabilities_add_up_and_agree_with_the_classes() {
        let (features, width, labels) = data_set("wine");
        let (train, test) = split(&features, width, &labels);
        for family in [&CLASSIFICATION, &NU_CLASSIFICATION] {
            let problem = classification(&train.0, width, &train.1);
            let hyperparams = r#"{"kernel": "linear", "probability": true, "random_state": 1}"#;
            let model = fit_of(family, &problem, hyperparams);
            assert_eq!(model.meaning(), Meaning::Probabilities);
            for row in test.0.chunks(width) {
                assert!((predicted(&*model, row).iter().sum::<f32>() - 1.0).abs() < 1e-4);
            }
            assert!(accuracy(&*model, &test.0, &test.1) > 0.85);
        }
    }

    #[test]
    fn a_small_cache_changes_nothing() {
        let (features, width, labels) = data_set("iris");
        let (train, test) = split(&features, width, &labels);
        let problem = classification(&train.0, width, &train.1);
        let [large, small] = ["200", "1e-9"].map(|size| {
            fit_of(&CLASSIFICATION, &problem, &format!(r#"{{"C": 1000, "tol": 1e-6, "cache_size": {size}}}"#))
        });
        for row in test.0.chunks(width) {
            assert_eq!(predicted(&*large, row), predicted(&*small, row));
        }
    }

    #[test]
    fn rows_of_weight_zero_are_no_rows() {
        let (features, width, labels) = data_set("diabetes");
        let half = features.len() / width / 2;
        let weights: Vec<f32> = (0..labels.len()).map(|row| if row < half { 2.0 } else { 0.0 }).collect();
        for (family, hyperparams, doubled) in [
            (&REGRESSION, r#"{"C": 5, "tol": 1e-6}"#, r#"{"C": 10, "tol": 1e-6}"#),
            (&NU_REGRESSION, r#"{"C": 5, "tol": 1e-6}"#, r#"{"C": 10, "tol": 1e-6}"#),
        ] {
            // A factor for gamma that does not depend on which rows there are.
            let with_gamma = |hyperparams: &str| hyperparams.replacen('{', r#"{"gamma": 10, "#, 1);
            let mut problem = regression(&features, width, &labels);
            problem.weights = Some(&weights);
            let weighted = fit_of(family, &problem, &with_gamma(hyperparams));
            let problem = regression(&features[..half * width], width, &labels[..half]);
            let fewer = fit_of(family, &problem, &with_gamma(doubled));
            for row in features.chunks(width) {
                assert_eq!(predicted(&*weighted, row), predicted(&*fewer, row));
            }
        }
    }

    #[test]
    fn a_share_that_a_rare_class_has_no_room_for_is_refused_by_name() {
        let problem = classification(&[0.0, 1.0, 2.0, 3.0], 1, &[0.0, 1.0, 1.0, 1.0]);
        let error = try_fit(&NU_CLASSIFICATION, &problem, r#"{"nu": 0.6}"#).err().unwrap();
        assert!(error.to_string().starts_with("hyperparameter \"nu\" cannot be 0.6: "), "{error}");
        assert!(try_fit(&NU_CLASSIFICATION, &problem, r#"{"nu": 0.5}"#).is_ok());
    }

    #[test]
    fn rows_that_say_nothing_end_in_a_model() {
        for family in FAMILIES {
            for kernel in ["linear", "poly", "rbf", "sigmoid"] {
                let hyperparams = format!(r#"{{"kernel": "{kernel}"}}"#);
                for features in [&[1.0; 8], &[0.0; 8], &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]] {
                    for labels in [[0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.0; 4]] {
                        let problem = match family.task {
                            Task::Classification => classification(features, 2, &labels),
                            _ => regression(features, 2, &labels),
                        };
                        let model = try_fit(family, &problem, &hyperparams).unwrap();
                        assert!(predicted(&*model, &features[..2]).iter().all(|value| value.is_finite()));
                    }
                }
            }
        }
    }

    #[test]
    fn features_beyond_the_numbers_end_in_an_error() {
        let problem = classification(&[1e30, -1e30, 2e30, 3e30], 1, &[0.0, 1.0, 0.0, 1.0]);
        for kernel in ["linear", "poly"] {
            let hyperparams = format!(r#"{{"kernel": "{kernel}", "gamma": 1}}"#);
            let error = try_fit(&CLASSIFICATION, &problem, &hyperparams).err().unwrap();
            assert!(matches!(error, Error::Diverged(_)), "{kernel} {error}");
        }
    }

    #[test]
    fn an_end_by_max_iter_is_told() {
        let (features, width, labels) = data_set("breast_cancer");
        let problem = classification(&features, width, &labels);
        let mut ask = |_| Ok(());
        let given = crate::families::testing::given(&CLASSIFICATION, r#"{"max_iter": 10}"#).unwrap();
        let model = (CLASSIFICATION.fit)(&problem, &given, &mut Control::new(&mut ask)).unwrap();
        assert_eq!(model.warnings.len(), 1);
    }
}
