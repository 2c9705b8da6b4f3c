//! The elements of arrays of keys, in both formats of PostgreSQL.

use std::borrow::Cow;

use crate::map::KeyType;
use crate::value::of_oid;

/// The elements of an array, none for one that is NULL.
type Elements<'a> = Vec<Option<Cow<'a, [u8]>>>;

/// The type of the elements of arrays of this OID, if keys are compared with it as with their own.
pub fn element_of(array: u32) -> Option<KeyType> {
    of_oid(match array {
        1005 => 21,
        1007 => 23,
        1016 => 20,
        1009 => 25,
        1015 => 1043,
        1182 => 1082,
        1115 => 1114,
        1185 => 1184,
        2951 => 2950,
        _ => return None,
    })
}

/// The elements of an array, those of all dimensions one after another; none if it cannot be read.
pub fn elements(binary: bool, array: &[u8]) -> Option<Elements<'_>> {
    if binary { of_binary(array) } else { of_text(array) }
}

fn integer(bytes: &mut &[u8]) -> Option<i32> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(i32::from_be_bytes(*first))
}

fn of_binary(mut rest: &[u8]) -> Option<Elements<'_>> {
    let dimensions = integer(&mut rest)?;
    let (_has_nulls, _element_type) = (integer(&mut rest)?, integer(&mut rest)?);
    for _ in 0..dimensions {
        let (_length, _lower_bound) = (integer(&mut rest)?, integer(&mut rest)?);
    }
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let length = integer(&mut rest)?;
        elements.push(if length == -1 {
            None
        } else {
            let (element, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            rest = behind;
            Some(Cow::Borrowed(element))
        });
    }
    Some(elements)
}

/// Elements that are written without bounds, and with backslashes in quotes alone.
fn of_text(array: &[u8]) -> Option<Elements<'_>> {
    // What is a blank for PostgreSQL is none for Rust.
    if array.contains(&0x0b) {
        return None;
    }
    let mut rest = array.trim_ascii();
    if !rest.starts_with(b"{") || !rest.ends_with(b"}") {
        return None;
    }
    let mut elements = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        match rest {
            [] => return Some(elements),
            [b'{' | b'}' | b',', behind @ ..] => rest = behind,
            [b'"', behind @ ..] => {
                let (element, behind) = quoted(behind)?;
                elements.push(Some(Cow::Owned(element)));
                rest = behind;
            }
            _ => {
                let end = rest.iter().position(|byte| matches!(byte, b',' | b'}'))?;
                let (element, behind) = rest.split_at_checked(end)?;
                let element = element.trim_ascii_end();
                if element.iter().any(|byte| matches!(byte, b'"' | b'\\' | b'{')) {
                    return None;
                }
                elements.push((!element.eq_ignore_ascii_case(b"null")).then_some(Cow::Borrowed(element)));
                rest = behind;
            }
        }
    }
}

/// An element whose first quote was read, and what is behind its last one.
fn quoted(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut element = Vec::new();
    loop {
        match rest {
            [b'\\', byte, behind @ ..] => {
                element.push(*byte);
                rest = behind;
            }
            [b'"', behind @ ..] => return Some((element, behind)),
            [byte, behind @ ..] => {
                element.push(*byte);
                rest = behind;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vertical_tab_is_a_blank_for_postgresql_alone() {
        let bare = |text: &str| of_text(text.as_bytes()).map(|elements| elements.into_iter().flatten().count());
        assert_eq!(bare("{ 1 ,\t2\n}"), Some(2));
        for text in ["{\x0b1}", "{1\x0b}", "\x0b{1}", "{1,\x0b2}", "{\"1\x0b\"}"] {
            assert_eq!(bare(text), None, "{text:?}");
        }
    }
}
