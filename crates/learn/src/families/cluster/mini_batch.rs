//! k-means on a few rows at a time: centres are the means of all rows that were ever nearest to them when these were
//! drawn (Sculley, 2010), and centres that hardly any row is near to are drawn again.

use crate::Error;
use crate::families::cluster::common::{self, RANDOM_STATE};
use crate::families::cluster::k_means::{INIT, N_CLUSTERS, N_INIT, Points, first_centres, settle};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::centroids::{self, nearest};
use crate::numerics::distance::squared;
use crate::random::Random;

/// `mini_batch_kmeans`, as scikit-learn's MiniBatchKMeans.
pub(crate) const MINI_BATCH_KMEANS: Family = Family {
    name: "mini_batch_kmeans",
    task: Task::Clustering,
    parameters: &[
        N_CLUSTERS,
        INIT,
        N_INIT,
        Parameter {
            name: "max_iter",
            kind: Kind::Integer(1, 1_000_000),
            default: "100",
            about: "The maximum number of passes over the rows, on average.",
        },
        Parameter {
            name: "batch_size",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "1024",
            about: "The number of rows in a batch.",
        },
        Parameter {
            name: "tol",
            kind: Kind::Number(0.0, f64::INFINITY),
            default: "0.0",
            about: "The training ends when the sum of the centres' squared moves in a batch is at most this; 0 for never.",
        },
        Parameter {
            name: "max_no_improvement",
            kind: Kind::OrNull(&Kind::Integer(0, i32::MAX as i64)),
            default: "10",
            about: "The training ends after this number of batches in a row without improvement; null for never.",
        },
        Parameter {
            name: "init_size",
            kind: Kind::OrNull(&Kind::Integer(1, i32::MAX as i64)),
            default: "null",
            about: "The number of rows from which the initial centres are chosen; null for three batches.",
        },
        Parameter {
            name: "reassignment_ratio",
            kind: Kind::Number(0.0, f64::INFINITY),
            default: "0.01",
            about: "A centre is chosen anew if it has fewer rows than this share of the rows of the largest centre.",
        },
        Parameter { name: "compute_labels", kind: Kind::Ignored, default: "true", about: "No effect." },
        Parameter { name: "verbose", kind: Kind::Ignored, default: "0", about: "No effect." },
        RANDOM_STATE,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &centroids::FORM,
};

/// Centres, and the weights of the rows that each is the mean of.
struct Centres {
    places: Vec<f64>,
    weights: Vec<f64>,
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let clusters = common::clusters(problem, given)?;
    let values = common::values(problem)?;
    let weights = common::weights(problem);
    let points = Points { values: &values, width: problem.width, weights: &weights };
    let mut random = common::random(problem, given);
    let batch = given.count("batch_size").min(problem.rows);
    let places = best_start(points, given, clusters, batch, &mut random, control)?;
    let mut centres = Centres { weights: vec![0.0; clusters], places };
    improve(points, given, &mut centres, batch, &mut random, control)?;
    Ok(centroids::model(centres.places, problem.width))
}

/// First centres from some rows: of a few draws those with the least inertia on others.
fn best_start(
    points: Points<'_>,
    given: &Given,
    clusters: usize,
    batch: usize,
    random: &mut Random,
    control: &mut Control<'_>,
) -> Result<Vec<f64>, Error> {
    let spread = given.word("init") == "k-means++";
    let starts = given.maybe_count("n_init").unwrap_or(if spread { 1 } else { 3 });
    let size =
        given.maybe_count("init_size").unwrap_or_else(|| batch.saturating_mul(3)).max(clusters.saturating_mul(3));
    let size = size.min(points.len());
    let (test_values, test_weights) = draw(points, size, random);
    let test = Points { values: &test_values, width: points.width, weights: &test_weights };
    let mut best: Option<(f64, Vec<f64>)> = None;
    for _ in 0..starts {
        let mut rows: Vec<usize> = (0..points.len()).collect();
        random.shuffle(&mut rows);
        let values: Vec<f64> = rows[..size].iter().flat_map(|row| points.row(*row)).copied().collect();
        let weights: Vec<f64> = rows[..size].iter().map(|row| points.weights[*row]).collect();
        let part = Points { values: &values, width: points.width, weights: &weights };
        let centres = first_centres(part, clusters, spread, random, control)?;
        let found = settle(test, centres, vec![0; size], control)?;
        if best.as_ref().is_none_or(|(inertia, _)| found.inertia < *inertia) {
            best = Some((found.inertia, found.centres));
        }
    }
    best.map(|(_, centres)| centres).ok_or(Error::Diverged("no centres were found"))
}

/// A sample of rows, drawn with replacement.
fn draw(points: Points<'_>, size: usize, random: &mut Random) -> (Vec<f64>, Vec<f64>) {
    let (mut values, mut weights) = (Vec::with_capacity(size * points.width), Vec::with_capacity(size));
    for _ in 0..size {
        let row = random.index(points.len());
        values.extend_from_slice(points.row(row));
        weights.push(points.weights[row]);
    }
    (values, weights)
}

/// Moves centres batch by batch.
fn improve(
    points: Points<'_>,
    given: &Given,
    centres: &mut Centres,
    batch: usize,
    random: &mut Random,
    control: &mut Control<'_>,
) -> Result<(), Error> {
    let steps = (given.count("max_iter") as f64 * points.len() as f64 / batch as f64).ceil() as u64;
    let patience = given.maybe_count("max_no_improvement");
    let ratio = given.number("reassignment_ratio");
    // Inertia is smoothed over about as many batches as have all rows.
    let smoothing = (2.0 * batch as f64 / (points.len() as f64 + 1.0)).min(1.0);
    let (mut smooth, mut least, mut worse) = (None::<f64>, f64::INFINITY, 0);
    let mut since_drawn = 0;
    for step in 0..steps {
        control.progress(step, steps)?;
        let (values, weights) = draw(points, batch, random);
        let part = Points { values: &values, width: points.width, weights: &weights };
        since_drawn += batch;
        let again = since_drawn > 10 * centres.weights.len() || centres.weights.contains(&0.0);
        if again {
            since_drawn = 0;
        }
        let before = centres.places.clone();
        let inertia = step_of(part, centres, control)?;
        if again && ratio > 0.0 && step > 0 {
            draw_again(part, centres, ratio, random);
        }
        if step == 0 {
            // The first batch says more about where the centres began than about where they are going.
            continue;
        }
        let now = smooth.map_or(inertia, |smooth| smooth * (1.0 - smoothing) + inertia * smoothing);
        smooth = Some(now);
        if given.number("tol") > 0.0 && squared(&before, &centres.places) <= given.number("tol") {
            break;
        }
        worse = if now < least { 0 } else { worse + 1 };
        least = least.min(now);
        if patience.is_some_and(|patience| worse >= patience) {
            break;
        }
    }
    Ok(())
}

/// Makes the rows of a batch part of the means; the mean squared distance of before.
fn step_of(part: Points<'_>, centres: &mut Centres, control: &mut Control<'_>) -> Result<f64, Error> {
    let mut inertia = 0.0;
    let mut to = Vec::with_capacity(part.len());
    for row in 0..part.len() {
        if row % 512 == 0 {
            control.check()?;
        }
        let (centre, distance) = nearest(part.row(row), &centres.places);
        inertia += distance * part.weights[row];
        to.push(centre);
    }
    for (row, centre) in to.into_iter().enumerate() {
        let weight = part.weights[row];
        centres.weights[centre] += weight;
        if weight > 0.0 {
            let share = weight / centres.weights[centre];
            let place = &mut centres.places[centre * part.width..(centre + 1) * part.width];
            for (mean, value) in place.iter_mut().zip(part.row(row)) {
                *mean += share * (value - *mean);
            }
        }
    }
    Ok(inertia / part.weights.iter().sum::<f64>().max(f64::MIN_POSITIVE))
}

/// Moves centres of few rows to rows of the batch, at most half of it.
fn draw_again(part: Points<'_>, centres: &mut Centres, ratio: f64, random: &mut Random) {
    let largest = centres.weights.iter().copied().fold(0.0, f64::max);
    let mut few: Vec<usize> =
        (0..centres.weights.len()).filter(|centre| centres.weights[*centre] < ratio * largest).collect();
    few.sort_by(|a, b| centres.weights[*a].total_cmp(&centres.weights[*b]));
    few.truncate(part.len() / 2);
    let others = (0..centres.weights.len()).filter(|centre| !few.contains(centre));
    let least = others.map(|centre| centres.weights[centre]).fold(f64::INFINITY, f64::min);
    for centre in few {
        let row = random.index(part.len());
        centres.places[centre * part.width..(centre + 1) * part.width].copy_from_slice(part.row(row));
        centres.weights[centre] = if least.is_finite() { least } else { 0.0 };
    }
}
