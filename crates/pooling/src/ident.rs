//! The file of user name maps (`auth_ident_file`, PostgreSQL's pg_ident.conf): which names of the operating system or
//! of certificates may log in as which users, for lines of the HBA file with `map=NAME`.

use crate::hba::{Field, fields};

/// A whole file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ident {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq)]
struct Line {
    map: String,
    /// The name that has been proven.
    proven: String,
    /// The user that the name may log in as; `None` for any user.
    user: Option<String>,
}

impl Ident {
    /// Reads a file; the error says in which line.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let place = |message: String| format!("line {}: {message}", number + 1);
            let fields = fields(line).map_err(place)?;
            if !fields.is_empty() {
                lines.push(read_line(&fields).map_err(place)?);
            }
        }
        Ok(Self { lines })
    }

    /// Whether there is a map of this name.
    pub fn has(&self, map: &str) -> bool {
        self.lines.iter().any(|line| line.map == map)
    }

    /// Whether a client with the proven name `proven` may log in as `user`: by a map, or without one by the same name.
    pub fn allows(&self, map: Option<&str>, proven: &str, user: &str) -> bool {
        let Some(map) = map else { return proven == user };
        let fits = |line: &Line| line.map == map && line.proven == proven;
        self.lines.iter().any(|line| fits(line) && line.user.as_deref().is_none_or(|named| named == user))
    }
}

fn read_line(fields: &[Vec<Field>]) -> Result<Line, String> {
    let [map, proven, user] = fields else {
        return Err("expected three fields: the map, the authenticated name, the user".to_owned());
    };
    let ([map], [proven], [user]) = (&map[..], &proven[..], &user[..]) else {
        return Err("a field must be one word".to_owned());
    };
    for field in [proven, user] {
        if !field.quoted && field.text.starts_with(['/', '+']) {
            return Err(format!("{}: groups and expressions are not supported", field.text));
        }
    }
    let user = (user.quoted || user.text != "all").then(|| user.text.clone());
    Ok(Line { map: map.text.clone(), proven: proven.text.clone(), user })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_says_who_may_come_in_as_whom() {
        let ident =
            Ident::read("# map  name  user\napp www bob\napp www carol\nroot \"ops team\" all\nx www \"all\"\n")
                .unwrap();
        assert!(ident.allows(Some("app"), "www", "bob") && ident.allows(Some("app"), "www", "carol"));
        assert!(!ident.allows(Some("app"), "www", "www"), "the same name alone is not enough");
        assert!(!ident.allows(Some("app"), "bob", "bob"));
        assert!(ident.allows(Some("root"), "ops team", "anybody"));
        assert!(ident.allows(Some("x"), "www", "all") && !ident.allows(Some("x"), "www", "bob"));
        assert!(!ident.allows(Some("none"), "www", "bob"));
        assert!(ident.allows(None, "bob", "bob") && !ident.allows(None, "www", "bob"));
        assert!(ident.has("app") && !ident.has("none"));
    }

    #[test]
    fn what_is_not_understood_is_an_error_that_says_where() {
        for (line, message) in [
            ("a b", "line 1: expected three fields: the map, the authenticated name, the user"),
            ("\na b c d", "line 2: expected three fields: the map, the authenticated name, the user"),
            ("a /^x b", "line 1: /^x: groups and expressions are not supported"),
            ("a b +c", "line 1: +c: groups and expressions are not supported"),
            ("a b c,d", "line 1: a field must be one word"),
            ("a \"b c", "line 1: a quote is not closed"),
        ] {
            assert_eq!(Ident::read(line).unwrap_err(), message);
        }
    }
}
