//! The compiled model with which a backend predicts: a forest, or a model of another family, in bytes that all backends
//! share.
//!
//! An image begins with what it is of. A forest's is made by `forest::compile`; that of another family is the stored model
//! itself, whose arrays are used in place, behind a header with a checksum.

use bytes::Bytes;
use forest::Forest;
use learn::family::{Predict, Stored};

use crate::cache::{FromImage, Image};
use crate::error::{Error, Result};
use crate::model_meta;

/// What the image of a model that is no forest begins with; a forest's begins otherwise.
const MAGIC: &[u8; 8] = b"PGMLFAM1";

/// Bytes before the stored model, so that its arrays are aligned: the magic, the checksum, zeros.
const HEADER: usize = 64;

/// A model that is ready to predict.
#[allow(clippy::large_enum_variant, reason = "one a model, and a prediction by a forest takes no detour")]
pub enum Compiled {
    Forest(Forest<Image>),
    Family(Learned),
}

/// A model of a family that is no forest.
pub struct Learned {
    pub predict: Box<dyn Predict>,
    /// The description that training stored in the model, as JSON.
    pub description: String,
    /// The image, which may be a private copy.
    pub bytes: usize,
}

/// The image of stored bytes that are no forest.
pub fn image_of_family(stored: &[u8]) -> Result<Vec<u8>> {
    // What cannot be opened is refused here, where the error is told, not where the image is mapped.
    let mut read = Stored::read(Bytes::copy_from_slice(stored)).map_err(unreadable)?;
    if let Some(compiled) = learn::forms::compile(&read).map_err(unreadable)? {
        read = Stored::read(compiled.into()).map_err(unreadable)?;
    }
    learn::forms::check(&read).map_err(unreadable)?;
    let stored = read.bytes();
    let mut image = Vec::new();
    crate::memory::reserve(&mut image, HEADER + stored.len())?;
    image.extend_from_slice(MAGIC);
    image.extend_from_slice(&forest::checksum(stored).to_le_bytes());
    image.resize(HEADER, 0);
    image.extend_from_slice(stored);
    Ok(image)
}

impl Compiled {
    /// Features of a row, as the model sees it.
    pub fn width(&self) -> usize {
        match self {
            Compiled::Forest(forest) => forest.num_features(),
            Compiled::Family(learned) => learned.predict.width(),
        }
    }
}

impl FromImage for Compiled {
    unsafe fn open(image: Image, checked: bool) -> std::result::Result<Compiled, String> {
        if image.as_ref().starts_with(MAGIC) {
            // SAFETY: as the caller promises.
            return unsafe { Learned::open(image, checked) }.map(Compiled::Family);
        }
        let opened = match checked {
            // SAFETY: as the caller promises.
            true => unsafe { Forest::open_again(image) },
            false => Forest::open(image),
        };
        opened.map(Compiled::Forest).map_err(|error| error.to_string())
    }
}

impl Learned {
    /// # Safety
    /// As of [`Compiled::open`].
    unsafe fn open(image: Image, checked: bool) -> std::result::Result<Learned, String> {
        let bytes = Bytes::from_owner(image);
        let sum = bytes.get(MAGIC.len()..MAGIC.len() + 8).and_then(|sum| <[u8; 8]>::try_from(sum).ok());
        let stored = bytes.slice(HEADER.min(bytes.len())..);
        if !checked && sum.map(u64::from_le_bytes) != Some(forest::checksum(&stored)) {
            return Err("its checksum is wrong".to_owned());
        }
        let mut stored = Stored::read(stored).map_err(|error| error.to_string())?;
        if checked {
            // SAFETY: a backend of this server has opened these bytes without it, which checked them from end to end.
            stored = unsafe { stored.checked() };
        } else {
            learn::forms::check(&stored).map_err(|error| error.to_string())?;
        }
        let description = stored.attribute(model_meta::ATTRIBUTE).unwrap_or_default().to_owned();
        let predict = learn::forms::open(&stored).map_err(|error| error.to_string())?;
        Ok(Learned { predict, description, bytes: bytes.len() })
    }
}

fn unreadable(error: learn::Error) -> Error {
    Error::corrupted(format!("the model cannot be read: {error}"))
}
