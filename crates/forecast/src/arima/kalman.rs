//! The Kalman filter of an ARMA process whose errors have the variance 1, in the form of Gardner, Harvey and Phillips
//! (1980, AS 154): element 0 of the state is the next value, element `i` what is already known to enter the value `i`
//! steps later.
//!
//! A process that begins in its stationary distribution has a covariance of the state that changes from step to step by
//! a matrix of rank one. The recursions of Chandrasekhar (Morf, Sidhu and Kailath, 1974; for ARMA processes Pearlman,
//! 1980, and Mélard, 1984, AS 197) follow this change and the gain, two vectors, and not the covariance: a step costs as
//! many operations as the state has elements, not their square, and the likelihood is the same.

use super::polynomial;

/// A gain so near its limit stays as it is.
const SETTLED: f64 = 1e-13;

/// Coefficients that are not 0, by their lags.
pub(super) type Lags = Vec<(usize, f64)>;

pub(super) fn lags(coefficients: &[f64], into: &mut Lags) {
    into.clear();
    into.extend(coefficients.iter().enumerate().filter(|(_, c)| **c != 0.0).map(|(lag, c)| (lag + 1, *c)));
}

/// The filter, with buffers that are used again for other coefficients.
#[derive(Default)]
pub(super) struct Filter {
    width: usize,
    ar: Vec<f64>,
    pub ar_lags: Lags,
    pub ma_lags: Lags,
    /// Of the next value, given those before.
    variance: f64,
    /// How the state moves by an error, times `variance`.
    gain: Vec<f64>,
    /// The vector whose square, by `variance`, the covariance loses by the next step; and a 0.
    loss: Vec<f64>,
    /// The states of the columns, each with a 0 behind it.
    states: Vec<f64>,
    errors: Vec<f64>,
    scratch: Scratch,
}

#[derive(Default)]
struct Scratch {
    predictors: Vec<f64>,
    pure: Vec<f64>,
    moving: Vec<f64>,
    covariances: Vec<f64>,
    responses: Vec<f64>,
    row: Vec<f64>,
}

/// Of errors of several columns: the sums of their products, each weighed by the inverse of its variance, as the lower
/// triangle by rows; and the sum of the logarithms of the variances.
#[derive(Default)]
pub(super) struct Sums {
    pub products: Vec<f64>,
    pub log_variances: f64,
}

impl Filter {
    /// Takes the coefficients of a process and begins in its stationary distribution; whether it has one.
    pub fn begin(&mut self, ar: &[f64], ma: &[f64]) -> bool {
        let width = ar.len().max(ma.len() + 1);
        self.width = width;
        self.ar.clear();
        self.ar.extend_from_slice(ar);
        self.ar.resize(width, 0.0);
        lags(ar, &mut self.ar_lags);
        lags(ma, &mut self.ma_lags);
        if !self.stationary_row(ar, ma.len()) {
            return false;
        }
        let row = &self.scratch.row;
        self.variance = row[0];
        self.gain.clear();
        self.gain.extend((0..width).map(|element| self.ar[element] * row[0] + row[element + 1]));
        self.loss.clone_from(&self.gain);
        self.loss.push(0.0);
        self.variance.is_finite() && self.variance > 0.0
    }

    /// The covariances of the state with the next value, and a 0, in the stationary distribution: those of Gardner
    /// (1980) without his system of equations, by the autocovariances of the process (Brockwell and Davis, 1991,
    /// section 3.3).
    fn stationary_row(&mut self, ar: &[f64], moving: usize) -> bool {
        let Scratch { predictors, pure, moving: squares, covariances, responses, row } = &mut self.scratch;
        if !polynomial::predictors(ar, predictors) {
            return false;
        }
        // The autocovariances of the autoregression alone.
        let variance: f64 = (1..=ar.len())
            .map(|order| 1.0 / (1.0 - predictors[polynomial::triangle(order) + order - 1].powi(2)))
            .product();
        pure.clear();
        pure.push(variance);
        for order in 1..=self.width + moving {
            pure.push(if order < ar.len() {
                let predictor = &predictors[polynomial::triangle(order)..][..order];
                predictor.iter().zip(pure.iter().rev()).map(|(coefficient, covariance)| coefficient * covariance).sum()
            } else {
                self.ar_lags.iter().map(|(lag, coefficient)| coefficient * pure[order - lag]).sum()
            });
        }
        // Those of the moving average alone.
        let with_error = || std::iter::once(&(0, 1.0)).chain(&self.ma_lags);
        squares.clear();
        squares.resize(moving + 1, 0.0);
        for (early, first) in with_error() {
            with_error()
                .filter(|(late, _)| late >= early)
                .for_each(|(late, last)| squares[late - early] += first * last);
        }
        // Those of both together.
        covariances.clear();
        covariances.extend((0..=self.width).map(|lag| squares[0] * pure[lag]));
        for (shift, square) in squares.iter().enumerate().skip(1).filter(|(_, square)| **square != 0.0) {
            for (lag, covariance) in covariances.iter_mut().enumerate() {
                *covariance += square * (pure[lag.abs_diff(shift)] + pure[lag + shift]);
            }
        }
        responses_of(&self.ar_lags, &self.ma_lags, moving + 1, responses);
        row.clear();
        row.resize(self.width + 1, 0.0);
        for (lag, coefficient) in &self.ar_lags {
            (0..*lag).for_each(|element| row[element] += coefficient * covariances[lag - element]);
        }
        for (lag, coefficient) in with_error() {
            (0..=*lag).for_each(|element| row[element] += coefficient * responses[lag - element]);
        }
        true
    }

    /// Passes columns through the filter. `errors`, of the first column, if they are wanted.
    pub fn run(&mut self, columns: &[&[f64]], sums: &mut Sums, mut errors: Option<&mut Vec<f64>>) -> bool {
        let length = columns[0].len();
        self.states.clear();
        self.states.resize(columns.len() * (self.width + 1), 0.0);
        self.errors.clear();
        self.errors.resize(columns.len(), 0.0);
        sums.products.clear();
        sums.products.resize(columns.len() * (columns.len() + 1) / 2, 0.0);
        sums.log_variances = 0.0;
        let mut product = 1.0;
        let mut settled = false;
        for step in 0..length {
            let weight = 1.0 / self.variance;
            for (index, column) in columns.iter().enumerate() {
                let state = &mut self.states[index * (self.width + 1)..][..=self.width];
                let error = column[step] - state[0];
                self.errors[index] = error;
                forward(state, &self.ar, &self.gain, error * weight);
            }
            if let Some(errors) = errors.as_deref_mut() {
                errors.push(self.errors[0]);
            }
            add_products(&self.errors, weight, &mut sums.products);
            if settled {
                continue;
            }
            product *= self.variance;
            if !(1e-200..1e200).contains(&product) {
                sums.log_variances += product.ln();
                product = 1.0;
            }
            self.advance();
            if self.variance.is_nan() || self.variance <= 0.0 {
                return false;
            }
            settled = self.variance - 1.0 < SETTLED;
        }
        sums.log_variances += product.ln();
        true
    }

    /// The gain of the next step.
    fn advance(&mut self) {
        let first = self.loss[0];
        let share = first / self.variance;
        self.variance -= first * share;
        let (ar, gain) = (&self.ar[..self.width], &mut self.gain[..self.width]);
        let loss = &mut self.loss[..=self.width];
        for element in 0..self.width {
            let moved = ar[element] * first + loss[element + 1];
            loss[element] = moved - gain[element] * share;
            gain[element] -= moved * share;
        }
    }

    /// The state of the first column, of its next value.
    pub fn state(&self) -> &[f64] {
        &self.states[..self.width]
    }
}

/// The state of the next step.
fn forward(state: &mut [f64], ar: &[f64], gain: &[f64], error: f64) {
    let width = ar.len();
    let (state, gain) = (&mut state[..=width], &gain[..width]);
    let value = state[0];
    for element in 0..width {
        state[element] = ar[element] * value + state[element + 1] + gain[element] * error;
    }
}

fn add_products(errors: &[f64], weight: f64, products: &mut [f64]) {
    let mut products = products.iter_mut();
    for (index, error) in errors.iter().enumerate() {
        for (other, product) in errors[..=index].iter().zip(&mut products) {
            *product += error * other * weight;
        }
    }
}

/// The first responses of the values to an error of 1, the coefficients of the process as a moving average.
pub(super) fn responses_of(ar: &Lags, ma: &Lags, count: usize, into: &mut Vec<f64>) {
    into.clear();
    into.resize(count, 0.0);
    into.iter_mut().take(1).for_each(|first| *first = 1.0);
    ma.iter().filter(|(lag, _)| *lag < count).for_each(|(lag, coefficient)| into[*lag] += coefficient);
    for step in 1..count {
        let earlier = ar.iter().take_while(|(lag, _)| *lag <= step);
        into[step] += earlier.map(|(lag, coefficient)| coefficient * into[step - lag]).sum::<f64>();
    }
}

/// Of columns: the sums of products of errors given the first values, as many as there are autoregressive lags, and
/// errors of 0 before (Box and Jenkins, 1976, section 7.1).
pub(super) fn conditional(columns: &[&[f64]], ar: &Lags, ma: &Lags, products: &mut Vec<f64>, buffer: &mut Vec<f64>) {
    let given = ar.last().map_or(0, |(lag, _)| *lag);
    let reach = given.max(ma.last().map_or(0, |(lag, _)| *lag));
    let length = columns[0].len();
    // Of each column its errors, and what is known of each value by those before.
    let stride = 2 * length + reach;
    buffer.clear();
    buffer.resize(columns.len() * stride, 0.0);
    for (column, buffer) in columns.iter().zip(buffer.chunks_mut(stride)) {
        let (errors, known) = buffer.split_at_mut(length);
        for (step, value) in column.iter().enumerate() {
            ar.iter().for_each(|(lag, coefficient)| known[step + lag] += coefficient * value);
            if step >= given {
                let error = value - known[step];
                errors[step] = error;
                ma.iter().for_each(|(lag, coefficient)| known[step + lag] += coefficient * error);
            }
        }
    }
    products.clear();
    for index in 0..columns.len() {
        for other in 0..=index {
            let pairs = buffer[index * stride..][..length].iter().zip(&buffer[other * stride..][..length]);
            products.push(pairs.map(|(a, b)| a * b).sum());
        }
    }
}

impl Filter {
    /// After `steps` values, the covariance of the next state without that of the next error: what these values have not
    /// told of the errors before. None if it is negligible. By the recursion of Riccati, so in the square of the state.
    pub fn unknown(&mut self, ar: &[f64], ma: &[f64], steps: usize) -> Option<Vec<Vec<f64>>> {
        if (ma.is_empty() && steps >= ar.len()) || !self.begin(ar, ma) {
            return None;
        }
        let width = self.width;
        let mut error = vec![1.0];
        error.extend_from_slice(ma);
        error.resize(width, 0.0);
        let (ar, row) = (&self.ar, &self.scratch.row);
        // A step from the stationary covariance changes nothing, which gives each element by the first row and the next
        // element of the diagonal.
        let mut known = vec![vec![0.0; width + 1]; width + 1];
        for first in (0..width).rev() {
            for second in 0..width {
                known[first][second] = ar[first] * ar[second] * row[0]
                    + ar[first] * row[second + 1]
                    + ar[second] * row[first + 1]
                    + known[first + 1][second + 1]
                    + error[first] * error[second];
            }
        }
        for _ in 0..steps {
            let first_row = known[0].clone();
            if first_row[0] - 1.0 < SETTLED {
                return None;
            }
            for first in 0..width {
                let share = first_row[first + 1] / first_row[0];
                let (above, below) = known.split_at_mut(first + 1);
                for second in 0..width {
                    above[first][second] =
                        below[0][second + 1] - share * first_row[second + 1] + error[first] * error[second];
                }
            }
        }
        known.truncate(width);
        for (row, first) in known.iter_mut().zip(&error) {
            row.truncate(width);
            row.iter_mut().zip(&error).for_each(|(element, second)| *element -= first * second);
        }
        let largest = (0..width).map(|index| known[index][index]).fold(0.0, f64::max);
        (largest > SETTLED).then_some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AR: [f64; 4] = [0.5, 0.0, 0.3, -0.15];
    const MA: [f64; 5] = [0.4, 0.0, 0.0, -0.7, -0.28];

    fn noise(length: usize) -> Vec<f64> {
        (0..length).map(|step| ((step * step * 37 + step * 11) % 101) as f64 / 50.0 - 1.0).collect()
    }

    /// The covariance of the next state after `steps` values, by the filter as the textbooks have it.
    fn textbook(ar: &[f64], ma: &[f64], values: &[f64]) -> (f64, f64, Vec<Vec<f64>>) {
        let width = ar.len().max(ma.len() + 1);
        let at = |list: &[f64], index: usize| list.get(index).copied().unwrap_or(0.0);
        let error: Vec<f64> = (0..width).map(|index| if index == 0 { 1.0 } else { at(ma, index - 1) }).collect();
        let step = |known: &[Vec<f64>]| -> Vec<Vec<f64>> {
            let beyond = |i: usize, j: usize| if i < width && j < width { known[i][j] } else { 0.0 };
            let next = |i: usize, j: usize| {
                at(ar, i) * at(ar, j) * known[0][0]
                    + at(ar, i) * beyond(0, j + 1)
                    + at(ar, j) * beyond(i + 1, 0)
                    + beyond(i + 1, j + 1)
                    + error[i] * error[j]
            };
            (0..width).map(|i| (0..width).map(|j| next(i, j)).collect()).collect()
        };
        let mut known = vec![vec![0.0; width]; width];
        (0..3000).for_each(|_| known = step(&known));
        let (mut state, mut squares, mut logarithms) = (vec![0.0; width], 0.0, 0.0);
        for value in values {
            let (variance, difference) = (known[0][0], value - state[0]);
            let row = known[0].clone();
            squares += difference * difference / variance;
            logarithms += variance.ln();
            (0..width).for_each(|i| state[i] += row[i] / variance * difference);
            for (i, elements) in known.iter_mut().enumerate() {
                elements.iter_mut().enumerate().for_each(|(j, element)| *element -= row[i] * row[j] / variance);
            }
            known = step(&known);
            let first = state[0];
            state = (0..width).map(|i| at(ar, i) * first + at(&state, i + 1)).collect();
        }
        (0..width).for_each(|i| (0..width).for_each(|j| known[i][j] -= error[i] * error[j]));
        (squares, logarithms, known)
    }

    #[test]
    fn the_likelihood_is_that_of_the_textbook() {
        for (ar, ma) in [(&AR[..], &MA[..]), (&AR[..], &[]), (&[], &MA[..]), (&[], &[]), (&[0.98], &[0.99])] {
            let values = noise(80);
            let (mut filter, mut sums) = (Filter::default(), Sums::default());
            assert!(filter.begin(ar, ma) && filter.run(&[&values, &values], &mut sums, None));
            let (squares, logarithms, known) = textbook(ar, ma, &values);
            assert!((sums.log_variances - logarithms).abs() < 1e-9, "{} {logarithms}", sums.log_variances);
            for product in &sums.products {
                assert!((product / squares - 1.0).abs() < 1e-10, "{product} {squares}");
            }
            match filter.unknown(ar, ma, values.len()) {
                Some(unknown) => unknown.iter().zip(&known).for_each(|(found, expected)| {
                    found.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-9, "{a} {b}"));
                }),
                None => assert!(known.iter().flatten().all(|element| element.abs() < 1e-9)),
            }
        }
        assert!(!Filter::default().begin(&[1.0], &[]));
    }

    #[test]
    fn conditional_errors_are_those_of_their_definition() {
        let values = noise(30);
        let (mut ar, mut ma) = (Lags::new(), Lags::new());
        lags(&AR, &mut ar);
        lags(&MA, &mut ma);
        let (mut products, mut buffer) = (Vec::new(), Vec::new());
        conditional(&[&values, &values], &ar, &ma, &mut products, &mut buffer);
        let mut errors = vec![0.0; 30];
        for step in 4..30 {
            let past: f64 = (0..4).map(|lag| AR[lag] * values[step - 1 - lag]).sum();
            let moving: f64 = (0..5.min(step)).map(|lag| MA[lag] * errors[step - 1 - lag]).sum();
            errors[step] = values[step] - past - moving;
        }
        let squares: f64 = errors.iter().map(|error| error * error).sum();
        assert!(products.iter().all(|product| (product / squares - 1.0).abs() < 1e-12));
    }
}
