//! Whether a worker serves one client alone, and may wait for it awake.
//!
//! To sleep and to be woken costs a worker more time than to pass on a short statement. A lone client bears this cost
//! twice for each statement, while no other client needs the worker: so with `busy_poll` the worker looks for new data
//! again and again before it sleeps. With several clients there is mostly new data already, and a worker that looks for
//! data takes processor time from the servers and the clients.

use std::time::{Duration, Instant};

use crate::model::keys::ClientKey;

/// The time for which a client is not alone after another client has sent something.
pub const COMPANY: Duration = Duration::from_millis(1);

/// The client that has sent statements recently.
#[derive(Debug)]
pub struct BusyPoll {
    last: Option<ClientKey>,
    /// The time at which a client sent something last.
    spoken: Instant,
    /// The time at which anything came last, from a client or a server.
    heard: Instant,
    crowded_until: Instant,
}

impl BusyPoll {
    /// No client has sent anything.
    pub fn new(now: Instant) -> Self {
        Self { last: None, spoken: now, heard: now, crowded_until: now }
    }

    /// Notes that something has come.
    pub fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Notes that a client has sent something.
    pub fn speak(&mut self, client: ClientKey, now: Instant) {
        if self.last.replace(client) != Some(client) && now < self.spoken + COMPANY {
            self.crowded_until = now + COMPANY;
        }
        self.spoken = now;
    }

    /// Whether to poll again before sleeping.
    pub fn stays_awake(&self, now: Instant, busy_poll: Duration) -> bool {
        now.saturating_duration_since(self.heard) < busy_poll && now >= self.crowded_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::slots::Slot;

    const BUSY: Duration = Duration::from_micros(100);

    /// The clients that speak, and how many microseconds after the one before.
    fn after(said: &[(u64, usize)]) -> (BusyPoll, Instant) {
        let mut now = Instant::now();
        let mut lone = BusyPoll::new(now);
        for &(pause, client) in said {
            now += Duration::from_micros(pause);
            lone.hear(now);
            lone.speak(ClientKey(Slot::of_token(client << 2).0), now);
        }
        (lone, now)
    }

    #[test]
    fn a_lone_client_is_waited_for_as_long_as_said() {
        let (lone, now) = after(&[(5000, 1), (50, 1), (3000, 1)]);
        assert!(lone.stays_awake(now, BUSY));
        assert!(lone.stays_awake(now + BUSY / 2, BUSY));
        assert!(!lone.stays_awake(now + BUSY, BUSY));
        assert!(!lone.stays_awake(now, Duration::ZERO));
    }

    #[test]
    fn clients_that_speak_at_the_same_time_are_not() {
        let (lone, now) = after(&[(5000, 1), (50, 2), (50, 2)]);
        assert!(!lone.stays_awake(now, BUSY));
        let (lone, now) = after(&[(5000, 1), (50, 2), (50, 2), (2000, 2)]);
        assert!(lone.stays_awake(now, BUSY), "the other has left");
        let (lone, now) = after(&[(5000, 1), (5000, 2)]);
        assert!(lone.stays_awake(now, BUSY), "they take turns, far apart");
    }
}
