//! What a model says of itself in the attribute `pgml`: what is read, is written and read again the same.

#![no_main]

#[allow(dead_code, reason = "the extension uses all of it")]
#[path = "../../extension/src/model_meta.rs"]
mod model_meta;

use model_meta::ModelMeta;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(meta) = ModelMeta::from_json(text) else { return };
    let again = ModelMeta::from_json(&meta.to_json());
    assert_eq!(again.as_ref().map(ModelMeta::to_json), Ok(meta.to_json()));
});
