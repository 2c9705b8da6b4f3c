//! The errors of a training, and whose fault they are.

use crate::rows::Stop;

/// Why something was refused or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The training library is not there, is not a library, or lacks a function: the installation's fault.
    #[error("cannot load the xgboost library \"{path}\": {reason}")]
    Library {
        /// The file that was to be opened.
        path: String,
        /// What the dynamic linker said.
        reason: String,
    },

    /// The training library is of a version that this engine does not know: the installation's fault.
    #[error("the xgboost library \"{path}\" is version {found}, but at least {wanted} is needed")]
    Version {
        /// The file that was opened.
        path: String,
        /// Its version, `major.minor.patch`.
        found: String,
        /// The oldest version that would do.
        wanted: &'static str,
    },

    /// No hyperparameter has this name: the caller's fault.
    #[error("unknown hyperparameter \"{name}\"{}", did_you_mean(.nearest))]
    UnknownParameter {
        /// The name as it was given.
        name: String,
        /// The names most like it, the best first; may be empty.
        nearest: Vec<&'static str>,
    },

    /// A hyperparameter has a value of the wrong type or out of its range, or does not go with the others: the
    /// caller's fault.
    #[error("hyperparameter \"{name}\" cannot be {value}: {allowed}")]
    InvalidParameter {
        /// The name as it was given.
        name: String,
        /// The value as it was given, as JSON, shortened where it is long.
        value: String,
        /// What would be allowed, or why this is not.
        allowed: String,
    },

    /// The same hyperparameter was given twice, under two of its names: the caller's fault.
    #[error("hyperparameters \"{first}\" and \"{second}\" are the same one, and both are given")]
    DuplicateParameter {
        /// The name that came first.
        first: String,
        /// The name that came second.
        second: String,
    },

    /// The task makes no sense: the caller's fault.
    #[error("{0}")]
    Task(String),

    /// The columns cannot be features: the caller's fault.
    #[error("{0}")]
    Columns(String),

    /// There is not one row to learn from.
    #[error("there are no rows to {0}")]
    NoRows(&'static str),

    /// A chunk does not have the shape that it should: the fault of the source.
    #[error("a chunk of rows is malformed: {0}")]
    Shape(String),

    /// An infinite feature, which XGBoost does not take: the data's fault.
    #[error("column \"{column}\" is infinite in row {row}")]
    Infinite {
        /// The name of the column.
        column: String,
        /// The row, counted from 1 in the order of the source.
        row: u64,
    },

    /// A value of a categorical column that is no category of it: the data's fault.
    #[error("column \"{column}\" is {value} in row {row}, which is not one of its {categories} categories")]
    Category {
        /// The name of the column.
        column: String,
        /// The row, counted from 1 in the order of the source.
        row: u64,
        /// The value that was found.
        value: f32,
        /// The number of categories; valid are the whole numbers below it.
        categories: u32,
    },

    /// A label that the task does not have: the data's fault.
    #[error("the label is {value} in row {row}: {allowed}")]
    Label {
        /// The row, counted from 1 in the order of the source.
        row: u64,
        /// The label that was found.
        value: f32,
        /// What a label has to be.
        allowed: String,
    },

    /// A weight that is negative, infinite or NaN: the data's fault.
    #[error("the weight is {value} in row {row}: weights are finite and not negative")]
    Weight {
        /// The row, counted from 1 in the order of the source.
        row: u64,
        /// The weight that was found.
        value: f32,
    },

    /// The source gave other rows in a later pass than in its first: the fault of the source.
    #[error("the rows changed between two passes over them: {0}")]
    Changed(String),

    /// The rows cannot be divided like this: the caller's fault.
    #[error("{0}")]
    Split(String),

    /// There are more classes than can be told apart: the data's fault.
    #[error("there are more than {0} classes")]
    Classes(usize),

    /// Spooled rows are not what was spooled: the fault of the storage.
    #[error("spooled rows are damaged: {0}")]
    Spool(&'static str),

    /// The algorithm takes memory or time that grows with the square of the rows: the caller's fault.
    #[error("algorithm \"{algorithm}\" takes at most {most} rows, and there are {rows}")]
    TooManyRows {
        /// The algorithm, as SQL names it.
        algorithm: &'static str,
        /// The rows to train on.
        rows: u64,
        /// How many there may be.
        most: u64,
    },

    /// What a search should try makes no sense: the caller's fault.
    #[error("{0}")]
    Search(String),

    /// The arithmetic of a training led nowhere: the data's fault, or that of the hyperparameters.
    #[error("the training found no solution: {0}")]
    Diverged(&'static str),

    /// A stored model is not what a training has written: the fault of the storage, or of who wrote it.
    #[error("the model is damaged: {0}")]
    Model(String),

    /// There is no memory for the rows or for the training: the machine's fault.
    #[error("out of memory")]
    Memory,

    /// LightGBM's library is not there, is not a library, or lacks a function: the installation's fault.
    #[error("cannot load the lightgbm library \"{path}\": {reason}")]
    LightGbmLibrary {
        /// The file that was to be opened.
        path: String,
        /// What the dynamic linker said.
        reason: String,
    },

    /// LightGBM refused something that was not foreseen here.
    #[error("lightgbm: {0}")]
    LightGbm(String),

    /// The training library refused something that was not foreseen here.
    #[error("xgboost: {0}")]
    Refused(String),

    /// A source or a callback ended the training, or panicked; here is what it gave.
    #[error("the training was stopped")]
    Stopped(Stop),
}

impl From<room::NoRoom> for Error {
    fn from(_: room::NoRoom) -> Error {
        Error::Memory
    }
}

fn did_you_mean(nearest: &[&'static str]) -> String {
    if nearest.is_empty() {
        String::new()
    } else {
        let quoted: Vec<String> = nearest.iter().map(|name| format!("\"{name}\"")).collect();
        format!(" (did you mean {}?)", quoted.join(" or "))
    }
}
