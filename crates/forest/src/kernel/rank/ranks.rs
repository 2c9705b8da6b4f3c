//! From values to ranks.

use std::arch::x86_64::*;

use crate::image::View;
use crate::image::rank::{LINE, RankFeature, biased};

/// How many thresholds of a line are not above `x` (in every lane), times two.
///
/// # Safety
/// The processor has AVX2 and POPCNT; `line` points to a line.
#[inline(always)]
unsafe fn passed_twice(x: __m256, line: *const [f32; LINE]) -> u32 {
    // SAFETY: a line is two vectors.
    unsafe {
        let passed = |v: usize| {
            let thresholds = _mm256_loadu_ps(line.cast::<f32>().add(8 * v));
            _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LE_OQ>(thresholds, x))
        };
        let both = _mm256_packs_epi32(passed(0), passed(1));
        _mm256_movemask_epi8(both).count_ones()
    }
}

/// Writes the biased rank of each of a row's values into its columns: column `c` at `ranks[c * STRIDE]`. The column
/// behind the last is written too, and means nothing.
///
/// # Safety
/// The processor has AVX2 and POPCNT; `view` was checked, `row` points to `num_features` values, `ranks` to room for
/// one column more than the view has.
#[inline(always)]
pub unsafe fn rank_row<const STRIDE: usize>(view: View, row: *const f32, ranks: *mut u8) {
    let columns = view.rank_columns() as u32;
    let lines = view.rank_thresholds().as_ptr();
    for RankFeature { feature, line, thresholds, left, right } in view.rank_features().iter().copied() {
        // SAFETY: the checks of the image: features, lines and columns are those that the view has; the line that
        // chooses among the groups has fewer thresholds than there are groups.
        unsafe {
            let x = *row.add(feature as usize);
            let all = _mm256_set1_ps(x);
            let first = lines.add(line as usize);
            let mut rank = passed_twice(all, first) / 2;
            if thresholds as usize > LINE {
                rank = LINE as u32 * rank + passed_twice(all, first.add(1 + rank as usize)) / 2;
            }
            // NaN has passed no threshold.
            let last = if x.is_nan() { thresholds } else { rank };
            ranks.add(left.min(columns) as usize * STRIDE).write(biased(rank as u8));
            ranks.add(right.min(columns) as usize * STRIDE).write(biased(last as u8));
        }
    }
}
