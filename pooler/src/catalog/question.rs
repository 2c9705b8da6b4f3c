//! The questions to a server about a database's catalog, in one transaction: first whether the known catalog is still
//! current, and only if not, the whole catalog. An incomplete answer is thrown away.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use classify::Catalog;
use pooling::catalog::shard_map::Version;
use sharding::{Automatic, Map};
use wire::backend::{self, Status, tag};
use wire::frontend;

use super::visit::Guest;

/// More than this is no catalog that could be kept.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// A row of a catalog.
pub type Row = [String; 5];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Its transaction is begun.
    Begin,
    /// It is asked whether the catalog has changed.
    Fingerprint,
    /// All of it is asked for.
    Rows,
    /// It is asked for the version of the map of shards, and its lease.
    Version,
    /// All of the map is asked for.
    Map,
    /// The transaction is ended.
    End,
    /// All is said.
    Done,
}

/// One round of questions.
#[derive(Debug)]
pub struct Question {
    /// How many changes were seen before it was asked.
    pub changes: u64,
    /// The fingerprint of the catalog that is known.
    known: Option<String>,
    step: Step,
    fingerprint: Option<String>,
    rows: Vec<Row>,
    bytes: usize,
    /// How many rows the server says that it has sent.
    told: Option<usize>,
    /// What is asked of the map of shards, if the database has one.
    shards: Option<Shards>,
    /// Whether the hub has told meanwhile that its map has changed.
    pub notified: bool,
}

/// The questions about the map of shards.
#[derive(Debug)]
struct Shards {
    /// What divides tables between the shards, if there is no hub that knows.
    automatic: Option<Arc<Automatic>>,
    /// The version that is known.
    known: Option<u64>,
    /// The version that the hub has, and its lease.
    version: Option<(u64, Duration)>,
    rows: Vec<[String; 9]>,
    told: Option<usize>,
}

/// What a hub says of its map of shards.
#[derive(Debug)]
pub struct MapAnswer {
    /// For how long the map is in force.
    pub lease: Duration,
    /// The map, if it is another one than was known.
    pub version: Option<Version>,
}

/// Asks a hub for the version of its map and for how many milliseconds that may be relied on, and to tell of a change at once,
/// which a standby cannot. It learns from the session's name which version is in force here.
fn ask_for_version(known: Option<u64>) -> String {
    let known = known.map(|known| format!(", map {known}")).unwrap_or_default();
    format!(
        "DO $$BEGIN IF NOT pg_catalog.pg_is_in_recovery() THEN LISTEN howdah_shards; END IF; END$$; \
        SELECT howdah_shards.map_version(), (extract(epoch FROM howdah_shards.lease()) * 1000)::pg_catalog.int8, \
        pg_catalog.set_config('application_name', '{NAME}{known}', false)"
    )
}

/// The name of the session.
pub const NAME: &str = "howdah catalog";

/// For how long a map without a hub is in force: no row moves, and a table that has been created since is not known. More
/// than a year is as good as for ever.
const FOR_EVER: Duration = Duration::from_secs(1000 * 86_400);

/// The answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// What stands for the catalog.
    pub fingerprint: String,
    /// The catalog, if it is another one than was known.
    pub rows: Option<Vec<Row>>,
}

impl Question {
    /// Asks for a catalog, if its fingerprint is not `known`.
    pub fn new(changes: u64, known: Option<String>) -> Self {
        Self {
            changes,
            known,
            step: Step::Begin,
            fingerprint: None,
            rows: Vec::new(),
            bytes: 0,
            told: None,
            shards: None,
            notified: false,
        }
    }

    /// Asks for the map of shards too, if its version is not `known`.
    pub fn with_shards(mut self, known: Option<u64>, automatic: Option<Arc<Automatic>>) -> Self {
        self.shards = Some(Shards { automatic, known, version: None, rows: Vec::new(), told: None });
        self
    }

    /// What the hub says of its map, if it was asked and has answered all.
    ///
    /// # Errors
    /// Why the map cannot be used.
    pub fn map(&mut self) -> Result<Option<MapAnswer>, String> {
        let Some(shards) = self.shards.take().filter(|_| self.step == Step::Done) else { return Ok(None) };
        if let Some(automatic) = &shards.automatic {
            return shards.without_hub(automatic).map(Some);
        }
        let Some((number, lease)) = shards.version else { return Ok(None) };
        let version = match shards.told {
            Some(_) => {
                let rows = shards.rows.iter().map(|row| row.each_ref().map(String::as_str));
                let map = Map::from_rows(rows).map_err(|malformed| malformed.0)?;
                Some(Version::new(number, map, Some(Instant::now())))
            }
            None => None,
        };
        Ok(Some(MapAnswer { lease, version }))
    }

    /// The answer, once it is whole.
    pub fn answer(&mut self) -> Option<Answer> {
        if self.step != Step::Done {
            return None;
        }
        let fingerprint = self.fingerprint.take()?;
        let rows = self.told.take().map(|_| std::mem::take(&mut self.rows));
        Some(Answer { fingerprint, rows })
    }

    /// What divides tables between shards, if there is no hub.
    fn automatic(&self) -> Option<&Automatic> {
        self.shards.as_ref()?.automatic.as_deref()
    }

    fn row(&mut self, body: &[u8]) -> Result<(), String> {
        let row = backend::data_row(body).map_err(|error| error.to_string())?;
        let text = |place: usize| {
            let field = row.get(place).copied().flatten().unwrap_or_default();
            String::from_utf8_lossy(field).into_owned()
        };
        match self.step {
            Step::Fingerprint => self.fingerprint = Some(text(0)),
            Step::Rows => {
                self.bytes += body.len();
                if self.bytes > MAX_BYTES {
                    return Err(format!("it is larger than {} MB", MAX_BYTES >> 20));
                }
                self.rows.push([text(0), text(1), text(2), text(3), text(4)]);
            }
            Step::Version => {
                let version = text(0).parse().ok().zip(text(1).parse().ok().map(Duration::from_millis));
                let version = version.ok_or("the hub's version of the map of shards is no number")?;
                self.shards.iter_mut().for_each(|shards| shards.version = Some(version));
            }
            Step::Map => {
                let row = std::array::from_fn(text);
                self.shards.iter_mut().for_each(|shards| shards.rows.push(row.clone()));
            }
            _ => return Err("the server sent a row that was not asked for".to_owned()),
        }
        Ok(())
    }

    /// A query is answered: the next.
    fn ready(&mut self, status: Status, out: &mut Vec<u8>) -> Result<(), String> {
        let wanted = if self.step == Step::End { Status::Idle } else { Status::Transaction };
        if status != wanted {
            return Err("the server's transaction status contradicts its answers".to_owned());
        }
        self.step = match self.step {
            Step::Begin => Step::Fingerprint,
            Step::Fingerprint if self.fingerprint.is_none() => return Err("the server sent no fingerprint".to_owned()),
            Step::Fingerprint if self.fingerprint != self.known => {
                frontend::write_query(out, Catalog::QUERY);
                Step::Rows
            }
            Step::Rows if self.told != Some(self.rows.len()) => {
                return Err("the server's answer is incomplete".to_owned());
            }
            Step::Fingerprint | Step::Rows if self.shards.is_some() => match self.automatic() {
                Some(automatic) => {
                    frontend::write_query(out, &automatic.query());
                    Step::Map
                }
                None => {
                    let known = self.shards.as_ref().and_then(|shards| shards.known);
                    frontend::write_query(out, &ask_for_version(known));
                    Step::Version
                }
            },
            Step::Version if self.shards.as_ref().is_some_and(Shards::is_new) => {
                frontend::write_query(out, Map::QUERY);
                Step::Map
            }
            Step::Map if self.shards.as_ref().is_some_and(|shards| shards.told != Some(shards.rows.len())) => {
                return Err("the server's answer is incomplete".to_owned());
            }
            Step::Fingerprint | Step::Rows | Step::Version | Step::Map => {
                frontend::write_query(out, "COMMIT");
                Step::End
            }
            Step::End | Step::Done => Step::Done,
        };
        Ok(())
    }
}

impl Shards {
    /// The map of the tables with a key, where there is no hub. Its number stands for what it is made of.
    fn without_hub(&self, automatic: &Automatic) -> Result<MapAnswer, String> {
        let mut hasher = DefaultHasher::new();
        (automatic, &self.rows).hash(&mut hasher);
        // Zero is no map's, and all fit into the column of SHOW SHARDS.
        let number = hasher.finish() >> 33 | 1;
        let rows = || self.rows.iter().map(|[schema, name, kind, place, ..]| [&**schema, name, kind, place]);
        let version = match self.known == Some(number) {
            true => None,
            false => {
                let map = automatic.map(rows()).map_err(|malformed| malformed.0)?;
                Some(Version::new(number, map, None))
            }
        };
        Ok(MapAnswer { lease: FOR_EVER, version })
    }

    /// Whether the hub has another map than is known.
    fn is_new(&self) -> bool {
        self.version.is_some_and(|(number, _)| self.known != Some(number))
    }
}

impl Guest for Question {
    fn enter(&mut self, out: &mut Vec<u8>) {
        frontend::write_query(out, Catalog::BEGIN);
        frontend::write_query(out, Catalog::FINGERPRINT);
    }

    fn hear(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match tag {
            tag::DATA_ROW => self.row(body),
            tag::COMMAND_COMPLETE if matches!(self.step, Step::Rows | Step::Map) => {
                let text = std::str::from_utf8(body).ok();
                let told = text.and_then(|text| text.trim_end_matches('\0').strip_prefix("SELECT ")?.parse().ok());
                match &mut self.shards {
                    Some(shards) if self.step == Step::Map => shards.told = told,
                    _ => self.told = told,
                }
                Ok(())
            }
            tag::READY_FOR_QUERY => self.ready(backend::ready_for_query(body).map_err(|error| error.to_string())?, out),
            tag::ERROR_RESPONSE => {
                let report = backend::report(body).map_err(|error| error.to_string())?;
                Err(format!("{} ({})", report.message, report.code))
            }
            tag::NOTIFICATION_RESPONSE => {
                self.notified = true;
                Ok(())
            }
            // Descriptions, notices, parameters: nothing that matters.
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server says, message by message.
    fn row(values: &[&str]) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&i16::try_from(values.len()).unwrap().to_be_bytes());
        for value in values {
            body.extend_from_slice(&i32::try_from(value.len()).unwrap().to_be_bytes());
            body.extend_from_slice(value.as_bytes());
        }
        body
    }

    /// The answer to a script of messages, or why there is none.
    fn play(known: Option<&str>, script: &[(u8, Vec<u8>)]) -> Result<Option<Answer>, String> {
        let mut question = Question::new(1, known.map(str::to_owned));
        let mut out = Vec::new();
        question.enter(&mut out);
        for (tag, body) in script {
            question.hear(*tag, body, &mut out)?;
        }
        Ok(question.answer())
    }

    fn script(rows: usize, told: &str) -> Vec<(u8, Vec<u8>)> {
        let mut script = vec![
            (tag::COMMAND_COMPLETE, b"BEGIN\0".to_vec()),
            (tag::READY_FOR_QUERY, b"T".to_vec()),
            (tag::DATA_ROW, row(&["one"])),
            (tag::COMMAND_COMPLETE, b"SELECT 1\0".to_vec()),
            (tag::READY_FOR_QUERY, b"T".to_vec()),
        ];
        script.extend((0..rows).map(|_| (tag::DATA_ROW, row(&["a", "b", "c", "d", "e"]))));
        script.extend([
            (tag::COMMAND_COMPLETE, told.as_bytes().to_vec()),
            (tag::READY_FOR_QUERY, b"T".to_vec()),
            (tag::COMMAND_COMPLETE, b"COMMIT\0".to_vec()),
            (tag::READY_FOR_QUERY, b"I".to_vec()),
        ]);
        script
    }

    #[test]
    fn a_catalog_that_is_known_is_not_read_again() {
        let mut script = script(0, "");
        script.drain(5..7);
        let answer = play(Some("one"), &script).unwrap().unwrap();
        assert_eq!(answer, Answer { fingerprint: "one".to_owned(), rows: None });
    }

    #[test]
    fn a_catalog_is_taken_whole_or_not_at_all() {
        let whole = script(3, "SELECT 3\0");
        let answer = play(None, &whole).unwrap().unwrap();
        assert_eq!((answer.fingerprint.as_str(), answer.rows.map(|rows| rows.len())), ("one", Some(3)));
        assert_eq!(play(Some("other"), &whole).unwrap().unwrap().fingerprint, "one");
        // An end that is missing, at whatever message.
        for end in 0..whole.len() {
            assert_eq!(play(None, &whole[..end]).unwrap(), None, "after {end} messages");
        }
        assert!(play(None, &script(2, "SELECT 3\0")).unwrap_err().contains("incomplete"));
        // An error in its midst.
        let mut error = Vec::new();
        backend::write_error(&mut error, "ERROR", "57014", "canceling statement due to statement timeout");
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken.insert(at, (tag::ERROR_RESPONSE, error[5..].to_vec()));
            assert!(play(None, &broken).unwrap_err().contains("57014"), "at {at}");
        }
    }
}
