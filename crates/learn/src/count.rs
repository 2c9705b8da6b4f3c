//! Numbers of things in messages: "1 row", "2 rows", "3 more classes".

use std::fmt::Display;

/// A number and what it counts, named in the singular.
pub fn count(number: impl Display, what: &str) -> String {
    let number = number.to_string();
    match (number.as_str(), what.strip_suffix('y')) {
        ("1", _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ if what.ends_with('s') => format!("{number} {what}es"),
        _ => format!("{number} {what}s"),
    }
}

/// All of so many: "the only row", "all 2 rows".
pub fn all(number: impl Display, what: &str) -> String {
    match number.to_string().as_str() {
        "1" => format!("the only {what}"),
        _ => format!("all {}", count(number, what)),
    }
}

/// That there are so many: "there is 1 row", "there are 2 rows".
pub fn there_are(number: impl Display, what: &str) -> String {
    let counted = count(number, what);
    if counted.starts_with("1 ") { format!("there is {counted}") } else { format!("there are {counted}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let counted = [count(1, "row"), count(0, "row"), count(1000, "more class"), count(2, "category")];
        assert_eq!(counted, ["1 row", "0 rows", "1000 more classes", "2 categories"]);
        assert_eq!([there_are(1, "row"), there_are(10, "row")], ["there is 1 row", "there are 10 rows"]);
        assert_eq!([all(1, "row"), all(2, "row")], ["the only row", "all 2 rows"]);
    }
}
