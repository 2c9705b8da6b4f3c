//! Compiled models, one copy for all connections.
//!
//! A compiled model is a file in `$PGDATA/pgml_cache/<oid of the database>`, named by the digest of the model's bytes and
//! the version of the image format, and mapped read-only by every backend that predicts with it. The name is a function
//! of the content (ids repeat after a restore), so a file never changes: it is written whole under a temporary name, its
//! space allocated first, synced, and renamed into place. Files are only ever unlinked, never truncated: a page that a
//! mapped file lost would be a SIGBUS, and with it a restart of the whole server.
//!
//! An image is checked from end to end by the first backend that maps it in the life of this server, which then gives the
//! file the modification time of the server's start, to the microsecond. Those that find it so take the check for done:
//! what is written, copied, restored or damaged through the file system later has another time. When a file was used last
//! is its access time, set by whoever maps it.
//!
//! Nothing here is needed for durability. A file that is missing, damaged or of another version is made again from
//! `pgml.files`; if it cannot be written (disk full, read-only), the backend predicts from a private copy. So files may
//! go at any time, and do: those that were not used for longest when all together grow past `pgml.cache_size`, and those
//! of models, databases and extensions that are no more (`tidy.rs`).

mod tidy;

use std::cell::Cell;
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use memmap2::Mmap;
use pgrx::pg_sys;

use crate::error::{Error, Result};
use crate::guc;
use crate::memory::GivenBack;

pub use tidy::{forget, tidy_if_due};

/// Temporary files older than this belong to nobody: their writer crashed.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);

/// How exactly the cache knows when a file was used last.
const USED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// SHA-256 of the model's bytes as they stand in `pgml.files`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The bytes of a compiled model: the shared mapping, or a private copy where no file could be made.
pub enum Image {
    Mapped(Mmap),
    Private(Vec<u8>),
}

impl AsRef<[u8]> for Image {
    fn as_ref(&self) -> &[u8] {
        match self {
            Image::Mapped(map) => map,
            Image::Private(bytes) => bytes,
        }
    }
}

// SAFETY: a private copy is ours alone; a mapped file is only ever unlinked, see the head of this file.
unsafe impl forest::ImageBytes for Image {}

/// What is used of an image.
pub trait FromImage: Sized {
    /// Opens an image. One that a backend of this server has checked is not checked again.
    ///
    /// # Safety
    /// Where `checked` is set, the bytes are those of an image that was opened without it before.
    unsafe fn open(image: Image, checked: bool) -> std::result::Result<Self, String>;
}

/// A compiled model, and its file if it has one.
pub struct Opened<T> {
    pub compiled: T,
    pub used: Option<Used>,
}

/// The compiled model of this digest; `compile` makes the image from the stored bytes where no good file exists.
pub fn open<T: FromImage>(digest: &Digest, compile: impl FnOnce() -> Result<Vec<u8>>) -> Result<Opened<T>> {
    let folder = folder_of(database());
    let path = folder.join(file_name(digest));
    if let Some(opened) = map(&path) {
        return Ok(opened);
    }
    make_folders(&folder);
    // One backend builds while others wait for its file: a hundred connections that meet a new model at once would
    // otherwise compile it a hundred times.
    let building = Lock::wait(&path.with_extension(BUILD)).ok();
    if let Some(opened) = map(&path) {
        return Ok(opened);
    }
    let _given_back = GivenBack;
    let image = compile()?;
    let written = write(&path, &image);
    let opened = written.as_ref().ok().and_then(|()| map(&path));
    // Before it is unlocked, so that those who wait for it find the file; who comes later makes a lock of its own.
    if building.is_some() {
        let _ = fs::remove_file(path.with_extension(BUILD));
    }
    drop(building);
    if let Err(error) = written {
        pgrx::log!(
            "could not write compiled model \"{}\": {error}; this connection uses a copy of its own",
            path.display()
        );
    }
    match opened {
        Some(opened) => Ok(opened),
        None => Ok(Opened { compiled: private(image)?, used: None }),
    }
}

/// The ending of the file whose lock says that a model is being compiled.
const BUILD: &str = "build";

/// The file of a model that is in use.
pub struct Used {
    path: PathBuf,
    said: Cell<Instant>,
}

impl Used {
    /// Says that the file is used, now and then: connections that have it mapped for days need not open it again.
    pub fn now(&self) {
        if self.said.get().elapsed() > USED_AGAIN_AFTER {
            self.said.set(Instant::now());
            // It may have been unlinked, which the mapping outlives.
            if let Ok(file) = File::open(&self.path) {
                let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
            }
        }
    }
}

/// A copy of one's own, ready to predict.
pub fn private<T: FromImage>(image: Vec<u8>) -> Result<T> {
    // SAFETY: nothing is taken for checked.
    unsafe { T::open(Image::Private(image), false) }
        .map_err(|error| Error::corrupted(format!("compiled model cannot be used: {error}")))
}

/// The folder of all databases.
fn root() -> PathBuf {
    // SAFETY: DataDir is set before any backend starts and never changes; it is a valid C string.
    let data = unsafe { std::ffi::CStr::from_ptr(pg_sys::DataDir) };
    Path::new(std::ffi::OsStr::new(&*data.to_string_lossy())).join("pgml_cache")
}

fn folder_of(database: u32) -> PathBuf {
    root().join(database.to_string())
}

fn database() -> u32 {
    // SAFETY: set when the backend connects.
    unsafe { pg_sys::MyDatabaseId }.to_u32()
}

fn file_name(digest: &Digest) -> String {
    format!("{}.v{}", digest.hex(), forest::IMAGE_VERSION)
}

fn make_folders(folder: &Path) {
    // What fails here fails again, and is told, where the file is written.
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
}

/// `None` where there is no file, or none that can be trusted; a damaged one is unlinked.
fn map<T: FromImage>(path: &Path) -> Option<Opened<T>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path).ok()?;
    // SAFETY: the folder belongs to the server's user alone (mode 0700), and files in it are renamed into place whole
    // and only ever unlinked, never truncated or written again, so the mapped bytes do not change.
    let mapped = unsafe { Mmap::map(&file) }.ok()?;
    let data = file.metadata().ok();
    let checked = data.as_ref().and_then(|data| data.modified().ok()) == Some(server_start());
    // SAFETY: where it was checked, a backend of this server has opened the whole image, and files do not change.
    let compiled = match unsafe { T::open(Image::Mapped(mapped), checked) } {
        Ok(compiled) => compiled,
        Err(error) => {
            pgrx::log!("compiled model \"{}\" is damaged and will be made again: {error}", path.display());
            // Failing to unlink is harmless: the rename of the new file replaces it.
            let _ = fs::remove_file(path);
            return None;
        }
    };
    let used = data.and_then(|data| data.accessed().ok()).and_then(|at| at.elapsed().ok());
    if !checked {
        let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()).set_modified(server_start()));
    } else if used.is_some_and(|age| age > USED_AGAIN_AFTER) {
        let _ = file.set_times(FileTimes::new().set_accessed(SystemTime::now()));
    }
    Some(Opened { compiled, used: Some(Used { path: path.to_owned(), said: Cell::new(Instant::now()) }) })
}

/// When the postmaster started.
fn server_start() -> SystemTime {
    /// From 1970, where the system's time begins, to 2000, where PostgreSQL's does.
    const EPOCH: Duration = Duration::from_secs(946_684_800);
    // SAFETY: set before any backend starts, and never changed.
    let microseconds = unsafe { pg_sys::PgStartTime };
    SystemTime::UNIX_EPOCH + EPOCH + Duration::from_micros(u64::try_from(microseconds).unwrap_or(0))
}

fn write(path: &Path, image: &[u8]) -> io::Result<()> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let size = image.len() as u64;
    Accounts::open()?.reserve(size)?;
    let temporary = path.with_file_name(format!("tmp.{}.{serial}", std::process::id()));
    let result = write_whole(&temporary, image).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // The error that matters is already in hand.
        let _ = fs::remove_file(&temporary);
        Accounts::open()?.release(size);
        return result;
    }
    // A lost rename costs a rebuild, nothing more, so the folder's own sync may fail.
    if let Some(Ok(folder)) = path.parent().map(File::open) {
        let _ = folder.sync_all();
    }
    Ok(())
}

fn write_whole(path: &Path, image: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let length = libc::off_t::try_from(image.len()).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open for writing, and the call only reads its arguments.
    let refused = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
    if refused != 0 && refused != libc::EOPNOTSUPP && refused != libc::EINVAL {
        return Err(io::Error::from_raw_os_error(refused));
    }
    file.write_all(image)?;
    file.sync_all()
}

/// How many bytes the files of all databases have together: a number in the file `lock`, kept by who holds its lock.
struct Accounts {
    lock: Lock,
}

impl Accounts {
    fn open() -> io::Result<Accounts> {
        Ok(Accounts { lock: Lock::wait(&root().join("lock"))? })
    }

    /// The number as it was kept; what the files really have where it was not.
    fn total(&self) -> u64 {
        let mut bytes = [0; 8];
        match self.lock.file.read_exact_at(&mut bytes, 0) {
            Ok(()) => u64::from_le_bytes(bytes),
            Err(_) => tidy::files().iter().map(|file| file.size).sum(),
        }
    }

    fn set(&self, total: u64) {
        let _ = self.lock.file.write_all_at(&total.to_le_bytes(), 0);
    }

    fn release(&self, size: u64) {
        self.set(self.total().saturating_sub(size));
    }

    /// Unlinks files until there is room for one of that size, which is counted as if it were there.
    fn reserve(&self, size: u64) -> io::Result<()> {
        let limit = guc::cache_bytes();
        if size > limit {
            let text = format!("it has {size} bytes, and pgml.cache_size is {limit}");
            return Err(io::Error::new(io::ErrorKind::StorageFull, text));
        }
        let mut total = self.total();
        if total.saturating_add(size) > limit {
            // Some more than must go, so that not every new model has all files looked at.
            total = tidy::evict((limit - size).min(limit - limit / 16));
        }
        self.set(total.saturating_add(size));
        Ok(())
    }
}

/// Waits for some milliseconds, as PostgreSQL waits: an interrupt wakes it, and the end of the postmaster ends the process.
fn rest() {
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: the latch of this process, which lives as long as it does.
    unsafe {
        pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, 5, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}

/// An exclusive lock on a file, released when dropped, and by the kernel if the process dies.
struct Lock {
    file: File,
}

impl Lock {
    /// Ends on an interrupt, and with the server.
    fn wait(path: &Path) -> io::Result<Lock> {
        loop {
            match Lock::try_take(path) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    pgrx::check_for_interrupts!();
                    rest();
                }
                taken => return taken,
            }
        }
    }

    /// [`io::ErrorKind::WouldBlock`] where somebody else has it.
    fn try_take(path: &Path) -> io::Result<Lock> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        // SAFETY: the descriptor is open for as long as `file` lives.
        match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
            0 => Ok(Lock { file }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
