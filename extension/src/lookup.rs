//! What the registry tables say under one snapshot: read by plain index scans, without SPI.
//!
//! Predictions read `pgml.projects`, `pgml.deployments`, `pgml.models` and `pgml.files` as the system reads its
//! catalogs: a role that may call `pgml.predict` needs no privilege on the tables, parallel workers and standbys may
//! call it too, and a lookup costs microseconds.

use std::ffi::CStr;

use pgrx::{FromDatum, IntoDatum, pg_sys};

use crate::cache::Digest;
use crate::error::{Error, Result};

/// The newest deployment of a project, or why there is none.
pub enum Deployed {
    Model(i64),
    NoSuchProject,
    NoModel,
}

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
        // SAFETY: the relation is open and the name is a C string.
        let number = unsafe { pg_sys::get_attnum((*self.relation).rd_id, name.as_ptr()) };
        if number <= 0 { Err(not_installed()) } else { Ok(number) }
    }

    /// Calls `each` with every visible row whose `attribute` equals `value`, by `index` where it exists.
    fn scan(
        &self,
        index: &CStr,
        attribute: i16,
        (equal, collation): (pg_sys::Oid, pg_sys::Oid),
        value: pg_sys::Datum,
        snapshot: pg_sys::Snapshot,
        mut each: impl FnMut(pg_sys::HeapTuple) -> Result<()>,
    ) -> Result<()> {
        let index = relation_oid(index);
        let mut key = pg_sys::ScanKeyData::default();
        // SAFETY: the key and the snapshot outlive the scan, which is ended below or, on an error, by the
        // transaction's resource owner.
        unsafe {
            pg_sys::ScanKeyEntryInitialize(
                &mut key,
                0,
                attribute,
                pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
                pg_sys::InvalidOid,
                collation,
                equal,
                value,
            );
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
    Error::undefined("the tables of extension \"pgml\" are not as it made them")
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

const BIGINT_EQUAL: (u32, u32) = (pg_sys::F_INT8EQ, 0);
const TEXT_EQUAL: (u32, u32) = (pg_sys::F_TEXTEQ, pg_sys::DEFAULT_COLLATION_OID.to_u32());

fn comparison((function, collation): (u32, u32)) -> (pg_sys::Oid, pg_sys::Oid) {
    (pg_sys::Oid::from(function), pg_sys::Oid::from(collation))
}

/// The model that a project's name means under the snapshot: that of its newest deployment.
pub fn deployed_model(project: &str, snapshot: pg_sys::Snapshot) -> Result<Deployed> {
    let projects = Table::open(c"projects")?;
    let (id, name) = (projects.attribute(c"id")?, projects.attribute(c"name")?);
    let Some(value) = project.into_datum() else { return Ok(Deployed::NoSuchProject) };
    let mut found: Option<i64> = None;
    projects.scan(c"projects_name_idx", name, comparison(TEXT_EQUAL), value, snapshot, |tuple| {
        found = projects.get(tuple, id);
        Ok(())
    })?;
    let Some(project) = found else { return Ok(Deployed::NoSuchProject) };

    let deployments = Table::open(c"deployments")?;
    let id = deployments.attribute(c"id")?;
    let project_id = deployments.attribute(c"project_id")?;
    let model_id = deployments.attribute(c"model_id")?;
    let mut newest: Option<(i64, i64)> = None;
    let value = pg_sys::Datum::from(project);
    deployments.scan(
        c"deployments_project_id_idx",
        project_id,
        comparison(BIGINT_EQUAL),
        value,
        snapshot,
        |tuple| {
            let candidate = (deployments.get(tuple, id).unwrap_or(0), deployments.get(tuple, model_id).unwrap_or(0));
            newest = newest.max(Some(candidate));
            Ok(())
        },
    )?;
    Ok(newest.map_or(Deployed::NoModel, |(_, model)| Deployed::Model(model)))
}

/// The digest of a model's stored bytes; `None` where no model of this id has any.
pub fn model_digest(model: i64, snapshot: pg_sys::Snapshot) -> Result<Option<Digest>> {
    let mut parts: Vec<(i32, Vec<u8>)> = Vec::new();
    scan_parts(model, snapshot, |files, tuple, part| {
        let digest = files.attribute(c"digest")?;
        parts.push((part, files.get::<Vec<u8>>(tuple, digest).unwrap_or_default()));
        Ok(())
    })?;
    parts.sort_unstable_by_key(|(part, _)| *part);
    let whole = match parts.as_slice() {
        [] => return Ok(None),
        [(_, digest)] => digest.clone(),
        several => sha256(several.iter().flat_map(|(_, digest)| digest.iter().copied()).collect()),
    };
    let digest = <[u8; 32]>::try_from(whole.as_slice())
        .map_err(|_| Error::corrupted(format!("the stored bytes of model {model} have no digest")))?;
    Ok(Some(Digest(digest)))
}

/// A model's stored bytes.
pub fn model_bytes(model: i64, snapshot: pg_sys::Snapshot) -> Result<Vec<u8>> {
    let mut parts: Vec<(i32, Vec<u8>)> = Vec::new();
    scan_parts(model, snapshot, |files, tuple, part| {
        let data = files.attribute(c"data")?;
        parts.push((part, files.get::<Vec<u8>>(tuple, data).unwrap_or_default()));
        Ok(())
    })?;
    parts.sort_unstable_by_key(|(part, _)| *part);
    let mut parts = parts.into_iter().map(|(_, data)| data);
    let mut bytes = parts.next().unwrap_or_default();
    for part in parts {
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

fn scan_parts(
    model: i64,
    snapshot: pg_sys::Snapshot,
    mut each: impl FnMut(&Table, pg_sys::HeapTuple, i32) -> Result<()>,
) -> Result<()> {
    let files = Table::open(c"files")?;
    let (model_id, path, part) = (files.attribute(c"model_id")?, files.attribute(c"path")?, files.attribute(c"part")?);
    let value = pg_sys::Datum::from(model);
    files.scan(c"files_model_id_path_part_idx", model_id, comparison(BIGINT_EQUAL), value, snapshot, |tuple| {
        if files.get::<String>(tuple, path).as_deref() != Some(crate::model_meta::MODEL_PATH) {
            return Ok(());
        }
        let part = files.get(tuple, part).unwrap_or(0);
        each(&files, tuple, part)
    })
}

fn sha256(bytes: Vec<u8>) -> Vec<u8> {
    let Some(datum) = bytes.into_datum() else { return Vec::new() };
    // SAFETY: sha256_bytea takes one bytea, which is not NULL, and returns a bytea.
    unsafe {
        let digest = pgrx::direct_function_call_as_datum(pg_sys::sha256_bytea, &[Some(datum)]);
        digest.and_then(|digest| Vec::<u8>::from_datum(digest, false)).unwrap_or_default()
    }
}

/// The names of some projects, so many at most, for hints.
pub fn project_names(snapshot: pg_sys::Snapshot, at_most: usize) -> Result<Vec<String>> {
    let projects = Table::open(c"projects")?;
    let name = projects.attribute(c"name")?;
    let mut names = Vec::new();
    // SAFETY: as in `Table::scan`, without a key.
    unsafe {
        let scan =
            pg_sys::systable_beginscan(projects.relation, pg_sys::InvalidOid, false, snapshot, 0, std::ptr::null_mut());
        while names.len() < at_most {
            pgrx::check_for_interrupts!();
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            names.extend(projects.get::<String>(tuple, name));
        }
        pg_sys::systable_endscan(scan);
    }
    Ok(names)
}
