//! Clusterings of rows together with the features: spectral co-clustering (Dhillon, 2001), where each row cluster has
//! features of its own, and spectral biclustering (Kluger, Basri, Chang and Gerstein, 2003), where row and feature
//! clusters cross like the squares of a board. What comes of them here is the row clusters.
//!
//! The methods have no rule for rows that come later: they are of the cluster of the nearest row of the training.

use faer::Mat;

use crate::Error;
use crate::families::cluster::common::{self, RANDOM_STATE};
use crate::families::cluster::k_means::{INIT, Points, Search, k_means};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::labelled_rows;
use crate::numerics::algebra::singular_values;
use crate::numerics::distance::squared;
use crate::random::Random;

const N_INIT: Parameter = Parameter {
    name: "n_init",
    kind: Kind::Integer(1, 1_000_000),
    default: "10",
    about: "The number of runs with other initial centres, of which the best is kept.",
};

const SVD_METHOD: Parameter = Parameter {
    name: "svd_method",
    kind: Kind::Choice(&["randomized", "arpack"]),
    default: "\"randomized\"",
    about: "No effect: the result is exact.",
};

const N_SVD_VECS: Parameter =
    Parameter { name: "n_svd_vecs", kind: Kind::Ignored, default: "null", about: "No effect." };
const MINI_BATCH: Parameter =
    Parameter { name: "mini_batch", kind: Kind::Ignored, default: "false", about: "No effect." };

/// `spectral_co`, as scikit-learn's SpectralCoclustering.
pub(crate) const SPECTRAL_CO: Family = Family {
    name: "spectral_co",
    task: Task::Clustering,
    parameters: &[
        Parameter {
            name: "n_clusters",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "3",
            about: "The number of clusters.",
        },
        INIT,
        N_INIT,
        SVD_METHOD,
        N_SVD_VECS,
        MINI_BATCH,
        RANDOM_STATE,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit: fit_co,
    form: &labelled_rows::FORM,
};

/// `spectral_bi`, as scikit-learn's SpectralBiclustering.
pub(crate) const SPECTRAL_BI: Family = Family {
    name: "spectral_bi",
    task: Task::Clustering,
    parameters: &[
        Parameter {
            name: "n_clusters",
            kind: Kind::Any(&[Kind::Integer(1, i32::MAX as i64), Kind::Numbers]),
            default: "3",
            about: "The number of clusters of rows and of features; an array of two if they differ.",
        },
        Parameter {
            name: "method",
            kind: Kind::Choice(&["bistochastic", "scale", "log"]),
            default: "\"bistochastic\"",
            about: "The normalization of rows and features: by iterating to equal sums, by sums, or by logarithms.",
        },
        Parameter {
            name: "n_components",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "6",
            about: "The number of singular vectors that are examined.",
        },
        Parameter {
            name: "n_best",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "3",
            about: "The number of singular vectors that are used: those nearest to having few different values.",
        },
        INIT,
        N_INIT,
        SVD_METHOD,
        N_SVD_VECS,
        MINI_BATCH,
        RANDOM_STATE,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit: fit_bi,
    form: &labelled_rows::FORM,
};

/// A matrix, and what its rows and columns were multiplied by.
struct Scaled {
    matrix: Mat<f64>,
    rows: Vec<f64>,
    columns: Vec<f64>,
}

fn fit_co(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    common::unweighted(problem, "spectral_co")?;
    let clusters = common::clusters(problem, given)?;
    control.check()?;
    let scaled = scale(at_least(problem.matrix(control)?, 0.0));
    let count = (clusters as f64).log2().ceil() as usize;
    let (left, right) = singular_vectors(scaled.matrix, 1, count, control)?;
    let width = left.first().map_or(0, Vec::len);
    // Rows and features together.
    let places: Vec<f64> = left
        .iter()
        .zip(&scaled.rows)
        .chain(right.iter().zip(&scaled.columns))
        .flat_map(|(vector, factor)| vector.iter().map(move |value| value * factor))
        .collect();
    let labels = match width {
        0 => vec![0; problem.rows],
        _ => assign(&places, width, clusters, given, &mut common::random(problem, given), control)?.0,
    };
    of_rows(problem, &labels)
}

fn fit_bi(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    common::unweighted(problem, "spectral_bi")?;
    let (rows, columns) = both_counts(problem, given)?;
    let (components, best) = (given.count("n_components"), given.count("n_best"));
    if best > components {
        return Err(given.refuse("n_best", format!("it is at most n_components, {components}")));
    }
    control.check()?;
    let matrix = problem.matrix(control)?;
    let (scaled, left_out) = match given.word("method") {
        "scale" => (scale(at_least(matrix, 0.0)).matrix, 1),
        "log" => (logarithms(at_least(matrix, 1.0)), 0),
        _ => (bistochastic(at_least(matrix, 0.0), control)?, 1),
    };
    let (_, right) = singular_vectors(scaled, left_out, components, control)?;
    let mut random = common::random(problem, given);
    let chosen = piecewise(&right, columns, best, given, &mut random, control)?;
    let mut places = Vec::new();
    room::reserve(&mut places, problem.rows * chosen.len())?;
    for row in problem.features.chunks_exact(problem.width) {
        places.extend(
            chosen
                .iter()
                .map(|vector| row.iter().zip(vector).map(|(value, weight)| f64::from(*value) * weight).sum::<f64>()),
        );
    }
    let labels = match chosen.len() {
        0 => vec![0; problem.rows],
        width => assign(&places, width, rows, given, &mut random, control)?.0,
    };
    of_rows(problem, &labels)
}

fn of_rows(problem: &Problem<'_>, labels: &[u32]) -> Result<Model, Error> {
    let labels = common::by_first_row(labels.iter().take(problem.rows).map(|label| *label as i32));
    labelled_rows::of_all(problem.features, problem.width, &labels)
}

/// The numbers of clusters of rows and of features.
fn both_counts(problem: &Problem<'_>, given: &Given) -> Result<(usize, usize), Error> {
    let (rows, columns) = match (given.maybe_count("n_clusters"), given.numbers("n_clusters").as_deref()) {
        (Some(count), _) => (count, count.min(problem.width)),
        (None, Some([rows, columns])) if [rows, columns].iter().all(|count| count.fract() == 0.0 && **count >= 1.0) => {
            (*rows as usize, *columns as usize)
        }
        _ => return Err(given.refuse("n_clusters", "it is a whole number, at least 1, or an array of two of these")),
    };
    if columns > problem.width {
        return Err(given.refuse("n_clusters", crate::there_are(problem.width, "feature")));
    }
    Ok((common::at_most_rows(problem, given, "n_clusters", rows)?, columns))
}

/// Centres of places: the nearest one of each, and the sum of squared distances.
fn assign(
    places: &[f64],
    width: usize,
    clusters: usize,
    given: &Given,
    random: &mut Random,
    control: &mut Control<'_>,
) -> Result<(Vec<u32>, f64), Error> {
    let weights = vec![1.0; places.len() / width];
    let points = Points { values: places, width, weights: &weights };
    let spread = given.word("init") == "k-means++";
    let search = Search { clusters, spread, starts: given.count("n_init"), iterations: 300, tolerance: 1e-4 };
    let found = k_means(points, &search, random, control)?;
    Ok((found.nearest, found.inertia))
}

/// The `best` singular vectors that are nearest to having only `values` different values.
fn piecewise(
    vectors: &[Vec<f64>],
    values: usize,
    best: usize,
    given: &Given,
    random: &mut Random,
    control: &mut Control<'_>,
) -> Result<Vec<Vec<f64>>, Error> {
    let count = vectors.first().map_or(0, Vec::len);
    let mut ranked = Vec::with_capacity(count);
    for index in 0..count {
        let vector: Vec<f64> = vectors.iter().map(|row| row[index]).collect();
        let (_, off) = assign(&vector, 1, values, given, random, control)?;
        ranked.push((off, vector));
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(ranked.into_iter().take(best).map(|(_, vector)| vector).collect())
}

/// Moved up, where it must be, so that nothing is below this.
fn at_least(mut matrix: Mat<f64>, least: f64) -> Mat<f64> {
    let all = || 0..matrix.ncols();
    let lowest = all().flat_map(|column| matrix.col_as_slice(column)).copied().fold(f64::INFINITY, f64::min);
    if lowest < least {
        for column in 0..matrix.ncols() {
            matrix.col_as_slice_mut(column).iter_mut().for_each(|value| *value += least - lowest);
        }
    }
    matrix
}

/// Each number divided by the roots of the sums of its row and its column.
fn scale(mut matrix: Mat<f64>) -> Scaled {
    let mut rows = vec![0.0; matrix.nrows()];
    let mut columns = Vec::with_capacity(matrix.ncols());
    for column in 0..matrix.ncols() {
        let values = matrix.col_as_slice(column);
        rows.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        columns.push(factor(values.iter().sum()));
    }
    let rows: Vec<f64> = rows.into_iter().map(factor).collect();
    for (column, of_column) in columns.iter().enumerate() {
        let values = matrix.col_as_slice_mut(column).iter_mut().zip(&rows);
        values.for_each(|(value, of_row)| *value *= of_row * of_column);
    }
    Scaled { matrix, rows, columns }
}

/// The factor of a row or column with this sum: one over its root, or 0 where the sum is 0.
fn factor(sum: f64) -> f64 {
    if sum > 0.0 { sum.sqrt().recip() } else { 0.0 }
}

/// Scaled again and again until all rows have one sum, and all columns.
fn bistochastic(mut matrix: Mat<f64>, control: &mut Control<'_>) -> Result<Mat<f64>, Error> {
    for _ in 0..1000 {
        control.check()?;
        let scaled = scale(matrix.clone()).matrix;
        let moved: f64 = (0..matrix.ncols()).map(|c| squared(matrix.col_as_slice(c), scaled.col_as_slice(c))).sum();
        matrix = scaled;
        if moved.sqrt() < 1e-5 {
            break;
        }
    }
    Ok(matrix)
}

/// Logarithms without what rows and columns have in common.
fn logarithms(mut matrix: Mat<f64>) -> Mat<f64> {
    let (height, width) = (matrix.nrows() as f64, matrix.ncols() as f64);
    let mut rows = vec![0.0; matrix.nrows()];
    let mut columns = vec![0.0; matrix.ncols()];
    for (column, of_column) in columns.iter_mut().enumerate() {
        for (value, of_row) in matrix.col_as_slice_mut(column).iter_mut().zip(&mut rows) {
            *value = value.ln();
            *of_row += *value / width;
            *of_column += *value / height;
        }
    }
    let mean = columns.iter().sum::<f64>() / width;
    for (column, of_column) in columns.iter().enumerate() {
        let values = matrix.col_as_slice_mut(column).iter_mut().zip(&rows);
        values.for_each(|(value, of_row)| *value += mean - of_row - of_column);
    }
    matrix
}

type Vectors = Vec<Vec<f64>>;

/// `count` singular vectors behind the first `left_out`: a row for each row of the matrix, and one for each column.
fn singular_vectors(
    matrix: Mat<f64>,
    left_out: usize,
    count: usize,
    control: &mut Control<'_>,
) -> Result<(Vectors, Vectors), Error> {
    let end = (left_out + count).min(matrix.nrows().min(matrix.ncols()));
    let svd = singular_values(matrix, control)?;
    let rows = |vectors: faer::MatRef<'_, f64>| -> Vectors {
        (0..vectors.nrows()).map(|row| (left_out..end).map(|column| vectors[(row, column)]).collect()).collect()
    };
    Ok((rows(svd.U()), rows(svd.V())))
}
