//! PgBouncer's users file.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| fuzz::pooler::userlist(text));
