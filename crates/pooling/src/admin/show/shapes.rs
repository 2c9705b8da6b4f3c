//! SHOW SHAPES: statements by their text without literals, those that took most time first. Times are in microseconds.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View, number, text};
use crate::metrics::shapes::whole_shapes;

/// The most rows.
const MOST: usize = 1000;

pub const COLUMNS: Columns = &[
    ("database", Text),
    ("user", Text),
    ("fingerprint", Text),
    ("calls", Int8),
    ("total_time", Int8),
    ("mean_time", Int8),
    ("max_time", Int8),
    ("rows", Int8),
    ("errors", Int8),
    ("sqlstates", Text),
    ("primary", Int8),
    ("replica", Int8),
    ("pipelined", Int8),
    ("not_pipelined", Text),
    ("query", Text),
];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let shapes = whole_shapes(view.snapshots.iter().flat_map(|snapshot| &snapshot.shapes));
    let rows = shapes.into_iter().take(MOST).map(|mut shape| {
        shape.codes.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let codes: Vec<String> =
            shape.codes.iter().map(|(code, count)| format!("{} {count}", String::from_utf8_lossy(code))).collect();
        vec![
            text(&shape.database),
            text(&shape.user),
            text(format!("{:016x}", shape.id())),
            number(shape.calls),
            number(shape.total.as_micros()),
            number(shape.total.as_micros() / u128::from(shape.calls.max(1))),
            number(shape.longest.as_micros()),
            number(shape.rows),
            number(shape.failed),
            text(codes.join(", ")),
            number(shape.calls - shape.on_replica),
            number(shape.on_replica),
            number(shape.pipelined),
            shape.why.and_then(text),
            shape.text.as_ref().and_then(|normalized| text(&normalized.text)),
        ]
    });
    rows.collect()
}
