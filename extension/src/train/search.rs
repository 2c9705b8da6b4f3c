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
use super::cut::{self, Keeping};
use super::engine::{Engine, Prepared};
use super::{Plan, Request, engine, interrupts, report};
use crate::error::{Error, Result};
use crate::metric::Metric;
use crate::model::Model;
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
                        "search_args takes cv, the number of folds, n_iter, the number of random combinations, and factor, the \
                         factor of successive halving.",
                    ));
                }
            };
            *number = value
                .as_u64()
                .filter(|value| (least..=most).contains(value))
                .and_then(|value| usize::try_from(value).ok())
                .ok_or_else(|| {
                    Error::invalid(format!(
                        "search_args \"{name}\" cannot be {value}: it must be a whole number from {least} to {most}"
                    ))
                })?;
        }
        let factor = (factor != NO_HALVING).then_some(factor);
        Ok(Some(Search { method, params, args, folds, iterations, factor }))
    }
}

/// A combination.
pub struct Trial {
    searched: Map<String, Value>,
}

impl Trial {
    /// With the hyperparameters that were given beside it, which may be large: not kept for all combinations.
    pub fn hyperparams(&self, request: &Request) -> Map<String, Value> {
        let mut hyperparams = request.hyperparams.clone();
        hyperparams.extend(self.searched.clone());
        hyperparams
    }
}

/// All combinations, each found to be possible.
pub fn trials(request: &Request, search: &Search, task: Task) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for searched in candidates(search.method, &search.params, search.iterations, request.seed())? {
        interrupts::check();
        let trial = Trial { searched };
        engine::open(&request.algorithm, task, &trial.hyperparams(request), request.seed())?;
        trials.push(trial);
    }
    Ok(trials)
}

/// The best combination, and what came of all of them, by scikit-learn's names.
pub struct SearchResult {
    /// The algorithm, and what is done to all columns before, where these were chosen, too.
    pub algorithm: Option<(&'static str, Option<Value>)>,
    pub hyperparams: Map<String, Value>,
    pub results: Value,
    /// What is to be said of a search that was told to end.
    pub note: Option<String>,
}

/// Trains and scores all, or as many as there is time for until it is told to end.
pub fn run(
    request: &Request,
    search: &Search,
    trials: Vec<Trial>,
    plan: &Plan,
    (data, split): (&Data, &Split),
    metric: &Metric,
) -> Result<SearchResult> {
    let classes = match data.task {
        Task::Classification => Some(data.spool.labels()?),
        _ => None,
    };
    let folds = split.folds(search.folds, data.divided.folds(classes.as_deref()), request.seed())?;
    report::info(&format!("Hyperparameter searches: {}, cross validation folds: {}", trials.len(), folds.len()));
    let keeping = Keeping::begin();
    let tour = Tour { request, plan, data, trials: &trials, folds: &folds, keeping: &keeping, metric };
    let mut results = Results::default();
    let mut alive: Vec<usize> = (0..trials.len()).collect();
    let mut note = None;
    for (iteration, one_in) in steps(alive.len(), search.factor).into_iter().enumerate() {
        let mut tried = tour.step(&alive, one_in)?;
        let ended = tried.iter().any(|tried| tried.scores.len() < folds.len());
        if ended {
            note = Some(cut_note(iteration, &tried, folds.len()));
            only_comparable(iteration, &mut alive, &mut tried);
        }
        results.add(iteration, &trials, &alive, tried);
        alive = results.best_of_last(search.factor.map_or(1, |factor| alive.len().div_ceil(factor)));
        if ended {
            break;
        }
    }
    drop(keeping);
    let best = results.best_of_last(1).first().copied().unwrap_or(0);
    let mut found = results.to_json(folds.len(), search.factor.is_some());
    if let (Some(note), Some(found)) = (&note, found.as_object_mut()) {
        report::info(note);
        found.insert("cut_short".into(), json!(true));
    }
    let Some(trial) = trials.into_iter().nth(best) else {
        return Err(Error::invalid("search_params has no combination to try"));
    };
    Ok(SearchResult { algorithm: None, hyperparams: trial.hyperparams(request), results: found, note })
}

/// What a search goes through.
struct Tour<'a> {
    request: &'a Request,
    plan: &'a Plan,
    data: &'a Data,
    trials: &'a [Trial],
    folds: &'a [Split],
    keeping: &'a Keeping,
    metric: &'a Metric,
}

impl Tour<'_> {
    /// Trains and scores these combinations on one in so many rows of each fold. Of a search that is told to end the
    /// last have fewer scores.
    fn step(&self, alive: &[usize], one_in: u64) -> Result<Vec<Tried>> {
        let mut tried: Vec<Tried> = alive.iter().map(|_| Tried::default()).collect();
        for (number, fold) in self.folds.iter().enumerate() {
            let thinned = (one_in > 1).then(|| fold.thinned(one_in, FEWEST_ROWS, self.request.seed()));
            let fold = thinned.as_ref().unwrap_or(fold);
            let mut prepared = None;
            for (place, trial) in alive.iter().filter_map(|index| self.trials.get(*index)).enumerate() {
                let one = if cut::asked() { None } else { self.train(trial, fold, &mut prepared)? };
                let Some(One { score, fit_time, score_time }) = one else { return Ok(tried) };
                self.keeping.scored();
                report::info(&format!(
                    "Fold {} of {}: {} {score:.6} with {}",
                    number + 1,
                    self.folds.len(),
                    self.metric.name(),
                    Value::Object(trial.searched.clone())
                ));
                if let Some(tried) = tried.get_mut(place) {
                    tried.scores.push(score);
                    tried.fit_times.push(fit_time);
                    tried.score_times.push(score_time);
                    tried.rows = fold.train_rows();
                }
            }
        }
        Ok(tried)
    }

    /// Trains and scores one combination on a fold, whose rows are kept in `prepared` for the next; `None` where the search
    /// was told to end meanwhile.
    fn train<'f>(&'f self, trial: &Trial, fold: &'f Split, prepared: &mut Option<Prepared<'f>>) -> Result<Option<One>> {
        let hyperparams = trial.hyperparams(self.request);
        let engine = engine::open(&self.request.algorithm, self.data.task, &hyperparams, self.request.seed())?;
        try_one(engine.as_ref(), &self.plan.snapshot.preprocess, (self.data, fold), self.metric, prepared)
    }
}

/// Trains and scores one on a fold, whose rows are kept in `prepared` for the next of the same algorithm; `None` where
/// the search was told to end meanwhile.
pub fn try_one<'f>(
    engine: &dyn Engine,
    preprocess: &Map<String, Value>,
    (data, fold): (&'f Data, &'f Split),
    metric: &Metric,
    prepared: &mut Option<Prepared<'f>>,
) -> Result<Option<One>> {
    let begun = Instant::now();
    // What was read for other weights of classes has those.
    let fits = |ready: &Prepared<'_>| ready.class_weight.as_ref().map(|(asked, _)| asked) == engine.class_weight();
    let ready = match prepared.take() {
        Some(ready) if fits(&ready) => ready,
        _ => super::ready(preprocess, data, fold, engine)?,
    };
    let fitted = match engine.train(&ready, &mut |_| {}) {
        Err(Error::Report(_)) if cut::asked() => return Ok(None),
        fitted => fitted?,
    };
    let fit_time = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let scorer = Scorer::new(Model::of_bytes(&fitted.model)?, data);
    let score = scorer.value(data, fold, metric)?.map(|score| metric.upwards(score));
    *prepared = Some(ready);
    // A score that cannot be told, such as that of one cluster, is worse than any other.
    Ok(Some(One { score: score.unwrap_or(f64::NAN), fit_time, score_time: begun.elapsed().as_secs_f64() }))
}

/// What came of one training.
pub struct One {
    pub score: f64,
    pub fit_time: f64,
    score_time: f64,
}

/// Of a step that was cut short, leaves what can be compared: the folds that all combinations have a score of, or if there
/// is none, and no step before, the combinations that have one of the first fold.
fn only_comparable(iteration: usize, alive: &mut Vec<usize>, tried: &mut Vec<Tried>) {
    let whole = tried.iter().map(|tried| tried.scores.len()).min().unwrap_or(0);
    if whole == 0 {
        let has_score = |tried: &Tried| iteration == 0 && !tried.scores.is_empty();
        let mut kept = tried.iter().map(has_score);
        alive.retain(|_| kept.next().unwrap_or(false));
        tried.retain(has_score);
    }
    for tried in tried {
        for values in [&mut tried.scores, &mut tried.fit_times, &mut tried.score_times] {
            values.truncate(whole.max(1));
        }
    }
}

/// For the row of the job.
fn cut_note(iteration: usize, tried: &[Tried], folds: usize) -> String {
    let done: usize = tried.iter().map(|tried| tried.scores.len()).sum();
    let step = if iteration > 0 { format!(" of step {}", iteration + 1) } else { String::new() };
    format!(
        "the search was cut short after {done} of {}{step}, and kept the best combination so far",
        learn::count(tried.len() * folds, "training")
    )
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
pub fn numbers(values: impl Iterator<Item = f64>) -> Value {
    values.map(|value| json!(value)).collect()
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

pub fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_was_cut_short_is_judged_by_what_all_have() {
        let tried = |scores: &[usize]| -> Vec<Tried> {
            let of = |count: &usize| Tried { scores: vec![1.0; *count], ..Tried::default() };
            scores.iter().map(of).collect()
        };
        for (iteration, scores, alive_after, whole) in [
            (0, &[2, 2, 1][..], &[4, 5, 6][..], 1),
            (0, &[1, 1, 0], &[4, 5], 1),
            (1, &[3, 2, 2], &[4, 5, 6], 2),
            (1, &[1, 0, 0], &[], 0),
        ] {
            let (mut alive, mut tried) = (vec![4, 5, 6], tried(scores));
            only_comparable(iteration, &mut alive, &mut tried);
            assert_eq!(alive, alive_after, "{scores:?}");
            assert_eq!(tried.len(), alive.len());
            assert!(tried.iter().all(|tried| tried.scores.len() == whole));
        }
    }

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
