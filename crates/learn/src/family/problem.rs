//! The rows, labels and weights from which a family learns.

use faer::Mat;

use crate::Error;
use crate::family::Control;

/// The training rows, whole, in memory. All slices have the lengths that `rows`, `width` and `targets` say, no target is
/// NaN or infinite, and no feature is infinite; a feature is NaN only for a family that takes missing values.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    /// How many rows; at least 1.
    pub rows: usize,
    /// How many features a row has; at least 1.
    pub width: usize,
    /// Row by row.
    pub features: &'a [f32],
    /// How many labels a row has: 1, or more in a joint regression, or 0 without a label.
    pub targets: usize,
    /// Row by row: the numbers of a regression, or the index of the class.
    pub labels: &'a [f32],
    /// How many classes a classification has, of which each has a row; 0 otherwise.
    pub classes: usize,
    /// The weight of each row, not negative, not all zero.
    pub weights: Option<&'a [f32]>,
    /// For each feature the number of its categories, where it is one; the value is the index of the category then.
    /// Empty where no feature is.
    pub categories: &'a [Option<u32>],
    /// Where `features` has one number in place of the features of a column of categories: for each number of a row how
    /// many features it stands for, of which the one that it is the index of is 1 and the others 0 (all of them where it is
    /// no such index), or 0 for a number that is a feature itself. Empty where each number is a feature. Only for a family
    /// that [takes it](crate::family::Family::takes_one_hot).
    pub one_hot: &'a [u32],
    /// For every random choice: the same seed means the same model.
    pub seed: u64,
}

impl Problem<'_> {
    /// The features of one row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.features[row * self.width..(row + 1) * self.width]
    }

    /// How many numbers of a row there are in `features`.
    pub fn row_numbers(&self) -> usize {
        if self.one_hot.is_empty() { self.width } else { self.one_hot.len() }
    }

    /// The weight of a row.
    pub fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| f64::from(weights[row]))
    }

    /// One target of all rows.
    pub fn target(&self, target: usize) -> Vec<f64> {
        self.labels.iter().skip(target).step_by(self.targets.max(1)).map(|label| f64::from(*label)).collect()
    }

    /// The class of each row.
    pub fn class_of_rows(&self) -> Vec<usize> {
        self.labels.iter().map(|label| *label as usize).collect()
    }

    /// The features as a matrix of float64 for algebra.
    ///
    /// # Errors
    /// [`Error::Memory`] where there is no room for one, [`Error::Stopped`] where the training is to end.
    pub fn matrix(&self, control: &mut Control<'_>) -> Result<Mat<f64>, Error> {
        let mut matrix = large_zeros(self.rows, self.width, control)?;
        for column in 0..self.width {
            let values = self.features.iter().skip(column).step_by(self.width);
            for (row, value) in values.enumerate() {
                matrix[(row, column)] = f64::from(*value);
            }
            control.check()?;
        }
        Ok(matrix)
    }

    /// Refuses more than `rows` rows: of algorithms whose memory grows with the square of the rows.
    ///
    /// # Errors
    /// [`Error::TooManyRows`], which names the algorithm.
    pub fn at_most(&self, algorithm: &'static str, rows: usize) -> Result<(), Error> {
        if self.rows <= rows {
            return Ok(());
        }
        Err(Error::TooManyRows { algorithm, rows: self.rows as u64, most: rows as u64 })
    }
}

/// Elements of a matrix that are written between two looks for the end of a training: some milliseconds of them.
const ELEMENTS_AT_ONCE: usize = 1 << 21;

/// A matrix of zeros that may have gigabytes, which the system takes seconds to give.
///
/// # Errors
/// [`Error::Memory`] where there is no room for one, [`Error::Stopped`] where the training is to end.
pub(crate) fn large_zeros(rows: usize, columns: usize, control: &mut Control<'_>) -> Result<Mat<f64>, Error> {
    probe(rows, columns)?;
    let mut matrix = Mat::with_capacity(rows, columns);
    let at_once = (ELEMENTS_AT_ONCE / rows.max(1)).max(1);
    for done in (0..columns).step_by(at_once) {
        matrix.resize_with(rows, (done + at_once).min(columns), |_, _| 0.0);
        control.check()?;
    }
    Ok(matrix)
}

/// A matrix of zeros.
///
/// # Errors
/// [`Error::Memory`] where there is no room for one.
pub fn zeros(rows: usize, columns: usize) -> Result<Mat<f64>, Error> {
    let mut matrix = Mat::new();
    probe(rows, columns)?;
    matrix.resize_with(rows, columns, |_, _| 0.0);
    Ok(matrix)
}

/// Asks for the room of a matrix before it is made, so that a failure is an answer.
fn probe(rows: usize, columns: usize) -> Result<(), Error> {
    let mut probe: Vec<f64> = Vec::new();
    Ok(room::reserve(&mut probe, rows.checked_mul(columns).ok_or(Error::Memory)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_matrix_of_zeros_is_made_in_parts() {
        let mut checks = 0;
        let mut ask = |_| {
            checks += 1;
            Ok(())
        };
        let zeros = large_zeros(3000, 4000, &mut Control::new(&mut ask)).unwrap();
        assert_eq!((zeros.nrows(), zeros.ncols(), zeros.norm_max()), (3000, 4000, 0.0));
        assert!(checks >= 5, "{checks}");
        let mut ask = |_| Err(Box::new("cancelled") as crate::rows::Stop);
        assert!(matches!(large_zeros(2, 2, &mut Control::new(&mut ask)), Err(Error::Stopped(_))));
        let mut ask = |_| Ok(());
        assert!(matches!(large_zeros(usize::MAX, 2, &mut Control::new(&mut ask)), Err(Error::Memory)));
    }
}
