//! A compiled model, ready to predict.

use crate::ensemble::Transform;
use crate::image::{ImageError, Layout, Section, View};
use crate::kernel::Kernel;

/// The bytes of an image: owned, shared, or mapped from a file.
///
/// # Safety
/// `as_ref` gives the same bytes, unchanged, at every call as long as the value lives, wherever it is moved to: the
/// image is checked once, and its indices are followed unchecked from then on. A mapping of a file that others may
/// write to or truncate must not implement it.
pub unsafe trait ImageBytes: AsRef<[u8]> {}

// SAFETY: nobody else can reach the bytes while the forest owns them.
unsafe impl ImageBytes for Vec<u8> {}
// SAFETY: as above.
unsafe impl ImageBytes for Box<[u8]> {}
// SAFETY: shared bytes do not change.
unsafe impl ImageBytes for &[u8] {}
// SAFETY: as above.
unsafe impl ImageBytes for std::sync::Arc<[u8]> {}

/// Why rows were not predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PredictError {
    #[error("a row has {found} features, the model {expected}")]
    Features { expected: usize, found: usize },
    #[error("{found} values are not whole rows of {features} features")]
    Rows { features: usize, found: usize },
    #[error("room for {found} values where {expected} are predicted")]
    Output { expected: usize, found: usize },
}

/// Single rows with no more outputs than this need no memory from the heap for their margins.
const STACK_OUTPUTS: usize = 256;
/// Rows whose margins are kept aside at once, where there are more margins than values.
const ARGMAX_ROWS: usize = 256;

/// A compiled model over the bytes of its image; `Send` and `Sync` as they are.
///
/// Missing values are NaN, whatever their bits; categories are the numbers that training used. Single-row calls
/// allocate nothing (beyond 256 outputs, their margins), batch calls a scratch of bounded size.
#[derive(Debug)]
pub struct Forest<B> {
    bytes: B,
    layout: Layout,
    kernel: Kernel,
}

impl<B: ImageBytes> Forest<B> {
    /// Checks an image of [`crate::compile()`] from end to end, once.
    ///
    /// # Errors
    /// If the bytes are not such an image, are of another version, or have changed since.
    pub fn open(bytes: B) -> Result<Self, ImageError> {
        let layout = Layout::read(bytes.as_ref())?;
        Ok(Self::with_layout(bytes, layout))
    }

    /// Opens an image that [`Self::open`] has checked before, by whichever process: as fast for a large one as for a small
    /// one, since nothing is read but its beginning.
    ///
    /// # Errors
    /// If the header is not that of such an image, or of another version or length.
    ///
    /// # Safety
    /// [`Self::open`] accepted these bytes, and they have not changed.
    pub unsafe fn open_again(bytes: B) -> Result<Self, ImageError> {
        // SAFETY: as the caller promises.
        let layout = unsafe { Layout::read_again(bytes.as_ref()) }?;
        Ok(Self::with_layout(bytes, layout))
    }

    fn with_layout(bytes: B, layout: Layout) -> Self {
        // SAFETY: the layout was just read from these bytes.
        let kernel = Kernel::best(unsafe { View::new(bytes.as_ref(), &layout) });
        Self { bytes, layout, kernel }
    }

    /// The same model with a chosen kernel, for tests and benches; `None` if the kernel cannot predict it here.
    pub fn with_kernel(mut self, kernel: Kernel) -> Option<Self> {
        self.kernel = kernel;
        kernel.can_predict(self.view()).then_some(self)
    }

    /// The kernel that predicts.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Values that a row has.
    pub fn num_features(&self) -> usize {
        self.layout.header.num_features as usize
    }

    /// Margins of a row.
    pub fn num_outputs(&self) -> usize {
        self.layout.header.num_outputs as usize
    }

    /// Predicted values of a row, after the transform.
    pub fn num_values(&self) -> usize {
        if self.transform() == Transform::Argmax { 1 } else { self.num_outputs() }
    }

    pub fn transform(&self) -> Transform {
        self.layout.transform
    }

    /// As in the model's file, such as `reg:squarederror`.
    pub fn objective(&self) -> &str {
        std::str::from_utf8(self.layout.section(self.bytes.as_ref(), Section::Objective)).unwrap_or_default()
    }

    /// The bytes given to [`crate::compile()`].
    pub fn metadata(&self) -> &[u8] {
        self.layout.section(self.bytes.as_ref(), Section::Metadata)
    }

    /// Trees of the model.
    pub fn num_trees(&self) -> usize {
        self.view().trees().len()
    }

    /// The bytes of the image.
    pub fn image(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// The raw margins of one row: `row` has [`Self::num_features`] values, `out` room for [`Self::num_outputs`].
    ///
    /// # Errors
    /// If either is of another length; `out` is then untouched.
    pub fn margin_row(&self, row: &[f32], out: &mut [f32]) -> Result<(), PredictError> {
        self.check_row(row, out, self.num_outputs())?;
        // SAFETY: the lengths are right.
        unsafe { self.kernel.margin_row(self.view(), row, out) };
        Ok(())
    }

    /// The prediction of one row: `row` has [`Self::num_features`] values, `out` room for [`Self::num_values`].
    ///
    /// # Errors
    /// If either is of another length; `out` is then untouched.
    pub fn predict_row(&self, row: &[f32], out: &mut [f32]) -> Result<(), PredictError> {
        self.check_row(row, out, self.num_values())?;
        if self.num_values() == self.num_outputs() {
            // SAFETY: the lengths are right.
            unsafe { self.kernel.margin_row(self.view(), row, out) };
            self.transform().apply(out);
        } else {
            let mut stack = [0.0; STACK_OUTPUTS];
            let mut heap = Vec::new();
            let margins = match stack.get_mut(..self.num_outputs()) {
                Some(margins) => margins,
                None => {
                    heap.resize(self.num_outputs(), 0.0);
                    heap.as_mut_slice()
                }
            };
            // SAFETY: the lengths are right.
            unsafe { self.kernel.margin_row(self.view(), row, margins) };
            self.transform().apply(margins);
            copy_values(margins, self.num_outputs(), out);
        }
        Ok(())
    }

    /// The raw margins of many rows: `rows` is row-major, [`Self::num_features`] values a row, `out` has room for
    /// [`Self::num_outputs`] a row. (Of a model without features, `out` says how many rows there are.)
    ///
    /// # Errors
    /// If either is not of whole rows, or they are not of equally many; `out` is then untouched.
    pub fn margin_batch(&self, rows: &[f32], out: &mut [f32]) -> Result<(), PredictError> {
        self.check_rows(rows, out, self.num_outputs())?;
        // SAFETY: the lengths are right.
        unsafe { self.kernel.margin_batch(self.view(), rows, out) };
        Ok(())
    }

    /// The predictions of many rows: `rows` is row-major, [`Self::num_features`] values a row, `out` has room for
    /// [`Self::num_values`] a row. Blocks of 64 rows are as fast a row as a million at once, or nearly.
    ///
    /// # Errors
    /// As [`Self::margin_batch`].
    pub fn predict_batch(&self, rows: &[f32], out: &mut [f32]) -> Result<(), PredictError> {
        self.check_rows(rows, out, self.num_values())?;
        let outputs = self.num_outputs();
        if self.num_values() == outputs {
            // SAFETY: the lengths are right.
            unsafe { self.kernel.margin_batch(self.view(), rows, out) };
            self.transform_all(out);
        } else {
            let mut margins = vec![0.0; outputs * ARGMAX_ROWS.min(out.len())];
            let features = self.num_features();
            for (c, out) in out.chunks_mut(ARGMAX_ROWS).enumerate() {
                let margins = margins.get_mut(..out.len() * outputs).unwrap_or_default();
                let first = c * ARGMAX_ROWS;
                let rows = rows.get(first * features..(first + out.len()) * features).unwrap_or_default();
                // SAFETY: as many rows as there are values in `out`, which each have `outputs` margins.
                unsafe { self.kernel.margin_batch(self.view(), rows, margins) };
                self.transform_all(margins);
                copy_values(margins, outputs, out);
            }
        }
        Ok(())
    }

    fn transform_all(&self, margins: &mut [f32]) {
        match self.transform() {
            Transform::Identity => {}
            Transform::Softmax | Transform::Argmax | Transform::Sorted | Transform::Expectiles => {
                for row in margins.chunks_exact_mut(self.num_outputs()) {
                    self.transform().apply(row);
                }
            }
            elementwise => {
                elementwise.apply(margins);
            }
        }
    }

    fn view(&self) -> View<'_> {
        // SAFETY: the layout was read from these bytes, which `ImageBytes` promises have not changed.
        unsafe { View::new(self.bytes.as_ref(), &self.layout) }
    }

    fn check_row(&self, row: &[f32], out: &[f32], expected: usize) -> Result<(), PredictError> {
        if row.len() != self.num_features() {
            return Err(PredictError::Features { expected: self.num_features(), found: row.len() });
        }
        if out.len() != expected {
            return Err(PredictError::Output { expected, found: out.len() });
        }
        Ok(())
    }

    fn check_rows(&self, rows: &[f32], out: &[f32], values: usize) -> Result<(), PredictError> {
        let features = self.num_features();
        let count = rows.len().checked_div(features).unwrap_or(out.len() / values);
        if rows.len() != count * features {
            return Err(PredictError::Rows { features, found: rows.len() });
        }
        if out.len() != count * values {
            return Err(PredictError::Output { expected: count * values, found: out.len() });
        }
        Ok(())
    }
}

/// The first margin of each row.
fn copy_values(margins: &[f32], outputs: usize, out: &mut [f32]) {
    for (value, margins) in out.iter_mut().zip(margins.chunks_exact(outputs)) {
        if let Some(first) = margins.first() {
            *value = *first;
        }
    }
}
