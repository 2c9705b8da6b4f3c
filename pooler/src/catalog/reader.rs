//! The thread that reads catalogs: it looks after the databases that somebody uses, each over one connection of its own.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use balancer::ServerId;
use classify::Catalog;
use mio::{Events, Poll, Token};
use slab::Slab;
use wire::backend::tag::{ERROR_RESPONSE, NOTIFICATION_RESPONSE};

use super::question::{Answer, MapAnswer, NAME, Question};
use super::visit::{Guest, Visit};
use crate::net::Epoll;
use pooling::catalog::{Destination, Knowledge, Place, Servers};
use pooling::config::Config;
use pooling::io::Network;
use pooling::permit::Permit;

use pooling::model::keys::WorkerId;
use pooling::model::limits::{Use, Waiter};
use pooling::model::quota::{Limit, Quota};
use pooling::monitor::ClusterView;
use pooling::shared::{Message, Shared};
use pooling::sync::lock;

/// How often it is asked whether a catalog has changed, while its database is in use.
const CHECK: Duration = Duration::from_secs(5);
/// How soon after the last time, when something is not in it that may have been created since.
const SOON: Duration = Duration::from_secs(1);
/// How soon while a slot is about to move: the hub waits until the map that says so is in force.
const CLOSING: Duration = Duration::from_millis(20);
/// After a round there is quiet for so many times as long as it took, so that definitions without end keep a server busy
/// for a tenth of the time with this.
const QUIET: u32 = 9;
/// A connection is closed when its database has not been used for so long.
const UNUSED: Duration = Duration::from_secs(30);
/// The time without use after which the connection is closed if the database's pools have no connection left: after a
/// PAUSE, say, before which nobody could drop or rename the database.
const DESERTED: Duration = Duration::from_secs(1);
/// How long to wait after a failure; doubled each time, up to [`PATIENCE`].
const RETRY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);
/// After so many failures it is not doubled any more.
const MANY: u32 = 6;
/// A round that takes longer has failed: the server ends its statements by then.
const LIMIT: Duration = Duration::from_secs(75);
/// How often the databases are looked at when nothing else happens.
const TICK: Duration = Duration::from_secs(1);
/// How soon after the last time, when its connection had to make way for a client under a limit on connections: before
/// the catalog counts as outdated.
const YIELDED: Duration = Duration::from_secs(30);
/// How soon it is looked for the place that was asked for under such a limit.
const PLACE: Duration = Duration::from_millis(50);
/// Read at once; over TLS it takes a whole record.
const READ: usize = 65_536;
/// The token of the waker; connections have theirs from 0 on.
pub const WAKER: Token = Token(usize::MAX);

/// A database that is looked after.
struct Reading {
    knowledge: Weak<Knowledge>,
    place: Place,
    visit: Option<Visit>,
    /// The place of its connection under the limits on connections, and these.
    permit: Option<(Permit, [Limit; 2])>,
    /// The place that it waits for under such a limit.
    awaited: Option<Awaited>,
    /// Its connection has made way for a client.
    yielded: bool,
    hub: Hub,
    question: Option<Question>,
    /// The fingerprint of the catalog that is posted, and what it was made of.
    fingerprint: Option<String>,
    digest: u64,
    begun: Instant,
    ended: Option<Instant>,
    /// How long the last round took.
    took: Duration,
    failures: Failures,
    /// There is nothing to do for a while though a round is due: nobody uses it, or there is no way.
    idle: bool,
}

/// What the hub has said of its map of shards, if there is one.
#[derive(Default)]
struct Hub {
    /// It has told that the map has changed.
    notified: bool,
    /// For how long it lets the map be in force.
    lease: Option<Duration>,
}

/// Failures since the last success.
#[derive(Default)]
struct Failures {
    count: u32,
    last: String,
    /// The way that the last one was met on.
    by: Option<Destination>,
}

/// A place that is waited for.
struct Awaited {
    waiter: Waiter,
    /// When it was looked for last.
    tried: Instant,
}

/// Whoever visits when nothing is asked: leaves when the server says why, and hears that the map of shards has changed.
#[derive(Default)]
struct Nobody {
    notified: bool,
}

impl Guest for Nobody {
    fn enter(&mut self, _out: &mut Vec<u8>) {}

    fn hear(&mut self, tag: u8, _body: &[u8], _out: &mut Vec<u8>) -> Result<(), String> {
        self.notified |= tag == NOTIFICATION_RESPONSE;
        if tag == ERROR_RESPONSE { Err("the server has closed the connection".to_owned()) } else { Ok(()) }
    }
}

/// What reads catalogs.
struct Reader {
    shared: Arc<Shared>,
    poll: Poll,
    readings: Slab<Reading>,
    scratch: Vec<u8>,
    /// What has been decided about clusters, by name.
    clusters: HashMap<String, ClusterView>,
}

/// Starts the thread. `poll` has the waker of the library, under [`WAKER`].
///
/// # Errors
/// Those of the system.
pub fn spawn(shared: Arc<Shared>, poll: Poll) -> io::Result<()> {
    let reader = Reader { shared, poll, readings: Slab::new(), scratch: vec![0; READ], clusters: HashMap::new() };
    std::thread::Builder::new().name("catalogs".to_owned()).spawn(move || {
        if let Err(error) = reader.run() {
            pooling::warning!("the thread that reads catalogs has ended: {error}");
        }
    })?;
    Ok(())
}

impl Reader {
    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        loop {
            let wait = self.wait(Instant::now());
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => (),
            }
            for event in &events {
                if event.token() == WAKER {
                    continue;
                }
                let key = event.token().0;
                if let Some(visit) = self.readings.get_mut(key).and_then(|reading| reading.visit.as_mut()) {
                    visit.heard(event.is_read_closed() || event.is_error());
                    self.go_on(key);
                }
            }
            // In this order: what is told after it was looked at wakes again.
            self.shared.library.heard();
            self.take_up();
            let keys: Vec<usize> = self.readings.iter().map(|(key, _)| key).collect();
            for key in keys {
                self.look_after(key);
            }
        }
    }

    /// How long there is nothing to do unless something is heard.
    fn wait(&self, now: Instant) -> Option<Duration> {
        let due = |reading: &Reading| if reading.idle { TICK } else { reading.due().saturating_duration_since(now) };
        let soonest = self.readings.iter().map(|(_, reading)| due(reading)).min()?;
        // Rounded up: a poll that ends just before the moment would only be made again.
        Some(soonest.min(TICK) + Duration::from_millis(1))
    }

    /// Takes databases up that are new, and forgets those that nobody holds any more.
    fn take_up(&mut self) {
        let network = &Epoll(self.poll.registry());
        let before = self.readings.len();
        self.readings.retain(|_, reading| {
            let held = reading.knowledge.strong_count() > 0;
            if !held {
                reading.leave(network, &self.shared);
            }
            held
        });
        if self.readings.len() < before {
            self.queue();
        }
        for knowledge in self.shared.library.all() {
            if !self.readings.iter().any(|(_, reading)| reading.knowledge.as_ptr() == Arc::as_ptr(&knowledge)) {
                self.readings.insert(Reading::new(&knowledge));
            }
        }
    }

    /// Begins or ends what is due for a database.
    fn look_after(&mut self, key: usize) {
        let now = Instant::now();
        let Some(reading) = self.readings.get_mut(key) else { return };
        let Some(knowledge) = reading.knowledge.upgrade() else { return };
        // A round is over soon, and what it has asked for is not asked for in vain.
        if reading.permit.is_some() && reading.question.is_none() && reading.visit.is_some() && knowledge.is_crowded() {
            reading.yielded = true;
            return reading.leave(&Epoll(self.poll.registry()), &self.shared);
        }
        if reading.permit.is_none() && knowledge.is_crowded() && reading.visit.is_some() {
            reading.failures.count = reading.failures.count.max(MANY);
            return self.fail(key, "the server has no room for one more connection".to_owned());
        }
        if reading.question.is_some() {
            if now.saturating_duration_since(reading.begun) >= LIMIT {
                self.fail(key, "no answer in time".to_owned());
            }
            return;
        }
        let unused = knowledge.unused(now);
        // A map of shards is kept in force.
        let asleep = !knowledge.shard_map.is_wanted();
        let unused = asleep && unused >= UNUSED || unused >= DESERTED && self.is_deserted(&knowledge.place);
        let Some(reading) = self.readings.get_mut(key) else { return };
        reading.idle = unused;
        if unused {
            reading.leave(&Epoll(self.poll.registry()), &self.shared);
            if reading.awaited.take().is_some() {
                self.queue();
            }
        } else if now >= reading.due() {
            match self.way(&knowledge) {
                Some(way) => self.begin(key, &knowledge, way),
                None => self.readings.get_mut(key).into_iter().for_each(|reading| reading.idle = true),
            }
        }
    }

    /// Whether no pool of the database has a server connection.
    fn is_deserted(&self, place: &Place) -> bool {
        let config = self.shared.config();
        let of = |name: &str| Place::of(&config, name).as_ref() == Some(place);
        !lock(&self.shared.counts.servers).has_connections(self.shared.mailboxes.len(), of)
    }

    /// How to reach the server to ask; none if there is none now.
    fn way(&mut self, knowledge: &Knowledge) -> Option<Destination> {
        let way = knowledge.way()?;
        let Servers::Cluster(name) = &knowledge.place.servers else { return Some(way) };
        let board = &self.shared.board;
        if !self.clusters.contains_key(name) {
            self.clusters.insert(name.clone(), ClusterView::new(board, name, 0)?);
        }
        let cluster = self.clusters.get_mut(name)?;
        cluster.refresh(board);
        let id = match cluster.view().primary() {
            Some(primary) => primary,
            // A replica's catalog is as good until there is a primary again, unless it may lack what was seen since.
            None if !knowledge.is_behind() => self.replica(name)?,
            None => return None,
        };
        let cluster = self.clusters.get(name)?;
        let server = cluster.view().server(id)?;
        let address = cluster.address(id)?.clone();
        Some(Destination { host: server.host.clone(), port: server.port, address, ..way })
    }

    fn replica(&self, name: &str) -> Option<ServerId> {
        let view = self.clusters.get(name)?.view();
        view.servers().iter().map(|server| server.id).find(|id| view.serves_reads(*id))
    }

    /// A place for one more connection under the limits of its database and user; none without limits. An error when
    /// they leave no room: it is queued for, as for a client that has waited for long.
    fn permit(&mut self, key: usize, way: &Destination, config: &Config) -> Result<Option<(Permit, [Limit; 2])>, ()> {
        let names = (&*way.database, &*way.account.user);
        let quota = Quota { database: config.database_servers(names.0), user: config.user_servers(names.1) };
        if quota.is_unlimited() {
            return Ok(None);
        }
        let (shared, own) = (&self.shared, WorkerId(self.shared.mailboxes.len()));
        if lock(&shared.counts.servers).bars(names.0, names.1, quota, Use::Catalog).is_some() {
            // There will be room when the limit is another.
            if let Some(reading) = self.readings.get_mut(key) {
                (reading.ended, reading.yielded) = (Some(Instant::now()), true);
                reading.awaited = None;
            }
            self.queue();
            return Err(());
        }
        let Some(reading) = self.readings.get_mut(key) else { return Err(()) };
        let limits = [Limit::Database(names.0.into()), Limit::User(names.1.into())];
        // Said first: a client that finds the place taken must find who has it.
        shared.library.counts_under(&limits, &reading.knowledge);
        let limit = match Permit::take(&shared.counts, own, names, quota, Use::Catalog) {
            Ok(permit) => {
                if reading.awaited.take().is_some() {
                    self.queue();
                }
                return Ok(Some((permit, limits)));
            }
            Err(limit) => limit,
        };
        shared.library.counts_no_more(&limits, &reading.knowledge);
        let tried = Instant::now();
        let since = reading.awaited.as_ref().map_or(tried, |awaited| awaited.waiter.since);
        let (database, user) = (names.0.into(), names.1.into());
        let waiter = Waiter { worker: own.0, database, user, quota, since, has: 0 };
        reading.awaited = Some(Awaited { waiter, tried });
        let others = lock(&shared.counts.servers).others(own.0, &limit);
        for other in others {
            shared.tell(WorkerId(other), Message::MakeRoom(limit.clone(), own));
        }
        self.queue();
        Err(())
    }

    /// Queues for the places that all databases wait for.
    fn queue(&self) {
        let waiters = self.readings.iter().filter_map(|(_, reading)| Some(reading.awaited.as_ref()?.waiter.clone()));
        let own = self.shared.mailboxes.len();
        lock(&self.shared.counts.servers).replace(own, waiters.collect(), Instant::now());
    }

    /// Begins a round.
    fn begin(&mut self, key: usize, knowledge: &Knowledge, way: Destination) {
        let config = self.shared.config();
        let Some(reading) = self.readings.get_mut(key) else { return };
        if reading.visit.as_ref().is_some_and(|visit| !visit.is_like(&way, &config)) {
            reading.leave(&Epoll(self.poll.registry()), &self.shared);
        }
        if reading.visit.is_none() {
            let Ok(permit) = self.permit(key, &way, &config) else { return };
            if let Some(reading) = self.readings.get_mut(key) {
                reading.permit = permit;
            }
        }
        let Some(reading) = self.readings.get_mut(key) else { return };
        let network = &Epoll(self.poll.registry());
        (reading.yielded, reading.hub.notified) = (false, false);
        let mut asked = Question::new(knowledge.begin_round(), reading.fingerprint.clone());
        if knowledge.shard_map.is_wanted() {
            asked = asked.with_shards(
                knowledge.shard_map.last().map(|version| version.number),
                knowledge.place.automatic.clone(),
            );
        }
        let question = reading.question.insert(asked);
        reading.begun = Instant::now();
        reading.failures.by = knowledge.way();
        let outcome = match &mut reading.visit {
            Some(visit) => visit.ask(question),
            None => Visit::begin(way, &reading.place.database, NAME, config, key, network)
                .map(|visit| reading.visit = Some(visit)),
        };
        match outcome {
            Ok(()) => self.go_on(key),
            Err(why) => self.fail(key, why),
        }
    }

    /// Goes on with what has come.
    fn go_on(&mut self, key: usize) {
        let Some(reading) = self.readings.get_mut(key) else { return };
        let Some(visit) = &mut reading.visit else { return };
        let network = &Epoll(self.poll.registry());
        let Some(question) = &mut reading.question else {
            let mut nobody = Nobody::default();
            if visit.ready(&mut nobody, network, &mut self.scratch).is_err() {
                reading.leave(network, &self.shared);
            }
            reading.hub.notified |= nobody.notified;
            return;
        };
        match visit.ready(question, network, &mut self.scratch) {
            Ok(()) => {
                reading.hub.notified |= std::mem::take(&mut question.notified);
                if let Some(answer) = question.answer() {
                    let (changes, map) = (question.changes, question.map());
                    match map {
                        Ok(map) => self.answered(key, answer, changes, map),
                        Err(why) => self.fail(key, why),
                    }
                }
            }
            Err(why) => self.fail(key, why),
        }
    }

    /// A round has ended well.
    fn answered(&mut self, key: usize, answer: Answer, changes: u64, map: Option<MapAnswer>) {
        let Some(reading) = self.readings.get_mut(key) else { return };
        reading.question = None;
        let now = Instant::now();
        reading.took = now.saturating_duration_since(reading.begun);
        reading.ended = Some(now);
        let Some(knowledge) = reading.knowledge.upgrade() else { return };
        if let Some(rows) = &answer.rows {
            if reading.fingerprint.is_some() {
                knowledge.renew();
            }
            let mut hasher = DefaultHasher::new();
            rows.hash(&mut hasher);
            let digest = hasher.finish();
            // What clients create and drop all the time often changes the fingerprint and nothing else.
            if reading.fingerprint.is_none() || digest != reading.digest {
                match Catalog::from_rows(rows.iter().map(|row| row.each_ref().map(String::as_str))) {
                    Ok(catalog) => knowledge.post(Arc::new(catalog)),
                    Err(error) => return self.fail(key, error.to_string()),
                }
            }
            reading.digest = digest;
        }
        if reading.failures.count > 0 {
            pooling::info!("{}: the catalog can be read again", reading.place);
        }
        reading.failures.count = 0;
        reading.failures.last.clear();
        knowledge.confirm(changes, reading.begun);
        if let Some(MapAnswer { lease, version }) = map {
            if let Some(version) = version {
                let (number, shards) = (version.number, version.map.shards.len());
                pooling::info!("{}: version {number} of the map of shards was read: {shards} shards", reading.place);
                knowledge.shard_map.post(version);
            }
            knowledge.shard_map.confirm(reading.begun, lease);
            reading.hub.lease = Some(lease);
            self.shared.tell_all(|| Message::ShardMap);
        }
        // Said when the workers go by it, not before.
        if let (None, Some(rows)) = (reading.fingerprint.replace(answer.fingerprint), &answer.rows) {
            let (count, took) = (rows.len(), reading.took.as_secs_f64());
            pooling::info!("{}: the catalog was read: {count} rows in {took:.3} s", reading.place);
        }
    }

    /// A round has failed: what has come of it is thrown away.
    fn fail(&mut self, key: usize, why: String) {
        let Some(reading) = self.readings.get_mut(key) else { return };
        reading.question = None;
        reading.leave(&Epoll(self.poll.registry()), &self.shared);
        let now = Instant::now();
        reading.took = now.saturating_duration_since(reading.begun);
        reading.ended = Some(now);
        reading.failures.count = reading.failures.count.saturating_add(1);
        if reading.failures.last != why {
            pooling::warning!("{}: cannot read the catalog: {why}", reading.place);
            reading.failures.last = why;
        }
    }
}

impl Reading {
    fn new(knowledge: &Arc<Knowledge>) -> Self {
        Self {
            knowledge: Arc::downgrade(knowledge),
            place: knowledge.place.clone(),
            visit: None,
            permit: None,
            awaited: None,
            yielded: false,
            hub: Hub::default(),
            question: None,
            fingerprint: None,
            digest: 0,
            begun: Instant::now(),
            ended: None,
            took: Duration::ZERO,
            failures: Failures::default(),
            idle: false,
        }
    }

    /// Closes its connection, and gives its place back, for which clients may wait.
    fn leave(&mut self, network: &dyn Network, shared: &Shared) {
        if let Some(visit) = self.visit.take() {
            visit.leave(network);
        }
        let Some((permit, limits)) = self.permit.take() else { return };
        shared.library.counts_no_more(&limits, &self.knowledge);
        drop(permit);
        for limit in limits {
            shared.tell_all(|| Message::Room(limit.clone()));
        }
    }

    /// When the next round begins, or the one under way must have ended.
    fn due(&self) -> Instant {
        if self.question.is_some() {
            return self.begun + LIMIT;
        }
        if let Some(Awaited { waiter: Waiter { since, .. }, tried }) = self.awaited {
            let long = tried.saturating_duration_since(since) >= SOON;
            return tried + if long { SOON } else { PLACE };
        }
        let Some(ended) = self.ended else { return self.begun };
        let knowledge = self.knowledge.upgrade();
        let sharded = knowledge.as_ref().is_some_and(|knowledge| knowledge.shard_map.is_wanted());
        if self.failures.count > 0 {
            // Somebody has been let in otherwise since.
            let other =
                knowledge.and_then(|knowledge| knowledge.way()).is_some_and(|way| self.failures.by != Some(way));
            let doubled = RETRY * (1 << self.failures.count.saturating_sub(1).min(MANY));
            let patience = if sharded { RETRY } else { PATIENCE };
            return if other { ended + RETRY } else { ended + doubled.min(patience) };
        }
        let is_closing = |known: &Arc<Knowledge>| known.shard_map.last().is_some_and(|map| map.is_closing(ended));
        let after = match knowledge {
            _ if self.hub.notified && !self.yielded => return ended,
            Some(knowledge) if sharded && is_closing(&knowledge) && !self.yielded => return ended + CLOSING,
            Some(knowledge) if knowledge.is_behind() && !self.yielded => Duration::ZERO,
            Some(knowledge) if knowledge.is_behind() => SOON,
            _ if self.yielded => YIELDED,
            Some(knowledge) if knowledge.is_wanted() || sharded => SOON,
            _ => CHECK,
        };
        let due = ended + after.max(self.took * QUIET);
        // Long before the map is out of force.
        self.hub.lease.map_or(due, |lease| due.min((self.begun + lease / 4).max(ended + CLOSING)))
    }
}
