//! The queries to the server about types that are not built in, and the meaning of their answers.
//!
//! One query gives the types asked for and everything they are made of, the parts before the wholes. Its columns are
//! of built-in types, so that it can be read before any type is known.

use pyo3::prelude::*;

/// Begins with the types asked for and adds elements, attributes, bounds and bases until nothing new is found.
const CLOSURE: &str = "\
WITH RECURSIVE parts(oid, depth) AS (
    SELECT asked.oid, 0 FROM unnest($1::pg_catalog.oid[]) AS asked(oid)
    UNION
    SELECT part.oid, parts.depth + 1
    FROM parts
        JOIN pg_catalog.pg_type AS whole ON whole.oid = parts.oid,
        LATERAL (
            SELECT whole.typelem WHERE whole.typlen = -1 AND whole.typelem <> 0
            UNION ALL
            SELECT whole.typbasetype WHERE whole.typtype = 'd'
            UNION ALL
            SELECT r.rngsubtype FROM pg_catalog.pg_range AS r WHERE ";

const SHAPES: &str = "
            UNION ALL
            SELECT a.atttypid FROM pg_catalog.pg_attribute AS a
            WHERE whole.typtype = 'c' AND a.attrelid = whole.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        ) AS part(oid)
)
SELECT
    t.oid AS oid,
    n.nspname AS ns,
    t.typname AS name,
    t.typtype AS kind,
    CASE WHEN t.typtype = 'd' THEN t.typbasetype END AS basetype,
    CASE WHEN t.typlen = -1 THEN t.typelem ELSE 0 END AS elemtype,
    e.typdelim AS elemdelim,
    r.rngsubtype AS range_subtype,
    attributes.oids AS attrtypoids,
    attributes.names AS attrnames,
    CASE WHEN t.typtype = 'd' THEN t.typbasetype END::pg_catalog.regtype::text AS basetype_name,
    e.oid::pg_catalog.regtype::text AS elemtype_name,
    r.rngsubtype::pg_catalog.regtype::text AS range_subtype_name
FROM (SELECT oid, max(depth) AS depth FROM parts GROUP BY oid) AS wanted
    JOIN pg_catalog.pg_type AS t ON t.oid = wanted.oid
    JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
    LEFT JOIN pg_catalog.pg_type AS e ON t.typlen = -1 AND t.typelem <> 0 AND e.oid = t.typelem
    LEFT JOIN pg_catalog.pg_range AS r ON ";

const ATTRIBUTES: &str = "
    LEFT JOIN LATERAL (
        SELECT array_agg(a.atttypid ORDER BY a.attnum) AS oids, array_agg(a.attname::text ORDER BY a.attnum) AS names
        FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS attributes ON t.typtype = 'c'
ORDER BY wanted.depth DESC
";

/// The query about types; `multiranges` where the server has them, which is from PostgreSQL 14 on.
///
/// It takes the numbers of the types as `oid[]`.
pub fn query(multiranges: bool) -> String {
    let (whole, typed) = if multiranges {
        ("whole.oid IN (r.rngtypid, r.rngmultitypid)", "t.oid IN (r.rngtypid, r.rngmultitypid)")
    } else {
        ("r.rngtypid = whole.oid", "r.rngtypid = t.oid")
    };
    [CLOSURE, whole, SHAPES, typed, ATTRIBUTES].concat()
}

/// The query about one type by its name and schema, which custom codecs begin with.
pub const TYPE_BY_NAME: &str = "\
SELECT t.oid, t.typelem AS elemtype, t.typtype AS kind
FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
WHERE t.typname = $1 AND n.nspname = $2
";

/// One row of the answer.
#[derive(Debug)]
pub struct TypeRow {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    /// `pg_type.typtype`: b, c, d, e, m, p or r.
    pub kind: u8,
    pub base: Option<(u32, String)>,
    pub element: Option<(u32, String)>,
    pub delimiter: u8,
    pub bound: Option<(u32, String)>,
    pub attributes: Vec<(u32, String)>,
}

impl TypeRow {
    /// Reads a row by the names of its columns.
    ///
    /// # Errors
    /// What Python raises for a column that is missing or of another type.
    pub fn read(row: &Bound<'_, PyAny>) -> PyResult<Self> {
        let first = |name: &str| -> PyResult<u8> {
            let letter: Option<Vec<u8>> = row.get_item(name)?.extract()?;
            Ok(letter.and_then(|letter| letter.first().copied()).unwrap_or(b','))
        };
        let part = |number: &str, name: &str| -> PyResult<Option<(u32, String)>> {
            match row.get_item(number)?.extract::<Option<u32>>()? {
                None | Some(0) => Ok(None),
                Some(oid) => Ok(Some((oid, row.get_item(name)?.extract::<Option<String>>()?.unwrap_or_default()))),
            }
        };
        let numbers: Option<Vec<u32>> = row.get_item("attrtypoids")?.extract()?;
        let names: Option<Vec<String>> = row.get_item("attrnames")?.extract()?;
        Ok(TypeRow {
            oid: row.get_item("oid")?.extract()?,
            schema: row.get_item("ns")?.extract()?,
            name: row.get_item("name")?.extract()?,
            kind: first("kind")?,
            base: part("basetype", "basetype_name")?,
            element: part("elemtype", "elemtype_name")?,
            delimiter: first("elemdelim")?,
            bound: part("range_subtype", "range_subtype_name")?,
            attributes: numbers.unwrap_or_default().into_iter().zip(names.unwrap_or_default()).collect(),
        })
    }
}
