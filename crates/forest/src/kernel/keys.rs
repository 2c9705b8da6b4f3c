//! A row as the scalar kernels read it: one integer key a slot, with missing values already sent their way.

use crate::image::{Header, MAX_SLOTS, Slot, SlotKind, View};

/// Beyond it XGBoost takes no category: not every integer has a float32 of its own there.
pub const CATEGORY_LIMIT: f32 = 16_777_216.0;

/// Smaller than the key of any number.
const LEFT: i32 = i32::MIN;
/// Larger than the key of any number.
const RIGHT: i32 = i32::MAX;
/// In no category set: left.
pub const NO_CATEGORY: i32 = -1;
/// A missing category that goes right.
pub const CATEGORY_RIGHT: i32 = -2;

/// Keys of a row, slot 0 included.
pub const MAX_KEYS: usize = MAX_SLOTS + 1;

/// How many keys a row has.
pub fn keys_per_row(view: View) -> usize {
    view.slots().len() + 1
}

#[inline(always)]
fn numeric(x: f32, missing: i32) -> i32 {
    let key = crate::compile::key(x);
    if x.is_nan() { missing } else { key }
}

#[inline(always)]
fn category(x: f32, missing: i32) -> i32 {
    if x.is_nan() {
        missing
    } else if (0.0..CATEGORY_LIMIT).contains(&x) {
        // Cut, not rounded, as XGBoost does.
        x as i32
    } else {
        NO_CATEGORY
    }
}

/// Writes the keys of `row`.
///
/// # Safety
/// `row` has `num_features` values; `keys` points to room for [`keys_per_row`] of them.
#[inline(always)]
pub unsafe fn fill(view: View, row: &[f32], keys: *mut i32) {
    let Header { slots: counts, .. } = *view.header();
    let mut slots = view.slots();
    // SAFETY: there is room for slot 0 and for as many more as there are slots; every slot's feature has been checked
    // to be below `num_features`.
    unsafe {
        keys.write(LEFT);
        let mut next = keys.add(1);
        let mut each = |kind: SlotKind, key: fn(f32, i32) -> i32, missing: i32| {
            let (these, rest) = slots.split_at(counts[kind as usize] as usize);
            slots = rest;
            for Slot { feature } in these {
                next.write(key(*row.get_unchecked(*feature as usize), missing));
                next = next.add(1);
            }
        };
        each(SlotKind::NumericLeft, numeric, LEFT);
        each(SlotKind::NumericRight, numeric, RIGHT);
        each(SlotKind::CategoryLeft, category, NO_CATEGORY);
        each(SlotKind::CategoryRight, category, CATEGORY_RIGHT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{bound, key};

    #[test]
    fn keys_compare_as_floats_do() {
        let numbers = [
            f32::NEG_INFINITY,
            f32::MIN,
            -16_777_217.0,
            -1.5,
            -f32::MIN_POSITIVE,
            -f32::from_bits(1),
            -0.0,
            0.0,
            f32::from_bits(1),
            f32::MIN_POSITIVE,
            1.5,
            f32::MAX,
            f32::INFINITY,
        ];
        for x in numbers {
            for threshold in numbers.into_iter().chain([f32::NAN]) {
                let left = x < threshold;
                assert_eq!(key(x) > bound(threshold), !left, "{x} < {threshold}");
            }
        }
        for threshold in numbers.into_iter().chain([f32::NAN]) {
            assert!(numeric(f32::NAN, LEFT) <= bound(threshold));
            assert!(numeric(-f32::NAN, RIGHT) > bound(threshold));
        }
    }

    #[test]
    fn categories_are_cut_and_kept_in_range() {
        for (x, expected) in [
            (0.0, 0),
            (-0.0, 0),
            (2.7, 2),
            (-0.5, NO_CATEGORY),
            (16_777_215.0, 16_777_215),
            (16_777_216.0, NO_CATEGORY),
            (f32::INFINITY, NO_CATEGORY),
            (f32::NEG_INFINITY, NO_CATEGORY),
            (f32::NAN, CATEGORY_RIGHT),
        ] {
            assert_eq!(category(x, CATEGORY_RIGHT), expected, "{x}");
        }
    }
}
