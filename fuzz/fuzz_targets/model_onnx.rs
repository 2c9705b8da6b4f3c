//! ONNX's graphs.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for classifies in [None, Some(true), Some(false)] {
        fuzz::foreign(learn::foreign::onnx(bytes, classifies));
    }
});
