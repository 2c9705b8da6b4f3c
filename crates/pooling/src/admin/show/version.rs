//! SHOW VERSION.

use wire::backend::ColumnType::Text;

use crate::admin::show::view::{Columns, Row, View, text};

pub const COLUMNS: Columns = &[("version", Text)];

pub fn rows(_: &View<'_>) -> Vec<Row> {
    vec![vec![text(concat!("howdah-pooler ", env!("CARGO_PKG_VERSION")))]]
}
