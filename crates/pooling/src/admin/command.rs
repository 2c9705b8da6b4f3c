//! The commands of the console, read from text.

use wire::backend::ColumnType::Text;

use super::show::Show;
use crate::admin::order::Order;
use crate::admin::show::view::{Columns, Dialect};
use crate::error::Error;
use crate::shared::Ending;

/// A parameter of PostgreSQL that drivers ask for or set on their own.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name of the parameter.
    pub name: &'static str,
    /// The value on the console, whatever is set.
    pub value: &'static str,
    columns: Columns,
}

macro_rules! parameters {
    ($($name:literal $value:literal;)+) => {
        &[$(Parameter { name: $name, value: $value, columns: &[($name, Text)] },)+]
    };
}

const PARAMETERS: &[Parameter] = parameters! {
    "client_encoding" "UTF8";
    "datestyle" "ISO";
    "default_transaction_isolation" "read committed";
    "extra_float_digits" "2";
    "standard_conforming_strings" "on";
    "timezone" "GMT";
};

fn parameter(name: &str) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|parameter| parameter.name.eq_ignore_ascii_case(name))
}

/// The columns of the results of BAN and UNBAN, as in PgCat.
const BANNED: Columns = &[("db", Text), ("user", Text), ("role", Text), ("host", Text)];

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// SHOW with the word for its view.
    Show(Show),
    /// SHOW of a parameter that drivers ask for, though the console does not use it.
    ShowParameter(&'static Parameter),
    /// PAUSE \[database\].
    Pause(Option<String>),
    /// RESUME \[database\].
    Resume(Option<String>),
    /// SUSPEND.
    Suspend,
    /// RECONNECT \[database\].
    Reconnect(Option<String>),
    /// WAIT_CLOSE \[database\].
    WaitClose(Option<String>),
    /// KILL \[database\].
    Kill(Option<String>),
    /// KILL_CLIENT id.
    KillClient(u64),
    /// DISABLE database.
    Disable(String),
    /// ENABLE database.
    Enable(String),
    /// BAN host \[seconds\]: no reads from the servers there.
    Ban(String, Option<u64>),
    /// UNBAN host.
    Unban(String),
    /// RELOAD.
    Reload,
    /// TAKEOVER: a process asks for the listening sockets, or reports that it serves them.
    Takeover {
        /// Whether the process serves them.
        done: bool,
    },
    /// TAKEOVER CLIENTS: the process asks for the clients that have nothing under way.
    TakeoverClients,
    /// SHUTDOWN, at once or not.
    Shutdown(Ending),
    /// SET key = value.
    Set(String, String),
    /// SET of a parameter that drivers set, though the console does not use it.
    SetParameter,
    /// An empty command.
    Empty,
}

impl Command {
    /// Reads a command; the error says what is wrong.
    pub fn read(text: &str) -> Result<Self, Error> {
        let text = text.trim().trim_end_matches(';').trim();
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default().to_uppercase();
        let rest: Vec<&str> = words.collect();
        let argument = text.get(verb.len()..).unwrap_or_default().trim();
        let quoted = quoted(argument);
        let name = quoted.clone().or_else(|| rest.first().map(|name| (*name).to_owned()));
        let required = || name.clone().ok_or_else(|| needs(&verb, "the name of a database"));
        let most = match verb.as_str() {
            "SET" | "SHOW" => usize::MAX,
            "BAN" => 2,
            "SUSPEND" => 0,
            _ => 1,
        };
        if rest.len() > most && (quoted.is_none() || most == 0) {
            return Err(Error::NoCommand(text.to_owned()));
        }
        Ok(match verb.as_str() {
            "" => Self::Empty,
            "SHOW" => Self::show(&rest.join(" ").to_uppercase())?,
            "PAUSE" => Self::Pause(name),
            "RESUME" => Self::Resume(name),
            "SUSPEND" => Self::Suspend,
            "RECONNECT" => Self::Reconnect(name),
            "WAIT_CLOSE" => Self::WaitClose(name),
            "KILL" => Self::Kill(name),
            "KILL_CLIENT" => {
                let id = name.as_deref().and_then(|id| id.parse().ok());
                Self::KillClient(id.ok_or_else(|| needs(&verb, "the id of a client, as SHOW CLIENTS shows it"))?)
            }
            "DISABLE" => Self::Disable(required()?),
            "ENABLE" => Self::Enable(required()?),
            "BAN" => Self::ban(name, rest.get(1).copied())?,
            "UNBAN" => Self::Unban(name.ok_or_else(|| needs(&verb, "a host, or host:port"))?),
            "RELOAD" => Self::Reload,
            "TAKEOVER" => match name.map(|name| name.to_uppercase()).as_deref() {
                None => Self::Takeover { done: false },
                Some("DONE") => Self::Takeover { done: true },
                Some("CLIENTS") => Self::TakeoverClients,
                Some(_) => return Err(Error::Takes { verb: "TAKEOVER", what: "DONE, CLIENTS or nothing" }),
            },
            "SHUTDOWN" => match name.map(|name| name.to_uppercase()).as_deref() {
                None => Self::Shutdown(Ending::AtOnce),
                Some("WAIT_FOR_SERVERS") => Self::Shutdown(Ending::Drain),
                Some("WAIT_FOR_CLIENTS") => Self::Shutdown(Ending::WaitForClients),
                Some(_) => return Err(Error::Takes { verb: "SHUTDOWN", what: "WAIT_FOR_CLIENTS or WAIT_FOR_SERVERS" }),
            },
            "SET" => Self::set(argument)?,
            _ => return Err(Error::NoCommand(text.to_owned())),
        })
    }

    fn show(what: &str) -> Result<Self, Error> {
        let shown = Show::read(what).map(Self::Show).or_else(|| parameter(what).map(Self::ShowParameter));
        shown.ok_or_else(|| Error::NothingToShow(what.to_owned()))
    }

    fn ban(host: Option<String>, seconds: Option<&str>) -> Result<Self, Error> {
        let host = host.ok_or_else(|| needs("BAN", "a host, or host:port, and may have a number of seconds"))?;
        let seconds = seconds.map(|seconds| seconds.parse().ok().filter(|seconds| *seconds > 0));
        if seconds == Some(None) {
            return Err(Error::Takes { verb: "BAN", what: "a number of seconds, 1 or more" });
        }
        Ok(Self::Ban(host, seconds.flatten()))
    }

    fn set(assignment: &str) -> Result<Self, Error> {
        let split = ["=", " TO ", " to "].into_iter().find_map(|sign| assignment.split_once(sign));
        let (key, value) = split.ok_or_else(|| needs("SET", "key = value"))?;
        let key = key.trim().trim_matches('"').to_lowercase();
        let value = value.trim();
        let bare = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
        let value = bare.map_or_else(|| value.to_owned(), |bare| bare.replace("''", "'"));
        Ok(if parameter(&key).is_some() { Self::SetParameter } else { Self::Set(key, value) })
    }

    /// The order to all workers for this command, if there is one.
    pub fn order(&self) -> Option<Order> {
        Some(match self {
            Self::Show(show) if show.looks() => Order::Look(show.at()),
            Self::Pause(database) => Order::Pause(database.clone()),
            Self::Resume(database) => Order::Resume(database.clone()),
            Self::Suspend => Order::Suspend,
            Self::Reconnect(database) => Order::Reconnect(database.clone()),
            Self::WaitClose(database) => Order::WaitClose(database.clone()),
            Self::Kill(database) => Order::Kill(database.clone()),
            Self::KillClient(id) => Order::KillClient(*id),
            _ => return None,
        })
    }

    /// Whether the command ends only when no connection is left.
    pub fn waits(&self) -> bool {
        matches!(self, Self::Pause(_) | Self::Suspend | Self::WaitClose(_))
    }

    /// The kind of the event that the command is; none if it is none, or if what it does is one.
    pub fn kind_of_event(&self) -> Option<&'static str> {
        Some(match self {
            Self::Pause(_) => "pause",
            Self::Resume(_) => "resume",
            Self::Suspend => "suspend",
            Self::Reconnect(_) => "reconnect",
            Self::Kill(_) => "kill",
            Self::Disable(_) => "disable",
            Self::Enable(_) => "enable",
            Self::Shutdown(_) => "shutdown",
            _ => return None,
        })
    }

    /// Whether the command changes nothing.
    pub fn only_looks(&self) -> bool {
        matches!(self, Self::Show(_) | Self::ShowParameter(_) | Self::SetParameter | Self::Empty)
    }

    /// The columns of the result, if it has rows.
    pub fn columns(&self, dialect: Dialect) -> Option<Columns> {
        match self {
            Self::Show(show) => Some(show.columns(dialect)).filter(|columns| !columns.is_empty()),
            Self::ShowParameter(parameter) => Some(parameter.columns),
            Self::Ban(..) | Self::Unban(_) => Some(BANNED),
            _ => None,
        }
    }

    /// The command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Show(_) | Self::ShowParameter(_) => "SHOW",
            Self::Pause(_) => "PAUSE",
            Self::Resume(_) => "RESUME",
            Self::Suspend => "SUSPEND",
            Self::Reconnect(_) => "RECONNECT",
            Self::WaitClose(_) => "WAIT_CLOSE",
            Self::Kill(_) => "KILL",
            Self::KillClient(_) => "KILL_CLIENT",
            Self::Disable(_) => "DISABLE",
            Self::Enable(_) => "ENABLE",
            Self::Ban(..) => "BAN",
            Self::Unban(_) => "UNBAN",
            Self::Reload => "RELOAD",
            Self::Takeover { .. } | Self::TakeoverClients => "TAKEOVER",
            Self::Shutdown(_) => "SHUTDOWN",
            Self::Set(..) | Self::SetParameter => "SET",
            Self::Empty => "",
        }
    }
}

fn needs(verb: &str, what: &'static str) -> Error {
    Error::Needs { verb: verb.to_owned(), what }
}

/// A name in double quotes, `""` in it for one; none when it is not all that stands there.
fn quoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let plain = inner.replace("\"\"", "\u{0}");
    (!plain.contains('"')).then(|| plain.replace('\u{0}', "\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_whatever_their_case() {
        assert_eq!(Command::read(" show pools; "), Ok(Command::Show(Show::Pools)));
        assert_eq!(Command::read("PAUSE"), Ok(Command::Pause(None)));
        assert_eq!(Command::read("pause \"App\""), Ok(Command::Pause(Some("App".to_owned()))));
        assert_eq!(Command::read("pause \"a b\"\"c\""), Ok(Command::Pause(Some("a b\"c".to_owned()))));
        assert_eq!(Command::read("SET TimeZone TO 'UTC'"), Ok(Command::SetParameter));
        assert_eq!(Command::read("SHUTDOWN wait_for_clients"), Ok(Command::Shutdown(Ending::WaitForClients)));
        assert_eq!(Command::read("SET logfile = '/it''s'"), Ok(Command::Set("logfile".to_owned(), "/it's".to_owned())));
        assert_eq!(
            Command::read("show client_encoding").unwrap().columns(Dialect::PgBouncer).unwrap()[0].0,
            "client_encoding"
        );
        assert_eq!(
            Command::read("SET default_pool_size = '5'"),
            Ok(Command::Set("default_pool_size".to_owned(), "5".to_owned()))
        );
        assert_eq!(Command::read("ban 10.0.0.1 7;"), Ok(Command::Ban("10.0.0.1".to_owned(), Some(7))));
        assert_eq!(Command::read("UNBAN db:5432"), Ok(Command::Unban("db:5432".to_owned())));
        assert_eq!(Command::read("suspend;"), Ok(Command::Suspend));
        assert_eq!(Command::read(";"), Ok(Command::Empty));
        for wrong in [
            "SHOW",
            "SHOW NOTHING",
            "DISABLE",
            "SELECT 1",
            "PAUSE a b",
            "SUSPEND a",
            "SUSPEND \"a\"",
            "KILL_CLIENT x",
            "BAN",
            "BAN x 0",
            "BAN x y",
            "UNBAN",
        ] {
            assert!(Command::read(wrong).is_err(), "{wrong}");
        }
    }
}
