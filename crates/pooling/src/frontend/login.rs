//! Clients' logins: from the startup packet to the proof.
//!
//! A client proves who it is on the worker that accepted it, or on the worker that looks its password up. Only then
//! does it come to the worker of its database, and learn whether it may use that database ([`crate::enter`]). Before
//! that, the pooler's answers do not depend on whether the user or the database exists ([`crate::password`],
//! [`crate::error`]).

use std::sync::atomic::Ordering;

use crate::model::keys::{ClientKey, WorkerId};
use crate::model::relay::Replication;
use wire::startup::Startup;

use crate::config::{self, AuthType};
use crate::error::Error;
use crate::frontend::{challenge, lookup};
use crate::hba::{Method, Visitor};
use crate::io::Peer;
use crate::password::Stored;
use crate::state::client::Client;
use crate::state::login::{Introduction, Login, Lookup};
use crate::state::{Core, account};

/// Begins a client's login; gives the worker that the client must go to for it, if it is another one.
pub fn begin_login(core: &mut Core, key: ClientKey, startup: &Startup<'_>) -> Result<Option<WorkerId>, Error> {
    let config = core.config.clone();
    let settings = &config.settings;
    check_tls(core, key)?;
    let mut introduction = Introduction::read(startup, settings)?;
    let Some(client) = core.clients.get_mut(key) else { return Ok(None) };
    client.identity.user = introduction.user.as_str().into();
    client.identity.database = introduction.database.as_str().into();
    let console = config::is_console(&client.identity.database);
    // A client that came before another process took the sockets over has no other process to turn to.
    if core.shared.orders.ending.load(Ordering::Relaxed) && !console && !core.shared.takeover.is_handed_over() {
        return Err(Error::Ending);
    }
    let full =
        settings.max_client_conn > 0 && core.shared.counts.clients.load(Ordering::Relaxed) >= settings.max_client_conn;
    // An administrator is accepted all the same; its identity is checked later.
    if full && !console {
        return Err(Error::Full);
    }
    let Some(client) = core.clients.get(key) else { return Ok(None) };
    if console && introduction.replication.is_some() {
        return Err(Error::ReplicationOfConsole);
    }
    let own_account = console && account::is_own_user(client);
    // A client proven by a certificate or by the system needs no password, and without one no user is looked up.
    let method = if own_account { AuthType::Any } else { method(core, client, introduction.replication)? };
    let known = config.passwords.get(&introduction.user).map(|text| Stored::read(text));
    let is_looked_up = known.is_none() && method != AuthType::Any;
    let lookup = if is_looked_up { Lookup::of(&config, &introduction.database) } else { None };
    if let Some(worker) =
        lookup.as_ref().map(|lookup| lookup::looks_up(core, lookup)).filter(|worker| *worker != core.id)
    {
        return Ok(Some(worker));
    }
    let Some(client) = core.clients.get_mut(key) else { return Ok(None) };
    introduction.write_negotiation(client.io.out());
    let login = Box::new(Login { introduction, method, own_account, client_key: None });
    match lookup {
        Some(lookup) => lookup::begin_lookup(core, key, login, lookup)?,
        None => challenge::looked_up(core, key, login, known.unwrap_or(Stored::Nobody))?,
    }
    Ok(None)
}

/// Whether a client begins its session over the TLS that is required.
fn check_tls(core: &Core, key: ClientKey) -> Result<(), Error> {
    let Some(client) = core.clients.get(key) else { return Ok(()) };
    match client.io.tls() {
        // Otherwise TLS of any other protocol could be led here: ALPN says that PostgreSQL is meant.
        Some(session) if session.is_unnamed() => Err(Error::NoAlpn),
        None if core.config.settings.client_tls_sslmode.requires() && !client.io.socket.is_local() => {
            Err(Error::TlsRequired)
        }
        _ => Ok(()),
    }
}

/// The method by which a client has to prove its identity, unless it has been proven already.
fn method(core: &Core, client: &Client, replication: Option<Replication>) -> Result<AuthType, Error> {
    let config = &core.config;
    let (auth, map) = match config.settings.auth_type {
        AuthType::Hba => method_by_hba(core, client, replication).map(|method| (method.auth, method.map.as_deref()))?,
        auth => (auth, None),
    };
    let user = &*client.identity.user;
    match auth {
        AuthType::Cert if !certified(client).is_some_and(|name| config.ident.allows(map, name, user)) => {
            Err(Error::Certificate(user.to_owned()))
        }
        AuthType::Peer if !account::account_of(client).is_some_and(|name| config.ident.allows(map, &name, user)) => {
            Err(Error::Peer(user.to_owned()))
        }
        auth => Ok(auth),
    }
}

fn method_by_hba<'a>(core: &'a Core, client: &Client, replication: Option<Replication>) -> Result<&'a Method, Error> {
    let config = &core.config;
    let (user, database) = (client.identity.user.to_string(), client.identity.database.to_string());
    let refusal = Error::Hba { user, database };
    let address = match (client.io.socket.is_local(), &client.identity.peer) {
        (true, _) => None,
        (false, Peer::Tcp(address)) => Some(address.ip()),
        // The client was gone before its address could be asked for.
        (false, Peer::Unix) => return Err(refusal),
    };
    let tls = client.io.tls().is_some();
    let physical = replication == Some(Replication::Physical);
    let visitor = Visitor { address, tls, physical, database: &client.identity.database, user: &client.identity.user };
    config.hba.method(&visitor).ok_or(refusal)
}

/// The common name of the certificate that a client has shown. The handshake has verified that a trusted authority
/// signed it.
fn certified(client: &Client) -> Option<&str> {
    client.io.tls()?.common_name()
}
