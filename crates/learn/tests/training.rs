//! Training with the real library.

mod common;

use common::*;
use learn::Error;
use learn::rows::{Chunk, Rows, Stop};
use learn::xgboost::{Algorithm, ColumnKind, Params, Round, Task, train};
use serde_json::{Value, json};

const BINARY: Task = Task::Classification { classes: 2 };

#[test]
fn a_regression_learns() {
    let library = library();
    let rows = wavy(2000, 1);
    let test = wavy(500, 2);
    let trained = fit(&library, Task::Regression, json!({}), &numbers(4), &rows);
    assert_eq!((trained.rounds, trained.rows), (100, 2000));
    assert!(mean_squared_error(&library, &trained.model, &test) < 0.05 * variance(&test));
    assert!(trained.warnings.is_empty(), "{:?}", trained.warnings);
}
