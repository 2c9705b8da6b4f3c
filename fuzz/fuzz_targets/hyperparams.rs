//! The hyperparameters of a training, as JSON: what is taken, can be told to the library.

#![no_main]

use learn::xgboost::{Algorithm, Column, ColumnKind, Columns, Params, Task};
use serde_json::Value;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(Value::Object(given)) = serde_json::from_str::<Value>(text) else { return };
    let column = |name: &str, kind| Column { name: name.into(), kind };
    let columns = vec![
        column("a", ColumnKind::Quantitative),
        column("b", ColumnKind::Integer),
        column("it's \"c\"", ColumnKind::Categorical { categories: 3 }),
    ];
    let columns = Columns::new(columns).unwrap();
    for algorithm in [Algorithm::Xgboost, Algorithm::XgboostRandomForest] {
        for task in [Task::Regression, Task::Classification { classes: 2 }, Task::Classification { classes: 1000 }] {
            match Params::parse(algorithm, task, &given) {
                Ok(params) => {
                    let told = params.told(&columns);
                    // The library takes C strings.
                    assert!(told.iter().flatten().all(|(_, value)| !value.contains('\0')), "{told:?}");
                    assert!(params.rounds() > 0 && params.warnings().iter().all(|warning| !warning.is_empty()));
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
});
