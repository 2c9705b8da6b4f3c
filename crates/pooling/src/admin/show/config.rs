//! SHOW CONFIG: the settings.

use wire::backend::ColumnType::Text;

use crate::admin::show::view::{Columns, Row, View, text};

pub const COLUMNS: Columns = &[("key", Text), ("value", Text), ("default", Text), ("changeable", Text)];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let shown = view.config.settings.show().into_iter();
    shown
        .map(|shown| {
            vec![
                text(shown.name),
                text(shown.value),
                text(shown.default),
                text(if shown.changeable { "yes" } else { "no" }),
            ]
        })
        .collect()
}
