//! The wire itself: packets go in with the time they came at, and come out in order when they are due.

use std::collections::VecDeque;

/// The lead follows lateness by this part of it, packet by packet.
const FOLLOWING: i64 = 64;

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
    /// Nanoseconds that they went out after they were due, less those that they went out before it, all together.
    pub late: i64,
    /// Nanoseconds that they went out after or before they were due, all together.
    pub off: u64,
}

/// Packets under way, each for the same time, so that they leave in the order of their coming. Times are nanoseconds of
/// a clock that never goes back.
///
/// Who sleeps until a packet is due wakes later than that. So packets may leave ahead of their time, by a lead that
/// follows how late they were: the delay is right on average.
pub struct Line {
    delay: u64,
    lead: u64,
    under_way: VecDeque<Packet>,
    unused: Vec<Vec<u8>>,
    carried: Carried,
}

impl Line {
    /// A wire that takes `delay` nanoseconds.
    pub fn new(delay: u64) -> Self {
        Self { delay, lead: 0, under_way: VecDeque::new(), unused: Vec::new(), carried: Carried::default() }
    }

    /// A packet for the end `to` came at `now`.
    pub fn push(&mut self, now: u64, to: usize, packet: &[u8]) {
        let mut bytes = self.unused.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(packet);
        self.under_way.push_back(Packet { due: now + self.delay, to, bytes });
    }

    /// When the next packet leaves, if any is under way.
    pub fn leaves(&self) -> Option<u64> {
        self.under_way.front().map(|packet| packet.due.saturating_sub(self.lead))
    }

    /// Hands `send` the next packet and its end, if it leaves at `now` or before; says whether one did.
    pub fn deliver(&mut self, now: u64, send: impl FnOnce(usize, &[u8])) -> bool {
        if self.leaves().is_none_or(|leaves| leaves > now) {
            return false;
        }
        let Some(packet) = self.under_way.pop_front() else { return false };
        send(packet.to, &packet.bytes);
        let late = now.cast_signed() - packet.due.cast_signed();
        let lead = self.lead.cast_signed() + late / FOLLOWING;
        self.lead = lead.clamp(0, self.delay.cast_signed() / 2).cast_unsigned();
        self.carried.packets += 1;
        self.carried.bytes += packet.bytes.len() as u64;
        self.carried.late += late;
        self.carried.off += late.unsigned_abs();
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
        assert_eq!(line.leaves(), Some(1250));
        assert!(!line.deliver(1249, |_, _| panic!("too early")));
        let mut got = None;
        assert!(line.deliver(1250, |to, bytes| got = Some((to, bytes.to_vec()))));
        assert_eq!(got, Some((2, b"abc".to_vec())));
        assert_eq!(line.leaves(), None);
    }

    #[test]
    fn packets_keep_their_order_and_lateness_is_counted() {
        let mut line = Line::new(100);
        line.push(0, 0, b"first");
        line.push(10, 1, b"second");
        let mut order = Vec::new();
        while line.deliver(130, |to, _| order.push(to)) {}
        assert_eq!(order, [0, 1]);
        assert_eq!(line.take_carried(), Carried { packets: 2, bytes: 11, late: 50, off: 50 });
        assert_eq!(line.take_carried(), Carried::default());
    }

    #[test]
    fn packets_that_always_leave_late_come_to_be_right_on_average() {
        let mut line = Line::new(250_000);
        for number in 0..10_000 {
            let came = number * 1_000_000;
            line.push(came, 0, b"packet");
            // Whoever waits wakes 40 us after the time that was asked for.
            let woken = line.leaves().unwrap() + 40_000;
            assert!(line.deliver(woken, |_, _| ()));
            if number == 5_000 {
                line.take_carried();
            }
        }
        let carried = line.take_carried();
        assert!(carried.off / carried.packets < 100, "{carried:?}");
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
