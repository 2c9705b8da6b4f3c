//! What becomes of a cluster in the cases that have names.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test states what it expects")]

use balancer::*;

const A: usize = 0;
const B: usize = 1;

struct Story {
    cluster: Cluster,
    ids: Vec<ServerId>,
    now: u64,
}

fn setup(host: &str, role: Configured) -> Setup {
    Setup { host: host.to_owned(), port: 5432, role, weight: 1 }
}

impl Story {
    fn new(roles: &[Configured], limits: Limits) -> Self {
        let setups = roles.iter().enumerate().map(|(number, &role)| setup(&format!("h{number}"), role));
        let cluster = Cluster::new(setups, limits, Moment(0));
        let ids = cluster.view().servers().iter().map(|server| server.id).collect();
        Self { cluster, ids, now: 0 }
    }

    fn usual() -> Self {
        let mut story = Self::new(&[Configured::Auto; 3], Limits::default());
        story.says(A, primary(1, 1000)).says(B, replica(1, 1000)).says(2, replica(1, 1000));
        story
    }

    fn says(&mut self, server: usize, seen: Observation) -> &mut Self {
        self.now += 100;
        self.cluster.observe(self.ids[server], Observation { at: Moment(self.now), ..seen });
        self
    }

    fn fails(&mut self, server: usize, kind: FailureKind) -> &mut Self {
        self.now += 100;
        self.cluster.fail(self.ids[server], Failure { at: Moment(self.now), kind });
        self
    }

    fn standing(&self, server: usize) -> Standing {
        self.cluster.view().server(self.ids[server]).unwrap().standing
    }

    fn is_banned(&self, server: usize) -> bool {
        self.cluster.view().server(self.ids[server]).unwrap().banned
    }

    fn primary(&self) -> Option<usize> {
        let id = self.cluster.view().primary()?;
        self.ids.iter().position(|other| *other == id)
    }

    fn reads(&self) -> Vec<usize> {
        (0..self.ids.len())
            .filter(|&number| {
                let id = self.ids[number];
                self.cluster.view().serves_reads(id)
            })
            .collect()
    }
}

fn primary(timeline: u32, lsn: u64) -> Observation {
    Observation {
        at: Moment(0),
        in_recovery: false,
        lsn,
        received: None,
        replay_age: None,
        timeline: Some(timeline),
        system: Some(7),
        latency: 1,
    }
}

fn replica(timeline: u32, lsn: u64) -> Observation {
    Observation { in_recovery: true, ..primary(timeline, lsn) }
}

#[test]
fn roles_are_found_by_asking() {
    let story = Story::usual();
    assert_eq!((story.primary(), story.reads()), (Some(A), vec![B, 2]));
}

#[test]
fn the_first_choice_waits_for_those_who_have_not_been_heard() {
    let mut story = Story::new(&[Configured::Auto; 2], Limits::default());
    story.says(A, primary(1, 5000));
    assert_eq!(story.primary(), None, "the other may be the newer one");
    story.says(B, primary(2, 4000));
    assert_eq!(story.primary(), Some(B));
    assert_eq!(story.standing(A), Standing::Stale);

    let mut alone = Story::new(&[Configured::Auto; 2], Limits::default());
    alone.says(A, primary(1, 5000));
    alone.cluster.advance(Moment(1001));
    assert_eq!(alone.primary(), Some(A), "patience ends");
}

#[test]
fn a_promotion_is_followed_and_the_old_primary_is_not_written_to() {
    let mut story = Story::usual();
    story.fails(A, FailureKind::Refused);
    assert_eq!(story.primary(), None);
    story.says(B, primary(2, 1000));
    assert_eq!(story.primary(), Some(B));
    story.says(A, primary(1, 9000));
    assert_eq!((story.primary(), story.standing(A)), (Some(B), Standing::Stale));
    story.fails(B, FailureKind::Refused);
    assert_eq!(story.primary(), None, "even when the new one is down");
    story.says(A, replica(2, 9000));
    assert_eq!(story.standing(A), Standing::Replica, "it has rejoined");
    story.says(A, primary(3, 9000));
    assert_eq!(story.primary(), Some(A), "and been promoted");
}

#[test]
fn a_primary_that_says_elsewhere_that_it_is_a_standby_is_none_until_it_is_asked() {
    let mut story = Story::usual();
    let (id, replica_id) = (story.ids[A], story.ids[B]);
    story.cluster.demote(id, Moment(1));
    assert_eq!(story.primary(), Some(A), "it has been asked since");
    story.now += 100;
    story.cluster.demote(replica_id, Moment(story.now));
    assert_eq!((story.primary(), story.standing(B)), (Some(A), Standing::Replica), "that is nothing new");
    story.cluster.demote(id, Moment(story.now));
    assert_eq!((story.primary(), story.standing(A)), (None, Standing::Unknown));
    assert!(!story.reads().contains(&A), "nobody knows how far it is behind");
    story.cluster.observe(id, Observation { at: Moment(story.now - 1), ..primary(1, 2000) });
    assert_eq!(story.primary(), None, "an answer from before says nothing");
    story.says(B, primary(2, 1000)).says(A, replica(2, 1000));
    assert_eq!((story.primary(), story.standing(A)), (Some(B), Standing::Replica));

    let mut story = Story::usual();
    story.cluster.demote(id, Moment(400));
    story.says(A, primary(1, 2000));
    assert_eq!(story.primary(), Some(A), "it has been promoted since it said so");

    let mut story = Story::new(&[Configured::Primary, Configured::Replica], Limits::default());
    story.fails(A, FailureKind::NotAllowed).says(B, replica(1, 1000));
    story.cluster.demote(id, Moment(400));
    assert_eq!(story.primary(), Some(A), "who cannot be asked is what the configuration says");
}

#[test]
fn a_promotion_beside_a_living_primary_is_followed() {
    let mut story = Story::usual();
    story.says(B, primary(2, 1000));
    assert_eq!((story.primary(), story.standing(A)), (Some(B), Standing::Stale));
}

#[test]
fn of_two_primaries_on_one_timeline_the_promotion_that_was_seen_wins_then_the_configuration() {
    let mut story = Story::usual();
    story.says(B, primary(1, 90_000));
    assert_eq!(story.primary(), Some(B));
    let mut story = Story::new(&[Configured::Auto, Configured::Primary], Limits::default());
    story.says(A, primary(1, 5)).says(B, primary(1, 4));
    assert_eq!((story.primary(), story.standing(A)), (Some(B), Standing::Stale));
}

#[test]
fn promotions_are_followed_without_timelines() {
    let unknown = |seen: Observation| Observation { timeline: None, system: None, ..seen };
    let mut story = Story::new(&[Configured::Auto; 2], Limits::default());
    story.says(A, unknown(primary(1, 10))).says(B, unknown(replica(1, 10)));
    story.fails(A, FailureKind::Refused).says(B, unknown(primary(1, 10)));
    assert_eq!(story.primary(), Some(B));
    story.says(A, unknown(primary(1, 10)));
    assert_eq!((story.primary(), story.standing(A)), (Some(B), Standing::Stale));
    story.fails(B, FailureKind::Refused);
    assert_eq!(story.primary(), None);
    assert!(story.cluster.unban(story.ids[A], Moment(story.now)), "an administrator vouches for it");
    assert_eq!(story.primary(), Some(A));
}

#[test]
fn a_server_configured_as_a_replica_is_never_written_to() {
    let mut story = Story::new(&[Configured::Auto, Configured::Replica], Limits::default());
    story.says(A, primary(1, 10)).says(B, Observation { system: Some(1234), ..primary(1, 10) });
    assert_eq!((story.primary(), story.reads()), (Some(A), vec![B]));
    story.fails(A, FailureKind::Refused).says(B, primary(9, 10));
    assert_eq!((story.primary(), story.reads()), (None, vec![B]));
}

#[test]
fn a_primary_that_is_configured_as_a_replica_meanwhile_is_written_to_no_more() {
    let mut story = Story::new(&[Configured::Auto; 2], Limits::default());
    story.says(A, primary(1, 10)).says(B, replica(1, 10));
    assert_eq!(story.primary(), Some(A));
    let configured = |role| [setup("h0", role), setup("h1", Configured::Auto)];
    story.cluster.reconfigure(configured(Configured::Replica), Limits::default(), Moment(story.now));
    assert_eq!((story.primary(), story.reads()), (None, vec![A, B]));
    story.says(A, primary(1, 20));
    assert_eq!(story.primary(), None, "whatever it says");
    story.cluster.reconfigure(configured(Configured::Auto), Limits::default(), Moment(story.now));
    assert_eq!(story.primary(), Some(A));
}

#[test]
fn of_two_independent_servers_the_configured_primary_is_the_primary_whoever_answers_first() {
    let alien = |seen: Observation| Observation { system: Some(8), ..seen };
    let unknown = |seen: Observation| Observation { timeline: None, system: None, ..seen };
    for roles in [[Configured::Primary, Configured::Auto], [Configured::Primary, Configured::Replica]] {
        for known in [true, false] {
            let (of_a, of_b) = match known {
                true => (primary(1, 10), alien(primary(1, 90_000))),
                false => (unknown(primary(1, 10)), unknown(primary(1, 90_000))),
            };
            for order in [[A, B], [B, A]] {
                let mut story = Story::new(&roles, Limits::default());
                for server in order {
                    story.says(server, if server == A { of_a } else { of_b });
                }
                let what = format!("{roles:?} {known} {order:?}");
                assert_eq!(story.primary(), Some(A), "{what}");
                story.says(B, of_b).says(A, of_a).fails(A, FailureKind::Refused).says(B, of_b);
                assert_eq!(story.primary(), None, "the other is not written to instead: {what}");
                story.says(A, of_a);
                assert_eq!(story.primary(), Some(A), "{what}");
            }
        }
    }
}

#[test]
fn what_has_been_settled_without_the_configured_primary_stands() {
    let alien = |seen: Observation| Observation { system: Some(8), ..seen };
    let mut story = Story::new(&[Configured::Primary, Configured::Auto], Limits::default());
    story.fails(A, FailureKind::Refused).says(B, alien(primary(1, 10)));
    assert_eq!(story.primary(), Some(B));
    story.says(A, primary(1, 10)).says(B, alien(primary(1, 10)));
    assert_eq!((story.primary(), story.standing(A)), (Some(B), Standing::Foreign), "it has been written to");
}

#[test]
fn servers_of_another_cluster_are_left_alone() {
    let mut story = Story::usual();
    story.says(2, Observation { system: Some(8), ..primary(9, 90_000) });
    assert_eq!((story.primary(), story.standing(2)), (Some(A), Standing::Foreign));
}

#[test]
fn who_cannot_be_asked_is_what_the_configuration_says() {
    let roles = [Configured::Primary, Configured::Replica, Configured::Auto];
    let mut story = Story::new(&roles, Limits::default());
    for server in 0..3 {
        story.fails(server, FailureKind::NotAllowed);
    }
    assert_eq!((story.primary(), story.reads()), (Some(A), vec![B]));
    assert_eq!(story.standing(2), Standing::Unasked);
}

#[test]
fn what_nobody_is_known_to_ask_as_is_not_given_up_before_a_user_is() {
    let mut story = Story::new(&[Configured::Auto, Configured::Auto], Limits::default());
    story.fails(A, FailureKind::NoUser).fails(B, FailureKind::NoUser);
    assert_eq!((story.standing(A), story.standing(B)), (Standing::Unknown, Standing::Unknown));
    story.says(A, primary(1, 10)).says(B, replica(1, 10));
    assert_eq!((story.primary(), story.reads()), (Some(A), vec![B]));
    story.fails(A, FailureKind::Refused).fails(A, FailureKind::NoUser);
    assert_ne!(story.standing(A), Standing::Unknown);
}

#[test]
fn a_role_in_the_configuration_counts_before_a_user_is_known() {
    let mut story = Story::new(&[Configured::Primary, Configured::Replica], Limits::default());
    story.fails(A, FailureKind::NoUser).fails(B, FailureKind::NoUser);
    assert_eq!((story.primary(), story.reads()), (Some(A), vec![B]));
}

#[test]
fn one_silence_is_forgiven_and_two_are_not() {
    let mut story = Story::usual();
    story.fails(A, FailureKind::TimedOut);
    assert_eq!(story.primary(), Some(A));
    story.fails(A, FailureKind::TimedOut);
    assert_eq!((story.primary(), story.standing(A)), (None, Standing::Down));
    story.says(A, primary(1, 1000));
    assert_eq!(story.primary(), Some(A), "the primary is never banned");
}

#[test]
fn a_replica_that_failed_returns_after_ban_time() {
    let mut story = Story::usual();
    story.fails(B, FailureKind::Refused).says(B, replica(1, 1000));
    assert!(story.is_banned(B));
    assert_eq!(story.reads(), [2]);
    let until = story.cluster.report()[B].ban.unwrap().until;
    story.cluster.advance(Moment(until.0 - 1));
    assert_eq!(story.reads(), [2]);
    story.cluster.advance(until);
    assert_eq!(story.reads(), [B, 2]);
}

#[test]
fn the_last_replicas_bans_are_lifted_except_an_administrators() {
    let mut story = Story::usual();
    let at = Moment(story.now);
    story.cluster.complain(story.ids[B], at);
    assert_eq!(story.reads(), [2]);
    story.cluster.complain(story.ids[2], at);
    assert_eq!(story.reads(), [B, 2]);
    story.cluster.ban(story.ids[B], 1000, at);
    story.cluster.ban(story.ids[2], 2000, at);
    assert!(story.reads().is_empty());
    story.cluster.unban(story.ids[2], at);
    assert_eq!(story.reads(), [2]);
    story.cluster.advance(at.plus(1000));
    assert_eq!(story.reads(), [B, 2]);
}

#[test]
fn a_lagging_replica_leaves_and_comes_back() {
    let mut story = Story::new(&[Configured::Auto; 2], Limits { lag_bytes: Some(100), ..Limits::default() });
    story.says(A, primary(1, 1000)).says(B, replica(1, 1000));
    story.says(A, primary(1, 1101)).says(B, replica(1, 1000));
    assert_eq!(story.standing(B), Standing::Lagging);
    story.says(B, replica(1, 1050));
    assert_eq!(story.standing(B), Standing::Lagging, "51 bytes are more than half of the limit");
    story.says(B, replica(1, 1051));
    assert_eq!(story.standing(B), Standing::Replica);

    let mut story = Story::new(&[Configured::Auto; 2], Limits { lag_millis: Some(1000), ..Limits::default() });
    story.says(A, primary(1, 1000)).says(B, replica(1, 1000));
    story.says(A, primary(1, 1001));
    for _ in 0..10 {
        story.says(B, replica(1, 1000));
        assert_eq!(story.standing(B), Standing::Replica);
    }
    story.says(B, replica(1, 1000));
    assert_eq!(story.standing(B), Standing::Lagging);
    story.fails(A, FailureKind::Refused).says(B, replica(1, 1000));
    assert_eq!(story.standing(B), Standing::Lagging, "it has not caught up");
    story.says(B, replica(1, 1001));
    assert_eq!(story.standing(B), Standing::Replica, "it has, though the primary is down");
    story.says(A, primary(1, 1001)).says(B, replica(1, 1001));
    assert_eq!(story.standing(B), Standing::Replica);
}

#[test]
fn a_standby_that_replayed_what_the_new_primary_never_wrote_is_left_out() {
    let mut story = Story::usual();
    story.says(2, replica(1, 2000)).fails(A, FailureKind::Refused).says(B, primary(2, 1500));
    assert_eq!(story.standing(2), Standing::Diverged);
    story.says(B, primary(2, 5000)).says(2, replica(1, 2500));
    assert_eq!(story.standing(2), Standing::Diverged, "the new primary's growth changes nothing");
    story.says(2, replica(2, 5000));
    assert_eq!(story.standing(2), Standing::Replica, "it follows the new timeline");
}

#[test]
fn servers_keep_their_names_through_a_change_of_configuration() {
    let mut story = Story::usual();
    story.cluster.ban(story.ids[B], 1000, Moment(story.now));
    let setups = [setup("new", Configured::Auto), setup("h1", Configured::Auto), setup("h0", Configured::Auto)];
    story.cluster.reconfigure(setups, Limits::default(), Moment(story.now));
    let view = story.cluster.view();
    let names: Vec<(usize, &str)> = view.servers().iter().map(|s| (s.id.index(), s.host.as_str())).collect();
    assert_eq!(names, [(3, "new"), (1, "h1"), (0, "h0")]);
    assert_eq!(story.primary(), Some(A));
    assert!(story.is_banned(B));
}
