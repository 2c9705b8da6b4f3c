//! Variances of forecasts: Hyndman et al. (2008), chapter 6.

use super::smooth::{Parameters, States, smooth};
use super::{Component, Model, Shape};

/// Paths simulated where no formula is known.
const PATHS: usize = 1000;

/// Standard deviations of the errors of `mean`, the forecasts of `model` before they are multiplied by its scale.
pub(super) fn sigma(model: &Model, mean: &[f64]) -> Vec<f64> {
    use Component::{Additive, Multiplicative};
    match (model.error, model.trend, model.season) {
        (_, Multiplicative, _) => simulated(model, mean.len()),
        (Additive, ..) => additive(model, mean.len()),
        (_, _, Multiplicative) => seasonal_product(model, mean.len()),
        _ => relative(model, mean),
    }
}

/// What an error adds to the forecast of each later step, by its own size.
fn responses(model: &Model) -> impl Iterator<Item = f64> {
    let (mut damping, mut grown) = (1.0, 0.0);
    let season = model.seasonal.len();
    (1_usize..).map(move |step| {
        damping *= model.phi;
        grown += damping;
        let seasonal = if season > 1 && step.is_multiple_of(season) { model.gamma } else { 0.0 };
        model.alpha + model.beta * grown + seasonal
    })
}

/// Class 1: all is additive.
fn additive(model: &Model, horizon: usize) -> Vec<f64> {
    let mut sum = 1.0_f64;
    let mut deviations = Vec::with_capacity(horizon);
    for response in responses(model).take(horizon) {
        deviations.push(model.sigma * sum.sqrt());
        sum += response * response;
    }
    deviations
}

/// Class 2: only the error is multiplicative.
fn relative(model: &Model, mean: &[f64]) -> Vec<f64> {
    let variance = model.sigma * model.sigma;
    let responses: Vec<f64> = responses(model).take(mean.len()).map(|response| response * response).collect();
    let mut squares: Vec<f64> = Vec::with_capacity(mean.len());
    for mean in mean {
        let earlier: f64 = squares.iter().rev().zip(&responses).map(|(square, response)| square * response).sum();
        squares.push(mean * mean + variance * earlier);
    }
    squares.iter().zip(mean).map(|(square, mean)| ((1.0 + variance) * square - mean * mean).max(0.0).sqrt()).collect()
}

/// Class 3: error and season are multiplicative. Level and slope are one vector x that an error e moves to (F + G e) x,
/// and the season at a position z moves to (1 + gamma e) z; so the moments of x z and of its square follow exactly
/// from those a step before, with the third and fourth moments of normal errors.
fn seasonal_product(model: &Model, horizon: usize) -> Vec<f64> {
    let (phi, gamma, variance) = (model.phi, model.gamma, model.sigma * model.sigma);
    let corrections = [model.alpha, model.beta];
    let start = [model.level, model.slope];
    // Of each position: the mean of x z, and of its products those of level and level, level and slope, slope and slope.
    let mut means: Vec<[f64; 2]> = model.seasonal.iter().map(|season| start.map(|state| state * season)).collect();
    let mut squares: Vec<[f64; 3]> =
        means.iter().map(|mean| [mean[0] * mean[0], mean[0] * mean[1], mean[1] * mean[1]]).collect();
    let mut deviations = Vec::with_capacity(horizon);
    for step in 0..horizon {
        let now = step % model.seasonal.len();
        for (position, (mean, square)) in means.iter_mut().zip(&mut squares).enumerate() {
            // The forecast is the level and phi times the slope.
            let forecast = mean[0] + phi * mean[1];
            let with = [square[0] + phi * square[1], square[1] + phi * square[2]];
            let product = with[0] + phi * with[1];
            let (mut plain, mut cross, mut quartic, mut shift) = (1.0, 0.0, variance, 0.0);
            if position == now {
                deviations.push(((1.0 + variance) * product - forecast * forecast).max(0.0).sqrt());
                plain += gamma * gamma * variance;
                cross = 2.0 * gamma * variance;
                quartic += 3.0 * (gamma * variance).powi(2);
                shift = gamma * variance * forecast;
            }
            // F x is the forecast and phi times the slope.
            let moved = [product, phi * with[1], phi * phi * square[2]];
            let leaning = [product, phi * with[1]];
            *mean = [forecast + shift * corrections[0], phi * mean[1] + shift * corrections[1]];
            for (entry, (row, column)) in [(0, 0), (0, 1), (1, 1)].into_iter().enumerate() {
                square[entry] = plain * moved[entry]
                    + cross * (leaning[row] * corrections[column] + corrections[row] * leaning[column])
                    + quartic * product * corrections[row] * corrections[column];
            }
        }
    }
    deviations
}

/// Half of the range in which the middle 68.27 % of simulated paths are: a trend that multiplies may well have no
/// variance at all. The same model has the same paths.
fn simulated(model: &Model, horizon: usize) -> Vec<f64> {
    let mut errors = Normal { state: 0x5DEE_CE66, spare: None };
    let mut walks: Vec<Walk> = (0..PATHS).map(|_| Walk::begin(model)).collect();
    let rank = |share: f64| (share * (PATHS - 1) as f64).round() as usize;
    let spread = |_| {
        // An error of -1 would end a positive series.
        let mut reached: Vec<f64> =
            walks.iter_mut().map(|walk| walk.step((model.sigma * errors.next()).max(-0.999))).collect();
        reached.sort_by(f64::total_cmp);
        (reached[rank(0.841_344_746)] - reached[rank(0.158_655_254)]) / 2.0
    };
    (0..horizon).map(spread).collect()
}

/// A path that a series of `model` may take.
struct Walk<'a> {
    model: &'a Model,
    shape: Shape,
    parameters: Parameters,
    states: States,
}

impl<'a> Walk<'a> {
    fn begin(model: &'a Model) -> Self {
        let &Model { error, trend, season, alpha, beta, gamma, phi, level, slope, .. } = model;
        let states = States { level, slope, season: model.seasonal.clone(), next: 0 };
        let shape = Shape { error, trend, damped: phi != 1.0, season };
        Self { model, shape, parameters: Parameters { alpha, beta, gamma, phi }, states }
    }

    /// The next value, whose error relative to its forecast is given.
    fn step(&mut self, error: f64) -> f64 {
        let (level, _) = self.model.expected(self.states.level, self.states.slope);
        let value = self.model.seasoned(level, self.states.season.get(self.states.next)) * (1.0 + error);
        smooth(self.shape, &self.parameters, &mut self.states, &[value], |_, _| ());
        value
    }
}

/// Normal numbers by the method of Box and Muller (1958) from those of SplitMix64 (Steele et al., 2014).
struct Normal {
    state: u64,
    spare: Option<f64>,
}

impl Normal {
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn next(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(trend: Component, phi: f64, season: Component) -> Model {
        let seasonal = match season {
            Component::None => vec![],
            Component::Additive => vec![3.0, -20.0, 9.0, 8.0],
            Component::Multiplicative => vec![1.1, 0.7, 1.3, 0.9],
        };
        let slope = if trend == Component::None { 0.0 } else { 2.0 };
        let (beta, gamma) = (slope / 20.0, if season == Component::None { 0.0 } else { 0.3 });
        let (error, sigma) = (Component::Multiplicative, 0.05);
        Model { error, trend, season, alpha: 0.4, beta, gamma, phi, level: 100.0, slope, seasonal, sigma, scale: 1.0 }
    }

    #[test]
    fn the_formulas_agree_with_simulated_paths() {
        for season in [Component::None, Component::Additive, Component::Multiplicative] {
            for (trend, phi) in [(Component::None, 0.0), (Component::Additive, 1.0), (Component::Additive, 0.9)] {
                let model = model(trend, phi, season);
                let formula = sigma(&model, &model.forecast(10).mean);
                let mut errors = Normal { state: 7, spare: None };
                let mut sums = vec![(0.0, 0.0); 10];
                for _ in 0..100_000 {
                    let mut walk = Walk::begin(&model);
                    for sum in &mut sums {
                        let value = walk.step(model.sigma * errors.next());
                        *sum = (sum.0 + value / 1e5, sum.1 + value * value / 1e5);
                    }
                }
                for (step, (formula, sum)) in formula.iter().zip(&sums).enumerate() {
                    let paths = (sum.1 - sum.0 * sum.0).sqrt();
                    assert!((formula / paths - 1.0).abs() < 0.01, "{} {step}: {formula} {paths}", model.name());
                }
            }
        }
    }
}
