//! What happens where there is no memory, in processes of their own.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::process::Command;

#[global_allocator]
static ALLOCATOR: room::Allocator = room::Allocator;

/// More than any machine has, and less than a vector may.
const HUGE: usize = 1 << 60;

const STATUS: i32 = 42;

fn way_out(_: usize) -> ! {
    std::process::exit(STATUS)
}

/// Runs one of the tests below in a process of its own, and gives its status.
fn status_of(test: &str) -> Option<i32> {
    let own = std::env::current_exe().unwrap();
    Command::new(own).args(["--exact", test, "--ignored"]).output().unwrap().status.code()
}

#[test]
fn who_asks_is_told_and_goes_on() {
    room::on_failure(way_out);
    let mut vec = vec![1u8];
    assert_eq!(room::reserve(&mut vec, HUGE), Err(room::NoRoom { bytes: HUGE }));
    assert_eq!(room::reserve(&mut vec, usize::MAX), Err(room::NoRoom { bytes: usize::MAX }));
    assert_eq!(room::reserve(&mut vec, 1000), Ok(()));
    vec.extend([2; 1000]);
    assert_eq!((vec.len(), vec[0], vec[1000]), (1001, 1, 2));
}

#[test]
fn who_does_not_ask_takes_the_way_out() {
    assert_eq!(status_of("allocates_without_asking"), Some(STATUS));
}

#[test]
fn without_a_way_out_the_process_ends_as_ever() {
    assert_eq!(status_of("allocates_without_a_way_out"), None);
}

#[test]
#[ignore = "ends the process; run by the tests above"]
fn allocates_without_asking() {
    room::on_failure(way_out);
    let mut vec = vec![1u8];
    assert!(room::reserve(&mut vec, HUGE).is_err());
    vec.reserve(HUGE);
}

#[test]
#[ignore = "ends the process; run by the tests above"]
fn allocates_without_a_way_out() {
    let mut vec = vec![1u8];
    vec.reserve(HUGE);
}
