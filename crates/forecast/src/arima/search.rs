//! The choice of orders: differences by tests, the rest step by step from model to model with a lower AICc, as Hyndman
//! and Khandakar (2008) have it, with the limits of statsforecast's AutoARIMA.
//! Models near a unit root are refused, but that of a seasonal moving average is kept away from it instead.

use super::estimate::{Candidate, Estimate, FINAL, SEARCHED};
use super::regression::Design;
use super::{LONGEST_LAG, Options, Orders, finish, polynomial, unit_root};
use crate::{Error, Fit, Result, Series, Stop};

const MOST: usize = 5;
const MOST_SEASONAL: usize = 2;
const MOST_MODELS: usize = 94;

/// Steps from one model to the next ones, in the order in which they are tried: of the autoregression and the moving
/// average, first seasonal, then not.
const STEPS: [(isize, isize); 8] = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)];

/// Learns a model whose orders are chosen, the seasonal ones unless they are given.
pub(super) fn fit(series: &Series, options: &Options, stop: Stop) -> Result<Fit> {
    let length = series.values.len();
    let needed = series.regressors.len() + 2;
    if length < needed && !series.regressors.is_empty() {
        return Err(Error::Short { method: "ARIMA with these regressors", found: length, needed });
    }
    let plain = Orders { plain: (0, 0, 0), seasonal: (0, 0, 0), season: 1, constant: true };
    let level = Design::new(series, &plain);
    let may_shift = options.constant != Some(false);
    if level.scale == 0.0 && options.seasonal.is_none() {
        // Nothing but a constant and regressors.
        let difference = usize::from(!may_shift && length > 1);
        return learn(series, Orders { plain: (0, difference, 0), constant: may_shift, ..plain }, None, stop);
    }
    let (d, seasonal_d) = differences(series, &level.residual, options)?;
    let orders = Orders {
        plain: (0, d, 0),
        seasonal: (0, seasonal_d, 0),
        season: series.season(),
        constant: may_shift && d + seasonal_d < 2,
    };
    let (with, without) = (Design::new(series, &orders), Design::new(series, &Orders { constant: false, ..orders }));
    let design = if orders.constant { &with } else { &without };
    if options.seasonal.is_none() && (design.scale == 0.0 || unit_root::is_constant(&design.residual)) {
        return learn(series, orders, None, stop);
    }
    let mut search = Search {
        series,
        with: &with,
        without: &without,
        bounds: Bounds::new(series, options),
        free: orders.constant && options.constant.is_none(),
        tried: Vec::new(),
        best: None,
        stop,
    };
    search.run(orders)?;
    match search.best {
        Some((orders, estimate)) => learn(series, orders, Some(&estimate.parameters), stop),
        None => last_resort(series, options, orders, stop),
    }
}

fn learn(series: &Series, orders: Orders, start: Option<&[f64]>, stop: Stop) -> Result<Fit> {
    let design = Design::new(series, &orders);
    let mut candidate = Candidate::new(orders, true, &design);
    let estimate = candidate.estimate(start, FINAL, stop)?;
    Ok(finish(series, &mut candidate, &estimate))
}

/// Where no model has an AICc, for want of values: the seasonal orders if they are given, a mean, or a walk.
fn last_resort(series: &Series, options: &Options, orders: Orders, stop: Stop) -> Result<Fit> {
    let mean = Orders { plain: (0, 0, 0), seasonal: (0, 0, 0), season: 1, constant: options.constant != Some(false) };
    let plain = match options.seasonal {
        Some(seasonal) => Orders { seasonal, ..orders },
        None if orders.lost() == 0 => mean,
        None => Orders { constant: options.constant == Some(true), ..orders },
    };
    let needed = plain.needed(series.regressors.len());
    if options.seasonal.is_some() && needed > series.values.len() {
        return Err(Error::Short { method: "ARIMA of these orders", found: series.values.len(), needed });
    }
    learn(series, if needed > series.values.len() { mean } else { plain }, None, stop)
}

/// The numbers of plain and of seasonal differences.
fn differences(series: &Series, values: &[f64], options: &Options) -> Result<(usize, usize)> {
    let season = series.season();
    let constant_after = |d: usize, seasonal_d: usize| {
        let varies = series.regressors.iter().filter(|column| !unit_root::is_constant(column));
        let mut after = varies.map(|column| polynomial::difference(column, d, seasonal_d, season));
        after.any(|column| unit_root::is_constant(&column))
    };
    let seasonal_d = match options.seasonal {
        Some((_, seasonal_d, _)) => seasonal_d,
        None if season > LONGEST_LAG => 0,
        None => match unit_root::seasonal_differences(values, season)? {
            found if found > 0 && constant_after(0, found) => found - 1,
            found => found,
        },
    };
    let seasoned = polynomial::difference(values, 0, seasonal_d, season);
    let d = match unit_root::differences(&seasoned) {
        found if found > 0 && constant_after(found, seasonal_d) => found - 1,
        found => found,
    };
    Ok((d, seasonal_d))
}

/// The lowest and the highest orders.
struct Bounds {
    plain: usize,
    seasonal_ar: (usize, usize),
    seasonal_ma: (usize, usize),
}

impl Bounds {
    fn new(series: &Series, options: &Options) -> Bounds {
        let (length, season) = (series.values.len(), series.season());
        let third = length / 3;
        let most = if season > 1 { MOST.min(third).min(season - 1) } else { MOST.min(third) };
        let seasonal = match third / season {
            _ if season == 1 => 0,
            fit => MOST_SEASONAL.min(fit).min((LONGEST_LAG - MOST) / season),
        };
        match options.seasonal {
            Some((ar, _, ma)) => Bounds { plain: most, seasonal_ar: (ar, ar), seasonal_ma: (ma, ma) },
            None => Bounds { plain: most, seasonal_ar: (0, seasonal), seasonal_ma: (0, seasonal) },
        }
    }

    fn clamp(&self, mut orders: Orders, wanted: (usize, usize, usize, usize)) -> Orders {
        orders.plain.0 = wanted.0.min(self.plain);
        orders.plain.2 = wanted.1.min(self.plain);
        orders.seasonal.0 = wanted.2.clamp(self.seasonal_ar.0, self.seasonal_ar.1);
        orders.seasonal.2 = wanted.3.clamp(self.seasonal_ma.0, self.seasonal_ma.1);
        orders
    }

    /// The orders after a step, if they are within the bounds.
    fn step(&self, mut orders: Orders, (ar, ma): (isize, isize), seasonal: bool) -> Option<Orders> {
        let moved = |order: usize, by: isize, (low, high): (usize, usize)| {
            order.checked_add_signed(by).filter(|order| (low..=high).contains(order))
        };
        if seasonal {
            orders.seasonal.0 = moved(orders.seasonal.0, ar, self.seasonal_ar)?;
            orders.seasonal.2 = moved(orders.seasonal.2, ma, self.seasonal_ma)?;
        } else {
            orders.plain.0 = moved(orders.plain.0, ar, (0, self.plain))?;
            orders.plain.2 = moved(orders.plain.2, ma, (0, self.plain))?;
        }
        Some(orders)
    }
}

struct Search<'a> {
    series: &'a Series<'a>,
    /// With a constant, and without.
    with: &'a Design,
    without: &'a Design,
    bounds: Bounds,
    /// Whether models with and without constant are compared.
    free: bool,
    tried: Vec<Orders>,
    best: Option<(Orders, Estimate)>,
    stop: Stop<'a>,
}

impl Search<'_> {
    fn run(&mut self, base: Orders) -> Result<()> {
        let start = if self.series.values.len() < 10 { (1, 1, 0, 0) } else { (2, 2, 1, 1) };
        for wanted in [start, (0, 0, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1)] {
            self.try_model(self.bounds.clamp(base, wanted))?;
        }
        if self.free {
            self.try_model(self.bounds.clamp(Orders { constant: false, ..base }, (0, 0, 0, 0)))?;
        }
        while let Some((current, _)) = self.best
            && self.improve(current)?
        {}
        Ok(())
    }

    /// Whether one of the models next to `current` is better.
    fn improve(&mut self, current: Orders) -> Result<bool> {
        for seasonal in [true, false] {
            for step in STEPS {
                if let Some(next) = self.bounds.step(current, step, seasonal)
                    && self.try_model(next)?
                {
                    return Ok(true);
                }
            }
        }
        Ok(self.free && self.try_model(Orders { constant: !current.constant, ..current })?)
    }

    /// Whether the model is new and better than the best so far.
    fn try_model(&mut self, orders: Orders) -> Result<bool> {
        if self.tried.contains(&orders) || self.tried.len() >= MOST_MODELS {
            return Ok(false);
        }
        self.tried.push(orders);
        if (self.stop)() {
            return Err(Error::Stopped);
        }
        if self.series.values.len() < orders.needed(self.series.regressors.len()) {
            return Ok(false);
        }
        let mut candidate = Candidate::new(orders, true, if orders.constant { self.with } else { self.without });
        let estimate = candidate.estimate(None, SEARCHED, self.stop)?;
        let best = self.best.as_ref().map_or(f64::INFINITY, |(_, best)| best.aicc);
        let better = !estimate.near_unit && estimate.aicc < best;
        if better {
            self.best = Some((orders, estimate));
        }
        Ok(better)
    }
}
