//! A worker: one thread, one event loop, the clients and server connections of the databases that it serves.
//!
//! The loop polls, marks what is readable, and works through a list of connections until none has anything to do.
//! Whoever gives somebody else work (a server lent, a buffer drained) puts them on the list, so nothing recurses.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::event::{Event, Source};
use mio::{Events, Poll, Token};

use crate::accept::{Door, Strangers};
use crate::admin::{Console, Order};
use crate::after::After;
use crate::client::{self, Client, ClientKey};
use crate::config::Config;
use crate::hear::Hubs;
use crate::listen::Listener;
use crate::lone::Lone;
use crate::monitor::ClusterView;
use crate::net::{Got, Io, Stream};
use crate::pool::{Pool, PoolKey};
use crate::server::{Server, ServerKey};
use crate::shape::{Shape, Shapes};
use crate::shared::{Ending, Message, Shared, WorkerId, lock};
use crate::slots::{Slot, Slots};
use crate::suspend::Suspension;
use crate::vars::Tracked;
use crate::workload::Workload;

/// Read at once.
const READ: usize = 65_536;
/// A receiver with more than this unsent makes its sender wait.
pub const HIGH_WATER: usize = 262_144;
/// How often time limits are looked at.
const TICK: Duration = Duration::from_millis(100);
/// With so many units in flight in lanes, servers and clients that want this core go first: more of what they say is
/// there then, and is done with fewer wakeups. On a core that nobody else wants it changes nothing.
const GATHER: usize = 16;

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Turn {
    /// A client's.
    Client(ClientKey),
    /// A server connection's.
    Server(ServerKey),
}

/// What became of the bytes at the front of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// So many are done with.
    Took(usize),
    /// More must come first.
    More,
    /// They must wait.
    Stop,
}

/// A worker.
pub struct Worker {
    /// Which one.
    pub id: WorkerId,
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The clients.
    pub clients: Slots<Client>,
    /// The server connections.
    pub servers: Slots<Server>,
    /// The pools.
    pub pools: Slots<Pool>,
    /// Pools by database and user.
    pub pool_names: HashMap<(Rc<str>, Rc<str>), PoolKey>,
    /// Which parameters are tracked.
    pub tracked: Tracked,
    /// The time, as of the last poll.
    pub now: Instant,
    /// Who has something to do.
    pub turns: VecDeque<Turn>,
    /// The questions of console clients that other workers are answering.
    pub console: Console,
    /// When the pools are looked after next.
    pub next_upkeep: Instant,
    /// Errors of our own that clients were told, by SQLSTATE.
    pub errors: BTreeMap<String, u64>,
    /// Set when it shall end: when that was ordered.
    pub ending: Option<Instant>,
    /// How many orders it has carried out that all workers get, the console's and those to reload: what comes from a worker
    /// that had carried out fewer has missed some.
    pub orders: u64,
    /// How often it has carried out KILL.
    pub kills: u64,
    /// Whether clients are marked that are to move to other workers.
    pub marked: bool,
    /// What it has done since it told others last how busy it is.
    pub workload: Workload,
    /// Whether it reads anything.
    pub suspension: Suspension,
    /// The places among the tracked parameters of `standard_conforming_strings` and `client_encoding`.
    pub lexed_by: (usize, usize),
    /// Cores of the machine.
    pub cores: usize,
    /// The connections that listen for all clients of a pool.
    pub hubs: Hubs,
    /// Server connections that are lanes.
    pub active_lanes: Vec<ServerKey>,
    /// How long the client that is being served has waited for room in a lane.
    pub waited: Duration,
    /// What is done when the input at hand has been worked on.
    pub after: VecDeque<After>,
    /// Whether that is being done.
    pub in_after: bool,
    /// Who gets what the turn has gathered for it when the turn ends.
    pub unflushed: Vec<Turn>,
    /// When a read has waited long enough for a replica.
    pub replay_due: Option<Instant>,
    /// A replica has come nearer to what reads wait for.
    pub replayed: bool,
    /// What the monitor has posted of clusters.
    pub clusters: Vec<ClusterView>,
    /// The statements of the unit that was looked at last, whose it is and how long: it is looked at twice.
    pub judged: Option<(ClientKey, usize, Vec<Rc<Shape>>)>,
    /// What is known of statements, by database.
    pub shapes: HashMap<Rc<str>, Shapes>,
    /// When the current period of the averages ends.
    pub period_ends: Instant,
    poll: Poll,
    lone: Lone,
    /// What clients come in by.
    pub door: Door,
    /// Those who came in and have proven nothing, in order.
    pub strangers: Strangers,
    queued: HashSet<Turn>,
    scratch: Vec<u8>,
    next_tick: Instant,
}

/// By what events name the listeners.
const DOOR: Token = Token(2);

/// By what events name a connection; the listeners and the mailbox have the numbers between.
fn token_of(turn: Turn) -> Token {
    match turn {
        Turn::Client(key) => Token(key.0.token(0)),
        Turn::Server(key) => Token(key.0.token(1)),
    }
}

impl Worker {
    /// A worker; the first one listens.
    pub fn new(id: WorkerId, shared: Arc<Shared>, poll: Poll, listeners: Vec<Listener>) -> io::Result<Self> {
        let config = shared.config();
        let now = Instant::now();
        let tracked = Tracked::new(&config.settings.track_extra_parameters.0);
        let mut worker = Self {
            id,
            lexed_by: ["standard_conforming_strings", "client_encoding"]
                .map(|name| tracked.place(name).unwrap_or(usize::MAX))
                .into(),
            tracked,
            period_ends: now + config.settings.stats_period.0,
            config,
            clients: Slots::default(),
            servers: Slots::default(),
            pools: Slots::default(),
            pool_names: HashMap::new(),
            now,
            turns: VecDeque::new(),
            console: Console::default(),
            next_upkeep: now,
            errors: BTreeMap::new(),
            ending: None,
            orders: 0,
            kills: 0,
            marked: false,
            workload: Workload::default(),
            suspension: Suspension::No,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            hubs: Hubs::new(),
            active_lanes: Vec::new(),
            waited: Duration::ZERO,
            after: VecDeque::new(),
            in_after: false,
            unflushed: Vec::new(),
            replay_due: None,
            replayed: false,
            clusters: Vec::new(),
            judged: None,
            shapes: HashMap::new(),
            poll,
            lone: Lone::new(now),
            door: Door::new(listeners),
            strangers: Strangers::default(),
            queued: HashSet::new(),
            scratch: vec![0; READ],
            next_tick: now + TICK,
            shared,
        };
        worker.door.watch(worker.poll.registry(), DOOR)?;
        Ok(worker)
    }

    /// Runs until it is told to end.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.is_over() {
            let awake = self.lone.stays_awake(self.now, self.config.settings.busy_poll.0);
            let wait = if self.has_work() || awake {
                Duration::ZERO
            } else {
                let moments = [self.lane_deadline(), self.replay_due];
                let moments = moments.into_iter().flatten().filter(|_| !self.is_suspended());
                let until = moments.fold(self.next_tick, Instant::min);
                until.saturating_duration_since(Instant::now())
            };
            if awake || self.in_flight() >= GATHER {
                std::thread::yield_now();
            }
            self.turn(&mut events, wait)?;
        }
        self.say_goodbye();
        Ok(())
    }

    /// Whether somebody has something to do without any event.
    pub fn has_work(&self) -> bool {
        !self.turns.is_empty() || !self.unflushed.is_empty() || self.lets_in() && self.door.has_rung()
    }

    /// Waits so long for events, and does what there is to do.
    pub fn turn(&mut self, events: &mut Events, wait: Duration) -> io::Result<()> {
        match self.poll.poll(events, Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => (),
        }
        self.work(events, Instant::now());
        Ok(())
    }

    /// Does what there is to do, told by these events, at this time.
    fn work(&mut self, events: &Events, now: Instant) {
        self.now = now;
        if !self.clusters.is_empty() {
            self.look_at_clusters();
        }
        if !events.is_empty() {
            self.lone.hear(self.now);
        }
        for event in events.iter() {
            let (slot, kind) = Slot::of_token(event.token().0);
            match kind {
                0 => self.client_event(ClientKey(slot), event),
                1 => self.server_event(ServerKey(slot), event),
                2 => self.door.rings(),
                _ => self.read_messages(),
            }
        }
        // Those who still have something to do after their turn come again after the next poll.
        for _ in 0..self.turns.len() {
            let Some(turn) = self.turns.pop_front() else { break };
            self.queued.remove(&turn);
            match turn {
                Turn::Client(key) => self.client_turn(key),
                Turn::Server(key) => self.server_turn(key),
            }
        }
        if self.lets_in() && self.door.has_rung() {
            self.accept();
        }
        self.run_after();
        if !self.active_lanes.is_empty() && !self.is_suspended() {
            self.look_after_lanes();
        }
        if !self.unflushed.is_empty() {
            self.flush_lanes();
        }
        if self.replayed || self.replay_due.is_some() {
            self.look_at_replay();
        }
        if self.now >= self.next_tick {
            self.next_tick = self.now + TICK;
            self.tick();
            self.run_after();
        }
    }

    /// As [`Self::turn`], without waiting, at a time that a simulation gives.
    pub fn turn_at(&mut self, events: &mut Events, now: Instant) -> io::Result<()> {
        self.poll.poll(events, Some(Duration::ZERO))?;
        self.work(events, now);
        Ok(())
    }

    /// Gives somebody a turn.
    pub fn give_turn(&mut self, turn: Turn) {
        if self.queued.insert(turn) {
            self.turns.push_back(turn);
        }
    }

    fn client_event(&mut self, key: ClientKey, event: &Event) {
        self.lone.speak(key, self.now);
        let Some(client) = self.clients.get_mut(key.0) else { return };
        client.io.hangup |= event.is_read_closed() || event.is_error();
        client.io.readable |= event.is_readable() || client.io.hangup;
        self.flush_client(key);
        self.client_turn(key);
    }

    fn server_event(&mut self, key: ServerKey, event: &Event) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        server.io.hangup |= event.is_read_closed() || event.is_error();
        server.io.readable |= event.is_readable() || server.io.hangup;
        if matches!(server.state, crate::server::State::Connecting) {
            self.server_connected(key);
        }
        self.flush_server(key);
        self.server_turn(key);
    }

    /// Reads what a client has sent and works on it.
    fn client_turn(&mut self, key: ClientKey) {
        if self.clients.get(key.0).is_none_or(|client| client.suspended) {
            return;
        }
        let (proven, moves) = self.clients.get(key.0).map_or((false, false), |client| {
            (matches!(client.state, client::State::Proven(_)), client.moves_to.is_some())
        });
        if proven {
            self.enter(key);
        }
        if moves && self.moves_away(key) {
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        self.read_client(key, &mut scratch);
        self.scratch = scratch;
        let server = self.clients.get(key.0).and_then(|client| client.server);
        if let Some(server) = server {
            self.flush_server(server);
        }
        self.flush_client(key);
        self.run_after();
    }

    fn read_client(&mut self, key: ClientKey, scratch: &mut [u8]) {
        // Who hangs up in the queue is not served: a connection would be made ready for nobody.
        let gone = |client: &Client| client.io.hangup && client.waits.is_some() && client.server.is_none();
        if self.clients.get(key.0).is_some_and(gone) {
            return self.client_gone(key, None);
        }
        // What was left over comes first: its client may have had to wait for a server.
        if self.client_may_go_on(key) && self.clients.get(key.0).is_some_and(|client| !client.io.rest.is_empty()) {
            self.feed_client(key, &[]);
        }
        if !self.client_may_go_on(key) {
            return;
        }
        let Some(client) = self.clients.get_mut(key.0).filter(|client| client.io.readable) else { return };
        match client.io.read(scratch) {
            Got::Bytes(count) => {
                if let Some(bytes) = scratch.get(..count) {
                    self.feed_client(key, bytes);
                }
                if self.clients.get(key.0).is_some_and(|client| client.io.readable) {
                    self.give_turn(Turn::Client(key));
                }
            }
            Got::Nothing => (),
            Got::Closed(error) => self.client_gone(key, error),
        }
    }

    /// Whether a client's input may be worked on: it does not wait, and its server keeps up.
    fn client_may_go_on(&self, key: ClientKey) -> bool {
        let Some(client) = self.clients.get(key.0) else { return false };
        if client.waits.is_some()
            || client.behind_own
            || client.ears.as_ref().is_some_and(|ears| ears.awaits())
            || client.console_waits.is_some()
            || client.io.pending() > HIGH_WATER
        {
            return false;
        }
        // What it sends before it is let in stays in the socket.
        let stays_there = match &client.state {
            client::State::Login(_, phase) => !phase.awaits_client(),
            client::State::Proven(_) | client::State::Greeting => true,
            _ => false,
        };
        if stays_there {
            return false;
        }
        client
            .server
            .and_then(|server| self.servers.get(server.0))
            .is_none_or(|server| server.io.pending() <= HIGH_WATER)
    }

    pub fn feed_client(&mut self, key: ClientKey, fresh: &[u8]) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        if client.io.rest.is_empty() {
            let taken = self.client_input(key, fresh);
            if let (Some(client), Some(left)) = (self.clients.get_mut(key.0), fresh.get(taken..))
                && !left.is_empty()
            {
                // What is to be asked again has come to stand there meanwhile.
                client.io.rest.extend_from_slice(left);
            }
        } else {
            let mut held = std::mem::take(&mut client.io.rest);
            held.extend_from_slice(fresh);
            let taken = self.client_input(key, &held);
            if let Some(client) = self.clients.get_mut(key.0) {
                held.drain(..taken.min(held.len()));
                if client.io.rest.is_empty() {
                    client.io.rest = if held.is_empty() { Vec::new() } else { held };
                } else {
                    client.io.rest.append(&mut held);
                }
            }
        }
        // What came while it waited is still in its socket, and no event will tell of it again.
        if fresh.is_empty() && self.clients.get(key.0).is_some_and(|client| client.io.readable) {
            self.give_turn(Turn::Client(key));
        }
    }

    fn server_turn(&mut self, key: ServerKey) {
        if self.servers.get(key.0).is_none_or(|server| server.suspended) {
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let client = self.servers.get(key.0).and_then(|server| server.client());
        self.read_server(key, &mut scratch);
        self.scratch = scratch;
        if let Some(client) = client {
            self.flush_client(client);
            self.tell_news(client);
        }
        // What goes down a lane is gathered until the turn ends: clients that are still to be read add to it.
        if self.servers.get(key.0).and_then(|server| server.lane.as_ref()).is_none_or(|lane| !lane.unflushed) {
            self.flush_server(key);
        }
        self.run_after();
    }

    fn read_server(&mut self, key: ServerKey, scratch: &mut [u8]) {
        let Some(server) = self.servers.get(key.0) else { return };
        let slow = server.client().and_then(|client| self.clients.get(client.0));
        if slow.is_some_and(|client| client.io.pending() > HIGH_WATER) {
            return;
        }
        let Some(server) = self.servers.get_mut(key.0).filter(|server| server.io.readable) else { return };
        match server.io.read(scratch) {
            Got::Bytes(count) => {
                if let Some(fresh) = scratch.get(..count) {
                    self.feed_server(key, fresh);
                }
                if self.servers.get(key.0).is_some_and(|server| server.io.readable) {
                    self.give_turn(Turn::Server(key));
                }
            }
            Got::Nothing => (),
            Got::Closed(error) => {
                // TLS that could not be agreed on will not be the next time.
                server.refused |= error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::InvalidData);
                let why = error.map_or(crate::close::SERVER_CLOSED.to_owned(), |error| error.to_string());
                self.server_gone(key, &why);
            }
        }
    }

    fn feed_server(&mut self, key: ServerKey, fresh: &[u8]) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        if server.io.rest.is_empty() {
            let taken = self.server_input(key, fresh);
            if let (Some(server), Some(left)) = (self.servers.get_mut(key.0), fresh.get(taken..))
                && !left.is_empty()
            {
                server.io.rest = left.to_vec();
            }
        } else {
            let mut held = std::mem::take(&mut server.io.rest);
            held.extend_from_slice(fresh);
            let taken = self.server_input(key, &held);
            if let Some(server) = self.servers.get_mut(key.0) {
                held.drain(..taken.min(held.len()));
                server.io.rest = if held.is_empty() { Vec::new() } else { held };
            }
        }
    }

    /// Sends a client what is there for it; a server that waited for that goes on.
    pub fn flush_client(&mut self, key: ClientKey) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let before = client.io.pending();
        if before == 0 {
            return;
        }
        let flushed = client.io.flush();
        match flushed.and_then(|()| client.io.watch_room(self.poll.registry(), token_of(Turn::Client(key)))) {
            Ok(()) => {
                let server = client.server.or(client.lane.map(|(server, _)| server));
                if before > HIGH_WATER && client.io.pending() <= HIGH_WATER {
                    self.give_turn(Turn::Client(key));
                    if let Some(server) = server {
                        self.give_turn(Turn::Server(server));
                    }
                }
            }
            Err(error) => self.later(After::Leave(key, error.to_string())),
        }
    }

    /// Sends a server what is there for it; a client that waited for that goes on.
    pub fn flush_server(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let before = server.io.pending();
        if before == 0 || matches!(server.state, crate::server::State::Connecting) {
            return;
        }
        let flushed = server.io.flush();
        match flushed.and_then(|()| server.io.watch_room(self.poll.registry(), token_of(Turn::Server(key)))) {
            Ok(()) => {
                let client = server.client();
                if let (true, Some(client)) = (before > HIGH_WATER && server.io.pending() <= HIGH_WATER, client) {
                    self.give_turn(Turn::Client(client));
                }
            }
            // What the server said before it closed may still be read, and says why.
            Err(_) => {
                server.io.readable = true;
                server.io.out().clear();
                self.give_turn(Turn::Server(key));
            }
        }
    }

    /// Lets clients in by these sockets from now on; another process has those that were there.
    pub fn replace_door(&mut self, listeners: Vec<Listener>) -> io::Result<()> {
        self.door.replace(self.poll.registry(), DOOR, listeners)
    }

    /// Watches a client's socket under its key.
    pub fn watch_client(&self, key: ClientKey, io: &mut Io) -> io::Result<()> {
        io.watch(self.poll.registry(), token_of(Turn::Client(key)), false)
    }

    /// Watches a server's socket, which is being connected, under its key.
    pub fn watch_server(&self, key: ServerKey, io: &mut Io) -> io::Result<()> {
        io.watch(self.poll.registry(), token_of(Turn::Server(key)), true)
    }

    /// Watches the socket of a server connection that comes from another worker, under its key.
    pub fn watch_taken(&self, key: ServerKey, io: &mut Io) -> io::Result<()> {
        io.watch(self.poll.registry(), token_of(Turn::Server(key)), false)
    }

    /// Watches a socket no longer.
    pub fn unwatch(&self, stream: &mut Stream) {
        // It fails only for a socket that is not watched.
        let _ = stream.deregister(self.poll.registry());
    }

    /// Sends a client that is being closed what it can; whether it can be sent more.
    pub fn flush_last(&mut self, key: ClientKey) -> bool {
        let Some(client) = self.clients.get_mut(key.0) else { return false };
        client.io.flush().is_ok()
            && client.io.watch_room(self.poll.registry(), token_of(Turn::Client(key))).is_ok()
            && (client.io.pending() > 0 || client.io.half_close().is_ok())
    }

    fn read_messages(&mut self) {
        let Some(mailbox) = self.shared.mailboxes.get(self.id.0) else { return };
        let messages = std::mem::take(&mut *lock(&mailbox.messages));
        for message in messages {
            match message {
                Message::Arrived(arrival) => self.take_in(*arrival),
                Message::Moved(traveller) => drop(self.settle_in(*traveller)),
                Message::Adopted(adopted) => self.adopt(*adopted),
                Message::HandedOver(parcel) => self.take_over_server(*parcel),
                Message::Bequeathed(counts) => self.inherit(*counts),
                Message::Wanted(name) => self.wanted(&name),
                Message::Derived(key, secret) => self.derived(key, &secret),
                Message::Cancel(key, cancel, asker) => self.cancel(key, &cancel, asker),
                Message::Cancelled(key) => self.close_client(key, "cancel request"),
                Message::Order(asker, number, order) => {
                    self.orders += u64::from(!matches!(order, Order::Look));
                    let answer = self.obey(&order);
                    self.shared.tell(asker, Message::Answer(number, Box::new(answer)));
                }
                Message::Answer(number, answer) => self.console_answer(number, *answer),
                // Whoever asked may have given up.
                Message::Measure(asker) => drop(asker.send(self.measure())),
                Message::Resolved(host, changed) => self.resolved(&host, changed),
                Message::MakeRoom(user) => self.make_room_for_another(&user),
                Message::Reload => {
                    self.orders += 1;
                    self.take_config();
                }
                // The views of clusters look at the board by themselves; being awake is all that is needed.
                Message::Clusters => (),
                Message::Replayed => self.replayed = true,
                Message::Shutdown(way) => self.begin_to_end(way),
            }
        }
    }

    fn begin_to_end(&mut self, way: Ending) {
        self.shared.ending.store(true, Ordering::Relaxed);
        {
            let mut most_urgent = lock(&self.shared.way);
            *most_urgent = way.max(*most_urgent);
        }
        self.door.close(self.poll.registry());
        // What is waited for could not end.
        crate::suspend::end(&self.shared);
        self.end_suspension();
        if way == Ending::AtOnce {
            self.clients.clear();
            self.servers.clear();
        }
        self.ending.get_or_insert(self.now);
        self.close_idle_clients();
    }

    /// Whether somebody is still to log in who came before another process took the sockets over.
    fn awaits_logins(&self) -> bool {
        self.shared.succession.is_handed_over() && self.shared.strangers.load(Ordering::Relaxed) > 0
    }

    fn is_over(&self) -> bool {
        let Some(since) = self.ending else { return false };
        let late = self.config.settings.shutdown_timeout.limit();
        // Who looks on by the console, or has not said what it wants, is not waited for.
        let is_waited_for =
            |client: &Client| client.seat.is_waited_for() || matches!(client.state, client::State::Closing);
        // The console asks all workers, so none goes before the last client of all has.
        let done = !self.clients.iter().any(|(_, client)| is_waited_for(client))
            && (*lock(&self.shared.way) == Ending::AtOnce
                || self.shared.clients.load(Ordering::Relaxed) == 0 && !self.awaits_logins());
        done || late.is_some_and(|limit| self.now.saturating_duration_since(since) > limit)
    }
}
