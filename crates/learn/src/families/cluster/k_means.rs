//! k-means: centres such that the sum of the squared distances of all rows from the nearest one is small.
//!
//! Lloyd's iteration (1982) from centres drawn by greedy k-means++ (Arthur and Vassilvitskii, 2007), the best of a few
//! starts. Most distances are never computed: bounds of Hamerly (2010) say which centre stays the nearest. They change
//! nothing in the result, so that `algorithm` does not either.

use crate::Error;
use crate::families::cluster::common::{self, RANDOM_STATE};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::centroids::{self, nearest};
use crate::numerics::distance::squared;
use crate::random::Random;

/// `kmeans`, as scikit-learn's KMeans.
pub(crate) const KMEANS: Family = Family {
    name: "kmeans",
    task: Task::Clustering,
    parameters: &[
        N_CLUSTERS,
        INIT,
        N_INIT,
        Parameter {
            name: "max_iter",
            kind: Kind::Integer(1, 1_000_000),
            default: "300",
            about: "The maximum number of iterations of a run.",
        },
        Parameter {
            name: "tol",
            kind: Kind::Number(0.0, f64::INFINITY),
            default: "0.0001",
            about: "A run ends when the sum of the centres' squared moves is at most this share of the mean variance of the features.",
        },
        Parameter {
            name: "algorithm",
            kind: Kind::Choice(&["lloyd", "elkan"]),
            default: "\"lloyd\"",
            about: "No effect: both have the same result.",
        },
        Parameter { name: "copy_x", kind: Kind::Ignored, default: "true", about: "No effect." },
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

pub(crate) const N_CLUSTERS: Parameter = Parameter {
    name: "n_clusters",
    kind: Kind::Integer(1, i32::MAX as i64),
    default: "8",
    about: "The number of clusters.",
};

pub(crate) const INIT: Parameter = Parameter {
    name: "init",
    kind: Kind::Choice(&["k-means++", "random"]),
    default: "\"k-means++\"",
    about: "The choice of the initial centres: far from each other, or at random.",
};

pub(crate) const N_INIT: Parameter = Parameter {
    name: "n_init",
    kind: Kind::Any(&[Kind::Choice(&["auto"]), Kind::Integer(1, 1_000_000)]),
    default: "\"auto\"",
    about: "The number of runs with other initial centres, of which the best is kept; \"auto\" is 1 for k-means++, and more for random.",
};

/// Rows to find centres for.
#[derive(Clone, Copy)]
pub(crate) struct Points<'a> {
    pub(crate) values: &'a [f64],
    pub(crate) width: usize,
    /// One for each row.
    pub(crate) weights: &'a [f64],
}

impl Points<'_> {
    pub(crate) fn len(&self) -> usize {
        self.weights.len()
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

/// How centres are looked for.
#[derive(Clone, Copy)]
pub(crate) struct Search {
    pub(crate) clusters: usize,
    /// Whether first centres are far from each other, rather than any rows.
    pub(crate) spread: bool,
    pub(crate) starts: usize,
    pub(crate) iterations: usize,
    /// As `tol`.
    pub(crate) tolerance: f64,
}

/// Centres, and what belongs to them.
pub(crate) struct Centres {
    pub(crate) centres: Vec<f64>,
    pub(crate) nearest: Vec<u32>,
    /// The sum of squared distances, each times the weight of its row.
    pub(crate) inertia: f64,
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let clusters = common::clusters(problem, given)?;
    let values = common::values(problem)?;
    let weights = common::weights(problem);
    let points = Points { values: &values, width: problem.width, weights: &weights };
    let spread = given.word("init") == "k-means++";
    let search = Search {
        clusters,
        spread,
        starts: given.maybe_count("n_init").unwrap_or(if spread { 1 } else { 10 }),
        iterations: given.count("max_iter"),
        tolerance: given.number("tol"),
    };
    let found = k_means(points, &search, &mut common::random(problem, given), control)?;
    let mut used = vec![false; clusters];
    for centre in &found.nearest {
        used[*centre as usize] = true;
    }
    let empty = used.iter().filter(|used| !**used).count();
    let model = centroids::model(found.centres, problem.width);
    Ok(match empty {
        0 => model,
        _ => model.warn(format!("{empty} of {clusters} clusters have no rows: there are fewer different rows")),
    })
}

/// The best centres of several starts.
pub(crate) fn k_means(
    points: Points<'_>,
    search: &Search,
    random: &mut Random,
    control: &mut Control<'_>,
) -> Result<Centres, Error> {
    let tolerance = search.tolerance * mean_variance(points);
    let mut best: Option<Centres> = None;
    for start in 0..search.starts.max(1) {
        let centres = first_centres(points, search.clusters, search.spread, random, control)?;
        let found = improve(points, centres, search.iterations, tolerance, control)?;
        if best.as_ref().is_none_or(|best| found.inertia < best.inertia) {
            best = Some(found);
        }
        control.progress(start as u64 + 1, search.starts as u64)?;
    }
    best.ok_or(Error::Diverged("no centres were found"))
}

/// The mean of the variances of the features.
fn mean_variance(points: Points<'_>) -> f64 {
    let count = points.len() as f64;
    let mut means = vec![0.0; points.width];
    for row in points.values.chunks_exact(points.width) {
        for (mean, value) in means.iter_mut().zip(row) {
            *mean += value / count;
        }
    }
    let squares: f64 = points.values.chunks_exact(points.width).map(|row| squared(row, &means)).sum();
    squares / count / points.width as f64
}

/// Draws rows to be the first centres.
pub(crate) fn first_centres(
    points: Points<'_>,
    clusters: usize,
    spread: bool,
    random: &mut Random,
    control: &mut Control<'_>,
) -> Result<Vec<f64>, Error> {
    let rows = match spread {
        true => spread_rows(points, clusters, random, control)?,
        false => {
            let mut rows: Vec<usize> = (0..points.len()).collect();
            random.shuffle(&mut rows);
            rows.truncate(clusters);
            rows
        }
    };
    Ok(rows.into_iter().flat_map(|row| points.row(row)).copied().collect())
}

/// Rows that are far from each other: each is drawn with a probability in proportion to its weight and the square of
/// its distance from the nearest one before it; of some draws, the one that leaves the least squares.
fn spread_rows(
    points: Points<'_>,
    clusters: usize,
    random: &mut Random,
    control: &mut Control<'_>,
) -> Result<Vec<usize>, Error> {
    let draws = 2 + (clusters as f64).ln() as usize;
    let mut chosen = vec![drawn(points.weights, random)];
    // For each row the nearest of the chosen ones, and the square of its distance.
    let mut nearest = vec![0u32; points.len()];
    let mut left: Vec<f64> = (0..points.len()).map(|row| squared(points.row(row), points.row(chosen[0]))).collect();
    while chosen.len() < clusters {
        let shares: Vec<f64> = left.iter().zip(points.weights).map(|(left, weight)| left * weight).collect();
        let mut best: Option<(usize, f64, Vec<f64>)> = None;
        for _ in 0..draws {
            let row = drawn(&shares, random);
            let (sum, now) = left_with(points, row, &chosen, &nearest, &left, control)?;
            if best.as_ref().is_none_or(|best| sum < best.1) {
                best = Some((row, sum, now));
            }
        }
        let Some((row, _, now)) = best else { break };
        for ((nearest, before), now) in nearest.iter_mut().zip(&left).zip(&now) {
            if now < before {
                *nearest = chosen.len() as u32;
            }
        }
        chosen.push(row);
        left = now;
    }
    Ok(chosen)
}

/// The squared distances that are left when a row is chosen too, and their sum. A row is not nearer to it where it is
/// twice as far from the nearest one as that is from the row.
fn left_with(
    points: Points<'_>,
    row: usize,
    chosen: &[usize],
    nearest: &[u32],
    left: &[f64],
    control: &mut Control<'_>,
) -> Result<(f64, Vec<f64>), Error> {
    let apart: Vec<f64> = chosen.iter().map(|other| squared(points.row(*other), points.row(row))).collect();
    let mut now = Vec::new();
    room::reserve(&mut now, left.len())?;
    let mut sum = 0.0;
    for (index, (before, nearest)) in left.iter().zip(nearest).enumerate() {
        if index % 1024 == 0 {
            control.check()?;
        }
        let distance = match apart[*nearest as usize] >= 4.0 * before {
            true => *before,
            false => squared(points.row(index), points.row(row)).min(*before),
        };
        sum += distance * points.weights[index];
        now.push(distance);
    }
    Ok((sum, now))
}

/// An index with a probability in proportion to its share; any where all shares are 0.
pub(crate) fn drawn(shares: &[f64], random: &mut Random) -> usize {
    let sum: f64 = shares.iter().sum();
    if !(sum > 0.0 && sum.is_finite()) {
        return random.index(shares.len());
    }
    let mut left = random.unit() * sum;
    let mut last = 0;
    for (index, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        last = index;
        left -= share;
        if left < 0.0 {
            break;
        }
    }
    last
}

/// What is known of the distances of each row without computing them.
struct Bounds {
    nearest: Vec<u32>,
    /// The nearest centre is not farther than this.
    upper: Vec<f64>,
    /// No other centre is nearer than this.
    lower: Vec<f64>,
}

/// Moves centres to the means of their rows until they stay.
fn improve(
    points: Points<'_>,
    mut centres: Vec<f64>,
    iterations: usize,
    tolerance: f64,
    control: &mut Control<'_>,
) -> Result<Centres, Error> {
    let len = points.len();
    let (mut nearest, mut upper, mut lower) = (Vec::new(), Vec::new(), Vec::new());
    room::reserve(&mut nearest, len)?;
    room::reserve(&mut upper, len)?;
    room::reserve(&mut lower, len)?;
    nearest.resize(len, 0);
    upper.resize(len, f64::INFINITY);
    lower.resize(len, 0.0);
    let mut bounds = Bounds { nearest, upper, lower };
    for iteration in 0..iterations {
        let changed = assign(points, &centres, &mut bounds, control)?;
        if !changed && iteration > 0 {
            break;
        }
        let moved = means(points, &bounds.nearest, &centres);
        let moves: Vec<f64> = centres
            .chunks_exact(points.width)
            .zip(moved.chunks_exact(points.width))
            .map(|(a, b)| squared(a, b))
            .collect();
        centres = moved;
        if moves.iter().sum::<f64>() <= tolerance {
            break;
        }
        loosen(&mut bounds, &moves);
    }
    settle(points, centres, bounds.nearest, control)
}

/// Finds the nearest centre of each row; whether any row has another than before.
fn assign(points: Points<'_>, centres: &[f64], bounds: &mut Bounds, control: &mut Control<'_>) -> Result<bool, Error> {
    let width = points.width;
    let count = centres.len() / width;
    // Half the distance from each centre to the nearest other one: rows within it have no nearer centre.
    let mut safe = vec![f64::INFINITY; count];
    for a in 0..count {
        control.check()?;
        for b in 0..a {
            let half = squared(&centres[a * width..][..width], &centres[b * width..][..width]).sqrt() / 2.0;
            safe[a] = safe[a].min(half);
            safe[b] = safe[b].min(half);
        }
    }
    let mut changed = false;
    for row in 0..points.len() {
        if row % 512 == 0 {
            control.check()?;
        }
        let now = bounds.nearest[row] as usize;
        let enough = safe[now].max(bounds.lower[row]);
        if bounds.upper[row] < enough {
            continue;
        }
        bounds.upper[row] = squared(points.row(row), &centres[now * width..][..width]).sqrt();
        if bounds.upper[row] < enough {
            continue;
        }
        let (mut best, mut second) = ((0, f64::INFINITY), f64::INFINITY);
        for (index, centre) in centres.chunks_exact(width).enumerate() {
            let distance = squared(points.row(row), centre);
            if distance < best.1 {
                second = best.1;
                best = (index, distance);
            } else {
                second = second.min(distance);
            }
        }
        changed |= best.0 != now;
        bounds.nearest[row] = best.0 as u32;
        bounds.upper[row] = best.1.sqrt();
        bounds.lower[row] = second.sqrt();
    }
    Ok(changed)
}

/// Bounds that hold when the centres have moved so far (squared).
fn loosen(bounds: &mut Bounds, moves: &[f64]) {
    // A little more than the moves, for what rounding takes away.
    let moves: Vec<f64> = moves.iter().map(|squared| squared.sqrt() * (1.0 + 1e-12)).collect();
    let farthest = moves.iter().copied().fold(0.0, f64::max);
    for ((nearest, upper), lower) in bounds.nearest.iter().zip(&mut bounds.upper).zip(&mut bounds.lower) {
        *upper += moves[*nearest as usize];
        *lower -= farthest;
    }
}

/// The means of the rows of each centre. A centre without rows moves to the row that is farthest from its own.
fn means(points: Points<'_>, nearest: &[u32], centres: &[f64]) -> Vec<f64> {
    let width = points.width;
    let mut sums = vec![0.0; centres.len()];
    let mut weights = vec![0.0; centres.len() / width];
    for (row, (centre, weight)) in nearest.iter().zip(points.weights).enumerate() {
        let centre = *centre as usize;
        weights[centre] += weight;
        for (sum, value) in sums[centre * width..(centre + 1) * width].iter_mut().zip(points.row(row)) {
            *sum += weight * value;
        }
    }
    let empty: Vec<usize> = (0..weights.len()).filter(|centre| weights[*centre] == 0.0).collect();
    if !empty.is_empty() {
        let distance = |row: usize| squared(points.row(row), &centres[nearest[row] as usize * width..][..width]);
        let mut far: Vec<(f64, usize)> =
            (0..points.len()).filter(|row| points.weights[*row] > 0.0).map(|row| (distance(row), row)).collect();
        far.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (centre, (_, row)) in empty.iter().zip(far) {
            let (from, weight) = (nearest[row] as usize, points.weights[row]);
            if weights[from] <= weight {
                continue;
            }
            weights[from] -= weight;
            weights[*centre] = weight;
            for (feature, value) in points.row(row).iter().enumerate() {
                sums[from * width + feature] -= weight * value;
                sums[centre * width + feature] = weight * value;
            }
        }
    }
    for (centre, weight) in weights.iter().enumerate() {
        for feature in centre * width..(centre + 1) * width {
            sums[feature] = if *weight > 0.0 { sums[feature] / weight } else { centres[feature] };
        }
    }
    sums
}

/// What belongs to the centres in the end, as predictions will have it.
pub(crate) fn settle(
    points: Points<'_>,
    centres: Vec<f64>,
    mut labels: Vec<u32>,
    control: &mut Control<'_>,
) -> Result<Centres, Error> {
    let mut inertia = 0.0;
    for (row, label) in labels.iter_mut().enumerate() {
        if row % 512 == 0 {
            control.check()?;
        }
        let (centre, distance) = nearest(points.row(row), &centres);
        *label = centre as u32;
        inertia += distance * points.weights[row];
    }
    Ok(Centres { centres, nearest: labels, inertia })
}
