//! What steps make of numbers.

use super::super::linear;
use crate::Error;

/// A table of what is stored as its index.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($variant:ident),* $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $($variant),* }

        impl $name {
            const ALL: &'static [$name] = &[$($name::$variant),*];

            pub(super) fn word(self) -> usize {
                self as usize
            }

            pub(super) fn of(word: usize) -> Result<$name, Error> {
                let found = $name::ALL.get(word).copied();
                found.ok_or_else(|| Error::Model(format!("a step has function {word}, which is not known")))
            }
        }
    };
}

words! {
    /// Functions of a number `x`, some with a constant `a`. Their order is stored: new ones come last.
    Unary {
        Relu, Sigmoid, Tanh, Exp, Log, Neg, Abs, Sqrt, Reciprocal, Floor, Ceil, Round, Trunc, Sign, Not, IsNan, IsTrue,
        Erf, Softplus, Softsign, LeakyRelu, Elu, HardSigmoid, Above, AtMost, AtLeast, Missing, Sin, Cos,
    }
}

words! {
    /// Functions of two numbers. Their order is stored: new ones come last.
    Binary {
        Add, Sub, Mul, Div, Pow, Min, Max, Equal, Less, LessOrEqual, Greater, GreaterOrEqual, And, Or, Xor, OrElse,
    }
}

words! {
    /// What becomes one number. Their order is stored: new ones come last.
    Fold { Sum, Mean, Max, Min, Product, L1, L2, SumSquare, LogSumExp, ArgMax, ArgMin }
}

words! {
    /// What becomes as many numbers. Their order is stored: new ones come last.
    Spread { Softmax, LogSoftmax, L1, L2, Max }
}

impl Unary {
    #[expect(clippy::too_many_lines, reason = "a list")]
    pub(crate) fn apply(self, x: f32, a: f32) -> f32 {
        let flag = |flag: bool| f32::from(u8::from(flag));
        match self {
            // Not f32::max, which takes the number where the other is NaN.
            Unary::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Unary::Sigmoid => logistic(x),
            Unary::Tanh => x.tanh(),
            Unary::Exp => x.exp(),
            Unary::Log => x.ln(),
            Unary::Neg => -x,
            Unary::Abs => x.abs(),
            Unary::Sqrt => x.sqrt(),
            Unary::Reciprocal => 1.0 / x,
            Unary::Floor => x.floor(),
            Unary::Ceil => x.ceil(),
            Unary::Round => x.round_ties_even(),
            Unary::Trunc => x.trunc(),
            Unary::Sign => {
                if x > 0.0 {
                    1.0
                } else if x < 0.0 {
                    -1.0
                } else {
                    x
                }
            }
            Unary::Not => flag(x == 0.0),
            Unary::IsNan => flag(x.is_nan()),
            Unary::IsTrue => flag(x != 0.0),
            Unary::Erf => erf(x),
            Unary::Softplus => (f64::from(x).exp().ln_1p() as f32).max(x),
            Unary::Softsign => x / (1.0 + x.abs()),
            Unary::LeakyRelu => {
                if x < 0.0 {
                    a * x
                } else {
                    x
                }
            }
            Unary::Elu => {
                if x < 0.0 {
                    a * x.exp_m1()
                } else {
                    x
                }
            }
            Unary::HardSigmoid => (a * x + 0.5).clamp(0.0, 1.0),
            Unary::Above => flag(x > a),
            Unary::AtMost => {
                if x > a {
                    a
                } else {
                    x
                }
            }
            Unary::AtLeast => {
                if x < a {
                    a
                } else {
                    x
                }
            }
            Unary::Missing => {
                if x == a {
                    f32::NAN
                } else {
                    x
                }
            }
            Unary::Sin => x.sin(),
            Unary::Cos => x.cos(),
        }
    }
}

impl Binary {
    pub(crate) fn apply(self, x: f32, y: f32) -> f32 {
        let flag = |flag: bool| f32::from(u8::from(flag));
        match self {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x * y,
            Binary::Div => x / y,
            Binary::Pow => x.powf(y),
            Binary::Min => {
                if y < x || y.is_nan() {
                    y
                } else {
                    x
                }
            }
            Binary::Max => {
                if y > x || y.is_nan() {
                    y
                } else {
                    x
                }
            }
            Binary::Equal => flag(x == y),
            Binary::Less => flag(x < y),
            Binary::LessOrEqual => flag(x <= y),
            Binary::Greater => flag(x > y),
            Binary::GreaterOrEqual => flag(x >= y),
            Binary::And => flag(x != 0.0 && y != 0.0),
            Binary::Or => flag(x != 0.0 || y != 0.0),
            Binary::Xor => flag((x != 0.0) != (y != 0.0)),
            Binary::OrElse => {
                if x.is_nan() {
                    y
                } else {
                    x
                }
            }
        }
    }
}

impl Fold {
    pub(super) fn apply(self, group: &[f32]) -> f32 {
        let numbers = group.iter().map(|x| f64::from(*x));
        // NaN wins, and of equals the first.
        let best = |better: fn(f32, f32) -> bool| {
            let pick = |best: usize, (index, x): (usize, &f32)| {
                if better(*x, group[best]) || (x.is_nan() && !group[best].is_nan()) { index } else { best }
            };
            group.iter().enumerate().fold(0, pick)
        };
        let at = |index: usize| group.get(index).copied().unwrap_or(0.0);
        match self {
            Fold::Sum => numbers.sum::<f64>() as f32,
            Fold::Mean => (numbers.sum::<f64>() / group.len() as f64) as f32,
            Fold::Max => at(best(|x, y| x > y)),
            Fold::Min => at(best(|x, y| x < y)),
            Fold::Product => numbers.product::<f64>() as f32,
            Fold::L1 => numbers.map(f64::abs).sum::<f64>() as f32,
            Fold::L2 => numbers.map(|x| x * x).sum::<f64>().sqrt() as f32,
            Fold::SumSquare => numbers.map(|x| x * x).sum::<f64>() as f32,
            Fold::LogSumExp => log_sum_exp(group) as f32,
            Fold::ArgMax => best(|x, y| x > y) as f32,
            Fold::ArgMin => best(|x, y| x < y) as f32,
        }
    }
}

impl Spread {
    pub(super) fn apply(self, group: &[f32], out: &mut [f32]) {
        if self == Spread::Softmax || self == Spread::LogSoftmax {
            let log = log_sum_exp(group);
            for (out, x) in out.iter_mut().zip(group) {
                let share = f64::from(*x) - log;
                *out = if self == Spread::Softmax { share.exp() } else { share } as f32;
            }
            return;
        }
        let size = match self {
            Spread::L1 => Fold::L1.apply(group),
            Spread::L2 => Fold::L2.apply(group),
            _ => Fold::Max.apply(group),
        };
        for (out, x) in out.iter_mut().zip(group) {
            *out = if size == 0.0 { *x } else { x / size };
        }
    }
}

fn log_sum_exp(group: &[f32]) -> f64 {
    let largest = group.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if !largest.is_finite() {
        return f64::from(largest);
    }
    let largest = f64::from(largest);
    largest + group.iter().map(|x| (f64::from(*x) - largest).exp()).sum::<f64>().ln()
}

fn logistic(x: f32) -> f32 {
    linear::logistic(f64::from(x)) as f32
}

/// The error function, by its series near 0 and by the continued fraction of its complement elsewhere.
fn erf(x: f32) -> f32 {
    let x = f64::from(x);
    let (size, squared) = (x.abs(), x * x);
    if size < 2.0 {
        let mut term = x;
        let mut sum = x;
        for n in 1..60 {
            let n = f64::from(n);
            term *= -squared / n;
            sum += term / (2.0 * n + 1.0);
        }
        return (sum * std::f64::consts::FRAC_2_SQRT_PI) as f32;
    }
    let fraction = (1..60).rev().fold(size, |rest, n| size + f64::from(n) / 2.0 / rest);
    let complement = (-squared).exp() / (fraction * std::f64::consts::PI.sqrt());
    if x.is_nan() { f32::NAN } else { (x.signum() * (1.0 - complement)) as f32 }
}
