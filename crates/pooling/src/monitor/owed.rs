//! The commits that a session's next read must see, and the replicas that have replayed them.

use std::time::Instant;

use balancer::Tried;
use classify::{Consistency, Route};

use crate::config::Routing;
use crate::monitor::ClusterView;
use crate::monitor::replay::NEVER;

/// The commits that a session's reads must see.
#[derive(Debug, Clone, Copy, Default)]
pub struct Owed {
    /// The stamp of its last commit; 0 for none.
    pub stamp: u64,
    /// Whether the unit that a server was chosen for last may write.
    pub writes: bool,
    /// The value of its SET READ YOUR WRITES.
    pub chosen: Option<Consistency>,
    /// The time until which its read waits for a replica.
    pub until: Option<Instant>,
    /// The stamp of the commits that the unit must see which a server was chosen for last; 0 for none.
    pub sees: u64,
}

impl Owed {
    /// Follows the session's commits from now on: earlier ones may not have been followed.
    pub fn renew(&mut self, view: &ClusterView) {
        self.stamp = view.freshness().commit();
    }

    /// The commits that the session's reads see unless a comment says otherwise.
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
