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

/// A limit that several pools share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Limit {
    /// `max_db_connections` of this database.
    Database(Box<str>),
    /// `max_user_connections` of this user.
    User(Box<str>),
}

impl Limit {
    /// Whether the limit counts the connections of the pool of this database and user.
    pub fn covers(&self, database: &str, user: &str) -> bool {
        match self {
            Self::Database(name) => **name == *database,
            Self::User(name) => **name == *user,
        }
    }

    /// The setting that has the limit.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::Database(_) => "max_db_connections",
            Self::User(_) => "max_user_connections",
        }
    }
}
