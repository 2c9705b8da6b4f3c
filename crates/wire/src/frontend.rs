//! The messages that a client sends.

use crate::Error;
use crate::frame::{Fields, write, write_cstr};

/// The type bytes of a client's messages.
pub mod tag {
    pub const BIND: u8 = b'B';
    pub const CLOSE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_FAIL: u8 = b'f';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const FLUSH: u8 = b'H';
    pub const FUNCTION_CALL: u8 = b'F';
    pub const PARSE: u8 = b'P';
    pub const PASSWORD: u8 = b'p';
    pub const QUERY: u8 = b'Q';
    pub const SYNC: u8 = b'S';
    pub const TERMINATE: u8 = b'X';
}

/// A Parse: a statement to prepare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parse<'a> {
    /// The name it shall have; empty for the unnamed statement.
    pub name: &'a [u8],
    /// The text and the parameter types, as they stand in the message: what tells statements apart.
    pub definition: &'a [u8],
    /// The text alone.
    pub query: &'a [u8],
}

/// Reads the body of a Parse.
pub fn parse(body: &[u8]) -> Result<Parse<'_>, Error> {
    let mut fields = Fields::new(tag::PARSE, body);
    let name = fields.cstr("the statement's name")?;
    let definition = fields.left();
    let query = fields.cstr("the query")?;
    let types = fields.i16("the number of parameter types")?;
    fields.bytes(usize::try_from(types).unwrap_or(0) * 4, "the parameter types")?;
    Ok(Parse { name, definition, query })
}

/// Appends a Parse of a statement with this definition.
pub fn write_parse(out: &mut Vec<u8>, name: &[u8], definition: &[u8]) {
    write(out, tag::PARSE, |out| {
        write_cstr(out, name);
        out.extend_from_slice(definition);
    });
}

/// The head of a Bind: what comes before its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The portal that it makes; empty for the unnamed one.
    pub portal: &'a [u8],
    /// The statement that it binds; empty for the unnamed one.
    pub statement: &'a [u8],
}

/// Reads the head of a Bind from as much of its body as has come; `None` when the names are not whole yet.
pub fn bind(body: &[u8]) -> Option<Bind<'_>> {
    let mut fields = Fields::new(tag::BIND, body);
    let portal = fields.cstr("the portal's name").ok()?;
    let statement = fields.cstr("the statement's name").ok()?;
    Some(Bind { portal, statement })
}

/// A parameter of a whole Bind, by its number from 1 on: whether it is binary, and its value unless it is NULL.
///
/// # Errors
/// [`Error::Short`] when the message does not hold what its counts say, or not that parameter.
pub fn parameter(body: &[u8], number: usize) -> Result<(bool, Option<&[u8]>), Error> {
    let missing = Error::Short { tag: tag::BIND, field: "the parameter" };
    let mut fields = Fields::new(tag::BIND, body);
    fields.cstr("the portal's name")?;
    fields.cstr("the statement's name")?;
    let mut formats = Vec::new();
    for _ in 0..fields.i16("the number of parameter formats")?.max(0) {
        formats.push(fields.i16("a parameter's format")? == 1);
    }
    let count = usize::try_from(fields.i16("the number of parameters")?).unwrap_or(0);
    for place in 0..count.min(number) {
        let length = fields.i32("a parameter's length")?;
        let value = usize::try_from(length).ok().map(|length| fields.bytes(length, "a parameter")).transpose()?;
        if place + 1 == number {
            let binary = formats.get(if formats.len() == 1 { 0 } else { place }).copied().unwrap_or(false);
            return Ok((binary, value));
        }
    }
    Err(missing)
}

/// The formats that a whole Bind asks its results in: none is text for all, one is for all, else one for each column.
/// True is binary.
///
/// # Errors
/// [`Error::Short`] when the message does not hold what its counts say.
pub fn result_formats(body: &[u8]) -> Result<Vec<bool>, Error> {
    fn count(fields: &mut Fields<'_>, field: &'static str) -> Result<usize, Error> {
        fields.i16(field).map(|count| usize::try_from(count).unwrap_or(0))
    }
    let mut fields = Fields::new(tag::BIND, body);
    fields.cstr("the portal's name")?;
    fields.cstr("the statement's name")?;
    for _ in 0..count(&mut fields, "the number of parameter formats")? {
        fields.i16("a parameter's format")?;
    }
    for _ in 0..count(&mut fields, "the number of parameters")? {
        // A negative length is NULL.
        let length = fields.i32("a parameter's length")?;
        fields.bytes(usize::try_from(length).unwrap_or(0), "a parameter")?;
    }
    let results = count(&mut fields, "the number of result formats")?;
    (0..results).map(|_| Ok(fields.i16("a result's format")? == 1)).collect()
}

/// The object of a Describe or a Close: a statement or a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A prepared statement.
    Statement(&'a [u8]),
    /// A portal.
    Portal(&'a [u8]),
}

/// Reads the body of a Describe or a Close, of type `tag`.
pub fn target(tag: u8, body: &[u8]) -> Result<Target<'_>, Error> {
    let mut fields = Fields::new(tag, body);
    let kind = fields.u8("the kind")?;
    let name = fields.cstr("the name")?;
    match kind {
        _ if !fields.left().is_empty() => {
            Err(Error::Length { tag, length: i64::try_from(body.len() + 4).unwrap_or(i64::MAX) })
        }
        b'S' => Ok(Target::Statement(name)),
        b'P' => Ok(Target::Portal(name)),
        _ => Err(Error::Short { tag, field: "the kind (neither 'S' nor 'P')" }),
    }
}

/// The portal that an Execute names; empty for the unnamed one.
pub fn portal(body: &[u8]) -> &[u8] {
    body.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Whether the body of an Execute is whole: a portal and a number of rows, and nothing else.
pub fn is_execute(body: &[u8]) -> bool {
    body.len() == portal(body).len() + 1 + size_of::<i32>()
}

/// Appends a Describe or a Close of a statement.
pub fn write_statement_target(out: &mut Vec<u8>, tag: u8, name: &[u8]) {
    write(out, tag, |out| {
        out.push(b'S');
        write_cstr(out, name);
    });
}

/// Appends an Execute of a portal, for all its rows.
pub fn write_execute(out: &mut Vec<u8>, portal: &[u8]) {
    write(out, tag::EXECUTE, |out| {
        write_cstr(out, portal);
        out.extend_from_slice(&0_i32.to_be_bytes());
    });
}

/// The text of a Query.
pub fn query(body: &[u8]) -> Result<&[u8], Error> {
    Fields::new(tag::QUERY, body).cstr("the query")
}

/// Appends a Query.
pub fn write_query(out: &mut Vec<u8>, sql: &str) {
    write(out, tag::QUERY, |out| write_cstr(out, sql.as_bytes()));
}

/// Appends a Sync.
pub fn write_sync(out: &mut Vec<u8>) {
    write(out, tag::SYNC, |_| ());
}

/// Appends a CopyFail that gives this reason.
pub fn write_copy_fail(out: &mut Vec<u8>, why: &str) {
    write(out, tag::COPY_FAIL, |out| crate::frame::write_cstr(out, why.as_bytes()));
}

/// Appends a Terminate.
pub fn write_terminate(out: &mut Vec<u8>) {
    write(out, tag::TERMINATE, |_| ());
}

/// The password of a PasswordMessage.
pub fn password(body: &[u8]) -> Result<&[u8], Error> {
    Fields::new(tag::PASSWORD, body).cstr("the password")
}

/// Appends a PasswordMessage.
pub fn write_password(out: &mut Vec<u8>, password: &[u8]) {
    write(out, tag::PASSWORD, |out| write_cstr(out, password));
}

/// The mechanism and the first response of a SASLInitialResponse.
pub fn sasl_initial(body: &[u8]) -> Result<(&str, &[u8]), Error> {
    let mut fields = Fields::new(tag::PASSWORD, body);
    let mechanism = fields.text("the mechanism")?;
    let length = fields.i32("the length of the response")?;
    let response = match usize::try_from(length) {
        Ok(length) => fields.bytes(length, "the response")?,
        Err(_) => &[],
    };
    Ok((mechanism, response))
}

/// Appends a SASLInitialResponse.
pub fn write_sasl_initial(out: &mut Vec<u8>, mechanism: &str, response: &[u8]) {
    write(out, tag::PASSWORD, |out| {
        write_cstr(out, mechanism.as_bytes());
        out.extend_from_slice(&i32::try_from(response.len()).unwrap_or(-1).to_be_bytes());
        out.extend_from_slice(response);
    });
}

/// Appends a SASLResponse.
pub fn write_sasl_response(out: &mut Vec<u8>, response: &[u8]) {
    write(out, tag::PASSWORD, |out| out.extend_from_slice(response));
}
