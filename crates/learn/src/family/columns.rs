//! Rows whose categories are one number each instead of a feature for each category: thousands of zeros are neither stored
//! nor multiplied.

use crate::family::Problem;

/// The rows of a problem that has [`Problem::one_hot`]: walks over what is not zero in them.
pub(crate) struct Sparse<'a> {
    features: &'a [f32],
    one_hot: &'a [u32],
    /// The first feature of each number of a row.
    starts: Vec<usize>,
}

impl<'a> Sparse<'a> {
    /// `None` where each number of a row is a feature.
    pub(crate) fn of(problem: &Problem<'a>) -> Option<Sparse<'a>> {
        if problem.one_hot.is_empty() {
            return None;
        }
        let mut next = 0;
        let starts = problem.one_hot.iter().map(|count| {
            let start = next;
            next += (*count).max(1) as usize;
            start
        });
        Some(Sparse { features: problem.features, starts: starts.collect(), one_hot: problem.one_hot })
    }

    /// For each number of a row the first of its features, and how many categories it tells apart: 0 for a feature of its
    /// own.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (usize, usize)> {
        self.starts.iter().zip(self.one_hot).map(|(start, count)| (*start, *count as usize))
    }

    /// How many numbers a row has.
    pub(crate) fn width(&self) -> usize {
        self.one_hot.len()
    }

    /// The rows, one after the other.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &'a [f32]> {
        self.features.chunks_exact(self.one_hot.len())
    }

    /// The features of a row that may not be 0, and their values.
    #[inline]
    pub(crate) fn cells(&self, row: &'a [f32]) -> impl Iterator<Item = (usize, f64)> {
        row.iter().zip(self.one_hot).zip(&self.starts).filter_map(|((value, count), start)| match *count {
            0 => Some((*start, f64::from(*value))),
            count => (*value >= 0.0 && *value < count as f32).then(|| (start + *value as usize, 1.0)),
        })
    }
}
