//! OPTICS (Ankerst, Breunig, Kriegel and Sander, 1999): rows in an order in which those of a cluster follow each other,
//! each with the distance at which it is reached. Valleys of these distances are clusters, whose sides are steep (by
//! `xi`), or what is below one distance (as DBSCAN has it).
//!
//! The end of a valley is corrected by where its rows were reached from (Schubert and Gertz, 2018). The method has no
//! rule for rows that come later: they are of the cluster of the nearest row of the training.

use crate::Error;
use crate::families::cluster::common;
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::labelled_rows::{self, LabelledRow};
use crate::numerics::distance::{METRICS, Metric};
use crate::numerics::kd_tree::KdTree;

/// `optics`, as scikit-learn's OPTICS.
pub(crate) const OPTICS: Family = Family {
    name: "optics",
    task: Task::Clustering,
    parameters: &[
        Parameter {
            name: "min_samples",
            kind: Kind::Any(&[Kind::Integer(2, i32::MAX as i64), Kind::Number(0.0, 1.0)]),
            default: "5",
            about: "The number of neighbours, the row itself included, that make a row a core row; also as a fraction of all rows.",
        },
        Parameter {
            name: "max_eps",
            kind: Kind::OrNull(&Kind::Above(0.0, f64::INFINITY)),
            default: "null",
            about: "The maximum distance between two rows that are neighbours; null for no limit.",
        },
        Parameter {
            name: "metric",
            kind: Kind::Choice(METRICS),
            default: "\"minkowski\"",
            about: "The metric of distances.",
        },
        Parameter {
            name: "p",
            kind: Kind::Above(0.0, f64::INFINITY),
            default: "2",
            about: "The power of the metric \"minkowski\".",
        },
        Parameter { name: "metric_params", kind: Kind::Ignored, default: "null", about: "No effect." },
        Parameter {
            name: "cluster_method",
            kind: Kind::Choice(&["xi", "dbscan"]),
            default: "\"xi\"",
            about: "The method: clusters are valleys of the reachability plot with steep sides (xi), or rows below the distance eps (dbscan).",
        },
        Parameter {
            name: "eps",
            kind: Kind::OrNull(&Kind::Number(0.0, f64::INFINITY)),
            default: "null",
            about: "The distance of the method \"dbscan\"; null for max_eps.",
        },
        Parameter {
            name: "xi",
            kind: Kind::Number(0.0, 0.9999999),
            default: "0.05",
            about: "The minimum steepness: the share by which the reachability falls or rises from one row to the next.",
        },
        Parameter {
            name: "predecessor_correction",
            kind: Kind::Flag,
            default: "true",
            about: "Whether a cluster ends at rows whose predecessor lies outside it.",
        },
        Parameter {
            name: "min_cluster_size",
            kind: Kind::OrNull(&Kind::Any(&[Kind::Integer(2, i32::MAX as i64), Kind::Number(0.0, 1.0)])),
            default: "null",
            about: "The minimum number of rows in a cluster; also as a fraction of all rows; null for min_samples.",
        },
        Parameter { name: "algorithm", kind: Kind::Ignored, default: "\"auto\"", about: "No effect." },
        Parameter { name: "leaf_size", kind: Kind::Ignored, default: "30", about: "No effect." },
        Parameter { name: "memory", kind: Kind::Ignored, default: "null", about: "No effect." },
        Parameter { name: "n_jobs", kind: Kind::Ignored, default: "null", about: "No effect." },
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &labelled_rows::FORM,
};

/// The order of rows; the other arrays by row.
struct Ordering {
    order: Vec<usize>,
    /// At which distance a row was reached; infinite where it began anew.
    reach: Vec<f64>,
    /// From which row.
    from: Vec<Option<usize>>,
    /// Within which distance a row has enough others.
    core: Vec<f64>,
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    common::unweighted(problem, "optics")?;
    let enough = count(problem, given, "min_samples")?.unwrap_or(5);
    let size = count(problem, given, "min_cluster_size")?.unwrap_or(enough);
    let metric = Metric::given(given)?;
    let most = given.maybe_number("max_eps").unwrap_or(f64::INFINITY);
    let eps = given.maybe_number("eps").unwrap_or(most);
    if eps > most {
        return Err(given.refuse("eps", format!("it is at most max_eps, {most}")));
    }
    let ordering = order(problem, metric, enough, most, control)?;
    let labels = match given.word("cluster_method") {
        "dbscan" => below(&ordering, eps),
        _ => {
            let plot = Plot::new(&ordering, given.number("xi"), given.flag("predecessor_correction"));
            outermost(&ordering, &plot.valleys(enough, size, control)?)
        }
    };
    let labelled_row = |(row, cluster): (usize, &i32)| LabelledRow { row, cluster: *cluster, only_itself: false };
    let labelled_rows: Vec<LabelledRow> = labels.iter().enumerate().map(labelled_row).collect();
    let model = labelled_rows::model(problem.features, problem.width, &labelled_rows, metric, None)?;
    match labels.iter().all(|label| *label < 0) {
        true => Ok(model.warn("no clusters were found: all rows are noise")),
        false => Ok(model),
    }
}

/// A number of rows, which may be given as a fraction of them; `None` for null.
fn count(problem: &Problem<'_>, given: &Given, name: &str) -> Result<Option<usize>, Error> {
    let count = match (given.maybe_count(name), given.maybe_number(name)) {
        (Some(count), _) if count > 1 => Some(count),
        (_, Some(fraction)) => Some(((fraction * problem.rows as f64) as usize).max(2)),
        _ => None,
    };
    // The default is not a mistake of the caller's.
    match count {
        Some(count) if count > problem.rows && given.is_given(name) => {
            common::at_most_rows(problem, given, name, count).map(Some)
        }
        count => Ok(count),
    }
}

/// Rounds to a number of digits at which distances that differ by rounding errors alone are equal.
fn rounded(distance: f64) -> f64 {
    const DIGITS: f64 = 1e15;
    let scaled = distance * DIGITS;
    // Where that is beyond what can be told apart, nothing is to be rounded.
    if scaled.abs() < 9e15 { scaled.round_ties_even() / DIGITS } else { distance }
}

/// Goes from row to row, always to the one that is nearest to what was passed.
fn order(
    problem: &Problem<'_>,
    metric: Metric,
    enough: usize,
    most: f64,
    control: &mut Control<'_>,
) -> Result<Ordering, Error> {
    let rows = problem.rows;
    let (tree, places) = KdTree::new(problem.features, problem.width, metric)?;
    let mut core = vec![f64::INFINITY; rows];
    for (row, core) in core.iter_mut().enumerate() {
        control.check()?;
        let near = tree.nearest(problem.row(row), enough, |place| places[place], |_, _| true);
        if let Some((reduced, _)) = near.get(enough - 1) {
            let distance = metric.distance(*reduced);
            *core = if distance > most { f64::INFINITY } else { rounded(distance) };
        }
    }
    let mut ordering =
        Ordering { order: Vec::with_capacity(rows), reach: vec![f64::INFINITY; rows], from: vec![None; rows], core };
    let mut waiting: Vec<usize> = (0..rows).collect();
    let reduced = if most.is_finite() { metric.reduce(most) } else { f64::INFINITY };
    let mut at = 0;
    while !waiting.is_empty() {
        control.progress(ordering.order.len() as u64, rows as u64)?;
        let row = waiting.remove(at);
        ordering.order.push(row);
        let core = ordering.core[row];
        // The next one is found on the way: the first of those with the least distance.
        let mut best = (f64::INFINITY, 0);
        for (index, other) in waiting.iter().enumerate() {
            if core.is_finite() {
                let distance = metric.reduced(problem.row(row), problem.row(*other));
                if distance <= reduced {
                    let reach = rounded(metric.distance(distance).max(core));
                    if reach < ordering.reach[*other] {
                        ordering.reach[*other] = reach;
                        ordering.from[*other] = Some(row);
                    }
                }
            }
            if ordering.reach[*other] < best.0 {
                best = (ordering.reach[*other], index);
            }
        }
        at = best.1;
    }
    Ok(ordering)
}

/// Clusters of rows that follow each other with no larger distance.
fn below(ordering: &Ordering, eps: f64) -> Vec<i32> {
    let mut labels = vec![-1; ordering.order.len()];
    let mut cluster = -1;
    for row in &ordering.order {
        let (far, dense) = (ordering.reach[*row] > eps, ordering.core[*row] <= eps);
        cluster += i32::from(far && dense);
        labels[*row] = if far && !dense { -1 } else { cluster };
    }
    labels
}

/// Valleys that have no other within them are clusters; the first ones found are the innermost.
fn outermost(ordering: &Ordering, valleys: &[(usize, usize)]) -> Vec<i32> {
    let mut labels = vec![-1; ordering.order.len()];
    let mut next = 0;
    for (from, to) in valleys {
        let rows = &ordering.order[*from..=*to];
        if rows.iter().all(|row| labels[*row] < 0) {
            rows.iter().for_each(|row| labels[*row] = next);
            next += 1;
        }
    }
    labels
}

/// The distances in their order, and how they go on: all by positions in the order.
struct Plot<'a> {
    ordering: &'a Ordering,
    /// With an infinite one behind the last.
    reach: Vec<f64>,
    slopes: Vec<Slope>,
    /// 1 less xi.
    rest: f64,
    correct: bool,
}

/// How a distance differs from the next one.
#[derive(Clone, Copy)]
struct Slope {
    down: bool,
    up: bool,
    steep: bool,
}

/// A steep way down.
struct Descent {
    from: usize,
    to: usize,
    /// The largest distance between its end and here.
    highest: f64,
}

impl Plot<'_> {
    fn new(ordering: &Ordering, xi: f64, correct: bool) -> Plot<'_> {
        let mut reach: Vec<f64> = ordering.order.iter().map(|row| ordering.reach[*row]).collect();
        reach.push(f64::INFINITY);
        let rest = 1.0 - xi;
        let slope = |pair: &[f64]| {
            let ratio = pair[0] / pair[1];
            Slope { down: ratio > 1.0, up: ratio < 1.0, steep: ratio <= rest || ratio >= 1.0 / rest }
        };
        let slopes = reach.windows(2).map(slope).collect();
        Plot { ordering, reach, slopes, rest, correct }
    }

    /// All valleys between a steep way down and a steep way up: where they begin, and where they end.
    fn valleys(&self, enough: usize, size: usize, control: &mut Control<'_>) -> Result<Vec<(usize, usize)>, Error> {
        let (mut descents, mut valleys): (Vec<Descent>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
        let (mut at, mut highest) = (0, 0.0f64);
        for steep in 0..self.slopes.len() {
            if !self.slopes[steep].steep || steep < at {
                continue;
            }
            control.check()?;
            highest = self.reach[at..=steep].iter().copied().fold(highest, f64::max);
            // What is higher between a way down and here than where the way began ends its valley.
            descents.retain(|descent| highest.is_finite() && highest <= self.reach[descent.from] * self.rest);
            descents.iter_mut().for_each(|descent| descent.highest = descent.highest.max(highest));
            // As scikit-learn has it, a slope that is steep and not down is up.
            let down = self.slopes[steep].steep_down(self.reach[steep], self.reach[steep + 1], self.rest);
            let end = self.extent(steep, down, enough);
            at = end + 1;
            highest = self.reach[at];
            if down {
                descents.push(Descent { from: steep, to: end, highest: 0.0 });
                continue;
            }
            let found = descents.iter().filter_map(|descent| self.valley(descent, (steep, end), size));
            let mut found: Vec<(usize, usize)> = found.collect();
            found.reverse();
            valleys.extend(found);
        }
        Ok(valleys)
    }

    /// How far a steep way goes on: over steps that are not steep, of which there are not more than enough in a row, but
    /// over none in the other direction.
    fn extent(&self, from: usize, down: bool, enough: usize) -> usize {
        let (mut end, mut gentle) = (from, 0);
        for index in from..self.slopes.len() {
            let slope = self.slopes[index];
            let same = slope.steep && down == slope.steep_down(self.reach[index], self.reach[index + 1], self.rest);
            if same {
                gentle = 0;
                end = index;
            } else if !(if down { slope.up } else { slope.down }) {
                gentle += 1;
                if gentle > enough {
                    break;
                }
            } else {
                break;
            }
        }
        end
    }

    /// The valley between a way down and a way up, where there is one of this size.
    fn valley(&self, descent: &Descent, (up, up_end): (usize, usize), size: usize) -> Option<(usize, usize)> {
        let (mut from, mut to) = (descent.from, up_end);
        let (before, after) = (self.reach[descent.from], self.reach[to + 1]);
        if after * self.rest < descent.highest {
            return None;
        }
        if before * self.rest >= after {
            // The left side is higher: the valley begins where it is as low as the right one.
            while self.reach[from + 1] > after && from < descent.to {
                from += 1;
            }
        } else if after * self.rest >= before {
            while to > up && self.reach[to - 1] > before {
                to -= 1;
            }
        }
        if self.correct {
            to = self.corrected(from, to)?;
        }
        (to + 1 - from >= size && from <= descent.to && to >= up).then_some((from, to))
    }

    /// The last position that is not higher than the first or was reached from within.
    fn corrected(&self, from: usize, to: usize) -> Option<usize> {
        (from + 1..=to).rev().find(|end| {
            let source = self.ordering.from[self.ordering.order[*end]];
            let within = || self.ordering.order[from..*end].iter().any(|row| Some(*row) == source);
            self.reach[from] > self.reach[*end] || within()
        })
    }
}

impl Slope {
    fn steep_down(self, here: f64, next: f64, rest: f64) -> bool {
        self.steep && here / next >= 1.0 / rest
    }
}
