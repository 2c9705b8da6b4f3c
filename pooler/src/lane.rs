//! Pipelining across clients: statements of different clients, sent down one server connection one behind another.
//!
//! A *unit* is a Query, or messages of the extended protocol up to their Sync. A unit that is proven to be a read and to
//! leave the session alone needs no connection to itself: each is a transaction of its own, so it can neither see nor
//! disturb its neighbours. A server connection that carries such units is a *lane*; answers come in the order in which
//! the units were sent, and are cut apart at each ReadyForQuery.
//!
//! What a unit answers is staged until it is whole, so that until then it can be asked again somewhere else, which its
//! reader does not notice: when the server dies, when a neighbour's cancel request hits it, when a neighbour takes too
//! long. `docs/design/2026-11-21-pipelining.md` tells the rules and their reasons.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use balancer::Tried;
use wire::backend::{Report, Status};
use wire::frame::HEADER;
use wire::frontend::tag;
use wire::{Header, frontend, header};

use crate::after::After;
use crate::answer::{shown_name, write_renamed};
use crate::client::{Client, ClientKey, Discard};
use crate::config::PoolMode;
use crate::names::new_name;
use crate::pool::{Pool, PoolKey};
use crate::route::SERIALIZABLE;
use crate::server::{Request, Residue, Server, ServerKey, State};
use crate::shape::{Shape, Why};
use crate::statement::Statement;
use crate::unit::{Extent, Way, extent};
use crate::worker::{Step, Turn, Worker};

/// A unit that answers more than this has its lane to itself until it ends.
const LONGEST_ANSWER: usize = 65_536;
/// History that is done with is thrown away when it is this much.
const COMPACT: usize = 65_536;
/// How often a unit is asked again on account of its neighbours.
const RETRIES: u8 = 8;
/// How often a write is sent again that replicas refuse: a promotion takes seconds, a tenth of one lies between two.
const REFUSALS: u8 = 100;

/// A unit that was sent and is not answered.
#[derive(Debug)]
pub struct Unit {
    /// Whose it is; `None` when nobody waits for its answer any more.
    pub client: Option<ClientKey>,
    /// What kind of statement it is.
    pub shape: Option<Rc<Shape>>,
    /// Bytes as the client sent them.
    pub size: usize,
    /// It is no read: it is asked again only where the server did not do it.
    pub writes: bool,
    /// Its client's unnamed statement before it.
    pub unnamed: Option<Rc<Statement>>,
    /// The names that its client gives statements in it.
    pub names: Vec<Box<[u8]>>,
    /// Whether the server has kept the statement without a name that it binds; `None` if it binds none.
    pub kept: Option<bool>,
}

/// What a server connection needs to know as a lane.
#[derive(Debug)]
pub struct Lane {
    /// The units in flight, in the order in which they were sent.
    pub units: VecDeque<Unit>,
    /// What the unit at the head has answered so far.
    pub stage: Vec<u8>,
    /// Part of that has been passed on already: it was too much to keep.
    pub forwarded: bool,
    /// The units' bytes, one behind another, from the head's on.
    pub history: Vec<u8>,
    /// Bytes at the start of the history that are done with.
    pub done: usize,
    /// Since when the unit at the head is.
    pub head_since: Instant,
    /// No unit is added: what is in flight shall end first.
    pub closed: bool,
    /// Those behind the head have been asked elsewhere.
    pub rescued: bool,
    /// When it is looked at next whether the head takes long.
    pub looked_at: Instant,
    /// The unit at the head has answered with an error already.
    pub failed: bool,
    /// What has gone wrong is not the head's fault: it is asked again.
    pub again: bool,
    /// One unit has it to itself.
    pub alone: bool,
    /// Bytes for the server wait to be sent at the end of the turn.
    pub unflushed: bool,
}

impl Lane {
    fn new(now: Instant) -> Self {
        Self {
            units: VecDeque::new(),
            stage: Vec::new(),
            forwarded: false,
            history: Vec::new(),
            done: 0,
            head_since: now,
            closed: false,
            rescued: false,
            looked_at: now,
            failed: false,
            again: false,
            alone: false,
            unflushed: false,
        }
    }

    /// The client of the unit at the head.
    pub fn head(&self) -> Option<ClientKey> {
        self.units.front().and_then(|unit| unit.client)
    }

    fn restart(&mut self, now: Instant) {
        self.stage.clear();
        self.history.clear();
        self.done = 0;
        (self.head_since, self.looked_at) = (now, now);
        (self.forwarded, self.closed, self.rescued, self.again, self.failed) = (false, false, false, false, false);
    }
}

impl Worker {
    /// Sends the unit at the front of a client's input down a lane, if it is a read. `None` when it is none: then the
    /// client must be lent a connection.
    pub fn take_lane(&mut self, key: ClientKey, input: &[u8]) -> Option<Step> {
        let client = self.clients.get_mut(key.0)?;
        let pool_key = client.pool?;
        if client.pins.any() || client.unsynced || client.discard != Discard::No {
            return None;
        }
        if !self.pools.get(pool_key.0)?.pipelining {
            // Its units of before are in a lane still, when the configuration has changed.
            return self.behind_own(key);
        }
        let lent = client.server;
        // While a cancel request of its client is on its way, a lent connection stays its own.
        let untouched =
            |server: &Server| server.status == Status::Idle && server.held == 0 && server.requests.is_empty();
        if lent.is_some_and(|lent| !self.servers.get(lent.0).is_some_and(untouched)) {
            return None;
        }
        let size = match extent(input) {
            Extent::Whole(size) => Some(size),
            Extent::More => return Some(Step::More),
            Extent::Never => None,
        };
        let unit = size.and_then(|size| input.get(..size));
        let way = unit.map_or(Way::Lent(Why::Protocol), |unit| self.way(key, pool_key, unit));
        let (Some(unit), false) = (unit, matches!(way, Way::Lent(_))) else {
            if let Way::Lent(why) = way {
                self.count_lent(pool_key, why);
            }
            if let Some(step) = self.behind_own(key) {
                return Some(step);
            }
            if let Some(client) = self.clients.get_mut(key.0) {
                client.needs_own = true;
            }
            return None;
        };
        let (alone, shape, writes) = match way {
            Way::Shared(shape) => (false, shape, false),
            Way::Alone(shape, writes) => (true, shape, writes),
            Way::Lent(_) => return None,
        };
        if !alone && lent.is_none() {
            let client = self.clients.get_mut(key.0)?;
            let turn = std::mem::take(&mut client.may_share) || client.lane.is_some();
            let queue = self.pools.get(pool_key.0).is_some_and(|pool| !pool.sharers.is_empty());
            if (turn || !queue)
                && let Some(server) = self.choose_lane(key, pool_key)
            {
                return self.send_down(key, server, unit, shape, false);
            }
            if self.clients.get(key.0).is_some_and(|client| client.server.is_some()) {
                return Some(Step::Stop);
            }
            return self.behind_own(key).or_else(|| self.queue_to_share(key, pool_key, turn));
        }
        if let Some(step) = self.behind_own(key) {
            return Some(step);
        }
        // What may be asked again runs in a read-only transaction: a wrong guess fails, and has done nothing.
        if !self.acquire(key, !writes) {
            return Some(Step::Stop);
        }
        let client = self.clients.get_mut(key.0)?;
        let server = client.server.take()?;
        self.open_lane(server, alone);
        let sent = self.send_down(key, server, unit, shape, writes);
        self.later(After::Share(pool_key));
        sent
    }

    /// There is room in no lane: the client waits for it, those before it first.
    fn queue_to_share(&mut self, key: ClientKey, pool_key: PoolKey, first: bool) -> Option<Step> {
        let client = self.clients.get_mut(key.0)?;
        client.reads_only = true;
        client.waits = Some(client.waiting_since.take().unwrap_or(self.now));
        let pool = self.pools.get_mut(pool_key.0)?;
        if first {
            pool.sharers.push_front(key)
        } else {
            pool.sharers.push_back(key)
        }
        self.later(After::Grow(pool_key));
        Some(Step::Stop)
    }

    /// Lets those who wait for room in a lane have it, in order, while there is any.
    pub fn serve_sharers(&mut self, pool_key: PoolKey) {
        loop {
            let Some(pool) = self.pools.get_mut(pool_key.0) else { return };
            let depth = pool.depth(&self.config.settings);
            let servers = &self.servers;
            let room = pool.lanes.iter().filter_map(|lane| servers.get(lane.0)?.lane.as_ref());
            if pool.paused || !room.clone().any(|lane| !lane.closed && lane.units.len() < depth) {
                return;
            }
            let Some(key) = pool.sharers.pop_front() else { return };
            let Some(client) = self.clients.get_mut(key.0) else { continue };
            let Some(since) = client.waits.take() else { continue };
            self.waited = self.now.saturating_duration_since(since);
            pool.totals.wait_time += self.waited;
            client.may_share = true;
            self.feed_client(key, &[]);
            self.waited = Duration::ZERO;
            // It found no lane whose session is like its own: the others must not overtake it for long.
            if self.pools.get(pool_key.0).is_some_and(|pool| pool.sharers.front() == Some(&key)) {
                return;
            }
        }
    }

    /// Units of one client are answered in order: what may not follow the others down their lane waits until they are
    /// answered.
    pub fn behind_own(&mut self, key: ClientKey) -> Option<Step> {
        let client = self.clients.get_mut(key.0)?;
        client.lane?;
        client.behind_own = true;
        Some(Step::Stop)
    }

    /// The lane that a client's unit goes down, made of an idle connection where that is better.
    fn choose_lane(&mut self, key: ClientKey, pool_key: PoolKey) -> Option<ServerKey> {
        self.clients.get_mut(key.0)?.reads_only = true;
        let client = self.clients.get(key.0)?;
        let pool = self.pools.get(pool_key.0)?;
        if pool.paused {
            return None;
        }
        let settings = &self.config.settings;
        let depth = pool.depth(settings);
        if let Some((own, _)) = client.lane {
            let server = self.servers.get(own.0)?;
            let lane = server.lane.as_ref()?;
            let room = lane.units.len() < settings.pipeline_depth.max(1) * 4;
            return (room && !lane.closed && !server.retire && in_line(client, server)).then_some(own);
        }
        // While others wait for a connection to themselves, lanes keep no more than their share, and never all.
        let usual = if settings.pipeline_connections > 0 { settings.pipeline_connections } else { self.cores };
        let usual = usual.div_ceil(pool.common.count());
        let queue = !pool.waiting.is_empty() || pool.owes;
        let room = pool.room();
        let share = if queue { usual.min(room.saturating_sub(1)) } else { usize::MAX };
        let mut best: Option<(ServerKey, usize)> = None;
        for &lane_key in pool.lanes.iter().take(share) {
            let Some(server) = self.servers.get(lane_key.0) else { continue };
            let Some(lane) = server.lane.as_ref() else { continue };
            let used = lane.units.len();
            if used < depth
                && !lane.closed
                && !server.retire
                && in_line(client, server)
                && best.is_none_or(|(_, least)| used < least)
            {
                best = Some((lane_key, used));
            }
        }
        let few = pool.lanes.len() < usual.min(room);
        if queue || (best.is_some() && !few) {
            return best.map(|(lane, _)| lane);
        }
        let grows = few && best.is_some() && pool.connecting == 0 && pool.servers.len() < room;
        let best = best.map(|(lane, _)| lane);
        if pool.idle.is_empty() {
            if grows {
                self.later(After::Widen(pool_key));
            }
            return best;
        }
        let Some(server) = self.take_idle(pool_key, key) else { return best };
        let target = self.target(key)?;
        if self.servers.get(server.0)?.session.meets(&target) {
            self.open_lane(server, false);
            return Some(server);
        }
        // Its session is brought in line first: until then it is lent, and this client waits for it.
        if let Some(client) = self.clients.get_mut(key.0) {
            client.waits = Some(client.waiting_since.take().unwrap_or(self.now));
        }
        self.lend(server, key);
        None
    }

    /// Makes a lane of a server connection that nobody uses.
    fn open_lane(&mut self, server_key: ServerKey, alone: bool) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(server_key.0) else { return };
        server.state = State::Lane;
        server.state_since = now;
        server.lent = None;
        let lane = server.lane.get_or_insert_with(|| Box::new(Lane::new(now)));
        lane.restart(now);
        lane.closed = alone;
        lane.alone = alone;
        if !alone && let Some(pool) = self.pools.get_mut(server.pool.0) {
            pool.lanes.push(server_key);
            pool.totals.assignments += 1;
        }
        self.active_lanes.push(server_key);
    }

    /// Sends a unit down a lane.
    fn send_down(
        &mut self,
        key: ClientKey,
        server_key: ServerKey,
        unit: &[u8],
        shape: Option<Rc<Shape>>,
        writes: bool,
    ) -> Option<Step> {
        let now = self.now;
        let client = self.clients.get_mut(key.0)?;
        client.server = Some(server_key);
        client.unsynced = false;
        client.waiting_since = None;
        if client.lane.is_none() {
            client.request_since = now;
        }
        let unnamed = client.unnamed.clone();
        let mut names = Vec::new();
        let mut at = 0;
        while let Ok(Some(head)) = header(unit.get(at..).unwrap_or_default()) {
            let left = unit.get(at..at + head.total()).unwrap_or_default();
            if head.tag == tag::PARSE {
                names.extend(self.clients.get(key.0).and_then(|client| new_name(client, left)));
            }
            if let Err(error) = self.pass_message(key, head, left) {
                self.fatal(key, "08P01", &error.to_string());
                break;
            }
            at += head.total();
        }
        let server = self.servers.get_mut(server_key.0)?;
        let client = self.clients.get_mut(key.0);
        let lane = server.lane.as_mut()?;
        if lane.units.is_empty() {
            (lane.head_since, lane.looked_at) = (now, now);
        }
        lane.history.extend_from_slice(unit);
        let mut owner = None;
        let mut kept = None;
        if let Some(client) = client {
            kept = binds_kept(client, &server.requests);
            client.server = None;
            client.portals.clear();
            client.transaction_since = None;
            let count = client.lane.map_or(0, |(_, count)| count);
            client.lane = Some((server_key, count + 1));
            owner = Some(key);
        }
        // Who is alone in a lane was lent it, and has been counted then.
        if !lane.alone
            && let Some(pool) = self.pools.get_mut(server.pool.0)
        {
            pool.stats.waited(server.place, std::mem::take(&mut self.waited));
        }
        let size = unit.len();
        lane.units.push_back(Unit { client: owner, shape, size, writes, unnamed, names, kept });
        if !std::mem::replace(&mut lane.unflushed, true) {
            self.unflushed.push(Turn::Server(server_key));
        }
        Some(Step::Took(unit.len()))
    }

    /// Sends what the turn has gathered: to servers first, who have work to do with it.
    pub fn flush_lanes(&mut self) {
        let mut unflushed = std::mem::take(&mut self.unflushed);
        for turn in &unflushed {
            if let Turn::Server(key) = *turn {
                if let Some(lane) = self.servers.get_mut(key.0).and_then(|server| server.lane.as_mut()) {
                    lane.unflushed = false;
                }
                self.flush_server(key);
            }
        }
        for turn in unflushed.drain(..) {
            if let Turn::Client(key) = turn {
                self.flush_client(key);
            }
        }
        // Flushing can bring new work for the next turn, but nothing is lost from this list.
        if self.unflushed.is_empty() {
            self.unflushed = unflushed;
        }
    }

    /// The answer of a lane's unit has grown too long to be kept: it is passed on as it comes, and the lane is the
    /// unit's own until it ends.
    pub fn spill(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(lane) = server.lane.as_mut() else { return };
        if !lane.forwarded && lane.stage.len() <= LONGEST_ANSWER {
            return;
        }
        lane.forwarded = true;
        lane.closed = true;
        let Some(client_key) = lane.head() else {
            lane.stage.clear();
            return;
        };
        if let Some(client) = self.clients.get_mut(client_key.0) {
            client.io.out().append(&mut lane.stage);
            self.unflushed.push(Turn::Client(client_key));
        }
    }

    /// An error in the answer to a lane's unit. It is the client's to see, unless the fault is ours or a neighbour's:
    /// then the unit is asked again.
    pub fn lane_error(&mut self, key: ServerKey, message: &[u8], report: &Report) {
        let only_read = self.servers.get(key.0).is_some_and(|server| self.is_only_read(server));
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(lane) = server.lane.as_mut() else { return };
        let mut wrote_to_replica = false;
        let again = match (report.code.as_str(), server.requests.front()) {
            // It wrote where nothing may: on a replica, or against what was known of its functions. Nothing is done. The
            // session's own read-only transactions are the client's to see.
            ("25006", _) => {
                let member = self.pools.get(server.pool.0).is_some_and(|pool| pool.home.is_some());
                wrote_to_replica = member && (server.standby != Some(false) || only_read);
                let ours = server.session.read_only && !server.session.sets.concern_read_only();
                if (wrote_to_replica || ours)
                    && let Some(shape) = lane.units.front().and_then(|unit| unit.shape.as_ref())
                {
                    shape.lied();
                }
                wrote_to_replica || ours
            }
            // The plan of a statement of ours is stale: it is prepared afresh.
            (
                "0A000",
                Some(
                    Request::Bind(Some(statement))
                    | Request::Describe(Some(statement))
                    | Request::Execute(Some(statement)),
                ),
            ) if report.routine == "RevalidateCachedQuery" => {
                statement.generation.set(statement.generation.get() + 1);
                true
            }
            // Such transactions go to the primary from now on.
            ("0A000", _) if report.routine == SERIALIZABLE => {
                self.pools.get(server.pool.0).is_some_and(|pool| pool.home.is_some())
            }
            // It was taken for unknown here when a neighbour's Parse failed, but another's has succeeded since.
            ("42P05", Some(Request::Parse { statement: Some(statement), unnamed: false, .. })) => {
                statement.generation.set(statement.generation.get() + 1);
                true
            }
            // A neighbour's Parse of the same statement has failed.
            ("26000", Some(Request::Bind(Some(statement)) | Request::Describe(Some(statement)))) => {
                server.known.remove(statement);
                true
            }
            _ => false,
        };
        let Some(client_key) = lane.head() else { return };
        match self.clients.get_mut(client_key.0) {
            Some(client)
                if again
                    && !lane.forwarded
                    && (client.retries < RETRIES || wrote_to_replica && client.retries < REFUSALS) =>
            {
                client.retries = client.retries.saturating_add(1);
                // Its shape may not be remembered: what has been refused as a write is not taken for a read again.
                client.needs_own |= report.code == "25006" && !wrote_to_replica;
                lane.again = true;
                if wrote_to_replica {
                    client.waiting_since.get_or_insert(client.request_since);
                    let pool = server.pool;
                    self.wrote_to_replica(pool, client_key);
                }
            }
            client => {
                lane.failed = true;
                match client.and_then(|client| shown_name(&server.requests, client, &report.code)) {
                    Some((internal, shown)) => write_renamed(&mut lane.stage, message, &internal, &shown),
                    None => lane.stage.extend_from_slice(message),
                }
            }
        }
    }

    /// A unit in a lane has been answered: its client gets the answer, the next is at the head.
    pub fn lane_ready(&mut self, key: ServerKey, message: &[u8], status: Status) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let pool_key = server.pool;
        let Some(lane) = server.lane.as_mut() else { return };
        if status != Status::Idle {
            self.doom(key, "a statement that was taken for a read has left a transaction open");
            return;
        }
        if std::mem::take(&mut lane.again) {
            lane.stage.clear();
            if let Some(client) = lane.head() {
                self.ask_again(key, client, 0);
            }
        }
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(lane) = server.lane.as_mut() else { return };
        let Some(unit) = lane.units.pop_front() else {
            self.doom(key, "broken protocol: an answer that nothing asked for");
            return;
        };
        let took = now.saturating_duration_since(lane.head_since);
        (lane.head_since, lane.looked_at, lane.failed) = (now, now, false);
        lane.done += unit.size;
        if lane.units.is_empty() {
            lane.history.clear();
            lane.done = 0;
        } else if lane.done >= COMPACT {
            lane.history.drain(..lane.done);
            lane.done = 0;
        }
        if let Some(shape) = &unit.shape {
            shape.took(took, now);
            if let Some(kept) = unit.kept {
                shape.keeping.took(kept, took, now);
            }
            if shape.verdict.opaque {
                server.residue = server.residue.max(Residue::Anything);
            }
        }
        lane.forwarded = false;
        if let Some(pool) = self.pools.get_mut(pool_key.0) {
            if !lane.alone {
                pool.note_service(took);
                pool.totals.pipelined += 1;
                pool.retries.earn();
            }
            pool.totals.queries += 1;
            pool.totals.transactions += 1;
            pool.totals.query_time += took;
            pool.stats.queried(server.place, took);
            pool.totals.transaction_time += took;
        }
        if let Some(client) = unit.client
            && !server.session.read_only
        {
            self.owe(client, key);
        }
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(lane) = server.lane.as_mut() else { return };
        match unit.client.and_then(|key| self.clients.get_mut(key.0).map(|client| (key, client))) {
            Some((client_key, client)) => {
                client.deeds.queries += 1;
                client.deeds.transactions += 1;
                client.io.out().append(&mut lane.stage);
                client.take_news();
                client.io.out().extend_from_slice(message);
                (client.attempts, client.retries, client.tried) = (0, 0, Tried::default());
                client.request_since = now;
                client.lane = client.lane.and_then(|(server, count)| (count > 1).then_some((server, count - 1)));
                if client.lane.is_none() && std::mem::take(&mut client.behind_own) {
                    self.give_turn(Turn::Client(client_key));
                }
                self.unflushed.push(Turn::Client(client_key));
            }
            None => lane.stage.clear(),
        }
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(lane) = server.lane.as_mut() else { return };
        if lane.units.is_empty() {
            self.later(After::Free(key));
        } else {
            // The next unit may begin with an answer that the server is not asked for.
            crate::answer::emit_invented(server, None);
            self.later(After::Share(pool_key));
            self.later(After::Stop(key));
        }
    }

    /// A server connection is no lane any more.
    pub fn end_lane(&mut self, key: ServerKey) {
        self.active_lanes.retain(|lane| *lane != key);
        let Some(server) = self.servers.get_mut(key.0) else { return };
        server.state = State::Active;
        server.lent = None;
        if let Some(pool) = self.pools.get_mut(server.pool.0) {
            pool.lanes.retain(|lane| *lane != key);
        }
    }

    /// How many units are in flight in lanes.
    pub fn in_flight(&self) -> usize {
        let lanes = self.active_lanes.iter().filter_map(|key| self.servers.get(key.0)?.lane.as_ref());
        lanes.map(|lane| lane.units.len()).sum()
    }

    /// Opens one more connection, for a lane, where nothing speaks against it.
    pub fn grow_by_one(&mut self, key: PoolKey) {
        let failing = self.pools.get(key.0).is_none_or(|pool| {
            let failure = pool.failure.as_ref();
            failure.is_some_and(|failure| failure.holds(self.now, self.config.settings.server_login_retry.0))
        });
        if !failing
            && self.within_limits(key)
            && let Some(permit) = self.permit(key)
        {
            self.connect(key, permit);
        }
    }

    /// Passes one whole message on to the client's server.
    pub fn pass_message(&mut self, key: ClientKey, head: Header, left: &[u8]) -> Result<usize, wire::Error> {
        let body = left.get(HEADER..head.total());
        match (head.tag, body) {
            (tag::PARSE, Some(body)) => self.pass_parse(key, body).map(|()| head.total()),
            (tag::DESCRIBE | tag::CLOSE, Some(body)) => self.pass_target(key, head.tag, body).map(|()| head.total()),
            (tag::BIND, _) => match frontend::bind(left.get(HEADER..).unwrap_or_default()) {
                Some(names) => {
                    let taken = self.pass_bind(key, head, names)?;
                    let Some(rest) = left.get(taken..).filter(|rest| !rest.is_empty()) else { return Ok(taken) };
                    let Some((client, server)) = self.pair(key) else { return Ok(left.len()) };
                    server.io.out().extend_from_slice(rest);
                    client.passing = client.passing.saturating_sub(rest.len());
                    Ok(left.len())
                }
                None => Err(wire::Error::Short { tag: tag::BIND, field: "the names" }),
            },
            _ => self.pass_plain(key, head, left),
        }
    }
}

/// Whether the server has kept the statement without a name that a client's unit binds, the last in flight; `None` if it
/// binds none.
fn binds_kept(client: &Client, requests: &VecDeque<Request>) -> Option<bool> {
    let unnamed = client.unnamed.as_ref()?;
    let unit = requests.iter().rev().skip(1).take_while(|request| !request.ends_unit());
    let bound =
        unit.filter_map(|request| if let Request::Bind(statement) = request { statement.as_ref() } else { None });
    bound.take(1).find(|bound| Rc::ptr_eq(bound, unnamed)).map(|bound| bound.is_shared())
}

/// Whether a client's session state is what the server connection has.
fn in_line(client: &Client, server: &Server) -> bool {
    server.session.read_only && server.session.sets.same(&client.sets) && client.vars.same(&server.session.vars)
}

impl Pool {
    /// How many units a lane of this pool may carry: so many as a client can wait behind.
    fn depth(&self, settings: &crate::config::Settings) -> usize {
        let patience = settings.pipeline_stall.0.as_secs_f64() / 4.0;
        ((patience / self.service.max(1e-6)) as usize).clamp(1, settings.pipeline_depth.max(1))
    }

    /// Takes note of how long a unit took.
    fn note_service(&mut self, took: Duration) {
        self.service += (took.as_secs_f64() - self.service) / 64.0;
    }

    /// Whether the pool pipelines at all.
    pub fn may_pipeline(mode: PoolMode, settings: &crate::config::Settings) -> bool {
        settings.pipelining && mode.lends()
    }
}
