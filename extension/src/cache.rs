//! Compiled models, one copy for all connections.
//!
//! A compiled model is a file in `$PGDATA/pgml_cache`, named by the digest of the model's bytes and the version of the
//! image format, and mapped read-only by every backend that predicts with it. The name is a function of the content
//! (ids repeat after a restore and between databases), so a file never changes: it is written whole under a temporary
//! name, its space allocated first, synced, and renamed into place. Files are only ever unlinked, never truncated:
//! a page that a mapped file lost would be a SIGBUS, and with it a restart of the whole server.
//!
//! Nothing here is needed for durability. A file that is missing, damaged or of another version is made again from
//! `pgml.files`; if it cannot be written (disk full, read-only), the backend predicts from a private copy.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use forest::Forest;
use memmap2::Mmap;
use pgrx::pg_sys;

use crate::error::{Error, Result};

/// Temporary files older than this belong to nobody: their writer crashed.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);

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

/// The compiled model of this digest; `compile` makes the image from the stored bytes where no good file exists.
pub fn open(digest: &Digest, compile: impl FnOnce() -> Result<Vec<u8>>) -> Result<Forest<Image>> {
    let folder = folder();
    let path = folder.join(format!("{}.v{}", digest.hex(), forest::IMAGE_VERSION));
    if let Some(forest) = map(&path) {
        return Ok(forest);
    }
    // One backend builds while others wait for its file: a hundred connections that meet a new model at once would
    // otherwise compile it a hundred times.
    let lock = BuildLock::acquire(&folder);
    if let Some(forest) = map(&path) {
        return Ok(forest);
    }
    let image = compile()?;
    if let Err(error) = write(&folder, &path, &image) {
        pgrx::log!(
            "could not write compiled model \"{}\": {error}; this connection uses a copy of its own",
            path.display()
        );
        drop(lock);
        return from_private(image);
    }
    drop(lock);
    match map(&path) {
        Some(forest) => Ok(forest),
        None => from_private(image),
    }
}

fn from_private(image: Vec<u8>) -> Result<Forest<Image>> {
    Forest::open(Image::Private(image))
        .map_err(|error| Error::corrupted(format!("compiled model cannot be used: {error}")))
}

fn folder() -> PathBuf {
    // SAFETY: DataDir is set before any backend starts and never changes; it is a valid C string.
    let data = unsafe { std::ffi::CStr::from_ptr(pg_sys::DataDir) };
    Path::new(std::ffi::OsStr::new(&*data.to_string_lossy())).join("pgml_cache")
}

/// `None` where there is no file, or none that can be trusted; a damaged one is unlinked.
fn map(path: &Path) -> Option<Forest<Image>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path).ok()?;
    // SAFETY: the folder belongs to the server's user alone (mode 0700), and files in it are renamed into place whole
    // and only ever unlinked, never truncated or written again, so the mapped bytes do not change.
    let mapped = unsafe { Mmap::map(&file) }.ok()?;
    match Forest::open(Image::Mapped(mapped)) {
        Ok(forest) => Some(forest),
        Err(error) => {
            pgrx::log!("compiled model \"{}\" is damaged and will be made again: {error}", path.display());
            // Failing to unlink is harmless: the rename of the new file replaces it.
            let _ = fs::remove_file(path);
            None
        }
    }
}

fn write(folder: &Path, path: &Path, image: &[u8]) -> io::Result<()> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    sweep(folder);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!("tmp.{}.{serial}", std::process::id()));
    let result = write_whole(&temporary, image).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // The error that matters is already in hand.
        let _ = fs::remove_file(&temporary);
        return result;
    }
    // A lost rename costs a rebuild, nothing more, so the folder's own sync may fail.
    if let Ok(folder) = File::open(folder) {
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

/// Unlinks what crashed writers left behind.
fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with("tmp.") {
            continue;
        }
        let age = entry
            .metadata()
            .and_then(|data| data.modified())
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok());
        if age.is_some_and(|age| age > ABANDONED_AFTER) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// An exclusive lock on the cache folder, released when dropped, and by the kernel if the process dies.
struct BuildLock {
    _file: Option<File>,
}

impl BuildLock {
    /// Without a lock (the folder cannot be written) the build goes on all the same: the lock only saves work.
    fn acquire(folder: &Path) -> BuildLock {
        if !folder.is_dir() {
            let _ = fs::DirBuilder::new().mode(0o700).create(folder);
        }
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join("lock")).ok();
        if let Some(file) = &file {
            // SAFETY: the descriptor is open for as long as `file` lives.
            while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                if io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
                    break;
                }
                pgrx::check_for_interrupts!();
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        BuildLock { _file: file }
    }
}
