//! No signal is handled on the library's threads, and the caller's mask stays what it is. Alone in its process, so that
//! the only threads that come are the library's.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;
use learn::Error;
use learn::rows::{Chunk, Rows, Stop};
use learn::xgboost::{Round, Task, train};
use serde_json::json;

/// What each thread of this process has blocked, bit 0 for signal 1.
fn masks() -> BTreeMap<String, u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| {
            let id = task.unwrap().file_name().into_string().unwrap();
            let status = std::fs::read_to_string(format!("/proc/self/task/{id}/status")).ok()?;
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
            Some((id, u64::from_str_radix(blocked.trim(), 16).unwrap()))
        })
        .collect()
}

fn own_mask() -> Vec<bool> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: only the current mask is asked for, and written whole.
    let set = unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr());
        set.assume_init()
    };
    // SAFETY: the set is initialised and the numbers are those of signals.
    (1..=64).map(|signal| unsafe { libc::sigismember(&set, signal) } == 1).collect()
}

static DELIVERED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: libc::c_int) {
    DELIVERED.fetch_add(1, Ordering::SeqCst);
}

/// Asserts that it is called with the mask of the caller, and sends its own process a signal each time.
struct Watching(Memory, Vec<bool>);

impl Watching {
    fn watch(&self) {
        assert_eq!(own_mask(), self.1);
        let before = DELIVERED.load(Ordering::SeqCst);
        // SAFETY: the signal has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert_eq!(DELIVERED.load(Ordering::SeqCst), before + 1, "the signal is delivered at once");
    }
}

impl Rows for Watching {
    fn width(&self) -> usize {
        self.0.width
    }

    fn rewind(&mut self) -> Result<(), Stop> {
        self.watch();
        self.0.rewind()
    }

    fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop> {
        self.watch();
        self.0.next()
    }
}

#[test]
fn signals_go_to_the_caller_only() {
    // A caller who has one signal blocked, to see that this is kept as well.
    // SAFETY: the handler only touches an atomic; the set is initialised by sigemptyset.
    unsafe {
        libc::signal(libc::SIGUSR1, count as *const () as libc::sighandler_t);
        let mut set = MaybeUninit::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGUSR2);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
    }
    let before = own_mask();
    let threads_before = masks();
    let library = library();
    let params = parse(Task::Regression, json!({"nthread": 2, "n_estimators": 5})).unwrap();
    let mut rows = Watching(wavy(2000, 1), before.clone());
    let mut eval = Watching(wavy(500, 2), before.clone());
    let mut progress = |_: &Round<'_>| -> Result<(), Stop> {
        assert_eq!(own_mask(), before);
        Ok(())
    };
    train(&library, &params, &numbers(4), &mut rows, Some(&mut eval), &[], &mut progress).unwrap();
    assert_eq!(own_mask(), before);
    assert!(DELIVERED.load(Ordering::SeqCst) > 20);

    let threads: BTreeMap<String, u64> =
        masks().into_iter().filter(|(id, _)| !threads_before.contains_key(id)).collect();
    assert!(!threads.is_empty(), "with two threads the library keeps one of its own");
    for (id, blocked) in &threads {
        for signal in (1..=31).chain([libc::SIGRTMIN(), libc::SIGRTMAX()]) {
            let unblockable = [libc::SIGKILL, libc::SIGSTOP].contains(&signal);
            assert_eq!(blocked >> (signal - 1) & 1 == 1, !unblockable, "thread {id}, signal {signal}: {blocked:x}");
        }
    }

    // A panic in the source leaves the mask as it was, too.
    struct Panicking(Memory);
    impl Rows for Panicking {
        fn width(&self) -> usize {
            self.0.width
        }
        fn rewind(&mut self) -> Result<(), Stop> {
            self.0.rewind()
        }
        fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop> {
            if self.0.passes == 2 { std::panic::resume_unwind(Box::new(1)) } else { self.0.next() }
        }
    }
    let result = train(&library, &params, &numbers(4), &mut Panicking(wavy(200, 1)), None, &[], &mut quiet);
    assert!(matches!(result, Err(Error::Stopped(_))));
    assert_eq!(own_mask(), before);
}
