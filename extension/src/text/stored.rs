//! Transformers in the registry, and ready to be used: mapped from the cache, and kept for as long as the connection uses
//! them now and then.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use encoder::Encoder;
use pgrx::pg_sys;
use room::{Bounds, Recent};

use super::refused;
use crate::cache::{self, Digest, FromImage, Image, Opened, Used};
use crate::error::{Error, Result};
use crate::{lookup, memory};

/// Where a transformer stands in `pgml.files`.
pub const PATH: &str = "transformer.safetensors";

pub fn is_path(path: &str) -> bool {
    path == PATH
}

/// What an image begins with; its checksum and zeros follow.
const MAGIC: &[u8; 8] = b"PGMLENC1";

/// Bytes before the image of `crates/encoder`, so that its arrays are aligned.
const HEADER: usize = 64;

/// Those that a connection keeps mapped; the weight is of what is its own.
const KEPT: Bounds = Bounds { entries: 8, weight: 32 << 20 };

/// A transformer that is mapped.
pub struct Transformer {
    pub encoder: Encoder,
    used: Option<Used>,
}

impl FromImage for Encoder {
    unsafe fn open(image: Image, checked: bool) -> std::result::Result<Encoder, String> {
        let bytes = Bytes::from_owner(image);
        let sum = bytes.get(MAGIC.len()..MAGIC.len() + 8).and_then(|sum| <[u8; 8]>::try_from(sum).ok());
        let own = bytes.slice(HEADER.min(bytes.len())..);
        if !bytes.starts_with(MAGIC) || !checked && sum.map(u64::from_le_bytes) != Some(forest::checksum(&own)) {
            return Err("its checksum is wrong".to_owned());
        }
        Encoder::open(own).map_err(|error| error.to_string())
    }
}

/// The image of what is stored.
pub fn image(stored: &[u8]) -> Result<Vec<u8>> {
    let mut image = Vec::new();
    // All at once: growing would copy it.
    memory::reserve(&mut image, HEADER + stored.len() + stored.len() / 64)?;
    image.resize(HEADER, 0);
    let mut image = encoder::image(stored, image).map_err(refused)?;
    let sum = forest::checksum(&image[HEADER..]);
    image[..MAGIC.len()].copy_from_slice(MAGIC);
    image[MAGIC.len()..MAGIC.len() + 8].copy_from_slice(&sum.to_le_bytes());
    Ok(image)
}

/// The transformer that a model is; `None` where it is none.
pub fn open(model: i64, snapshot: pg_sys::Snapshot) -> Result<Option<Rc<Transformer>>> {
    thread_local!(static LOADED: RefCell<Recent<Digest, Rc<Transformer>>> = RefCell::default());
    let Some(digest) = lookup::digest_at(model, is_path, snapshot)? else { return Ok(None) };
    if let Some(transformer) = LOADED.with_borrow(|loaded| loaded.get(&digest).cloned()) {
        if let Some(used) = &transformer.used {
            used.now();
        }
        return Ok(Some(transformer));
    }
    let stored = || {
        let stored = lookup::bytes_at(model, is_path, snapshot)?;
        image(&stored)
    };
    let Opened { compiled: encoder, used }: Opened<Encoder> = cache::open(&digest, stored)?;
    cache::tidy_if_due(|| lookup::digests(snapshot))?;
    let weight = if used.is_some() { 0 } else { encoder.bytes() };
    let transformer = Rc::new(Transformer { encoder, used });
    let unused = |transformer: &Rc<Transformer>| Rc::strong_count(transformer) == 1;
    LOADED.with_borrow_mut(|loaded| loaded.insert(digest, transformer.clone(), weight, &KEPT, unused));
    Ok(Some(transformer))
}

/// The error for a model that has no embeddings and no scores to give.
pub fn is_none(model: i64) -> Error {
    Error::unsupported(format!("model {model} is no transformer"))
        .hint("pgml.load_transformer loads one from files on the server; pgml.predict gives the predictions of others.")
}
