//! Some thousand schedules, in well under a minute.

#![allow(clippy::panic, reason = "a test that fails panics")]

use simulation::schedule::of_seed;
use simulation::search::run;

/// Each quarter has seeds of its own, so that all cores have something to do.
fn quarter(number: u64) {
    for seed in number * 1000..number * 1000 + 750 {
        let (setup, steps) = of_seed(seed, 300);
        if let Err(failure) = run(&setup, &steps) {
            panic!("`cargo run -p simulation -- --from {seed} --seeds 1` shows what fails: {}", failure.what);
        }
    }
}

#[test]
fn sessions_stay_apart_first_quarter() {
    quarter(0);
}

#[test]
fn sessions_stay_apart_second_quarter() {
    quarter(1);
}

#[test]
fn sessions_stay_apart_third_quarter() {
    quarter(2);
}

#[test]
fn sessions_stay_apart_last_quarter() {
    quarter(3);
}
