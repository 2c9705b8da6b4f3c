//! Connections do not survive a fork: two processes on one socket would read each other's answers.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Session;

/// How many forks lie between the process that loaded the module and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// This process, by the forks up to it.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Has forks counted, in each child.
pub(crate) fn watch() {
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: the function does nothing but add to an atomic number, which is allowed after a fork, and modules of
    // Python are never unloaded. Without memory for the entry forks are not seen, as before.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
}

impl Session {
    /// Whether it belongs to another process, which has forked this one since.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.generation != generation()
    }
}
