//! From a JSON value to what the library is told, by the kind of the hyperparameter.

use serde_json::Value;

use super::table::{At, Kind, METRICS, MOST_QUANTILES, objectives};
use super::{Columns, Task};
use crate::Error;
use crate::nearest::nearest;

/// A column as a constraint names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    Name(String),
    Position(usize),
}

/// Directions in which a prediction may move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Monotone {
    ByPosition(Vec<i8>),
    ByName(Vec<(String, i8)>),
}

/// The name and value that an error is about.
pub(super) struct Given<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a Value,
}

impl Given<'_> {
    /// The error that says what would be allowed.
    pub(super) fn wrong(&self, allowed: impl Into<String>) -> Error {
        Error::InvalidParameter { name: self.name.into(), value: shown(self.value), allowed: allowed.into() }
    }

    /// The text of a value of one of the simple kinds.
    pub(super) fn text(&self, kind: Kind) -> Result<String, Error> {
        match kind {
            Kind::Number { min, above, max, below } => {
                let number = self.value.as_f64().filter(|number| {
                    let from = if above { *number > min } else { *number >= min };
                    let to = if below { *number < max } else { *number <= max };
                    from && to && number.abs() <= f64::from(f32::MAX)
                });
                // Debug writes 1e-5 as that; Display would write it out.
                number.map(|number| format!("{number:?}")).ok_or_else(|| self.wrong(kind.allowed()))
            }
            Kind::Integer { min, max } => whole(self.value)
                .filter(|number| (min..=max).contains(number))
                .map(|number| number.to_string())
                .ok_or_else(|| self.wrong(kind.allowed())),
            Kind::Flag => match (self.value.as_bool(), whole(self.value)) {
                (Some(true), _) | (_, Some(1)) => Ok("1".into()),
                (Some(false), _) | (_, Some(0)) => Ok("0".into()),
                _ => Err(self.wrong(kind.allowed())),
            },
            Kind::Choice(words) => {
                let word = self.value.as_str().and_then(|given| words.iter().find(|word| **word == given));
                word.map(|word| (*word).to_string()).ok_or_else(|| self.wrong(kind.allowed()))
            }
            _ => Err(self.wrong(kind.allowed())),
        }
    }

    /// A whole number of at least 1 that fits.
    pub(super) fn count(&self, kind: Kind) -> Result<u32, Error> {
        self.text(kind)?.parse().map_err(|_| self.wrong(kind.allowed()))
    }

    /// One of the task's objectives.
    pub(super) fn objective(&self, task: Task) -> Result<String, Error> {
        let possible = objectives(task);
        let kinds = match task {
            Task::Regression => "a regression".to_string(),
            Task::Classification { classes } => format!("a classification of {classes} classes"),
        };
        match self.value.as_str() {
            Some(given) if possible.contains(&given) => Ok(given.into()),
            Some(given) if given.starts_with("rank:") => Err(self.wrong("ranking is not one of the tasks")),
            Some("survival:aft") => Err(self.wrong("intervals as labels are not possible here")),
            _ => Err(self.wrong(format!("{kinds} has {}", Kind::Choice(possible).allowed()))),
        }
    }

    /// Names of metrics, in their order.
    pub(super) fn metrics(&self) -> Result<Vec<String>, Error> {
        let metric = |value: &Value| -> Result<String, Error> {
            let name = value.as_str().ok_or_else(|| self.wrong(Kind::Metrics.allowed()))?;
            let (stem, at) = name.split_once('@').map_or((name, None), |(stem, at)| (stem, Some(at)));
            let Some((stem, takes)) = METRICS.iter().find(|(known, _)| *known == stem) else {
                let near = nearest(stem, METRICS.iter().map(|(known, _)| *known));
                let known: Vec<&str> = if near.is_empty() { METRICS.iter().map(|(n, _)| *n).collect() } else { near };
                let list = if known.len() < METRICS.len() { "did you mean " } else { "the metrics are " };
                return Err(self.wrong(format!("there is no metric \"{name}\"; {list}{}", known.join(", "))));
            };
            let number = at.map(|at| at.parse::<f64>().is_ok_and(f64::is_finite));
            match (takes, number) {
                (At::Never | At::May, None) | (At::May | At::Must, Some(true)) => Ok(name.into()),
                (At::Never, Some(_)) => Err(self.wrong(format!("metric \"{stem}\" takes no number after an @"))),
                (At::Must, None) => Err(self.wrong(format!("metric \"{stem}\" needs a number: \"{stem}@1.5\""))),
                (_, Some(false)) => Err(self.wrong(format!("a number has to follow the @ of \"{name}\""))),
            }
        };
        match self.value {
            Value::Array(list) if list.is_empty() => Err(self.wrong(Kind::Metrics.allowed())),
            Value::Array(list) => list.iter().map(metric).collect(),
            one => Ok(vec![metric(one)?]),
        }
    }

    /// A number, or one for each class.
    pub(super) fn base_score(&self, task: Task) -> Result<String, Error> {
        let number = |value: &Value| {
            value.as_f64().filter(|number| number.abs() <= f64::from(f32::MAX)).map(|number| format!("{number:?}"))
        };
        let text = match (self.value, task) {
            (Value::Array(list), Task::Classification { classes }) if list.len() == classes as usize => {
                let numbers: Option<Vec<String>> = list.iter().map(number).collect();
                numbers.map(|numbers| format!("[{}]", numbers.join(",")))
            }
            (value, _) => number(value),
        };
        text.ok_or_else(|| self.wrong(Kind::BaseScore.allowed()))
    }

    /// A quantile, or several in ascending order.
    pub(super) fn quantiles(&self) -> Result<String, Error> {
        let quantile = |value: &Value| value.as_f64().filter(|number| (0.0..=1.0).contains(number));
        let text = match self.value {
            Value::Array(list) if (1..=MOST_QUANTILES).contains(&list.len()) => {
                let numbers: Option<Vec<f64>> = list.iter().map(quantile).collect();
                numbers.filter(|numbers| numbers.is_sorted_by(|a, b| a < b)).map(|numbers| format!("{numbers:?}"))
            }
            value => quantile(value).map(|number| format!("{number:?}")),
        };
        text.ok_or_else(|| self.wrong(Kind::Quantiles.allowed()))
    }

    /// Updaters that exist, for trees or for a linear model.
    pub(super) fn updaters(&self, linear: bool) -> Result<String, Error> {
        const TREE: &[&str] =
            &["grow_colmaker", "grow_histmaker", "grow_quantile_histmaker", "prune", "refresh", "sync"];
        const LINEAR: &[&str] = &["shotgun", "coord_descent"];
        let known = if linear { LINEAR } else { TREE };
        let names: Option<Vec<&str>> = self.value.as_str().map(|text| text.split(',').map(str::trim).collect());
        match names {
            Some(names) if names.iter().all(|name| known.contains(name)) && (!linear || names.len() == 1) => {
                Ok(names.join(","))
            }
            _ => Err(self.wrong(format!("for this booster: {}", Kind::Choice(known).allowed()))),
        }
    }

    /// Directions by position or name; XGBoost's own text form, `(1,0,-1)`, is understood too.
    pub(super) fn monotone(&self) -> Result<Monotone, Error> {
        let direction = |value: &Value| -> Result<i8, Error> {
            match whole(value) {
                Some(number @ -1..=1) => Ok(number as i8),
                _ => Err(self.wrong(Kind::Monotone.allowed())),
            }
        };
        match self.value {
            Value::Array(list) => Ok(Monotone::ByPosition(list.iter().map(direction).collect::<Result<_, _>>()?)),
            Value::Object(names) => {
                let named = names.iter().map(|(name, value)| Ok((name.clone(), direction(value)?)));
                Ok(Monotone::ByName(named.collect::<Result<_, Error>>()?))
            }
            Value::String(text) => {
                let inner = text.trim().trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
                let numbers = inner.split(',').map(|part| part.trim().parse::<i8>().ok());
                let numbers: Option<Vec<i8>> = numbers.map(|part| part.filter(|d| (-1..=1).contains(d))).collect();
                numbers.map(Monotone::ByPosition).ok_or_else(|| self.wrong(Kind::Monotone.allowed()))
            }
            _ => Err(self.wrong(Kind::Monotone.allowed())),
        }
    }

    /// Groups of columns; a text that holds such a list in JSON is understood too.
    pub(super) fn interactions(&self) -> Result<Vec<Vec<Feature>>, Error> {
        let wrong = || self.wrong(Kind::Interactions.allowed());
        let parsed;
        let value = match self.value {
            Value::String(text) => {
                parsed = serde_json::from_str::<Value>(text).map_err(|_| wrong())?;
                &parsed
            }
            value => value,
        };
        let feature = |value: &Value| match value {
            Value::String(name) => Ok(Feature::Name(name.clone())),
            value => {
                let position = whole(value).and_then(|number| usize::try_from(number).ok());
                position.map(Feature::Position).ok_or_else(wrong)
            }
        };
        let group = |value: &Value| match value {
            Value::Array(list) => list.iter().map(feature).collect::<Result<Vec<_>, _>>(),
            _ => Err(wrong()),
        };
        value.as_array().ok_or_else(wrong)?.iter().map(group).collect()
    }
}

impl Monotone {
    /// The library's text for these columns.
    pub(super) fn resolve(&self, columns: &Columns, given: &Given<'_>) -> Result<String, Error> {
        let texts: Vec<String> = self.directions(columns, given)?.iter().map(i8::to_string).collect();
        Ok(format!("({})", texts.join(",")))
    }

    /// One for every column.
    pub(super) fn directions(&self, columns: &Columns, given: &Given<'_>) -> Result<Vec<i8>, Error> {
        match self {
            Monotone::ByPosition(list) if list.len() == columns.width() => Ok(list.clone()),
            Monotone::ByPosition(list) => {
                let (have, want) = (list.len(), columns.width());
                Err(given.wrong(format!("it has {have} directions, and there are {want} columns")))
            }
            Monotone::ByName(names) => {
                let mut directions = vec![0; columns.width()];
                for (name, direction) in names {
                    let position = columns.position(name).ok_or_else(|| no_column(given, name))?;
                    if let Some(slot) = directions.get_mut(position) {
                        *slot = *direction;
                    }
                }
                Ok(directions)
            }
        }
    }
}

/// The groups as positions of these columns; their JSON is the library's text of them.
pub(super) fn resolve_interactions(
    groups: &[Vec<Feature>],
    columns: &Columns,
    given: &Given<'_>,
) -> Result<Vec<Vec<usize>>, Error> {
    let position = |feature: &Feature| match feature {
        Feature::Name(name) => columns.position(name).ok_or_else(|| no_column(given, name)),
        Feature::Position(position) if *position < columns.width() => Ok(*position),
        Feature::Position(position) => {
            Err(given.wrong(format!("there is no column {position}; the last one is {}", columns.width() - 1)))
        }
    };
    groups.iter().map(|group| group.iter().map(position).collect()).collect()
}

fn no_column(given: &Given<'_>, name: &str) -> Error {
    given.wrong(format!("there is no column \"{name}\""))
}

/// A whole number, also where it is written `100.0`, as numbers of a database are.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
    })
}

/// The value as JSON, shortened.
fn shown(value: &Value) -> String {
    const LONGEST: usize = 80;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    let mut short: String = text.chars().take(LONGEST).collect();
    short.push('…');
    short
}
