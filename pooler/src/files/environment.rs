//! Environment variables in the strings of `howdah.toml`: `${NAME}`, `${NAME:-what it is when unset or empty}`; `$${`
//! is a plain `${`. They are replaced after the file was parsed, so a value can only be a string, and comments are not
//! searched.

use toml::{Table, Value as Toml};

/// The variables of the service of the Debian package.
const SERVICES: &str = "/etc/default/howdah-pooler";

/// Looks a variable up.
type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Puts variables into all strings of a table; the error says which is missing.
pub fn put_in(table: &mut Table, variable: Variable<'_>) -> Result<(), String> {
    for (key, value) in table.iter_mut() {
        into_value(value, variable).map_err(|message| format!("{key}: {message}"))?;
    }
    Ok(())
}

fn into_value(value: &mut Toml, variable: Variable<'_>) -> Result<(), String> {
    match value {
        Toml::String(text) => {
            *text = interpolate(text, variable)?;
            Ok(())
        }
        Toml::Array(items) => items.iter_mut().try_for_each(|item| into_value(item, variable)),
        Toml::Table(table) => put_in(table, variable),
        _ => Ok(()),
    }
}

fn interpolate(text: &str, variable: Variable<'_>) -> Result<String, String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            result.push_str(before);
            result.push_str("${");
            rest = after;
            continue;
        }
        let (name, next) = after.split_once('}').ok_or("a ${ is not closed by }")?;
        let (name, default) = name.split_once(":-").map_or((name, None), |(name, default)| (name, Some(default)));
        let value = variable(name).filter(|value| default.is_none() || !value.is_empty());
        let value = value.or_else(|| default.map(str::to_owned));
        result.push_str(before);
        result.push_str(&value.ok_or_else(|| missing(name))?);
        rest = next;
    }
    result.push_str(rest);
    Ok(result)
}

/// The error for a variable that is not set: the service of the Debian package has it, and a shell has not.
fn missing(name: &str) -> String {
    format!(
        "the environment has no variable {name}; if {SERVICES} sets it, run the command with the variables of that file: \
         sudo sh -c 'set -a; . {SERVICES}; howdah-pooler check FILE'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Result<String, String> {
        let mut table = format!("# ${{COMMENT}}\n[a]\nb = [{text}]\n").parse::<Table>().unwrap();
        put_in(&mut table, &|name| match name {
            "SECRET" => Some("a\"b\\'${SECRET}\n[x]".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })?;
        Ok(table["a"]["b"][0].as_str().unwrap().to_owned())
    }

    #[test]
    fn variables_are_put_into_strings_and_cannot_break_out_of_them() {
        for (text, value) in [
            (r#""p ${SECRET}""#, "p a\"b\\'${SECRET}\n[x]"),
            ("'${SECRET}'", "a\"b\\'${SECRET}\n[x]"),
            ("'<${EMPTY}>'", "<>"),
            ("'${EMPTY:-default}${UNSET:-}'", "default"),
            ("'$${SECRET} and $5'", "${SECRET} and $5"),
        ] {
            assert_eq!(given(text).as_deref(), Ok(value), "{text}");
        }
        let told = given("'${UNSET}'").unwrap_err();
        assert!(told.starts_with("a: b: the environment has no variable UNSET; if /etc/default/"), "{told}");
        assert_eq!(given("'${UNSET'").unwrap_err(), "a: b: a ${ is not closed by }");
    }
}
