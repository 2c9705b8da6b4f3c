//! Polynomials of the backshift operator: those of autoregression, `1 - a1 B - a2 B^2 ...`, and those of the moving
//! average, `1 + b1 B + b2 B^2 ...`.

/// Coefficients of a stationary autoregression from unbounded parameters, which are inverse hyperbolic tangents of its
/// partial autocorrelations (Monahan, 1984; Jones, 1980). Negated, they are those of an invertible moving average.
pub(super) fn stationary(parameters: &[f64], coefficients: &mut Vec<f64>) {
    coefficients.clear();
    for parameter in parameters {
        let partial = parameter.tanh();
        let order = coefficients.len();
        // Pairs from both ends, as the recursion of Durbin and Levinson mixes each with its mirror image.
        for low in 0..order.div_ceil(2) {
            let high = order - 1 - low;
            let (first, last) = (coefficients[low], coefficients[high]);
            coefficients[low] = first - partial * last;
            coefficients[high] = last - partial * first;
        }
        coefficients.push(partial);
    }
}

/// The coefficients of the product of a polynomial with one in steps of a season, both as `1 + sign (c1 B + ...)`.
pub(super) fn product(short: &[f64], long: &[f64], season: usize, sign: f64, into: &mut Vec<f64>) {
    into.clear();
    into.resize(short.len() + season * long.len(), 0.0);
    into[..short.len()].copy_from_slice(short);
    for (index, outer) in long.iter().enumerate() {
        let lag = season * (index + 1);
        into[lag - 1] += outer;
        for (inner, coefficient) in short.iter().enumerate() {
            into[lag + inner] += sign * outer * coefficient;
        }
    }
}

/// The best predictors of an autoregression's process by 1, 2 ... values, each as long as its number of values and the
/// last its own coefficients, by the recursion of Durbin and Levinson read backwards; their last elements are the partial
/// autocorrelations. Whether it is stationary, without which there are none.
pub(super) fn predictors(coefficients: &[f64], into: &mut Vec<f64>) -> bool {
    let count = coefficients.len();
    into.clear();
    into.resize(triangle(count) + count, 0.0);
    into[triangle(count)..].copy_from_slice(coefficients);
    for order in (0..count).rev() {
        let (lower, upper) = into.split_at_mut(triangle(order + 1));
        let partial = upper[order];
        let rest = 1.0 - partial * partial;
        if rest.is_nan() || rest <= 0.0 {
            return false;
        }
        for lag in 0..order {
            lower[triangle(order) + lag] = (upper[lag] + partial * upper[order - 1 - lag]) / rest;
        }
    }
    true
}

/// Where the predictor by `order` values begins.
pub(super) fn triangle(order: usize) -> usize {
    order * order.saturating_sub(1) / 2
}

/// Whether all roots of `1 - c1 z - c2 z^2 ...` are further from 0 than `radius`.
pub(super) fn roots_beyond(coefficients: &[f64], radius: f64) -> bool {
    let mut power = 1.0;
    let grown: Vec<f64> = coefficients
        .iter()
        .map(|coefficient| {
            power *= radius;
            coefficient * power
        })
        .collect();
    predictors(&grown, &mut Vec::new())
}

/// The coefficients of the differences, `(1 - B)^d (1 - B^season)^D = 1 - c1 B - c2 B^2 ...`.
pub(super) fn differences(plain: usize, seasonal: usize, season: usize) -> Vec<f64> {
    let mut polynomial = vec![1.0];
    for lag in std::iter::repeat_n(1, plain).chain(std::iter::repeat_n(season, seasonal)) {
        let mut next = polynomial.clone();
        next.resize(polynomial.len() + lag, 0.0);
        polynomial.iter().enumerate().for_each(|(index, coefficient)| next[index + lag] -= coefficient);
        polynomial = next;
    }
    polynomial[1..].iter().map(|coefficient| -coefficient).collect()
}

/// `values` differenced: shorter by the number of `coefficients`.
pub(super) fn difference(values: &[f64], plain: usize, seasonal: usize, season: usize) -> Vec<f64> {
    let mut current = values.to_vec();
    for lag in std::iter::repeat_n(season, seasonal).chain(std::iter::repeat_n(1, plain)) {
        current = (lag..current.len()).map(|step| current[step] - current[step - lag]).collect();
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_parameters_give_a_stationary_autoregression_with_their_partial_autocorrelations() {
        let parameters = [0.3, -1.2, 2.0, 0.1, -0.7];
        let mut coefficients = Vec::new();
        stationary(&parameters, &mut coefficients);
        let mut found = Vec::new();
        assert!(predictors(&coefficients, &mut found));
        for (order, parameter) in parameters.iter().enumerate() {
            let found = found[triangle(order + 1) + order];
            assert!((found - parameter.tanh()).abs() < 1e-12, "{found} {parameter}");
        }
        assert!(!predictors(&[1.0], &mut found) && !predictors(&[0.5, 0.6], &mut found));
    }

    #[test]
    fn roots_are_compared_with_a_radius() {
        assert!(roots_beyond(&[0.5], 1.99) && !roots_beyond(&[0.5], 2.01));
        // The roots of 1 - 0.25 z^2 are -2 and 2.
        assert!(roots_beyond(&[0.0, 0.25], 1.99) && !roots_beyond(&[0.0, 0.25], 2.01));
        assert!(roots_beyond(&[], 5.0));
    }

    #[test]
    fn products_and_differences() {
        let mut product_of = Vec::new();
        product(&[0.5], &[0.2], 3, -1.0, &mut product_of);
        assert_eq!(product_of, [0.5, 0.0, 0.2, -0.1]);
        assert_eq!(differences(1, 1, 3), [1.0, 0.0, 1.0, -1.0]);
        assert_eq!(differences(2, 0, 1), [2.0, -1.0]);
        assert_eq!(difference(&[1.0, 4.0, 9.0, 16.0, 25.0], 2, 0, 1), [2.0, 2.0, 2.0]);
        assert_eq!(difference(&[1.0, 4.0, 9.0, 16.0, 25.0], 0, 1, 3), [15.0, 21.0]);
    }
}
