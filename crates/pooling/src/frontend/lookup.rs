//! `auth_query`: the passwords of users who are not in the configuration, looked up on a server.
//!
//! The client is not authenticated yet, so the resources that it can cause to be used are bounded. If passwords are
//! looked up in one database (`auth_dbname`), or in databases of the configuration, the pool of that database and
//! `auth_user` bounds the number of connections. If a client may name any database (`*` without `auth_dbname`), a name
//! under which no client has logged in yet gets a pool of one connection; there are few such pools, and each is
//! forgotten soon.

use crate::model::keys::{ClientKey, ServerKey, WorkerId};

use crate::error::Error;
use crate::password::Stored;
use crate::pools::checkout;
use crate::state::login::{Login, Lookup, Phase};
use crate::state::{Core, size};
use crate::sync::lock;

/// The most pools for look-ups in databases that no client has proven to exist.
const UNPROVEN: usize = 16;

/// The worker that looks passwords up in a database.
pub fn looks_up(core: &Core, lookup: &Lookup) -> WorkerId {
    core.shared.assignment.of(&lookup.database).unwrap_or(crate::assignment::UNASSIGNED)
}

/// Begins to look a client's password up.
pub fn begin_lookup(core: &mut Core, key: ClientKey, login: Box<Login>, lookup: Lookup) -> Result<(), Error> {
    if core.config.database(&lookup.database).is_none() {
        crate::warning!(of core.name_client(key); "auth_dbname: there is no database \"{}\"", lookup.database);
        return Err(Error::LookupFailed);
    }
    // A database that no `auth_dbname` names is the client's own; a proven client hears that it is disabled.
    let is_named = core.config.auth_databases().any(|name| *name == lookup.database);
    if is_named && lock(&core.shared.orders.disabled).contains(&lookup.database) {
        crate::warning!(of core.name_client(key); "auth_dbname: database \"{}\" is disabled", lookup.database);
        return Err(Error::LookupFailed);
    }
    let unproven = core.shared.assignment.of(&lookup.database).is_none();
    let name = (lookup.database.as_str().into(), lookup.user.as_str().into());
    let is_new = unproven && !core.pool_names.contains_key(&name);
    if is_new && core.pools.values().filter(|pool| pool.name.unproven).count() >= UNPROVEN {
        return Err(Error::LookupsFull);
    }
    let pool_key = size::pool_of(core, &name.0, &name.1);
    if let Some(pool) = core.pools.get_mut(pool_key).filter(|_| unproven) {
        pool.name.unproven = true;
        (pool.limits.size, pool.limits.reserve, pool.limits.minimum) = (1, 0, 0);
        pool.queue.unused_since = Some(core.now);
    }
    let Some(client) = core.clients.get_mut(key) else { return Ok(()) };
    (client.route.pool, client.route.home) = (Some(pool_key), Some(pool_key));
    client.enter_login(login, Phase::Lookup(lookup));
    checkout::acquire(core, key, false);
    Ok(())
}

/// A row of `auth_query`: the user and the stored password.
pub fn lookup_row(core: &mut Core, key: ServerKey, row: &[Option<&[u8]>]) {
    let Some(key) = core.servers.get(key).and_then(|server| server.client()) else { return };
    let Some(client) = core.clients.get_mut(key) else { return };
    let user = client.identity.user.clone();
    let Some(Phase::Lookup(lookup)) = client.login_phase_mut() else { return };
    lookup.stored = match row {
        [Some(found), password, ..] if *found == user.as_bytes() => {
            let password = password.and_then(|password| std::str::from_utf8(password).ok());
            password.map_or(Stored::Nothing, Stored::read)
        }
        [] | [_] => {
            lookup.lacks_password = true;
            return crate::warning!(of core.name_client(key); "auth_query returned a row without a second column (the password)");
        }
        _ => return,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Database};

    /// The look-up where `asker` asks, in two databases, of which the second says where and by whom it is asked there.
    fn lookup(auth_dbname: &str, database: &str) -> Option<(String, String, bool)> {
        let mut config = Config::default();
        (config.settings.auth_user, config.settings.auth_dbname) = ("asker".to_owned(), auth_dbname.to_owned());
        let (place, user) = (Some("a".to_owned()), Some("bert".to_owned()));
        config.databases.insert("a".to_owned(), Database::default());
        config
            .databases
            .insert("b".to_owned(), Database { auth_dbname: place, auth_user: user, ..Database::default() });
        told(&config, database)
    }

    fn told(config: &Config, database: &str) -> Option<(String, String, bool)> {
        Lookup::of(config, database).map(|lookup| (lookup.database, lookup.user, lookup.own))
    }

    fn place(database: &str, user: &str, own: bool) -> Option<(String, String, bool)> {
        Some((database.to_owned(), user.to_owned(), own))
    }

    #[test]
    fn passwords_are_looked_up_where_it_is_said_or_in_the_clients_database() {
        assert_eq!(lookup("", "a"), place("a", "asker", true));
        assert_eq!(lookup("", "b"), place("a", "bert", false));
        assert_eq!(lookup("", "none"), place("a", "asker", false), "it takes the time that it takes for others");
        assert_eq!(lookup("", "pgbouncer"), None);
        for database in ["a", "none", "pgbouncer"] {
            assert_eq!(lookup("b", database), place("b", "asker", false));
        }
        let mut config = Config { fallback: Some(Database::default()), ..Config::default() };
        assert_eq!(told(&config, "x"), None, "nobody asks");
        config.settings.auth_user = "asker".to_owned();
        assert_eq!(told(&config, "x"), place("x", "asker", true));
    }
}
