//! Exponential smoothing by innovations state space models: Hyndman, Koehler, Ord and Snyder (2008), "Forecasting with
//! exponential smoothing"; the choice among them by AICc as Hyndman et al. (2002) and statsforecast make it.

mod smooth;
mod start;
mod variance;

use serde::{Deserialize, Serialize};

use crate::nelder_mead::{self, Limits};
use crate::{Error, Fit, Result, Series, Steps, Stop, scale};
use smooth::{LogSum, Parameters, States, smooth};

const METHOD: &str = "exponential smoothing";

/// Series of fewer values are smoothed with a fixed weight.
const ENOUGH: usize = 7;

/// How an error, a trend or a season acts on a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Component {
    #[serde(rename = "N")]
    None,
    #[serde(rename = "A")]
    Additive,
    #[serde(rename = "M")]
    Multiplicative,
}

impl Component {
    fn letter(self) -> char {
        match self {
            Component::None => 'N',
            Component::Additive => 'A',
            Component::Multiplicative => 'M',
        }
    }
}

/// Which models are tried: each component that is none may be any, but that a trend which is not asked for is not
/// multiplicative. Written as its letters in this order, Z for any: `ZZZ`, `MAM`, `ZZN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    pub error: Option<Component>,
    pub trend: Option<Component>,
    pub season: Option<Component>,
}

impl std::str::FromStr for Form {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::Invalid(format!("'{text}' is no form of {METHOD}: three letters of N, A, M and Z are"));
        let component = |letter: &u8| match letter {
            b'N' => Ok(Some(Component::None)),
            b'A' => Ok(Some(Component::Additive)),
            b'M' => Ok(Some(Component::Multiplicative)),
            b'Z' => Ok(None),
            _ => Err(wrong()),
        };
        let [error, trend, season] = text.as_bytes() else { return Err(wrong()) };
        let form = Form { error: component(error)?, trend: component(trend)?, season: component(season)? };
        if form.error == Some(Component::None) { Err(wrong()) } else { Ok(form) }
    }
}

/// What may be asked of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The models among which the one of the least AICc is chosen; all if none.
    pub model: Option<Form>,
    /// Whether a trend is damped; chosen if none.
    pub damped: Option<bool>,
}

/// See [`crate::Model`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    error: Component,
    trend: Component,
    season: Component,
    alpha: f64,
    beta: f64,
    gamma: f64,
    /// Factor of the slope at each step; 0 without a trend, 1 if it is not damped.
    phi: f64,
    level: f64,
    slope: f64,
    /// Of the steps that follow, the next one first.
    seasonal: Vec<f64>,
    /// Standard deviation of the errors, which are relative ones if they are multiplicative.
    sigma: f64,
    /// By what level and slope, and all that is added to them, are to be multiplied.
    scale: f64,
}

/// One form without choices.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shape {
    error: Component,
    trend: Component,
    damped: bool,
    season: Component,
}

/// Learns the model of the least AICc among those that are asked for.
pub fn fit(series: &Series, options: &Options, stop: Stop) -> Result<Fit> {
    let (model, fitted) = learn(series.values, series.season(), options, stop)?;
    Ok(Fit { model: crate::Model::Ets(model), fitted })
}

/// The model and its forecast of each value by those before.
pub(crate) fn learn(values: &[f64], season: usize, options: &Options, stop: Stop) -> Result<(Model, Vec<f64>)> {
    let Some(&first) = values.first() else {
        return Err(Error::Short { method: METHOD, found: 0, needed: 1 });
    };
    let constant = values.iter().all(|&value| value == first);
    let scale = scale::of(values);
    let values = scale::divide(values, scale);
    let shapes = shapes(options.model.unwrap_or_default(), options.damped, season, &values)?;
    let (model, mut fitted) = if constant {
        (simple(values[0], 0.9999, 0.0), values)
    } else if values.len() >= ENOUGH {
        best(&shapes, &values, season, stop)?
    } else if shapes.iter().any(|shape| (shape.error, shape.trend, shape.season) == SIMPLE) {
        short(&values)
    } else {
        return Err(Error::Short { method: METHOD, found: values.len(), needed: ENOUGH });
    };
    scale::multiply(&mut fitted, scale);
    Ok((Model { scale, ..model }, fitted))
}

const SIMPLE: (Component, Component, Component) = (Component::Additive, Component::None, Component::None);

fn simple(level: f64, alpha: f64, sigma: f64) -> Model {
    let (error, trend, season) = SIMPLE;
    let (slope, seasonal) = (0.0, Vec::new());
    Model { error, trend, season, alpha, beta: 0.0, gamma: 0.0, phi: 0.0, level, slope, seasonal, sigma, scale: 1.0 }
}

/// Simple smoothing of too few values to estimate a weight.
fn short(values: &[f64]) -> (Model, Vec<f64>) {
    const ALPHA: f64 = 0.5;
    let mut level = values[0];
    let mut fitted = vec![f64::NAN];
    let mut squares = 0.0;
    for value in &values[1..] {
        fitted.push(level);
        squares += (value - level) * (value - level);
        level += ALPHA * (value - level);
    }
    (simple(level, ALPHA, (squares / (values.len() - 1).max(1) as f64).sqrt()), fitted)
}

/// The models that `form` admits for such a series, in the order in which they are tried.
fn shapes(form: Form, damped: Option<bool>, season: usize, values: &[f64]) -> Result<Vec<Shape>> {
    use Component::{Additive, Multiplicative, None as Without};
    let any = |asked: Option<Component>, all: &[Component]| asked.map_or_else(|| all.to_vec(), |one| vec![one]);
    let refused = |why: &str| Err(Error::Invalid(format!("{why} by {METHOD}")));
    let positive = values.iter().all(|&value| value > 0.0);
    if !positive && [form.error, form.trend, form.season].contains(&Some(Multiplicative)) {
        return refused("values that are not all positive cannot have a multiplicative component");
    }
    if season == 1 && form.season.is_some_and(|season| season != Without) {
        return refused("a series without a season cannot have a seasonal component");
    }
    let mut shapes = Vec::new();
    for error in any(form.error, &[Additive, Multiplicative]) {
        for trend in any(form.trend, &[Without, Additive]) {
            for season in any(form.season.filter(|_| values.len() > season), &[Without, Additive, Multiplicative]) {
                for damped in damped.map_or(vec![true, false], |one| vec![one]) {
                    shapes.push(Shape { error, trend, damped, season });
                }
            }
        }
    }
    let seasonal = season > 1 && values.len() > season;
    shapes.retain(|shape| {
        let products = [shape.error, shape.trend, shape.season].map(|component| component == Multiplicative);
        // Some of these have no finite variance, and others are not stable near 0.
        let unstable = !products[0] && (products[1] || products[2]) || products[1] && shape.season == Additive;
        let impossible = !positive && products.contains(&true);
        let empty = shape.damped && shape.trend == Without || !seasonal && shape.season != Without;
        !(unstable || impossible || empty)
    });
    if shapes.is_empty() {
        return refused("such a combination of error, trend, damping and season is not forecast");
    }
    Ok(shapes)
}

/// A shape and how it is searched.
struct Problem<'a> {
    shape: Shape,
    values: &'a [f64],
    season: usize,
    /// Sum of squared errors below which a fit is as exact as its numbers are.
    exact: f64,
}

fn best(shapes: &[Shape], values: &[f64], season: usize, stop: Stop) -> Result<(Model, Vec<f64>)> {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    let mut chosen: Option<(f64, Problem, Vec<f64>)> = None;
    for &shape in shapes {
        let season = if shape.season == Component::None { 1 } else { season };
        let size = if shape.error == Component::Additive { squares } else { values.len() as f64 };
        let problem = Problem { shape, values, season, exact: 1e-24 * size };
        let Some((criterion, point)) = problem.solve(stop)? else { continue };
        if chosen.as_ref().is_none_or(|(least, ..)| criterion < *least) {
            chosen = Some((criterion, problem, point));
        }
    }
    let Some((_, problem, point)) = chosen else {
        // The least parameters, and two values more than these and the variance.
        let needed = Problem { shape: shapes[0], values, season, exact: 0.0 }.bounds().len() + 3;
        return Err(Error::Short { method: METHOD, found: values.len(), needed: needed.max(values.len() + 1) });
    };
    Ok(problem.model(&point))
}

impl Problem<'_> {
    /// Bounds of what is searched: weights, damping and first states.
    fn bounds(&self) -> Vec<(f64, f64)> {
        let trend = self.shape.trend != Component::None;
        let seasonal = self.shape.season != Component::None;
        let alpha = self.first_alpha();
        let mut bounds = vec![(1e-4, 0.9999)];
        bounds.extend(trend.then_some((1e-4, alpha)));
        bounds.extend(seasonal.then_some((1e-4, (1.0 - alpha).min(0.9999))));
        bounds.extend(self.shape.damped.then_some((0.8, 0.98)));
        bounds.resize(bounds.len() + usize::from(trend) + self.season, (f64::NEG_INFINITY, f64::INFINITY));
        bounds
    }

    fn first_alpha(&self) -> f64 {
        1e-4 + 0.2 * 0.9998 / self.season as f64
    }

    /// The least AICc and where it is; none if the values are too few.
    fn solve(&self, stop: Stop) -> Result<Option<(f64, Vec<f64>)>> {
        const LIMITS: Limits = Limits { tolerance: 1e-4, iterations: 1000 };
        if stop() {
            return Err(Error::Stopped);
        }
        let bounds = self.bounds();
        // The variance is estimated too.
        let (parameters, count) = (bounds.len() as f64 + 1.0, self.values.len() as f64);
        if parameters + 1.0 >= count {
            return Ok(None);
        }
        let weights = bounds.iter().take_while(|(lower, _)| lower.is_finite());
        let mut point: Vec<f64> = weights
            .enumerate()
            .map(|(index, (lower, upper))| match (index, *lower == 0.8) {
                (0, _) => self.first_alpha(),
                (_, true) => lower + 0.99 * (upper - lower),
                (1, _) if self.shape.trend != Component::None => lower + 0.1 * (upper - lower),
                _ => lower + 0.05 * (upper - lower),
            })
            .collect();
        point.extend(start::states(self.values, self.season, self.shape));
        let mut states = States { level: 0.0, slope: 0.0, season: vec![0.0; self.season], next: 0 };
        let likelihood = |point: &[f64]| self.likelihood(point, &mut states);
        let likelihood = nelder_mead::minimise(likelihood, &mut point, &bounds, &LIMITS, stop)?;
        let criterion = likelihood + 2.0 * parameters * count / (count - parameters - 1.0);
        // The states before a value may do, and those behind the last one not.
        self.likelihood(&point, &mut states);
        let last = [&[criterion, states.level, states.slope][..], &states.season].concat();
        Ok(last.iter().all(|number| number.is_finite()).then_some((criterion, point)))
    }

    /// Reads a point of the search.
    fn unpack(&self, point: &[f64], states: &mut States) -> Parameters {
        let mut rest = point.iter().copied();
        let mut next =
            |present: bool, otherwise: f64| if present { rest.next().unwrap_or(otherwise) } else { otherwise };
        let trend = self.shape.trend != Component::None;
        let seasonal = self.shape.season != Component::None;
        let (alpha, beta, gamma) = (next(true, 0.0), next(trend, 0.0), next(seasonal, 0.0));
        let phi = next(self.shape.damped, 1.0);
        (states.level, states.slope, states.next) = (next(true, 0.0), next(trend, 0.0), 0);
        if seasonal {
            let given = &point[point.len() + 1 - self.season..];
            let total = if self.shape.season == Component::Multiplicative { self.season as f64 } else { 0.0 };
            states.season[0] = total - given.iter().sum::<f64>();
            states.season[1..].iter_mut().zip(given.iter().rev()).for_each(|(state, given)| *state = *given);
        }
        Parameters { alpha, beta, gamma, phi }
    }

    /// Minus twice the logarithm of the likelihood, but for a constant.
    fn likelihood(&self, point: &[f64], states: &mut States) -> f64 {
        let parameters = self.unpack(point, states);
        let seasonal = self.shape.season == Component::Multiplicative;
        if seasonal && states.season.iter().any(|&season| season < 0.0) {
            return f64::INFINITY;
        }
        let count = self.values.len() as f64;
        let mut squares = 0.0;
        if self.shape.error == Component::Additive {
            smooth(self.shape, &parameters, states, self.values, |forecast, value| {
                squares += (value - forecast) * (value - forecast);
            });
            return count * f64::max(squares, self.exact).ln();
        }
        let mut logarithms = LogSum::new();
        smooth(self.shape, &parameters, states, self.values, |forecast, value| {
            let error = (value - forecast) / forecast;
            squares += error * error;
            logarithms.add(forecast.abs());
        });
        count * f64::max(squares, self.exact).ln() + 2.0 * logarithms.total()
    }

    fn model(&self, point: &[f64]) -> (Model, Vec<f64>) {
        let Shape { error, trend, season, .. } = self.shape;
        let mut states = States { level: 0.0, slope: 0.0, season: vec![0.0; self.season], next: 0 };
        let parameters = self.unpack(point, &mut states);
        let mut fitted = Vec::with_capacity(self.values.len());
        let mut squares = 0.0;
        smooth(self.shape, &parameters, &mut states, self.values, |forecast, value| {
            let unit = if error == Component::Additive { 1.0 } else { forecast };
            squares += ((value - forecast) / unit).powi(2);
            fitted.push(forecast);
        });
        let freedom = self.values.len() as f64 - point.len() as f64 - 2.0;
        let Parameters { alpha, beta, gamma, phi } = parameters;
        states.season.rotate_left(states.next);
        states.season.truncate(if season == Component::None { 0 } else { self.season });
        let model = Model {
            error,
            trend,
            season,
            alpha,
            beta,
            gamma,
            phi: if trend == Component::None { 0.0 } else { phi },
            level: states.level,
            slope: states.slope,
            seasonal: states.season,
            sigma: (squares / freedom).sqrt(),
            scale: 1.0,
        };
        (model, fitted)
    }
}

impl Model {
    /// Forecasts `horizon` steps.
    pub fn forecast(&self, horizon: usize) -> Steps {
        let mut mean = Vec::with_capacity(horizon);
        let (mut level, mut slope) = (self.level, self.slope);
        for step in 0..horizon {
            (level, slope) = self.expected(level, slope);
            mean.push(self.seasoned(level, self.seasonal.get(step % self.seasonal.len().max(1))));
        }
        let mut sigma = variance::sigma(self, &mean);
        scale::multiply(&mut mean, self.scale);
        scale::multiply(&mut sigma, self.scale);
        Steps { mean, sigma }
    }

    /// `ETS(M,Ad,M)`.
    pub fn name(&self) -> String {
        let damped = if self.trend != Component::None && self.phi != 1.0 { "d" } else { "" };
        format!("ETS({},{}{damped},{})", self.error.letter(), self.trend.letter(), self.season.letter())
    }

    /// Level and slope a step later if there is no error.
    fn expected(&self, level: f64, slope: f64) -> (f64, f64) {
        match self.trend {
            Component::None => (level, slope),
            Component::Additive => (level + self.phi * slope, self.phi * slope),
            Component::Multiplicative => {
                let grown = slope.max(0.0).powf(self.phi);
                (level * grown, grown)
            }
        }
    }

    /// The forecast of a step of which the level and the season are known.
    fn seasoned(&self, level: f64, season: Option<&f64>) -> f64 {
        match (self.season, season) {
            (Component::Additive, Some(season)) => level + season,
            (Component::Multiplicative, Some(season)) => level * season,
            _ => level,
        }
    }
}
