//! `pgml.forecast`: how the series of a project go on.

pub mod stored;

use forecast::Steps;
use pgrx::{IntoDatum, pg_sys};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::names;
use crate::sql::{Call, text_datum};
use stored::{Clock, Head, Stored};

crate::sql_function!(pgml_forecast, forecast);

/// Steps of a call: more than a million rows of one series are a mistake.
pub const MOST_STEPS: i32 = 1_000_000;

/// `pgml.forecast(project or model, horizon, groups, coverage)`: rows of groups, time, mean, lower, upper.
fn forecast(call: &Call) -> Result<pg_sys::Datum> {
    let Some(coverage) = call.f64(3) else { return Err(Error::null_argument("coverage")) };
    if !(coverage > 0.0 && coverage < 1.0) {
        return Err(Error::invalid(format!("coverage must be above 0 and below 1: {coverage}"))
            .hint("coverage => 0.9 gives intervals that hold nine values of ten."));
    }
    let groups = call.json(2, "groups")?.filter(|groups| !groups.is_null());
    let (model, head) = names::forecaster(crate::evaluate::key(call)?)?;
    let horizon = match call.i32(1) {
        None => head.horizon,
        Some(steps @ 1..=MOST_STEPS) => steps as usize,
        Some(steps) => return Err(Error::invalid(format!("horizon must be from 1 to {MOST_STEPS} steps: {steps}"))),
    };
    let snapshot = names::snapshot();
    let wanted = Wanted::of(&head, groups)?;
    let series: Vec<Stored> = match wanted.key()? {
        Some(key) => head.series(model, &key, snapshot.get())?.into_iter().collect(),
        None => {
            let mut found = Vec::new();
            for bucket in head.all(model, snapshot.get()) {
                found.extend(bucket?.into_iter().filter(|series| wanted.holds(&series.key)));
            }
            found.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            found
        }
    };
    if series.is_empty() {
        return Err(Error::undefined(format!("model {model} has no series of {wanted}"))
            .hint("groups => NULL gives all series. A series that began after the training needs another one."));
    }
    let times = Times::of(&head)?;
    let reach = forecast::normal::quantile(0.5 + coverage / 2.0);
    let mut rows = Vec::new();
    for one in series {
        let Steps { mean, sigma } = one.model.forecast(horizon, &[]).map_err(|error| of_model(model, &error))?;
        let key = json_datum(&one.key)?;
        for ((step, mean), sigma) in (1..).zip(mean).zip(sigma) {
            pgrx::check_for_interrupts!();
            let (lower, upper) = (mean - reach * sigma, mean + reach * sigma);
            let time = times.datum(one.last.saturating_add(step))?;
            rows.push([key, Some(time), mean.into_datum(), lower.into_datum(), upper.into_datum()]);
        }
    }
    call.rows(&rows)
}

fn of_model(model: i64, error: &forecast::Error) -> Error {
    Error::invalid(format!("model {model} cannot forecast: {error}"))
}

/// Which series are asked for.
struct Wanted {
    groups: Option<serde_json::Map<String, Value>>,
    /// Whether each `group_by` column is given.
    is_whole: bool,
}

impl Wanted {
    fn of(head: &Head, groups: Option<Value>) -> Result<Wanted> {
        let groups = match groups {
            None => return Ok(Wanted { groups: None, is_whole: head.group_by.is_empty() }),
            Some(Value::Object(groups)) => groups,
            Some(other) => {
                return Err(Error::invalid(format!("groups must be a JSON object, not {other}"))
                    .hint("groups => '{\"store\": 7}' gives the series of a store."));
            }
        };
        if let Some(unknown) = groups.keys().find(|name| !head.group_by.contains(name)) {
            let known = head.group_by.join(", ");
            let error = Error::invalid(format!("groups has \"{unknown}\", by which the series are not divided"));
            return Err(match known.is_empty() {
                true => error.hint("The project was trained without group_by: it has one series."),
                false => error.hint(format!("They are divided by {known}.")),
            });
        }
        let is_whole = groups.len() == head.group_by.len();
        Ok(Wanted { groups: Some(groups), is_whole })
    }

    /// The key of the one series that is asked for, as jsonb prints it.
    fn key(&self) -> Result<Option<String>> {
        match (&self.groups, self.is_whole) {
            (_, false) => Ok(None),
            (None, true) => Ok(Some(String::new())),
            (Some(groups), true) if groups.is_empty() => Ok(Some(String::new())),
            (Some(groups), true) => printed(&Value::Object(groups.clone())).map(Some),
        }
    }

    fn holds(&self, key: &str) -> bool {
        let Some(groups) = &self.groups else { return true };
        let Ok(Value::Object(own)) = serde_json::from_str(key) else { return groups.is_empty() };
        groups.iter().all(|(name, value)| own.get(name) == Some(value))
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.groups {
            None => write!(f, "any group"),
            Some(groups) => write!(f, "{}", Value::Object(groups.clone())),
        }
    }
}

/// A jsonb of this text; `None` for an empty one.
pub fn json_datum(text: &str) -> Result<Option<pg_sys::Datum>> {
    if text.is_empty() {
        return Ok(None);
    }
    let text = std::ffi::CString::new(text).map_err(|_| Error::corrupted("the key of a series has a zero byte"))?;
    // SAFETY: the function takes a C string and raises its own ERROR for what is no JSON.
    Ok(unsafe { pgrx::direct_function_call_as_datum(pg_sys::jsonb_in, &[Some(pg_sys::Datum::from(text.as_ptr()))]) })
}

/// As jsonb prints a value: what a key is compared with.
fn printed(value: &Value) -> Result<String> {
    let Some(datum) = json_datum(&value.to_string())? else { return Ok(String::new()) };
    // SAFETY: a jsonb that was made just now; the function gives a palloc'd C string.
    let text = unsafe { pgrx::direct_function_call::<&std::ffi::CStr>(pg_sys::jsonb_out, &[Some(datum)]) };
    Ok(text.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default())
}

/// When the steps of a model are, as `timestamptz`.
pub struct Times<'a> {
    head: &'a Head,
    /// The time zone whose clock counts them; `None` where they are instants.
    zone: Option<String>,
}

impl Times<'_> {
    pub fn of(head: &Head) -> Result<Times<'_>> {
        let zone = match &head.clock {
            Clock::Utc => None,
            Clock::Zone(zone) => Some(zone.clone()),
            Clock::Wall => Some(session_zone()?),
        };
        Ok(Times { head, zone })
    }

    pub fn datum(&self, step: i64) -> Result<pg_sys::Datum> {
        let out_of_range = || Error::invalid("the horizon reaches beyond the times that PostgreSQL knows");
        let time = self.head.grid.time(step).ok_or_else(out_of_range)?;
        let time = pg_sys::Datum::from(time);
        let Some(zone) = &self.zone else { return Ok(time) };
        // SAFETY: timestamp_zone takes a text and a timestamp, and raises its own ERROR for what is out of range.
        let found = unsafe {
            pgrx::direct_function_call_as_datum(pg_sys::timestamp_zone, &[Some(text_datum(zone)), Some(time)])
        };
        found.ok_or_else(out_of_range)
    }
}

/// The time zone of the session.
pub fn session_zone() -> Result<String> {
    let zone = pgrx::Spi::get_one::<String>("SELECT pg_catalog.current_setting('TimeZone')")?;
    zone.ok_or_else(|| Error::corrupted("the setting TimeZone has no value"))
}

/// An `interval` argument as a frequency.
pub fn frequency(call: &Call, index: usize) -> Result<Option<forecast::grid::Frequency>> {
    let Some(datum) = call.datum(index) else { return Ok(None) };
    // SAFETY: an interval, as declared: a pointer to PostgreSQL's structure, which lives as long as the call.
    let interval = unsafe { &*datum.cast_mut_ptr::<pg_sys::Interval>() };
    forecast::grid::Frequency::of_parts(interval.month, interval.day, interval.time)
        .map(Some)
        .map_err(|error| Error::invalid(error.to_string()).hint("Give frequency => '1 day', or '1 month'."))
}
