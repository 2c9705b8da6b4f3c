//! BIRCH (Zhang, Ramakrishnan and Livny, 1996): rows that are near each other are summed up in the leaves of a tree,
//! one row after the other, and these few summaries are clustered by agglomeration.
//!
//! A summary is a count, a mean and the sum of squared distances from it, which is exact where the paper's sums of
//! squares cancel (Lang and Schubert, 2022). A row belongs to the cluster of the nearest summary.

use crate::Error;
use crate::families::cluster::agglomeration::{self, Linkage, groups_after, merges};
use crate::families::cluster::common;
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::centroids::{self, nearest};
use crate::numerics::distance::{Metric, squared};

/// `birch`, as scikit-learn's Birch.
pub(crate) const BIRCH: Family = Family {
    name: "birch",
    task: Task::Clustering,
    parameters: &[
        Parameter {
            name: "threshold",
            kind: Kind::Above(0.0, f64::INFINITY),
            default: "0.5",
            about: "The maximum radius of a subcluster: the root of the mean squared distance of its rows from their mean.",
        },
        Parameter {
            name: "branching_factor",
            kind: Kind::Integer(2, i32::MAX as i64),
            default: "50",
            about: "The maximum number of subclusters in a node of the tree.",
        },
        Parameter {
            name: "n_clusters",
            kind: Kind::OrNull(&Kind::Integer(1, i32::MAX as i64)),
            default: "3",
            about: "The number of clusters that the subclusters are joined into; null keeps the subclusters.",
        },
        Parameter { name: "compute_labels", kind: Kind::Ignored, default: "true", about: "No effect." },
        Parameter { name: "copy", kind: Kind::Ignored, default: "true", about: "No effect." },
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &centroids::FORM,
};

/// Rows summed up, and in an inner node the node that has them.
#[derive(Clone)]
struct Summary {
    count: f64,
    mean: Vec<f64>,
    /// The sum of squared distances from the mean.
    spread: f64,
    child: Option<usize>,
}

impl Summary {
    /// With the rows of another.
    fn add(&mut self, other: &Summary) {
        let count = self.count + other.count;
        let share = other.count / count;
        self.spread += other.spread + squared(&self.mean, &other.mean) * self.count * share;
        for (mean, value) in self.mean.iter_mut().zip(&other.mean) {
            *mean += share * (value - *mean);
        }
        self.count = count;
    }

    /// The mean squared distance from the mean that it would have with the rows of another.
    fn spread_with(&self, other: &Summary) -> f64 {
        let count = self.count + other.count;
        let between = squared(&self.mean, &other.mean) * self.count * other.count / count;
        (self.spread + other.spread + between) / count
    }
}

/// Nodes, each with its summaries; the root is the one at `root`.
struct Tree {
    nodes: Vec<Vec<Summary>>,
    root: usize,
    /// Of the mean squared distance.
    threshold: f64,
    most: usize,
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    common::unweighted(problem, "birch")?;
    let clusters = given.maybe_count("n_clusters");
    let clusters = clusters.map(|count| common::at_most_rows(problem, given, "n_clusters", count)).transpose()?;
    let threshold = given.number("threshold").powi(2);
    let mut tree = Tree { nodes: vec![Vec::new()], root: 0, threshold, most: given.count("branching_factor") };
    for row in 0..problem.rows {
        if row % 64 == 0 {
            control.check()?;
        }
        let mean = problem.row(row).iter().map(|value| f64::from(*value)).collect();
        tree.add(&Summary { count: 1.0, mean, spread: 0.0, child: None });
    }
    let centres = tree.leaves();
    let count = centres.len() / problem.width;
    let Some(wanted) = clusters else { return Ok(centroids::model(centres, problem.width)) };
    if count < wanted {
        let why = format!("there are {count} groups of rows, fewer than n_clusters: each is a cluster");
        return Ok(centroids::model(centres, problem.width).warn(why));
    }
    if count > agglomeration::MOST {
        let most = agglomeration::MOST;
        return Err(
            given.refuse("threshold", format!("it leaves {count} groups of rows, and at most {most} can be clustered"))
        );
    }
    let merges = merges(&centres, problem.width, Linkage::Ward, Metric::Euclidean, control)?;
    let of_summaries = groups_after(count, &merges, count - wanted)?;
    let labels = by_first_row(problem, &centres, &of_summaries, control)?;
    Ok(centroids::labelled(centres, labels, problem.width, None))
}

/// The clusters of summaries, numbered by their first rows.
fn by_first_row(
    problem: &Problem<'_>,
    centres: &[f64],
    clusters: &[i32],
    control: &mut Control<'_>,
) -> Result<Vec<i32>, Error> {
    let mut numbers = vec![-1; clusters.len()];
    let mut next = 0;
    for row in 0..problem.rows {
        control.check()?;
        let cluster = clusters[nearest(problem.row(row), centres).0] as usize;
        if numbers[cluster] < 0 {
            numbers[cluster] = next;
            next += 1;
        }
    }
    // Those that no row is nearest to come last.
    for number in numbers.iter_mut().filter(|number| **number < 0) {
        *number = next;
        next += 1;
    }
    Ok(clusters.iter().map(|cluster| numbers[*cluster as usize]).collect())
}

impl Tree {
    /// Adds a row; the root splits where it has too many summaries.
    fn add(&mut self, row: &Summary) {
        let Some([a, b]) = self.add_to(self.root, row) else { return };
        self.root = self.nodes.len();
        self.nodes.push(vec![a, b]);
    }

    /// Adds a row to a node; the summaries of the two nodes that it has become where it has split.
    fn add_to(&mut self, node: usize, row: &Summary) -> Option<[Summary; 2]> {
        let mut best = (f64::INFINITY, None);
        for (index, summary) in self.nodes[node].iter().enumerate() {
            let distance = squared(&summary.mean, &row.mean);
            if distance < best.0 {
                best = (distance, Some(index));
            }
        }
        let Some(index) = best.1 else {
            self.nodes[node].push(row.clone());
            return None;
        };
        match self.nodes[node][index].child {
            Some(child) => match self.add_to(child, row) {
                None => self.nodes[node][index].add(row),
                Some([a, b]) => {
                    self.nodes[node][index] = a;
                    self.nodes[node].push(b);
                }
            },
            None if self.nodes[node][index].spread_with(row) <= self.threshold => self.nodes[node][index].add(row),
            None => self.nodes[node].push(row.clone()),
        }
        (self.nodes[node].len() > self.most).then(|| self.split(node))
    }

    /// Divides the summaries of a node between the two that are farthest apart.
    fn split(&mut self, node: usize) -> [Summary; 2] {
        let all = std::mem::take(&mut self.nodes[node]);
        let mut far = (f64::NEG_INFINITY, 0, 0);
        for a in 0..all.len() {
            for b in a + 1..all.len() {
                let distance = squared(&all[a].mean, &all[b].mean);
                if distance > far.0 {
                    far = (distance, a, b);
                }
            }
        }
        let (first, second) = (all[far.1].mean.clone(), all[far.2].mean.clone());
        let mut parts = [Vec::new(), Vec::new()];
        for (index, summary) in all.into_iter().enumerate() {
            let nearer = squared(&summary.mean, &first) < squared(&summary.mean, &second);
            parts[usize::from(!(nearer || index == far.1))].push(summary);
        }
        let other = self.nodes.len();
        let [a, b] = parts;
        let summaries = [summed(&a, node), summed(&b, other)];
        self.nodes[node] = a;
        self.nodes.push(b);
        summaries
    }

    /// The means of all leaves' summaries.
    fn leaves(&self) -> Vec<f64> {
        let (mut means, mut waiting) = (Vec::new(), vec![self.root]);
        while let Some(node) = waiting.pop() {
            for summary in &self.nodes[node] {
                match summary.child {
                    Some(child) => waiting.push(child),
                    None => means.extend_from_slice(&summary.mean),
                }
            }
        }
        means
    }
}

/// One summary of all of a node, which is never empty.
fn summed(node: &[Summary], child: usize) -> Summary {
    let mut sum = Summary { count: 0.0, mean: node[0].mean.clone(), spread: 0.0, child: Some(child) };
    for summary in node {
        sum.add(summary);
    }
    sum
}
