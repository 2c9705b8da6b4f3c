//! What a session's next read must see, and which replicas show that.

use std::time::Instant;

use balancer::Tried;
use classify::{Consistency, Route};

use crate::config::Routing;
use crate::monitor::ClusterView;
use crate::replay::NEVER;

/// What is owed to a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct Owed {
    /// The stamp of its last commit; 0 for none.
    pub stamp: u64,
    /// The unit that a server was chosen for last may write.
    pub writes: bool,
    /// What it has SET READ YOUR WRITES to.
    pub chosen: Option<Consistency>,
    /// Until when its read waits for a replica.
    pub until: Option<Instant>,
    /// What the unit must see that a server was chosen for last; 0 for nothing.
    pub sees: u64,
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
