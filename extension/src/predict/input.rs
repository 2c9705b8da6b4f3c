//! From the arguments of a call to a row of features: where each feature comes from is worked out once a call site.

use pgrx::pg_sys;

use crate::error::{Error, Result};
use crate::features::{Kind, Many, Number, TextKind, Word, type_name};
use crate::names::Resolved;
use crate::registry;

/// How a call gives its features, told from the types of its arguments.
pub enum Input {
    /// One array or vector, whose elements are the features.
    Array(Many),
    /// One composite value, whose columns are found by name.
    Row(Row),
    /// One argument a column.
    Scalars(Vec<Scalar>),
    /// One text: an array as text, such as `{1, 2.5, NULL}`, or the one feature of a model that has one.
    Text(Scalar),
}

/// The latest composite type met, and which of its columns feed the model.
#[derive(Default)]
pub struct Row {
    shape: Option<RowShape>,
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

struct RowShape {
    type_oid: pg_sys::Oid,
    typmod: i32,
    descriptor: pg_sys::TupleDesc,
    feeds: Vec<Feed>,
}

pub struct Scalar {
    /// The position of the argument in the call.
    argument: usize,
    type_oid: pg_sys::Oid,
    kind: Kind,
    feed: Option<Feed>,
}

/// One column's way into the row.
pub struct Feed {
    /// The attribute or argument, from 0.
    source: usize,
    /// The type that a literal is to be read as, first.
    literal: Option<pg_sys::Oid>,
    kind: Kind,
    /// The model's column, and its place in the row.
    column: usize,
    offset: usize,
    size: usize,
    /// Taken off the values, one for each feature; none where nothing is.
    origins: Vec<f64>,
    is_category: bool,
}

/// Types that may say an array as text.
const IS_TEXT: [pg_sys::Oid; 3] = [pg_sys::TEXTOID, pg_sys::VARCHAROID, pg_sys::BPCHAROID];

impl Input {
    /// `types`: those of the arguments that give features, the first of which is argument number `first`.
    pub fn of(types: &[pg_sys::Oid], first: usize) -> Result<Input> {
        if let [only] = types {
            match Kind::of(*only) {
                Some(Kind::Many(many)) if many.size().is_none() => return Ok(Input::Array(many)),
                // SAFETY: a catalog look-up within a transaction.
                None if unsafe { pg_sys::type_is_rowtype(*only) } => return Ok(Input::Row(Row::default())),
                // Text to all but drivers: see parameter.rs.
                None if *only == registry::type_named(c"features") => return Input::of(&[pg_sys::TEXTOID], first),
                _ => {}
            }
        }
        let scalars = types.iter().enumerate().map(|(i, &type_oid)| match Kind::of(type_oid) {
            Some(kind) => Ok(Scalar { argument: first + i, type_oid, kind, feed: None }),
            None => Err(cannot_be_feature(&format!("argument {}", first + i + 1), type_oid)),
        });
        let mut scalars = scalars.collect::<Result<Vec<Scalar>>>()?;
        match scalars.pop() {
            Some(only) if scalars.is_empty() && IS_TEXT.contains(&only.type_oid) => Ok(Input::Text(only)),
            last => {
                scalars.extend(last);
                Ok(Input::Scalars(scalars))
            }
        }
    }

    /// Fits the input to a model: called when the call site meets it first, and again when the meaning changes.
    pub fn fit(&mut self, target: &Resolved) -> Result<()> {
        match self {
            Input::Array(many) => {
                warn_of_single(*many, target);
                Ok(())
            }
            Input::Row(row) => {
                row.forget();
                Ok(())
            }
            Input::Scalars(scalars) => fit_scalars(scalars, target),
            Input::Text(scalar) => {
                scalar.feed = None;
                match target.model.columns.as_slice() {
                    [only] if only.is_category() => fit_scalars(std::slice::from_mut(scalar), target),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Fills `row` (emptied first) with the model's features.
    ///
    /// # Safety
    /// `arguments` are those of the call whose types `of` was given.
    #[inline]
    pub unsafe fn read(
        &mut self,
        target: &Resolved,
        arguments: &[pg_sys::NullableDatum],
        first: usize,
        row: &mut Vec<f32>,
    ) -> Result<()> {
        row.clear();
        match self {
            Input::Scalars(scalars) => {
                row.resize(target.model.width(), f32::NAN);
                for scalar in scalars {
                    let argument = &arguments[scalar.argument];
                    if let (false, Some(feed)) = (argument.isnull, &scalar.feed) {
                        // SAFETY: the argument is of the type that the feed was made for.
                        unsafe { feed.read(argument.value, target, row)? };
                    }
                }
                Ok(())
            }
            Input::Text(Scalar { feed: Some(feed), .. }) => {
                row.resize(target.model.width(), f32::NAN);
                // SAFETY: the argument is a text, and not NULL.
                unsafe { feed.read(arguments[first].value, target, row) }
            }
            Input::Text(_) => {
                // SAFETY: the argument is a text, and not NULL.
                let number = if target.model.origins().is_empty() { Number::Float4 } else { Number::Float8 };
                // SAFETY: as above.
                let array = unsafe { array_of_text(arguments[first].value, target.model.width() == 1, number) };
                let array_type = Many::Array(number);
                // SAFETY: the input function gives an array of that type.
                let shape = unsafe { array_type.read_less(array, target.model.width(), target.model.origins(), row)? };
                match shape.len == target.model.width() {
                    true => target.model.number_categories(row),
                    false => Err(wrong_width(target, shape.len)),
                }
            }
            Input::Array(many) => {
                // SAFETY: the argument is of this type; the caller has seen that it is not NULL.
                let shape = unsafe {
                    many.read_less(arguments[first].value, target.model.width(), target.model.origins(), row)?
                };
                if shape.len != target.model.width() {
                    return Err(wrong_width(target, shape.len));
                }
                target.model.number_categories(row)
            }
            // SAFETY: a composite value, not NULL.
            Input::Row(composite) => unsafe { composite.read(arguments[first].value, target, row) },
        }
    }
}

/// Says that numbers have lost digits before they came here: as real, of which an origin is taken off too late.
pub fn warn_of_single(many: Many, target: &Resolved) {
    if target.model.origins().is_empty() || !matches!(many, Many::Array(Number::Float4) | Many::Vector) {
        return;
    }
    let named = target.model.columns.iter().filter(|column| !column.origins.is_empty());
    let names: Vec<String> = named.map(|column| format!("\"{}\"", column.name)).collect();
    crate::train::report::warning(&format!(
        "an array of real has fewer digits than {target} knows of {}: use pgml.predict or pgml.predict_agg, with values as \
         double precision",
        names.join(", ")
    ));
}

/// A literal as a value of the type; what it cannot be is PostgreSQL's own ERROR.
///
/// # Safety
/// `literal` is a C string, and the type has an input function.
unsafe fn from_literal(type_oid: pg_sys::Oid, literal: pg_sys::Datum) -> pg_sys::Datum {
    let (mut input, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
    // SAFETY: as the caller promises.
    unsafe {
        pg_sys::getTypeInputInfo(type_oid, &mut input, &mut parameter);
        pg_sys::OidInputFunctionCall(input, literal.cast_mut_ptr(), parameter, -1)
    }
}

/// What a text says as a real[], or a double precision[], of one number without braces where `one` is set; what it cannot be is PostgreSQL's own
/// ERROR.
///
/// # Safety
/// `text` is a text, not NULL.
unsafe fn array_of_text(text: pg_sys::Datum, one: bool, number: Number) -> pg_sys::Datum {
    let element = if number == Number::Float8 { pg_sys::FLOAT8OID } else { pg_sys::FLOAT4OID };
    // SAFETY: as the caller promises; the input function and the type are built in. A text has no zero byte.
    unsafe {
        let text = std::ffi::CStr::from_ptr(pg_sys::text_to_cstring(text.cast_mut_ptr()));
        let braced = text.to_string_lossy().trim_start().starts_with(['{', '[']);
        let text = match braced || !one {
            true => text.to_owned(),
            false => std::ffi::CString::new([b"{", text.to_bytes(), b"}"].concat()).unwrap_or_default(),
        };
        pg_sys::OidInputFunctionCall(pg_sys::F_ARRAY_IN.into(), text.as_ptr().cast_mut(), element, -1)
    }
}

impl Row {
    /// # Safety
    /// `datum` is a composite value.
    unsafe fn read(&mut self, datum: pg_sys::Datum, target: &Resolved, row: &mut Vec<f32>) -> Result<()> {
        // SAFETY: a composite value is a varlena with a tuple header that says its type; its attributes are read
        // by the descriptor of that type.
        unsafe {
            let header: pg_sys::HeapTupleHeader = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast();
            let type_oid = (*header).t_choice.t_datum.datum_typeid;
            let typmod = (*header).t_choice.t_datum.datum_typmod;
            if !matches!(&self.shape, Some(shape) if shape.type_oid == type_oid && shape.typmod == typmod) {
                self.forget();
                self.shape = Some(RowShape::of(type_oid, typmod, target)?);
            }
            let Some(shape) = &self.shape else { return Ok(()) };
            let count = usize::try_from((*shape.descriptor).natts).unwrap_or(0);
            self.values.resize(count, pg_sys::Datum::from(0));
            self.nulls.resize(count, true);
            let mut tuple = pg_sys::HeapTupleData {
                t_len: (*header).t_choice.t_datum.datum_len_ as u32 >> 2,
                t_data: header,
                ..Default::default()
            };
            pg_sys::heap_deform_tuple(&mut tuple, shape.descriptor, self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            row.resize(target.model.width(), f32::NAN);
            for feed in &shape.feeds {
                if !self.nulls[feed.source] {
                    feed.read(self.values[feed.source], target, row)?;
                }
            }
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.shape = None;
    }
}

impl Drop for RowShape {
    fn drop(&mut self) {
        // SAFETY: a private copy, freed once.
        unsafe { pg_sys::FreeTupleDesc(self.descriptor) }
    }
}

impl RowShape {
    /// The columns of the type that the model wants, by name. A row constructor, `ROW(1, 2, 3)`, has no names: its
    /// values are taken in the model's order.
    fn of(type_oid: pg_sys::Oid, typmod: i32, target: &Resolved) -> Result<RowShape> {
        // SAFETY: the type of an existing value. The copy is made in a context that outlives the call site, which frees
        // it when dropped.
        let descriptor = unsafe {
            let previous = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let descriptor = pg_sys::lookup_rowtype_tupdesc_copy(type_oid, typmod);
            pg_sys::MemoryContextSwitchTo(previous);
            descriptor
        };
        let mut shape = RowShape { type_oid, typmod, descriptor, feeds: Vec::new() };
        let attributes = shape.attributes();
        // PostgreSQL calls the values of a row constructor f1, f2, ..., as columns of the model may be called too.
        let columns = target.model.columns.len();
        let constructed = type_oid == pg_sys::RECORDOID
            && attributes.iter().enumerate().all(|(i, (_, name, _))| *name == format!("f{}", i + 1));
        shape.feeds = if !constructed {
            Feed::by_name(target, &attributes)?
        } else if attributes.len() == columns {
            Feed::all(target, |index, _| Ok(attributes.get(index)))?
        } else {
            return Err(Error::invalid(format!(
                "the row has {}, and {target} takes {columns}",
                learn::count(attributes.len(), "value")
            ))
            .hint(takes(target)));
        };
        Ok(shape)
    }

    /// Number, name and type of each attribute that is not dropped.
    fn attributes(&self) -> Vec<Attribute> {
        // SAFETY: a valid descriptor of ours; how its attributes lie in it differs between the majors, which pgrx knows.
        let descriptor = unsafe { pgrx::PgTupleDesc::from_pg_copy(self.descriptor) };
        let named = |(i, attribute): (usize, &pg_sys::FormData_pg_attribute)| {
            // SAFETY: the catalog's names end with a zero byte.
            let name = unsafe { std::ffi::CStr::from_ptr(attribute.attname.data.as_ptr()) };
            (!attribute.attisdropped).then(|| (i, name.to_string_lossy().into_owned(), attribute.atttypid))
        };
        descriptor.iter().enumerate().filter_map(named).collect()
    }
}

fn fit_scalars(scalars: &mut [Scalar], target: &Resolved) -> Result<()> {
    let columns = target.model.columns.len();
    if scalars.len() != columns {
        if columns == target.model.width() {
            return Err(wrong_width(target, scalars.len()));
        }
        let text = format!("{target} takes {}, and the call gives {}", learn::count(columns, "column"), scalars.len());
        return Err(Error::invalid(text).hint(takes(target)));
    }
    for (index, scalar) in scalars.iter_mut().enumerate() {
        scalar.feed = Some(Feed::new(scalar.argument, (scalar.type_oid, scalar.kind), index, target)?);
    }
    Ok(())
}

/// Number, name and type of a column of a row.
pub type Attribute = (usize, String, pg_sys::Oid);

impl Feed {
    /// One for each of the model's columns, found by name.
    pub fn by_name(target: &Resolved, attributes: &[Attribute]) -> Result<Vec<Feed>> {
        Feed::all(target, |_, name| {
            let mut found = attributes.iter().filter(|(_, other, _)| other == name);
            let first = found.next();
            match found.next() {
                None => Ok(first),
                Some(_) => Err(Error::new(
                    pgrx::PgSqlErrorCode::ERRCODE_AMBIGUOUS_COLUMN,
                    format!("the row has several columns \"{name}\""),
                )),
            }
        })
    }

    /// One for each of the model's columns; `find` says, by its number and its name, which column of the row it is.
    fn all<'a>(target: &Resolved, find: impl Fn(usize, &str) -> Result<Option<&'a Attribute>>) -> Result<Vec<Feed>> {
        let mut feeds = Vec::with_capacity(target.model.columns.len());
        for (index, column) in target.model.columns.iter().enumerate() {
            let Some((source, _, attribute_type)) = find(index, &column.name)? else {
                return Err(Error::new(
                    pgrx::PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                    format!("the row has no column \"{}\", which {target} was trained with", column.name),
                )
                .hint(takes(target)));
            };
            let Some(kind) = Kind::of(*attribute_type) else {
                return Err(cannot_be_feature(&format!("column \"{}\"", column.name), *attribute_type));
            };
            feeds.push(Feed::new(*source, (*attribute_type, kind), index, target)?);
        }
        Ok(feeds)
    }

    /// The column, from 0, that it reads.
    pub fn source(&self) -> usize {
        self.source
    }

    fn new(source: usize, (type_oid, kind): (pg_sys::Oid, Kind), index: usize, target: &Resolved) -> Result<Feed> {
        let column = &target.model.columns[index];
        let literal = column.literal.filter(|_| type_oid == pg_sys::UNKNOWNOID);
        let kind = literal.and_then(Kind::of).unwrap_or(kind);
        let fits = match kind {
            Kind::Text(TextKind::CString) if type_oid == pg_sys::UNKNOWNOID => true,
            Kind::Text(_) => column.is_category() && !column.has_number_categories() && !column.has_date_categories(),
            Kind::Number(_) => (!column.is_category() || column.has_number_categories()) && column.size == 1,
            Kind::Many(Many::Moment(moment)) if column.is_category() => moment.is_date && column.has_date_categories(),
            Kind::Many(Many::Moment(moment)) => column.moment.is_some_and(|trained| trained.is_date == moment.is_date),
            Kind::Many(_) => !column.is_category() && column.moment.is_none(),
        };
        if !fits {
            let trained = if column.has_date_categories() {
                "a date".to_owned()
            } else if column.is_category() && !column.has_number_categories() {
                "text".to_owned()
            } else if let Some(moment) = column.moment {
                if moment.is_date { "a date".to_owned() } else { "a timestamp".to_owned() }
            } else if column.size == 1 {
                "a number".to_owned()
            } else {
                format!("an array of {} numbers", column.size)
            };
            return Err(Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!(
                    "column \"{}\" of {target} was {trained} in training and is {} here",
                    column.name,
                    type_name(type_oid)
                ),
            )
            .hint("Cast the column to the type that the model was trained with."));
        }
        let origins = column.origins.clone();
        // A model of before knows fewer parts of a moment.
        let kind = column.moment.map_or(kind, |moment| Kind::Many(Many::Moment(moment)));
        let is_category = column.is_category();
        let (offset, size) = (column.offset, column.size);
        Ok(Feed { source, literal, kind, column: index, offset, size, origins, is_category })
    }

    /// # Safety
    /// `datum` is a value of the type that the feed was made for, not NULL.
    #[inline]
    pub unsafe fn read(&self, datum: pg_sys::Datum, target: &Resolved, row: &mut [f32]) -> Result<()> {
        // SAFETY: as the caller promises; a literal without a type is a C string.
        unsafe {
            let datum = self.literal.map_or(datum, |type_oid| from_literal(type_oid, datum));
            match self.kind {
                Kind::Number(number) if self.is_category => {
                    row[self.offset] = self.category_of_number(number, datum, target)?;
                }
                Kind::Number(number) => {
                    row[self.offset] = match self.origins.first() {
                        None => number.read(datum),
                        Some(origin) => (number.double(datum) - origin) as f32,
                    }
                }
                Kind::Many(Many::Moment(_)) if self.is_category => {
                    let (word, mut room) = (Word::of(self.kind), String::new());
                    row[self.offset] = match word {
                        Some(word) => self.category(word.read(datum, &mut room)?, target)?,
                        None => f32::NAN,
                    };
                }
                Kind::Text(text) => row[self.offset] = self.category(text.read(datum)?, target)?,
                Kind::Many(many) => {
                    let mut elements = Vec::with_capacity(self.size);
                    let shape = many.read_less(datum, self.size, &self.origins, &mut elements)?;
                    if shape.len != self.size {
                        let name = &target.model.columns[self.column].name;
                        return Err(Error::invalid(format!(
                            "column \"{name}\" has {}, and {target} takes {}",
                            learn::count(shape.len, "element"),
                            self.size
                        )));
                    }
                    row[self.offset..self.offset + self.size].copy_from_slice(&elements);
                }
            }
        }
        Ok(())
    }

    /// # Safety
    /// `datum` is a value of the number's type, not NULL.
    unsafe fn category_of_number(&self, number: Number, datum: pg_sys::Datum, target: &Resolved) -> Result<f32> {
        let column = &target.model.columns[self.column];
        // SAFETY: as the caller promises.
        unsafe {
            match Word::of(Kind::Number(number)) {
                Some(word) if (number == Number::Bool) == column.is_boolean() => {
                    self.category(word.read(datum, &mut String::new())?, target)
                }
                _ => Ok(column.category_of_number(number.double(datum))),
            }
        }
    }

    fn category(&self, text: &str, target: &Resolved) -> Result<f32> {
        let origin = self.origins.first().copied().unwrap_or(0.0);
        let column = &target.model.columns[self.column];
        match column.category(text) {
            Some(code) => Ok(code),
            // A literal such as '1.5' for a column of numbers.
            None => text.trim().parse().map(|number: f64| (number - origin) as f32).map_err(|_| {
                Error::new(
                    pgrx::PgSqlErrorCode::ERRCODE_INVALID_TEXT_REPRESENTATION,
                    format!("column \"{}\" takes a number, and \"{text}\" is not a number", column.name),
                )
            }),
        }
    }
}

/// A call with another number of features than the model has.
pub fn wrong_width(target: &Resolved, got: usize) -> Error {
    let expected = target.model.width();
    let expected = learn::count(expected, "feature");
    Error::invalid(format!("{target} takes {expected}, and the call gives {got}")).hint(takes(target))
}

fn takes(target: &Resolved) -> String {
    let shown = target.model.columns.iter().take(30).map(|column| match (column.moment, column.size) {
        (Some(moment), _) => {
            let parts: Vec<&str> = moment.parts.iter().map(|part| part.name()).collect();
            format!("{} ({})", column.name, parts.join(", "))
        }
        (None, 1) => column.name.clone(),
        (None, size) => format!("{}[{size}]", column.name),
    });
    let more = if target.model.columns.len() > 30 { ", ..." } else { "" };
    format!("The model takes, in this order: {}{more}.", shown.collect::<Vec<_>>().join(", "))
}

fn cannot_be_feature(what: &str, type_oid: pg_sys::Oid) -> Error {
    Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
        format!("{what} is of type {}, which cannot be a feature", type_name(type_oid)),
    )
    .hint("Features are numbers, booleans, text, enums, dates, times, intervals, and arrays of numbers; cast or convert the value.")
}
