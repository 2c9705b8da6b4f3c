//! The wire itself: packets go in with the time they came at, and come out in order when they are due.

use std::collections::VecDeque;

/// A packet under way.
struct Packet {
    due: u64,
    to: usize,
    bytes: Vec<u8>,
}

/// What the wire has carried since it was last asked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Packets that went out.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds that they went out after they were due, all together.
    pub late: u64,
    /// The most that one of them was late by, in nanoseconds.
    pub latest: u64,
}

/// Packets under way, each for the same time, so that they leave in the order of their coming. Times are nanoseconds of
/// a clock that never goes back.
pub struct Line {
    delay: u64,
    under_way: VecDeque<Packet>,
    unused: Vec<Vec<u8>>,
    carried: Carried,
}

impl Line {
    /// A wire that takes `delay` nanoseconds.
    pub fn new(delay: u64) -> Self {
        Self { delay, under_way: VecDeque::new(), unused: Vec::new(), carried: Carried::default() }
    }

    /// A packet for the end `to` came at `now`.
    pub fn push(&mut self, now: u64, to: usize, packet: &[u8]) {
        let mut bytes = self.unused.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(packet);
        self.under_way.push_back(Packet { due: now + self.delay, to, bytes });
    }

    /// When the next packet is due, if any is under way.
    pub fn due(&self) -> Option<u64> {
        self.under_way.front().map(|packet| packet.due)
    }

    /// Hands `send` the next packet and its end, if it is due at `now`; says whether one was.
    pub fn deliver(&mut self, now: u64, send: impl FnOnce(usize, &[u8])) -> bool {
        if self.due().is_none_or(|due| due > now) {
            return false;
        }
        let Some(packet) = self.under_way.pop_front() else { return false };
        send(packet.to, &packet.bytes);
        let late = now - packet.due;
        self.carried.packets += 1;
        self.carried.bytes += packet.bytes.len() as u64;
        self.carried.late += late;
        self.carried.latest = self.carried.latest.max(late);
        self.unused.push(packet.bytes);
        true
    }

    /// What was carried since the last time.
    pub fn take_carried(&mut self) -> Carried {
        std::mem::take(&mut self.carried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_out_when_its_time_has_passed_and_not_before() {
        let mut line = Line::new(250);
        line.push(1000, 2, b"abc");
        assert_eq!(line.due(), Some(1250));
        assert!(!line.deliver(1249, |_, _| panic!("too early")));
        let mut got = None;
        assert!(line.deliver(1250, |to, bytes| got = Some((to, bytes.to_vec()))));
        assert_eq!(got, Some((2, b"abc".to_vec())));
        assert_eq!(line.due(), None);
    }

    #[test]
    fn packets_keep_their_order_and_lateness_is_counted() {
        let mut line = Line::new(100);
        line.push(0, 0, b"first");
        line.push(10, 1, b"second");
        let mut order = Vec::new();
        while line.deliver(130, |to, _| order.push(to)) {}
        assert_eq!(order, [0, 1]);
        assert_eq!(line.take_carried(), Carried { packets: 2, bytes: 11, late: 50, latest: 30 });
        assert_eq!(line.take_carried(), Carried::default());
    }

    #[test]
    fn a_buffer_used_again_holds_nothing_of_the_packet_before() {
        let mut line = Line::new(0);
        line.push(0, 0, b"a long packet");
        line.deliver(0, |_, _| ());
        line.push(1, 0, b"short");
        let mut got = Vec::new();
        line.deliver(1, |_, bytes| got = bytes.to_vec());
        assert_eq!(got, b"short");
    }
}
