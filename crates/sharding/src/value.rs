//! The values of keys: literals and parameters, and their slots.

use crate::arrays;
use crate::hash::{self, Function};
use crate::map::{KeyType, Table};

/// Where the value of a key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An integer.
    Integer(i64),
    /// A string without a type of its own, which is read as the key's type.
    Untyped(String),
    /// A string with a type.
    Typed(KeyType, String),
    /// A parameter.
    Parameter {
        /// Its number, from 1 on.
        number: usize,
        /// The type that a cast gives to it.
        cast: Option<KeyType>,
        /// Whether its type is that of its cast, or of the key, if the client declares none.
        certain: bool,
    },
    /// The elements of an array. Its own source has the type of the elements.
    Elements(Box<Source>),
}

/// The parameters of one execution.
pub trait Parameters {
    /// The type that the client has declared for a parameter, by its number from 1 on: the type's OID, or 0.
    fn declared(&self, number: usize) -> u32;
    /// Whether a parameter is in binary format, and its value unless it is NULL; none if it is missing.
    fn value(&self, number: usize) -> Option<(bool, Option<&[u8]>)>;
    /// Whether the client sends text as the servers store it: both in UTF-8.
    fn is_utf8(&self) -> bool;
}

/// No parameters: a statement of the simple protocol.
#[derive(Debug, Clone, Copy)]
pub struct Literals {
    /// Whether the client sends text as the servers store it: both in UTF-8.
    pub is_utf8: bool,
}

impl Parameters for Literals {
    fn declared(&self, _: usize) -> u32 {
        0
    }

    fn value(&self, _: usize) -> Option<(bool, Option<&[u8]>)> {
        None
    }

    fn is_utf8(&self) -> bool {
        self.is_utf8
    }
}

impl Source {
    /// Tells the slot of each row with one of these values as its key; `stored`: of each row that is stored with it. None
    /// if that is not certain.
    pub fn slots(
        &self,
        table: &Table,
        stored: bool,
        parameters: &impl Parameters,
        tell: &mut impl FnMut(usize),
    ) -> Option<()> {
        let of = (table.key_type, table.function);
        let mut of_hash = |hash: u64| {
            tell(usize::try_from(table.function.slot(hash, table.slots.len() as u64)).ok()?);
            Some(())
        };
        let Self::Elements(array) = self else {
            let cut = stored && table.cuts_blanks && self.ends_blank(parameters);
            return of_hash(if cut { None } else { self.hash(of, parameters) }?);
        };
        let (binary, value) = array.array(table.key_type, parameters)?;
        for element in arrays::elements(binary, value)? {
            match element {
                Some(element) if stored && table.cuts_blanks && element.ends_with(b" ") => return None,
                Some(element) => of_hash(of_value(of, binary, &element, parameters.is_utf8())?)?,
                // It is equal to nothing.
                None if !stored => (),
                None => return None,
            }
        }
        Some(())
    }

    /// The type that a cast gives to it.
    pub fn cast(&self) -> Option<KeyType> {
        match self {
            Self::Typed(given, _) => Some(*given),
            Self::Parameter { cast, .. } => *cast,
            _ => None,
        }
    }

    /// Itself; of the elements of an array, the array.
    pub fn scalar(&self) -> &Self {
        if let Self::Elements(array) = self { array } else { self }
    }

    /// As [`Self::scalar`].
    pub fn scalar_mut(&mut self) -> &mut Self {
        if let Self::Elements(array) = self { array } else { self }
    }

    /// Whether a text ends with a blank, which may be left out where it is stored.
    fn ends_blank(&self, parameters: &impl Parameters) -> bool {
        match self {
            Self::Integer(_) => false,
            Self::Untyped(text) | Self::Typed(_, text) => text.ends_with(' '),
            Self::Parameter { number, .. } => {
                parameters.value(*number).is_some_and(|(_, value)| value.is_some_and(|value| value.ends_with(b" ")))
            }
            Self::Elements(_) => true,
        }
    }

    /// The value of an array whose elements are of this type, and whether it is in binary format.
    fn array<'p>(&'p self, key: KeyType, parameters: &'p impl Parameters) -> Option<(bool, &'p [u8])> {
        match self {
            Self::Untyped(text) => Some((false, text.as_bytes())),
            Self::Typed(given, text) => (*given == key).then_some((false, text.as_bytes())),
            Self::Parameter { .. } => self.parameter(key, parameters, arrays::element_of),
            Self::Integer(_) | Self::Elements(_) => None,
        }
    }

    /// The value of a parameter of a key's type; `read` is the type that an OID means.
    fn parameter<'p>(
        &self,
        key: KeyType,
        parameters: &'p impl Parameters,
        read: impl Fn(u32) -> Option<KeyType>,
    ) -> Option<(bool, &'p [u8])> {
        let Self::Parameter { number, cast, certain } = self else { return None };
        let given = match (parameters.declared(*number), cast) {
            // The server takes the type of what the parameter is compared with, or of its cast.
            (0, _) if !certain => return None,
            (0, cast) => cast.unwrap_or(key),
            (declared, None) => read(declared)?,
            (declared, Some(cast)) => read(declared).filter(|given| given == cast)?,
        };
        let (binary, value) = parameters.value(*number)?;
        Some((binary, value.filter(|_| given == key)?))
    }

    fn hash(&self, of: (KeyType, Function), parameters: &impl Parameters) -> Option<u64> {
        let (key, function) = of;
        match self {
            Self::Integer(value) => (key == KeyType::Integer).then(|| function.integer(*value)),
            Self::Untyped(text) => of_text(of, text.as_bytes(), parameters.is_utf8()),
            Self::Typed(given, text) if *given == key => of_text(of, text.as_bytes(), parameters.is_utf8()),
            Self::Typed(..) => None,
            Self::Parameter { .. } => {
                let (binary, value) = self.parameter(key, parameters, of_oid)?;
                of_value(of, binary, value, parameters.is_utf8())
            }
            Self::Elements(_) => None,
        }
    }
}

/// The hash of a value in one of the formats.
fn of_value(of: (KeyType, Function), binary: bool, value: &[u8], is_utf8: bool) -> Option<u64> {
    if binary { of_binary(of, value, is_utf8) } else { of_text(of, value, is_utf8) }
}

/// The type of this OID, if keys are compared with it as with their own.
pub fn of_oid(oid: u32) -> Option<KeyType> {
    Some(match oid {
        20 | 21 | 23 => KeyType::Integer,
        25 | 1043 => KeyType::Text,
        1082 => KeyType::Date,
        1114 => KeyType::Timestamp,
        1184 => KeyType::TimestampTz,
        2950 => KeyType::Uuid,
        _ => return None,
    })
}

/// The hash of a value in binary format.
fn of_binary((key, function): (KeyType, Function), value: &[u8], is_utf8: bool) -> Option<u64> {
    let wide = || value.try_into().ok().map(i64::from_be_bytes);
    let middle = || value.try_into().ok().map(i32::from_be_bytes).map(i64::from);
    let narrow = || value.try_into().ok().map(i16::from_be_bytes).map(i64::from);
    match key {
        KeyType::Integer => wide().or_else(middle).or_else(narrow).map(|value| function.integer(value)),
        KeyType::Date => middle().map(hash::integer),
        KeyType::Timestamp | KeyType::TimestampTz => wide().map(hash::integer),
        KeyType::Uuid => (value.len() == 16).then(|| hash::bytes(value)),
        KeyType::Text => of_text((key, function), value, is_utf8),
        KeyType::Other => None,
    }
}

/// The hash of a value in text format, if it is written in a way that means the same in every session.
fn of_text((key, function): (KeyType, Function), value: &[u8], is_utf8: bool) -> Option<u64> {
    match key {
        KeyType::Integer => decimal(value.trim_ascii()).map(|value| function.integer(value)),
        KeyType::Text => (is_utf8 || value.is_ascii()).then(|| hash::bytes(value)),
        KeyType::Uuid => uuid(value).map(|uuid| hash::bytes(&uuid)),
        KeyType::Date => date(value).map(hash::integer),
        KeyType::Timestamp => timestamp(value).map(hash::integer),
        // It depends on the session's time zone.
        KeyType::TimestampTz | KeyType::Other => None,
    }
}

/// A decimal number without digits that are grouped, which versions before 16 refuse.
fn decimal(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// A UUID in its usual form, or without hyphens.
fn uuid(value: &[u8]) -> Option<[u8; 16]> {
    let hyphens = [8, 13, 18, 23];
    if value.len() != 32 && (value.len() != 36 || !hyphens.iter().all(|&place| value.get(place) == Some(&b'-'))) {
        return None;
    }
    let mut digits = value.iter().enumerate().filter(|(place, _)| value.len() == 32 || !hyphens.contains(place));
    let mut digit = || digits.next().and_then(|(_, &digit)| char::from(digit).to_digit(16));
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        *byte = u8::try_from(digit()? << 4 | digit()?).ok()?;
    }
    Some(uuid)
}

/// The digits of a field, all of them.
fn number(value: &[u8]) -> Option<i64> {
    if value.iter().all(u8::is_ascii_digit) { decimal(value) } else { None }
}

/// The days from 2000-01-01 to a date that is written `YYYY-MM-DD`, which every DateStyle reads alike.
fn date(value: &[u8]) -> Option<i64> {
    let [year @ .., b'-', m1, m2, b'-', d1, d2] = value else { return None };
    if year.len() != 4 {
        return None;
    }
    let (year, month, day) = (number(year)?, number(&[*m1, *m2])?, number(&[*d1, *d2])?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month = usize::try_from(month - 1).ok()?;
    if year < 1 || day < 1 || day > *days.get(month)? {
        return None;
    }
    let before: i64 = days.iter().take(month).sum();
    let years = year - 1;
    // Day 730,119 of the Gregorian calendar is 2000-01-01.
    Some(years * 365 + years / 4 - years / 100 + years / 400 + before + day - 1 - 730_119)
}

/// The microseconds from 2000-01-01 to a time that is written `YYYY-MM-DD HH:MM:SS`, with up to six more digits.
fn timestamp(value: &[u8]) -> Option<i64> {
    let (day, time) = value.split_at_checked(10)?;
    let [b' ' | b'T', h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = time else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    let fraction = match rest {
        [] => 0,
        [b'.', digits @ ..] if (1..=6).contains(&digits.len()) => {
            number(digits)? * 10_i64.pow(6 - u32::try_from(digits.len()).ok()?)
        }
        _ => return None,
    };
    let valid = hour < 24 && minute < 60 && second < 60;
    valid.then_some(())?;
    Some((date(day)? * 86_400 + hour * 3600 + minute * 60 + second) * 1_000_000 + fraction)
}
