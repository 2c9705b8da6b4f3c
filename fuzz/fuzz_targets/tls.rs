//! TLS: handshakes between the pooler's two sides, with anything happening to the bytes on their way.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::pooler::tls(data));
