//! The order of messages: whether a client's next message may be sent while the server has not answered all before it.
//!
//! Nothing is sent whose meaning depends on an unread answer. Units of reads and plain writes depend on none, prepared or
//! not, and go one behind another as drivers send them. What else comes behind an answer that decides about it waits for
//! that answer, and costs its client a round trip. This is the only place where that is decided.

use std::ops::BitOr;

/// What a client's next message finds before it on the client's connection, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Before(u16);

impl Before {
    /// Nothing that matters.
    pub const NOTHING: Self = Self(0);
    /// Messages of the client's unit that has no Sync yet, answered or not.
    pub const UNIT: Self = Self(1);
    /// A request without an answer.
    pub const REQUEST: Self = Self(1 << 1);
    /// More requests than the pooler keeps.
    pub const MANY: Self = Self(1 << 2);
    /// A statement of the pooler's own, behind which the client's session may be another.
    pub const OWN: Self = Self(1 << 3);
    /// A request behind which nothing is sent.
    pub const ALONE: Self = Self(1 << 4);
    /// A request that may take in a COPY.
    pub const COPY: Self = Self(1 << 5);
    /// The same, and the server has not asked for lines.
    pub const COPY_START: Self = Self(1 << 6);
    /// The same, and the server may ignore a Sync, since the client has not ended the last COPY.
    pub const COPY_END: Self = Self(1 << 7);
    /// A unit of the client's that gives or takes names of statements, or makes one known to the server.
    pub const NAMES: Self = Self(1 << 8);
    /// A request of the same unit that may forget names of statements.
    pub const FORGETS: Self = Self(1 << 9);
    /// A unit that changes which statement the client has without a name.
    pub const UNNAMED: Self = Self(1 << 10);
    /// A unit that may make the transaction fail which is open.
    pub const MAY_FAIL: Self = Self(1 << 11);
    /// A RESET that restores what the client's startup set.
    pub const RESET: Self = Self(1 << 12);
    /// A unit whose end decides where the client's next unit runs, or whether it runs.
    pub const DECIDES: Self = Self(1 << 13);

    /// What matters to the first message of a unit only.
    const OF_FIRST: Self = Self(Self::NAMES.0 | Self::RESET.0 | Self::DECIDES.0);

    /// This bit, if it holds.
    pub fn when(self, holds: bool) -> Self {
        if holds { self } else { Self::NOTHING }
    }

    /// The bits of this and of another.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether this has any of the bits of another.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Before {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.and(other)
    }
}

/// A client's next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// A Query or a FunctionCall.
    Query,
    /// A Parse without a name.
    Parse,
    /// A Parse with a name.
    ParseNamed,
    /// A Bind or Describe of the statement without a name.
    Unnamed,
    /// Another Bind or Describe, or a Close.
    Named,
    /// A Bind to a portal whose name may be taken.
    Taken,
    /// An Execute.
    Execute,
    /// A Sync.
    Sync,
    /// A Flush.
    Flush,
    /// A part of a COPY.
    Copy,
    /// The end of the client, or a message that the pooler refuses.
    End,
}

/// What becomes of a client's next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// It is sent.
    Send,
    /// It waits for an answer.
    Hold,
    /// It waits for an answer, and the server is told to send those that it has: it may keep them up to a Sync.
    HoldAndFlush,
}

/// What each message waits for.
const fn waits_for(next: Next) -> Before {
    const ALL: u16 = Before::MANY.0 | Before::OWN.0;
    const ANY: u16 = ALL | Before::ALONE.0 | Before::COPY.0 | Before::DECIDES.0;
    const NAMED: u16 = ANY | Before::RESET.0 | Before::NAMES.0 | Before::FORGETS.0;
    Before(match next {
        Next::Query => ANY | Before::RESET.0,
        Next::Execute => ANY | Before::RESET.0 | Before::NAMES.0,
        Next::Parse | Next::Named => NAMED,
        Next::ParseNamed => NAMED | Before::MAY_FAIL.0,
        Next::Unnamed => NAMED | Before::UNNAMED.0,
        Next::Taken => NAMED | Before::UNNAMED.0 | Before::REQUEST.0,
        Next::Sync => ALL | Before::ALONE.0 | Before::DECIDES.0 | Before::COPY_END.0,
        Next::Flush => ALL | Before::DECIDES.0,
        Next::Copy => ALL | Before::COPY_START.0,
        Next::End => 0,
    })
}

/// Whether a message may be sent.
pub fn order(before: Before, next: Next) -> Order {
    let mut waits = waits_for(next);
    if before.has(Before::UNIT) {
        waits.0 &= !Before::OF_FIRST.0;
        // What a Query within a unit of the extended protocol ends depends on what came before it.
        if next == Next::Query {
            waits = waits | Before::REQUEST;
        }
    }
    match (before.has(waits), before.has(Before::UNIT)) {
        (false, _) => Order::Send,
        (true, false) => Order::Hold,
        (true, true) => Order::HoldAndFlush,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BITS: [(&str, Before); 14] = [
        ("unit", Before::UNIT),
        ("request", Before::REQUEST),
        ("many", Before::MANY),
        ("own", Before::OWN),
        ("alone", Before::ALONE),
        ("copy", Before::COPY),
        ("copy start", Before::COPY_START),
        ("copy end", Before::COPY_END),
        ("names", Before::NAMES),
        ("forgets", Before::FORGETS),
        ("unnamed", Before::UNNAMED),
        ("may fail", Before::MAY_FAIL),
        ("reset", Before::RESET),
        ("decides", Before::DECIDES),
    ];

    /// What each message waits for, where it is the first of a unit and where it is not.
    const TABLE: [(Next, &str, &str); 11] = [
        (Next::Query, "many own alone copy reset decides", "request many own alone copy"),
        (Next::Parse, "many own alone copy names forgets reset decides", "many own alone copy forgets"),
        (
            Next::ParseNamed,
            "many own alone copy names forgets may-fail reset decides",
            "many own alone copy forgets may-fail",
        ),
        (
            Next::Unnamed,
            "many own alone copy names forgets unnamed reset decides",
            "many own alone copy forgets unnamed",
        ),
        (Next::Named, "many own alone copy names forgets reset decides", "many own alone copy forgets"),
        (
            Next::Taken,
            "request many own alone copy names forgets unnamed reset decides",
            "request many own alone copy forgets unnamed",
        ),
        (Next::Execute, "many own alone copy names reset decides", "many own alone copy"),
        (Next::Sync, "many own alone copy-end decides", "many own alone copy-end"),
        (Next::Flush, "many own decides", "many own"),
        (Next::Copy, "many own copy-start", "many own copy-start"),
        (Next::End, "", ""),
    ];

    #[test]
    fn each_message_waits_for_what_the_table_says_in_all_cases() {
        for (next, first, within) in TABLE {
            for bits in 0..1u16 << BITS.len() {
                let before = Before(bits);
                let (waits, held) =
                    if before.has(Before::UNIT) { (within, Order::HoldAndFlush) } else { (first, Order::Hold) };
                let mut found = BITS.iter().filter(|(_, bit)| before.has(*bit)).map(|(name, _)| name.replace(' ', "-"));
                let is_held = found.any(|name| waits.split(' ').any(|word| word == name));
                assert_eq!(order(before, next), if is_held { held } else { Order::Send }, "{next:?} behind {bits:b}");
            }
        }
    }

    #[test]
    fn units_as_drivers_pipeline_them_do_not_wait() {
        for next in [Next::Query, Next::Parse, Next::ParseNamed, Next::Unnamed, Next::Named, Next::Execute, Next::Sync]
        {
            assert_eq!(order(Before::REQUEST, next), Order::Send, "{next:?} behind a unit");
        }
        for next in [Next::Parse, Next::ParseNamed, Next::Unnamed, Next::Named, Next::Execute, Next::Sync, Next::Flush]
        {
            assert_eq!(order(Before::REQUEST | Before::UNIT, next), Order::Send, "{next:?} within a unit");
        }
    }
}
