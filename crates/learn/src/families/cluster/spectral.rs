//! Spectral clustering (Shi and Malik, 2000; von Luxburg, 2007): k-means on the eigenvectors of how alike all rows are,
//! in which rows that are connected are near each other however the connection winds.
//!
//! The method has no rule for rows that come later: they are of the cluster of the nearest row of the training.

use faer::{Mat, MatRef};

use crate::Error;
use crate::families::cluster::common::{self, RANDOM_STATE};
use crate::families::cluster::k_means::{N_CLUSTERS, Points, Search, k_means};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task, large_zeros, zeros};
use crate::forms::labelled_rows;
use crate::numerics::distance::{Metric, squared};
use crate::numerics::kd_tree::KdTree;
use crate::numerics::spectrum;

/// Rows of which there is room for how alike all pairs are: 800 MB.
const MOST: usize = 10_000;

/// `spectral`, as scikit-learn's SpectralClustering.
pub(crate) const SPECTRAL: Family = Family {
    name: "spectral",
    task: Task::Clustering,
    parameters: &[
        N_CLUSTERS,
        Parameter {
            name: "n_components",
            kind: Kind::OrNull(&Kind::Integer(1, i32::MAX as i64)),
            default: "null",
            about: "The number of eigenvectors; null for n_clusters.",
        },
        Parameter {
            name: "n_init",
            kind: Kind::Integer(1, 1_000_000),
            default: "10",
            about: "The number of runs with other initial centres, of which the best is kept.",
        },
        Parameter {
            name: "gamma",
            kind: Kind::Number(0.0, f64::INFINITY),
            default: "1.0",
            about: "The factor of the squared distance in the kernel, with affinity \"rbf\".",
        },
        Parameter {
            name: "affinity",
            kind: Kind::Choice(&["rbf", "nearest_neighbors"]),
            default: "\"rbf\"",
            about: "The similarity of two rows: by their distance, or by whether one is among the nearest neighbours of the other.",
        },
        Parameter {
            name: "n_neighbors",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "10",
            about: "The number of nearest neighbours of a row, the row itself included.",
        },
        Parameter {
            name: "assign_labels",
            kind: Kind::Choice(&["kmeans"]),
            default: "\"kmeans\"",
            about: "The method that turns the eigenvectors into clusters.",
        },
        Parameter { name: "eigen_solver", kind: Kind::Ignored, default: "null", about: "No effect." },
        Parameter { name: "eigen_tol", kind: Kind::Ignored, default: "\"auto\"", about: "No effect." },
        Parameter { name: "degree", kind: Kind::Ignored, default: "3", about: "No effect." },
        Parameter { name: "coef0", kind: Kind::Ignored, default: "1", about: "No effect." },
        Parameter { name: "kernel_params", kind: Kind::Ignored, default: "null", about: "No effect." },
        Parameter { name: "n_jobs", kind: Kind::Ignored, default: "null", about: "No effect." },
        Parameter { name: "verbose", kind: Kind::Ignored, default: "false", about: "No effect." },
        RANDOM_STATE,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &labelled_rows::FORM,
};

/// How alike rows are, without themselves.
enum Affinity {
    Dense(Mat<f64>),
    /// For each row, others.
    Sparse(Vec<Vec<(u32, f64)>>),
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    common::unweighted(problem, "spectral")?;
    let clusters = common::clusters(problem, given)?;
    let components = given.maybe_count("n_components").unwrap_or(clusters);
    let components = common::at_most_rows(problem, given, "n_components", components)?;
    let mut affinity = match given.word("affinity") {
        "nearest_neighbors" => Affinity::neighbours(problem, given.count("n_neighbors"), control)?,
        _ => Affinity::rbf(problem, given.number("gamma"), control)?,
    };
    let roots: Vec<f64> = affinity.sums().into_iter().map(|sum| if sum > 0.0 { sum.sqrt() } else { 1.0 }).collect();
    affinity.normalise(&roots);
    let mut random = common::random(problem, given);
    let apply = |block: MatRef<'_, f64>| affinity.times(block);
    let vectors = spectrum::largest(problem.rows, components, &apply, &mut random, control)?;
    let components = vectors.ncols();
    let mut places = Vec::new();
    room::reserve(&mut places, problem.rows * components)?;
    for (row, root) in roots.iter().enumerate() {
        places.extend((0..components).map(|component| vectors[(row, component)] / root));
    }
    let weights = vec![1.0; problem.rows];
    let points = Points { values: &places, width: components, weights: &weights };
    let search = Search { clusters, spread: true, starts: given.count("n_init"), iterations: 300, tolerance: 1e-4 };
    let found = k_means(points, &search, &mut random, control)?;
    let labels = common::by_first_row(found.nearest.iter().map(|cluster| *cluster as i32));
    labelled_rows::of_all(problem.features, problem.width, &labels)
}

impl Affinity {
    fn rbf(problem: &Problem<'_>, gamma: f64, control: &mut Control<'_>) -> Result<Affinity, Error> {
        problem.at_most("spectral", MOST)?;
        let mut matrix = large_zeros(problem.rows, problem.rows, control)?;
        for a in 0..problem.rows {
            control.check()?;
            for b in 0..a {
                let alike = (-gamma * squared(problem.row(a), problem.row(b))).exp();
                matrix[(a, b)] = alike;
                matrix[(b, a)] = alike;
            }
        }
        Ok(Affinity::Dense(matrix))
    }

    /// A half for each of the two that has the other among its nearest.
    fn neighbours(problem: &Problem<'_>, count: usize, control: &mut Control<'_>) -> Result<Affinity, Error> {
        let (tree, order) = KdTree::new(problem.features, problem.width, Metric::Euclidean)?;
        let mut rows: Vec<Vec<(u32, f64)>> = vec![Vec::new(); problem.rows];
        for row in 0..problem.rows {
            control.check()?;
            // Itself first, also where others are equal to it.
            let rank = |place: usize| (order[place] as usize != row, order[place]);
            let near = tree.nearest(problem.row(row), count, rank, |_, _| true);
            for other in near.iter().map(|(_, place)| order[*place]).filter(|other| *other as usize != row) {
                rows[row].push((other, 0.5));
                rows[other as usize].push((row as u32, 0.5));
            }
        }
        Ok(Affinity::Sparse(rows))
    }

    /// How alike each row is to all others together.
    fn sums(&self) -> Vec<f64> {
        match self {
            Affinity::Dense(matrix) => (0..matrix.ncols()).map(|row| matrix.col_as_slice(row).iter().sum()).collect(),
            Affinity::Sparse(rows) => rows.iter().map(|row| row.iter().map(|(_, alike)| alike).sum()).collect(),
        }
    }

    /// Divides by the roots of the sums of both rows.
    fn normalise(&mut self, roots: &[f64]) {
        match self {
            Affinity::Dense(matrix) => {
                for column in 0..matrix.ncols() {
                    let values = matrix.col_as_slice_mut(column).iter_mut().zip(roots);
                    values.for_each(|(value, root)| *value /= root * roots[column]);
                }
            }
            Affinity::Sparse(rows) => {
                for (row, root) in rows.iter_mut().zip(roots) {
                    row.iter_mut().for_each(|(other, alike)| *alike /= root * roots[*other as usize]);
                }
            }
        }
    }

    fn times(&self, block: MatRef<'_, f64>) -> Result<Mat<f64>, Error> {
        match self {
            Affinity::Dense(matrix) => Ok(matrix * block),
            Affinity::Sparse(rows) => {
                let mut product = zeros(rows.len(), block.ncols())?;
                for column in 0..block.ncols() {
                    let values = product.col_as_slice_mut(column).iter_mut().zip(rows);
                    values.for_each(|(value, row)| {
                        *value = row.iter().map(|(other, alike)| alike * block[(*other as usize, column)]).sum();
                    });
                }
                Ok(product)
            }
        }
    }
}
