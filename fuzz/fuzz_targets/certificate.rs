//! Certificates, of which the pooler reads some parts itself.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| howdah_pooler::fuzzing::certificate(data));
