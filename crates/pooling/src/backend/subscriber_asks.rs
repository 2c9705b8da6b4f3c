//! The statements that the subscriber of a pool runs, and the notifications that its clients get.

use crate::model::channels::{Ask, Hears};
use crate::model::client::Discard;
use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::subscriber::Subscribers;
use crate::model::turn::After;
use classify::Kind;
use wire::backend::{Status, tag};
use wire::frame::{Fields, HEADER};
use wire::frontend;

use crate::router::members;
use crate::state::client::Client;
use crate::state::server::{Server, State};
use crate::state::{Core, sockets};

/// The place at which the channel and the payload of a NotificationResponse begin.
pub const TEXT: usize = HEADER + size_of::<i32>();

/// The channel of a NotificationResponse.
pub fn channel_told(body: &[u8]) -> Option<&str> {
    let mut fields = Fields::new(tag::NOTIFICATION_RESPONSE, body);
    fields.i32("the process id").ok()?;
    fields.text("the channel").ok()
}

/// Whether a client can get notifications now, rather than when its unit has ended.
pub fn is_at_rest(core: &Core, key: ClientKey) -> bool {
    let Some(client) = core.clients.get(key) else { return false };
    // A client that is pinned keeps its connection.
    let free = |server: &Server| {
        server.exchange.requests.is_empty()
            && server.status == Status::Idle
            && server.exchange.passing.0 == 0
            && !server.exchange.failed
    };
    client.is_ready()
        && client.checkout.server().and_then(|server| core.servers.get(server)).is_none_or(free)
        && client.checkout.pipelined().is_none()
        && client.checkout.waits().is_none()
        && !client.input.unsynced
        && client.input.discard == Discard::No
        && client.input.passing == 0
}

/// A client's encoding.
pub fn encoding_of(core: &Core, key: ClientKey) -> Option<&str> {
    core.clients.get(key)?.session.vars.get(core.parameters.lexed_by.1)
}

/// The pool of clients that a connection listens for.
pub fn subscriber_of(core: &Core, key: ServerKey) -> Option<PoolKey> {
    let home = members::home_of(&core.pools, core.servers.get(key)?.pool);
    core.pipelines.subscribers.get(&home).filter(|listening| listening.server == Some(key)).map(|_| home)
}

/// Sends the subscriber a request; a subscriber that is not ready yet gets it when it is.
pub fn ask_subscriber(core: &mut Core, home: PoolKey, ask: &Ask) {
    let Some(key) = core.pipelines.subscribers.get(&home).and_then(|listening| listening.server) else { return };
    let Some(server) = core.servers.get_mut(key).filter(|server| matches!(server.state(), State::Subscriber)) else {
        return;
    };
    frontend::write_query(server.io.out(), &ask.statement());
    sockets::flush_server(core, key);
}

/// Sends an idle client that takes its output the notifications that were kept for it, or has it closed if any are
/// missed.
pub fn tell_news(core: &mut Core, key: ClientKey) {
    let has_news =
        |client: &Client| client.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.has_news());
    if !core.clients.get(key).is_some_and(has_news) || !is_at_rest(core, key) {
        return;
    }
    let Some(client) = core.clients.get_mut(key) else { return };
    if client.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.fault().is_some()) {
        core.schedule.later(After::Deaf(key));
    } else if client.io.pending() == 0 {
        client.take_news();
        sockets::flush_client(core, key);
    }
}

/// Whether a LISTEN that has finished is done by the subscriber.
pub fn is_heard(subscribers: &Subscribers, key: ClientKey, client: &Client, tag: &[u8], kind: Option<&Kind>) -> bool {
    let (b"LISTEN", Some(Kind::Listen(channel))) = (tag, kind) else { return false };
    let listening = client.route.home.and_then(|home| subscribers.get(&home));
    client.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.hears(channel) != Hears::No)
        && listening.is_some_and(|listening| listening.subscriber.is_heard(channel, key))
}

/// Whether a notification on a client's own connection comes to the client by the subscriber.
pub fn is_told_otherwise(client: Option<&Client>, body: &[u8]) -> bool {
    let subscriptions = client.and_then(|client| client.subscriptions.as_ref());
    subscriptions
        .zip(channel_told(body))
        .is_some_and(|(subscriptions, channel)| subscriptions.hears(channel) != Hears::No)
}

/// Notes the end of a client's unit outside a transaction: its LISTENs count, unless it has failed; with `last`, none
/// is on its way any more.
pub fn settle_subscriptions(client: &mut Client, failed: bool, last: bool) {
    let Some(subscriptions) = &mut client.subscriptions else { return };
    if failed {
        subscriptions.rolled_back();
    } else {
        subscriptions.committed();
    }
    if last {
        subscriptions.arrived();
    }
    client.subscriptions.take_if(|subscriptions| subscriptions.is_idle());
}
