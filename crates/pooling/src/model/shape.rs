//! The shape of a prepared statement: the types of its parameters, and the names and types of its columns.
//!
//! A server describes a statement once, and a client reads all later rows by that description. Servers prepare the
//! statement at different times, and between two of these its tables may change. So the pooler keeps the shape that
//! each client was told of each of its statements ([`Held`](crate::model::held::Held)), and the shape of each server's copy
//! ([`Known`](crate::model::known::Known)): a copy of another shape is not run for the client, which gets PostgreSQL's
//! error for that (0A000, `cached plan must not change result type`) until it prepares the statement again.
//!
//! A shape leaves out what PostgreSQL leaves out of that comparison: the table and the number of a column in it, which
//! a table that is made again changes, and the formats, which each Bind chooses.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;
use wire::backend::tag;
use wire::frame::Fields;

/// The known parts of a shape, each by a hash that is the same in all processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// The types of the parameters.
    pub parameters: Option<u64>,
    /// The names and types of the columns.
    pub columns: Option<u64>,
}

/// Whether a copy of a statement has the shape that a client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It has, or the client was told nothing.
    Same,
    /// The shape of the copy is not known yet.
    Unknown,
    /// The columns differ.
    Columns,
    /// The parameters differ: the client would write its values in the wrong types.
    Parameters,
}

impl Shape {
    /// The part of a shape that a ParameterDescription, RowDescription or NoData tells.
    pub fn told(tag: u8, body: &[u8]) -> Result<Self, wire::Error> {
        let mut hasher = SipHasher24::new();
        let mut fields = Fields::new(tag, body);
        if tag == tag::PARAMETER_DESCRIPTION {
            hasher.write(body);
            return Ok(Self { parameters: Some(hasher.finish()), columns: None });
        }
        let count = if tag == tag::ROW_DESCRIPTION { fields.i16("the number of columns")? } else { 0 };
        for _ in 0..count {
            hasher.write(fields.cstr("the name of a column")?);
            hasher.write_u8(0);
            fields.bytes(4 + 2, "the table and the number of a column")?;
            hasher.write(fields.bytes(4, "the type of a column")?);
            fields.bytes(2, "the size of a type")?;
            hasher.write(fields.bytes(4, "the modifier of a type")?);
            fields.bytes(2, "the format of a column")?;
        }
        Ok(Self { parameters: None, columns: Some(hasher.finish()) })
    }

    /// Its two parts as words, empty for one that is not known.
    pub fn words(self) -> [String; 2] {
        [self.parameters, self.columns].map(|part| part.map_or_else(String::new, |part| part.to_string()))
    }

    /// The shape of these words; a word that is no number is a part that is not known.
    pub fn of_words(parameters: &[u8], columns: &[u8]) -> Self {
        let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse().ok();
        Self { parameters: number(parameters), columns: number(columns) }
    }

    /// Whether any part of it is known.
    pub fn is_known(self) -> bool {
        self != Self::default()
    }

    /// The known parts of both, those of `newer` first.
    pub fn with(self, newer: Self) -> Self {
        Self { parameters: newer.parameters.or(self.parameters), columns: newer.columns.or(self.columns) }
    }

    /// The shape that a client which was told this one has when it is told `newer`. In PostgreSQL a statement keeps the types
    /// of its parameters: a client that is told others may write values in either, so no copy fits it any more.
    pub fn told_again(self, newer: Self) -> Self {
        let parameters = match (self.parameters, newer.parameters) {
            (Some(one), Some(other)) if one != other => Some(one ^ other.rotate_left(1)),
            (one, other) => other.or(one),
        };
        Self { parameters, ..self.with(newer) }
    }

    /// Whether the two have a part that differs.
    pub fn differs(self, other: Self) -> bool {
        let differ = |one: Option<u64>, other: Option<u64>| one.zip(other).is_some_and(|(one, other)| one != other);
        differ(self.parameters, other.parameters) || differ(self.columns, other.columns)
    }

    /// Whether a copy of the statement has the shape that a client was told, which is this one.
    pub fn fit(self, copy: Self) -> Fit {
        let unknown = |told: Option<u64>, copy: Option<u64>| told.is_some() && copy.is_none();
        let differ = |told: Option<u64>, copy: Option<u64>| told.is_some() && told != copy;
        if unknown(self.parameters, copy.parameters) || unknown(self.columns, copy.columns) {
            Fit::Unknown
        } else if differ(self.parameters, copy.parameters) {
            Fit::Parameters
        } else if differ(self.columns, copy.columns) {
            Fit::Columns
        } else {
            Fit::Same
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(columns: &[(&str, i32, u16, i32, i32, u16)]) -> Shape {
        let mut body = u16::try_from(columns.len()).unwrap().to_be_bytes().to_vec();
        for (name, table, number, oid, modifier, format) in columns {
            body.extend_from_slice(name.as_bytes());
            body.push(0);
            body.extend_from_slice(&table.to_be_bytes());
            body.extend_from_slice(&number.to_be_bytes());
            body.extend_from_slice(&oid.to_be_bytes());
            body.extend_from_slice(&[0, 4]);
            body.extend_from_slice(&modifier.to_be_bytes());
            body.extend_from_slice(&format.to_be_bytes());
        }
        Shape::told(tag::ROW_DESCRIPTION, &body).unwrap()
    }

    #[test]
    fn names_types_and_modifiers_are_the_shape_and_tables_and_formats_are_not() {
        let one = columns(&[("a", 1, 1, 23, -1, 0), ("b", 1, 2, 25, -1, 0)]);
        assert_eq!(one, columns(&[("a", 2, 3, 23, -1, 1), ("b", 0, 0, 25, -1, 1)]));
        for other in [
            columns(&[("a", 1, 1, 20, -1, 0), ("b", 1, 2, 25, -1, 0)]),
            columns(&[("a", 1, 1, 23, 8, 0), ("b", 1, 2, 25, -1, 0)]),
            columns(&[("c", 1, 1, 23, -1, 0), ("b", 1, 2, 25, -1, 0)]),
            columns(&[("a", 1, 1, 23, -1, 0)]),
            Shape::told(tag::NO_DATA, &[]).unwrap(),
        ] {
            assert!(one.differs(other) && one.fit(other) == Fit::Columns);
        }
        assert!(Shape::told(tag::ROW_DESCRIPTION, &[0, 1, b'a', 0, 0]).is_err(), "cut short");
    }

    #[test]
    fn only_what_a_client_was_told_must_fit() {
        let [one, two] = [[0, 1, 0, 0, 0, 23], [0, 1, 0, 0, 0, 20]];
        let [one, two] = [one, two].map(|body| Shape::told(tag::PARAMETER_DESCRIPTION, &body).unwrap());
        let (narrow, wide) = (columns(&[("a", 1, 1, 23, -1, 0)]), columns(&[("a", 1, 1, 20, -1, 0)]));
        let nothing = Shape::default();
        for (told, copy, fit) in [
            (nothing, nothing, Fit::Same),
            (nothing, one.with(narrow), Fit::Same),
            (narrow, nothing, Fit::Unknown),
            (narrow, one, Fit::Unknown),
            (narrow, one.with(narrow), Fit::Same),
            (narrow, wide, Fit::Columns),
            (one.with(narrow), narrow, Fit::Unknown),
            (one.with(narrow), two.with(narrow), Fit::Parameters),
            (one.with(narrow), two.with(wide), Fit::Parameters),
        ] {
            assert_eq!(told.fit(copy), fit, "{told:?} {copy:?}");
        }
        for shape in [nothing, one, wide, one.with(wide)] {
            let [parameters, columns] = shape.words();
            assert_eq!(Shape::of_words(parameters.as_bytes(), columns.as_bytes()), shape);
        }
    }
}
