//! The hyperparameters of a family, and the values that a call gives them.

use serde_json::{Map, Value};

use crate::Error;
use crate::nearest::nearest;

/// A hyperparameter of a family.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// As in scikit-learn: `alpha`.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it is where it is not given, as JSON: `1.0`, `"auto"`, `null`.
    pub default: &'static str,
    /// What it does, in a sentence for the documentation.
    pub about: &'static str,
}

/// What a hyperparameter takes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A finite number in these bounds, which belong to it.
    Number(f64, f64),
    /// A finite number above the first and up to the second.
    Above(f64, f64),
    /// A whole number in these bounds, which belong to it.
    Integer(i64, i64),
    /// True or false.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// An array of numbers.
    Numbers,
    /// Null, or this.
    OrNull(&'static Kind),
    /// One of these, tried in order: `&[Kind::Choice(&["scale", "auto"]), Kind::Above(0.0, f64::INFINITY)]`.
    Any(&'static [Kind]),
    /// Accepted, and without an effect: `n_jobs`, `verbose`.
    Ignored,
    /// Known, and not possible here, for this reason.
    Refused(&'static str),
}

impl Kind {
    fn takes(&self, value: &Value) -> bool {
        match self {
            Kind::Number(least, most) => value.as_f64().is_some_and(|number| (*least..=*most).contains(&number)),
            Kind::Above(least, most) => value.as_f64().is_some_and(|number| number > *least && number <= *most),
            Kind::Integer(least, most) => whole(value).is_some_and(|number| (*least..=*most).contains(&number)),
            Kind::Flag => value.is_boolean(),
            Kind::Choice(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Kind::Numbers => value.as_array().is_some_and(|values| values.iter().all(Value::is_number)),
            Kind::OrNull(kind) => value.is_null() || kind.takes(value),
            Kind::Any(kinds) => kinds.iter().any(|kind| kind.takes(value)),
            Kind::Ignored => true,
            Kind::Refused(_) => false,
        }
    }

    /// What is allowed, to end a sentence with: "a number above 0".
    pub fn allowed(&self) -> String {
        let number = |what: &str, least: f64, most: f64| match (least == f64::NEG_INFINITY, most == f64::INFINITY) {
            (true, true) => "a number".to_owned(),
            (true, false) => format!("a number, at most {most}"),
            (false, true) => format!("a number, {what} {least}"),
            (false, false) => format!("a number, {what} {least} and at most {most}"),
        };
        match self {
            Kind::Number(least, most) => number("at least", *least, *most),
            Kind::Above(least, most) => number("above", *least, *most),
            Kind::Integer(least, most) if *most >= i64::from(i32::MAX) => format!("a whole number, at least {least}"),
            Kind::Integer(least, most) => format!("a whole number from {least} to {most}"),
            Kind::Flag => "true or false".into(),
            Kind::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or "),
            Kind::Numbers => "an array of numbers".into(),
            Kind::OrNull(kind) => format!("{}, or null", kind.allowed()),
            Kind::Any(kinds) => kinds.iter().map(Kind::allowed).collect::<Vec<_>>().join(", or "),
            Kind::Ignored => "anything: it has no effect".into(),
            Kind::Refused(why) => (*why).into(),
        }
    }
}

/// A whole number, also where it is written 3.0.
fn whole(value: &Value) -> Option<i64> {
    let float = || value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
    value.as_i64().or_else(|| float().map(|number| number as i64))
}

/// The hyperparameters of a training, all of them checked, with defaults where none was given.
#[derive(Debug, Clone)]
pub struct Given {
    values: Map<String, Value>,
    /// Names that the caller has given.
    by_caller: Vec<&'static str>,
}

impl Given {
    /// Checks names and values.
    ///
    /// # Errors
    /// [`Error::UnknownParameter`] and [`Error::InvalidParameter`].
    pub fn check(parameters: &'static [Parameter], given: &Map<String, Value>) -> Result<Given, Error> {
        let mut values = Map::new();
        let mut by_caller = Vec::new();
        for parameter in parameters {
            values.insert(parameter.name.into(), serde_json::from_str(parameter.default).unwrap_or(Value::Null));
        }
        for (name, value) in given {
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
                let known = parameters.iter().map(|parameter| parameter.name);
                return Err(Error::UnknownParameter { name: name.clone(), nearest: nearest(name, known) });
            };
            if !parameter.kind.takes(value) {
                return Err(wrong(name, value, parameter.kind.allowed()));
            }
            by_caller.push(parameter.name);
            values.insert(name.clone(), value.clone());
        }
        Ok(Given { values, by_caller })
    }

    fn value(&self, name: &str) -> &Value {
        let value = self.values.get(name);
        debug_assert!(value.is_some(), "the family has no hyperparameter {name}");
        value.unwrap_or(&Value::Null)
    }

    /// Whether the family has a hyperparameter of that name.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Whether the caller gave it, rather than the default.
    pub fn is_given(&self, name: &str) -> bool {
        self.by_caller.contains(&name)
    }

    /// A number.
    pub fn number(&self, name: &str) -> f64 {
        self.value(name).as_f64().unwrap_or(f64::NAN)
    }

    /// A number, where it is one and not null or a word.
    pub fn maybe_number(&self, name: &str) -> Option<f64> {
        self.value(name).as_f64()
    }

    /// A whole number that is not negative.
    pub fn count(&self, name: &str) -> usize {
        self.maybe_count(name).unwrap_or(0)
    }

    /// A whole number that is not negative, where it is one and not null, a word or a fraction.
    pub fn maybe_count(&self, name: &str) -> Option<usize> {
        whole(self.value(name)).and_then(|number| usize::try_from(number).ok())
    }

    /// Whether it is written as a whole number (3) rather than as a fraction (3.0): where scikit-learn tells them apart.
    pub fn is_integer(&self, name: &str) -> bool {
        self.value(name).is_i64() || self.value(name).is_u64()
    }

    /// A whole number.
    pub fn integer(&self, name: &str) -> i64 {
        whole(self.value(name)).unwrap_or(0)
    }

    /// True or false.
    pub fn flag(&self, name: &str) -> bool {
        self.value(name).as_bool().unwrap_or(false)
    }

    /// True or false, where it is one of them.
    pub fn maybe_flag(&self, name: &str) -> Option<bool> {
        self.value(name).as_bool()
    }

    /// A word, empty where it is null or a number.
    pub fn word(&self, name: &str) -> &str {
        self.value(name).as_str().unwrap_or("")
    }

    /// The numbers of an array; `None` where it is not one.
    pub fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        self.value(name).as_array().map(|values| values.iter().filter_map(Value::as_f64).collect())
    }

    /// The error that the value, of the right kind, does not go with the rows or with others.
    pub fn refuse(&self, name: &str, why: impl Into<String>) -> Error {
        wrong(name, self.value(name), why.into())
    }
}

fn wrong(name: &str, value: &Value, allowed: String) -> Error {
    let mut shown = value.to_string();
    if shown.chars().count() > 100 {
        shown = shown.chars().take(100).chain("...".chars()).collect();
    }
    Error::InvalidParameter { name: name.into(), value: shown, allowed }
}
