//! Cholesky's factor of a symmetric matrix, in place and block by block, so that a training can be ended between two.

use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, Mat, MatMut, Par};

use crate::Error;
use crate::family::{Control, large_zeros};
use crate::numerics::kernel::Kernel;
use crate::numerics::tiles::Tiles;

/// Columns a block.
const BLOCK: usize = 96;

/// Multiplications between two looks for the end of a training.
const MULTIPLICATIONS_AT_ONCE: usize = 1 << 26;

/// The kernels of all rows with one another.
pub(crate) fn gram(kernel: &Kernel, tiles: &Tiles, control: &mut Control<'_>) -> Result<Mat<f64>, Error> {
    let rows = tiles.rows();
    let mut gram = large_zeros(rows, rows, control)?;
    for row in 0..rows {
        let kernels = kernel.measure_all(tiles, &tiles.row(row));
        gram.col_as_slice_mut(row).copy_from_slice(&kernels[..rows]);
        control.check()?;
    }
    Ok(gram)
}

/// A row that was left out, and what `L x` has to be for the sum `x` of those before it that it is.
pub(crate) type LeftOut = (usize, Vec<f64>);

/// The factor L of `L Lᵀ`, the lower triangle; what is above it is left as it was.
pub(crate) struct Cholesky {
    pub(crate) factor: Mat<f64>,
}

impl Cholesky {
    /// Of the lower triangle of a matrix, `None` where it is not positive definite.
    pub(crate) fn new(matrix: Mat<f64>, control: &mut Control<'_>) -> Result<Option<Cholesky>, Error> {
        let rows = matrix.nrows();
        // A pivot that is so much less than what it came from is what rounding left of zero.
        let least: Vec<f64> = (0..rows).map(|row| matrix[(row, row)] * f64::EPSILON * rows as f64).collect();
        Cholesky::above(matrix, &least, control)
    }

    /// The same where each pivot is above the least; `None` where one is not.
    pub(crate) fn above(matrix: Mat<f64>, least: &[f64], control: &mut Control<'_>) -> Result<Option<Cholesky>, Error> {
        let (factor, left_out) = Cholesky::factor(matrix, least, false, control)?;
        Ok(left_out.is_empty().then_some(factor))
    }

    /// Of a matrix that is not definite: rows and columns whose pivots are not above the least are left out.
    pub(crate) fn leaving_out(
        matrix: Mat<f64>,
        least: &[f64],
        control: &mut Control<'_>,
    ) -> Result<(Cholesky, Vec<LeftOut>), Error> {
        let (mut factor, left_out) = Cholesky::factor(matrix, least, true, control)?;
        let rows = left_out.into_iter().map(|row| {
            let own = (0..row).map(|column| std::mem::take(&mut factor.factor[(row, column)])).collect();
            (row, own)
        });
        let rows = rows.collect();
        Ok((factor, rows))
    }

    /// The factor, and which rows were left out, if any may be; else it ends at the first.
    fn factor(
        mut matrix: Mat<f64>,
        least: &[f64],
        may_leave_out: bool,
        control: &mut Control<'_>,
    ) -> Result<(Cholesky, Vec<usize>), Error> {
        let rows = matrix.nrows();
        let mut left_out = Vec::new();
        for start in (0..rows).step_by(BLOCK) {
            let size = BLOCK.min(rows - start);
            let (done, rest) = matrix.as_mut().split_at_col_mut(start);
            let done = done.as_ref();
            let mut block = rest.subcols_mut(0, size).subrows_mut(start, rows - start);
            for before in (0..start).step_by(BLOCK) {
                let before = done.subcols(before, BLOCK).subrows(start, rows - start);
                let across = before.subrows(0, size).transpose();
                matmul(block.as_mut(), Accum::Add, before, across, -1.0, Par::Seq);
                control.check()?;
            }
            let (mut corner, mut below) = block.split_at_row_mut(size);
            let out = small(corner.as_mut(), &least[start..]);
            if !out.is_empty() && !may_leave_out {
                return Ok((Cholesky { factor: Mat::new() }, out));
            }
            solve_lower_triangular_in_place(corner.as_ref(), below.as_mut().transpose_mut(), Par::Seq);
            for column in &out {
                below.as_mut().col_mut(*column).fill(0.0);
            }
            left_out.extend(out.iter().map(|column| start + column));
            control.check()?;
        }
        Ok((Cholesky { factor: matrix }, left_out))
    }

    /// Solves for these right sides, in place.
    pub(crate) fn solve(&self, right: &mut Mat<f64>, control: &mut Control<'_>) -> Result<(), Error> {
        self.forward(right, control)?;
        self.backward(right, control)
    }

    /// Solves the other half of it: multiplies with the inverse of the transpose of L.
    pub(crate) fn backward(&self, right: &mut Mat<f64>, control: &mut Control<'_>) -> Result<(), Error> {
        self.by_columns(right, control, |columns| {
            solve_upper_triangular_in_place(self.factor.as_ref().transpose(), columns, Par::Seq);
        })
    }

    /// Solves half of it: multiplies with the inverse of L.
    pub(crate) fn forward(&self, right: &mut Mat<f64>, control: &mut Control<'_>) -> Result<(), Error> {
        self.by_columns(right, control, |columns| {
            solve_lower_triangular_in_place(self.factor.as_ref(), columns, Par::Seq);
        })
    }

    /// Does it to some right sides at a time: there may be a thousand.
    fn by_columns(
        &self,
        right: &mut Mat<f64>,
        control: &mut Control<'_>,
        solve: impl Fn(MatMut<'_, f64>),
    ) -> Result<(), Error> {
        let (rows, columns) = (self.factor.nrows(), right.ncols());
        let at_once = (MULTIPLICATIONS_AT_ONCE / (rows * rows).max(1)).max(1);
        for start in (0..columns).step_by(at_once) {
            control.check()?;
            solve(right.as_mut().subcols_mut(start, at_once.min(columns - start)));
        }
        control.check()
    }

    /// The logarithm of the determinant of L.
    pub(crate) fn log_determinant(&self) -> f64 {
        (0..self.factor.nrows()).map(|row| self.factor[(row, row)].ln()).sum()
    }
}

/// Factors a block, column by column; gives the columns whose pivots are not above the least, of which nothing is left.
fn small(mut block: MatMut<'_, f64>, least: &[f64]) -> Vec<usize> {
    let size = block.nrows();
    let mut left_out = Vec::new();
    for column in 0..size {
        for before in 0..column {
            let factor = block[(column, before)];
            for row in column..size {
                block[(row, column)] -= block[(row, before)] * factor;
            }
        }
        let pivot = block[(column, column)];
        if !(pivot > least[column].max(0.0) && pivot.is_finite()) {
            left_out.push(column);
            block[(column, column)] = 1.0;
            for row in column + 1..size {
                block[(row, column)] = 0.0;
            }
            continue;
        }
        let root = pivot.sqrt();
        for row in column..size {
            block[(row, column)] /= root;
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_factor_solves() {
        let mut ask = |_| Ok(());
        let mut control = Control::new(&mut ask);
        let mut random = Random::new(5);
        for size in [1, 2, BLOCK, BLOCK + 1, 3 * BLOCK - 5] {
            let half = Mat::from_fn(size, size, |_, _| random.normal());
            let matrix = &half * half.transpose() + Mat::<f64>::identity(size, size);
            let expected = Mat::from_fn(size, 2, |_, _| random.normal());
            let mut right = &matrix * &expected;
            let cholesky = Cholesky::new(matrix.clone(), &mut control).unwrap().unwrap();
            cholesky.solve(&mut right, &mut control).unwrap();
            assert!((&right - &expected).norm_max() < 1e-8, "{size}");
            let other = matrix.llt(faer::Side::Lower).unwrap();
            let determinant: f64 = (0..size).map(|row| other.L()[(row, row)].ln()).sum();
            assert!((cholesky.log_determinant() - determinant).abs() < 1e-8 * determinant.abs().max(1.0));
        }
        // The third is the sum of the first two, and the fifth twice the second.
        let half = Mat::from_fn(5, 7, |_, _| random.normal());
        let half = Mat::from_fn(5, 7, |row, column| match row {
            2 => half[(0, column)] + half[(1, column)],
            4 => 2.0 * half[(1, column)],
            _ => half[(row, column)],
        });
        let matrix = &half * half.transpose();
        let least: Vec<f64> = (0..5).map(|row| 1e-11 * matrix[(row, row)]).collect();
        let (cholesky, left_out) = Cholesky::leaving_out(matrix, &least, &mut control).unwrap();
        assert_eq!(left_out.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [2, 4]);
        let mut made = Mat::from_fn(5, 2, |row, number| left_out[number].1.get(row).copied().unwrap_or(0.0));
        cholesky.backward(&mut made, &mut control).unwrap();
        let expected =
            Mat::from_fn(5, 2, |row, number| [[1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0, 0.0]][number][row]);
        assert!((made - expected).norm_max() < 1e-8);
        let indefinite = Mat::from_fn(2, 2, |row, column| if row == column { 1.0 } else { 2.0 });
        assert!(Cholesky::new(indefinite, &mut control).unwrap().is_none());
    }
}
