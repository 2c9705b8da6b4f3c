//! SUSPEND: the bytes that were read are passed on, and no more are read until RESUME.
//!
//! As with PgBouncer, SUSPEND waits for no transaction and no answer: the messages of clients and servers stay in their
//! sockets meanwhile. A connection is suspended as soon as the pooler holds no bytes of it; server connections after
//! the clients, since a client's bytes need a server that still answers. A connection that is not at rest within
//! `suspend_timeout` is closed. Clients of the console go on, and no new client is accepted. Time limits are stopped
//! too.

use crate::model::keys::{ClientKey, ServerKey, WorkerId};
use crate::model::turn::Turn;

use crate::backend::gone;
use crate::error::Error;
use crate::pools::{free, leave};
use crate::shared::Message;
use crate::state::Core;
use crate::state::client::State as ClientState;
use crate::state::suspension::{Plan, Suspension, end, is_suspended, of_client, of_server};
use crate::sync::lock;

/// Holds the connections at rest; gives the number of the others, which are closed when their time is over.
pub fn suspend(core: &mut Core) -> usize {
    let Some(since) = *lock(&core.shared.orders.suspended) else { return 0 };
    if core.lifecycle.suspension == Suspension::Whole {
        return 0;
    }
    core.lifecycle.suspension = Suspension::Begun;
    let limit = core.config.settings.suspend_timeout.limit();
    let late = limit.is_some_and(|limit| core.now.saturating_duration_since(since) >= limit);
    let clients = core.clients.iter().filter(|(_, client)| !client.is_on_console());
    let clients = clients.map(|(key, client)| (key, of_client(client)));
    let servers = core.servers.iter().map(|(key, server)| (key, of_server(server)));
    let plan = Plan::new(clients, servers);
    let left = plan.left();
    for &key in &plan.hold_clients {
        core.clients.get_mut(key).into_iter().for_each(|client| client.input.suspended = true);
    }
    for &key in &plan.hold_servers {
        core.servers.get_mut(key).into_iter().for_each(|server| server.life.suspended = true);
    }
    if left == 0 {
        core.lifecycle.suspension = Suspension::Whole;
    } else if late {
        close_late(core, plan);
    } else {
        // A connection that was held may have got work: a stalled unit belongs to its client again.
        let_go_on(core, &plan.busy_clients, &plan.busy_servers);
    }
    left
}

/// Closes the clients that are not at rest in time; the servers if all clients are at rest.
fn close_late(core: &mut Core, plan: Plan<ClientKey, ServerKey>) {
    let late = Error::NotAtRest.to_string();
    if plan.busy_clients.is_empty() {
        plan.busy_servers.into_iter().for_each(|key| gone::server_gone(core, key, &late));
    }
    for key in plan.busy_clients {
        let closing = core.clients.get(key).is_some_and(|client| matches!(client.state(), ClientState::Closing));
        // A client that does not take its output takes no fatal error either.
        if closing { leave::close_client(core, key, &late) } else { leave::fatal(core, key, &Error::NotAtRest) }
    }
}

fn let_go_on(core: &mut Core, clients: &[ClientKey], servers: &[ServerKey]) {
    for &key in clients {
        if core.clients.get_mut(key).is_some_and(|client| std::mem::take(&mut client.input.suspended)) {
            core.schedule.give_turn(Turn::Client(key));
        }
    }
    for &key in servers {
        if core.servers.get_mut(key).is_some_and(|server| std::mem::take(&mut server.life.suspended)) {
            core.schedule.give_turn(Turn::Server(key));
        }
    }
}

/// Lets all connections that are held go on.
pub fn end_suspension(core: &mut Core) {
    if std::mem::take(&mut core.lifecycle.suspension) == Suspension::No {
        return;
    }
    let clients = core.clients.keys();
    let servers = core.servers.keys();
    let_go_on(core, &clients, &servers);
    let pools = core.pools.keys();
    for key in pools {
        free::serve_queue(core, key);
    }
    core.entrance.listeners.wake();
}

/// Goes on with a suspension that has begun. The suspension ends when no client of the console is left that could end
/// it.
pub fn tick_suspension(core: &mut Core) {
    if core.lifecycle.suspension == Suspension::Begun {
        suspend(core);
    }
    let abandoned = core.id == crate::assignment::CONSOLE
        && is_suspended(&core.shared)
        && !core.clients.values().any(|client| client.is_on_console());
    if abandoned && end(&core.shared) {
        crate::info!(
            "the last client of the console has left while the pooler was suspended: the pooler goes on, as by RESUME"
        );
        let order = crate::admin::order::Order::Resume(None);
        core.shared.tell_all(|| Message::Order(WorkerId(0), 0, order.clone()));
    }
}
