//! The preparation of columns for an algorithm: categories become numbers, missing values are filled in, numbers are
//! scaled. It is learnt from the training rows alone, kept with the model, and the same in every prediction.
//!
//! A *raw* row has one number a feature as SQL gives it: a category's index, NaN where a value is missing. A [`Pipeline`]
//! makes the *finished* row of it, which may be wider.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::nearest::nearest;

/// How a category becomes numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encode {
    /// Its index, which the algorithm knows to be a category.
    Native,
    /// A feature for each category that training rows had: 1 for the row's, 0 for the others. A category that was not
    /// among them, and NULL, are 0 in all.
    OneHot,
    /// The mean of the label over the training rows of the category; of a classification with two classes the share of
    /// the second, with more the mean of the class's index. NULL has a mean of its own where training rows had it; else
    /// it stands, as a category without training rows does, for the mean of all rows.
    Target,
    /// The category's place in this list, from 1. NULL, and what is not in the list, is 0, unless it is imputed.
    Ordinal(Vec<String>),
    /// The index of its [`bucket`], of a fixed number of buckets: for columns with more values than can be told apart.
    Hash(u32),
    /// Its index, which the algorithm does not see: it chooses the model.
    GroupBy,
}

/// The bucket of a text: its hash by FNV-1a (64 bits), modulo the number of buckets. It is the same for ever, since
/// models know texts by it.
pub fn bucket(text: &str, buckets: u32) -> u32 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    u32::try_from(hash % u64::from(buckets.max(1))).unwrap_or(0)
}

/// The most buckets that a column may be hashed to.
pub const MOST_BUCKETS: u32 = 65_536;

/// The name of [`Encode::GroupBy`].
pub const GROUP_BY: &str = "group_by";

/// What a missing value becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Impute {
    /// It stays missing: an error where the algorithm takes no missing values.
    Error,
    /// The mean.
    Mean,
    /// The median.
    Median,
    /// The most frequent value or category, the smallest of several.
    Mode,
    /// The least value.
    Min,
    /// The greatest value.
    Max,
    /// Zero.
    Zero,
    /// This number, or this category, which need not be among those of the rows.
    Constant(Value),
}

/// Onto which scale numbers are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Their own.
    Preserve,
    /// Less their mean, divided by their standard deviation.
    Standard,
    /// From 0 for the least to 1 for the greatest.
    MinMax,
    /// Divided by the greatest absolute value.
    MaxAbs,
    /// Less their median, divided by the distance between their quartiles.
    Robust,
}

const IMPUTES: [(&str, Impute); 7] = [
    ("error", Impute::Error),
    ("mean", Impute::Mean),
    ("median", Impute::Median),
    ("mode", Impute::Mode),
    ("min", Impute::Min),
    ("max", Impute::Max),
    ("zero", Impute::Zero),
];

const SCALES: [(&str, Scale); 5] = [
    ("preserve", Scale::Preserve),
    ("standard", Scale::Standard),
    ("min_max", Scale::MinMax),
    ("max_abs", Scale::MaxAbs),
    ("robust", Scale::Robust),
];

/// What a column is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is learnt from.
    Feature,
    /// Nothing.
    Ignore,
    /// How much each row counts in the training.
    Weight,
    /// Whether each row is tested on.
    Test,
    /// When each row was: the last ones are tested on.
    Time,
    /// What each row belongs to: rows of a group are all trained on, or all tested on.
    Group,
    /// What names each row: on which side it is follows from this alone.
    Key,
}

const ROLES: [(&str, Role); 7] = [
    ("feature", Role::Feature),
    ("ignore", Role::Ignore),
    ("weight", Role::Weight),
    ("test", Role::Test),
    ("time", Role::Time),
    ("group", Role::Group),
    ("key", Role::Key),
];

/// What is asked for a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// What the column is for.
    pub role: Role,
    /// Of a column of categories; `None` where nothing was asked for.
    pub encode: Option<Encode>,
    /// What becomes of missing values; `None` where nothing was asked for.
    pub impute: Option<Impute>,
    /// Whether a feature of its own says that the value was missing.
    pub indicator: bool,
    /// The scale.
    pub scale: Scale,
    /// Whether a column without any value to learn from is filled with 0, rather than refused.
    pub lenient: bool,
}

/// The name under which `preprocess` says what is done to all columns that it fits.
pub const ALL: &str = "*";

/// Nothing is done.
impl Default for Spec {
    fn default() -> Spec {
        Spec {
            role: Role::Feature,
            encode: None,
            impute: None,
            indicator: false,
            scale: Scale::Preserve,
            lenient: false,
        }
    }
}

impl Spec {
    /// Reads `{"encode": "one_hot", "impute": "mean", "scale": "standard"}`, or `{"role": "weight"}`, the settings of column
    /// `column`.
    ///
    /// # Errors
    /// [`Error::Columns`], which names the column and what is possible.
    pub fn parse(column: &str, value: &Value) -> Result<Spec, Error> {
        let Value::Object(given) = value else {
            return Err(refused(column, format!("must be a JSON object, not {value}")));
        };
        let mut spec = Spec::default();
        for (name, value) in given {
            match name.as_str() {
                "role" => spec.role = one_of(column, name, value, &ROLES)?,
                "encode" => spec.encode = Some(encode(column, value)?),
                "impute" => spec.impute = Some(impute(column, value)?),
                "indicator" => {
                    let indicator = value.as_bool();
                    spec.indicator =
                        indicator.ok_or_else(|| refused(column, "has \"indicator\", which takes true or false"))?;
                }
                "scale" => spec.scale = one_of(column, name, value, &SCALES)?,
                _ => {
                    let what = format!("has \"{name}\", and takes role, encode, impute, indicator and scale");
                    return Err(refused(column, what));
                }
            }
        }
        if spec.role != Role::Feature && spec != (Spec { role: spec.role, ..Spec::default() }) {
            return Err(refused(
                column,
                "cannot have encode, impute, indicator or scale beside this \"role\": the column is not learnt from",
            ));
        }
        if spec.encode == Some(Encode::GroupBy) && spec != (Spec { encode: Some(Encode::GroupBy), ..Spec::default() }) {
            return Err(refused(column, "cannot have impute, indicator or scale: the column tells the group of a row"));
        }
        if column == ALL && (given.contains_key("role") || spec.encode == Some(Encode::GroupBy)) {
            let what = if given.contains_key("role") { "role" } else { "encode" };
            return Err(refused(column, format!("cannot have this \"{what}\": it stands for all columns")));
        }
        Ok(spec)
    }

    /// What is asked for a column by its name, and, of what that leaves open, by [`ALL`], as far as it fits a column of
    /// categories or of numbers.
    ///
    /// # Errors
    /// As [`Spec::parse`].
    pub fn of(preprocess: &Map<String, Value>, column: &str, category: bool) -> Result<Spec, Error> {
        let Some(all) = preprocess.get(ALL).and_then(Value::as_object) else {
            return preprocess.get(column).map_or(Ok(Spec::default()), |own| Spec::parse(column, own));
        };
        let of_texts = |value: &Value| value.get("constant").is_some_and(Value::is_string);
        let fits = |name: &str, value: &Value| match name {
            "encode" => category,
            "scale" => !category,
            "impute" if category => value == "mode" || of_texts(value),
            "impute" => !of_texts(value),
            _ => true,
        };
        let mut merged: Map<String, Value> = all.clone();
        merged.retain(|name, value| fits(name, value));
        match preprocess.get(column) {
            None => {}
            Some(own) if own.get("encode").is_some_and(|encode| encode == GROUP_BY) => return Spec::parse(column, own),
            Some(Value::Object(own)) if own.get("role").is_none_or(|role| role == "feature") => {
                merged.extend(own.clone());
            }
            Some(own) => return Spec::parse(column, own),
        }
        Spec::parse(column, &Value::Object(merged))
    }
}

fn impute(column: &str, value: &Value) -> Result<Impute, Error> {
    let constant = value.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("constant"));
    match constant {
        Some(Value::Number(number)) if number.as_f64().is_some_and(|number| (number as f32).is_finite()) => {
            Ok(Impute::Constant(Value::Number(number.clone())))
        }
        Some(text @ Value::String(_)) => Ok(Impute::Constant(text.clone())),
        Some(_) => Err(refused(column, "has \"constant\", which takes a number or a text")),
        None => one_of(column, "impute", value, &IMPUTES).map_err(|error| and_also(error, "{\"constant\": ...}")),
    }
}

fn refused(column: &str, why: impl std::fmt::Display) -> Error {
    Error::Columns(format!("preprocess of column \"{column}\" {why}"))
}

fn encode(column: &str, value: &Value) -> Result<Encode, Error> {
    let ordinal = value.as_object().and_then(|object| match object.len() {
        1 => object.get("ordinal").and_then(Value::as_array),
        _ => None,
    });
    if let Some(list) = ordinal {
        let texts: Option<Vec<String>> = list.iter().map(|value| value.as_str().map(str::to_owned)).collect();
        return match texts {
            Some(texts) if !texts.is_empty() => Ok(Encode::Ordinal(texts)),
            _ => Err(refused(column, "has \"ordinal\", which takes a list of texts")),
        };
    }
    let hash = value.as_object().filter(|object| object.len() == 1).and_then(|object| object.get("hash"));
    if let Some(buckets) = hash {
        let buckets = buckets.as_u64().filter(|buckets| (2..=u64::from(MOST_BUCKETS)).contains(buckets));
        return buckets.and_then(|buckets| u32::try_from(buckets).ok()).map(Encode::Hash).ok_or_else(|| {
            refused(column, format!("has \"hash\", which takes a number of buckets from 2 to {MOST_BUCKETS}"))
        });
    }
    one_of(
        column,
        "encode",
        value,
        &[
            ("native", Encode::Native),
            ("one_hot", Encode::OneHot),
            ("target", Encode::Target),
            (GROUP_BY, Encode::GroupBy),
        ],
    )
    .map_err(|error| and_also(error, "{\"ordinal\": [...]}, {\"hash\": n}"))
}

/// An error that lists what is possible, of which more is.
fn and_also(error: Error, more: &str) -> Error {
    match error {
        Error::Columns(text) => Error::Columns(format!("{text}, {more}")),
        error => error,
    }
}

fn one_of<T: Clone>(column: &str, name: &str, value: &Value, known: &[(&'static str, T)]) -> Result<T, Error> {
    let found = value.as_str().and_then(|word| known.iter().find(|(name, _)| *name == word));
    if let Some((_, found)) = found {
        return Ok(found.clone());
    }
    let words = known.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
    let close = nearest(value.as_str().unwrap_or(""), known.iter().map(|(word, _)| *word));
    let meant = close.first().map(|word| format!(" (did you mean \"{word}\"?)")).unwrap_or_default();
    Err(refused(column, format!("cannot have \"{name}\": {value}{meant}; possible are {words}")))
}

/// A raw feature, as far as a pipeline needs to know it.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'a> {
    /// Name of its column.
    pub name: &'a str,
    /// Of a column of text its categories, in the order of their indexes.
    pub categories: Option<&'a [String]>,
    /// What is asked for.
    pub spec: &'a Spec,
    /// What was taken off the column's numbers before they came here.
    pub origin: f64,
}

/// What is done to rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    steps: Vec<Step>,
    width: usize,
}

/// How a feature of a finished row is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Making {
    /// Of which raw feature.
    pub raw: usize,
    /// The index of the category that it is 1 for.
    pub category: Option<usize>,
    /// Whether it is 1 where the value is missing.
    pub indicator: bool,
    /// Taken off the number.
    pub offset: f64,
    /// The number is then divided by this.
    pub divisor: f64,
}

/// What is done to one raw feature.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    /// What becomes of the index of a category.
    encoding: Encoding,
    /// The index of the category that a missing one is.
    instead: Option<u32>,
    /// In place of a missing value, before the scale.
    fill: Option<f32>,
    /// Whether a feature behind the others is 1 where the value was missing.
    indicator: bool,
    /// Taken off, then divided by; the range of a column may be twice that of float32.
    offset: f64,
    divisor: f64,
}

#[derive(Debug, Clone, PartialEq)]
enum Encoding {
    /// Nothing: a number, or the index of a category for an algorithm that knows it.
    None,
    /// One feature for each category, of this number of categories.
    OneHot(u32),
    /// A value for each index; and for NULL.
    Values(Vec<f32>, f32),
}

/// Categories that one-hot encodings make features of, all columns together.
pub const MOST_ONE_HOT: usize = 10_000;

/// What the training rows hold of a column, as far as its step is learnt from that.
struct Seen {
    /// The sum of the labels of each category, and its rows: none where they are not needed.
    sums: Vec<(f64, u64)>,
    /// The same of NULL.
    null: (f64, u64),
    /// All values, where they are needed.
    values: Vec<f32>,
    keeps_values: bool,
}

impl Seen {
    /// Before the first row.
    fn before(raw: &Raw<'_>, encode: &Encode) -> Seen {
        let sums = match raw.categories {
            Some(names) if *encode == Encode::Target || raw.spec.impute == Some(Impute::Mode) => {
                vec![(0.0, 0); names.len()]
            }
            _ => Vec::new(),
        };
        Seen { sums, null: (0.0, 0), values: Vec::new(), keeps_values: wants_values(raw, encode) }
    }

    fn learns(&self) -> bool {
        self.keeps_values || !self.sums.is_empty()
    }

    /// Takes a row; nothing more is kept once there is no room.
    fn take(&mut self, value: f32, label: f32, room: &mut Result<(), room::NoRoom>) {
        if !self.sums.is_empty() {
            let sum = if value.is_nan() { Some(&mut self.null) } else { self.sums.get_mut(value as usize) };
            if let Some((sum, count)) = sum {
                *sum += f64::from(label);
                *count += 1;
            }
        }
        if self.keeps_values {
            if self.values.len() == self.values.capacity() && room.is_ok() {
                let more = self.values.len().max(1024);
                *room = room::reserve(&mut self.values, more);
            }
            if room.is_ok() {
                self.values.push(value);
            }
        }
    }

    /// The step of the column.
    fn step(mut self, raw: &Raw<'_>, encode: &Encode) -> Result<Step, Error> {
        let instead = raw.category_instead(&self.sums)?;
        if let Some(sum) = instead.and_then(|instead| self.sums.get_mut(instead as usize)) {
            *sum = (sum.0 + self.null.0, sum.1 + self.null.1);
            self.null = (0.0, 0);
        }
        let encoding = match encode {
            Encode::Native | Encode::Hash(_) | Encode::GroupBy => Encoding::None,
            Encode::OneHot => Encoding::OneHot(raw.categories.map_or(0, <[String]>::len) as u32),
            Encode::Target => {
                let add = |a: (f64, u64), b: &(f64, u64)| (a.0 + b.0, a.1 + b.1);
                let (sum, count) = self.sums.iter().fold(self.null, add);
                let all = sum / count.max(1) as f64;
                let mean = |(sum, count): &(f64, u64)| match *count {
                    0 => all as f32,
                    count => (sum / count as f64) as f32,
                };
                Encoding::Values(self.sums.iter().map(mean).collect(), mean(&self.null))
            }
            Encode::Ordinal(list) => {
                let places: HashMap<&str, usize> =
                    list.iter().enumerate().map(|(place, name)| (name.as_str(), place + 1)).collect();
                let place = |name: &String| places.get(name.as_str()).map_or(f32::NAN, |place| *place as f32);
                let null = if matches!(raw.spec.impute, None | Some(Impute::Error)) { 0.0 } else { f32::NAN };
                Encoding::Values(raw.categories.unwrap_or(&[]).iter().map(place).collect(), null)
            }
        };
        let step = Step { encoding, instead, fill: None, indicator: raw.spec.indicator, offset: 0.0, divisor: 1.0 };
        for value in &mut self.values {
            *value = step.encoding.of(step.known(*value));
        }
        step.learn(raw, self.values)
    }
}

impl Pipeline {
    /// Learns from training rows.
    ///
    /// `each` calls its argument with the raw rows (one after the other) and the labels of some training rows, until
    /// there are no more; it is called at most once, and not at all where nothing is learnt from values. `native` is whether the algorithm takes categories as they are;
    /// where it does not, a column of which nothing else is asked is encoded one-hot. `classes` is whether labels are
    /// indexes of classes. `None` where nothing is to be done.
    ///
    /// # Errors
    /// [`Error::Columns`] where what is asked cannot be; those of `each`.
    pub fn learn<E: From<Error>>(
        raws: &[Raw<'_>],
        native: bool,
        each: impl FnOnce(&mut dyn FnMut(&[f32], &[f32])) -> Result<(), E>,
    ) -> Result<Option<Pipeline>, E> {
        let asked: Vec<Encode> =
            raws.iter().map(|raw| encoding_of(raw, native)).collect::<Result<_, Error>>().map_err(E::from)?;
        let nothing = |(raw, encode): (&Raw<'_>, &Encode)| {
            matches!(encode, Encode::Native | Encode::GroupBy)
                && matches!(raw.spec.impute, None | Some(Impute::Error))
                && raw.spec.scale == Scale::Preserve
                && !raw.spec.indicator
        };
        if raws.iter().zip(&asked).all(nothing) {
            return Ok(None);
        }
        let mut columns: Vec<Seen> = raws.iter().zip(&asked).map(|(raw, encode)| Seen::before(raw, encode)).collect();
        let learns = columns.iter().any(Seen::learns);
        let mut room = Ok(());
        let mut take = |rows: &[f32], labels: &[f32]| {
            for (row, label) in rows.chunks_exact(raws.len()).zip(labels) {
                for (column, value) in columns.iter_mut().zip(row) {
                    column.take(*value, *label, &mut room);
                }
            }
        };
        // Constants need no pass over the rows.
        if learns {
            each(&mut take)?;
        }
        room.map_err(|_| E::from(Error::Memory))?;
        let mut steps = Vec::with_capacity(raws.len());
        for ((raw, encode), seen) in raws.iter().zip(&asked).zip(columns) {
            steps.push(seen.step(raw, encode).map_err(E::from)?);
        }
        Pipeline::of(steps).map(Some).map_err(E::from)
    }

    fn of(steps: Vec<Step>) -> Result<Pipeline, Error> {
        let width = steps.iter().map(Step::width).sum();
        let one_hot: usize = steps.iter().map(|step| step.encoding.one_hot()).sum();
        if one_hot > MOST_ONE_HOT || width == 0 {
            return Err(Error::Columns(format!(
                "columns of text have {one_hot} distinct values, and {MOST_ONE_HOT} are the most that become features of \
                 their own: ask for preprocess \"encode\": \"target\", or leave columns out"
            )));
        }
        Ok(Pipeline { steps, width })
    }

    /// How many features a raw row has.
    pub fn raw_width(&self) -> usize {
        self.steps.len()
    }

    /// How many features a finished row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// For each feature of a finished row the raw feature that it was made from.
    pub fn sources(&self) -> Vec<usize> {
        self.steps.iter().enumerate().flat_map(|(raw, step)| std::iter::repeat_n(raw, step.width())).collect()
    }

    /// For each feature of a finished row the raw feature that it was made from, and whether it is that, or a category as that
    /// is.
    pub fn made(&self) -> Vec<(usize, bool)> {
        let mut made = Vec::with_capacity(self.width);
        for (raw, step) in self.steps.iter().enumerate() {
            let indicators = usize::from(step.indicator);
            made.extend(std::iter::repeat_n((raw, step.is_nothing()), step.width() - indicators));
            made.extend(std::iter::repeat_n((raw, false), indicators));
        }
        made
    }

    /// How each feature of a finished row is made.
    pub fn makings(&self) -> Vec<Making> {
        let each = self.steps.iter().enumerate();
        each.flat_map(|(raw, step)| {
            let one_hot = matches!(step.encoding, Encoding::OneHot(_));
            let values = step.width() - usize::from(step.indicator);
            (0..step.width()).map(move |number| match number < values {
                true => Making {
                    raw,
                    category: one_hot.then_some(number),
                    indicator: false,
                    offset: step.offset,
                    divisor: step.divisor,
                },
                false => Making { raw, category: None, indicator: true, offset: 0.0, divisor: 1.0 },
            })
        })
        .collect()
    }

    /// Appends the finished row of a raw row.
    #[inline]
    pub fn apply(&self, raw: &[f32], finished: &mut Vec<f32>) {
        for (step, raw) in self.steps.iter().zip(raw) {
            let value = &step.known(*raw);
            match &step.encoding {
                Encoding::OneHot(count) => {
                    let at = finished.len();
                    finished.resize(at + *count as usize, 0.0);
                    if *value >= 0.0
                        && let Some(own) = finished.get_mut(at..).and_then(|new| new.get_mut(*value as usize))
                    {
                        *own = 1.0;
                    }
                }
                _ => finished.push(step.finished(*value)),
            }
            finished.extend(step.indicated(*raw));
        }
    }

    /// For each number of a row as [`Pipeline::apply_compact`] makes it, of how many categories it is the index; 0 of a
    /// number that is a feature itself. `None` where there are no such columns.
    pub fn compact(&self) -> Option<Vec<u32>> {
        let numbers = |step: &Step| [step.categories(), 0].into_iter().take(1 + usize::from(step.indicator));
        let sizes: Vec<u32> = self.steps.iter().flat_map(numbers).collect();
        // A column without a category makes no feature at all.
        let none = self.steps.iter().any(|step| step.encoding == Encoding::OneHot(0));
        (!none && sizes.iter().any(|size| *size > 0)).then_some(sizes)
    }

    /// For each of these numbers the raw feature that it was made from.
    pub fn compact_sources(&self) -> Vec<usize> {
        let numbers = |step: &Step| 1 + usize::from(step.indicator);
        self.steps.iter().enumerate().flat_map(|(raw, step)| std::iter::repeat_n(raw, numbers(step))).collect()
    }

    /// Appends the finished row of a raw row, but with one number a column of one-hot features: the index of the one that
    /// is 1, or -1.
    pub fn apply_compact(&self, raw: &[f32], finished: &mut Vec<f32>) {
        for (step, raw) in self.steps.iter().zip(raw) {
            let value = step.known(*raw);
            finished.push(match step.encoding {
                Encoding::OneHot(count) if value >= 0.0 && value < count as f32 => value,
                Encoding::OneHot(_) => -1.0,
                _ => step.finished(value),
            });
            finished.extend(step.indicated(*raw));
        }
    }

    /// The features of the finished row of a raw row that are not 0, in place of what `cells` held; false where one is
    /// missing.
    pub fn cells(&self, raw: &[f32], cells: &mut Vec<(u32, f32)>) -> bool {
        cells.clear();
        let mut start = 0;
        for (step, raw) in self.steps.iter().zip(raw) {
            let value = step.known(*raw);
            match step.encoding {
                Encoding::OneHot(count) => {
                    if value >= 0.0 && value < count as f32 {
                        cells.push((start + value as u32, 1.0));
                    }
                    start += count;
                }
                _ => {
                    let value = step.finished(value);
                    if value.is_nan() {
                        return false;
                    }
                    cells.push((start, value));
                    start += 1;
                }
            }
            if let Some(missing) = step.indicated(*raw) {
                cells.push((start, missing));
                start += 1;
            }
        }
        true
    }

    /// Whether the other does the same to each feature, be what it has learnt another: which mean is filled in, which scale
    /// there is.
    pub fn is_like(&self, other: &Pipeline) -> bool {
        self.steps.len() == other.steps.len() && self.steps.iter().zip(&other.steps).all(|(a, b)| a.is_like(b))
    }

    /// As it is kept with a model.
    pub fn to_json(&self) -> Value {
        let steps: Vec<Value> = self
            .steps
            .iter()
            .map(|step| {
                let mut object = Map::new();
                match &step.encoding {
                    Encoding::None => {}
                    Encoding::OneHot(count) => {
                        object.insert("one_hot".into(), json!(count));
                    }
                    Encoding::Values(values, null) => {
                        let number = |value: &f32| if value.is_nan() { Value::Null } else { json!(value) };
                        object.insert("values".into(), values.iter().map(number).collect());
                        object.insert("null".into(), number(null));
                    }
                }
                if let Some(instead) = step.instead {
                    object.insert("instead".into(), json!(instead));
                }
                if let Some(fill) = step.fill {
                    object.insert("fill".into(), json!(fill));
                }
                if step.indicator {
                    object.insert("indicator".into(), json!(true));
                }
                if step.is_scaled() {
                    object.insert("offset".into(), json!(step.offset));
                    object.insert("divisor".into(), json!(step.divisor));
                }
                Value::Object(object)
            })
            .collect();
        Value::Array(steps)
    }

    /// Reads what [`Pipeline::to_json`] wrote; `None` for anything else.
    pub fn from_json(value: &Value) -> Option<Pipeline> {
        let wide = |value: &Value| if value.is_null() { Some(f64::NAN) } else { value.as_f64() };
        let number = |value: &Value| wide(value).map(|number| number as f32);
        let step = |value: &Value| {
            let object = value.as_object()?;
            let encoding = match (object.get("one_hot"), object.get("values")) {
                (Some(count), None) => Encoding::OneHot(u32::try_from(count.as_u64()?).ok()?),
                (None, Some(values)) => Encoding::Values(
                    values.as_array()?.iter().map(number).collect::<Option<_>>()?,
                    number(object.get("null")?)?,
                ),
                _ => Encoding::None,
            };
            let get = |name: &str, default: f64| object.get(name).map_or(Some(default), wide);
            let fill = match object.get("fill") {
                Some(fill) => Some(number(fill)?),
                None => None,
            };
            let instead = match object.get("instead") {
                Some(instead) => Some(u32::try_from(instead.as_u64()?).ok()?),
                None => None,
            };
            let indicator = object.get("indicator").is_some_and(|indicator| *indicator == true);
            let (offset, divisor) = (get("offset", 0.0)?, get("divisor", 1.0)?);
            Some(Step { encoding, instead, fill, indicator, offset, divisor })
        };
        Pipeline::of(value.as_array()?.iter().map(step).collect::<Option<_>>()?).ok()
    }
}

impl Raw<'_> {
    /// The index of the category that a missing one is to be; `counts` are those of the categories' rows.
    fn category_instead(&self, counts: &[(f64, u64)]) -> Result<Option<u32>, Error> {
        let Some(names) = self.categories else {
            return match &self.spec.impute {
                Some(Impute::Constant(Value::String(_))) => {
                    Err(refused(self.name, "cannot have \"impute\" with a text: it is a column of numbers"))
                }
                _ => Ok(None),
            };
        };
        let place = match &self.spec.impute {
            Some(Impute::Mode) => {
                // Of equals the first.
                let most = counts.iter().map(|(_, count)| *count).max().filter(|most| *most > 0);
                most.and_then(|most| counts.iter().position(|(_, count)| *count == most))
            }
            Some(Impute::Constant(constant)) => {
                let text = constant.as_str().map_or_else(|| constant.to_string(), str::to_owned);
                let place = names.iter().position(|name| *name == text);
                Some(place.ok_or_else(|| refused(self.name, format!("has no category \"{text}\" to impute")))?)
            }
            _ => None,
        };
        Ok(place.and_then(|place| u32::try_from(place).ok()))
    }
}

impl Encoding {
    /// How many features it makes of a category.
    fn one_hot(&self) -> usize {
        if let Encoding::OneHot(count) = self { *count as usize } else { 0 }
    }

    /// The one number that a value becomes.
    fn of(&self, value: f32) -> f32 {
        match self {
            Encoding::Values(values, null) if value >= 0.0 => values.get(value as usize).copied().unwrap_or(*null),
            Encoding::Values(_, null) => *null,
            _ => value,
        }
    }
}

impl Step {
    fn width(&self) -> usize {
        let value = match self.encoding {
            Encoding::OneHot(count) => count as usize,
            _ => 1,
        };
        value + usize::from(self.indicator)
    }

    /// A raw value, or the index of the category that a missing one is.
    #[inline]
    fn known(&self, raw: f32) -> f32 {
        match self.instead {
            Some(instead) if raw.is_nan() => instead as f32,
            _ => raw,
        }
    }

    /// The categories that one-hot features are made of; 0 where there are none.
    fn categories(&self) -> u32 {
        match self.encoding {
            Encoding::OneHot(count) => count,
            _ => 0,
        }
    }

    /// Whether the value was missing, where a feature says so.
    fn indicated(&self, raw: f32) -> Option<f32> {
        self.indicator.then(|| f32::from(u8::from(raw.is_nan())))
    }

    /// The one number that a known value becomes.
    #[inline]
    fn finished(&self, value: f32) -> f32 {
        let value = self.encoding.of(value);
        self.scaled(if value.is_nan() { self.fill.unwrap_or(f32::NAN) } else { value })
    }

    /// A number on its scale: at the ends of float32 where it would lie beyond.
    #[inline]
    fn scaled(&self, value: f32) -> f32 {
        let scaled = (f64::from(value) - self.offset) / self.divisor;
        match value.is_finite() {
            true => scaled.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32,
            false => scaled as f32,
        }
    }

    fn is_like(&self, other: &Step) -> bool {
        let encoded_alike = match (&self.encoding, &other.encoding) {
            (Encoding::None, Encoding::None) => true,
            (Encoding::OneHot(own), Encoding::OneHot(new)) => own == new,
            (Encoding::Values(own, _), Encoding::Values(new, _)) => own.len() == new.len(),
            _ => false,
        };
        encoded_alike
            && self.instead.is_some() == other.instead.is_some()
            && self.fill.is_some() == other.fill.is_some()
            && self.indicator == other.indicator
            && self.is_scaled() == other.is_scaled()
    }

    fn is_scaled(&self) -> bool {
        self.offset != 0.0 || self.divisor != 1.0
    }

    fn is_nothing(&self) -> bool {
        self.encoding == Encoding::None && self.fill.is_none() && !self.is_scaled()
    }

    /// The same with what is filled in and the scale. `values` are those of the training rows, encoded; empty where none
    /// were wanted.
    fn learn(self, raw: &Raw<'_>, mut values: Vec<f32>) -> Result<Step, Error> {
        if matches!(self.encoding, Encoding::OneHot(_)) {
            return Ok(self);
        }
        let rows = values.len();
        values.retain(|value| !value.is_nan());
        values.sort_unstable_by(f32::total_cmp);
        if values.is_empty() && wants_values(raw, &Encode::Native) && !raw.spec.lenient {
            return Err(refused(raw.name, "cannot be learnt: the column is NULL in all training rows"));
        }
        let (least, greatest) = (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(0.0));
        let fill = match &raw.spec.impute {
            None | Some(Impute::Error) => None,
            // Of categories that has been done.
            Some(Impute::Mode | Impute::Constant(_)) if raw.categories.is_some() => None,
            Some(Impute::Constant(number)) => number.as_f64().map(|number| (number - raw.origin) as f32),
            Some(Impute::Zero) => Some((0.0 - raw.origin) as f32),
            Some(Impute::Mean) => Some(mean(&values) as f32),
            Some(Impute::Median) => Some(quantile(&values, 0.5) as f32),
            Some(Impute::Mode) => Some(mode(&values)),
            Some(Impute::Min) => Some(least),
            Some(Impute::Max) => Some(greatest),
        };
        // What is filled in counts for the scale, as it will when the model predicts.
        let filled = fill.map(|fill| (fill, rows - values.len())).filter(|(_, count)| *count > 0);
        if let Some((fill, count)) = filled {
            room::reserve(&mut values, count)?;
            values.extend(std::iter::repeat_n(fill, count));
            values.sort_unstable_by(f32::total_cmp);
        }
        let (least, greatest) = (values.first().copied().unwrap_or(least), values.last().copied().unwrap_or(greatest));
        let (offset, divisor) = match raw.spec.scale {
            Scale::Preserve => (0.0, 1.0),
            Scale::Standard => {
                let mean = mean(&values);
                let squares: f64 = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum();
                (mean, (squares / values.len().max(1) as f64).sqrt())
            }
            Scale::MinMax => (f64::from(least), f64::from(greatest) - f64::from(least)),
            Scale::MaxAbs => (0.0, f64::from(least.abs().max(greatest.abs()))),
            Scale::Robust => (quantile(&values, 0.5), quantile(&values, 0.75) - quantile(&values, 0.25)),
        };
        // A column that is the same everywhere stays so.
        let divisor = if divisor as f32 > 0.0 { divisor } else { 1.0 };
        Ok(Step { fill, offset, divisor, ..self })
    }
}

fn encoding_of(raw: &Raw<'_>, native: bool) -> Result<Encode, Error> {
    match (&raw.spec.encode, raw.categories) {
        (Some(Encode::Hash(_)), Some(_)) => Ok(if native { Encode::Native } else { Encode::OneHot }),
        (None, None) => Ok(Encode::Native),
        (None, Some(_)) if native => Ok(Encode::Native),
        (None, Some(_)) => Ok(Encode::OneHot),
        (Some(Encode::Native), Some(_)) if !native => {
            Err(refused(raw.name, "cannot have \"encode\": \"native\": the algorithm does not take categories"))
        }
        (Some(encode), Some(_)) => Ok(encode.clone()),
        (Some(_), None) => Err(refused(
            raw.name,
            "cannot have \"encode\": only text, enums, whole numbers and booleans are encoded, and the column can be cast to \
             one of them",
        )),
    }
}

/// Whether the values of the training rows are needed.
fn wants_values(raw: &Raw<'_>, encode: &Encode) -> bool {
    // The most frequent category is counted apart.
    let known = match raw.spec.impute {
        None | Some(Impute::Error | Impute::Zero | Impute::Constant(_)) => true,
        Some(Impute::Mode) => raw.categories.is_some(),
        Some(_) => false,
    };
    *encode != Encode::OneHot && (raw.spec.scale != Scale::Preserve || !known)
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len().max(1) as f64
}

/// Between the two values around it, in proportion. `values` are in order.
fn quantile(values: &[f32], share: f64) -> f64 {
    let at = share * values.len().saturating_sub(1) as f64;
    let value = |index: usize| f64::from(values.get(index).copied().unwrap_or(0.0));
    let (below, above) = (value(at.floor() as usize), value(at.ceil() as usize));
    below + (above - below) * at.fract()
}

/// `values` are in order.
fn mode(values: &[f32]) -> f32 {
    let mut best = (0, 0.0);
    for run in values.chunk_by(|a, b| a == b) {
        if run.len() > best.0 {
            best = (run.len(), run.first().copied().unwrap_or(0.0));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_the_same_for_ever() {
        // FNV-1a of the published vectors: "" is its basis, "a" and "foobar" those of its authors.
        assert_eq!(bucket("", 1 << 16), (0xcbf2_9ce4_8422_2325_u64 % (1 << 16)) as u32);
        assert_eq!(bucket("a", 1 << 16), (0xaf63_dc4c_8601_ec8c_u64 % (1 << 16)) as u32);
        assert_eq!(bucket("foobar", 1 << 16), (0x8594_4171_f739_67e8_u64 % (1 << 16)) as u32);
        assert_eq!(bucket("anything", 0), 0);
    }

    fn learn(raws: &[Raw<'_>], native: bool, rows: &[f32], labels: &[f32]) -> Result<Option<Pipeline>, Error> {
        Pipeline::learn(raws, native, |take| {
            // In two pieces.
            let half = labels.len() / 2;
            take(&rows[..half * raws.len()], &labels[..half]);
            take(&rows[half * raws.len()..], &labels[half..]);
            Ok(())
        })
    }

    fn spec(json: &str) -> Spec {
        Spec::parse("c", &serde_json::from_str(json).unwrap()).unwrap()
    }

    fn finished(pipeline: &Pipeline, raw: &[f32]) -> Vec<f32> {
        let mut row = Vec::new();
        pipeline.apply(raw, &mut row);
        assert_eq!(row.len(), pipeline.width());
        row
    }

    const NAN: f32 = f32::NAN;

    #[test]
    fn numbers_are_filled_and_scaled() {
        for (json, expected) in [
            (r#"{"impute": "mean"}"#, [1.0, 3.0, 9.0]),
            (r#"{"impute": "median"}"#, [1.0, 2.0, 9.0]),
            (r#"{"impute": "mode"}"#, [1.0, 1.0, 9.0]),
            (r#"{"impute": "min"}"#, [1.0, 1.0, 9.0]),
            (r#"{"impute": "max"}"#, [1.0, 9.0, 9.0]),
            (r#"{"impute": "zero"}"#, [1.0, 0.0, 9.0]),
            (r#"{"impute": "zero", "scale": "max_abs"}"#, [1.0 / 9.0, 0.0, 1.0]),
            (r#"{"impute": "min", "scale": "min_max"}"#, [0.0, 0.0, 1.0]),
            (r#"{"impute": "median", "scale": "robust"}"#, [-1.0, 0.0, 7.0]),
        ] {
            let spec = spec(json);
            let raws = [Raw { name: "c", categories: None, spec: &spec, origin: 0.0 }];
            let pipeline = learn(&raws, false, &[1.0, 2.0, NAN, 1.0, 9.0, 2.0, 1.0, 2.0], &[0.0; 8]).unwrap().unwrap();
            // 1 1 1 2 2 2 9: mean 18 / 7.
            let expected = match json.contains("mean") {
                true => [1.0, 18.0 / 7.0, 9.0],
                false => expected,
            };
            if json.contains("robust") {
                // With the median filled in: 1 1 1 2 2 2 2 9, quartiles 1 and 2.
                assert_eq!([1.0, NAN, 9.0].map(|value| finished(&pipeline, &[value])[0]), expected);
                continue;
            }
            for (raw, expected) in [1.0, NAN, 9.0].into_iter().zip(expected) {
                assert!((finished(&pipeline, &[raw])[0] - expected).abs() < 1e-6, "{json} {raw}");
            }
        }
    }

    #[test]
    fn pipelines_are_alike_that_have_learnt_the_same_from_other_rows() {
        let names = ["x".to_owned(), "y".to_owned()];
        let of = |number: &str, text: &str, rows: &[f32]| {
            let (number, text) = (spec(number), spec(text));
            let raws = [
                Raw { name: "c", categories: None, spec: &number, origin: 0.0 },
                Raw { name: "d", categories: Some(&names), spec: &text, origin: 0.0 },
            ];
            learn(&raws, true, rows, &vec![1.0; rows.len() / 2]).unwrap().unwrap()
        };
        let (scaled, target) = (r#"{"impute": "mean", "scale": "standard"}"#, r#"{"encode": "target"}"#);
        // No row has y, so that there is no mean for it.
        let first = of(scaled, target, &[1.0, 0.0, 3.0, 0.0]);
        assert!(first.is_like(&first) && first.is_like(&of(scaled, target, &[5.0, 1.0, 9.0, 0.0])));
        for (number, text) in [
            (r#"{"impute": "mean"}"#, target),
            (r#"{"scale": "standard"}"#, target),
            (scaled, r#"{"encode": "one_hot"}"#),
            (scaled, "{}"),
        ] {
            assert!(!first.is_like(&of(number, text, &[1.0, 0.0, 3.0, 1.0])), "{number} {text}");
        }
    }

    #[test]
    fn numbers_at_the_ends_of_their_range_stay_numbers() {
        let (least, most) = (f32::MIN, f32::MAX);
        for (scale, expected) in [
            ("min_max", [0.0, 0.5, 1.0]),
            ("max_abs", [-1.0, 0.0, 1.0]),
            ("standard", [-1.224_744_9, 0.0, 1.224_744_9]),
            ("robust", [-1.0, 0.0, 1.0]),
        ] {
            let spec = spec(&format!(r#"{{"scale": "{scale}"}}"#));
            let raws = [Raw { name: "c", categories: None, spec: &spec, origin: 0.0 }];
            let pipeline = learn(&raws, false, &[least, 0.0, most], &[0.0; 3]).unwrap().unwrap();
            let kept = Pipeline::from_json(&pipeline.to_json()).unwrap();
            for (raw, expected) in [least, 0.0, most].into_iter().zip(expected) {
                assert!((finished(&pipeline, &[raw])[0] - expected).abs() < 1e-6, "{scale} {raw}");
                assert_eq!(finished(&kept, &[raw]), finished(&pipeline, &[raw]));
            }
        }
        let spec = spec(r#"{"scale": "standard"}"#);
        let raws = [Raw { name: "c", categories: None, spec: &spec, origin: 0.0 }];
        let pipeline = learn(&raws, false, &[0.0, 1e-3], &[0.0; 2]).unwrap().unwrap();
        assert_eq!(finished(&pipeline, &[most]), [most]);
        assert!(finished(&pipeline, &[NAN])[0].is_nan());
    }

    #[test]
    fn categories_are_encoded() {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        let (one_hot, target) = (spec(r#"{"encode": "one_hot"}"#), spec(r#"{"encode": "target"}"#));
        let ordinal = spec(r#"{"encode": {"ordinal": ["c", "a"]}, "impute": "zero"}"#);
        let raw = |spec| Raw { name: "c", categories: Some(&names), spec, origin: 0.0 };
        let raws = [raw(&one_hot), raw(&target), raw(&ordinal)];
        let rows = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, NAN, NAN, NAN];
        let pipeline = learn(&raws, true, &rows, &[1.0, 3.0, 10.0, 7.0]).unwrap().unwrap();
        assert_eq!(finished(&pipeline, &[0.0, 0.0, 0.0]), [1.0, 0.0, 0.0, 2.0, 2.0]);
        assert_eq!(finished(&pipeline, &[2.0, 2.0, 2.0]), [0.0, 0.0, 1.0, 10.0, 1.0]);
        assert_eq!(finished(&pipeline, &[NAN, NAN, NAN]), [0.0, 0.0, 0.0, 7.0, 0.0]);
        // No training row has "b" in the second column: the mean of all is the best that is known.
        assert_eq!(finished(&pipeline, &[3.0, 1.0, 1.0]), [0.0, 0.0, 0.0, 5.25, 0.0]);
        // Without NULLs among the training rows, NULL is as little known.
        let pipeline = learn(&[raw(&target)], true, &[0.0, 2.0], &[1.0, 3.0]).unwrap().unwrap();
        assert_eq!([0.0, 2.0, NAN].map(|value| finished(&pipeline, &[value])[0]), [1.0, 3.0, 2.0]);
        let imputed = spec(r#"{"encode": {"ordinal": ["c", "a"]}, "impute": "max"}"#);
        let ordinal = learn(&[raw(&imputed)], true, &[0.0, 2.0], &[1.0, 3.0]).unwrap().unwrap();
        assert_eq!([0.0, 2.0, NAN].map(|value| finished(&ordinal, &[value])[0]), [2.0, 1.0, 2.0]);
        let pipeline = learn(&raws, true, &rows, &[1.0, 3.0, 10.0, 7.0]).unwrap().unwrap();
        assert_eq!(pipeline.sources(), [0, 0, 0, 1, 2]);
        let kept = Pipeline::from_json(&pipeline.to_json()).unwrap();
        assert_eq!(format!("{kept:?}"), format!("{pipeline:?}"));
    }

    #[test]
    fn a_constant_and_an_indicator_stand_for_what_is_missing() {
        let names: Vec<String> = ["a", "b", "none"].map(str::to_owned).into();
        let (number, text) = (
            spec(r#"{"impute": {"constant": -1}, "indicator": true}"#),
            spec(r#"{"impute": {"constant": "none"}, "encode": "one_hot"}"#),
        );
        let mode = spec(r#"{"impute": "mode", "encode": "target", "indicator": true}"#);
        let raws = [
            Raw { name: "n", categories: None, spec: &number, origin: 0.0 },
            Raw { name: "t", categories: Some(&names), spec: &text, origin: 0.0 },
            Raw { name: "m", categories: Some(&names), spec: &mode, origin: 0.0 },
        ];
        let rows = [5.0, 0.0, 1.0, NAN, NAN, 1.0, 7.0, 1.0, 0.0, 8.0, 1.0, NAN];
        let pipeline = learn(&raws, true, &rows, &[1.0, 2.0, 5.0, 6.0]).unwrap().unwrap();
        assert_eq!(pipeline.sources(), [0, 0, 1, 1, 1, 2, 2]);
        // The missing one counts for "b", whose mean is that of 1, 2 and 6.
        assert_eq!(finished(&pipeline, &[NAN; 3]), [-1.0, 1.0, 0.0, 0.0, 1.0, 3.0, 1.0]);
        assert_eq!(finished(&pipeline, &[4.0, 1.0, 0.0]), [4.0, 0.0, 0.0, 1.0, 0.0, 5.0, 0.0]);
        assert_eq!(Pipeline::from_json(&pipeline.to_json()), Some(pipeline));
        let wrong = Raw { name: "n", categories: None, spec: &text, origin: 0.0 };
        assert!(learn(&[wrong], true, &[1.0], &[0.0]).is_err());
    }

    #[test]
    fn a_star_is_for_all_columns_that_it_fits() {
        let preprocess = serde_json::from_str(
            r#"{"*": {"encode": "target", "impute": "median", "scale": "standard"},
                "kept": {"role": "feature", "scale": "preserve"}, "gone": {"role": "ignore"}}"#,
        )
        .unwrap();
        let of = |column: &str, category| Spec::of(&preprocess, column, category).unwrap();
        assert_eq!(of("n", false), spec(r#"{"impute": "median", "scale": "standard"}"#));
        assert_eq!(of("t", true), spec(r#"{"encode": "target"}"#));
        assert_eq!(of("kept", false), spec(r#"{"impute": "median"}"#));
        assert_eq!(of("gone", false), spec(r#"{"role": "ignore"}"#));
        assert!(Spec::parse("*", &json!({"role": "ignore"})).is_err());
    }

    #[test]
    fn nothing_asked_is_nothing_done() {
        let (names, none) = (vec!["a".to_owned()], Spec::default());
        let number = Raw { name: "n", categories: None, spec: &none, origin: 0.0 };
        let text = Raw { name: "t", categories: Some(&names), spec: &none, origin: 0.0 };
        assert_eq!(learn(&[number, text], true, &[1.0, 0.0], &[0.0]).unwrap(), None);
        assert_eq!(learn(&[number, text], false, &[1.0, 0.0], &[0.0]).unwrap().unwrap().width(), 2);
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (json, what) in [
            (r#"{"encod": "one_hot"}"#, "encod"),
            (r#"{"impute": "meen"}"#, "\"mean\""),
            (r#"{"encode": "hot"}"#, "one_hot"),
            (r#"{"encode": {"ordinal": []}}"#, "ordinal"),
            (r#"{"scale": 3}"#, "scale"),
            ("[]", "object"),
        ] {
            let error = Spec::parse("price", &serde_json::from_str(json).unwrap()).unwrap_err().to_string();
            assert!(error.contains("\"price\"") && error.contains(what), "{error}");
        }
        let encode = spec(r#"{"encode": "one_hot"}"#);
        let raw = Raw { name: "n", categories: None, spec: &encode, origin: 0.0 };
        assert!(learn(&[raw], true, &[1.0], &[0.0]).unwrap_err().to_string().contains("text"));
    }
}
