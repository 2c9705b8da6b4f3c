//! What families of models have in common; the families themselves are in [`crate::families`].
//!
//! A family is an algorithm for one task. It says which hyperparameters it takes ([`Parameter`]), fits a [`Problem`], and
//! gives a [`Model`]: named arrays and a few settings, in a form ([`Form`]) that several families may share and that
//! knows how to predict from them. A model is stored as [`Model::to_bytes`] writes it, and predicts by what
//! [`crate::forms::open`] makes of those bytes, which may be a mapped file: the arrays are used where they lie, so that all
//! processes share one copy.

mod arrays;
mod columns;
mod control;
mod parameters;
mod problem;
mod store;

pub use arrays::{Array, Element};
pub(crate) use columns::Sparse;
pub use control::{Control, Progress};
pub use forest::Explainer;
pub use forest::importance::Splits;
pub use parameters::{Given, Kind, Parameter};
pub(crate) use problem::large_zeros;
pub use problem::{Problem, zeros};
pub(crate) use store::Packed;
pub use store::{Model, Stored};

use crate::Error;

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// Numbers from features.
    Regression,
    /// Classes from features.
    Classification,
    /// Groups of rows, without a label.
    Clustering,
    /// Fewer numbers that say the most about a row, without a label.
    Decomposition,
    /// Which rows are unlike the others, without a label.
    Anomaly,
    /// How series go on. No family here does: the crate `forecast` has their models.
    Forecast,
}

impl Task {
    /// All of them.
    pub const ALL: [Task; 6] =
        [Task::Regression, Task::Classification, Task::Clustering, Task::Decomposition, Task::Anomaly, Task::Forecast];

    /// As SQL has it.
    pub fn name(self) -> &'static str {
        match self {
            Task::Regression => "regression",
            Task::Classification => "classification",
            Task::Clustering => "clustering",
            Task::Decomposition => "decomposition",
            Task::Anomaly => "anomaly",
            Task::Forecast => "forecast",
        }
    }

    /// The task of that name.
    pub fn parse(name: &str) -> Option<Task> {
        Task::ALL.into_iter().find(|task| task.name() == name)
    }

    /// Whether rows have a label to learn.
    pub fn has_label(self) -> bool {
        matches!(self, Task::Regression | Task::Classification | Task::Forecast)
    }
}

/// An algorithm for a task.
pub struct Family {
    /// As in SQL: `ridge`.
    pub name: &'static str,
    /// What it is for. An algorithm for two tasks is two families.
    pub task: Task,
    /// What it takes, by scikit-learn's names.
    pub parameters: &'static [Parameter],
    /// Whether `fit` takes several targets at a time. Where it does not, [`fit`] trains a model for each.
    pub joint: bool,
    /// Whether it knows by [`Problem::categories`] what to do with columns of categories.
    pub takes_categories: bool,
    /// Whether it learns from rows with missing features.
    pub takes_missing: bool,
    /// Whether it counts rows by [`Problem::weights`]. Where it does not, [`fit`] refuses them.
    pub takes_weights: bool,
    /// Trains. The hyperparameters were checked against `parameters`; what only the rows can tell to be wrong is an
    /// [`Error::InvalidParameter`] of this function's.
    pub fit: fn(&Problem<'_>, &Given, &mut Control<'_>) -> Result<Model, Error>,
    /// How its models are stored and predict.
    pub form: &'static Form,
}

impl Family {
    /// Whether it knows by [`Problem::one_hot`] what to do with numbers that stand for several features.
    pub fn takes_one_hot(&self) -> bool {
        match self.task {
            Task::Regression => ["linear", "ridge", "lasso", "elastic_net", "huber"].contains(&self.name),
            Task::Classification => ["linear", "ridge"].contains(&self.name),
            _ => false,
        }
    }
}

/// A way to store models and to predict from them.
pub struct Form {
    /// As stored; never used for anything else again.
    pub name: &'static str,
    /// Checks what was stored, which may come from anybody, and makes it ready to predict. Must not panic, and must
    /// find every index that is out of range: predictions do not look again.
    pub open: fn(&Stored) -> Result<Box<dyn Predict>, Error>,
}

/// What the values of a prediction are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// A number for each target.
    Values,
    /// A probability for each class, in the order of the classes; they add up to 1.
    Probabilities,
    /// One score a class: the largest speaks for its class. Not probabilities.
    Scores,
    /// One number: the cluster, from 0, or -1 for none.
    Cluster,
    /// The components of a decomposition.
    Components,
}

/// The meaning of a model's numbers, of which there is one for each feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightsOf {
    /// A weighted sum, which this value is made of.
    Value(usize),
    /// The centre of this cluster.
    Cluster(i32),
    /// This component of a decomposition.
    Component(usize),
}

/// Numbers that a model has for its features.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// What they are of.
    pub of: WeightsOf,
    /// One for each feature.
    pub numbers: Vec<f64>,
    /// What a sum has besides.
    pub intercept: Option<f64>,
}

/// A model that is ready to predict.
pub trait Predict: Send + Sync {
    /// How many features a row has.
    fn width(&self) -> usize;

    /// How many values a prediction has; at least 1.
    fn values(&self) -> usize;

    /// What they are.
    fn meaning(&self) -> Meaning;

    /// Whether a feature may be missing (NaN). Where it may not, no row with a missing feature gets here.
    fn takes_missing(&self) -> bool {
        false
    }

    /// Where in these whole rows the first number is that may not be there: a missing one, in general.
    fn refused(&self, rows: &[f32]) -> Option<usize> {
        if self.takes_missing() { None } else { rows.iter().position(|value| value.is_nan()) }
    }

    /// Predicts one row of `width()` features into `values()` numbers.
    fn predict(&self, row: &[f32], values: &mut [f32]);

    /// Predicts whole rows; what is faster for many rows at a time overrides this.
    fn predict_rows(&self, rows: &[f32], values: &mut [f32]) {
        for (row, values) in rows.chunks_exact(self.width()).zip(values.chunks_exact_mut(self.values())) {
            self.predict(row, values);
        }
    }

    /// Predicts one row by those of its features that are not 0, in their order, each below `width()`; false where it
    /// cannot. No value is missing.
    fn predict_cells(&self, _cells: &[(u32, f32)], _values: &mut [f32]) -> bool {
        false
    }

    /// How much each feature moved each value from what is expected of the training rows, where that is known exactly:
    /// `values() * (width() + 1)` numbers, those of a value together, the last of them what is expected. The sum over
    /// a value is its prediction (for classes the score before it becomes a probability). False where it is not known.
    fn contributions(&self, _row: &[f32], _contributions: &mut [f32]) -> bool {
        false
    }

    /// What explains predictions of trees, as [`Self::contributions`] does others: the outputs of the first, then those of
    /// the next. None where the model is not of trees.
    ///
    /// # Errors
    /// Where it is of trees that cannot be explained; [`forest::Error::Unsupported`] says why.
    fn explainers(&self) -> Result<Vec<Explainer>, forest::Error> {
        Ok(Vec::new())
    }

    /// The splits by each feature, where the model is of trees.
    fn splits(&self) -> Option<Vec<Splits>> {
        None
    }

    /// The coefficients, centres or components, where the model is made of such numbers.
    fn weights(&self) -> Vec<Weights> {
        Vec::new()
    }

    /// How many rounds it was trained in, where it is what each has added; 0 where it is not.
    fn rounds(&self) -> usize {
        0
    }

    /// Predicts whole rows as if the training had ended after each of these rounds, which are in order, from 1 to
    /// `rounds()`: `take` gets the round and `values()` numbers for each row.
    ///
    /// # Errors
    /// [`Error::Stopped`] where the training is to end, [`Error::Memory`].
    fn predict_staged(
        &self,
        _rows: &[f32],
        _at: &[u32],
        _control: &mut Control<'_>,
        _take: &mut dyn FnMut(u32, &[f32]),
    ) -> Result<(), Error> {
        Ok(())
    }

    /// About how many multiplications or comparisons a prediction takes, to plan and to check for interrupts by.
    fn work(&self) -> usize {
        self.width() * self.values()
    }
}
