//! From values to ranks.

use std::arch::x86_64::*;

use crate::image::View;
use crate::image::rank::{LINE, RankFeature, biased};

/// How many thresholds of a line are not above `x` (in every lane), times two.
///
/// # Safety
/// The processor has AVX2 and POPCNT; `line` points to a line.
#[inline(always)]
unsafe fn passed_twice(x: __m256, line: *const [f32; LINE]) -> usize {
    // SAFETY: a line is two vectors.
    unsafe {
        let thresholds = line.cast::<f32>();
        let low = _mm256_cmp_ps::<_CMP_GE_OQ>(x, _mm256_loadu_ps(thresholds));
        let high = _mm256_cmp_ps::<_CMP_GE_OQ>(x, _mm256_loadu_ps(thresholds.add(LINE / 2)));
        let both = _mm256_packs_epi32(_mm256_castps_si256(low), _mm256_castps_si256(high));
        _mm256_movemask_epi8(both).count_ones() as usize
    }
}

/// The biased rank of a value; of NaN that of what is below all thresholds.
///
/// # Safety
/// As [`passed_twice`]; `first` is the first line of a feature of a checked image, with groups or without.
#[inline(always)]
pub unsafe fn rank<const GROUPS: bool>(x: f32, first: *const [f32; LINE]) -> u8 {
    // SAFETY: the line that chooses among the groups has fewer thresholds than there are groups.
    unsafe {
        let x = _mm256_set1_ps(x);
        let passed = passed_twice(x, first);
        if GROUPS {
            biased(0).wrapping_add((passed * (LINE / 2) + passed_twice(x, first.add(1 + passed / 2)) / 2) as u8)
        } else {
            biased(0).wrapping_add((passed / 2) as u8)
        }
    }
}

/// The biased rank of a value where a missing one ranks above all `thresholds`.
#[inline(always)]
fn or_last(x: f32, rank: u8, thresholds: u32) -> u8 {
    if x.is_nan() { biased(thresholds as u8) } else { rank }
}

/// Writes the biased rank of each of a row's values to its columns, one byte each; the column behind the last is
/// written too, and means nothing. Says whether a value is missing that has two columns.
///
/// # Safety
/// The processor has AVX2 and POPCNT; `view` was checked, `row` points to `num_features` values, `ranks` to room for
/// one column more than the view has.
#[inline(always)]
pub unsafe fn rank_row(view: View, row: *const f32, ranks: *mut u8) -> bool {
    let columns = view.rank_columns() as u32;
    let lines = view.rank_thresholds().as_ptr();
    let mut two_ways = false;
    for feature in view.rank_features().iter().copied() {
        let RankFeature { left, right, .. } = feature;
        // SAFETY: the checks of the image: features, lines and columns are those that the view has.
        unsafe {
            let x = *row.add(feature.feature as usize);
            let first = lines.add(feature.line as usize);
            let rank = if feature.has_groups() { rank::<true>(x, first) } else { rank::<false>(x, first) };
            ranks.add(left.min(columns) as usize).write(rank);
            ranks.add(right.min(columns) as usize).write(or_last(x, rank, feature.thresholds));
            two_ways |= x.is_nan() && left < columns && right < columns;
        }
    }
    two_ways
}
