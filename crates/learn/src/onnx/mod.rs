//! Models in the ONNX format, as skl2onnx writes scikit-learn's pipelines, and small networks.
//!
//! A graph of operators over rows becomes a program (`forms::program`) when it is read: every shape is known
//! then, constants are computed, numbers that only change their places cost nothing, and trees and kernels go to the forms
//! that have them. What is not known is refused by its name, so that a prediction cannot fail. The rows are the first
//! dimension of every tensor that depends on them; nothing moves it.
//!
//! docs/design/2026-11-22-onnx.md says why this is not left to a library.

mod elementwise;
mod lower;
mod message;
mod network;
mod pipeline;
mod protobuf;
mod result;
mod shape;
mod svm;
mod trees;
mod value;

use forest::error::Result;

use crate::foreign::{Foreign, with_source};

/// Whether these bytes may be an ONNX model, by the version that they begin with.
pub(crate) fn is_one(bytes: &[u8]) -> bool {
    // Its first two fields: a small version, and one that a model has.
    const SECOND: [u8; 6] = [0x12, 0x1a, 0x22, 0x28, 0x3a, 0x42];
    matches!(bytes, [0x08, 1..=127, second, ..] if SECOND.contains(second))
}

/// Reads a model. Where it does not say whether its values are scores of classes, `classifies` does.
pub(crate) fn read(bytes: &[u8], classifies: Option<bool>) -> Result<Foreign> {
    let model = message::Model::read(bytes)?;
    let lowered = lower::lower(&model, bytes.len())?;
    let foreign = result::foreign(lowered, classifies)?;
    Ok(Foreign { model: with_source(foreign.model, "onnx", bytes), ..foreign })
}
