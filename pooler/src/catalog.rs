//! A database's catalog, read over one of its server connections between two clients: what the classifier judges by.

use std::time::Duration;

use wire::frontend;

use crate::after::After;
use crate::pool::PoolKey;
use crate::server::{Request, ServerKey, State};
use crate::shape::Shapes;
use crate::worker::Worker;

/// How often it is read again.
const EVERY: Duration = Duration::from_secs(30);
/// How soon after the last time it is read again when something is known to have changed.
const SOON: Duration = Duration::from_secs(1);
/// How long it may be due before clients have to wait for it.
const PATIENCE: Duration = Duration::from_secs(1);

impl Worker {
    /// Whether a free server connection of this pool is to read the catalog before anybody gets it.
    pub fn catalog_is_due(&self, pool_key: PoolKey) -> bool {
        let Some(pool) = self.pools.get(pool_key.0).filter(|pool| pool.pipelining) else { return false };
        let spare = pool.is_unwanted() || pool.servers.len() > 1;
        let Some(shapes) = self.shapes.get(&pool.database) else { return spare };
        let Some(asked) = shapes.asked else { return spare };
        let since = self.now.saturating_duration_since(asked);
        let due = if shapes.stale { SOON } else { EVERY };
        shapes.rows.is_none() && since >= due && (spare || since >= due + PATIENCE)
    }

    /// Asks a free server connection for the catalog.
    pub fn read_catalog(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(pool) = self.pools.get(server.pool.0) else { return };
        let shapes = self.shapes.entry(pool.database.clone()).or_insert_with(Shapes::new);
        shapes.asked = Some(self.now);
        shapes.stale = false;
        shapes.rows = Some(Vec::new());
        server.state = State::Preparing;
        server.state_since = self.now;
        server.client = None;
        server.requests.push_back(Request::Catalog);
        server.unnamed = None;
        frontend::write_query(server.io.out(), classify::Catalog::QUERY);
        self.flush_server(key);
    }

    /// A row of it has come.
    pub fn catalog_row(&mut self, key: ServerKey, row: &[Option<&[u8]>]) {
        let Some(pool) = self.servers.get(key.0).and_then(|server| self.pools.get(server.pool.0)) else { return };
        let Some(rows) = self.shapes.get_mut(&pool.database).and_then(|shapes| shapes.rows.as_mut()) else { return };
        let text = |place: usize| {
            let field = row.get(place).copied().flatten().unwrap_or_default();
            String::from_utf8_lossy(field).into_owned()
        };
        rows.push([text(0), text(1), text(2), text(3), text(4)]);
    }

    /// It has been read, or could not be: then what was known is still believed until the next time.
    pub fn catalog_done(&mut self, key: ServerKey) {
        let Some(pool) = self.servers.get(key.0).and_then(|server| self.pools.get(server.pool.0)) else { return };
        let database = pool.database.clone();
        if let Some(shapes) = self.shapes.get_mut(&database)
            && let Some(rows) = shapes.rows.take()
            && let Err(error) = shapes.learn(&rows)
        {
            crate::warning!("{database}: {error}; nothing is pipelined by it");
        }
        self.later(After::Free(key));
    }

    /// The connection that was reading a catalog is gone.
    pub fn catalog_lost(&mut self, pool: PoolKey) {
        let Some(pool) = self.pools.get(pool.0) else { return };
        if let Some(shapes) = self.shapes.get_mut(&pool.database) {
            shapes.rows = None;
        }
    }

    /// A command has changed what the catalog of a client's database tells.
    pub fn catalog_changed(&mut self, pool: PoolKey) {
        let Some(pool) = self.pools.get(pool.0) else { return };
        if let Some(shapes) = self.shapes.get_mut(&pool.database) {
            shapes.stale = true;
        }
    }

    /// Has catalogs read that are due and that no connection came free for: an idle one does it, or a lane closes.
    pub fn tick_catalogs(&mut self) {
        let keys: Vec<PoolKey> = self.pools.iter().map(|(key, _)| PoolKey(key)).collect();
        for key in keys {
            if !self.catalog_is_due(key) {
                continue;
            }
            let Some(pool) = self.pools.get_mut(key.0) else { continue };
            if let Some(server) = pool.idle.pop_back() {
                self.read_catalog(server);
            } else if let Some(lane) = pool.lanes.first().copied()
                && let Some(lane) = self.servers.get_mut(lane.0).and_then(|server| server.lane.as_mut())
            {
                lane.closed = true;
            }
        }
    }
}
