//! Counts the statements that servers have answered, by shape.

use std::time::{Duration, Instant};

use classify::Verdict;

use crate::model::exchange::Ran;
use crate::model::request::Request;

use crate::metrics::shapes::Shapes;
use crate::state::client::Client;
use crate::state::pool::Pool;
use crate::state::server::Server;

/// Counts a statement that has ended on a server of this pool.
pub fn count(
    shapes: &mut Shapes,
    pool: Option<&Pool>,
    server: &Server,
    verdict: Option<&Verdict>,
    ran: &Ran,
    took: Duration,
) {
    let text = verdict.and_then(|verdict| verdict.normalized.as_ref());
    let (shape, is_new) = shapes.of(server.pool, text);
    if let Some(pool) = pool.filter(|_| is_new) {
        (shape.database, shape.user) = (pool.name.database.to_string(), pool.name.user.to_string());
        shape.text = text.cloned();
    }
    shape.key = verdict.and_then(|verdict| verdict.shape);
    shape.count(ran, took);
    shape.pipelined += u64::from(server.pipeline().is_some_and(|pipeline| !pipeline.alone));
    shape.on_replica += u64::from(server.known.standby.unwrap_or(server.known.was_standby));
}

/// Counts the statement of a request that has been answered, or has failed, on a connection of its client's own.
pub fn count_request(
    shapes: &mut Shapes,
    pool: Option<&Pool>,
    (server, client): (&Server, &Client),
    request: &Request,
    (ran, now): (&Ran, Instant),
) {
    let since = client.times.request_since;
    let took = now.saturating_duration_since(ran.since.map_or(since, |before| before.max(since)));
    match request {
        Request::Query(verdict, _) => count(shapes, pool, server, verdict.as_deref(), ran, took),
        Request::Execute(statement) | Request::Bind(statement) | Request::Parse { statement, .. } => {
            let verdict = statement.as_ref().and_then(|statement| statement.verdict());
            count(shapes, pool, server, verdict.as_deref(), ran, took);
        }
        _ => (),
    }
}
