//! The limits that several pools share, `max_db_connections` and `max_user_connections`, and the choice of the
//! connection that is closed when a limit leaves no room.
//!
//! If a limit leaves a pool no room for a connection, the connection of another pool that has been idle longest is
//! closed. If none is idle because clients follow each other, a client that has waited for [`STARVING`] is served
//! nonetheless: a connection of a pool that has more of them is closed when it is next free. For a client of another
//! worker, only an idle connection is closed.

use std::rc::Rc;
use std::time::Duration;

use crate::model::keys::{PoolKey, ServerKey};
use crate::model::quota::Quota;

use crate::backend::close;
use crate::common::Permit;
use crate::config::PoolMode;
use crate::pools::neighbours;
use crate::shared::Message;
use crate::state::Core;
use crate::state::pool::Pool;
use crate::state::server::{Server, State};
use crate::sync::lock;

/// The time that a client waits before its pool gets a connection at the cost of a pool that has more.
const STARVING: Duration = Duration::from_secs(1);

/// A limit that several pools share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// `max_db_connections` of this database.
    Database(Rc<str>),
    /// `max_user_connections` of this user.
    User(Rc<str>),
}

impl Limit {
    fn covers(&self, pool: &Pool) -> bool {
        match self {
            Self::Database(database) => pool.name.database == *database,
            Self::User(user) => pool.name.user == *user,
        }
    }

    fn setting(&self) -> &'static str {
        match self {
            Self::Database(_) => "max_db_connections",
            Self::User(_) => "max_user_connections",
        }
    }
}

/// The limit that keeps a pool from one more server connection.
fn limit_reached(core: &Core, pool: &Pool) -> Option<Limit> {
    if pool.limits.quota.database > 0 {
        let same = core.pools.iter().filter(|(_, other)| other.name.database == pool.name.database);
        if same.map(|(_, other)| other.connections.servers.len() + other.connections.apart).sum::<usize>()
            >= pool.limits.quota.database
        {
            return Some(Limit::Database(pool.name.database.clone()));
        }
    }
    let servers = || lock(&core.shared.counts.by_user).get(&*pool.name.user).map_or(0, |(servers, _)| *servers);
    (pool.limits.quota.user > 0 && servers() >= pool.limits.quota.user).then(|| Limit::User(pool.name.user.clone()))
}

/// A permit for one more server connection of a pool, within its size.
pub fn permit(core: &Core, key: PoolKey) -> Option<Permit> {
    core.pools.get(key.0).and_then(|pool| pool.common.open(pool.limits.size))
}

/// Whether one more server connection keeps within the limits of its database and user.
pub fn within_limits(core: &Core, key: PoolKey) -> bool {
    core.pools.get(key.0).is_some_and(|pool| limit_reached(core, pool).is_none())
}

/// Makes room for a connection beside the pool, at the cost of idle ones. False if there is none.
pub fn make_room_apart(core: &mut Core, key: PoolKey) -> bool {
    while !within_limits(core, key) {
        let own = core.pools.get(key.0).and_then(|pool| pool.connections.idle.front().copied());
        match own {
            Some(idle) => close::close_server(
                core,
                idle,
                "a connection for LISTEN or replication needs the place of this connection",
            ),
            None if make_room(core, key) => (),
            None => return false,
        }
    }
    true
}

/// Whether the limits still have room for clients after one more connection that is checked out to no client. Of a
/// user's limit each worker has its share, since connections of other workers are not counted.
pub fn leaves_room(core: &Core, key: PoolKey) -> bool {
    let Some(pool) = core.pools.get(key.0) else { return false };
    let apart = |limit: Limit| {
        let covered = core.pools.iter().filter(|(_, other)| limit.covers(other));
        covered.map(|(_, other)| other.connections.apart).sum::<usize>() + 1
    };
    let Quota { database, user } = pool.limits.quota;
    let workers = core.shared.mailboxes.len();
    (database == 0 || apart(Limit::Database(pool.name.database.clone())) < database)
        && (user == 0 || apart(Limit::User(pool.name.user.clone())) * workers < user)
}

/// Lets a pool have one more server connection for a waiting client, at the cost of idle connections in other pools.
/// False if there is no room.
pub fn make_room(core: &mut Core, key: PoolKey) -> bool {
    while let Some(limit) = core.pools.get(key.0).and_then(|pool| limit_reached(core, pool)) {
        match longest_idle(core, &limit, Some(key)) {
            Some(idle) => close::close_server(core, idle, &reason(&limit)),
            None => {
                if let Limit::User(user) = &limit {
                    core.shared.tell_all(|| Message::MakeRoom(user.to_string()));
                }
                return false;
            }
        }
    }
    true
}

/// Closes an idle connection of a user for a client of another worker, if the limit is still reached.
pub fn make_room_for_another(core: &mut Core, user: &str) {
    let limit = Limit::User(user.into());
    let reached =
        core.pools.iter().any(|(_, pool)| limit.covers(pool) && limit_reached(core, pool) == Some(limit.clone()));
    if let Some(idle) = longest_idle(core, &limit, None).filter(|_| reached) {
        close::close_server(core, idle, &reason(&limit));
    }
}

/// The connection that has been idle longest among those that a limit covers, in another pool than this.
fn longest_idle(core: &Core, limit: &Limit, apart: Option<PoolKey>) -> Option<ServerKey> {
    let may_go = |server: &Server| {
        matches!(server.state(), State::Idle)
            && Some(server.pool) != apart
            && core.pools.get(server.pool.0).is_some_and(|pool| limit.covers(pool))
    };
    let idle = core.servers.iter().filter(|(_, server)| may_go(server));
    idle.min_by_key(|(_, server)| server.life.state_since).map(|(key, _)| ServerKey(key))
}

/// Has a pool give a busy connection up for one whose clients have waited for long and that has fewer.
pub fn relieve_starving(core: &mut Core) {
    let starving = |pool: &Pool| {
        let long = neighbours::waits_since(core, pool)
            .is_some_and(|since| core.now.saturating_duration_since(since) >= STARVING);
        (long && !pool.limits.quota.is_unlimited() && !pool.limits.paused && pool.connections.connecting == 0)
            .then(|| Some((limit_reached(core, pool)?, pool.connections.servers.len())))
            .flatten()
    };
    let found: Vec<(Limit, usize)> = core.pools.iter().filter_map(|(_, pool)| starving(pool)).collect();
    for (limit, fewer) in found {
        let covered = |server: &Server| core.pools.get(server.pool.0).filter(|pool| limit.covers(pool));
        // One connection at a time: after it, the pools that still starve are seen.
        if core.servers.iter().any(|(_, server)| server.life.retire && covered(server).is_some()) {
            continue;
        }
        let busy = core.servers.iter().filter_map(|(key, server)| {
            let pool = covered(server)?;
            let lasts = pool.limits.mode == PoolMode::Session
                || !matches!(server.state(), State::Active(_) | State::Aligning(..) | State::Pipelined(_));
            (!lasts && pool.connections.servers.len() > fewer).then_some((
                pool.connections.servers.len(),
                std::cmp::Reverse(server.life.since),
                key,
            ))
        });
        let most = busy.max_by_key(|(count, since, _)| (*count, *since)).map(|(.., key)| key);
        if let Some(server) = most.and_then(|key| core.servers.get_mut(key)) {
            server.life.retire = true;
        }
    }
}

fn reason(limit: &Limit) -> String {
    format!("a client of another pool waits for a connection ({})", limit.setting())
}
