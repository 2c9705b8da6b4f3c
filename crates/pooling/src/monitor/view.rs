//! A worker's own view of one cluster.

use std::sync::Arc;

use balancer::{ServerId, Tried, Turn, Unavailable, View, Want};

use super::board::Posted;
use crate::config::Routing;
use crate::monitor::address::Address;
use crate::monitor::board::Board;
use crate::monitor::replay::Freshness;

/// The outcome of a look at the board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refreshed {
    /// The post is the same.
    Same,
    /// The post has another decision, other addresses or other settings.
    Changed,
    /// The cluster is not configured any more; the last view stands.
    Gone,
}

/// A worker's own view of one cluster: the last decision, and what the worker has under way on each server.
#[derive(Debug)]
pub struct ClusterView {
    name: Box<str>,
    generation: u64,
    posted: Arc<Posted>,
    outstanding: Vec<u32>,
    turn: Turn,
}

impl ClusterView {
    /// The view of the cluster of this name ([`crate::config::Config::cluster_of`]); workers give different seeds.
    pub fn new(board: &Board, name: &str, seed: u64) -> Option<Self> {
        let generation = board.generation();
        let posted = board.posted(name)?;
        let outstanding = posted.view.counters();
        Some(Self { name: name.into(), generation, posted, outstanding, turn: Turn::new(seed) })
    }

    /// Takes the last decision over. Without a new one this is one atomic load, so it can be called for each statement.
    #[inline]
    pub fn refresh(&mut self, board: &Board) -> Refreshed {
        if board.generation() == self.generation { Refreshed::Same } else { self.renew(board) }
    }

    #[cold]
    fn renew(&mut self, board: &Board) -> Refreshed {
        // The number is read first: a post in between only makes the next look find a known one.
        self.generation = board.generation();
        let Some(posted) = board.posted(&self.name) else { return Refreshed::Gone };
        if Arc::ptr_eq(&posted, &self.posted) {
            return Refreshed::Same;
        }
        let places = posted.view.counters().len();
        if self.outstanding.len() < places {
            self.outstanding.resize(places, 0);
        }
        self.posted = posted;
        Refreshed::Changed
    }

    /// Chooses a server for a statement. An error may be over with the next view: the workers are woken for it.
    #[inline]
    pub fn choose(&mut self, want: Want, tried: Tried) -> Result<ServerId, Unavailable> {
        let posted = &self.posted;
        posted.view.choose(want, posted.routing.strategy, &self.outstanding, tried, &mut self.turn)
    }

    /// Notes the number of units under way on this server: for `least_outstanding`.
    pub fn count(&mut self, id: ServerId, outstanding: usize) {
        if let Some(count) = self.outstanding.get_mut(id.index()) {
            *count = u32::try_from(outstanding).unwrap_or(u32::MAX);
        }
    }

    /// The address at which the monitor reached this server last, so that no name needs to be looked up. `None` until
    /// it has been reached.
    pub fn address(&self, id: ServerId) -> Option<&Address> {
        self.posted.addresses.get(id.index())?.as_ref()
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The decision.
    pub fn view(&self) -> &View {
        &self.posted.view
    }

    /// The knowledge about commits and their replay.
    pub fn freshness(&self) -> &Arc<Freshness> {
        &self.posted.freshness
    }

    /// The settings by which statements are spread.
    pub fn routing(&self) -> &Routing {
        &self.posted.routing
    }
}
