//! Steps over the numbers of one row: what models of other libraries predict by that are graphs of operators.
//!
//! A prediction has one tape of float32: the features, and behind them what each step made, in the order of the steps. So
//! a step reads what is before it and writes behind the end, and after [`open`] has seen that, no index is out of range.

mod functions;

use std::ops::Range;

pub(crate) use functions::{Binary, Fold, Spread, Unary};
use serde_json::{Map, Value};

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Stored};

/// Stored as `steps` ([`WORDS`] numbers a step, see [`Step`]), `lanes` (places on the tape), `numbers`, `known` and
/// `known_of` (see [`Builder::known`]), and the settings `width`, `from`, `values`, `meaning` and `parts`: the form and
/// the settings of each model that a step is, whose arrays are `0/nodes` and so on.
pub(crate) const FORM: Form = Form { name: "program", open };

/// Numbers of a stored step; those behind its own are 0.
const WORDS: usize = 6;

/// The most numbers of a tape: 16 MB, and the bytes of the model.
const LONGEST_TAPE: usize = 1 << 22;

/// The most multiplications of a prediction: a second or so, in which nobody can cancel it.
const MOST_WORK: usize = 1 << 29;

/// One step. Places are those on the tape, offsets those in `numbers` or `lanes`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step {
    /// Numbers of the tape in another order.
    Gather { lanes: usize, count: usize },
    /// The same numbers for each row.
    Constant { numbers: usize, count: usize },
    /// A function of each number, with two constants.
    Unary { function: Unary, from: usize, count: usize, a: f32 },
    /// A function of each two.
    Binary { function: Binary, left: usize, right: usize, count: usize },
    /// For each three the second where the first is not 0, else the third.
    Choose { test: usize, then: usize, otherwise: usize, count: usize },
    /// `rows` times `width` numbers, each row times a matrix of `count` rows, plus as many numbers that follow it.
    Dense { from: usize, rows: usize, width: usize, count: usize, numbers: usize },
    /// One number of each `size`.
    Fold { fold: Fold, from: usize, groups: usize, size: usize },
    /// As many numbers of each `size`.
    Spread { spread: Spread, from: usize, groups: usize, size: usize },
    /// What each number stands for: of `pairs` of numbers, in the order of the first ones, the second; else the number
    /// that follows them, and of NaN the one after that.
    Look { from: usize, count: usize, numbers: usize, pairs: usize },
    /// What a model makes of as many numbers as it takes.
    Part { part: usize, from: usize },
}

impl Step {
    fn words(self) -> [usize; WORDS] {
        let bits = |number: f32| number.to_bits() as usize;
        match self {
            Step::Gather { lanes, count } => [0, lanes, count, 0, 0, 0],
            Step::Constant { numbers, count } => [1, numbers, count, 0, 0, 0],
            Step::Unary { function, from, count, a } => [2, function.word(), from, count, bits(a), 0],
            Step::Binary { function, left, right, count } => [3, function.word(), left, right, count, 0],
            Step::Choose { test, then, otherwise, count } => [4, test, then, otherwise, count, 0],
            Step::Dense { from, rows, width, count, numbers } => [5, from, rows, width, count, numbers],
            Step::Fold { fold, from, groups, size } => [6, fold.word(), from, groups, size, 0],
            Step::Spread { spread, from, groups, size } => [7, spread.word(), from, groups, size, 0],
            Step::Look { from, count, numbers, pairs } => [8, from, count, numbers, pairs, 0],
            Step::Part { part, from } => [9, part, from, 0, 0, 0],
        }
    }

    fn of(words: &[u32; WORDS]) -> Result<Step, Error> {
        let [kind, a, b, c, d, e] = words.map(|word| word as usize);
        Ok(match kind {
            0 => Step::Gather { lanes: a, count: b },
            1 => Step::Constant { numbers: a, count: b },
            2 => Step::Unary { function: Unary::of(a)?, from: b, count: c, a: f32::from_bits(words[4]) },
            3 => Step::Binary { function: Binary::of(a)?, left: b, right: c, count: d },
            4 => Step::Choose { test: a, then: b, otherwise: c, count: d },
            5 => Step::Dense { from: a, rows: b, width: c, count: d, numbers: e },
            6 => Step::Fold { fold: Fold::of(a)?, from: b, groups: c, size: d },
            7 => Step::Spread { spread: Spread::of(a)?, from: b, groups: c, size: d },
            8 => Step::Look { from: a, count: b, numbers: c, pairs: d },
            9 => Step::Part { part: a, from: b },
            other => return Err(Error::Model(format!("a step of kind {other} is not known"))),
        })
    }

    /// How many numbers it makes; `None` where that is no number. The sizes are below 2^32.
    fn makes(self, parts: &[Box<dyn Predict>]) -> Option<usize> {
        match self {
            Step::Gather { count, .. }
            | Step::Constant { count, .. }
            | Step::Unary { count, .. }
            | Step::Binary { count, .. }
            | Step::Choose { count, .. }
            | Step::Look { count, .. } => Some(count),
            Step::Dense { rows, count, .. } => rows.checked_mul(count),
            Step::Fold { groups, .. } => Some(groups),
            Step::Spread { groups, size, .. } => groups.checked_mul(size),
            Step::Part { part, .. } => parts.get(part).map(|part| part.values()),
        }
    }
}

/// A program on its way to be stored.
pub(crate) struct Builder {
    width: usize,
    steps: Vec<u32>,
    lanes: Vec<u32>,
    numbers: Vec<f32>,
    parts: Vec<Model>,
    /// Where the tape ends so far.
    end: usize,
    /// For features of which only some numbers may come: those, in order. NaN is none of them.
    known: Vec<(usize, Vec<f32>)>,
}

impl Builder {
    pub(crate) fn new(width: usize) -> Builder {
        let (steps, lanes, numbers) = (Vec::new(), Vec::new(), Vec::new());
        Builder { width, steps, lanes, numbers, parts: Vec::new(), end: width, known: Vec::new() }
    }

    /// Adds a step with `makes` results. Returns their place.
    pub(crate) fn push(&mut self, step: Step, makes: usize) -> usize {
        // What is not below 2^32 is refused by `open`, like all that is too long.
        self.steps.extend(step.words().map(|word| u32::try_from(word).unwrap_or(u32::MAX)));
        self.end = self.end.saturating_add(makes);
        self.end - makes
    }

    /// Numbers of the tape, one behind the other.
    pub(crate) fn gather(&mut self, lanes: &[u32]) -> usize {
        if let [first, ..] = lanes
            && lanes.iter().zip(*first..).all(|(lane, expected)| *lane == expected)
        {
            return *first as usize;
        }
        let at = self.lanes.len();
        self.lanes.extend_from_slice(lanes);
        self.push(Step::Gather { lanes: at, count: lanes.len() }, lanes.len())
    }

    /// Numbers for a step; gives their offset.
    pub(crate) fn numbers(&mut self, numbers: impl IntoIterator<Item = f32>) -> usize {
        let at = self.numbers.len();
        self.numbers.extend(numbers);
        at
    }

    /// A model that is a step.
    pub(crate) fn part(&mut self, model: Model, from: usize, makes: usize) -> usize {
        self.parts.push(model);
        self.push(Step::Part { part: self.parts.len() - 1, from }, makes)
    }

    /// Has a feature be one of these numbers.
    pub(crate) fn known(&mut self, feature: usize, mut numbers: Vec<f32>) {
        numbers.sort_unstable_by(f32::total_cmp);
        self.known.push((feature, numbers));
    }

    /// The model, whose `values` values begin there.
    pub(crate) fn model(self, from: usize, values: usize, meaning: Meaning) -> Model {
        let name = MEANINGS.iter().find(|(_, known)| *known == meaning).map_or("", |(name, _)| name);
        let mut described = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let mut about = Map::new();
            about.insert("form".into(), part.form().into());
            about.insert("settings".into(), Value::Object(part.settings().clone()));
            described.push(Value::Object(about));
        }
        let (mut known_of, mut known) = (Vec::new(), Vec::new());
        for (feature, numbers) in self.known {
            known_of.extend([feature as u32, numbers.len() as u32]);
            known.extend(numbers);
        }
        let model = Model::new(&FORM)
            .set("width", self.width)
            .set("from", from)
            .set("values", values)
            .set("meaning", name)
            .set("parts", described)
            .with("steps", self.steps)
            .with("lanes", self.lanes)
            .with("numbers", self.numbers)
            .with("known", known)
            .with("known_of", known_of);
        self.parts.into_iter().enumerate().fold(model, |model, (index, part)| model.with_part(index, part))
    }
}

const MEANINGS: [(&str, Meaning); 3] =
    [("values", Meaning::Values), ("probabilities", Meaning::Probabilities), ("scores", Meaning::Scores)];

struct Program {
    width: usize,
    /// With where each of them writes; without those that no value depends on.
    steps: Vec<(Step, Range<usize>)>,
    lanes: Array<u32>,
    numbers: Array<f32>,
    parts: Vec<Box<dyn Predict>>,
    from: usize,
    values: usize,
    meaning: Meaning,
    /// Numbers of the tape.
    length: usize,
    work: usize,
    /// For each feature whether a prediction can do without it.
    spared: Vec<bool>,
    /// By features: the numbers that may come, in order.
    known: Vec<(usize, Vec<f32>)>,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let damaged = |what: &str| Error::Model(what.to_owned());
    let words: Array<u32> = stored.array("steps")?;
    let (steps, rest) = words.as_chunks::<WORDS>();
    if !rest.is_empty() {
        return Err(damaged("its last step is cut"));
    }
    let name = stored.text("meaning")?;
    let meaning = MEANINGS.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning);
    let mut program = Program {
        width: stored.count("width")?,
        steps: Vec::with_capacity(steps.len()),
        lanes: stored.array("lanes")?,
        numbers: stored.array("numbers")?,
        parts: parts(stored)?,
        from: stored.count("from")?,
        values: stored.count("values")?,
        meaning: meaning.ok_or_else(|| Error::Model(format!("its meaning \"{name}\" is not known")))?,
        length: 0,
        work: 0,
        spared: Vec::new(),
        known: Vec::new(),
    };
    if program.width > LONGEST_TAPE {
        return Err(damaged("it has too many features"));
    }
    program.check(steps, LONGEST_TAPE + stored.bytes().len())?;
    program.spared = program.needed(true)[..program.width].iter().map(|needed| !needed).collect();
    let used = program.needed(false);
    program.steps.retain(|(_, made)| used[made.clone()].contains(&true));
    program.known = known(stored, program.width)?;
    Ok(Box::new(program))
}

fn parts(stored: &Stored) -> Result<Vec<Box<dyn Predict>>, Error> {
    let damaged = |what: &str| Error::Model(what.to_owned());
    let described = stored.setting("parts")?.as_array().ok_or_else(|| damaged("its parts are not a list"))?;
    let mut parts: Vec<Box<dyn Predict>> = Vec::with_capacity(described.len());
    for (index, part) in described.iter().enumerate() {
        let form = part.get("form").and_then(Value::as_str).ok_or_else(|| damaged("a part has no form"))?;
        let settings =
            part.get("settings").and_then(Value::as_object).ok_or_else(|| damaged("a part has no settings"))?;
        // Without this a few bytes could nest as deep as they like.
        if form == FORM.name || form == super::several::FORM.name {
            return Err(damaged("a part has parts itself"));
        }
        parts.push(super::open(&stored.part(index, form, settings.clone()))?);
    }
    Ok(parts)
}

fn known(stored: &Stored, width: usize) -> Result<Vec<(usize, Vec<f32>)>, Error> {
    let damaged = || Error::Model("its known numbers are not whole".into());
    let (known, known_of): (Array<f32>, Array<u32>) = (stored.array("known")?, stored.array("known_of")?);
    let (features, rest) = known_of.as_chunks::<2>();
    let (mut out, mut at) = (Vec::with_capacity(features.len()), 0_usize);
    for [feature, count] in features {
        let end = at.checked_add(*count as usize).ok_or_else(damaged)?;
        let numbers = known.get(at..end).filter(|_| (*feature as usize) < width).ok_or_else(damaged)?;
        out.push((*feature as usize, numbers.to_vec()));
        at = end;
    }
    if !rest.is_empty() || at != known.len() {
        return Err(damaged());
    }
    Ok(out)
}

impl Program {
    /// Checks everything that predictions rely on, and counts the tape and the work.
    fn check(&mut self, steps: &[[u32; WORDS]], longest: usize) -> Result<(), Error> {
        let mut end = self.width;
        for (index, words) in steps.iter().enumerate() {
            let step = Step::of(words)?;
            let wrong = |what: &str| Error::Model(format!("its step {index} {what}"));
            let within =
                |at: usize, count: usize, length: usize| at.checked_add(count).is_some_and(|end| end <= length);
            let product = |a: usize, b: usize| a.saturating_mul(b);
            let makes = step.makes(&self.parts).ok_or_else(|| wrong("makes nothing"))?;
            let mut work = makes;
            let sound = match step {
                Step::Gather { lanes, count } => {
                    within(lanes, count, self.lanes.len())
                        && self.lanes[lanes..lanes + count].iter().all(|lane| (*lane as usize) < end)
                }
                Step::Constant { numbers, count } => within(numbers, count, self.numbers.len()),
                Step::Unary { from, count, .. } => within(from, count, end),
                Step::Binary { left, right, count, .. } => within(left, count, end) && within(right, count, end),
                Step::Choose { test, then, otherwise, count } => {
                    [test, then, otherwise].iter().all(|from| within(*from, count, end))
                }
                Step::Dense { from, rows, width, count, numbers } => {
                    work = product(makes, width);
                    within(from, product(rows, width), end)
                        && within(numbers, product(count, width.saturating_add(1)), self.numbers.len())
                }
                Step::Fold { from, groups, size, .. } => {
                    work = product(groups, size);
                    size > 0 && within(from, work, end)
                }
                Step::Spread { from, .. } => within(from, makes, end),
                Step::Look { from, count, numbers, pairs } => {
                    within(from, count, end)
                        && within(numbers, product(pairs, 2).saturating_add(2), self.numbers.len())
                        && self.numbers[numbers..numbers + 2 * pairs].chunks_exact(2).is_sorted_by(|a, b| a[0] <= b[0])
                }
                Step::Part { part, from } => {
                    work = self.parts[part].work();
                    within(from, self.parts[part].width(), end)
                }
            };
            if !sound {
                return Err(wrong("reads what there is not"));
            }
            self.steps.push((step, end..end.saturating_add(makes)));
            end = end.saturating_add(makes);
            self.work = self.work.saturating_add(work).saturating_add(1);
            if end > longest || self.work > MOST_WORK {
                return Err(wrong("makes a prediction longer than it may be"));
            }
        }
        self.length = end;
        if self.from.checked_add(self.values).is_none_or(|last| last > end) {
            return Err(Error::Model("its values are not on its tape".into()));
        }
        Ok(())
    }

    /// Which numbers of the tape the values depend on; or, of `missing` ones, are lost for, which those steps that know what
    /// to do with NaN are not.
    fn needed(&self, missing: bool) -> Vec<bool> {
        let mut needed = vec![false; self.length];
        needed[self.from..self.from + self.values].fill(true);
        for (step, made) in self.steps.iter().rev() {
            let (before, made) = needed[..made.end].split_at_mut(made.start);
            let mut pass = |from: usize, made: &[bool]| {
                before[from..from + made.len()].iter_mut().zip(made).for_each(|(before, made)| *before |= made);
            };
            let any = made.iter().any(|needed| *needed);
            match *step {
                Step::Gather { lanes, count } => {
                    for (lane, made) in self.lanes[lanes..lanes + count].iter().zip(made) {
                        before[*lane as usize] |= *made;
                    }
                }
                Step::Constant { .. } => {}
                Step::Unary { function: Unary::IsNan, .. }
                | Step::Binary { function: Binary::Equal, .. }
                | Step::Look { .. }
                    if missing => {}
                Step::Unary { from, .. } | Step::Look { from, .. } => pass(from, made),
                Step::Binary { function: Binary::OrElse, right, .. } if missing => pass(right, made),
                Step::Binary { left, right, .. } => {
                    pass(left, made);
                    pass(right, made);
                }
                Step::Choose { test, then, otherwise, .. } => {
                    [test, then, otherwise].iter().for_each(|from| pass(*from, made));
                }
                Step::Dense { from, rows, width, .. } => before[from..from + rows * width].fill_if(any),
                Step::Fold { from, groups, size, .. } | Step::Spread { from, groups, size, .. } => {
                    before[from..from + groups * size].fill_if(any);
                }
                Step::Part { part, from } => {
                    let part = &self.parts[part];
                    before[from..from + part.width()].fill_if(any && !(missing && part.takes_missing()));
                }
            }
        }
        needed
    }

    fn run(&self, row: &[f32], tape: &mut [f32], values: &mut [f32]) {
        tape[..self.width].copy_from_slice(row);
        for (step, made) in &self.steps {
            let (done, out) = tape[..made.end].split_at_mut(made.start);
            self.step(*step, done, out);
        }
        values.copy_from_slice(&tape[self.from..self.from + self.values]);
    }

    fn step(&self, step: Step, done: &[f32], out: &mut [f32]) {
        match step {
            Step::Gather { lanes, count } => {
                for (out, lane) in out.iter_mut().zip(&self.lanes[lanes..lanes + count]) {
                    *out = done[*lane as usize];
                }
            }
            Step::Constant { numbers, count } => out.copy_from_slice(&self.numbers[numbers..numbers + count]),
            Step::Unary { function, from, count, a } => {
                for (out, x) in out.iter_mut().zip(&done[from..from + count]) {
                    *out = function.apply(*x, a);
                }
            }
            Step::Binary { function, left, right, count } => {
                let pairs = done[left..left + count].iter().zip(&done[right..right + count]);
                for (out, (x, y)) in out.iter_mut().zip(pairs) {
                    *out = function.apply(*x, *y);
                }
            }
            Step::Choose { test, then, otherwise, .. } => {
                for (index, out) in out.iter_mut().enumerate() {
                    let from = if done[test + index] != 0.0 { then } else { otherwise };
                    *out = done[from + index];
                }
            }
            Step::Dense { from, rows, width, count, numbers } => {
                let (matrix, more) = self.numbers[numbers..numbers + count * (width + 1)].split_at(count * width);
                dense(matrix, more, &done[from..from + rows * width], out);
            }
            Step::Fold { fold, from, groups, size } => {
                let groups = done[from..from + groups * size].chunks_exact(size);
                out.iter_mut().zip(groups).for_each(|(out, group)| *out = fold.apply(group));
            }
            Step::Spread { spread, from, groups, size } => {
                if size > 0 {
                    let groups = done[from..from + groups * size].chunks_exact(size);
                    out.chunks_exact_mut(size).zip(groups).for_each(|(out, group)| spread.apply(group, out));
                }
            }
            Step::Look { from, count, numbers, pairs } => {
                let (pairs, rest) = self.numbers[numbers..numbers + 2 * pairs + 2].split_at(2 * pairs);
                let (pairs, _) = pairs.as_chunks::<2>();
                for (out, x) in out.iter_mut().zip(&done[from..from + count]) {
                    let at = pairs.partition_point(|pair| pair[0] < *x);
                    *out = match pairs.get(at) {
                        _ if x.is_nan() => rest[1],
                        Some([key, value]) if key == x => *value,
                        _ => rest[0],
                    };
                }
            }
            Step::Part { part, from } => {
                let part = &self.parts[part];
                part.predict(&done[from..from + part.width()], out);
            }
        }
    }
}

/// Multiplies each row by a matrix, of which a row is a column of the result, and adds a number to each column.
fn dense(matrix: &[f32], more: &[f32], rows: &[f32], out: &mut [f32]) {
    let count = more.len();
    if count == 0 {
        return;
    }
    let width = matrix.len() / count;
    for (index, out) in out.chunks_exact_mut(count).enumerate() {
        let row = &rows[index * width..(index + 1) * width];
        for (column, (out, more)) in out.iter_mut().zip(more).enumerate() {
            *out = (dot(&matrix[column * width..(column + 1) * width], row) + f64::from(*more)) as f32;
        }
    }
}

/// What `fill` is, on a condition.
trait FillIf {
    fn fill_if(&mut self, condition: bool);
}

impl FillIf for [bool] {
    fn fill_if(&mut self, condition: bool) {
        if condition {
            self.fill(true);
        }
    }
}

/// The sum of products in float64, in eight sums that a processor makes at once.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += f64::from(*a) * f64::from(*b);
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    sums.iter().sum::<f64>() + rest
}

impl Predict for Program {
    fn width(&self) -> usize {
        self.width
    }

    fn values(&self) -> usize {
        self.values
    }

    fn meaning(&self) -> Meaning {
        self.meaning
    }

    fn takes_missing(&self) -> bool {
        self.known.is_empty() && self.spared.iter().all(|spared| *spared)
    }

    fn refused(&self, rows: &[f32]) -> Option<usize> {
        if self.takes_missing() {
            return None;
        }
        for (index, row) in rows.chunks_exact(self.width).enumerate() {
            let missing = row.iter().zip(&self.spared).position(|(x, spared)| x.is_nan() && !spared);
            let strange = |(feature, numbers): &&(usize, Vec<f32>)| {
                let x = row[*feature];
                let at = numbers.partition_point(|known| *known < x);
                numbers.get(at) != Some(&x)
            };
            let found = missing.or_else(|| self.known.iter().find(strange).map(|(feature, _)| *feature));
            if let Some(feature) = found {
                return Some(index * self.width + feature);
            }
        }
        None
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        self.predict_rows(row, values);
    }

    fn predict_rows(&self, rows: &[f32], values: &mut [f32]) {
        // A model and nothing else may have a faster way for many rows.
        if let [(Step::Part { part, from: 0 }, made)] = self.steps.as_slice()
            && (made.start, made.len()) == (self.from, self.values)
            && self.parts[*part].width() == self.width
        {
            return self.parts[*part].predict_rows(rows, values);
        }
        let mut tape = vec![0.0; self.length];
        for (row, values) in rows.chunks_exact(self.width).zip(values.chunks_exact_mut(self.values)) {
            self.run(row, &mut tape, values);
        }
    }

    fn work(&self) -> usize {
        self.work
    }
}
