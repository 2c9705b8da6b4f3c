//! Rows on their way into the library: its iterator calls back into here, and here the source is asked for a chunk,
//! the chunk is checked, and shown to the library through a proxy.
//!
//! Between the source and the library stands C++, through which neither an `Err` nor a panic can travel: the first one
//! is kept, the iteration ended as if there were no more rows, and what was kept is the result.
//!
//! The library sizes its buffers in the first pass and fills them in later ones without looking, so a source that
//! changed in between would write past their ends. Hence a digest of every chunk of the first pass is kept, 16 bytes,
//! and later chunks are compared with it before the library sees them.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::library::{Handle, Library, Next, Reset};
use super::matrix::{Proxy, interface, set_columns_info, set_rows_info};
use super::{Columns, Task};
use crate::Error;
use crate::rows::{Chunk, Rows, Stop};
use crate::signals::Mask;

/// The rows of one matrix.
pub(super) struct Feed<'l, 's> {
    library: &'l Library,
    proxy: Proxy<'l>,
    source: &'s mut dyn Rows,
    checks: Checks<'s>,
    purpose: &'static str,
    /// One entry a chunk that is not empty.
    seen: Vec<Seen>,
    /// Whether `seen` is complete.
    known: bool,
    /// The chunk that comes next.
    position: usize,
    rows: u64,
    failure: Option<Error>,
    /// What the caller has blocked, while the library is being called.
    mask: Option<Mask>,
}

/// What a chunk was like in the first pass.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    rows: usize,
    digest: u64,
}

/// The rows may be larger than the memory.
fn append(all: &mut Vec<f32>, more: &[f32]) -> Result<(), Error> {
    room::reserve(all, more.len()).map_err(|_| Error::Memory)?;
    all.extend_from_slice(more);
    Ok(())
}

/// All features, labels and weights of a source.
type Gathered = (Vec<f32>, Vec<f32>, Option<Vec<f32>>);

impl<'l, 's> Feed<'l, 's> {
    /// `purpose` ends the sentence "there are no rows to ...".
    pub(super) fn new(
        library: &'l Library,
        source: &'s mut dyn Rows,
        columns: &'s Columns,
        task: Task,
        purpose: &'static str,
    ) -> Result<Feed<'l, 's>, Error> {
        let (have, want) = (source.width(), columns.width());
        if have != want {
            return Err(Error::Shape(format!("rows have {have} features, and there are {want} columns")));
        }
        let proxy = Proxy::create(library)?;
        let checks = Checks { columns, categorical: columns.categorical(), task, targets: None, weighted: None };
        Ok(Feed {
            library,
            proxy,
            source,
            checks,
            purpose,
            seen: Vec::new(),
            known: false,
            position: 0,
            rows: 0,
            failure: None,
            mask: None,
        })
    }

    pub(super) fn library(&self) -> &'l Library {
        self.library
    }

    pub(super) fn proxy(&self) -> Handle {
        self.proxy.handle
    }

    /// How many rows the source has; known after the first pass.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Lets the library iterate: `run` is given what it needs to call back. What the source refused comes first, since
    /// the library's own complaint is then only about the rows that did not come.
    pub(super) fn iterate(
        &mut self,
        run: impl FnOnce(*mut c_void, Reset, Next) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.mask = Some(Mask::current());
        let context = std::ptr::from_mut(self).cast::<c_void>();
        let result = run(context, on_reset, on_next);
        self.mask = None;
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => result,
        }
    }

    /// All rows at once.
    pub(super) fn gather(&mut self) -> Result<Gathered, Error> {
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        let mut weights: Option<Vec<f32>> = None;
        let source = &mut self.source;
        stoppable(|| source.rewind())?;
        while let Some(chunk) = stoppable(|| source.next())? {
            if is_empty(&chunk) {
                continue;
            }
            self.checks.shape(&chunk)?;
            self.checks.values(&chunk, self.rows)?;
            append(&mut features, chunk.features)?;
            append(&mut labels, chunk.labels)?;
            if let Some(some) = chunk.weights {
                append(weights.get_or_insert_default(), some)?;
            }
            self.rows += self.checks.rows(&chunk) as u64;
        }
        if self.rows == 0 {
            return Err(Error::NoRows(self.purpose));
        }
        Ok((features, labels, weights))
    }

    fn rewind(&mut self) -> Result<(), Error> {
        // A pass that was given up half-way says nothing about how many rows there are.
        if !self.known {
            self.seen.clear();
            self.rows = 0;
        }
        self.position = 0;
        self.on_callers_mask(|feed| feed.source.rewind().map_err(Error::Stopped))
    }

    /// Shows the library the next chunk; `false` after the last one.
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            let caller = self.mask;
            let chunk = {
                let _open = caller.map(Open::new);
                self.source.next().map_err(Error::Stopped)?
            };
            let Some(chunk) = chunk else { break };
            if is_empty(&chunk) {
                continue;
            }
            self.checks.shape(&chunk)?;
            let seen_rows = self.checks.rows(&chunk);
            let seen = Seen { rows: seen_rows, digest: digest(&chunk) };
            if !self.known {
                self.checks.values(&chunk, self.rows)?;
                self.rows += seen.rows as u64;
                self.seen.push(seen);
            } else if self.seen.get(self.position) != Some(&seen) {
                return Err(changed(&self.seen, self.position));
            }
            self.position += 1;

            let handle = self.proxy.handle;
            let data = interface(chunk.features, seen_rows, self.checks.columns.width());
            // SAFETY: `data` describes `chunk.features`, which the source keeps until it is called again, and that is
            // not before the library has asked for the next chunk.
            self.library.call(|functions| unsafe { (functions.proxy_dense)(handle, data.as_ptr()) })?;
            set_rows_info(self.library, handle, seen_rows, chunk.labels, chunk.weights)?;
            set_columns_info(self.library, handle, self.checks.columns)?;
            return Ok(true);
        }
        if !self.known {
            if self.rows == 0 {
                return Err(Error::NoRows(self.purpose));
            }
            self.known = true;
        } else if self.position != self.seen.len() {
            return Err(changed(&self.seen, self.position));
        }
        Ok(false)
    }

    /// Runs `work` with the signals of the caller, and blocks them all again.
    fn on_callers_mask<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let _open = self.mask.map(Open::new);
        work(self)
    }

    /// Keeps the first failure, a panic among them, and says whether to go on.
    fn guarded(&mut self, work: impl FnOnce(&mut Self) -> Result<bool, Error>) -> bool {
        if self.failure.is_some() {
            return false;
        }
        let result = catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|panic| Err(Error::Stopped(panic)));
        result.unwrap_or_else(|failure| {
            self.failure = Some(failure);
            false
        })
    }
}

/// Calls what belongs to the caller; its `Err` and its panic both end the training.
pub(super) fn stoppable<T>(work: impl FnOnce() -> Result<T, Stop>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(Err).map_err(Error::Stopped)
}

/// While it lives, the signals of the caller can be delivered.
struct Open;

impl Open {
    fn new(caller: Mask) -> Open {
        caller.set();
        Open
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        Mask::block_all();
    }
}

unsafe extern "C" fn on_reset(context: *mut c_void) {
    // SAFETY: `iterate` passed a pointer to the feed that it has borrowed exclusively until the library is done.
    let feed = unsafe { &mut *context.cast::<Feed<'_, '_>>() };
    feed.guarded(|feed| feed.rewind().map(|()| true));
}

unsafe extern "C" fn on_next(context: *mut c_void) -> c_int {
    // SAFETY: as above.
    let feed = unsafe { &mut *context.cast::<Feed<'_, '_>>() };
    c_int::from(feed.guarded(Feed::advance))
}

/// Not even malformed.
fn is_empty(chunk: &Chunk<'_>) -> bool {
    chunk.labels.is_empty() && chunk.features.is_empty()
}

fn changed(seen: &[Seen], position: usize) -> Error {
    let rows: usize = seen.iter().take(position).map(|seen| seen.rows).sum();
    Error::Changed(format!("after row {rows} they are not those of the first pass"))
}

/// What a chunk has to be like.
struct Checks<'s> {
    columns: &'s Columns,
    categorical: Vec<(usize, u32)>,
    task: Task,
    /// Labels of a row; known after the first chunk.
    targets: Option<usize>,
    /// Whether there are weights; known after the first chunk.
    weighted: Option<bool>,
}

impl Checks<'_> {
    fn rows(&self, chunk: &Chunk<'_>) -> usize {
        chunk.labels.len() / self.targets.unwrap_or(1).max(1)
    }

    fn shape(&mut self, chunk: &Chunk<'_>) -> Result<(), Error> {
        let width = self.columns.width();
        // Several labels a row are those of several targets, which only a regression has.
        let several = || match (chunk.features.len() / width.max(1), self.task) {
            (rows @ 1.., Task::Regression) if chunk.labels.len().is_multiple_of(rows) => chunk.labels.len() / rows,
            _ => 1,
        };
        let targets = self.targets.unwrap_or_else(several).max(1);
        self.targets = Some(targets);
        let rows = chunk.labels.len() / targets;
        if Some(chunk.features.len()) != rows.checked_mul(width) {
            let have = chunk.features.len();
            return Err(Error::Shape(format!("{have} features for {rows} rows of {width}")));
        }
        if chunk.labels.len() != rows * targets {
            return Err(Error::Shape(format!("{} labels for {rows} rows of {targets}", chunk.labels.len())));
        }
        if let Some(weights) = chunk.weights.filter(|weights| weights.len() != rows) {
            return Err(Error::Shape(format!("{} weights for {rows} rows", weights.len())));
        }
        if *self.weighted.get_or_insert(chunk.weights.is_some()) != chunk.weights.is_some() {
            return Err(Error::Shape("some chunks have weights and some have none".into()));
        }
        Ok(())
    }

    /// Looks for what the library would refuse without saying where, or take without knowing better.
    fn values(&self, chunk: &Chunk<'_>, before: u64) -> Result<(), Error> {
        let width = self.columns.width();
        let row = |index: usize| before + index as u64 + 1;
        if chunk.features.iter().any(|value| value.is_infinite()) {
            let at = chunk.features.iter().position(|value| value.is_infinite()).unwrap_or(0);
            return Err(Error::Infinite { column: self.columns.name(at % width), row: row(at / width) });
        }
        for &(column, categories) in &self.categorical {
            let values = chunk.features.iter().skip(column).step_by(width);
            let wrong = |value: &f32| !(value.is_nan() || is_index(*value, categories));
            if let Some((index, value)) = values.enumerate().find(|(_, value)| wrong(value)) {
                let column = self.columns.name(column);
                return Err(Error::Category { column, row: row(index), value: *value, categories });
            }
        }
        let wrong = |label: &f32| match self.task {
            Task::Regression => !label.is_finite(),
            Task::Classification { classes } => !is_index(*label, classes),
        };
        if let Some((index, &value)) = chunk.labels.iter().enumerate().find(|(_, label)| wrong(label)) {
            let allowed = match self.task {
                Task::Regression => "labels of a regression are finite numbers".into(),
                Task::Classification { classes } => {
                    format!("labels of a classification are whole numbers from 0 to {}", classes - 1)
                }
            };
            return Err(Error::Label { row: row(index / self.targets.unwrap_or(1).max(1)), value, allowed });
        }
        let mut weights = chunk.weights.unwrap_or_default().iter().enumerate();
        if let Some((index, &value)) = weights.find(|(_, weight)| !(weight.is_finite() && **weight >= 0.0)) {
            return Err(Error::Weight { row: row(index), value });
        }
        Ok(())
    }
}

/// Whether the value is a whole number from 0 to below `count`.
fn is_index(value: f32, count: u32) -> bool {
    value >= 0.0 && f64::from(value) < f64::from(count) && value.fract() == 0.0
}

/// A number that differs for chunks that differ, but for a chance of one in 2^60 or so; four multiplications at a
/// time, since this runs over all rows in every pass.
fn digest(chunk: &Chunk<'_>) -> u64 {
    let parts = [chunk.features, chunk.labels, chunk.weights.unwrap_or_default()];
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| mix(state ^ hash(part)))
}

fn hash(values: &[f32]) -> u64 {
    const PRIMES: [u64; 4] =
        [0x9e37_79b1_85eb_ca87, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0x85eb_ca77_c2b2_ae63];
    let mut lanes = PRIMES;
    let groups = values.chunks_exact(8);
    let rest = groups.remainder();
    for group in groups {
        if let [a, b, c, d, e, f, g, h] = *group {
            let pairs = [(a, b), (c, d), (e, f), (g, h)];
            for ((lane, (low, high)), prime) in lanes.iter_mut().zip(pairs).zip(PRIMES) {
                let pair = u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32;
                *lane = (*lane ^ pair).wrapping_mul(prime).rotate_left(29);
            }
        }
    }
    let mut state = values.len() as u64;
    for lane in lanes {
        state = mix(state ^ lane);
    }
    for value in rest {
        state = mix(state ^ u64::from(value.to_bits()));
    }
    state
}

fn mix(mut state: u64) -> u64 {
    state = (state ^ (state >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    state = (state ^ (state >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    state ^ (state >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_sees_every_value_and_its_place() {
        let base: Vec<f32> = (0..37).map(|i| i as f32 * 0.5).collect();
        let of = |features: &[f32]| digest(&Chunk { features, labels: &[1.0], weights: None });
        let reference = of(&base);
        for i in 0..base.len() {
            let mut other = base.clone();
            other[i] = f32::from_bits(other[i].to_bits() ^ 1);
            assert_ne!(of(&other), reference, "value {i}");
            let mut swapped = base.clone();
            swapped.swap(i, (i + 8) % base.len());
            assert_ne!(of(&swapped), reference, "place {i}");
        }
        assert_ne!(of(&[0.0]), of(&[-0.0]));
        assert_ne!(of(&base[..36]), reference);
    }

    #[test]
    fn an_index_is_a_whole_number_in_range() {
        for (value, wanted) in [(0.0, true), (2.0, true), (3.0, false), (-1.0, false), (0.5, false), (-0.0, true)] {
            assert_eq!(is_index(value, 3), wanted, "{value}");
        }
        assert!(!is_index(f32::NAN, 3) && !is_index(f32::INFINITY, 3));
    }
}
