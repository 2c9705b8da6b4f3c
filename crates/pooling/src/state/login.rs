//! A client's login: its requests, and its progress.

use std::sync::Arc;

use crate::model::relay::Replication;
use crate::model::vars::USUAL;
use wire::startup::Startup;
use wire::{backend, scram};

use crate::assignment::Place;
use crate::config::{self, AuthType, Config, Settings};
use crate::error::Error;
use crate::password::Stored;

/// A client that has proven its identity and has no place at its database yet.
#[derive(Debug)]
pub struct Proven {
    /// Its user and database, and the settings that it asks for.
    pub introduction: Introduction,
    /// Its password as it is stored, since servers may ask for it.
    pub secret: Option<Arc<str>>,
    /// The key that the client has proven by SCRAM, since servers may ask for it.
    pub client_key: Option<scram::Key>,
    /// Whether the client is on the console, as the account that the pooler runs as.
    pub own_account: bool,
    /// Its place at its database, once the client has one.
    pub place: Option<Place>,
}

/// The length of the longest password message that is accepted, in bytes.
pub const MAX_PASSWORD: usize = 8192;

/// A login that is under way.
#[derive(Debug)]
pub struct Login {
    /// The client's request.
    pub introduction: Introduction,
    /// The method by which the client has to prove its identity.
    pub method: AuthType,
    /// Whether the client is on the console, as the account that the pooler runs as.
    pub own_account: bool,
    /// The key that the client has proven by SCRAM.
    pub client_key: Option<scram::Key>,
}

/// The progress of a login.
#[derive(Debug)]
pub enum Phase {
    /// `auth_query` is looking the password up.
    Lookup(Lookup),
    /// The client's answer is awaited.
    Challenge(Challenge),
    /// A secret is being derived.
    Deriving {
        /// Its purpose.
        then: Derivation,
        /// Tells the deriving thread that the secret is still wanted.
        _awaited: Arc<()>,
    },
}

/// The challenge to a client.
#[derive(Debug)]
pub enum Challenge {
    /// The password as it is.
    Plain(Stored),
    /// The password hashed with this salt.
    Md5(Stored, [u8; 4]),
    /// The first message of SCRAM.
    ScramFirst(Stored),
    /// The last message of SCRAM.
    ScramFinal(Stored, Box<scram::Server>),
}

/// The use of a secret when it has been derived.
#[derive(Debug)]
pub enum Derivation {
    /// The secret of a plain password from the client is compared with the stored password.
    Compare(Stored),
    /// The client must prove by SCRAM that it knows the secret; its first message is kept here.
    Prove(Stored, Vec<u8>),
}

impl Phase {
    /// Whether the login waits for a message of the client.
    pub fn awaits_client(&self) -> bool {
        matches!(self, Self::Challenge(_))
    }
}

/// The place and the query of a look-up of a client's password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The database.
    pub database: String,
    /// The user that runs the query.
    pub user: String,
    /// The query.
    pub query: String,
    /// Whether the database is the one that the client has named: then a refusal by the server says something about it.
    pub own: bool,
    /// The results so far.
    pub stored: Stored,
    /// Whether a row had no second column: then the query is at fault, and not the client.
    pub lacks_password: bool,
}

impl Lookup {
    /// The look-up for a client of this database; `None` when there is none to be done.
    pub fn of(config: &Config, database: &str) -> Option<Self> {
        let settings = &config.settings;
        let entry = config.database(database);
        let place = entry.and_then(|entry| entry.auth_dbname.as_ref()).unwrap_or(&settings.auth_dbname);
        if entry.is_none() && place.is_empty() {
            // The owner of a server could make himself an administrator of the pooler.
            if config::is_console(database) {
                return None;
            }
            // A look-up all the same takes the time that it takes for a database that exists.
            let other = config.databases.keys().find_map(|name| Self::of(config, name));
            return other.map(|other| Self { own: false, ..other });
        }
        let user = entry.and_then(|entry| entry.auth_user.as_ref()).unwrap_or(&settings.auth_user);
        let query = entry.and_then(|entry| entry.auth_query.as_ref()).unwrap_or(&settings.auth_query);
        let own = place.is_empty();
        let database = if own { database } else { place }.to_owned();
        let (user, query) = (user.clone(), query.clone());
        (!user.is_empty()).then_some(Self { database, user, query, own, stored: Stored::Nobody, lacks_password: false })
    }
}

/// The length of the longest name of a user or database, in bytes; PostgreSQL cuts its own names off at 63.
const MAX_NAME: usize = 128;

/// The client's user and database, and the settings that it asks for.
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
    /// Whether the client asks for a replication connection, and of which kind.
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
        // Physical replication has no database: this name stands for it, as in libpq.
        let unnamed = if replication == Some(Replication::Physical) { "replication" } else { user };
        let database = startup.get("database").filter(|name| !name.is_empty()).unwrap_or(unnamed);
        for (what, name) in [("user", user), ("database", database)] {
            if name.len() > MAX_NAME {
                return Err(Error::LongName { what, most: MAX_NAME });
            }
        }
        let mut unknown = Vec::new();
        let (mut given, mut named) = (Vec::new(), Vec::new());
        for &(name, value) in &startup.parameters {
            match name {
                "user" | "database" | "replication" => (),
                _ if name.starts_with("_pq_.") => unknown.push(name.to_owned()),
                // Of options that are to be ignored PgBouncer takes the parameters that it tracks.
                "options" if settings.ignore_startup_parameters.has(name) => {
                    let options = options_of(value).unwrap_or_default();
                    given.extend(options.into_iter().filter(|(name, _)| pgbouncer_tracks(name, settings)));
                }
                _ if settings.ignore_startup_parameters.has(name) => (),
                "options" => given.extend(options_of(value)?),
                _ => named.push((name.to_owned(), value.to_owned())),
            }
        }
        // As in PostgreSQL, a parameter that has a place of its own in the packet overrides `options`, before it or behind.
        given.append(&mut named);
        given.retain(|(name, _)| !settings.ignore_startup_parameters.has(name));
        let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_word = |name: &str| name.split('.').all(is_part);
        if let Some((name, _)) = given.iter().find(|(name, _)| !is_word(name)) {
            return Err(Error::Parameter(name.clone()));
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

/// Whether PgBouncer tracks a parameter: `search_path` only where the configuration says so.
fn pgbouncer_tracks(name: &str, settings: &Settings) -> bool {
    let usual = USUAL.iter().copied().filter(|&usual| usual != "search_path");
    let extra = settings.track_extra_parameters.0.iter().map(String::as_str);
    usual.chain(extra).any(|tracked| tracked.eq_ignore_ascii_case(name))
}

/// The parameters in a startup packet's `options`: `-c name=value` and `--name=value`, a backslash before a space.
pub fn options_of(text: &str) -> Result<Vec<(String, String)>, Error> {
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
        let Some((name, value)) = pair.as_deref().and_then(|pair| pair.split_once('=')) else {
            return Err(Error::Options(pair.unwrap_or(word)));
        };
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
        for (text, word) in [("-x", "-x"), ("-c", "-c"), ("-c a.b=1 -c x", "x"), ("--x", "x")] {
            assert_eq!(options_of(text), Err(Error::Options(word.to_owned())));
        }
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
    fn ignored_options_still_set_what_is_tracked() {
        let settings = Settings {
            ignore_startup_parameters: Value::read("options").unwrap(),
            track_extra_parameters: Value::read("lc_time").unwrap(),
            ..Settings::default()
        };
        let read = |options| {
            let parameters = vec![("user", "bob"), ("options", options)];
            Introduction::read(&Startup { minor: 0, parameters }, &settings).unwrap().parameters
        };
        let kept = read("-c timezone=UTC -c work_mem=1MB -c search_path=x -c LC_TIME=C");
        let kept: Vec<(&str, &str)> = kept.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(kept, [("timezone", "UTC"), ("LC_TIME", "C")]);
        assert!(read("-d").is_empty());
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
