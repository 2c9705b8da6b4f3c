//! Models of families, as they are stored.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz::stored(bytes);
});
