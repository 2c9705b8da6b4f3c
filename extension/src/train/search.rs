//! A search for hyperparameters: each combination is trained and scored on the folds of a cross-validation of the training
//! rows, and the best is trained again on all of them. The test rows of the training have no part in it.
//!
//! The rows of a fold are read once for all combinations. With a `factor` a search goes by successive halving (Jamieson and
//! Talwalkar, 2016): all combinations are tried on few rows, the best of them on `factor` times as many, and so on.

use std::time::Instant;

use learn::search::{Method, candidates};
use learn::split::Split;
use serde_json::{Map, Value, json};

use super::columns::Data;
use super::{Plan, Request, engine, report};
use crate::deploy::key_metric;
use crate::error::{Error, Result};
use crate::model_meta::Task;
use crate::train::score::Scorer;

/// Folds unless `cv` says otherwise, and combinations of a random search unless `n_iter` does.
const FOLDS: usize = 5;
const ITERATIONS: usize = 10;

/// A factor that is none.
const NO_HALVING: usize = 1;

/// Rows that a fold keeps to train on, however few are wanted.
const FEWEST_ROWS: u64 = 100;

/// What is to be searched.
pub struct Search {
    pub method: Method,
    pub params: Map<String, Value>,
    pub args: Map<String, Value>,
    folds: usize,
    iterations: usize,
    factor: Option<usize>,
}

impl Search {
    /// `None` where nothing is to be searched.
    pub fn read(method: Option<&str>, params: Map<String, Value>, args: Map<String, Value>) -> Result<Option<Search>> {
        let Some(method) = method else {
            return match params.is_empty() && args.is_empty() {
                true => Ok(None),
                false => Err(Error::invalid("search_params and search_args need search => 'grid' or 'random'")),
            };
        };
        let method = Method::from_name(method)
            .ok_or_else(|| Error::unsupported(format!("search \"{method}\" is not supported")))?;
        let (mut folds, mut iterations, mut factor) = (FOLDS, ITERATIONS, NO_HALVING);
        for (name, value) in &args {
            let (number, least, most) = match name.as_str() {
                "cv" => (&mut folds, 2, 100),
                "n_iter" => (&mut iterations, 1, learn::search::MOST as u64),
                "factor" => (&mut factor, 2, 10),
                _ => {
                    return Err(Error::invalid(format!("search_args has no \"{name}\"")).hint(
                        "Possible are cv, the number of folds, n_iter, the number of combinations at random, and factor, \
                         that of a search by successive halving.",
                    ));
                }
            };
            *number = value
                .as_u64()
                .filter(|value| (least..=most).contains(value))
                .and_then(|value| usize::try_from(value).ok())
                .ok_or_else(|| {
                    Error::invalid(format!(
                        "search_args \"{name}\" cannot be {value}: it is a whole number from {least} to {most}"
                    ))
                })?;
        }
        let factor = (factor != NO_HALVING).then_some(factor);
        Ok(Some(Search { method, params, args, folds, iterations, factor }))
    }
}

/// A combination, with the hyperparameters that were given beside it.
pub struct Trial {
    searched: Map<String, Value>,
    pub hyperparams: Map<String, Value>,
}

/// All combinations, each found to be possible.
pub fn trials(request: &Request, search: &Search, task: Task) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for searched in candidates(search.method, &search.params, search.iterations, request.seed())? {
        let mut hyperparams = request.hyperparams.clone();
        hyperparams.extend(searched.clone());
        engine::open(&request.algorithm, task, &hyperparams, request.seed())?;
        trials.push(Trial { searched, hyperparams });
    }
    Ok(trials)
}

/// The best combination, and what came of all of them, by scikit-learn's names.
pub struct Found {
    pub hyperparams: Map<String, Value>,
    pub results: Value,
}

/// Trains and scores all.
pub fn run(
    request: &Request,
    search: &Search,
    trials: Vec<Trial>,
    plan: &Plan,
    data: &Data,
    split: &Split,
) -> Result<Found> {
    let classes = match data.task {
        Task::Classification => Some(data.spool.labels()?),
        _ => None,
    };
    let folds = split.folds(search.folds, data.divided.folds(classes.as_deref()), request.seed())?;
    let metric = key_metric(data.task);
    report::info(&format!("Hyperparameter searches: {}, cross validation folds: {}", trials.len(), folds.len()));
    let mut results = Results::default();
    let mut alive: Vec<usize> = (0..trials.len()).collect();
    for (iteration, one_in) in steps(alive.len(), search.factor).into_iter().enumerate() {
        let mut tried: Vec<Tried> = alive.iter().map(|_| Tried::default()).collect();
        for (number, fold) in folds.iter().enumerate() {
            let thinned = (one_in > 1).then(|| fold.thinned(one_in, FEWEST_ROWS, request.seed()));
            let fold = thinned.as_ref().unwrap_or(fold);
            let mut prepared = None;
            for (trial, tried) in alive.iter().filter_map(|index| trials.get(*index)).zip(&mut tried) {
                let engine = engine::open(&request.algorithm, data.task, &trial.hyperparams, request.seed())?;
                let begun = Instant::now();
                let ready = match prepared.take() {
                    Some(ready) => ready,
                    None => super::ready(plan, data, fold, engine.as_ref())?,
                };
                let fitted = engine.train(&ready, &mut |_| {})?;
                tried.fit_times.push(begun.elapsed().as_secs_f64());
                let begun = Instant::now();
                let scorer = Scorer::new(&fitted.model, data)?
                    .ok_or_else(|| Error::corrupted("a model does not fit the rows it was trained on"))?;
                let score = scorer.score(data, fold)?.get(metric).and_then(Value::as_f64);
                // A score that cannot be told, such as that of one cluster, is worse than any other.
                let score = score.unwrap_or(f64::NAN);
                tried.scores.push(score);
                tried.score_times.push(begun.elapsed().as_secs_f64());
                tried.rows = fold.train_rows();
                report::info(&format!(
                    "Fold {} of {}: {metric} {score:.6} with {}",
                    number + 1,
                    folds.len(),
                    Value::Object(trial.searched.clone())
                ));
                prepared = Some(ready);
            }
        }
        results.add(iteration, &trials, &alive, tried);
        alive = results.best_of_last(search.factor.map_or(1, |factor| alive.len().div_ceil(factor)));
    }
    let best = alive.first().copied().unwrap_or(0);
    let found = results.to_json(folds.len(), search.factor.is_some());
    let Some(trial) = trials.into_iter().nth(best) else {
        return Err(Error::invalid("search_params has no combination to try"));
    };
    Ok(Found { hyperparams: trial.hyperparams, results: found })
}

/// One in how many of the rows each step of a search trains on; the last is all of them. There are as many as it takes to
/// come down to one combination.
fn steps(combinations: usize, factor: Option<usize>) -> Vec<u64> {
    let mut steps = vec![1];
    if let Some(factor) = factor {
        let mut left = combinations;
        while left > factor {
            steps.insert(0, steps.first().map_or(1, |one_in| one_in * factor as u64));
            left = left.div_ceil(factor);
        }
    }
    steps
}

/// What came of one combination in one step.
#[derive(Default)]
struct Tried {
    /// One a fold, as the others.
    scores: Vec<f64>,
    fit_times: Vec<f64>,
    score_times: Vec<f64>,
    /// That a fold trained on.
    rows: u64,
}

/// What came of all, in the order in which they were tried.
#[derive(Default)]
struct Results(Vec<Line>);

struct Line {
    iteration: usize,
    trial: usize,
    params: Value,
    tried: Tried,
}

impl Results {
    fn add(&mut self, iteration: usize, trials: &[Trial], alive: &[usize], tried: Vec<Tried>) {
        for (trial, tried) in alive.iter().zip(tried) {
            let params = trials.get(*trial).map(|trial| Value::Object(trial.searched.clone())).unwrap_or_default();
            self.0.push(Line { iteration, trial: *trial, params, tried });
        }
    }

    fn last(&self) -> impl Iterator<Item = (usize, &Line)> {
        let iteration = self.0.last().map_or(0, |line| line.iteration);
        self.0.iter().enumerate().filter(move |(_, line)| line.iteration == iteration)
    }

    /// Of the last step the combinations with the largest means, the largest first, of equals as they came.
    fn best_of_last(&self, count: usize) -> Vec<usize> {
        let mut last: Vec<&Line> = self.last().map(|(_, line)| line).collect();
        last.sort_by(|a, b| order(mean(&b.tried.scores)).total_cmp(&order(mean(&a.tried.scores))));
        last.iter().take(count.max(1)).map(|line| line.trial).collect()
    }

    fn to_json(&self, folds: usize, halving: bool) -> Value {
        let means: Vec<f64> = self.0.iter().map(|line| mean(&line.tried.scores)).collect();
        let best = self.best_of_last(1).first().copied();
        let best_index = self.last().find(|(_, line)| Some(line.trial) == best).map_or(0, |(index, _)| index);
        let rank = |score: f64| 1 + means.iter().filter(|other| **other > score).count();
        let mut results = Map::new();
        let mut put = |name: String, value: Value| results.insert(name, value);
        let of = |what: fn(&Tried) -> f64| numbers(self.0.iter().map(|line| what(&line.tried)));
        put("params".into(), self.0.iter().map(|line| line.params.clone()).collect());
        put("n_splits".into(), json!(folds));
        put("best_index".into(), json!(best_index));
        if halving {
            put("iter".into(), self.0.iter().map(|line| json!(line.iteration)).collect());
            put("n_resources".into(), self.0.iter().map(|line| json!(line.tried.rows)).collect());
        }
        put("mean_test_score".into(), numbers(means.iter().copied()));
        put("std_test_score".into(), of(|tried| deviation(&tried.scores)));
        put("rank_test_score".into(), means.iter().map(|score| json!(rank(*score))).collect());
        for fold in 0..folds {
            let of_fold = self.0.iter().map(|line| line.tried.scores.get(fold).copied().unwrap_or(f64::NAN));
            put(format!("split{fold}_test_score"), numbers(of_fold));
        }
        put("mean_fit_time".into(), of(|tried| mean(&tried.fit_times)));
        put("std_fit_time".into(), of(|tried| deviation(&tried.fit_times)));
        put("mean_score_time".into(), of(|tried| mean(&tried.score_times)));
        put("std_score_time".into(), of(|tried| deviation(&tried.score_times)));
        Value::Object(results)
    }
}

/// NaN comes after all others.
fn order(score: f64) -> f64 {
    if score.is_nan() { f64::NEG_INFINITY } else { score }
}

/// NaN, which JSON does not have, is null.
fn numbers(values: impl Iterator<Item = f64>) -> Value {
    values.map(|value| json!(value)).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_comes_down_to_one_combination_on_all_rows() {
        assert_eq!(steps(20, None), [1]);
        assert_eq!(steps(3, Some(3)), [1]);
        assert_eq!(steps(4, Some(3)), [3, 1]);
        assert_eq!(steps(27, Some(3)), [9, 3, 1]);
        assert_eq!(steps(1000, Some(2)), [512, 256, 128, 64, 32, 16, 8, 4, 2, 1]);
        assert_eq!(steps(0, Some(2)), [1]);
    }
}
