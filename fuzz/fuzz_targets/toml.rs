//! `howdah.toml` and `pgcat.toml`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| howdah_pooler::fuzzing::toml(text));
