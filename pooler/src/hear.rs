//! LISTEN where connections are shared: one connection of the pooler's own, the hub of a pool, listens for all of its
//! clients, and what it hears is told to those who listen when they are idle. So LISTEN keeps no server connection.
//!
//! A client's LISTEN is sent to the server only when the hub listens to the channel. So nothing is missed that is said
//! after the client's commit; what comes before it is kept until the commit and dropped with a rollback. The client's own
//! connection is rid of the LISTEN before others get it, and what it hears meanwhile is told by the hub. Where the hub is
//! not to be had, LISTEN pins the client to its own connection. Should the hub be lost, those who listen are closed: they
//! could not tell otherwise that something may have been said meanwhile.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use classify::{Kind, Verdict};
use wire::backend::{Status, tag};
use wire::frame::{Fields, HEADER};
use wire::{Header, frame, frontend};

use crate::after::After;
use crate::channels::{Ask, Fault, Hears, Hub, Want};
use crate::client::{Client, ClientKey, Discard};
use crate::pool::PoolKey;
use crate::server::{Apart, Server, ServerKey, State};
use crate::worker::{Step, Turn, Worker};

/// A text with a LISTEN that is longer pins.
const LONGEST: usize = 1024;
/// Where the channel and the payload of a NotificationResponse begin.
const TEXT: usize = HEADER + size_of::<i32>();
/// So long after the hub could not be made, LISTEN pins.
const RETRY: Duration = Duration::from_secs(5);
/// The hub is asked whether it is there no more often than this.
const PING: Duration = Duration::from_secs(1);

/// The hub of a pool.
#[derive(Debug)]
pub struct Listening {
    hub: Hub<ClientKey>,
    /// The connection, once it is being made.
    server: Option<ServerKey>,
    /// When it could last not be had.
    failed: Option<Instant>,
    /// Since when it is wanted, and no connection is being made.
    wanted: Option<Instant>,
    /// When it has said something last.
    spoke: Instant,
    /// Since when it has been seen to owe an answer and has said nothing.
    owes_since: Option<Instant>,
}

impl Listening {
    fn new(now: Instant, failed: Option<Instant>) -> Self {
        Self { hub: Hub::default(), server: None, failed, wanted: None, spoke: now, owes_since: None }
    }
}

/// The hubs, by the pools of the clients.
pub type Hubs = HashMap<PoolKey, Listening>;

/// Whether a text may hold a LISTEN.
fn may_listen(text: &[u8]) -> bool {
    let begins = |at: usize| text.get(at..at + 6).is_some_and(|word| word.eq_ignore_ascii_case(b"listen"));
    text.len() <= LONGEST && memchr::memchr2_iter(b'l', b'L', text).any(begins)
}

/// The channels that a text listens to.
fn channels_of(verdict: &Verdict) -> impl Iterator<Item = &str> {
    let kinds = (0..verdict.statements as usize).map_while(|place| verdict.kind_of(place));
    kinds.filter_map(|kind| if let Kind::Listen(channel) = kind { Some(channel.as_str()) } else { None })
}

/// The channel of a NotificationResponse.
fn channel_told(body: &[u8]) -> Option<&str> {
    let mut fields = Fields::new(tag::NOTIFICATION_RESPONSE, body);
    fields.i32("the process id").ok()?;
    fields.text("the channel").ok()
}

impl Worker {
    /// Whether a client is told things now, rather than when its unit has ended.
    fn is_at_rest(&self, key: ClientKey) -> bool {
        let Some(client) = self.clients.get(key.0) else { return false };
        // Who is pinned keeps its connection.
        let free = |server: &Server| {
            server.requests.is_empty() && server.status == Status::Idle && server.passing.0 == 0 && !server.failed
        };
        client.is_ready()
            && client.server.and_then(|server| self.servers.get(server.0)).is_none_or(free)
            && client.lane.is_none()
            && client.waits.is_none()
            && !client.unsynced
            && client.discard == Discard::No
            && client.passing == 0
    }

    /// Whether the message at the front of a client's input has to wait until the hub listens to the channels that it
    /// names.
    pub fn awaits_hub(&mut self, key: ClientKey, head: Header, left: &[u8]) -> bool {
        let Some(body) = left.get(HEADER..head.total()).filter(|body| body.len() <= LONGEST) else { return false };
        let Some(client) = self.clients.get(key.0) else { return false };
        let verdict = match head.tag {
            frontend::tag::QUERY if may_listen(body) => self.look_at(key, body.strip_suffix(b"\0").unwrap_or(body)),
            frontend::tag::EXECUTE => {
                let bound = client.portal(frontend::portal(body)).cloned();
                let bound = bound.filter(|statement| may_listen(statement.text()));
                bound.and_then(|statement| self.look_at_statement(key, &statement))
            }
            _ => None,
        };
        let Some(verdict) = verdict else { return false };
        let channels: Vec<Rc<str>> = channels_of(&verdict).map(Rc::from).collect();
        if channels.is_empty() || !self.may_hear(key) {
            return false;
        }
        self.prepare(key, &channels);
        self.clients.get(key.0).and_then(|client| client.ears.as_ref()).is_some_and(|ears| ears.awaits())
    }

    /// Whether a client may listen by the hub of its pool. One that listens by its own connection goes on so: what comes
    /// over two connections is not in order.
    fn may_hear(&mut self, key: ClientKey) -> bool {
        let Some(client) = self.clients.get(key.0) else { return false };
        let Some(home) = client.home else { return false };
        let own = client.pins.any() && !client.ears.as_ref().is_some_and(|ears| ears.listens());
        let full = client.ears.as_ref().is_some_and(|ears| !ears.has_room());
        let lends = self.pools.get(home.0).is_some_and(|pool| pool.mode.lends() && !pool.paused);
        // What the hub hears is in this encoding.
        let unicode = self.encoding_of(key) == Some("UTF8");
        self.config.settings.shared_listen && !own && !full && lends && unicode && self.has_hub(home)
    }

    fn encoding_of(&self, key: ClientKey) -> Option<&str> {
        self.clients.get(key.0)?.vars.get(self.lexed_by.1)
    }

    /// Has the hub listen to channels for a client.
    fn prepare(&mut self, key: ClientKey, channels: &[Rc<str>]) {
        let Some(home) = self.clients.get(key.0).and_then(|client| client.home) else { return };
        for channel in channels {
            let Some(listening) = self.hubs.get_mut(&home) else { return };
            let want = listening.hub.want(channel, key);
            if let Some(client) = self.clients.get_mut(key.0) {
                client.ears.get_or_insert_default().send(channel, want == Want::Heard);
            }
            if want == Want::Ask {
                self.ask_hub(home, &Ask::Channel(channel.clone(), true));
            }
        }
    }

    /// Whether a pool has a hub, or is about to have one.
    fn has_hub(&mut self, home: PoolKey) -> bool {
        let now = self.now;
        let listening = self.hubs.entry(home).or_insert_with(|| Listening::new(now, None));
        if listening.server.is_some() || listening.wanted.is_some() {
            return true;
        }
        if listening.failed.is_some_and(|failed| now.saturating_duration_since(failed) < RETRY) {
            return false;
        }
        listening.wanted = Some(now);
        self.later(After::Hub(home));
        true
    }

    /// Makes the hub that a pool wants. While the name of its host is being looked up it is tried again.
    pub fn make_hub(&mut self, home: PoolKey) {
        let Some(since) = self.hubs.get(&home).and_then(|listening| listening.wanted) else { return };
        let limit = self.config.settings.server_connect_timeout.limit();
        if limit.is_some_and(|limit| self.now.saturating_duration_since(since) >= limit) {
            return self.hub_failed(home, "it cannot be made (server_connect_timeout)");
        }
        let Some(member) = self.primary_pool(home) else { return self.hub_failed(home, "there is no primary") };
        if !self.leaves_room(member) || !self.make_room_apart(member) {
            return self.hub_failed(home, "max_db_connections or max_user_connections leaves no room for it");
        }
        self.connect_hub(member);
    }

    /// The pool of clients that a connection listens for.
    fn hub_of(&self, key: ServerKey) -> Option<PoolKey> {
        let home = self.home_of(self.servers.get(key.0)?.pool);
        self.hubs.get(&home).filter(|listening| listening.server == Some(key)).map(|_| home)
    }

    /// The hub is being made.
    pub fn hub_begun(&mut self, key: ServerKey) {
        let Some(member) = self.servers.get(key.0).map(|server| server.pool) else { return };
        let home = self.home_of(member);
        if let Some(listening) = self.hubs.get_mut(&home) {
            (listening.server, listening.wanted) = (Some(key), None);
        }
    }

    /// It has logged in: it listens to what was wanted meanwhile.
    pub fn hub_ready(&mut self, key: ServerKey) {
        let Some(home) = self.hub_of(key) else { return self.close_server(key, "nobody listens") };
        let Some(server) = self.servers.get_mut(key.0) else { return };
        server.state = State::Hub;
        server.state_since = self.now;
        let Some(listening) = self.hubs.get_mut(&home) else { return };
        listening.spoke = self.now;
        for ask in listening.hub.asked() {
            frontend::write_query(server.io.out(), &ask.statement());
        }
        self.flush_server(key);
    }

    /// Asks the hub something; when it is there, if it is not yet.
    fn ask_hub(&mut self, home: PoolKey, ask: &Ask) {
        let Some(key) = self.hubs.get(&home).and_then(|listening| listening.server) else { return };
        let Some(server) = self.servers.get_mut(key.0).filter(|server| matches!(server.state, State::Hub)) else {
            return;
        };
        frontend::write_query(server.io.out(), &ask.statement());
        self.flush_server(key);
    }

    /// Works on what the hub says.
    pub fn hub_input(&mut self, key: ServerKey, left: &[u8]) -> Step {
        let message = match frame::message(left) {
            Ok(Some(message)) => message,
            Ok(None) => return Step::More,
            Err(error) => {
                self.doom(key, &format!("broken protocol: {error}"));
                return Step::Took(left.len());
            }
        };
        let total = HEADER + message.body.len();
        let Some(home) = self.hub_of(key) else { return Step::Took(total) };
        if let Some(listening) = self.hubs.get_mut(&home) {
            (listening.spoke, listening.owes_since) = (self.now, None);
        }
        match message.tag {
            tag::NOTIFICATION_RESPONSE => {
                if let Some(channel) = channel_told(message.body) {
                    self.tell(home, channel, left.get(..total).unwrap_or_default());
                }
            }
            tag::READY_FOR_QUERY => self.hub_answered(home),
            tag::ERROR_RESPONSE => {
                let why =
                    wire::backend::report(message.body).map_or_else(|error| error.to_string(), |said| said.message);
                self.doom(key, &why);
            }
            _ => (),
        }
        Step::Took(total)
    }

    /// The hub has done what it was asked first: those who have waited for that go on.
    fn hub_answered(&mut self, home: PoolKey) {
        let answered = self.hubs.get_mut(&home).and_then(|listening| listening.hub.answered());
        let Some((channel, listeners)) = answered else { return };
        for key in listeners {
            let ears = self.clients.get_mut(key.0).and_then(|client| client.ears.as_mut());
            if ears.is_some_and(|ears| ears.heard(&channel)) {
                self.give_turn(Turn::Client(key));
            }
        }
    }

    /// Tells those who listen to a channel what has come on it, or keeps it for them.
    fn tell(&mut self, home: PoolKey, channel: &str, message: &[u8]) {
        let audience = self.hubs.get(&home).map(|listening| listening.hub.audience(channel)).unwrap_or_default();
        let (channel, message): (Rc<str>, Rc<[u8]>) = (channel.into(), message.into());
        for key in audience {
            let readable = message.get(TEXT..).is_some_and(<[u8]>::is_ascii) || self.encoding_of(key) == Some("UTF8");
            let ears = self.clients.get_mut(key.0).and_then(|client| client.ears.as_mut());
            let Some(ears) = ears.filter(|ears| ears.hears(&channel) != Hears::No) else { continue };
            match readable {
                true => ears.hold(&channel, &message),
                false => ears.fail(Fault::Encoding),
            }
            self.tell_news(key);
        }
    }

    /// Tells a client that is idle, and takes what it is sent, what was kept for it, or that something is missed.
    pub fn tell_news(&mut self, key: ClientKey) {
        let has_news = |client: &Client| client.ears.as_ref().is_some_and(|ears| ears.has_news());
        if !self.clients.get(key.0).is_some_and(has_news) || !self.is_at_rest(key) {
            return;
        }
        let Some(client) = self.clients.get_mut(key.0) else { return };
        if client.ears.as_ref().is_some_and(|ears| ears.fault().is_some()) {
            self.later(After::Deaf(key));
        } else if client.io.pending() == 0 {
            client.take_news();
            self.flush_client(key);
        }
    }

    /// Closes a client that is idle and has missed notifications.
    pub fn part_with_deaf(&mut self, key: ClientKey) {
        let fault = self.clients.get(key.0).and_then(|client| client.ears.as_ref()).and_then(|ears| ears.fault());
        if let Some((code, why)) = fault.filter(|_| self.is_at_rest(key)).map(Fault::report) {
            self.fatal(key, code, why);
        }
    }

    /// Whether a LISTEN that has finished is done by the hub.
    pub fn is_heard(&self, key: ClientKey, tag: &[u8], kind: Option<&Kind>) -> bool {
        let (b"LISTEN", Some(Kind::Listen(channel))) = (tag, kind) else { return false };
        let client = self.clients.get(key.0);
        let Some(home) = client.filter(|client| client.ears.is_some()).and_then(|client| client.home) else {
            return false;
        };
        self.hubs.get(&home).is_some_and(|listening| listening.hub.is_heard(channel, key))
    }

    /// Whether a notification that comes on a client's own connection is told to it by the hub.
    pub fn is_told_otherwise(&self, key: ServerKey, body: &[u8]) -> bool {
        let client = self.servers.get(key.0).and_then(|server| server.lent).and_then(|key| self.clients.get(key.0));
        let Some(ears) = client.and_then(|client| client.ears.as_ref()) else { return false };
        channel_told(body).is_some_and(|channel| ears.hears(channel) != Hears::No)
    }

    /// The hub is lost: those who listen are to be closed, those who wait for it go on without.
    pub fn hub_gone(&mut self, key: ServerKey, why: &str) {
        let home = self.hub_of(key);
        let farewell = self.servers.get_mut(key.0).and_then(|server| server.farewell.take());
        let why = farewell.map_or_else(|| why.to_owned(), |(_, why)| why);
        self.close_server(key, &why);
        if let Some(home) = home {
            self.hub_failed(home, &why);
        }
    }

    /// The hub could not be had, or is lost.
    pub fn hub_failed(&mut self, member: PoolKey, why: &str) {
        crate::warning!(of self.name_pool(member); "the connection that listens for all clients of the pool: {why}");
        let home = self.home_of(member);
        let lost = self.hubs.insert(home, Listening::new(self.now, Some(self.now)));
        for key in lost.map(|listening| listening.hub.everybody()).unwrap_or_default() {
            if let Some(ears) = self.clients.get_mut(key.0).and_then(|client| client.ears.as_mut()) {
                ears.lose();
                self.give_turn(Turn::Client(key));
            }
        }
    }

    /// Looks after the hubs and those who listen: who has lost what it heard is closed when it is idle.
    pub fn tick_hubs(&mut self) {
        let homes: Vec<PoolKey> = self.hubs.keys().copied().collect();
        for home in homes {
            self.leave_old_primary(home);
            self.make_hub(home);
            self.look_for_hub(home);
            if self.now >= self.next_upkeep {
                self.sweep_hub(home);
            }
        }
        let hears = self.clients.iter().filter(|(_, client)| client.ears.is_some());
        let keys: Vec<ClientKey> = hears.map(|(key, _)| ClientKey(key)).collect();
        for key in keys {
            let at_rest = self.is_at_rest(key);
            let Some(client) = self.clients.get_mut(key.0) else { continue };
            let lent = client.server.is_some();
            let Some(ears) = client.ears.as_mut().filter(|_| at_rest) else { continue };
            if !lent && !ears.awaits() {
                // A LISTEN that was refused before it was sent.
                ears.arrived();
            }
            client.ears.take_if(|ears| ears.is_idle());
            self.tell_news(key);
        }
    }

    /// Sees whether a hub that has said nothing for long is there still: a connection that is dead does not tell.
    fn look_for_hub(&mut self, home: PoolKey) {
        let Some(listening) = self.hubs.get_mut(&home) else { return };
        let Some(key) = listening.server else { return };
        if !self.servers.get(key.0).is_some_and(|server| matches!(server.state, State::Hub)) {
            return;
        }
        let settings = &self.config.settings;
        let past = |since: Instant, limit: Duration| self.now.saturating_duration_since(since) >= limit;
        if listening.hub.asked().next().is_some() {
            let since = *listening.owes_since.get_or_insert(self.now);
            if settings.server_connect_timeout.limit().is_some_and(|limit| past(since, limit)) {
                self.hub_gone(key, "it does not answer (server_connect_timeout)");
            }
        } else if past(listening.spoke, settings.server_check_delay.0.max(PING)) {
            let ping = listening.hub.ping();
            self.ask_hub(home, &ping);
        }
    }

    /// Gives up what nobody listens to any more.
    fn sweep_hub(&mut self, home: PoolKey) {
        let Some(listening) = self.hubs.get_mut(&home) else { return };
        let clients = &self.clients;
        let ears = |key: ClientKey| clients.get(key.0).and_then(|client| client.ears.as_deref());
        let asks = listening.hub.sweep(|key, channel| ears(key).is_some_and(|ears| ears.needs(channel)));
        if !listening.hub.is_unused() {
            for ask in asks {
                self.ask_hub(home, &ask);
            }
            return;
        }
        let server = listening.server.take();
        if listening.failed.is_none_or(|failed| self.now.saturating_duration_since(failed) >= RETRY) {
            self.hubs.remove(&home);
        }
        if let Some(server) = server {
            self.close_server(server, "nobody listens any more");
        }
    }

    /// After a failover the hub is lost, even if its server lives on.
    fn leave_old_primary(&mut self, home: PoolKey) {
        let server = self.hubs.get(&home).and_then(|listening| listening.server);
        let Some((key, member)) = server.and_then(|key| Some((key, self.servers.get(key.0)?.pool))) else { return };
        let moved = member != home && self.primary_pool(home).is_some_and(|primary| primary != member);
        let stale = self.servers.get(key.0).is_some_and(|server| server.retire);
        if moved || stale {
            self.hub_gone(key, if moved { "another server is the primary now" } else { "it was to be closed" });
        }
    }

    /// Has the hub of a pool closed: the database leads elsewhere, or may.
    pub fn retire_hub(&mut self, pool: PoolKey) {
        for (_, server) in self.servers.iter_mut() {
            server.retire |= server.pool == pool && server.apart == Some(Apart::Hub);
        }
    }

    /// A client's unit has ended outside a transaction: what it was told to listen to counts, unless it has failed. It may
    /// have been the last that was on its way.
    pub fn ears_settle(client: &mut Client, failed: bool, last: bool) {
        let Some(ears) = &mut client.ears else { return };
        if failed {
            ears.rolled_back();
        } else {
            ears.committed();
        }
        if last {
            ears.arrived();
        }
        client.ears.take_if(|ears| ears.is_idle());
    }
}
