//! Text encoders of the BERT family, as Hugging Face's Transformers and sentence-transformers save them: from a text to
//! tokens, through the network, to one vector, or to one score of a pair of texts.
//!
//! The way of a model: its files ([`Files`]) are read by `settings` and `tokens`, and become one file that can be stored
//! ([`stored`]); of that is made the image ([`image()`]), in which the weights lie as the products read them, and which
//! an [`Encoder`] uses where it lies. The way of a text: `tokens` -> `network` (with `matrix` and `vectors`) ->
//! `encoder`, which pools. `chunk` splits long texts. Nothing here does I/O or knows PostgreSQL.

mod arrays;
pub mod chunk;
mod encoder;
mod error;
mod matrix;
mod network;
mod settings;
mod store;
mod tokens;
mod vectors;

pub use encoder::{Encoder, Options};
pub use error::Error;
pub use settings::{About, Task};
pub use store::{Files, image, stored};

/// The files of a model's folder that are read, the first two of which it must have beside its weights.
pub const FILES: [&str; 7] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
];

/// The file of a model's folder that has the weights.
pub const WEIGHTS: &str = "model.safetensors";
