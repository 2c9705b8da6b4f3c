//! The error type of the extension: the message for users and the SQLSTATE for programs.

use std::borrow::Cow;

use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// Ours.
    Report(Box<Report>),
    /// PostgreSQL's own (or a panic), caught on its way and raised again unchanged.
    Caught(Box<CaughtError>),
}

/// Message in lower case and without a full stop; detail and hint are sentences.
#[derive(Debug)]
pub struct Report {
    pub code: PgSqlErrorCode,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: PgSqlErrorCode, message: impl Into<String>) -> Error {
        Error::Report(Box::new(Report { code, message: message.into(), detail: None, hint: None }))
    }

    /// An argument that cannot be meant: 22023.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, message)
    }

    /// An argument that is needed is NULL: 22004.
    pub fn null_argument(name: &str) -> Error {
        Error::new(PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED, format!("{name} must not be null"))
    }

    /// Something that the arguments name is not there: 42704.
    pub fn undefined(message: impl Into<String>) -> Error {
        Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT, message)
    }

    /// Understood, and not offered: 0A000.
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message)
    }

    /// What is stored contradicts itself: XX001, the class that PostgreSQL uses for damaged data.
    pub fn corrupted(message: impl Into<String>) -> Error {
        Error::new(PgSqlErrorCode::ERRCODE_DATA_CORRUPTED, message)
    }

    /// An error about a model that its caller gave: what would be damage in a stored one is unreadable input, 22P03.
    pub fn of_input(mut self) -> Error {
        if let Error::Report(report) = &mut self
            && report.code == PgSqlErrorCode::ERRCODE_DATA_CORRUPTED
        {
            report.code = PgSqlErrorCode::ERRCODE_INVALID_BINARY_REPRESENTATION;
        }
        self
    }

    /// The SQLSTATE, of an error of ours.
    pub fn code(&self) -> Option<PgSqlErrorCode> {
        match self {
            Error::Report(report) => Some(report.code),
            Error::Caught(_) => None,
        }
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Error {
        if let Error::Report(report) = &mut self {
            report.detail = Some(detail.into());
        }
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        if let Error::Report(report) = &mut self {
            report.hint = Some(hint.into());
        }
        self
    }

    /// The message, to be told beside others; PostgreSQL's own errors go on.
    pub fn message(self) -> Result<String> {
        match self {
            Error::Report(report) => Ok(report.message),
            caught => Err(caught),
        }
    }

    /// Raises the ERROR, none of its texts longer than a page, whatever they quote. Call it where nothing is left to clean up but what unwinding drops.
    #[track_caller]
    pub fn raise(self) -> ! {
        match self {
            Error::Caught(caught) => caught.rethrow(),
            Error::Report(report) => {
                let Report { code, message, detail, hint } = *report;
                let page = |text: &str| shorten(text, 2000).into_owned();
                let mut report = ErrorReport::new(code, page(&message), "pgml");
                if let Some(detail) = detail {
                    report = report.set_detail(page(&detail));
                }
                if let Some(hint) = hint {
                    report = report.set_hint(page(&hint));
                }
                report.report(PgLogLevel::ERROR);
                unreachable!("an error was reported and came back")
            }
        }
    }
}

/// So many characters of the text at most, and a mark where there were more.
pub fn shorten(text: &str, characters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}

impl From<CaughtError> for Error {
    fn from(caught: CaughtError) -> Error {
        Error::Caught(Box::new(caught))
    }
}

impl From<pgrx::spi::SpiError> for Error {
    fn from(error: pgrx::spi::SpiError) -> Error {
        Error::new(PgSqlErrorCode::ERRCODE_EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, error.to_string())
    }
}
