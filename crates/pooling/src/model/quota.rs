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

    /// The limits of the pool of this database and user, that of the database first, with what they allow.
    pub fn limits(self, database: &str, user: &str) -> impl Iterator<Item = (Limit, usize)> + use<> {
        let of_database = (self.database > 0).then(|| (Limit::Database(database.into()), self.database));
        let of_user = (self.user > 0).then(|| (Limit::User(user.into()), self.user));
        of_database.into_iter().chain(of_user)
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
