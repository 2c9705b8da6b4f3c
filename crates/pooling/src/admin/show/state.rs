//! SHOW STATE: whether the pooler works, or is paused, or suspended.

use wire::backend::ColumnType::Text;

use crate::admin::show::view::{Columns, Row, View, text};
use crate::sync::lock;

pub const COLUMNS: Columns = &[("key", Text), ("value", Text)];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let paused = lock(&view.shared.orders.paused).contains("");
    let suspended = crate::state::suspension::is_suspended(view.shared);
    let yes = |yes: bool| text(if yes { "yes" } else { "no" });
    let states = [("active", !paused && !suspended), ("paused", paused), ("suspended", suspended)];
    states.into_iter().map(|(state, is)| vec![text(state), yes(is)]).collect()
}
