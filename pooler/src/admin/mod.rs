//! The console: the databases `howdah`, `pgbouncer` and `pgcat`, which are no databases but answer commands.
//!
//! A command is asked of every worker ([`Order`]); when all have answered, the first worker, where console clients
//! live, puts the result together. PAUSE and its like are asked again until nothing is under way any more.

mod command;
mod pools;
mod session;
pub mod show;
mod snapshot;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use wire::backend;

use crate::client::{Client, ClientKey, State as ClientState};
use crate::net::Stream;
use crate::pool::PoolKey;
use crate::server::{ServerKey, State};
use crate::shared::{Message, WorkerId, lock};
use crate::suspend;
use crate::worker::Worker;

pub use command::Command;
pub use pools::{Part, PoolSeen, pool_parts, whole_pools};
pub use snapshot::Snapshot;

/// What clients hear whose database is closed by KILL.
pub const KILLED: &str = "database was killed by an administrator (KILL)";

/// How often a PAUSE looks again.
const AGAIN: Duration = Duration::from_millis(50);

/// Whether a database is the console.
pub fn is_console(database: &str) -> bool {
    matches!(database, "howdah" | "pgbouncer" | "pgcat")
}

/// Whether a client is the account that the pooler runs as, by a Unix socket, under the console's own name.
pub fn is_own_user(client: &Client) -> bool {
    let Stream::Unix(stream) = &client.io.stream else { return false };
    if &*client.user != "pgbouncer" && &*client.user != "howdah" {
        return false;
    }
    let Ok(peer) = stream.peer_cred_uid() else { return false };
    // SAFETY: getuid has no arguments, touches no memory and cannot fail.
    peer == unsafe { libc::getuid() }
}

/// The name of the account that a client runs as, where it came by a Unix socket.
pub fn account_of(client: &Client) -> Option<String> {
    let Stream::Unix(stream) = &client.io.stream else { return None };
    crate::account::name(stream.peer_cred_uid().ok()?)
}

trait PeerUid {
    fn peer_cred_uid(&self) -> std::io::Result<u32>;
}

impl PeerUid for mio::net::UnixStream {
    fn peer_cred_uid(&self) -> std::io::Result<u32> {
        use std::os::fd::AsRawFd;
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = std::mem::size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the descriptor is open as long as `self` lives; `peer` is a ucred and `length` its size.
        let outcome = unsafe {
            libc::getsockopt(
                self.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut length,
            )
        };
        if outcome == 0 { Ok(peer.uid) } else { Err(std::io::Error::last_os_error()) }
    }
}

/// What every worker is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// What there is.
    Look,
    /// Let nobody begin in this database (all when none); how much is still under way?
    Pause(Option<String>),
    /// Read nothing more; how many connections are not at rest?
    Suspend,
    /// Let them go on.
    Resume(Option<String>),
    /// Close the server connections of this database (all when none), each when it is free.
    Reconnect(Option<String>),
    /// How many server connections are still to be closed after a Reconnect?
    WaitClose(Option<String>),
    /// Drop all clients and servers of this database (all when none).
    Kill(Option<String>),
    /// Drop the client of this id.
    KillClient(u64),
}

/// What a worker answers.
#[derive(Debug)]
pub enum Answer {
    /// What there is.
    Seen(Snapshot),
    /// Done, but for so many that are under way.
    Left(usize),
    /// Whether what was asked about is here.
    Found(bool),
}

/// The questions that are under way.
#[derive(Debug, Default)]
pub struct Console {
    last: u64,
    asked: HashMap<u64, Asked>,
    /// In which formats clients want the results of what they have bound, where not all in text.
    formats: HashMap<ClientKey, Vec<bool>>,
}

#[derive(Debug)]
struct Asked {
    client: ClientKey,
    command: Command,
    answers: Vec<Answer>,
    missing: usize,
    again: Option<Instant>,
}

impl Worker {
    /// Asks all workers on behalf of a console client, which waits for the result.
    fn ask(&mut self, client: ClientKey, command: Command, order: Order) {
        self.console.last += 1;
        let number = self.console.last;
        let workers = self.shared.mailboxes.len();
        let asked = Asked { client, command, answers: Vec::new(), missing: workers, again: None };
        self.console.asked.insert(number, asked);
        if let Some(client) = self.clients.get_mut(client.0) {
            client.console_waits = Some(number);
        }
        self.shared.tell_all(|| Message::Order(self.id, number, order.clone()));
    }

    /// A worker's answer to a question of this one.
    pub fn console_answer(&mut self, number: u64, answer: Answer) {
        let Some(asked) = self.console.asked.get_mut(&number) else { return };
        asked.answers.push(answer);
        asked.missing = asked.missing.saturating_sub(1);
        if asked.missing > 0 {
            return;
        }
        let left: usize =
            asked.answers.iter().map(|answer| if let Answer::Left(left) = answer { *left } else { 0 }).sum();
        if left > 0 && asked.command.waits() {
            asked.again = Some(self.now + AGAIN);
            return;
        }
        let Some(asked) = self.console.asked.remove(&number) else { return };
        // It may have gone, or have been killed by its own command.
        let waits =
            |client: &&mut Client| client.console_waits == Some(number) && matches!(client.state, ClientState::Console);
        let Some(client) = self.clients.get_mut(asked.client.0).filter(waits) else { return };
        client.console_waits = None;
        let resumed = |name: &Option<String>| !lock(&self.shared.paused).contains(name.as_deref().unwrap_or_default());
        match &asked.command {
            Command::Pause(name) if resumed(name) => {
                self.console_refused(asked.client, "57014", "RESUME came before PAUSE was done");
            }
            command => self.console_result(asked.client, command, asked.answers),
        }
        self.flush_client(asked.client);
        self.give_turn(crate::worker::Turn::Client(asked.client));
    }

    /// Asks again what was not finished.
    pub fn console_tick(&mut self) {
        let now = self.now;
        let due: Vec<u64> = self
            .console
            .asked
            .iter()
            .filter(|(_, asked)| asked.again.is_some_and(|again| now >= again))
            .map(|(&number, _)| number)
            .collect();
        for number in due {
            let Some(asked) = self.console.asked.get_mut(&number) else { continue };
            if self.clients.get(asked.client.0).is_none_or(|client| client.console_waits != Some(number)) {
                self.console.asked.remove(&number);
                continue;
            }
            asked.again = None;
            asked.answers.clear();
            asked.missing = self.shared.mailboxes.len();
            if let Some(order) = asked.command.order() {
                self.shared.tell_all(|| Message::Order(self.id, number, order.clone()));
            }
        }
    }

    /// Does what the console orders, here.
    pub fn obey(&mut self, order: &Order) -> Answer {
        match order {
            Order::Look => Answer::Seen(self.snapshot()),
            Order::Pause(database) => {
                let mut pools = self.pools_of(database.as_deref());
                // A PAUSE that waits asks again and again, and RESUME may have come meanwhile.
                pools.retain(|key| {
                    let Some(pool) = self.pools.get_mut(key.0) else { return false };
                    pool.paused = is_paused(&self.shared, &pool.database, &pool.user);
                    pool.paused
                });
                for key in &pools {
                    if let Some(pool) = self.pools.get(key.0) {
                        let idle: Vec<ServerKey> = pool.idle.iter().copied().collect();
                        for server in idle {
                            self.close_server(server, "PAUSE");
                        }
                    }
                }
                Answer::Left(self.servers_of(&pools).len())
            }
            Order::Suspend => Answer::Left(self.suspend()),
            Order::Resume(database) => {
                self.end_suspension();
                for key in self.pools_of(database.as_deref()) {
                    self.size_pool(key);
                    self.serve_queue(key);
                }
                Answer::Left(0)
            }
            Order::Reconnect(database) => {
                let pools = self.pools_of(database.as_deref());
                let servers = self.servers_of(&pools);
                self.retire(&servers);
                for key in pools {
                    self.retire_hub(key);
                    self.grow(key);
                }
                Answer::Left(0)
            }
            Order::WaitClose(database) => {
                let pools = self.pools_of(database.as_deref());
                let servers = self.servers_of(&pools);
                let left = servers.iter().filter(|key| self.servers.get(key.0).is_some_and(|server| server.retire));
                Answer::Left(left.count())
            }
            Order::Kill(database) => {
                self.kills += 1;
                let pools = self.pools_of(database.as_deref());
                let clients: Vec<ClientKey> = self
                    .clients
                    .iter()
                    .filter(|(_, client)| client.pool.is_some_and(|pool| pools.contains(&pool)))
                    .map(|(key, _)| ClientKey(key))
                    .collect();
                for client in clients {
                    self.fatal(client, "57P01", KILLED);
                }
                for server in self.servers_of(&pools) {
                    self.close_server(server, "KILL");
                }
                for key in pools {
                    self.retire_hub(key);
                    if let Some(pool) = self.pools.get_mut(key.0) {
                        pool.paused = true;
                    }
                }
                Answer::Left(0)
            }
            Order::KillClient(id) => {
                let is_it = |client: &Client| client.id == *id && !matches!(client.state, ClientState::Closing);
                let found = self.clients.iter().find(|(_, client)| is_it(client)).map(|(key, _)| ClientKey(key));
                if let Some(key) = found {
                    self.fatal(key, "57P01", "client was killed by an administrator (KILL_CLIENT)");
                }
                Answer::Found(found.is_some())
            }
        }
    }

    fn pools_of(&self, named: Option<&str>) -> Vec<PoolKey> {
        self.pools
            .iter()
            .filter(|(_, pool)| named.is_none_or(|named| names(named, &pool.database, &pool.user)))
            .map(|(key, _)| PoolKey(key))
            .collect()
    }

    fn servers_of(&self, pools: &[PoolKey]) -> Vec<ServerKey> {
        self.servers
            .iter()
            .filter(|(_, server)| pools.contains(&server.pool) && server.target.is_none())
            // What is no connection of the pool stays for as long as its clients do.
            .filter(|(_, server)| !matches!(server.state, State::Cancelling) && server.apart.is_none())
            .map(|(key, _)| ServerKey(key))
            .collect()
    }

    /// Reads the configuration again and puts it in force everywhere; an error leaves the old one.
    pub fn reload(&self) -> Result<(), String> {
        crate::reload::reload(&self.shared)
    }

    /// Tells a console client of an error.
    fn console_error(&mut self, key: ClientKey, code: &str, message: &str) {
        if let Some(client) = self.clients.get_mut(key.0) {
            backend::write_error(client.io.out(), "ERROR", code, message);
        }
    }
}

/// Whether what stands in a command names this pool: `database`, or `database,user` as PgCat has it.
fn names(named: &str, database: &str, user: &str) -> bool {
    named == database || named.split_once(',').is_some_and(|(name, of)| name == database && of.trim_start() == user)
}

/// Whether a pool is paused.
pub fn is_paused(shared: &crate::shared::Shared, database: &str, user: &str) -> bool {
    lock(&shared.paused).iter().any(|paused| paused.is_empty() || names(paused, database, user))
}

/// The rows that BAN and UNBAN tell.
fn banned(servers: Vec<(String, balancer::Standing, String)>) -> Vec<show::Row> {
    let row = |(database, standing, host): (String, balancer::Standing, String)| {
        vec![Some(database), Some("*".to_owned()), Some(standing.word().to_owned()), Some(host)]
    };
    servers.into_iter().map(row).collect()
}

/// Marks databases as paused or not, for pools that are made later.
pub fn mark_paused(shared: &crate::shared::Shared, database: Option<&str>, paused: bool) {
    let mut marks = lock(&shared.paused);
    match (database, paused) {
        (Some(name), true) => {
            marks.insert(name.to_owned());
        }
        (None, true) => {
            marks.insert(String::new());
        }
        (Some(name), false) => {
            marks.remove(name);
        }
        (None, false) => marks.clear(),
    }
}

/// PAUSE or RESUME of everything, by a signal: nobody waits for the outcome.
pub fn pause_all(shared: &crate::shared::Shared, paused: bool) {
    if paused && suspend::is_suspended(shared) {
        crate::warning!("the pooler is suspended and cannot be paused");
        return;
    }
    if !paused {
        suspend::end(shared);
    }
    mark_paused(shared, None, paused);
    let order = if paused { Order::Pause(None) } else { Order::Resume(None) };
    // Nobody asked under the number 0, so the answers are dropped.
    shared.tell_all(|| Message::Order(WorkerId(0), 0, order.clone()));
}
