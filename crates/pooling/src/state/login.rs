//! A client's login: what it asks for, and how far it has come.

use std::sync::Arc;

use crate::model::relay::Replication;
use wire::startup::Startup;
use wire::{backend, scram};

use crate::config::{self, AuthType, Config, Settings};
use crate::error::Error;
use crate::homes::Place;
use crate::password::Stored;

/// A client that has proven who it is and has not been given a place at its database.
#[derive(Debug)]
pub struct Proven {
    /// Who it is, and what it wants its session to be like.
    pub introduction: Introduction,
    /// Its password as it is stored, since servers may ask for it.
    pub secret: Option<Arc<str>>,
    /// The key that it has shown to have by SCRAM, for the same reason.
    pub client_key: Option<scram::Key>,
    /// Whether it is the account that the pooler runs as, on the console.
    pub own_account: bool,
    /// Its place at its database, once it has one.
    pub place: Option<Place>,
}

/// A password message is not longer than this.
pub const MAX_PASSWORD: usize = 8192;

/// A login that is under way.
#[derive(Debug)]
pub struct Login {
    /// What the client has asked for.
    pub introduction: Introduction,
    /// How the client has to prove who it is.
    pub method: AuthType,
    /// Whether it is the account that the pooler runs as, on the console.
    pub own_account: bool,
    /// The key that it has shown to have by SCRAM.
    pub client_key: Option<scram::Key>,
}

/// How far a login has come.
#[derive(Debug)]
pub enum Phase {
    /// `auth_query` is to find the password.
    Lookup(Lookup),
    /// The client's answer is awaited.
    Challenge(Challenge),
    /// A secret is being derived.
    Deriving {
        /// What it is for.
        then: Derivation,
        /// Tells that it is still wanted.
        _awaited: Arc<()>,
    },
}

/// What a client was asked.
#[derive(Debug)]
pub enum Challenge {
    /// Its password as it is.
    Plain(Stored),
    /// Its password hashed with this salt.
    Md5(Stored, [u8; 4]),
    /// The first message of SCRAM.
    ScramFirst(Stored),
    /// The last message of SCRAM.
    ScramFinal(Stored, Box<scram::Server>),
}

/// What is done with a secret when it has been derived.
#[derive(Debug)]
pub enum Derivation {
    /// It is compared with what is stored: it is that of a password that the client sent as it is.
    Compare(Stored),
    /// It is what the client must prove to know; this was its first message.
    Prove(Stored, Vec<u8>),
}

impl Phase {
    /// Whether the client is to say something.
    pub fn awaits_client(&self) -> bool {
        matches!(self, Self::Challenge(_))
    }
}

/// Where and how the password of a client is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The database.
    pub database: String,
    /// The user who asks.
    pub user: String,
    /// The query.
    pub query: String,
    /// Whether it is the database that the client has named: then a server that refuses it says something about it.
    pub own: bool,
    /// What was found so far.
    pub stored: Stored,
}

impl Lookup {
    /// The look-up for a client of this database; `None` when there is none to be done.
    pub fn of(config: &Config, database: &str) -> Option<Self> {
        let settings = &config.settings;
        let entry = config.database(database);
        let place = entry.and_then(|entry| entry.auth_dbname.as_ref()).unwrap_or(&settings.auth_dbname);
        if entry.is_none() && place.is_empty() {
            // Whoever owns a server could make himself an administrator of the pooler.
            if config::is_console(database) {
                return None;
            }
            // Looking up all the same takes the time that it takes for a database that there is.
            let other = config.databases.keys().find_map(|name| Self::of(config, name));
            return other.map(|other| Self { own: false, ..other });
        }
        let user = entry.and_then(|entry| entry.auth_user.as_ref()).unwrap_or(&settings.auth_user);
        let query = entry.and_then(|entry| entry.auth_query.as_ref()).unwrap_or(&settings.auth_query);
        let own = place.is_empty();
        let database = if own { database } else { place }.to_owned();
        let (user, query) = (user.clone(), query.clone());
        (!user.is_empty()).then_some(Self { database, user, query, own, stored: Stored::Nobody })
    }
}

/// Longer names of users and databases are no names: PostgreSQL cuts its own off at 63 bytes.
const MAX_NAME: usize = 128;

/// Who a client says it is, and what it wants its session to be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
    /// The minor version of the protocol that is spoken.
    pub minor: u16,
    /// The parameters of the session, those in `options` too.
    pub parameters: Vec<(String, String)>,
    /// Whether it asks for a replication connection, and of which kind.
    pub replication: Option<Replication>,
    /// Whether the client asked for a version, or for options of the protocol, that are not known.
    negotiate: Option<Vec<String>>,
}

impl Introduction {
    /// Reads a startup packet.
    pub fn read(startup: &Startup<'_>, settings: &Settings) -> Result<Self, Error> {
        let user = startup.get("user").filter(|user| !user.is_empty()).ok_or(Error::NoUser)?;
        let replication =
            startup.get("replication").map(Replication::read).transpose().map_err(Error::Replication)?.flatten();
        // Physical replication is of no database: this name stands for it, as libpq has it.
        let unnamed = if replication == Some(Replication::Physical) { "replication" } else { user };
        let database = startup.get("database").filter(|name| !name.is_empty()).unwrap_or(unnamed);
        for (what, name) in [("user", user), ("database", database)] {
            if name.len() > MAX_NAME {
                return Err(Error::LongName { what, most: MAX_NAME });
            }
        }
        let mut unknown = Vec::new();
        let mut given = Vec::new();
        for &(name, value) in &startup.parameters {
            match name {
                "user" | "database" | "replication" => (),
                _ if name.starts_with("_pq_.") => unknown.push(name.to_owned()),
                _ if settings.ignore_startup_parameters.has(name) => (),
                "options" => given.extend(options_of(value)?),
                _ => given.push((name.to_owned(), value.to_owned())),
            }
        }
        given.retain(|(name, _)| !settings.ignore_startup_parameters.has(name));
        let is_word = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if let Some((name, _)) = given.iter().find(|(name, _)| !is_word(name)) {
            return Err(Error::Parameter { place: "", name: name.clone() });
        }
        let asks_for_more = startup.minor > 2 || startup.minor == 1 || !unknown.is_empty();
        Ok(Self {
            user: user.to_owned(),
            database: database.to_owned(),
            minor: if startup.minor >= 2 { 2 } else { 0 },
            parameters: given,
            replication,
            negotiate: asks_for_more.then_some(unknown),
        })
    }

    /// Tells a client which version of the protocol is spoken, if it is not the one that it asked for.
    pub fn write_negotiation(&mut self, out: &mut Vec<u8>) {
        if let Some(unknown) = self.negotiate.take() {
            let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
            backend::write_negotiate_version(out, self.minor, &unknown);
        }
    }
}

/// The parameters in a startup packet's `options`: `-c name=value` and `--name=value`, a backslash before a space.
pub(crate) fn options_of(text: &str) -> Result<Vec<(String, String)>, Error> {
    let mut words: Vec<String> = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(characters.next())),
            c if c.is_whitespace() => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let pair = if word == "-c" {
            words.next()
        } else {
            word.strip_prefix("--").or_else(|| word.strip_prefix("-c")).map(str::to_owned)
        };
        let pair = pair.as_deref().and_then(|pair| pair.split_once('='));
        let (name, value) = pair.ok_or(Error::Parameter { place: " in options", name: word })?;
        found.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Value;

    #[test]
    fn options_are_read_as_postgresql_reads_them() {
        let options = options_of(r"-c a.b=1 --search-path=x\ y  -cc=3").unwrap();
        let options: Vec<(&str, &str)> = options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(options, [("a.b", "1"), ("search_path", "x y"), ("c", "3")]);
        assert!(options_of("-x").is_err());
    }

    #[test]
    fn what_is_to_be_ignored_is_ignored_wherever_it_stands() {
        let settings = Settings {
            ignore_startup_parameters: Value::read("extra_float_digits, geqo").unwrap(),
            ..Settings::default()
        };
        let parameters = vec![
            ("user", "bob"),
            ("extra_float_digits", "3"),
            ("options", "-c geqo=off --extra-float-digits=2 -c work_mem=1MB"),
        ];
        let introduction = Introduction::read(&Startup { minor: 0, parameters }, &settings).unwrap();
        assert_eq!(introduction.parameters, [("work_mem".to_owned(), "1MB".to_owned())]);
        assert_eq!((&*introduction.user, &*introduction.database), ("bob", "bob"));
    }

    #[test]
    fn long_names_are_refused() {
        let long = "x".repeat(MAX_NAME + 1);
        for parameters in [vec![("user", &*long)], vec![("user", "bob"), ("database", &long)]] {
            let refusal = Introduction::read(&Startup { minor: 0, parameters }, &Settings::default()).unwrap_err();
            assert_eq!(refusal.sqlstate(), "08P01");
        }
    }
}
