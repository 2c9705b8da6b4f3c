//! k nearest neighbours: the labels of the training rows that are most like a row speak for it.

use crate::Error;
use crate::families::common::{POSITIVE, ignored, takes};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::neighbours::{self, Metric, Vote};
use crate::numerics::tiles::Measure;

/// `knn` in regression, as scikit-learn's KNeighborsRegressor.
pub(crate) const REGRESSION: Family = Family {
    name: "knn",
    task: Task::Regression,
    parameters: PARAMETERS,
    joint: true,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &neighbours::FORM,
};

/// `knn` in classification, as scikit-learn's KNeighborsClassifier.
pub(crate) const CLASSIFICATION: Family = Family { task: Task::Classification, ..REGRESSION };

const PARAMETERS: &[Parameter] = &[
    takes(
        "n_neighbors",
        Kind::Integer(1, i32::MAX as i64),
        "5",
        "The number of neighbours that are used; at most the number of training rows.",
    ),
    takes(
        "weights",
        Kind::OrNull(&Kind::Choice(&["uniform", "distance"])),
        "\"uniform\"",
        "The weight of a neighbour: the inverse of its distance, or the same for all.",
    ),
    takes(
        "metric",
        Kind::Choice(&["minkowski", "euclidean", "l2", "manhattan", "l1", "cityblock", "chebyshev", "cosine"]),
        "\"minkowski\"",
        "The metric of the distance between two rows.",
    ),
    takes("p", POSITIVE, "2", "The power of the metric minkowski: 2 is euclidean, 1 is manhattan."),
    takes(
        "algorithm",
        Kind::Choice(&["auto", "ball_tree", "kd_tree", "brute"]),
        "\"auto\"",
        "brute measures every row; the others make a k-d tree of rows of up to 15 features. The neighbours are \
                the same.",
    ),
    ignored("leaf_size", "30"),
    takes("metric_params", Kind::OrNull(&Kind::Refused("the metrics take no more than p")), "null", "No effect."),
    ignored("n_jobs", "null"),
];

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let neighbours = given.count("n_neighbors");
    if neighbours > problem.rows {
        return Err(given.refuse("n_neighbors", crate::there_are(problem.rows, "training row")));
    }
    let power = given.number("p");
    let metric = match given.word("metric") {
        "manhattan" | "l1" | "cityblock" => Metric::Differences(Measure::Manhattan),
        "chebyshev" => Metric::Differences(Measure::Chebyshev),
        "cosine" => Metric::Cosine,
        "minkowski" if power == 1.0 => Metric::Differences(Measure::Manhattan),
        "minkowski" if power != 2.0 => Metric::Differences(Measure::Power(power)),
        _ => Metric::Differences(Measure::Squared),
    };
    let by_distance = given.word("weights") == "distance";
    let vote = Vote { neighbours, metric, by_distance, tree: given.word("algorithm") != "brute" };
    let model = neighbours::model(problem, &vote, control)?;
    Ok(match problem.weights {
        None => model,
        Some(_) => model.warn("algorithm \"knn\" does not use the weights of rows"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::{classification, fit_of, regression, try_fit};
    use crate::random::Random;

    #[test]
    fn the_tree_finds_the_neighbours_that_measuring_every_row_finds() {
        let mut random = Random::new(1);
        for width in [1, 2, 5, 15] {
            for metric in ["euclidean", "manhattan", "chebyshev"] {
                // Few distinct values, so that many rows are as near as others.
                let features: Vec<f32> = (0..width * 700).map(|_| random.below(7) as f32).collect();
                let labels: Vec<f32> = (0..1400).map(|label| label as f32).collect();
                let problem = regression(&features, width, &labels);
                let by = |algorithm: &str| {
                    let hyperparams =
                        format!(r#"{{"algorithm": "{algorithm}", "metric": "{metric}", "weights": "distance"}}"#);
                    let model = fit_of(&REGRESSION, &problem, &hyperparams);
                    assert_eq!(model.values(), 2);
                    let mut values = vec![0.0; 1400];
                    model.predict_rows(&features, &mut values);
                    values
                };
                assert_eq!(by("kd_tree"), by("brute"), "{width} {metric}");
            }
        }
    }

    #[test]
    fn a_row_that_is_a_training_row_alone_speaks_for_itself_by_distance() {
        let model = fit_of(
            &CLASSIFICATION,
            &classification(&[0.0, 1.0, 2.0, 3.0], 1, &[0.0, 1.0, 2.0, 0.0]),
            r#"{"n_neighbors": 4, "weights": "distance"}"#,
        );
        let mut values = [0.0; 3];
        model.predict(&[1.0], &mut values);
        assert_eq!(values, [0.0, 1.0, 0.0]);
        // Also where all distances are beyond what a square holds in float32.
        model.predict(&[f32::MAX], &mut values);
        assert!((values.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{values:?}");
    }

    #[test]
    fn more_neighbours_than_rows_are_refused_by_name() {
        let error = try_fit(&REGRESSION, &regression(&[1.0, 2.0], 1, &[1.0, 2.0]), "{}").err().unwrap();
        assert_eq!(error.to_string(), "hyperparameter \"n_neighbors\" cannot be 5: there are 2 training rows");
    }
}
