//! By which metric the models of a project are compared.

use serde_json::{Map, Value};

use crate::model_meta::Task;

/// A metric, and which way is better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    name: String,
    larger: bool,
}

impl Metric {
    /// That of a task, unless another is asked for.
    pub fn of_task(task: Task) -> Metric {
        let name = match task {
            Task::Regression => "r2",
            Task::Classification => "f1",
            Task::Clustering => "silhouette",
            Task::Decomposition => "cumulative_explained_variance",
        };
        Metric { name: name.to_owned(), larger: true }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value among others.
    pub fn of(&self, metrics: &Map<String, Value>) -> Option<f64> {
        metrics.get(&self.name).and_then(Value::as_f64)
    }

    /// The value so that larger is better.
    pub fn upwards(&self, value: f64) -> f64 {
        if self.larger { value } else { -value }
    }

    pub fn at_least_as_good(&self, value: f64, other: f64) -> bool {
        self.upwards(value) >= self.upwards(other)
    }
}
