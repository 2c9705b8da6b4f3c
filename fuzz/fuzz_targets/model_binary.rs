//! XGBoost's old binary format: what is read is JSON, and what has that for a model, is one.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(json) = forest::xgboost::legacy::to_json(bytes) else { return };
    fuzz::model(json.as_bytes());
});
