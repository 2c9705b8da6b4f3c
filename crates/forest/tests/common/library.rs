//! The real XGBoost by its C API: just what the tests need.

use std::ffi::{CStr, CString, c_char, c_float, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use libloading::Library;

type Handle = *mut c_void;

/// The functions of the library, each with its C signature.
struct Api {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int),
    get_last_error: unsafe extern "C" fn() -> *const c_char,
    dmatrix_create_from_dense: unsafe extern "C" fn(*const c_char, *const c_char, *mut Handle) -> c_int,
    dmatrix_set_info_from_interface: unsafe extern "C" fn(Handle, *const c_char, *const c_char) -> c_int,
    dmatrix_set_str_feature_info: unsafe extern "C" fn(Handle, *const c_char, *mut *const c_char, u64) -> c_int,
    dmatrix_free: unsafe extern "C" fn(Handle) -> c_int,
    booster_create: unsafe extern "C" fn(*const Handle, u64, *mut Handle) -> c_int,
    booster_free: unsafe extern "C" fn(Handle) -> c_int,
    booster_set_param: unsafe extern "C" fn(Handle, *const c_char, *const c_char) -> c_int,
    booster_set_attr: unsafe extern "C" fn(Handle, *const c_char, *const c_char) -> c_int,
    booster_update_one_iter: unsafe extern "C" fn(Handle, c_int, Handle) -> c_int,
    booster_save_model_to_buffer: unsafe extern "C" fn(Handle, *const c_char, *mut u64, *mut *const c_char) -> c_int,
    booster_serialize_to_buffer: unsafe extern "C" fn(Handle, *mut u64, *mut *const c_char) -> c_int,
    booster_load_model_from_buffer: unsafe extern "C" fn(Handle, *const c_void, u64) -> c_int,
    booster_predict_from_dense: unsafe extern "C" fn(
        Handle,
        *const c_char,
        *const c_char,
        Handle,
        *mut *const u64,
        *mut u64,
        *mut *const c_float,
    ) -> c_int,
    booster_predict_from_dmatrix:
        unsafe extern "C" fn(Handle, Handle, *const c_char, *mut *const u64, *mut u64, *mut *const c_float) -> c_int,
    _library: Library,
}

fn path() -> PathBuf {
    if let Some(path) = std::env::var_os("HOWDAH_XGBOOST_LIB") {
        return path.into();
    }
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../build/xgboost/xgboost/lib/libxgboost.so")
}

fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| {
        let path = path();
        // SAFETY: XGBoost's initialisers have no preconditions.
        let library = unsafe { Library::new(&path) }
            .unwrap_or_else(|error| panic!("no XGBoost library at {}: run `make setup` ({error:?})", path.display()));
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the field that takes the symbol has the type of the function in XGBoost's c_api.h.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.expect($name)
            };
        }
        Api {
            version: symbol!("XGBoostVersion"),
            get_last_error: symbol!("XGBGetLastError"),
            dmatrix_create_from_dense: symbol!("XGDMatrixCreateFromDense"),
            dmatrix_set_info_from_interface: symbol!("XGDMatrixSetInfoFromInterface"),
            dmatrix_set_str_feature_info: symbol!("XGDMatrixSetStrFeatureInfo"),
            dmatrix_free: symbol!("XGDMatrixFree"),
            booster_create: symbol!("XGBoosterCreate"),
            booster_free: symbol!("XGBoosterFree"),
            booster_set_param: symbol!("XGBoosterSetParam"),
            booster_set_attr: symbol!("XGBoosterSetAttr"),
            booster_update_one_iter: symbol!("XGBoosterUpdateOneIter"),
            booster_save_model_to_buffer: symbol!("XGBoosterSaveModelToBuffer"),
            booster_serialize_to_buffer: symbol!("XGBoosterSerializeToBuffer"),
            booster_load_model_from_buffer: symbol!("XGBoosterLoadModelFromBuffer"),
            booster_predict_from_dense: symbol!("XGBoosterPredictFromDense"),
            booster_predict_from_dmatrix: symbol!("XGBoosterPredictFromDMatrix"),
            _library: library,
        }
    })
}

/// Major, minor, patch.
pub fn version() -> (u32, u32, u32) {
    let mut parts = [0; 3];
    let [major, minor, patch] = &mut parts;
    // SAFETY: three valid pointers.
    unsafe { (api().version)(major, minor, patch) };
    let [major, minor, patch] = parts.map(|part| part as u32);
    (major, minor, patch)
}

fn check(status: c_int) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the message is a C string that lives until the next call on this thread.
    let message = unsafe { CStr::from_ptr((api().get_last_error)()) };
    Err(message.to_string_lossy().into_owned())
}

fn c(text: &str) -> CString {
    CString::new(text).expect("no NUL inside")
}

fn array_interface(address: usize, shape: &str, typestr: &str) -> CString {
    c(&format!(r#"{{"data":[{address},true],"shape":{shape},"typestr":"{typestr}","version":3}}"#))
}

/// The array interface of `rows` x `columns` float32.
fn interface(data: &[f32], rows: usize, columns: usize) -> CString {
    assert_eq!(data.len(), rows * columns);
    array_interface(data.as_ptr() as usize, &format!("[{rows},{columns}]"), "<f4")
}

/// A matrix in the library's own form.
pub struct DMatrix(Handle);

impl DMatrix {
    /// NaN is missing.
    pub fn new(data: &[f32], columns: usize) -> Result<Self, String> {
        let mut handle = std::ptr::null_mut();
        let config = c(r#"{"missing":NaN,"nthread":1}"#);
        let data = interface(data, data.len() / columns, columns);
        // SAFETY: the interface describes memory that lives during the call, which copies it.
        check(unsafe { (api().dmatrix_create_from_dense)(data.as_ptr(), config.as_ptr(), &mut handle) })?;
        Ok(Self(handle))
    }

    /// `field` is `label`, `weight`, `label_lower_bound` ...
    pub fn set(&mut self, field: &str, values: &[f32]) -> Result<(), String> {
        let shape = format!("[{}]", values.len());
        self.set_interface(field, &array_interface(values.as_ptr() as usize, &shape, "<f4"))
    }

    /// Labels of several targets a row.
    pub fn set_labels(&mut self, labels: &[f32], targets: usize) -> Result<(), String> {
        self.set_interface("label", &interface(labels, labels.len() / targets, targets))
    }

    /// The sizes of the groups of a ranking, in rows.
    pub fn set_groups(&mut self, sizes: &[u32]) -> Result<(), String> {
        let shape = format!("[{}]", sizes.len());
        self.set_interface("group", &array_interface(sizes.as_ptr() as usize, &shape, "<u4"))
    }

    fn set_interface(&mut self, field: &str, interface: &CStr) -> Result<(), String> {
        let field = c(field);
        // SAFETY: the interface describes memory that the caller keeps alive during the call, which copies it.
        check(unsafe { (api().dmatrix_set_info_from_interface)(self.0, field.as_ptr(), interface.as_ptr()) })
    }

    /// `field` is `feature_type` or `feature_name`.
    pub fn set_strings(&mut self, field: &str, strings: &[String]) -> Result<(), String> {
        let strings: Vec<CString> = strings.iter().map(|s| c(s)).collect();
        let mut pointers: Vec<*const c_char> = strings.iter().map(|s| s.as_ptr()).collect();
        let (field, count) = (c(field), pointers.len() as u64);
        // SAFETY: `count` pointers to C strings that live during the call, which copies them.
        check(unsafe { (api().dmatrix_set_str_feature_info)(self.0, field.as_ptr(), pointers.as_mut_ptr(), count) })
    }
}

impl Drop for DMatrix {
    fn drop(&mut self) {
        // SAFETY: the handle is owned and not used again.
        unsafe { (api().dmatrix_free)(self.0) };
    }
}

/// Booster of the real library.
pub struct Booster(Handle);

// SAFETY: a booster may be used from any thread, by one at a time; errors are kept a thread.
unsafe impl Send for Booster {}

impl Booster {
    /// A booster to train.
    pub fn new(matrices: &[&DMatrix], params: &[(&str, String)]) -> Result<Self, String> {
        let handles: Vec<Handle> = matrices.iter().map(|matrix| matrix.0).collect();
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handles` has as many handles as said, all alive.
        check(unsafe { (api().booster_create)(handles.as_ptr(), handles.len() as u64, &mut handle) })?;
        let booster = Self(handle);
        for (name, value) in params {
            booster.set_param(name, value)?;
        }
        Ok(booster)
    }

    /// A booster from a model file, to predict on one thread.
    pub fn load(model: &[u8]) -> Result<Self, String> {
        let booster = Self::new(&[], &[("nthread", "1".to_owned())])?;
        // SAFETY: the buffer lives during the call, which copies it.
        check(unsafe { (api().booster_load_model_from_buffer)(booster.0, model.as_ptr().cast(), model.len() as u64) })?;
        Ok(booster)
    }

    pub fn set_param(&self, name: &str, value: &str) -> Result<(), String> {
        let (name, value) = (c(name), c(value));
        // SAFETY: two C strings that live during the call.
        check(unsafe { (api().booster_set_param)(self.0, name.as_ptr(), value.as_ptr()) })
    }

    pub fn set_attr(&self, name: &str, value: &str) -> Result<(), String> {
        let (name, value) = (c(name), c(value));
        // SAFETY: two C strings that live during the call.
        check(unsafe { (api().booster_set_attr)(self.0, name.as_ptr(), value.as_ptr()) })
    }

    pub fn update(&self, round: usize, matrix: &DMatrix) -> Result<(), String> {
        // SAFETY: both handles are alive.
        check(unsafe { (api().booster_update_one_iter)(self.0, round as c_int, matrix.0) })
    }

    /// `format` is `json` or `ubj`.
    pub fn save(&self, format: &str) -> Vec<u8> {
        let config = c(&format!(r#"{{"format":"{format}"}}"#));
        let (mut length, mut data) = (0, std::ptr::null());
        // SAFETY: the out-pointers are valid for the call.
        check(unsafe { (api().booster_save_model_to_buffer)(self.0, config.as_ptr(), &mut length, &mut data) })
            .expect("a model can be saved");
        // SAFETY: the buffer belongs to the booster and lives until the next call on it.
        unsafe { std::slice::from_raw_parts(data.cast(), length as usize) }.to_vec()
    }

    /// What a pickle holds: the model and the configuration of its training.
    pub fn serialize(&self) -> Vec<u8> {
        let (mut length, mut data) = (0, std::ptr::null());
        // SAFETY: the out-pointers are valid for the call.
        check(unsafe { (api().booster_serialize_to_buffer)(self.0, &mut length, &mut data) })
            .expect("a booster can be serialized");
        // SAFETY: the buffer belongs to the booster and lives until the next call on it.
        unsafe { std::slice::from_raw_parts(data.cast(), length as usize) }.to_vec()
    }

    /// `XGBoosterPredictFromDense`, NaN missing, `strict_shape` off: row after row. `rounds` 0 is all of them.
    pub fn predict(&self, rows: &[f32], columns: usize, margin: bool, rounds: usize) -> Result<Vec<f32>, String> {
        let data = interface(rows, rows.len() / columns, columns);
        let config = c(&format!(
            r#"{{"type":{},"training":false,"iteration_begin":0,"iteration_end":{rounds},"strict_shape":false,"missing":NaN,"cache_id":0}}"#,
            u8::from(margin)
        ));
        let (mut shape, mut dimensions, mut out) = (std::ptr::null(), 0, std::ptr::null());
        // SAFETY: the interface describes memory that lives during the call; the out-pointers are valid for it.
        check(unsafe {
            (api().booster_predict_from_dense)(
                self.0,
                data.as_ptr(),
                config.as_ptr(),
                std::ptr::null_mut(),
                &mut shape,
                &mut dimensions,
                &mut out,
            )
        })?;
        Ok(copy(shape, dimensions, out))
    }

    /// `XGBoosterPredictFromDMatrix`: the only way for gblinear, which has no in-place prediction.
    pub fn predict_dmatrix(&self, matrix: &DMatrix, margin: bool) -> Result<Vec<f32>, String> {
        self.predict_dmatrix_as(matrix, u8::from(margin), 0)
    }

    /// `pred_contribs`: for each row and output one contribution a feature, and the bias. `rounds` 0 is all of them.
    pub fn contributions(&self, matrix: &DMatrix, rounds: usize) -> Result<Vec<f32>, String> {
        self.predict_dmatrix_as(matrix, 2, rounds)
    }

    fn predict_dmatrix_as(&self, matrix: &DMatrix, kind: u8, rounds: usize) -> Result<Vec<f32>, String> {
        let config = c(&format!(
            r#"{{"type":{kind},"training":false,"iteration_begin":0,"iteration_end":{rounds},"strict_shape":false}}"#,
        ));
        let (mut shape, mut dimensions, mut out) = (std::ptr::null(), 0, std::ptr::null());
        // SAFETY: both handles are alive; the out-pointers are valid for the call.
        check(unsafe {
            (api().booster_predict_from_dmatrix)(
                self.0,
                matrix.0,
                config.as_ptr(),
                &mut shape,
                &mut dimensions,
                &mut out,
            )
        })?;
        Ok(copy(shape, dimensions, out))
    }
}

fn copy(shape: *const u64, dimensions: u64, data: *const f32) -> Vec<f32> {
    // SAFETY: the library says how many dimensions the shape has, and the shape how many values there are.
    unsafe {
        let count: u64 = std::slice::from_raw_parts(shape, dimensions as usize).iter().product();
        std::slice::from_raw_parts(data, count as usize).to_vec()
    }
}

impl Drop for Booster {
    fn drop(&mut self) {
        // SAFETY: the handle is owned and not used again.
        unsafe { (api().booster_free)(self.0) };
    }
}
