//! No signal may be delivered on a thread of a training library.
//!
//! A thread starts with the mask of the thread that made it. So all signals are blocked around every call that can
//! make one, and the mask of the caller is put back when the call is over, and while the call in turn asks the caller
//! for rows: a signal that came in between is delivered then, on the caller's own thread.

use std::mem::MaybeUninit;
use std::ptr;

/// The signals that the caller had blocked.
#[derive(Clone, Copy)]
pub(crate) struct Mask(libc::sigset_t);

impl Mask {
    /// Blocks all signals on this thread; gives back what was blocked before.
    pub(crate) fn block_all() -> Mask {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: `sigfillset` writes all of `all`, and `pthread_sigmask` all of `before`; with SIG_SETMASK and valid
        // pointers it cannot fail.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Mask(before.assume_init())
        }
    }

    /// What is blocked on this thread now.
    pub(crate) fn current() -> Mask {
        let mut now = MaybeUninit::uninit();
        // SAFETY: without a new set, only `now` is written, all of it.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), now.as_mut_ptr());
            Mask(now.assume_init())
        }
    }

    /// Blocks exactly these on this thread.
    pub(crate) fn set(self) {
        // SAFETY: the set came out of `pthread_sigmask`; the old one is not asked for.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut());
        }
    }
}

/// Runs `work` with all signals blocked, and restores the mask afterwards, also when it panics.
pub fn blocked<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(Mask);
    impl Drop for Restore {
        fn drop(&mut self) {
            self.0.set();
        }
    }
    let _restore = Restore(Mask::block_all());
    work()
}
