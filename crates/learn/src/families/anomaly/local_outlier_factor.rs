//! The local outlier factor, see [`local_density`].

use super::{CONTAMINATION_OR_AUTO, above};
use crate::Error;
use crate::families::common::{COUNT, POSITIVE, ignored, takes};
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task};
use crate::forms::local_density;
use crate::forms::neighbours::{self, Metric, Vote};
use crate::numerics::tiles::Measure;

/// The threshold of the paper: 1 is as dense as around the neighbours.
const OWN: f64 = 1.5;

/// `local_outlier_factor`, as scikit-learn's LocalOutlierFactor for new rows.
pub(crate) const LOCAL_OUTLIER_FACTOR: Family = Family {
    name: "local_outlier_factor",
    task: Task::Anomaly,
    parameters: &[
        takes("n_neighbors", COUNT, "20", "The number of neighbours; with fewer rows all the others."),
        takes(
            "p",
            POSITIVE,
            "2",
            "The power of Minkowski's distance: 1 for the sum of differences, 2 for Euclid's distance.",
        ),
        takes(
            "metric",
            Kind::Choice(&["minkowski", "euclidean", "manhattan", "chebyshev"]),
            "\"minkowski\"",
            "The distance between rows.",
        ),
        CONTAMINATION_OR_AUTO,
        ignored("algorithm", "\"auto\""),
        ignored("leaf_size", "30"),
        ignored("novelty", "true"),
        ignored("n_jobs", "null"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &local_density::FORM,
};

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    if problem.rows < 2 {
        return Err(Error::Task("a local outlier factor needs at least two rows".into()));
    }
    let neighbours = given.count("n_neighbors").min(problem.rows - 1);
    let metric = Metric::Differences(match (given.word("metric"), given.number("p")) {
        ("manhattan", _) | ("minkowski", 1.0) => Measure::Manhattan,
        ("chebyshev", _) => Measure::Chebyshev,
        ("minkowski", power) if power != 2.0 => Measure::Power(power),
        _ => Measure::Squared,
    });
    let labels = vec![0.0; problem.rows];
    let rows = Problem { targets: 1, labels: &labels, ..*problem };
    let vote = Vote { neighbours: neighbours + 1, metric, by_distance: false, tree: true };
    let rows = neighbours::model(&rows, &vote, control)?;
    let (model, factors) = local_density::model(rows, problem.features, control)?;
    above(model, given, OWN, |_| Ok(factors))
}
