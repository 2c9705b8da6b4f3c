//! Counts the statements that servers have answered, by shape.

use std::time::Duration;

use classify::Verdict;

use crate::model::exchange::Ran;
use crate::model::keys::ServerKey;
use crate::model::request::Request;

use crate::state::Core;

/// Counts a statement that has ended on a server.
pub fn count(core: &mut Core, key: ServerKey, verdict: Option<&Verdict>, ran: &Ran, took: Duration) {
    let Some(server) = core.servers.get(key.0) else { return };
    let text = verdict.and_then(|verdict| verdict.normalized.as_ref());
    let (shape, is_new) = core.lifecycle.shapes.of(server.pool, text);
    if is_new && let Some(pool) = core.pools.get(server.pool.0) {
        (shape.database, shape.user) = (pool.name.database.to_string(), pool.name.user.to_string());
        shape.text = text.cloned();
    }
    shape.key = verdict.and_then(|verdict| verdict.shape);
    shape.count(ran, took);
    shape.pipelined += u64::from(server.pipeline().is_some_and(|pipeline| !pipeline.alone));
    shape.on_replica += u64::from(server.known.standby.unwrap_or(server.known.was_standby));
}

/// Counts the statement that a unit has ended with on a connection of its client's own: that of the request that has
/// ended it, or, behind an error, of the first `unanswered` one, which has failed.
pub fn count_last(core: &mut Core, key: ServerKey, ended: &Request, unanswered: &[Request]) {
    let Some(server) = core.servers.get_mut(key.0).filter(|server| !server.is_pipelined()) else { return };
    let ran = std::mem::take(&mut server.exchange.ran);
    let failed = unanswered.first().filter(|_| ran.error.is_some());
    count_request(core, key, failed.unwrap_or(ended), &ran);
}

/// Counts the statement of a request that has been answered, or has failed, on a connection of its client's own.
pub fn count_request(core: &mut Core, key: ServerKey, request: &Request, ran: &Ran) {
    let now = core.now;
    let Some(since) = core.answered_pair(key).map(|(_, client)| client.times.request_since) else { return };
    let took = now.saturating_duration_since(ran.since.map_or(since, |before| before.max(since)));
    match request {
        Request::Query(verdict, _) => count(core, key, verdict.as_deref(), ran, took),
        Request::Execute(statement) | Request::Bind(statement) | Request::Parse { statement, .. } => {
            let verdict = statement.as_ref().and_then(|statement| statement.verdict());
            count(core, key, verdict.as_deref(), ran, took);
        }
        _ => (),
    }
}
