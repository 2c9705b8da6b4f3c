//! `pgbouncer.ini`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| howdah_pooler::fuzzing::pgbouncer_ini(text));
