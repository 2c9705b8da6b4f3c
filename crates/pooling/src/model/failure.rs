//! When a server that could not be reached is tried again, and how many units may be retried.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::error::Cause;

/// The first wait before a server that could not be reached is tried again; each further wait is twice as long, up to
/// `server_login_retry`.
pub const FIRST_RETRY: Duration = Duration::from_millis(100);

/// The time after which a failure that lasts is logged once more.
const REMINDER: Duration = Duration::from_secs(60);

/// The most reasons that are remembered as logged: as many as a pool's hosts may give in turn.
const REASONS: usize = 16;

/// The last failed attempt to make a server connection.
#[derive(Debug)]
pub struct Failure {
    /// The time at which it failed.
    pub at: Instant,
    /// The server's refusal, or why it could not be reached.
    pub cause: Cause,
    /// Whether time may mend it, as the end of a restart does. A wrong password stays wrong.
    pub may_pass: bool,
    /// Whether clients are refused for it: not while another host of the entry has not been tried, nor while connections
    /// of the pooler's own make way on a full server.
    pub refuses: bool,
    /// Attempts in a row that have failed; those that were made at the same time count as one.
    attempts: u32,
    /// The reasons that were logged within [`REMINDER`], and when.
    logged: VecDeque<(String, Instant)>,
}

impl Failure {
    /// One more failure, after an earlier one.
    pub fn after(before: Option<&Self>, at: Instant, cause: Cause, may_pass: bool, longest: Duration) -> Self {
        let attempts = match before {
            Some(before) if before.holds(at, longest) => before.attempts,
            Some(before) => before.attempts.saturating_add(1),
            None => 0,
        };
        Self {
            at,
            cause,
            may_pass,
            refuses: true,
            attempts,
            logged: before.map(|before| before.logged.clone()).unwrap_or_default(),
        }
    }

    /// Whether the failure is to be logged now: if it is the first for its reason, or was logged a minute ago.
    pub fn logs(&mut self) -> bool {
        self.logged.retain(|(_, when)| self.at.saturating_duration_since(*when) < REMINDER);
        if self.logged.iter().any(|(why, _)| *why == self.cause.why) {
            return false;
        }
        if self.logged.len() == REASONS {
            self.logged.pop_front();
        }
        self.logged.push_back((self.cause.why.clone(), self.at));
        true
    }

    /// Whether each of so many hosts that are tried in turn has failed.
    pub fn is_of_all(&self, hosts: usize) -> bool {
        self.attempts as usize + 1 >= hosts
    }

    /// Whether it is too early for another attempt; `longest` is `server_login_retry`.
    pub fn holds(&self, now: Instant, longest: Duration) -> bool {
        let wait = match self.may_pass {
            true => FIRST_RETRY.saturating_mul(1 << self.attempts.min(20)).min(longest),
            false => longest,
        };
        now.saturating_duration_since(self.at) < wait
    }
}

/// The number of units that may be retried because earlier units take long: a share of the others. When the whole
/// machine slows down, retries would only double its work.
#[derive(Debug)]
pub struct Retries(f64);

impl Default for Retries {
    fn default() -> Self {
        Self(Self::MOST)
    }
}

impl Retries {
    /// The part of a retry that each answered unit earns.
    const SHARE: f64 = 0.1;
    /// The most retries that are kept.
    const MOST: f64 = 256.0;

    /// Counts a unit that has been answered where it was sent.
    pub fn earn(&mut self) {
        self.0 = (self.0 + Self::SHARE).min(Self::MOST);
    }

    /// Whether these units may be retried now; then they are counted.
    pub fn spend(&mut self, units: usize) -> bool {
        let affordable = self.0 >= units as f64;
        if affordable {
            self.0 -= units as f64;
        }
        affordable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Cause {
        Cause::connection("refused")
    }

    #[test]
    fn attempts_to_connect_become_rarer_up_to_the_limit() {
        let start = Instant::now();
        let longest = Duration::from_secs(1);
        let mut failure = Failure::after(None, start, refused(), true, longest);
        let mut waits = Vec::new();
        for _ in 0..6 {
            let wait =
                (0..).map(Duration::from_millis).find(|&wait| !failure.holds(failure.at + wait, longest)).unwrap();
            waits.push(wait.as_millis());
            // A failure at the same time as the first, and then the next.
            let same = Failure::after(Some(&failure), failure.at, refused(), true, longest);
            assert_eq!(same.attempts, failure.attempts);
            failure = Failure::after(Some(&failure), failure.at + wait, refused(), true, longest);
        }
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn a_failure_that_lasts_is_logged_once_a_minute_and_when_its_reason_changes() {
        let (start, longest) = (Instant::now(), Duration::from_secs(1));
        let mut logged = Vec::new();
        let mut failure: Option<Failure> = None;
        for second in 0..130 {
            let why = match second {
                10..20 => "other",
                _ => "refused",
            };
            let at = start + Duration::from_secs(second);
            let mut next = Failure::after(failure.as_ref(), at, Cause::connection(why), true, longest);
            if next.logs() {
                logged.push((second, why));
            }
            failure = Some(next);
        }
        assert_eq!(logged, [(0, "refused"), (10, "other"), (60, "refused"), (120, "refused")]);
    }

    #[test]
    fn what_time_does_not_mend_is_tried_again_at_the_limit_only() {
        let start = Instant::now();
        let longest = Duration::from_secs(15);
        let failure = Failure::after(None, start, refused(), false, longest);
        assert!(failure.holds(start + Duration::from_secs(14), longest));
        assert!(!failure.holds(start + longest, longest));
        // A limit of zero is none.
        assert!(!failure.holds(start, Duration::ZERO));
    }
}
