//! Memory that may run out.
//!
//! Rust ends the process when an allocation fails, and the end of one backend of PostgreSQL restarts all others. The
//! crate prevents that in two ways. Memory whose size depends on a caller's input is requested by [`reserve`], which
//! returns an error if there is none. All other allocations are small: if one fails, the [`Allocator`] calls the
//! program's own handler ([`on_failure`]) instead of returning, which may end the connection but not the server. Caches
//! ([`Recent`]) have a limited size.

mod recent;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

pub use recent::{Bounds, Recent};

/// An allocation of this number of bytes failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes that were asked for.
    pub bytes: usize,
}

/// Reserves memory for more elements.
///
/// # Errors
/// [`NoRoom`] where the allocation fails, or would be larger than can be.
pub fn reserve<T>(vec: &mut Vec<T>, more: usize) -> Result<(), NoRoom> {
    let asked = Asked::begin();
    let reserved = vec.try_reserve(more);
    drop(asked);
    reserved.map_err(|_| NoRoom { bytes: more.saturating_mul(size_of::<T>()) })
}

/// The system's allocator, which where it fails calls what [`on_failure`] was given, unless [`reserve`] asked.
pub struct Allocator;

/// What the [`Allocator`] calls with the size of an allocation that failed. It must not return, unwind, or allocate more
/// than it is ready to see fail.
pub fn on_failure(way_out: fn(usize) -> !) {
    WAY_OUT.store(way_out as *mut (), Ordering::Release);
}

static WAY_OUT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    static ASKED: Cell<bool> = const { Cell::new(false) };
    static HELPS: Cell<Option<&'static AtomicBool>> = const { Cell::new(None) };
}

/// Has this thread, which works for another and has nothing else to do, rest for ever where an allocation of it fails: the
/// way out is for the thread that the program is about. `failed` is set then.
pub fn rest_on_failure(failed: &'static AtomicBool) {
    HELPS.set(Some(failed));
}

/// While it lives, a failure is an answer.
struct Asked;

impl Asked {
    fn begin() -> Asked {
        ASKED.set(true);
        Asked
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        ASKED.set(false);
    }
}

impl Allocator {
    #[inline]
    fn check(pointer: *mut u8, size: usize) -> *mut u8 {
        if pointer.is_null() {
            Allocator::failed(size);
        }
        pointer
    }

    #[cold]
    fn failed(size: usize) {
        if let Some(failed) = HELPS.get().filter(|_| !ASKED.get()) {
            failed.store(true, Ordering::Release);
            loop {
                std::thread::sleep(std::time::Duration::from_secs(3600));
            }
        }
        let way_out = WAY_OUT.load(Ordering::Acquire);
        if !way_out.is_null() && !ASKED.get() {
            // SAFETY: what was stored is a function of this type.
            let way_out: fn(usize) -> ! = unsafe { std::mem::transmute(way_out) };
            way_out(size)
        }
    }
}

// SAFETY: the system's allocator does all of it; a failure is passed on, or the function does not return.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        Allocator::check(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        Allocator::check(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        Allocator::check(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}
