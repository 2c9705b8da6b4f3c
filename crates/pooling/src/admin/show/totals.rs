//! SHOW TOTALS: the sums over all databases.

use crate::model::totals::Totals;
use wire::backend::ColumnType::{Int8, Text};

use super::stats;
use crate::admin::show::view::{Columns, Row, View, number, text};

pub const COLUMNS: Columns = &[("name", Text), ("value", Int8)];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let (mut all, mut last) = (Totals::default(), Totals::default());
    for (totals, period) in stats::by_database(view).values() {
        all = all.plus(totals);
        last = last.plus(period);
    }
    let period = view.config.settings.stats_period.0;
    let names = stats::COLUMNS.iter().skip(1).map(|(name, _)| *name);
    let values = stats::counts(&all).into_iter().chain(stats::a_second(&last, period));
    names.zip(values).map(|(name, value)| vec![text(name), number(value)]).collect()
}
