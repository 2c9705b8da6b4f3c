//! Several seasons by the decomposition of Bandara, Hyndman and Bergmeir (2021), "MSTL: a seasonal-trend decomposition
//! algorithm for time series with multiple seasonal patterns", which iterates STL (Cleveland et al., 1990) with the
//! parameters of statsforecast. What the seasons leave is forecast by exponential smoothing.

use serde::{Deserialize, Serialize};
use stlrs::Stl;

use crate::ets::{self, Component};
use crate::{Error, Fit, Result, Series, Steps, Stop, scale};

/// Rounds in which each season is taken out anew of what the others leave.
const ROUNDS: usize = 2;

/// Windows of which loess is computed at each step; of longer ones it is at so many steps a window, and is interpolated
/// between them.
const WINDOW: usize = 1000;

/// What may be asked of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {}

/// See [`crate::Model`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Of trend and remainder.
    trend: ets::Model,
    /// Each season in the steps that follow, the next one first; the shortest season first.
    seasons: Vec<Vec<f64>>,
}

/// Learns seasons and trend. Of a season the series must hold two; longer ones are left out.
pub fn fit(series: &Series, _options: &Options, stop: Stop) -> Result<Fit> {
    let count = series.values.len();
    let mut lengths: Vec<usize> =
        series.seasons.iter().copied().filter(|&length| length > 1 && length <= count / 2).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let scale = scale::of(series.values);
    let mut rest = scale::divide(series.values, scale);
    let mut seasons = vec![vec![0.0; count]; lengths.len()];
    for _ in 0..if lengths.len() > 1 { ROUNDS } else { 1 } {
        for (index, (season, &length)) in seasons.iter_mut().zip(&lengths).enumerate() {
            if stop() {
                return Err(Error::Stopped);
            }
            rest.iter_mut().zip(&*season).for_each(|(rest, season)| *rest += season);
            (*season, _) = decomposed(&rest, length, 7 + 4 * (index + 1))?;
            rest.iter_mut().zip(&*season).for_each(|(rest, season)| *rest -= season);
        }
    }
    scale::multiply(&mut rest, scale);
    seasons.iter_mut().for_each(|season| scale::multiply(season, scale));
    let without = ets::Form { season: Some(Component::None), ..Default::default() };
    let options = ets::Options { model: Some(without), damped: None };
    let (trend, mut fitted) = ets::learn(&rest, 1, &options, stop)?;
    for season in &seasons {
        fitted.iter_mut().zip(season).for_each(|(fitted, season)| *fitted += season);
    }
    seasons.iter_mut().zip(&lengths).for_each(|(season, length)| *season = season.split_off(count - length));
    Ok(Fit { model: crate::Model::Mstl(Model { trend, seasons }), fitted })
}

/// The season of `length` steps in `values`, smoothed over `window` of its repetitions, and the trend.
pub(crate) fn decomposed(values: &[f64], length: usize, window: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let trend = (1.5 * length as f64 / (1.0 - 1.5 / window as f64)).ceil() as usize | 1;
    let low_pass = (length + 1) | 1;
    let found = Stl::params()
        .seasonal_length(window)
        .trend_length(trend)
        .low_pass_length(low_pass)
        .seasonal_degree(0)
        .trend_degree(1)
        .low_pass_degree(1)
        .seasonal_jump(1)
        .trend_jump(trend.div_ceil(WINDOW))
        .low_pass_jump(low_pass.div_ceil(WINDOW))
        .inner_loops(5)
        .outer_loops(0)
        .fit(values, length)
        .map_err(|error| Error::Invalid(error.to_string()))?;
    Ok((found.seasonal().to_vec(), found.trend().to_vec()))
}

impl Model {
    /// Forecasts `horizon` steps.
    pub fn forecast(&self, horizon: usize) -> Steps {
        let mut steps = self.trend.forecast(horizon);
        for (step, mean) in steps.mean.iter_mut().enumerate() {
            let seasons: f64 = self.seasons.iter().map(|season| season[step % season.len()]).sum();
            *mean = (*mean + seasons).clamp(-f64::MAX, f64::MAX);
        }
        steps
    }

    /// `MSTL[24,168] + ETS(A,N,N)`.
    pub fn name(&self) -> String {
        let lengths: Vec<String> = self.seasons.iter().map(|season| season.len().to_string()).collect();
        format!("MSTL[{}] + {}", lengths.join(","), self.trend.name())
    }
}
