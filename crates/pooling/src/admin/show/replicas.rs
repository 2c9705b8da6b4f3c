//! SHOW REPLICAS: the servers of each database that has several, with their roles and their replication lag.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View, number, text};
use crate::config::Value;
use crate::monitor::ServerSeen;

pub const COLUMNS: Columns = &[
    ("database", Text),
    ("host", Text),
    ("port", Int8),
    ("role", Text),
    ("configured", Text),
    ("weight", Int8),
    ("reads", Int8),
    ("writes", Int8),
    ("banned", Int8),
    ("lag_bytes", Int8),
    ("lag_ms", Int8),
    ("lsn", Text),
    ("timeline", Int8),
    ("system_identifier", Text),
    ("latency_ms", Int8),
    ("answered_ms_ago", Int8),
    ("error", Text),
];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let now = view.shared.board.moment(view.now);
    let row = |ServerSeen { database, report, error }: ServerSeen| {
        use balancer::Standing::{Primary, Replica};
        let flag = |flag: bool| number(u8::from(flag));
        let (banned, last) = (report.ban.is_some(), report.last);
        vec![
            text(database),
            text(report.setup.host),
            number(report.setup.port),
            text(report.standing.word()),
            text(report.setup.role.show()),
            number(report.setup.weight),
            flag(report.standing == Replica && !banned),
            flag(report.standing == Primary),
            flag(banned),
            report.lag.and_then(|lag| number(lag.bytes)),
            report.lag.and_then(|lag| number(lag.millis)),
            last.and_then(|last| text(format!("{:X}/{:X}", last.lsn >> 32, last.lsn & 0xffff_ffff))),
            last.and_then(|last| last.timeline).and_then(number),
            last.and_then(|last| last.system).and_then(number),
            last.and_then(|last| number(last.latency)),
            last.and_then(|last| number(now.since(last.at))),
            error,
        ]
    };
    view.shared.board.servers().into_iter().map(row).collect()
}
