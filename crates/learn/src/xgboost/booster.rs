//! XGBoost's Booster: the model that is growing.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::library::{Handle, Library, Size, c_string, owned};
use super::matrix::{self, Matrix};
use super::{Columns, Metric};
use crate::Error;

/// An owned booster. It refers to the matrices it was made with, which outlive it.
pub(super) struct Booster<'l> {
    library: &'l Library,
    handle: Handle,
}

impl Drop for Booster<'_> {
    fn drop(&mut self) {
        let handle = self.handle;
        // SAFETY: the handle came from the library and is freed once.
        self.library.free(|functions| unsafe { (functions.booster_free)(handle) });
    }
}

impl<'l> Booster<'l> {
    /// An empty model that will be trained on, and evaluated with, these matrices.
    pub(super) fn create(library: &'l Library, matrices: &[&Matrix<'l>]) -> Result<Booster<'l>, Error> {
        let handles: Vec<Handle> = matrices.iter().map(|matrix| matrix.handle()).collect();
        let mut handle = ptr::null_mut();
        // SAFETY: `handles` holds as many live matrices as the length says; `handle` is valid for writing.
        library.call(|functions| unsafe {
            (functions.booster_create)(handles.as_ptr(), handles.len() as Size, &mut handle)
        })?;
        Ok(Booster { library, handle })
    }

    /// A stored model.
    pub(super) fn load(library: &'l Library, model: &[u8]) -> Result<Booster<'l>, Error> {
        let booster = Booster::create(library, &[])?;
        booster.become_model(model)?;
        Ok(booster)
    }

    /// Takes over the trees, the intercept and the attributes of a stored model.
    pub(super) fn become_model(&self, model: &[u8]) -> Result<(), Error> {
        // The library looks at the first two bytes unasked, and ends the process if they are not there.
        if model.len() < 2 || !model.starts_with(b"{") {
            return Err(Error::Refused("the model is neither JSON nor UBJ".into()));
        }
        // SAFETY: the pointer and the length are those of `model`, which the call only reads.
        self.library.call(|functions| unsafe {
            (functions.booster_load)(self.handle, model.as_ptr().cast(), model.len() as Size)
        })
    }

    /// Sets a parameter; the library looks at the value at the first round.
    pub(super) fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        let (name, value) = (c_string(name), c_string(value));
        // SAFETY: both are strings that the call copies.
        self.library.call(|functions| unsafe { (functions.booster_param)(self.handle, name.as_ptr(), value.as_ptr()) })
    }

    /// Grows the trees of one round.
    pub(super) fn update(&self, round: u32, matrix: &Matrix<'l>) -> Result<(), Error> {
        let round = c_int::try_from(round).unwrap_or(c_int::MAX);
        // SAFETY: both handles are live.
        self.library.call(|functions| unsafe { (functions.booster_update)(self.handle, round, matrix.handle()) })
    }

    /// The metrics on an evaluation matrix.
    pub(super) fn evaluate(&self, round: u32, matrix: &Matrix<'l>) -> Result<Vec<Metric>, Error> {
        let round = c_int::try_from(round).unwrap_or(c_int::MAX);
        let handles = [matrix.handle()];
        let names = [c"e".as_ptr()];
        let mut line = ptr::null();
        // SAFETY: one live matrix and one name; `line` is valid for writing.
        self.library.call(|functions| unsafe {
            (functions.booster_eval)(self.handle, round, handles.as_ptr(), names.as_ptr(), 1, &mut line)
        })?;
        Ok(parse_metrics(&owned(line)))
    }

    /// Stores a text beside the model.
    pub(super) fn set_attribute(&self, name: &str, value: &str) -> Result<(), Error> {
        let (name, value) = (c_string(name), c_string(value));
        // SAFETY: both are strings that the call copies.
        self.library
            .call(|functions| unsafe { (functions.booster_attribute)(self.handle, name.as_ptr(), value.as_ptr()) })
    }

    /// Takes a text away that is stored beside the model, if it is there.
    pub(super) fn forget_attribute(&self, name: &str) -> Result<(), Error> {
        let name = c_string(name);
        // SAFETY: a string that the call reads; without a value the attribute goes.
        self.library.call(|functions| unsafe { (functions.booster_attribute)(self.handle, name.as_ptr(), ptr::null()) })
    }

    /// Stores the names and types of the features in the model.
    pub(super) fn set_columns(&self, columns: &Columns) -> Result<(), Error> {
        matrix::set_strings(self.library, self.handle, columns, |functions| functions.booster_feature_info)
    }

    /// A copy with the trees of the first `rounds` rounds.
    pub(super) fn first(&self, rounds: u32) -> Result<Booster<'l>, Error> {
        let end = c_int::try_from(rounds).unwrap_or(c_int::MAX);
        let mut handle = ptr::null_mut();
        // SAFETY: the handle is live; `handle` is valid for writing.
        self.library.call(|functions| unsafe { (functions.booster_slice)(self.handle, 0, end, 1, &mut handle) })?;
        Ok(Booster { library: self.library, handle })
    }

    /// The model in UBJ.
    pub(super) fn save(&self) -> Result<Vec<u8>, Error> {
        self.bytes(|functions, length, bytes| {
            // SAFETY: the handle is live; both pointers are valid for writing.
            unsafe { (functions.booster_save)(self.handle, c"{\"format\": \"ubj\"}".as_ptr(), length, bytes) }
        })
    }

    /// All parameters as the library understood them, in JSON.
    #[cfg(test)]
    pub(super) fn config(&self) -> Result<Vec<u8>, Error> {
        self.bytes(|functions, length, bytes| {
            // SAFETY: the handle is live; both pointers are valid for writing.
            unsafe { (functions.booster_config)(self.handle, length, bytes) }
        })
    }

    fn bytes(
        &self,
        call: impl FnOnce(&super::library::Functions, *mut Size, *mut *const c_char) -> c_int,
    ) -> Result<Vec<u8>, Error> {
        let (mut length, mut bytes) = (0, ptr::null());
        self.library.call(|functions| call(functions, &mut length, &mut bytes))?;
        let length = usize::try_from(length).unwrap_or(0);
        if bytes.is_null() {
            return Ok(Vec::new());
        }
        // SAFETY: the library owns `length` bytes there until its next call on this thread.
        Ok(unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) }.to_vec())
    }

    /// Predictions of whole rows, see [`Library::predict`].
    pub(super) fn predict(&self, matrix: &Matrix<'l>, margin: bool) -> Result<Vec<f32>, Error> {
        let kind = u8::from(margin);
        let config = c_string(&format!(
            "{{\"type\": {kind}, \"training\": false, \"iteration_begin\": 0, \"iteration_end\": 0, \
             \"strict_shape\": false}}"
        ));
        let (mut shape, mut dimensions, mut result) = (ptr::null(), 0, ptr::null());
        // SAFETY: both handles are live; the three results are valid for writing.
        self.library.call(|functions| unsafe {
            (functions.booster_predict)(
                self.handle,
                matrix.handle(),
                config.as_ptr(),
                &mut shape,
                &mut dimensions,
                &mut result,
            )
        })?;
        if shape.is_null() || result.is_null() {
            return Err(Error::Refused("no predictions were made".into()));
        }
        let dimensions = usize::try_from(dimensions).unwrap_or(0);
        // SAFETY: the library owns `dimensions` lengths there, and their product of results, until its next call.
        let predictions = unsafe {
            let shape = std::slice::from_raw_parts(shape, dimensions);
            let count = shape.iter().product::<Size>();
            std::slice::from_raw_parts(result, usize::try_from(count).unwrap_or(0))
        };
        Ok(predictions.to_vec())
    }
}

/// Reads `[3]\te-rmse:0.25\te-mae:0.5`.
fn parse_metrics(line: &str) -> Vec<Metric> {
    let fields = line.split('\t').skip(1);
    fields
        .filter_map(|field| {
            let (name, value) = field.rsplit_once(':')?;
            let name = name.strip_prefix("e-").unwrap_or(name);
            Some(Metric { name: name.to_string(), value: parse_number(value) })
        })
        .collect()
}

/// The library prints through C++ streams: `nan`, `-nan` and `inf` are possible.
fn parse_number(text: &str) -> f64 {
    let text = text.trim();
    text.parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_of_the_line_is_read() {
        let metrics = parse_metrics("[12]\te-rmse:0.25\te-error@0.7:1.5e-05\te-auc:-nan\te-aft-nloglik:inf");
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names, ["rmse", "error@0.7", "auc", "aft-nloglik"]);
        assert_eq!(metrics[0].value, 0.25);
        assert_eq!(metrics[1].value, 1.5e-5);
        assert!(metrics[2].value.is_nan());
        assert_eq!(metrics[3].value, f64::INFINITY);
    }
}
