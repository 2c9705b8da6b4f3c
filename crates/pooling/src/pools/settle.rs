//! The question what is left in a session: whether the reasons last that pin it, and what `set_config` has set.

use std::fmt::Write;

use crate::model::keys::ServerKey;
use crate::model::request::Request;
use crate::model::session::{Change, Sets};
use classify::{Reasons, parameter};
use wire::backend::Status;
use wire::frontend;

use crate::state::server::State;
use crate::state::{Core, answering, sockets};

/// In the order of the reasons that pins ask about. Whatever a temporary schema holds depends on it.
const QUESTION: &str = "SELECT \
    EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory' \
    AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()), \
    EXISTS (SELECT FROM pg_catalog.pg_depend WHERE refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() \
    AND refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid), \
    EXISTS (SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql), \
    EXISTS (SELECT FROM pg_catalog.pg_cursors)";

/// The number of answers before the values of parameters.
const ANSWERS: usize = 4;

/// Asks the server of a client that has nothing under way what is left in its session, if that is in doubt; whether it
/// does.
pub fn asks(core: &mut Core, key: ServerKey) -> bool {
    let Some((server, Some(client))) = answering(&mut core.servers, &mut core.clients, key) else { return false };
    let rests = server.exchange.requests.is_empty() && server.status == Status::Idle;
    if !matches!(server.state(), State::Active(_)) || !client.is_ready() {
        return false;
    }
    if !rests || client.input.unsynced || client.input.passing > 0 {
        return false;
    }
    if !core.pools.get(server.pool).is_some_and(|pool| pool.limits.mode.lends()) {
        client.session.configured.clear();
        return false;
    }
    client.session.pins.note(core.now);
    let in_doubt = client.session.pins.is_in_doubt();
    if !in_doubt && (client.session.configured.is_empty() || client.session.pins.any()) {
        return false;
    }
    client.session.pins.ask();
    let mut sql = QUESTION.to_owned();
    for name in &client.session.configured {
        let _ = write!(sql, ", pg_catalog.current_setting({}, true)", parameter::literal(name));
    }
    frontend::write_query(server.io.out(), &sql);
    server.exchange.requests.push_back(Request::Settle);
    // As in PostgreSQL, a Query ends the unnamed statement.
    server.known.unnamed = None;
    sockets::flush_server(core, key);
    true
}

/// Works on the answer.
pub fn answered(core: &mut Core, key: ServerKey, values: &[Option<&[u8]>]) {
    let Some((server, Some(client))) = answering(&mut core.servers, &mut core.clients, key) else { return };
    let tracked = &core.parameters.tracked;
    let (lasts, set) = values.split_at(ANSWERS.min(values.len()));
    client.session.pins.settle(lasts.iter().map(|answer| *answer != Some(b"f")));
    for (name, value) in std::mem::take(&mut client.session.configured).iter().zip(set) {
        match value.map(str::from_utf8) {
            None => (),
            Some(Ok(value)) => {
                let change = Change::Set { name: name.to_string(), statement: parameter::set(name, value) };
                server.known.session.sets.apply_unless(&change, &Sets::default(), tracked);
                client.session.sets.apply_unless(&change, &client.session.startup.1, tracked);
            }
            // It could not be set elsewhere.
            Some(Err(_)) => client.session.pins.hold(Reasons::SETTING),
        }
    }
}

/// The server could not answer: it is asked again, or the session stays where it is.
pub fn failed(core: &mut Core, key: ServerKey) {
    let Some((_, Some(client))) = answering(&mut core.servers, &mut core.clients, key) else { return };
    if !client.session.configured.is_empty() && !client.session.pins.may_ask_again() {
        client.session.configured.clear();
        client.session.pins.hold(Reasons::SETTING);
    }
}
