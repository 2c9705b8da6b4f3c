//! Which hyperparameters a search tries: all combinations of some lists, or some at random, also from ranges.

use serde_json::{Map, Value};

use crate::Error;
use crate::random::Random;

/// How combinations are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// All of them.
    Grid,
    /// A sample of them without replacement; from ranges, the number of draws that is asked for.
    Random,
}

impl Method {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Method::Grid => "grid",
            Method::Random => "random",
        }
    }

    /// The method of that name.
    pub fn from_name(name: &str) -> Option<Method> {
        [Method::Grid, Method::Random].into_iter().find(|method| method.name() == name)
    }
}

/// Combinations that a search tries at most.
pub const MOST: usize = 10_000;

/// Bytes that all combinations may take together, about: each value is there once for each combination that has it.
const MOST_BYTES: usize = 64 << 20;

/// About what a value takes.
fn bytes(value: &Value) -> usize {
    const OWN: usize = 64;
    match value {
        Value::String(text) => OWN + text.len(),
        Value::Array(values) => values.iter().map(bytes).fold(OWN, usize::saturating_add),
        Value::Object(map) => {
            map.iter().map(|(name, value)| name.len() + bytes(value)).fold(OWN, usize::saturating_add)
        }
        _ => OWN,
    }
}

/// What a hyperparameter may be.
enum Choice {
    /// One of these.
    List(Vec<Value>),
    /// A number between these two, both of them possible; on a scale of logarithms if so asked.
    Range { low: f64, high: f64, log: bool, whole: bool },
}

/// The combinations to try, each an object of hyperparameters by name.
///
/// `params` has for each name a list of values, or `{"low": 0.01, "high": 0.3, "log": true}`, from which a number is drawn:
/// a whole number where both bounds are written so. `iterations` is how many combinations a random search tries.
///
/// # Errors
/// [`Error::Search`] where `params` cannot be read, a grid has a range or more than [`MOST`] combinations, or the values
/// are so large that so many combinations of them would not fit into memory.
pub fn candidates(
    method: Method,
    params: &Map<String, Value>,
    iterations: usize,
    seed: u64,
) -> Result<Vec<Map<String, Value>>, Error> {
    if params.is_empty() {
        return Err(Error::Search(
            "search_params is empty: it has a list of values for each hyperparameter to try".into(),
        ));
    }
    let choices: Vec<(&String, Choice)> =
        params.iter().map(|(name, value)| Ok((name, choice(name, value)?))).collect::<Result<_, Error>>()?;
    let lists: Option<Vec<(&String, &[Value])>> = choices
        .iter()
        .map(|(name, choice)| match choice {
            Choice::List(values) => Some((*name, values.as_slice())),
            Choice::Range { .. } => None,
        })
        .collect();
    let all =
        lists.as_ref().map(|lists| lists.iter().fold(1usize, |all, (_, values)| all.saturating_mul(values.len())));
    let tried = match method {
        Method::Grid => all.unwrap_or(0),
        Method::Random => iterations.min(all.unwrap_or(MOST)),
    };
    let largest: usize = choices.iter().map(|(name, choice)| name.len().saturating_add(choice.bytes())).sum();
    if tried <= MOST && tried.saturating_mul(largest) > MOST_BYTES {
        return Err(Error::Search(format!(
            "the values in search_params are too large to try {tried} combinations of them"
        )));
    }
    match (method, lists, all) {
        (Method::Grid, Some(lists), Some(all)) if all <= MOST => {
            Ok((0..all).map(|number| combination(&lists, number)).collect())
        }
        (Method::Grid, Some(_), _) => Err(Error::Search(format!(
            "search_params has more than {MOST} combinations: try fewer values, or search => 'random'"
        ))),
        (Method::Grid, None, _) => {
            Err(Error::Search("a range in search_params needs search => 'random': a grid takes lists".into()))
        }
        (Method::Random, Some(lists), Some(all)) if all <= MOST => {
            let mut numbers: Vec<usize> = (0..all).collect();
            Random::new(seed).shuffle(&mut numbers);
            numbers.truncate(iterations);
            Ok(numbers.into_iter().map(|number| combination(&lists, number)).collect())
        }
        (Method::Random, ..) => {
            let mut random = Random::new(seed);
            let mut draw = || {
                choices.iter().map(|(name, choice)| ((*name).clone(), choice.draw(&mut random))).collect::<Map<_, _>>()
            };
            Ok((0..iterations.min(MOST)).map(|_| draw()).collect())
        }
    }
}

/// The combination of that number: the last name changes fastest.
fn combination(lists: &[(&String, &[Value])], number: usize) -> Map<String, Value> {
    let mut rest = number;
    let mut values: Vec<(String, Value)> = lists
        .iter()
        .rev()
        .map(|(name, values)| {
            let value = values.get(rest % values.len().max(1)).cloned().unwrap_or(Value::Null);
            rest /= values.len().max(1);
            ((*name).clone(), value)
        })
        .collect();
    values.reverse();
    values.into_iter().collect()
}

fn choice(name: &str, value: &Value) -> Result<Choice, Error> {
    let refused = |why: &str| Error::Search(format!("search_params \"{name}\" {why}"));
    match value {
        Value::Array(values) if values.is_empty() => Err(refused("is an empty list")),
        Value::Array(values) => Ok(Choice::List(values.clone())),
        Value::Object(object) => {
            if let Some(other) = object.keys().find(|key| !["low", "high", "log"].contains(&key.as_str())) {
                return Err(refused(&format!("has \"{other}\": a range has low, high and log")));
            }
            let (Some(low), Some(high)) = (object.get("low"), object.get("high")) else {
                return Err(refused("needs both low and high"));
            };
            let log = object.get("log").is_some_and(|log| log == &Value::Bool(true));
            match (low.as_f64(), high.as_f64()) {
                (Some(from), Some(to)) if from <= to && (from > 0.0 || !log) => {
                    Ok(Choice::Range { low: from, high: to, log, whole: low.is_i64() && high.is_i64() })
                }
                (Some(from), Some(to)) if from <= to => Err(refused("needs low above 0 where log is true")),
                _ => Err(refused("needs numbers, low at most high")),
            }
        }
        // One value is a list of one.
        value => Ok(Choice::List(vec![value.clone()])),
    }
}

impl Choice {
    /// About what its largest value takes.
    fn bytes(&self) -> usize {
        match self {
            Choice::List(values) => values.iter().map(bytes).max().unwrap_or(0),
            Choice::Range { .. } => bytes(&Value::Null),
        }
    }

    fn draw(&self, random: &mut Random) -> Value {
        match self {
            Choice::List(values) => values.get(random.index(values.len())).cloned().unwrap_or(Value::Null),
            Choice::Range { low, high, log, whole } => {
                // Each whole number has its own stretch of the scale.
                let (from, to) = if *whole { (low - 0.5, high + 0.5) } else { (*low, *high) };
                let number = match log {
                    true => {
                        let (from, to) = (from.max(f64::MIN_POSITIVE).ln(), to.ln());
                        (from + (to - from) * random.unit()).exp()
                    }
                    false => from + (to - from) * random.unit(),
                };
                match whole {
                    true => Value::from(number.round().clamp(*low, *high) as i64),
                    false => Value::from(number.clamp(*low, *high)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(method: Method, params: &str, iterations: usize) -> Result<Vec<Map<String, Value>>, Error> {
        let Value::Object(params) = serde_json::from_str(params).unwrap() else { panic!("not an object") };
        candidates(method, &params, iterations, 1)
    }

    #[test]
    fn a_grid_has_all_combinations() {
        let all = search(Method::Grid, r#"{"a": [1, 2], "b": ["x", "y", null], "c": true}"#, 0).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!(Value::Object(all[0].clone()).to_string(), r#"{"a":1,"b":"x","c":true}"#);
        assert_eq!(Value::Object(all[5].clone()).to_string(), r#"{"a":2,"b":null,"c":true}"#);
    }

    #[test]
    fn random_combinations_are_different_and_repeat_by_seed() {
        let params = r#"{"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]}"#;
        let some = search(Method::Random, params, 10).unwrap();
        let texts: std::collections::HashSet<String> =
            some.iter().map(|map| Value::Object(map.clone()).to_string()).collect();
        assert_eq!((some.len(), texts.len()), (10, 10));
        assert_eq!(some, search(Method::Random, params, 10).unwrap());
        assert_eq!(search(Method::Random, params, 100).unwrap().len(), 16);
    }

    #[test]
    fn ranges_are_kept_to() {
        let params = r#"{"rate": {"low": 0.01, "high": 1.0, "log": true}, "depth": {"low": 2, "high": 4}}"#;
        let some = search(Method::Random, params, 1000).unwrap();
        let rates: Vec<f64> = some.iter().map(|map| map["rate"].as_f64().unwrap()).collect();
        assert!(rates.iter().all(|rate| (0.01..=1.0).contains(rate)));
        // Half of them below the middle of the logarithms.
        let below = rates.iter().filter(|rate| **rate < 0.1).count();
        assert!((430..570).contains(&below), "{below}");
        for depth in 2..=4 {
            let count = some.iter().filter(|map| map["depth"] == depth).count();
            assert!((270..400).contains(&count), "{depth}: {count}");
        }
    }

    #[test]
    fn what_cannot_be_searched_is_named() {
        for (method, params, what) in [
            (Method::Grid, "{}", "empty"),
            (Method::Grid, r#"{"a": []}"#, "\"a\""),
            (Method::Grid, r#"{"a": {"low": 1, "high": 2}}"#, "random"),
            (Method::Random, r#"{"a": {"low": 3, "high": 2}}"#, "low at most high"),
            (Method::Random, r#"{"a": {"low": 0, "high": 2, "log": true}}"#, "above 0"),
            (Method::Random, r#"{"a": {"lo": 0, "high": 2}}"#, "\"lo\""),
        ] {
            assert!(search(method, params, 5).unwrap_err().to_string().contains(what), "{params}");
        }
        let wide = format!(r#"{{"a": {0:?}, "b": {0:?}}}"#, (0..101).collect::<Vec<i32>>());
        assert!(search(Method::Grid, &wide, 0).unwrap_err().to_string().contains("10000"));
    }

    #[test]
    fn combinations_that_would_not_fit_into_memory_are_not_made() {
        let long = format!("[{}]", vec!["1"; 100_000].join(","));
        let many = format!("{:?}", (0..10_000).collect::<Vec<i32>>());
        for (method, params) in [
            (Method::Grid, format!(r#"{{"a": [{long}], "b": {many}}}"#)),
            (Method::Random, format!(r#"{{"a": [{long}], "b": {{"low": 0, "high": 1}}}}"#)),
            (Method::Grid, format!(r#"{{"{}": 1, "b": {many}}}"#, "x".repeat(100_000))),
        ] {
            let error = search(method, &params, 10_000).unwrap_err().to_string();
            assert!(error.contains("too large to try 10000 combinations"), "{error}");
        }
        assert_eq!(search(Method::Random, &format!(r#"{{"a": [{long}], "b": {many}}}"#), 3).unwrap().len(), 3);
    }
}
