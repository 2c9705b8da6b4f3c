//! Units of lanes that are asked again, or answered in their server's place: when servers die, clients cancel or leave,
//! and neighbours take long.

use std::time::Instant;

use wire::backend::{self, Status};

use crate::after::After;
use crate::client::ClientKey;
use crate::lane::Lane;
use crate::monitor::Met;
use crate::pool::PoolKey;
use crate::server::{ServerKey, State};
use crate::worker::{Turn, Worker};

/// How often a unit that was at the head when its server died is asked again.
const ATTEMPTS: u8 = 1;

impl Worker {
    /// Takes back a client's units from the one at `from` on (in the lane's order), to be asked again: the lane's
    /// late answers to them are dropped.
    pub fn ask_again(&mut self, key: ServerKey, client_key: ClientKey, from: usize) {
        let Some(lane) = self.servers.get_mut(key.0).and_then(|server| server.lane.as_mut()) else { return };
        let mut start = lane.done;
        let mut bytes = Vec::new();
        let mut count = 0;
        let mut unnamed = None;
        let mut names = Vec::new();
        for (place, unit) in lane.units.iter_mut().enumerate() {
            let end = start + unit.size;
            if place >= from && unit.client == Some(client_key) {
                bytes.extend_from_slice(lane.history.get(start..end).unwrap_or_default());
                unit.client = None;
                let before = unit.unnamed.take();
                names.append(&mut unit.names);
                if count == 0 {
                    unnamed = before;
                }
                count += 1;
            }
            start = end;
        }
        if let Some(client) = self.clients.get_mut(client_key.0) {
            // Units behind the first may have prepared another, which those before them must not meet.
            if count > 0 {
                client.unnamed = unnamed;
            }
            // What they prepare is prepared when they are sent again, which may never be.
            for name in names {
                client.statements.remove(&name);
            }
            bytes.append(&mut client.io.rest);
            client.io.rest = bytes;
            client.lane = client.lane.and_then(|(server, units)| (units > count).then_some((server, units - count)));
            client.behind_own = client.lane.is_some();
        }
        if let Some(pool) = self.servers.get(key.0).and_then(|server| self.pools.get_mut(server.pool.0)) {
            pool.totals.asked_again += count as u64;
        }
        self.give_turn(Turn::Client(client_key));
    }

    /// A lane's connection is being closed: who waits for an answer is answered by another server, or told.
    pub fn leave_lane(&mut self, key: ServerKey, code: &str, why: &str) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        if !matches!(server.state, State::Lane) {
            return;
        }
        let in_message = server.passing.0 > 0;
        let member = self.pools.get(server.pool.0).and_then(|pool| pool.home);
        let Some(lane) = self.servers.get_mut(key.0).and_then(|server| server.lane.as_mut()) else { return };
        let (forwarded, failed) = (lane.forwarded, lane.failed && lane.forwarded);
        let writes = lane.units.front().is_some_and(|unit| unit.writes);
        if let Some(head) = lane.head() {
            let tried = self.clients.get(head.0).map_or(0, |client| client.attempts);
            if failed {
                // It has been told of an error already.
                self.take_from_lane(key, 0);
                self.end_unit(head);
            } else if forwarded && in_message {
                self.close_client(head, &format!("server connection lost within a message: {why}"));
            } else if writes {
                // If it was committed all the same, its client's reads see it.
                self.owe(head, key);
                self.answer_head(
                    key,
                    code,
                    &format!("server connection lost, the outcome of the statement is unknown: {why}"),
                );
            } else if forwarded || tried >= ATTEMPTS {
                self.answer_head(key, code, &format!("server connection lost while it answered a read: {why}"));
            } else if let Some(client) = self.clients.get_mut(head.0) {
                client.attempts += 1;
            }
        }
        if let Some((_, id)) = member {
            let lane = self.servers.get(key.0).and_then(|server| server.lane.as_ref());
            for client in lane.into_iter().flat_map(|lane| &lane.units).filter_map(|unit| unit.client) {
                if let Some(client) = self.clients.get_mut(client.0) {
                    client.tried.add(id);
                }
            }
        }
        while let Some(client) = self
            .servers
            .get(key.0)
            .and_then(|server| server.lane.as_ref())
            .and_then(|lane| lane.units.iter().find_map(|unit| unit.client))
        {
            self.ask_again(key, client, 0);
        }
        self.end_lane(key);
    }

    /// Nobody waits any more for the answer of the unit in this place; whose it was.
    pub fn take_from_lane(&mut self, key: ServerKey, place: usize) -> Option<ClientKey> {
        self.servers.get_mut(key.0)?.lane.as_mut()?.units.get_mut(place)?.client.take()
    }

    /// Answers the unit at the head with an error in the server's place; its late answer is dropped.
    fn answer_head(&mut self, key: ServerKey, code: &str, message: &str) {
        let Some(lane) = self.servers.get_mut(key.0).and_then(|server| server.lane.as_mut()) else { return };
        lane.stage.clear();
        self.forget_names(key, 0);
        let Some(client_key) = self.take_from_lane(key, 0) else { return };
        self.answer_unit(client_key, code, message);
    }

    /// Answers a unit of a client, the first that it has in its lane, with an error.
    pub fn answer_unit(&mut self, client_key: ClientKey, code: &str, message: &str) {
        let Some(client) = self.clients.get_mut(client_key.0) else { return };
        backend::write_error(client.io.out(), "ERROR", code, message);
        self.end_unit(client_key);
    }

    /// Ends a unit of a client, the first that it has in its lane.
    fn end_unit(&mut self, client_key: ClientKey) {
        let Some(client) = self.clients.get_mut(client_key.0) else { return };
        backend::write_ready_for_query(client.io.out(), Status::Idle);
        client.attempts = 0;
        client.lane = client.lane.and_then(|(server, count)| (count > 1).then_some((server, count - 1)));
        if client.lane.is_none() && std::mem::take(&mut client.behind_own) {
            self.give_turn(Turn::Client(client_key));
        }
        self.unflushed.push(Turn::Client(client_key));
    }

    /// Takes a client that is leaving out of its lane: nobody waits for its answers.
    pub fn forget_in_lane(&mut self, key: ClientKey) {
        let Some((server_key, _)) = self.clients.get_mut(key.0).and_then(|client| client.lane.take()) else { return };
        let Some(server) = self.servers.get_mut(server_key.0) else { return };
        let head = server.client() == Some(key);
        if head {
            server.io.readable = true;
        }
        if let Some(lane) = &mut server.lane {
            for unit in lane.units.iter_mut().filter(|unit| unit.client == Some(key)) {
                unit.client = None;
            }
        }
        self.later(After::Stop(server_key));
        // It may have been the one whose slowness held the lane.
        self.give_turn(Turn::Server(server_key));
    }

    /// Looks for units at the head that take long, to be answered or to be read: who stands behind them is asked again
    /// elsewhere, and a head that nobody waits for is stopped.
    pub fn look_after_lanes(&mut self) {
        let Some(bound) = self.config.settings.pipeline_stall.limit() else { return };
        let now = self.now;
        let overdue = |lane: &Lane| {
            !lane.rescued && !lane.units.is_empty() && now.saturating_duration_since(lane.looked_at) >= bound
        };
        let lanes = self.active_lanes.iter().copied();
        let stalled: Vec<ServerKey> = lanes
            .filter(|key| self.servers.get(key.0).and_then(|server| server.lane.as_deref()).is_some_and(overdue))
            .collect();
        for key in stalled {
            let Some(server) = self.servers.get_mut(key.0) else { continue };
            let pool = server.pool;
            let Some(lane) = server.lane.as_mut() else { continue };
            lane.looked_at = now;
            if let Some(shape) = lane.units.front().and_then(|unit| unit.shape.clone()) {
                shape.took(now.saturating_duration_since(lane.head_since), now);
            }
            let head = lane.head();
            let behind = lane.units.iter().filter(|unit| unit.client.is_some() && unit.client != head).count();
            // Nobody joins those who wait already.
            lane.closed = true;
            if self.pools.get_mut(pool.0).is_some_and(|pool| pool.retries.spend(behind)) {
                self.rescue(key);
                self.stop_unwanted(key);
            }
        }
    }

    /// Has those who stand behind the head of a lane asked elsewhere. They run in read-only transactions: what the lane
    /// still does of them changes nothing.
    pub fn rescue(&mut self, key: ServerKey) {
        let Some(lane) = self.servers.get_mut(key.0).and_then(|server| server.lane.as_mut()) else { return };
        (lane.closed, lane.rescued) = (true, true);
        let head = lane.head();
        let mut place = 0;
        while let Some(lane) = self.servers.get(key.0).and_then(|server| server.lane.as_ref()) {
            let Some(unit) = lane.units.get(place) else { return };
            if let Some(client) = unit.client.filter(|client| Some(*client) != head) {
                self.ask_again(key, client, place);
            }
            place += 1;
        }
    }

    /// A write has met a replica: the monitor hears of it, and the server is not chosen again for it.
    pub fn wrote_to_replica(&mut self, pool: PoolKey, client: ClientKey) {
        self.met(pool, Met::ReadOnly);
        let member = self.pools.get(pool.0).and_then(|pool| pool.home);
        if let (Some((_, id)), Some(client)) = (member, self.clients.get_mut(client.0)) {
            client.tried.add(id);
        }
    }

    /// How long a poll may wait so that a stalled lane is noticed in time.
    pub fn lane_deadline(&self) -> Option<Instant> {
        let bound = self.config.settings.pipeline_stall.limit()?;
        let lanes = self.active_lanes.iter().filter_map(|key| self.servers.get(key.0)?.lane.as_ref());
        lanes.filter(|lane| !lane.rescued && !lane.units.is_empty()).map(|lane| lane.looked_at + bound).min()
    }
}
