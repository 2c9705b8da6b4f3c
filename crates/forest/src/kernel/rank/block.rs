//! From the values of a block of rows to ranks, feature by feature.
//!
//! Values are transposed eight features at a time, so that a vector holds one feature of eight rows. A feature of few
//! thresholds is compared with each of them. Of one with many, the value's bucket, found by arithmetic, says which few
//! thresholds are left to compare: see [`crate::image::rank::Buckets`] for why that is exact.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::batch::{Column, ROWS};
use super::{Bytes, LANES, ranks};
use crate::image::View;
use crate::image::rank::{Buckets, RankFeature, biased};

/// Values in a vector.
const LANE_VALUES: usize = 8;

/// Eight features of a block.
#[repr(C, align(64))]
struct Values([[f32; ROWS]; LANE_VALUES]);

/// Writes the biased ranks of `count` rows to their columns.
/// What is behind the last row of a column means nothing.
///
/// # Safety
/// The processor is [`super::is_supported`]; `view` was checked; `rows` points to `count` rows of `num_features`
/// values, of which there are 1 to [`ROWS`]; `columns` to the columns of a block.
#[target_feature(enable = "avx2,popcnt")]
pub unsafe fn rank_block(view: View, rows: *const f32, count: usize, columns: *mut Column) {
    let features = view.header().num_features as usize;
    let halves = count.div_ceil(LANES);
    let mut values = MaybeUninit::<Values>::uninit();
    let mut first = usize::MAX;
    for feature in view.rank_features() {
        let index = feature.feature as usize;
        if !(first..first.saturating_add(LANE_VALUES)).contains(&index) {
            first = index.min(features.saturating_sub(LANE_VALUES));
            // SAFETY: eight features begin there, or the rows have fewer.
            unsafe { transpose(rows, features, first, count, values.as_mut_ptr().cast()) };
        }
        // SAFETY: one of the eight features; as many halves as there are rows for have been written.
        let x: *const f32 = unsafe { values.as_ptr().cast::<f32>().add((index - first) * ROWS) };
        let (primary, secondary) = match (feature.left, feature.right) {
            (RankFeature::NO_COLUMN, right) => (right, right),
            (left, right) => (left, right),
        };
        if primary == RankFeature::NO_COLUMN {
            continue;
        }
        // SAFETY: the checks of the image: columns, lines, thresholds and buckets are those that the view has.
        unsafe {
            let column: *mut u8 = columns.add(primary as usize).cast();
            if !feature.has_groups() {
                compare_all(view, feature, x, halves, column);
            } else if feature.buckets.count > 0 {
                compare_bucket(view, feature, x, count, column);
            } else {
                let lines = view.rank_thresholds().as_ptr().add(feature.line as usize);
                for r in 0..count {
                    column.add(r).write(ranks::rank::<true>(*x.add(r), lines));
                }
            }
            if secondary != RankFeature::NO_COLUMN {
                missing_last(x, halves, column, columns.add(secondary as usize).cast());
            }
        }
    }
}

/// Eight features of all rows, from `first` on, [`ROWS`] apart; the last row is repeated until a vector of bytes is full.
///
/// # Safety
/// `rows` points to `count` rows of `features` values, `first + 8 <= features` unless there are fewer than eight;
/// `values` to [`Values`].
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn transpose(rows: *const f32, features: usize, first: usize, count: usize, values: *mut f32) {
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let present = _mm256_cmpgt_epi32(_mm256_set1_epi32(features.min(LANE_VALUES) as i32), lanes);
    for at in (0..count.next_multiple_of(LANES)).step_by(LANE_VALUES) {
        let row = |r: usize| {
            // SAFETY: a row that exists; no more than its own values are loaded.
            unsafe { _mm256_maskload_ps(rows.add((at + r).min(count - 1) * features + first), present) }
        };
        let pairs = [
            _mm256_unpacklo_ps(row(0), row(1)),
            _mm256_unpackhi_ps(row(0), row(1)),
            _mm256_unpacklo_ps(row(2), row(3)),
            _mm256_unpackhi_ps(row(2), row(3)),
            _mm256_unpacklo_ps(row(4), row(5)),
            _mm256_unpackhi_ps(row(4), row(5)),
            _mm256_unpacklo_ps(row(6), row(7)),
            _mm256_unpackhi_ps(row(6), row(7)),
        ];
        let low = |pair: usize| _mm256_shuffle_ps::<0x44>(pairs[pair], pairs[pair + 2]);
        let high = |pair: usize| _mm256_shuffle_ps::<0xee>(pairs[pair], pairs[pair + 2]);
        let fours = [low(0), high(0), low(1), high(1), low(4), high(4), low(5), high(5)];
        for f in 0..LANE_VALUES / 2 {
            let of_first = _mm256_permute2f128_ps::<0x20>(fours[f], fours[f + 4]);
            let of_second = _mm256_permute2f128_ps::<0x31>(fours[f], fours[f + 4]);
            // SAFETY: `at + 8` is at most the rows of a block.
            unsafe {
                _mm256_storeu_ps(values.add(f * ROWS + at), of_first);
                _mm256_storeu_ps(values.add((f + 4) * ROWS + at), of_second);
            }
        }
    }
}

/// The biased ranks among at most [`crate::image::rank::LINE`] thresholds.
///
/// # Safety
/// As [`rank_block`].
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn compare_all(view: View, feature: &RankFeature, x: *const f32, halves: usize, column: *mut u8) {
    // SAFETY: the feature has a line; the halves have been written, and the column has as many bytes.
    unsafe {
        let line = view.rank_thresholds().as_ptr().add(feature.line as usize).cast::<f32>();
        for half in 0..halves {
            let x: [__m256; 4] = std::array::from_fn(|v| _mm256_loadu_ps(x.add(half * LANES + v * LANE_VALUES)));
            let mut passed = [_mm256_setzero_si256(); 4];
            for t in 0..feature.thresholds as usize {
                let threshold = _mm256_broadcast_ss(&*line.add(t));
                for (passed, x) in passed.iter_mut().zip(x) {
                    let above = _mm256_cmp_ps::<_CMP_GE_OQ>(x, threshold);
                    *passed = _mm256_sub_epi32(*passed, _mm256_castps_si256(above));
                }
            }
            let bytes = _mm256_xor_si256(in_order(passed), _mm256_set1_epi8(biased(0) as i8));
            _mm256_storeu_si256(column.add(half * LANES).cast(), bytes);
        }
    }
}

/// The biased ranks by buckets.
///
/// # Safety
/// As [`rank_block`]; the feature has buckets.
#[target_feature(enable = "avx2,popcnt")]
#[inline]
unsafe fn compare_bucket(view: View, feature: &RankFeature, x: *const f32, count: usize, column: *mut u8) {
    let Buckets { first, count: buckets, low, scale } = feature.buckets;
    // SAFETY: the checks of the image: so many buckets begin there, and from every bucket's first threshold on, a
    // window of thresholds or of padding.
    unsafe {
        let starts = view.rank_buckets().as_ptr().add(first as usize);
        let thresholds = view.rank_thresholds().as_ptr().add(feature.first_group()).cast::<f32>();
        let (low, scale, last) = (_mm256_set1_ps(low), _mm256_set1_ps(scale), _mm256_set1_ps((buckets - 1) as f32));
        for v in 0..count.div_ceil(LANE_VALUES) {
            let x = x.add(v * LANE_VALUES);
            let bucket = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x), low), scale);
            // In this order of operands NaN becomes 0.
            let bucket = _mm256_min_ps(_mm256_max_ps(bucket, _mm256_setzero_ps()), last);
            let mut buckets = [0i32; LANE_VALUES];
            _mm256_storeu_si256(buckets.as_mut_ptr().cast(), _mm256_cvttps_epi32(bucket));
            let mut bytes = [0u8; LANE_VALUES];
            for (lane, byte) in bytes.iter_mut().enumerate() {
                let start = *starts.add(buckets[lane] as usize);
                let window = _mm256_loadu_ps(thresholds.add(usize::from(start)));
                let passed = _mm256_cmp_ps::<_CMP_GE_OQ>(_mm256_broadcast_ss(&*x.add(lane)), window);
                let passed = (_mm256_movemask_ps(passed) as u32).count_ones();
                *byte = biased(0).wrapping_add(start).wrapping_add(passed as u8);
            }
            column.add(v * LANE_VALUES).cast::<[u8; LANE_VALUES]>().write_unaligned(bytes);
        }
    }
}

/// From the column where missing values rank first, writes the one where they rank last; they may be the same.
///
/// # Safety
/// `x` points to so many halves of a block; both columns have as many bytes, and that written to may be the other.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn missing_last(x: *const f32, halves: usize, from: *const u8, to: *mut u8) {
    for half in 0..halves {
        // SAFETY: the halves have been written, and the columns have as many bytes.
        unsafe {
            let missing = in_order(std::array::from_fn(|v| {
                let x = _mm256_loadu_ps(x.add(half * LANES + v * LANE_VALUES));
                _mm256_srli_epi32::<24>(_mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x)))
            }));
            let ranks = _mm256_loadu_si256(from.add(half * LANES).cast());
            let last = _mm256_set1_epi8(biased(u8::MAX) as i8);
            _mm256_storeu_si256(to.add(half * LANES).cast(), _mm256_blendv_epi8(ranks, last, missing));
        }
    }
}

/// 32 numbers below 256 as bytes.
#[target_feature(enable = "avx2")]
#[inline]
fn in_order(numbers: [__m256i; 4]) -> Bytes {
    let [a, b, c, d] = numbers;
    let packed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    // Packing takes turns between the lower and the upper halves.
    _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}
