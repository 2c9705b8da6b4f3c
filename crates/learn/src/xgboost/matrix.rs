//! XGBoost's DMatrix: quantised from a stream, or whole where the method needs the values themselves.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use super::Columns;
use super::feed::Feed;
use super::library::{Functions, Handle, Library, Size, c_string};
use crate::Error;

/// An owned DMatrix.
pub(super) struct Matrix<'l> {
    library: &'l Library,
    handle: Handle,
}

impl Drop for Matrix<'_> {
    fn drop(&mut self) {
        let handle = self.handle;
        // SAFETY: the handle came from the library and is freed once.
        self.library.free(|functions| unsafe { (functions.matrix_free)(handle) });
    }
}

impl<'l> Matrix<'l> {
    /// A DMatrix of the values' quantiles, one byte or two a value, filled from the stream: what `tree_method=hist`
    /// works on. `reference` is the training matrix whose quantiles an evaluation matrix shares.
    pub(super) fn quantile(
        feed: &mut Feed<'l, '_>,
        reference: Option<&Matrix<'l>>,
        max_bin: Option<&str>,
        nthread: i64,
    ) -> Result<Matrix<'l>, Error> {
        let library = feed.library();
        let bins = max_bin.map(|bins| format!(", \"max_bin\": {bins}")).unwrap_or_default();
        let config = c_string(&format!("{{\"missing\": NaN, \"nthread\": {nthread}{bins}}}"));
        let reference = reference.map_or(ptr::null_mut(), |matrix| matrix.handle);
        let proxy = feed.proxy();
        let mut handle = ptr::null_mut();
        let made = feed.iterate(|context, reset, next| {
            library.call(|functions| {
                // SAFETY: `context` is the feed that `reset` and `next` expect, borrowed for this call; the proxy and
                // the reference are live; `handle` is valid for writing.
                unsafe {
                    (functions.matrix_from_callback)(
                        context,
                        proxy,
                        reference,
                        reset,
                        next,
                        config.as_ptr(),
                        &mut handle,
                    )
                }
            })
        });
        // A matrix made from a stream that was cut short is freed here.
        let matrix = (!handle.is_null()).then(|| Matrix { library, handle });
        made?;
        matrix.ok_or_else(|| Error::Refused("no matrix was made".into()))
    }

    /// A DMatrix of all values, for the methods that cannot do with less (`exact`, `approx`, `gblinear`).
    pub(super) fn dense(feed: &mut Feed<'l, '_>, columns: &Columns, nthread: i64) -> Result<Matrix<'l>, Error> {
        let library = feed.library();
        let (features, labels, weights) = feed.gather()?;
        let matrix = Matrix::unlabelled(library, &features, columns.width(), nthread)?;
        let rows = features.len() / columns.width().max(1);
        drop(features);
        set_rows_info(library, matrix.handle, rows, &labels, weights.as_deref())?;
        set_columns_info(library, matrix.handle, columns)?;
        Ok(matrix)
    }

    /// A DMatrix of whole rows of `width` features, without labels or names.
    pub(super) fn unlabelled(
        library: &'l Library,
        features: &[f32],
        width: usize,
        nthread: i64,
    ) -> Result<Matrix<'l>, Error> {
        let config = c_string(&format!("{{\"missing\": NaN, \"nthread\": {nthread}}}"));
        let data = interface(features, features.len() / width.max(1), width);
        let mut handle = ptr::null_mut();
        library.call(|functions| {
            // SAFETY: the interface describes `features`, which the call copies; `handle` is valid for writing.
            unsafe { (functions.matrix_from_dense)(data.as_ptr(), config.as_ptr(), &mut handle) }
        })?;
        Ok(Matrix { library, handle })
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle
    }
}

/// The stand-in through which an iterator shows the library its current chunk.
pub(super) struct Proxy<'l> {
    library: &'l Library,
    pub(super) handle: Handle,
}

impl Drop for Proxy<'_> {
    fn drop(&mut self) {
        let handle = self.handle;
        // SAFETY: the handle came from the library and is freed once.
        self.library.free(|functions| unsafe { (functions.matrix_free)(handle) });
    }
}

impl<'l> Proxy<'l> {
    pub(super) fn create(library: &'l Library) -> Result<Proxy<'l>, Error> {
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is valid for writing.
        library.call(|functions| unsafe { (functions.proxy_create)(&mut handle) })?;
        Ok(Proxy { library, handle })
    }
}

/// Labels and weights of all rows of a matrix or of the chunk in a proxy; the library copies them. There may be several
/// labels a row, row by row.
pub(super) fn set_rows_info(
    library: &Library,
    handle: Handle,
    rows: usize,
    labels: &[f32],
    weights: Option<&[f32]>,
) -> Result<(), Error> {
    let fields = [(c"label", Some(labels)), (c"weight", weights)];
    for (field, values) in fields.into_iter().filter_map(|(field, values)| values.map(|values| (field, values))) {
        let width = if values.len() == rows { 0 } else { values.len() / rows.max(1) };
        let data = interface(values, rows, width);
        // SAFETY: the interface describes `values`, which the call copies.
        library.call(|functions| unsafe { (functions.matrix_info)(handle, field.as_ptr(), data.as_ptr()) })?;
    }
    Ok(())
}

/// Names and types of the features.
pub(super) fn set_columns_info(library: &Library, handle: Handle, columns: &Columns) -> Result<(), Error> {
    set_strings(library, handle, columns, |functions| functions.matrix_feature_info)
}

type SetStrings = unsafe extern "C" fn(Handle, *const c_char, *const *const c_char, Size) -> std::ffi::c_int;

pub(super) fn set_strings(
    library: &Library,
    handle: Handle,
    columns: &Columns,
    function: impl Fn(&Functions) -> SetStrings,
) -> Result<(), Error> {
    let fields: [(&CStr, &[CString]); 2] = [(c"feature_name", columns.c_names()), (c"feature_type", columns.c_types())];
    for (field, strings) in fields {
        let pointers: Vec<*const c_char> = strings.iter().map(|string| string.as_ptr()).collect();
        // SAFETY: `pointers` holds as many strings as the length says, and the call copies them.
        library.call(|functions| unsafe {
            function(functions)(handle, field.as_ptr(), pointers.as_ptr(), pointers.len() as Size)
        })?;
    }
    Ok(())
}

/// The array interface of a slice of `rows` rows; of a vector if `width` is 0.
pub(super) fn interface(values: &[f32], rows: usize, width: usize) -> CString {
    let shape = if width == 0 { format!("[{rows}]") } else { format!("[{rows}, {width}]") };
    c_string(&format!(
        "{{\"data\": [{}, true], \"shape\": {shape}, \"typestr\": \"<f4\", \"version\": 3}}",
        values.as_ptr() as usize
    ))
}
