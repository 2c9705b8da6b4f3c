//! The C functions of XGBoost, found at run time, and the one way to call them.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

use super::booster::Booster;
use super::matrix::Matrix;
use super::message;
use crate::Error;
use crate::signals;

pub(super) type Handle = *mut c_void;
pub(super) type Reset = unsafe extern "C" fn(*mut c_void);
pub(super) type Next = unsafe extern "C" fn(*mut c_void) -> c_int;

/// XGBoost's length type.
pub(super) type Size = u64;

macro_rules! functions {
    ($($(#[$meta:meta])* $field:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The addresses of the functions that are used, all of them found when the library was opened.
        pub(super) struct Functions {
            $($(#[$meta])* pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn find(library: &libloading::os::unix::Library) -> Result<Functions, String> {
                $(
                    $(#[$meta])*
                    // SAFETY: the signature is that of xgboost/c_api.h, the same in every version that is accepted.
                    let $field = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> $result>($symbol.as_bytes())
                    };
                    $(#[$meta])*
                    let $field = *$field.map_err(|error| plain(&error))?;
                )*
                Ok(Functions { $($(#[$meta])* $field,)* })
            }
        }
    };
}

functions! {
    version = "XGBoostVersion": fn(*mut c_int, *mut c_int, *mut c_int) -> ();
    last_error = "XGBGetLastError": fn() -> *const c_char;
    register_log = "XGBRegisterLogCallback": fn(Option<unsafe extern "C" fn(*const c_char)>) -> c_int;
    global_config = "XGBSetGlobalConfig": fn(*const c_char) -> c_int;
    matrix_from_dense = "XGDMatrixCreateFromDense": fn(*const c_char, *const c_char, *mut Handle) -> c_int;
    matrix_from_callback = "XGQuantileDMatrixCreateFromCallback":
        fn(Handle, Handle, Handle, Reset, Next, *const c_char, *mut Handle) -> c_int;
    matrix_free = "XGDMatrixFree": fn(Handle) -> c_int;
    matrix_info = "XGDMatrixSetInfoFromInterface": fn(Handle, *const c_char, *const c_char) -> c_int;
    matrix_feature_info = "XGDMatrixSetStrFeatureInfo":
        fn(Handle, *const c_char, *const *const c_char, Size) -> c_int;
    proxy_create = "XGProxyDMatrixCreate": fn(*mut Handle) -> c_int;
    proxy_dense = "XGProxyDMatrixSetDataDense": fn(Handle, *const c_char) -> c_int;
    booster_create = "XGBoosterCreate": fn(*const Handle, Size, *mut Handle) -> c_int;
    booster_free = "XGBoosterFree": fn(Handle) -> c_int;
    booster_param = "XGBoosterSetParam": fn(Handle, *const c_char, *const c_char) -> c_int;
    booster_update = "XGBoosterUpdateOneIter": fn(Handle, c_int, Handle) -> c_int;
    booster_eval = "XGBoosterEvalOneIter":
        fn(Handle, c_int, *const Handle, *const *const c_char, Size, *mut *const c_char) -> c_int;
    booster_attribute = "XGBoosterSetAttr": fn(Handle, *const c_char, *const c_char) -> c_int;
    booster_feature_info = "XGBoosterSetStrFeatureInfo":
        fn(Handle, *const c_char, *const *const c_char, Size) -> c_int;
    booster_slice = "XGBoosterSlice": fn(Handle, c_int, c_int, c_int, *mut Handle) -> c_int;
    booster_save = "XGBoosterSaveModelToBuffer":
        fn(Handle, *const c_char, *mut Size, *mut *const c_char) -> c_int;
    booster_load = "XGBoosterLoadModelFromBuffer": fn(Handle, *const c_void, Size) -> c_int;
    #[cfg(test)]
    booster_config = "XGBoosterSaveJsonConfig": fn(Handle, *mut Size, *mut *const c_char) -> c_int;
    booster_predict = "XGBoosterPredictFromDMatrix":
        fn(Handle, Handle, *const c_char, *mut *const Size, *mut Size, *mut *const f32) -> c_int;
}

/// The XGBoost library. Opening it again is cheap: the dynamic linker keeps one copy.
///
/// It is never unloaded, since its pool of threads outlives every training.
pub struct Library {
    functions: Functions,
    version: (u32, u32, u32),
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("version", &self.version).finish_non_exhaustive()
    }
}

/// QuantileDMatrix with `ref`, array interfaces and UBJ are all there since 2.0.
const OLDEST: (u32, u32, u32) = (2, 0, 0);
const OLDEST_NAME: &str = "2.0.0";

impl Library {
    /// Loads the library and finds all its functions.
    ///
    /// # Errors
    /// [`Error::Library`] if the file cannot be loaded or lacks a function, [`Error::Version`] if it is older than 2.0.
    pub fn open(path: &Path) -> Result<Library, Error> {
        let failed = |reason: String| Error::Library { path: path.display().to_string(), reason };
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: loading runs the initialisers of whatever file this is; which one is for the caller (an
        // administrator's setting) to say. Signals are blocked in case one of them starts a thread.
        let opened = signals::blocked(|| unsafe { libloading::os::unix::Library::open(Some(path), flags) });
        let library = opened.map_err(|error| failed(plain(&error)))?;
        let functions = Functions::find(&library).map_err(failed)?;
        // Its threads run for as long as the process does.
        std::mem::forget(library);

        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: the three pointers are valid for writing an int each.
        unsafe { (functions.version)(&mut major, &mut minor, &mut patch) };
        let number = |part: c_int| u32::try_from(part).unwrap_or(0);
        let version = (number(major), number(minor), number(patch));
        if version < OLDEST {
            return Err(Error::Version {
                path: path.display().to_string(),
                found: format!("{major}.{minor}.{patch}"),
                wanted: OLDEST_NAME,
            });
        }
        Ok(Library { functions, version })
    }

    /// Major, minor and patch version of the library.
    pub fn version(&self) -> (u32, u32, u32) {
        self.version
    }

    /// Calls the library with all signals blocked, so that its threads never handle one, and fetches its reason if it
    /// refuses. The log lines it writes meanwhile land in this thread's [`take_log`].
    pub(super) fn call(&self, call: impl FnOnce(&Functions) -> c_int) -> Result<(), Error> {
        signals::blocked(|| {
            if call(&self.functions) == 0 {
                return Ok(());
            }
            // SAFETY: the library gives a string of its own that lives until its next error on this thread.
            let reason = unsafe { (self.functions.last_error)() };
            Err(match owned(reason) {
                // What C++ says where an allocation fails, and what the library says of its own.
                reason if ["bad_alloc", "bad_malloc"].iter().any(|what| reason.contains(what)) => Error::Memory,
                reason => Error::Refused(message::clean(&reason)),
            })
        })
    }

    /// Frees a handle; what there is to free is gone in any case, so a refusal has no meaning.
    pub(super) fn free(&self, free: impl FnOnce(&Functions) -> c_int) {
        let _ = self.call(free);
    }

    /// Sends the library's log lines of this thread to [`take_log`] instead of to standard error.
    pub(super) fn capture_log(&self) -> Result<(), Error> {
        // SAFETY: `keep_line` is a function for as long as the process runs, and does not unwind.
        self.call(|functions| unsafe { (functions.register_log)(Some(keep_line)) })?;
        // The level is a setting of the thread that an earlier training may have changed.
        // SAFETY: the configuration is a string that the call only reads.
        self.call(|functions| unsafe { (functions.global_config)(c"{\"verbosity\": 1}".as_ptr()) })?;
        LOG.with(|log| log.borrow_mut().clear());
        Ok(())
    }

    /// Predictions of a stored model by the library itself, one row after another, `outputs` numbers each; NaN is a
    /// missing value. `margin` leaves the objective's transformation out.
    ///
    /// It is slow for few rows and takes memory for many: what predicts in queries is another crate, and this is what
    /// that one is compared with.
    ///
    /// Only for models that come from the library: it ends the process on some that were made to.
    ///
    /// # Errors
    /// [`Error::Shape`] if the features are not whole rows, [`Error::Refused`] if the library cannot read the model.
    pub fn predict(&self, model: &[u8], features: &[f32], width: usize, margin: bool) -> Result<Vec<f32>, Error> {
        if width == 0 || !features.len().is_multiple_of(width) {
            return Err(Error::Shape(format!("{} numbers are not whole rows of {width}", features.len())));
        }
        if features.is_empty() {
            return Ok(Vec::new());
        }
        self.capture_log()?;
        let booster = Booster::load(self, model)?;
        booster.predict(&Matrix::unlabelled(self, features, width, 0)?, margin)
    }
}

thread_local! {
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A training with `verbosity` 3 writes without end; what comes after this many lines is dropped.
const MOST_LINES: usize = 200;

unsafe extern "C" fn keep_line(line: *const c_char) {
    let line = owned(line);
    let _ = LOG.try_with(|log| {
        if let Ok(mut lines) = log.try_borrow_mut()
            && lines.len() < MOST_LINES
        {
            lines.push(line);
        }
    });
}

/// The library's warnings on this thread since [`Library::capture_log`] or the last call, cleaned and each but once.
pub(super) fn take_log() -> Vec<String> {
    let raw = LOG.with(|log| std::mem::take(&mut *log.borrow_mut()));
    let mut lines: Vec<String> = Vec::new();
    for line in raw {
        let line = message::clean(&line);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// A copy of a string of the library's; empty for a null pointer.
pub(super) fn owned(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and every string of the library ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A string for the library. None of ours can hold a zero byte; one that did would be cut there.
pub(super) fn c_string(text: &str) -> CString {
    let bytes = text.as_bytes();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    CString::new(bytes.get(..end).unwrap_or_default()).unwrap_or_default()
}

/// The innermost reason of a failure to load, which names the file or the symbol.
fn plain(error: &libloading::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
