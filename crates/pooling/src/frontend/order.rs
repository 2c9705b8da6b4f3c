//! What a client's next message finds before it on its connection, for the decision whether it is sent
//! ([`gate`](crate::model::gate)).

use crate::config::PoolMode;
use crate::model::gate::{Before, Next, Order, order};
use crate::model::keys::PoolKey;
use crate::model::mark::Mark;
use crate::model::request::Request;
use crate::model::slots::Slots;
use crate::model::turn::Turn;
use crate::router::members;
use crate::state::client::Client;
use crate::state::pool::Pool;
use crate::state::server::Server;
use crate::state::transfer::Bound;
use crate::state::{Router, Schedule};
use wire::backend::Status;
use wire::frontend::{self, tag};

/// Holds a client back whose next message depends on an answer of its server that has not come; whether it does.
pub fn awaits_answer(
    client: &mut Client,
    server: &mut Server,
    pools: &Slots<PoolKey, Pool>,
    router: &Router,
    next: Next,
) -> bool {
    let order = order(before(client, server, pools, router), next);
    if order == Order::HoldAndFlush && server.exchange.requests.are_to_be_flushed() {
        wire::frame::write(server.io.out(), tag::FLUSH, |_| ());
    }
    client.checkout.behind_own |= order != Order::Send;
    order != Order::Send
}

/// Lets a client go on that waits for the answer to a part of what it has sent. In a pipelined connection only whole
/// units wait.
pub fn look_again(server: &Server, client: Option<&mut Client>, schedule: &mut Schedule) {
    if let Some((key, client)) = server.holder().zip(client)
        && std::mem::take(&mut client.checkout.behind_own)
    {
        schedule.give_turn(Turn::Client(key));
    }
}

/// The kind of a client's next message.
pub fn next(client: &Client, tag: u8, body: &[u8]) -> Next {
    match tag {
        tag::QUERY | tag::FUNCTION_CALL => Next::Query,
        tag::PARSE if body.first() == Some(&0) => Next::Parse,
        tag::PARSE => Next::ParseNamed,
        tag::BIND => match frontend::bind(body) {
            Some(names) if client.prepared.portals.may_be_taken(names.portal) => Next::Taken,
            Some(names) if names.statement.is_empty() => Next::Unnamed,
            _ => Next::Named,
        },
        tag::DESCRIBE if body.starts_with(b"S\0") => Next::Unnamed,
        tag::DESCRIBE | tag::CLOSE => Next::Named,
        tag::EXECUTE => Next::Execute,
        tag::SYNC => Next::Sync,
        tag::FLUSH => Next::Flush,
        tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => Next::Copy,
        _ => Next::End,
    }
}

/// What a client's next message finds before it.
fn before(client: &Client, server: &Server, pools: &Slots<PoolKey, Pool>, router: &Router) -> Before {
    let requests = &server.exchange.requests;
    // Behind an error the server reads on to the Sync of the unit, and answers nothing before it.
    if server.exchange.skips_to_sync() {
        return Before::NOTHING;
    }
    // A statement that is uncertain is prepared again, which a failed transaction refuses.
    let names = requests.has(Mark::Names) || server.status == Status::Failed && !requests.is_empty();
    let in_block = server.status != Status::Idle || requests.may_hold_transaction();
    // What the client says next is void if names before it have failed.
    let own = matches!(requests.back(), Some(Request::HiddenSync | Request::Restore { .. } | Request::Settle));
    Before::UNIT.when(client.input.unsynced)
        | Before::MANY.when(requests.are_full() && !server.exchange.copying.is_open())
        | Before::RESET.when(resets(client, server))
        | Before::DECIDES.when(repeats_cancel(server) || decides(client, server, pools, router))
        | Before::REQUEST.when(!requests.is_empty())
        | Before::OWN.when(own)
        | Before::ALONE.when(requests.has(Mark::Alone))
        | server.exchange.copy_before()
        | Before::NAMES.when(names)
        | Before::FORGETS.when(requests.has_in_unit(Mark::Forgets))
        | Before::UNNAMED.when(requests.has_before_unit(Mark::Unnamed))
        | Before::MAY_FAIL.when(in_block && requests.has(Mark::Ends))
}

/// Whether a RESET restores values of the client's startup: its session is brought in line before its next unit.
fn resets(client: &Client, server: &Server) -> bool {
    let (vars, sets) = &client.session.startup;
    let requests = &server.exchange.requests;
    // A RESET that has finished is restored when its unit has ended, which another message reports.
    !(vars.is_empty() && sets.is_empty())
        && (requests.reset() || !requests.is_empty() && client.session.pending.has_resets())
}

/// Whether a cancel request that the pooler repeats for a unit may strike the next one: the client has asked for one
/// cancellation.
fn repeats_cancel(server: &Server) -> bool {
    server.cancels.repeats && server.exchange.requests.back().is_none_or(Request::ends_clients_unit)
}

/// Whether the end of a unit decides about the next one: where it may open a transaction block, in statement pooling; on a
/// replica, since the next may write where no transaction is open; and where the client goes to another pool.
fn decides(client: &Client, server: &Server, pools: &Slots<PoolKey, Pool>, router: &Router) -> bool {
    let requests = &server.exchange.requests;
    let Some(pool) = pools.get(server.pool).filter(|_| requests.back().is_some_and(Request::ends_clients_unit)) else {
        return false;
    };
    let leaves = client.moves_to == Some(Bound::Pool);
    let place = members::place_of(pools, router, server.pool);
    let elsewhere = place.is_some_and(|(id, view)| view.view().primary() != Some(id));
    match pool.limits.mode {
        PoolMode::Session => false,
        PoolMode::Statement if requests.has(Mark::LeavesOpen) => true,
        // Within a transaction the next unit belongs to it. The answer shows whether a transaction is open.
        _ => {
            let between = server.status == Status::Idle || requests.may_hold_transaction();
            (elsewhere || leaves) && between && !client.session.pins.any()
        }
    }
}
