//! A compiled model, as it may lie in `pgml_cache`: its checksum is right, whatever else is not.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::image(data));
