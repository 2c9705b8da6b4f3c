//! `howdah.toml` and `pgcat.toml`.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| fuzz::pooler::toml(text));
