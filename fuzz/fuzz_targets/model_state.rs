//! The state that a pickled booster carries: a model in UBJSON beside its configuration.

#![no_main]

libfuzzer_sys::fuzz_target!(|model: &[u8]| {
    let state = [b"{L\0\0\0\0\0\0\0\x05Model", model, b"L\0\0\0\0\0\0\0\x06Config{}}"].concat();
    fuzz::model(&state);
});
