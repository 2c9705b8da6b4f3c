//! Kernel ridge regression: ridge regression of what a kernel makes of the features (Saunders, Gammerman and Vovk, 1998).

use faer::Mat;

use crate::Error;
use crate::families::common::{NOT_NEGATIVE, takes};
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task, zeros};
use crate::forms::kernel::{self, Link, Parts};
use crate::numerics::algebra::least_squares;
use crate::numerics::cholesky::{Cholesky, gram};
use crate::numerics::kernel::Kernel;
use crate::numerics::tiles::Tiles;

/// Rows up to which there is a training: their kernels with one another take 3.2 GB.
const MOST: usize = 20_000;

/// Rows up to which kernels that are not positive definite are solved by their singular values, which takes long.
const MOST_SINGULAR: usize = 2_000;

/// `kernel_ridge` in regression, as scikit-learn's KernelRidge.
pub(crate) const REGRESSION: Family = Family {
    name: "kernel_ridge",
    task: Task::Regression,
    parameters: &[
        takes(
            "alpha",
            Kind::Any(&[NOT_NEGATIVE, Kind::Numbers]),
            "1",
            "The strength of the L2 penalty; an array has one number for each target.",
        ),
        takes(
            "kernel",
            Kind::Choice(&["linear", "poly", "polynomial", "rbf", "laplacian", "sigmoid", "cosine"]),
            "\"linear\"",
            "The kernel. Since all rows are compared with each other, there may be 20,000 rows at most.",
        ),
        takes(
            "gamma",
            Kind::OrNull(&NOT_NEGATIVE),
            "null",
            "The factor in the kernels rbf, laplacian, poly and sigmoid; null for one over the number of features.",
        ),
        takes("degree", NOT_NEGATIVE, "3", "The degree of the kernel poly."),
        takes(
            "coef0",
            Kind::Number(f64::NEG_INFINITY, f64::INFINITY),
            "1",
            "The constant term in the kernels poly and sigmoid.",
        ),
        takes("kernel_params", Kind::OrNull(&Kind::Refused("the kernels take no more")), "null", "No effect."),
    ],
    joint: true,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &kernel::FORM,
};

/// The cost for each target.
fn alphas(problem: &Problem<'_>, given: &Given) -> Result<Vec<f64>, Error> {
    let alphas = match given.numbers("alpha") {
        Some(alphas) if alphas.len() == 1 => vec![alphas[0]; problem.targets],
        Some(alphas) => alphas,
        None => vec![given.number("alpha"); problem.targets],
    };
    if alphas.len() != problem.targets {
        return Err(given.refuse("alpha", crate::there_are(problem.targets, "target")));
    }
    match alphas.iter().all(|alpha| *alpha >= 0.0) {
        true => Ok(alphas),
        false => Err(given.refuse("alpha", "its numbers are to be at least 0")),
    }
}

/// The kernels of the rows with one another, weighted, and the cost.
fn weighted(
    kernel: &Kernel,
    tiles: &Tiles,
    roots: &[f64],
    alpha: f64,
    control: &mut Control<'_>,
) -> Result<Mat<f64>, Error> {
    let mut matrix = gram(kernel, tiles, control)?;
    for (column, own) in roots.iter().enumerate() {
        control.check()?;
        if !matrix.col_as_slice(column).iter().all(|value| value.is_finite()) {
            return Err(Error::Diverged(
                "a kernel is too large a number; scale the features, or choose another kernel",
            ));
        }
        for (value, root) in matrix.col_as_slice_mut(column).iter_mut().zip(roots) {
            *value *= own * root;
        }
        matrix[(column, column)] += alpha;
    }
    Ok(matrix)
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    problem.at_most("kernel_ridge", MOST)?;
    let alphas = alphas(problem, given)?;
    let kernel = Kernel::given(given, given.maybe_number("gamma").unwrap_or(1.0 / problem.width as f64));
    let order: Vec<usize> = (0..problem.rows).collect();
    let tiles = Tiles::of(kernel.pack(problem, &order)?, problem.rows, problem.width);
    // Rows and labels times the root of their weight.
    let roots: Vec<f64> = order.iter().map(|row| problem.weight(*row).sqrt()).collect();
    let mut duals = vec![0.0; problem.rows * problem.targets];
    let same = alphas.windows(2).all(|two| two[0] == two[1]);
    let targets: Vec<usize> = (0..problem.targets).collect();
    // One factor serves all targets of the same cost.
    for targets in targets.chunks(if same { problem.targets } else { 1 }) {
        let mut right = zeros(problem.rows, targets.len())?;
        for (column, target) in targets.iter().enumerate() {
            for (row, root) in roots.iter().enumerate() {
                right[(row, column)] = f64::from(problem.labels[row * problem.targets + target]) * root;
            }
        }
        let alpha = alphas[targets[0]];
        let solution = match Cholesky::new(weighted(&kernel, &tiles, &roots, alpha, control)?, control)? {
            Some(cholesky) => {
                cholesky.solve(&mut right, control)?;
                right
            }
            None if problem.rows <= MOST_SINGULAR => {
                let matrix = weighted(&kernel, &tiles, &roots, alpha, control)?;
                least_squares(matrix, right.as_ref(), control)?
            }
            None => return Err(given.refuse("alpha", "with this kernel there is no one solution; a larger one helps")),
        };
        for (column, target) in targets.iter().enumerate() {
            for (row, root) in roots.iter().enumerate() {
                duals[row * problem.targets + target] = solution[(row, column)] * root;
            }
        }
    }
    kernel::model(Parts {
        kernel,
        tiles: kernel.pack(problem, &order)?,
        rows: problem.rows,
        width: problem.width,
        duals,
        intercepts: vec![0.0; problem.targets],
        link: Link::Values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::{fit_of, regression, try_fit};

    #[test]
    fn targets_are_learnt_side_by_side_each_with_its_cost() {
        let features: Vec<f32> = (0..60).map(|value| ((value * 37) % 23) as f32 / 7.0).collect();
        let first: Vec<f32> = features.chunks(2).map(|row| row[0] * row[1]).collect();
        let second: Vec<f32> = features.chunks(2).map(|row| row[0] - 2.0 * row[1]).collect();
        let both: Vec<f32> = first.iter().zip(&second).flat_map(|(a, b)| [*a, *b]).collect();
        let joint = fit_of(&REGRESSION, &regression(&features, 2, &both), r#"{"kernel": "rbf", "alpha": [0.1, 2.0]}"#);
        let alone = [(&first, 0.1), (&second, 2.0)].map(|(labels, alpha)| {
            let hyperparams = format!(r#"{{"kernel": "rbf", "alpha": {alpha}}}"#);
            fit_of(&REGRESSION, &regression(&features, 2, labels), &hyperparams)
        });
        for row in features.chunks(2) {
            let (mut values, mut value) = ([0.0; 2], [0.0]);
            joint.predict(row, &mut values);
            for (model, expected) in alone.iter().zip(values) {
                model.predict(row, &mut value);
                assert_eq!(value[0], expected);
            }
        }
    }

    #[test]
    fn kernels_without_one_solution_give_the_shortest() {
        for hyperparams in
            [r#"{"alpha": 0}"#, r#"{"alpha": 0, "kernel": "rbf"}"#, r#"{"kernel": "sigmoid", "alpha": 0}"#]
        {
            // Equal rows, with unequal labels.
            let problem = regression(&[1.0, 2.0, 1.0, 2.0, 3.0, -1.0], 2, &[1.0, 3.0, 5.0]);
            let model = fit_of(&REGRESSION, &problem, hyperparams);
            let mut value = [0.0];
            model.predict(&[1.0, 2.0], &mut value);
            assert!((value[0] - 2.0).abs() < 1e-3, "{hyperparams} {value:?}");
        }
    }

    #[test]
    fn costs_that_do_not_go_with_the_targets_are_refused_by_name() {
        for alpha in ["[1, 2]", "[-1]"] {
            let problem = regression(&[1.0, 2.0], 1, &[1.0, 2.0]);
            let error = try_fit(&REGRESSION, &problem, &format!(r#"{{"alpha": {alpha}}}"#)).err().unwrap();
            assert!(error.to_string().starts_with("hyperparameter \"alpha\" cannot be "), "{error}");
        }
    }
}
