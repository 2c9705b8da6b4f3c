//! What clients of a database on several servers are greeted with, and what keeps them waiting for it.
//!
//! What a server tells when a session begins holds for that server only, and a session here is on no server. Whether it
//! may write follows from how its statements are routed: one that reaches the primary is greeted as by the primary,
//! whoever of the servers answered first, since drivers refuse a standby when they look for a server to write to (libpq's
//! `target_session_attrs`, JDBC's `targetServerType`). One that is confined to replicas is greeted as by a replica.

use std::rc::Rc;

use balancer::{ServerId, Tried, Want};

use crate::after::After;
use crate::common::Welcome;
use crate::config::DefaultRole;
use crate::pool::{Pool, PoolKey};
use crate::route::{ACCESS, SHUN};
use crate::server::Server;
use crate::vars::Vars;
use crate::worker::Worker;

impl Worker {
    /// Whether sessions of a pool of clients may write.
    fn may_write(&self, home: &Pool) -> bool {
        let view = home.cluster.and_then(|place| self.clusters.get(place));
        view.is_none_or(|view| view.routing().splitting || view.routing().default_role != DefaultRole::Replica)
    }

    /// A server has let the pooler in: what it tells is what clients are greeted with, unless another's word counts more.
    fn welcomed(&mut self, member: PoolKey, welcome: Vec<(String, String)>, vars: Vars) {
        let home = self.home_of(member);
        let id = self.pools.get(member.0).and_then(|pool| pool.home).map(|(_, id)| id);
        let Some(pool) = self.pools.get(home.0) else { return };
        let better = pool.welcome.is_none() || id.is_none_or(|id| self.is_typical(pool, id));
        if let Some(pool) = self.pools.get_mut(home.0).filter(|_| better) {
            pool.common.set_welcome(Welcome { told: welcome.clone(), tracked: vars.carry() });
            pool.welcome = Some(Rc::new(welcome));
            pool.defaults = vars;
        }
    }

    /// Takes over what another worker has heard from a server, for clients who wait to be greeted.
    pub fn take_welcome(&mut self, home: PoolKey) {
        let Some(pool) = self.pools.get_mut(home.0).filter(|pool| pool.welcome.is_none()) else { return };
        let Some(Welcome { told, tracked }) = pool.common.welcome() else { return };
        pool.defaults = Vars::carried(tracked, &pool.defaults);
        pool.welcome = Some(Rc::new(told));
        for name in self.tracked.note_silent(&pool.defaults) {
            self.warn_of_silent(&name);
        }
        self.greet_all(home);
    }

    /// Warns of a parameter that the configuration wants to be tracked and that servers do not tell.
    pub fn warn_of_silent(&self, name: &str) {
        crate::warning!(
            "the server does not report \"{name}\" (track_extra_parameters): it is carried as other SETs are"
        );
    }

    /// Greets those who wait for it, when the input at hand has been worked on.
    fn greet_all(&mut self, home: PoolKey) {
        let greeting = self.pools.get_mut(home.0).map(|pool| std::mem::take(&mut pool.greeting));
        for client in greeting.into_iter().flatten() {
            self.later(After::Greet(client));
        }
    }

    /// Likewise, and those who wait to be greeted are.
    pub fn greet_by(&mut self, member: PoolKey, welcome: Vec<(String, String)>, vars: Vars) {
        self.welcomed(member, welcome, vars);
        self.greet_all(self.home_of(member));
    }

    /// Whether sessions of a pool of clients are best told what this server tells.
    fn is_typical(&self, home: &Pool, id: ServerId) -> bool {
        let view = home.cluster.and_then(|place| self.clusters.get(place));
        view.is_none_or(|view| (view.view().primary() == Some(id)) == self.may_write(home))
    }

    /// The value of a parameter that a client is greeted with.
    pub fn greets_with<'a>(
        &self,
        home: PoolKey,
        welcome: &'a [(String, String)],
        name: &str,
        value: &'a str,
    ) -> &'a str {
        let Some(pool) = self.pools.get(home.0).filter(|pool| pool.cluster.is_some()) else { return value };
        let of_a_standby = || welcome.iter().any(|(name, value)| name == "in_hot_standby" && value == "on");
        if ACCESS.contains(&name) && self.may_write(pool) && of_a_standby() { "off" } else { value }
    }

    /// Whether a parameter that this server reports is kept from the client that it is lent to.
    pub fn is_of_the_server(&self, server: &Server, name: &str) -> bool {
        let home = self.home_of(server.pool);
        home != server.pool
            && ACCESS.contains(&name)
            && (name == "in_hot_standby" || server.standby == Some(true))
            && self.pools.get(home.0).is_some_and(|pool| self.may_write(pool))
    }

    /// Opens a connection to some server for clients who wait to be greeted.
    pub fn welcome_from_a_member(&mut self, home: PoolKey) {
        let Some(pool) = self.pools.get(home.0) else { return };
        if pool.greeting.is_empty() || pool.welcome.is_some() {
            return;
        }
        let mut tried = Tried::default();
        for &(id, member) in &pool.members {
            let Some(member) = self.pools.get(member.0) else { continue };
            if member.connecting > 0 {
                return;
            }
            let failed = member.failure.as_ref().map(|failure| failure.at);
            if failed.is_some_and(|when| self.now.saturating_duration_since(when) < SHUN) {
                tried.add(id);
            }
        }
        let first = if self.may_write(pool) { Want::Write } else { Want::ReplicaOrPrimary };
        let Some(view) = pool.cluster.and_then(|place| self.clusters.get_mut(place)) else { return };
        let choice = view.choose(first, tried).or_else(|_| view.choose(Want::Any, tried));
        match choice {
            Ok(id) => {
                if let Some(member) = self.member(home, id)
                    && let Some(permit) = self.permit(member)
                    && self.make_room(member)
                {
                    self.connect(member, permit);
                }
            }
            Err(unavailable) => {
                let dead = view.view().is_dead();
                let Some(pool) = self.pools.get_mut(home.0) else { return };
                pool.unavailable = unavailable.to_string();
                if dead {
                    self.turn_away(home);
                }
            }
        }
    }

    /// Tells those who wait to be greeted that no server can be reached: they are not let hang, as they are not where a
    /// database has one server.
    fn turn_away(&mut self, home: PoolKey) {
        let Some(pool) = self.pools.get_mut(home.0) else { return };
        let greeting = std::mem::take(&mut pool.greeting);
        let Some(pool) = self.pools.get(home.0) else { return };
        let message = format!("database \"{}\": {}", pool.database, self.why_unavailable(pool));
        for client in greeting {
            self.fatal(client, "57P03", &message);
        }
    }

    /// Why a pool of clients finds no server: what became of the last choice, and what each server said last.
    pub fn why_unavailable(&self, home: &Pool) -> String {
        let Some(view) = home.cluster.and_then(|place| self.clusters.get(place)) else { return String::new() };
        let errors = self.shared.board.errors(view.name());
        let mut why = home.unavailable.clone();
        for server in view.view().servers() {
            let member =
                home.members.iter().find(|(id, _)| *id == server.id).and_then(|(_, key)| self.pools.get(key.0));
            let met = member.and_then(|member| member.failure.as_ref());
            let said = met.map(|failure| &failure.why).or_else(|| errors.get(&server.id));
            if let Some(said) = said {
                why.push_str(&format!("; {}:{}: {said}", server.host, server.port));
            }
        }
        why
    }
}
