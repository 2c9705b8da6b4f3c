//! Where a value stands in Arrow's buffers, and how it is read there.

use std::ffi::c_void;

use super::convert::Read;
use crate::columns::arrow::Array;

/// The place of a value in a column.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub column: &'a Array,
    /// What lies there.
    pub read: Read,
    pub at: usize,
}

impl<'a> Place<'a> {
    /// The place of one of a column's rows.
    ///
    /// # Safety
    /// The column has that type, its buffers hold as many values as its offset and length say, and `row` is one of its
    /// rows. What reads a place relies on that.
    #[inline]
    pub unsafe fn of(column: &'a Array, read: Read, row: usize) -> Self {
        Place { column, read, at: row + usize::try_from(column.offset).unwrap_or(0) }
    }

    /// One of the column's buffers.
    #[inline]
    pub fn buffer(self, number: usize) -> *const c_void {
        // SAFETY: columns of a type have the buffers that are asked for.
        unsafe { *self.column.buffers.add(number) }
    }

    #[inline]
    pub fn is_null(self) -> bool {
        // SAFETY: the first buffer is the validity bitmap, or null.
        unsafe {
            let validity: *const u8 = self.buffer(0).cast();
            self.column.null_count != 0 && !validity.is_null() && *validity.add(self.at / 8) >> (self.at % 8) & 1 == 0
        }
    }

    /// What lies there as an integer of that many bytes, with a sign.
    #[inline]
    pub fn signed(self, width: usize) -> i128 {
        Place { read: Read::Int(width, true), ..self }.integer()
    }

    /// An integer, or zero or one.
    #[inline]
    pub fn integer(self) -> i128 {
        let at = self.at;
        // SAFETY: values of the type lie one behind the other in the second buffer.
        unsafe {
            let values = self.buffer(1);
            match self.read {
                Read::Bool => i128::from(*values.cast::<u8>().add(at / 8) >> (at % 8) & 1),
                Read::Int(1, true) => i128::from(*values.cast::<i8>().add(at)),
                Read::Int(1, false) => i128::from(*values.cast::<u8>().add(at)),
                Read::Int(2, true) => i128::from(*values.cast::<i16>().add(at)),
                Read::Int(2, false) => i128::from(*values.cast::<u16>().add(at)),
                Read::Int(4, true) => i128::from(*values.cast::<i32>().add(at)),
                Read::Int(4, false) => i128::from(*values.cast::<u32>().add(at)),
                Read::Int(_, true) => i128::from(*values.cast::<i64>().add(at)),
                Read::Int(_, false) => i128::from(*values.cast::<u64>().add(at)),
                _ => 0,
            }
        }
    }

    #[inline]
    pub fn float(self) -> f64 {
        // SAFETY: as for integers.
        unsafe {
            match self.read {
                Read::Float32 => f64::from(*self.buffer(1).cast::<f32>().add(self.at)),
                Read::Float64 => *self.buffer(1).cast::<f64>().add(self.at),
                _ => self.integer() as f64,
            }
        }
    }

    /// A decimal of 16 bytes, as an integer of its scale.
    #[inline]
    pub fn decimal(self) -> i128 {
        // SAFETY: as for integers; the buffer may be aligned for less.
        unsafe { self.buffer(1).cast::<i128>().add(self.at).read_unaligned() }
    }

    /// Months, days and nanoseconds.
    pub fn months(self) -> (i32, i32, i64) {
        // SAFETY: as for integers; the three lie one behind the other in 16 bytes.
        unsafe {
            let parts: *const i32 = self.buffer(1).cast::<i32>().add(self.at * 4);
            (parts.read(), parts.add(1).read(), parts.add(2).cast::<i64>().read_unaligned())
        }
    }

    /// Two offsets, of 32 or 64 bits: where a value begins and ends.
    #[inline]
    pub fn offsets(self, width: usize) -> (i64, i64) {
        // SAFETY: offsets are in the second buffer, one more than values.
        unsafe {
            if width == 4 {
                let offsets: *const i32 = self.buffer(1).cast();
                (i64::from(*offsets.add(self.at)), i64::from(*offsets.add(self.at + 1)))
            } else {
                let offsets: *const i64 = self.buffer(1).cast();
                (*offsets.add(self.at), *offsets.add(self.at + 1))
            }
        }
    }

    /// Bytes of any length.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        let (start, end, values): (usize, usize, *const u8) = match self.read {
            Read::Bytes(width) => {
                let (start, end) = self.offsets(width);
                (start as usize, end as usize, self.buffer(2).cast())
            }
            Read::Fixed(width) => (self.at * width, (self.at + 1) * width, self.buffer(1).cast()),
            Read::Views => return self.view(),
            _ => return &[],
        };
        if end <= start || values.is_null() {
            return &[];
        }
        // SAFETY: offsets point into the third buffer; fixed widths lie in the second.
        unsafe { std::slice::from_raw_parts(values.add(start), end - start) }
    }

    /// Bytes by a view: a length, and then either up to 12 bytes or a prefix, the number of a buffer and a place in it.
    fn view(self) -> &'a [u8] {
        // SAFETY: views are in the second buffer; what they point into is in the third and those behind it.
        unsafe {
            let view: *const i32 = self.buffer(1).cast::<i32>().add(self.at * 4);
            let length = usize::try_from(view.read()).unwrap_or(0);
            if length <= 12 {
                return std::slice::from_raw_parts(view.add(1).cast(), length);
            }
            let number = usize::try_from(view.add(2).read()).unwrap_or(usize::MAX);
            let start = usize::try_from(view.add(3).read()).unwrap_or(0);
            if number.saturating_add(3) >= usize::try_from(self.column.n_buffers).unwrap_or(0) {
                return &[];
            }
            let values: *const u8 = self.buffer(2 + number).cast();
            if values.is_null() { &[] } else { std::slice::from_raw_parts(values.add(start), length) }
        }
    }
}
