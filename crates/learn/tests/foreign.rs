//! Models of other libraries, whole and damaged: what is read, is stored, opened and predicts; nothing panics.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail so")]

use std::path::Path;

use learn::family::{Predict, Stored};
use learn::foreign::{self, Foreign};

type Read = fn(&[u8]) -> Result<Foreign, forest::Error>;

fn files() -> Vec<(Vec<u8>, Read)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = |path: &str| std::fs::read(root.join(path)).unwrap();
    vec![
        (file("fuzz/seeds/model_lightgbm/binary"), foreign::lightgbm),
        (file("fuzz/seeds/model_lightgbm/classes"), foreign::lightgbm),
        (file("tests/exchange/catboost_regression.json"), foreign::catboost),
        (file("tests/exchange/catboost_three.json"), foreign::catboost),
        (file("fuzz/seeds/model_onnx/forest.onnx"), onnx),
        (file("fuzz/seeds/model_onnx/boosting.onnx"), onnx),
        (file("fuzz/seeds/model_onnx/bayes.onnx"), onnx),
        (file("fuzz/seeds/model_onnx/classes_svm.onnx"), onnx),
        (file("fuzz/seeds/model_onnx/network.onnx"), onnx),
        (file("fuzz/seeds/model_onnx/columns.onnx"), onnx),
    ]
}

fn onnx(bytes: &[u8]) -> Result<Foreign, forest::Error> {
    foreign::onnx(bytes, None)
}

/// Numbers that are the same each time.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

fn damage(bytes: &[u8], state: &mut u64) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    for _ in 0..1 + next(state) % 3 {
        let at = next(state) % damaged.len();
        match next(state) % 4 {
            0 => damaged[at] = b"0123456789-.,:[]{} \n"[next(state) % 20],
            1 => damaged[at] ^= 1 << (next(state) % 8),
            2 => {
                damaged.remove(at);
            }
            _ => {
                let from = next(state) % damaged.len();
                let piece = damaged[from..damaged.len().min(from + 12)].to_vec();
                damaged.splice(at..at, piece);
            }
        }
    }
    damaged
}

fn walk(model: &dyn Predict) {
    let numbers = [0.0, 1.0, -0.5, 1e30, -1e-40, f32::NAN];
    let mut rows: Vec<f32> = (0..6 * model.width()).map(|index| numbers[index % 6]).collect();
    if model.refused(&rows).is_some() {
        rows.iter_mut().filter(|number| number.is_nan()).for_each(|number| *number = 2.0);
    }
    model.predict_rows(&rows, &mut vec![0.0; 6 * model.values()]);
}

#[test]
fn what_is_read_predicts_and_is_given_back() {
    for (bytes, read) in files() {
        let foreign = read(&bytes).unwrap();
        let stored = Stored::read(foreign.model.to_bytes(&[]).unwrap().into()).unwrap();
        let opened = learn::forms::open(&stored).unwrap();
        assert_eq!((opened.width(), opened.values()), (foreign.width, foreign.outputs));
        walk(opened.as_ref());
        let source = foreign::source(&stored).unwrap();
        assert_eq!((source.library.as_str(), &source.bytes[..]), (foreign.algorithm, &bytes[..]));
    }
}

#[test]
fn what_is_damaged_is_an_error_or_a_model() {
    let mut state = 7;
    for (bytes, read) in files() {
        let mut refused = 0;
        for _ in 0..1500 {
            let Ok(foreign) = read(&damage(&bytes, &mut state)) else {
                refused += 1;
                continue;
            };
            if foreign.width > 0 {
                walk(learn::forms::open_new(&foreign.model).unwrap().as_ref());
            }
        }
        assert!((100..1500).contains(&refused), "{refused} were refused");
    }
}

#[test]
fn a_stored_model_that_is_damaged_is_an_error_or_a_model() {
    let mut state = 11;
    for (bytes, read) in files() {
        let whole = read(&bytes).unwrap().model.to_bytes(&[]).unwrap();
        for round in 0..1500 {
            // The header is a small part, and what it says is most.
            let mut damaged = whole.clone();
            let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
            let within = if round % 3 == 0 { whole.len() } else { header };
            let at = next(&mut state) % within;
            damaged[at] = b"0123456789\"\xff\x00"[next(&mut state) % 13];
            if let Ok(opened) = Stored::read(damaged.into()).and_then(|stored| learn::forms::open(&stored))
                && opened.width() < 1 << 16
                && opened.values() < 1 << 16
            {
                walk(opened.as_ref());
            }
        }
    }
}

#[test]
fn what_could_not_be_opened_is_refused_when_it_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/model_onnx/unopened.onnx");
    let bytes = std::fs::read(path).unwrap();
    for classifies in [None, Some(true), Some(false)] {
        if let Ok(foreign) = foreign::onnx(&bytes, classifies) {
            learn::forms::open_new(&foreign.model).unwrap();
        }
    }
}
