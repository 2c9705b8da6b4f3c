//! Many rows become as many as there are features, without a difference to least squares: the triangle R of a
//! decomposition by Householder's reflections, and the targets as it sees them. Block by block, so that a training can be
//! ended between two.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, MatMut, Par};

use crate::Error;
use crate::family::{Control, zeros};

/// Columns a block.
const BLOCK: usize = 32;

/// Multiplications between two looks for the end of a training.
const AT_ONCE: usize = 1 << 26;

/// The triangle, and the first rows of the targets; there are no fewer rows than features.
pub(crate) fn triangle(
    mut features: Mat<f64>,
    mut targets: Mat<f64>,
    control: &mut Control<'_>,
) -> Result<(Mat<f64>, Mat<f64>), Error> {
    let (rows, columns) = (features.nrows(), features.ncols());
    for start in (0..columns).step_by(BLOCK) {
        let size = BLOCK.min(columns - start);
        let (block, rest) = features
            .as_mut()
            .subrows_mut(start, rows - start)
            .subcols_mut(start, columns - start)
            .split_at_col_mut(size);
        let (reflectors, turns) = reflect(block, control)?;
        apply(&reflectors, &turns, rest, control)?;
        apply(&reflectors, &turns, targets.as_mut().subrows_mut(start, rows - start), control)?;
    }
    let triangle =
        Mat::from_fn(columns, columns, |row, column| if row <= column { features[(row, column)] } else { 0.0 });
    Ok((triangle, targets.subrows(0, columns).to_owned()))
}

/// Makes a block a triangle; gives the reflections V and T that did it: I - V T Vᵀ, each of V with 1 as its first.
fn reflect(mut block: MatMut<'_, f64>, control: &mut Control<'_>) -> Result<(Mat<f64>, Mat<f64>), Error> {
    let (rows, columns) = (block.nrows(), block.ncols());
    let (mut reflectors, mut turns) = (zeros(rows, columns)?, zeros(columns, columns)?);
    for column in 0..columns {
        let mut own = block.as_mut().col_mut(column);
        let squares: f64 = (column + 1..rows).map(|row| own[row] * own[row]).sum();
        let head = own[column];
        let norm = (head * head + squares).sqrt();
        reflectors[(column, column)] = 1.0;
        if squares > 0.0 {
            let first = head + norm.copysign(head);
            let turn = first / norm.copysign(head);
            let values = reflectors.col_as_slice_mut(column);
            for row in column + 1..rows {
                values[row] = own[row] / first;
                own[row] = 0.0;
            }
            own[column] = -norm.copysign(head);
            turns[(column, column)] = turn;
            for other in column + 1..columns {
                let mut other = block.as_mut().col_mut(other);
                let product: f64 = (column..rows).map(|row| values[row] * other[row]).sum();
                for row in column..rows {
                    other[row] -= turn * product * values[row];
                }
            }
        }
        // T of the reflections so far, and this one.
        let turn = turns[(column, column)];
        let own = reflectors.col_as_slice(column);
        let products: Vec<f64> = (0..column)
            .map(|before| reflectors.col_as_slice(before).iter().zip(own).skip(column).map(|(a, b)| a * b).sum())
            .collect();
        for row in 0..column {
            let sum: f64 = (row..column).map(|before| turns[(row, before)] * products[before]).sum();
            turns[(row, column)] = -turn * sum;
        }
        control.check()?;
    }
    Ok((reflectors, turns))
}

/// Takes the reflections to other columns, some at a time: C - V Tᵀ Vᵀ C.
fn apply(
    reflectors: &Mat<f64>,
    turns: &Mat<f64>,
    mut columns: MatMut<'_, f64>,
    control: &mut Control<'_>,
) -> Result<(), Error> {
    let count = columns.ncols();
    let at_once = (AT_ONCE / (reflectors.nrows() * reflectors.ncols()).max(1)).max(1);
    for start in (0..count).step_by(at_once) {
        let some = columns.as_mut().subcols_mut(start, at_once.min(count - start));
        let products = turns.transpose() * (reflectors.transpose() * some.as_ref());
        matmul(some, Accum::Add, reflectors.as_ref(), products.as_ref(), -1.0, Par::Seq);
        control.check()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_triangle_has_the_products_of_the_rows() {
        let mut ask = |_| Ok(());
        let mut random = Random::new(8);
        for (rows, columns) in [(1, 1), (5, 5), (40, 3), (200, BLOCK), (300, 2 * BLOCK + 7)] {
            // The last but one is nothing, as a constant around its mean is.
            let features =
                Mat::from_fn(rows, columns, |_, column| if column + 2 == columns { 0.0 } else { random.normal() });
            let targets = Mat::from_fn(rows, 2, |_, _| random.normal());
            let (triangle, seen) = triangle(features.clone(), targets.clone(), &mut Control::new(&mut ask)).unwrap();
            let near = |a: Mat<f64>, b: Mat<f64>| (a - b).norm_max() < 1e-10;
            assert!(near(triangle.transpose() * &triangle, features.transpose() * &features), "{rows} {columns}");
            assert!(near(triangle.transpose() * &seen, features.transpose() * &targets), "{rows} {columns}");
        }
    }
}
