//! The log: a line for each event, as text or as JSON, to the standard error, a file and the system's log.
//!
//! No statement causes a line as such, so a lock and one write for each line are fast enough. A line that would have to
//! wait, because the reader of a pipe does not keep up, is dropped and counted: the threads that log carry the traffic
//! of all clients.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::PIPE_BUF;
use serde_json::{Map, Value};

use crate::syslog::{Severity, Syslog};
use pooling::config::{LogFormat, Settings};
use pooling::log::{Level, Subject, date_time};

#[derive(Debug)]
struct Log {
    format: LogFormat,
    /// The standard error gets nothing.
    quiet: bool,
    /// Nothing is written but warnings.
    warnings_only: bool,
    file: Option<File>,
    syslog: Option<Syslog>,
    /// Lines that were dropped since the last that was written.
    lost: u64,
    /// The last one was written in part.
    cut: bool,
}

static LOG: Mutex<Log> = Mutex::new(Log {
    format: LogFormat::Plain,
    quiet: false,
    warnings_only: false,
    file: None,
    syslog: None,
    lost: 0,
    cut: false,
});

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the log where the settings say, from now on. The file is opened again, in case it was moved away.
pub fn configure(settings: &Settings) -> io::Result<()> {
    let file = if settings.logfile.is_empty() {
        None
    } else {
        let opened = File::options().create(true).append(true).open(&settings.logfile).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot write to the log {}: {error}", settings.logfile))
        })?;
        Some(opened)
    };
    let syslog = settings.syslog.then(|| Syslog::new(&settings.syslog_ident, settings.syslog_facility)).transpose()?;
    let mut log = log();
    log.format = settings.log_format;
    log.file = file;
    log.syslog = syslog;
    pooling::log::send_to(line);
    Ok(())
}

/// Keeps the log away from the standard error.
pub fn be_quiet() {
    log().quiet = true;
}

/// Keeps everything but warnings away from the log, wherever it goes.
pub fn warn_only() {
    log().warnings_only = true;
}

/// Writes one line; gives its time.
fn line(level: Level, subject: Option<&Subject>, text: Arguments<'_>) -> Duration {
    let date = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut log = log();
    if log.warnings_only && level == Level::Log {
        return date;
    }
    let line = log.form(level, subject, text);
    log.write(&line);
    if let Some(syslog) = &mut log.syslog {
        let severity = if level == Level::Log { Severity::Informational } else { Severity::Warning };
        match subject {
            Some(subject) => syslog.send(severity, format_args!("{subject}: {text}")),
            None => syslog.send(severity, text),
        }
    }
    date
}

impl Log {
    fn form(&self, level: Level, subject: Option<&Subject>, text: Arguments<'_>) -> String {
        match self.format {
            LogFormat::Plain => plain(&now(), level, subject, text),
            LogFormat::Json => json(&now(), level, subject, text),
        }
    }

    /// Writes a line, behind one that says how many were lost before it, if any were.
    fn write(&mut self, line: &str) {
        let written = if self.lost > 0 {
            let start = if self.cut { "\n" } else { "" };
            let remark = format_args!("{} lines of the log were lost: they could not be written at once", self.lost);
            let remark = self.form(Level::Warning, None, remark);
            self.put(&format!("{start}{remark}{line}"))
        } else {
            self.put(line)
        };
        self.lost = if written { 0 } else { self.lost + 1 };
    }

    /// Whether all of a text could be written. There is nobody who could be told why not.
    fn put(&mut self, text: &str) -> bool {
        let written = match &self.file {
            Some(file) => write_without_waiting(file, text.as_bytes()),
            None if self.quiet => return true,
            None => write_without_waiting(io::stderr(), text.as_bytes()),
        };
        let whole = written == text.len();
        self.cut = !whole && (written > 0 || self.cut);
        whole
    }
}

/// Writes as much as there is room for; how many bytes. A pipe that has room at all takes PIPE_BUF bytes.
fn write_without_waiting(mut to: impl Write + AsFd, bytes: &[u8]) -> usize {
    let mut written = 0;
    for piece in bytes.chunks(PIPE_BUF) {
        let found = poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&Timespec::default()));
        let has_room = found.is_ok_and(|ready| ready > 0);
        if !has_room || to.write_all(piece).is_err() {
            break;
        }
        written += piece.len();
    }
    written
}

fn plain(time: &str, level: Level, subject: Option<&Subject>, text: Arguments<'_>) -> String {
    // What clients say of themselves must not look like another line.
    let one_line = |text: String| if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text };
    let text = match subject {
        Some(subject) => one_line(format!("{subject}: {text}")),
        None => one_line(text.to_string()),
    };
    format!("{time} UTC [{}] {} {text}\n", std::process::id(), level.name())
}

fn json(time: &str, level: Level, subject: Option<&Subject>, text: Arguments<'_>) -> String {
    let mut fields = Map::new();
    let mut put = |name: &str, value: String| {
        fields.insert(name.to_owned(), Value::String(value));
    };
    put("time", format!("{}Z", time.replacen(' ', "T", 1)));
    put("level", level.name().to_lowercase());
    if let Some(name) = std::thread::current().name() {
        put("thread", name.to_owned());
    }
    if let Some(subject) = subject {
        put("database", subject.database.clone());
        put("user", subject.user.clone());
        if let Some(client) = &subject.client {
            put("client", client.clone());
        }
        if let Some(server) = &subject.server {
            put("server", server.clone());
        }
    }
    put("message", text.to_string());
    format!("{}\n", Value::Object(fields))
}

/// The time in UTC, as `2026-01-31 23:59:59.123`.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date_time(since.as_secs(), since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_clients_call_themselves() {
        let subject = Subject {
            database: "a\nb".to_owned(),
            user: "\"x\"".to_owned(),
            client: Some("10.0.0.1:5".to_owned()),
            server: None,
        };
        let text = plain("T", Level::Log, Some(&subject), format_args!("hello\r\nFAKE"));
        assert_eq!(text, format!("T UTC [{}] LOG a b/\"x\"@10.0.0.1:5: hello  FAKE\n", std::process::id()));
        let text = json("2026-01-31 23:59:59.123", Level::Warning, Some(&subject), format_args!("hello\n\"there\""));
        assert_eq!(text.matches('\n').count(), 1);
        let read: Value = serde_json::from_str(&text).unwrap();
        for (name, value) in [
            ("time", "2026-01-31T23:59:59.123Z"),
            ("level", "warning"),
            ("database", "a\nb"),
            ("user", "\"x\""),
            ("client", "10.0.0.1:5"),
            ("message", "hello\n\"there\""),
        ] {
            assert_eq!(read[name], value);
        }
        assert!(read.get("server").is_none());
    }
}
