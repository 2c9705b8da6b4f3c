//! Texts: transformers that make vectors of them (`embed`), or scores of pairs (`rank`), and what splits them (`chunk`).
//!
//! A transformer is a model of a project: `load` reads it from files on the server into `pgml.files`, `names` finds it
//! by project or id, and the cache has its image, one for all connections (`stored`). The work is done by
//! `crates/encoder`.

mod chunk;
mod embed;
mod load;
mod rank;
pub mod stored;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::memory;

/// Bytes of a text: what is beyond the tokens that a model takes is cut away in any case.
const LONGEST_TEXT: usize = 16 << 20;

/// Texts of a call.
const MOST_TEXTS: usize = 1 << 20;

/// Has a cancellation, or the end of the server, come through.
fn interrupted() {
    pgrx::check_for_interrupts!();
}

/// What `crates/encoder` refuses.
fn refused(error: encoder::Error) -> Error {
    match error {
        encoder::Error::Memory(bytes) => memory::no_room(bytes),
        encoder::Error::Option(_) => Error::invalid(error.to_string()),
        encoder::Error::Unsupported(_) => Error::unsupported(error.to_string()),
        encoder::Error::Damaged(_) => Error::corrupted(format!("the transformer is damaged: {error}")),
        error => Error::corrupted(error.to_string()),
    }
}

/// The keys of an argument `kwargs`, each of which is taken once.
struct Kwargs {
    keys: Map<String, Value>,
}

impl Kwargs {
    fn of(value: Option<Value>) -> Result<Kwargs> {
        match value {
            None | Some(Value::Null) => Ok(Kwargs { keys: Map::new() }),
            Some(Value::Object(keys)) => Ok(Kwargs { keys }),
            Some(_) => Err(Error::invalid("kwargs must be a JSON object")),
        }
    }

    /// The value of a key, as `read` understands it; JSON's null is as if it were not there.
    fn take<T>(&mut self, key: &str, wanted: &str, read: impl FnOnce(&Value) -> Option<T>) -> Result<Option<T>> {
        match self.keys.shift_remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(&value)
                .map(Some)
                .ok_or_else(|| Error::invalid(format!("{key} in kwargs must be {wanted}, not {value}"))),
        }
    }

    fn text(&mut self, key: &str) -> Result<Option<String>> {
        self.take(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    fn bool(&mut self, key: &str) -> Result<Option<bool>> {
        self.take(key, "true or false", Value::as_bool)
    }

    fn size(&mut self, key: &str) -> Result<Option<usize>> {
        self.take(key, "a whole number", |value| value.as_u64().and_then(|size| usize::try_from(size).ok()))
    }

    /// What PostgresML's callers pass that makes no difference here: nothing runs on another device, and a batch is as
    /// large as is fastest.
    fn ignore(&mut self, keys: &[&str]) {
        for key in keys {
            self.keys.shift_remove(*key);
        }
    }

    /// That nothing else was given.
    fn end(self, known: &str) -> Result<()> {
        match self.keys.keys().next() {
            None => Ok(()),
            Some(key) => {
                Err(Error::invalid(format!("kwargs has no key \"{key}\"")).hint(format!("Known are {known}.")))
            }
        }
    }
}
