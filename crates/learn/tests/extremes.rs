//! No hyperparameter makes a dry run long: it happens before a row is read, and nothing interrupts a round.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::time::Duration;

use common::*;
use learn::xgboost::{Algorithm, Column, ColumnKind, Columns, Kind, Params, Task};
use serde_json::{Map, Value, json};

/// Of a processor's time, whatever else the machine does: in a build with debug assertions, and still too short to wish
/// to cancel.
const LONGEST: Duration = Duration::from_secs(5);

/// What this process has used of processors.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// The values of a parameter that ask for most, or for least.
fn extremes(kind: &Kind) -> Vec<Value> {
    match kind {
        Kind::Integer { min, max } => vec![json!(min), json!(max), json!(max / 2), json!(max / 1000)],
        Kind::Number { min, max, .. } => {
            let ends = [min, max].into_iter().filter(|end| end.is_finite()).map(|end| json!(end));
            ends.chain([json!(1e-30), json!(1e30), json!(0.999)]).collect()
        }
        Kind::Flag => vec![json!(true), json!(false)],
        Kind::Choice(words) => words.iter().map(|word| json!(word)).collect(),
        Kind::Model => vec![json!(1), json!("deployed")],
        Kind::Classes => vec![json!(3), json!(1000), json!(1001), json!(100_000), json!(u32::MAX)],
        _ => Vec::new(),
    }
}

#[test]
fn no_value_that_is_allowed_makes_a_dry_run_long() {
    let library = library();
    let columns = numbers(20);
    let mut ran = 0;
    for parameter in Params::table() {
        for value in extremes(&parameter.kind) {
            let classes = if parameter.kind == Kind::Classes { value.as_u64().unwrap() as u32 } else { 1000 };
            let many = Task::Classification { classes };
            for (algorithm, task, more) in [
                (Algorithm::Xgboost, Task::Regression, json!({})),
                (Algorithm::XgboostRandomForest, Task::Regression, json!({})),
                (Algorithm::Xgboost, many, json!({})),
                (Algorithm::Xgboost, many, json!({"tree_method": "approx"})),
                (Algorithm::Xgboost, many, json!({"booster": "gblinear"})),
            ] {
                let mut given: Map<String, Value> = more.as_object().unwrap().clone();
                given.insert(parameter.name.into(), value.clone());
                let before = processor_time();
                let outcome = Params::parse(algorithm, task, &given).map(|params| params.dry_run(&library, &columns));
                let took = processor_time() - before;
                ran += u32::from(matches!(outcome, Ok(Ok(_))));
                assert!(took < LONGEST, "{took:?} for {}", Value::Object(given));
            }
        }
    }
    assert!(ran > 200, "only {ran} dry runs were made");
}

#[test]
fn nor_do_a_million_columns() {
    let column = |position: u32| Column { name: format!("f{position}"), kind: ColumnKind::Quantitative };
    let columns = Columns::new((0..1 << 20).map(column).collect()).unwrap();
    let library = library();
    let last = (1 << 20) - 1;
    for (given, fits) in [
        (json!({}), true),
        (json!({"tree_method": "approx"}), true),
        (json!({"booster": "gblinear"}), true),
        (json!({"interaction_constraints": [[0, last], [last]]}), true),
        (json!({"interaction_constraints": [[0, last + 1]]}), false),
        (json!({"monotone_constraints": [1, -1]}), false),
    ] {
        let given: Map<String, Value> = given.as_object().unwrap().clone();
        let before = processor_time();
        let params = Params::parse(Algorithm::Xgboost, Task::Regression, &given).unwrap();
        assert_eq!(params.dry_run(&library, &columns).is_ok(), fits, "{}", Value::Object(given));
        assert!(processor_time() - before < LONGEST, "{:?}", processor_time() - before);
    }
}
