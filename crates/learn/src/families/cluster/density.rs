//! DBSCAN (Ester, Kriegel, Sander and Xu, 1996): rows with enough others near them are the core of clusters, which reach
//! as far as core rows are near each other; what is near no core row is noise.
//!
//! Neither neighbours nor distances are kept: leaf by leaf of a k-d tree, near pairs of core rows join their sets in a
//! forest, and leaves whose rows are in one set already are not compared. A row that is near the cores of several
//! clusters belongs to the one whose first core row comes first. A row of later is of the cluster of the nearest core
//! row, or noise where that is farther than `eps`.

use crate::Error;
use crate::families::cluster::common;
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::labelled_rows::{self, LabelledRow};
use crate::numerics::distance::{METRICS, Metric};
use crate::numerics::kd_tree::{KdTree, Node};

/// `dbscan`, as scikit-learn's DBSCAN.
pub(crate) const DBSCAN: Family = Family {
    name: "dbscan",
    task: Task::Clustering,
    parameters: &[
        Parameter {
            name: "eps",
            kind: Kind::Above(0.0, f64::INFINITY),
            default: "0.5",
            about: "The maximum distance between two rows that are neighbours.",
        },
        Parameter {
            name: "min_samples",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "5",
            about: "The number of neighbours, or with weights their sum, that make a row a core row; the row itself counts.",
        },
        Parameter {
            name: "metric",
            kind: Kind::Choice(METRICS),
            default: "\"euclidean\"",
            about: "The metric of distances.",
        },
        Parameter {
            name: "p",
            kind: Kind::OrNull(&Kind::Above(0.0, f64::INFINITY)),
            default: "null",
            about: "The power of the metric \"minkowski\"; null for 2.",
        },
        Parameter { name: "metric_params", kind: Kind::Ignored, default: "null", about: "No effect." },
        Parameter { name: "algorithm", kind: Kind::Ignored, default: "\"auto\"", about: "No effect." },
        Parameter { name: "leaf_size", kind: Kind::Ignored, default: "30", about: "No effect." },
        Parameter { name: "n_jobs", kind: Kind::Ignored, default: "null", about: "No effect." },
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &labelled_rows::FORM,
};

/// Disjoint sets, each with its least member at the root.
pub(crate) struct Sets(Vec<u32>);

impl Sets {
    pub(crate) fn new(len: usize) -> Result<Sets, Error> {
        let mut parents = Vec::new();
        room::reserve(&mut parents, len)?;
        parents.extend(0..len as u32);
        Ok(Sets(parents))
    }

    pub(crate) fn root(&mut self, member: usize) -> usize {
        let mut at = member;
        while self.0[at] as usize != at {
            // Halves the way for those who come later.
            self.0[at] = self.0[self.0[at] as usize];
            at = self.0[at] as usize;
        }
        at
    }

    pub(crate) fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b) as u32;
    }
}

/// Rows in a tree, and what is found out about them; all by their places.
struct Rows {
    tree: KdTree,
    /// Which row is at a place.
    order: Vec<u32>,
    /// Reduced.
    eps: f64,
    core: Vec<bool>,
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let metric = Metric::given(given)?;
    let (tree, order) = KdTree::new(problem.features, problem.width, metric)?;
    let mut rows = Rows { eps: metric.reduce(given.number("eps")), core: vec![false; problem.rows], tree, order };
    find_cores(problem, &mut rows, given.count("min_samples") as f64, control)?;
    let clusters = join_cores(&rows, control)?;
    let labelled_rows = labelled_rows(&rows, &clusters, control)?;
    let found = labelled_rows.iter().any(|labelled_row| !labelled_row.only_itself);
    let model =
        labelled_rows::model(problem.features, problem.width, &labelled_rows, metric, Some(given.number("eps")))?;
    Ok(if found { model } else { model.warn("no row has enough neighbours to be a core row: all rows are noise") })
}

/// Which rows have enough others near them.
fn find_cores(problem: &Problem<'_>, rows: &mut Rows, enough: f64, control: &mut Control<'_>) -> Result<(), Error> {
    let mut near = Vec::new();
    for leaf in rows.tree.leaves() {
        control.check()?;
        rows.tree.leaves_near(leaf, rows.eps, &mut near);
        // Its own leaf comes first: it may have enough.
        near.sort_by_key(|other| other.from.abs_diff(leaf.from));
        for place in leaf.from..leaf.to {
            let row = rows.tree.row(place);
            let mut weight = 0.0;
            for other in &near {
                if weight >= enough {
                    break;
                }
                if rows.tree.nearest_in(*other, row) > rows.eps {
                    continue;
                }
                for other in other.from..other.to {
                    if rows.tree.metric.reduced(row, rows.tree.row(other)) <= rows.eps {
                        weight += problem.weight(rows.order[other] as usize);
                    }
                }
            }
            rows.core[place] = weight >= enough;
        }
    }
    Ok(())
}

/// The cluster of each core row, numbered by their first core rows; -1 for others.
fn join_cores(rows: &Rows, control: &mut Control<'_>) -> Result<Vec<i32>, Error> {
    let mut sets = Sets::new(rows.core.len())?;
    let mut near = Vec::new();
    for leaf in rows.tree.leaves() {
        control.check()?;
        rows.tree.leaves_near(leaf, rows.eps, &mut near);
        for other in near.iter().filter(|other| other.from >= leaf.from) {
            let set = one_set(&mut sets, rows, leaf);
            if set.is_some() && set == one_set(&mut sets, rows, *other) {
                continue;
            }
            for a in (leaf.from..leaf.to).filter(|place| rows.core[*place]) {
                if rows.tree.nearest_in(*other, rows.tree.row(a)) > rows.eps {
                    continue;
                }
                for b in (other.from.max(a + 1)..other.to).filter(|place| rows.core[*place]) {
                    let apart = sets.root(a) != sets.root(b);
                    if apart && rows.tree.metric.reduced(rows.tree.row(a), rows.tree.row(b)) <= rows.eps {
                        sets.join(a, b);
                    }
                }
            }
        }
    }
    let mut of_rows = vec![-1; rows.core.len()];
    for (place, core) in rows.core.iter().enumerate() {
        if *core {
            of_rows[rows.order[place] as usize] = sets.root(place) as i32;
        }
    }
    let numbered = common::by_first_row(of_rows);
    Ok(rows.order.iter().map(|row| numbered[*row as usize]).collect())
}

/// The set of all core rows of a leaf, where it is one.
fn one_set(sets: &mut Sets, rows: &Rows, leaf: Node) -> Option<usize> {
    let mut roots = (leaf.from..leaf.to).filter(|place| rows.core[*place]).map(|place| sets.root(place));
    let first = roots.next()?;
    roots.all(|root| root == first).then_some(first)
}

/// The core rows, and those at the border of a cluster that is not the one of their nearest core row.
fn labelled_rows(rows: &Rows, clusters: &[i32], control: &mut Control<'_>) -> Result<Vec<LabelledRow>, Error> {
    let mut labelled_rows: Vec<LabelledRow> = Vec::new();
    room::reserve(&mut labelled_rows, rows.core.len())?;
    for place in 0..rows.core.len() {
        let row = rows.order[place] as usize;
        if rows.core[place] {
            labelled_rows.push(LabelledRow { row, cluster: clusters[place], only_itself: false });
            continue;
        }
        control.check()?;
        let (mut first, mut nearest) = (None, (f64::INFINITY, i32::MAX));
        rows.tree.within(rows.tree.row(place), rows.eps, |other, distance| {
            if rows.core[other] {
                first = Some(first.map_or(clusters[other], |first: i32| first.min(clusters[other])));
                let candidate = (distance, clusters[other]);
                nearest = if candidate < nearest { candidate } else { nearest };
            }
        });
        if let Some(cluster) = first.filter(|cluster| *cluster != nearest.1) {
            labelled_rows.push(LabelledRow { row, cluster, only_itself: true });
        }
    }
    Ok(labelled_rows)
}
