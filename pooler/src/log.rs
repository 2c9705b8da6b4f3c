//! The log: a line an event, to the standard error or a file.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

static FILE: OnceLock<Mutex<File>> = OnceLock::new();

/// Sends the log to a file from now on.
pub fn to_file(path: &str) -> std::io::Result<()> {
    let file = File::options().create(true).append(true).open(path)?;
    let _ = FILE.set(Mutex::new(file));
    Ok(())
}

/// Writes one line: the time in UTC, the level, the text.
pub fn line(level: &str, text: std::fmt::Arguments<'_>) {
    let line = format!("{} {level} {text}\n", now());
    match FILE.get() {
        Some(file) => {
            let _ = crate::shared::lock(file).write_all(line.as_bytes());
        }
        None => {
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}

/// Logs what is good to know.
#[macro_export]
macro_rules! info {
    ($($part:tt)*) => { $crate::log::line("LOG", format_args!($($part)*)) };
}

/// Logs what someone should look at.
#[macro_export]
macro_rules! warning {
    ($($part:tt)*) => { $crate::log::line("WARNING", format_args!($($part)*)) };
}

/// The time in UTC, as `2026-01-31 23:59:59.123`.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_time(since.as_secs(), since.subsec_millis())
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
    #[test]
    fn dates_are_right_across_leap_years() {
        assert_eq!(super::date_time(0, 0), "1970-01-01 00:00:00.000");
        assert_eq!(super::date_time(951_827_696, 7), "2000-02-29 12:34:56.007");
        assert_eq!(super::date_time(1_798_761_599, 999), "2026-12-31 23:59:59.999");
    }
}
