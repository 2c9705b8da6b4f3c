//! `pgbouncer.ini`, as PgBouncer reads it: sections, `key = value`, connection strings, `%include`.

use std::path::Path;

use super::nearest::nearest;
use pooling::config::configuration::Config;
use pooling::config::entries::{Database, User};
use pooling::config::settings::{Settings, WITHOUT_EFFECT};
use pooling::config::value::Value;

/// Reads the text of `pgbouncer.ini`; `path` is for what it includes.
pub fn read(text: &str, path: &Path) -> Result<Config, String> {
    let mut config = Config::default();
    let mut section = String::new();
    read_into(&mut config, &mut section, text, path, 0)?;
    Ok(config)
}

fn read_into(config: &mut Config, section: &mut String, text: &str, path: &Path, depth: usize) -> Result<(), String> {
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let place = |message: String| format!("line {}: {message}", number + 1);
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(included) = line.strip_prefix("%include") {
            if depth >= 10 {
                return Err(place("too many files include one another".to_owned()));
            }
            let included = path.parent().unwrap_or(Path::new(".")).join(included.trim());
            let text = std::fs::read_to_string(&included)
                .map_err(|error| place(format!("cannot read {}: {error}", included.display())))?;
            config.files.push(included.clone());
            read_into(config, section, &text, &included, depth + 1)?;
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or_else(|| place("expected [section]".to_owned()))?;
            *section = name.trim().to_owned();
            continue;
        }
        let (key, value) = line.split_once('=').ok_or_else(|| place("expected key = value".to_owned()))?;
        let (key, value) = (key.trim(), value.trim());
        match section.as_str() {
            "pgbouncer" => set(config, key, value).map_err(place)?,
            "databases" => database(config, key, value).map_err(place)?,
            "users" => user(config, key, value).map_err(place)?,
            "peers" => config.remarks.push("the section [peers] is not supported and has no effect".to_owned()),
            other => return Err(place(format!("there is no section [{other}]"))),
        }
    }
    Ok(())
}

fn set(config: &mut Config, key: &str, value: &str) -> Result<(), String> {
    match config.settings.set(key, value) {
        Some(Ok(())) => Ok(()),
        Some(Err(expected)) => Err(format!("{key} = {value}: expected {expected}")),
        // Who relies on it must not be left without.
        None if key == "disable_pqexec" && matches!(bool::read(value), Ok(false)) => Ok(()),
        None if key == "disable_pqexec" => Err("disable_pqexec is not supported".to_owned()),
        None => {
            config.remarks.push(if WITHOUT_EFFECT.contains(&key) {
                format!("{key} is a setting of PgBouncer that has no effect here")
            } else {
                match nearest(key, Settings::NAMES.iter().copied()) {
                    Some(near) => format!("unknown setting {key} has no effect; did you mean {near}?"),
                    None => format!("unknown setting {key} has no effect"),
                }
            });
            Ok(())
        }
    }
}

fn database(config: &mut Config, name: &str, text: &str) -> Result<(), String> {
    let mut entry = Database::default();
    for (key, value) in pairs(text)? {
        match entry.set(&key, &value) {
            Some(Ok(())) => (),
            Some(Err(expected)) => return Err(format!("database {name}: {key} = {value}: expected {expected}")),
            None if key == "application_name" => {
                config.remarks.push(format!("database {name}: application_name has no effect here"));
            }
            None => return Err(unknown("database", name, &key, Database::names())),
        }
    }
    let name = name.trim_matches('"');
    if name == "*" {
        config.fallback = Some(Database { wildcard: true, ..entry });
    } else {
        config.databases.insert(name.to_owned(), entry);
    }
    Ok(())
}

fn user(config: &mut Config, name: &str, text: &str) -> Result<(), String> {
    let mut entry = User::default();
    for (key, value) in pairs(text)? {
        match entry.set(&key, &value) {
            Some(Ok(())) => (),
            Some(Err(expected)) => return Err(format!("user {name}: {key} = {value}: expected {expected}")),
            None => return Err(unknown("user", name, &key, User::names())),
        }
    }
    config.users.insert(name.trim_matches('"').to_owned(), entry);
    Ok(())
}

/// The error for a key that an entry cannot have: with what it was meant to say left out, the entry would say another
/// thing.
fn unknown(kind: &str, name: &str, key: &str, known: impl Iterator<Item = &'static str>) -> String {
    let near = nearest(key, known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!("{kind} {name}: there is no setting {key}{near}")
}

/// The pairs of a connection string: `key=value`, spaces between, values in single quotes with `''` for a quote.
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').ok_or_else(|| format!("expected key=value at '{rest}'"))?;
        let mut after = after.trim_start();
        let mut value = String::new();
        if let Some(quoted) = after.strip_prefix('\'') {
            after = quoted;
            loop {
                let (part, next) = after.split_once('\'').ok_or("a quote is not closed")?;
                value.push_str(part);
                match next.strip_prefix('\'') {
                    Some(next) => {
                        value.push('\'');
                        after = next;
                    }
                    None => {
                        after = next;
                        break;
                    }
                }
            }
        } else {
            let end = after.find(char::is_whitespace).unwrap_or(after.len());
            let (word, next) = after.split_at(end);
            value.push_str(word);
            after = next;
        }
        found.push((key.trim().to_owned(), value));
        rest = after.trim_start();
    }
    Ok(found)
}
