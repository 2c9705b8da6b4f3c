//! What is done to each number of the activations: activation functions, softmax, normalisation of layers.
//!
//! All of it is written so that the compiler makes vectors of it, and compiled for the instructions that most processors
//! have today beside those that all have.

/// Declares functions that run on the best instructions of this machine.
macro_rules! vectors {
    ($($(#[$meta:meta])* pub fn $name:ident($($argument:ident: $kind:ty),*) $body:block)*) => {$(
        $(#[$meta])*
        pub fn $name($($argument: $kind),*) {
            #[inline(always)]
            fn plain($($argument: $kind),*) $body

            /// # Safety
            /// The processor has the features.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn wide($($argument: $kind),*) {
                plain($($argument),*);
            }

            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: it has them.
                return unsafe { wide($($argument),*) };
            }
            plain($($argument),*);
        }
    )*};
}

/// e^x, to one or two units of the last place; never infinite.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Added, it rounds to a whole number, in the low bits.
    const ROUND: f32 = 12_582_912.0;
    /// The logarithm of 2 in two parts, the first of few bits.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    let x = x.clamp(-87.0, 88.0);
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let whole = rounded - ROUND;
    let rest = x - whole * LN_2.0 - whole * LN_2.1;
    // Taylor's series: the rest is at most 0.347.
    let series = 1.0 / 5040.0;
    let series = series * rest + 1.0 / 720.0;
    let series = series * rest + 1.0 / 120.0;
    let series = series * rest + 1.0 / 24.0;
    let series = series * rest + 1.0 / 6.0;
    let series = series * rest + 0.5;
    let series = series * rest + 1.0;
    let series = series * rest + 1.0;
    let power = rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    series * f32::from_bits(power)
}

/// The error function, to 2e-7: formula 7.1.26 of Abramowitz and Stegun.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let size = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * size);
    let sum = 1.061_405_4;
    let sum = sum * t - 1.453_152_1;
    let sum = sum * t + 1.421_413_8;
    let sum = sum * t - 0.284_496_74;
    let sum = sum * t + 0.254_829_6;
    (1.0 - sum * t * exp(-size * size)).copysign(x)
}

#[inline(always)]
fn tanh_of(x: f32) -> f32 {
    let power = exp(2.0 * x.clamp(-9.0, 9.0));
    (power - 1.0) / (power + 1.0)
}

/// Values of which some sums are made at once.
const SUMS: usize = 16;

#[inline(always)]
fn sum_of(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0f32; SUMS];
    let (chunks, rest) = values.as_chunks::<SUMS>();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += of(*value);
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += of(*value);
    }
    sums.iter().sum()
}

vectors! {
    /// Adds to each row.
    pub fn add_to_rows(rows: &mut [f32], stride: usize, bias: &[f32]) {
        for row in rows.chunks_exact_mut(stride) {
            for (value, bias) in row.iter_mut().zip(bias) {
                *value += bias;
            }
        }
    }

    /// x * Phi(x), by the error function.
    pub fn gelu(values: &mut [f32]) {
        for value in values {
            *value = 0.5 * *value * (1.0 + erf(*value * std::f32::consts::FRAC_1_SQRT_2));
        }
    }

    /// The same, approximated by the hyperbolic tangent.
    pub fn gelu_by_tanh(values: &mut [f32]) {
        for value in values {
            let inner = 0.797_884_6 * (*value + 0.044_715 * *value * *value * *value);
            *value = 0.5 * *value * (1.0 + tanh_of(inner));
        }
    }

    pub fn relu(values: &mut [f32]) {
        for value in values {
            *value = value.max(0.0);
        }
    }

    pub fn tanh(values: &mut [f32]) {
        for value in values {
            *value = tanh_of(*value);
        }
    }

    /// Makes the first `count` values of each row a distribution: e^(scale * x), divided by the sum.
    pub fn softmax(rows: &mut [f32], stride: usize, count: usize, scale: f32) {
        for row in rows.chunks_exact_mut(stride) {
            let row = &mut row[..count];
            let mut largest = [f32::MIN; SUMS];
            for chunk in row.chunks(SUMS) {
                for (largest, value) in largest.iter_mut().zip(chunk) {
                    *largest = largest.max(*value);
                }
            }
            let largest = largest.iter().fold(f32::MIN, |one, other| one.max(*other));
            for value in row.iter_mut() {
                *value = exp((*value - largest) * scale);
            }
            let share = 1.0 / sum_of(row, |value| value);
            for value in row {
                *value *= share;
            }
        }
    }

    /// Has the values of each row the mean 0 and the variance 1, then multiplies and adds what was learnt.
    pub fn normalize_rows(rows: &mut [f32], stride: usize, weight: &[f32], bias: &[f32], epsilon: f32) {
        for row in rows.chunks_exact_mut(stride) {
            let row = &mut row[..weight.len()];
            let count = row.len() as f32;
            let mean = sum_of(row, |value| value) / count;
            let variance = sum_of(row, |value| (value - mean) * (value - mean)) / count;
            let scale = 1.0 / (variance + epsilon).sqrt();
            for ((value, weight), bias) in row.iter_mut().zip(weight).zip(bias) {
                *value = (*value - mean) * scale * weight + bias;
            }
        }
    }
}

/// Divides by the length, if it has one.
pub fn to_unit_length(values: &mut [f32]) {
    let length = values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt().max(1e-12);
    for value in values {
        *value = (f64::from(*value) / length) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_the_standard_librarys() {
        for step in -8000..8000 {
            let x = step as f32 / 100.0;
            let (found, exact) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((found / exact - 1.0).abs() < 4e-7, "{x}: {found} {exact}");
        }
        assert!(exp(f32::MIN) < 1e-37 && exp(f32::MAX).is_finite());
    }

    /// The error function by its series, which for these takes less than 100 terms.
    fn series(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..100 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn erf_is_close_to_its_series() {
        for step in -350..=350 {
            let x = step as f32 / 100.0;
            assert!((f64::from(erf(x)) - series(f64::from(x))).abs() < 4e-7, "{x}");
        }
        assert_eq!((erf(9.0), erf(-9.0)), (1.0, -1.0));
    }

    #[test]
    fn softmax_of_a_row_is_a_distribution_and_leaves_the_padding() {
        let mut row = [1.0, 2.0, 3.0, 1000.0];
        softmax(&mut row, 4, 3, 1.0);
        assert!((row[..3].iter().sum::<f32>() - 1.0).abs() < 1e-6 && (row[2] - 0.665_240_94).abs() < 1e-6);
        assert!((row[3] - 1000.0).abs() < f32::EPSILON);
    }

    #[test]
    fn normalized_rows_have_mean_0_and_variance_1() {
        let mut row = [1.0, 2.0, 3.0, 4.0];
        normalize_rows(&mut row, 4, &[1.0; 4], &[0.0; 4], 0.0);
        assert!((row[0] + 1.341_640_8).abs() < 1e-6 && row.iter().sum::<f32>().abs() < 1e-6);
    }
}
