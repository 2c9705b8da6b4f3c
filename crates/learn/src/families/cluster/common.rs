//! The common parts of clusterings.

use std::collections::HashMap;

use crate::Error;
use crate::family::{Given, Kind, Parameter, Problem};
use crate::random::Random;

/// `random_state`.
pub(crate) const RANDOM_STATE: Parameter = Parameter {
    name: "random_state",
    kind: Kind::OrNull(&Kind::Integer(0, i64::MAX)),
    default: "null",
    about: "The seed of random choices; null for the seed of the training.",
};

/// A generator with the seed of `random_state`, or of the training.
pub(crate) fn random(problem: &Problem<'_>, given: &Given) -> Random {
    Random::new(given.maybe_count("random_state").map_or(problem.seed, |seed| seed as u64))
}

/// `n_clusters`, of which there cannot be more than rows.
pub(crate) fn clusters(problem: &Problem<'_>, given: &Given) -> Result<usize, Error> {
    at_most_rows(problem, given, "n_clusters", given.count("n_clusters"))
}

/// A count that cannot be larger than that of the rows.
pub(crate) fn at_most_rows(problem: &Problem<'_>, given: &Given, name: &str, count: usize) -> Result<usize, Error> {
    match count <= problem.rows {
        true => Ok(count),
        false => Err(given.refuse(name, crate::there_are(problem.rows, "row"))),
    }
}

/// The features as float64, row by row.
pub(crate) fn values(problem: &Problem<'_>) -> Result<Vec<f64>, Error> {
    let mut values = Vec::new();
    room::reserve(&mut values, problem.features.len())?;
    values.extend(problem.features.iter().map(|value| f64::from(*value)));
    Ok(values)
}

/// The weight of each row.
pub(crate) fn weights(problem: &Problem<'_>) -> Vec<f64> {
    (0..problem.rows).map(|row| problem.weight(row)).collect()
}

/// Refuses weights, which an algorithm has no use for.
pub(crate) fn unweighted(problem: &Problem<'_>, algorithm: &str) -> Result<(), Error> {
    match problem.weights {
        None => Ok(()),
        Some(_) => Err(Error::Task(format!("algorithm \"{algorithm}\" takes no weights"))),
    }
}

/// The same groups numbered from 0 in the order of their first rows; -1 stays.
pub(crate) fn by_first_row(labels: impl IntoIterator<Item = i32>) -> Vec<i32> {
    let mut numbers: HashMap<i32, i32> = HashMap::new();
    let number = |label: i32| {
        let next = numbers.len() as i32;
        if label < 0 { -1 } else { *numbers.entry(label).or_insert(next) }
    };
    labels.into_iter().map(number).collect()
}
