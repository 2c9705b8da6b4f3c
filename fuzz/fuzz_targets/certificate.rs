//! Certificates, of which the pooler reads some parts itself.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::pooler::certificate(data));
