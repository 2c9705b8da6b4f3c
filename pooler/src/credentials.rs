//! How the pooler logs in to servers: on what terms, and with what. The pools and the monitor ask here, so that a server
//! is spoken to alike by both.

use wire::login::{Account, Error, Password, SslMode, Terms};

use crate::config::{Config, Database, Settings};
use crate::net::Stream;
use crate::shared::{Shared, lock};

/// The terms of the settings for a connection. On a Unix socket there is nobody to hide from, and PostgreSQL speaks no
/// TLS there.
pub fn terms(settings: &Settings, stream: &Stream) -> Terms {
    let sslmode = match stream {
        Stream::Tcp(_) => settings.server_tls_sslmode,
        Stream::Unix(_) => SslMode::Disable,
    };
    Terms { sslmode, binding: settings.server_channel_binding }
}

/// A user of a database's servers and the password: the entry's own, the one in the configuration, or else the one that
/// was `found` elsewhere.
pub fn account(shared: &Shared, config: &Config, entry: &Database, user: &str, found: Option<&str>) -> Account {
    let own = entry.password.as_deref().filter(|_| entry.user.as_deref().is_none_or(|of_entry| of_entry == user));
    let stored = own.or_else(|| config.passwords.get(user).map(String::as_str)).or(found);
    let client_key = lock(&shared.keys).get(user).copied();
    Account { user: user.to_owned(), password: stored.map(|stored| Password::stored(stored, client_key)) }
}

/// Why a login has failed, with the setting that it has failed by.
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
