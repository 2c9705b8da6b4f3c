//! Parameters of a session as a SET writes them.

/// The statement that gives a parameter this value, as it would come in a startup packet.
pub fn set(name: &str, value: &str) -> String {
    format!("SET {} = {}", quoted(name), assigned(name, value))
}

/// A parameter's name as SQL reads it: `app.user` would be a syntax error as it stands, since `user` is reserved.
pub fn quoted(name: &str) -> String {
    let parts: Vec<String> = name.split('.').map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
    parts.join(".")
}

/// Parameters that are lists of names: a literal is one name there, commas and all.
const LISTS: [&str; 4] = ["search_path", "temp_tablespaces", "session_preload_libraries", "local_preload_libraries"];

/// The right side of a SET that gives a parameter this value, as it would come in a startup packet.
pub fn assigned(name: &str, value: &str) -> String {
    if !LISTS.iter().any(|list| list.eq_ignore_ascii_case(name)) {
        return literal(value);
    }
    let names: Vec<String> = names(value).iter().map(|name| literal(name)).collect();
    if names.is_empty() { "''".to_owned() } else { names.join(", ") }
}

/// The names in a list, in lower case unless quoted. An invalid part stays a name that is not found.
fn names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut left = list.trim_start();
    while !left.is_empty() {
        let mut name = String::new();
        if let Some(quoted) = left.strip_prefix('"') {
            left = quoted;
            while let Some((part, rest)) = left.split_once('"') {
                name.push_str(part);
                left = rest;
                let Some(rest) = left.strip_prefix('"') else { break };
                name.push('"');
                left = rest;
            }
        }
        let (part, rest) = left.split_once(',').unwrap_or((left, ""));
        name.push_str(&part.trim_end().to_lowercase());
        names.push(name);
        left = rest.trim_start();
    }
    names
}

/// A string literal, whatever `standard_conforming_strings` says.
pub fn literal(value: &str) -> String {
    if value.contains('\\') {
        format!("E'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", value.replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use super::{assigned, quoted};

    #[test]
    fn names_are_quoted_part_by_part() {
        for (name, wanted) in
            [("DateStyle", "\"DateStyle\""), ("app.user", "\"app\".\"user\""), ("a.\"; DROP", "\"a\".\"\"\"; DROP\"")]
        {
            assert_eq!(quoted(name), wanted);
        }
    }

    #[test]
    fn lists_of_names_are_set_name_by_name() {
        for (value, wanted) in [
            ("public", "'public'"),
            ("\"$user\", public", "'$user', 'public'"),
            ("a,B , \"C,\"\"d\" ,e", "'a', 'b', 'C,\"d', 'e'"),
            ("", "''"),
            ("\"\"", "''"),
            ("x'; DROP", "'x''; drop'"),
            ("\"open", "'open'"),
        ] {
            assert_eq!(assigned("Search_Path", value), wanted, "{value}");
        }
        assert_eq!(assigned("DateStyle", "ISO, MDY"), "'ISO, MDY'");
    }
}
