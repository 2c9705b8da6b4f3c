//! The C functions of LightGBM, found at run time, and the one way to call them.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

use crate::Error;
use crate::signals;

pub(super) type Handle = *mut c_void;

/// Numbers are float32.
pub(super) const FLOAT32: c_int = 0;

macro_rules! functions {
    ($($(#[$meta:meta])* $field:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The addresses of the functions that are used, all of them found when the library was opened.
        pub(super) struct Functions {
            $($(#[$meta])* pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn find(library: &libloading::os::unix::Library) -> Result<Functions, libloading::Error> {
                Ok(Functions {
                    $(
                        $(#[$meta])*
                        // SAFETY: the signature is that of LightGBM/c_api.h, the same in versions 3 and 4.
                        $field: *unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> $result>($symbol.as_bytes())
                        }?,
                    )*
                })
            }
        }
    };
}

functions! {
    last_error = "LGBM_GetLastError": fn() -> *const c_char;
    register_log = "LGBM_RegisterLogCallback": fn(Option<unsafe extern "C" fn(*const c_char)>) -> c_int;
    dataset_from_matrix = "LGBM_DatasetCreateFromMat":
        fn(*const c_void, c_int, i32, i32, c_int, *const c_char, Handle, *mut Handle) -> c_int;
    dataset_field = "LGBM_DatasetSetField": fn(Handle, *const c_char, *const c_void, c_int, c_int) -> c_int;
    dataset_free = "LGBM_DatasetFree": fn(Handle) -> c_int;
    booster_create = "LGBM_BoosterCreate": fn(Handle, *const c_char, *mut Handle) -> c_int;
    booster_free = "LGBM_BoosterFree": fn(Handle) -> c_int;
    booster_update = "LGBM_BoosterUpdateOneIter": fn(Handle, *mut c_int) -> c_int;
    booster_text = "LGBM_BoosterSaveModelToString":
        fn(Handle, c_int, c_int, c_int, i64, *mut i64, *mut c_char) -> c_int;
    #[cfg(test)]
    booster_load = "LGBM_BoosterLoadModelFromString": fn(*const c_char, *mut c_int, *mut Handle) -> c_int;
    #[cfg(test)]
    booster_predict = "LGBM_BoosterPredictForMat":
        fn(Handle, *const c_void, c_int, i32, i32, c_int, c_int, c_int, c_int, *const c_char, *mut i64, *mut f64)
            -> c_int;
}

/// The LightGBM library. Opening it again is cheap: the dynamic linker keeps one copy. It is never unloaded, since its
/// threads outlive every training.
pub(super) struct Library {
    functions: Functions,
}

impl Library {
    /// Loads the library and finds all its functions.
    pub(super) fn open(path: &Path) -> Result<Library, Error> {
        let failed = |error: libloading::Error| {
            let mut innermost: &dyn std::error::Error = &error;
            while let Some(source) = innermost.source() {
                innermost = source;
            }
            Error::LightGbmLibrary { path: path.display().to_string(), reason: innermost.to_string() }
        };
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL;
        // SAFETY: loading runs the initialisers of whatever file this is; which one is for the caller (an
        // administrator's setting) to say. Signals are blocked in case one of them starts a thread.
        let opened = signals::blocked(|| unsafe { libloading::os::unix::Library::open(Some(path), flags) });
        let library = opened.map_err(failed)?;
        let functions = Functions::find(&library).map_err(failed)?;
        // Its threads run for as long as the process does.
        std::mem::forget(library);
        Ok(Library { functions })
    }

    /// Calls the library with all signals blocked, so that its threads never handle one, and fetches its reason if it
    /// refuses.
    pub(super) fn call(&self, call: impl FnOnce(&Functions) -> c_int) -> Result<(), Error> {
        signals::blocked(|| {
            if call(&self.functions) == 0 {
                return Ok(());
            }
            // SAFETY: the library gives a string of its own that lives until its next error on this thread.
            let reason = owned(unsafe { (self.functions.last_error)() });
            Err(match reason.contains("bad_alloc") {
                true => Error::Memory,
                false => Error::LightGbm(reason.trim().to_owned()),
            })
        })
    }

    /// Sends the library's log lines of this thread to [`take_log`] instead of to standard output.
    pub(super) fn capture_log(&self) -> Result<(), Error> {
        // SAFETY: `keep_line` is a function for as long as the process runs, and does not unwind.
        self.call(|functions| unsafe { (functions.register_log)(Some(keep_line)) })?;
        LOG.with(|log| log.borrow_mut().clear());
        Ok(())
    }
}

thread_local! {
    static LOG: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The most bytes of log that are kept.
const LONGEST: usize = 20_000;

/// The library calls this for each piece of a line.
unsafe extern "C" fn keep_line(piece: *const c_char) {
    let piece = owned(piece);
    let _ = LOG.try_with(|log| {
        if let Ok(mut log) = log.try_borrow_mut()
            && log.len() < LONGEST
        {
            log.push_str(&piece);
        }
    });
}

/// The library's warnings on this thread since [`Library::capture_log`] or the last call, each but once.
pub(super) fn take_log() -> Vec<String> {
    let log = LOG.with(|log| std::mem::take(&mut *log.borrow_mut()));
    let mut lines: Vec<String> = Vec::new();
    for line in log.lines().filter_map(|line| line.trim().strip_prefix("[LightGBM] [Warning] ")) {
        // Trees end so on every small table; nothing is wrong.
        if !line.starts_with("No further splits") && !lines.iter().any(|known| known == line) {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// A copy of a string of the library's; empty for a null pointer.
fn owned(text: *const c_char) -> String {
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
