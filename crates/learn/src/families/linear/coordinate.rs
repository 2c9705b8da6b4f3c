//! Coordinate descent for least squares with costs on the coefficients: one coefficient at a time is set to where the
//! objective is least, all others as they are (Friedman, Hastie and Tibshirani, 2010). The duality gap says when it is
//! enough (Kim, Koh, Lustig, Boyd and Gorinevsky, 2007).

use faer::{Mat, MatRef};

use crate::Error;
use crate::family::Control;
use crate::numerics::algebra::Moments;
use crate::numerics::pace::Pace;
use crate::random::Random;

/// What coefficients cost: half the squares of the residuals, `l1` times the absolute values of the coefficients and half
/// of `l2` times their squares are the objective.
#[derive(Clone, Copy)]
pub(crate) struct Costs {
    pub(crate) l1: f64,
    pub(crate) l2: f64,
    /// Whether no coefficient may be negative.
    pub(crate) positive: bool,
}

/// How a descent goes and ends.
pub(crate) struct Settings {
    pub(crate) costs: Costs,
    pub(crate) max_iter: usize,
    pub(crate) tol: f64,
    /// Draws the coordinates; they take turns without it.
    pub(crate) random: Option<Random>,
}

/// The rows, as their products where they are more than features, or themselves.
pub(crate) enum Products<'a> {
    /// Features by features; the sum of the squares of the targets; features by target, less what the coefficients
    /// explain already.
    Gram(&'a Mat<f64>, f64, Vec<f64>),
    /// Features, and targets less what the coefficients explain already.
    Rows(MatRef<'a, f64>, Vec<f64>),
}

impl Products<'_> {
    /// Of a target.
    pub(crate) fn of(moments: &Moments, target: usize) -> Products<'_> {
        let products = moments.products.col_as_slice(target).to_vec();
        Products::Gram(&moments.gram, moments.squares[target], products)
    }

    fn width(&self) -> usize {
        match self {
            Products::Gram(gram, ..) => gram.ncols(),
            Products::Rows(features, _) => features.ncols(),
        }
    }

    fn length(&self) -> usize {
        match self {
            Products::Gram(gram, ..) => gram.ncols(),
            Products::Rows(features, _) => features.nrows(),
        }
    }

    /// The square of a feature.
    fn square(&self, feature: usize) -> f64 {
        match self {
            Products::Gram(gram, ..) => gram[(feature, feature)],
            Products::Rows(features, _) => features.col(feature).squared_norm_l2(),
        }
    }

    /// The product of a feature and the residuals.
    fn product(&self, feature: usize) -> f64 {
        match self {
            Products::Gram(_, _, products) => products[feature],
            Products::Rows(features, residuals) => {
                features.col(feature).iter().zip(residuals).map(|(feature, residual)| feature * residual).sum()
            }
        }
    }

    /// Adds to the coefficient of a feature.
    fn move_by(&mut self, feature: usize, step: f64) {
        let (column, products) = match self {
            Products::Gram(gram, _, products) => (gram.as_ref().col(feature), products),
            Products::Rows(features, residuals) => (features.col(feature), residuals),
        };
        for (product, value) in products.iter_mut().zip(column.iter()) {
            *product -= step * value;
        }
    }

    /// The squares of the targets where no coefficient explains anything yet.
    fn target_square(&self) -> f64 {
        match self {
            Products::Gram(_, square, _) => *square,
            Products::Rows(_, residuals) => residuals.iter().map(|residual| residual * residual).sum(),
        }
    }

    /// The sum of the squares of the residuals, and that of the products of residuals and targets. `products` are those
    /// of the features and the residuals, `targets` those of the features and the targets.
    fn residuals(&self, coefficients: &[f64], products: &[f64], targets: &[f64]) -> (f64, f64) {
        let explained = |of: &[f64]| -> f64 { coefficients.iter().zip(of).map(|(a, b)| a * b).sum() };
        match self {
            Products::Gram(_, square, _) => {
                let with_target = square - explained(targets);
                ((with_target - explained(products)).max(0.0), with_target)
            }
            Products::Rows(_, residuals) => {
                let square: f64 = residuals.iter().map(|residual| residual * residual).sum();
                (square, square + explained(products))
            }
        }
    }
}

/// The coefficients, and whether they are as exact as `tol` demands: the duality gap is at most `tol` times the squares
/// of the targets.
pub(crate) fn descend(
    mut rows: Products<'_>,
    mut settings: Settings,
    control: &mut Control<'_>,
) -> Result<(Vec<f64>, bool), Error> {
    let Costs { l1, l2, positive } = settings.costs;
    let width = rows.width();
    let mut coefficients = vec![0.0; width];
    let squares: Vec<f64> = (0..width).map(|feature| rows.square(feature)).collect();
    let targets: Vec<f64> = (0..width).map(|feature| rows.product(feature)).collect();
    let enough = settings.tol * rows.target_square();
    let mut pace = Pace::default();
    for pass in 0..settings.max_iter {
        let (mut largest, mut largest_step) = (0.0_f64, 0.0_f64);
        for turn in 0..width {
            let feature = settings.random.as_mut().map_or(turn, |random| random.index(width));
            if squares[feature] <= 0.0 {
                continue;
            }
            let before = coefficients[feature];
            let reach = rows.product(feature) + before * squares[feature];
            let size = if positive { reach - l1 } else { reach.abs() - l1 };
            let after = if size > 0.0 { size.copysign(reach) / (squares[feature] + l2) } else { 0.0 };
            if after != before {
                rows.move_by(feature, after - before);
                coefficients[feature] = after;
            }
            largest_step = largest_step.max((after - before).abs());
            largest = largest.max(after.abs());
            pace.spend(2 * rows.length(), control)?;
        }
        let last = pass + 1 == settings.max_iter;
        if largest == 0.0 || largest_step <= settings.tol * largest || last {
            let products: Vec<f64> = (0..width).map(|feature| rows.product(feature)).collect();
            let residuals = rows.residuals(&coefficients, &products, &targets);
            if largest_step == 0.0 || gap(settings.costs, &coefficients, &products, residuals) <= enough {
                return Ok((coefficients, true));
            }
        }
    }
    Ok((coefficients, false))
}

/// How far the objective may be above the least at most.
fn gap(costs: Costs, coefficients: &[f64], products: &[f64], (square, with_target): (f64, f64)) -> f64 {
    let Costs { l1, l2, positive } = costs;
    let slopes = products.iter().zip(coefficients).map(|(product, coefficient)| product - l2 * coefficient);
    let length: f64 = coefficients.iter().map(|coefficient| coefficient * coefficient).sum();
    if l1 == 0.0 {
        // Without it the objective is smooth, and convex to the degree of `l2`: its slope bounds the gap.
        let free =
            slopes.zip(coefficients).filter(|(slope, coefficient)| !positive || **coefficient > 0.0 || *slope > 0.0);
        let slope: f64 = free.map(|(slope, _)| slope * slope).sum();
        return if l2 > 0.0 { slope / (2.0 * l2) } else { 0.0 };
    }
    let steepest = slopes.map(|slope| if positive { slope } else { slope.abs() }).fold(0.0, f64::max);
    let scale = if steepest > l1 { l1 / steepest } else { 1.0 };
    let absolute: f64 = coefficients.iter().map(|coefficient| coefficient.abs()).sum();
    0.5 * square * (1.0 + scale * scale) - scale * with_target
        + l1 * absolute
        + 0.5 * l2 * (1.0 + scale * scale) * length
}
