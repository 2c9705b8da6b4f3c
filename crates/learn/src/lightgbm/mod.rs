//! The LightGBM engine: the library by `dlopen`, and a training by its C functions.
//!
//! Only trainings need the library. It catches its own exceptions at the border of its C functions, runs its threads with
//! all signals blocked (see [`crate::signals`]), and is asked for one round at a time, so that a training can be stopped
//! between two. The trained model leaves it as text, which `forest::lightgbm` reads.

mod library;

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Mutex;

use self::library::{FLOAT32, Handle, Library, c_string};
use crate::Error;
use crate::family::{Control, Problem};

static LIBRARY: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Says where the library is, for trainings that begin after this.
pub fn set_library(path: impl Into<PathBuf>) {
    *LIBRARY.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(path.into());
}

fn open() -> Result<Library, Error> {
    let path = LIBRARY.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    Library::open(path.as_deref().unwrap_or(Path::new("lib_lightgbm.so")))
}

/// What was trained.
pub(crate) struct Trained {
    /// The model as LightGBM writes it.
    pub(crate) text: Vec<u8>,
    /// What the library warned of, a sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Trains with these parameters, `name=value` with spaces between them, for at most `rounds` rounds.
pub(crate) fn train(
    problem: &Problem<'_>,
    parameters: &str,
    rounds: usize,
    control: &mut Control<'_>,
) -> Result<Trained, Error> {
    let library = open()?;
    library.capture_log()?;
    let data = Data::new(&library, problem, parameters)?;
    control.check()?;
    let booster = Booster::new(&library, &data, parameters)?;
    for round in 0..rounds {
        let is_over = booster.update()?;
        control.progress(round as u64 + 1, rounds as u64)?;
        if is_over {
            break;
        }
    }
    Ok(Trained { text: booster.text()?, warnings: library::take_log() })
}

/// LightGBM's Dataset: the rows, binned.
struct Data<'l> {
    library: &'l Library,
    handle: Handle,
}

impl Drop for Data<'_> {
    fn drop(&mut self) {
        let handle = self.handle;
        // SAFETY: the handle came from the library and is freed once.
        let _ = self.library.call(|functions| unsafe { (functions.dataset_free)(handle) });
    }
}

impl<'l> Data<'l> {
    fn new(library: &'l Library, problem: &Problem<'_>, parameters: &str) -> Result<Data<'l>, Error> {
        let too_many = |_| Error::LightGbm("there are more rows or columns than it can count".into());
        let rows = i32::try_from(problem.rows).map_err(too_many)?;
        let width = i32::try_from(problem.width).map_err(too_many)?;
        let parameters = c_string(parameters);
        let mut handle = ptr::null_mut();
        let features = problem.features.as_ptr().cast();
        debug_assert_eq!(problem.features.len(), problem.rows * problem.width);
        // SAFETY: `features` are `rows` times `width` numbers, row by row, that the call bins and keeps no pointer to;
        // there is no Dataset to refer to; `handle` is valid for writing.
        library.call(|functions| unsafe {
            let (by_row, reference) = (1, ptr::null_mut());
            (functions.dataset_from_matrix)(
                features,
                FLOAT32,
                rows,
                width,
                by_row,
                parameters.as_ptr(),
                reference,
                &mut handle,
            )
        })?;
        let data = Data { library, handle };
        data.set(c"label", problem.labels, rows)?;
        if let Some(weights) = problem.weights {
            data.set(c"weight", weights, rows)?;
        }
        Ok(data)
    }

    fn set(&self, name: &std::ffi::CStr, values: &[f32], rows: c_int) -> Result<(), Error> {
        if usize::try_from(rows).ok() != Some(values.len()) {
            return Err(Error::Shape(format!("there are {} labels or weights for {rows} rows", values.len())));
        }
        // SAFETY: the handle is live, and there are as many numbers as it is told, which the call copies.
        self.library.call(|functions| unsafe {
            (functions.dataset_field)(self.handle, name.as_ptr(), values.as_ptr().cast(), rows, FLOAT32)
        })
    }
}

/// LightGBM's Booster. It refers to the Dataset it was made with, which outlives it.
struct Booster<'l> {
    library: &'l Library,
    handle: Handle,
}

impl Drop for Booster<'_> {
    fn drop(&mut self) {
        let handle = self.handle;
        // SAFETY: the handle came from the library and is freed once.
        let _ = self.library.call(|functions| unsafe { (functions.booster_free)(handle) });
    }
}

impl<'l> Booster<'l> {
    fn new(library: &'l Library, data: &Data<'l>, parameters: &str) -> Result<Booster<'l>, Error> {
        let parameters = c_string(parameters);
        let mut handle = ptr::null_mut();
        library
            // SAFETY: the Dataset is live; `handle` is valid for writing.
            .call(|functions| unsafe { (functions.booster_create)(data.handle, parameters.as_ptr(), &mut handle) })?;
        Ok(Booster { library, handle })
    }

    /// One round; whether there is nothing more to split.
    fn update(&self) -> Result<bool, Error> {
        let mut is_over = 0;
        // SAFETY: the handle is live; `is_over` is valid for writing.
        self.library.call(|functions| unsafe { (functions.booster_update)(self.handle, &mut is_over) })?;
        Ok(is_over != 0)
    }

    /// The model.
    fn text(&self) -> Result<Vec<u8>, Error> {
        let mut text: Vec<u8> = Vec::new();
        // The first call says how long it is.
        for _ in 0..2 {
            let mut length = 0;
            let room = i64::try_from(text.len()).map_err(|_| Error::Memory)?;
            // SAFETY: the handle is live; the library writes no more than `room` bytes, which there are, and the length.
            self.library.call(|functions| unsafe {
                let (from, all, by_splits) = (0, -1, 0);
                (functions.booster_text)(self.handle, from, all, by_splits, room, &mut length, text.as_mut_ptr().cast())
            })?;
            let length = usize::try_from(length).map_err(|_| Error::Memory)?;
            if length <= text.len() {
                // The last byte ends a C string.
                text.truncate(length.saturating_sub(1));
                return Ok(text);
            }
            room::reserve(&mut text, length)?;
            text.resize(length, 0);
        }
        Err(Error::LightGbm("the model changed while it was written".into()))
    }
}

/// Predictions of a model by the library itself, of all rows together: what the reader is compared with. `kind` is 0 for
/// predictions, 3 for contributions.
#[cfg(test)]
pub(crate) fn predict(text: &[u8], features: &[f32], width: usize, kind: c_int) -> Result<Vec<f64>, Error> {
    let library = open()?;
    let text = c_string(&String::from_utf8_lossy(text));
    let (mut rounds, mut handle) = (0, ptr::null_mut());
    // SAFETY: the text is a C string; both results are valid for writing.
    library.call(|functions| unsafe { (functions.booster_load)(text.as_ptr(), &mut rounds, &mut handle) })?;
    let booster = Booster { library: &library, handle };
    let rows = features.len() / width;
    let (mut length, mut values) = (0, vec![0.0; rows * 64]);
    // SAFETY: the handle is live; there are `rows` rows of `width`, and room for as many values as any test's model has.
    library.call(|functions| unsafe {
        (functions.booster_predict)(
            booster.handle,
            features.as_ptr().cast(),
            FLOAT32,
            rows as i32,
            width as i32,
            1,
            kind,
            0,
            -1,
            c"num_threads=1".as_ptr(),
            &mut length,
            values.as_mut_ptr(),
        )
    })?;
    values.truncate(length as usize);
    Ok(values)
}
