//! "Did you mean": a hint with the names closest to one that does not exist.

use crate::error::shorten;

/// Names that are looked at: whoever asks may have made a million others.
pub const MOST_NAMES: usize = 1000;

/// A hint that names the nearest of `names`, or the first few where none is near. `names` is not empty.
pub fn hint(wanted: &str, names: &[String]) -> String {
    let names = || names.iter().take(MOST_NAMES).map(String::as_str);
    let quoted = |name: &str| format!("\"{}\"", shorten(name, 63));
    let close: Vec<String> = learn::nearest::nearest(wanted, names()).into_iter().map(quoted).collect();
    if !close.is_empty() {
        return format!("Did you mean {}?", close.join(" or "));
    }
    let mut some: Vec<&str> = names().collect();
    some.sort_unstable();
    let more = if some.len() > 10 { ", ..." } else { "" };
    format!("Possible values: {}{more}.", some.into_iter().take(10).map(quoted).collect::<Vec<_>>().join(", "))
}
