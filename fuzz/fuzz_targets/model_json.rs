//! XGBoost's JSON.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Anything else is another target's.
    if text.trim_start().starts_with('{') {
        fuzz::model(text.as_bytes());
    }
});
