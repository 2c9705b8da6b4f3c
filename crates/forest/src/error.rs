//! The errors in a model file.

/// Why a model was refused. Every message says what is wrong and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not in a format that this crate knows by sight.
    #[error("not a model file: {0}")]
    Format(String),
    /// The bytes break the grammar of their own format.
    #[error("malformed {format} at byte {offset}: {what}")]
    Syntax {
        /// `JSON` or `UBJSON`.
        format: &'static str,
        offset: usize,
        what: String,
    },
    /// Well-formed, but not a model: a field is missing, of another type, of a wrong length, or points nowhere.
    #[error("{path}: {what}")]
    Invalid {
        /// Where, such as `learner.gradient_booster.model.trees[3].left_children[7]`.
        path: String,
        what: String,
    },
    /// A sound file of something that this crate cannot predict.
    #[error("{path}: {what} is not supported")]
    Unsupported { path: String, what: String },
    /// There is no room for what is made of it.
    #[error("out of memory: {bytes} bytes were asked for")]
    Memory { bytes: usize },
}

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
