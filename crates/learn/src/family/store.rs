//! How a model is stored: the safetensors format, which is a JSON header and arrays behind it that are used in place.
//!
//! The header's metadata has one entry, `pgml`: a JSON object with `format` (the form and its version, `pgml:linear:1`),
//! `settings` (an object of the form's own) and `attributes`, whatever the caller adds, such as the description of the
//! columns.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use safetensors::tensor::{SafeTensors, View};
use safetensors::{Dtype, serialize};
use serde_json::{Map, Value, json};

use super::{Array, Element, Form};
use crate::Error;

/// The entry of the metadata that is ours.
const ABOUT: &str = "pgml";

/// What `format` begins with.
const PREFIX: &str = "pgml:";

/// The version of the forms. A form that changes gets another name.
const VERSION: &str = ":1";

/// Before the name of an array that holds those of many models, and of the array that says where each one's lies: where it
/// begins, in units, and its bytes.
const PACKED: &str = "packed/";
const PLACES: &str = "places/";

/// Bytes whose multiples arrays begin at that are stored side by side, so that numbers are aligned.
const UNIT: usize = 8;

/// The place of an array that a model does not have.
const ABSENT: u32 = u32::MAX;

/// A trained model: arrays by name, and settings.
pub struct Model {
    form: &'static Form,
    settings: Map<String, Value>,
    arrays: BTreeMap<String, Stretch>,
    /// What the training wants its caller to know.
    pub warnings: Vec<String>,
}

/// An array on its way to be stored.
struct Stretch {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Bytes,
}

impl View for &Stretch {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

impl Model {
    /// A model without any arrays yet.
    pub fn new(form: &'static Form) -> Model {
        Model { form, settings: Map::new(), arrays: BTreeMap::new(), warnings: Vec::new() }
    }

    /// With an array.
    #[must_use]
    pub fn with<T: Element>(mut self, name: &str, values: Vec<T>) -> Model {
        let array = Array::from_vec(values);
        let stretch =
            Stretch { dtype: T::TYPE, shape: vec![array.len()], bytes: Bytes::copy_from_slice(array.bytes()) };
        self.arrays.insert(name.to_owned(), stretch);
        self
    }

    /// With a setting.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<Value>) -> Model {
        self.settings.insert(name.to_owned(), value.into());
        self
    }

    /// With something to tell the caller.
    #[must_use]
    pub fn warn(mut self, warning: impl Into<String>) -> Model {
        self.warnings.push(warning.into());
        self
    }

    /// The form's name.
    pub(crate) fn form(&self) -> &'static str {
        self.form.name
    }

    /// The settings.
    pub(crate) fn settings(&self) -> &Map<String, Value> {
        &self.settings
    }

    /// With the arrays and the warnings of another model, which is its part of that index (see [`Stored::part`]).
    #[must_use]
    pub(crate) fn with_part(mut self, index: usize, part: Model) -> Model {
        self.arrays.extend(part.arrays.into_iter().map(|(name, stretch)| (format!("{index}/{name}"), stretch)));
        self.warnings.extend(part.warnings.into_iter().map(|warning| format!("target {}: {warning}", index + 1)));
        self
    }

    /// With the arrays of many models side by side: those of a name one behind the other (see [`Stored::packed`]).
    ///
    /// # Errors
    /// [`Error::Model`] where arrays of a name are of two types, or too long to be found again; [`Error::Memory`].
    pub(crate) fn with_packed(mut self, models: Vec<Model>) -> Result<Model, Error> {
        let count = models.len();
        let mut all: BTreeMap<String, (Dtype, Vec<u8>, Vec<u32>)> = BTreeMap::new();
        for (index, model) in models.into_iter().enumerate() {
            for (name, stretch) in model.arrays {
                let beginning = || (stretch.dtype, Vec::new(), vec![ABSENT; 2 * count]);
                let (dtype, bytes, places) = all.entry(name).or_insert_with(beginning);
                let start = u32::try_from(bytes.len() / UNIT).ok();
                let length = u32::try_from(stretch.bytes.len()).ok().filter(|length| *length < ABSENT);
                let (Some(start), Some(length), true) = (start, length, *dtype == stretch.dtype) else {
                    return Err(Error::Model("its models cannot be stored side by side".into()));
                };
                places[2 * index..2 * index + 2].copy_from_slice(&[start, length]);
                if bytes.capacity() - bytes.len() < stretch.bytes.len() + UNIT {
                    let more = bytes.len().max(stretch.bytes.len() + UNIT);
                    room::reserve(bytes, more)?;
                }
                bytes.extend_from_slice(&stretch.bytes);
                bytes.resize(bytes.len().next_multiple_of(UNIT), 0);
            }
        }
        for (name, (dtype, bytes, places)) in all {
            let shape = vec![bytes.len() * 8 / dtype.bitsize()];
            self.arrays.insert(format!("{PACKED}{name}"), Stretch { dtype, shape, bytes: bytes.into() });
            self = self.with(&format!("{PLACES}{name}"), places);
        }
        Ok(self)
    }

    /// The bytes to store, with these attributes.
    ///
    /// # Errors
    /// [`Error::Model`] where they cannot be written, which is a mistake of the family's.
    pub fn to_bytes(&self, attributes: &[(String, String)]) -> Result<Vec<u8>, Error> {
        let attributes: BTreeMap<&str, &str> =
            attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let about = json!({
            "format": format!("{PREFIX}{}{VERSION}", self.form.name),
            "settings": self.settings,
            "attributes": attributes,
        });
        // One entry: several would be written in another order each time, and a model is the same byte for byte.
        let metadata = HashMap::from([(ABOUT.to_owned(), about.to_string())]);
        let arrays = self.arrays.iter().map(|(name, stretch)| (name.as_str(), stretch));
        serialize(arrays, Some(metadata)).map_err(|error| Error::Model(error.to_string()))
    }
}

/// A model as it was stored, its arrays where they lie.
pub struct Stored {
    bytes: Bytes,
    form: String,
    settings: Map<String, Value>,
    attributes: HashMap<String, String>,
    arrays: HashMap<String, (Dtype, Bytes)>,
    is_checked: bool,
}

impl Stored {
    /// Whether these bytes may be a model of a family, told by their beginning.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.get(8) == Some(&b'{') && bytes.get(..8).is_some_and(|length| length[4..] == [0; 4])
    }

    /// Reads what [`Model::to_bytes`] wrote. The bytes may come from anybody.
    ///
    /// # Errors
    /// [`Error::Model`] where they are something else.
    pub fn read(bytes: Bytes) -> Result<Stored, Error> {
        let refused = |error: safetensors::SafeTensorError| Error::Model(error.to_string());
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(refused)?;
        let about = header.metadata().as_ref().and_then(|metadata| metadata.get(ABOUT));
        let about: Value = about
            .and_then(|about| serde_json::from_str(about).ok())
            .ok_or_else(|| Error::Model(format!("its metadata has no \"{ABOUT}\"")))?;
        let text = |name: &str| about.get(name).and_then(Value::as_str);
        let format = text("format").ok_or_else(|| Error::Model("it has no format".into()))?;
        let form = format
            .strip_prefix(PREFIX)
            .and_then(|format| format.strip_suffix(VERSION))
            .map(str::to_owned)
            .ok_or_else(|| Error::Model(format!("its format \"{format}\" is not known")))?;
        let object = |name: &str| about.get(name).and_then(Value::as_object);
        let settings = object("settings").cloned().ok_or_else(|| Error::Model("it has no settings".into()))?;
        let attributes = object("attributes").into_iter().flatten();
        let attributes =
            attributes.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
        let tensors = SafeTensors::deserialize(&bytes).map_err(refused)?;
        let arrays = tensors
            .iter()
            .map(|(name, view)| (name.to_owned(), (view.dtype(), bytes.slice_ref(view.data()))))
            .collect();
        Ok(Stored { bytes, form, settings, attributes, arrays, is_checked: false })
    }

    /// The same, which need not be checked from end to end again.
    ///
    /// # Safety
    /// [`crate::forms::check`] has accepted these bytes before.
    #[must_use]
    pub unsafe fn checked(self) -> Stored {
        Stored { is_checked: true, ..self }
    }

    /// Whether it need not be checked from end to end.
    pub(crate) fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// A model of this form with its settings and arrays.
    pub(crate) fn to_model(&self, form: &'static Form) -> Model {
        let mut model = Model { settings: self.settings.clone(), ..Model::new(form) };
        for (name, (dtype, bytes)) in &self.arrays {
            let stretch =
                Stretch { dtype: *dtype, shape: vec![bytes.len() * 8 / dtype.bitsize()], bytes: bytes.clone() };
            model.arrays.insert(name.clone(), stretch);
        }
        model
    }

    /// What was added to the model when it was written, by name.
    pub(crate) fn attributes(&self) -> Vec<(String, String)> {
        self.attributes.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// A part of this model, which has arrays of its own (`0/means`), and a form and settings.
    pub fn part(&self, index: usize, form: &str, settings: Map<String, Value>) -> Stored {
        let prefix = format!("{index}/");
        let own = self.arrays.iter().filter_map(|(name, array)| Some((name.strip_prefix(&prefix)?, array)));
        let arrays = own.map(|(name, array)| (name.to_owned(), array.clone())).collect();
        let (bytes, attributes, is_checked) = (self.bytes.clone(), HashMap::new(), self.is_checked);
        Stored { bytes, form: form.to_owned(), settings, attributes, arrays, is_checked }
    }

    /// So many models that are stored in this one side by side.
    ///
    /// # Errors
    /// [`Error::Model`] where their arrays are not all there.
    pub(crate) fn packed(&self, count: usize) -> Result<Packed, Error> {
        let mut arrays = Vec::new();
        for (name, (dtype, bytes)) in &self.arrays {
            let Some(name) = name.strip_prefix(PACKED) else { continue };
            let places = self.array_of::<u32>(&format!("{PLACES}{name}"), 2 * count)?;
            let whole = |place: &[u32]| match *place {
                [_, ABSENT] => true,
                [start, length] => start as usize * UNIT + length as usize <= bytes.len(),
                _ => false,
            };
            if !places.chunks_exact(2).all(whole) {
                return Err(Error::Model(format!("its \"{name}\" is cut")));
            }
            arrays.push((name.to_owned(), *dtype, bytes.clone(), places));
        }
        Ok(Packed { bytes: self.bytes.clone(), arrays, is_checked: self.is_checked })
    }

    /// All of it, as it was stored; of a part, what it is a part of.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was added to the model when it was written.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// The form's name.
    pub fn form(&self) -> &str {
        &self.form
    }

    /// An array by its name.
    ///
    /// # Errors
    /// [`Error::Model`] where there is none of this type.
    pub fn array<T: Element>(&self, name: &str) -> Result<Array<T>, Error> {
        let (dtype, bytes) = self.arrays.get(name).ok_or_else(|| Error::Model(format!("it lacks \"{name}\"")))?;
        (*dtype == T::TYPE)
            .then(|| Array::of_bytes(bytes.clone()))
            .flatten()
            .ok_or_else(|| Error::Model(format!("its \"{name}\" is of another type")))
    }

    /// An array, which must have this number of elements.
    ///
    /// # Errors
    /// [`Error::Model`] where there is none of this type and length.
    pub fn array_of<T: Element>(&self, name: &str, length: usize) -> Result<Array<T>, Error> {
        let array = self.array(name)?;
        match array.len() == length {
            true => Ok(array),
            false => Err(Error::Model(format!("its \"{name}\" has {} elements, not {length}", array.len()))),
        }
    }

    /// A setting by its name.
    ///
    /// # Errors
    /// [`Error::Model`] where there is none.
    pub fn setting(&self, name: &str) -> Result<&Value, Error> {
        self.settings.get(name).ok_or_else(|| Error::Model(format!("it lacks the setting \"{name}\"")))
    }

    /// A setting that is a number.
    ///
    /// # Errors
    /// [`Error::Model`] where there is none.
    pub fn number(&self, name: &str) -> Result<f64, Error> {
        self.setting(name)?.as_f64().ok_or_else(|| Error::Model(format!("its setting \"{name}\" is not a number")))
    }

    /// A setting that counts something: at most 2^31.
    ///
    /// # Errors
    /// [`Error::Model`] where there is none.
    pub fn count(&self, name: &str) -> Result<usize, Error> {
        let count = self.setting(name)?.as_u64().filter(|count| *count <= 1 << 31);
        count
            .and_then(|count| usize::try_from(count).ok())
            .ok_or_else(|| Error::Model(format!("its setting \"{name}\" is not a count")))
    }

    /// A setting that is true or false.
    ///
    /// # Errors
    /// [`Error::Model`] where there is none.
    pub fn flag(&self, name: &str) -> Result<bool, Error> {
        self.setting(name)?.as_bool().ok_or_else(|| Error::Model(format!("its setting \"{name}\" is not a flag")))
    }

    /// A setting that is a text.
    ///
    /// # Errors
    /// [`Error::Model`] where there is none.
    pub fn text(&self, name: &str) -> Result<&str, Error> {
        self.setting(name)?.as_str().ok_or_else(|| Error::Model(format!("its setting \"{name}\" is not a text")))
    }
}

/// Models that are stored side by side in one.
pub(crate) struct Packed {
    bytes: Bytes,
    /// Of each array its name, its type, the numbers of all models, and where those of each lie.
    arrays: Vec<(String, Dtype, Bytes, Array<u32>)>,
    is_checked: bool,
}

impl Packed {
    /// The model of that index, which has this form and these settings.
    pub(crate) fn model(&self, index: usize, form: &str, settings: Map<String, Value>) -> Stored {
        let own = self.arrays.iter().filter_map(|(name, dtype, bytes, places)| {
            let (start, length) = (*places.get(2 * index)? as usize * UNIT, *places.get(2 * index + 1)?);
            let whole = length != ABSENT && start + length as usize <= bytes.len();
            whole.then(|| (name.clone(), (*dtype, bytes.slice(start..start + length as usize))))
        });
        let (arrays, attributes, is_checked) = (own.collect(), HashMap::new(), self.is_checked);
        Stored { bytes: self.bytes.clone(), form: form.to_owned(), settings, attributes, arrays, is_checked }
    }
}
