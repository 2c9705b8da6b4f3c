//! The crowd: an event loop for the clients of one thread, and what all threads count together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use crate::audit::Audit;
use crate::client::{Client, Happened, Leave, Stage};
use crate::dice::Dice;
use crate::judge::End;
use crate::ledger::Ledger;
use crate::mischief::Doomed;
use crate::options::Options;
use crate::socket::{Socket, Tls};
use crate::world::World;

/// What all threads share.
#[derive(Debug)]
pub struct Shared {
    /// What the command line says.
    pub options: Options,
    /// What all clients share.
    pub world: World,
    /// How TLS is spoken, where it is.
    pub tls: Option<Tls>,
    /// When it began.
    pub began: Instant,
    /// Units that were answered.
    pub units: AtomicU64,
    /// It is time to end.
    pub stop: AtomicBool,
    /// A role that will be dropped.
    pub doomed: Doomed,
    /// Rows that are to be looked for.
    pub audit: Audit,
    next_client: AtomicU32,
    wrong: Mutex<Vec<String>>,
}

impl Shared {
    /// Nothing has happened yet.
    pub fn new(options: Options, world: World, tls: Option<Tls>) -> Self {
        Self {
            options,
            world,
            tls,
            began: Instant::now(),
            units: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            doomed: Doomed::default(),
            audit: Audit::default(),
            next_client: AtomicU32::new(1),
            wrong: Mutex::new(Vec::new()),
        }
    }

    /// Notes a violation, and ends the run when there are enough.
    pub fn violate(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        println!("VIOLATION {} (seed {}): {what}", wrong.len() + 1, self.options.seed);
        wrong.push(what);
        if wrong.len() >= self.options.survey {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// All violations.
    pub fn wrong(&self) -> Vec<String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What a thread has counted.
#[derive(Debug, Default)]
pub struct Count {
    /// Units by what they were.
    pub labels: BTreeMap<&'static str, u64>,
    /// Units by how they ended.
    pub ends: BTreeMap<String, u64>,
    /// Clients that have come.
    pub clients: u64,
    /// Clients that were closed by the other side, as they may be.
    pub dropped: u64,
    /// Cancel requests.
    pub cancels: u64,
}

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wake {
    /// The next batch.
    Go,
    /// It reads again.
    Read,
    /// It cancels what is under way.
    Cancel,
    /// It leaves.
    Leave,
    /// Another takes its place.
    Come,
}

/// A connection that carries a cancel request.
#[derive(Debug)]
struct Cancel {
    socket: Socket,
    slot: usize,
    client: u32,
    key: Vec<u8>,
    sent: bool,
    began: Instant,
}

/// The clients of one thread.
pub struct Crowd<'a> {
    shared: &'a Shared,
    poll: Poll,
    dice: Dice,
    clients: Vec<Option<Client>>,
    cancels: HashMap<usize, Cancel>,
    next_cancel: usize,
    timers: BinaryHeap<Reverse<(Instant, usize, u32, Wake)>>,
    scratch: Vec<u8>,
    ledger: Ledger,
    count: Count,
}

/// How many events the story of a row has.
const STORY: usize = 12;
/// Tokens below this are clients.
const CANCELS: usize = 1 << 20;

impl<'a> Crowd<'a> {
    /// So many clients that are still to come.
    pub fn new(shared: &'a Shared, thread: usize, count: usize) -> Result<Self, String> {
        let began = Instant::now();
        let mut crowd = Self {
            shared,
            poll: Poll::new().map_err(|error| error.to_string())?,
            dice: Dice::new(shared.options.seed, u64::MAX - thread as u64),
            clients: (0..count).map(|_| None).collect(),
            cancels: HashMap::new(),
            next_cancel: 0,
            timers: BinaryHeap::new(),
            scratch: vec![0; 1 << 17],
            ledger: Ledger::default(),
            count: Count::default(),
        };
        for slot in 0..count {
            let at = began + Duration::from_micros(crowd.dice.below(500_000) as u64);
            crowd.timers.push(Reverse((at, slot, 0, Wake::Come)));
        }
        Ok(crowd)
    }

    /// Lets them live until it is time to end.
    pub fn run(mut self) -> Result<(Ledger, Count), String> {
        let mut events = Events::with_capacity(1024);
        let mut looked = Instant::now();
        let mut ending: Option<Instant> = None;
        loop {
            let now = Instant::now();
            let next = self.timers.peek().map_or(now + Duration::from_millis(100), |Reverse((at, ..))| *at);
            let wait = next.saturating_duration_since(now).min(Duration::from_millis(100));
            if let Err(error) = self.poll.poll(&mut events, Some(wait))
                && error.kind() != std::io::ErrorKind::Interrupted
            {
                return Err(error.to_string());
            }
            for event in &events {
                match event.token().0 {
                    token if token >= CANCELS => self.cancel_event(token),
                    slot => self.client_event(slot),
                }
            }
            self.ring();
            if looked.elapsed() > Duration::from_secs(1) {
                looked = Instant::now();
                self.look_for_hangs();
            }
            if self.shared.stops() {
                let since = *ending.get_or_insert_with(Instant::now);
                let busy = self.send_home();
                let patience = Duration::from_secs_f64(self.shared.options.patience + 5.0);
                if !busy && self.cancels.is_empty() || !self.shared.wrong().is_empty() || since.elapsed() > patience {
                    break;
                }
            }
        }
        for client in self.clients.iter_mut().flatten().filter(|client| client.stage != Stage::Gone) {
            client.end(&mut self.ledger);
        }
        Ok((self.ledger, self.count))
    }

    fn ring(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((at, ..))) = self.timers.peek()
            && *at <= now
        {
            let Some(Reverse((_, slot, id, wake))) = self.timers.pop() else { return };
            if wake == Wake::Come {
                self.come(slot);
                continue;
            }
            let Some(client) = self.clients[slot].as_mut().filter(|client| client.id == id) else { continue };
            match wake {
                Wake::Go => self.go(slot),
                Wake::Read => {
                    client.deaf = false;
                    self.client_event(slot);
                }
                Wake::Cancel => {
                    let endless = client.is_endless();
                    self.cancel(slot);
                    if endless {
                        // What comes before it begins strikes nothing: asked again until it does.
                        self.wake(slot, Duration::from_millis(300), Wake::Cancel);
                    }
                }
                Wake::Leave => self.leave(slot, Leave::SentReset),
                Wake::Come => (),
            }
        }
    }

    /// Whoever is idle leaves, and with it the connection that its transaction may have held. Whether others are
    /// still busy.
    fn send_home(&mut self) -> bool {
        for slot in 0..self.clients.len() {
            if self.clients[slot].as_ref().is_some_and(Client::is_idle) {
                self.leave(slot, Leave::Politely);
            }
        }
        self.clients.iter().flatten().any(|client| client.stage != Stage::Gone)
    }

    fn wake(&mut self, slot: usize, after: Duration, wake: Wake) {
        let id = self.clients[slot].as_ref().map_or(0, |client| client.id);
        self.timers.push(Reverse((Instant::now() + after, slot, id, wake)));
    }

    // Clients

    fn come(&mut self, slot: usize) {
        if self.shared.stops() {
            return;
        }
        let options = &self.shared.options;
        let id = self.shared.next_client.fetch_add(1, Ordering::Relaxed);
        // The one before has left its place.
        self.clients[slot] = None;
        let socket = Socket::open(options.target(), self.shared.tls.as_ref(), self.poll.registry(), Token(slot));
        match socket {
            Ok(socket) => {
                self.count.clients += 1;
                let client = Client::new(id, socket, self.shared);
                self.clients[slot] = Some(client);
                self.client_event(slot);
            }
            Err(error) => self.shared.violate(format!("client {id} cannot connect: {error}")),
        }
    }

    fn client_event(&mut self, slot: usize) {
        let Some(client) = &mut self.clients[slot] else { return };
        if client.stage == Stage::Gone {
            return;
        }
        client.socket.write();
        if client.deaf {
            return;
        }
        let before = client.socket.held.len();
        client.socket.read(&mut self.scratch);
        if client.leave == Some(Leave::Answered) && client.socket.held.len() > before && !client.flight.is_empty() {
            return self.leave(slot, Leave::Answered);
        }
        let was_live = client.stage == Stage::Live;
        let mut happened = Happened::default();
        let heard = client.hear(&self.shared.world, &mut self.ledger, &mut happened);
        if let Err(wrong) = heard {
            let told = format!(
                "client {} at {}: {wrong}\n  its connection: {:?}\n{}",
                client.id,
                client.socket.name(),
                client.persona,
                client.trace.tell()
            );
            client.give_up(&mut self.ledger);
            self.shared.violate(told);
        }
        let settled = std::mem::take(&mut self.ledger.settled);
        if !settled.is_empty() {
            self.shared.audit.note(settled, client.trace.tell_last(STORY));
        }
        let idle = client.is_idle();
        let gone = client.stage == Stage::Gone;
        self.note(happened);
        if gone {
            self.replace(slot);
        } else if idle && was_live {
            self.next(slot);
        } else if idle {
            self.go(slot);
        }
    }

    fn note(&mut self, happened: Happened) {
        let count = happened.units.len() as u64;
        for (label, end) in happened.units {
            *self.count.labels.entry(label).or_default() += 1;
            if end != End::Well {
                *self.count.ends.entry(format!("{end:?}")).or_default() += 1;
            }
        }
        self.count.dropped += u64::from(happened.dropped) + u64::from(happened.refused);
        let before = self.shared.units.fetch_add(count, Ordering::Relaxed);
        if before + count >= self.shared.options.units {
            self.shared.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Another takes the place of a client that has gone.
    fn replace(&mut self, slot: usize) {
        self.clients[slot] = None;
        let after = Duration::from_micros(self.dice.below(20_000) as u64);
        self.timers.push(Reverse((Instant::now() + after, slot, 0, Wake::Come)));
    }

    /// All of a client's units are answered: it thinks, or goes on at once.
    fn next(&mut self, slot: usize) {
        let Some(client) = &mut self.clients[slot] else { return };
        if client.persona.cancels && client.dice.permille(30) {
            // Too late for what was asked, too early for what will be.
            self.cancel(slot);
        }
        let think = match self.dice.below(40) {
            0 => Duration::from_millis(self.dice.below(30) as u64),
            1..4 => Duration::from_micros(self.dice.below(3000) as u64),
            _ => Duration::ZERO,
        };
        if think.is_zero() { self.go(slot) } else { self.wake(slot, think, Wake::Go) }
    }

    /// A client sends its next batch, unless it leaves.
    fn go(&mut self, slot: usize) {
        if let Some(lull) = self.lull() {
            let late = Duration::from_micros(self.dice.below(50_000) as u64);
            return self.wake(slot, lull + late, Wake::Go);
        }
        let options = &self.shared.options;
        let Some(client) = self.clients[slot].as_mut().filter(|client| client.is_idle()) else { return };
        if self.shared.stops() {
            return;
        }
        if client.has_done() {
            if !options.with("leaves") || client.dice.permille(300) {
                return self.leave(slot, Leave::Politely);
            }
            client.leave = Some(*client.dice.pick(&[Leave::Sent, Leave::SentReset, Leave::Answered, Leave::Soon]));
        }
        let cancel = client.persona.cancels && client.dice.permille(150);
        let early = cancel && client.dice.permille(200);
        if early {
            self.cancel(slot);
        }
        let Some(client) = &mut self.clients[slot] else { return };
        if client.persona.slow && client.dice.permille(200) {
            client.deaf = true;
            let after = Duration::from_millis(client.dice.between(1, 700) as u64);
            self.wake(slot, after, Wake::Read);
        }
        let Some(client) = &mut self.clients[slot] else { return };
        client.batch(&mut self.ledger, options);
        let endless = client.is_endless();
        match client.leave {
            Some(leave @ (Leave::Sent | Leave::SentReset)) => return self.leave(slot, leave),
            Some(Leave::Soon) => {
                let after = Duration::from_micros(self.dice.below(2000) as u64);
                self.wake(slot, after, Wake::Leave);
            }
            _ => (),
        }
        if endless {
            let after = Duration::from_micros(self.dice.below(30_000) as u64);
            self.wake(slot, after, Wake::Cancel);
        } else if cancel && !early {
            let after = *self.dice.pick(&[0, 0, 300, 1000, 5000, 30_000]);
            let after = Duration::from_micros(self.dice.below(after + 1) as u64);
            if after.is_zero() { self.cancel(slot) } else { self.wake(slot, after, Wake::Cancel) }
        }
    }

    fn leave(&mut self, slot: usize, how: Leave) {
        let Some(client) = &mut self.clients[slot] else { return };
        if how == Leave::Politely {
            let mut packet = Vec::new();
            wire::frontend::write_terminate(&mut packet);
            client.socket.send(&packet);
        }
        client.end(&mut self.ledger);
        match how {
            Leave::Politely | Leave::Sent => client.socket.finish(),
            _ => client.socket.reset(),
        }
        self.replace(slot);
    }

    /// How long everybody is still to be idle.
    fn lull(&self) -> Option<Duration> {
        let lull = self.shared.options.lull;
        let within = self.shared.began.elapsed().as_secs_f64() % (10.0 + lull);
        (within > 10.0).then(|| Duration::from_secs_f64(10.0 + lull - within))
    }

    fn look_for_hangs(&mut self) {
        let patience = Duration::from_secs_f64(self.shared.options.patience);
        for client in self.clients.iter_mut().flatten() {
            let hangs = match client.stage {
                Stage::Gone => false,
                Stage::Live if client.deaf => false,
                Stage::Live => client
                    .flight
                    .front()
                    .is_some_and(|(_, sent)| sent.elapsed() > patience && client.heard.elapsed() > patience),
                Stage::Connecting | Stage::Greeting => client.heard.elapsed() > patience,
            };
            if hangs {
                let told = format!(
                    "client {} at {}: no answer in {} s\n  its connection: {:?}\n{}",
                    client.id,
                    client.socket.name(),
                    patience.as_secs(),
                    client.persona,
                    client.trace.tell()
                );
                client.give_up(&mut self.ledger);
                self.shared.violate(told);
            }
        }
        for cancel in self.cancels.values_mut().filter(|cancel| cancel.began.elapsed() > patience) {
            cancel.began = Instant::now();
            let told = format!("no end to a cancel request of client {} in {} s", cancel.client, patience.as_secs());
            self.shared.violate(told);
        }
    }

    // Cancel requests

    fn cancel(&mut self, slot: usize) {
        let Some(client) = self.clients[slot].as_mut().filter(|client| client.stage == Stage::Live) else { return };
        let token = CANCELS + self.next_cancel;
        self.next_cancel += 1;
        let options = &self.shared.options;
        let tls = self.shared.tls.as_ref().filter(|_| client.dice.permille(500));
        let Ok(socket) = Socket::open(options.target(), tls, self.poll.registry(), Token(token)) else { return };
        client.cancels();
        self.count.cancels += 1;
        let cancel =
            Cancel { socket, slot, client: client.id, key: client.key.clone(), sent: false, began: Instant::now() };
        self.cancels.insert(token, cancel);
        self.cancel_event(token);
    }

    fn cancel_event(&mut self, token: usize) {
        let Some(cancel) = self.cancels.get_mut(&token) else { return };
        cancel.socket.write();
        cancel.socket.read(&mut self.scratch);
        if !cancel.sent && cancel.socket.is_open() {
            cancel.sent = true;
            let mut packet = (8 + cancel.key.len() as u32).to_be_bytes().to_vec();
            packet.extend_from_slice(&80_877_102_u32.to_be_bytes());
            packet.extend_from_slice(&cancel.key);
            cancel.socket.send(&packet);
            cancel.socket.read(&mut self.scratch);
        }
        if !cancel.socket.closed {
            return;
        }
        let (slot, id) = (cancel.slot, cancel.client);
        self.cancels.remove(&token);
        if let Some(client) = self.clients[slot].as_mut().filter(|client| client.id == id) {
            client.cancels -= 1;
            client.trace.note("a cancel request has ended");
        }
    }
}

impl Count {
    /// Adds what another thread has counted.
    pub fn add(&mut self, other: Self) {
        for (label, count) in other.labels {
            *self.labels.entry(label).or_default() += count;
        }
        for (end, count) in other.ends {
            *self.ends.entry(end).or_default() += count;
        }
        self.clients += other.clients;
        self.dropped += other.dropped;
        self.cancels += other.cancels;
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} clients, {} of them closed; {} cancel requests", self.clients, self.dropped, self.cancels)?;
        write!(f, "\nended {:?}\nasked {:?}", self.ends, self.labels)
    }
}
