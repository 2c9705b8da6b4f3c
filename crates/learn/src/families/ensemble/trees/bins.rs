//! Features as codes of one byte: what trees are grown from.
//!
//! A feature with at most [`MOST`] distinct values has a code for each of them, so that no split is lost; one with more
//! has bins with about as many rows in each. A category is its own code. The last code is for what is missing.

use crate::Error;
use crate::family::{Control, Problem};
use crate::random::Random;

/// The code of a missing value.
pub(crate) const MISSING: u8 = 255;
/// The most codes that a feature has besides.
pub(crate) const MOST: usize = 255;
/// From more rows than this, bins are found by that many of them.
const SAMPLE: usize = 200_000;

/// What the codes of a feature stand for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Column {
    /// The least value of each code.
    pub(crate) lower: Vec<f32>,
    /// The greatest value of each code.
    pub(crate) upper: Vec<f32>,
    /// The number of categories, where codes are categories.
    pub(crate) categories: Option<usize>,
}

/// All features of all rows.
pub(crate) struct Bins {
    rows: usize,
    codes: Vec<u8>,
    pub(crate) columns: Vec<Column>,
}

impl Bins {
    /// With at most `most` codes a feature, and at most [`MOST`].
    pub(crate) fn new(problem: &Problem<'_>, most: usize, control: &mut Control<'_>) -> Result<Bins, Error> {
        let mut codes = Vec::new();
        room::reserve(&mut codes, problem.rows.checked_mul(problem.width).ok_or(Error::Memory)?)?;
        let mut columns = Vec::with_capacity(problem.width);
        let mut values = Vec::new();
        room::reserve(&mut values, problem.rows)?;
        for feature in 0..problem.width {
            control.check()?;
            values.clear();
            // Adding zero makes one of both zeros.
            values.extend(problem.features.iter().skip(feature).step_by(problem.width).map(|value| value + 0.0));
            let categories = problem.categories.get(feature).copied().flatten().map(|count| count as usize);
            if let Some(count) = categories.filter(|count| *count <= MOST) {
                codes.extend(values.iter().map(|value| match *value >= 0.0 && *value < count as f32 {
                    true => *value as u8,
                    false => MISSING,
                }));
                columns.push(Column { categories: Some(count), ..Column::default() });
            } else {
                columns.push(numeric(&values, most.clamp(2, MOST), &mut codes)?);
            }
        }
        Ok(Bins { rows: problem.rows, codes, columns })
    }

    /// The codes of a feature, one for each row.
    pub(crate) fn codes(&self, feature: usize) -> &[u8] {
        &self.codes[feature * self.rows..(feature + 1) * self.rows]
    }

    /// How many features there are.
    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }
}

/// Finds the bins of a feature, and appends the codes of all rows.
fn numeric(values: &[f32], most: usize, codes: &mut Vec<u8>) -> Result<Column, Error> {
    let mut sorted = Vec::new();
    room::reserve(&mut sorted, values.len().min(SAMPLE))?;
    if values.len() <= SAMPLE {
        sorted.extend(values.iter().filter(|value| !value.is_nan()));
    } else {
        let mut random = Random::new(values.len() as u64);
        sorted.extend((0..SAMPLE).map(|_| values[random.index(values.len())]).filter(|value| !value.is_nan()));
    }
    sorted.sort_unstable_by(f32::total_cmp);
    let mut ends = ends(&sorted, most);
    // What is above all of the sample belongs to the last bin.
    if let Some(last) = ends.last_mut() {
        *last = f32::INFINITY;
    }
    let mut column =
        Column { lower: vec![f32::INFINITY; ends.len()], upper: vec![f32::NEG_INFINITY; ends.len()], categories: None };
    for value in values {
        if value.is_nan() || ends.is_empty() {
            codes.push(MISSING);
            continue;
        }
        let code = ends.partition_point(|end| end < value).min(ends.len() - 1);
        column.lower[code] = column.lower[code].min(*value);
        column.upper[code] = column.upper[code].max(*value);
        codes.push(code as u8);
    }
    Ok(column)
}

/// The greatest value of each of at most `most` bins with about as many values in each.
fn ends(sorted: &[f32], most: usize) -> Vec<f32> {
    let mut ends = Vec::new();
    let distinct = sorted.chunk_by(|a, b| a == b).take(most + 1).count();
    let mut left = sorted.len();
    let mut in_bin = 0;
    for equal in sorted.chunk_by(|a, b| a == b) {
        in_bin += equal.len();
        left -= equal.len();
        // What is left is for the bins that are left.
        let wanted = (left + in_bin).div_ceil(most - ends.len().min(most - 1));
        if distinct <= most || in_bin >= wanted {
            ends.push(equal[0]);
            in_bin = 0;
        }
    }
    if in_bin > 0 {
        ends.extend(sorted.last());
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_have_a_bin_each() {
        let values = [3.0, 1.0, f32::NAN, 2.0, 1.0, -0.0, 0.0];
        let mut codes = Vec::new();
        let column = numeric(&values, 255, &mut codes).unwrap();
        assert_eq!(codes, [3, 1, MISSING, 2, 1, 0, 0]);
        assert_eq!(column.upper, [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(column.lower, column.upper);
    }

    #[test]
    fn many_values_share_bins_evenly() {
        let values: Vec<f32> = (0..10_000).map(|value| if value < 3000 { 0.0 } else { value as f32 }).collect();
        let mut codes = Vec::new();
        let column = numeric(&values, 100, &mut codes).unwrap();
        assert!(column.upper.len() > 95 && column.upper.len() <= 100, "{}", column.upper.len());
        let mut counts = vec![0; column.upper.len()];
        codes.iter().for_each(|code| counts[usize::from(*code)] += 1);
        assert_eq!(counts[0], 3000);
        assert!(counts[1..].iter().all(|count| (60..90).contains(count)), "{counts:?}");
        assert!(column.upper.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn nothing_but_missing_values_has_no_bin() {
        let mut codes = Vec::new();
        let column = numeric(&[f32::NAN; 3], 255, &mut codes).unwrap();
        assert!(column.upper.is_empty());
        assert_eq!(codes, [MISSING; 3]);
    }
}
