//! SHOW STATE: whether the pooler works, or is paused, or suspended.

use wire::backend::ColumnType::Text;

use super::{Columns, Row, View, text};
use crate::shared::lock;

pub const COLUMNS: Columns = &[("key", Text), ("value", Text)];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let paused = lock(&view.shared.paused).contains("");
    let suspended = crate::suspend::is_suspended(view.shared);
    let yes = |yes: bool| text(if yes { "yes" } else { "no" });
    let states = [("active", !paused && !suspended), ("paused", paused), ("suspended", suspended)];
    states.into_iter().map(|(state, is)| vec![text(state), yes(is)]).collect()
}
