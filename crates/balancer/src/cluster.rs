//! A primary and its replicas: the last reports of each, and the decisions that follow from them.

use crate::lag::{History, Lag};
use crate::{
    Ban, BanReason, Configured, Failure, FailureKind, Limits, Listed, MAX_SERVERS, Moment, Observation, ServerId,
    Setup, Standing, View,
};

/// Questions in a row that a living server may leave unanswered before it counts as down, where nothing but time
/// speaks against it: a busy machine stalls now and then.
const SILENCES: u32 = 2;

/// Whether a server lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Nothing is known of it yet, or no longer.
    Never,
    /// It answers.
    Up,
    /// It lives, but lets nobody ask.
    Mute,
    /// It does not answer.
    Down,
}

/// What is known of a server.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub setup: Setup,
    pub life: Life,
    pub last: Option<Observation>,
    pub failure: Option<Failure>,
    pub silences: u32,
    /// When it was seen to have been promoted.
    pub promoted: Option<Moment>,
    pub fenced: bool,
    pub diverged: bool,
    pub lagging: bool,
    pub lag: Option<Lag>,
    pub ban: Option<Ban>,
    pub standing: Standing,
}

impl Member {
    fn new(setup: Setup) -> Self {
        Self {
            setup,
            life: Life::Never,
            last: None,
            failure: None,
            silences: 0,
            promoted: None,
            fenced: false,
            diverged: false,
            lagging: false,
            lag: None,
            ban: None,
            standing: Standing::Unknown,
        }
    }
}

/// What is known of a server, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerReport {
    /// Its name.
    pub id: ServerId,
    /// How it is configured.
    pub setup: Setup,
    /// What it is taken for.
    pub standing: Standing,
    /// Whether it says that it is a primary although it is not to be one.
    pub fenced: bool,
    /// How far it is behind, if it is a replica.
    pub lag: Option<Lag>,
    /// Its ban.
    pub ban: Option<Ban>,
    /// What it answered last.
    pub last: Option<Observation>,
    /// How it has failed since.
    pub failure: Option<Failure>,
}

/// A primary and its replicas.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub(crate) slots: Vec<Option<Member>>,
    /// The servers as the configuration lists them.
    pub(crate) order: Vec<ServerId>,
    pub(crate) limits: Limits,
    pub(crate) since: Moment,
    pub(crate) now: Moment,
    /// Whether the first choice of a primary has been made.
    pub(crate) decided: bool,
    /// The identifier of the cluster.
    pub(crate) system: Option<u64>,
    /// The primary, or the last one while there is none.
    pub(crate) primary: Option<ServerId>,
    /// The highest timeline that a primary has had.
    pub(crate) fence: u32,
    pub(crate) history: History,
    view: View,
}

impl Cluster {
    /// A cluster of which nothing is known yet. Servers beyond the first [`MAX_SERVERS`] are left out.
    pub fn new(servers: impl IntoIterator<Item = Setup>, limits: Limits, at: Moment) -> Self {
        let mut cluster = Self {
            slots: Vec::new(),
            order: Vec::new(),
            limits,
            since: at,
            now: at,
            decided: false,
            system: None,
            primary: None,
            fence: 0,
            history: History::default(),
            view: View::default(),
        };
        cluster.reconfigure(servers, limits, at);
        cluster
    }

    /// Takes another configuration over: servers of the same host and port keep their names and what is known of them.
    pub fn reconfigure(&mut self, servers: impl IntoIterator<Item = Setup>, limits: Limits, at: Moment) {
        self.limits = limits;
        let mut slots: Vec<Option<Member>> = self.slots.iter().map(|_| None).collect();
        self.order.clear();
        let mut fresh = Vec::new();
        for setup in servers.into_iter().take(MAX_SERVERS) {
            let same = |member: &Member| member.setup.host == setup.host && member.setup.port == setup.port;
            let place = self.slots.iter().position(|slot| slot.as_ref().is_some_and(same));
            let known = place.and_then(|place| Some((place, self.slots.get_mut(place)?.take()?)));
            match known {
                Some((place, member)) => {
                    if let Some(slot) = slots.get_mut(place) {
                        *slot = Some(Member { setup, ..member });
                    }
                    self.order.push(ServerId(place as u8));
                }
                None => fresh.push((self.order.len() + fresh.len(), setup)),
            }
        }
        // A name that falls free now is not given to another server now, so that nobody mixes them up.
        let departed: Vec<bool> = self.slots.iter().map(Option::is_some).collect();
        for (rank, setup) in fresh {
            let free = |place: usize| {
                slots.get(place).is_none_or(Option::is_none) && !departed.get(place).copied().unwrap_or(false)
            };
            let all_taken = || (0..MAX_SERVERS).find(|&place| slots.get(place).is_none_or(Option::is_none));
            let Some(place) = (0..MAX_SERVERS).find(|&place| free(place)).or_else(all_taken) else { continue };
            if slots.len() <= place {
                slots.resize_with(place + 1, || None);
            }
            if let Some(slot) = slots.get_mut(place) {
                *slot = Some(Member::new(setup));
            }
            self.order.insert(rank.min(self.order.len()), ServerId(place as u8));
        }
        self.slots = slots;
        if self.primary.is_some_and(|id| self.member(id).is_none()) {
            self.primary = None;
            self.history.clear();
        }
        self.advance(at);
    }

    /// A server has answered. An answer older than one that is known says nothing.
    pub fn observe(&mut self, id: ServerId, seen: Observation) {
        let Some(member) = self.member_mut(id) else { return };
        let before = member.last;
        if before.is_some_and(|before| before.at > seen.at) {
            return;
        }
        if seen.in_recovery {
            member.promoted = None;
            member.fenced = false;
        } else if before.is_some_and(|before| before.in_recovery) {
            member.promoted = Some(seen.at);
        }
        // WAL that is shorter than before: it has been rewound or made anew.
        member.diverged &= before.is_none_or(|before| before.lsn <= seen.lsn);
        member.life = Life::Up;
        member.last = Some(seen);
        member.failure = None;
        member.silences = 0;
        let beyond = !seen.in_recovery && seen.timeline.is_some_and(|timeline| timeline > self.fence);
        if beyond && let Some(member) = self.member_mut(id) {
            member.fenced = false;
        }
        self.measure(id);
        self.advance(seen.at);
    }

    /// A server could not be asked.
    pub fn fail(&mut self, id: ServerId, failure: Failure) {
        let ban_millis = self.limits.ban_millis;
        let Some(member) = self.member_mut(id) else { return };
        member.failure = Some(failure);
        match failure.kind {
            // It is asked as soon as a client has logged in, and that client is to wait for the answer.
            FailureKind::NoUser if member.life == Life::Never && member.setup.role == Configured::Auto => (),
            FailureKind::NotAllowed | FailureKind::NoUser => {
                member.life = Life::Mute;
                member.silences = 0;
            }
            FailureKind::TimedOut if member.life == Life::Up && member.silences + 1 < SILENCES => member.silences += 1,
            kind => {
                let served = matches!(member.standing, Standing::Replica | Standing::Lagging);
                if member.life != Life::Down && served && member.ban.is_none() {
                    member.ban = Some(Ban {
                        reason: BanReason::FailedCheck(kind),
                        since: failure.at,
                        until: failure.at.plus(ban_millis),
                    });
                }
                member.life = Life::Down;
            }
        }
        self.advance(failure.at);
    }

    /// A statement could not get a connection to this server: a replica is banned for it.
    pub fn complain(&mut self, id: ServerId, at: Moment) {
        let until = at.plus(self.limits.ban_millis);
        if let Some(member) = self.member_mut(id)
            && member.standing == Standing::Replica
            && member.ban.is_none()
        {
            member.ban = Some(Ban { reason: BanReason::FailedCheckout, since: at, until });
        }
        self.advance(at);
    }

    /// The primary has told somebody who logged in to it that it is a standby: it was restarted as one. Nothing else is
    /// known of it until it has been asked. One that cannot be asked is what the configuration says.
    pub fn demote(&mut self, id: ServerId, at: Moment) {
        if self.view.primary() == Some(id)
            && let Some(member) = self.member_mut(id).filter(|member| member.life == Life::Up)
            && let Some(last) = member.last.as_mut().filter(|last| last.at <= at)
        {
            (last.at, last.in_recovery) = (at, true);
            member.life = Life::Never;
        }
        self.advance(at);
    }

    /// Keeps a server from reads for so many milliseconds, by an administrator's word.
    pub fn ban(&mut self, id: ServerId, millis: u64, at: Moment) {
        if let Some(member) = self.member_mut(id) {
            member.ban = Some(Ban { reason: BanReason::Admin, since: at, until: at.plus(millis) });
        }
        self.advance(at);
    }

    /// Lifts a ban. While there is no primary, it also lifts the fence around a server that says it is one: the
    /// administrator vouches for it. Whether there was anything to lift.
    pub fn unban(&mut self, id: ServerId, at: Moment) -> bool {
        let vacant = self.view.primary().is_none();
        let Some(member) = self.member_mut(id) else { return false };
        let mut lifted = member.ban.take().is_some();
        if vacant && member.standing == Standing::Stale {
            member.fenced = false;
            let timeline = member.last.and_then(|last| last.timeline).unwrap_or(0);
            self.fence = timeline;
            lifted = true;
        }
        self.advance(at);
        lifted
    }

    /// It is later. Bans end; the first choice of a primary waits no longer.
    pub fn advance(&mut self, now: Moment) {
        self.now = self.now.max(now);
        let now = self.now;
        for member in self.slots.iter_mut().flatten() {
            member.ban = member.ban.filter(|ban| ban.until > now);
        }
        self.identify();
        self.elect();
        for id in self.order.clone() {
            self.judge(id);
        }
        self.lift_bans_of_the_last();
        self.view = View::new(self.members().map(|(id, member)| listed(id, member)).collect());
    }

    /// What follows from all this.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What is known of each server, in the order of the configuration.
    pub fn report(&self) -> Vec<ServerReport> {
        self.members()
            .map(|(id, member)| ServerReport {
                id,
                setup: member.setup.clone(),
                standing: member.standing,
                fenced: member.fenced,
                lag: member.lag,
                ban: member.ban,
                last: member.last,
                failure: member.failure,
            })
            .collect()
    }

    /// Measures a replica's lag on its fresh answer. The primary's answer may be older by an interval of asking, so
    /// that the lag comes out too small by what was written since; never too great.
    fn measure(&mut self, id: ServerId) {
        let Some(last) = self.member(id).and_then(|member| member.last) else { return };
        let lag = if !last.in_recovery || !self.member(id).is_some_and(|member| self.is_ours(member)) {
            None
        } else if self.primary.is_none() {
            Some(Lag::by_itself(&last))
        } else if self.view.primary().is_some() {
            self.history.lag(&last)
        } else {
            // While the primary is down nobody falls behind it any more, but a replica may still catch up.
            let before = self.member(id).and_then(|member| member.lag).unwrap_or_default();
            self.history.lag(&last).map(|lag| Lag { bytes: lag.bytes, millis: lag.millis.min(before.millis) })
        };
        let limits = self.limits;
        if let Some(member) = self.member_mut(id) {
            member.lag = lag;
            member.lagging = lag.is_some_and(|lag| lag.is_too_much(&limits, member.lagging));
        }
    }

    fn judge(&mut self, id: ServerId) {
        let Some(member) = self.member(id) else { return };
        let recovering = member.last.is_some_and(|last| last.in_recovery);
        let diverged = (member.diverged || self.has_diverged(member)) && !self.is_on_the_primarys_timeline(member);
        let standing = match member.life {
            Life::Never => Standing::Unknown,
            Life::Down => Standing::Down,
            _ if self.primary == Some(id) && member.says_primary() => Standing::Primary,
            _ if member.setup.role == Configured::Replica && !recovering => Standing::Replica,
            _ if member.setup.role != Configured::Replica && !self.is_ours(member) => Standing::Foreign,
            _ if member.says_primary() && self.decided => Standing::Stale,
            _ if member.says_primary() => Standing::Unknown,
            Life::Mute if member.last.is_none() => Standing::Unasked,
            _ if diverged => Standing::Diverged,
            _ if member.lagging => Standing::Lagging,
            _ => Standing::Replica,
        };
        if let Some(member) = self.member_mut(id) {
            member.standing = standing;
            member.diverged = diverged && recovering;
            if standing == Standing::Primary {
                member.ban = member.ban.filter(|ban| !ban.is_automatic());
            }
        }
    }

    /// Whether a standby has replayed WAL that its primary, asked later, has not written.
    fn has_diverged(&self, member: &Member) -> bool {
        let Some((standby, primary)) =
            member.last.zip(self.primary.and_then(|id| self.member(id)).and_then(|member| member.last))
        else {
            return false;
        };
        standby.in_recovery
            && !primary.in_recovery
            && self.is_ours(member)
            && standby.lsn > primary.lsn
            && standby.at.plus(primary.latency) <= primary.at
    }

    /// Whether it is known to have followed the primary to its timeline: then it cannot have diverged.
    fn is_on_the_primarys_timeline(&self, member: &Member) -> bool {
        let timeline = |member: &Member| member.last.and_then(|last| last.timeline);
        let primary = self.primary.and_then(|id| self.member(id)).and_then(timeline);
        matches!((timeline(member), primary), (Some(its), Some(the)) if its >= the)
    }

    fn lift_bans_of_the_last(&mut self) {
        let serves = |member: &Member| member.standing == Standing::Replica && member.ban.is_none();
        if self.slots.iter().flatten().any(serves) {
            return;
        }
        for member in self.slots.iter_mut().flatten() {
            if member.standing == Standing::Replica && member.ban.is_some_and(|ban| ban.is_automatic()) {
                member.ban = None;
            }
        }
    }

    pub(crate) fn member(&self, id: ServerId) -> Option<&Member> {
        self.slots.get(id.index()).and_then(Option::as_ref)
    }

    pub(crate) fn member_mut(&mut self, id: ServerId) -> Option<&mut Member> {
        self.slots.get_mut(id.index()).and_then(Option::as_mut)
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (ServerId, &Member)> {
        self.order.iter().filter_map(|&id| Some((id, self.member(id)?)))
    }
}

fn listed(id: ServerId, member: &Member) -> Listed {
    Listed {
        id,
        host: member.setup.host.clone(),
        port: member.setup.port,
        weight: member.setup.weight,
        standing: member.standing,
        banned: member.ban.is_some(),
        only_read: member.setup.role == Configured::Replica,
    }
}
