//! The hyperparameter `class_weight` of every classification whose algorithm takes weights of rows: how much the rows of a
//! class count. It is the training's, not the algorithm's: what the algorithm is given are rows with weights.

use learn::family::Kind;
use learn::split::Split;
use serde_json::{Map, Value};

use super::columns::Data;
use super::interrupts;
use super::view::View;
use crate::error::{Error, Result};

/// Its name.
const NAME: &str = "class_weight";

/// As `pgml.hyperparameters()` shows it.
pub const DESCRIBED: [&str; 4] = [
    NAME,
    "null",
    "\"balanced\", or an object of weights by class, or null",
    "The weight of the rows of a class, a factor of their own weights: with \"balanced\" inverse to the frequency of the \
     class among the training rows, as scikit-learn's compute_class_weight; with an object, {\"spam\": 5}, the weight of \
     each class, 1 for a class that it lacks; null for the same weight for all classes.",
];

/// What was asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum ClassWeight {
    Balanced,
    /// By the class as text.
    Each(Vec<(String, f64)>),
}

impl ClassWeight {
    /// Takes it out of the hyperparameters.
    pub fn take(hyperparams: &mut Map<String, Value>) -> Result<Option<ClassWeight>> {
        let wrong = |value: &Value| {
            Error::invalid(format!("hyperparameter \"{NAME}\" cannot be {value}: it must be {}", DESCRIBED[2]))
                .hint("{\"class_weight\": \"balanced\"}, or {\"class_weight\": {\"ham\": 1, \"spam\": 5}}")
        };
        match hyperparams.remove(NAME) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(word)) if word == "balanced" => Ok(Some(ClassWeight::Balanced)),
            Some(Value::Object(classes)) => {
                let mut each = Vec::with_capacity(classes.len());
                for (class, weight) in classes {
                    // What does not fit float32 would be infinite, or nothing, to who trains.
                    let number = weight.as_f64().filter(|number| (0.0..=f64::from(f32::MAX)).contains(number));
                    let number = number.ok_or_else(|| {
                        Error::invalid(format!(
                            "the weight of class \"{class}\" cannot be {weight}: it must be {}",
                            Kind::Number(0.0, f64::from(f32::MAX)).allowed()
                        ))
                    })?;
                    each.push((class, number));
                }
                Ok(Some(ClassWeight::Each(each)))
            }
            Some(value) => Err(wrong(&value)),
        }
    }

    /// An algorithm does not know this name, and so cannot say that an unknown one may mean it.
    pub fn or_meant(error: learn::Error) -> learn::Error {
        match error {
            learn::Error::UnknownParameter { name, mut nearest } => {
                if !learn::nearest::nearest(&name, [NAME].into_iter()).is_empty() {
                    nearest.insert(0, NAME);
                }
                learn::Error::UnknownParameter { name, nearest }
            }
            error => error,
        }
    }

    /// The weight of each class, in the order of the data.
    pub fn of_classes(&self, data: &Data, split: &Split) -> Result<Vec<f32>> {
        let meta = data.meta();
        let classes = meta.labels.first().and_then(|label| label.classes.as_deref()).unwrap_or_default();
        match self {
            ClassWeight::Balanced => {
                let sums = sums(data, split, classes.len())?;
                let (present, total) = (sums.iter().filter(|sum| **sum > 0.0).count(), sums.iter().sum::<f64>());
                let weight = |sum: &f64| if *sum > 0.0 { (total / (present as f64 * sum)) as f32 } else { 0.0 };
                Ok(sums.iter().map(weight).collect())
            }
            ClassWeight::Each(each) => {
                let names: Vec<String> = classes.iter().map(|class| class.text.clone()).collect();
                if let Some((unknown, _)) = each.iter().find(|(name, _)| !names.contains(name)) {
                    return Err(Error::invalid(format!("class_weight names class \"{unknown}\", which no row has"))
                        .hint(crate::nearest::hint(unknown, &names)));
                }
                let weight = |name: &String| each.iter().find(|(known, _)| known == name).map_or(1.0, |(_, own)| *own);
                let weights: Vec<f32> = names.iter().map(|name| weight(name) as f32).collect();
                match weights.iter().any(|weight| *weight > 0.0) {
                    true => Ok(weights),
                    false => Err(Error::invalid("class_weight gives every class the weight 0")),
                }
            }
        }
    }
}

/// What the training rows of each class weigh together.
fn sums(data: &Data, split: &Split, classes: usize) -> Result<Vec<f64>> {
    let mut sums = vec![0.0; classes];
    let mut view = View::new(data, split, false, u64::MAX);
    while let Some(part) = view.chunk()? {
        for (row, label) in part.labels.iter().enumerate() {
            let weight = part.weights.and_then(|weights| weights.get(row)).map_or(1.0, |weight| f64::from(*weight));
            if let Some(sum) = sums.get_mut(*label as usize) {
                *sum += weight;
            }
        }
        interrupts::check();
    }
    Ok(sums)
}

/// Refuses training rows of one class. Which class is which is known after the first rows, in general.
pub fn require_two_classes(data: &Data, split: &Split) -> Result<()> {
    if data.classes().is_none() {
        return Ok(());
    }
    let mut view = View::new(data, split, false, u64::MAX);
    let mut first = None;
    while let Some(part) = view.chunk()? {
        let only = *first.get_or_insert(part.labels.first().copied().unwrap_or(f32::NAN));
        if part.labels.iter().any(|label| *label != only) {
            return Ok(());
        }
        interrupts::check();
    }
    let meta = data.meta();
    let classes = meta.labels.first().and_then(|label| label.classes.as_deref()).unwrap_or_default();
    Err(one_class(first.and_then(|first| classes.get(first as usize)).map_or("", |class| class.text.as_str())))
}

pub fn one_class(only: &str) -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
        format!("all training rows are of class \"{only}\", and a classification needs two classes"),
    )
    .hint("Give a smaller test_size, or test_sampling => 'stratified'.")
}
