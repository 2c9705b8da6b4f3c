//! Series fitted side by side on threads, while the backend listens to who wants it to stop.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forecast::{Fit, Method, Model, metrics, normal};
use serde_json::{Map, Value, json};

use super::super::report::{self, EverySecond};
use super::super::{engine::Progress, interrupts};
use super::read::Table;
use crate::activity;
use crate::error::{Error, Result};
use crate::guc;

/// How often the backend looks whether it is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The models of all series, in their order.
pub struct Fitted {
    pub models: Vec<Model>,
    /// How many series have each kind of model, by its name: the ten that most have.
    pub names: Value,
    /// Series that the method could not learn.
    pub simpler: usize,
}

/// Fits all series whole.
pub fn all(table: &Table, method: &Method, seasons: &[usize]) -> Result<Fitted> {
    let fits = on_threads(table.series.len(), &|index, stop| {
        let values = &table.series[index].values;
        one(method, values, seasons, stop)
    })?;
    let simpler = fits.iter().filter(|(_, is_simpler)| *is_simpler).count();
    let models: Vec<Model> = fits.into_iter().map(|(fit, _)| fit.model).collect();
    let mut counts = BTreeMap::<String, usize>::new();
    for model in &models {
        *counts.entry(model.name()).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.truncate(10);
    let names = counts.into_iter().map(|(name, count)| (name, json!(count))).collect::<Map<_, _>>();
    Ok(Fitted { models, names: Value::Object(names), simpler })
}

/// Fits a series; by the seasonal naive method where the one that is asked for cannot. Says whether it could not.
fn one(method: &Method, values: &[f64], seasons: &[usize], stop: forecast::Stop) -> forecast::Result<(Fit, bool)> {
    let series = forecast::Series { values, seasons, regressors: &[] };
    match forecast::fit(method, &series, stop) {
        Ok(fit) => Ok((fit, false)),
        Err(forecast::Error::Stopped) => Err(forecast::Error::Stopped),
        Err(_) => forecast::fit(&Method::SeasonalNaive, &series, stop).map(|fit| (fit, true)),
    }
}

/// Calls `work` for each index, on as many threads as `pgml.omp_num_threads` says.
fn on_threads<T: Send>(
    count: usize,
    work: &(dyn Fn(usize, forecast::Stop) -> forecast::Result<T> + Sync),
) -> Result<Vec<T>> {
    let threads = (guc::omp_num_threads().max(1) as usize).min(count);
    let (next, done, stopped) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let stop = || stopped.load(Ordering::Relaxed);
    let found: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    let failed: Mutex<Option<forecast::Error>> = Mutex::new(None);
    let run = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count || stop() {
                return;
            }
            match work(index, &stop) {
                Ok(value) => {
                    if let Ok(mut found) = found.lock() {
                        found.push((index, value));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    stopped.store(true, Ordering::Relaxed);
                    if let (Ok(mut failed), false) = (failed.lock(), error == forecast::Error::Stopped) {
                        *failed = Some(error);
                    }
                    return;
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = learn::signals::blocked(|| (0..threads).map(|_| scope.spawn(run)).collect());
        let (begun, mut often) = (Instant::now(), EverySecond::default());
        while !workers.iter().all(|worker| worker.is_finished()) {
            if interrupts::check_inside_library().is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
            let (round, rounds) = (done.load(Ordering::Relaxed) as u32, count as u32);
            activity::rounds(round, rounds, begun.elapsed());
            if round > 0 && often.passes() {
                report::info(&report::rounds(&Progress { round, rounds, metric: None, elapsed: begun.elapsed() }));
            }
            workers.iter().find(|worker| !worker.is_finished()).inspect(|_| std::thread::sleep(LOOK_EVERY));
        }
    });
    interrupts::check();
    if let Some(error) = failed.into_inner().ok().flatten() {
        return Err(Error::invalid(format!("a series cannot be learnt: {error}")));
    }
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_unstable_by_key(|(index, _)| *index);
    match found.len() == count {
        true => Ok(found.into_iter().map(|(_, value)| value).collect()),
        false => Err(Error::invalid("the training was stopped")),
    }
}

/// Errors of forecasts of the last steps, averaged over the series that are long enough to be learnt without them.
pub struct Scores {
    /// MASE, sMAPE, coverage of nine tenths, CRPS.
    sums: [(f64, f64); 4],
    series: usize,
    steps: usize,
}

/// In the order of [`Scores::sums`].
pub const METRICS: [&str; 4] = ["mase", "smape", "coverage", "crps"];

/// Learns the first `until` steps of a series, and scores the forecast of the `horizon` steps that follow, in the order of
/// [`METRICS`]. `None` where either is too little.
fn score(
    values: &[f64],
    (until, horizon): (usize, usize),
    method: &Method,
    seasons: &[usize],
    stop: forecast::Stop,
) -> forecast::Result<Option<[f64; 4]>> {
    let season = seasons.first().copied().unwrap_or(1);
    let (Some(learnt), Some(actual)) = (values.get(..until), values.get(until..until.saturating_add(horizon))) else {
        return Ok(None);
    };
    if horizon == 0 || learnt.len() < (season + 1).max(4) {
        return Ok(None);
    }
    let (fit, _) = one(method, learnt, seasons, stop)?;
    let steps = fit.model.forecast(horizon, &[])?;
    let reach = normal::quantile(0.95);
    let bounds = |sign: f64| -> Vec<f64> {
        steps.mean.iter().zip(&steps.sigma).map(|(mean, sigma)| mean + sign * reach * sigma).collect()
    };
    Ok(Some([
        metrics::mase(learnt, actual, &steps.mean, season),
        metrics::smape(actual, &steps.mean),
        metrics::coverage(actual, &bounds(-1.0), &bounds(1.0)),
        metrics::crps(actual, &steps.mean, &steps.sigma),
    ]))
}

/// Scores of each series at each of its last `cutoffs` origins, `horizon` steps apart: the index of the series, the steps learnt,
/// and the metrics.
pub fn backtest(
    table: &Table,
    method: &Method,
    seasons: &[usize],
    (cutoffs, horizon): (usize, usize),
) -> Result<Vec<(usize, usize, [f64; 4])>> {
    let scored = on_threads(table.series.len() * cutoffs, &|job, stop| {
        let (index, cutoff) = (job / cutoffs, cutoffs - job % cutoffs);
        let values = table.series[index].values.as_slice();
        let Some(until) = values.len().checked_sub(cutoff.saturating_mul(horizon)) else { return Ok(None) };
        Ok(score(values, (until, horizon), method, seasons, stop)?.map(|scores| (index, until, scores)))
    })?;
    Ok(scored.into_iter().flatten().collect())
}

impl Scores {
    /// Learns each series without its last `horizon` steps, and forecasts these.
    pub fn of(table: &Table, method: &Method, seasons: &[usize], horizon: usize) -> Result<Scores> {
        let mut scores = Scores { sums: [(0.0, 0.0); 4], series: 0, steps: 0 };
        let scored = backtest(table, method, seasons, (1, horizon))?.into_iter().map(|(.., scores)| scores);
        for values in scored {
            scores.series += 1;
            scores.steps += horizon;
            for ((sum, count), value) in scores.sums.iter_mut().zip(values) {
                if value.is_finite() {
                    *sum += value;
                    *count += 1.0;
                }
            }
        }
        Ok(scores)
    }

    pub fn metrics(&self) -> Map<String, Value> {
        let mut metrics = Map::new();
        for (name, (sum, count)) in METRICS.into_iter().zip(self.sums) {
            if count > 0.0 {
                metrics.insert(name.into(), json!(sum / count));
            }
        }
        metrics.insert("rows".into(), json!(self.steps));
        metrics.insert("scored_series".into(), json!(self.series));
        metrics
    }
}
