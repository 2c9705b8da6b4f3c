//! Rows of a relation as series: one for each value of the `group_by` columns, in equal steps of time.

use forecast::grid::{self, Fill, Frequency, Gather, Grid};
use learn::count;
use pgrx::spi::quote_identifier;
use pgrx::{FromDatum, PgSqlErrorCode, pg_sys};
use serde_json::{Value, json};

use super::super::cursor::{self, Receiver, ResultColumn};
use super::super::report::{self, EverySecond};
use super::super::{Plan, interrupts};
use super::Asked;
use crate::activity;
use crate::error::{Error, Result};
use crate::features::{Kind, Number};
use crate::forecast::session_zone;
use crate::forecast::stored::Clock;
use crate::memory;
use crate::nearest;
use crate::registry;

/// Steps of a series: ten years of minutes.
const MOST_STEPS: usize = 5_300_000;

/// Series of a training.
const MOST_SERIES: usize = 1_000_000;

/// The columns that make the series.
pub struct Columns {
    pub time: ResultColumn,
    pub group_by: Vec<String>,
    label: ResultColumn,
}

impl Columns {
    /// Finds them among the columns of the relation.
    pub fn find(described: &[ResultColumn], labels: &[String], asked: &Asked) -> Result<Columns> {
        let (label, rest) = labels.split_first().ok_or_else(|| Error::null_argument("y_column_name"))?;
        if !rest.is_empty() {
            return Err(
                Error::unsupported("a forecast has one y_column_name").hint("Train a project for each of them.")
            );
        }
        let label = find(described, label, "y_column_name")?;
        match Kind::of(label.type_oid) {
            Some(Kind::Number(number)) if !matches!(number, Number::Time | Number::Bool) => {}
            _ => {
                let type_name = registry::type_name(label.type_oid)?;
                return Err(Error::invalid(format!(
                    "y_column_name \"{}\" is of type {type_name}: a forecast is of numbers",
                    label.name
                )));
            }
        }
        let time = asked.time_column.as_ref().ok_or_else(|| {
            let moments = described.iter().filter(|column| is_moment(column.type_oid));
            let names: Vec<&str> = moments.map(|column| column.name.as_str()).collect();
            Error::invalid("the first training of a forecast needs a time_column").hint(match names.as_slice() {
                [] => "The relation needs a column of type date, timestamp or timestamptz.".to_owned(),
                names => format!("Columns with times are: {}.", names.join(", ")),
            })
        })?;
        let time = find(described, time, "time_column")?;
        if !is_moment(time.type_oid) {
            let type_name = registry::type_name(time.type_oid)?;
            return Err(Error::invalid(format!("time_column \"{}\" is of type {type_name}", time.name)).hint(
                "Give a column of type date, timestamp or timestamptz; a query in parentheses can make one of others.",
            ));
        }
        let group_by = match &asked.group_by {
            None => Vec::new(),
            Some(names) if described.iter().any(|column| column.name == *names) => vec![names.clone()],
            Some(names) => {
                let names = names.split(',').map(|name| name.trim().trim_matches('"'));
                names.map(|name| Ok(find(described, name, "group_by")?.name)).collect::<Result<_>>()?
            }
        };
        let label = Columns { time, group_by, label };
        label.check_apart()?;
        Ok(label)
    }

    fn check_apart(&self) -> Result<()> {
        let all: Vec<&String> = self.group_by.iter().chain([&self.time.name, &self.label.name]).collect();
        let twice = all.iter().enumerate().find(|(index, name)| all.iter().take(*index).any(|other| other == *name));
        match twice {
            Some((_, name)) => Err(Error::invalid(format!(
                "column \"{name}\" is named twice among y_column_name, time_column and group_by"
            ))),
            None => Ok(()),
        }
    }

    /// What a snapshot records of them.
    pub fn to_json(&self) -> Value {
        json!([{ "name": self.label.name, "label": true }, { "name": self.time.name }])
    }

    /// The statement that gives key, time as an instant, time on the clock, and value, in the order of the series.
    fn statement(&self, statement: &str) -> String {
        let column = |name: &str| format!("pgml_rows.{}", quote_identifier(name));
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let parts: Vec<String> =
            self.group_by.iter().map(|name| format!("{}::pg_catalog.text, {}", literal(name), column(name))).collect();
        let key = match parts.is_empty() {
            true => "''::pg_catalog.text".to_owned(),
            false => format!("pg_catalog.jsonb_build_object({})::pg_catalog.text", parts.join(", ")),
        };
        let time = column(&self.time.name);
        let (instant, clock) = match self.time.type_oid {
            pg_sys::TIMESTAMPTZOID => (
                format!("pg_catalog.timezone('UTC', {time})"),
                format!("pg_catalog.timezone(pg_catalog.current_setting('TimeZone'), {time})"),
            ),
            _ => (format!("{time}::pg_catalog.timestamp"), format!("{time}::pg_catalog.timestamp")),
        };
        format!(
            "SELECT {key} COLLATE pg_catalog.\"C\", {instant}, {clock}, {}::pg_catalog.float8 \
             FROM ({statement}) AS pgml_rows WHERE pg_catalog.isfinite({time}) ORDER BY 1, 2",
            column(&self.label.name)
        )
    }
}

fn is_moment(type_oid: pg_sys::Oid) -> bool {
    matches!(type_oid, pg_sys::DATEOID | pg_sys::TIMESTAMPOID | pg_sys::TIMESTAMPTZOID)
}

fn find(described: &[ResultColumn], name: &str, argument: &str) -> Result<ResultColumn> {
    described.iter().find(|column| column.name == name).cloned().ok_or_else(|| {
        let names: Vec<String> = described.iter().map(|column| column.name.clone()).collect();
        Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
            format!("{argument} \"{name}\" is not a column of the relation"),
        )
        .hint(nearest::hint(name, &names))
    })
}

/// A series in equal steps.
pub struct Series {
    pub key: String,
    first: i64,
    pub values: Vec<f64>,
}

impl Series {
    /// The number of the step at which so many have been learnt.
    pub fn step(&self, learnt: usize) -> i64 {
        self.first + learnt as i64 - 1
    }

    /// The number of its last step.
    pub fn last(&self) -> i64 {
        self.step(self.values.len())
    }
}

/// What was read.
pub struct Table {
    pub clock: Clock,
    pub grid: Grid,
    pub series: Vec<Series>,
    /// Rows with a time.
    pub rows: u64,
}

/// Rows of one series as they come.
struct Rows {
    key: String,
    instants: Vec<i64>,
    clocks: Vec<i64>,
    values: Vec<f64>,
}

#[derive(Default)]
struct Collector {
    series: Vec<Rows>,
    rows: u64,
    often: EverySecond,
}

impl Receiver for Collector {
    fn row(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<()> {
        let [key, instant, clock, value] = values else {
            return Err(Error::corrupted("a row of a series has 4 columns"));
        };
        // SAFETY: the statement gives a text, two timestamps and a float8; the text is read before the row goes.
        let (key, value) = unsafe {
            (
                <&str>::from_datum(*key, nulls[0]).unwrap_or_default(),
                f64::from_datum(*value, nulls[3]).unwrap_or(f64::NAN),
            )
        };
        if self.series.last().is_none_or(|last| last.key != key) {
            if self.series.len() == MOST_SERIES {
                return Err(Error::invalid(format!("group_by makes more than {MOST_SERIES} series")));
            }
            memory::reserve(&mut self.series, 1)?;
            self.series.push(Rows { key: key.to_owned(), instants: vec![], clocks: vec![], values: vec![] });
        }
        let Some(rows) = self.series.last_mut() else { return Ok(()) };
        for (times, time) in [(&mut rows.instants, instant), (&mut rows.clocks, clock)] {
            memory::reserve(times, 1)?;
            times.push(time.value() as i64);
        }
        memory::reserve(&mut rows.values, 1)?;
        rows.values.push(value);
        self.rows += 1;
        if self.rows.is_multiple_of(1024) {
            interrupts::check();
            activity::rows(self.rows);
            if self.often.passes() {
                report::info(&format!("{} read", count(self.rows, "row")));
            }
        }
        Ok(())
    }
}

/// Reads all rows of a plan.
pub fn read(plan: &Plan, columns: &Columns, asked: &Asked, gather: Gather, fill: Fill) -> Result<Table> {
    let mut collector = Collector::default();
    cursor::run(&columns.statement(&plan.source.statement), plan.snapshot.materialized, &mut collector)?;
    activity::rows(collector.rows);
    let Collector { mut series, rows, .. } = collector;
    series.retain(|rows| rows.values.iter().any(|value| value.is_finite()));
    if series.is_empty() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
            format!("{} has no row with a time and a value", plan.source.name),
        ));
    }
    let clock_of = |frequency: Frequency| match (columns.time.type_oid, frequency.is_of_calendar()) {
        (pg_sys::TIMESTAMPTZOID, false) => Ok(Clock::Utc),
        (pg_sys::TIMESTAMPTZOID, true) => session_zone().map(Clock::Zone),
        _ => Ok(Clock::Wall),
    };
    let frequency = match asked.frequency {
        Some(frequency) => frequency,
        None => Frequency::of_times(series.iter().map(|rows| rows.clocks.as_slice())).ok_or_else(|| {
            Error::invalid(format!("the times of column \"{}\" do not tell their frequency", columns.time.name)).hint(
                "Give frequency => '1 day': rows of the same step are put together, and steps without rows filled.",
            )
        })?,
    };
    let clock = clock_of(frequency)?;
    let times = |rows: &Rows| if clock == Clock::Utc { rows.instants.clone() } else { rows.clocks.clone() };
    for rows in &mut series {
        rows.clocks = times(rows);
        rows.instants = Vec::new();
    }
    let grid = Grid::of_times(frequency, series.iter().flat_map(|rows| rows.clocks.iter().copied()));
    let mut counts = Counts::default();
    let mut regular = Vec::with_capacity(series.len());
    for rows in series {
        interrupts::check();
        let mut steps: Vec<(i64, f64)> =
            rows.clocks.iter().zip(&rows.values).map(|(time, value)| (grid.step(*time), *value)).collect();
        // The clock goes back once a year.
        steps.sort_by_key(|(step, _)| *step);
        let (first, values) = grid::regular(&steps, gather, fill, MOST_STEPS).map_err(|error| {
            Error::invalid(format!("{error}, at a frequency of {}", frequency.name()))
                .hint("Give a longer frequency, or leave out rows whose time is wrong.")
        })?;
        counts.add(&steps, &values);
        regular.push(Series { key: rows.key, first, values });
    }
    counts.notice(frequency, gather, fill);
    if asked.frequency.is_none() && columns.group_by.is_empty() && 2 * counts.gathered as u64 > rows {
        report::warning(
            "most rows have the time of others, and are one series: group_by names the columns that tell series apart",
        );
    }
    Ok(Table { clock, grid, series: regular, rows })
}

/// What was done to make series regular.
#[derive(Default)]
struct Counts {
    gathered: usize,
    filled: usize,
    /// Series with steps that were filled.
    with_gaps: usize,
}

impl Counts {
    fn add(&mut self, steps: &[(i64, f64)], values: &[f64]) {
        let known = |steps: &[(i64, f64)]| steps.iter().filter(|(_, value)| value.is_finite()).count();
        let groups = steps.chunk_by(|one, other| one.0 == other.0).filter(|group| known(group) > 0);
        let with_value = groups.count();
        self.gathered += known(steps) - with_value;
        self.filled += values.len() - with_value;
        self.with_gaps += usize::from(values.len() > with_value);
    }

    fn notice(&self, frequency: Frequency, gather: Gather, fill: Fill) {
        if self.gathered > 0 {
            let what = if gather == Gather::Mean { "mean" } else { "sum" };
            report::notice(&format!(
                "{} put together by their {what} with others of the same {}",
                count(self.gathered, "row"),
                frequency.name()
            ));
        }
        if self.filled > 0 {
            let how = match fill {
                Fill::Linear => "on the line between their neighbours",
                Fill::Previous => "with the last value before",
                Fill::Zero => "with 0",
            };
            report::notice(&format!(
                "{} without a value filled {how}, in {} series",
                count(self.filled, "step"),
                self.with_gaps
            ));
        }
    }
}
