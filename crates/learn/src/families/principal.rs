//! Directions in which rows differ the most: principal components (Pearson, 1901; Hotelling, 1933), and the singular
//! vectors of the features as they are (latent semantic analysis, Deerwester and others, 1990).
//!
//! Both come from the exact singular values, of the products of the features where there are many more rows than those,
//! which is faster by far. The sign of a component is such that its weight of largest size is positive.

use faer::Mat;

use crate::Error;
use crate::families::cluster::common::{self, RANDOM_STATE};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task, large_zeros, zeros};
use crate::forms::projection;
use crate::numerics::algebra::{eigenvalues, feature_means, singular_values};

/// `pca`, as scikit-learn's PCA.
pub(crate) const PCA: Family = Family {
    name: "pca",
    task: Task::Decomposition,
    parameters: &[
        Parameter {
            name: "n_components",
            kind: Kind::OrNull(&Kind::Any(&[Kind::Integer(1, i32::MAX as i64), Kind::Above(0.0, 1.0)])),
            default: "null",
            about: "The number of components; a fraction for as many as explain more than that share of the variance; null for all.",
        },
        Parameter {
            name: "whiten",
            kind: Kind::Flag,
            default: "false",
            about: "Whether components are divided by their standard deviation.",
        },
        Parameter {
            name: "svd_solver",
            kind: Kind::Choice(&["auto", "full", "covariance_eigh", "arpack", "randomized"]),
            default: "\"auto\"",
            about: "No effect: the result is exact.",
        },
        Parameter { name: "copy", kind: Kind::Ignored, default: "true", about: "No effect." },
        Parameter { name: "tol", kind: Kind::Ignored, default: "0.0", about: "No effect." },
        Parameter { name: "iterated_power", kind: Kind::Ignored, default: "\"auto\"", about: "No effect." },
        Parameter { name: "n_oversamples", kind: Kind::Ignored, default: "10", about: "No effect." },
        Parameter { name: "power_iteration_normalizer", kind: Kind::Ignored, default: "\"auto\"", about: "No effect." },
        RANDOM_STATE,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit: fit_pca,
    form: &projection::FORM,
};

/// `truncated_svd`, as scikit-learn's TruncatedSVD.
pub(crate) const TRUNCATED_SVD: Family = Family {
    name: "truncated_svd",
    task: Task::Decomposition,
    parameters: &[
        Parameter {
            name: "n_components",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "2",
            about: "The number of components.",
        },
        Parameter {
            name: "algorithm",
            kind: Kind::Choice(&["randomized", "arpack"]),
            default: "\"randomized\"",
            about: "No effect: the result is exact.",
        },
        Parameter { name: "n_iter", kind: Kind::Ignored, default: "5", about: "No effect." },
        Parameter { name: "n_oversamples", kind: Kind::Ignored, default: "10", about: "No effect." },
        Parameter { name: "power_iteration_normalizer", kind: Kind::Ignored, default: "\"auto\"", about: "No effect." },
        Parameter { name: "tol", kind: Kind::Ignored, default: "0.0", about: "No effect." },
        RANDOM_STATE,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit: fit_svd,
    form: &projection::FORM,
};

/// Singular vectors of rows, the largest first.
struct Directions {
    /// One for each row, as many as there can be.
    vectors: Vec<Vec<f64>>,
    /// Squared singular values.
    squares: Vec<f64>,
}

fn fit_pca(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    common::unweighted(problem, "pca")?;
    let most = problem.rows.min(problem.width);
    if let Some(count) = given.maybe_count("n_components").filter(|count| *count > most) {
        let (rows, features) = (crate::there_are(problem.rows, "row"), crate::count(problem.width, "feature"));
        let why = format!("{rows} of {features}, and so {}", crate::count(most, "component"));
        return Err(given.refuse("n_components", format!("{why}, not {count}")));
    }
    let means = feature_means(problem);
    let mut found = directions(problem, &means, control)?;
    let variances: Vec<f64> =
        found.squares.iter().map(|square| square / (problem.rows as f64 - 1.0).max(1.0)).collect();
    let total: f64 = variances.iter().sum();
    let ratio = |variance: &f64| if total > 0.0 { variance / total } else { 0.0 };
    let count = match (given.maybe_count("n_components"), given.maybe_number("n_components")) {
        (Some(count), _) => count,
        (None, None) => most,
        (None, Some(share)) => {
            let mut sum = 0.0;
            let enough = variances.iter().position(|variance| {
                sum += ratio(variance);
                sum > share
            });
            enough.map_or(most, |index| index + 1)
        }
    };
    found.vectors.truncate(count);
    if given.flag("whiten") {
        for (vector, variance) in found.vectors.iter_mut().zip(&variances) {
            let deviation = variance.sqrt().max(f64::EPSILON);
            vector.iter_mut().for_each(|weight| *weight /= deviation);
        }
    }
    let ratios: Vec<f64> = variances.iter().take(count).map(ratio).collect();
    let model = projection::model(found.vectors.concat(), means).with("explained_variance_ratio", ratios);
    Ok(if total > 0.0 { model } else { model.warn("all rows are equal: there is no variance to explain") })
}

fn fit_svd(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    common::unweighted(problem, "truncated_svd")?;
    let (count, most) = (given.count("n_components"), problem.rows.min(problem.width));
    if count > most {
        let (rows, features) = (crate::there_are(problem.rows, "row"), crate::count(problem.width, "feature"));
        let why = format!("{rows} of {features}, and so {}", crate::count(most, "component"));
        return Err(given.refuse("n_components", why));
    }
    let nothing = vec![0.0; problem.width];
    let mut found = directions(problem, &nothing, control)?;
    found.vectors.truncate(count);
    Ok(projection::model(found.vectors.concat(), nothing))
}

/// The directions of the rows around this place.
fn directions(problem: &Problem<'_>, around: &[f64], control: &mut Control<'_>) -> Result<Directions, Error> {
    let many = problem.rows >= 10 * problem.width;
    let (vectors, squares) = match many {
        true => of_products(problem, around, control)?,
        false => of_rows(problem, around, control)?,
    };
    let most = problem.rows.min(problem.width);
    let mut found = Directions { vectors: Vec::new(), squares: Vec::new() };
    for (index, square) in squares.iter().enumerate().take(most) {
        let mut vector: Vec<f64> = vectors.col(index).iter().copied().collect();
        let largest = vector.iter().copied().fold(
            0.0f64,
            |largest, weight| {
                if weight.abs() > largest.abs() { weight } else { largest }
            },
        );
        if largest < 0.0 {
            vector.iter_mut().for_each(|weight| *weight = -*weight);
        }
        found.vectors.push(vector);
        found.squares.push(square.max(0.0));
    }
    Ok(found)
}

type Factors = (Mat<f64>, Vec<f64>);

/// From the eigenvalues of the products of features, summed up over blocks of rows.
fn of_products(problem: &Problem<'_>, around: &[f64], control: &mut Control<'_>) -> Result<Factors, Error> {
    const MOST: usize = 512;
    const MULTIPLICATIONS: usize = 1 << 30;
    let width = problem.width;
    let at_once = (MULTIPLICATIONS / (width * width)).clamp(1, MOST);
    let mut products = large_zeros(width, width, control)?;
    let mut block = zeros(width, at_once)?;
    for rows in problem.features.chunks(at_once * width) {
        control.check()?;
        let count = rows.len() / width;
        for (index, row) in rows.chunks_exact(width).enumerate() {
            for ((to, value), mean) in block.col_as_slice_mut(index).iter_mut().zip(row).zip(around) {
                *to = f64::from(*value) - mean;
            }
        }
        let part = block.subcols(0, count);
        faer::linalg::matmul::matmul(products.as_mut(), faer::Accum::Add, part, part.transpose(), 1.0, faer::Par::Seq);
    }
    let eigen = eigenvalues(products, control)?;
    // They come the smallest first.
    let vectors = eigen.U().reverse_cols().to_owned();
    let squares: Vec<f64> = eigen.S().column_vector().iter().rev().copied().collect();
    Ok((vectors, squares))
}

/// From the singular values of the rows themselves.
fn of_rows(problem: &Problem<'_>, around: &[f64], control: &mut Control<'_>) -> Result<Factors, Error> {
    let mut matrix = problem.matrix(control)?;
    for (column, mean) in around.iter().enumerate() {
        matrix.col_as_slice_mut(column).iter_mut().for_each(|value| *value -= mean);
    }
    control.check()?;
    let svd = singular_values(matrix, control)?;
    let squares = svd.S().column_vector().iter().map(|value| value * value).collect();
    Ok((svd.V().to_owned(), squares))
}
