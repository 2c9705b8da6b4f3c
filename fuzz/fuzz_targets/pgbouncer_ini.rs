//! `pgbouncer.ini`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| fuzz::pooler::pgbouncer_ini(text));
