//! LISTEN where connections are shared. One connection of the pooler's own, the subscriber of a pool, listens for all clients
//! of the pool and passes each notification on to the clients that listen, when they are idle. So LISTEN keeps no
//! server connection.
//!
//! The pooler sends a client's LISTEN to the server only when the subscriber listens to the channel, so the client misses no
//! notification after its commit. Notifications that arrive before the commit are kept until the commit, and dropped
//! after a rollback. On the client's own connection the LISTEN is undone before another client gets it; notifications
//! on that connection are dropped, since the subscriber delivers them too. If there can be no subscriber, LISTEN pins the client to
//! its own connection. If the subscriber is lost, the clients that listen are closed, since they could not notice otherwise
//! that notifications may be missing.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::model::channels::{Ask, Fault, Hears, Want};
use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::limits::Use;
use crate::model::subscriber::Listening;
use crate::model::turn::{After, Step, Turn};
use classify::{Kind, Verdict};
use wire::backend::tag;
use wire::frame::{self, HEADER};
use wire::{Header, frontend};

use crate::backend::subscriber_asks::{self, TEXT, channel_told};
use crate::frontend::messages;
use crate::pools::{close, connect, leave, limits};
use crate::router::members;
use crate::state::client::Client;
use crate::state::server::State;
use crate::state::{Core, served, sockets, turns};

/// The length of the longest text with a LISTEN that does not pin.
const LONGEST: usize = 1024;

/// The time for which LISTEN pins after the subscriber could not be made.
const RETRY: Duration = Duration::from_secs(5);

/// The shortest time between two questions whether the subscriber is there.
const PING: Duration = Duration::from_secs(1);

/// Whether a text may hold a LISTEN: where a statement begins, at the text's beginning or behind a semicolon.
fn may_listen(text: &[u8]) -> bool {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(*byte, 0 | 0x0b);
    let begins_otherwise = |text: &[u8]| {
        let first = text.iter().find(|byte| !blank(byte));
        // A comment may stand before the statement.
        first.is_none_or(|first| !matches!(first, b'l' | b'L' | b'-' | b'/' | b';'))
    };
    if begins_otherwise(text) {
        let semicolon = memchr::memchr(b';', text);
        if semicolon.and_then(|at| text.get(at + 1..)).is_none_or(|rest| rest.iter().all(blank)) {
            return false;
        }
    }
    let begins = |at: usize| text.get(at..at + 6).is_some_and(|word| word.eq_ignore_ascii_case(b"listen"));
    text.len() <= LONGEST && memchr::memchr2_iter(b'l', b'L', text).any(begins)
}

/// The channels that a text listens to.
fn channels_of(verdict: &Verdict) -> impl Iterator<Item = &str> {
    let kinds = (0..verdict.statements as usize).map_while(|place| verdict.kind_of(place));
    kinds.filter_map(|kind| if let Kind::Listen(channel) = kind { Some(channel.as_str()) } else { None })
}

/// Whether the message at the front of a client's input has to wait until the subscriber listens to the channels that it
/// names.
pub fn awaits_subscriber(core: &mut Core, key: ClientKey, head: Header, left: &[u8]) -> bool {
    let Some(body) = left.get(HEADER..head.total()).filter(|body| body.len() <= LONGEST) else { return false };
    let (clients, servers, mut context) = core.split();
    let Some((client, server)) = served(clients, servers, key) else { return false };
    let verdict = match head.tag {
        frontend::tag::QUERY if may_listen(body) => {
            messages::look_at(&mut context, client, server.as_deref(), body.strip_suffix(b"\0").unwrap_or(body))
        }
        frontend::tag::EXECUTE => {
            let bound = client.prepared.portals.statement(frontend::portal(body));
            let bound = bound.filter(|statement| may_listen(statement.text()));
            bound.and_then(|statement| messages::look_at_statement(&mut context, client, statement))
        }
        _ => None,
    };
    let Some(verdict) = verdict else { return false };
    let channels: Vec<Rc<str>> = channels_of(&verdict).map(Rc::from).collect();
    if channels.is_empty() {
        return false;
    }
    if !may_hear(core, key) {
        if let Some(client) = core.clients.get_mut(key) {
            client.subscriptions.get_or_insert_default().leave(&channels);
        }
        return false;
    }
    prepare(core, key, &channels);
    core.clients
        .get(key)
        .and_then(|client| client.subscriptions.as_ref())
        .is_some_and(|subscriptions| subscriptions.awaits())
}

/// Notes that the message at the front of a client's input cannot be sent yet. Without a connection no LISTEN is on its
/// way, and where the next one goes is decided when the client gets a connection.
pub fn waits(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get_mut(key).filter(|client| client.checkout.server().is_none()) else { return };
    if let Some(subscriptions) = &mut client.subscriptions {
        subscriptions.is_without_connection();
    }
}

/// Whether a client may listen by the subscriber of its pool. A client that listens by its own connection goes on so:
/// notifications over two connections are not in order.
fn may_hear(core: &mut Core, key: ClientKey) -> bool {
    let Some(client) = core.clients.get(key) else { return false };
    let Some(home) = client.route.home else { return false };
    // A LISTEN that is on its way for the client's own connection pins the client as soon as it has finished.
    let (at_subscriber, elsewhere) = client
        .subscriptions
        .as_ref()
        .map_or((false, false), |subscriptions| (subscriptions.are_at_subscriber(), subscriptions.are_elsewhere()));
    let server = client.checkout.server().and_then(|server| core.servers.get(server));
    let own = elsewhere || client.session.pins.any() && !at_subscriber;
    let full = client.subscriptions.as_ref().is_some_and(|subscriptions| !subscriptions.has_room());
    // While the pool is paused no subscriber is made; one that is there serves: its clients hear nothing else in order.
    let is_made = core.pipelines.subscribers.get(&home).is_some_and(|listening| listening.server.is_some());
    let lends = core.pools.get(home).is_some_and(|pool| pool.limits.mode.lends() && (!pool.limits.paused || is_made));
    // The subscriber's notifications are in this encoding.
    let unicode = subscriber_asks::encoding_of(core, key) == Some("UTF8");
    let had_since = server.map(|server| server.life.state_since);
    core.config.settings.shared_listen && !own && !full && lends && unicode && has_subscriber(core, home, had_since)
}

/// Has the subscriber listen to channels for a client.
fn prepare(core: &mut Core, key: ClientKey, channels: &[Rc<str>]) {
    let Some(home) = core.clients.get(key).and_then(|client| client.route.home) else { return };
    let ahead = core.clients.get_mut(key).is_some_and(|client| std::mem::take(&mut client.session.listened_alone));
    for channel in channels {
        let Some(listening) = core.pipelines.subscribers.get_mut(&home) else { return };
        let want = listening.subscriber.want(channel, key, ahead);
        if let Some(client) = core.clients.get_mut(key) {
            client.subscriptions.get_or_insert_default().send(channel, want == Want::Heard);
        }
        if want == Want::Ask {
            subscriber_asks::ask_subscriber(core, home, &Ask::Channel(channel.clone(), true));
        }
    }
}

/// Whether a pool has a subscriber, or is about to have one. If a subscriber could not be had it is tried again for a client that has
/// got its own connection since: there may have been no server, and now there is one.
fn has_subscriber(core: &mut Core, home: PoolKey, had_since: Option<Instant>) -> bool {
    let now = core.now;
    let listening = core.pipelines.subscribers.entry(home).or_insert_with(|| Listening::new(now, None));
    if listening.server.is_some() || listening.wanted.is_some() {
        return true;
    }
    let rests = |failed: Instant| {
        now.saturating_duration_since(failed) < RETRY && had_since.is_none_or(|since| since <= failed)
    };
    if listening.failed.is_some_and(rests) {
        return false;
    }
    listening.wanted = Some(now);
    core.schedule.later(After::Subscriber(home));
    true
}

/// Makes the subscriber that a pool wants. While the name of its host is being looked up, or a catalog's connection makes way
/// for it, the next tick tries again.
pub fn make_subscriber(core: &mut Core, home: PoolKey) {
    let Some(since) = core.pipelines.subscribers.get(&home).and_then(|listening| listening.wanted) else { return };
    let limit = core.config.settings.server_connect_timeout.limit();
    if limit.is_some_and(|limit| core.now.saturating_duration_since(since) >= limit) {
        return subscriber_failed(core, home, "it could not be made within server_connect_timeout");
    }
    let Some(member) = members::primary_pool(core, home) else {
        return subscriber_failed(core, home, "there is no primary");
    };
    let Some(permit) = limits::make_room_apart(core, member, Use::Subscriber) else {
        if limits::catalog_makes_way(core, member) {
            return;
        }
        return subscriber_failed(core, home, "max_db_connections or max_user_connections leaves no room for it");
    };
    if let Some(key) = connect::connect_subscriber(core, member, permit) {
        subscriber_begun(core, key);
    }
}

/// Notes that the subscriber is being made.
fn subscriber_begun(core: &mut Core, key: ServerKey) {
    let Some(member) = core.servers.get(key).map(|server| server.pool) else { return };
    let home = members::home_of(&core.pools, member);
    if let Some(listening) = core.pipelines.subscribers.get_mut(&home) {
        (listening.server, listening.wanted) = (Some(key), None);
    }
}

/// Notes that the subscriber has logged in: it listens to the channels that were wanted meanwhile.
pub fn subscriber_ready(core: &mut Core, key: ServerKey) {
    let Some(home) = subscriber_asks::subscriber_of(core, key) else {
        return close::close_server(core, key, "nobody listens");
    };
    let Some(server) = core.servers.get_mut(key) else { return };
    server.begin_apart(core.now);
    let Some(listening) = core.pipelines.subscribers.get_mut(&home) else { return };
    listening.spoke = core.now;
    for ask in listening.subscriber.asked() {
        frontend::write_query(server.io.out(), &ask.statement());
    }
    sockets::flush_server(core, key);
}

/// Works on the messages of the subscriber's server.
pub fn subscriber_input(core: &mut Core, key: ServerKey, left: &[u8]) -> Step {
    let message = match frame::message(left) {
        Ok(Some(message)) => message,
        Ok(None) => return Step::More,
        Err(error) => {
            turns::doom(core, key, &format!("broken protocol: {error}"));
            return Step::Took(left.len());
        }
    };
    let total = HEADER + message.body.len();
    let Some(home) = subscriber_asks::subscriber_of(core, key) else { return Step::Took(total) };
    if let Some(listening) = core.pipelines.subscribers.get_mut(&home) {
        (listening.spoke, listening.owes_since) = (core.now, None);
    }
    match message.tag {
        tag::NOTIFICATION_RESPONSE => {
            if let Some(channel) = channel_told(message.body) {
                tell(core, home, channel, left.get(..total).unwrap_or_default());
            }
        }
        tag::READY_FOR_QUERY => subscriber_answered(core, home),
        tag::ERROR_RESPONSE => {
            let why = wire::backend::report(message.body).map_or_else(|error| error.to_string(), |said| said.message);
            turns::doom(core, key, &why);
        }
        _ => (),
    }
    Step::Took(total)
}

/// Notes the answer to the subscriber's first request: the clients that have waited for it go on.
fn subscriber_answered(core: &mut Core, home: PoolKey) {
    let answered = core.pipelines.subscribers.get_mut(&home).and_then(|listening| listening.subscriber.answered());
    let Some((channel, listeners)) = answered else { return };
    for key in listeners {
        let subscriptions = core.clients.get_mut(key).and_then(|client| client.subscriptions.as_mut());
        if subscriptions.is_some_and(|subscriptions| subscriptions.heard(&channel)) {
            core.schedule.give_turn(Turn::Client(key));
        }
    }
}

/// Sends a notification to the clients that listen to its channel, or keeps it for them.
fn tell(core: &mut Core, home: PoolKey, channel: &str, message: &[u8]) {
    let audience = core
        .pipelines
        .subscribers
        .get(&home)
        .map(|listening| listening.subscriber.audience(channel))
        .unwrap_or_default();
    let (channel, message): (Rc<str>, Rc<[u8]>) = (channel.into(), message.into());
    for key in audience {
        let readable = message.get(TEXT..).is_some_and(<[u8]>::is_ascii)
            || subscriber_asks::encoding_of(core, key) == Some("UTF8");
        let subscriptions = core.clients.get_mut(key).and_then(|client| client.subscriptions.as_mut());
        let Some(subscriptions) = subscriptions.filter(|subscriptions| subscriptions.hears(&channel) != Hears::No)
        else {
            continue;
        };
        match readable {
            true => subscriptions.hold(&channel, &message),
            false => subscriptions.fail(Fault::Encoding),
        }
        subscriber_asks::tell_news(core, key);
    }
}

/// Closes a client that is idle and has missed notifications.
pub fn part_with_deaf(core: &mut Core, key: ClientKey) {
    let fault = core
        .clients
        .get(key)
        .and_then(|client| client.subscriptions.as_ref())
        .and_then(|subscriptions| subscriptions.fault());
    if let Some(fault) = fault.filter(|_| subscriber_asks::is_at_rest(core, key)) {
        leave::fatal(core, key, &fault.error());
    }
}

/// Ends a subscriber that is lost: clients that listen are to be closed, clients that wait for it go on without.
pub fn subscriber_gone(core: &mut Core, key: ServerKey, why: &str) {
    let home = subscriber_asks::subscriber_of(core, key);
    let fatal_error = core.servers.get_mut(key).and_then(|server| server.life.fatal_error.take());
    let why = fatal_error.map_or_else(|| why.to_owned(), |cause| cause.why);
    close::close_server(core, key, &why);
    if let Some(home) = home {
        subscriber_failed(core, home, &why);
    }
}

/// Notes that the subscriber could not be had, or is lost. A subscriber that was lost while no client waited for it may be had again
/// at once: the clients that are closed now come back.
pub fn subscriber_failed(core: &mut Core, member: PoolKey, why: &str) {
    crate::warning!(of core.name_pool(member); "the pool has no connection that listens for all its clients: {why}");
    let home = members::home_of(&core.pools, member);
    let lost = core.pipelines.subscribers.remove(&home);
    let failed = lost.as_ref().is_some_and(|listening| listening.subscriber.is_awaited()).then_some(core.now);
    core.pipelines.subscribers.insert(home, Listening::new(core.now, failed));
    for key in lost.map(|listening| listening.subscriber.everybody()).unwrap_or_default() {
        if let Some(subscriptions) = core.clients.get_mut(key).and_then(|client| client.subscriptions.as_mut()) {
            subscriptions.lose();
            core.schedule.give_turn(Turn::Client(key));
        }
    }
}

/// Maintains the subscribers and their clients: a client that has missed notifications is closed when it is idle.
pub fn tick_subscribers(core: &mut Core) {
    let homes: Vec<PoolKey> = core.pipelines.subscribers.keys().copied().collect();
    for home in homes {
        leave_old_primary(core, home);
        make_way(core, home);
        make_subscriber(core, home);
        look_for_subscriber(core, home);
        if core.now >= core.schedule.next_upkeep {
            sweep_subscriber(core, home);
        }
    }
    for key in core.clients.keys_of(|client| client.subscriptions.is_some()) {
        let at_rest = subscriber_asks::is_at_rest(core, key);
        let Some(client) = core.clients.get_mut(key) else { continue };
        let holder = client.checkout.server().is_some();
        let Some(subscriptions) = client.subscriptions.as_mut().filter(|_| at_rest) else { continue };
        if !holder && !subscriptions.awaits() {
            // A LISTEN that was refused before it was sent.
            subscriptions.arrived();
        }
        client.subscriptions.take_if(|subscriptions| subscriptions.is_idle());
        subscriber_asks::tell_news(core, key);
    }
}

/// Checks whether a silent subscriber is there still: a dead connection does not report its end.
fn look_for_subscriber(core: &mut Core, home: PoolKey) {
    let Some(listening) = core.pipelines.subscribers.get_mut(&home) else { return };
    let Some(key) = listening.server else { return };
    if !core.servers.get(key).is_some_and(|server| matches!(server.state(), State::Subscriber)) {
        return;
    }
    let settings = &core.config.settings;
    let past = |since: Instant, limit: Duration| core.now.saturating_duration_since(since) >= limit;
    if listening.subscriber.asked().next().is_some() {
        let since = *listening.owes_since.get_or_insert(core.now);
        if settings.server_connect_timeout.limit().is_some_and(|limit| past(since, limit)) {
            subscriber_gone(core, key, "it has not answered within server_connect_timeout");
        }
    } else if past(listening.spoke, settings.server_check_delay.0.max(PING)) {
        let ping = listening.subscriber.ping();
        subscriber_asks::ask_subscriber(core, home, &ping);
    }
}

/// Gives up the channels that no client listens to any more.
fn sweep_subscriber(core: &mut Core, home: PoolKey) {
    let Some(listening) = core.pipelines.subscribers.get_mut(&home) else { return };
    let clients = &core.clients;
    let subscriptions = |key: ClientKey| clients.get(key).and_then(|client| client.subscriptions.as_deref());
    let asks = listening
        .subscriber
        .sweep(|key, channel| subscriptions(key).is_some_and(|subscriptions| subscriptions.needs(channel)));
    if !listening.subscriber.is_unused() {
        for ask in asks {
            subscriber_asks::ask_subscriber(core, home, &ask);
        }
        return;
    }
    let server = listening.server.take();
    // A client that was busy when the subscriber was lost is closed later, and subscribers are maintained for as long as there is
    // one.
    let is_deaf =
        |client: &Client| client.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.fault().is_some());
    let owes = core.clients.values().any(|client| client.route.home == Some(home) && is_deaf(client));
    let failed_just_now = |failed| core.now.saturating_duration_since(failed) < RETRY;
    if !owes && !listening.failed.is_some_and(failed_just_now) {
        core.pipelines.subscribers.remove(&home);
    }
    if let Some(server) = server {
        close::close_server(core, server, "no client listens any more");
    }
}

/// Gives the subscriber up if a limit that was lowered leaves no room for a connection that serves clients.
fn make_way(core: &mut Core, home: PoolKey) {
    let Some(key) = core.pipelines.subscribers.get(&home).and_then(|listening| listening.server) else { return };
    let Some(server) = core.servers.get_mut(key) else { return };
    let quota = core.pools.get(server.pool).map(|pool| pool.limits.quota).unwrap_or_default();
    if let Some(limit) = server.permit.as_mut().and_then(|permit| permit.make_way(quota)) {
        subscriber_gone(core, key, &format!("{} leaves no room for it", limit.setting()));
    }
}

/// After a failover the subscriber is lost, even if its server lives on.
fn leave_old_primary(core: &mut Core, home: PoolKey) {
    let server = core.pipelines.subscribers.get(&home).and_then(|listening| listening.server);
    let Some((key, member)) = server.and_then(|key| Some((key, core.servers.get(key)?.pool))) else { return };
    let moved = member != home && members::primary_pool(core, home).is_some_and(|primary| primary != member);
    let stale = core.servers.get(key).is_some_and(|server| server.life.retire);
    if moved || stale {
        subscriber_gone(
            core,
            key,
            if moved { "another server is the primary now" } else { "the connection had been marked to be closed" },
        );
    }
}
