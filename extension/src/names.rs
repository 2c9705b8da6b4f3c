//! The model that a project's name or a model's id means, and the memory of these meanings.
//!
//! Meaning is a function of a snapshot: the newest deployment of the project that the snapshot sees. So a query sees one
//! model from its first row to its last, its parallel workers (which run under the same snapshot) see the same, and a
//! transaction sees its own deployment at once.
//!
//! A look-up costs some microseconds, so meanings are remembered, until the relcache invalidation of
//! `pgml.deployments`, which every change of the registry sends with its commit, to streaming standbys too. What keeps
//! the memory honest:
//! - A call site keeps its model as long as the snapshot is the one it was resolved under. Under another snapshot it
//!   accepts pending invalidations first: a prepared query without tables takes no lock, so nobody else would.
//! - An answer is remembered only if the latest snapshot gives it too and no invalidation came in between. The latest
//!   snapshot is kept beside it, and the memory answers only snapshots that see all that this one sees: an older
//!   snapshot (repeatable read, a cursor opened earlier) looks for itself.
//! - In parallel mode, leader and workers look for themselves: between a commit and its invalidation the leader's memory
//!   could be a moment behind what a worker sees.
//! - A transaction that has changed the registry looks for itself until it ends.
//!
//! Whether the role that asks may have the answer is part of the meaning: grants are rows of the registry, a change of
//! the roles themselves counts as an invalidation, and what is remembered is remembered for one role.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pgrx::pg_sys;
use room::{Bounds, Recent};

use crate::access::{self, Privilege};
use crate::cache::{self, Digest};
use crate::error::{Error, Result, shorten};
use crate::forecast::stored::Head;
use crate::jobs;
use crate::lookup::{self, Trial};
use crate::model::Model;
use crate::text::{self, stored::Transformer};
use crate::usage::{self, Tally};

/// What a backend remembers, and the models that it keeps mapped although no running query uses them. A mapping costs
/// address space; the weight is of what is the backend's own, which is more where no file can be mapped.
const KEPT: Bounds = Bounds { entries: 128, weight: 32 << 20 };

/// Bytes of a project's name, which has an index.
pub const LONGEST: usize = 2600;

/// What a call names its model by.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Key {
    Project(Box<str>),
    Model(i64),
}

/// What is asked: the meaning is told to a role that may do this with the project.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Question {
    key: Key,
    user: pg_sys::Oid,
    privilege: Privilege,
}

/// A snapshot's identity and extent: which transactions it sees.
#[derive(Clone, PartialEq, Eq)]
pub struct Horizon {
    xmin: u32,
    xmax: u32,
    in_progress: u32,
    in_progress_standby: i32,
    command: u32,
}

/// A model, and what counts its uses.
#[derive(Clone)]
struct Meaning {
    model: Rc<Model>,
    tally: Rc<Tally>,
}

impl Meaning {
    fn is(&self, other: &Meaning) -> bool {
        Rc::ptr_eq(&self.model, &other.model) && Rc::ptr_eq(&self.tally, &other.tally)
    }
}

struct Remembered {
    meaning: Meaning,
    /// The latest snapshot when it was remembered: its end and the transactions in progress.
    xmax: u32,
    in_progress: Vec<u32>,
}

thread_local! {
    /// Counts the invalidations received: what was resolved before the last one is not trusted.
    static GENERATION: Cell<u64> = const { Cell::new(0) };
    static DEPLOYMENTS: Cell<pg_sys::Oid> = const { Cell::new(pg_sys::InvalidOid) };
    /// The top transaction in which this backend changed the registry itself.
    static CHANGED_IN: Cell<u32> = const { Cell::new(0) };
    static MEMORY: RefCell<Recent<Question, Remembered>> = RefCell::default();
    /// Loaded models by digest, so that an invalidation that changes nothing maps nothing anew.
    static LOADED: RefCell<Recent<Digest, Rc<Model>>> = RefCell::default();
}

// Plain reads of backend state that cannot raise an ERROR, declared here because pgrx's wrappers save and restore the
// exception stack around each call, which costs more than the call, once a row.
unsafe extern "C" {
    #[link_name = "GetActiveSnapshot"]
    safe fn active_snapshot() -> pg_sys::Snapshot;
    #[link_name = "ActiveSnapshotSet"]
    safe fn active_snapshot_set() -> bool;
}

/// Registers the callbacks; once per backend, from `_PG_init`.
pub fn register() {
    // SAFETY: the callbacks are static functions and need no argument.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), pg_sys::Datum::from(0));
        for roles in [pg_sys::SysCacheIdentifier::AUTHOID, pg_sys::SysCacheIdentifier::AUTHMEMROLEMEM] {
            let cache = std::ffi::c_int::try_from(roles).unwrap_or(0);
            pg_sys::CacheRegisterSyscacheCallback(cache, Some(roles_changed), pg_sys::Datum::from(0));
        }
    }
}

/// A role, or who is its member, changed, and with it who may ask for what. As `relation_changed`.
unsafe extern "C-unwind" fn roles_changed(_argument: pg_sys::Datum, _cache: std::ffi::c_int, _hash: u32) {
    GENERATION.set(GENERATION.get() + 1);
}

/// Runs inside invalidation processing, at commit and abort too: it must not fail, allocate in PostgreSQL's memory, or
/// look at catalogs.
unsafe extern "C-unwind" fn relation_changed(_argument: pg_sys::Datum, relation: pg_sys::Oid) {
    let deployments = DEPLOYMENTS.get();
    if relation == pg_sys::InvalidOid || deployments == pg_sys::InvalidOid || relation == deployments {
        GENERATION.set(GENERATION.get() + 1);
    }
}

/// Called where this backend itself changes the registry.
pub fn changed_here() {
    // SAFETY: a transaction is open; a change has given it an id.
    CHANGED_IN.set(unsafe { pg_sys::GetTopTransactionIdIfAny() }.into_inner());
}

fn changed_in_this_transaction() -> bool {
    let changed = CHANGED_IN.get();
    // SAFETY: only reads backend state.
    changed != 0 && unsafe { pg_sys::GetTopTransactionIdIfAny() }.into_inner() == changed
}

/// What was asked, and when: an answer holds for as long as this is current.
struct Asked {
    question: Question,
    generation: u64,
    horizon: Option<Horizon>,
}

/// A resolved name, as a call site keeps it.
pub struct Resolved {
    asked: Asked,
    pub model: Rc<Model>,
    pub tally: Rc<Tally>,
}

/// The models that predictions of a project may come from.
#[derive(Debug, Clone, Copy)]
pub struct Variants {
    pub deployed: i64,
    pub trial: Option<Trial>,
}

impl std::fmt::Display for Resolved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.asked.question.key {
            Key::Project(name) => write!(f, "project \"{name}\""),
            Key::Model(id) => write!(f, "model {id}"),
        }
    }
}

impl Resolved {
    /// Whether this still answers `project` for the query that is running.
    #[inline]
    pub fn answers_project(&self, project: &[u8]) -> bool {
        self.asked.is_of_project(project)
    }

    #[inline]
    pub fn answers_model(&self, id: i64) -> bool {
        matches!(&self.asked.question.key, Key::Model(model) if *model == id) && self.asked.is_current()
    }
}

impl Asked {
    #[inline]
    fn is_of_project(&self, project: &[u8]) -> bool {
        matches!(&self.question.key, Key::Project(name) if name.as_bytes() == project) && self.is_current()
    }

    #[inline]
    fn is_current(&self) -> bool {
        self.generation == GENERATION.get() && self.question.user == access::user() && self.horizon == horizon()
    }
}

/// The active snapshot's horizon; `None` where no snapshot is active.
#[inline]
fn horizon() -> Option<Horizon> {
    if !active_snapshot_set() {
        return None;
    }
    // SAFETY: an active snapshot is set, and stays while the function runs.
    let snapshot = unsafe { &*active_snapshot() };
    Some(Horizon {
        xmin: snapshot.xmin.into_inner(),
        xmax: snapshot.xmax.into_inner(),
        in_progress: snapshot.xcnt,
        in_progress_standby: snapshot.subxcnt,
        command: snapshot.curcid,
    })
}

/// What `key` means to the query that is running, and to its role.
pub fn resolve(key: Key, privilege: Privilege) -> Result<Resolved> {
    let question = Question { key, user: access::user(), privilege };
    let _pushed = PushedSnapshot::ensure();
    // SAFETY: within a transaction; processing invalidations is allowed wherever a lock may be taken.
    unsafe { pg_sys::AcceptInvalidationMessages() };
    let snapshot = active_snapshot();
    let generation = forget_if_invalidated();
    // SAFETY: only reads backend state.
    let may_remember = !unsafe { pg_sys::IsInParallelMode() } && !changed_in_this_transaction();
    if may_remember && let Some(Meaning { model, tally }) = recall(&question, snapshot) {
        model.used();
        return Ok(Resolved { asked: Asked { question, generation, horizon: horizon() }, model, tally });
    }
    let meaning = look_up(&question, snapshot)?;
    if may_remember {
        remember_if_latest(&question, &meaning, snapshot, generation)?;
    }
    let Meaning { model, tally } = meaning;
    Ok(Resolved { asked: Asked { question, generation, horizon: horizon() }, model, tally })
}

/// The models that predictions of a project may come from, to the query that is running and its role, which may predict.
/// The last answer is kept for as long as it holds, so that a query looks but once.
pub fn variants(project: &[u8]) -> Result<Variants> {
    thread_local!(static LAST: RefCell<Option<(Asked, Variants)>> = const { RefCell::new(None) });
    let known = LAST.with_borrow(|last| {
        last.as_ref().filter(|(asked, _)| asked.is_of_project(project)).map(|(_, variants)| *variants)
    });
    if let Some(variants) = known {
        return Ok(variants);
    }
    let name: Box<str> = String::from_utf8_lossy(project).into();
    let question = Question { key: Key::Project(name.clone()), user: access::user(), privilege: Privilege::Predict };
    let _pushed = PushedSnapshot::ensure();
    // SAFETY: as in `resolve`.
    unsafe { pg_sys::AcceptInvalidationMessages() };
    let snapshot = active_snapshot();
    let generation = forget_if_invalidated();
    let deployed = model_id(&question, snapshot)?;
    let trial = match lookup::project_named(&name, snapshot)? {
        Some(project) => lookup::trial(project.id, snapshot)?,
        None => None,
    };
    let variants = Variants { deployed, trial };
    let asked = Asked { question, generation, horizon: horizon() };
    LAST.with_borrow_mut(|last| *last = Some((asked, variants)));
    Ok(variants)
}

/// Empties the memory if an invalidation came since it was filled; returns the present generation.
fn forget_if_invalidated() -> u64 {
    thread_local!(static FILLED_IN: Cell<u64> = const { Cell::new(0) });
    let generation = GENERATION.get();
    if FILLED_IN.replace(generation) != generation {
        DEPLOYMENTS.set(lookup::deployments_oid());
        MEMORY.with_borrow_mut(Recent::clear);
    } else if DEPLOYMENTS.get() == pg_sys::InvalidOid {
        DEPLOYMENTS.set(lookup::deployments_oid());
    }
    generation
}

fn recall(question: &Question, snapshot: pg_sys::Snapshot) -> Option<Meaning> {
    MEMORY.with_borrow(|memory| {
        let entry = memory.get(question)?;
        sees_all_that(snapshot, entry).then(|| entry.meaning.clone())
    })
}

/// Whether every transaction that had ended for the remembered snapshot has ended for this one.
fn sees_all_that(snapshot: pg_sys::Snapshot, entry: &Remembered) -> bool {
    // SAFETY: an active snapshot, which lives until the function returns.
    let now = unsafe { &*snapshot };
    if precedes(now.xmax.into_inner(), entry.xmax) {
        return false;
    }
    in_progress(now).all(|xid| !precedes(xid, entry.xmax) || entry.in_progress.contains(&xid))
}

/// Transaction ids are compared modulo 2^32.
fn precedes(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

fn in_progress(snapshot: &pg_sys::SnapshotData) -> impl Iterator<Item = u32> + '_ {
    let slice = |pointer: *mut pg_sys::TransactionId, count: usize| {
        if pointer.is_null() || count == 0 {
            &[]
        } else {
            // SAFETY: a snapshot's arrays hold the number of ids that it says.
            unsafe { std::slice::from_raw_parts(pointer, count) }
        }
    };
    let top = slice(snapshot.xip, snapshot.xcnt as usize);
    let sub = slice(snapshot.subxip, usize::try_from(snapshot.subxcnt).unwrap_or(0));
    top.iter().chain(sub).map(|xid| xid.into_inner())
}

fn remember_if_latest(
    question: &Question,
    meaning: &Meaning,
    snapshot: pg_sys::Snapshot,
    generation: u64,
) -> Result<()> {
    // SAFETY: within a transaction and not in parallel mode; registered before use, unregistered by the guard.
    let latest = RegisteredSnapshot(unsafe { pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot()) });
    // SAFETY: both snapshots are valid here.
    let same_extent = unsafe { extent(snapshot) == extent(latest.0) };
    let same = same_extent
        || match look_up(question, latest.0) {
            Ok(now) => now.is(meaning),
            // The name means nothing any more to the latest snapshot; the query's own snapshot is answered all the same.
            Err(Error::Report(_)) => false,
            Err(caught) => return Err(caught),
        };
    if same && GENERATION.get() == generation {
        // SAFETY: registered above.
        let latest = unsafe { &*latest.0 };
        let entry = Remembered {
            meaning: meaning.clone(),
            xmax: latest.xmax.into_inner(),
            in_progress: in_progress(latest).collect(),
        };
        // Each keeps a model mapped. Who predicts with ten thousand models in turn looks them up again.
        let weight = meaning.model.weight();
        MEMORY.with_borrow_mut(|memory| memory.insert(question.clone(), entry, weight, &KEPT, |_| true));
    }
    Ok(())
}

/// # Safety
/// `snapshot` is valid.
unsafe fn extent(snapshot: pg_sys::Snapshot) -> (u32, u32, Vec<u32>, u32) {
    // SAFETY: as the caller promises.
    let snapshot = unsafe { &*snapshot };
    (snapshot.xmin.into_inner(), snapshot.xmax.into_inner(), in_progress(snapshot).collect(), snapshot.curcid)
}

/// The stored bytes of the model that `target` means to the query that is running.
pub fn stored_bytes(target: &Resolved) -> Result<Vec<u8>> {
    let _pushed = PushedSnapshot::ensure();
    let snapshot = active_snapshot();
    lookup::model_bytes(model_id(&target.asked.question, snapshot)?, snapshot)
}

/// The id of the model that `target` means to the query that is running.
pub fn id_of(target: &Resolved) -> Result<i64> {
    let _pushed = PushedSnapshot::ensure();
    model_id(&target.asked.question, active_snapshot())
}

/// The fit of a model that has not seen the rows that its training held out, in its place.
pub fn unseen(target: Resolved) -> Result<Resolved> {
    let _pushed = PushedSnapshot::ensure();
    let snapshot = active_snapshot();
    match lookup::other_fit_bytes(model_id(&target.asked.question, snapshot)?, snapshot)? {
        None => Ok(target),
        Some(bytes) => Ok(Resolved { model: Rc::new(Model::of_bytes(&bytes)?), ..target }),
    }
}

/// The model of series that `key` means to the query that is running and to its role, and its head.
pub fn forecaster(key: Key) -> Result<(i64, Head)> {
    let question = Question { key, user: access::user(), privilege: Privilege::Predict };
    let _pushed = PushedSnapshot::ensure();
    let snapshot = active_snapshot();
    let id = model_id(&question, snapshot)?;
    match Head::read(id, snapshot)? {
        Some(head) => Ok((id, head)),
        None => Err(Error::unsupported(format!("model {id} is not one of task forecast"))
            .hint("pgml.predict gives its predictions.")),
    }
}

/// The transformer that `key` means to the query that is running and to its role, and what counts its uses.
pub fn transformer(key: Key) -> Result<(Rc<Transformer>, Rc<Tally>)> {
    let question = Question { key, user: access::user(), privilege: Privilege::Predict };
    let _pushed = PushedSnapshot::ensure();
    let snapshot = active_snapshot();
    let id = model_id(&question, snapshot)?;
    let transformer = text::stored::open(id, snapshot)?.ok_or_else(|| text::stored::is_none(id))?;
    Ok((transformer, usage::tally(id)))
}

/// What is remembered with a model of the rows of its training.
pub fn remembered(model: i64) -> Result<learn::remembered::Memory> {
    let _pushed = PushedSnapshot::ensure();
    lookup::remembered(model, active_snapshot())
}

/// How far the predictions are off of the model that `target` means to the query that is running; null where that is not
/// known.
pub fn residuals(target: &Resolved) -> Result<serde_json::Value> {
    let _pushed = PushedSnapshot::ensure();
    let snapshot = active_snapshot();
    lookup::model_residuals(model_id(&target.asked.question, snapshot)?, snapshot)
}

fn model_id(question: &Question, snapshot: pg_sys::Snapshot) -> Result<i64> {
    let Question { key, privilege, .. } = question;
    match key {
        Key::Model(id) => {
            let missing = || no_such_model(*id);
            let project = lookup::project_of_model(*id, snapshot)?.ok_or_else(missing)?;
            access::require_known(&project, *privilege, snapshot, missing)?;
            Ok(*id)
        }
        Key::Project(name) => {
            let missing = || no_such_project(name);
            let project = lookup::project_named(name, snapshot)?.ok_or_else(missing)?;
            access::require_known(&project, *privilege, snapshot, missing)?;
            lookup::deployed_model(project.id, snapshot)?.ok_or_else(|| {
                Error::undefined(format!("project \"{name}\" has no deployed model")).hint(
                    "Deploy a model with pgml.deploy(project_name, strategy), or train with automatic_deploy => true.",
                )
            })
        }
    }
}

fn look_up(question: &Question, snapshot: pg_sys::Snapshot) -> Result<Meaning> {
    let id = model_id(question, snapshot)?;
    let Some(digest) = lookup::model_digest(id, snapshot)? else {
        if lookup::digest_at(id, text::stored::is_path, snapshot)?.is_some() {
            return Err(Error::unsupported(format!("model {id} is a transformer, and predicts no rows"))
                .hint("pgml.embed and pgml.rank use transformers."));
        }
        return Err(match Head::read(id, snapshot)? {
            Some(_) => Error::unsupported(format!("model {id} forecasts series, and predicts no rows"))
                .hint("SELECT * FROM pgml.forecast('project') gives its forecasts."),
            None => no_such_model(id),
        });
    };
    let tally = usage::tally(id);
    jobs::go_on(snapshot)?;
    if let Some(model) = LOADED.with_borrow(|loaded| loaded.get(&digest).cloned()) {
        model.used();
        return Ok(Meaning { model, tally });
    }
    let mut compiled = false;
    let stored = || {
        compiled = true;
        lookup::model_bytes(id, snapshot)
    };
    let model = Rc::new(Model::load(&digest, stored)?);
    tally.opened(compiled);
    cache::tidy_if_due(|| lookup::digests(snapshot))?;
    let unused = |model: &Rc<Model>| Rc::strong_count(model) == 1;
    LOADED.with_borrow_mut(|loaded| loaded.insert(digest, model.clone(), model.weight(), &KEPT, unused));
    Ok(Meaning { model, tally })
}

/// The error for a project that is not there, or not for the current role, with the nearest names of those that are.
pub fn no_such_project(name: &str) -> Error {
    let _pushed = PushedSnapshot::ensure();
    let snapshot = active_snapshot();
    let error = Error::undefined(format!("project \"{}\" does not exist", shorten(name, 63)));
    match lookup::project_names(snapshot, |project| access::knows(project, snapshot)) {
        Err(Error::Report(_)) => error,
        Err(caught) => caught,
        Ok(names) if names.is_empty() => {
            error.hint("No project exists that you may use. pgml.train makes projects, and the owner of a project can grant its use.")
        }
        Ok(names) => error.hint(crate::nearest::hint(name, &names)),
    }
}

/// The error for a model that is not there, or not for the current role.
pub fn no_such_model(id: i64) -> Error {
    Error::undefined(format!("model {id} does not exist"))
        .hint("SELECT id, name FROM pgml.trained_models lists the models.")
}

/// Runs with a snapshot that sees what is committed now, whatever the snapshot of the query: what a role may change is
/// decided by the latest grants.
pub fn with_latest<T>(work: impl FnOnce(pg_sys::Snapshot) -> Result<T>) -> Result<T> {
    // SAFETY: within a transaction and not in parallel mode, since the functions that change the registry are parallel
    // unsafe; unregistered by the guard.
    let latest = RegisteredSnapshot(unsafe { pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot()) });
    work(latest.0)
}

/// The snapshot of the query that is running.
pub fn snapshot() -> ActiveSnapshot {
    ActiveSnapshot { _pushed: PushedSnapshot::ensure() }
}

/// Good for as long as this lives.
pub struct ActiveSnapshot {
    _pushed: PushedSnapshot,
}

impl ActiveSnapshot {
    pub fn get(&self) -> pg_sys::Snapshot {
        active_snapshot()
    }
}

struct RegisteredSnapshot(pg_sys::Snapshot);

impl Drop for RegisteredSnapshot {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: registered by us; after an ERROR the resource owner does it.
            unsafe { pg_sys::UnregisterSnapshot(self.0) }
        }
    }
}

/// Constant folding and some utility commands evaluate functions with no snapshot active.
struct PushedSnapshot(bool);

impl PushedSnapshot {
    fn ensure() -> PushedSnapshot {
        if active_snapshot_set() {
            return PushedSnapshot(false);
        }
        // SAFETY: within a transaction.
        unsafe { pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot()) };
        PushedSnapshot(true)
    }
}

impl Drop for PushedSnapshot {
    fn drop(&mut self) {
        if self.0 && !std::thread::panicking() {
            // SAFETY: pushed by us; after an ERROR the transaction's abort pops it.
            unsafe { pg_sys::PopActiveSnapshot() }
        }
    }
}
