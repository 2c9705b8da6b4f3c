//! Watches the files of the configuration, and reads it again when they change.
//!
//! It compares their marks (device, inode, size, time of change). This works for files that are replaced as a whole by
//! a rename, for links to folders that are swapped (as mounted Kubernetes ConfigMaps are), and for network file
//! systems, which send no kernel events. A file that is being written is read only when its marks have stayed the same
//! from one comparison to the next; for [`SHORTENED`] comparisons if it was made shorter in place, since most files that
//! are written anew begin so, and what is there already may look like the whole.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use crate::reload::{Occasion, reload};
use pooling::shared::Shared;

/// How often it is looked whether watching was turned on.
const TURNED_OFF: Duration = Duration::from_secs(1);

/// How often a file must look the same before it is read, when it has become shorter in place.
const SHORTENED: u32 = 5;

/// What changes when a file does; none for a file that is not there.
type Mark = Option<(u64, u64, u64, i64, i64)>;

fn mark(path: &Path) -> Mark {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.size(), metadata.ctime(), metadata.ctime_nsec()))
}

fn marks(paths: &[PathBuf]) -> Vec<(PathBuf, Mark)> {
    paths.iter().map(|path| (path.clone(), mark(path))).collect()
}

/// What a look at the files comes to.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// They are as they were when they were last read.
    Same,
    /// They are changing: look again.
    Moving,
    /// They have changed, and are still.
    Changed,
}

/// Whether it is the same file, with less in it.
fn is_shortened(before: Mark, now: Mark) -> bool {
    match (before, now) {
        (Some((device, inode, size, ..)), Some(now)) => (device, inode) == (now.0, now.1) && now.2 < size,
        _ => false,
    }
}

#[derive(Debug)]
struct Watch {
    /// The marks of the files that were last read, or tried.
    read: Vec<(PathBuf, Mark)>,
    /// The marks at the last look.
    seen: Vec<(PathBuf, Mark)>,
    /// For how many looks they have been like that.
    still: u32,
}

impl Watch {
    fn new(paths: &[PathBuf]) -> Self {
        let read = marks(paths);
        Self { seen: read.clone(), read, still: 0 }
    }

    fn look(&mut self) -> Look {
        let paths: Vec<PathBuf> = self.read.iter().map(|(path, _)| path.clone()).collect();
        let now = marks(&paths);
        self.still = if now == self.seen { self.still.saturating_add(1) } else { 0 };
        self.seen = now;
        let shortened = self.read.iter().zip(&self.seen).any(|((_, before), (_, now))| is_shortened(*before, *now));
        let wanted = if shortened { SHORTENED } else { 1 };
        match self.seen == self.read {
            true => Look::Same,
            false if self.still < wanted => Look::Moving,
            false => Look::Changed,
        }
    }
}

/// Watches in a thread of its own, as long as `autoreload` says so.
pub fn start(shared: Arc<Shared>) -> io::Result<()> {
    let mut watch = Watch::new(&shared.config().files);
    let run = move || {
        loop {
            let config = shared.config();
            let Some(interval) = config.settings.autoreload.limit() else {
                thread::sleep(TURNED_OFF);
                // What changed meanwhile was not to be noticed.
                watch = Watch::new(&config.files);
                continue;
            };
            thread::sleep(interval);
            if watch.look() != Look::Changed {
                continue;
            }
            // The marks are taken before the files are read: a change in between is noticed at the next look.
            watch.read.clone_from(&watch.seen);
            if reload(&shared, Occasion::Change).is_ok() {
                let files = shared.config().files.clone();
                let before = std::mem::take(&mut watch.read);
                let known = |path: &PathBuf| before.iter().find(|(name, _)| name == path).map(|(_, mark)| *mark);
                watch.read =
                    files.iter().map(|path| (path.clone(), known(path).unwrap_or_else(|| mark(path)))).collect();
                watch.seen.clone_from(&watch.read);
            }
        }
    };
    thread::Builder::new().name("watch".to_owned()).spawn(run).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_is_still_after_a_change() {
        let folder = std::env::temp_dir().join(format!("howdah-watch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a");
        std::fs::write(&path, "1").unwrap();
        let mut watch = Watch::new(std::slice::from_ref(&path));
        assert_eq!(watch.look(), Look::Same);
        std::fs::write(&path, "22").unwrap();
        assert_eq!(watch.look(), Look::Moving);
        assert_eq!(watch.look(), Look::Changed);
        // Replaced as a whole, by a file of the same size.
        std::fs::write(folder.join("b"), "33").unwrap();
        std::fs::rename(folder.join("b"), &path).unwrap();
        assert_eq!(watch.look(), Look::Moving);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(watch.look(), Look::Moving);
        assert_eq!(watch.look(), Look::Changed);
        watch.read.clone_from(&watch.seen);
        assert_eq!(watch.look(), Look::Same);
        // Made shorter in place: it may be being written.
        std::fs::write(&path, "4444").unwrap();
        let mut watch = Watch::new(std::slice::from_ref(&path));
        std::fs::write(&path, "55").unwrap();
        for _ in 0..SHORTENED {
            assert_eq!(watch.look(), Look::Moving);
        }
        assert_eq!(watch.look(), Look::Changed);
        std::fs::write(&path, "55555").unwrap();
        assert_eq!([watch.look(), watch.look()], [Look::Moving, Look::Changed]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
