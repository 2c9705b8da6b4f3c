//! Agglomeration: every row begins as a cluster of its own, and the two nearest clusters become one until there are few
//! enough, or none near enough.
//!
//! All merges come from chains of nearest neighbours (Murtagh, 1983) with the update formulas of Lance and Williams
//! (1967). `feature_agglomeration` bears the name that PostgresML's enum has; there it stood for scikit-learn's
//! FeatureAgglomeration, which groups columns and could not be trained. As a clustering of rows, it is what that class
//! does, done to rows: AgglomerativeClustering. The method has no rule for rows that come later: they are of the cluster
//! of the nearest row of the training.

use crate::Error;
use crate::families::cluster::common;
use crate::families::cluster::density::Sets;
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::labelled_rows;
use crate::numerics::distance::{Metric, squared};

/// Rows of which there is room for all distances: 1.6 GB.
pub(crate) const MOST: usize = 20_000;

/// `feature_agglomeration`, as scikit-learn's AgglomerativeClustering.
pub(crate) const FEATURE_AGGLOMERATION: Family = Family {
    name: "feature_agglomeration",
    task: Task::Clustering,
    parameters: &[
        Parameter {
            name: "n_clusters",
            kind: Kind::OrNull(&Kind::Integer(1, i32::MAX as i64)),
            default: "2",
            about: "The number of clusters; null with a distance_threshold.",
        },
        Parameter {
            name: "linkage",
            kind: Kind::Choice(&["ward", "complete", "average", "single"]),
            default: "\"ward\"",
            about: "The distance between two clusters: the increase of their variance when they are joined, or the distance of the farthest, average or nearest pair of their rows.",
        },
        Parameter {
            name: "metric",
            kind: Kind::Choice(&["euclidean", "l2", "manhattan", "l1", "cityblock", "chebyshev"]),
            default: "\"euclidean\"",
            about: "The metric of distances; with ward, euclidean only.",
        },
        Parameter {
            name: "distance_threshold",
            kind: Kind::OrNull(&Kind::Number(0.0, f64::INFINITY)),
            default: "null",
            about: "The distance from which on clusters are not joined; null with n_clusters.",
        },
        Parameter {
            name: "connectivity",
            kind: Kind::OrNull(&Kind::Refused("all rows can become one cluster")),
            default: "null",
            about: "Not supported.",
        },
        Parameter { name: "compute_full_tree", kind: Kind::Ignored, default: "\"auto\"", about: "No effect." },
        Parameter { name: "compute_distances", kind: Kind::Ignored, default: "false", about: "No effect." },
        Parameter { name: "memory", kind: Kind::Ignored, default: "null", about: "No effect." },
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &labelled_rows::FORM,
};

/// How far two clusters are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linkage {
    Ward,
    Complete,
    Average,
    Single,
}

/// Two clusters that become one: a row of each, and their distance.
pub(crate) struct Merge {
    a: usize,
    b: usize,
    pub(crate) distance: f64,
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    common::unweighted(problem, "feature_agglomeration")?;
    problem.at_most("feature_agglomeration", MOST)?;
    let linkage = match given.word("linkage") {
        "complete" => Linkage::Complete,
        "average" => Linkage::Average,
        "single" => Linkage::Single,
        _ => Linkage::Ward,
    };
    let metric = Metric::given_plain(given.word("metric"));
    if linkage == Linkage::Ward && metric != Metric::Euclidean {
        return Err(given.refuse("metric", "with linkage \"ward\" it is \"euclidean\""));
    }
    let (count, threshold) = (given.maybe_count("n_clusters"), given.maybe_number("distance_threshold"));
    if count.is_some() == threshold.is_some() {
        return Err(given.refuse("n_clusters", "one of n_clusters and distance_threshold is given, and the other null"));
    }
    let count = count.map(|count| common::at_most_rows(problem, given, "n_clusters", count)).transpose()?;
    let values = common::values(problem)?;
    let merges = merges(&values, problem.width, linkage, metric, control)?;
    let done = match (count, threshold) {
        (Some(count), _) => problem.rows - count,
        (None, threshold) => merges.iter().filter(|merge| merge.distance < threshold.unwrap_or(f64::INFINITY)).count(),
    };
    labelled_rows::of_all(problem.features, problem.width, &groups_after(problem.rows, &merges, done)?)
}

/// The distances of all pairs of rows, of which the larger index comes first.
struct Distances(Vec<f64>);

impl Distances {
    fn at(a: usize, b: usize) -> usize {
        let (large, small) = (a.max(b), a.min(b));
        large * (large.max(1) - 1) / 2 + small
    }

    fn get(&self, a: usize, b: usize) -> f64 {
        self.0[Distances::at(a, b)]
    }
}

/// All merges, the nearest clusters first.
pub(crate) fn merges(
    values: &[f64],
    width: usize,
    linkage: Linkage,
    metric: Metric,
    control: &mut Control<'_>,
) -> Result<Vec<Merge>, Error> {
    let count = values.len() / width;
    let mut distances = Distances(Vec::new());
    room::reserve(&mut distances.0, count * (count - 1) / 2)?;
    for a in 0..count {
        control.check()?;
        let row = &values[a * width..(a + 1) * width];
        distances.0.extend(values.chunks_exact(width).take(a).map(|other| match linkage {
            // Of squared distances, so that the update formula is linear.
            Linkage::Ward => squared(row, other),
            _ => metric.distance(metric.reduced(row, other)),
        }));
    }
    let mut merges = chains(&mut distances, count, linkage, control)?;
    if linkage == Linkage::Ward {
        merges.iter_mut().for_each(|merge| merge.distance = merge.distance.max(0.0).sqrt());
    }
    merges.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    Ok(merges)
}

/// Follows nearest neighbours until two clusters are nearest to each other, makes them one, and goes on.
fn chains(
    distances: &mut Distances,
    count: usize,
    linkage: Linkage,
    control: &mut Control<'_>,
) -> Result<Vec<Merge>, Error> {
    let mut sizes = vec![1.0f64; count];
    // Clusters that are still there, each by a row of it.
    let mut there: Vec<usize> = (0..count).collect();
    let mut merges = Vec::with_capacity(count.saturating_sub(1));
    let mut chain: Vec<usize> = Vec::new();
    while there.len() > 1 {
        control.check()?;
        let last = match chain.last() {
            Some(last) => *last,
            None => {
                chain.push(there[0]);
                there[0]
            }
        };
        // Where several are equally near, the one that it came from: chains end then.
        let before = chain.len().checked_sub(2).map(|index| chain[index]);
        let mut best = before.map_or((f64::INFINITY, None), |before| (distances.get(last, before), Some(before)));
        for other in there.iter().filter(|other| **other != last) {
            let distance = distances.get(last, *other);
            if distance < best.0 || best.1.is_none() {
                best = (distance, Some(*other));
            }
        }
        let Some(next) = best.1 else { break };
        if before != Some(next) {
            chain.push(next);
            continue;
        }
        chain.truncate(chain.len() - 2);
        let (keep, gone) = (last.max(next), last.min(next));
        there.retain(|cluster| *cluster != gone);
        for other in there.iter().filter(|other| **other != keep) {
            let (a, b) = (distances.get(keep, *other), distances.get(gone, *other));
            let (of_a, of_b, of_other) = (sizes[keep], sizes[gone], sizes[*other]);
            distances.0[Distances::at(keep, *other)] = match linkage {
                Linkage::Ward => {
                    ((of_a + of_other) * a + (of_b + of_other) * b - of_other * best.0) / (of_a + of_b + of_other)
                }
                Linkage::Complete => a.max(b),
                Linkage::Average => (of_a * a + of_b * b) / (of_a + of_b),
                Linkage::Single => a.min(b),
            };
        }
        sizes[keep] += sizes[gone];
        merges.push(Merge { a: keep, b: gone, distance: best.0 });
    }
    Ok(merges)
}

/// The clusters after the first `done` merges, numbered by their first rows.
pub(crate) fn groups_after(count: usize, merges: &[Merge], done: usize) -> Result<Vec<i32>, Error> {
    let mut sets = Sets::new(count)?;
    for merge in merges.iter().take(done) {
        sets.join(merge.a, merge.b);
    }
    Ok(common::by_first_row((0..count).map(|row| sets.root(row) as i32)))
}
