//! `uuid` as `uuid.UUID`.
//!
//! asyncpg has a class of its own because making Python's is slow: it goes through `__init__`, and every attribute
//! through a `__setattr__` that refuses. Here the object is Python's own, so that libraries that ask for exactly that
//! class accept it, made without either: its two slots are filled in place. Where the slots are is read from the
//! class's member descriptors and tried on a real object first; should a future class look otherwise, its
//! constructor is called.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::Context;
use super::python::{self, Done, OrRaise, Raised, Value, type_error, value_error};

/// `uuid.UUID` and where it keeps its slots.
pub struct UuidClass {
    class: Py<PyType>,
    unknown: Py<PyAny>,
    slots: Option<Slots>,
}

#[derive(Clone, Copy, Debug)]
struct Slots {
    int: usize,
    is_safe: usize,
}

/// The head of `PyMemberDescrObject`, unchanged since Python 3.
#[repr(C)]
struct MemberDescriptor {
    head: ffi::PyObject,
    class: *mut ffi::PyTypeObject,
    name: *mut ffi::PyObject,
    qualified_name: *mut ffi::PyObject,
    member: *mut ffi::PyMemberDef,
}

impl UuidClass {
    /// Looks the class up and finds its slots.
    pub fn load(py: Python<'_>) -> PyResult<Self> {
        let module = py.import("uuid")?;
        let class = module.getattr("UUID")?.cast_into::<PyType>()?;
        let unknown = module.getattr("SafeUUID")?.getattr("unknown")?;
        let mut found = UuidClass { class: class.unbind(), unknown: unknown.unbind(), slots: None };
        found.slots = found.find_slots(py);
        Ok(found)
    }

    fn find_slots(&self, py: Python<'_>) -> Option<Slots> {
        let class = self.class.bind(py);
        let offset = |name: &str| -> Option<usize> {
            let descriptor = class.getattr(name).ok()?;
            let kind = &raw mut ffi::PyMemberDescr_Type;
            if descriptor.get_type_ptr() != kind {
                return None;
            }
            // SAFETY: an object of exactly that type has this layout, and its member table outlives the class.
            unsafe {
                let member = (*descriptor.as_ptr().cast::<MemberDescriptor>()).member;
                usize::try_from((*member).offset).ok()
            }
        };
        let slots = Slots { int: offset("int")?, is_safe: offset("is_safe")? };
        // SAFETY: a class object is a PyTypeObject.
        let size = unsafe { (*class.as_type_ptr()).tp_basicsize };
        let size = usize::try_from(size).ok()?;
        let word = std::mem::size_of::<usize>();
        let inside = |offset: usize| offset >= std::mem::size_of::<ffi::PyObject>() && offset + word <= size;
        if !inside(slots.int) || !inside(slots.is_safe) || slots.int == slots.is_safe {
            return None;
        }
        let text = "12345678-1234-5678-1234-567812345678";
        let known = class.call1((text,)).ok()?;
        // SAFETY: both offsets are inside the object, which is of that class.
        let holds = unsafe {
            let start = known.as_ptr().cast::<u8>();
            let int = start.add(slots.int).cast::<*mut ffi::PyObject>().read_unaligned();
            let safe = start.add(slots.is_safe).cast::<*mut ffi::PyObject>().read_unaligned();
            int == known.getattr("int").ok()?.as_ptr() && safe == self.unknown.as_ptr()
        };
        if !holds {
            return None;
        }
        let number = 0x1234_5678_1234_5678_1234_5678_1234_5678_u128;
        let made = make(py, self, slots, &number.to_be_bytes()).ok()?;
        made.eq(&known).ok()?.then_some(slots)
    }

    /// A `UUID` of its sixteen bytes.
    #[inline]
    pub fn decode<'py>(&self, py: Python<'py>, data: &[u8]) -> Value<'py> {
        let Ok(bytes) = <&[u8; 16]>::try_from(data) else {
            return Err(type_error(py, format!("cannot decode UUID, expected 16 bytes, got {}", data.len())));
        };
        match self.slots {
            Some(slots) => make(py, self, slots, bytes),
            None => self.construct(py, bytes),
        }
    }

    #[cold]
    fn construct<'py>(&self, py: Python<'py>, bytes: &[u8; 16]) -> Value<'py> {
        let keywords = pyo3::types::PyDict::new(py);
        keywords.set_item("bytes", &bytes[..]).or_raise(py)?;
        self.class.bind(py).call((), Some(&keywords)).or_raise(py)
    }

    /// Appends a `UUID`, the text of one, or anything whose `bytes` are one.
    pub fn encode(&self, cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
        let py = cx.py;
        if value.get_type_ptr() == self.class.bind(py).as_type_ptr() {
            let number: u128 = value.getattr("int").and_then(|int| int.extract()).or_raise(py)?;
            out.extend_from_slice(&number.to_be_bytes());
            return Ok(());
        }
        if let Ok(text) = value.cast::<PyString>() {
            out.extend_from_slice(&parse(py, text)?);
            return Ok(());
        }
        let bytes = value.getattr("bytes").or_raise(py)?;
        python::append_buffer(&bytes, out).map(|_| ())
    }
}

#[inline]
fn make<'py>(py: Python<'py>, class: &UuidClass, slots: Slots, bytes: &[u8; 16]) -> Value<'py> {
    // SAFETY: PyType_GenericAlloc is what the class itself allocates with, and gives a zeroed object; the slots are
    // pointers inside it, checked by `find_slots`, and the references put there are given away. The object refers to
    // an int and an enumeration's member only, which cannot refer back, so the collector need not know it.
    unsafe {
        #[cfg(not(Py_3_13))]
        let int = python::own(py, ffi::_PyLong_FromByteArray(bytes.as_ptr(), 16, 0, 0))?;
        // No flags: the most significant byte comes first.
        #[cfg(Py_3_13)]
        let int = python::own(py, ffi::PyLong_FromUnsignedNativeBytes(bytes.as_ptr().cast(), 16, 0))?;
        let object = python::own(py, ffi::PyType_GenericAlloc(class.class.as_ptr().cast(), 0))?;
        let start = object.as_ptr().cast::<u8>();
        start.add(slots.int).cast::<*mut ffi::PyObject>().write(int.into_ptr());
        start.add(slots.is_safe).cast::<*mut ffi::PyObject>().write(python::new_ref(class.unknown.as_ptr()));
        ffi::PyObject_GC_UnTrack(object.as_ptr().cast());
        Ok(object)
    }
}

/// Hex digits with dashes anywhere, 32 to 36 characters, as asyncpg reads them.
fn parse(py: Python<'_>, text: &Bound<'_, PyString>) -> Result<[u8; 16], Raised> {
    let refuse = |why: String| value_error(py, format!("invalid UUID {}: {why}", python::repr_of(text.as_any())));
    let data = python::as_utf8(py, text)?;
    if !(32..=36).contains(&data.len()) {
        return Err(refuse(format!("length must be between 32..36 characters, got {}", data.len())));
    }
    let mut bytes = [0_u8; 16];
    let mut nibbles = 0_usize;
    for &byte in data.iter().filter(|byte| **byte != b'-') {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            0x20..=0x7e => {
                let quote = if byte == b'\'' { '"' } else { '\'' };
                let shown = if byte == b'\\' { "\\\\".to_owned() } else { char::from(byte).to_string() };
                return Err(refuse(format!("unexpected character {quote}{shown}{quote}")));
            }
            _ => return Err(refuse("unexpected character".to_owned())),
        };
        match bytes.get_mut(nibbles / 2) {
            Some(place) => *place = *place << 4 | digit,
            None => return Err(refuse("decodes to more than 16 bytes".to_owned())),
        }
        nibbles += 1;
    }
    if nibbles != 32 {
        return Err(refuse("decodes to less than 16 bytes".to_owned()));
    }
    Ok(bytes)
}
