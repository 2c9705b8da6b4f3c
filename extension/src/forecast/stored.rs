//! How the models of a forecast's series are stored: a head, and the series in buckets by their keys, so that one series is read
//! without the others.
//!
//! Both are JSON in `pgml.files`. A series' key is the text of its `group_by` columns as a jsonb object, empty where there
//! are none.

use forecast::Model;
use forecast::grid::Grid;
use pgrx::pg_sys;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::lookup;
use crate::registry;

/// Where the head stands.
pub const HEAD_PATH: &str = "forecast.json";

/// Series to a bucket, on average.
const SERIES_PER_BUCKET: usize = 32;

/// What counts the steps of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// Instants: steps of an hour and less of a column with a time zone.
    Utc,
    /// The clock of a time zone: longer steps of such a column.
    Zone(String),
    /// The clock on the wall: a column without a time zone.
    Wall,
}

/// What all series of a model have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    version: u32,
    pub clock: Clock,
    pub grid: Grid,
    /// Steps of a forecast that does not say how many.
    pub horizon: usize,
    pub group_by: Vec<String>,
    pub time_column: String,
    buckets: u64,
}

/// One series: its key, its last step, and its model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    pub key: String,
    pub last: i64,
    pub model: Model,
}

const VERSION: u32 = 1;

impl Head {
    pub fn new(
        clock: Clock,
        grid: Grid,
        horizon: usize,
        (group_by, time_column): (Vec<String>, String),
        series: usize,
    ) -> Head {
        let buckets = series.div_ceil(SERIES_PER_BUCKET).max(1) as u64;
        Head { version: VERSION, clock, grid, horizon, group_by, time_column, buckets }
    }

    fn bucket(&self, key: &str) -> Result<u64> {
        let digest = lookup::sha256(key.as_bytes().to_vec());
        let first = digest.first_chunk::<8>().ok_or_else(|| Error::corrupted("sha256 gave less than 8 bytes"))?;
        Ok(u64::from_le_bytes(*first) % self.buckets)
    }

    /// Writes the files of a model.
    pub fn store(&self, model: i64, series: Vec<Stored>) -> Result<()> {
        let mut buckets: Vec<Vec<Stored>> = (0..self.buckets).map(|_| Vec::new()).collect();
        for one in series {
            let bucket = self.bucket(&one.key)? as usize;
            buckets[bucket].push(one);
        }
        registry::insert_file(model, HEAD_PATH, &json(self)?)?;
        for (number, bucket) in buckets.iter().enumerate().filter(|(_, bucket)| !bucket.is_empty()) {
            registry::insert_file(model, &path(number as u64), &json(bucket)?)?;
        }
        Ok(())
    }

    /// The head of a model; `None` where it is not one of series.
    pub fn read(model: i64, snapshot: pg_sys::Snapshot) -> Result<Option<Head>> {
        let bytes = lookup::bytes_at(model, |path| path == HEAD_PATH, snapshot)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let head: Head = read(model, &bytes)?;
        match head.version {
            VERSION => Ok(Some(head)),
            version => Err(Error::unsupported(format!(
                "model {model} was stored by a later version of pgml: its format is {version}, and the library knows {VERSION}"
            ))),
        }
    }

    /// The series of this key.
    pub fn series(&self, model: i64, key: &str, snapshot: pg_sys::Snapshot) -> Result<Option<Stored>> {
        let all = self.bucket_of(model, self.bucket(key)?, snapshot)?;
        Ok(all.into_iter().find(|series| series.key == key))
    }

    /// The series of all keys, bucket by bucket.
    pub fn all(&self, model: i64, snapshot: pg_sys::Snapshot) -> impl Iterator<Item = Result<Vec<Stored>>> + '_ {
        (0..self.buckets).map(move |bucket| {
            pgrx::check_for_interrupts!();
            self.bucket_of(model, bucket, snapshot)
        })
    }

    fn bucket_of(&self, model: i64, bucket: u64, snapshot: pg_sys::Snapshot) -> Result<Vec<Stored>> {
        let path = path(bucket);
        let bytes = lookup::bytes_at(model, |there| there == path, snapshot)?;
        if bytes.is_empty() { Ok(Vec::new()) } else { read(model, &bytes) }
    }
}

fn path(bucket: u64) -> String {
    format!("series/{bucket}.json")
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::corrupted(format!("a model cannot be written as JSON: {error}")))
}

fn read<T: for<'a> Deserialize<'a>>(model: i64, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::corrupted(format!("the stored bytes of model {model} cannot be read: {error}")))
}
