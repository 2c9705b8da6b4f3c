//! Clients that move from one worker of their database to another ([`pooling::Spread`]): each between two of its units,
//! with all that its session is.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Instant;

use classify::Role;
use pooling::Excess;
use wire::startup::CancelKey;

use crate::client::{Client, ClientKey, Deeds, State};
use crate::homes::Place;
use crate::net::Io;
use crate::replay::Owed;
use crate::seat::Seat;
use crate::session::Sets;
use crate::shared::{Message, WorkerId, lock};
use crate::statement::{Carried, Statement};
use crate::vars::Vars;
use crate::worker::{Turn, Worker};

/// Settings as they travel: the tracked values, and what else was SET.
pub type Settings = (Vec<Option<Box<str>>>, Vec<(String, String)>);

/// Where a client is to go when nothing of it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// To another worker.
    Worker(WorkerId),
    /// To the process that has taken the sockets over.
    Successor,
}

/// A client on its way to another worker, or another process.
#[derive(Debug)]
pub struct Traveller {
    /// The socket.
    pub io: Io,
    /// By what people name it.
    pub id: u64,
    /// How it is counted.
    pub seat: Seat,
    /// Its place among the clients of its database.
    pub place: Place,
    /// The user that it has logged in as.
    pub user: String,
    /// The database that it asked for.
    pub database: String,
    /// The user of its pool.
    pub served_as: String,
    /// Its settings.
    pub settings: Settings,
    /// What RESET leads back to.
    pub startup: Settings,
    /// What it has SET SERVER ROLE to.
    pub role: Option<Role>,
    /// What it has SET PRIMARY READS to.
    pub primary_reads: Option<bool>,
    /// What its next read must see.
    pub owed: Owed,
    /// Its named statements.
    pub statements: Vec<(Box<[u8]>, Carried)>,
    /// Its statement without a name.
    pub unnamed: Option<Carried>,
    /// Whether servers know its statements by names of the pooler's.
    pub renamed: bool,
    /// By what it names itself in a cancel request.
    pub cancel_key: CancelKey,
    /// The minor version of the protocol.
    pub minor: u16,
    /// When it connected.
    pub since: Instant,
    /// When it last was idle.
    pub request_since: Instant,
    /// Whether it may change things on the console.
    pub admin: bool,
    /// What it has done.
    pub deeds: Deeds,
    /// How often KILL had been carried out where it comes from ([`Worker::kills`]).
    pub kills: u64,
}

/// Whether nothing of a client's is under way, and nothing keeps it where it is.
fn may_travel(client: &Client) -> bool {
    client.is_ready()
        && client.is_idle()
        && !client.behind_own
        && !client.unsynced
        && !client.suspended
        && !client.unclear
        && !client.pins.any()
        && client.passing == 0
        && client.dropping == 0
        && client.words.is_none()
        && client.ears.is_none()
        && client.relay.is_none()
        && client.pending.is_empty()
        && client.waiting_since.is_none()
        && client.console_waits.is_none()
        && client.io.pending() == 0
        && !client.io.hangup
}

impl Worker {
    /// Marks the clients that are to move to other workers. Each does when it next has something to say; until then it
    /// stays marked, and no other goes in its place. Of those who speak often and of those who seldom do, the same share
    /// is chosen: else those who never speak could be all that are marked.
    pub fn mark_movers(&mut self) {
        let databases: HashSet<Rc<str>> = self.pools.iter().map(|(_, pool)| pool.database.clone()).collect();
        let excess = |database: Rc<str>| (database.clone(), self.shared.homes.excess(self.id, &database));
        let mut left: HashMap<Rc<str>, Vec<Excess>> = databases.into_iter().map(excess).collect();
        left.retain(|_, excess| !excess.is_empty());
        if left.is_empty() && !self.marked || self.ending.is_some() {
            return;
        }
        self.marked = !left.is_empty();
        let mut others: HashMap<Rc<str>, Vec<(Instant, ClientKey)>> = HashMap::new();
        for (key, client) in self.clients.iter_mut() {
            let stays = !client.is_ready() || client.pins.any() || client.ears.is_some();
            let marked = client.moves_to.take();
            let Some(excess) = left.get_mut(&client.database).filter(|_| !stays) else { continue };
            let same = |excess: &&mut Excess| excess.clients > 0 && marked == Some(Bound::Worker(WorkerId(excess.to)));
            match excess.iter_mut().find(same) {
                Some(excess) => {
                    excess.clients -= 1;
                    client.moves_to = marked;
                }
                None => others.entry(client.database.clone()).or_default().push((client.request_since, ClientKey(key))),
            }
        }
        for (database, mut clients) in others {
            let Some(excess) = left.get(&database) else { continue };
            let mut places = excess
                .iter()
                .flat_map(|excess| std::iter::repeat_n(Bound::Worker(WorkerId(excess.to)), excess.clients));
            let (all, some) = (clients.len(), excess.iter().map(|excess| excess.clients).sum::<usize>());
            clients.sort_by_key(|(since, _)| *since);
            let chosen = |nth: &usize| (nth + 1) * some / all > nth * some / all;
            for (_, key) in (0..all).filter(chosen).filter_map(|nth| clients.get(nth)) {
                if let Some(client) = self.clients.get_mut(key.0) {
                    client.moves_to = places.next();
                }
            }
        }
    }

    /// Sends a client to where it is to go, if it can go now.
    pub fn moves_away(&mut self, key: ClientKey) -> bool {
        let Some(client) = self.clients.get(key.0).filter(|client| may_travel(client)) else { return false };
        match client.moves_to {
            Some(Bound::Successor) => self.leave_for_successor(key),
            Some(Bound::Worker(to)) if to != self.id => {
                let Some(mut traveller) = self.pack(key) else { return false };
                traveller.place.change(to);
                self.shared.tell(to, Message::Moved(Box::new(traveller)));
                true
            }
            _ => false,
        }
    }

    /// Takes a client out of this worker, with all that its session is.
    pub fn pack(&mut self, key: ClientKey) -> Option<Traveller> {
        let client = self.clients.get_mut(key.0)?;
        let (place, home) = (client.place.take()?, client.home?);
        let mut client = self.clients.remove(key.0)?;
        self.unwatch(&mut client.io.stream);
        let pool = self.pools.get_mut(home.0)?;
        pool.clients = pool.clients.saturating_sub(1);
        pool.totals.clients_moved += 1;
        if pool.clients == 0 {
            pool.unused_since = Some(self.now);
        }
        let carried = |(name, statement): (Box<[u8]>, Rc<Statement>)| (name, statement.carry());
        let Client { io, id, seat, user, database, vars, sets, startup, role, primary_reads, owed, .. } = client;
        let Client { statements, unnamed, renamed, cancel_key, minor, since, request_since, admin, deeds, .. } = client;
        Some(Traveller {
            io,
            id,
            seat,
            place,
            user: user.to_string(),
            database: database.to_string(),
            served_as: pool.user.to_string(),
            settings: (vars.carry(), sets.carry()),
            startup: (startup.0.carry(), startup.1.carry()),
            role,
            primary_reads,
            owed,
            statements: statements.into_iter().map(carried).collect(),
            unnamed: unnamed.map(|statement| statement.carry()),
            renamed,
            cancel_key,
            minor,
            since,
            request_since,
            admin,
            deeds,
            kills: self.kills,
        })
    }

    /// Takes in a client that comes from another worker, or another process.
    pub fn settle_in(&mut self, traveller: Traveller) -> Option<ClientKey> {
        let Traveller { mut io, id, seat, place, user, database, served_as, settings, startup, .. } = traveller;
        let Traveller { statements, unnamed, cancel_key, .. } = traveller;
        let key = ClientKey(self.clients.vacant());
        if let Err(error) = self.watch_client(key, &mut io) {
            crate::warning!("cannot watch a client's socket: {error}");
            lock(&self.shared.cancels).remove(&cancel_key);
            return None;
        }
        io.readable = true;
        let (database, user): (Rc<str>, Rc<str>) = (database.as_str().into(), user.as_str().into());
        let pool_key = self.pool_of(&database, &served_as.as_str().into());
        self.take_welcome(pool_key);
        if self.pools.get_mut(pool_key.0).is_some_and(|pool| std::mem::take(&mut pool.unproven)) {
            self.size_pool(pool_key);
        }
        // Else what it has prepared would be taken for older than all that is prepared here, and be shared with nobody.
        let renewals = self.shapes_of(pool_key).map(|shapes| shapes.knowledge().renewals());
        let mut client = Client::new(io, seat, traveller.since, id);
        client.state = State::Ready;
        (client.user, client.database, client.place) = (user, database, Some(place));
        (client.pool, client.home) = (Some(pool_key), Some(pool_key));
        if let Some(pool) = self.pools.get_mut(pool_key.0) {
            pool.clients += 1;
            pool.unused_since = None;
            pool.statements.renew(renewals);
            client.vars = Vars::carried(settings.0, &pool.defaults);
            client.startup.0 = Vars::carried(startup.0, &client.vars);
            let adopted = statements.into_iter().map(|(name, carried)| (name, pool.statements.adopt(carried)));
            client.statements = adopted.collect();
            client.unnamed = unnamed.map(|carried| pool.statements.adopt(carried));
        }
        (client.sets, client.startup.1) = (Sets::carried(settings.1), Sets::carried(startup.1));
        (client.role, client.primary_reads, client.owed) = (traveller.role, traveller.primary_reads, traveller.owed);
        (client.renamed, client.minor, client.admin) = (traveller.renamed, traveller.minor, traveller.admin);
        (client.deeds, client.request_since) = (traveller.deeds, traveller.request_since);
        client.suspended = self.is_suspended();
        lock(&self.shared.cancels).insert(cancel_key.clone(), (self.id, key));
        client.cancel_key = cancel_key;
        self.clients.insert(client);
        let was_killed = self.pools.get(pool_key.0).is_some_and(|pool| pool.paused) && traveller.kills < self.kills;
        if was_killed {
            self.fatal(key, "57P01", crate::admin::KILLED);
            return None;
        }
        self.give_turn(Turn::Client(key));
        Some(key)
    }
}
