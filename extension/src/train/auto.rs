//! `algorithm => 'auto'`: algorithm, scale and hyperparameters are chosen within a budget of time.
//!
//! `learn::auto` proposes candidates. They are compared on the same folds of the training rows, fold by fold, and one that
//! is behind the best by more than chance is given up (a race: Maron and Moore, 1994). Of many rows, a part is learnt from
//! first. The test rows of the training have no part in it: the score of the model is that of rows that chose nothing.

use std::time::{Duration, Instant};

use learn::auto::{Candidate, NAME, Tuner, algorithms};
use learn::preprocess::ALL;
use learn::split::Split;
use pgrx::PgSqlErrorCode;
use serde_json::{Map, Value, json};

use super::columns::Data;
use super::cut::{self, Keeping, Limit};
use super::engine::{self, Engine};
use super::search::{self, One, SearchResult, deviation, mean, numbers};
use super::{Plan, Request, report};
use crate::error::{Error, Result};
use crate::metric::Metric;
use crate::model_meta::Task;
use crate::nearest;

/// Where none is asked for.
pub const BUDGET: Duration = Duration::from_secs(60);

/// Stands for the algorithm until one is chosen: rows are read for it.
const STAND_IN: &str = "hist_gradient_boosting";

/// More candidates than these fit the folds, not the data.
const MOST_CANDIDATES: usize = 500;

/// Up to so many training rows are divided into so many folds; of more, one fold is looked at.
const FOLDS: [(u64, usize); 2] = [(10_000, 5), (50_000, 3)];

/// So many rows are learnt from before all are.
const FIRST_ROWS: u64 = 10_000;

/// No candidate may take more of the time that is left.
const SHARE: u32 = 4;

/// What a call of `pgml.train` leaves to choose.
pub struct Choice {
    algorithms: Vec<String>,
    /// Those that seed the training.
    given: Map<String, Value>,
}

impl Choice {
    /// `None` where the call names its algorithm. Refuses what cannot be chosen.
    pub fn of(request: &Request, task: Task) -> Result<Option<Choice>> {
        if request.algorithm != NAME {
            return match request.time_budget {
                None => Ok(None),
                Some(_) => Err(Error::invalid(format!(
                    "time_budget is for algorithm => 'auto', and the algorithm is {}",
                    request.algorithm
                ))),
            };
        }
        if !matches!(task, Task::Regression | Task::Classification) {
            return Err(Error::unsupported(format!("algorithm \"auto\" is not for {}", task.name()))
                .hint("It chooses by held-out labels, of a regression or a classification. Name an algorithm."));
        }
        if request.search.is_some() {
            return Err(Error::invalid("algorithm \"auto\" searches already")
                .hint("Leave search out, or name the algorithm whose hyperparameters are to be searched for."));
        }
        let mut given = request.hyperparams.clone();
        let algorithms = match given.remove("algorithms") {
            None => Vec::new(),
            Some(named) => read_algorithms(&named, task)?,
        };
        match given.keys().find(|name| !super::request::SEEDS.contains(&name.as_str())) {
            None => Ok(Some(Choice { algorithms, given })),
            Some(name) => Err(Error::invalid(format!("algorithm \"auto\" has no hyperparameter \"{name}\""))
                .hint("It takes algorithms, an array of those to choose among, and random_state.")),
        }
    }

    /// The engine for which the rows are read.
    pub fn stand_in(&self, request: &Request, task: Task) -> Result<Box<dyn Engine>> {
        engine::open(STAND_IN, task, &self.given, request.seed())
    }

    /// Tries candidates until the time is over, and gives the best.
    pub fn run(
        &self,
        request: &Request,
        plan: &Plan,
        (data, split): (&Data, &Split),
        metric: &Metric,
    ) -> Result<SearchResult> {
        let metric = metric.of_choice(data.classes());
        let rungs = rungs(data, split, request.seed())?;
        let (begun, budget) = (Instant::now(), request.time_budget.unwrap_or(BUDGET));
        let tuner = Tuner::new(data.task, split.train_rows(), &self.algorithms, request.seed());
        if tuner.is_empty() {
            return Err(Error::invalid(format!(
                "{} training rows are too many for {}",
                split.train_rows(),
                self.algorithms.join(" and ")
            )));
        }
        report::info(&format!(
            "Choosing by {} within {budget:?}, {} of the training rows",
            metric.name(),
            learn::count(rungs.iter().filter(|rung| !rung.thinned).count(), "fold")
        ));
        let keeping = Keeping::begin();
        let deadline = begun + budget;
        let (tried, best, refused) = (Vec::new(), None, None);
        let mut race = Race { choice: self, request, plan, data, metric, rungs, tuner, deadline, tried, best, refused };
        race.run(&keeping)?;
        let cut_short = cut::told_to_end();
        drop(keeping);
        race.result(cut_short)
    }
}

fn read_algorithms(named: &Value, task: Task) -> Result<Vec<String>> {
    let known: Vec<String> = algorithms(task).map(str::to_owned).collect();
    let names: Option<Vec<String>> =
        named.as_array().and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
    let names = names.filter(|names| !names.is_empty()).ok_or_else(|| {
        Error::invalid(format!("algorithms cannot be {named}"))
            .hint("Give an array of names, as [\"xgboost\", \"ridge\"].")
    })?;
    match names.iter().find(|name| !known.contains(name)) {
        None => Ok(names),
        Some(name) => Err(Error::invalid(format!("algorithm \"auto\" does not choose \"{name}\" for {}", task.name()))
            .detail(format!("It chooses among {}.", known.join(", ")))
            .hint(nearest::hint(name, &known))),
    }
}

/// What candidates are compared on, one after the other.
struct Rung {
    split: Split,
    /// Whether only a part of the rows is learnt from.
    thinned: bool,
}

/// A part of the rows first where there are many, then the folds.
fn rungs(data: &Data, split: &Split, seed: u64) -> Result<Vec<Rung>> {
    let classes = match data.task {
        Task::Classification => Some(data.spool.labels()?),
        _ => None,
    };
    let rows = split.train_rows();
    let count = FOLDS.iter().find(|(most, _)| rows <= *most).map(|(_, folds)| *folds);
    let mut folds = split.folds(count.unwrap_or(FOLDS[0].1), data.divided.folds(classes.as_deref()), seed)?;
    if count.is_none() {
        // Of rows in the order of time the last one learns from the most.
        folds.drain(..folds.len().saturating_sub(1));
    }
    let thinned = folds
        .first()
        .filter(|_| rows > 2 * FIRST_ROWS)
        .map(|fold| Rung { split: fold.thinned(rows / FIRST_ROWS, FIRST_ROWS, seed), thinned: true });
    Ok(thinned.into_iter().chain(folds.into_iter().map(|split| Rung { split, thinned: false })).collect())
}

/// A candidate that was tried.
struct Tried {
    candidate: Candidate,
    /// One for each rung that it has come to, larger is better; NaN where the metric has no value, as for a fold that lacks a
    /// class.
    scores: Vec<f64>,
    /// Seconds, of the last.
    fit_time: f64,
}

struct Race<'a> {
    choice: &'a Choice,
    request: &'a Request,
    plan: &'a Plan,
    data: &'a Data,
    metric: Metric,
    rungs: Vec<Rung>,
    tuner: Tuner,
    deadline: Instant,
    tried: Vec<Tried>,
    /// The best so far.
    best: Option<usize>,
    /// Why the last algorithm was left out.
    refused: Option<Error>,
}

impl Race<'_> {
    fn run(&mut self, keeping: &Keeping) -> Result<()> {
        while !self.is_over() {
            let Some(candidate) = self.tuner.propose() else { break };
            let tried = self.climb(candidate, keeping)?;
            let whole = tried.scores.len() == self.rungs.len();
            self.tuner.tell(&tried.candidate, whole.then(|| self.score(&tried)).filter(|score| score.is_finite()));
            if tried.scores.is_empty() {
                continue;
            }
            let is_best = self.best().is_none_or(|best| self.is_ahead(&tried, best));
            self.best = if is_best { Some(self.tried.len()) } else { self.best };
            // What is tried beside these is on the leaderboard.
            if is_best || tried.candidate.hyperparams.is_empty() {
                self.tell(&tried, is_best);
            }
            self.tried.push(tried);
        }
        Ok(())
    }

    fn best(&self) -> Option<&Tried> {
        self.best.and_then(|best| self.tried.get(best))
    }

    /// Whether there is no time for another, and for the fit on all training rows that comes last.
    fn is_over(&self) -> bool {
        let Some(best) = self.best() else { return false };
        let last = Duration::try_from_secs_f64(best.fit_time).unwrap_or(BUDGET);
        cut::told_to_end() || Instant::now() + last >= self.deadline || self.tried.len() >= MOST_CANDIDATES
    }

    /// Trains and scores one rung by rung, until it is behind or has had its time; one that leads has all that is left.
    fn climb(&mut self, candidate: Candidate, keeping: &Keeping) -> Result<Tried> {
        let hyperparams = self.hyperparams(&candidate);
        let engine = engine::open(candidate.algorithm, self.data.task, &hyperparams, self.request.seed())?;
        let preprocess = self.preprocess(&candidate);
        let mut tried = Tried { candidate, scores: Vec::new(), fit_time: 0.0 };
        // The first one has the time that it needs: without a score there is nothing to choose.
        let left = self.deadline.saturating_duration_since(Instant::now());
        let mut limit = self.best.map(|_| Instant::now() + left / SHARE);
        for place in 0..self.rungs.len() {
            let Some(rung) = self.rungs.get(place) else { break };
            let _limit = Limit::until(limit);
            let one = search::try_one(engine.as_ref(), &preprocess, (self.data, &rung.split), &self.metric, &mut None);
            let Some(One { score, fit_time, .. }) = self.or_none(one, tried.candidate.algorithm)? else { break };
            tried.scores.push(score);
            tried.fit_time = fit_time;
            keeping.scored();
            if self.is_behind(&tried) || cut::told_to_end() {
                break;
            }
            if self.best().is_some_and(|best| self.is_ahead(&tried, best)) {
                limit = Some(self.deadline);
            }
        }
        Ok(tried)
    }

    /// An algorithm whose library is missing, or that cannot learn from these rows, is not chosen.
    fn or_none(&mut self, one: Result<Option<One>>, algorithm: &str) -> Result<Option<One>> {
        match one {
            Err(error) if error.code().is_some_and(|code| code != PgSqlErrorCode::ERRCODE_QUERY_CANCELED) => {
                if let Error::Report(report) = &error {
                    report::info(&format!("{algorithm} is left out: {}", report.message));
                }
                self.refused = Some(error);
                Ok(None)
            }
            one => one,
        }
    }

    /// The mean scores of two on the folds that both have a score of, and how many these are; where there is none, on the part
    /// of the rows.
    fn on_common(&self, one: &Tried, other: &Tried) -> Option<(f64, f64, usize)> {
        let pairs = |thinned: bool| -> Vec<(f64, f64)> {
            (self.rungs.iter().zip(one.scores.iter().zip(&other.scores)))
                .filter(|(rung, (one, other))| rung.thinned == thinned && one.is_finite() && other.is_finite())
                .map(|(_, (one, other))| (*one, *other))
                .collect()
        };
        let folds = pairs(false);
        let count = folds.len();
        let pairs = if folds.is_empty() { pairs(true) } else { folds };
        let (ones, others): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        (!ones.is_empty()).then(|| (mean(&ones), mean(&others), count))
    }

    /// Whether one is better than another where both have scores.
    fn is_ahead(&self, one: &Tried, other: &Tried) -> bool {
        match self.on_common(one, other) {
            Some((own, others, _)) => own > others,
            None => self.score(one).is_finite() && !self.score(other).is_finite(),
        }
    }

    /// Whether the best is better on the same rungs by more than chance. On folds the same rows are predicted, which says more
    /// than an error of each score.
    fn is_behind(&self, tried: &Tried) -> bool {
        let Some((own, bests, folds)) = self.best().and_then(|best| self.on_common(tried, best)) else { return false };
        let rows = tried.scores.len().checked_sub(1).and_then(|last| self.rungs.get(last));
        let chance = self.metric.error(self.metric.upwards(own), rows.map_or(1, |rung| rung.split.test_rows()));
        bests - own > if folds == 0 { chance } else { chance / 2.0 / (folds as f64).sqrt() }
    }

    /// Those of the folds that have a score.
    fn folds(&self, tried: &Tried) -> Vec<f64> {
        let scores = tried.scores.iter().zip(&self.rungs).filter(|(_, rung)| !rung.thinned);
        scores.map(|(score, _)| *score).filter(|score| score.is_finite()).collect()
    }

    /// The mean over the folds; where there is none, what a part of the rows says.
    fn score(&self, tried: &Tried) -> f64 {
        let folds = self.folds(tried);
        let first = || tried.scores.first().copied().filter(|score| score.is_finite());
        if folds.is_empty() { first().unwrap_or(f64::NEG_INFINITY) } else { mean(&folds) }
    }

    fn hyperparams(&self, candidate: &Candidate) -> Map<String, Value> {
        let mut hyperparams = self.choice.given.clone();
        hyperparams.extend(candidate.hyperparams.clone());
        hyperparams
    }

    fn preprocess(&self, candidate: &Candidate) -> Map<String, Value> {
        let mut preprocess = self.plan.snapshot.preprocess.clone();
        if let Some(all) = self.of_all(candidate) {
            preprocess.insert(ALL.to_owned(), all);
        }
        preprocess
    }

    /// What is done to all columns for a candidate, unless the call has said that.
    fn of_all(&self, candidate: &Candidate) -> Option<Value> {
        let is_open = candidate.scaled && !self.plan.snapshot.preprocess.contains_key(ALL);
        is_open.then(|| json!({ "scale": "standard" }))
    }

    fn tell(&self, tried: &Tried, is_best: bool) {
        report::info(&format!(
            "{} {:.6} with {} {}{}",
            self.metric.name(),
            self.metric.upwards(self.score(tried)),
            tried.candidate.algorithm,
            Value::Object(tried.candidate.hyperparams.clone()),
            if is_best { ", the best so far" } else { "" }
        ));
    }

    /// The best, and all that were tried, by scikit-learn's names.
    fn result(self, cut_short: bool) -> Result<SearchResult> {
        let Some(best) = self.best() else {
            return Err(self.refused.unwrap_or_else(|| Error::invalid("no algorithm can learn from these rows")));
        };
        let candidate = &best.candidate;
        if !self.score(best).is_finite() {
            report::warning(&format!(
                "no fold has a {}, so that nothing could be compared: {} is taken by its defaults",
                self.metric.name(),
                candidate.algorithm
            ));
        }
        let note = cut_short
            .then(|| format!("the choice was cut short after {}", learn::count(self.tried.len(), "candidate")));
        if let Some(note) = &note {
            report::info(note);
        }
        report::info(&format!("Chosen of {}: {}", learn::count(self.tried.len(), "candidate"), candidate.algorithm));
        Ok(SearchResult {
            algorithm: Some((candidate.algorithm, self.of_all(candidate))),
            hyperparams: self.hyperparams(candidate),
            results: self.results(),
            note,
        })
    }

    fn results(&self) -> Value {
        // Who was given up early is behind those that came further.
        let place =
            |index: usize, tried: &Tried| (Some(index) == self.best, self.folds(tried).len(), self.score(tried));
        let better = |index: usize, one: &Tried| {
            let others = self.tried.iter().enumerate();
            others.filter(|(other, tried)| place(*other, tried) > place(index, one)).count()
        };
        let params = self.tried.iter().map(|tried| {
            let mut params = Map::from_iter([("algorithm".to_owned(), json!(tried.candidate.algorithm))]);
            params.extend(tried.candidate.hyperparams.clone());
            Value::Object(params)
        });
        let folds: Vec<Vec<f64>> = self.tried.iter().map(|tried| self.folds(tried)).collect();
        let ranks = self.tried.iter().enumerate().map(|(index, tried)| 1 + better(index, tried));
        json!({
            "metric": self.metric.name(),
            "params": params.collect::<Vec<_>>(),
            "n_splits": self.rungs.iter().filter(|rung| !rung.thinned).count(),
            "best_index": self.best,
            "mean_test_score": numbers(self.tried.iter().map(|tried| self.score(tried))),
            "std_test_score": numbers(folds.iter().map(|folds| deviation(folds))),
            "rank_test_score": ranks.collect::<Vec<_>>(),
            "folds": folds.iter().map(Vec::len).collect::<Vec<_>>(),
            "mean_fit_time": numbers(self.tried.iter().map(|tried| tried.fit_time)),
        })
    }
}
