//! A search for hyperparameters: each combination is trained and scored on the folds of a cross-validation of the training
//! rows, and the best is trained again on all of them. The test rows of the training have no part in it.

use std::time::{Duration, Instant};

use learn::search::{Method, candidates};
use learn::split::Split;
use serde_json::{Map, Value, json};

use super::columns::Data;
use super::{Plan, Request, engine, fit, report};
use crate::deploy::key_metric;
use crate::error::{Error, Result};
use crate::model_meta::Task;
use crate::train::score::Scorer;

/// Folds unless `cv` says otherwise, and combinations of a random search unless `n_iter` does.
const FOLDS: usize = 5;
const ITERATIONS: usize = 10;

/// What is to be searched.
pub struct Search {
    pub method: Method,
    pub params: Map<String, Value>,
    pub args: Map<String, Value>,
    folds: usize,
    iterations: usize,
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
        let (mut folds, mut iterations) = (FOLDS, ITERATIONS);
        for (name, value) in &args {
            let (number, least, most) = match name.as_str() {
                "cv" => (&mut folds, 2, 100),
                "n_iter" => (&mut iterations, 1, learn::search::MOST as u64),
                _ => {
                    return Err(Error::invalid(format!("search_args has no \"{name}\"")).hint(
                        "Possible are cv, the number of folds, and n_iter, the number of combinations at random.",
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
        Ok(Some(Search { method, params, args, folds, iterations }))
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
    for (number, trial) in trials.iter().enumerate() {
        let (mut scores, mut fit_times, mut score_times) = (Vec::new(), Vec::new(), Vec::new());
        for fold in &folds {
            let engine = engine::open(&request.algorithm, data.task, &trial.hyperparams, request.seed())?;
            let (fitted, fit_time) = fit(plan, data, fold, engine.as_ref(), &mut |_| {})?;
            let begun = Instant::now();
            let scorer = Scorer::new(&fitted.model, data)?
                .ok_or_else(|| Error::corrupted("a model does not fit the rows it was trained on"))?;
            let score = scorer.score(data, fold)?.get(metric).and_then(Value::as_f64);
            // A score that cannot be told, such as that of one cluster, is worse than any other.
            scores.push(score.unwrap_or(f64::NAN));
            fit_times.push(fit_time.as_secs_f64());
            score_times.push(Duration::as_secs_f64(&begun.elapsed()));
        }
        report::info(&format!(
            "{} of {}: {metric} {:.6} with {}",
            number + 1,
            trials.len(),
            mean(&scores),
            Value::Object(trial.searched.clone())
        ));
        results.add(trial, scores, &fit_times, &score_times);
    }
    let best = results.best();
    let Some(trial) = trials.into_iter().nth(best) else {
        return Err(Error::invalid("search_params has no combination to try"));
    };
    Ok(Found { hyperparams: trial.hyperparams, results: results.to_json(folds.len(), best) })
}

#[derive(Default)]
struct Results {
    params: Vec<Value>,
    /// Of each combination, of each fold.
    scores: Vec<Vec<f64>>,
    fit_times: Vec<(f64, f64)>,
    score_times: Vec<(f64, f64)>,
}

impl Results {
    fn add(&mut self, trial: &Trial, scores: Vec<f64>, fit_times: &[f64], score_times: &[f64]) {
        self.params.push(Value::Object(trial.searched.clone()));
        self.scores.push(scores);
        self.fit_times.push((mean(fit_times), deviation(fit_times)));
        self.score_times.push((mean(score_times), deviation(score_times)));
    }

    /// The combination with the largest mean, the first of equals.
    fn best(&self) -> usize {
        let mut best = (0, f64::NEG_INFINITY);
        for (index, scores) in self.scores.iter().enumerate() {
            let score = mean(scores);
            if score > best.1 {
                best = (index, score);
            }
        }
        best.0
    }

    fn to_json(&self, folds: usize, best: usize) -> Value {
        let means: Vec<f64> = self.scores.iter().map(|scores| mean(scores)).collect();
        let rank = |score: f64| 1 + means.iter().filter(|other| **other > score).count();
        let mut results = Map::new();
        let mut put = |name: String, value: Value| results.insert(name, value);
        put("params".into(), Value::Array(self.params.clone()));
        put("n_splits".into(), json!(folds));
        put("best_index".into(), json!(best));
        put("mean_test_score".into(), numbers(means.iter().copied()));
        put("std_test_score".into(), numbers(self.scores.iter().map(|scores| deviation(scores))));
        put("rank_test_score".into(), means.iter().map(|score| json!(rank(*score))).collect());
        for fold in 0..folds {
            let of_fold = self.scores.iter().map(|scores| scores.get(fold).copied().unwrap_or(f64::NAN));
            put(format!("split{fold}_test_score"), numbers(of_fold));
        }
        put("mean_fit_time".into(), numbers(self.fit_times.iter().map(|(mean, _)| *mean)));
        put("std_fit_time".into(), numbers(self.fit_times.iter().map(|(_, deviation)| *deviation)));
        put("mean_score_time".into(), numbers(self.score_times.iter().map(|(mean, _)| *mean)));
        put("std_score_time".into(), numbers(self.score_times.iter().map(|(_, deviation)| *deviation)));
        Value::Object(results)
    }
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
