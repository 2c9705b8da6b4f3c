//! The removal of files from the cache: those unused for longest, and those of models, databases and extensions that no
//! longer exist.
//!
//! A model's file is unlinked when its bytes are deleted. All else is found by looking, every ten minutes at most and in
//! whichever backend maps a model then: a model that was deleted on the primary of this standby, a database that was
//! dropped, an extension that was. Nobody tells of these. Whether a database still has the extension cannot be asked from
//! another one, so its folder says where its registry is stored, and that is looked at: the file `registry` has the
//! path of the table `pgml.files`, which DROP EXTENSION removes (with the next checkpoint).

use std::collections::HashSet;
use std::fs::{self, DirEntry, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pgrx::pg_sys;

use super::{ABANDONED_AFTER, Accounts, BUILD, Digest, Lock, database, file_name, folder_of, root};
use crate::error::Result;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(600);

/// The file in a database's folder that names its registry's storage.
const REGISTRY: &str = "registry";

/// A compiled model.
pub struct Compiled {
    pub path: PathBuf,
    pub size: u64,
    pub used: SystemTime,
}

/// The compiled models of all databases.
pub fn files() -> Vec<Compiled> {
    let mut files = Vec::new();
    for folder in entries(&root()) {
        for entry in entries(&folder.path()) {
            if let (true, Ok(data)) = (is_compiled(&entry), entry.metadata()) {
                let used = data.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push(Compiled { path: entry.path(), size: data.len(), used });
            }
        }
    }
    files
}

fn entries(folder: &Path) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

fn is_compiled(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    name.split_once(".v").is_some_and(|(digest, version)| digest.len() == 64 && version.parse::<u32>().is_ok())
}

/// Unlinks what was not used for longest until the rest has at most so many bytes; gives how many it has.
pub fn evict(at_most: u64) -> u64 {
    let mut files = files();
    files.sort_by_key(|file| file.used);
    let mut total: u64 = files.iter().map(|file| file.size).sum();
    for file in files {
        if total <= at_most {
            break;
        }
        // Who has it mapped keeps it.
        if fs::remove_file(&file.path).is_ok() {
            total -= file.size;
        }
    }
    total
}

/// The stored bytes of this digest are deleted. If the transaction rolls back, the file is made again.
pub fn forget(digest: &Digest) {
    let path = folder_of(database()).join(file_name(digest));
    let Ok(size) = path.metadata().map(|data| data.len()) else { return };
    if fs::remove_file(&path).is_ok()
        && let Ok(accounts) = Accounts::open()
    {
        accounts.release(size);
    }
}

/// Looks for what is no more, if nobody has for a while. `known` are the digests of this database's models.
pub fn tidy_if_due(known: impl FnOnce() -> Result<HashSet<Digest>>) -> Result<()> {
    let stamp = root().join("tidied");
    let age = stamp.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
    if age.is_some_and(|age| age < EVERY) {
        return Ok(());
    }
    // Others need not wait for what one does.
    let Ok(_tidying) = Lock::try_take(&stamp) else { return Ok(()) };
    if let Ok(file) = File::options().write(true).open(&stamp) {
        let _ = file.set_modified(SystemTime::now());
    }
    let known = known()?;
    for entry in entries(&root()) {
        pgrx::check_for_interrupts!();
        let name = entry.file_name();
        match name.to_string_lossy().parse::<u32>() {
            Ok(number) if number == database() => tidy_own(&entry.path(), &known),
            Ok(number) => tidy_other(number, &entry.path()),
            // What earlier versions kept here.
            Err(_) if is_compiled(&entry) || is_abandoned(&entry) => {
                let _ = fs::remove_file(entry.path());
            }
            Err(_) => {}
        }
    }
    if let Ok(accounts) = Accounts::open() {
        accounts.set(evict(crate::guc::cache_bytes()));
    }
    Ok(())
}

/// The folder of this database.
fn tidy_own(folder: &Path, known: &HashSet<Digest>) {
    let names: HashSet<String> = known.iter().map(file_name).collect();
    for entry in entries(folder) {
        let name = entry.file_name();
        if is_compiled(&entry) && !names.contains(&*name.to_string_lossy()) || is_abandoned(&entry) {
            let _ = fs::remove_file(entry.path());
        }
    }
    if let Some(path) = registry_path() {
        let _ = fs::write(folder.join(REGISTRY), path);
    }
}

/// The folder of another database: it goes with the database, and with the extension in it.
fn tidy_other(number: u32, folder: &Path) {
    let oid = pg_sys::Datum::from(number);
    let cache = std::ffi::c_int::try_from(pg_sys::SysCacheIdentifier::DATABASEOID).unwrap_or(0);
    let none = pg_sys::Datum::from(0);
    // SAFETY: a look-up in a catalog that all databases share, within a transaction.
    let exists = unsafe { pg_sys::SearchSysCacheExists(cache, oid, none, none, none) };
    let gone = |path: String| !root().with_file_name(path.trim()).exists();
    if !exists || fs::read_to_string(folder.join(REGISTRY)).is_ok_and(gone) {
        let _ = fs::remove_dir_all(folder);
    }
}

/// Whether a writer left it and is no more.
fn is_abandoned(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let name = name.to_string_lossy();
    let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
    (name.starts_with("tmp.") || name.ends_with(&format!(".{BUILD}"))) && age.is_some_and(|age| age > ABANDONED_AFTER)
}

/// Where the table `pgml.files` of this database is stored, relative to the data directory.
fn registry_path() -> Option<String> {
    use pgrx::{FromDatum, IntoDatum};
    let relation = crate::registry::relation_oid(c"files").ok()?;
    // SAFETY: a function of a relation's oid that gives a text, or NULL.
    unsafe {
        let path = pgrx::direct_function_call_as_datum(pg_sys::pg_relation_filepath, &[relation.into_datum()])?;
        String::from_datum(path, false)
    }
}
