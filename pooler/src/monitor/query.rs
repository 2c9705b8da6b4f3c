//! The question of a health check, and the meaning of its answer.

use balancer::{Moment, Observation};

/// The question. A primary's timeline is in the name of the WAL file that it writes, which is right from the moment of
/// the promotion; what pg_control tells is that of the last checkpoint. A standby's is that which its receiver is on, or
/// up to which it is consistent.
pub(super) const FULL: &str = "SELECT r, \
    (CASE WHEN r THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END - '0/0'::pg_catalog.pg_lsn), \
    (CASE WHEN r THEN pg_catalog.pg_last_wal_receive_lsn() END - '0/0'::pg_catalog.pg_lsn), \
    (CASE WHEN r THEN pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp() \
        - pg_catalog.pg_last_xact_replay_timestamp()) * 1000) END), \
    (CASE WHEN r THEN greatest((SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver), \
        (SELECT min_recovery_end_timeline FROM pg_catalog.pg_control_recovery()), \
        (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint())) \
    ELSE ('x' || pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::int END), \
    (SELECT system_identifier FROM pg_catalog.pg_control_system()) \
    FROM (SELECT pg_catalog.pg_is_in_recovery() AS r) AS s";

/// The question where the full one is not allowed: without timeline and identifier.
pub(super) const SHORT: &str = "SELECT r, \
    (CASE WHEN r THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END - '0/0'::pg_catalog.pg_lsn), \
    (CASE WHEN r THEN pg_catalog.pg_last_wal_receive_lsn() END - '0/0'::pg_catalog.pg_lsn), \
    (CASE WHEN r THEN pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp() \
        - pg_catalog.pg_last_xact_replay_timestamp()) * 1000) END), NULL, NULL \
    FROM (SELECT pg_catalog.pg_is_in_recovery() AS r) AS s";

/// Reads the row of the answer; `None` when it makes no sense.
pub(super) fn read(row: &[Option<&[u8]>], at: Moment, latency: u64) -> Option<Observation> {
    let &[recovering, lsn, received, age, timeline, system] = row.first_chunk::<6>()?;
    let text = |value: Option<&'_ [u8]>| value.and_then(|value| std::str::from_utf8(value).ok().map(str::to_owned));
    let number = |value| text(value).and_then(|text| text.parse::<u64>().ok());
    let in_recovery = match recovering? {
        b"t" => true,
        b"f" => false,
        _ => return None,
    };
    Some(Observation {
        at,
        in_recovery,
        // A standby that has replayed nothing yet says NULL.
        lsn: number(lsn).unwrap_or(0),
        received: number(received),
        // It is below zero when the clocks disagree.
        replay_age: number(age),
        timeline: number(timeline).and_then(|timeline| u32::try_from(timeline).ok()),
        system: number(system),
        latency,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_what_makes_no_sense_is_not() {
        let row = |values: [&'static str; 6]| {
            values.map(|value| if value.is_empty() { None } else { Some(value.as_bytes()) })
        };
        let standby =
            read(&row(["t", "50331648", "50331720", "-3", "2", "7311111111111111111"]), Moment(5), 1).unwrap();
        assert!(standby.in_recovery);
        assert_eq!((standby.lsn, standby.received, standby.replay_age), (50_331_648, Some(50_331_720), None));
        assert_eq!((standby.timeline, standby.system), (Some(2), Some(7_311_111_111_111_111_111)));
        let short = read(&row(["f", "7", "", "", "", ""]), Moment(5), 1).unwrap();
        assert_eq!((short.in_recovery, short.timeline, short.system), (false, None, None));
        assert_eq!(read(&row(["", "7", "", "", "", ""]), Moment(5), 1), None);
        assert_eq!(read(&row(["x", "7", "", "", "", ""]), Moment(5), 1), None);
        assert_eq!(read(&[], Moment(5), 1), None);
    }
}
