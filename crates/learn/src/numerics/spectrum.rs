//! The largest eigenvalues of a symmetric matrix that is only multiplied with: by a block Krylov space, begun anew from
//! its best vectors until they are eigenvectors (Golub and Underwood, 1977).

use faer::{Mat, MatRef};

use crate::Error;
use crate::family::{Control, large_zeros, zeros};
use crate::numerics::algebra::{eigenvalues, product};
use crate::random::Random;

/// How often the block is multiplied before the space is begun anew.
const DEPTH: usize = 12;

/// How often it is begun anew at most.
const RESTARTS: usize = 300;

/// The lengths of what vectors lack to be eigenvectors.
const ENOUGH: f64 = 1e-9;

/// The product of a matrix and a block of vectors.
type Image<'a> = dyn Fn(MatRef<'_, f64>) -> Result<Mat<f64>, Error> + 'a;

/// The eigenvectors of the `count` largest eigenvalues of a matrix of `size` rows, the largest first.
pub(crate) fn largest(
    size: usize,
    count: usize,
    apply: &Image<'_>,
    random: &mut Random,
    control: &mut Control<'_>,
) -> Result<Mat<f64>, Error> {
    let block = (count + 2).min(size);
    let mut start = zeros(size, block)?;
    for column in 0..block {
        start.col_as_slice_mut(column).iter_mut().for_each(|value| *value = random.normal());
    }
    for restart in 0.. {
        let space = krylov(start.as_ref(), size, apply, control)?;
        let image = applied(apply, space.as_ref(), size, control)?;
        let eigen = eigenvalues(product(space.transpose(), image.as_ref(), control)?, control)?;
        // They come the smallest first.
        let kept = block.min(space.ncols());
        let best = eigen.U().reverse_cols().subcols(0, kept).to_owned();
        let vectors = product(space.as_ref(), best.as_ref(), control)?;
        let images = product(image.as_ref(), best.as_ref(), control)?;
        let values: Vec<f64> = eigen.S().column_vector().iter().rev().copied().collect();
        let lacks = |column: usize| {
            let pairs = vectors.col_as_slice(column).iter().zip(images.col_as_slice(column));
            pairs.map(|(vector, image)| (image - values[column] * vector).powi(2)).sum::<f64>().sqrt()
        };
        let scale = values.first().map_or(0.0, |value| value.abs());
        let found = (0..count.min(kept)).all(|column| lacks(column) <= ENOUGH * scale);
        if found || space.ncols() == size || restart == RESTARTS {
            return Ok(vectors.subcols(0, count.min(kept)).to_owned());
        }
        start = vectors;
    }
    Err(Error::Diverged("no eigenvectors were found"))
}

/// The product of the matrix and a block of any width, some vectors at a time.
fn applied(
    apply: &Image<'_>,
    block: MatRef<'_, f64>,
    size: usize,
    control: &mut Control<'_>,
) -> Result<Mat<f64>, Error> {
    const MULTIPLICATIONS: usize = 1 << 28;
    let at_once = (MULTIPLICATIONS / (size * size).max(1)).max(1);
    let mut image = large_zeros(size, block.ncols(), control)?;
    for start in (0..block.ncols()).step_by(at_once) {
        control.check()?;
        let count = at_once.min(block.ncols() - start);
        image.subcols_mut(start, count).copy_from(apply(block.subcols(start, count))?);
    }
    Ok(image)
}

/// An orthonormal basis of a block and its images.
fn krylov(
    start: MatRef<'_, f64>,
    size: usize,
    apply: &Image<'_>,
    control: &mut Control<'_>,
) -> Result<Mat<f64>, Error> {
    let most = (start.ncols() * DEPTH).min(size);
    let mut space = large_zeros(size, most, control)?;
    let mut block = start.to_owned();
    let mut filled = 0;
    while filled < most {
        control.check()?;
        let before = filled;
        for column in 0..block.ncols() {
            control.check()?;
            if filled < most && push(&mut space, filled, block.col_as_slice(column)) {
                filled += 1;
            }
        }
        if filled == before {
            break;
        }
        block = applied(apply, space.subcols(before, filled - before), size, control)?;
    }
    Ok(space.subcols(0, filled).to_owned())
}

/// Makes a vector the next of the basis; false where it is within what there is.
fn push(space: &mut Mat<f64>, filled: usize, vector: &[f64]) -> bool {
    let mut vector = vector.to_vec();
    let length = |vector: &[f64]| vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    let whole = length(&vector);
    // Twice, which is enough for what rounding leaves.
    for _ in 0..2 {
        for column in 0..filled {
            let basis = space.col_as_slice(column);
            let share: f64 = basis.iter().zip(&vector).map(|(a, b)| a * b).sum();
            vector.iter_mut().zip(basis).for_each(|(value, basis)| *value -= share * basis);
        }
    }
    let left = length(&vector);
    if left.is_nan() || left <= 1e-10 * whole {
        return false;
    }
    for (to, value) in space.col_as_slice_mut(filled).iter_mut().zip(&vector) {
        *to = value / left;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvectors_of_a_diagonal_are_its_axes() {
        // Two eigenvalues are equal: only the plane of their vectors is known.
        let values: Vec<f64> = (0..300).map(|i| if i < 2 { 1.0 } else { 0.98 - i as f64 / 1000.0 }).collect();
        let apply = |block: MatRef<'_, f64>| {
            Ok(Mat::from_fn(300, block.ncols(), |row, column| values[row] * block[(row, column)]))
        };
        let mut ask = |_| Ok(());
        let found = largest(300, 4, &apply, &mut Random::new(1), &mut Control::new(&mut ask)).unwrap();
        for column in 0..4 {
            let kept: f64 = (0..4).map(|row| found[(row, column)].powi(2)).sum();
            assert!((kept - 1.0).abs() < 1e-9, "{column}: {kept}");
        }
        assert!((found[(2, 2)].abs() - 1.0).abs() < 1e-9);
    }
}
