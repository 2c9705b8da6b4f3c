//! What the targets check: models here, and the pooler's input in [`pooler`].

pub mod pooler;

use std::hash::{DefaultHasher, Hash, Hasher};

use forest::xgboost::{ReadOptions, read_with};
use forest::{Ensemble, Explainer, Forest, Form, Kernel, compile_as};
use learn::family::{Predict, Stored};
use learn::foreign::Foreign;

/// A row with more features, or an answer of more values, tells nothing that a shorter one does not.
const WIDEST: usize = 4096;
/// More than a block of the batch kernels.
const ROWS: usize = 70;

/// A model's file, of any format: what is read, compiles and predicts by every layout and kernel as the plain kernel does.
pub fn model(file: &[u8]) {
    for (best_iteration, covers) in [(true, false), (false, true)] {
        let Ok(ensemble) = read_with(file, ReadOptions { best_iteration, covers }) else { continue };
        let rows = rows(file, ensemble.num_features as usize, ensemble.num_outputs as usize);
        let expected = rows.as_deref().map(|rows| margins(&ensemble, rows));
        for form in [Form::Auto, Form::Compact, Form::Wide, Form::Perfect(10), Form::Rank] {
            let image = compile_as(&ensemble, b"metadata", form).expect("what is read can be compiled");
            let forest = Forest::open(image).expect("what was compiled can be opened");
            assert_eq!(forest.metadata(), b"metadata");
            if let (Some(rows), Some(expected)) = (&rows, &expected) {
                predict(&forest, rows, Some(expected));
            }
        }
        if covers {
            explain(&ensemble, rows.as_deref());
        }
    }
}

fn margins(ensemble: &Ensemble, rows: &[f32]) -> Vec<f32> {
    let (features, outputs) = (ensemble.num_features as usize, ensemble.num_outputs as usize);
    let mut out = vec![0.0; ROWS * outputs];
    for (r, out) in out.chunks_exact_mut(outputs).enumerate() {
        ensemble.margin(&rows[r * features..][..features], out);
    }
    out
}

fn explain(ensemble: &Ensemble, rows: Option<&[f32]>) {
    let Ok(explainer) = Explainer::new(ensemble) else { return };
    let features = explainer.num_features();
    if let Some(rows) = rows.filter(|_| explainer.num_values() <= WIDEST) {
        let mut out = vec![0.0; 3 * explainer.num_values()];
        explainer.explain(&rows[..3 * features], &mut out, || ()).expect("whole rows");
    }
}

/// An image that says of itself that it is whole: whatever is opened, predicts within its bounds.
pub fn image(bytes: &[u8]) {
    let mut image = bytes.to_vec();
    forest::fuzzing::seal(&mut image);
    let Ok(forest) = Forest::open(image) else { return };
    if let Some(rows) = rows(bytes, forest.num_features(), forest.num_outputs()) {
        predict(&forest, &rows, None);
    }
}

/// Predicts by every kernel, one by one and together; equal to what is expected, if that is known.
fn predict(forest: &Forest<Vec<u8>>, rows: &[f32], expected: Option<&[f32]>) {
    let (features, outputs, values) = (forest.num_features(), forest.num_outputs(), forest.num_values());
    for kernel in [Kernel::Scalar, Kernel::Rank] {
        let Some(forest) = Forest::open(forest.image()).expect("it was opened before").with_kernel(kernel) else {
            continue;
        };
        let (mut margins, mut answers) = (vec![0.0; ROWS * outputs], vec![0.0; ROWS * values]);
        forest.margin_batch(rows, &mut margins).expect("whole rows");
        forest.predict_batch(rows, &mut answers).expect("whole rows");
        for r in 0..ROWS {
            let row = &rows[r * features..][..features];
            let (mut margin, mut answer) = (vec![0.0; outputs], vec![0.0; values]);
            forest.margin_row(row, &mut margin).expect("a row");
            forest.predict_row(row, &mut answer).expect("a row");
            if let Some(expected) = expected {
                same(&margin, &expected[r * outputs..][..outputs]);
                same(&margin, &margins[r * outputs..][..outputs]);
                same(&answer, &answers[r * values..][..values]);
            }
        }
    }
}

fn same(a: &[f32], b: &[f32]) {
    let equal = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    assert!(a.len() == b.len() && a.iter().zip(b).all(equal), "{a:?} is not {b:?}");
}

/// Rows of values that trees often split by, of what is missing and what is extreme, as the input's hash chooses.
fn rows(input: &[u8], features: usize, outputs: usize) -> Option<Vec<f32>> {
    const VALUES: [f32; 16] = [
        0.0,
        -0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        -1.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
        16_777_216.0,
        4e9,
        31.0,
    ];
    if features > WIDEST || outputs > WIDEST {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let mut state = hasher.finish() | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    Some(
        (0..ROWS * features)
            .map(|_| {
                let bits = next();
                // A quarter are any bits at all.
                if bits & 3 == 0 {
                    f32::from_bits((bits >> 32) as u32)
                } else {
                    VALUES[(bits >> 8) as usize % VALUES.len()]
                }
            })
            .collect(),
    )
}

/// A model in another library's format: what is read, is stored, opened again and predicts.
pub fn foreign(read: Result<Foreign, forest::Error>) {
    let Ok(foreign) = read else { return };
    let bytes = foreign.model.to_bytes(&[]).expect("what is read can be stored");
    let stored = Stored::read(bytes.into()).expect("what was stored can be read");
    // Without features there is nothing to open.
    if foreign.width > 0 {
        let opened = learn::forms::open(&stored).expect("what was read can be opened");
        assert_eq!((opened.width(), opened.values()), (foreign.width, foreign.outputs));
        walk(opened.as_ref());
    }
}

/// A stored model, which may come from anybody: what opens, predicts within its bounds.
pub fn stored(bytes: &[u8]) {
    let Ok(stored) = Stored::read(bytes.to_vec().into()) else { return };
    if let Ok(opened) = learn::forms::open(&stored) {
        walk(opened.as_ref());
    }
}

fn walk(model: &dyn Predict) {
    let (width, values) = (model.width(), model.values());
    if width > WIDEST || values > WIDEST || model.work() > 1 << 24 {
        return;
    }
    let numbers = [0.0, 1.0, -0.5, 1e30, -1e-40, f32::NAN];
    let numbers = if model.takes_missing() { &numbers[..] } else { &numbers[..5] };
    let rows: Vec<f32> = (0..3 * width).map(|index| numbers[index % numbers.len()]).collect();
    let mut out = vec![0.0; 3 * values];
    model.predict_rows(&rows, &mut out);
    model.predict(&rows[..width], &mut out[..values]);
    model.contributions(&rows[..width], &mut vec![0.0; values * (width + 1)]);
}
