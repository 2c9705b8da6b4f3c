//! The types that every server has, by the numbers that PostgreSQL has promised to keep.
//!
//! Their arrays, ranges and multiranges are listed too, so that no statement on built-in types alone needs a look at
//! the server's catalog first.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::{Body, Codec, Format, Kind, Scalar};

/// `text[]` and `oid[]`, the arrays that asyncpg has built in: custom codecs of their elements do not reach them.
pub const PLAIN_ARRAYS: [u32; 2] = [1009, 1028];
/// The type `name`: a text of 63 bytes.
pub const NAME: u32 = 19;
/// The type `text`, whose codec enums and types of unknown extensions borrow.
pub const TEXT: u32 = 25;
/// The types `json` and `jsonb`, whose values are text.
pub const JSON: u32 = 114;
pub const JSONB: u32 = 3802;
/// The numbers below this are the same on every server.
pub const FIRST_UNSTABLE: u32 = 10_000;

use Format::{Binary, Text};

/// Number, name, form, format, and the number of the array type or 0.
type Row = (u32, &'static str, Scalar, Format, u32);

const SCALARS: &[Row] = &[
    (16, "bool", Scalar::Bool, Binary, 1000),
    (17, "bytea", Scalar::Bytea, Binary, 1001),
    (18, "char", Scalar::Bytea, Binary, 1002),
    (19, "name", Scalar::Text, Binary, 1003),
    (20, "int8", Scalar::Int8, Binary, 1016),
    (21, "int2", Scalar::Int2, Binary, 1005),
    (23, "int4", Scalar::Int4, Binary, 1007),
    (24, "regproc", Scalar::Text, Text, 1008),
    (25, "text", Scalar::Text, Binary, 1009),
    (26, "oid", Scalar::Uint4, Binary, 1028),
    (27, "tid", Scalar::Tid, Binary, 1010),
    (28, "xid", Scalar::Uint4, Binary, 1011),
    (29, "cid", Scalar::Uint4, Binary, 1012),
    (32, "pg_ddl_command", Scalar::None, Binary, 0),
    (114, "json", Scalar::Text, Binary, 199),
    (142, "xml", Scalar::Text, Binary, 143),
    (194, "pg_node_tree", Scalar::TextOut, Text, 0),
    (210, "smgr", Scalar::Text, Text, 0),
    (269, "table_am_handler", Scalar::None, Binary, 0),
    (325, "index_am_handler", Scalar::None, Binary, 0),
    (600, "point", Scalar::Point, Binary, 1017),
    (601, "lseg", Scalar::Lseg, Binary, 1018),
    (602, "path", Scalar::Path, Binary, 1019),
    (603, "box", Scalar::Box, Binary, 1020),
    (604, "polygon", Scalar::Polygon, Binary, 1027),
    (628, "line", Scalar::Line, Binary, 629),
    (650, "cidr", Scalar::Cidr, Binary, 651),
    (700, "float4", Scalar::Float4, Binary, 1021),
    (701, "float8", Scalar::Float8, Binary, 1022),
    (702, "abstime", Scalar::Text, Text, 1023),
    (703, "reltime", Scalar::Text, Text, 1024),
    (704, "tinterval", Scalar::Text, Text, 1025),
    (705, "unknown", Scalar::Text, Text, 0),
    (718, "circle", Scalar::Circle, Binary, 719),
    (774, "macaddr8", Scalar::Text, Text, 775),
    (790, "money", Scalar::Text, Text, 791),
    (829, "macaddr", Scalar::Text, Text, 1040),
    (869, "inet", Scalar::Inet, Binary, 1041),
    (1033, "aclitem", Scalar::Text, Text, 1034),
    (1042, "bpchar", Scalar::Text, Binary, 1014),
    (1043, "varchar", Scalar::Text, Binary, 1015),
    (1082, "date", Scalar::Date, Binary, 1182),
    (1083, "time", Scalar::Time, Binary, 1183),
    (1114, "timestamp", Scalar::Timestamp, Binary, 1115),
    (1184, "timestamptz", Scalar::Timestamptz, Binary, 1185),
    (1186, "interval", Scalar::Interval, Binary, 1187),
    (1266, "timetz", Scalar::Timetz, Binary, 1270),
    (1560, "bit", Scalar::Bits, Binary, 1561),
    (1562, "varbit", Scalar::Bits, Binary, 1563),
    (1700, "numeric", Scalar::Numeric, Binary, 1231),
    (1790, "refcursor", Scalar::Text, Text, 2201),
    (2202, "regprocedure", Scalar::Text, Text, 2207),
    (2203, "regoper", Scalar::Text, Text, 2208),
    (2204, "regoperator", Scalar::Text, Text, 2209),
    (2205, "regclass", Scalar::Text, Text, 2210),
    (2206, "regtype", Scalar::Text, Text, 2211),
    (2249, "record", Scalar::Record, Binary, 2287),
    (2275, "cstring", Scalar::Text, Binary, 1263),
    (2276, "any", Scalar::None, Binary, 0),
    (2277, "anyarray", Scalar::TextOut, Text, 0),
    (2278, "void", Scalar::Void, Binary, 0),
    (2279, "trigger", Scalar::None, Binary, 0),
    (2280, "language_handler", Scalar::None, Binary, 0),
    (2281, "internal", Scalar::None, Binary, 0),
    (2282, "opaque", Scalar::None, Binary, 0),
    (2283, "anyelement", Scalar::None, Binary, 0),
    (2776, "anynonarray", Scalar::None, Binary, 0),
    (2950, "uuid", Scalar::Uuid, Binary, 2951),
    (2970, "txid_snapshot", Scalar::Snapshot, Binary, 2949),
    (3115, "fdw_handler", Scalar::None, Binary, 0),
    (3220, "pg_lsn", Scalar::Int8, Binary, 3221),
    (3310, "tsm_handler", Scalar::None, Binary, 0),
    (3361, "pg_ndistinct", Scalar::Text, Text, 0),
    (3402, "pg_dependencies", Scalar::Text, Text, 0),
    (3500, "anyenum", Scalar::TextOut, Text, 0),
    (3614, "tsvector", Scalar::Text, Text, 3643),
    (3615, "tsquery", Scalar::Text, Text, 3645),
    (3642, "gtsvector", Scalar::TextOut, Text, 3644),
    (3734, "regconfig", Scalar::Text, Text, 3735),
    (3769, "regdictionary", Scalar::Text, Text, 3770),
    (3802, "jsonb", Scalar::Jsonb, Binary, 3807),
    (3831, "anyrange", Scalar::None, Binary, 0),
    (3838, "event_trigger", Scalar::None, Binary, 0),
    (4072, "jsonpath", Scalar::Jsonpath, Binary, 4073),
    (4089, "regnamespace", Scalar::Text, Text, 4090),
    (4096, "regrole", Scalar::Text, Text, 4097),
    (4191, "regcollation", Scalar::Text, Text, 4192),
    (4537, "anymultirange", Scalar::None, Binary, 0),
    (4538, "anycompatiblemultirange", Scalar::None, Binary, 0),
    (4600, "pg_brin_bloom_summary", Scalar::ByteaOut, Binary, 0),
    (4601, "pg_brin_minmax_multi_summary", Scalar::ByteaOut, Binary, 0),
    (5017, "pg_mcv_list", Scalar::Bytea, Binary, 0),
    (5038, "pg_snapshot", Scalar::Snapshot, Binary, 5039),
    (5069, "xid8", Scalar::Uint8, Binary, 271),
    (5077, "anycompatible", Scalar::None, Binary, 0),
    (5078, "anycompatiblearray", Scalar::None, Binary, 0),
    (5079, "anycompatiblenonarray", Scalar::None, Binary, 0),
    (5080, "anycompatiblerange", Scalar::None, Binary, 0),
    (6437, "oid8", Scalar::Uint8, Binary, 0),
    (6490, "regdatabase", Scalar::Text, Text, 0),
];

/// Types that are stored as arrays under a name of their own: number, name, element.
const VECTORS: &[(u32, &str, u32)] = &[(22, "int2vector[]", 21), (30, "oidvector[]", 26)];

/// Number, name, element, number of the array type, multirange's number, name and array.
type Range = (u32, &'static str, u32, u32, u32, &'static str, u32);

const RANGES: &[Range] = &[
    (3904, "int4range", 23, 3905, 4451, "int4multirange", 6150),
    (3906, "numrange", 1700, 3907, 4532, "nummultirange", 6151),
    (3908, "tsrange", 1114, 3909, 4533, "tsmultirange", 6152),
    (3910, "tstzrange", 1184, 3911, 4534, "tstzmultirange", 6153),
    (3912, "daterange", 1082, 3913, 4535, "datemultirange", 6155),
    (3926, "int8range", 20, 3927, 4536, "int8multirange", 6157),
];

/// Other names of types, as people write them in SQL.
const ALIASES: &[(&str, u32)] = &[
    ("smallint", 21),
    ("int", 23),
    ("integer", 23),
    ("bigint", 20),
    ("decimal", 1700),
    ("real", 700),
    ("double precision", 701),
    ("timestamp with timezone", 1184),
    ("timestamp without timezone", 1114),
    ("time with timezone", 1266),
    ("time without timezone", 1083),
    ("char", 1042),
    ("character", 1042),
    ("character varying", 1043),
    ("bit varying", 1562),
];

fn codec(oid: u32, name: &str, kind: Kind, format: Format, body: Body) -> Arc<Codec> {
    Arc::new(Codec { oid, name: name.to_owned(), schema: "pg_catalog".to_owned(), kind, format, body })
}

fn array(oid: u32, name: &str, element: &Arc<Codec>) -> Arc<Codec> {
    // The only built-in type that does not part its elements by a comma.
    let delimiter = if element.oid == 603 { b';' } else { b',' };
    let body = Body::Array { element: element.clone(), element_oid: element.oid, delimiter };
    codec(oid, name, Kind::Array, element.format, body)
}

fn all() -> &'static HashMap<u32, Arc<Codec>> {
    static ALL: OnceLock<HashMap<u32, Arc<Codec>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut known = HashMap::new();
        for (oid, name, scalar, format, array_oid) in SCALARS {
            let scalar = codec(*oid, name, Kind::Scalar, *format, Body::Scalar(*scalar));
            if *array_oid != 0 {
                known.insert(*array_oid, array(*array_oid, &format!("{name}[]"), &scalar));
            }
            known.insert(*oid, scalar);
        }
        for (oid, name, element) in VECTORS {
            if let Some(element) = known.get(element).cloned() {
                known.insert(*oid, array(*oid, name, &element));
            }
        }
        for (oid, name, element, array_oid, multi_oid, multi_name, multi_array_oid) in RANGES {
            let Some(element) = known.get(element).cloned() else { continue };
            let range = codec(*oid, name, Kind::Range, Binary, Body::Range { element: element.clone() });
            known.insert(*array_oid, array(*array_oid, &format!("{name}[]"), &range));
            known.insert(*oid, range);
            let multi = codec(*multi_oid, multi_name, Kind::Multirange, Binary, Body::Multirange { element });
            known.insert(*multi_array_oid, array(*multi_array_oid, &format!("{multi_name}[]"), &multi));
            known.insert(*multi_oid, multi);
        }
        known
    })
}

/// The codec of a built-in type.
pub fn builtin(oid: u32) -> Option<&'static Arc<Codec>> {
    all().get(&oid)
}

/// What a built-in type is read and written by in the other format, where it has two: text has the same form in both.
pub fn in_format(oid: u32, format: Format) -> Option<Scalar> {
    let codec = builtin(oid)?;
    let Body::Scalar(scalar) = codec.body else { return None };
    match (scalar, format) {
        (Scalar::Numeric, Text) => Some(Scalar::NumericText),
        // json is sent as text too, but asyncpg registers it in its binary form only.
        (Scalar::Text, Text) if matches!(oid, 19 | 25 | 142 | 1042 | 1043) => Some(Scalar::Text),
        _ => (codec.format == format).then_some(scalar),
    }
}

/// The form of a type that custom codecs of format `tuple` exchange.
pub fn tuple_form(oid: u32) -> Option<Scalar> {
    match oid {
        1082 => Some(Scalar::DateTuple),
        1083 => Some(Scalar::TimeTuple),
        1266 => Some(Scalar::TimetzTuple),
        1114 | 1184 => Some(Scalar::TimestampTuple),
        1186 => Some(Scalar::IntervalTuple),
        _ => None,
    }
}

/// The numbers and names of the built-in types that programs may look up.
pub fn names() -> impl Iterator<Item = (u32, &'static str)> {
    let arrays = PLAIN_ARRAYS.iter().zip(["text[]", "oid[]"]).map(|(oid, name)| (*oid, name));
    SCALARS.iter().map(|row| (row.0, row.1)).chain(arrays)
}

/// The names of the built-in types with the other names that people give them.
pub fn numbers() -> impl Iterator<Item = (&'static str, u32)> {
    names().map(|(oid, name)| (name, oid)).chain(ALIASES.iter().copied())
}

/// The number of a built-in type of that name; of two the later, so that `char` is what SQL means by it.
pub fn number(name: &str) -> Option<u32> {
    numbers().filter(|(known, _)| *known == name).last().map(|(_, oid)| oid)
}

/// A type for a message: its name as Python shows it, or its number.
pub fn shown(oid: u32) -> String {
    names().find(|(known, _)| *known == oid).map_or_else(|| oid.to_string(), |(_, name)| format!("'{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_twice() {
        let mut seen = std::collections::HashSet::new();
        for (oid, _, _, _, array) in SCALARS {
            assert!(seen.insert(*oid), "{oid}");
            assert!(*array == 0 || seen.insert(*array), "{array}");
        }
        for (oid, _, _, array, multi, _, multi_array) in RANGES {
            for oid in [oid, array, multi, multi_array] {
                assert!(seen.insert(*oid), "{oid}");
            }
        }
        assert!(VECTORS.iter().all(|(oid, _, _)| seen.insert(*oid)));
        assert_eq!(all().len(), seen.len());
    }

    #[test]
    fn sql_names_mean_what_sql_means() {
        assert_eq!(number("char"), Some(1042));
        assert_eq!(number("double precision"), Some(701));
        assert_eq!(number("hstore"), None);
        assert_eq!(shown(23), "'int4'");
        assert_eq!(shown(99_999), "99999");
    }
}
