//! What the codecs need of Python: the objects they build and test for, looked up once a process, and an error type
//! one word wide.
//!
//! A decoder runs once a value, millions of times a second, so its result must fit into a register: [`Value`] is a
//! pointer, null for "an exception is set", as in Python's own C interface. [`Raised`] is the proof of that exception.

use std::ffi::CStr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyType};

/// Proof that Python's error indicator is set in this thread; it must end as a [`PyErr`] or reach Python.
#[derive(Debug)]
#[must_use]
pub struct Raised(());

/// A decoded value, or the exception that is set in its place.
pub type Value<'py> = Result<Bound<'py, PyAny>, Raised>;

/// Nothing, or the exception that is set.
pub type Done = Result<(), Raised>;

impl Raised {
    /// Sets the exception.
    #[cold]
    pub fn from_err(py: Python<'_>, err: PyErr) -> Self {
        err.restore(py);
        Raised(())
    }

    /// Takes the exception that is set.
    #[cold]
    pub fn into_err(self, py: Python<'_>) -> PyErr {
        PyErr::fetch(py)
    }
}

/// Turns PyO3's results into those of the codecs.
pub trait OrRaise<T> {
    /// The value, or the exception set.
    fn or_raise(self, py: Python<'_>) -> Result<T, Raised>;
}

impl<T> OrRaise<T> for PyResult<T> {
    #[inline]
    fn or_raise(self, py: Python<'_>) -> Result<T, Raised> {
        self.map_err(|err| Raised::from_err(py, err))
    }
}

/// Takes what a C function returned: an owned reference, or null with an exception set.
///
/// # Safety
/// `object` is null with Python's error indicator set, or a reference that the caller owns and gives away.
#[inline(always)]
pub unsafe fn own<'py>(py: Python<'py>, object: *mut ffi::PyObject) -> Value<'py> {
    // SAFETY: the caller says that the reference is owned.
    match unsafe { Bound::from_owned_ptr_or_opt(py, object) } {
        Some(object) => Ok(object),
        None => Err(Raised(())),
    }
}

/// Another reference to an object; Python 3.9 has no such function.
///
/// # Safety
/// `object` is a live object.
#[inline(always)]
pub unsafe fn new_ref(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the caller says that the object lives.
    unsafe { ffi::Py_INCREF(object) };
    object
}

/// The end of a C function that answers with a number and says "look at the error indicator" by -1.
#[inline]
pub fn check(py: Python<'_>) -> Done {
    if PyErr::occurred(py) { Err(Raised(())) } else { Ok(()) }
}

/// A new `str` from UTF-8, checked.
#[inline]
pub fn utf8<'py>(py: Python<'py>, bytes: &[u8]) -> Value<'py> {
    if bytes.len() > 1 && bytes.is_ascii() {
        // SAFETY: the new string has room for exactly as many one-byte characters as are copied, all below 128, and
        // nobody else has seen it yet. A slice is never longer than isize::MAX.
        unsafe {
            let text = ffi::PyUnicode_New(bytes.len() as ffi::Py_ssize_t, 127);
            if !text.is_null() {
                let start = ffi::PyUnicode_DATA(text).cast::<u8>();
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len());
            }
            return own(py, text);
        }
    }
    // SAFETY: the pointer and the length are a slice's; a null handler means strict.
    unsafe {
        own(py, ffi::PyUnicode_DecodeUTF8(bytes.as_ptr().cast(), bytes.len() as ffi::Py_ssize_t, std::ptr::null()))
    }
}

/// A new `bytes`.
#[inline]
pub fn bytes<'py>(py: Python<'py>, data: &[u8]) -> Value<'py> {
    // SAFETY: the pointer and the length are a slice's.
    unsafe { own(py, ffi::PyBytes_FromStringAndSize(data.as_ptr().cast(), data.len() as ffi::Py_ssize_t)) }
}

/// A new `int`.
#[inline(always)]
pub fn int(py: Python<'_>, value: i64) -> Value<'_> {
    // SAFETY: any number will do.
    unsafe { own(py, ffi::PyLong_FromLongLong(value)) }
}

/// A new `int` of an unsigned number.
#[inline(always)]
pub fn uint(py: Python<'_>, value: u64) -> Value<'_> {
    // SAFETY: any number will do.
    unsafe { own(py, ffi::PyLong_FromUnsignedLongLong(value)) }
}

/// A new `float`.
#[inline(always)]
pub fn float(py: Python<'_>, value: f64) -> Value<'_> {
    // SAFETY: any number will do.
    unsafe { own(py, ffi::PyFloat_FromDouble(value)) }
}

/// `True` or `False`.
#[inline(always)]
pub fn boolean(py: Python<'_>, value: bool) -> Value<'_> {
    // SAFETY: both live as long as the interpreter; Py_NewRef gives a reference of our own.
    unsafe { own(py, new_ref(if value { ffi::Py_True() } else { ffi::Py_False() })) }
}

/// A list or tuple being filled from the front.
pub struct Filling<'py> {
    object: Bound<'py, PyAny>,
    next: usize,
    size: usize,
    tuple: bool,
}

impl<'py> Filling<'py> {
    /// A list of `size` places. The caller has made sure that the size is backed by bytes received.
    #[inline]
    pub fn list(py: Python<'py>, size: usize) -> Result<Self, Raised> {
        // SAFETY: PyList_New gives an owned list or null with an exception.
        let object = unsafe { own(py, ffi::PyList_New(size as ffi::Py_ssize_t)) }?;
        Ok(Filling { object, next: 0, size, tuple: false })
    }

    /// A tuple of `size` places.
    pub fn tuple(py: Python<'py>, size: usize) -> Result<Self, Raised> {
        // SAFETY: PyTuple_New gives an owned tuple or null with an exception.
        let object = unsafe { own(py, ffi::PyTuple_New(size as ffi::Py_ssize_t)) }?;
        Ok(Filling { object, next: 0, size, tuple: true })
    }

    /// Puts the next item in; one too many is dropped.
    #[inline(always)]
    pub fn push(&mut self, item: Bound<'py, PyAny>) {
        if self.next >= self.size {
            return;
        }
        // SAFETY: the place exists and is empty, the container is ours alone, and the item's reference is given away.
        unsafe {
            let place = self.next as ffi::Py_ssize_t;
            if self.tuple {
                ffi::PyTuple_SET_ITEM(self.object.as_ptr(), place, item.into_ptr());
            } else {
                ffi::PyList_SET_ITEM(self.object.as_ptr(), place, item.into_ptr());
            }
        }
        self.next += 1;
    }

    /// The container. Places never filled become None, so that no null is ever seen.
    #[inline]
    pub fn finish(mut self) -> Bound<'py, PyAny> {
        while self.next < self.size {
            let none = self.object.py().None().into_bound(self.object.py());
            self.push(none);
        }
        self.object
    }
}

/// The objects of Python's library and of this package that the codecs build or test for.
pub struct Imports {
    pub abc_iterable: Py<PyAny>,
    pub abc_sized: Py<PyAny>,
    pub abc_mapping: Py<PyAny>,
    pub abc_sequence: Py<PyAny>,
    pub decimal: Py<PyType>,
    /// `Context(prec=MAX_PREC, …).create_decimal`: builds any decimal exactly, without a look at the thread's context.
    pub create_decimal: Py<PyAny>,
    pub decimal_nan: Py<PyAny>,
    pub decimal_infinity: Py<PyAny>,
    pub decimal_minus_infinity: Py<PyAny>,
    pub decimal_str: Py<PyAny>,
    pub datetime: Py<PyType>,
    pub date: Py<PyType>,
    pub time: Py<PyType>,
    pub timedelta: Py<PyType>,
    pub timezone: Py<PyType>,
    pub utc: Py<PyAny>,
    pub date_max: Py<PyAny>,
    pub date_min: Py<PyAny>,
    pub datetime_max: Py<PyAny>,
    pub datetime_min: Py<PyAny>,
    pub epoch: Py<PyAny>,
    pub epoch_utc: Py<PyAny>,
    pub ip_address: Py<PyAny>,
    pub ip_interface: Py<PyAny>,
    pub ip_network: Py<PyAny>,
    pub ipv4_address: Py<PyAny>,
    pub ipv6_address: Py<PyAny>,
    pub uuid: super::uuid::UuidClass,
    types: Py<PyAny>,
    range: PyOnceLock<Py<PyAny>>,
    bit_string: PyOnceLock<Py<PyAny>>,
    point: PyOnceLock<Py<PyAny>>,
}

static IMPORTS: PyOnceLock<Imports> = PyOnceLock::new();

impl Imports {
    /// The one set of a process, made at first use.
    #[inline]
    pub fn get(py: Python<'_>) -> PyResult<&'static Imports> {
        IMPORTS.get_or_try_init(py, || Imports::load(py))
    }

    #[cold]
    fn load(py: Python<'_>) -> PyResult<Imports> {
        let abc = py.import("collections.abc")?;
        let decimal = py.import("decimal")?;
        let datetime = py.import("datetime")?;
        let ipaddress = py.import("ipaddress")?;
        let class = |module: &Bound<'_, PyModule>, name: &str| -> PyResult<Py<PyType>> {
            Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        // SAFETY: called with the interpreter attached.
        unsafe { ffi::PyDateTime_IMPORT() };
        if PyErr::occurred(py) {
            return Err(PyErr::fetch(py));
        }

        let decimal_class = decimal.getattr("Decimal")?;
        let limits = pyo3::types::PyDict::new(py);
        limits.set_item("prec", decimal.getattr("MAX_PREC")?)?;
        limits.set_item("Emax", decimal.getattr("MAX_EMAX")?)?;
        limits.set_item("Emin", decimal.getattr("MIN_EMIN")?)?;
        limits.set_item("traps", pyo3::types::PyList::empty(py))?;
        let exact = decimal.getattr("Context")?.call((), Some(&limits))?;

        let datetime_class = datetime.getattr("datetime")?;
        let date_class = datetime.getattr("date")?;
        let utc = datetime.getattr("timezone")?.getattr("utc")?;
        Ok(Imports {
            abc_iterable: abc.getattr("Iterable")?.unbind(),
            abc_sized: abc.getattr("Sized")?.unbind(),
            abc_mapping: abc.getattr("Mapping")?.unbind(),
            abc_sequence: abc.getattr("Sequence")?.unbind(),
            decimal: class(&decimal, "Decimal")?,
            create_decimal: exact.getattr("create_decimal")?.unbind(),
            decimal_nan: decimal_class.call1(("NaN",))?.unbind(),
            decimal_infinity: decimal_class.call1(("Infinity",))?.unbind(),
            decimal_minus_infinity: decimal_class.call1(("-Infinity",))?.unbind(),
            decimal_str: decimal_class.getattr("__str__")?.unbind(),
            datetime: class(&datetime, "datetime")?,
            date: class(&datetime, "date")?,
            time: class(&datetime, "time")?,
            timedelta: class(&datetime, "timedelta")?,
            timezone: class(&datetime, "timezone")?,
            date_max: date_class.getattr("max")?.unbind(),
            date_min: date_class.getattr("min")?.unbind(),
            datetime_max: datetime_class.getattr("max")?.unbind(),
            datetime_min: datetime_class.getattr("min")?.unbind(),
            epoch: datetime_class.call1((2000, 1, 1))?.unbind(),
            epoch_utc: datetime_class.call1((2000, 1, 1, 0, 0, 0, 0, &utc))?.unbind(),
            utc: utc.unbind(),
            ip_address: ipaddress.getattr("ip_address")?.unbind(),
            ip_interface: ipaddress.getattr("ip_interface")?.unbind(),
            ip_network: ipaddress.getattr("ip_network")?.unbind(),
            ipv4_address: ipaddress.getattr("IPv4Address")?.unbind(),
            ipv6_address: ipaddress.getattr("IPv6Address")?.unbind(),
            uuid: super::uuid::UuidClass::load(py)?,
            types: py.import("howdah.types")?.into_any().unbind(),
            range: PyOnceLock::new(),
            bit_string: PyOnceLock::new(),
            point: PyOnceLock::new(),
        })
    }

    fn cached<'a, 'py>(
        &'a self,
        py: Python<'py>,
        cell: &'a PyOnceLock<Py<PyAny>>,
        name: &str,
    ) -> Result<&'a Bound<'py, PyAny>, Raised> {
        let class = cell.get_or_try_init(py, || self.types.bind(py).getattr(name).map(Bound::unbind)).or_raise(py)?;
        Ok(class.bind(py))
    }

    /// `howdah.types.Range`.
    pub fn range<'py>(&self, py: Python<'py>) -> Result<&Bound<'py, PyAny>, Raised> {
        self.cached(py, &self.range, "Range")
    }

    /// `howdah.types.BitString`.
    pub fn bit_string<'py>(&self, py: Python<'py>) -> Result<&Bound<'py, PyAny>, Raised> {
        self.cached(py, &self.bit_string, "BitString")
    }

    /// `howdah.types.Point`.
    pub fn point<'py>(&self, py: Python<'py>) -> Result<&Bound<'py, PyAny>, Raised> {
        self.cached(py, &self.point, "Point")
    }

    /// Another class of `howdah.types`, for the rarer shapes.
    pub fn shape<'py>(&self, py: Python<'py>, name: &str) -> Value<'py> {
        self.types.bind(py).getattr(name).or_raise(py)
    }
}

/// Sets one of Python's own exceptions.
///
/// `kind` names the exception by its type in [`pyo3::exceptions`].
#[cold]
pub fn raise<E: pyo3::PyTypeInfo>(py: Python<'_>, message: impl AsRef<str>) -> Raised {
    let kind = E::type_object(py);
    Raised::from_err(py, PyErr::from_type(kind, (message.as_ref().to_owned(),)))
}

/// An exception of this package, by its name in `howdah.exceptions`.
#[cold]
pub fn exception(py: Python<'_>, name: &str, message: &str) -> PyErr {
    exception_with(py, name, message, &[])
}

/// An exception of this package with keyword arguments, for instance `hint`.
#[cold]
pub fn exception_with(py: Python<'_>, name: &str, message: &str, keywords: &[(&str, &str)]) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let class = py.import(intern!(py, "howdah.exceptions"))?.getattr(name)?;
        let arguments = pyo3::types::PyDict::new(py);
        for (keyword, value) in keywords {
            arguments.set_item(keyword, value)?;
        }
        Ok(PyErr::from_value(class.call((message,), Some(&arguments))?))
    };
    made().unwrap_or_else(|err| err)
}

/// Sets `ProtocolError`: the server said something that the protocol does not allow.
#[cold]
pub fn protocol_error(py: Python<'_>, message: impl AsRef<str>) -> Raised {
    Raised::from_err(py, exception(py, "ProtocolError", message.as_ref()))
}

/// Sets `InternalClientError`: this package broke its own promise.
#[cold]
pub fn internal_error(py: Python<'_>, message: impl AsRef<str>) -> Raised {
    Raised::from_err(py, exception(py, "InternalClientError", message.as_ref()))
}

/// The name of an object's class, for messages.
#[cold]
pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

/// `repr()` of a text as Python would print it, for messages.
#[cold]
pub fn repr_of(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string())
}

/// Sets `TypeError`.
#[cold]
pub fn type_error(py: Python<'_>, message: impl AsRef<str>) -> Raised {
    raise::<PyTypeError>(py, message)
}

/// Sets `ValueError`.
#[cold]
pub fn value_error(py: Python<'_>, message: impl AsRef<str>) -> Raised {
    raise::<pyo3::exceptions::PyValueError>(py, message)
}

/// Sets `OverflowError`.
#[cold]
pub fn overflow_error(py: Python<'_>, message: impl AsRef<str>) -> Raised {
    raise::<pyo3::exceptions::PyOverflowError>(py, message)
}

/// The UTF-8 of a `str`, borrowed from the object itself, which keeps it.
pub fn as_utf8<'a>(py: Python<'_>, text: &'a Bound<'_, PyString>) -> Result<&'a [u8], Raised> {
    let mut size: ffi::Py_ssize_t = 0;
    // SAFETY: the object is a str; the bytes returned belong to it and live as long as it does.
    unsafe {
        let start = ffi::PyUnicode_AsUTF8AndSize(text.as_ptr(), &mut size);
        if start.is_null() {
            return Err(Raised(()));
        }
        let _ = py;
        Ok(std::slice::from_raw_parts(start.cast(), size as usize))
    }
}

/// Appends what an object with the buffer protocol holds.
pub fn append_buffer(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<usize, Raised> {
    if let Ok(exact) = value.cast_exact::<PyBytes>() {
        let data = exact.as_bytes();
        out.extend_from_slice(data);
        return Ok(data.len());
    }
    let mut view = std::mem::MaybeUninit::<ffi::Py_buffer>::uninit();
    // SAFETY: Py_buffer is filled by PyObject_GetBuffer when it returns 0; PyBUF_SIMPLE promises `len` contiguous
    // bytes at `buf`, and the view is released before it goes.
    unsafe {
        if ffi::PyObject_GetBuffer(value.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_SIMPLE) != 0 {
            return Err(Raised(()));
        }
        let view = view.assume_init_mut();
        let size = usize::try_from(view.len).unwrap_or(0);
        if size > 0 && !view.buf.is_null() {
            out.extend_from_slice(std::slice::from_raw_parts(view.buf.cast::<u8>(), size));
        }
        ffi::PyBuffer_Release(view);
        Ok(size)
    }
}

/// Calls an object with one argument.
#[inline]
pub fn call_one<'py>(function: &Bound<'py, PyAny>, argument: &Bound<'py, PyAny>) -> Value<'py> {
    // SAFETY: both are live objects; the answer is an owned reference or null with an exception.
    unsafe { own(function.py(), ffi::PyObject_CallOneArg(function.as_ptr(), argument.as_ptr())) }
}

/// A C string literal as Python's text, used by the class tables.
pub const fn literal(text: &'static CStr) -> *const std::ffi::c_char {
    text.as_ptr()
}
