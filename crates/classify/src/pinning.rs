//! Why a session keeps its server connection.

/// A set of reasons why a session cannot go on on another server connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reasons(u8);

/// The reasons with their names, as operators read them.
const NAMES: [(Reasons, &str); 7] = [
    (Reasons::LOCK, "advisory lock"),
    (Reasons::TEMPORARY, "temporary object"),
    (Reasons::PREPARED, "prepared statement"),
    (Reasons::CURSOR, "cursor"),
    (Reasons::LISTEN, "listen"),
    (Reasons::SETTING, "setting"),
    (Reasons::LASTING, "session state"),
];

impl Reasons {
    /// None.
    pub const NONE: Self = Self(0);
    /// Advisory locks of the session.
    pub const LOCK: Self = Self(1);
    /// Temporary objects.
    pub const TEMPORARY: Self = Self(2);
    /// Statements of SQL PREPARE.
    pub const PREPARED: Self = Self(4);
    /// Cursors WITH HOLD.
    pub const CURSOR: Self = Self(8);
    /// LISTEN.
    pub const LISTEN: Self = Self(16);
    /// A parameter that was set in a way that cannot be done again elsewhere.
    pub const SETTING: Self = Self(32);
    /// What ends with the session alone: the state of `random()`, a library, a replication origin or slot, a backup.
    pub const LASTING: Self = Self(64);

    /// Whether there is any.
    pub fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether one of these is among them.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Those without these.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// These if the condition holds, or none.
    pub fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(move |(reason, _)| self.has(*reason)).map(|(_, name)| *name)
    }
}

impl std::ops::BitOr for Reasons {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Reasons {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl std::fmt::Display for Reasons {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(", "))
    }
}
