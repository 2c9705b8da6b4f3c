//! Dates and timestamps as features: what SQL's `extract` says of them, part by part.
//!
//! A model cannot learn from a moment as one number alone: that sales rise on Fridays is not to be seen in the seconds since
//! 1970. So a moment makes several features, by PostgreSQL's names and with its values, each the nearest float32.

/// What a date makes, in this order.
pub const OF_DATE: [&str; 5] = ["year", "month", "day", "dow", "epoch"];

/// What a timestamp makes, in this order.
pub const OF_TIMESTAMP: [&str; 6] = ["year", "month", "day", "dow", "hour", "epoch"];

/// Seconds from 1970-01-01 to 2000-01-01, where PostgreSQL counts from.
const SECONDS_TO_2000: i64 = 946_684_800;

const DAY: i64 = 86_400_000_000;
const HOUR: i64 = 3_600_000_000;

/// The parts of a date, given as days since 2000-01-01: year (-1 is 1 BC), month and day from 1, day of the week from 0 for
/// Sunday, seconds since 1970-01-01. The least and the greatest number are PostgreSQL's infinities: an infinite epoch, and
/// nothing else.
pub fn of_date(days: i32) -> [f32; 5] {
    let epoch = match days {
        i32::MIN => f64::NEG_INFINITY,
        i32::MAX => f64::INFINITY,
        days => (i64::from(days) * 86_400 + SECONDS_TO_2000) as f64,
    };
    let [year, month, day, dow] = civil(epoch.is_finite().then_some(i64::from(days)));
    [year, month, day, dow, epoch as f32]
}

/// The parts of a timestamp, given as microseconds since 2000-01-01 00:00: those of its date, with the hour from 0 to 23
/// before the seconds since 1970-01-01 00:00. A `timestamptz` is its moment in UTC.
pub fn of_timestamp(microseconds: i64) -> [f32; 6] {
    let epoch = match microseconds {
        i64::MIN => f64::NEG_INFINITY,
        i64::MAX => f64::INFINITY,
        _ => microseconds as f64 / 1e6 + SECONDS_TO_2000 as f64,
    };
    let finite = epoch.is_finite();
    let [year, month, day, dow] = civil(finite.then(|| microseconds.div_euclid(DAY)));
    let hour = if finite { (microseconds.rem_euclid(DAY) / HOUR) as f32 } else { f32::NAN };
    [year, month, day, dow, hour, epoch as f32]
}

/// Seconds of an interval, as `extract(epoch from ...)` counts them: a year has 365.25 days, a month 30.
pub fn seconds_of_interval(months: i32, days: i32, microseconds: i64) -> f32 {
    match (months, days, microseconds) {
        (i32::MIN, i32::MIN, i64::MIN) => return f32::NEG_INFINITY,
        (i32::MAX, i32::MAX, i64::MAX) => return f32::INFINITY,
        _ => {}
    }
    let years = f64::from(months / 12) * 365.25;
    let days = years + f64::from(months % 12) * 30.0 + f64::from(days);
    (days * 86_400.0 + microseconds as f64 / 1e6) as f32
}

/// Year, month, day and day of the week in the Gregorian calendar, which PostgreSQL extends to all times.
fn civil(days: Option<i64>) -> [f32; 4] {
    let Some(days) = days else { return [f32::NAN; 4] };
    // Years begin in March here, so that the leap day is a year's last; an era is 400 years, whose days are always the same.
    const ERA: i64 = 146_097;
    let since_march_of_0 = days + 730_425;
    let (era, of_era) = (since_march_of_0.div_euclid(ERA), since_march_of_0.rem_euclid(ERA));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (ERA - 1)) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    // There is no year 0.
    let year = if year > 0 { year } else { year - 1 };
    // 2000-01-01 was a Saturday.
    [year as f32, month as f32, day as f32, (days + 6).rem_euclid(7) as f32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(of_date(0), [2000.0, 1.0, 1.0, 6.0, 946_684_800.0]);
        assert_eq!(of_date(59), [2000.0, 2.0, 29.0, 2.0, 951_782_400.0]);
        assert_eq!(of_date(-10_957), [1970.0, 1.0, 1.0, 4.0, 0.0]);
        // 0001-12-31 BC, the day before year 1.
        assert_eq!(of_date(-730_120)[..4], [-1.0, 12.0, 31.0, 0.0]);
        assert!(of_date(i32::MAX)[4] == f32::INFINITY && of_date(i32::MAX)[0].is_nan());
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let days_of = |year: i64, month: i64| match month {
            2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let (mut year, mut month, mut day) = (1600, 1, 1);
        let first = -146_097;
        for days in first..first + 400 * 366 {
            let [y, m, d, dow, _] = of_date(days);
            assert_eq!((y as i64, m as i64, d as i64), (year, month, day));
            assert_eq!(dow as i64, (i64::from(days) + 6).rem_euclid(7));
            day += 1;
            if day > days_of(year, month) {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }

    #[test]
    fn timestamps_before_2000_have_their_hours() {
        assert_eq!(of_timestamp(-1)[..5], [1999.0, 12.0, 31.0, 5.0, 23.0]);
        assert_eq!(of_timestamp(HOUR)[..5], [2000.0, 1.0, 1.0, 6.0, 1.0]);
        assert!(of_timestamp(i64::MIN)[4].is_nan());
    }

    #[test]
    fn intervals_are_seconds() {
        assert_eq!(seconds_of_interval(14, 3, 1_500_000), (365.25f64 * 86_400.0 + 63.0 * 86_400.0 + 1.5) as f32);
        assert_eq!(seconds_of_interval(i32::MAX, i32::MAX, i64::MAX), f32::INFINITY);
    }
}
