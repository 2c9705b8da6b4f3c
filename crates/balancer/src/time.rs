//! Time, as it is passed in.

/// A moment: milliseconds since some beginning of the caller's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// Milliseconds from `earlier` to here; 0 if it is not earlier.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// So many milliseconds later.
    pub fn plus(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }
}
