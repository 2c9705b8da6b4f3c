//! CatBoost's JSON.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    fuzz::foreign(learn::foreign::catboost(text));
});
