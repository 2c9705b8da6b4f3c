//! HBA files.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| howdah_pooler::fuzzing::hba(text));
