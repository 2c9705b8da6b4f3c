//! Ordinary least squares: the linear function with the least sum of squared errors, the one with the shortest
//! coefficients where several have it.

use faer::Mat;

use crate::Error;
use crate::families::linear::absorb;
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Sparse, Task};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::{Centred, feature_means, labels, least_squares, weights};

/// `linear` in regression, as scikit-learn's LinearRegression.
pub(crate) const LINEAR: Family = Family {
    name: "linear",
    task: Task::Regression,
    parameters: &[
        Parameter {
            name: "fit_intercept",
            kind: Kind::Flag,
            default: "true",
            about: "Whether a constant is added to the weighted sum.",
        },
        Parameter { name: "copy_X", kind: Kind::Ignored, default: "true", about: "No effect." },
        Parameter { name: "n_jobs", kind: Kind::Ignored, default: "null", about: "No effect." },
    ],
    joint: true,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &linear::FORM,
};

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    if let Some(sparse) = Sparse::of(problem) {
        let (targets, weights, alphas) = (labels(problem), weights(problem), vec![0.0; problem.targets]);
        let intercept = given.flag("fit_intercept");
        let found = absorb::solve(problem, &sparse, &targets, weights.as_deref(), &alphas, intercept, control)?;
        return Ok(linear::model(found.coefficients, found.intercepts, feature_means(problem), Link::Identity));
    }
    let mut centred = Centred::new(problem, given.flag("fit_intercept"), control)?;
    let features = std::mem::replace(&mut centred.features, Mat::new());
    let solution = least_squares(features, centred.targets.as_ref(), control)?;
    let mut coefficients = Vec::with_capacity(problem.targets * problem.width);
    let mut intercepts = Vec::with_capacity(problem.targets);
    for target in 0..problem.targets {
        let column = solution.col_as_slice(target);
        coefficients.extend_from_slice(column);
        intercepts.push(centred.intercept(column, target));
    }
    Ok(linear::model(coefficients, intercepts, feature_means(problem), Link::Identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::{fit_of, regression};

    #[test]
    fn a_linear_function_is_found() {
        // y = 3 - 2 a + 0.5 b
        let features = [0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 5.0, 4.0, -3.0, 7.0];
        let labels: Vec<f32> = features.chunks(2).map(|row| 3.0 - 2.0 * row[0] + 0.5 * row[1]).collect();
        let model = fit_of(&LINEAR, &regression(&features, 2, &labels), "{}");
        let mut value = [0.0];
        model.predict(&[10.0, 10.0], &mut value);
        assert!((value[0] + 12.0).abs() < 1e-5, "{value:?}");
        let mut contributions = [0.0; 3];
        assert!(model.contributions(&[10.0, 10.0], &mut contributions));
        assert!((contributions.iter().sum::<f32>() - value[0]).abs() < 1e-4);
    }

    #[test]
    fn the_same_rows_give_the_same_bytes() {
        let features = [0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 5.0, 4.0];
        let problem = regression(&features, 2, &[1.0, 2.0, 3.0, 4.0]);
        let attributes: Vec<(String, String)> = (0..20).map(|i| (format!("name {i}"), "value".to_owned())).collect();
        let mut ask = |_| Ok(());
        let mut bytes = || {
            let given = crate::families::testing::given(&LINEAR, "{}").unwrap();
            fit(&problem, &given, &mut Control::new(&mut ask)).unwrap().to_bytes(&attributes).unwrap()
        };
        assert_eq!(bytes(), bytes());
    }

    #[test]
    fn equal_columns_share_their_coefficient() {
        let features = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0];
        let model = fit_of(&LINEAR, &regression(&features, 2, &[2.0, 4.0, 6.0]), "{}");
        let mut value = [0.0];
        model.predict(&[4.0, 0.0], &mut value);
        assert!((value[0] - 4.0).abs() < 1e-5, "{value:?}");
    }
}
