//! PgBouncer's users file.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| howdah_pooler::fuzzing::userlist(text));
