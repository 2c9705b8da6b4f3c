//! The meaning of a graph's outputs: the values of a prediction.

use std::collections::HashSet;
use std::rc::Rc;

use forest::error::{Error, Result};

use super::lower::{Lowered, Texts};
use super::message::unsupported;
use super::value::{Kind, Lanes, Value};
use crate::family::{Meaning, Model, Predict};
use crate::foreign::Foreign;
use crate::forms::program::{Binary, Builder, Step, Unary};
use crate::random::Random;

/// Numbers of a prediction: each has a name.
const MOST_VALUES: usize = 1 << 16;

/// The outputs by what they are.
struct Outputs {
    /// The place of the class that is predicted, and the classes.
    class: Option<(Lanes, Rc<Vec<String>>)>,
    /// What has a number for each class, or a number for each target.
    numbers: Vec<Lanes>,
}

/// A program, and what it says of itself.
pub(super) fn foreign(lowered: Lowered<'_>, classifies: Option<bool>) -> Result<Foreign> {
    let Lowered { program, outputs, inputs, texts, largest } = lowered;
    let outputs = sorted(outputs)?;
    let width: usize = inputs.iter().map(|(_, size)| size).sum();
    let probe = Probe { texts: &texts, width };
    let (model, values, classes) = match outputs {
        Outputs { class: Some((index, names)), numbers } => {
            let distinct: HashSet<&String> = names.iter().collect();
            if distinct.len() < names.len() {
                return Err(unsupported("the graph", "a classification with two classes of one name"));
            }
            let source = index.lanes.first().and_then(|index| largest.get(index)).cloned();
            let class = Predicted { index, source };
            let model = classification(program, &probe, &class, &names, &numbers)?;
            (model, names.len(), names.to_vec())
        }
        Outputs { class: None, numbers } => plain(program, &probe, &numbers, classifies)?,
    };
    if values > MOST_VALUES {
        return Err(unsupported("the graph", &format!("a prediction of more than {MOST_VALUES} numbers")));
    }
    let categories: Vec<_> = (0..width).map(|feature| texts.of(feature)).collect();
    let named = inputs.len() > 1 && inputs.iter().all(|(_, size)| *size == 1);
    Ok(Foreign {
        classifies: model.1 != Meaning::Values,
        objective: meaning_of(model.1).to_owned(),
        model: model.0,
        algorithm: "onnx",
        features: if named { inputs.iter().map(|(name, _)| (*name).to_owned()).collect() } else { Vec::new() },
        categories: if categories.iter().any(Option::is_some) { categories } else { Vec::new() },
        width,
        outputs: values,
        classes,
    })
}

fn sorted(values: Vec<Value<'_>>) -> Result<Outputs> {
    let mut outputs = Outputs { class: None, numbers: Vec::new() };
    let mut places = Vec::new();
    for value in values {
        match value {
            Value::Class { index, names } if outputs.class.is_none() => outputs.class = Some((index, names)),
            // The largest score speaks for the class where nothing else does.
            Value::Map { scores, names } => {
                outputs.class.get_or_insert_with(|| (Lanes { lanes: [].into(), ..scores.clone() }, names));
                outputs.numbers.insert(0, scores);
            }
            Value::Lanes(lanes) if lanes.kind == Kind::Text => {
                return Err(unsupported("the graph", "an output of texts"));
            }
            // The place of a class beside its scores says nothing that they do not.
            Value::Lanes(lanes) if lanes.kind == Kind::Int && lanes.lanes.len() == 1 => places.push(lanes),
            Value::Lanes(lanes) => outputs.numbers.push(lanes),
            _ => return Err(unsupported("the graph", "an output that does not depend on the row")),
        }
    }
    if outputs.numbers.is_empty() && outputs.class.is_none() {
        outputs.numbers = places;
    }
    Ok(outputs)
}

/// The model, ready for a look at its values.
fn opened(model: &Model) -> Result<Box<dyn Predict>> {
    crate::forms::open_new(model).map_err(|error| Error::Invalid { path: "the graph".into(), what: error.to_string() })
}

/// Rows that tell what a graph's values are: whether they add up to 1 no file says.
struct Probe<'t> {
    texts: &'t Texts,
    width: usize,
}

impl Probe<'_> {
    /// What a program makes of rows of all sizes; only where each value is a number.
    fn values(&self, predict: &dyn Predict) -> Vec<Vec<f32>> {
        const MOST_WORK: usize = 1 << 26;
        let mut random = Random::new(1);
        let rows = (MOST_WORK / predict.work().max(1)).clamp(4, 64);
        let mut all = Vec::with_capacity(rows);
        for round in 0..rows {
            let scale = [0.1_f32, 1.0, 10.0, 1000.0][round % 4];
            let row: Vec<f32> = (0..self.width)
                .map(|feature| match self.texts.count(feature) {
                    Some(count) => random.below(count as u64 + 1) as f32,
                    None => scale * (random.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0),
                })
                .collect();
            let mut values = vec![0.0; predict.values()];
            predict.predict(&row, &mut values);
            if values.iter().all(|value| value.is_finite()) {
                all.push(values);
            }
        }
        all
    }
}

/// Whether all values are between 0 and 1.
fn within(rows: &[Vec<f32>]) -> bool {
    !rows.is_empty() && rows.iter().flatten().all(|value| (-1e-6..=1.0 + 1e-6).contains(value))
}

/// Whether each row is of probabilities that add up to 1.
fn are_probabilities(rows: &[Vec<f32>]) -> bool {
    within(rows) && rows.iter().all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-3)
}

type Made = (Model, Meaning);

/// The class that is predicted.
struct Predicted {
    /// Its place among all; empty where only scores are given, of which it has the largest.
    index: Lanes,
    /// The numbers of which it has the largest, where that is how it is found.
    source: Option<Rc<[u32]>>,
}

/// A graph that names a class: with the probabilities that it gives, or the scores by which it goes, or with a score of 1
/// for the class and 0 for all others.
fn classification(
    mut program: Builder,
    probe: &Probe<'_>,
    class: &Predicted,
    names: &[String],
    numbers: &[Lanes],
) -> Result<Made> {
    let count = names.len();
    let scores = numbers.iter().find(|lanes| lanes.lanes.len() == count).map(|lanes| lanes.lanes.clone());
    let mut given = Vec::new();
    if let Some(scores) = &scores {
        given.extend_from_slice(scores);
    }
    if let [index] = &class.index.lanes[..] {
        let places = program.numbers((0..count).map(|place| place as f32));
        let right = program.push(Step::Constant { numbers: places, count }, count);
        let left = program.gather(&vec![*index; count]);
        let at = program.push(Step::Binary { function: Binary::Equal, left, right, count }, count);
        given.extend((0..count).map(|place| (at + place) as u32));
    }
    if given.is_empty() {
        return Err(unsupported("the graph", "an output of classes that is not one a row"));
    }
    let from = program.gather(&given);
    let model = program.model(from, count, Meaning::Scores);
    if scores.is_some() && are_probabilities(&probe.values(opened(&model)?.as_ref())) {
        return Ok((model.set("meaning", "probabilities"), Meaning::Probabilities));
    }
    let decides = class.index.lanes.is_empty() || class.source == scores;
    Ok(match scores.is_none() || decides {
        true => (model, Meaning::Scores),
        false => (model.set("from", from + count), Meaning::Scores),
    })
}

/// A graph of numbers alone: a regression, unless they are probabilities or its owner says otherwise.
fn plain(
    mut program: Builder,
    probe: &Probe<'_>,
    numbers: &[Lanes],
    classifies: Option<bool>,
) -> Result<(Made, usize, Vec<String>)> {
    let lanes: Vec<u32> = numbers.iter().flat_map(|lanes| lanes.lanes.iter().copied()).collect();
    let count = lanes.len();
    if count == 0 {
        return Err(unsupported("the graph", "a prediction without a number"));
    }
    let from = program.gather(&lanes);
    if classifies == Some(true) && count == 1 {
        let model = two_classes(program, probe, from)?;
        return Ok((model, 2, Vec::new()));
    }
    let model = program.model(from, count, Meaning::Values);
    let opened = opened(&model)?;
    let are_probabilities = count > 1 && are_probabilities(&probe.values(opened.as_ref()));
    let meaning = match (classifies, are_probabilities) {
        (Some(true) | None, true) => Meaning::Probabilities,
        (Some(true), false) => Meaning::Scores,
        _ => Meaning::Values,
    };
    Ok(((model.set("meaning", meaning_of(meaning)), meaning), count, Vec::new()))
}

fn meaning_of(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Probabilities => "probabilities",
        Meaning::Scores => "scores",
        _ => "values",
    }
}

/// One number for two classes: the probability of the second where it is between 0 and 1, else its score.
fn two_classes(mut program: Builder, probe: &Probe<'_>, from: usize) -> Result<Made> {
    let one = program.numbers([1.0]);
    let one = program.push(Step::Constant { numbers: one, count: 1 }, 1);
    // [1 - x, x, -x, x], of which either half is what is meant.
    let rest = program.push(Step::Binary { function: Binary::Sub, left: one, right: from, count: 1 }, 1);
    let less = program.push(Step::Unary { function: Unary::Neg, from, count: 1, a: 0.0 }, 1);
    let at = program.gather(&[rest as u32, from as u32, less as u32, from as u32]);
    let model = program.model(at, 2, Meaning::Probabilities);
    Ok(match within(&probe.values(opened(&model)?.as_ref())) {
        true => (model, Meaning::Probabilities),
        false => (model.set("from", at + 2).set("meaning", "scores"), Meaning::Scores),
    })
}
