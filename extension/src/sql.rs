//! SQL calling Rust: how a C-language function is declared, its arguments read and its rows returned.

use std::ffi::CStr;

use pgrx::datum::FromDatum;
use pgrx::{IntoDatum, PgSqlErrorCode, pg_sys};

use crate::error::{Error, Result};
use crate::memory::{self, OwnContext};

/// Declares the symbol `$symbol` for `CREATE FUNCTION ... AS 'MODULE_PATHNAME', '$symbol'`, implemented by
/// `$body: fn(&Call) -> Result<Datum>`, whose error is raised as an ERROR.
#[macro_export]
macro_rules! sql_function {
    ($symbol:ident, $body:path) => {
        const _: () = {
            #[unsafe(export_name = concat!("pg_finfo_", stringify!($symbol)))]
            pub extern "C" fn finfo() -> &'static pgrx::pg_sys::Pg_finfo_record {
                const V1_API: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
                &V1_API
            }

            /// # Safety
            /// Called by PostgreSQL, with the call info of this call.
            #[pgrx::pg_guard]
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $symbol(fcinfo: pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum {
                // SAFETY: PostgreSQL gives the call info of this call, valid until it returns.
                let call = unsafe { $crate::sql::Call::new(fcinfo) };
                match $body(&call) {
                    Ok(datum) => datum,
                    Err(error) => error.raise(),
                }
            }
        };
    };
}

/// Bytes of a name in SQL, with room for one that is quoted, or misspelt.
pub const LONGEST_NAME: usize = 1000;

/// Bytes of JSON.
const LONGEST_JSON: usize = 1 << 20;

/// An argument of more bytes than it may have.
pub fn too_long(name: &str, bytes: usize, at_most: usize) -> Error {
    let code = PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
    Error::new(code, format!("{name} has {}: the limit is {at_most}", learn::count(bytes, "byte")))
}

/// One call of a function by PostgreSQL.
pub struct Call {
    fcinfo: pg_sys::FunctionCallInfo,
}

impl Call {
    /// # Safety
    /// `fcinfo` is valid while this lives.
    pub unsafe fn new(fcinfo: pg_sys::FunctionCallInfo) -> Call {
        Call { fcinfo }
    }

    /// PostgreSQL's own structure, for what is not offered here.
    pub fn fcinfo(&self) -> pg_sys::FunctionCallInfo {
        self.fcinfo
    }

    /// Number of arguments given.
    pub fn len(&self) -> usize {
        // SAFETY: see `new`.
        usize::try_from(unsafe { (*self.fcinfo).nargs }).unwrap_or(0)
    }

    /// The argument as PostgreSQL gives it; `None` for NULL and for arguments that there are not.
    pub fn datum(&self, index: usize) -> Option<pg_sys::Datum> {
        if index >= self.len() {
            return None;
        }
        // SAFETY: `args` has `nargs` elements.
        let argument = unsafe { *(*self.fcinfo).args.as_ptr().add(index) };
        (!argument.isnull).then_some(argument.value)
    }

    /// The argument, whose value may take so many bytes: a caller can give a gigabyte, and what is done with names,
    /// queries and parameters takes more time and memory than their length says.
    fn bounded(&self, index: usize, name: &str, at_most: usize) -> Result<Option<pg_sys::Datum>> {
        let Some(datum) = self.datum(index) else { return Ok(None) };
        // SAFETY: the SQL declaration gives the argument a type of variable length; its header tells the length without
        // its value being fetched.
        let bytes = unsafe { pg_sys::toast_raw_datum_size(datum) }.saturating_sub(pg_sys::VARHDRSZ);
        if bytes > at_most {
            return Err(too_long(name, bytes, at_most));
        }
        Ok(Some(datum))
    }

    fn get<T: FromDatum>(&self, index: usize) -> Option<T> {
        // SAFETY: the SQL declaration gives the argument the type that its reader here asks for.
        self.datum(index).and_then(|datum| unsafe { T::from_datum(datum, false) })
    }

    /// A `text` argument of so many bytes at most; `name` is what it is called in SQL.
    pub fn text(&self, index: usize, name: &str, at_most: usize) -> Result<Option<String>> {
        let datum = self.bounded(index, name, at_most)?;
        // SAFETY: a text, as declared.
        datum.map(|datum| unsafe { utf8_of(datum, name) }).transpose()
    }

    /// An argument that is a `text` or a `text[]`, with at most 1,000 texts of so many bytes each; `name` is what it is
    /// called in SQL.
    pub fn texts(&self, index: usize, name: &str, at_most: usize) -> Result<Option<Vec<String>>> {
        // SAFETY: the call is running.
        let is_array =
            unsafe { pg_sys::get_fn_expr_argtype((*self.fcinfo).flinfo, index as i32) } == pg_sys::TEXTARRAYOID;
        if !is_array {
            return Ok(self.text(index, name, at_most)?.map(|text| vec![text]));
        }
        self.text_array(index, name, 1000, at_most)
    }

    /// A `text[]` argument of at most `most` texts of so many bytes each; `name` is what it is called in SQL.
    pub fn text_array(&self, index: usize, name: &str, most: usize, at_most: usize) -> Result<Option<Vec<String>>> {
        let Some(datum) = self.bounded(index, name, most.saturating_mul(at_most))? else { return Ok(None) };
        let (mut elements, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        // SAFETY: an array of texts, as declared; what is made of it lives as long as the call.
        let (elements, nulls) = unsafe {
            let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast();
            let align = pg_sys::TYPALIGN_INT as std::ffi::c_char;
            pg_sys::deconstruct_array(array, pg_sys::TEXTOID, -1, false, align, &mut elements, &mut nulls, &mut count);
            let count = usize::try_from(count).unwrap_or(0);
            match count {
                0 => (&[][..], &[][..]),
                _ => (std::slice::from_raw_parts(elements, count), std::slice::from_raw_parts(nulls, count)),
            }
        };
        if elements.len() > most {
            return Err(Error::invalid(format!("{name} has {} elements: the limit is {most}", elements.len())));
        }
        if nulls.contains(&true) {
            return Err(Error::invalid(format!("{name} must not have NULL elements")));
        }
        let mut texts = Vec::new();
        memory::reserve(&mut texts, elements.len())?;
        for element in elements {
            // SAFETY: an element that is not NULL.
            let text = unsafe { utf8_of(*element, name) }?;
            if text.len() > at_most {
                return Err(too_long(name, text.len(), at_most));
            }
            texts.push(text);
        }
        Ok(Some(texts))
    }

    /// A `bytea` argument of so many bytes at most; `name` is what it is called in SQL.
    pub fn bytes(&self, index: usize, name: &str, at_most: usize) -> Result<Option<Vec<u8>>> {
        let datum = self.bounded(index, name, at_most)?;
        // SAFETY: a bytea, as declared.
        Ok(datum.and_then(|datum| unsafe { Vec::<u8>::from_datum(datum, false) }))
    }

    /// A `bigint` argument.
    pub fn i64(&self, index: usize) -> Option<i64> {
        self.get(index)
    }

    /// A `double precision` argument.
    pub fn f64(&self, index: usize) -> Option<f64> {
        self.get(index)
    }

    /// An `integer` argument.
    pub fn i32(&self, index: usize) -> Option<i32> {
        self.get(index)
    }

    /// A `double precision[]` argument of so many elements at most, none of them NULL; `name` is what it is called in SQL.
    pub fn f64s(&self, index: usize, name: &str, at_most: usize) -> Result<Option<Vec<f64>>> {
        // A NULL element has no bytes in the array, but there may be only so many dimensions and bits.
        self.bounded(index, name, 8 * at_most + 1000)?;
        let Some(numbers) = self.get::<Vec<Option<f64>>>(index) else { return Ok(None) };
        if numbers.len() > at_most {
            return Err(Error::invalid(format!("{name} has {} elements: the limit is {at_most}", numbers.len())));
        }
        let numbers: Option<Vec<f64>> = numbers.into_iter().collect();
        numbers.map(Some).ok_or_else(|| Error::invalid(format!("{name} must not have NULL elements")))
    }

    /// A `real` argument.
    pub fn f32(&self, index: usize) -> Option<f32> {
        self.get(index)
    }

    /// A `boolean` argument.
    pub fn bool(&self, index: usize) -> Option<bool> {
        self.get(index)
    }

    /// The label of an argument of an enum type.
    pub fn enum_label(&self, index: usize) -> Option<String> {
        self.datum(index).map(|datum| self.output(pg_sys::enum_out, datum).to_string_lossy().into_owned())
    }

    /// An `interval` argument, as text.
    pub fn interval(&self, index: usize) -> Option<String> {
        self.datum(index).map(|datum| self.output(pg_sys::interval_out, datum).to_string_lossy().into_owned())
    }

    /// A `jsonb` argument, of a megabyte at most; `name` is what it is called in SQL.
    pub fn json(&self, index: usize, name: &str) -> Result<Option<serde_json::Value>> {
        let Some(datum) = self.bounded(index, name, LONGEST_JSON)? else { return Ok(None) };
        let text = self.output(pg_sys::jsonb_out, datum);
        // A number of few bytes, 1e100000, may have many digits.
        if text.to_bytes().len() > 4 * LONGEST_JSON {
            return Err(too_long(name, text.to_bytes().len(), 4 * LONGEST_JSON));
        }
        serde_json::from_slice(text.to_bytes()).map(Some).map_err(|error| {
            Error::new(PgSqlErrorCode::ERRCODE_INVALID_JSON_TEXT, format!("{name} cannot be read: {error}"))
        })
    }

    /// What an output function of the argument's declared type prints.
    fn output(&self, function: unsafe fn(pg_sys::FunctionCallInfo) -> pg_sys::Datum, datum: pg_sys::Datum) -> &CStr {
        // SAFETY: the function gives a palloc'd C string, which lives as long as the call.
        unsafe {
            let text = pgrx::direct_function_call_as_datum(function, &[Some(datum)]);
            text.map_or(c"", |text| CStr::from_ptr(text.cast_mut_ptr()))
        }
    }

    /// Returns NULL.
    pub fn null(&self) -> pg_sys::Datum {
        // SAFETY: see `new`.
        unsafe { (*self.fcinfo).isnull = true };
        pg_sys::Datum::from(0)
    }

    /// What a statement trigger or a void function returns.
    pub fn no_value(&self) -> pg_sys::Datum {
        // SAFETY: see `new`.
        unsafe { (*self.fcinfo).isnull = false };
        pg_sys::Datum::from(0)
    }

    /// Returns one row: a value, or `None` for NULL, for each OUT argument of the declaration, of that argument's type.
    pub fn record(&self, row: &[Option<pg_sys::Datum>]) -> Result<pg_sys::Datum> {
        let mut values: Vec<pg_sys::Datum> = row.iter().map(|value| value.unwrap_or(pg_sys::Datum::from(0))).collect();
        let mut nulls: Vec<bool> = row.iter().map(Option::is_none).collect();
        // SAFETY: see `new`. The descriptor is the executor's answer for this very function, and has as many columns as
        // there are values, or is refused; what is allocated lives in the call's memory context.
        unsafe {
            let mut descriptor: pg_sys::TupleDesc = std::ptr::null_mut();
            pg_sys::get_call_result_type(self.fcinfo, std::ptr::null_mut(), &mut descriptor);
            if descriptor.is_null() || usize::try_from((*descriptor).natts) != Ok(row.len()) {
                return Err(Error::unsupported(
                    "this function returns a row, which the context of its call cannot take",
                ));
            }
            let descriptor = pg_sys::BlessTupleDesc(descriptor);
            let tuple = pg_sys::heap_form_tuple(descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
            Ok(pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data))
        }
    }

    /// Returns the rows of a function that RETURNS TABLE, all at once. Every row has a value, or `None` for NULL, for
    /// each column of the declaration, of that column's type.
    pub fn rows<R: AsRef<[Option<pg_sys::Datum>]>>(&self, rows: impl IntoIterator<Item = R>) -> Result<pg_sys::Datum> {
        // SAFETY: see `new`. What is allocated for the result lives in the query's memory context, as materialised
        // results must; the descriptor is the executor's answer for this very function.
        unsafe {
            let info: *mut pg_sys::ReturnSetInfo = (*self.fcinfo).resultinfo.cast();
            let materialize = i32::try_from(pg_sys::SetFunctionReturnMode::SFRM_Materialize).unwrap_or(0);
            if info.is_null()
                || (*info).type_ != pg_sys::NodeTag::T_ReturnSetInfo
                || (*info).allowedModes & materialize == 0
            {
                return Err(Error::unsupported(
                    "this function returns rows, which the context of its call cannot take",
                ));
            }
            let previous = pg_sys::MemoryContextSwitchTo((*(*info).econtext).ecxt_per_query_memory);
            let mut descriptor: pg_sys::TupleDesc = std::ptr::null_mut();
            pg_sys::get_call_result_type(self.fcinfo, std::ptr::null_mut(), &mut descriptor);
            // A set of a scalar type has no row type; the caller says then what it expects.
            if descriptor.is_null() && !(*info).expectedDesc.is_null() {
                descriptor = pg_sys::CreateTupleDescCopy((*info).expectedDesc);
            }
            if descriptor.is_null() {
                pg_sys::MemoryContextSwitchTo(previous);
                return Err(Error::unsupported(
                    "this function returns rows, which the context of its call cannot take",
                ));
            }
            let store = pg_sys::tuplestore_begin_heap(true, false, pg_sys::work_mem);
            let (mut values, mut nulls) = (Vec::new(), Vec::new());
            // What rows are made of as they are asked for goes with each: the store has a copy.
            let row_context = OwnContext::begin(c"pgml row");
            for row in rows {
                pgrx::check_for_interrupts!();
                values.clear();
                nulls.clear();
                for value in row.as_ref() {
                    values.push(value.unwrap_or(pg_sys::Datum::from(0)));
                    nulls.push(value.is_none());
                }
                pg_sys::tuplestore_putvalues(store, descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
                row_context.reset();
            }
            drop(row_context);
            (*info).returnMode = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
            (*info).setResult = store;
            (*info).setDesc = descriptor;
            pg_sys::MemoryContextSwitchTo(previous);
        }
        Ok(self.null())
    }
}

/// A text, which the library takes in UTF-8. Where the database has another encoding, ASCII is the same in both.
///
/// # Safety
/// `datum` is a text, not NULL.
unsafe fn utf8_of(datum: pg_sys::Datum, name: &str) -> Result<String> {
    // SAFETY: as the caller promises; a bytea is stored like a text.
    let bytes = unsafe { Vec::<u8>::from_datum(datum, false) }.unwrap_or_default();
    // SAFETY: reads a setting of the database.
    let encoding = unsafe { pg_sys::GetDatabaseEncoding() };
    let known = encoding == pg_sys::pg_enc::PG_UTF8 as i32 || encoding == pg_sys::pg_enc::PG_SQL_ASCII as i32;
    String::from_utf8(bytes).ok().filter(|text| known || text.is_ascii()).ok_or_else(|| {
        let code = PgSqlErrorCode::ERRCODE_CHARACTER_NOT_IN_REPERTOIRE;
        Error::new(code, format!("{name} has characters beyond ASCII, and the encoding of the database is not UTF8"))
            .hint("Use a database with ENCODING 'UTF8'.")
    })
}

/// A `text` value in the current memory context.
pub fn text_datum(text: &str) -> pg_sys::Datum {
    text.into_datum().unwrap_or(pg_sys::Datum::from(0))
}
