//! The regression of a differenced series on its constant and regressors, whose coefficients need no search: given those
//! of the ARMA process they are those of generalised least squares, of the series and the columns after the filter
//! (Harvey and Phillips, 1979).

use super::{Orders, polynomial};
use crate::{Series, scale};

/// The share of a column that the others must leave for it to be told from them.
const DISTINCT: f64 = 1e-8;
/// What rounding may leave of values of 1 by differencing.
const ROUNDING: f64 = 1e-14;

/// A series made ready for models with the same differences and the same constant.
pub(super) struct Design {
    /// The differenced series without its regression by ordinary least squares, divided by `scale`.
    pub residual: Vec<f64>,
    /// The differenced columns, made orthonormal; those that tell nothing new are missing.
    pub basis: Vec<Vec<f64>>,
    /// What the residual was divided by, 0 if nothing is left but rounding.
    pub scale: f64,
    /// The number of columns, the missing ones as well.
    columns: usize,
    /// Of each element of the basis: its column, and the coefficients by which the column is made of the basis so far.
    made: Vec<(usize, Vec<f64>)>,
    /// Of each element of the basis, its coefficient by ordinary least squares.
    least_squares: Vec<f64>,
    /// Of each column, what its coefficient is multiplied by.
    units: Vec<f64>,
    /// What the series was divided by.
    unit: f64,
}

impl Design {
    pub fn new(series: &Series, orders: &Orders) -> Design {
        let (d, seasonal_d) = (orders.plain.1, orders.seasonal.1);
        let difference = |values: &[f64]| polynomial::difference(values, d, seasonal_d, orders.season);
        let rounding = ROUNDING * 2.0_f64.powi((d + seasonal_d).min(50) as i32);
        let unit = scale::of(series.values);
        let scaled = scale::divide(series.values, unit);
        let mut residual = difference(&scaled);
        let length = residual.len();
        let constant = orders.constant.then(|| vec![orders.constant_slope(); length]);
        let mut design = Design {
            residual: Vec::new(),
            basis: Vec::new(),
            scale: 0.0,
            columns: usize::from(orders.constant) + series.regressors.len(),
            made: Vec::new(),
            least_squares: Vec::new(),
            units: vec![1.0; usize::from(orders.constant)],
            unit,
        };
        let mut columns: Vec<Vec<f64>> = constant.into_iter().collect();
        for regressor in series.regressors {
            let unit = largest(regressor);
            design.units.push(unit);
            columns.push(difference(&scale::divide(regressor, if unit > 0.0 { unit } else { 1.0 })));
        }
        for (index, column) in columns.into_iter().enumerate() {
            design.add(index, column, rounding);
        }
        // Twice, as the first residual still holds what rounding has left of the columns.
        design.least_squares = vec![0.0; design.basis.len()];
        for _ in 0..2 {
            for (element, coefficient) in design.basis.iter().zip(&mut design.least_squares) {
                *coefficient += project(&mut residual, element);
            }
        }
        let size = norm(&residual) / (length.max(1) as f64).sqrt();
        if length > design.basis.len() && size > rounding * largest(&scaled) {
            residual.iter_mut().for_each(|value| *value /= size);
            design.scale = size;
        } else {
            residual.fill(0.0);
        }
        design.residual = residual;
        design.units.iter_mut().for_each(|of| *of = unit / if *of > 0.0 { *of } else { 1.0 });
        design.scale *= unit;
        design
    }

    fn add(&mut self, index: usize, mut column: Vec<f64>, rounding: f64) {
        let before = norm(&column);
        let mut coefficients = vec![0.0; self.basis.len()];
        for _ in 0..2 {
            for (element, coefficient) in self.basis.iter().zip(&mut coefficients) {
                *coefficient += project(&mut column, element);
            }
        }
        let left = norm(&column);
        let smallest = rounding * (column.len() as f64).sqrt();
        if left > smallest && left > DISTINCT * before && self.basis.len() < column.len() {
            column.iter_mut().for_each(|value| *value /= left);
            coefficients.push(left);
            self.basis.push(column);
            self.made.push((index, coefficients));
        }
    }

    /// The residual and the basis, to be filtered together.
    pub fn filtered(&self) -> Vec<&[f64]> {
        std::iter::once(&self.residual).chain(&self.basis).map(Vec::as_slice).collect()
    }

    /// Coefficients of the columns in units of the series, by those of the basis for the residual.
    pub fn coefficients(&self, of_basis: &[f64]) -> Vec<f64> {
        let size = self.scale / self.unit;
        let mut rest: Vec<f64> =
            self.least_squares.iter().zip(of_basis).map(|(least, more)| least + more * size).collect();
        let mut coefficients = vec![0.0; self.columns];
        for (position, (column, made)) in self.made.iter().enumerate().rev() {
            let coefficient = rest[position] / made[position];
            rest.iter_mut().zip(made).for_each(|(rest, part)| *rest -= coefficient * part);
            coefficients[*column] = coefficient * self.units[*column];
        }
        coefficients
    }
}

/// Of sums of products as [`super::kalman::Sums`] has them, the first row that of the residual: what generalised least
/// squares leave of the residual's, and the coefficients of the other rows.
pub(super) fn least_squares(products: &[f64], coefficients: &mut Vec<f64>) -> f64 {
    let at = |row: usize, column: usize| {
        let (row, column) = (row.max(column), row.min(column));
        products[row * (row + 1) / 2 + column]
    };
    let size = ((8 * products.len() + 1) as f64).sqrt() as usize / 2;
    coefficients.clear();
    match size {
        0 | 1 => return products.first().copied().unwrap_or(0.0),
        2 => {
            // By far the most common one: the constant alone.
            let coefficient = if at(1, 1) > 0.0 { at(1, 0) / at(1, 1) } else { 0.0 };
            coefficients.push(coefficient);
            return at(0, 0) - coefficient * at(1, 0);
        }
        _ => {}
    }
    // The factor of Cholesky, the residual's row last.
    let order = |index: usize| if index + 1 == size { 0 } else { index + 1 };
    let mut factor = vec![0.0; size * size];
    for row in 0..size {
        for column in 0..=row {
            let done: f64 = (0..column).map(|k| factor[row * size + k] * factor[column * size + k]).sum();
            let left = at(order(row), order(column)) - done;
            factor[row * size + column] = if row > column {
                let pivot = factor[column * size + column];
                if pivot > 0.0 { left / pivot } else { 0.0 }
            } else if row + 1 == size {
                left
            } else if left > 1e-13 * at(order(row), order(row)) {
                left.sqrt()
            } else {
                0.0
            };
        }
    }
    let last = size - 1;
    coefficients.resize(last, 0.0);
    for row in (0..last).rev() {
        let known: f64 = (row + 1..last).map(|k| factor[k * size + row] * coefficients[k]).sum();
        let pivot = factor[row * size + row];
        coefficients[row] = if pivot > 0.0 { (factor[last * size + row] - known) / pivot } else { 0.0 };
    }
    factor[size * size - 1]
}

/// Takes from `values` its part along `element`, whose coefficient it returns.
fn project(values: &mut [f64], element: &[f64]) -> f64 {
    let coefficient: f64 = values.iter().zip(element).map(|(value, element)| value * element).sum();
    values.iter_mut().zip(element).for_each(|(value, element)| *value -= coefficient * element);
    coefficient
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}
