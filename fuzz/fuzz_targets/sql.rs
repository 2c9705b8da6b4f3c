//! What the pooler looks for in the text of statements.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::pooler::sql(data));
