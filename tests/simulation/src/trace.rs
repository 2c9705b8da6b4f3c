//! What everybody says, told to the standard error where that is asked for.

use std::sync::atomic::{AtomicBool, Ordering};

static TELLS: AtomicBool = AtomicBool::new(false);

/// Has every world say from now on what goes on in it.
pub fn tell_all() {
    TELLS.store(true, Ordering::Relaxed);
}

/// Whether it is asked for.
pub(crate) fn is_told() -> bool {
    TELLS.load(Ordering::Relaxed)
}

macro_rules! trace {
    ($($what:tt)*) => {
        if $crate::trace::is_told() {
            eprintln!($($what)*);
        }
    };
}

pub(crate) use trace;
