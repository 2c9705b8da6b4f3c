//! Room in the pipelined connections of a pool for one more unit of a client.

use crate::model::keys::ServerKey;

use crate::state::Core;
use crate::state::client::Client;
use crate::state::pool::Pool;
use crate::state::server::Server;

/// The number of pipelined connections that a pool makes of its connections though one would do.
pub fn usual(core: &Core, pool: &Pool) -> usize {
    let set = core.config.settings.pipeline_connections;
    let all = if set > 0 { set } else { core.reactor.cores };
    all.div_ceil(pool.common.count())
}

/// Whether clients wait for a connection to themselves.
pub fn is_short(pool: &Pool) -> bool {
    !pool.queue.waiting.is_empty()
}

/// The pipelined connection with the fewest units, of those that can take one more of a client's. While others wait for
/// a connection to themselves, pipelined connections keep no more than their share, and never all.
pub fn emptiest(core: &Core, pool: &Pool, client: &Client) -> Option<ServerKey> {
    let depth = pool.depth(&core.config.settings);
    let share = if is_short(pool) { usual(core, pool).min(pool.limits.size.saturating_sub(1)) } else { usize::MAX };
    let shared = pool.connections.pipelined.iter().take(share);
    let servers = shared.filter_map(|key| Some((*key, core.servers.get(*key)?)));
    let open = servers.filter(|(_, server)| has_room(client, server, depth));
    open.min_by_key(|(_, server)| server.pipeline().map(|pipeline| pipeline.units.len())).map(|(key, _)| key)
}

/// Whether a unit of a client's can follow the units of a pipelined connection, fewer than `depth`.
pub fn has_room(client: &Client, server: &Server, depth: usize) -> bool {
    let open = server.pipeline().is_some_and(|pipeline| pipeline.units.len() < depth && !pipeline.closed);
    open && !server.life.retire && in_line(client, server)
}

/// Whether the server connection has the client's settings, for reads.
fn in_line(client: &Client, server: &Server) -> bool {
    server.known.session.read_only
        && server.known.session.sets.same(&client.session.sets)
        && client.session.vars.same(&server.known.session.vars)
}
