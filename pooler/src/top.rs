//! `howdah-pooler top`: the activity of the running pooler on a terminal, refreshed until Ctrl-C.
//!
//! The program asks the console, over the Unix socket and under the account of the pooler. Counters are shown as their
//! increase per second since the previous page.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use howdah_pooler::files;
use howdah_pooler::listen::socket_path;
use rustix::termios::tcgetwinsize;
use wire::backend::{self, tag};
use wire::frame::{self, Fields, HEADER};
use wire::{frontend, startup};

/// How long the console may take for an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Names are cut to so many characters.
const NAME: usize = 28;
/// A number is at least as wide, so that columns stay in place while numbers grow.
const NUMBER: usize = 7;
/// Clears a terminal, and goes to its upper left.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// The rows of an answer, by the names of their columns.
type Rows = Vec<HashMap<String, String>>;

/// Shows what the pooler that runs with a configuration does: each `interval`, or once after one of them.
pub fn top(path: &Path, interval: Duration, once: bool) -> Result<(), String> {
    let settings = files::console_settings(path).map_err(|error| error.to_string())?;
    let socket = socket_path(&settings).ok_or("set unix_socket_dir: top connects to the console there")?;
    let mut console = Console::connect(socket)?;
    let mut before = Seen::look(&mut console)?;
    loop {
        std::thread::sleep(interval);
        let now = Seen::look(&mut console)?;
        let page = format!("{}\n{}", console.path.display(), now.page(&before));
        let page = if once { page } else { fitted(page) };
        // Who reads it no longer has ended it.
        if io::stdout().write_all(page.as_bytes()).and_then(|()| io::stdout().flush()).is_err() || once {
            return console.leave();
        }
        before = now;
    }
}

/// A page in place of the one before on a terminal that can do so, cut to its size; as it is where it is written to
/// a file or a pipe.
fn fitted(page: String) -> String {
    let dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
    if dumb || !io::stdout().is_terminal() {
        return page;
    }
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 1 && size.ws_col > 0 => {
            format!("{CLEAR}{}", cut(&page, size.ws_col.into(), usize::from(size.ws_row) - 1))
        }
        _ => format!("{CLEAR}{page}"),
    }
}

/// The lines of a page that a terminal of this size shows; the last line says how many it does not.
fn cut(page: &str, width: usize, height: usize) -> String {
    let lines = page.lines().count();
    let shown = if lines > height { height - 1 } else { lines };
    let mut text = String::new();
    for line in page.lines().take(shown) {
        text.extend(line.chars().take(width));
        text.push('\n');
    }
    if lines > shown {
        // Writing to a string does not fail.
        let _ = writeln!(text, "... and {} more lines", lines - shown);
    }
    text
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

    /// Takes leave of the pooler, whose log would else tell of a connection that was lost.
    fn leave(&mut self) -> Result<(), String> {
        let mut farewell = Vec::new();
        frontend::write_terminate(&mut farewell);
        // A pooler that has ended needs none.
        let _ = self.stream.write_all(&farewell);
        Ok(())
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
            [
                text(row, "database"),
                format!("{:.0}", queries / seconds),
                format!("{:.0}", grown("xact_count") / seconds),
                mean(grown("query_time"), queries),
                mean(grown("wait_time"), holder),
                format!("{:.0}", (grown("bytes_received") + grown("bytes_sent")) / seconds / 1024.0),
            ]
        });
        let columns = ["database", "statements/s", "transactions/s", "mean ms", "mean wait ms", "KB/s"];
        table(&mut page, columns, rows.map(|cells| (cells, String::new())));
        let rows = self.pools.iter().filter(|row| text(row, "database") != "pgbouncer").map(|row| {
            let wait = number(row, "maxwait") + number(row, "maxwait_us") / 1e6;
            let cells = [
                format!("{}, {}", text(row, "database"), text(row, "user")),
                text(row, "cl_active"),
                text(row, "cl_waiting"),
                format!("{wait:.3}"),
                text(row, "sv_active"),
                text(row, "sv_idle"),
                text(row, "sv_login"),
            ];
            (cells, text(row, "error"))
        });
        let columns = ["database, user", "clients", "waiting", "max wait s", "servers busy", "idle", "logging in"];
        table(&mut page, columns, rows);
        let rows = self.servers.iter().map(|row| {
            let cells = [
                format!("{}:{}", text(row, "host"), text(row, "port")),
                text(row, "database"),
                text(row, "role"),
                if text(row, "banned") == "1" { "yes".to_owned() } else { String::new() },
                text(row, "lag_ms"),
                text(row, "latency_ms"),
            ];
            (cells, text(row, "error"))
        });
        if !self.servers.is_empty() {
            table(&mut page, ["server", "of", "role", "banned", "lag ms", "answers in ms"], rows);
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

/// Appends a table, each column as wide as what is in it; an error has a line of its own below its row.
fn table<const WIDTH: usize>(
    page: &mut String,
    columns: [&str; WIDTH],
    rows: impl Iterator<Item = ([String; WIDTH], String)>,
) {
    let titles = (columns.map(str::to_owned), String::new());
    let lines: Vec<_> = std::iter::once(titles)
        .chain(rows)
        .map(|(cells, error)| (cells.map(|cell| plain(&cell).chars().take(NAME).collect::<String>()), plain(&error)))
        .collect();
    let wide = |place: usize| {
        let cells = lines.iter().filter_map(|(cells, _)| cells.get(place));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default().max(NUMBER)
    };
    let widths: Vec<usize> = (0..WIDTH).map(wide).collect();
    page.push('\n');
    for (cells, error) in &lines {
        for (place, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            // Writing to a string does not fail.
            let _ = match place {
                0 => write!(page, "{cell:<width$}"),
                _ => write!(page, "  {cell:>width$}"),
            };
        }
        page.push('\n');
        if !error.is_empty() {
            let _ = writeln!(page, "    {error}");
        }
    }
}

/// No character of a name or an error moves the cursor.
fn plain(text: &str) -> String {
    text.chars().map(|each| if each.is_control() { '?' } else { each }).collect()
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
    fn an_error_stands_below_its_pool_and_a_page_fits_its_terminal() {
        let why = "cannot connect to localhost:5432: Connection refused";
        let pools = vec![row(&[("database", "app"), ("user", "bob"), ("error", why)])];
        let now = Seen { at: Instant::now(), totals: Vec::new(), pools, servers: Vec::new() };
        let page = now.page(&now);
        let lines: Vec<&str> = page.lines().collect();
        let place = lines.iter().position(|line| line.starts_with("app, bob")).unwrap();
        assert_eq!(lines[place + 1].trim(), why);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{page}");
        assert_eq!(cut(&page, 80, lines.len()), page);
        let small = cut(&page, 20, 4);
        assert_eq!(small.lines().count(), 4);
        assert!(small.lines().take(3).all(|line| line.chars().count() <= 20), "{small}");
        assert!(small.ends_with(&format!("... and {} more lines\n", lines.len() - 3)), "{small}");
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
