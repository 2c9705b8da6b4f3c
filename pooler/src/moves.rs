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
type Settings = (Vec<Option<Box<str>>>, Vec<(String, String)>);

/// A client on its way to another worker.
#[derive(Debug)]
pub struct Traveller {
    io: Io,
    id: u64,
    seat: Seat,
    place: Place,
    user: String,
    database: String,
    /// The user of its pool.
    served_as: String,
    settings: Settings,
    startup: Settings,
    role: Option<Role>,
    primary_reads: Option<bool>,
    owed: Owed,
    statements: Vec<(Box<[u8]>, Carried)>,
    unnamed: Option<Carried>,
    renamed: bool,
    cancel_key: CancelKey,
    minor: u16,
    since: Instant,
    request_since: Instant,
    admin: bool,
    deeds: Deeds,
    /// How often KILL had been carried out where it comes from ([`Worker::kills`]).
    kills: u64,
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
            let same = |excess: &&mut Excess| excess.clients > 0 && marked == Some(WorkerId(excess.to));
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
            let mut places = excess.iter().flat_map(|excess| std::iter::repeat_n(WorkerId(excess.to), excess.clients));
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

    /// Sends a client to the worker that it is to move to, if it can go now.
    pub fn moves_away(&mut self, key: ClientKey) -> bool {
        let may = |client: &&mut Client| client.moves_to.is_some() && may_travel(client);
        let Some(client) = self.clients.get_mut(key.0).filter(may) else { return false };
        let Some(to) = client.moves_to.take().filter(|to| *to != self.id) else { return false };
        let (Some(mut place), Some(home)) = (client.place.take(), client.home) else { return false };
        let Some(mut client) = self.clients.remove(key.0) else { return false };
        self.unwatch(&mut client.io.stream);
        place.change(to);
        let Some(pool) = self.pools.get_mut(home.0) else { return true };
        pool.clients = pool.clients.saturating_sub(1);
        pool.totals.clients_moved += 1;
        if pool.clients == 0 {
            pool.unused_since = Some(self.now);
        }
        let carried = |(name, statement): (Box<[u8]>, Rc<Statement>)| (name, statement.carry());
        let Client { io, id, seat, user, database, vars, sets, startup, role, primary_reads, owed, .. } = client;
        let Client { statements, unnamed, renamed, cancel_key, minor, since, request_since, admin, deeds, .. } = client;
        let traveller = Traveller {
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
        };
        self.shared.tell(to, Message::Moved(Box::new(traveller)));
        true
    }

    /// Takes in a client that comes from another worker.
    pub fn settle_in(&mut self, traveller: Traveller) {
        let Traveller { mut io, id, seat, place, user, database, served_as, settings, startup, .. } = traveller;
        let Traveller { statements, unnamed, cancel_key, .. } = traveller;
        let key = ClientKey(self.clients.vacant());
        if let Err(error) = self.watch_client(key, &mut io) {
            crate::warning!("cannot watch a client's socket: {error}");
            lock(&self.shared.cancels).remove(&cancel_key);
            return;
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
            return self.fatal(key, "57P01", crate::admin::KILLED);
        }
        self.give_turn(Turn::Client(key));
    }
}
