//! Limits that several pools share.

/// Server connections that several pools may have together; 0 for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Of the database, whatever the user.
    pub database: usize,
    /// Of the user, whatever the database.
    pub user: usize,
}

impl Quota {
    /// Whether no limit is shared.
    pub fn is_unlimited(self) -> bool {
        self == Self::default()
    }
}
