//! Clients that have proven who they are come to the worker of their database, and are greeted there.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use pooling::Full;
use wire::backend::{self, Status};
use wire::scram;

use crate::admin;
use crate::after::After;
use crate::client::{Client, ClientKey, State};
use crate::config::AuthType;
use crate::homes::{CONSOLE, Place};
use crate::net::Io;
use crate::refusal::Refusal;
use crate::relay::Replication;
use crate::seat::Seat;
use crate::shared::{Message, WorkerId, lock};
use crate::startup::Introduction;
use crate::vars::{OWN, assigned};
use crate::worker::{Turn, Worker};

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

/// A connection on its way to a worker.
#[derive(Debug)]
pub struct Arrival {
    /// The socket, and what was read from it and not yet worked on.
    pub io: Io,
    /// How it is counted.
    pub seat: Seat,
    /// By what people name it.
    pub id: u64,
    /// When it was accepted.
    pub since: Instant,
    /// What it has proven, if it has.
    pub proven: Option<Box<Proven>>,
}

impl Worker {
    /// Sends a client to another worker.
    pub fn move_client(&mut self, key: ClientKey, worker: WorkerId, proven: Option<Box<Proven>>) {
        let Some(mut client) = self.clients.remove(key.0) else { return };
        self.unwatch(&mut client.io.stream);
        let Client { io, seat, id, since, .. } = client;
        self.shared.tell(worker, Message::Arrived(Box::new(Arrival { io, seat, id, since, proven })));
    }

    /// Gives a client that has proven who it is a place: here, or at the worker that serves its database.
    pub fn enter(&mut self, key: ClientKey) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let State::Proven(mut proven) = std::mem::replace(&mut client.state, State::Startup) else { return };
        if let Err(refusal) = self.take_seat(key, &proven) {
            return self.refuse_login(key, refusal);
        }
        let database = &proven.introduction.database;
        let home = if admin::is_console(database) {
            CONSOLE
        } else {
            match proven.place.take().map_or_else(|| Place::take(&self.shared, &self.config, database), Ok) {
                Ok(place) => proven.place.insert(place).worker(),
                Err(Full) => return self.refuse_login(key, Refusal::FullForDatabase),
            }
        };
        if home != self.id {
            return self.move_client(key, home, Some(proven));
        }
        if admin::is_console(database) {
            let Some(client) = self.clients.get_mut(key.0) else { return };
            client.state = State::Console;
            self.log_login(key);
            return self.greet_on_console(key);
        }
        if let Err(refusal) = self.enter_database(key, *proven) {
            self.refuse_login(key, refusal);
        }
    }

    /// Counts a client among those who are let in, if it may be.
    fn take_seat(&mut self, key: ClientKey, proven: &Proven) -> Result<(), Refusal> {
        let config = &self.config;
        let settings = &config.settings;
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        let Introduction { user, database, .. } = &proven.introduction;
        (client.user, client.database) = (user.as_str().into(), database.as_str().into());
        let console = admin::is_console(database);
        if console {
            client.admin = proven.own_account || settings.auth_type == AuthType::Any || settings.admin_users.has(user);
            if !client.admin && !settings.stats_users.has(user) {
                return Err(Refusal::NotOnConsole(user.clone()));
            }
        } else if config.database(database).is_none() {
            if proven.introduction.replication == Some(Replication::Physical) {
                return Err(Refusal::NoReplication(database.clone()));
            }
            return Err(Refusal::NoDatabase(database.clone()));
        } else if lock(&self.shared.disabled).contains(database) {
            return Err(Refusal::Disabled(database.clone()));
        }
        if client.seat.is_taken() {
            return Ok(());
        }
        // An administrator comes in when nobody else does.
        let (most, most_of_user) =
            if client.admin { (0, 0) } else { (settings.max_client_conn, config.user_clients(user)) };
        client.seat.take(user, console, most, most_of_user)
    }

    fn enter_database(&mut self, key: ClientKey, proven: Proven) -> Result<(), Refusal> {
        let Proven { introduction, secret, client_key, place, .. } = proven;
        let database: Rc<str> = introduction.database.as_str().into();
        let user: Rc<str> = introduction.user.as_str().into();
        self.take_parameters(key, &introduction);
        self.log_login(key);
        lock(&self.shared.learnt).learn(&self.config, &database, &user, secret, client_key);
        if let Some(cluster) = self.config.cluster_of(&database) {
            self.shared.board.user(cluster, &user);
        }
        let served_as: Rc<str> = self.config.pool_user(&database, &user).into();
        let pool_key = self.pool_of(&database, &served_as);
        if self.pools.get_mut(pool_key.0).is_some_and(|pool| std::mem::take(&mut pool.unproven)) {
            self.size_pool(pool_key);
        }
        self.take_welcome(pool_key);
        let (Some(client), Some(pool)) = (self.clients.get_mut(key.0), self.pools.get_mut(pool_key.0)) else {
            return Ok(());
        };
        client.place = place;
        if introduction.replication.is_some() {
            self.enter_relay(key, pool_key, introduction);
            self.flush_client(key);
            return Ok(());
        }
        (client.pool, client.home) = (Some(pool_key), Some(pool_key));
        client.state = State::Greeting;
        pool.clients += 1;
        pool.unused_since = None;
        if let Some(why) = pool.why_down(self.now, self.config.settings.server_login_retry.0) {
            self.fatal(key, "08006", &why);
            return Ok(());
        }
        if pool.welcome.is_some() {
            self.greet(key);
        } else {
            pool.greeting.push(key);
            client.waiting_since = Some(self.now);
            self.later(After::Grow(pool_key));
        }
        self.flush_client(key);
        Ok(())
    }

    fn log_login(&self, key: ClientKey) {
        if self.config.settings.log_connections {
            crate::info!(of self.name_client(key); "login");
        }
    }

    /// Takes the parameters of a startup packet over into the session.
    fn take_parameters(&mut self, key: ClientKey, introduction: &Introduction) {
        let add_host = self.config.settings.application_name_add_host;
        let Some(client) = self.clients.get_mut(key.0) else { return };
        client.minor = introduction.minor;
        for (name, value) in &introduction.parameters {
            let with_host = (name == "application_name" && add_host)
                .then(|| format!("{value} - {}:{}", client.peer.host(), client.peer.port()));
            let value = with_host.as_deref().unwrap_or(value);
            match self.tracked.place(name) {
                Some(place) => client.vars.set(place, value),
                None => {
                    let statement = format!("SET {name} = {}", assigned(name, value));
                    client.sets.set(&name.to_lowercase(), statement);
                }
            }
        }
    }

    /// Tells a client what a server tells when a session begins; then it may begin.
    pub fn greet(&mut self, key: ClientKey) {
        if self.verify_startup(key) {
            return;
        }
        let Some(home) = self.clients.get(key.0).and_then(|client| client.home) else { return };
        let Some(pool) = self.pools.get(home.0) else { return };
        let Some(welcome) = pool.welcome.clone() else { return };
        let told: Vec<&str> =
            welcome.iter().map(|(name, value)| self.greets_with(home, &welcome, name, value)).collect();
        let Some(client) = self.clients.get_mut(key.0) else { return };
        client.vars.fill(&pool.defaults);
        for ((name, _), value) in welcome.iter().zip(told) {
            let own = self.tracked.place(name).and_then(|place| client.vars.get(place));
            let verified = || client.verified.as_ref()?.told.iter().find(|(of, _)| of == name);
            // Of the others this one is easily told, also where no server could be asked.
            let mode = || client.startup.1.get(OWN).filter(|_| name == OWN).map(switch);
            let told = own.or_else(|| verified().map(|(_, value)| &**value)).or_else(mode);
            let value = told.unwrap_or(value).to_owned();
            backend::write_parameter_status(client.io.out(), name, &value);
        }
        client.verified = None;
        let Some(cancel_key) = self.new_cancel_key(key) else { return self.refuse_login(key, Refusal::Random) };
        let Some(client) = self.clients.get_mut(key.0) else { return };
        backend::write_backend_key_data(client.io.out(), cancel_key.pid, &cancel_key.secret);
        let message = &self.config.settings.login_notify_message;
        if !message.is_empty() {
            backend::write_notice(client.io.out(), "NOTICE", "00000", message);
        }
        backend::write_ready_for_query(client.io.out(), Status::Idle);
        client.state = State::Ready;
        client.waiting_since = None;
        client.request_since = self.now;
        self.flush_client(key);
        self.give_turn(Turn::Client(key));
    }
}

/// The value of a switch, as servers tell it, that a SET in a startup packet's words gives it.
fn switch(statement: &str) -> &'static str {
    let value = statement.rsplit('=').next().unwrap_or_default().trim().trim_matches('\'').to_ascii_lowercase();
    if matches!(value.as_str(), "1" | "t" | "tr" | "tru" | "true" | "y" | "ye" | "yes" | "on") { "on" } else { "off" }
}
