//! The data from which the tables of SHOW are made, and the values in their cells.

use std::time::{Duration, Instant};

use wire::backend::ColumnType;

use crate::admin::seen::{Line, PoolSeen, Snapshot};
use crate::config::Config;
use crate::shared::Shared;

/// A row of values; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// Names and types of columns.
pub type Columns = &'static [(&'static str, ColumnType)];

/// The columns of a view, and the function that makes its rows.
pub type Table = (Columns, fn(&View<'_>) -> Vec<Row>);

/// The pooler whose columns are shown, where they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PgBouncer's.
    PgBouncer,
    /// PgCat's.
    PgCat,
    /// PgBouncer's, with further columns behind them.
    Howdah,
}

impl Dialect {
    /// The dialect of the console under this name.
    pub fn of(console: &str) -> Self {
        match console {
            "pgcat" => Self::PgCat,
            "howdah" => Self::Howdah,
            _ => Self::PgBouncer,
        }
    }
}

/// The source of results.
pub struct View<'a> {
    /// The snapshots of the workers.
    pub snapshots: &'a [Snapshot],
    /// The configuration in force.
    pub config: &'a Config,
    /// The state that the workers share.
    pub shared: &'a Shared,
    /// The time.
    pub now: Instant,
    /// The time since 1970.
    pub date: Duration,
}

impl View<'_> {
    /// The parts of pools, as the workers have them.
    pub fn pools(&self) -> impl Iterator<Item = &PoolSeen> {
        self.snapshots.iter().flat_map(|snapshot| &snapshot.pools)
    }

    /// The server connections of all workers.
    pub fn servers(&self) -> impl Iterator<Item = &Line> {
        self.snapshots.iter().flat_map(|snapshot| &snapshot.servers)
    }

    /// The clients and the server connections of all workers.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.snapshots.iter().flat_map(|snapshot| snapshot.clients.iter().chain(&snapshot.servers))
    }
}

/// A text.
pub fn text(value: impl Into<String>) -> Option<String> {
    Some(value.into())
}

/// A number.
pub fn number(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

/// The time that was this long ago.
pub fn time(view: &View<'_>, age: Duration) -> Option<String> {
    let then = view.date.saturating_sub(age);
    let shown = crate::log::date_time(then.as_secs(), 0);
    Some(format!("{} UTC", shown.get(..19).unwrap_or(&shown)))
}
