//! Reads from replicas that see the commits of their own session.
//!
//! A commit is stamped with the number of the round of questions that is to begin next ([`Freshness::commit`]), once
//! its acknowledgement has been read and before the client has it. In each round a thread (`replay_monitor.rs` of the program)
//! asks the primary for the end of its log, and the replicas for the positions that they have replayed. From the
//! answers follows (`balancer::Replay`) one number for each replica: the last round that it covers. A replica may serve
//! a read if the session's stamp is not above this number: one comparison for a statement, no question. While there are
//! no commits, the thread asks nothing. docs/design/servers.md has the reasons.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use balancer::{MAX_SERVERS, Moment, ServerId};

use crate::io::Wake;

/// The delay of replicas of which nothing is known.
const UNKNOWN: u64 = u64::MAX;
/// The bits of a number of a round: at a thousand a second they last for thirty years.
const ROUND: u64 = (1 << 40) - 1;
/// A stamp that no replica covers.
pub const NEVER: u64 = u64::MAX;

/// Wakes the thread that asks.
#[derive(Debug)]
pub struct Bell {
    waker: Box<dyn Wake>,
    rung: AtomicBool,
}

impl Bell {
    /// A bell that wakes `waker`.
    pub fn new(waker: Box<dyn Wake>) -> Self {
        Self { waker, rung: AtomicBool::new(false) }
    }

    /// Wakes the thread, unless a wakeup is still pending.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            // The wakeup fails only when the kernel has no memory left for an event; the thread looks by itself now and
            // then.
            self.waker.wake();
        }
    }

    /// Notes that the thread is awake.
    pub fn heard(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }
}

/// The knowledge of all threads about the commits of one cluster and their replay.
#[derive(Debug)]
pub struct Freshness {
    /// The number of the round that begins next.
    next: AtomicU64,
    /// The last stamp that a commit has got.
    written: AtomicU64,
    /// For each replica, by [`ServerId::index`]: in the lower bits the last round that it covers, above them the number
    /// of its doubts. Both are in one word, so that the answer to a question before a doubt finds the doubt.
    replicas: [AtomicU64; MAX_SERVERS],
    /// The time that the nearest replica takes to replay commits, in milliseconds.
    delay: AtomicU64,
    /// The time until which reads wait for a replica, in milliseconds of the board's clock.
    wanted: AtomicU64,
    /// Whether the asking thread sleeps until the next commit.
    asleep: AtomicBool,
    bell: Arc<Bell>,
}

impl Freshness {
    /// The state before anything is known.
    pub fn new(bell: Arc<Bell>) -> Self {
        Self {
            next: AtomicU64::new(1),
            written: AtomicU64::new(0),
            replicas: std::array::from_fn(|_| AtomicU64::new(0)),
            delay: AtomicU64::new(UNKNOWN),
            wanted: AtomicU64::new(0),
            asleep: AtomicBool::new(true),
            bell,
        }
    }

    /// Stamps a commit, or a unit that may have committed, when it has been acknowledged. A round that begins
    /// afterwards covers it.
    pub fn commit(&self) -> u64 {
        let stamp = self.next.load(Ordering::SeqCst);
        self.written.fetch_max(stamp, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.bell.ring();
        }
        stamp
    }

    /// Whether the thread that asks sleeps, so that the next commit has to wake it.
    pub fn set_asleep(&self, asleep: bool) {
        self.asleep.store(asleep, Ordering::SeqCst);
    }

    /// The stamp of the last commit of any session.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Whether a replica has replayed all commits up to this stamp.
    pub fn covers(&self, id: ServerId, stamp: u64) -> bool {
        self.replicas.get(id.index()).is_some_and(|known| known.load(Ordering::SeqCst) & ROUND >= stamp)
    }

    /// The time that a wait for the nearest replica is likely to take, in milliseconds; `None` if it is not known.
    pub fn delay(&self) -> Option<u64> {
        Some(self.delay.load(Ordering::Relaxed)).filter(|delay| *delay != UNKNOWN)
    }

    /// Notes that a read waits for a replica until then.
    pub fn want(&self, until: Moment) {
        self.wanted.fetch_max(until.0, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Notes that a connection to a replica has been made anew: the replica may have been restarted, and show less than
    /// before.
    pub fn doubt(&self, id: ServerId) {
        self.change(id, |known| (known | ROUND).wrapping_add(1));
    }

    /// Begins a round; gives its number. The primary must be asked after this.
    pub fn begin(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    /// The doubts of a replica so far.
    pub fn doubts(&self, id: ServerId) -> u64 {
        self.replicas.get(id.index()).map_or(0, |known| known.load(Ordering::SeqCst) & !ROUND)
    }

    /// Notes that a replica covers this round, by its answer to a question at a time of these doubts. Whether that is
    /// news.
    pub fn cover(&self, id: ServerId, round: u64, doubts: u64) -> bool {
        let before = self.change(id, |known| if known & !ROUND == doubts { doubts | round & ROUND } else { known });
        before.is_some_and(|before| before & !ROUND == doubts && before & ROUND < round)
    }

    /// Forgets a replica's position.
    pub fn forget(&self, id: ServerId) {
        self.change(id, |known| known & !ROUND);
    }

    /// Forgets the positions of all replicas: there is another primary.
    pub fn forget_all(&self) {
        self.replicas.iter().for_each(|known| {
            known.fetch_and(!ROUND, Ordering::SeqCst);
        });
        self.delay.store(UNKNOWN, Ordering::Relaxed);
    }

    /// Changes the state of a replica; gives the state before.
    fn change(&self, id: ServerId, change: impl Fn(u64) -> u64) -> Option<u64> {
        let known = self.replicas.get(id.index())?;
        known.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |known| Some(change(known))).ok()
    }

    /// Notes the time that the nearest replica takes, in milliseconds, by the last observation.
    pub fn set_delay(&self, millis: Option<u64>) {
        self.delay.store(millis.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    pub fn is_wanted(&self, now: Moment) -> bool {
        now.0 <= self.wanted.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use balancer::{Cluster, Configured, Limits, Setup};

    fn fresh() -> Freshness {
        Freshness::new(Arc::new(Bell::new(Box::new(Memory::default().poll().waker()))))
    }

    fn replica() -> ServerId {
        let setup = Setup { host: "h".to_owned(), port: 1, role: Configured::Auto, weight: 1 };
        let limits = Limits { lag_bytes: None, lag_millis: None, ban_millis: 0, patience_millis: 0 };
        Cluster::new([setup], limits, Moment(0)).view().servers()[0].id
    }

    #[test]
    fn a_round_covers_the_commits_before_it() {
        let fresh = fresh();
        let id = replica();
        assert!(fresh.covers(id, 0), "nothing was committed");
        let early = fresh.commit();
        let round = fresh.begin();
        let late = fresh.commit();
        assert!(!fresh.covers(id, early));
        assert!(fresh.cover(id, round, fresh.doubts(id)));
        assert!(fresh.covers(id, early) && !fresh.covers(id, late));
        assert_eq!(fresh.written(), late);
    }

    #[test]
    fn an_answer_from_before_a_doubt_counts_for_nothing() {
        let fresh = fresh();
        let id = replica();
        let stamp = fresh.commit();
        let round = fresh.begin();
        let doubts = fresh.doubts(id);
        fresh.doubt(id);
        assert!(!fresh.cover(id, round, doubts));
        assert!(!fresh.covers(id, stamp));
        assert!(fresh.cover(id, round, fresh.doubts(id)));
        fresh.doubt(id);
        assert!(!fresh.covers(id, stamp));
    }
}
