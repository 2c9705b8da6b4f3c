//! SHOW EVENTS: the last events that an administrator wants to know of, the latest first.

use wire::backend::ColumnType::Text;

use crate::admin::show::view::{Columns, Row, View, text};
use crate::log::{date_time, events};

pub const COLUMNS: Columns = &[("time", Text), ("kind", Text), ("database", Text), ("server", Text), ("text", Text)];

pub fn rows(_: &View<'_>) -> Vec<Row> {
    let row = |event: crate::log::Event| {
        let time = format!("{} UTC", date_time(event.date.as_secs(), event.date.subsec_millis()));
        vec![text(time), text(event.kind), text(event.database), text(event.server), text(event.text)]
    };
    events().into_iter().rev().map(row).collect()
}
