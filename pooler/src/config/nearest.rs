//! The name that was probably meant.

/// The candidate nearest to `name`, if any is near enough to be a slip of the fingers.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (name.len() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| {
            let steps = distance(name, candidate);
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

/// Levenshtein's distance in bytes.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = i;
        let mut last = i + 1;
        for (place, b) in row.iter_mut().skip(1).zip(right.bytes()) {
            let cost = (diagonal + usize::from(a != b)).min(*place + 1).min(last + 1);
            diagonal = std::mem::replace(place, cost);
            last = cost;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
