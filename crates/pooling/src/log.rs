//! Lines of the log: their text and their subject. The program says where they are written.

use std::collections::VecDeque;
use std::fmt::{Arguments, Display, Formatter};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::sync::lock;

/// The importance of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Good to know.
    Log,
    /// Someone should look at it.
    Warning,
}

impl Level {
    /// The name of the level in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "LOG",
            Self::Warning => "WARNING",
        }
    }
}

/// The subject of a line: a pool, a client or a server connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// The database that clients ask for.
    pub database: String,
    /// The clients' user.
    pub user: String,
    /// The address of the client, when it is about one.
    pub client: Option<String>,
    /// The address of the server, when it is about a connection to one.
    pub server: Option<String>,
}

impl Display for Subject {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.database, self.user)?;
        if let Some(client) = &self.client {
            write!(f, "@{client}")?;
        }
        if let Some(server) = &self.server {
            write!(f, " on {server}")?;
        }
        Ok(())
    }
}

/// Writes a line somewhere; gives its time since 1970.
pub type Sink = fn(Level, Option<&Subject>, Arguments<'_>) -> Duration;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sends all lines to this sink; the first one that is given stays.
pub fn send_to(sink: Sink) {
    SINK.get_or_init(|| sink);
}

/// Logs an event; without a sink it is dropped.
pub fn line(level: Level, subject: Option<&Subject>, text: Arguments<'_>) {
    send(level, subject, text);
}

/// The time of a line, since 1970, once it has been logged.
fn send(level: Level, subject: Option<&Subject>, text: Arguments<'_>) -> Duration {
    SINK.get().map_or(Duration::ZERO, |sink| sink(level, subject, text))
}

/// An event that SHOW EVENTS shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The time since 1970.
    pub date: Duration,
    /// What it is, in a word.
    pub kind: &'static str,
    /// The database that it is about, if it is about one.
    pub database: String,
    /// The host and port of the server that it is about, if it is about one.
    pub server: String,
    /// What has happened.
    pub text: String,
}

/// The number of events that are kept.
const KEPT: usize = 100;

static EVENTS: Mutex<VecDeque<Event>> = Mutex::new(VecDeque::new());

/// Logs an event, as [`line`] does, and keeps it for SHOW EVENTS; the pair is the database and the server that it is about.
pub fn event(
    level: Level,
    subject: Option<&Subject>,
    kind: &'static str,
    (database, server): (&str, &str),
    text: Arguments<'_>,
) {
    let date = send(level, subject, text);
    keep(Event { date, kind, database: database.to_owned(), server: server.to_owned(), text: text.to_string() });
}

/// Keeps an event for SHOW EVENTS that has been logged otherwise.
pub fn keep(event: Event) {
    let mut events = lock(&EVENTS);
    if events.len() >= KEPT {
        events.pop_front();
    }
    events.push_back(event);
}

/// The last events, in their order.
pub fn events() -> Vec<Event> {
    lock(&EVENTS).iter().cloned().collect()
}

/// Logs an event that is good to know; `of SUBJECT;` before the text gives the subject of the line.
#[macro_export]
macro_rules! info {
    (of $subject:expr; $($part:tt)*) => {
        $crate::log::line($crate::log::Level::Log, Some(&$subject), format_args!($($part)*))
    };
    ($($part:tt)*) => { $crate::log::line($crate::log::Level::Log, None, format_args!($($part)*)) };
}

/// Logs an event that an administrator should look at; `of SUBJECT;` before the text gives the subject of the line.
#[macro_export]
macro_rules! warning {
    (of $subject:expr; $($part:tt)*) => {
        $crate::log::line($crate::log::Level::Warning, Some(&$subject), format_args!($($part)*))
    };
    ($($part:tt)*) => { $crate::log::line($crate::log::Level::Warning, None, format_args!($($part)*)) };
}

/// Seconds since 1970 as a date and time.
pub fn date_time(seconds: u64, millis: u32) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to a civil date, in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept() {
        for number in 0..=KEPT {
            event(Level::Log, None, "reload", ("kept", ""), format_args!("{number}"));
        }
        assert_eq!(events().len(), KEPT);
        // Other tests have events too.
        let texts: Vec<String> =
            events().into_iter().filter(|event| event.database == "kept").map(|event| event.text).collect();
        assert!(!texts.contains(&"0".to_owned()) && texts.last().is_some_and(|last| last == "100"), "{texts:?}");
    }

    #[test]
    fn dates_are_right_across_leap_years() {
        assert_eq!(date_time(0, 0), "1970-01-01 00:00:00.000");
        assert_eq!(date_time(951_827_696, 7), "2000-02-29 12:34:56.007");
        assert_eq!(date_time(1_798_761_599, 999), "2026-12-31 23:59:59.999");
    }
}
