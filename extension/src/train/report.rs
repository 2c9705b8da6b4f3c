//! The messages of a running training to its caller: INFO lines, which go to the client at every client_min_messages.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use pgrx::{PgLogLevel, PgSqlErrorCode};

use serde_json::{Map, Value};

use super::engine::Progress;

pub fn info(message: &str) {
    pgrx::ereport!(PgLogLevel::INFO, PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message.to_owned());
}

thread_local! {
    /// What the training that runs has said of its data and its model; `None` if none runs.
    static SAID: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Collects what a training says, until it is dropped: whoever looks at the model later reads it there.
pub struct MessageLog(());

impl MessageLog {
    pub fn begin() -> MessageLog {
        SAID.set(Some(Vec::new()));
        MessageLog(())
    }

    /// What has been said so far.
    pub fn so_far(&self) -> Vec<String> {
        SAID.with_borrow(|said| said.clone().unwrap_or_default())
    }
}

impl Drop for MessageLog {
    fn drop(&mut self) {
        SAID.set(None);
    }
}

/// Keeps a message for who looks at the model later.
pub fn keep(message: &str) {
    SAID.with_borrow_mut(|said| {
        if let Some(said) = said {
            said.push(message.to_owned());
        }
    });
}

pub fn warning(message: &str) {
    keep(message);
    pgrx::ereport!(PgLogLevel::WARNING, PgSqlErrorCode::ERRCODE_WARNING, message.to_owned());
}

pub fn notice(message: &str) {
    keep(message);
    pgrx::ereport!(PgLogLevel::NOTICE, PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, message.to_owned());
}

/// Lets something pass at most once a second, and not in the second after it was first asked: short trainings say
/// nothing.
#[derive(Default)]
pub struct EverySecond(Option<Instant>);

impl EverySecond {
    pub fn passes(&mut self) -> bool {
        let since = *self.0.get_or_insert_with(Instant::now);
        let passes = since.elapsed() >= Duration::from_secs(1);
        if passes {
            self.0 = Some(Instant::now());
        }
        passes
    }
}

/// `round 40 of 100, rmse 12.34, 5 s left`
pub fn rounds(progress: &Progress<'_>) -> String {
    let metric = progress.metric.map(|(name, value)| format!(", {name} {value:.6}")).unwrap_or_default();
    let left = progress.rounds.saturating_sub(progress.round);
    let seconds = progress.elapsed.as_secs_f64() / f64::from(progress.round.max(1)) * f64::from(left);
    format!("Round {} of {}{metric}, {:.0} s left", progress.round, progress.rounds, seconds.ceil())
}

/// Metrics for people: six decimals.
pub fn rounded(metrics: &Map<String, Value>) -> String {
    let shorter = |value: &Value| match value.as_f64() {
        Some(number) => format!("{number:.6}"),
        None => value.to_string(),
    };
    let flat = metrics.iter().filter(|(_, value)| !value.is_object());
    let parts: Vec<String> = flat.map(|(name, value)| format!("\"{name}\": {}", shorter(value))).collect();
    format!("{{{}}}", parts.join(", "))
}

/// Four digits that count.
pub fn short(number: f64) -> String {
    match number.abs() {
        _ if number.fract() == 0.0 && number.abs() < 1e15 => format!("{number}"),
        size if (0.001..100_000.0).contains(&size) => {
            // 0.99996 is 1.000.
            let rounded = format!("{size:.3e}").parse().unwrap_or(size);
            let digits = (3 - rounded.log10().floor() as i32).clamp(0, 6) as usize;
            format!("{number:.digits$}")
        }
        _ => format!("{number:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_rounds_done() {
        let progress =
            Progress { round: 25, rounds: 100, metric: Some(("rmse", 0.5)), elapsed: Duration::from_secs(5) };
        assert_eq!(rounds(&progress), "Round 25 of 100, rmse 0.500000, 15 s left");
    }

    #[test]
    fn numbers_have_four_digits_that_count() {
        let numbers =
            [0.0, 143.0, 0.912345, 0.999996, -9.99999, 53.21987, 2863.4188, 0.012345, 1.5e-7, 2e9 + 0.5, f64::NAN];
        let found: Vec<String> = numbers.into_iter().map(short).collect();
        assert_eq!(
            found,
            ["0", "143", "0.9123", "1.000", "-10.00", "53.22", "2863", "0.01234", "1.500e-7", "2.000e9", "NaN"]
        );
    }
}
