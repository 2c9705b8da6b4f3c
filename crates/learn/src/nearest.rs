//! The names that a mistyped one may have meant.

/// Characters of a name that count. Who asks chooses the name, and comparing takes the product of two lengths.
const COMPARED: usize = 64;

/// Up to three of `known` that are most like `name`, the best first. Only names that share most of their letters with
/// it count, so that nonsense is not answered with a guess.
///
/// Takes some microseconds for each of `known`, however long the names are.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = plain(name);
    let mut ranked: Vec<(usize, &'a str)> = known
        .filter_map(|candidate| {
            let have = plain(candidate);
            let distance = edits(&wanted, &have);
            let longer = wanted.len().max(have.len());
            // A beginning ("max_cat") or the same words with others around them is a good guess at any distance.
            let part = wanted.len() >= 4 && have.len() >= 4 && (contains(&have, &wanted) || contains(&wanted, &have));
            (part || distance * 3 <= longer).then_some((distance, candidate))
        })
        .collect();
    ranked.sort();
    ranked.dedup_by_key(|(_, candidate)| *candidate);
    ranked.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// Lower case without punctuation: `Max-Depth`, `max.depth` and `maxDepth` all mean `max_depth`.
fn plain(name: &str) -> Vec<char> {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).take(COMPARED).collect()
}

fn contains(whole: &[char], part: &[char]) -> bool {
    whole.windows(part.len()).any(|window| window == part)
}

/// Insertions, deletions, replacements and swaps of neighbours that make one the other.
fn edits(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut table = vec![0usize; (a.len() + 1) * width];
    for (j, cell) in table.iter_mut().take(width).enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        table[i * width] = i;
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (table[(i - 1) * width + j] + 1).min(table[i * width + j - 1] + 1);
            best = best.min(table[(i - 1) * width + j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(table[(i - 2) * width + j - 2] + 1);
            }
            table[i * width + j] = best;
        }
    }
    table[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["max_depth", "max_delta_step", "learning_rate", "eta", "n_estimators", "max_leaves"];

    #[test]
    fn a_slip_finds_the_name() {
        for (typed, meant) in [
            ("max_dept", "max_depth"),
            ("maxDepth", "max_depth"),
            ("learnig_rate", "learning_rate"),
            ("n_estimator", "n_estimators"),
            ("estimators", "n_estimators"),
            ("eat", "eta"),
        ] {
            assert_eq!(nearest(typed, KNOWN.into_iter()).first(), Some(&meant), "{typed}");
        }
    }

    #[test]
    fn long_names_cost_no_more_than_short_ones() {
        let long = "x".repeat(10_000_000);
        assert!(nearest(&long, KNOWN.into_iter()).is_empty());
        // Beyond what counts they are alike; the crate's user bounds how many names there are.
        assert_eq!(nearest(&long, [long.as_str()].into_iter()), [long.as_str()]);
    }

    #[test]
    fn nonsense_finds_nothing() {
        for typed in ["", "xyzzy", "dropout", "🦀🦀🦀🦀"] {
            assert!(nearest(typed, KNOWN.into_iter()).is_empty(), "{typed}");
        }
    }
}
