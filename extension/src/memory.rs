//! The lack of memory: an ERROR if the size of an allocation depends on a caller's input, the end of the connection for
//! all other allocations, and never the end of the server. Memory that is no longer needed goes back to the system.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::error::{Error, Result};

#[global_allocator]
static ALLOCATOR: room::Allocator = room::Allocator;

/// Called once, when the library is loaded.
pub fn register() {
    room::on_failure(end_connection);
    // SAFETY: while the library is loaded, which has a current context; the context is never deleted.
    let context = unsafe {
        pg_sys::AllocSetContextCreateInternal(
            pg_sys::TopMemoryContext,
            c"pgml: ERROR under way".as_ptr(),
            // Kept from the start, and most copies fit.
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        )
    };
    UNDER_WAY.store(context, Ordering::Relaxed);
}

/// Where the data of an ERROR are copied to on its way through Rust. It has memory, for the ERROR may be about the lack of
/// it.
static UNDER_WAY: AtomicPtr<pg_sys::MemoryContextData> = AtomicPtr::new(std::ptr::null_mut());

#[cfg(target_os = "linux")]
unsafe extern "C-unwind" {
    /// The server's own `CopyErrorData`, which the linker calls so by `--wrap` (`build.rs`).
    fn __real_CopyErrorData() -> *mut pg_sys::ErrorData;
}

/// What pgrx calls as `CopyErrorData` where it has caught an ERROR, to carry it on as a panic.
///
/// The catcher still stands then. An ERROR of the copy itself would come back to the catcher, which copies again, until
/// the server's stack of errors is full: a PANIC, which ends all connections. So the copy has memory of its own, and a copy
/// that does not fit ends this connection.
///
/// # Safety
/// As that of the server's function: an ERROR has been caught.
#[cfg(target_os = "linux")]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __wrap_CopyErrorData() -> *mut pg_sys::ErrorData {
    // SAFETY: the main thread, which has caught an ERROR. The context is that of `register`, if that has come so far, and
    // what is current again afterwards is what was before; without a catcher an ERROR is FATAL and does not return.
    unsafe {
        let (catcher, current) = (pg_sys::PG_exception_stack, pg_sys::CurrentMemoryContext);
        pg_sys::PG_exception_stack = std::ptr::null_mut();
        let own = UNDER_WAY.load(Ordering::Relaxed);
        if !own.is_null() {
            pg_sys::CurrentMemoryContext = own;
        }
        let copy = __real_CopyErrorData();
        pg_sys::CurrentMemoryContext = current;
        pg_sys::PG_exception_stack = catcher;
        copy
    }
}

/// Makes room for so many more elements.
pub fn reserve<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    room::reserve(vec, more).map_err(|room::NoRoom { bytes }| no_room(bytes))
}

/// There is no memory for so many bytes.
pub fn no_room(bytes: usize) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, "out of memory")
        .detail(format!("Failed on request of {bytes} bytes."))
}

/// So many elements of one value.
pub fn filled<T: Clone>(value: T, length: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    reserve(&mut vec, length)?;
    vec.resize(length, value);
    Ok(vec)
}

/// Gives what was freed back to the system when it is dropped: to be made before the work that takes much.
///
/// The C library keeps freed memory for the process that freed it, up to all that a compilation or a training took, and a
/// connection of a pool lives for days. The training library's threads have heaps of their own, which are meant too. And
/// the kernel keeps the code mapped that was run for it, which is much where no other connection does the same.
pub struct GivenBack;

impl Drop for GivenBack {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: the C library's own function, which takes its locks; nothing that is in use is touched.
        unsafe {
            libc::malloc_trim(0);
        }
        // SAFETY: the function below is called with each library that is loaded, and keeps nothing of it.
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        unsafe {
            libc::dl_iterate_phdr(Some(let_go_of_code), std::ptr::null_mut());
        }
    }
}

/// Unmaps the pages of a library that nobody writes to. What is used of them again is mapped again from the file, which
/// mostly is in memory.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
unsafe extern "C" fn let_go_of_code(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut std::ffi::c_void,
) -> c_int {
    // SAFETY: only tells a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16);
    // SAFETY: of a library that is loaded, as the dynamic loader describes it. Its segments without PF_W are mapped from its
    // file and not written to, but for relocations in those of code, which DT_TEXTREL would tell of; so a page that is
    // dropped comes back as it was. Pages that belong to such a segment only in part are left.
    unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        let has_file = !info.dlpi_name.is_null() && *info.dlpi_name == b'/' as c_char;
        if !has_file || headers.iter().any(|header| relocates_code(info.dlpi_addr, header)) {
            return 0;
        }
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0)
        {
            let begin = (info.dlpi_addr + header.p_vaddr) as usize;
            let (first, end) = (begin.next_multiple_of(page), (begin + header.p_filesz as usize) / page * page);
            if first < end {
                libc::madvise(first as *mut std::ffi::c_void, end - first, libc::MADV_DONTNEED);
            }
        }
    }
    0
}

/// Whether this is the segment that tells how a library is linked, and tells that its code is written to.
///
/// # Safety
/// A segment of a library that is loaded at `base`.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
unsafe fn relocates_code(base: libc::Elf64_Addr, segment: &libc::Elf64_Phdr) -> bool {
    const END: usize = 0;
    const TEXTREL: usize = 22;
    const FLAGS: usize = 30;
    const IN_FLAGS: usize = 4;
    if segment.p_type != libc::PT_DYNAMIC {
        return false;
    }
    // SAFETY: pairs of a tag and a value up to the one that ends them, in memory as the loader has put them there.
    unsafe {
        let mut entry = (base + segment.p_vaddr) as *const [usize; 2];
        while (*entry)[0] != END {
            let [tag, value] = *entry;
            if tag == TEXTREL || tag == FLAGS && value & IN_FLAGS != 0 {
                return true;
            }
            entry = entry.add(1);
        }
    }
    false
}

/// A memory context of PostgreSQL for one piece of work, current while it lives and deleted with it. What an ERROR leaves
/// of it goes with the context around it.
pub struct OwnContext {
    own: pg_sys::MemoryContext,
    around: pg_sys::MemoryContext,
}

impl OwnContext {
    pub fn begin(name: &'static CStr) -> OwnContext {
        // SAFETY: within a call, which has a current context; the name lives as long as the program.
        unsafe {
            let around = pg_sys::CurrentMemoryContext;
            let own = pg_sys::AllocSetContextCreateInternal(
                around,
                name.as_ptr(),
                pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            );
            pg_sys::MemoryContextSwitchTo(own);
            OwnContext { own, around }
        }
    }
}

impl OwnContext {
    /// Frees what was made in it.
    pub fn reset(&self) {
        // SAFETY: made by us; the caller has no use for what is in it.
        unsafe { pg_sys::MemoryContextReset(self.own) };
    }
}

impl Drop for OwnContext {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made by us; whoever works in it has returned, and what it leaves to others is not in it.
            unsafe {
                pg_sys::MemoryContextSwitchTo(self.around);
                pg_sys::MemoryContextDelete(self.own);
            }
        }
    }
}

// The server's own way to report, without a string of Rust's in between.
unsafe extern "C-unwind" {
    fn errstart(level: c_int, domain: *const c_char) -> bool;
    fn errcode(state: c_int) -> c_int;
    fn errmsg(format: *const c_char, ...) -> c_int;
    fn errdetail(format: *const c_char, ...) -> c_int;
    fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
}

/// Ends this connection with a FATAL error, which neither unwinds nor returns: an allocator may do neither, and Rust would
/// end the process by a signal, whereupon the server ends all connections.
fn end_connection(bytes: usize) -> ! {
    static ENDING: AtomicBool = AtomicBool::new(false);
    const FORMAT: &CStr = c"Failed on request of %zu bytes in pgml.";
    if !ENDING.swap(true, Ordering::Relaxed) {
        // SAFETY: the main thread of a backend, where Rust allocates but for threads that rest instead; the strings end with a zero byte, and the
        // format takes a size. FATAL runs the callbacks of the end of a backend and exits.
        unsafe {
            if errstart(pgrx::PgLogLevel::FATAL as c_int, std::ptr::null()) {
                errcode(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY as c_int);
                errmsg(c"out of memory".as_ptr());
                errdetail(FORMAT.as_ptr(), bytes);
                errfinish(c"memory.rs".as_ptr(), 0, c"end_connection".as_ptr());
            }
        }
    }
    // Not even the end of a backend finds memory.
    std::process::abort()
}
