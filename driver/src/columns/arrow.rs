//! The Arrow C data interface: structures of pointers that any Arrow library reads without knowing this one.
//!
//! What is handed out holds the batch it points into by an `Arc` and nothing of Python, so that a reader may free it
//! from any thread. Parts of an array can be moved out by its reader, who marks them as released.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use super::Batch;
use super::bits::Validity;
use super::column::{Column, Strings, Values};

/// `ARROW_FLAG_NULLABLE`.
const NULLABLE: i64 = 2;

/// `struct ArrowSchema`.
#[derive(Debug)]
#[repr(C)]
pub struct Schema {
    pub(crate) format: *const c_char,
    pub(crate) name: *const c_char,
    pub(crate) metadata: *const c_char,
    pub(crate) flags: i64,
    pub(crate) n_children: i64,
    pub(crate) children: *mut *mut Schema,
    pub(crate) dictionary: *mut Schema,
    pub(crate) release: Option<unsafe extern "C" fn(*mut Schema)>,
    pub(crate) private: *mut c_void,
}

/// `struct ArrowArray`.
#[derive(Debug)]
#[repr(C)]
pub struct Array {
    pub(crate) length: i64,
    pub(crate) null_count: i64,
    pub(crate) offset: i64,
    pub(crate) n_buffers: i64,
    pub(crate) n_children: i64,
    pub(crate) buffers: *mut *const c_void,
    pub(crate) children: *mut *mut Array,
    pub(crate) dictionary: *mut Array,
    pub(crate) release: Option<unsafe extern "C" fn(*mut Array)>,
    pub(crate) private: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[derive(Debug)]
#[repr(C)]
pub struct Stream {
    pub(crate) get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    pub(crate) get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    pub(crate) get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    pub(crate) release: Option<unsafe extern "C" fn(*mut Stream)>,
    pub(crate) private: *mut c_void,
}

/// What of a result is handed out.
#[derive(Clone, Debug)]
pub struct Source {
    /// All batches; there is at least one, empty if need be.
    pub batches: Arc<Vec<Batch>>,
    /// One column, or all of them as a struct.
    pub column: Option<usize>,
}

impl Source {
    /// The type of what is handed out.
    pub fn schema(&self) -> Schema {
        let columns = self.batches.first().map_or(&[][..], |batch| batch.columns.as_slice());
        match self.column {
            None => Schema::of_columns(columns),
            Some(place) => columns.get(place).map_or_else(Schema::released, Schema::of_column),
        }
    }

    /// One batch.
    pub fn array(&self, batch: usize) -> Array {
        let Some(found) = self.batches.get(batch) else { return Array::released() };
        match self.column {
            None => {
                let children = found.columns.iter().map(|column| Array::of_column(&self.batches, column)).collect();
                Array::new(&self.batches, found.rows, &Validity::default(), Vec::new(), children, None)
            }
            Some(place) => {
                let column = found.columns.get(place);
                column.map_or_else(Array::released, |column| Array::of_column(&self.batches, column))
            }
        }
    }
}

struct SchemaParts {
    _format: CString,
    _name: CString,
    _metadata: Vec<u8>,
    children: Vec<*mut Schema>,
    dictionary: *mut Schema,
}

impl Schema {
    fn released() -> Self {
        Schema {
            format: ptr::null(),
            name: ptr::null(),
            metadata: ptr::null(),
            flags: 0,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private: ptr::null_mut(),
        }
    }

    fn new(format: &str, name: &str, metadata: Vec<u8>, children: Vec<Schema>, dictionary: Option<Schema>) -> Self {
        // A C string ends at its first zero, so that is where the name ends too.
        let until_zero = |text: &str| CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default();
        let mut parts = Box::new(SchemaParts {
            _format: until_zero(format),
            _name: until_zero(name),
            _metadata: metadata,
            children: children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect(),
            dictionary: dictionary.map_or(ptr::null_mut(), |dictionary| Box::into_raw(Box::new(dictionary))),
        });
        Schema {
            format: parts._format.as_ptr(),
            name: parts._name.as_ptr(),
            metadata: if parts._metadata.is_empty() { ptr::null() } else { parts._metadata.as_ptr().cast() },
            flags: NULLABLE,
            n_children: parts.children.len() as i64,
            children: parts.children.as_mut_ptr(),
            dictionary: parts.dictionary,
            release: Some(release_schema),
            private: Box::into_raw(parts).cast(),
        }
    }

    fn of_columns(columns: &[Column]) -> Self {
        Schema::new("+s", "", Vec::new(), columns.iter().map(Schema::of_column).collect(), None)
    }

    fn of_column(column: &Column) -> Self {
        let name = column.name();
        let plain = |format: &str| Schema::new(format, name, Vec::new(), Vec::new(), None);
        match &column.values {
            Values::Bool(_) => plain("b"),
            Values::Int2(_) => plain("s"),
            Values::Int4(_) => plain("i"),
            Values::Int8(_) => plain("l"),
            Values::Uint4(_) => plain("I"),
            Values::Uint8(_) => plain("L"),
            Values::Float4(_) => plain("f"),
            Values::Float8(_) => plain("g"),
            Values::Date(_) => plain("tdD"),
            Values::Time(_) => plain("ttu"),
            Values::Timestamp(_) => plain("tsu:"),
            Values::Timestamptz(_) => plain("tsu:UTC"),
            Values::Interval(_) => plain("tDu"),
            Values::Decimal { precision, scale, .. } => plain(&format!("d:{precision},{scale}")),
            Values::Uuid(_) => {
                Schema::new("w:16", name, metadata("ARROW:extension:name", "arrow.uuid"), Vec::new(), None)
            }
            Values::Text { .. } => plain("u"),
            Values::Bytes(_) => plain("z"),
            Values::Dictionary { .. } => {
                let words = Schema::new("u", "", Vec::new(), Vec::new(), None);
                Schema::new("i", name, Vec::new(), Vec::new(), Some(words))
            }
            Values::List { element, .. } => Schema::new("+l", name, Vec::new(), vec![Schema::of_column(element)], None),
            Values::Struct { fields, .. } => {
                Schema::new("+s", name, Vec::new(), fields.iter().map(Schema::of_column).collect(), None)
            }
        }
    }
}

/// One pair in the interface's form: counts and lengths as native numbers, without zeros at the ends.
fn metadata(key: &str, value: &str) -> Vec<u8> {
    let mut out = 1_i32.to_ne_bytes().to_vec();
    for text in [key, value] {
        out.extend_from_slice(&(text.len() as i32).to_ne_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    out
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: the interface has a live structure released once, by its last holder; `private` is what `Schema::new`
    // put there, and its children and dictionary were boxed there.
    unsafe {
        let parts = Box::from_raw((*schema).private.cast::<SchemaParts>());
        for child in parts.children.iter().copied().chain([parts.dictionary]).filter(|child| !child.is_null()) {
            let child = Box::from_raw(child);
            drop(*child);
        }
        (*schema).release = None;
        (*schema).private = ptr::null_mut();
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the structure has not been released yet.
            unsafe { release(self) }
        }
    }
}

struct ArrayParts {
    _owner: Arc<Vec<Batch>>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
    dictionary: *mut Array,
}

impl Array {
    fn released() -> Self {
        Array {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private: ptr::null_mut(),
        }
    }

    fn new(
        owner: &Arc<Vec<Batch>>,
        length: usize,
        validity: &Validity,
        buffers: Vec<*const c_void>,
        children: Vec<Array>,
        dictionary: Option<Array>,
    ) -> Self {
        let bitmap = validity.bytes().map_or(ptr::null(), |bytes| bytes.as_ptr().cast());
        let mut parts = Box::new(ArrayParts {
            _owner: owner.clone(),
            buffers: [bitmap].into_iter().chain(buffers).collect(),
            children: children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect(),
            dictionary: dictionary.map_or(ptr::null_mut(), |dictionary| Box::into_raw(Box::new(dictionary))),
        });
        Array {
            length: length as i64,
            null_count: validity.nulls() as i64,
            offset: 0,
            n_buffers: parts.buffers.len() as i64,
            n_children: parts.children.len() as i64,
            buffers: parts.buffers.as_mut_ptr(),
            children: parts.children.as_mut_ptr(),
            dictionary: parts.dictionary,
            release: Some(release_array),
            private: Box::into_raw(parts).cast(),
        }
    }

    fn of_column(owner: &Arc<Vec<Batch>>, column: &Column) -> Self {
        fn start<T>(values: &[T]) -> *const c_void {
            values.as_ptr().cast()
        }
        let plain = |buffer| Array::new(owner, column.len(), &column.validity, vec![buffer], Vec::new(), None);
        let strings = |strings: &Strings| vec![start(&strings.offsets), start(&strings.data)];
        match &column.values {
            Values::Bool(values) => plain(start(values.bytes())),
            Values::Int2(values) => plain(start(values)),
            Values::Int4(values) | Values::Date(values) => plain(start(values)),
            Values::Int8(values) | Values::Time(values) => plain(start(values)),
            Values::Timestamp(values) | Values::Timestamptz(values) => plain(start(values)),
            Values::Uint4(values) => plain(start(values)),
            Values::Uint8(values) => plain(start(values)),
            Values::Float4(values) => plain(start(values)),
            Values::Float8(values) => plain(start(values)),
            Values::Interval(values) => plain(start(values)),
            Values::Decimal { values, .. } => plain(start(values)),
            Values::Uuid(values) => plain(start(values)),
            Values::Text { strings: texts, .. } | Values::Bytes(texts) => {
                Array::new(owner, column.len(), &column.validity, strings(texts), Vec::new(), None)
            }
            Values::Dictionary { places, words, known, .. } => {
                let words = Array::new(owner, known.len(), &Validity::default(), strings(words), Vec::new(), None);
                Array::new(owner, column.len(), &column.validity, vec![start(places)], Vec::new(), Some(words))
            }
            Values::List { offsets, element } => {
                let element = Array::of_column(owner, element);
                Array::new(owner, column.len(), &column.validity, vec![start(offsets)], vec![element], None)
            }
            Values::Struct { fields, .. } => {
                let fields = fields.iter().map(|field| Array::of_column(owner, field)).collect();
                Array::new(owner, column.len(), &column.validity, Vec::new(), fields, None)
            }
        }
    }
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as for `release_schema`. A child that was moved out is marked as released, and its drop does nothing.
    unsafe {
        let parts = Box::from_raw((*array).private.cast::<ArrayParts>());
        for child in parts.children.iter().copied().chain([parts.dictionary]).filter(|child| !child.is_null()) {
            let child = Box::from_raw(child);
            drop(*child);
        }
        (*array).release = None;
        (*array).private = ptr::null_mut();
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the structure has not been released yet.
            unsafe { release(self) }
        }
    }
}

struct Reading {
    source: Source,
    next: usize,
}

impl Stream {
    /// All batches, one after the other.
    pub fn new(source: Source) -> Self {
        Stream {
            get_schema: Some(stream_schema),
            get_next: Some(stream_next),
            get_last_error: Some(stream_error),
            release: Some(release_stream),
            private: Box::into_raw(Box::new(Reading { source, next: 0 })).cast(),
        }
    }
}

unsafe extern "C" fn stream_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the interface calls with a live stream and room for a structure whose content means nothing.
    unsafe {
        let reading = &*(*stream).private.cast::<Reading>();
        ptr::write(out, reading.source.schema());
    }
    0
}

unsafe extern "C" fn stream_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as above; one thread at a time reads a stream. Past the last batch the answer is a released array.
    unsafe {
        let reading = &mut *(*stream).private.cast::<Reading>();
        ptr::write(out, reading.source.array(reading.next));
        reading.next = reading.next.saturating_add(1);
    }
    0
}

unsafe extern "C" fn stream_error(_stream: *mut Stream) -> *const c_char {
    // Nothing can fail once the columns are whole.
    ptr::null()
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: the interface has a live stream released once; `private` is what `Stream::new` put there.
    unsafe {
        drop(Box::from_raw((*stream).private.cast::<Reading>()));
        (*stream).release = None;
        (*stream).private = ptr::null_mut();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the structure has not been released yet.
            unsafe { release(self) }
        }
    }
}

/// The names of the capsules that carry the structures.
pub mod names {
    use super::CStr;

    /// Of a [`Schema`](super::Schema).
    pub const SCHEMA: &CStr = c"arrow_schema";
    /// Of an [`Array`](super::Array).
    pub const ARRAY: &CStr = c"arrow_array";
    /// Of a [`Stream`](super::Stream).
    pub const STREAM: &CStr = c"arrow_array_stream";
}
