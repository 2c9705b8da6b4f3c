//! `howdah-pooler top`: what the running pooler does, on a terminal, renewed until it is ended.
//!
//! It asks on the console, over the Unix socket and as the account of the pooler. What grows is told as what was added
//! since the look before, a second.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use howdah_pooler::files;
use howdah_pooler::listen::socket_path;
use wire::backend::{self, tag};
use wire::frame::{self, Fields, HEADER};
use wire::{frontend, startup};

/// How long the console may take for an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Names are cut to so many characters.
const NAME: usize = 28;
/// Clears a terminal, and goes to its upper left.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The rows of an answer, by the names of their columns.
type Rows = Vec<HashMap<String, String>>;

/// Shows what the pooler that runs with a configuration does: each `interval`, or once after one of them.
pub fn top(path: &Path, interval: Duration, once: bool) -> Result<(), String> {
    let config = files::read(path).map_err(|error| error.to_string())?;
    let socket = socket_path(&config.settings).ok_or("top needs unix_socket_dir: it asks the console there")?;
    let mut console = Console::connect(socket)?;
    let mut before = Seen::look(&mut console)?;
    let clear = if io::stdout().is_terminal() && !once { CLEAR } else { "" };
    loop {
        std::thread::sleep(interval);
        let now = Seen::look(&mut console)?;
        let page = format!("{clear}{}\n{}", console.path.display(), now.page(&before));
        // Who reads it no longer has ended it.
        if io::stdout().write_all(page.as_bytes()).and_then(|()| io::stdout().flush()).is_err() || once {
            return Ok(());
        }
        before = now;
    }
}

/// The console of a running pooler.
struct Console {
    stream: UnixStream,
    path: PathBuf,
}

impl Console {
    fn connect(path: PathBuf) -> Result<Self, String> {
        let about = |error: io::Error| format!("{}: {error}: is the pooler running?", path.display());
        let stream = UnixStream::connect(&path).map_err(about)?;
        let limited = stream.set_read_timeout(Some(ANSWER)).and_then(|()| stream.set_write_timeout(Some(ANSWER)));
        limited.map_err(about)?;
        let mut console = Self { stream, path };
        let mut hello = Vec::new();
        startup::write_startup(&mut hello, [("user", "howdah"), ("database", "howdah")]);
        console.send(&hello)?;
        Ok(console)
    }

    /// The rows that a command is answered with.
    fn ask(&mut self, command: &str) -> Result<Rows, String> {
        let mut query = Vec::new();
        frontend::write_query(&mut query, command);
        self.send(&query)
    }

    fn send(&mut self, message: &[u8]) -> Result<Rows, String> {
        let path = self.path.display().to_string();
        self.stream.write_all(message).map_err(|error| format!("{path}: {error}"))?;
        let (mut held, mut part) = (Vec::new(), [0; 16 * 1024]);
        let mut answer = Answer::default();
        loop {
            while let Some(message) = frame::message(&held).map_err(|error| format!("{path}: {error}"))? {
                let whole = answer.take(message.tag, message.body).map_err(|why| format!("{path}: {why}"))?;
                let total = HEADER + message.body.len();
                held.drain(..total);
                if whole {
                    return Ok(answer.rows);
                }
            }
            match self.stream.read(&mut part) {
                Ok(0) => return Err(format!("{path}: the pooler has ended")),
                Ok(count) => held.extend_from_slice(part.get(..count).unwrap_or_default()),
                Err(error) => return Err(format!("{path}: {error}")),
            }
        }
    }
}

/// An answer as it comes.
#[derive(Default)]
struct Answer {
    columns: Vec<String>,
    rows: Rows,
}

impl Answer {
    /// Takes a message; whether it was the last.
    fn take(&mut self, tag: u8, body: &[u8]) -> Result<bool, String> {
        let text = |error: wire::Error| error.to_string();
        match tag {
            tag::AUTHENTICATION if body != [0; 4] => {
                return Err("the console asks for a password: run top as the account of the pooler".to_owned());
            }
            tag::ERROR_RESPONSE => return Err(backend::report(body).map_err(text)?.message),
            tag::ROW_DESCRIPTION => self.columns = columns(body).map_err(text)?,
            tag::DATA_ROW => {
                let values = backend::data_row(body).map_err(text)?;
                let named =
                    self.columns.iter().cloned().zip(values).filter_map(|(name, value)| {
                        value.map(|value| (name, String::from_utf8_lossy(value).into_owned()))
                    });
                self.rows.push(named.collect());
            }
            _ => (),
        }
        Ok(tag == tag::READY_FOR_QUERY)
    }
}

/// The names of the columns in a RowDescription.
fn columns(body: &[u8]) -> Result<Vec<String>, wire::Error> {
    let mut fields = Fields::new(tag::ROW_DESCRIPTION, body);
    let count = fields.i16("the number of columns")?;
    let mut names = Vec::new();
    for _ in 0..count {
        names.push(fields.text("the name of a column")?.to_owned());
        fields.i32("its table")?;
        fields.i16("its place in the table")?;
        fields.i32("its type")?;
        fields.i16("the size of its type")?;
        fields.i32("the modifier of its type")?;
        fields.i16("its format")?;
    }
    Ok(names)
}

/// What there was at one look.
struct Seen {
    at: Instant,
    totals: Rows,
    pools: Rows,
    servers: Rows,
}

impl Seen {
    fn look(console: &mut Console) -> Result<Self, String> {
        Ok(Self {
            at: Instant::now(),
            totals: console.ask("SHOW STATS_TOTALS")?,
            pools: console.ask("SHOW POOLS")?,
            servers: console.ask("SHOW REPLICAS")?,
        })
    }

    /// What is shown, given the look before.
    fn page(&self, before: &Self) -> String {
        let seconds = self.at.saturating_duration_since(before.at).as_secs_f64().max(1e-3);
        let mut page = String::new();
        let rows = self.totals.iter().filter(|row| text(row, "database") != "pgbouncer").map(|row| {
            let former = before.totals.iter().find(|other| text(other, "database") == text(row, "database"));
            let grown = |name: &str| (number(row, name) - former.map_or(0.0, |other| number(other, name))).max(0.0);
            let (queries, holder) = (grown("query_count"), grown("server_assignment_count"));
            let mean = |micros: f64, count: f64| format!("{:.3}", micros / 1000.0 / count.max(1.0));
            vec![
                text(row, "database"),
                format!("{:.0}", queries / seconds),
                format!("{:.0}", grown("xact_count") / seconds),
                mean(grown("query_time"), queries),
                mean(grown("wait_time"), holder),
                format!("{:.0}", (grown("bytes_received") + grown("bytes_sent")) / seconds / 1024.0),
            ]
        });
        let columns = ["database", "statements/s", "transactions/s", "mean ms", "mean wait ms", "KB/s"];
        table(&mut page, &columns, rows);
        let rows = self.pools.iter().filter(|row| text(row, "database") != "pgbouncer").map(|row| {
            let wait = number(row, "maxwait") + number(row, "maxwait_us") / 1e6;
            let mut cells = vec![format!("{}, {}", text(row, "database"), text(row, "user"))];
            cells.extend(["cl_active", "cl_waiting", "sv_active", "sv_idle", "sv_login"].map(|name| text(row, name)));
            cells.insert(3, format!("{wait:.3}"));
            cells
        });
        let columns = ["database, user", "clients", "waiting", "longest wait s", "servers busy", "idle", "logging in"];
        table(&mut page, &columns, rows);
        let rows = self.servers.iter().map(|row| {
            vec![
                format!("{}:{}", text(row, "host"), text(row, "port")),
                text(row, "database"),
                text(row, "role"),
                if text(row, "banned") == "1" { "yes".to_owned() } else { String::new() },
                text(row, "lag_ms"),
                text(row, "latency_ms"),
                text(row, "error"),
            ]
        });
        if !self.servers.is_empty() {
            table(&mut page, &["server", "of", "role", "banned", "lag ms", "answers in ms", "error"], rows);
        }
        page
    }
}

fn text(row: &HashMap<String, String>, name: &str) -> String {
    row.get(name).cloned().unwrap_or_default()
}

fn number(row: &HashMap<String, String>, name: &str) -> f64 {
    row.get(name).and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// Appends a table: the first column is as wide as names may be, the others as their titles, but for the last.
fn table(page: &mut String, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let mut line = |cells: &[String]| {
        for (place, (cell, title)) in cells.iter().zip(columns).enumerate() {
            // No character of a name or an error moves the cursor.
            let shown: String = cell.chars().map(|each| if each.is_control() { '?' } else { each }).collect();
            // Writing to a string does not fail.
            let _ = match place {
                0 => write!(page, "{:<NAME$}", shown.chars().take(NAME).collect::<String>()),
                _ if *title == "error" => write!(page, "  {shown}"),
                _ => write!(page, "  {shown:>width$}", width = title.len().max(7)),
            };
        }
        page.push('\n');
    };
    line(&[]);
    line(&columns.iter().map(|&title| title.to_owned()).collect::<Vec<_>>());
    rows.for_each(|row| line(&row));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[(&str, &str)]) -> HashMap<String, String> {
        values.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn what_grows_is_told_by_the_second() {
        let at = Instant::now();
        let totals =
            |count: &str, time: &str| vec![row(&[("database", "app"), ("query_count", count), ("query_time", time)])];
        let before = Seen { at, totals: totals("100", "0"), pools: Vec::new(), servers: Vec::new() };
        let pools =
            vec![row(&[("database", "app"), ("user", "u\u{1b}[2J"), ("maxwait", "1"), ("maxwait_us", "500000")])];
        let now = Seen { at: at + Duration::from_secs(2), totals: totals("300", "400000"), pools, servers: Vec::new() };
        let page = now.page(&before);
        let words: Vec<Vec<&str>> = page.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[2], ["app", "100", "0", "2.000", "0.000", "0"]);
        assert!(page.contains("app, u?[2J") && page.contains("1.500"), "{page}");
        assert!(!page.contains("server "), "one server is no cluster");
    }

    #[test]
    fn a_database_that_is_new_or_began_anew_is_told_from_nothing() {
        let at = Instant::now();
        let totals = |count: &str| vec![row(&[("database", "app"), ("query_count", count)])];
        let seen = |totals| Seen { at, totals, pools: Vec::new(), servers: Vec::new() };
        assert!(seen(totals("5")).page(&seen(Vec::new())).contains("5000"));
        assert!(!seen(totals("5")).page(&seen(totals("9"))).contains('-'));
    }
}
