//! The name that was probably meant.

/// The candidate nearest to `name`, if any is near enough to be a slip of the fingers.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (name.len() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| {
            let steps = strsim::levenshtein(name, candidate);
            (if is_cut(name, candidate) { 1 } else { steps }, steps, candidate)
        })
        .filter(|(near, ..)| *near <= bound)
        .min()
        .map(|(.., candidate)| candidate)
}

/// Whether one is the beginning of the other, and long enough to mean it.
fn is_cut(left: &str, right: &str) -> bool {
    left.len().min(right.len()) >= 4 && (left.starts_with(right) || right.starts_with(left))
}
