use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a value that a panicking thread left is as good as any other, since all values here are replaced whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
