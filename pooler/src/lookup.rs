//! `auth_query`: the passwords of users who are not in the configuration, looked up on a server.
//!
//! Who asks has proven nothing, so what it can cause is bounded. Where passwords are looked up in one database
//! (`auth_dbname`), or in those of the configuration, there are as many connections as the pool of that database and
//! `auth_user` may have. Where a client may name any database (`*` without `auth_dbname`), a name that no client has
//! proven to exist gets a pool of one connection, there are few such pools, and each is soon forgotten.

use std::time::{Duration, Instant};

use wire::frame;
use wire::frontend;

use crate::admin;
use crate::client::ClientKey;
use crate::config::Config;
use crate::login::{Login, Phase};
use crate::password::Stored;
use crate::pool::Pool;
use crate::refusal::Refusal;
use crate::server::{Request, ServerKey};
use crate::shared::WorkerId;
use crate::worker::{Turn, Worker};

/// Pools for look-ups in databases that nobody has proven to exist.
const UNPROVEN: usize = 16;
/// How long such a pool is kept: it remembers a failure, and spares the next client a new connection.
const UNPROVEN_KEPT: Duration = Duration::from_secs(10);

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
            if admin::is_console(database) {
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

impl Worker {
    /// The worker that looks passwords up in a database.
    pub fn looks_up(&self, lookup: &Lookup) -> WorkerId {
        self.shared.homes.of(&lookup.database).unwrap_or(crate::homes::HOMELESS)
    }

    /// Begins to look a client's password up.
    pub fn begin_lookup(&mut self, key: ClientKey, login: Box<Login>, lookup: Lookup) -> Result<(), Refusal> {
        if self.config.database(&lookup.database).is_none() {
            crate::warning!(of self.name_client(key); "auth_dbname: there is no database \"{}\"", lookup.database);
            return self.looked_up(key, login, Stored::Nobody);
        }
        let unproven = self.shared.homes.of(&lookup.database).is_none();
        let name = (lookup.database.as_str().into(), lookup.user.as_str().into());
        let is_new = unproven && !self.pool_names.contains_key(&name);
        if is_new && self.pools.iter().filter(|(_, pool)| pool.unproven).count() >= UNPROVEN {
            return Err(Refusal::LookupsFull);
        }
        let pool_key = self.pool_of(&name.0, &name.1);
        if let Some(pool) = self.pools.get_mut(pool_key.0).filter(|_| unproven) {
            pool.unproven = true;
            (pool.size, pool.reserve, pool.minimum) = (1, 0, 0);
            pool.unused_since = Some(self.now);
        }
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        (client.pool, client.home) = (Some(pool_key), Some(pool_key));
        login.enter(client, Phase::Lookup(lookup));
        self.acquire(key, false);
        Ok(())
    }

    /// Asks the server that was lent to a client for its password.
    pub fn lookup(&mut self, key: ClientKey) {
        let Some(client) = self.clients.get(key.0) else { return };
        let (Some(Phase::Lookup(lookup)), Some(server_key)) = (Login::phase(client), client.server) else { return };
        let Some(server) = self.servers.get_mut(server_key.0) else { return };
        let (query, user) = (&lookup.query, &client.user);
        let out = server.io.out();
        frontend::write_parse(out, b"", &[query.as_bytes(), b"\0\0\0"].concat());
        frame::write(out, frontend::tag::BIND, |out| {
            out.extend_from_slice(b"\0\0\0\0\0\x01");
            out.extend_from_slice(&i32::try_from(user.len()).unwrap_or(-1).to_be_bytes());
            out.extend_from_slice(user.as_bytes());
            out.extend_from_slice(b"\0\0");
        });
        frame::write(out, frontend::tag::EXECUTE, |out| out.extend_from_slice(b"\0\0\0\0\0"));
        frontend::write_sync(out);
        server.unnamed = None;
        server.requests.push_back(Request::Lookup);
        self.flush_server(server_key);
    }

    /// A row of `auth_query`: the user and the stored password.
    pub fn lookup_row(&mut self, key: ServerKey, row: &[Option<&[u8]>]) {
        let Some(client) = self.servers.get(key.0).and_then(|server| server.client()) else { return };
        let Some(client) = self.clients.get_mut(client.0) else { return };
        let user = client.user.clone();
        let Some(Phase::Lookup(lookup)) = Login::phase_mut(client) else { return };
        lookup.stored = match row {
            [Some(found), password, ..] if *found == user.as_bytes() => {
                let password = password.and_then(|password| std::str::from_utf8(password).ok());
                password.map_or(Stored::Nothing, Stored::read)
            }
            _ => return,
        };
    }

    /// `auth_query` has been answered: its server is free, and the login goes on.
    pub fn lookup_done(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let (client, report) = (server.client(), server.own_error.take());
        self.detach(key);
        self.free(key);
        match (client, report) {
            (Some(client), Some(report)) => self.lookup_failed(client, &report.message, true),
            (Some(client), None) => self.end_lookup(client, None),
            (None, _) => (),
        }
    }

    /// The query has failed on the server, or there was no server to ask. What was said is for the log, not for
    /// strangers.
    pub fn lookup_failed(&mut self, key: ClientKey, why: &str, by_query: bool) {
        crate::warning!(of self.name_client(key); "auth_query: {why}");
        let Some(client) = self.clients.get(key.0) else { return };
        let Some(Phase::Lookup(lookup)) = Login::phase(client) else { return };
        let failure = client.pool.and_then(|pool| self.pools.get(pool.0)).and_then(|pool| pool.failure.as_ref());
        let refused = failure.is_some_and(|failure| !failure.may_pass);
        if lookup.own && (refused || by_query) {
            // Perhaps there is no such database. Nobody is told so without a password.
            self.end_lookup(key, Some(Stored::Nobody));
        } else {
            self.refuse_login(key, Refusal::LookupFailed);
        }
    }

    fn end_lookup(&mut self, key: ClientKey, stored: Option<Stored>) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let Some((login, phase)) = Login::leave(client) else { return };
        let Phase::Lookup(lookup) = phase else { return login.enter(client, phase) };
        client.waits = None;
        let pool = client.pool.take();
        client.home = None;
        if let Some(pool) = pool.and_then(|pool| self.pools.get_mut(pool.0)) {
            pool.forget(key);
        }
        let stored = stored.unwrap_or(lookup.stored);
        self.shared.secrets.saw(&stored);
        if let Err(refusal) = self.looked_up(key, login, stored) {
            self.refuse_login(key, refusal);
        }
        self.flush_client(key);
        self.give_turn(Turn::Client(key));
    }

    /// Whether a pool of a database that is configured only by `*` was of no use and is kept no longer: one that served
    /// look-ups alone, or whose database no server has.
    pub fn is_spent(&self, pool: &Pool) -> bool {
        let since = |limit: Duration| pool.unused_since.is_some_and(|since: Instant| self.now - since >= limit);
        let unused = pool.clients == 0 && pool.is_unwanted() && !self.serves_somebody(pool);
        let elsewhere = !self.shared.homes.serves(self.id, &pool.database);
        let futile = pool.servers.is_empty() && pool.welcome.is_none();
        let retry = self.config.settings.server_login_retry.0;
        unused && (elsewhere && since(UNPROVEN_KEPT) || futile && since(retry))
    }

    fn serves_somebody(&self, pool: &Pool) -> bool {
        pool.servers.iter().any(|key| self.servers.get(key.0).is_some_and(|server| server.client().is_some()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn lookup(text: &str, database: &str) -> Option<(String, String, bool)> {
        let config = Config::parse(Path::new("pgbouncer.ini"), text).unwrap();
        Lookup::of(&config, database).map(|lookup| (lookup.database, lookup.user, lookup.own))
    }

    fn place(database: &str, user: &str, own: bool) -> Option<(String, String, bool)> {
        Some((database.to_owned(), user.to_owned(), own))
    }

    #[test]
    fn passwords_are_looked_up_where_it_is_said_or_in_the_clients_database() {
        let text = "[databases]\na =\nb = auth_dbname=a auth_user=bert\n[pgbouncer]\nauth_user = asker\n";
        assert_eq!(lookup(text, "a"), place("a", "asker", true));
        assert_eq!(lookup(text, "b"), place("a", "bert", false));
        assert_eq!(lookup(text, "none"), place("a", "asker", false), "it takes the time that it takes for others");
        assert_eq!(lookup(text, "pgbouncer"), None);
        let text = format!("{text}auth_dbname = b\n");
        for database in ["a", "none", "pgbouncer"] {
            assert_eq!(lookup(&text, database), place("b", "asker", false));
        }
        assert_eq!(lookup("[databases]\n* =\n[pgbouncer]\nauth_user = asker\n", "x"), place("x", "asker", true));
        assert_eq!(lookup("[databases]\na =\n[pgbouncer]\n", "a"), None);
    }
}
