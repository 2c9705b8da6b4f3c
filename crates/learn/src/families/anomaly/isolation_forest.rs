//! Isolation forests (Liu, Ting and Zhou, "Isolation forest", 2008): random splits cut an outlier off after few of them.
//!
//! The score is 2 to the power of minus the mean depth of a row over the depth that is expected, between 0 and 1; a depth is
//! that of the leaf and what is expected below it by the number of its rows.

use forest::double::{Link, Node, Noted, threshold_of};

use super::{CONTAMINATION_OR_AUTO, above, scores};
use crate::Error;
use crate::families::common::{RANDOM_STATE, ignored, seed, takes};
use crate::families::ensemble::trees::{MANY, VERBOSE, trees as n_estimators};
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task};
use crate::forms::trees::{self, Ensemble};
use crate::random::Random;

/// The threshold of the paper.
const OWN: f64 = 0.5;

/// Euler's constant.
const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

/// Rows of a tree, unless `max_samples` says another number.
const ROWS: usize = 256;

/// Rows of a node from which on a training may be ended before the node is divided.
const LARGE: usize = 4096;

const COUNT_OR_SHARE: Kind = Kind::Any(&[Kind::Integer(1, MANY), Kind::Above(0.0, 1.0)]);

/// `isolation_forest`, as scikit-learn's IsolationForest.
pub(crate) const ISOLATION_FOREST: Family = Family {
    name: "isolation_forest",
    task: Task::Anomaly,
    parameters: &[
        n_estimators("100"),
        takes(
            "max_samples",
            Kind::Any(&[Kind::Choice(&["auto"]), COUNT_OR_SHARE]),
            "\"auto\"",
            "Rows that are drawn for a tree: a count, a share, or \"auto\" for at most 256.",
        ),
        CONTAMINATION_OR_AUTO,
        takes("max_features", COUNT_OR_SHARE, "1.0", "Features that are drawn for a tree: a count or a share."),
        takes("bootstrap", Kind::Flag, "false", "Whether rows are drawn with replacement."),
        RANDOM_STATE,
        ignored("n_jobs", "null"),
        VERBOSE,
        ignored("warm_start", "false"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &trees::FORM,
};

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let rows = drawn(given, "max_samples", problem.rows).unwrap_or(ROWS.min(problem.rows));
    if rows > problem.rows {
        return Err(given.refuse("max_samples", crate::there_are(problem.rows, "row")));
    }
    let features = drawn(given, "max_features", problem.width).unwrap_or(problem.width);
    if features > problem.width {
        return Err(given.refuse("max_features", crate::there_are(problem.width, "feature")));
    }
    let expected = expected_depth(rows);
    let mut grower = Grower {
        problem,
        random: Random::new(seed(problem, given)),
        deepest: (rows.max(2) as f64).log2().ceil() as usize,
        // Of one row nothing is expected, and the score is that of the threshold.
        unit: -std::f64::consts::LN_2 / if expected > 0.0 { expected } else { 1.0 },
        nodes: Vec::new(),
        covers: Vec::new(),
        values: Vec::new(),
    };
    let of = given.count("n_estimators");
    let mut ensemble = Ensemble::new(problem.width, vec![0.0], 1, Link::Exp);
    ensemble.divisor = of as f64;
    if expected == 0.0 {
        ensemble.base = vec![-std::f64::consts::LN_2 * of as f64];
    }
    for tree in 0..of {
        let mut sample = grower.sample(rows, given.flag("bootstrap"));
        let mut columns: Vec<usize> = (0..problem.width).collect();
        grower.random.shuffle(&mut columns);
        columns.truncate(features);
        grower.grow(&mut sample, &columns, control)?;
        let noted = Noted { covers: &grower.covers, gains: &[] };
        ensemble.arrays.push(&grower.nodes, &[], noted, &grower.values)?;
        control.progress(tree as u64 + 1, of as u64)?;
    }
    above(ensemble.model(), given, OWN, |model| scores(model, problem, control))
}

/// A count, or a share of all, at least 1; none for "auto".
fn drawn(given: &Given, name: &str, all: usize) -> Option<usize> {
    match given.is_integer(name) {
        true => Some(given.count(name)),
        false => given.maybe_number(name).map(|share| ((share * all as f64) as usize).max(1)),
    }
}

/// The mean depth of a search that finds nothing in a tree of so many rows.
fn expected_depth(rows: usize) -> f64 {
    let count = rows as f64;
    match rows {
        0 | 1 => 0.0,
        2 => 1.0,
        _ => 2.0 * ((count - 1.0).ln() + EULER_GAMMA) - 2.0 * (count - 1.0) / count,
    }
}

/// Grows trees one after another; the nodes are those of the last.
struct Grower<'a> {
    problem: &'a Problem<'a>,
    random: Random,
    deepest: usize,
    /// What a leaf's depth is multiplied by.
    unit: f64,
    nodes: Vec<Node>,
    covers: Vec<f32>,
    values: Vec<f64>,
}

impl Grower<'_> {
    fn sample(&mut self, rows: usize, bootstrap: bool) -> Vec<u32> {
        let all = self.problem.rows;
        if bootstrap {
            // As scikit-learn, which takes each row once, however often it was drawn.
            let mut sample: Vec<u32> = (0..rows).map(|_| self.random.index(all) as u32).collect();
            sample.sort_unstable();
            sample.dedup();
            return sample;
        }
        if rows == all {
            return (0..all as u32).collect();
        }
        // Floyd's way: as many draws as rows.
        let mut drawn = std::collections::HashSet::with_capacity(rows);
        let mut sample = Vec::with_capacity(rows);
        for last in all - rows..all {
            let row = self.random.index(last + 1) as u32;
            let row = if drawn.insert(row) { row } else { last as u32 };
            drawn.insert(row);
            sample.push(row);
        }
        sample
    }

    fn grow(&mut self, rows: &mut [u32], columns: &[usize], control: &mut Control<'_>) -> Result<(), Error> {
        self.nodes.clear();
        self.covers.clear();
        self.values.clear();
        self.node(rows, columns, 0, control).map(|_| ())
    }

    /// Grows the node of these rows; gives its place.
    fn node(
        &mut self,
        rows: &mut [u32],
        columns: &[usize],
        depth: usize,
        control: &mut Control<'_>,
    ) -> Result<u32, Error> {
        if rows.len() >= LARGE {
            control.check()?;
        }
        let place = self.nodes.len();
        self.covers.push(rows.len() as f32);
        let split = if depth < self.deepest && rows.len() > 1 { self.split(rows, columns) } else { None };
        let Some((column, limit)) = split else {
            self.nodes.push(Node::leaf(self.values.len() as u32));
            self.values.push(self.unit * (depth as f64 + expected_depth(rows.len())));
            return Ok(place as u32);
        };
        self.nodes.push(Node::leaf(0));
        let middle = part(rows, |row| self.problem.row(row as usize)[column] < limit);
        let (low, high) = rows.split_at_mut(middle);
        let left = self.node(low, columns, depth + 1, control)?;
        let right = self.node(high, columns, depth + 1, control)?;
        self.nodes[place] = Node::numeric(column as u32, limit, false, left, right);
        Ok(place as u32)
    }

    /// A feature in which the rows differ, and the number below which they go left; none where they are all the same.
    fn split(&mut self, rows: &[u32], columns: &[usize]) -> Option<(usize, f32)> {
        let mut columns = columns.to_vec();
        while !columns.is_empty() {
            let column = columns.swap_remove(self.random.index(columns.len()));
            let (mut least, mut most) = (f32::INFINITY, f32::NEG_INFINITY);
            for row in rows {
                let value = self.problem.row(*row as usize)[column];
                (least, most) = (least.min(value), most.max(value));
            }
            if least < most {
                let (low, high) = (f64::from(least), f64::from(most));
                let limit = threshold_of(low + self.random.unit() * (high - low));
                // The least goes left, and the largest right.
                return Some((column, if limit > most { most } else { limit }));
            }
        }
        None
    }
}

/// Puts the rows for which this holds first; gives their number.
fn part(rows: &mut [u32], holds: impl Fn(u32) -> bool) -> usize {
    let mut first = 0;
    for at in 0..rows.len() {
        if holds(rows[at]) {
            rows.swap(first, at);
            first += 1;
        }
    }
    first
}
