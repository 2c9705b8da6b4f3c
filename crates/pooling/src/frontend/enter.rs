//! Authenticated clients come to the worker of their database, and are greeted there.

use std::rc::Rc;

use crate::model::Full;
use crate::model::keys::{ClientKey, WorkerId};
use crate::model::relay::Replication;
use crate::model::turn::{After, Turn};
use crate::model::vars::OWN;
use classify::parameter;
use wire::backend::{self, Status};
use wire::sqlstate;

use crate::assignment::{CONSOLE, Place};
use crate::config::{self, AuthType};
use crate::error::Error;
use crate::frontend::verify;
use crate::pools::{leave, relay, upkeep, welcome};
use crate::shared::Message;
use crate::state::arrival::Arrival;
use crate::state::client::{Client, Identity, State};
use crate::state::login::{Introduction, Proven};
use crate::state::{Core, cancel, size, sockets};
use crate::sync::lock;

/// Sends a client to another worker.
pub fn move_client(core: &mut Core, key: ClientKey, worker: WorkerId, proven: Option<Box<Proven>>) {
    let Some(client) = core.clients.remove(key) else { return };
    sockets::unwatch(core, &client.io);
    let Client { io, id, identity: Identity { permit, since, .. }, .. } = client;
    core.shared.tell(worker, Message::Arrived(Box::new(Arrival { io, permit, id, since, proven })));
}

/// Gives a client with a proven identity a place: here, or at the worker that serves its database.
pub fn enter(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get_mut(key) else { return };
    let Some(mut proven) = client.take_proof() else { return };
    if let Err(refusal) = take_seat(core, key, &proven) {
        return leave::fatal(core, key, &refusal);
    }
    let Introduction { database, user, .. } = &proven.introduction;
    let home = if config::is_console(database) {
        CONSOLE
    } else {
        match proven.place.take().map_or_else(|| Place::take(&core.shared.assignment, &core.config, database, user), Ok)
        {
            Ok(place) => proven.place.insert(place).worker(),
            Err(Full) => return leave::fatal(core, key, &Error::FullForDatabase),
        }
    };
    if home != core.id {
        return move_client(core, key, home, Some(proven));
    }
    if config::is_console(database) {
        let Some(client) = core.clients.get_mut(key) else { return };
        client.pass_to(State::Console);
        log_login(core, key);
        return greet_on_console(core, key);
    }
    if let Err(refusal) = enter_database(core, key, *proven) {
        leave::fatal(core, key, &refusal);
    }
}

/// Sends a console client the parameters that a server would report.
fn greet_on_console(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get_mut(key) else { return };
    for (name, value) in [
        ("server_version", concat!(env!("CARGO_PKG_VERSION"), "/howdah")),
        ("client_encoding", "UTF8"),
        ("server_encoding", "UTF8"),
        ("DateStyle", "ISO"),
        ("TimeZone", "GMT"),
        ("standard_conforming_strings", "on"),
        ("is_superuser", "on"),
    ] {
        backend::write_parameter_status(client.io.out(), name, value);
    }
    backend::write_backend_key_data(client.io.out(), 0, &[0; 4]);
    backend::write_ready_for_query(client.io.out(), Status::Idle);
    sockets::flush_client(core, key);
}

/// Counts a client among those that are logged in, if it may be.
fn take_seat(core: &mut Core, key: ClientKey, proven: &Proven) -> Result<(), Error> {
    let config = &core.config;
    let settings = &config.settings;
    let Some(client) = core.clients.get_mut(key) else { return Ok(()) };
    let Introduction { user, database, .. } = &proven.introduction;
    (client.identity.user, client.identity.database) = (user.as_str().into(), database.as_str().into());
    let console = config::is_console(database);
    if console {
        client.identity.admin =
            proven.own_account || settings.auth_type == AuthType::Any || settings.admin_users.has(user);
        if !client.identity.admin && !settings.stats_users.has(user) {
            return Err(Error::NotOnConsole(user.clone()));
        }
    } else if config.database(database).is_none() {
        if proven.introduction.replication == Some(Replication::Physical) {
            return Err(Error::NoReplication(database.clone()));
        }
        return Err(Error::NoDatabase(database.clone()));
    } else if config.database(database).is_some_and(|entry| !entry.admits(user)) {
        return Err(Error::NotInPool { user: user.clone(), database: database.clone() });
    } else if lock(&core.shared.orders.disabled).contains(database) {
        return Err(Error::Disabled(database.clone()));
    }
    if client.identity.permit.is_taken() {
        return Ok(());
    }
    // An administrator is accepted when all places are taken.
    let (most, most_of_user) =
        if client.identity.admin { (0, 0) } else { (settings.max_client_conn, config.user_clients(user)) };
    client.identity.permit.take(user, console, most, most_of_user)
}

fn enter_database(core: &mut Core, key: ClientKey, proven: Proven) -> Result<(), Error> {
    let Proven { introduction, secret, client_key, place, .. } = proven;
    let database: Rc<str> = introduction.database.as_str().into();
    let user: Rc<str> = introduction.user.as_str().into();
    take_parameters(core, key, &introduction);
    log_login(core, key);
    lock(&core.shared.learnt).learn(&core.config, &database, &user, secret, client_key);
    if let Some(cluster) = core.config.cluster_of(&database) {
        core.shared.board.user(cluster, &user);
    }
    let served_as: Rc<str> = core.config.pool_user(&database, &user).into();
    let pool_key = size::pool_of(core, &database, &served_as);
    if core.pools.get_mut(pool_key).is_some_and(|pool| std::mem::take(&mut pool.name.unproven)) {
        size::size_pool(core, pool_key);
    }
    welcome::take_welcome(core, pool_key);
    let (Some(client), Some(pool)) = (core.clients.get_mut(key), core.pools.get_mut(pool_key)) else {
        return Ok(());
    };
    client.identity.place = place;
    if introduction.replication.is_some() {
        relay::enter_relay(core, key, pool_key, introduction);
        sockets::flush_client(core, key);
        return Ok(());
    }
    (client.route.pool, client.route.home) = (Some(pool_key), Some(pool_key));
    client.pass_to(State::Greeting);
    pool.queue.clients += 1;
    pool.queue.unused_since = None;
    if let Some(error) = pool.why_down(core.now, core.config.settings.server_login_retry.0) {
        leave::fatal(core, key, &error);
        return Ok(());
    }
    if pool.greetings.welcome.is_some() {
        greet(core, key);
    } else {
        pool.queue.greeting.push(key);
        client.route.waiting_since = Some(core.now);
        core.schedule.later(After::Grow(pool_key));
    }
    sockets::flush_client(core, key);
    Ok(())
}

fn log_login(core: &Core, key: ClientKey) {
    if core.config.settings.log_connections {
        crate::info!(of core.name_client(key); "login");
    }
}

/// Takes the parameters of a startup packet over into the session.
fn take_parameters(core: &mut Core, key: ClientKey, introduction: &Introduction) {
    let add_host = core.config.settings.application_name_add_host;
    let Some(client) = core.clients.get_mut(key) else { return };
    client.identity.minor = introduction.minor;
    for (name, value) in &introduction.parameters {
        let with_host = (name == "application_name" && add_host)
            .then(|| format!("{value} - {}:{}", client.identity.peer.host(), client.identity.peer.port()));
        let value = with_host.as_deref().unwrap_or(value);
        match core.parameters.tracked.place(name) {
            Some(place) => client.session.vars.set(place, value),
            None => {
                client.session.sets.set(&name.to_lowercase(), parameter::set(name, value));
            }
        }
    }
}

/// Sends a client the parameters that a server reports when a session begins; then its session begins.
pub fn greet(core: &mut Core, key: ClientKey) {
    if verify::verify_startup(core, key) {
        return;
    }
    let Some(home) = core.clients.get(key).and_then(|client| client.route.home) else { return };
    let Some(pool) = core.pools.get_mut(home) else { return };
    let Some(welcome) = pool.greetings.welcome.clone() else {
        // It has been forgotten meanwhile.
        pool.queue.greeting.push(key);
        return core.schedule.later(After::Grow(home));
    };
    let Some(pool) = core.pools.get(home) else { return };
    let told: Vec<&str> =
        welcome.iter().map(|(name, value)| welcome::greets_with(core, home, &welcome, name, value)).collect();
    let Some(client) = core.clients.get_mut(key) else { return };
    client.session.vars.fill(&pool.greetings.defaults);
    for ((name, _), value) in welcome.iter().zip(told) {
        let own = core.parameters.tracked.place(name).and_then(|place| client.session.vars.get(place));
        let verified = || client.session.verified.as_ref()?.told.iter().find(|(of, _)| of == name);
        // Of the untracked parameters this one is known from the startup packet, also if no server could be asked.
        let mode = || client.session.startup.1.get(OWN).filter(|_| name == OWN).map(switch);
        let told = own.or_else(|| verified().map(|(_, value)| &**value)).or_else(mode);
        let value = told.unwrap_or(value).to_owned();
        backend::write_parameter_status(client.io.out(), name, &value);
    }
    client.session.verified = None;
    let Some(cancel_key) = cancel::new_cancel_key(core, key) else {
        return leave::fatal(core, key, &Error::Random);
    };
    let Some(client) = core.clients.get_mut(key) else { return };
    backend::write_backend_key_data(client.io.out(), cancel_key.pid, &cancel_key.secret);
    let message = &core.config.settings.login_notify_message;
    if !message.is_empty() {
        backend::write_notice(client.io.out(), "NOTICE", sqlstate::SUCCESSFUL_COMPLETION, message);
    }
    backend::write_ready_for_query(client.io.out(), Status::Idle);
    client.pass_to(State::Ready);
    client.route.waiting_since = None;
    client.times.request_since = core.now;
    upkeep::place(core, key);
    sockets::flush_client(core, key);
    core.schedule.give_turn(Turn::Client(key));
}

/// The value of a switch that a SET from a startup packet gives it, as servers report it.
fn switch(statement: &str) -> &'static str {
    let value = statement.rsplit('=').next().unwrap_or_default().trim().trim_matches('\'').to_ascii_lowercase();
    if matches!(value.as_str(), "1" | "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on") { "on" } else { "off" }
}
