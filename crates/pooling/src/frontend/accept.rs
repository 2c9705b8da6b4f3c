//! The arrival of clients: sockets are accepted and dealt out to the workers, and the number of connections that have
//! not logged in is bounded.
//!
//! The event of a listening socket comes once for several arrivals. So a worker that stops accepting before the backlog
//! is empty must continue by itself: after the turns of other connections if there are many arrivals, at the next tick
//! if the system has no file descriptor left.

use std::sync::atomic::Ordering;

use crate::model::keys::ClientKey;
use crate::model::turn::Turn;

use crate::client_permit::ClientPermit;
use crate::io::{Io, Socket};
use crate::pools::leave;
use crate::shared::Message;
use crate::state::arrival::Arrival;
use crate::state::client::{Client, State};
use crate::state::listeners::{Accepted, BATCH, CALM, Next, RESERVE};
use crate::state::{Core, sockets};

/// Accepts the connections that have arrived.
pub fn accept(core: &mut Core) {
    for _ in 0..BATCH {
        match core.entrance.listeners.accept() {
            Accepted::Socket(socket) => deal(core, socket),
            Accepted::Gone => (),
            Accepted::Nobody => {
                core.entrance.listeners.next = Next::Event;
                return;
            }
            Accepted::Exhausted(error) => {
                if core.entrance.listeners.exhausted.replace(core.now).is_none() {
                    crate::warning!("cannot accept connections: {error}; new clients wait");
                }
                core.entrance.listeners.next = Next::Tick;
                close_oldest_unauthenticated(core);
                return;
            }
        }
    }
}

/// Accepts the connections that had to wait until the system can have another socket.
pub fn accept_late(core: &mut Core) {
    if core.entrance.listeners.next == Next::Tick && core.lets_in() {
        accept(core);
    }
    if core.entrance.listeners.exhausted.is_some_and(|last| core.now.saturating_duration_since(last) >= CALM) {
        core.entrance.listeners.exhausted = None;
        crate::info!("connections are accepted again");
    }
    if core.shared.counts.unauthenticated.load(Ordering::Relaxed) < RESERVE / 2 {
        core.shared.counts.crowded.store(false, Ordering::Relaxed);
    }
}

fn deal(core: &mut Core, socket: Box<dyn Socket>) {
    let worker = core.entrance.listeners.deal(core.shared.mailboxes.len());
    socket.tune(&core.config.settings);
    let (io, permit, id) = (Io::new(socket), ClientPermit::new(core.shared.counts.clone()), core.shared.next_id());
    let arrival = Arrival { io, permit, id, since: core.now, proven: None };
    if worker == core.id {
        take_in(core, arrival);
    } else {
        core.shared.tell(worker, Message::Arrived(Box::new(arrival)));
    }
}

/// Takes a client in, with the bytes that have been read from it.
pub fn take_in(core: &mut Core, arrival: Arrival) {
    let Arrival { mut io, permit, id, since, proven } = arrival;
    let key = core.clients.vacant();
    if let Err(error) = sockets::watch_client(core, key, &mut io) {
        crate::warning!("cannot watch a client's socket: {error}");
        return;
    }
    let mut client = Client::new(io, permit, since, id);
    let is_unauthenticated = proven.is_none();
    if let Some(proven) = proven {
        client.pass_to(State::Proven(proven));
    }
    client.input.suspended = core.is_suspended();
    core.clients.insert(client);
    core.schedule.give_turn(Turn::Client(key));
    if is_unauthenticated {
        core.entrance.unauthenticated.order.push_back(key);
        limit_unauthenticated(core);
    }
}

/// Keeps the number of connections without a proven identity within its bound: the oldest make room, since a client
/// that logs in does so soon.
fn limit_unauthenticated(core: &mut Core) {
    let most = match core.config.settings.max_client_conn {
        0 => usize::MAX,
        most => most.saturating_sub(core.shared.counts.clients.load(Ordering::Relaxed)) + RESERVE,
    };
    if core.shared.counts.unauthenticated.load(Ordering::Relaxed) > most
        && close_oldest_unauthenticated(core)
        && !core.shared.counts.crowded.swap(true, Ordering::Relaxed)
    {
        crate::warning!(
            "{most} connections have not logged in: the oldest of them are closed to make room for new ones"
        );
    }
    if core.entrance.unauthenticated.order.len()
        > 2 * core.shared.counts.unauthenticated.load(Ordering::Relaxed) + RESERVE
    {
        let clients = &core.clients;
        let is_unauthenticated =
            |key: &ClientKey| clients.get(*key).is_some_and(|client| client.identity.permit.is_unauthenticated());
        core.entrance.unauthenticated.order.retain(is_unauthenticated);
    }
}

/// Closes the oldest connection without a proven identity that waits for its client.
fn close_oldest_unauthenticated(core: &mut Core) -> bool {
    for _ in 0..core.entrance.unauthenticated.order.len().min(BATCH) {
        let Some(key) = core.entrance.unauthenticated.order.pop_front() else { break };
        let Some(client) = core.clients.get(key).filter(|client| client.identity.permit.is_unauthenticated()) else {
            continue;
        };
        if client.is_awaited() {
            leave::close_client(core, key, "the client had not logged in, and its place was needed (max_client_conn)");
            return true;
        }
        // The connection waits for the pooler, and its turn comes again.
        core.entrance.unauthenticated.order.push_back(key);
    }
    false
}
