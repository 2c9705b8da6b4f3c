//! What a session's next read must see, and which replicas show that.

use std::time::Instant;

use balancer::Tried;
use classify::{Consistency, Role, Route};
use wire::backend::Status;

use super::NEVER;
use crate::client::ClientKey;
use crate::config::Routing;
use crate::monitor::ClusterView;
use crate::server::{Server, ServerKey};
use crate::worker::Worker;

/// What is owed to a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct Owed {
    /// The stamp of its last commit; 0 for none.
    stamp: u64,
    /// The unit that a server was chosen for last may write.
    pub writes: bool,
    /// What it has SET READ YOUR WRITES to.
    pub chosen: Option<Consistency>,
    /// Until when its read waits for a replica.
    pub until: Option<Instant>,
}

impl Owed {
    /// From now on its commits are followed: those before may not have been.
    pub fn renew(&mut self, view: &ClusterView) {
        self.stamp = view.freshness().commit();
    }

    /// What the session's reads see unless a comment says otherwise.
    pub fn consistency(&self, routing: &Routing) -> Consistency {
        self.chosen.unwrap_or(routing.read_your_writes)
    }

    /// The stamp up to which commits must be seen by a read with this comment; 0 for none.
    pub fn stamp(&self, comment: Option<Route>, view: &ClusterView) -> u64 {
        let routing = view.routing();
        let consistency = match comment {
            Some(Route::Stale) => Consistency::Off,
            Some(Route::Fresh) => Consistency::Database,
            _ => self.consistency(routing),
        };
        match (consistency, routing.read_your_writes) {
            (Consistency::Off, _) => 0,
            (Consistency::Session, _) => self.stamp,
            // Commits of sessions that need not see them are not followed, but where each session's reads may be split.
            (Consistency::Database, Consistency::Database) => view.freshness().written(),
            (Consistency::Database, Consistency::Session) if routing.splitting => view.freshness().written(),
            (Consistency::Database, _) => NEVER,
        }
    }
}

impl ClusterView {
    /// The replicas that do not show all commits up to this stamp.
    pub fn behind(&self, stamp: u64) -> Tried {
        let mut behind = Tried::default();
        if stamp > 0 {
            let ids = self.view().servers().iter().map(|server| server.id);
            let lacks = |id: &_| self.view().primary() != Some(*id) && !self.freshness().covers(*id, stamp);
            ids.filter(lacks).for_each(|id| behind.add(id));
        }
        behind
    }
}

impl Worker {
    /// A client's unit has ended on the connection that it has, or the connection has: from now on the client's reads must
    /// see what it may have committed. It has not been told yet.
    pub fn note_commit(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(client) = server.client().and_then(|client| self.clients.get_mut(client.0)) else { return };
        let wrote = client.owed.writes || server.writes;
        // What is under way behind it may write too, and what it has written in a transaction is not committed yet.
        server.writes &= !server.requests.is_empty() || server.status != Status::Idle;
        if wrote && let Some(client) = server.client() {
            self.owe(client, key);
        }
    }

    /// A unit of a client that may have written on this server has been acknowledged; its client has not been told.
    pub fn owe(&mut self, client: ClientKey, server: ServerKey) {
        if self.servers.get(server.0).is_none_or(|server| server.standby == Some(true)) {
            return;
        }
        let Some(client) = self.clients.get_mut(client.0) else { return };
        let cluster = client.home.and_then(|home| self.pools.get(home.0)).and_then(|home| home.cluster);
        let Some(view) = cluster.and_then(|place| self.clusters.get(place)) else { return };
        let routing = view.routing();
        let splits = routing.splitting || client.role == Some(Role::Auto);
        let followed = match client.owed.consistency(routing) {
            Consistency::Off => routing.read_your_writes != Consistency::Off,
            Consistency::Session => splits,
            Consistency::Database => true,
        };
        if followed {
            client.owed.stamp = view.freshness().commit();
        }
    }

    /// A connection to a server has been made: if that is a replica, it may have been restarted.
    pub fn doubt_replay(&self, server: &Server) {
        let Some((home, id)) = self.pools.get(server.pool.0).and_then(|pool| pool.home) else { return };
        let cluster = self.pools.get(home.0).and_then(|home| home.cluster);
        if let Some(view) = cluster.and_then(|place| self.clusters.get(place)) {
            view.freshness().doubt(id);
        }
    }

    /// Whether a client's read shall wait for a replica to replay what it must see, rather than go to the primary: it
    /// waits from now on if so.
    pub fn awaits_replay(&mut self, key: ClientKey, place: usize, stamp: u64) -> bool {
        let bound = self.config.settings.read_your_writes_wait.0;
        let Some(view) = self.clusters.get(place) else { return false };
        let likely = view.freshness().delay().is_some_and(|delay| u128::from(delay) <= bound.as_millis());
        let Some(client) = self.clients.get_mut(key.0) else { return false };
        if stamp == NEVER || client.owed.until.is_none() && !likely {
            return false;
        }
        let until = *client.owed.until.get_or_insert(self.now + bound);
        if self.now >= until {
            return false;
        }
        view.freshness().want(self.shared.board.moment(until));
        self.replay_due = Some(self.replay_due.map_or(until, |due| due.min(until)));
        true
    }

    /// Lets reads that wait for replicas choose again when a replica has come nearer, or they have waited long enough.
    pub fn look_at_replay(&mut self) {
        let due = self.replay_due.is_some_and(|due| self.now >= due);
        if due || std::mem::take(&mut self.replayed) {
            self.replay_due = None;
            self.tick_clusters();
        }
    }
}
