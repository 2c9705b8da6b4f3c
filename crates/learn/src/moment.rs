//! Dates and timestamps as features: what SQL's `extract` says of them, part by part.
//!
//! A model cannot learn from a moment as one number alone: that sales rise on Fridays is not to be seen in the seconds since
//! 1970. So a moment makes several features, by PostgreSQL's names and with its values.

/// A part of a moment: what `extract` gives by that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// -1 is 1 BC.
    Year,
    /// From 1.
    Month,
    /// Of the month, from 1.
    Day,
    /// Day of the week, from 0 for Sunday: of models of pgml before 3.3. It tears the weekend apart, and trees need a split for
    /// either end of it.
    Dow,
    /// Day of the week, from 1 for Monday to 7.
    Isodow,
    /// Day of the year, from 1.
    Doy,
    /// From 0 to 23.
    Hour,
    /// From 0 to 59.
    Minute,
    /// Seconds since 1970-01-01 00:00.
    Epoch,
}

use Part::{Day, Dow, Doy, Epoch, Hour, Isodow, Minute, Month, Year};

impl Part {
    /// PostgreSQL's.
    pub fn name(self) -> &'static str {
        match self {
            Year => "year",
            Month => "month",
            Day => "day",
            Dow => "dow",
            Isodow => "isodow",
            Doy => "doy",
            Hour => "hour",
            Minute => "minute",
            Epoch => "epoch",
        }
    }
}

/// What a date makes, in this order; the number of parts tells a model of pgml before 3.3, which knew fewer.
pub const OF_DATE: [&[Part]; 2] = [&[Year, Month, Day, Isodow, Doy, Epoch], &[Year, Month, Day, Dow, Epoch]];

/// What a timestamp makes, likewise.
pub const OF_TIMESTAMP: [&[Part]; 2] =
    [&[Year, Month, Day, Isodow, Doy, Hour, Minute, Epoch], &[Year, Month, Day, Dow, Hour, Epoch]];

/// A moment, taken apart: NaN but for the seconds where it is infinite.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// Year, month, day, day of the week and of the year.
    civil: [f64; 5],
    /// Hour and minute.
    clock: [f64; 2],
    epoch: f64,
}

impl Parts {
    /// The value of a part.
    pub fn of(&self, part: Part) -> f64 {
        let [year, month, day, dow, doy] = self.civil;
        let [hour, minute] = self.clock;
        match part {
            Year => year,
            Month => month,
            Day => day,
            Dow => dow,
            Isodow if dow == 0.0 => 7.0,
            Isodow => dow,
            Doy => doy,
            Hour => hour,
            Minute => minute,
            Epoch => self.epoch,
        }
    }
}

/// Seconds from 1970-01-01 to 2000-01-01, where PostgreSQL counts from.
const SECONDS_TO_2000: i64 = 946_684_800;

const DAY: i64 = 86_400_000_000;
const HOUR: i64 = 3_600_000_000;
const MINUTE: i64 = 60_000_000;

/// The parts of a date, given as days since 2000-01-01. The least and the greatest number are PostgreSQL's infinities: an
/// infinite epoch, and nothing else.
pub fn of_date(days: i32) -> Parts {
    let epoch = match days {
        i32::MIN => f64::NEG_INFINITY,
        i32::MAX => f64::INFINITY,
        days => (i64::from(days) * 86_400 + SECONDS_TO_2000) as f64,
    };
    let finite = epoch.is_finite();
    Parts { civil: civil(finite.then_some(i64::from(days))), clock: clock(finite.then_some(0)), epoch }
}

/// The parts of a timestamp, given as microseconds since 2000-01-01 00:00. A `timestamptz` is its moment in UTC.
pub fn of_timestamp(microseconds: i64) -> Parts {
    let epoch = match microseconds {
        i64::MIN => f64::NEG_INFINITY,
        i64::MAX => f64::INFINITY,
        _ => microseconds as f64 / 1e6 + SECONDS_TO_2000 as f64,
    };
    let finite = epoch.is_finite();
    Parts {
        civil: civil(finite.then(|| microseconds.div_euclid(DAY))),
        clock: clock(finite.then(|| microseconds.rem_euclid(DAY))),
        epoch,
    }
}

/// Hour and minute, of microseconds since midnight.
fn clock(microseconds: Option<i64>) -> [f64; 2] {
    let Some(microseconds) = microseconds else { return [f64::NAN; 2] };
    [(microseconds / HOUR) as f64, (microseconds % HOUR / MINUTE) as f64]
}

/// Seconds of an interval, as `extract(epoch from ...)` counts them: a year has 365.25 days, a month 30.
pub fn seconds_of_interval(months: i32, days: i32, microseconds: i64) -> f64 {
    match (months, days, microseconds) {
        (i32::MIN, i32::MIN, i64::MIN) => return f64::NEG_INFINITY,
        (i32::MAX, i32::MAX, i64::MAX) => return f64::INFINITY,
        _ => {}
    }
    let years = f64::from(months / 12) * 365.25;
    let days = years + f64::from(months % 12) * 30.0 + f64::from(days);
    days * 86_400.0 + microseconds as f64 / 1e6
}

/// Year, month, day, day of the week and of the year in the Gregorian calendar, which PostgreSQL extends to all times.
fn civil(days: Option<i64>) -> [f64; 5] {
    let Some(days) = days else { return [f64::NAN; 5] };
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
    // January and February end a year that begins in March.
    let is_leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    let doy = if month <= 2 { of_year - 305 } else { of_year + 60 + i64::from(is_leap) };
    // There is no year 0.
    let year = if year > 0 { year } else { year - 1 };
    // 2000-01-01 was a Saturday.
    [year, month, day, (days + 6).rem_euclid(7), doy].map(|part| part as f64)
}

/// A date, as days since 2000, as ISO 8601 writes it.
pub fn text_of_date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".to_owned(),
        i32::MIN => "-infinity".to_owned(),
        days => {
            let moment = of_date(days);
            format!("{:04}-{:02}-{:02}", moment.of(Part::Year), moment.of(Part::Month), moment.of(Part::Day))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weekend_is_at_the_end_of_the_week() {
        // 2000-01-01 was a Saturday.
        assert_eq!([-1, 0, 1, 2].map(|days| of_date(days).of(Isodow)), [5.0, 6.0, 7.0, 1.0]);
        assert_eq!([-1, 0, 1, 2].map(|days| of_date(days).of(Dow)), [5.0, 6.0, 0.0, 1.0]);
        assert!(of_date(i32::MAX).of(Isodow).is_nan());
    }

    fn date(days: i32) -> [f64; 6] {
        let parts = of_date(days);
        [Year, Month, Day, Dow, Doy, Epoch].map(|part| parts.of(part))
    }

    #[test]
    fn days_have_their_dates() {
        assert_eq!(date(0), [2000.0, 1.0, 1.0, 6.0, 1.0, 946_684_800.0]);
        assert_eq!(date(59), [2000.0, 2.0, 29.0, 2.0, 60.0, 951_782_400.0]);
        assert_eq!(date(-10_957), [1970.0, 1.0, 1.0, 4.0, 1.0, 0.0]);
        // 0001-12-31 BC, the day before year 1; that year had a leap day.
        assert_eq!(date(-730_120)[..5], [-1.0, 12.0, 31.0, 0.0, 366.0]);
        assert!(date(i32::MAX)[5] == f64::INFINITY && date(i32::MAX)[0].is_nan());
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let days_of = |year: i64, month: i64| match month {
            2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let (mut year, mut month, mut day, mut doy) = (1600, 1, 1, 1);
        let first = -146_097;
        for days in first..first + 400 * 366 {
            let [y, m, d, dow, of_year, _] = date(days);
            assert_eq!((y as i64, m as i64, d as i64, of_year as i64), (year, month, day, doy));
            assert_eq!(dow as i64, (i64::from(days) + 6).rem_euclid(7));
            (day, doy) = (day + 1, doy + 1);
            if day > days_of(year, month) {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year, doy) = (1, year + 1, 1);
            }
        }
    }

    #[test]
    fn timestamps_before_2000_have_their_hours() {
        let of = |microseconds: i64| {
            let parts = of_timestamp(microseconds);
            [Year, Month, Day, Dow, Doy, Hour, Minute].map(|part| parts.of(part))
        };
        assert_eq!(of(-1), [1999.0, 12.0, 31.0, 5.0, 365.0, 23.0, 59.0]);
        assert_eq!(of(HOUR + 2 * MINUTE), [2000.0, 1.0, 1.0, 6.0, 1.0, 1.0, 2.0]);
        assert!(of(i64::MIN)[5].is_nan());
    }

    #[test]
    fn intervals_are_seconds() {
        assert_eq!(seconds_of_interval(14, 3, 1_500_000), (365.25f64 * 86_400.0 + 63.0 * 86_400.0 + 1.5));
        assert_eq!(seconds_of_interval(i32::MAX, i32::MAX, i64::MAX), f64::INFINITY);
    }
}
