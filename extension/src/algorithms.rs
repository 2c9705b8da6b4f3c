//! `pgml.hyperparameters`: the algorithms, their tasks, and their hyperparameters.

use learn::families::FAMILIES;
use learn::family::{Kind, Task};
use pgrx::pg_sys;

use crate::error::Result;
use crate::sql::{Call, text_datum};
use crate::train::class_weight::DESCRIBED;
use crate::train::series;

crate::sql_function!(pgml_hyperparameters, hyperparameters);

/// `pgml.hyperparameters() RETURNS TABLE (algorithm text, task text, name text, "default" text, allowed text,
/// description text)`. An algorithm that takes none has one row without a name.
fn hyperparameters(call: &Call) -> Result<pg_sys::Datum> {
    let mut rows: Vec<[Option<pg_sys::Datum>; 6]> = Vec::new();
    for family in FAMILIES {
        let of = [Some(text_datum(family.name)), Some(text_datum(family.task.name()))];
        if family.parameters.is_empty() {
            rows.push([of[0], of[1], None, None, None, None]);
        }
        if family.task == Task::Classification && family.takes_weights {
            rows.push(of_class_weight(family.name));
        }
        for parameter in family.parameters {
            let default = match parameter.kind {
                Kind::Refused(_) => None,
                _ => Some(text_datum(parameter.default)),
            };
            rows.push([
                of[0],
                of[1],
                Some(text_datum(parameter.name)),
                default,
                Some(text_datum(&parameter.kind.allowed())),
                Some(text_datum(parameter.about)),
            ]);
        }
    }
    for algorithm in ["xgboost", "xgboost_random_forest"] {
        rows.push(of_class_weight(algorithm));
        for task in ["regression", "classification"] {
            for parameter in learn::xgboost::Params::table() {
                rows.push([
                    Some(text_datum(algorithm)),
                    Some(text_datum(task)),
                    Some(text_datum(parameter.name)),
                    Some(text_datum(parameter.default)),
                    Some(text_datum(&parameter.kind.allowed())),
                    Some(text_datum(parameter.about)),
                ]);
            }
        }
    }
    for algorithm in series::ALGORITHMS {
        for parameter in series::parameters(algorithm) {
            let texts = [algorithm, "forecast", parameter.name, parameter.default, parameter.allowed, parameter.about];
            rows.push(texts.map(|text| Some(text_datum(text))));
        }
    }
    call.rows(rows)
}

/// What all classifications take whose rows may have weights.
fn of_class_weight(algorithm: &str) -> [Option<pg_sys::Datum>; 6] {
    let [name, default, allowed, about] = DESCRIBED.map(|text| Some(text_datum(text)));
    [Some(text_datum(algorithm)), Some(text_datum("classification")), name, default, allowed, about]
}
