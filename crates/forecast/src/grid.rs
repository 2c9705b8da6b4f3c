//! Equal steps of time: which step a time belongs to, when a step begins, and how times of a table tell the frequency.
//!
//! Times are microseconds since 2000-01-01 00:00, as PostgreSQL's `timestamp` has them, in a calendar without leap
//! seconds and without time zones.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day.
pub const DAY: i64 = 24 * HOUR;

/// The distance of two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frequency {
    Months(i64),
    Micros(i64),
}

impl Frequency {
    /// Of the parts of an interval, of which months stand alone.
    pub fn of_parts(months: i32, days: i32, micros: i64) -> Result<Frequency> {
        let rest = i64::from(days).checked_mul(DAY).and_then(|days| days.checked_add(micros));
        match (months, rest) {
            (months @ 1.., Some(0)) => Ok(Frequency::Months(months.into())),
            (0, Some(rest @ 1..)) => Ok(Frequency::Micros(rest)),
            _ => Err(Error::Invalid(
                "frequency must be some months, or some days and hours, and more than nothing".into(),
            )),
        }
    }

    /// Whether steps are days, weeks, months: what a calendar counts, and not a clock.
    pub fn is_of_calendar(self) -> bool {
        match self {
            Frequency::Months(_) => true,
            Frequency::Micros(micros) => micros % DAY == 0,
        }
    }

    /// Lengths of the seasons that are usual at this frequency, the shortest first: a day of hours, a week of days, a year
    /// of weeks, months or quarters.
    pub fn seasons(self) -> Vec<usize> {
        const WEEK: i64 = 7 * DAY;
        let parts = |whole: i64, step: i64| (whole % step == 0 && whole / step > 1).then_some((whole / step) as usize);
        match self {
            Frequency::Months(months) => parts(12, months).into_iter().collect(),
            Frequency::Micros(WEEK) => vec![52],
            Frequency::Micros(micros) if micros < MINUTE => parts(MINUTE, micros).into_iter().collect(),
            Frequency::Micros(micros) if micros < 5 * MINUTE => parts(HOUR, micros).into_iter().collect(),
            Frequency::Micros(micros) if micros < DAY => {
                [parts(DAY, micros), parts(WEEK, micros)].into_iter().flatten().collect()
            }
            Frequency::Micros(micros) => parts(WEEK, micros).into_iter().collect(),
        }
    }

    /// As an interval is written: `1 month`, `7 days`, `15 minutes`.
    pub fn name(self) -> String {
        let (count, unit) = match self {
            Frequency::Months(months) => (months, "month"),
            Frequency::Micros(micros) => {
                let units = [(DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second"), (1, "microsecond")];
                let (size, unit) = units.into_iter().find(|(size, _)| micros % size == 0).unwrap_or((1, "microsecond"));
                (micros / size, unit)
            }
        };
        format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
    }

    /// The frequency that most neighbours of the series have, each in the order of time: of months where they are the same
    /// day of theirs, or the last. `None` where no distance is that of most.
    pub fn of_times<'a>(series: impl Iterator<Item = &'a [i64]>) -> Option<Frequency> {
        let mut counts = std::collections::HashMap::<Frequency, usize>::new();
        let mut all = 0;
        for times in series {
            for pair in times.windows(2) {
                let [earlier, later] = [pair[0], pair[1]];
                if later > earlier {
                    *counts.entry(between(earlier, later)).or_default() += 1;
                    all += 1;
                }
            }
        }
        let (frequency, count) = counts.into_iter().max_by_key(|(frequency, count)| (*count, frequency.name()))?;
        (2 * count > all).then_some(frequency)
    }
}

/// The distance of two times.
fn between(earlier: i64, later: i64) -> Frequency {
    let (first, second) = (Date::of(earlier), Date::of(later));
    let months = second.month - first.month;
    let alike = first.day == second.day || first.is_last() && second.is_last();
    if months >= 1 && alike && earlier.rem_euclid(DAY) == later.rem_euclid(DAY) {
        Frequency::Months(months)
    } else {
        Frequency::Micros(later.saturating_sub(earlier))
    }
}

/// The steps of a frequency, from a first one, which is step 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    pub frequency: Frequency,
    /// When step 0 begins.
    origin: i64,
    /// Of months: whether a step is named by the last day of its first month.
    last_day: bool,
}

impl Grid {
    /// The steps that these times are given by: step 0 is that of the earliest.
    pub fn of_times(frequency: Frequency, times: impl Iterator<Item = i64> + Clone) -> Grid {
        let first = times.clone().min().unwrap_or(0);
        let same_time = times.clone().all(|time| time.saturating_sub(first) % DAY == 0);
        let of_day = if same_time { first } else { first.div_euclid(DAY) * DAY };
        match frequency {
            Frequency::Months(_) => {
                let day = Date::of(first).day;
                let same_day = same_time && times.clone().all(|time| Date::of(time).day == day);
                let last_day = same_time && !same_day && times.into_iter().all(|time| Date::of(time).is_last());
                let date = Date::of(of_day);
                let origin = if same_day || last_day { of_day } else { Date { day: 1, ..date }.time() };
                Grid { frequency, origin, last_day }
            }
            Frequency::Micros(micros) if micros % DAY == 0 => Grid { frequency, origin: of_day, last_day: false },
            Frequency::Micros(micros) => {
                let exact = times.into_iter().all(|time| time.saturating_sub(first) % micros == 0);
                let origin = if exact { first } else { first.div_euclid(micros) * micros };
                Grid { frequency, origin, last_day: false }
            }
        }
    }

    /// The step that a time belongs to.
    pub fn step(&self, time: i64) -> i64 {
        match self.frequency {
            Frequency::Micros(micros) => time.saturating_sub(self.origin).div_euclid(micros),
            Frequency::Months(months) => (Date::of(time).month - Date::of(self.origin).month).div_euclid(months),
        }
    }

    /// When a step begins; `None` beyond what times can be.
    pub fn time(&self, step: i64) -> Option<i64> {
        match self.frequency {
            Frequency::Micros(micros) => self.origin.checked_add(step.checked_mul(micros)?),
            Frequency::Months(months) => {
                let origin = Date::of(self.origin);
                let month = origin.month.checked_add(step.checked_mul(months)?)?;
                // Some 290,000 years are 64 bits of microseconds.
                if month.abs() > 12 * 280_000 {
                    return None;
                }
                let date = Date { month, day: 1 };
                let day = if self.last_day { date.days() } else { origin.day.min(date.days()) };
                Some(Date { month, day }.time() + self.origin.rem_euclid(DAY))
            }
        }
    }
}

/// A day of the Gregorian calendar.
#[derive(Clone, Copy)]
struct Date {
    /// Months since January of the year 0.
    month: i64,
    /// From 1.
    day: i64,
}

impl Date {
    /// The algorithm counts days from March of the year 0, so that leap days stand at the end of a year.
    fn of(time: i64) -> Date {
        let days = time.div_euclid(DAY) + 730_425;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        Date { month: (era * 400 + year) * 12 + month + 2, day: of_year - (153 * month + 2) / 5 + 1 }
    }

    /// When it begins.
    fn time(self) -> i64 {
        let from_march = self.month - 2;
        let (year, month) = (from_march.div_euclid(12), from_march.rem_euclid(12));
        let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let of_year = (153 * month + 2) / 5 + self.day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
        (days - 730_425) * DAY
    }

    /// Days of its month.
    fn days(self) -> i64 {
        let first = |month| Date { month, day: 1 }.time();
        (first(self.month + 1) - first(self.month)) / DAY
    }

    fn is_last(self) -> bool {
        self.day == self.days()
    }
}

/// What becomes of several values of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gather {
    Mean,
    Sum,
}

/// What stands for a step without a value, between others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// On the line between its neighbours.
    Linear,
    /// The last value before it.
    Previous,
    Zero,
}

/// The values of a series at equal steps, the first and the last of which have one. `rows` are steps and values in the order of
/// steps; values that are not finite are none. Gives the first step.
pub fn regular(rows: &[(i64, f64)], gather: Gather, fill: Fill, most: usize) -> Result<(i64, Vec<f64>)> {
    let known: Vec<(i64, f64)> = rows
        .chunk_by(|one, other| one.0 == other.0)
        .filter_map(|rows| {
            let values = rows.iter().map(|(_, value)| *value).filter(|value| value.is_finite());
            let (count, sum) = values.fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
            let value = if gather == Gather::Mean { sum / f64::from(count) } else { sum };
            (count > 0).then_some((rows[0].0, value))
        })
        .collect();
    let (Some((first, start)), Some((last, _))) = (known.first(), known.last()) else { return Ok((0, Vec::new())) };
    let steps = last.saturating_sub(*first).saturating_add(1);
    if usize::try_from(steps).map_or(true, |steps| steps > most) {
        return Err(Error::Invalid(format!(
            "a series has {steps} steps from its first time to its last: the limit is {most}"
        )));
    }
    let mut values = vec![*start];
    for pair in known.windows(2) {
        let [(earlier, from), (later, to)] = [pair[0], pair[1]];
        let distance = later - earlier;
        values.extend((1..distance).map(|step| match fill {
            Fill::Zero => 0.0,
            Fill::Previous => from,
            Fill::Linear => from + (to - from) * (step as f64 / distance as f64),
        }));
        values.push(to);
    }
    Ok((*first, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(year: i64, month: i64, day: i64) -> i64 {
        Date { month: year * 12 + month - 1, day }.time()
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(time(2000, 1, 1), 0);
        assert_eq!(time(1999, 12, 31), -DAY);
        assert_eq!(time(2024, 3, 1) - time(2024, 2, 28), 2 * DAY);
        assert_eq!(time(1900, 3, 1) - time(1900, 2, 28), DAY);
        for day in (-1_000_000..1_000_000).step_by(997) {
            assert_eq!(Date::of(day * DAY).time(), day * DAY);
        }
    }

    #[test]
    fn months_keep_their_day_or_their_end() {
        let ends = [time(2023, 1, 31), time(2023, 2, 28), time(2023, 3, 31), time(2023, 4, 30)];
        assert_eq!(Frequency::of_times([ends.as_slice()].into_iter()), Some(Frequency::Months(1)));
        let grid = Grid::of_times(Frequency::Months(1), ends.into_iter());
        assert_eq!((0..4).map(|step| grid.time(step).unwrap()).collect::<Vec<_>>(), ends);
        assert_eq!(grid.time(13), Some(time(2024, 2, 29)));
        let fifteenths = [time(2023, 11, 15), time(2023, 12, 15), time(2024, 1, 15)];
        assert_eq!(Frequency::of_times([fifteenths.as_slice()].into_iter()), Some(Frequency::Months(1)));
        let grid = Grid::of_times(Frequency::Months(1), fifteenths.into_iter());
        assert_eq!((grid.step(time(2024, 3, 2)), grid.time(4)), (4, Some(time(2024, 3, 15))));
        let sales = [time(2023, 1, 17) + 5 * HOUR, time(2023, 2, 3)];
        let grid = Grid::of_times(Frequency::Months(3), sales.into_iter());
        assert_eq!((grid.step(sales[1]), grid.time(1)), (0, Some(time(2023, 4, 1))));
    }

    #[test]
    fn steps_begin_where_the_times_do_or_at_round_ones() {
        let nines = [9 * HOUR, DAY + 9 * HOUR, 3 * DAY + 9 * HOUR];
        let grid = Grid::of_times(Frequency::Micros(DAY), nines.into_iter());
        assert_eq!((grid.step(nines[2]), grid.time(4)), (3, Some(4 * DAY + 9 * HOUR)));
        let sales = [9 * HOUR, DAY + 7 * HOUR, DAY + 8 * HOUR];
        let grid = Grid::of_times(Frequency::Micros(DAY), sales.into_iter());
        assert_eq!(sales.map(|time| grid.step(time)), [0, 1, 1]);
        let grid = Grid::of_times(Frequency::Micros(HOUR), [90 * MINUTE, 200 * MINUTE].into_iter());
        assert_eq!((grid.time(0), grid.step(200 * MINUTE)), (Some(HOUR), 2));
        assert_eq!(Grid::of_times(Frequency::Months(1), [0].into_iter()).time(i64::MAX), None);
    }

    #[test]
    fn the_frequency_is_that_of_most_neighbours() {
        let days = [0, DAY, 2 * DAY, 9 * DAY, 10 * DAY];
        assert_eq!(Frequency::of_times([days.as_slice()].into_iter()), Some(Frequency::Micros(DAY)));
        assert_eq!(Frequency::of_times([[0, 5, 11, 18].as_slice()].into_iter()), None);
        assert_eq!(Frequency::Micros(7 * DAY).seasons(), [52]);
        assert_eq!(Frequency::Micros(HOUR).seasons(), [24, 168]);
        assert_eq!(Frequency::Micros(15 * MINUTE).name(), "15 minutes");
        assert_eq!(Frequency::Months(3).seasons(), [4]);
        assert!(Frequency::of_parts(1, 1, 0).is_err() && Frequency::of_parts(0, 0, 0).is_err());
    }

    #[test]
    fn gaps_are_filled_and_repeats_gathered() {
        let rows = [(3, 1.0), (3, 3.0), (4, f64::NAN), (6, 8.0)];
        assert_eq!(regular(&rows, Gather::Mean, Fill::Linear, 9), Ok((3, vec![2.0, 4.0, 6.0, 8.0])));
        assert_eq!(regular(&rows, Gather::Sum, Fill::Zero, 9), Ok((3, vec![4.0, 0.0, 0.0, 8.0])));
        assert_eq!(regular(&rows, Gather::Sum, Fill::Previous, 9), Ok((3, vec![4.0, 4.0, 4.0, 8.0])));
        assert!(regular(&[(0, 1.0), (i64::MAX, 1.0)], Gather::Mean, Fill::Linear, 9).is_err());
        assert_eq!(regular(&[], Gather::Mean, Fill::Linear, 9), Ok((0, vec![])));
    }
}
