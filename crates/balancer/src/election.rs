//! Which server is the primary, and the fence around those that were.
//!
//! A server has a claim when it lives, says that it is not in recovery, belongs to the cluster, is not configured as a
//! replica, and is not behind the fence. Of several the one on the highest timeline wins, since a promotion begins a
//! new one; then the one whose promotion was seen last; then the present primary; then the one that the configuration
//! calls primary; then the one with the most WAL; then the first in the configuration.
//!
//! **The fence.** A server that loses to another claim, or is replaced as the primary, is fenced: it gets neither reads
//! nor writes, even when the winner dies. So is any server on a timeline lower than the highest that a primary has had.
//! A server leaves the fence when it comes back as a standby, by a promotion to a timeline beyond the fence, or by an
//! administrator's UNBAN while there is no primary. The fence is kept in memory: a pooler that starts when only an old
//! primary can be reached cannot recognise it as old.

use std::cmp::Reverse;

use crate::cluster::{Cluster, Life, Member};
use crate::{Configured, ServerId};

impl Member {
    /// Whether it says, or for want of its word the configuration says, that it is a primary.
    pub(crate) fn says_primary(&self) -> bool {
        match (self.life, &self.last) {
            (Life::Up | Life::Mute, Some(last)) => !last.in_recovery,
            (Life::Mute, None) => self.setup.role == Configured::Primary,
            _ => false,
        }
    }

    fn timeline(&self) -> Option<u32> {
        self.last.as_ref().and_then(|last| last.timeline)
    }

    fn system(&self) -> Option<u64> {
        self.last.as_ref().and_then(|last| last.system)
    }
}

impl Cluster {
    /// Settles which server is the primary.
    pub(crate) fn elect(&mut self) {
        if !self.decided {
            let unheard = self.members().any(|(_, member)| member.life == Life::Never);
            if unheard && self.now.since(self.since) < self.limits.patience_millis {
                return;
            }
            self.decided = true;
        }
        let claims: Vec<ServerId> =
            self.members().filter(|(_, member)| self.has_claim(member)).map(|(id, _)| id).collect();
        let rank = |id: &ServerId| {
            let member = self.member(*id)?;
            Some((
                member.timeline(),
                member.promoted,
                self.primary == Some(*id),
                member.setup.role == Configured::Primary,
                member.last.map(|last| last.lsn),
                Reverse(self.order.iter().position(|other| other == id)),
            ))
        };
        let winner = claims.iter().copied().max_by_key(rank);
        for id in claims.iter().copied().chain(self.primary).filter(|&id| Some(id) != winner && winner.is_some()) {
            if let Some(member) = self.member_mut(id)
                && member.last.is_none_or(|last| !last.in_recovery)
            {
                member.fenced = true;
            }
        }
        match winner {
            Some(id) => {
                self.fence = self.fence.max(self.member(id).and_then(Member::timeline).unwrap_or(0));
                if self.primary != Some(id) {
                    self.primary = Some(id);
                    self.history.clear();
                    for slot in self.slots.iter_mut().flatten() {
                        slot.diverged = false;
                    }
                }
                if let Some(last) = self.member(id).and_then(|member| member.last) {
                    self.history.note(last.at, last.lsn);
                }
            }
            // A primary that is merely down keeps its place, and its history, until another has it.
            None => {
                let demoted = |id| {
                    self.member(id).is_none_or(|member| {
                        member.setup.role == Configured::Replica || member.last.is_some_and(|last| last.in_recovery)
                    })
                };
                if self.primary.is_some_and(demoted) {
                    self.primary = None;
                    self.history.clear();
                }
            }
        }
    }

    fn has_claim(&self, member: &Member) -> bool {
        member.says_primary()
            && !member.fenced
            && member.setup.role != Configured::Replica
            && self.is_ours(member)
            && member.timeline().is_none_or(|timeline| timeline >= self.fence)
    }

    /// Whether it belongs to this cluster, as far as is known.
    pub(crate) fn is_ours(&self, member: &Member) -> bool {
        match (self.system, member.system()) {
            (Some(ours), Some(its)) => ours == its,
            _ => true,
        }
    }

    /// Settles whose cluster this is: the identifier that most servers have, by what each said last, so that nobody takes
    /// the place of servers that are merely down. Among equals it is the present one; before there is one, that of the
    /// configured primary, then the first in the configuration.
    pub(crate) fn identify(&mut self) {
        // A replica by configuration is vouched for whatever its identifier is, and has no say in whose cluster it is.
        let voters = || self.members().filter(|(_, member)| member.setup.role != Configured::Replica);
        let votes = |system: u64| voters().filter(|(_, member)| member.system() == Some(system)).count();
        let preferred = |system: u64| match self.system.filter(|_| self.decided) {
            Some(ours) => ours == system,
            None => {
                voters().any(|(_, member)| member.setup.role == Configured::Primary && member.system() == Some(system))
            }
        };
        let candidates: Vec<u64> = voters().filter_map(|(_, member)| member.system()).collect();
        // From the end, since of equals `max_by_key` gives the last.
        let best = candidates.into_iter().rev().max_by_key(|&system| (votes(system), preferred(system)));
        let Some(theirs) = best.filter(|_| best != self.system) else { return };
        if self.system.replace(theirs).is_some() {
            self.primary = None;
            self.fence = 0;
            self.history.clear();
            for slot in self.slots.iter_mut().flatten() {
                slot.fenced = false;
            }
        }
    }
}
