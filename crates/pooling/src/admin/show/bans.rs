//! SHOW BANS: the servers that get no reads because of a ban, with its reason and remaining time. The columns are
//! PgCat's; a ban holds for all users.

use std::time::Duration;

use wire::backend::ColumnType::Text;

use crate::admin::show::view::{Columns, Row, View, number, text, time};

pub const COLUMNS: Columns = &[
    ("db", Text),
    ("user", Text),
    ("role", Text),
    ("host", Text),
    ("reason", Text),
    ("ban_time", Text),
    ("ban_duration_seconds", Text),
    ("ban_remaining_seconds", Text),
];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let now = view.shared.board.moment(view.now);
    let banned = |server: crate::monitor::ServerSeen| {
        let ban = server.report.ban?;
        Some(vec![
            text(server.database),
            text("*"),
            text(server.report.standing.word()),
            text(server.report.setup.host),
            text(ban.reason.text()),
            time(view, Duration::from_millis(now.since(ban.since))),
            number(ban.until.since(ban.since).div_ceil(1000)),
            number(ban.until.since(now).div_ceil(1000)),
        ])
    };
    view.shared.board.servers().into_iter().filter_map(banned).collect()
}
