//! Commands to the pooler in PgCat's words; no server would understand them.

use crate::verdict::{Command, Consistency, Role};

/// The command that a canonical text is.
pub fn command(canonical: &str) -> Option<Command> {
    // Only the words of a SET keep their values, and none of these has a blank.
    let mut words = canonical.split_ascii_whitespace();
    let head = (words.next()?, words.next()?, words.next()?);
    let command = match head {
        ("show", "server", "role") => Command::ShowServerRole,
        ("show", "primary", "reads") => Command::ShowPrimaryReads,
        ("show", "read", "your") if words.next()? == "writes" => Command::ShowReadYourWrites,
        ("set", "server", "role") => {
            to(words.next()?)?;
            Command::SetServerRole(match value(words.next()?).as_str() {
                "primary" => Role::Primary,
                "replica" => Role::Replica,
                "any" => Role::Any,
                "auto" => Role::Auto,
                "default" => Role::Default,
                _ => return None,
            })
        }
        ("set", "primary", "reads") => {
            to(words.next()?)?;
            Command::SetPrimaryReads(match value(words.next()?).as_str() {
                "on" => Some(true),
                "off" => Some(false),
                "default" => None,
                _ => return None,
            })
        }
        ("set", "read", "your") if words.next()? == "writes" => {
            to(words.next()?)?;
            Command::SetReadYourWrites(match value(words.next()?).as_str() {
                "session" => Some(Consistency::Session),
                "database" => Some(Consistency::Database),
                "off" => Some(Consistency::Off),
                "default" => None,
                _ => return None,
            })
        }
        _ => return None,
    };
    words.next().is_none().then_some(command)
}

fn to(word: &str) -> Option<()> {
    matches!(word, "to" | "=").then_some(())
}

fn value(word: &str) -> String {
    let word =
        word.strip_prefix("e'").or(word.strip_prefix('\'')).and_then(|word| word.strip_suffix('\'')).unwrap_or(word);
    word.to_ascii_lowercase()
}
