//! What is refused, and what is left behind then: nothing.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::path::Path;

use common::*;
use learn::Error;
use learn::rows::{Chunk, Rows, Stop};
use learn::xgboost::{Algorithm, Column, ColumnKind, Columns, Library, Params, Task, train};
use serde_json::{Value, json};

/// Makes rows bad.
type Spoil = fn(&mut Memory);

const BINARY: Task = Task::Classification { classes: 2 };

fn refused(library: &Library, task: Task, json: Value, columns: &Columns, rows: &mut dyn Rows) -> Error {
    let params = parse(task, json).unwrap();
    train(library, &params, columns, rows, None, &[], &mut quiet).unwrap_err()
}

/// A source that stops, or panics, when it is asked for the `at`th time.
struct Failing {
    rows: Memory,
    at: usize,
    asked: usize,
    panics: bool,
}

impl Failing {
    fn count(&mut self) -> Result<(), Stop> {
        self.asked += 1;
        if self.asked == self.at {
            if self.panics {
                // Like a panic, but without a message on standard error.
                std::panic::resume_unwind(Box::new(self.at));
            }
            return Err(Box::new(self.at));
        }
        Ok(())
    }
}

impl Rows for Failing {
    fn width(&self) -> usize {
        self.rows.width
    }

    fn rewind(&mut self) -> Result<(), Stop> {
        self.count()?;
        self.rows.rewind()
    }

    fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop> {
        self.count()?;
        self.rows.next()
    }
}

#[test]
fn a_source_can_stop_or_panic_at_any_moment() {
    let library = library();
    for method in ["hist", "exact"] {
        let params = parse(Task::Regression, json!({"n_estimators": 2, "tree_method": method})).unwrap();
        let source = |at, panics| Failing { rows: wavy(250, 1), at, asked: 0, panics };
        let mut whole = source(0, false);
        let mut whole_eval = source(0, false);
        train(&library, &params, &numbers(4), &mut whole, Some(&mut whole_eval), &[], &mut quiet).unwrap();
        assert_eq!(whole.asked >= 20, method == "hist", "{} calls", whole.asked);
        for panics in [false, true] {
            for at in 1..=whole.asked {
                let result = train(&library, &params, &numbers(4), &mut source(at, panics), None, &[], &mut quiet);
                let Err(Error::Stopped(stop)) = result else { panic!("{method} {at}: {result:?}") };
                assert_eq!(stop.downcast_ref::<usize>(), Some(&at));
            }
            for at in 1..=whole_eval.asked {
                let (mut rows, mut eval) = (wavy(250, 1), source(at, panics));
                let result = train(&library, &params, &numbers(4), &mut rows, Some(&mut eval), &[], &mut quiet);
                let Err(Error::Stopped(stop)) = result else { panic!("{method} {at}: {result:?}") };
                assert_eq!(stop.downcast_ref::<usize>(), Some(&at));
            }
        }
    }
    // And all is well afterwards.
    fit(&library, Task::Regression, json!({}), &numbers(4), &wavy(250, 1));
}

#[test]
fn progress_can_stop_or_panic() {
    let library = library();
    let params = parse(Task::Regression, json!({})).unwrap();
    for panics in [false, true] {
        let mut rounds = 0;
        let mut progress = |round: &learn::xgboost::Round<'_>| -> Result<(), Stop> {
            rounds = round.round;
            match (round.round, panics) {
                (3, true) => std::panic::resume_unwind(Box::new("enough")),
                (3, false) => Err(Box::new("enough")),
                _ => Ok(()),
            }
        };
        let result = train(&library, &params, &numbers(4), &mut wavy(250, 1), None, &[], &mut progress);
        let Err(Error::Stopped(stop)) = result else { panic!("{result:?}") };
        assert_eq!(stop.downcast_ref::<&str>(), Some(&"enough"));
        assert_eq!(rounds, 3);
    }
}

fn resident_megabytes() -> usize {
    let pages: usize = std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096 / 1_000_000
}

#[test]
fn a_stopped_training_leaves_no_memory_behind() {
    let library = library();
    let params = parse(Task::Regression, json!({"max_depth": 3})).unwrap();
    let mut rows = data(50_000, 20, 1, |x, _| x[0]);
    rows.chunk = 10_000;
    let mut stop = |round: &learn::xgboost::Round<'_>| -> Result<(), Stop> {
        if round.round == 2 { Err(Box::new(())) } else { Ok(()) }
    };
    let mut once = || {
        let result = train(&library, &params, &numbers(20), &mut rows, None, &[], &mut stop);
        assert!(matches!(result, Err(Error::Stopped(_))));
    };
    once();
    let before = resident_megabytes();
    for _ in 0..25 {
        once();
    }
    // Each holds a megabyte of bins and two of gradients, predictions and rows at the least. Other tests of this file
    // run at the same time, but are small.
    let grown = resident_megabytes().saturating_sub(before);
    assert!(grown < 45, "{grown} MB are left of 25 trainings");
}

/// A source whose later passes are not like its first.
struct Fickle {
    rows: Memory,
    change: Spoil,
    pass: usize,
}

impl Rows for Fickle {
    fn width(&self) -> usize {
        self.rows.width
    }

    fn rewind(&mut self) -> Result<(), Stop> {
        self.pass += 1;
        if self.rows.calls > 0 {
            (self.change)(&mut self.rows);
        }
        self.rows.rewind()
    }

    fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop> {
        self.rows.next()
    }
}

#[test]
fn rows_that_change_between_passes_are_found_out() {
    let library = library();
    let changes: [(&str, Spoil); 5] = [
        ("a value", |rows| rows.features[901] += 1.0),
        ("a missing value", |rows| rows.features[901] = f32::NAN),
        ("a label", |rows| rows.labels[249] = 7.0),
        ("a row more", |rows| {
            rows.features.extend([0.5; 4]);
            rows.labels.push(0.5);
        }),
        ("a row fewer", |rows| {
            rows.labels.pop();
            rows.features.truncate(rows.labels.len() * 4);
        }),
    ];
    for (what, change) in changes {
        let mut rows = Fickle { rows: wavy(250, 1), change, pass: 0 };
        let error = refused(&library, Task::Regression, json!({}), &numbers(4), &mut rows);
        assert!(matches!(error, Error::Changed(_)), "{what}: {error}");
        assert!(error.to_string().contains("after row 200") || error.to_string().contains("after row 2"), "{error}");
    }
    let mut chunks = Fickle { rows: wavy(250, 1), change: |rows| rows.chunk += 1, pass: 0 };
    let error = refused(&library, Task::Regression, json!({}), &numbers(4), &mut chunks);
    assert!(matches!(error, Error::Changed(_)), "{error}");
}

#[test]
fn data_that_cannot_be_learnt_from_are_named() {
    let library = library();
    let kinds = vec![ColumnKind::Quantitative, ColumnKind::Categorical { categories: 3 }];
    let columns = named(kinds);
    let clean = Memory::new(2, [1.0, 2.0].repeat(150), vec![1.0; 150]);
    let cases: [(Task, Spoil, &str); 14] = [
        (Task::Regression, |rows| rows.features[240] = f32::INFINITY, "column \"a\" is infinite in row 121"),
        (Task::Regression, |rows| rows.features[241] = f32::NEG_INFINITY, "column \"b\" is infinite in row 121"),
        (Task::Regression, |rows| rows.features[3] = 3.0, "column \"b\" is 3 in row 2, which is not one of its 3"),
        (Task::Regression, |rows| rows.features[3] = -1.0, "column \"b\" is -1 in row 2"),
        (Task::Regression, |rows| rows.features[3] = 0.5, "column \"b\" is 0.5 in row 2"),
        (Task::Regression, |rows| rows.labels[149] = f32::NAN, "the label is NaN in row 150: labels of a regression"),
        (Task::Regression, |rows| rows.labels[0] = f32::INFINITY, "the label is inf in row 1"),
        (
            BINARY,
            |rows| rows.labels[5] = 2.0,
            "the label is 2 in row 6: labels of a classification are whole numbers from 0 to 1",
        ),
        (BINARY, |rows| rows.labels[5] = 0.5, "the label is 0.5 in row 6"),
        (BINARY, |rows| rows.labels[5] = -1.0, "the label is -1 in row 6"),
        (
            Task::Regression,
            |rows| rows.weights = Some([vec![1.0; 149], vec![-1.0]].concat()),
            "the weight is -1 in row 150",
        ),
        (
            Task::Regression,
            |rows| rows.weights = Some([vec![1.0; 149], vec![f32::NAN]].concat()),
            "the weight is NaN in row 150",
        ),
        (
            Task::Regression,
            |rows| {
                rows.features.clear();
                rows.labels.clear()
            },
            "there are no rows to learn from",
        ),
        (Task::Regression, |rows| rows.width = 1, "rows have 1 features, and there are 2 columns"),
    ];
    for (task, spoil, wanted) in cases {
        for method in ["hist", "approx"] {
            let mut rows = clean.clone();
            spoil(&mut rows);
            let error = refused(&library, task, json!({"tree_method": method}), &columns, &mut rows).to_string();
            assert!(error.contains(wanted), "{method}: {error}, not {wanted}");
        }
    }
    // Evaluation rows are looked at as well.
    let params = parse(Task::Regression, json!({})).unwrap();
    let mut eval = clean.clone();
    eval.features[0] = f32::INFINITY;
    let error = train(&library, &params, &columns, &mut clean.clone(), Some(&mut eval), &[], &mut quiet).unwrap_err();
    assert!(matches!(error, Error::Infinite { row: 1, .. }), "{error}");
}

#[test]
fn labels_that_an_objective_does_not_take_are_refused_by_the_library() {
    let library = library();
    let rows = data(100, 2, 1, |x, _| 2.0 * x[0] - 0.2);
    for (objective, wanted) in [
        ("reg:gamma", "positive"),
        ("count:poisson", "label must be non-negative"),
        ("reg:logistic", "label must be in (0, 1)"),
    ] {
        let error =
            refused(&library, Task::Regression, json!({"objective": objective}), &numbers(2), &mut rows.clone());
        let Error::Refused(reason) = &error else { panic!("{error}") };
        assert!(reason.contains(wanted), "{objective}: {reason}");
        assert!(
            !reason.contains("Stack") && !reason.contains('\n') && !reason.contains(".cc") && !reason.contains(".cu"),
            "{reason}"
        );
    }
}

#[test]
fn malformed_chunks_are_refused() {
    struct Odd(Vec<(usize, usize, Option<usize>)>, usize, Vec<f32>);
    impl Rows for Odd {
        fn width(&self) -> usize {
            2
        }
        fn rewind(&mut self) -> Result<(), Stop> {
            self.1 = 0;
            Ok(())
        }
        fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop> {
            let Some(&(features, labels, weights)) = self.0.get(self.1) else { return Ok(None) };
            self.1 += 1;
            let ones = &self.2;
            Ok(Some(Chunk {
                features: &ones[..features],
                labels: &ones[..labels],
                weights: weights.map(|n| &ones[..n]),
            }))
        }
    }
    let library = library();
    for shapes in [
        vec![(3, 2, None)],
        vec![(2, 0, None)],
        vec![(4, 2, None), (0, 1, None)],
        vec![(4, 2, Some(1))],
        vec![(4, 2, Some(2)), (4, 2, None)],
        vec![(4, 2, None), (4, 2, Some(2))],
    ] {
        for method in ["hist", "exact"] {
            let mut odd = Odd(shapes.clone(), 0, vec![1.0; 10]);
            let error = refused(&library, Task::Regression, json!({"tree_method": method}), &numbers(2), &mut odd);
            assert!(matches!(error, Error::Shape(_)), "{method} {shapes:?}: {error}");
        }
    }
    // Chunks without rows are nothing special, wherever they come.
    let mut gaps = Odd(vec![(0, 0, None), (4, 2, None), (0, 0, None), (6, 3, None), (0, 0, None)], 0, vec![1.0; 10]);
    let params = parse(Task::Regression, json!({})).unwrap();
    assert_eq!(train(&library, &params, &numbers(2), &mut gaps, None, &[], &mut quiet).unwrap().rows, 5);
}

#[test]
fn columns_have_names_of_their_own() {
    let column = |name: &str, kind| Column { name: name.into(), kind };
    let number = ColumnKind::Quantitative;
    for (columns, wanted) in [
        (vec![], "there is no column to learn from"),
        (vec![column("", number)], "column 1 has no name"),
        (vec![column("a", number), column("a\0b", number)], "column 2 has a zero byte in its name"),
        (vec![column("a", number), column("a", number)], "column \"a\" is there twice"),
        (vec![column("a", ColumnKind::Categorical { categories: 0 })], "column \"a\" has 0 categories"),
        (vec![column("a", ColumnKind::Categorical { categories: 1 << 25 })], "column \"a\" has 33554432 categories"),
    ] {
        let error = Columns::new(columns).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    // Names with anything else in them are taken.
    let library = library();
    let odd = Columns::new(vec![column("a [b] < \"c\"", number), column("день", number)]).unwrap();
    let rows = data(50, 2, 1, |x, _| x[0]);
    fit(&library, Task::Regression, json!({"monotone_constraints": {"день": 1}}), &odd, &rows);
}

#[test]
fn a_library_that_is_none_is_named() {
    let error = Library::open(Path::new("/nowhere/libxgboost.so")).unwrap_err().to_string();
    assert!(error.starts_with("cannot load the xgboost library \"/nowhere/libxgboost.so\": "), "{error}");
    // A library, but not this one.
    let libm = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = libm
        .lines()
        .find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("/libc.so")))
        .unwrap()
        .to_string();
    let error = Library::open(Path::new(&libc)).unwrap_err().to_string();
    assert!(error.contains("XGBoostVersion"), "{error}");
    assert!(library().version() >= (2, 0, 0));
}

#[test]
fn a_bad_model_is_an_error() {
    let library = library();
    for model in [&b""[..], b"{", b"not a model", &[0; 100]] {
        let error = library.predict(model, &[1.0], 1, false).unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");
    }
    let model =
        fit(&library, Task::Regression, json!({"n_estimators": 1}), &numbers(2), &data(50, 2, 1, |x, _| x[0])).model;
    assert!(matches!(library.predict(&model, &[1.0, 2.0, 3.0], 2, false), Err(Error::Shape(_))));
    assert!(library.predict(&model, &[1.0, 2.0, 3.0], 3, false).is_err());
}

#[test]
fn early_stopping_needs_rows_to_stop_by() {
    let library = library();
    let error = refused(&library, Task::Regression, json!({"early_stopping_rounds": 3}), &numbers(4), &mut wavy(50, 1));
    assert_eq!(
        error.to_string(),
        "hyperparameter \"early_stopping_rounds\" cannot be 3: there are no held-out rows to stop by"
    );
    let forest = object(json!({"early_stopping_rounds": 3}));
    let error = Params::parse(Algorithm::XgboostRandomForest, Task::Regression, &forest).unwrap_err();
    assert!(error.to_string().contains("a random forest has one round"), "{error}");
}
