//! The thread that asks primaries how far their logs go, and replicas how far they have replayed.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balancer::{MAX_SERVERS, Moment, Replay, ServerId};
use mio::{Events, Poll, Token};
use slab::Slab;
use wire::backend::{self, tag};
use wire::frontend;

use crate::catalog::visit::{Guest, Visit};
use crate::net::Epoll;
use pooling::catalog::{Destination, Servers};
use pooling::config::Config;
use pooling::io::Network;
use pooling::monitor::ClusterView;
use pooling::monitor::replay::Freshness;
use pooling::shared::{Message, Shared};

/// Between rounds while nobody waits, and at most between questions to a replica that is behind.
const CALM: Duration = Duration::from_millis(20);
/// Between questions to a replica while somebody waits, and at least otherwise: from here the pause doubles for as long
/// as the replica comes no nearer, so that its delay is measured, and not the pause.
const HURRY: Duration = Duration::from_millis(1);
/// A server that takes longer to answer is not relied upon.
const LIMIT: Duration = Duration::from_secs(1);
/// How long a server is left alone to which no connection could be made.
const RETRY: Duration = Duration::from_secs(1);
/// A connection is closed when it has not been needed for so long.
const UNUSED: Duration = Duration::from_secs(60);
/// How often clusters are looked at when nothing happens.
const TICK: Duration = Duration::from_secs(1);
/// Read at once; over TLS it takes a whole record.
const READ: usize = 32_768;
/// The token of the waker; connections have theirs from 0 on.
pub const WAKER: Token = Token(usize::MAX);

/// The end of the log, with what is committed and not yet flushed (`synchronous_commit = off`).
const WRITTEN: &str = "SELECT pg_catalog.pg_current_wal_insert_lsn() OPERATOR(pg_catalog.-) '0/0'::pg_catalog.pg_lsn";
const REPLAYED: &str = "SELECT pg_catalog.pg_last_wal_replay_lsn() OPERATOR(pg_catalog.-) '0/0'::pg_catalog.pg_lsn";

/// A page of the log, unless it was built otherwise, and what stands at its beginning, in the first page of a file too.
const PAGE: u64 = 8192;
const HEADERS: [u64; 2] = [24, 40];

/// One question at a time.
#[derive(Debug)]
struct Question {
    sql: &'static str,
    position: Option<u64>,
    answered: bool,
}

impl Guest for Question {
    fn enter(&mut self, out: &mut Vec<u8>) {
        frontend::write_query(out, self.sql);
    }

    fn hear(&mut self, tag: u8, body: &[u8], _out: &mut Vec<u8>) -> Result<(), String> {
        match tag {
            tag::DATA_ROW => {
                let row = backend::data_row(body).map_err(|error| error.to_string())?;
                let text = row.first().copied().flatten().and_then(|field| std::str::from_utf8(field).ok());
                self.position = text.and_then(|text| text.parse().ok());
                Ok(())
            }
            tag::READY_FOR_QUERY => {
                self.answered = true;
                Ok(())
            }
            tag::ERROR_RESPONSE => {
                let report = backend::report(body).map_err(|error| error.to_string())?;
                Err(format!("{} ({})", report.message, report.code))
            }
            _ => Ok(()),
        }
    }
}

/// A connection to a server.
struct Line {
    visit: Visit,
    question: Question,
    /// What is asked now was asked then; `None` when nothing is.
    asked: Option<Instant>,
    /// The round that the primary is asked for, and when it began.
    round: (u64, Moment),
    /// The doubts of a replica when it was asked.
    doubts: u64,
    /// When it may be asked again, and how long after the last answer that is.
    again: Instant,
    pause: Duration,
    used: Instant,
}

/// A cluster that is looked after.
struct Tide {
    name: String,
    view: ClusterView,
    replay: Replay,
    primary: Option<ServerId>,
    lines: HashMap<ServerId, Line>,
    /// Servers that could not be asked, until when they are left alone, and why.
    failed: HashMap<ServerId, (Instant, String)>,
    /// The last round that was begun with this primary; 0 for none.
    last: u64,
    began: Instant,
    due: Instant,
}

struct ReplayMonitor {
    shared: Arc<Shared>,
    poll: Poll,
    /// The configuration whose clusters are all in `tides`.
    taken: Option<Arc<Config>>,
    tides: Slab<Tide>,
    scratch: Vec<u8>,
}

/// Starts the thread. `poll` has the waker of the bell, under [`WAKER`].
///
/// # Errors
/// Those of the system.
pub fn spawn(shared: Arc<Shared>, poll: Poll) -> io::Result<()> {
    let monitor = ReplayMonitor { shared, poll, taken: None, tides: Slab::new(), scratch: vec![0; READ] };
    std::thread::Builder::new().name("replay".to_owned()).spawn(move || {
        if let Err(error) = monitor.run() {
            pooling::warning!("the thread that asks replicas for their replay position has ended: {error}");
        }
    })?;
    Ok(())
}

impl ReplayMonitor {
    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        loop {
            let due = self.tides.iter().map(|(_, tide)| tide.due).min();
            let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
            match self.poll.poll(&mut events, wait.map_or(Some(TICK), |wait| Some(wait.min(TICK)))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => (),
            }
            for event in events.iter().filter(|event| event.token() != WAKER) {
                let (key, place) = (event.token().0 / MAX_SERVERS, event.token().0 % MAX_SERVERS);
                let Some(tide) = self.tides.get_mut(key) else { continue };
                let Some((&id, line)) = tide.lines.iter_mut().find(|(id, _)| id.index() == place) else { continue };
                line.visit.heard(event.is_read_closed() || event.is_error());
                let outcome = line.visit.ready(&mut line.question, &Epoll(self.poll.registry()), &mut self.scratch);
                self.hear(key, id, outcome);
            }
            // In this order: what is told after it was looked at wakes again.
            self.shared.board.replays.heard();
            self.take_up();
            let keys: Vec<usize> = self.tides.iter().map(|(key, _)| key).collect();
            for key in keys {
                self.look_after(key);
            }
        }
    }

    /// Takes up the clusters of the configuration, and drops all others. Nothing is asked of them before a commit.
    fn take_up(&mut self) {
        let config = self.shared.config();
        if self.taken.as_ref().is_some_and(|taken| Arc::ptr_eq(taken, &config)) {
            return;
        }
        let wanted = |name: &str| config.clusters().any(|(other, _)| other == name);
        let network = &Epoll(self.poll.registry());
        self.tides.retain(|_, tide| {
            let keep = wanted(&tide.name);
            if !keep {
                tide.leave_all(network);
            }
            keep
        });
        let mut whole = true;
        for (name, _) in config.clusters() {
            if self.tides.iter().any(|(_, tide)| tide.name == name) {
                continue;
            }
            if let Some(view) = ClusterView::new(&self.shared.board, name, 0) {
                self.tides.insert(Tide::new(name, view));
            } else {
                whole = false;
            }
        }
        self.taken = whole.then_some(config);
    }

    /// A server has answered, or cannot.
    fn hear(&mut self, key: usize, id: ServerId, outcome: Result<(), String>) {
        let now = self.shared.board.moment(Instant::now());
        let Some(tide) = self.tides.get_mut(key) else { return };
        if let Err(why) = outcome {
            return tide.lose(id, &why, &Epoll(self.poll.registry()));
        }
        let Some(line) = tide.lines.get_mut(&id).filter(|line| line.question.answered) else { return };
        line.question.answered = false;
        line.asked = None;
        let position = line.question.position.take();
        let fresh = tide.view.freshness().clone();
        if tide.primary == Some(id) {
            let (round, begun) = line.round;
            if let Some(lsn) = position {
                tide.replay.primary(round, begun, end_of_record(lsn));
            }
            return;
        }
        let hurried = fresh.is_wanted(now);
        line.pause = if hurried { HURRY } else { (line.pause * 2).min(CALM) };
        line.again = Instant::now() + line.pause;
        // A server that has replayed nothing, since it is no standby of this kind, says so.
        let Some(lsn) = position else { return };
        if fresh.doubts(id) != line.doubts {
            tide.replay.forget(id);
            return;
        }
        let round = tide.replay.replica(id, lsn, now);
        let news = fresh.cover(id, round, line.doubts);
        if news {
            line.pause = HURRY;
            line.again = Instant::now() + HURRY;
        }
        let delays = tide.lines.keys().filter_map(|id| tide.replay.delay(*id));
        fresh.set_delay(delays.min());
        if news && hurried {
            self.shared.tell_all(|| Message::Replayed);
        }
    }

    /// Asks what is due to be asked in a cluster.
    fn look_after(&mut self, key: usize) {
        let now = Instant::now();
        let moment = self.shared.board.moment(Instant::now());
        let network = &Epoll(self.poll.registry());
        let Some(tide) = self.tides.get_mut(key) else { return };
        tide.view.refresh(&self.shared.board);
        tide.settle(network, now);
        let fresh = tide.view.freshness().clone();
        let hurried = fresh.is_wanted(moment);
        let replicas = tide.replicas();
        if !hurried && replicas.iter().all(|id| fresh.covers(*id, fresh.written())) {
            fresh.set_asleep(true);
            // A commit before this saw nobody asleep.
            if replicas.iter().all(|id| fresh.covers(*id, fresh.written())) {
                tide.due = now + TICK;
                return;
            }
            fresh.set_asleep(false);
        }
        let pause = if hurried { Duration::ZERO } else { CALM };
        tide.due = now + if hurried { HURRY } else { CALM };
        let Some(primary) = tide.primary else { return };
        let lacks = fresh.written() > tide.last || tide.last == 0;
        let mut asks = Vec::new();
        if lacks && now >= tide.began + pause || tide.last == 0 {
            asks.push(primary);
        }
        for id in replicas {
            // It was doubted since it was asked: it says anew how far it has come.
            if tide.lines.get(&id).is_some_and(|line| line.asked.is_none() && line.doubts != fresh.doubts(id)) {
                tide.replay.forget(id);
            }
            if tide.replay.owes(id) {
                let again = tide.lines.get(&id).map_or(now, |line| line.again);
                tide.due = tide.due.min(again.max(now + HURRY));
                asks.push(id);
            }
        }
        for id in asks {
            self.ask(key, id, &fresh, now);
        }
    }

    /// Asks a server, unless it is being asked or was just now.
    fn ask(&mut self, key: usize, id: ServerId, fresh: &Freshness, now: Instant) {
        let (moment, network) = (self.shared.board.moment(Instant::now()), &Epoll(self.poll.registry()));
        let Some(tide) = self.tides.get_mut(key) else { return };
        if tide.lines.get(&id).is_some_and(|line| line.asked.is_some() || line.again > now) {
            return;
        }
        if tide.failed.get(&id).is_some_and(|(until, _)| *until > now) {
            return;
        }
        let is_primary = tide.primary == Some(id);
        let doubts = fresh.doubts(id);
        let round = if is_primary { fresh.begin() } else { 0 };
        if is_primary {
            (tide.last, tide.began) = (round, now);
        }
        let outcome = match tide.lines.get_mut(&id) {
            Some(line) => {
                (line.asked, line.used) = (Some(now), now);
                (line.round, line.doubts) = ((round, moment), doubts);
                line.visit.ask(&mut line.question)
            }
            None => {
                let sql = if is_primary { WRITTEN } else { REPLAYED };
                let question = Question { sql, position: None, answered: false };
                let token = key * MAX_SERVERS + id.index();
                way(&self.shared, &tide.name, &tide.view, id).and_then(|(way, database)| {
                    let config = self.shared.config();
                    let visit = Visit::begin(way, &database, "howdah replay", config, token, network)?;
                    let round = (round, moment);
                    let (asked, again, used, pause) = (Some(now), now, now, HURRY);
                    tide.lines.insert(id, Line { visit, question, asked, round, doubts, again, pause, used });
                    Ok(())
                })
            }
        };
        if let Err(why) = outcome {
            tide.lose(id, &why, network);
        }
    }
}

impl Tide {
    fn new(name: &str, view: ClusterView) -> Tide {
        let now = Instant::now();
        Tide {
            name: name.to_owned(),
            view,
            replay: Replay::default(),
            primary: None,
            lines: HashMap::new(),
            failed: HashMap::new(),
            last: 0,
            began: now,
            due: now,
        }
    }

    /// The replicas that serve reads now.
    fn replicas(&self) -> Vec<ServerId> {
        let view = self.view.view();
        view.servers().iter().map(|server| server.id).filter(|id| view.serves_reads(*id)).collect()
    }

    /// Brings what is held in line with the view.
    fn settle(&mut self, network: &dyn Network, now: Instant) {
        let primary = self.view.view().primary();
        if primary != self.primary {
            self.leave_all(network);
            self.replay.clear();
            self.view.freshness().forget_all();
            (self.primary, self.last) = (primary, 0);
        }
        let served: Vec<ServerId> = self.lines.keys().copied().collect();
        for id in served {
            let serves = primary == Some(id) || self.view.view().serves_reads(id);
            let Some(line) = self.lines.get(&id) else { continue };
            if !serves {
                self.leave(id, network);
            } else if line.asked.is_some_and(|asked| now >= asked + LIMIT) {
                self.lose(id, "the server does not answer in time", network);
            } else if line.asked.is_none() && now >= line.used + UNUSED {
                self.leave(id, network);
            }
        }
    }

    fn leave_all(&mut self, network: &dyn Network) {
        let all: Vec<ServerId> = self.lines.keys().copied().collect();
        all.into_iter().for_each(|id| self.leave(id, network));
    }

    /// Closes the connection to a server. Whatever was known of a replica is not known any more, since nothing would tell
    /// of its restart.
    fn leave(&mut self, id: ServerId, network: &dyn Network) {
        if let Some(line) = self.lines.remove(&id) {
            line.visit.leave(network);
        }
        self.replay.forget(id);
        self.view.freshness().forget(id);
        if self.primary == Some(id) {
            self.last = 0;
        }
    }

    /// A server could not be asked.
    fn lose(&mut self, id: ServerId, why: &str, network: &dyn Network) {
        self.leave(id, network);
        let told = self.failed.get(&id).is_some_and(|(_, before)| before == why);
        self.failed.insert(id, (Instant::now() + RETRY, why.to_owned()));
        if !told && let Some(server) = self.view.view().server(id) {
            let (name, place) = (&self.name, format!("{}:{}", server.host, server.port));
            pooling::warning!("{name}: cannot ask server {place} for its position in the write-ahead log: {why}");
        }
    }
}

/// How to reach a server of a cluster, and in which database to ask.
fn way(shared: &Shared, name: &str, view: &ClusterView, id: ServerId) -> Result<(Destination, String), String> {
    let known = shared.library.all().into_iter().find_map(|knowledge| {
        let here = matches!(&knowledge.place.servers, Servers::Cluster(cluster) if cluster == name);
        knowledge.way().filter(|_| here).map(|way| (way, knowledge.place.database.clone()))
    });
    let (way, database) = known.ok_or("no client has logged in to the database yet")?;
    let server = view.view().server(id).ok_or("the server is no longer in the configuration")?;
    let address = view.address(id).cloned().ok_or("the server has not been reached yet")?;
    Ok((Destination { host: server.host.clone(), port: server.port, address, ..way }, database))
}

/// The end of the last record before a position at which the next one is to be written: at the top of a page that is
/// behind the page's header, and a replica's position, the end of a record, is before it.
fn end_of_record(lsn: u64) -> u64 {
    if HEADERS.contains(&(lsn % PAGE)) { lsn - lsn % PAGE } else { lsn }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_record_at_the_top_of_a_page_is_the_end_of_the_page_before() {
        assert_eq!(end_of_record(8192 * 5 + 24), 8192 * 5);
        assert_eq!(end_of_record(8192 * 2048 + 40), 8192 * 2048);
        assert_eq!(end_of_record(8192 * 5 + 48), 8192 * 5 + 48);
        assert_eq!(end_of_record(8192 * 5), 8192 * 5);
    }
}
