//! Why a model cannot be used.

/// An error of this crate; the texts say what of the model it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A file of the model is not what its name says.
    #[error("{file} cannot be read: {reason}")]
    Unreadable { file: &'static str, reason: String },
    /// A file that the model needs is not there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The model is of a kind that is not known here.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// What was stored is damaged.
    #[error("{0}")]
    Damaged(String),
    /// An option cannot be meant.
    #[error("{0}")]
    Option(String),
    /// There is no memory for so many bytes.
    #[error("out of memory: {0} bytes")]
    Memory(usize),
}

impl From<room::NoRoom> for Error {
    fn from(no: room::NoRoom) -> Error {
        Error::Memory(no.bytes)
    }
}

/// That a file of the model is not what its name says.
pub fn unreadable(file: &'static str, reason: impl ToString) -> Error {
    Error::Unreadable { file, reason: reason.to_string() }
}
