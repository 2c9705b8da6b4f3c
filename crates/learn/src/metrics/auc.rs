//! The area under the ROC curve, which needs the order of all scores.

/// The area for one class against the rest, from each row's score and whether it is of the class. Ties count half.
/// `None` if there are no rows of the class, or no others, or a score is NaN. Sorts the rows.
pub(super) fn area(rows: &mut [(f32, bool)]) -> Option<f64> {
    if rows.iter().any(|(score, _)| score.is_nan()) {
        return None;
    }
    rows.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
    let (mut below, mut doubled, mut positives) = (0u64, 0u128, 0u64);
    // -0.0 and 0.0 tie, though total_cmp orders them.
    for tied in rows.chunk_by(|(a, _), (b, _)| a == b) {
        let of_class = tied.iter().filter(|(_, of_class)| *of_class).count() as u64;
        let others = tied.len() as u64 - of_class;
        // Twice the number of pairs in the right order, so that a tie is a whole number too.
        doubled += u128::from(of_class) * u128::from(2 * below + others);
        below += others;
        positives += of_class;
    }
    let pairs = u128::from(positives) * u128::from(below);
    (pairs > 0).then(|| doubled as f64 / (2.0 * pairs as f64))
}

/// scikit-learn's `average_precision_score` for one class against the rest: the precision at each threshold, weighed by how
/// much of the class is found between it and the one above. `None` if there are no rows of the class, or a score is NaN.
/// Sorts the rows.
pub(super) fn average_precision(rows: &mut [(f32, bool)]) -> Option<f64> {
    if rows.iter().any(|(score, _)| score.is_nan()) {
        return None;
    }
    rows.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
    let (mut sum, mut found, mut reached) = (0.0, 0u64, 0u64);
    for tied in rows.chunk_by(|(a, _), (b, _)| a == b).rev() {
        let of_class = tied.iter().filter(|(_, of_class)| *of_class).count() as u64;
        found += of_class;
        reached += tied.len() as u64;
        sum += of_class as f64 * (found as f64 / reached as f64);
    }
    (found > 0).then(|| sum / found as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted() {
        assert_eq!(area(&mut [(0.1, false), (0.4, false), (0.35, true), (0.8, true)]), Some(0.75));
        assert_eq!(area(&mut [(0.5, false), (0.5, true)]), Some(0.5));
        assert_eq!(area(&mut [(-0.0, true), (0.0, false)]), Some(0.5));
        assert_eq!(area(&mut [(0.5, true)]), None);
        assert_eq!(area(&mut [(f32::NAN, true), (0.5, false)]), None);
        assert_eq!(area(&mut []), None);
    }
}
