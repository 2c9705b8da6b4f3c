//! Reads of the registry's tables under one snapshot, by plain index scans, without SPI.
//!
//! Predictions read `pgml.projects`, `pgml.deployments`, `pgml.models` and `pgml.files` as the system reads its
//! catalogs: a role that may call `pgml.predict` needs no privilege on the tables, parallel workers and standbys may
//! call it too, and a lookup costs microseconds.

use std::collections::HashSet;
use std::ffi::CStr;

use learn::remembered::Memory;
use pgrx::{FromDatum, IntoDatum, pg_sys};

use crate::cache::Digest;
use crate::error::{Error, Result};
use crate::memory;
use crate::model_meta;
use crate::nearest::MOST_NAMES;
use crate::text;

/// A registry table, open for reading until dropped.
struct Table {
    relation: pg_sys::Relation,
}

impl Table {
    fn open(name: &CStr) -> Result<Table> {
        let oid = relation_oid(name);
        if oid == pg_sys::InvalidOid {
            return Err(not_installed());
        }
        // SAFETY: called in a transaction of a backend, as all SQL functions are.
        let relation = unsafe { pg_sys::table_open(oid, pg_sys::AccessShareLock as pg_sys::LOCKMODE) };
        Ok(Table { relation })
    }

    fn descriptor(&self) -> pg_sys::TupleDesc {
        // SAFETY: the relation is open.
        unsafe { (*self.relation).rd_att }
    }

    fn attribute(&self, name: &CStr) -> Result<i16> {
        // By the descriptor, which is at hand: the system's cache of attributes is empty in a new connection.
        // SAFETY: the descriptor of an open relation; the name is a C string.
        let number = unsafe { pg_sys::SPI_fnumber(self.descriptor(), name.as_ptr()) };
        i16::try_from(number).ok().filter(|number| *number > 0).ok_or_else(not_installed)
    }

    /// Calls `each` with every visible row whose `attribute` equals `value`, by `index` where it exists.
    fn scan(
        &self,
        index: &CStr,
        attribute: i16,
        equal: Comparison,
        value: pg_sys::Datum,
        snapshot: pg_sys::Snapshot,
        mut each: impl FnMut(pg_sys::HeapTuple) -> Result<()>,
    ) -> Result<()> {
        let index = relation_oid(index);
        let mut key = equal_to(attribute, equal, value);
        // SAFETY: the key and the snapshot outlive the scan, which is ended below or, on an error, by the
        // transaction's resource owner.
        unsafe {
            let scan =
                pg_sys::systable_beginscan(self.relation, index, index != pg_sys::InvalidOid, snapshot, 1, &mut key);
            let mut result = Ok(());
            loop {
                let tuple = pg_sys::systable_getnext(scan);
                if tuple.is_null() {
                    break;
                }
                result = each(tuple);
                if result.is_err() {
                    break;
                }
            }
            pg_sys::systable_endscan(scan);
            result
        }
    }

    /// Gives what `read` makes of the visible row that is last in the order of `index`, of those whose `attribute`, its
    /// first, equals `value`. Of a thousand rows that are equal in it, one is read.
    fn last<T>(
        &self,
        index: &CStr,
        attribute: i16,
        equal: Comparison,
        value: pg_sys::Datum,
        snapshot: pg_sys::Snapshot,
        read: impl FnOnce(pg_sys::HeapTuple) -> T,
    ) -> Result<Option<T>> {
        let index = relation_oid(index);
        if index == pg_sys::InvalidOid {
            return Err(not_installed());
        }
        let mut key = equal_to(attribute, equal, value);
        // SAFETY: as in `scan`; the index stays open and locked for as long as the scan does.
        unsafe {
            let index = pg_sys::index_open(index, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
            let scan = pg_sys::systable_beginscan_ordered(self.relation, index, snapshot, 1, &mut key);
            let tuple = pg_sys::systable_getnext_ordered(scan, pg_sys::ScanDirection::BackwardScanDirection);
            let found = (!tuple.is_null()).then(|| read(tuple));
            pg_sys::systable_endscan_ordered(scan);
            pg_sys::index_close(index, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
            Ok(found)
        }
    }

    /// Calls `each` with every visible row, until it says no.
    fn scan_all(
        &self,
        snapshot: pg_sys::Snapshot,
        mut each: impl FnMut(pg_sys::HeapTuple) -> Result<bool>,
    ) -> Result<()> {
        let none = std::ptr::null_mut();
        // SAFETY: as in `scan`, without a key.
        unsafe {
            let scan = pg_sys::systable_beginscan(self.relation, pg_sys::InvalidOid, false, snapshot, 0, none);
            let mut result = Ok(true);
            while matches!(result, Ok(true)) {
                pgrx::check_for_interrupts!();
                let tuple = pg_sys::systable_getnext(scan);
                if tuple.is_null() {
                    break;
                }
                result = each(tuple);
            }
            pg_sys::systable_endscan(scan);
            result.map(|_| ())
        }
    }

    /// The project that an index finds.
    fn project(
        &self,
        index: &CStr,
        column: &CStr,
        equal: Comparison,
        value: pg_sys::Datum,
        snapshot: pg_sys::Snapshot,
    ) -> Result<Option<Project>> {
        let (id, owner) = (self.attribute(c"id")?, self.attribute(c"owner").ok());
        let mut found = None;
        self.scan(index, self.attribute(column)?, equal, value, snapshot, |tuple| {
            let id: Option<i64> = self.get(tuple, id);
            found = id.map(|id| Project { id, owner: owner.map(|owner| self.role(tuple, owner)) });
            Ok(())
        })?;
        Ok(found)
    }

    /// A role that a row names; 0, which no role has, for NULL.
    fn role(&self, tuple: pg_sys::HeapTuple, attribute: i16) -> pg_sys::Oid {
        self.get(tuple, attribute).unwrap_or(pg_sys::InvalidOid)
    }

    /// The attribute as `T`; `None` for NULL.
    fn get<T: FromDatum>(&self, tuple: pg_sys::HeapTuple, attribute: i16) -> Option<T> {
        let mut null = false;
        // SAFETY: the tuple belongs to this relation and is valid until the next one is fetched; values are copied
        // out (or, for varlena, used) before that.
        unsafe {
            let datum = pg_sys::heap_getattr(tuple, i32::from(attribute), self.descriptor(), &mut null);
            T::from_datum(datum, null)
        }
    }

    /// A copy of a value of type bytea; empty for NULL.
    fn bytes(&self, tuple: pg_sys::HeapTuple, attribute: i16) -> Result<Vec<u8>> {
        let Some(stored) = self.get::<pg_sys::Datum>(tuple, attribute) else { return Ok(Vec::new()) };
        let stored: *mut pg_sys::varlena = stored.cast_mut_ptr();
        // SAFETY: the value of a bytea column, valid as in `get`. What was fetched and decompressed for it is a copy of our
        // own, and goes at once: of a large model it is large, and the statement may go on for long.
        unsafe {
            let plain = pg_sys::pg_detoast_datum_packed(stored);
            let mut bytes = Vec::new();
            let copied = memory::reserve(&mut bytes, pgrx::varsize_any_exhdr(plain));
            if copied.is_ok() {
                bytes.extend_from_slice(pgrx::varlena_to_byte_slice(plain));
            }
            if plain != stored {
                pg_sys::pfree(plain.cast());
            }
            copied.map(|()| bytes)
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // an error unwinds: the resource owner closes it
        }
        // SAFETY: opened by us, closed once. The lock is given back at once, as for catalogs: what was read stands
        // under its snapshot.
        unsafe { pg_sys::table_close(self.relation, pg_sys::AccessShareLock as pg_sys::LOCKMODE) }
    }
}

fn not_installed() -> Error {
    Error::undefined("the tables of extension \"pgml\" have been changed")
        .hint("Restore them, or run ALTER EXTENSION pgml UPDATE.")
}

fn relation_oid(name: &CStr) -> pg_sys::Oid {
    // SAFETY: catalog look-ups within a transaction.
    unsafe {
        let schema = pg_sys::get_namespace_oid(c"pgml".as_ptr(), true);
        if schema == pg_sys::InvalidOid {
            return schema;
        }
        pg_sys::get_relname_relid(name.as_ptr(), schema)
    }
}

/// The table whose relcache invalidations announce that names may mean something else.
pub fn deployments_oid() -> pg_sys::Oid {
    relation_oid(c"deployments")
}

/// The table of models, which another one of the name is not when the extension was dropped and made again.
pub fn models_oid() -> pg_sys::Oid {
    relation_oid(c"models")
}

const BIGINT_EQUAL: (u32, u32) = (pg_sys::F_INT8EQ, 0);
const TEXT_EQUAL: (u32, u32) = (pg_sys::F_TEXTEQ, pg_sys::DEFAULT_COLLATION_OID.to_u32());

/// A function that tells whether two values are equal, and its collation.
type Comparison = (pg_sys::Oid, pg_sys::Oid);

/// The condition of a scan.
fn equal_to(attribute: i16, (equal, collation): Comparison, value: pg_sys::Datum) -> pg_sys::ScanKeyData {
    let mut key = pg_sys::ScanKeyData::default();
    let strategy = pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber;
    // SAFETY: fills in the key, by a look-up of the function.
    unsafe {
        let none = pg_sys::InvalidOid;
        pg_sys::ScanKeyEntryInitialize(&mut key, 0, attribute, strategy, none, collation, equal, value);
    }
    key
}

fn comparison((function, collation): (u32, u32)) -> Comparison {
    (pg_sys::Oid::from(function), pg_sys::Oid::from(collation))
}

/// A project, and who it belongs to.
pub struct Project {
    pub id: i64,
    /// `None` where the tables are still those of pgml 3.0.0, under which projects belonged to nobody.
    pub owner: Option<pg_sys::Oid>,
}

/// The project of that name.
pub fn project_named(name: &str, snapshot: pg_sys::Snapshot) -> Result<Option<Project>> {
    let Some(value) = name.into_datum() else { return Ok(None) };
    let projects = Table::open(c"projects")?;
    projects.project(c"projects_name_idx", c"name", comparison(TEXT_EQUAL), value, snapshot)
}

/// The project of that id.
pub fn project(id: i64, snapshot: pg_sys::Snapshot) -> Result<Option<Project>> {
    let projects = Table::open(c"projects")?;
    projects.project(c"projects_pkey", c"id", comparison(BIGINT_EQUAL), pg_sys::Datum::from(id), snapshot)
}

/// The name of the project of that id.
pub fn project_name(id: i64, snapshot: pg_sys::Snapshot) -> Result<String> {
    let projects = Table::open(c"projects")?;
    let (key, name) = (projects.attribute(c"id")?, projects.attribute(c"name")?);
    let mut found = String::new();
    let value = pg_sys::Datum::from(id);
    projects.scan(c"projects_pkey", key, comparison(BIGINT_EQUAL), value, snapshot, |tuple| {
        found = projects.get(tuple, name).unwrap_or_default();
        Ok(())
    })?;
    Ok(found)
}

/// The project that a model belongs to.
pub fn project_of_model(model: i64, snapshot: pg_sys::Snapshot) -> Result<Option<Project>> {
    let models = Table::open(c"models")?;
    let (id, project_id) = (models.attribute(c"id")?, models.attribute(c"project_id")?);
    let mut found: Option<i64> = None;
    let value = pg_sys::Datum::from(model);
    models.scan(c"models_pkey", id, comparison(BIGINT_EQUAL), value, snapshot, |tuple| {
        found = models.get(tuple, project_id);
        Ok(())
    })?;
    // One table at a time: an update of the extension locks them in another order.
    drop(models);
    match found {
        Some(id) => project(id, snapshot),
        None => Ok(None),
    }
}

/// How far the predictions of a model are off; null where that is not known.
pub fn model_residuals(model: i64, snapshot: pg_sys::Snapshot) -> Result<serde_json::Value> {
    let models = Table::open(c"models")?;
    let id = models.attribute(c"id")?;
    let mut found = serde_json::Value::Null;
    // The tables of before pgml 3.2.0 do not have it.
    let Ok(residuals) = models.attribute(c"residuals") else { return Ok(found) };
    let value = pg_sys::Datum::from(model);
    models.scan(c"models_pkey", id, comparison(BIGINT_EQUAL), value, snapshot, |tuple| {
        found = models.get::<pgrx::JsonB>(tuple, residuals).map(|residuals| residuals.0).unwrap_or_default();
        Ok(())
    })?;
    Ok(found)
}

/// The projects of the models that were trained on a snapshot (of data).
pub fn projects_of_data(data: i64, snapshot: pg_sys::Snapshot) -> Result<Vec<i64>> {
    let models = Table::open(c"models")?;
    let (snapshot_id, project_id) = (models.attribute(c"snapshot_id")?, models.attribute(c"project_id")?);
    let mut found: Vec<i64> = Vec::new();
    let value = pg_sys::Datum::from(data);
    models.scan(c"models_snapshot_id_idx", snapshot_id, comparison(BIGINT_EQUAL), value, snapshot, |tuple| {
        found.extend(models.get::<i64>(tuple, project_id).filter(|id| !found.contains(id)));
        Ok(())
    })?;
    Ok(found)
}

/// The model of a project's newest deployment.
pub fn deployed_model(project: i64, snapshot: pg_sys::Snapshot) -> Result<Option<i64>> {
    let deployments = Table::open(c"deployments")?;
    let (project_id, model_id) = (deployments.attribute(c"project_id")?, deployments.attribute(c"model_id")?);
    let (index, equal) = (c"deployments_project_id_idx", comparison(BIGINT_EQUAL));
    let value = pg_sys::Datum::from(project);
    let model = |tuple| deployments.get(tuple, model_id).unwrap_or(0);
    deployments.last(index, project_id, equal, value, snapshot, model)
}

/// A model that is on trial beside the one that answers for its project.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    pub model: i64,
    /// Of the keys for which it answers, of a canary; a shadow answers for none.
    pub share: Option<f64>,
}

/// The model that is on trial in a project.
pub fn trial(project: i64, snapshot: pg_sys::Snapshot) -> Result<Option<Trial>> {
    // The tables of before pgml 3.2.0 do not have it.
    if relation_oid(c"trials") == pg_sys::InvalidOid {
        return Ok(None);
    }
    let trials = Table::open(c"trials")?;
    let project_id = trials.attribute(c"project_id")?;
    let (model_id, share) = (trials.attribute(c"model_id")?, trials.attribute(c"share")?);
    let mut found = None;
    let value = pg_sys::Datum::from(project);
    trials.scan(c"trials_pkey", project_id, comparison(BIGINT_EQUAL), value, snapshot, |tuple| {
        found = trials.get(tuple, model_id).map(|model| Trial { model, share: trials.get(tuple, share) });
        Ok(())
    })?;
    Ok(found)
}

/// Whether there are jobs that have not ended.
pub fn has_jobs(snapshot: pg_sys::Snapshot) -> Result<bool> {
    // The tables may still be those of pgml 3.0.0.
    if relation_oid(c"training_jobs") == pg_sys::InvalidOid {
        return Ok(false);
    }
    let jobs = Table::open(c"training_jobs")?;
    let status = jobs.attribute(c"status")?;
    let mut found = false;
    jobs.scan_all(snapshot, |tuple| {
        found = matches!(jobs.get::<&str>(tuple, status), Some("queued" | "running"));
        Ok(!found)
    })?;
    Ok(found)
}

/// Calls `each` with every grant on a project, the role (0 for PUBLIC) and what it may do, until it has one that it was
/// looking for.
pub fn any_grant(
    project: i64,
    snapshot: pg_sys::Snapshot,
    mut each: impl FnMut(pg_sys::Oid, &str) -> bool,
) -> Result<bool> {
    let privileges = Table::open(c"privileges")?;
    let project_id = privileges.attribute(c"project_id")?;
    let (grantee, privilege) = (privileges.attribute(c"grantee")?, privileges.attribute(c"privilege")?);
    let mut found = false;
    let value = pg_sys::Datum::from(project);
    privileges.scan(c"privileges_pkey", project_id, comparison(BIGINT_EQUAL), value, snapshot, |tuple| {
        if let (false, Some(role), Some(what)) =
            (found, privileges.get::<pg_sys::Oid>(tuple, grantee), privileges.get::<&str>(tuple, privilege))
        {
            found = each(role, what);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The digest of a model's stored bytes; `None` where no model of this id has any.
pub fn model_digest(model: i64, snapshot: pg_sys::Snapshot) -> Result<Option<Digest>> {
    digest_at(model, model_meta::is_model_path, snapshot)
}

/// The digest of the bytes of a model that stand where `is_there` says; `None` where there are none.
pub fn digest_at(model: i64, is_there: impl Fn(&str) -> bool, snapshot: pg_sys::Snapshot) -> Result<Option<Digest>> {
    let mut parts: Vec<(i32, Vec<u8>)> = Vec::new();
    scan_parts(model, is_there, snapshot, |files, tuple, part| {
        let digest = files.attribute(c"digest")?;
        parts.push((part, files.get::<Vec<u8>>(tuple, digest).unwrap_or_default()));
        Ok(())
    })?;
    if parts.is_empty() {
        return Ok(None);
    }
    parts.sort_unstable_by_key(|(part, _)| *part);
    let digest = whole_digest(parts.iter().map(|(_, digest)| digest.as_slice()));
    match digest {
        Some(digest) => Ok(Some(digest)),
        None => Err(Error::corrupted(format!("the stored bytes of model {model} have no digest"))),
    }
}

/// The digests of all models.
pub fn digests(snapshot: pg_sys::Snapshot) -> Result<HashSet<Digest>> {
    let files = Table::open(c"files")?;
    let (model_id, path) = (files.attribute(c"model_id")?, files.attribute(c"path")?);
    let (part, digest) = (files.attribute(c"part")?, files.attribute(c"digest")?);
    let mut parts: Vec<(i64, i32, Vec<u8>)> = Vec::new();
    files.scan_all(snapshot, |tuple| {
        let has_image = |path| model_meta::is_model_path(path) || text::stored::is_path(path);
        if files.get::<&str>(tuple, path).is_some_and(has_image) {
            let digest = files.get::<Vec<u8>>(tuple, digest).unwrap_or_default();
            parts.push((files.get(tuple, model_id).unwrap_or(0), files.get(tuple, part).unwrap_or(0), digest));
        }
        Ok(true)
    })?;
    parts.sort_unstable();
    let models = parts.chunk_by(|(one, ..), (other, ..)| one == other);
    Ok(models.filter_map(|parts| whole_digest(parts.iter().map(|(.., digest)| digest.as_slice()))).collect())
}

/// The digest of a model whose parts have these.
fn whole_digest<'a>(mut parts: impl ExactSizeIterator<Item = &'a [u8]>) -> Option<Digest> {
    let whole = match parts.len() {
        1 => parts.next()?.to_vec(),
        _ => sha256(parts.flatten().copied().collect()),
    };
    <[u8; 32]>::try_from(whole.as_slice()).ok().map(Digest)
}

/// A model's stored bytes.
pub fn model_bytes(model: i64, snapshot: pg_sys::Snapshot) -> Result<Vec<u8>> {
    bytes_at(model, model_meta::is_model_path, snapshot)
}

/// The stored bytes of a model as it was before it was fitted again on all rows: it has not seen those that its training
/// held out. The model's own where it was not fitted again.
pub fn unseen_model_bytes(model: i64, snapshot: pg_sys::Snapshot) -> Result<Vec<u8>> {
    match other_fit_bytes(model, snapshot)? {
        Some(bytes) => Ok(bytes),
        None => model_bytes(model, snapshot),
    }
}

/// The same; `None` where it was not fitted again.
pub fn other_fit_bytes(model: i64, snapshot: pg_sys::Snapshot) -> Result<Option<Vec<u8>>> {
    let bytes = bytes_at(model, model_meta::is_held_out_path, snapshot)?;
    Ok((!bytes.is_empty()).then_some(bytes))
}

/// What is remembered with a model of the rows of its training.
pub fn remembered(model: i64, snapshot: pg_sys::Snapshot) -> Result<Memory> {
    let bytes = bytes_at(model, |path| path == model_meta::ROWS_PATH, snapshot)?;
    Ok(Memory::from_bytes(&bytes)?)
}

/// The bytes of a model that stand where `is_there` says.
pub fn bytes_at(model: i64, is_there: impl Fn(&str) -> bool, snapshot: pg_sys::Snapshot) -> Result<Vec<u8>> {
    let mut parts: Vec<(i32, Vec<u8>)> = Vec::new();
    scan_parts(model, is_there, snapshot, |files, tuple, part| {
        parts.push((part, files.bytes(tuple, files.attribute(c"data")?)?));
        Ok(())
    })?;
    parts.sort_unstable_by_key(|(part, _)| *part);
    if let Some((number, _)) = (0..).zip(&parts).find(|(expected, (part, _))| part != expected) {
        return Err(Error::corrupted(format!("part {number} of the stored bytes of model {model} is missing")));
    }
    let mut parts = parts.into_iter().map(|(_, data)| data);
    let mut bytes = parts.next().unwrap_or_default();
    for part in parts {
        memory::reserve(&mut bytes, part.len())?;
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

fn scan_parts(
    model: i64,
    is_there: impl Fn(&str) -> bool,
    snapshot: pg_sys::Snapshot,
    mut each: impl FnMut(&Table, pg_sys::HeapTuple, i32) -> Result<()>,
) -> Result<()> {
    let files = Table::open(c"files")?;
    let (model_id, path, part) = (files.attribute(c"model_id")?, files.attribute(c"path")?, files.attribute(c"part")?);
    let value = pg_sys::Datum::from(model);
    files.scan(c"files_model_id_path_part_idx", model_id, comparison(BIGINT_EQUAL), value, snapshot, |tuple| {
        if !files.get::<String>(tuple, path).as_deref().is_some_and(&is_there) {
            return Ok(());
        }
        let part = files.get(tuple, part).unwrap_or(0);
        each(&files, tuple, part)
    })
}

/// The SHA-256 of these bytes.
pub fn sha256(bytes: Vec<u8>) -> Vec<u8> {
    let Some(datum) = bytes.into_datum() else { return Vec::new() };
    // SAFETY: sha256_bytea takes one bytea, which is not NULL, and returns a bytea.
    unsafe {
        let digest = pgrx::direct_function_call_as_datum(pg_sys::sha256_bytea, &[Some(datum)]);
        digest.and_then(|digest| Vec::<u8>::from_datum(digest, false)).unwrap_or_default()
    }
}

/// The names of some projects, those that `wanted` says yes to, for hints: a bounded number, of a bounded number of rows.
pub fn project_names(
    snapshot: pg_sys::Snapshot,
    mut wanted: impl FnMut(&Project) -> Result<bool>,
) -> Result<Vec<String>> {
    let projects = Table::open(c"projects")?;
    let (id, name) = (projects.attribute(c"id")?, projects.attribute(c"name")?);
    let owner = projects.attribute(c"owner").ok();
    let (mut names, mut rows) = (Vec::new(), 0);
    projects.scan_all(snapshot, |tuple| {
        let id = projects.get(tuple, id).unwrap_or(0);
        if wanted(&Project { id, owner: owner.map(|owner| projects.role(tuple, owner)) })? {
            names.extend(projects.get::<String>(tuple, name));
        }
        rows += 1;
        Ok(rows < 10 * MOST_NAMES && names.len() < MOST_NAMES)
    })?;
    Ok(names)
}
