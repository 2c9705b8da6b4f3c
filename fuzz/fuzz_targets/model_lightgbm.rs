//! LightGBM's text.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    fuzz::foreign(learn::foreign::lightgbm(text));
});
