//! What is known of the functions, operators, types and relations of each database, by which statements are judged.
//!
//! One thread reads it for all workers ([`reader`]), over connections of the pooler's own: no client's settings reach it,
//! no pool waits for it, and what has not come whole is thrown away ([`question`]). It is posted as [`Knowledge`], which
//! also counts the definitions (CREATE, ALTER, DROP ...) that workers see: from the moment that one is seen until a
//! catalog is there that was asked for later, [`Knowledge::is_doubtful`] has every worker treat every statement as one of
//! which nothing is known. `docs/design/2026-11-22-catalogs.md` tells the reasons.

mod knowledge;
mod question;
mod reader;
pub mod visit;

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

pub use knowledge::{Definition, Knowledge, Library, Place, Servers, Way};
pub use reader::{WAKER, spawn};

use classify::{Kind, Verdict};
use wire::backend::Status;

use crate::client::ClientKey;
use crate::pool::PoolKey;
use crate::server::{Residue, ServerKey, State};
use crate::shape::Shapes;
use crate::shared::lock;
use crate::worker::Worker;

impl Worker {
    /// What is known of the statements of a pool's database.
    pub fn shapes_of(&mut self, pool: PoolKey) -> Option<&mut Shapes> {
        let database = self.pools.get(pool.0)?.database.clone();
        if !self.shapes.contains_key(&database) {
            let place = Place::of(&self.config, &database)?;
            self.shapes.insert(database.clone(), Shapes::new(self.shared.library.knowledge(place)));
        }
        self.shapes.get_mut(&database)
    }

    /// What all workers know of a pool's database.
    pub fn knowledge(&self, pool: PoolKey) -> Option<&Arc<Knowledge>> {
        let database = &self.pools.get(pool.0)?.database;
        self.shapes.get(database).map(Shapes::knowledge)
    }

    /// Whether nothing can be relied on that is known of the statements of a pool's database.
    pub fn is_doubtful(&self, pool: PoolKey) -> bool {
        self.knowledge(pool).is_some_and(|knowledge| knowledge.is_doubtful(self.now))
    }

    /// A pool has logged in to a server: the catalog can be read in the same way.
    pub fn note_way(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get(key.0) else { return };
        let Some(pool) = self.pools.get(server.pool.0).filter(|pool| pool.mode.lends()) else {
            return;
        };
        let Some(entry) = self.config.database(&pool.database) else { return };
        let user = entry.user.as_deref().unwrap_or(&pool.user);
        let account = lock(&self.shared.learnt).account(&self.config, &pool.database, entry, user);
        let (host, port, address) = (server.host.clone(), server.port, server.address.clone());
        let way = Way { host, port, address, account };
        let (pool, now) = (server.pool, self.now);
        let Some(knowledge) = self.shapes_of(pool).map(|shapes| shapes.knowledge().clone()) else { return };
        knowledge.reached(way, now);
        if let Some(server) = self.servers.get_mut(key.0) {
            server.mark = knowledge.mark();
        }
    }

    /// A server has no room for a connection of this pool: the one that the catalog is read by makes some.
    pub fn leave_room(&self, pool: PoolKey) {
        if let Some(knowledge) = self.knowledge(pool) {
            knowledge.leave_room();
        }
    }

    /// A statement is about to be sent on the connection that its client has: a definition counts from now on, one in a
    /// transaction from when that may be committed, since nobody else sees it before.
    pub fn foresee_definition(&mut self, key: ClientKey, verdict: Option<&Verdict>) {
        let defines = verdict.is_none_or(|verdict| verdict.is_ddl);
        let commits = verdict.is_none_or(|verdict| verdict.transaction);
        if !defines && !commits {
            return;
        }
        let Some((_, server)) = self.pair(key).filter(|(_, server)| !matches!(server.state, State::Lane)) else {
            return;
        };
        let pool = server.pool;
        if defines && server.definition.is_none() {
            let Some(knowledge) = self.shapes_of(pool).map(|shapes| shapes.knowledge().clone()) else { return };
            let Some((_, server)) = self.pair(key) else { return };
            let definition = server.definition.insert(Definition::new(knowledge));
            if server.status == Status::Transaction && server.requests.is_empty() {
                definition.wait();
            }
        }
        let renews = |verdict: &Verdict| {
            verdict.is_ddl && !verdict.pins && (verdict.kind == Kind::Utility || verdict.each.contains(&Kind::Utility))
        };
        if verdict.is_none_or(renews)
            && let Some((_, server)) = self.pair(key)
            && let Some(definition) = &mut server.definition
        {
            definition.renew();
        }
        if commits
            && let Some((_, server)) = self.pair(key)
            && let Some(definition) = &mut server.definition
        {
            definition.commit();
        }
    }

    /// What has run on a server connection may be something else than it was judged to be, if a definition was run since
    /// or another catalog has come: then it may have left anything there.
    pub fn doubt_session(&mut self, key: ServerKey) {
        let Some(pool) = self.servers.get(key.0).map(|server| server.pool) else { return };
        let Some(knowledge) = self.knowledge(pool).cloned() else { return };
        let (mark, doubtful) = (knowledge.mark(), knowledge.is_doubtful(self.now));
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let before = std::mem::replace(&mut server.mark, mark);
        if before != mark || doubtful {
            let residue =
                if server.residue == Residue::Session { &mut server.session_residue } else { &mut server.residue };
            *residue = (*residue).max(Residue::Anything);
        }
    }

    /// Forgets what is known of databases that have no pool any more, or that lead elsewhere since the configuration was
    /// read again.
    pub fn forget_shapes(&mut self) {
        let used: HashSet<&Rc<str>> = self.pools.iter().map(|(_, pool)| &pool.database).collect();
        let config = &self.config;
        self.shapes.retain(|database, shapes| {
            used.contains(database)
                && Place::of(config, database).is_some_and(|place| place == shapes.knowledge().place)
        });
    }
}
