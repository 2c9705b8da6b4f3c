//! Clients, a server and a pooler between them, on one clock.

mod client;
mod connection;
mod copy;
mod ears;
mod entry;
mod hosts;
mod judge;
mod ledger;
mod pools;
mod said;
mod server;
mod shapes;
mod turns;

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use pooling::by_hand::{self, Pooler};
use pooling::memory::{End, Memory};
use wire::{frontend, startup};

use crate::model::reported;
use crate::setup::{Quota, Setup};
use crate::trace::trace;

pub use entry::USERS;
pub use said::{COPIES, MIXED, PREPARED, READ, READ_BY, SENTENCES, SHIFTING};

use client::Client;
use connection::Connection;
use entry::Entry;
use hosts::Host;
use ledger::Ledger;
use said::{DISCARD_ALL, ROLLBACK};

/// What is ordered at the console.
pub const ORDERS: [&str; 7] =
    ["PAUSE d", "RESUME d", "RECONNECT d", "SET database_workers = 1", "SET database_workers = 3", "SUSPEND", "RESUME"];

/// All there is.
pub struct World {
    pooler: Pooler,
    hosts: Vec<Host>,
    /// What the primary has committed, by the names of the writes.
    log: Vec<String>,
    memory: Memory,
    clients: Vec<Client>,
    /// Clients that have left.
    left: usize,
    connections: Vec<Connection>,
    suspends: usize,
    consoles: Vec<End>,
    count: usize,
    ledger: Ledger,
    reports_search_path: bool,
    reports_standby: bool,
    /// Whether a client keeps its server connection until it leaves.
    session_mode: bool,
    /// How many statements a server connection keeps.
    kept: usize,
    /// How many pools there are, and the limits that they share.
    pools: usize,
    quota: Quota,
    /// The entry of the database.
    entry: Entry,
    /// The shape of the relation that shifts.
    shape: usize,
    /// Counts turns of the pooler, where there is an order in which its clients are served.
    moment: Option<u64>,
}

impl World {
    /// A world in which clients have just come.
    pub fn new(setup: &Setup) -> Self {
        let memory = Memory::default();
        let pooler =
            Pooler::new(&memory, setup.workers, setup.servers, pools::databases(setup.pools), &setup.settings());
        let mut world = Self {
            pooler,
            hosts: (0..setup.servers).map(Host::new).collect(),
            log: Vec::new(),
            memory,
            clients: Vec::new(),
            left: 0,
            connections: Vec::new(),
            suspends: 0,
            consoles: Vec::new(),
            count: 0,
            ledger: Ledger::of(setup.servers),
            reports_search_path: setup.reports_search_path,
            reports_standby: setup.reports_standby,
            session_mode: setup.session_mode,
            kept: setup.kept,
            pools: setup.pools,
            quota: setup.quota,
            entry: Entry::default(),
            shape: 0,
            moment: setup.has_one_connection().then_some(0),
        };
        (0..setup.servers).for_each(|host| world.start(host));
        (0..setup.servers).for_each(|host| world.look(host));
        world.consoles = ORDERS.iter().map(|_| world.console()).collect();
        for place in 0..setup.clients {
            let client = world.arrive(place);
            world.clients.push(client);
        }
        world.turn();
        world
    }

    /// Time passes.
    pub fn pass(&mut self, time: Duration) {
        self.pooler.pass(time);
        self.note_time(time);
    }

    /// Somebody gives an order at the console: each order on a connection of its own, since some wait.
    pub fn order(&mut self, what: usize) {
        trace!("console: {}", ORDERS[what]);
        self.suspends += usize::from(ORDERS[what] == "SUSPEND");
        let mut said = Vec::new();
        frontend::write_query(&mut said, ORDERS[what]);
        self.consoles[what].write_all(&said).unwrap();
    }

    /// A connection to the console.
    fn console(&self) -> End {
        let mut socket = self.connect();
        let mut said = Vec::new();
        startup::write_startup(&mut said, [("user", "u"), ("database", "pgbouncer")]);
        socket.write_all(&said).unwrap();
        socket
    }

    /// A connection to the pooler.
    fn connect(&self) -> End {
        self.memory.connect(&by_hand::socket(6)).unwrap()
    }

    /// Cancel requests that have arrived at the server have their effect.
    pub fn take_cancels(&mut self) {
        self.accept(true);
    }

    /// The pooler works until it has nothing to do, and servers and clients hear what was said.
    pub fn turn(&mut self) {
        for _ in 0..1000 {
            let mut again = self.pooler.turn();
            again |= self.accept(false);
            again |= self.hear_servers();
            again |= self.hear_clients();
            if !again {
                self.check_beliefs();
                self.note_waits();
                self.settle_entry();
                return;
            }
        }
        panic!("the pooler finds no rest");
    }

    /// All that has been said is answered.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            for who in 0..self.clients.len() {
                self.send(who, usize::MAX);
            }
            self.turn();
            let mut again = self.accept(true);
            for who in 0..self.connections.len() {
                again |= self.answer_one(who);
                again |= !self.connections[who].answers.is_empty();
                self.answer(who, usize::MAX);
            }
            // In a SUSPEND answers wait.
            if !again && (self.suspends > 0 || !self.end_skipped()) {
                return;
            }
        }
        panic!("clients and servers find no rest");
    }

    /// The pooler does what time brings, once it is not suspended: who has lost what it listened by is told so.
    fn tick(&mut self) {
        // A SUSPEND may have waited for another on its connection.
        for _ in 0..=self.suspends {
            self.order(ORDERS.len() - 1);
            self.pass(Duration::from_secs(1));
            self.turn();
        }
    }

    /// Everybody is answered, and nobody waits.
    pub fn end(&mut self) {
        self.recover();
        self.order(ORDERS.len() - 1);
        self.settle();
        self.rest();
        self.end_shifting();
        self.tick();
        for client in self.clients.iter().filter(|client| !client.gone) {
            assert!(client.greeted && client.units.is_empty(), "a client waits for {} units", client.units.len());
            let truth = reported(&client.session.current, "TimeZone");
            let told = client.told.get("TimeZone").unwrap();
            // What was told within a unit whose end was lost holds from its next unit on.
            assert!(client.is_unsure || *told == truth, "a client was told of the TimeZone {told} and has {truth}");
            client.ears.end(&self.ledger.notes);
        }
    }

    /// Clients come to the end of what they do.
    fn rest(&mut self) {
        // A server that could not be reached is tried again by and by, and clients that LISTEN keep their connections in turn.
        for round in 0..8 * self.clients.len().max(4) {
            // Whose unit ends in this tick is told what it has heard in the next.
            let idle: Vec<bool> = self.clients.iter().map(|client| client.units.is_empty()).collect();
            self.tick();
            for who in (0..self.clients.len()).filter(|who| idle[*who]) {
                let client = &self.clients[who];
                if client.gone {
                    continue;
                }
                if client.status != b'I' {
                    self.say(who, 0, &[ROLLBACK]);
                } else if round % 4 == 3 {
                    // A LISTEN may have kept it its connection.
                    client.ears.end(&self.ledger.notes);
                    self.say(who, 0, &[DISCARD_ALL]);
                }
            }
            // The monitor asks at intervals, and at once where a worker has met something.
            (0..self.hosts.len()).for_each(|host| self.look(host));
            (0..4 * self.hosts.len()).for_each(|host| self.ask(host / 2));
            self.settle();
            if self.end_skipped() {
                self.settle();
            }
            let rests = |client: &Client| client.greeted && client.units.is_empty() && client.status == b'I';
            if self.clients.iter().all(|client| client.gone || rests(client)) {
                break;
            }
        }
    }
}

/// Takes what has come on a socket; whether it is open.
fn hear(socket: &mut End, into: &mut Vec<u8>, any: &mut bool) -> bool {
    let mut buffer = [0; 16384];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => {
                *any = true;
                into.extend_from_slice(&buffer[..count]);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
    }
}

fn is_open(socket: &mut End) -> bool {
    hear(socket, &mut Vec::new(), &mut false)
}
