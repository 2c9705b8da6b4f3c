//! Arrays of `real` from and to the memory of matrices, for models on the server.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};

/// The type `real`.
const REAL: u32 = 700;
/// The type `real[]`.
pub const REALS: u32 = 1021;

/// An argument in its wire form: a `real[]`.
#[pyclass(frozen, module = "howdah._core")]
pub struct Reals {
    /// The bytes of the value.
    pub bytes: Vec<u8>,
}

/// A `real[]` of two dimensions of a matrix's rows from `start` to `end`, from anything that lends floating-point
/// numbers by Python's buffer interface.
#[pyfunction]
pub fn pack_matrix(py: Python<'_>, matrix: &Bound<'_, PyAny>, start: usize, end: usize) -> PyResult<Reals> {
    if let Ok(buffer) = PyBuffer::<f32>::get(matrix) {
        return pack(py, &buffer, start, end, |value| value);
    }
    if let Ok(buffer) = PyBuffer::<f64>::get(matrix) {
        return pack(py, &buffer, start, end, |value| value as f32);
    }
    Err(PyTypeError::new_err("expected a matrix of float32 or float64"))
}

fn pack<T: pyo3::buffer::Element + Copy>(
    py: Python<'_>,
    buffer: &PyBuffer<T>,
    start: usize,
    end: usize,
    real: impl Fn(T) -> f32,
) -> PyResult<Reals> {
    let [rows, columns] = *buffer.shape() else {
        return Err(PyValueError::new_err(format!("expected a matrix of two dimensions, got {}", buffer.dimensions())));
    };
    if start > end || end > rows {
        return Err(PyValueError::new_err("the matrix does not have the rows from start to end"));
    }
    let wrong = |_| PyValueError::new_err("the matrix is too large for an array");
    let (height, width) = (i32::try_from(end - start).map_err(wrong)?, i32::try_from(columns).map_err(wrong)?);
    let mut bytes = Vec::with_capacity(28 + (end - start) * columns * 8);
    let dimensions = if height == 0 || width == 0 { 0 } else { 2_i32 };
    bytes.extend_from_slice(&dimensions.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&REAL.to_be_bytes());
    if dimensions == 2 {
        for length in [height, width] {
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&1_i32.to_be_bytes());
        }
    }
    let mut push = |value: T| {
        let mut cell = [0, 0, 0, 4, 0, 0, 0, 0];
        let (_, place) = cell.split_at_mut(4);
        place.copy_from_slice(&real(value).to_be_bytes());
        bytes.extend_from_slice(&cell);
    };
    match buffer.as_slice_ptr().filter(|_| buffer.is_c_contiguous()) {
        Some(cells) => {
            // SAFETY: the buffer is contiguous and held, and this thread is attached for as long as it is read.
            let cells = unsafe { cells.as_ref() };
            for cell in cells.get(start * columns..end * columns).unwrap_or_default() {
                push(*cell);
            }
        }
        None => {
            for cell in buffer.to_vec(py)?.get(start * columns..end * columns).unwrap_or_default() {
                push(*cell);
            }
        }
    }
    Ok(Reals { bytes })
}

/// The numbers of a `real[]` in its wire form, as the bytes of float32 in this machine's order; NULL is NaN.
#[pyfunction]
pub fn unpack_reals<'py>(py: Python<'py>, value: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyByteArray>> {
    let wrong = || PyValueError::new_err("not an array of real");
    let (head, rest) = value.as_bytes().split_first_chunk::<12>().ok_or_else(wrong)?;
    let word = |at: usize| head.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
    let dimensions = word(0).ok_or_else(wrong)?;
    if word(8) != Some(REAL) || dimensions > 6 {
        return Err(wrong());
    }
    let mut rest = rest.get(dimensions as usize * 8..).ok_or_else(wrong)?;
    let mut out = Vec::with_capacity(rest.len() / 2);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        rest = match i32::from_be_bytes(*length) {
            4 => {
                let (real, after) = after.split_first_chunk::<4>().ok_or_else(wrong)?;
                out.extend_from_slice(&f32::from_be_bytes(*real).to_ne_bytes());
                after
            }
            -1 => {
                out.extend_from_slice(&f32::NAN.to_ne_bytes());
                after
            }
            _ => return Err(wrong()),
        };
    }
    if rest.is_empty() { Ok(PyByteArray::new(py, &out)) } else { Err(wrong()) }
}
