//! XGBoost's UBJSON.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // Anything else is another target's.
    if !matches!(data, [b'{', b'"' | b'}' | b' ' | b'\t' | b'\n' | b'\r', ..]) {
        fuzz::model(data);
    }
});
