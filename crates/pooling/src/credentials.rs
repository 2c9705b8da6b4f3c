//! How the pooler logs in to servers: the terms of a login (TLS, methods), and its password or key. The pools and the
//! monitor both use this file, so that they log in alike.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use wire::login::{Account, Error, Password, SslMode, Terms};

use crate::config::{Config, Database, Settings};
use crate::io::Socket;

/// The terms of the settings for a connection. On a Unix socket there is no eavesdropper, and PostgreSQL speaks no TLS
/// there.
pub fn terms(settings: &Settings, socket: &dyn Socket) -> Terms {
    let sslmode = if socket.is_local() { SslMode::Disable } else { settings.server_tls_sslmode };
    Terms { sslmode, binding: settings.server_channel_binding }
}

/// The place of a user's password.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Source {
    /// The configuration: the password holds for all databases.
    Configuration,
    /// The answer of this database's `auth_query`: the password holds for the database's servers. The user of the same
    /// name in another database may be another person.
    Query(String),
}

/// The secrets from clients' logins, for logins to servers.
#[derive(Default)]
pub struct Learnt {
    /// Stored passwords that `auth_query` has found, by database and user.
    found: HashMap<(String, String), Arc<str>>,
    /// The keys of clients that have logged in by SCRAM, by where their secret stands and by user.
    keys: HashMap<(Source, String), [u8; 32]>,
}

/// The secrets are not for logs.
impl fmt::Debug for Learnt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Learnt").finish_non_exhaustive()
    }
}

impl Learnt {
    /// A client has logged in to a database with this stored password; if by SCRAM, it has shown to have this key.
    pub fn learn(
        &mut self,
        config: &Config,
        database: &str,
        user: &str,
        stored: Option<Arc<str>>,
        client_key: Option<[u8; 32]>,
    ) {
        let is_configured = config.passwords.contains_key(user);
        if let Some(stored) = stored.filter(|_| !is_configured) {
            self.found.insert((database.to_owned(), user.to_owned()), stored);
        }
        if let Some(client_key) = client_key {
            let source = if is_configured { Source::Configuration } else { Source::Query(database.to_owned()) };
            self.keys.insert((source, user.to_owned()), client_key);
        }
    }

    /// The secrets from a client's login, for the process that takes the client over.
    pub fn recall(&self, config: &Config, database: &str, user: &str) -> (Option<Arc<str>>, Option<[u8; 32]>) {
        let is_configured = config.passwords.contains_key(user);
        let source = if is_configured { Source::Configuration } else { Source::Query(database.to_owned()) };
        let found = self.found.get(&(database.to_owned(), user.to_owned())).cloned();
        (found, self.keys.get(&(source, user.to_owned())).copied())
    }

    /// Forgets the secrets of databases that are not open any more.
    pub fn forget(&mut self, databases: &[String]) {
        let is_gone = |database: &String| databases.contains(database);
        self.found.retain(|(database, _), _| !is_gone(database));
        self.keys.retain(|(source, _), _| !matches!(source, Source::Query(database) if is_gone(database)));
    }

    /// The user and the password for logins to a database's servers: the password of the entry, the one in the
    /// configuration, or else the one that was found for this database.
    pub fn account(&self, config: &Config, database: &str, entry: &Database, user: &str) -> Account {
        let own = entry.password.as_deref().filter(|_| entry.user.as_deref().is_none_or(|of_entry| of_entry == user));
        let configured = own.or_else(|| config.passwords.get(user).map(String::as_str));
        let found = || self.found.get(&(database.to_owned(), user.to_owned())).map(|stored| &**stored);
        let key = |source| self.keys.get(&(source, user.to_owned())).copied();
        let key_here = key(Source::Query(database.to_owned()));
        let password = match configured {
            Some(stored) => Some(Password::stored(stored, key(Source::Configuration).into_iter().chain(key_here))),
            None => found().map(|stored| Password::stored(stored, key_here)),
        };
        Account { user: user.to_owned(), password }
    }
}

/// The reason why a login has failed, with the setting that it has failed by.
pub fn explain(error: &Error) -> String {
    match error {
        Error::Unbound(why) => format!("server_channel_binding = require: {why}"),
        other => other.to_string(),
    }
}

/// Whether new server connections are secured in another way than before.
pub fn secures_otherwise(old: &Settings, new: &Settings) -> bool {
    let relevant = |settings: &Settings| {
        let shown = settings.show().into_iter();
        let shown =
            shown.filter(|shown| shown.name.starts_with("server_tls_") || shown.name == "server_channel_binding");
        shown.map(|shown| shown.value).collect::<Vec<String>>()
    };
    relevant(old) != relevant(new)
}
