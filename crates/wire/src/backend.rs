//! The messages that a server sends.

use crate::Error;
use crate::frame::{Fields, write, write_cstr};

/// The type bytes of a server's messages.
pub mod tag {
    pub const AUTHENTICATION: u8 = b'R';
    pub const BACKEND_KEY_DATA: u8 = b'K';
    pub const BIND_COMPLETE: u8 = b'2';
    pub const CLOSE_COMPLETE: u8 = b'3';
    pub const COMMAND_COMPLETE: u8 = b'C';
    pub const COPY_BOTH_RESPONSE: u8 = b'W';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_IN_RESPONSE: u8 = b'G';
    pub const COPY_OUT_RESPONSE: u8 = b'H';
    pub const DATA_ROW: u8 = b'D';
    pub const EMPTY_QUERY_RESPONSE: u8 = b'I';
    pub const ERROR_RESPONSE: u8 = b'E';
    pub const FUNCTION_CALL_RESPONSE: u8 = b'V';
    pub const NEGOTIATE_PROTOCOL_VERSION: u8 = b'v';
    pub const NO_DATA: u8 = b'n';
    pub const NOTICE_RESPONSE: u8 = b'N';
    pub const NOTIFICATION_RESPONSE: u8 = b'A';
    pub const PARAMETER_DESCRIPTION: u8 = b't';
    pub const PARAMETER_STATUS: u8 = b'S';
    pub const PARSE_COMPLETE: u8 = b'1';
    pub const PORTAL_SUSPENDED: u8 = b's';
    pub const READY_FOR_QUERY: u8 = b'Z';
    pub const ROW_DESCRIPTION: u8 = b'T';
}

/// A message of a server while a session begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// The client is who it says it is.
    Ok,
    /// The password is wanted as it is.
    CleartextPassword,
    /// The password is wanted hashed with this salt.
    Md5Password([u8; 4]),
    /// SASL, by one of these mechanisms.
    Sasl(Vec<&'a str>),
    /// The next step of SASL.
    SaslContinue(&'a [u8]),
    /// The last step of SASL.
    SaslFinal(&'a [u8]),
    /// Something else (GSSAPI, SSPI), by its number.
    Other(i32),
}

/// Reads the body of an Authentication message.
pub fn authentication(body: &[u8]) -> Result<Authentication<'_>, Error> {
    let mut fields = Fields::new(tag::AUTHENTICATION, body);
    Ok(match fields.i32("the method")? {
        0 => Authentication::Ok,
        3 => Authentication::CleartextPassword,
        5 => {
            let salt = fields.bytes(4, "the salt")?;
            let short = Error::Short { tag: tag::AUTHENTICATION, field: "the salt" };
            Authentication::Md5Password(salt.try_into().map_err(|_| short)?)
        }
        10 => {
            let mut mechanisms = Vec::new();
            loop {
                let name = fields.text("a mechanism")?;
                if name.is_empty() {
                    break;
                }
                mechanisms.push(name);
            }
            Authentication::Sasl(mechanisms)
        }
        11 => Authentication::SaslContinue(fields.left()),
        12 => Authentication::SaslFinal(fields.left()),
        other => Authentication::Other(other),
    })
}

/// Appends an Authentication message.
pub fn write_authentication(out: &mut Vec<u8>, what: &Authentication<'_>) {
    write(out, tag::AUTHENTICATION, |out| {
        let (number, rest): (i32, &[u8]) = match what {
            Authentication::Ok => (0, &[]),
            Authentication::CleartextPassword => (3, &[]),
            Authentication::Md5Password(salt) => (5, salt),
            Authentication::Sasl(_) => (10, &[]),
            Authentication::SaslContinue(data) => (11, data),
            Authentication::SaslFinal(data) => (12, data),
            Authentication::Other(number) => (*number, &[]),
        };
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(rest);
        if let Authentication::Sasl(mechanisms) = what {
            for name in mechanisms {
                write_cstr(out, name.as_bytes());
            }
            out.push(0);
        }
    });
}

/// Where a session stands between two statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Outside a transaction.
    Idle,
    /// In a transaction.
    Transaction,
    /// In a transaction that has failed.
    Failed,
}

impl Status {
    /// The byte that stands for it.
    pub fn byte(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::Transaction => b'T',
            Self::Failed => b'E',
        }
    }
}

/// Reads the body of a ReadyForQuery.
pub fn ready_for_query(body: &[u8]) -> Result<Status, Error> {
    match body {
        b"I" => Ok(Status::Idle),
        b"T" => Ok(Status::Transaction),
        b"E" => Ok(Status::Failed),
        _ => Err(Error::Short { tag: tag::READY_FOR_QUERY, field: "the transaction status" }),
    }
}

/// Appends a ReadyForQuery.
pub fn write_ready_for_query(out: &mut Vec<u8>, status: Status) {
    write(out, tag::READY_FOR_QUERY, |out| out.push(status.byte()));
}

/// The name and the value of a ParameterStatus.
pub fn parameter_status(body: &[u8]) -> Result<(&str, &str), Error> {
    let mut fields = Fields::new(tag::PARAMETER_STATUS, body);
    Ok((fields.text("the name")?, fields.text("the value")?))
}

/// The same, with the value as it is in the client's encoding, which need not be UTF-8.
///
/// # Errors
/// [`Error::Short`] when the message does not hold both, or the name is not UTF-8.
pub fn parameter_status_bytes(body: &[u8]) -> Result<(&str, &[u8]), Error> {
    let mut fields = Fields::new(tag::PARAMETER_STATUS, body);
    Ok((fields.text("the name")?, fields.cstr("the value")?))
}

/// Appends a ParameterStatus.
pub fn write_parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    write(out, tag::PARAMETER_STATUS, |out| {
        write_cstr(out, name.as_bytes());
        write_cstr(out, value.as_bytes());
    });
}

/// The process id and the secret of a BackendKeyData.
pub fn backend_key_data(body: &[u8]) -> Result<(i32, &[u8]), Error> {
    let mut fields = Fields::new(tag::BACKEND_KEY_DATA, body);
    Ok((fields.i32("the process id")?, fields.left()))
}

/// Appends a BackendKeyData.
pub fn write_backend_key_data(out: &mut Vec<u8>, pid: i32, secret: &[u8]) {
    write(out, tag::BACKEND_KEY_DATA, |out| {
        out.extend_from_slice(&pid.to_be_bytes());
        out.extend_from_slice(secret);
    });
}

/// Appends a NegotiateProtocolVersion: the newest minor version spoken here, and the `_pq_.` options not known.
pub fn write_negotiate_version(out: &mut Vec<u8>, minor: u16, unknown: &[&str]) {
    write(out, tag::NEGOTIATE_PROTOCOL_VERSION, |out| {
        out.extend_from_slice(&(0x0003_0000 | i32::from(minor)).to_be_bytes());
        out.extend_from_slice(&i32::try_from(unknown.len()).unwrap_or(0).to_be_bytes());
        for name in unknown {
            write_cstr(out, name.as_bytes());
        }
    });
}

/// The fields of an ErrorResponse or NoticeResponse that are of use to others than people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// `ERROR`, `FATAL`, `PANIC`, `WARNING` ..., not translated.
    pub severity: String,
    /// The SQLSTATE.
    pub code: String,
    /// The message.
    pub message: String,
    /// The routine of PostgreSQL's source that raised it.
    pub routine: String,
}

/// Reads the body of an ErrorResponse or NoticeResponse. Text that is not UTF-8 is shown as well as it can be.
pub fn report(body: &[u8]) -> Result<Report, Error> {
    let mut fields = Fields::new(tag::ERROR_RESPONSE, body);
    let mut report = Report::default();
    loop {
        let kind = fields.u8("a field's type")?;
        if kind == 0 {
            return Ok(report);
        }
        let value = String::from_utf8_lossy(fields.cstr("a field")?);
        match kind {
            b'S' if report.severity.is_empty() => report.severity = value.into_owned(),
            b'V' => report.severity = value.into_owned(),
            b'C' => report.code = value.into_owned(),
            b'M' => report.message = value.into_owned(),
            b'R' => report.routine = value.into_owned(),
            _ => (),
        }
    }
}

/// Appends an ErrorResponse.
pub fn write_error(out: &mut Vec<u8>, severity: &str, code: &str, message: &str) {
    write_report(out, tag::ERROR_RESPONSE, severity, code, message, Extra::default());
}

/// The fields that a report may have beside its severity, SQLSTATE and message.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extra<'a> {
    /// What helps.
    pub hint: Option<&'a str>,
    /// The function of the server that reports: drivers tell some errors apart by it.
    pub routine: Option<&'a str>,
}

/// Appends an ErrorResponse with a hint, a routine, or both.
pub fn write_error_with(out: &mut Vec<u8>, severity: &str, code: &str, message: &str, extra: Extra<'_>) {
    write_report(out, tag::ERROR_RESPONSE, severity, code, message, extra);
}

/// Appends a NoticeResponse.
pub fn write_notice(out: &mut Vec<u8>, severity: &str, code: &str, message: &str) {
    write_report(out, tag::NOTICE_RESPONSE, severity, code, message, Extra::default());
}

fn write_report(out: &mut Vec<u8>, tag: u8, severity: &str, code: &str, message: &str, extra: Extra<'_>) {
    write(out, tag, |out| {
        let fields = [(b'S', severity), (b'V', severity), (b'C', code), (b'M', message)];
        let extra = extra.hint.map(|hint| (b'H', hint)).into_iter().chain(extra.routine.map(|routine| (b'R', routine)));
        for (kind, value) in fields.into_iter().chain(extra) {
            out.push(kind);
            // A zero would end the field early and make the rest unreadable.
            out.extend(value.bytes().filter(|&byte| byte != 0));
            out.push(0);
        }
        out.push(0);
    });
}

/// The text of a CommandComplete, e.g. `INSERT 0 1`.
pub fn command_complete(body: &[u8]) -> Result<&[u8], Error> {
    Fields::new(tag::COMMAND_COMPLETE, body).cstr("the command tag")
}

/// Appends a CommandComplete.
pub fn write_command_complete(out: &mut Vec<u8>, text: &str) {
    write(out, tag::COMMAND_COMPLETE, |out| write_cstr(out, text.as_bytes()));
}

/// Appends a message without a body (ParseComplete and its like).
pub fn write_empty(out: &mut Vec<u8>, tag: u8) {
    write(out, tag, |_| ());
}

/// The type of a column in a RowDescription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// `text`
    Text,
    /// `bigint`
    Int8,
}

/// Appends a RowDescription of columns in text format.
pub fn write_row_description<'a>(out: &mut Vec<u8>, columns: impl ExactSizeIterator<Item = (&'a str, ColumnType)>) {
    write_row_description_in(out, columns, |_| false);
}

/// Appends a RowDescription of columns, in binary format where `is_binary` says so of their numbers from 0.
pub fn write_row_description_in<'a>(
    out: &mut Vec<u8>,
    columns: impl ExactSizeIterator<Item = (&'a str, ColumnType)>,
    is_binary: impl Fn(usize) -> bool,
) {
    write(out, tag::ROW_DESCRIPTION, |out| {
        out.extend_from_slice(&i16::try_from(columns.len()).unwrap_or(i16::MAX).to_be_bytes());
        for (number, (name, kind)) in columns.enumerate() {
            let (oid, size): (i32, i16) = match kind {
                ColumnType::Text => (25, -1),
                ColumnType::Int8 => (20, 8),
            };
            write_cstr(out, name.as_bytes());
            out.extend_from_slice(&0_i32.to_be_bytes());
            out.extend_from_slice(&0_i16.to_be_bytes());
            out.extend_from_slice(&oid.to_be_bytes());
            out.extend_from_slice(&size.to_be_bytes());
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            out.extend_from_slice(&i16::from(is_binary(number)).to_be_bytes());
        }
    });
}

/// Appends a DataRow of values in text format; `None` is NULL.
pub fn write_data_row<'a>(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = Option<&'a [u8]>>) {
    write(out, tag::DATA_ROW, |out| {
        out.extend_from_slice(&i16::try_from(values.len()).unwrap_or(i16::MAX).to_be_bytes());
        for value in values {
            let length = value.and_then(|value| i32::try_from(value.len()).ok()).unwrap_or(-1);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(value.unwrap_or_default());
        }
    });
}

/// The values of a DataRow; `None` is NULL.
pub fn data_row(body: &[u8]) -> Result<Vec<Option<&[u8]>>, Error> {
    let mut fields = Fields::new(tag::DATA_ROW, body);
    let count = fields.i16("the number of values")?;
    let mut values = Vec::new();
    for _ in 0..count {
        let length = fields.i32("the length of a value")?;
        values.push(match usize::try_from(length) {
            Ok(length) => Some(fields.bytes(length, "a value")?),
            Err(_) => None,
        });
    }
    Ok(values)
}
