//! The XGBoost engine.
//!
//! [`Library::open`] loads the real library, [`Params::parse`] checks hyperparameters against the [table](Params::table)
//! and [`Params::dry_run`] against the library itself, and [`train`] streams the rows into it. The model comes back in
//! XGBoost's own portable format.
//!
//! What is in which file: `library` (the C functions and how they are called), `table` (every hyperparameter),
//! `params` (from JSON to what the library is told), `columns` (names and types of the features), `feed` (rows into the
//! library's iterator), `matrix` (its DMatrix), `booster` (its model), `train` (the rounds and early stopping).

mod booster;
mod columns;
mod feed;
mod library;
mod matrix;
mod message;
mod params;
mod table;
#[cfg(test)]
mod tests;
mod train;
mod value;

pub use columns::{Column, ColumnKind, Columns};
pub use library::Library;
pub use params::Params;
pub use table::{Kind, Parameter};
pub use train::{Matrices, Metric, Round, Trained, train};

use crate::Error;

/// Which of XGBoost's two ways to grow trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Gradient boosting, with the defaults of XGBRegressor and XGBClassifier: 100 rounds.
    Xgboost,
    /// A random forest, with the defaults of XGBRFRegressor and XGBRFClassifier: 100 trees in one round.
    XgboostRandomForest,
}

impl Algorithm {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Xgboost => "xgboost",
            Algorithm::XgboostRandomForest => "xgboost_random_forest",
        }
    }
}

/// What is to be learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A number; labels are finite.
    Regression,
    /// One of some classes; labels are whole numbers from 0 to `classes - 1`.
    Classification {
        /// How many classes there are, at least two.
        classes: u32,
    },
}

/// Classes of a label at the most: past this it is a number or an identifier, and every class costs a tree in each round.
pub const MOST_CLASSES: u32 = 1000;

impl Task {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Task::Regression => "regression",
            Task::Classification { .. } => "classification",
        }
    }

    fn check(self) -> Result<(), Error> {
        match self {
            Task::Classification { classes } if classes < 2 => {
                Err(Error::Task(format!("a classification needs at least two classes, and the label has {classes}")))
            }
            Task::Classification { classes } if classes > MOST_CLASSES => {
                Err(Error::Task(format!("a classification of {classes} classes: {MOST_CLASSES} are the most")))
            }
            _ => Ok(()),
        }
    }
}
