//! The last season, repeated: the forecast by which others are judged (Hyndman and Athanasopoulos, 2021, section 5.2).

use serde::{Deserialize, Serialize};

use crate::{Fit, Result, Series, Steps, scale};

/// See [`crate::Model`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    last: Vec<f64>,
    sigma: f64,
}

/// The error's deviation is the root mean square of the differences a season apart, 0 if there are none. Of a series
/// that is shorter than its season the last value is repeated.
pub fn fit(series: &Series) -> Result<Fit> {
    let count = series.values.len();
    if count == 0 {
        return Err(crate::Error::Short { method: "a seasonal naive forecast", found: 0, needed: 1 });
    }
    let season = if count < series.season() { 1 } else { series.season() };
    let values = series.values;
    let mut fitted = vec![f64::NAN; count];
    fitted[season..].copy_from_slice(&values[..count - season]);
    let scale = scale::of(values);
    let scaled = scale::divide(values, scale);
    let squares: f64 = scaled[season..].iter().zip(&scaled).map(|(later, earlier)| (later - earlier).powi(2)).sum();
    let mut sigma = [(squares / (count - season).max(1) as f64).sqrt()];
    scale::multiply(&mut sigma, scale);
    let model = Model { last: values[count - season..].to_vec(), sigma: sigma[0] };
    Ok(Fit { model: crate::Model::SeasonalNaive(model), fitted })
}

impl Model {
    /// Forecasts `horizon` steps.
    pub fn forecast(&self, horizon: usize) -> Steps {
        let season = self.last.len();
        let sigma = |step: usize| (self.sigma * ((step / season + 1) as f64).sqrt()).min(f64::MAX);
        Steps {
            mean: (0..horizon).map(|step| self.last[step % season]).collect(),
            sigma: (0..horizon).map(sigma).collect(),
        }
    }
}
