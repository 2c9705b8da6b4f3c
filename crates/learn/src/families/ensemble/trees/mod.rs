//! The common parts of families of tree ensembles: binned features, the growing of a tree, and hyperparameters.

pub(crate) mod bins;
pub(crate) mod boost;
pub(crate) mod grow;
pub(crate) mod loss;
#[cfg(test)]
mod tests;

use forest::double::Noted;

use self::grow::{Criterion, Growth, Sums, Tree};
use crate::Error;
use crate::families::common::seed;
pub(crate) use crate::families::common::{RANDOM_STATE, weights};
use crate::family::{Given, Kind, Parameter, Problem};
use crate::forms::trees::Ensemble;
use crate::random::Random;

/// The hyperparameters by which families of trees have the same.
pub(crate) const fn row(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Parameter {
    Parameter { name, kind, default, about }
}

/// The first of these, then the others.
pub(crate) const fn join<const A: usize, const B: usize, const ALL: usize>(
    first: &[Parameter; A],
    others: &[Parameter; B],
) -> [Parameter; ALL] {
    let mut all = [N_JOBS; ALL];
    let mut index = 0;
    while index < ALL {
        all[index] = if index < A { first[index] } else { others[index - A] };
        index += 1;
    }
    all
}

pub(crate) const MANY: i64 = i32::MAX as i64;
const SHARE: Kind = Kind::Above(0.0, 1.0);

pub(crate) const fn trees(default: &'static str) -> Parameter {
    row("n_estimators", Kind::Integer(1, 100_000), default, "The number of trees.")
}

pub(crate) const fn max_depth(default: &'static str) -> Parameter {
    const KIND: Kind = Kind::OrNull(&Kind::Integer(1, MANY));
    row("max_depth", KIND, default, "The maximum depth of a tree; null for no limit.")
}

pub(crate) const MIN_SAMPLES_SPLIT: Parameter = row(
    "min_samples_split",
    Kind::Any(&[Kind::Integer(2, MANY), SHARE]),
    "2",
    "Rows that a node must have to be split: a count, or a share of all rows.",
);
pub(crate) const MIN_SAMPLES_LEAF: Parameter = row(
    "min_samples_leaf",
    Kind::Any(&[Kind::Integer(1, MANY), SHARE]),
    "1",
    "Rows that a leaf must have: a count, or a share of all rows.",
);
pub(crate) const MIN_WEIGHT_FRACTION_LEAF: Parameter = row(
    "min_weight_fraction_leaf",
    Kind::Number(0.0, 0.5),
    "0.0",
    "The share of the weight of all rows that a leaf must have.",
);
pub(crate) const MAX_LEAF_NODES: Parameter = row(
    "max_leaf_nodes",
    Kind::OrNull(&Kind::Integer(2, MANY)),
    "null",
    "Leaves that a tree may have, the best split first; null for no limit.",
);
pub(crate) const MIN_IMPURITY_DECREASE: Parameter = row(
    "min_impurity_decrease",
    Kind::Number(0.0, f64::INFINITY),
    "0.0",
    "The minimum decrease of impurity by a split, weighted by the node's share of the rows.",
);
pub(crate) const CCP_ALPHA: Parameter = row(
    "ccp_alpha",
    Kind::Any(&[
        Kind::Number(0.0, 0.0),
        Kind::Refused("only 0 is possible: trees are not pruned after they were grown"),
    ]),
    "0.0",
    "Only 0: trees are not pruned after they were grown.",
);
pub(crate) const N_JOBS: Parameter = row("n_jobs", Kind::Ignored, "null", "No effect.");
pub(crate) const VERBOSE: Parameter = row("verbose", Kind::Ignored, "0", "No effect.");
pub(crate) const OOB_SCORE: Parameter = row("oob_score", Kind::Ignored, "false", "No effect.");
pub(crate) const WARM_START: Parameter = row("warm_start", Kind::Ignored, "false", "No effect.");
pub(crate) const MONOTONIC_CST: Parameter = row(
    "monotonic_cst",
    Kind::Any(&[Kind::OrNull(&Kind::Refused("only null is possible: algorithm \"xgboost\" has monotone_constraints"))]),
    "null",
    "Only null.",
);
pub(crate) const fn max_features(default: &'static str) -> Parameter {
    const KIND: Kind = Kind::OrNull(&Kind::Any(&[Kind::Choice(&["sqrt", "log2"]), Kind::Integer(1, MANY), SHARE]));
    row(
        "max_features",
        KIND,
        default,
        "Features that are tried at a split: a count, a share, \"sqrt\", \"log2\", or null for all.",
    )
}

/// A count as it is, or a share of `all`.
pub(crate) fn count_of(given: &Given, name: &str, all: usize) -> usize {
    match given.is_integer(name) {
        true => given.count(name),
        false => given.maybe_number(name).map_or(all, |share| (share * all as f64).ceil() as usize),
    }
}

/// How many features a split tries.
pub(crate) fn features_of(given: &Given, width: usize) -> usize {
    let count = match given.word("max_features") {
        "sqrt" => (width as f64).sqrt() as usize,
        "log2" => (width as f64).log2() as usize,
        _ if given.is_integer("max_features") => given.count("max_features"),
        _ => given.maybe_number("max_features").map_or(width, |share| (share * width as f64) as usize),
    };
    count.clamp(1, width)
}

/// The growth that the usual hyperparameters ask for; `weight` is that of all rows.
pub(crate) fn growth(given: &Given, problem: &Problem<'_>, criterion: Criterion, weight: f64) -> Growth {
    let least_split = count_of(given, "min_samples_split", problem.rows).max(2);
    let min_leaf = count_of(given, "min_samples_leaf", problem.rows).max(1);
    Growth {
        max_depth: given.maybe_count("max_depth").unwrap_or(usize::MAX),
        min_split: least_split.max(2 * min_leaf),
        min_leaf,
        min_weight: given.number("min_weight_fraction_leaf") * weight,
        tried: Some(features_of(given, problem.width)),
        max_leaves: given.maybe_count("max_leaf_nodes"),
        min_decrease: given.number("min_impurity_decrease"),
        ..plain(criterion)
    }
}

/// Trees without a limit, that try all features.
pub(crate) fn plain(criterion: Criterion) -> Growth {
    Growth {
        criterion,
        max_depth: usize::MAX,
        min_split: 2,
        min_leaf: 1,
        min_weight: 0.0,
        tried: None,
        max_leaves: None,
        min_decrease: 0.0,
        must_gain: false,
        random_thresholds: false,
        l2: 0.0,
        smooth: 0.0,
    }
}

/// What a criterion is called.
pub(crate) fn criterion(given: &Given) -> Criterion {
    match given.word("criterion") {
        "gini" => Criterion::Gini,
        "entropy" | "log_loss" => Criterion::Entropy,
        "poisson" => Criterion::Poisson,
        _ => Criterion::SquaredError,
    }
}

/// The numbers of a training's own random choices.
pub(crate) fn random(problem: &Problem<'_>, given: &Given) -> Random {
    Random::new(seed(problem, given))
}

/// The classes of all rows.
pub(crate) fn classes(problem: &Problem<'_>) -> Result<Vec<u32>, Error> {
    let mut classes = Vec::new();
    room::reserve(&mut classes, problem.rows)?;
    classes.extend(problem.labels.iter().map(|label| *label as u32));
    Ok(classes)
}

/// All labels times the weights of their rows: what trees of a regression are grown by.
pub(crate) fn weighted_labels(problem: &Problem<'_>, weights: &[f64], sums: &mut Vec<f64>) -> Result<(), Error> {
    sums.clear();
    room::reserve(sums, problem.labels.len())?;
    for (labels, weight) in problem.labels.chunks_exact(problem.targets).zip(weights) {
        sums.extend(labels.iter().map(|label| f64::from(*label) * weight));
    }
    Ok(())
}

/// The values of a tree's leaves: means of the sums, or shares of all classes.
pub(crate) fn leaf_values(tree: &Tree, weights: &[f64], sums: Sums<'_>, values: &mut Vec<f64>) -> Result<(), Error> {
    values.clear();
    let size = match sums {
        Sums::Numbers(_, count) => count,
        Sums::Classes(_, classes) => classes,
    };
    room::reserve(values, tree.leaves.len() * size)?;
    for leaf in 0..tree.leaves.len() {
        let first = values.len();
        values.resize(first + size, 0.0);
        let value = &mut values[first..];
        let mut weight = 0.0;
        for row in tree.rows_of(leaf) {
            let row = *row as usize;
            weight += weights[row];
            match sums {
                Sums::Classes(classes, _) => value[classes[row] as usize] += weights[row],
                Sums::Numbers(numbers, count) => {
                    for (value, sum) in value.iter_mut().zip(&numbers[row * count..]) {
                        *value += sum;
                    }
                }
            }
        }
        if weight > 0.0 {
            value.iter_mut().for_each(|value| *value /= weight);
        }
    }
    Ok(())
}

/// Adds a tree with these values of its leaves.
pub(crate) fn push(ensemble: &mut Ensemble, tree: &Tree, values: &[f64]) -> Result<(), Error> {
    let noted = Noted { covers: &tree.covers, gains: &tree.gains };
    Ok(ensemble.arrays.push(&tree.nodes, &tree.categories, noted, values)?)
}

/// How often each row is in a sample that is drawn with replacement, times its weight; and the rows that are
/// in it. Rows without a weight are not drawn.
pub(crate) fn bootstrap(
    size: usize,
    weights: &[f64],
    random: &mut Random,
    drawn: &mut Vec<f64>,
) -> Result<Vec<u32>, Error> {
    let mut rows = all_rows(weights)?;
    drawn.clear();
    room::reserve(drawn, weights.len())?;
    drawn.resize(weights.len(), 0.0);
    for _ in 0..size {
        let row = rows[random.index(rows.len())] as usize;
        drawn[row] += weights[row];
    }
    rows.retain(|row| drawn[*row as usize] > 0.0);
    Ok(rows)
}

/// All rows that have a weight.
pub(crate) fn all_rows(weights: &[f64]) -> Result<Vec<u32>, Error> {
    u32::try_from(weights.len()).map_err(|_| Error::Memory)?;
    let mut rows = Vec::new();
    room::reserve(&mut rows, weights.len())?;
    rows.extend((0..weights.len() as u32).filter(|row| weights[*row as usize] > 0.0));
    Ok(rows)
}
