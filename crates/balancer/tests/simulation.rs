//! Random lives of clusters on a simulated clock: servers die, return, are promoted (sometimes beside a living
//! primary), rejoin, lag, answer late or not at all. After every answer the rules must hold.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test states what it expects")]

use balancer::{
    BanReason, Cluster, Configured, Failure, FailureKind, Limits, Moment, Observation, ServerId, Setup, Standing,
    Tried, Turn, Want,
};
use proptest::prelude::*;

const INTERVAL: u64 = 500;
const LIMIT: u64 = 1000;

/// What a server really is.
#[derive(Debug, Clone)]
struct Real {
    alive: bool,
    in_recovery: bool,
    timeline: u32,
    lsn: u64,
    /// Bytes that it stays behind its primary.
    behind: u64,
    /// Whether it leaves questions unanswered.
    silent: bool,
}

#[derive(Debug, Clone)]
enum Act {
    Kill(usize),
    /// Starts as what it was.
    Start(usize),
    /// Becomes a primary on a new timeline, whatever the others are.
    Promote(usize),
    /// Comes back as a standby of the newest primary.
    Rejoin(usize),
    Lag(usize, u64),
    Silence(usize, bool),
    Complain(usize),
    AdminBan(usize, u64),
    Unban(usize),
    Write(u64),
    /// So many rounds of asking pass.
    Rounds(u8),
}

fn act(count: usize) -> impl Strategy<Value = Act> + Clone {
    let server = 0..count;
    prop_oneof![
        1 => server.clone().prop_map(Act::Kill),
        2 => server.clone().prop_map(Act::Start),
        2 => server.clone().prop_map(Act::Promote),
        2 => server.clone().prop_map(Act::Rejoin),
        1 => (server.clone(), prop_oneof![Just(0), 1..3 * LIMIT]).prop_map(|(server, by)| Act::Lag(server, by)),
        1 => (server.clone(), any::<bool>()).prop_map(|(server, silent)| Act::Silence(server, silent)),
        1 => server.clone().prop_map(Act::Complain),
        1 => (server.clone(), 1..20_000_u64).prop_map(|(server, millis)| Act::AdminBan(server, millis)),
        1 => server.prop_map(Act::Unban),
        2 => (1..2000_u64).prop_map(Act::Write),
        6 => (1..4_u8).prop_map(Act::Rounds),
    ]
}

struct World {
    real: Vec<Real>,
    cluster: Cluster,
    ids: Vec<ServerId>,
    now: u64,
    timelines: u32,
    /// The highest timeline on which a server has answered that it is a primary.
    highest: u32,
    /// What each server answered last; `None` for no answer.
    heard: Vec<Option<Observation>>,
    silences: Vec<u32>,
    turn: Turn,
}

impl World {
    fn new(count: usize) -> Self {
        let setups = (0..count).map(|number| Setup {
            host: format!("h{number}"),
            port: 5432,
            role: Configured::Auto,
            weight: 1,
        });
        let limits = Limits { lag_bytes: Some(LIMIT), ban_millis: 5000, ..Limits::default() };
        let cluster = Cluster::new(setups, limits, Moment(0));
        let ids = cluster.view().servers().iter().map(|server| server.id).collect();
        let real =
            |number| Real { alive: true, in_recovery: number > 0, timeline: 1, lsn: 10_000, behind: 0, silent: false };
        Self {
            real: (0..count).map(real).collect(),
            cluster,
            ids,
            now: 0,
            timelines: 1,
            highest: 1,
            heard: vec![None; count],
            silences: vec![0; count],
            turn: Turn::new(3),
        }
    }

    /// The living server on the newest timeline that is not in recovery.
    fn newest(&self) -> Option<usize> {
        (0..self.real.len())
            .filter(|&number| self.real[number].alive && !self.real[number].in_recovery)
            .max_by_key(|&number| self.real[number].timeline)
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Kill(server) => self.real[server].alive = false,
            Act::Start(server) => self.real[server].alive = true,
            Act::Promote(server) => {
                let real = &mut self.real[server];
                if real.alive && real.in_recovery {
                    self.timelines += 1;
                    (real.in_recovery, real.timeline) = (false, self.timelines);
                }
            }
            Act::Rejoin(server) => {
                if let Some(primary) = self.newest().filter(|&primary| primary != server) {
                    let (timeline, lsn) = (self.real[primary].timeline, self.real[primary].lsn);
                    self.real[server] =
                        Real { alive: true, in_recovery: true, timeline, lsn, behind: 0, silent: false };
                }
            }
            Act::Lag(server, by) => self.real[server].behind = by,
            Act::Silence(server, silent) => self.real[server].silent = silent,
            Act::Complain(server) => self.cluster.complain(self.ids[server], Moment(self.now)),
            Act::AdminBan(server, millis) => self.cluster.ban(self.ids[server], millis, Moment(self.now)),
            // Vouching for an old primary is the administrator's own affair, so it is not tried here.
            Act::Unban(server) if self.cluster.view().primary().is_some() => {
                self.cluster.unban(self.ids[server], Moment(self.now));
            }
            Act::Unban(_) => (),
            Act::Write(bytes) => {
                for real in &mut self.real {
                    real.lsn += if real.alive && !real.in_recovery { bytes } else { 0 };
                }
                self.follow();
            }
            Act::Rounds(count) => {
                for _ in 0..count {
                    self.round();
                }
            }
        }
    }

    /// Standbys replay what the primary of their timeline has, or the newest one.
    fn follow(&mut self) {
        let Some(primary) = self.newest() else { return };
        let (timeline, lsn) = (self.real[primary].timeline, self.real[primary].lsn);
        for real in self.real.iter_mut().filter(|real| real.alive && real.in_recovery) {
            real.timeline = real.timeline.max(timeline);
            real.lsn = real.lsn.max(lsn.saturating_sub(real.behind));
        }
    }

    /// Everybody is asked once.
    fn round(&mut self) {
        self.now += INTERVAL;
        self.follow();
        for number in 0..self.real.len() {
            let real = self.real[number].clone();
            let at = Moment(self.now + number as u64);
            if real.alive && !real.silent {
                let seen = Observation {
                    at,
                    in_recovery: real.in_recovery,
                    lsn: real.lsn,
                    received: None,
                    replay_age: None,
                    timeline: Some(real.timeline),
                    system: Some(99),
                    latency: 1,
                };
                if !real.in_recovery {
                    self.highest = self.highest.max(real.timeline);
                }
                self.heard[number] = Some(seen);
                self.silences[number] = 0;
                self.cluster.observe(self.ids[number], seen);
            } else {
                let kind = if real.alive { FailureKind::TimedOut } else { FailureKind::Refused };
                self.silences[number] += if real.alive { 1 } else { 2 };
                if self.silences[number] >= 2 || self.heard[number].is_none() {
                    self.heard[number] = None;
                }
                self.cluster.fail(self.ids[number], Failure { at, kind });
            }
            self.check();
        }
    }

    /// What must hold at every moment.
    fn check(&mut self) {
        let view = self.cluster.view();
        let primaries = view.servers().iter().filter(|server| server.standing == Standing::Primary).count();
        assert!(primaries <= 1, "two primaries: {view:?}");
        let number = |id: ServerId| self.ids.iter().position(|other| *other == id).unwrap();
        if let Ok(id) = view.choose(Want::Write, balancer::Strategy::Random, &[], Tried::default(), &mut self.turn) {
            let seen = self.heard[number(id)].expect("a server that answers");
            assert!(!seen.in_recovery, "a write to a replica: {view:?}");
            assert_eq!(seen.timeline, Some(self.highest), "a write to an old primary: {view:?}");
        }
        for strategy in [
            balancer::Strategy::Random,
            balancer::Strategy::RoundRobin,
            balancer::Strategy::LeastOutstanding,
            balancer::Strategy::Weighted,
        ] {
            for want in [Want::Replica, Want::ReplicaOrPrimary, Want::Any] {
                let Ok(id) = view.choose(want, strategy, &[], Tried::default(), &mut self.turn) else { continue };
                let listed = view.server(id).unwrap();
                assert!(!listed.banned, "a read from a banned server: {view:?}");
                let seen = self.heard[number(id)].expect("a server that answers");
                if view.primary() == Some(id) {
                    assert_ne!(want, Want::Replica);
                } else {
                    assert!(seen.in_recovery, "a read from an old primary: {view:?}");
                    let report = self.cluster.report();
                    let lag = report.iter().find(|server| server.id == id).unwrap().lag.unwrap_or_default();
                    assert!(lag.bytes <= LIMIT, "a read from a lagging replica: {lag:?}");
                }
            }
        }
        let replicas = || view.servers().iter().filter(|server| server.standing == Standing::Replica);
        let automatic = |id| {
            let report = self.cluster.report();
            let ban = report.iter().find(|server| server.id == id).unwrap().ban;
            ban.is_some_and(|ban| ban.reason != BanReason::Admin)
        };
        if replicas().next().is_some() && replicas().all(|server| server.banned) {
            assert!(!replicas().any(|server| automatic(server.id)), "the last replicas are banned: {view:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_rules_hold(
        (count, acts) in (2..5_usize).prop_flat_map(|count| (Just(count), prop::collection::vec(act(count), 1..60)))
    ) {
        let mut world = World::new(count);
        world.round();
        for act in &acts {
            world.act(act);
            world.check();
        }
        // Whoever was promoted last and lives is found by asking everybody once, if it answers.
        for real in &mut world.real {
            real.silent = false;
        }
        world.round();
        let newest = world.newest().filter(|&number| world.real[number].timeline == world.highest);
        let found = world.cluster.view().primary();
        assert_eq!(found, newest.map(|number| world.ids[number]), "{:?} {:?}", world.real, world.cluster.report());
        // And once nothing happens any more, every replica in order serves: bans end, lag is made up for.
        for real in &mut world.real {
            real.behind = 0;
        }
        for _ in 0..60 {
            world.round();
        }
        for (number, real) in world.real.iter().enumerate() {
            let serves = world.cluster.view().serves_reads(world.ids[number]);
            if newest.is_none() && !serves {
                continue; // What the last primary wrote may have gone with it, and a replica may lack it for ever.
            }
            assert_eq!(serves, real.alive && real.in_recovery, "{number} {real:?} {:?}", world.cluster.report());
        }
    }
}
