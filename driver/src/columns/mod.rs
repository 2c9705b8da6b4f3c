//! Results as columns: values go from the wire into Arrow's buffers without becoming Python objects.
//!
//! - [`ColumnsBuilder`] takes the bodies of DataRow messages and fills one [`Column`] for each of a statement's.
//! - [`column`] says which buffers a type has and how its bytes are read into them.
//! - [`arrow`] hands the buffers out by the Arrow C data interface; they are freed by their last reader.
//! - [`object`] is what Python sees: `Columns` and `Column`.
//! - [`import`] reads columns that others lend, to be copied into a table.
//! - [`matrix`] is arrays of `real`, which models take.
//!
//! A type without a form in Arrow is asked for as text.
//!
//! NULLs are bits in validity bitmaps, which exist only where there are NULLs. Text is checked to be UTF-8 before it is
//! handed out, since Arrow's readers take that for granted.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::codec::python::{Done, Raised, protocol_error};
use crate::codec::reader::Reader;
use crate::codec::{Codec, Context, Format, Settings};

pub mod arrow;
pub mod bits;
pub mod column;
pub mod decimal;
pub mod import;
pub mod matrix;
pub mod object;

pub use column::Column;
pub use object::Columns;

/// A batch is closed after this number of bytes, long before an offset of 32 bits could overflow.
const BATCH_BYTES: usize = 1 << 30;

/// One column of a result as the statement describes it.
#[derive(Clone, Debug)]
pub struct Field {
    /// The column's name.
    pub name: String,
    /// How its values travel. Codecs of the program's own have no columns: take the built-in ones.
    pub codec: Arc<Codec>,
    /// `pg_attribute.atttypmod`, by which `numeric(10,2)` becomes a decimal; -1 when it is not known.
    pub modifier: i32,
    /// Whether each text is to be kept once, and rows are to be positions in that dictionary.
    pub dictionary: bool,
}

/// Rows that came in together, column by column.
#[derive(Debug)]
pub struct Batch {
    /// How many values each column has.
    pub rows: usize,
    /// The columns in their order.
    pub columns: Vec<Column>,
}

/// Rows on their way into columns.
#[derive(Debug)]
pub struct ColumnsBuilder {
    fields: Vec<Field>,
    batch: Batch,
    received: usize,
    full: Vec<Batch>,
}

impl ColumnsBuilder {
    /// Empty columns.
    pub fn new(fields: Vec<Field>) -> Self {
        let (batch, _) = empty(&fields);
        ColumnsBuilder { fields, batch, received: 0, full: Vec::new() }
    }

    /// The formats to ask for, as Bind has them: their count, and each.
    pub fn formats(&self) -> Vec<u8> {
        let (_, formats) = empty(&self.fields);
        let mut out = (formats.len() as u16).to_be_bytes().to_vec();
        formats.iter().for_each(|format| out.extend_from_slice(&(*format as i16).to_be_bytes()));
        out
    }

    /// Takes the body of a DataRow after its count of columns.
    ///
    /// # Errors
    /// `ProtocolError` when the row is not of these columns. After an error the builder is of no use.
    pub fn push_row(&mut self, py: Python<'_>, body: &[u8], settings: &Settings) -> PyResult<()> {
        if self.received.saturating_add(body.len()) > BATCH_BYTES && self.batch.rows > 0 {
            self.close_batch(py)?;
        }
        self.received += body.len();
        let cx = Context { as_psycopg: false, zoned: false, ..settings.context(py)? };
        self.batch.push_row(&cx, body).map_err(|raised| raised.into_err(py))
    }

    /// The rows taken so far.
    pub fn rows(&self) -> usize {
        self.batch.rows + self.full.iter().map(|batch| batch.rows).sum::<usize>()
    }

    /// The columns, whole.
    ///
    /// # Errors
    /// `ProtocolError` when text is not UTF-8.
    pub fn finish(mut self, py: Python<'_>) -> PyResult<Columns> {
        if self.batch.rows > 0 || self.full.is_empty() {
            self.close_batch(py)?;
        }
        Ok(Columns::new(self.full))
    }

    fn close_batch(&mut self, py: Python<'_>) -> PyResult<()> {
        let (next, _) = empty(&self.fields);
        let mut batch = std::mem::replace(&mut self.batch, next);
        self.received = 0;
        batch.check(py).map_err(|raised| raised.into_err(py))?;
        self.full.push(batch);
        Ok(())
    }
}

fn empty(fields: &[Field]) -> (Batch, Vec<Format>) {
    let (columns, formats) = fields.iter().map(Column::new).unzip();
    (Batch { rows: 0, columns }, formats)
}

impl Batch {
    fn push_row(&mut self, cx: &Context<'_, '_>, body: &[u8]) -> Done {
        let mut reader = Reader::new(body);
        for column in &mut self.columns {
            match reader.field(cx.py)? {
                Some(data) => column.push(cx, data)?,
                None => column.push_null(),
            }
        }
        reader.end(cx.py)?;
        self.rows += 1;
        Ok(())
    }

    /// Makes sure of what Arrow's readers rely on.
    fn check(&mut self, py: Python<'_>) -> Result<(), Raised> {
        for column in &mut self.columns {
            if column.len() != self.rows {
                return Err(protocol_error(py, "columns of different lengths"));
            }
            column.check(py)?;
        }
        Ok(())
    }
}
