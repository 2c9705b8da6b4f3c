//! The table by which SentencePiece maps characters, as its models carry it (`precompiled_charsmap`).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use super::FILE;
use crate::error::{Error, unreadable};

/// A cluster of characters of more bytes is mapped character by character.
const LONGEST_CLUSTER: usize = 5;

/// A table on its way to be stored: the units of its double array, and the texts.
pub fn read(normalizer: &Value) -> Result<(Vec<u32>, Vec<u8>), Error> {
    let damaged = || unreadable(FILE, "its precompiled_charsmap is damaged");
    let text = normalizer.get("precompiled_charsmap").and_then(Value::as_str).ok_or_else(damaged)?;
    let bytes = BASE64_STANDARD.decode(text).map_err(|_| damaged())?;
    if bytes.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
    let (units, texts) = rest.split_at_checked(u32::from_le_bytes(*size) as usize).ok_or_else(damaged)?;
    let (units, []) = units.as_chunks() else { return Err(damaged()) };
    Ok((units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(), texts.to_vec()))
}

/// The table of characters: a double array that finds what a text begins with, and the texts that stand for that.
pub struct Map<'a> {
    pub units: &'a [u32],
    pub texts: &'a [u8],
}

impl Map<'_> {
    /// The text in which each cluster of characters that the table has is replaced.
    pub fn apply(&self, text: &str) -> String {
        let mut mapped = String::with_capacity(text.len());
        for cluster in text.graphemes(true) {
            if cluster.len() <= LONGEST_CLUSTER
                && let Some(other) = self.find(cluster)
            {
                mapped.push_str(other);
                continue;
            }
            let mut bytes = [0; 4];
            for character in cluster.chars() {
                let own = character.encode_utf8(&mut bytes);
                mapped.push_str(self.find(own).unwrap_or(own));
            }
        }
        mapped
    }

    /// What stands for the shortest beginning of the key that the table has.
    fn find(&self, key: &str) -> Option<&str> {
        let offset = |unit: u32| (unit >> 10) << ((unit & 1 << 9) >> 6);
        let mut place = offset(*self.units.first()?);
        for byte in key.bytes() {
            if byte == 0 {
                return None;
            }
            place ^= u32::from(byte);
            let unit = *self.units.get(place as usize)?;
            if unit & (1 << 31 | 0xff) != u32::from(byte) {
                return None;
            }
            place ^= offset(unit);
            if unit >> 8 & 1 == 1 {
                let begin = (*self.units.get(place as usize)? & !(1 << 31)) as usize;
                let text = self.texts.get(begin..)?;
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                return std::str::from_utf8(&text[..end]).ok();
            }
        }
        None
    }
}
