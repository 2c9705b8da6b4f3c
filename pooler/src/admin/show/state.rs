//! SHOW STATE: whether the pooler works, or is paused.

use wire::backend::ColumnType::Text;

use super::{Columns, Row, View, text};
use crate::shared::lock;

pub const COLUMNS: Columns = &[("key", Text), ("value", Text)];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let paused = lock(&view.shared.paused).contains("");
    let yes = |yes: bool| text(if yes { "yes" } else { "no" });
    vec![vec![text("active"), yes(!paused)], vec![text("paused"), yes(paused)], vec![text("suspended"), yes(false)]]
}
