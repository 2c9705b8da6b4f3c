//! Server connections that are handed from one worker to another, where clients have waited longer.
//!
//! [`pooling::Ledger`] decides which and when. Handed over is only what is free: nothing is asked, no transaction is open,
//! no cancel request is on its way, nothing is left of the client before. What is known of the session goes with it; the
//! statements that are prepared there do not, they are deallocated when it has arrived.

use std::rc::Rc;
use std::time::Instant;

use pooling::{Micros, Standing, Step};
use wire::backend::Status;
use wire::startup::CancelKey;

use crate::after::After;
use crate::common::{Permit, PoolName};
use crate::config::SslMode;
use crate::monitor::Address;
use crate::net::Io;
use crate::pool::{Pool, PoolKey};
use crate::server::{Residue, Server, ServerKey, State};
use crate::session::{Confirmed, Sets};
use crate::shared::{Message, WorkerId};
use crate::vars::Vars;
use crate::worker::{Turn, Worker};

/// A server connection on its way to another worker.
#[derive(Debug)]
pub struct Parcel {
    io: Io,
    permit: Permit,
    id: u64,
    /// The host and port it leads to, and where that is.
    place: (String, u16, Address),
    /// What the server has confirmed to be SET.
    sets: Vec<(String, String)>,
    /// The tracked values that it has told.
    vars: Vec<Option<Box<str>>>,
    /// Whether the pooler has made its transactions read-only.
    read_only: bool,
    /// What `connect_query` sets.
    base: Box<str>,
    welcome: Vec<(String, String)>,
    cancel_key: CancelKey,
    since: Instant,
    standby: Option<bool>,
    sslmode: SslMode,
    mark: u64,
    /// Whether statements are prepared on it.
    prepared: bool,
    /// It has been idle for so long that it is to be checked.
    unchecked: bool,
    /// The orders that had been carried out where it comes from ([`Worker::orders`]).
    orders: u64,
}

/// Whether a connection that is free may be handed over.
fn may_travel(server: &Server) -> bool {
    matches!(server.state, State::Idle)
        && server.requests.is_empty()
        && server.status == Status::Idle
        && server.residue == Residue::Nothing
        && server.definition.is_none()
        && server.held == 0
        && !server.suspect
        && !server.retire
        && !server.suspended
        && server.doomed.is_none()
        && server.io.rest.is_empty()
        && server.io.pending() == 0
        && !server.io.hangup
}

impl Worker {
    /// A moment as all workers count it.
    pub fn micros(&self, moment: Instant) -> Micros {
        let since = moment.saturating_duration_since(self.shared.started);
        Micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// Since when somebody waits for a connection of this pool, as all workers count it.
    fn hunger(&self, pool: &Pool) -> Option<Micros> {
        self.waits_since(pool).filter(|_| !pool.paused).map(|since| self.micros(since))
    }

    /// Tells the other workers of a pool how it stands here, and does what follows from that.
    pub fn balance(&mut self, key: PoolKey) {
        while let Some(pool) = self.pools.get(key.0).filter(|pool| pool.common.is_shared()) {
            let idle = pool.idle.iter().find(|idle| self.servers.get(idle.0).is_some_and(may_travel)).copied();
            let (oldest, waiting) = (self.hunger(pool), self.waiting_for_more(key));
            let standing = Standing { idle: idle.is_some(), oldest, waiting, stuck: pool.failure.is_some() };
            match pool.common.report(standing, pool.size) {
                Step::Nothing => return,
                Step::Ask(other) => return self.tell_member(key, WorkerId(other), Message::Wanted),
                Step::Give(other) => match idle {
                    Some(idle) => self.send_over(idle, WorkerId(other)),
                    None => return,
                },
            }
        }
    }

    /// Hands a connection that has become free to another worker, if that is whose turn it is.
    pub fn gives_away(&mut self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key.0).filter(|server| may_travel(server)) else { return false };
        let Some(pool) = self.pools.get(server.pool.0).filter(|pool| pool.common.is_shared()) else { return false };
        let waiting = self.waiting_for_more(server.pool);
        let next = pool.next_oldest(&self.clients).filter(|_| !pool.paused).map(|since| self.micros(since));
        let heir = pool.common.heir((self.hunger(pool), next), waiting, self.micros(self.now), pool.size);
        if let Some(heir) = heir {
            self.send_over(key, heir);
        }
        heir.is_some()
    }

    /// A connection of a pool was closed: another worker may open one in its place.
    pub fn pass_room_on(&self, key: PoolKey) {
        let Some(pool) = self.pools.get(key.0).filter(|pool| pool.common.is_shared()) else { return };
        if let Some(other) = pool.common.in_need(pool.size) {
            self.tell_member(key, other, Message::Wanted);
        }
    }

    /// Sees to it that clients who have waited long get a connection of another worker's that is never free.
    pub fn claim_share(&self, key: PoolKey) {
        let Some(pool) = self.pools.get(key.0).filter(|pool| pool.common.is_shared()) else { return };
        let stall = self.config.settings.pipeline_stall.0;
        let long = |since: Instant| self.now.saturating_duration_since(since) >= stall;
        if self.waits_since(pool).is_some_and(long)
            && let Some(debtor) = pool.common.creditor(pool.size)
        {
            self.tell_member(key, debtor, Message::Wanted);
        }
    }

    fn tell_member(&self, key: PoolKey, worker: WorkerId, message: fn(Box<PoolName>) -> Message) {
        if let Some(pool) = self.pools.get(key.0) {
            self.shared.tell(worker, message(Box::new(pool.common.name().clone())));
        }
    }

    /// The pool here of this name.
    pub fn pool_named(&self, name: &PoolName) -> Option<PoolKey> {
        let key = self.pool_names.get(&(name.database.as_str().into(), name.user.as_str().into())).copied()?;
        match name.server {
            None => Some(key),
            Some(server) => {
                let members = &self.pools.get(key.0)?.members;
                members.iter().find(|(id, _)| *id == server).map(|(_, member)| *member)
            }
        }
    }

    /// Another worker wants a connection of this pool, or has left room for one.
    pub fn wanted(&mut self, name: &PoolName) {
        let Some(key) = self.pool_named(name) else { return };
        self.look_at_debt(key);
        self.grow(key);
    }

    /// Takes note of whether a connection is to be given up that is busy without end.
    pub fn look_at_debt(&mut self, key: PoolKey) {
        if let Some(pool) = self.pools.get_mut(key.0) {
            pool.owes = pool.common.is_shared() && pool.common.owes(pool.size);
        }
    }

    /// Sends a free connection to another worker.
    fn send_over(&mut self, key: ServerKey, to: WorkerId) {
        let unchecked = self.servers.get(key.0).is_some_and(|server| self.is_to_be_checked(server));
        let Some(mut server) = self.servers.remove(key.0) else { return };
        self.unwatch(&mut server.io.stream);
        let Some(pool) = self.pools.get_mut(server.pool.0) else { return };
        pool.servers.retain(|other| *other != key);
        pool.idle.retain(|other| *other != key);
        pool.totals.handed_over += 1;
        pool.owes = false;
        let Some(mut permit) = server.permit.take() else { return };
        permit.hand_over(to);
        let Server { io, id, host, port, address, session, known, welcome, cancel_key, since, .. } = server;
        let Server { standby, sslmode, mark, .. } = server;
        let Confirmed { sets, vars, read_only, base } = session;
        let parcel = Parcel {
            io,
            permit,
            id,
            place: (host, port, address),
            sets: sets.carry(),
            vars: vars.carry(),
            read_only,
            base: (&*base).into(),
            welcome,
            cancel_key,
            since,
            standby,
            sslmode,
            mark,
            prepared: known.len() > 0,
            unchecked,
            orders: self.orders,
        };
        self.shared.tell(to, Message::HandedOver(Box::new(parcel)));
    }

    /// Takes a connection from another worker.
    pub fn take_over_server(&mut self, parcel: Parcel) {
        let Parcel { mut io, permit, id, place: (host, port, address), welcome, orders, .. } = parcel;
        let Parcel { sets, vars, read_only, base, cancel_key, since, standby, sslmode, mark, .. } = parcel;
        let Parcel { prepared, unchecked, .. } = parcel;
        let key = self.pool_named(permit.name());
        let slot = ServerKey(self.servers.vacant());
        let watched = self.watch_taken(slot, &mut io);
        let pool = key.and_then(|key| Some((key, self.pools.get_mut(key.0)?)));
        let (Some((pool_key, pool)), Ok(())) = (pool, watched) else {
            // The pool was given up here meanwhile. The server's process ends with its connection.
            self.count_server(&permit.name().user, false);
            return self.unwatch(&mut io.stream);
        };
        let mut server = Server::new(io, host, port, address, pool_key, self.now, id);
        server.place = pool.stats.place(&server.host, port);
        pool.servers.push(slot);
        let vars = Vars::carried(vars, &pool.defaults);
        server.session = Confirmed { sets: Sets::carried(sets), vars, read_only, base: Rc::from(base) };
        (server.permit, server.welcome) = (Some(permit), welcome);
        (server.cancel_key, server.since, server.standby) = (cancel_key, since, standby);
        (server.sslmode, server.mark) = (sslmode, mark);
        // What was ordered meanwhile has not reached it: it may be of the configuration before.
        server.retire = orders < self.orders;
        server.suspended = self.is_suspended();
        server.state = State::Preparing;
        server.io.readable = true;
        self.servers.insert(server);
        if prepared {
            self.forget_prepared(slot);
        }
        if unchecked {
            self.run_check(slot);
        } else if !prepared {
            self.later(After::Free(slot));
        }
        self.take_welcome(self.home_of(pool_key));
        self.give_turn(Turn::Server(slot));
        self.run_after();
    }
}
