//! "Did you mean": the names closest to one that does not exist.

/// A hint that names the nearest of `names`, or the first few where none is near. `names` is not empty.
pub fn hint(wanted: &str, names: &[String]) -> String {
    let mut ranked: Vec<(usize, &String)> = names.iter().map(|name| (distance(wanted, name), name)).collect();
    ranked.sort();
    let near = |(distance, name): &&(usize, &String)| *distance <= (name.chars().count().max(3) / 3).max(1);
    let close: Vec<String> = ranked.iter().filter(near).take(3).map(|(_, name)| format!("\"{name}\"")).collect();
    if !close.is_empty() {
        return format!("Did you mean {}?", close.join(" or "));
    }
    let mut some: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    some.sort();
    let more = if some.len() > 10 { ", ..." } else { "" };
    some.truncate(10);
    format!("There are: {}{more}.", some.join(", "))
}

/// Edits (insert, delete, replace, swap neighbours) from one to the other: the optimal string alignment distance.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().flat_map(char::to_lowercase).collect();
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best.min(rows[i - 2][j - 2] + 1)
                } else {
                    best
                }
            };
        }
    }
    rows[a.len()][b.len()]
}
