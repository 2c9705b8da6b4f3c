//! The types that one connection knows.
//!
//! A codec is looked for among those that the program set, then the built-in ones, then those learnt from the server.
//! A built-in array or range whose element the program has given a codec of its own is made anew around that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::composite::Composite;
use super::custom::{Custom, Exchange};
use super::introspect::TypeRow;
use super::python::{exception, exception_with};
use super::{Body, Codec, Context, Format, Imports, Kind, Manner, Scalar, catalog};

/// The types of one connection; clones are the same registry.
#[derive(Clone, Debug)]
pub struct Registry(Arc<Shared>, bool);

#[derive(Debug)]
struct Shared {
    utf8: AtomicBool,
    /// Whether values are cut off to what their type holds of them, as asyncpg does.
    truncates: AtomicBool,
    /// Whether the values of results stay PostgreSQL's text.
    texts: AtomicBool,
    /// Python's name of the client's encoding.
    encoding: RwLock<String>,
    /// The session's time zone, `None` for UTC; and whether there is one.
    zone: RwLock<Option<Py<PyAny>>>,
    zoned: AtomicBool,
    types: Mutex<Types>,
}

/// Codecs dropped while the lock is held could run Python code that comes back here: what is taken out is dropped
/// after the lock is released.
#[derive(Debug, Default)]
struct Types {
    custom: HashMap<u32, Arc<Codec>>,
    derived: HashMap<u32, Arc<Codec>>,
}

/// A type of which nothing is known, as that of a parameter which the server infers: text.
pub static UNKNOWN: LazyLock<Arc<Codec>> =
    LazyLock::new(|| scalar(0, "unknown", "pg_catalog", Format::Text, Scalar::Text));

/// A type as the server calls it.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub oid: u32,
    pub name: &'a str,
    pub schema: &'a str,
    pub kind: Kind,
}

impl Named<'_> {
    fn codec(self, format: Format, body: Body) -> Arc<Codec> {
        let (name, schema) = (self.name.to_owned(), self.schema.to_owned());
        Arc::new(Codec { oid: self.oid, name, schema, kind: self.kind, format, body })
    }
}

/// Why no codec can be made.
enum Refusal {
    TextParts(&'static str),
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// A registry that knows the built-in types; the client's encoding is UTF-8.
    pub fn new() -> Self {
        let shared = Shared {
            utf8: AtomicBool::new(true),
            truncates: AtomicBool::new(false),
            texts: AtomicBool::new(false),
            encoding: RwLock::new("utf-8".to_owned()),
            zone: RwLock::default(),
            zoned: AtomicBool::new(false),
            types: Mutex::default(),
        };
        Registry(Arc::new(shared), false)
    }

    /// The same types, for the statements of the synchronous interface: values fit no type but their own
    /// ([`Manner::Typed`]), and are read as psycopg reads them. A `timestamptz` is in the session's time zone, a `real`
    /// is its shortest digits, a `numeric` has no exponent, and what Python's classes do not hold, the infinities too,
    /// is a `DataError`; the first and the last date are themselves.
    pub fn typed(&self) -> Self {
        Registry(self.0.clone(), true)
    }

    /// Whether values fit no type but their own.
    pub fn is_typed(&self) -> bool {
        self.1
    }

    /// Has the values of results stay PostgreSQL's text.
    pub fn keep_texts(&self) {
        self.0.texts.store(true, Ordering::Relaxed);
    }

    /// Whether the values of results stay PostgreSQL's text.
    pub fn keeps_texts(&self) -> bool {
        self.0.texts.load(Ordering::Relaxed)
    }

    /// Has values cut off to what their type holds of them.
    pub fn set_truncates(&self, truncates: bool) {
        self.0.truncates.store(truncates, Ordering::Relaxed);
    }

    fn manner(&self) -> Manner {
        if self.1 {
            Manner::Typed
        } else if self.0.truncates.load(Ordering::Relaxed) {
            Manner::Truncating
        } else {
            Manner::Exact
        }
    }

    /// Takes the session's time zone, a `tzinfo`; `None` for UTC.
    pub fn set_zone(&self, zone: Option<Py<PyAny>>) {
        self.0.zoned.store(zone.is_some(), Ordering::Relaxed);
        let replaced = std::mem::replace(&mut *self.0.zone.write().unwrap_or_else(PoisonError::into_inner), zone);
        drop(replaced);
    }

    /// The session's time zone, if it is another than UTC.
    pub fn zone<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let zone = self.0.zone.read().unwrap_or_else(PoisonError::into_inner);
        zone.as_ref().map(|zone| zone.bind(py).clone())
    }

    /// Takes Python's name of the client's encoding.
    pub fn set_encoding(&self, name: &str) {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        self.0.utf8.store(plain.eq_ignore_ascii_case("utf8"), Ordering::Relaxed);
        *self.0.encoding.write().unwrap_or_else(PoisonError::into_inner) = name.to_owned();
    }

    /// Python's name of the client's encoding.
    pub fn encoding(&self) -> String {
        self.0.encoding.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What codecs need while they run.
    ///
    /// # Errors
    /// What Python raises when its own modules cannot be imported, which is at the first use only.
    #[inline]
    pub fn context<'a, 'py>(&'a self, py: Python<'py>) -> PyResult<Context<'a, 'py>> {
        let imports = Imports::get(py)?;
        let utf8 = self.0.utf8.load(Ordering::Relaxed);
        let zoned = self.1 && self.0.zoned.load(Ordering::Relaxed);
        Ok(Context { py, registry: self, imports, utf8, manner: self.manner(), as_psycopg: self.1, zoned })
    }

    /// The codec of a type; `None` when the server must be asked about it.
    pub fn lookup(&self, oid: u32) -> Option<Arc<Codec>> {
        self.types().lookup(oid)
    }

    /// The codec that a type has when the program's own are left aside.
    pub fn lookup_builtin(&self, oid: u32) -> Option<Arc<Codec>> {
        catalog::builtin(oid).cloned().or_else(|| self.types().derived.get(&oid).cloned())
    }

    /// Learns the types of [`introspect::query`](super::introspect::query)'s rows, parts before wholes.
    ///
    /// # Errors
    /// `UnsupportedClientFeatureError` for a composite or range of types that travel as text, and for a built-in type
    /// of a server newer than this package; `InternalClientError` for rows that say too little.
    pub fn register(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        for row in rows.try_iter()? {
            let row = TypeRow::read(&row?)?;
            if self.lookup(row.oid).is_some() {
                continue;
            }
            let codec = self.derive(py, &row)?;
            let replaced = self.types().derived.insert(row.oid, codec);
            drop(replaced);
        }
        Ok(())
    }

    fn derive(&self, py: Python<'_>, row: &TypeRow) -> PyResult<Arc<Codec>> {
        let part = |part: &Option<(u32, String)>, what: &str| -> PyResult<Arc<Codec>> {
            let Some((oid, name)) = part else {
                let oid = row.oid;
                return Err(exception(py, "InternalClientError", &format!("type record missing {what} {oid}")));
            };
            match self.lookup(*oid) {
                Some(codec) => Ok(codec),
                None => fallback(py, *oid, name, &row.schema),
            }
        };
        let refused = |refusal: Refusal| {
            let Refusal::TextParts(what) = refusal;
            let message = format!(
                "cannot decode type \"{}\".\"{}\": text encoding of {what} types is not supported",
                row.schema, row.name
            );
            exception(py, "UnsupportedClientFeatureError", &message)
        };
        match row.kind {
            b'd' => part(&row.base, "base type for domain"),
            b'c' => self.derive_composite(py, row)?.map_err(refused),
            b'r' => range(row.oid, &row.name, &row.schema, part(&row.bound, "base type for range")?).map_err(refused),
            b'm' => multirange(row.oid, &row.name, &row.schema, part(&row.bound, "base type for multirange")?)
                .map_err(refused),
            _ if row.element.is_some() => {
                let element = part(&row.element, "element type for array")?;
                let name = format!("{}[]", row.name.strip_prefix('_').unwrap_or(&row.name));
                // A domain's codec is its base's, but the server wants the domain's number in the array.
                let element_oid = row.element.as_ref().map_or(element.oid, |(oid, _)| *oid);
                Ok(array(row.oid, name, &row.schema, element, element_oid, row.delimiter))
            }
            // Labels of an enum are text in both formats.
            b'e' => Ok(scalar(row.oid, &row.name, &row.schema, Format::Binary, Scalar::Text)),
            _ => fallback(py, row.oid, &row.name, &row.schema),
        }
    }

    fn derive_composite(&self, py: Python<'_>, row: &TypeRow) -> PyResult<Result<Arc<Codec>, Refusal>> {
        let oid = row.oid;
        let mut codecs = Vec::with_capacity(row.attributes.len());
        for (attribute, _) in &row.attributes {
            match self.lookup(*attribute) {
                Some(codec) => codecs.push(codec),
                None => {
                    let message = format!("no codec for composite attribute type {attribute}");
                    return Err(exception(py, "InternalClientError", &message));
                }
            }
        }
        if codecs.iter().any(|codec| codec.format == Format::Text) {
            return Ok(Err(Refusal::TextParts("composite")));
        }
        let names = row.attributes.iter().map(|(_, name)| name.clone()).collect();
        let oids = row.attributes.iter().map(|(oid, _)| *oid).collect();
        Ok(Ok(Arc::new(Codec {
            oid,
            name: row.name.clone(),
            schema: row.schema.clone(),
            kind: Kind::Composite,
            format: Format::Binary,
            body: Body::Composite(Arc::new(Composite::new(py, names, oids, codecs)?)),
        })))
    }

    /// Sets the program's own functions for a type. `rows` describe a composite type, which `tuple` needs.
    ///
    /// # Errors
    /// `InterfaceError` for a format that is none, or `tuple` for a type that has no such form.
    pub fn set_custom(
        &self,
        py: Python<'_>,
        named: Named<'_>,
        rows: Option<&Bound<'_, PyAny>>,
        encoder: Py<PyAny>,
        decoder: Py<PyAny>,
        format: &str,
    ) -> PyResult<()> {
        let Named { oid, name, kind, .. } = named;
        let exchange = match format {
            "binary" => Some(Exchange::Whole(Format::Binary)),
            "text" => Some(Exchange::Whole(Format::Text)),
            "tuple" => None,
            other => {
                let message = format!("invalid `format` argument, expected 'text', 'binary' or 'tuple', got '{other}'");
                return Err(exception(py, "InterfaceError", &message));
            }
        };
        self.remove_custom(oid);
        if let Some(rows) = rows {
            self.register(py, rows)?;
        }
        let exchange = match (exchange, kind) {
            (Some(exchange), _) => Some(exchange),
            (None, Kind::Composite) => self.lookup(oid).map(Exchange::Composite),
            (None, _) => catalog::tuple_form(oid).map(Exchange::Tuple),
        };
        let Some(exchange) = exchange else {
            let message = format!("{name} type does not support the 'tuple' exchange format");
            return Err(exception(py, "InterfaceError", &message));
        };
        let format = match &exchange {
            Exchange::Whole(format) => *format,
            Exchange::Composite(codec) => codec.format,
            Exchange::Tuple(_) => Format::Binary,
        };
        let codec = named.codec(format, Body::Custom(Arc::new(Custom { encoder, decoder, exchange })));
        let replaced = self.types().custom.insert(oid, codec);
        drop(replaced);
        Ok(())
    }

    /// Forgets the program's codec of a type, and all types learnt from the server, since they may be made of it.
    pub fn remove_custom(&self, oid: u32) {
        let mut types = self.types();
        let removed = (types.custom.remove(&oid), std::mem::take(&mut types.derived));
        drop(types);
        drop(removed);
    }

    /// Makes a type of the server look like another: a built-in one by its name or number, or `pg_contrib.hstore`.
    ///
    /// # Errors
    /// `InterfaceError` for a format that is none or that the other type does not have; `OverflowError` and the like
    /// for a number that is no type's.
    pub fn set_builtin_alias(
        &self,
        py: Python<'_>,
        named: Named<'_>,
        alias_to: &Bound<'_, PyAny>,
        format: Option<&str>,
    ) -> PyResult<()> {
        let formats: &[Format] = match format {
            None => &[Format::Binary, Format::Text],
            Some("binary") => &[Format::Binary],
            Some("text") => &[Format::Text],
            Some(other) => {
                let message = format!("invalid `format` argument, expected 'text' or 'binary', got '{other}'");
                return Err(exception(py, "InterfaceError", &message));
            }
        };
        let target = if alias_to.is_instance_of::<PyInt>() {
            Some(alias_to.extract::<u32>()?)
        } else {
            alias_to.extract::<String>().ok().as_deref().and_then(catalog::number)
        };
        let found = formats.iter().find_map(|format| {
            let body = match target {
                Some(target) => self.body_in(target, *format)?,
                None if *format == Format::Binary && alias_to.eq("pg_contrib.hstore").unwrap_or(false) => {
                    Body::Scalar(Scalar::Hstore)
                }
                None => return None,
            };
            Some((*format, body))
        });
        let Some((format, body)) = found else {
            let wanted = format.unwrap_or("text or binary");
            let name = named.name;
            let message = format!("cannot alias {name} to {alias_to}: there is no {wanted} codec for {alias_to}");
            return Err(exception(py, "InterfaceError", &message));
        };
        let codec = named.codec(format, body);
        let mut types = self.types();
        let replaced = (types.custom.insert(named.oid, codec), std::mem::take(&mut types.derived));
        drop(types);
        drop(replaced);
        Ok(())
    }

    /// What a type does in a format, the program's own codecs first.
    fn body_in(&self, oid: u32, format: Format) -> Option<Body> {
        let custom = self.types().custom.get(&oid).cloned();
        match custom {
            Some(codec) => (codec.format == format).then(|| codec.body.clone()),
            None => match catalog::in_format(oid, format) {
                Some(scalar) => Some(Body::Scalar(scalar)),
                None => self.lookup(oid).filter(|codec| codec.format == format).map(|codec| codec.body.clone()),
            },
        }
    }

    /// Forgets what was learnt from the server, as after a change of its types.
    pub fn clear(&self) {
        let derived = std::mem::take(&mut self.types().derived);
        drop(derived);
    }

    fn types(&self) -> MutexGuard<'_, Types> {
        self.0.types.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Types {
    fn lookup(&mut self, oid: u32) -> Option<Arc<Codec>> {
        if let Some(codec) = self.custom.get(&oid) {
            return Some(codec.clone());
        }
        let Some(known) = catalog::builtin(oid) else { return self.derived.get(&oid).cloned() };
        if self.custom.is_empty() || catalog::PLAIN_ARRAYS.contains(&oid) {
            return Some(known.clone());
        }
        let (Body::Array { element, .. } | Body::Range { element } | Body::Multirange { element }) = &known.body else {
            return Some(known.clone());
        };
        let own = self.lookup(element.oid)?;
        if Arc::ptr_eq(&own, element) {
            return Some(known.clone());
        }
        if let Some(derived) = self.derived.get(&oid) {
            return Some(derived.clone());
        }
        let (name, schema) = (known.name.as_str(), known.schema.as_str());
        let made = match &known.body {
            Body::Array { element_oid, delimiter, .. } => {
                array(oid, name.to_owned(), schema, own, *element_oid, *delimiter)
            }
            Body::Range { .. } => range(oid, name, schema, own).ok()?,
            // Refused ones are refused again when the server is asked about them, with the reason.
            _ => multirange(oid, name, schema, own).ok()?,
        };
        self.derived.insert(oid, made.clone());
        Some(made)
    }
}

fn array(oid: u32, name: String, schema: &str, element: Arc<Codec>, element_oid: u32, delimiter: u8) -> Arc<Codec> {
    Arc::new(Codec {
        oid,
        name,
        schema: schema.to_owned(),
        kind: Kind::Array,
        format: element.format,
        body: Body::Array { element, element_oid, delimiter },
    })
}

fn range(oid: u32, name: &str, schema: &str, element: Arc<Codec>) -> Result<Arc<Codec>, Refusal> {
    bounded(oid, name, schema, Kind::Range, element)
}

fn multirange(oid: u32, name: &str, schema: &str, element: Arc<Codec>) -> Result<Arc<Codec>, Refusal> {
    bounded(oid, name, schema, Kind::Multirange, element)
}

fn bounded(oid: u32, name: &str, schema: &str, kind: Kind, element: Arc<Codec>) -> Result<Arc<Codec>, Refusal> {
    if element.format == Format::Text {
        return Err(Refusal::TextParts("range"));
    }
    let body = match kind {
        Kind::Multirange => Body::Multirange { element },
        _ => Body::Range { element },
    };
    let (name, schema) = (name.to_owned(), schema.to_owned());
    Ok(Arc::new(Codec { oid, name, schema, kind, format: Format::Binary, body }))
}

fn scalar(oid: u32, name: &str, schema: &str, format: Format, scalar: Scalar) -> Arc<Codec> {
    Named { oid, name, schema, kind: Kind::Scalar }.codec(format, Body::Scalar(scalar))
}

/// A type of which only its name is known travels as text, unless its number says that it should be known.
fn fallback(py: Python<'_>, oid: u32, name: &str, schema: &str) -> PyResult<Arc<Codec>> {
    if oid < catalog::FIRST_UNSTABLE {
        let message = format!("unhandled standard data type '{name}' (OID {oid})");
        return Err(exception_with(py, "UnsupportedClientFeatureError", &message, &[]));
    }
    Ok(scalar(oid, name, schema, Format::Text, Scalar::Text))
}
