//! A model for each group of rows, and one for the rows of all other groups.
//!
//! The group of a row is told by some of its features, the index of a category each. The models are stored side by side
//! ([`Model::with_packed`]), and each is opened when the first row of its group comes: a process that predicts for one group
//! of ten thousand opens one model.

use std::cell::RefCell;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::boosted;
use crate::Error;
use crate::family::{Array, Explainer, Form, Meaning, Model, Packed, Predict, Splits, Stored};

/// Stored as the arrays of all models side by side, the one for other groups last, `groups` (the features that tell each group,
/// the groups in order), `kinds` (which of the setting `kinds` each model is: a form and its settings), `classes` (for each
/// model which class each of its values is of, `NONE` behind them; or none, where each model knows all classes), and the settings
/// `at` (which features tell the group) and `count` (of groups). Arrays have a number more than they need where that makes
/// them even, which keeps what is behind them aligned.
pub(crate) const FORM: Form = Form { name: "grouped", open };

/// In place of a class.
const NONE: u32 = u32::MAX;

/// What a missing class has for a score.
const NO_SCORE: f32 = f32::NEG_INFINITY;

/// Rows that are sorted by their groups at once.
const BLOCK: usize = 8192;

/// Features of a row that need no memory from the heap.
const ON_STACK: usize = 64;

/// The model of a group.
pub(crate) struct Member {
    /// The features that tell the group.
    pub(crate) key: Vec<u32>,
    pub(crate) model: Model,
    /// Which class each of its values is of; empty where that is their order.
    pub(crate) classes: Vec<u32>,
}

/// The model that predicts a row by the model of its group, which the features `at` these places tell; `members` are in the
/// order of their keys, and know `classes` classes at most.
pub(crate) fn model(at: &[usize], classes: usize, members: Vec<Member>, fallback: Model) -> Result<Model, Error> {
    let count = members.len();
    let mut known: Vec<Value> = Vec::new();
    let mut kind = |model: &Model| {
        let kind = json!({ "form": model.form(), "settings": model.settings() });
        // Nearly always the kind before.
        let at = known.iter().rposition(|other| *other == kind);
        at.unwrap_or_else(|| {
            known.push(kind);
            known.len() - 1
        }) as u32
    };
    let mut kinds: Vec<u32> = members.iter().map(|member| kind(&member.model)).collect();
    kinds.push(kind(&fallback));
    let mut of_values = Vec::new();
    if members.iter().any(|member| !member.classes.is_empty()) {
        for member in &members {
            let own = (0..classes as u32).map(|class| match member.classes.as_slice() {
                [] => class,
                some => some.get(class as usize).copied().unwrap_or(NONE),
            });
            of_values.extend(own);
        }
    }
    let groups: Vec<u32> = members.iter().flat_map(|member| member.key.iter().copied()).collect();
    let models = members.into_iter().map(|member| member.model).chain([fallback]).collect();
    let even = |mut numbers: Vec<u32>| {
        numbers.resize(numbers.len().next_multiple_of(2), NONE);
        numbers
    };
    Model::new(&FORM)
        .set("at", at.iter().map(|at| json!(at)).collect::<Vec<_>>())
        .set("count", count)
        .set("kinds", known)
        .with("groups", even(groups))
        .with("kinds", even(kinds))
        .with("classes", even(of_values))
        .with_packed(models)
}

struct Grouped {
    /// The places of the features that tell the group, in order.
    at: Vec<usize>,
    count: usize,
    groups: Array<u32>,
    kinds: Array<u32>,
    forms: Vec<(String, Map<String, Value>)>,
    classes: Array<u32>,
    packed: Packed,
    fallback: Box<dyn Predict>,
    /// One for each group, once a row of it has come; `None` where it is damaged.
    opened: Vec<OnceLock<Option<Box<Own>>>>,
}

/// The model of a group, opened.
struct Own {
    predict: Box<dyn Predict>,
    /// Which class each of its values is of; empty where that is their order.
    classes: Vec<usize>,
}

fn damaged(what: &str) -> Error {
    Error::Model(what.into())
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    read(stored).map(|grouped| Box::new(grouped) as Box<dyn Predict>)
}

/// With the compiled forests of models that XGBoost has trained.
pub(crate) fn compile(stored: &Stored) -> Result<Option<Vec<u8>>, Error> {
    let grouped = read(stored)?;
    if !grouped.forms.iter().any(|(form, _)| form == boosted::FORM.name) {
        return Ok(None);
    }
    let mut images = Vec::with_capacity(grouped.count + 1);
    for index in 0..=grouped.count {
        let (form, settings) = &grouped.forms[grouped.kinds[index] as usize];
        let model = grouped.packed.model(index, form, settings.clone());
        images.push(match form == boosted::FORM.name {
            true => Model::new(&boosted::FORM).with(boosted::IMAGE, boosted::image(&model)?),
            false => Model::new(&FORM),
        });
    }
    stored.to_model(&FORM).with_packed(images)?.to_bytes(&stored.attributes()).map(Some)
}

/// Opens all models.
pub(crate) fn check(stored: &Stored) -> Result<(), Error> {
    let grouped = read(stored)?;
    (0..grouped.count).try_for_each(|group| grouped.open_own(group).map(drop))
}

fn read(stored: &Stored) -> Result<Grouped, Error> {
    let count = stored.count("count")?;
    let places = stored.setting("at")?.as_array().ok_or_else(|| damaged("its group has no features"))?;
    let places: Option<Vec<usize>> =
        places.iter().map(|at| at.as_u64().and_then(|at| usize::try_from(at).ok())).collect();
    let at = places.filter(|at| !at.is_empty() && at.windows(2).all(|pair| pair[0] < pair[1]));
    let at = at.ok_or_else(|| damaged("its group has no features"))?;
    let groups = stored.array::<u32>("groups")?;
    let keys = count.checked_mul(at.len()).and_then(|length| groups.get(..length));
    let keys: Vec<&[u32]> = keys.ok_or_else(|| damaged("its groups are cut"))?.chunks_exact(at.len()).collect();
    if keys.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(damaged("its groups are not in order"));
    }
    let kinds = stored.array::<u32>("kinds")?;
    let known = stored.setting("kinds")?.as_array().ok_or_else(|| damaged("its models have no forms"))?;
    let forms: Option<Vec<(String, Map<String, Value>)>> = (known.iter())
        .map(|kind| {
            let form = kind.get("form")?.as_str()?.to_owned();
            Some((form, kind.get("settings")?.as_object()?.clone()))
        })
        .collect();
    let forms = forms.ok_or_else(|| damaged("its models have no forms"))?;
    // Without this a few bytes could nest as deep as they like.
    if forms.iter().any(|(form, _)| form == FORM.name) {
        return Err(damaged("a model of a group has groups itself"));
    }
    if kinds.get(..count + 1).is_none_or(|kinds| kinds.iter().any(|kind| *kind as usize >= forms.len())) {
        return Err(damaged("a model has no form"));
    }
    let packed = stored.packed(count + 1)?;
    let (form, settings) = &forms[kinds[count] as usize];
    let fallback = super::open(&packed.model(count, form, settings.clone()))?;
    if at.last().is_some_and(|last| *last >= fallback.width() + at.len()) {
        return Err(damaged("its group is told by features that it does not have"));
    }
    let classes = stored.array::<u32>("classes")?;
    if !classes.is_empty() && count.checked_mul(fallback.values()).is_none_or(|length| classes.len() < length) {
        return Err(damaged("its classes are cut"));
    }
    let opened = (0..count).map(|_| OnceLock::new()).collect();
    Ok(Grouped { at, count, groups, kinds, forms, classes, packed, fallback, opened })
}

/// What predicts a row.
enum Answering<'a> {
    Own(&'a Own),
    Fallback,
    Damaged,
}

impl Grouped {
    fn open_own(&self, group: usize) -> Result<Own, Error> {
        let (form, settings) = &self.forms[self.kinds[group] as usize];
        let predict = super::open(&self.packed.model(group, form, settings.clone()))?;
        let (values, meaning) = (self.fallback.values(), self.fallback.meaning());
        if predict.width() != self.fallback.width()
            || predict.meaning() != meaning
            || self.fallback.takes_missing() && !predict.takes_missing()
        {
            return Err(damaged("the model of a group is unlike that of the others"));
        }
        let classes: Vec<usize> = match self.classes.is_empty() {
            true => Vec::new(),
            false => {
                let own = &self.classes[group * values..(group + 1) * values];
                own.iter().take_while(|class| **class != NONE).map(|class| *class as usize).collect()
            }
        };
        let in_order = classes.is_empty() || classes.iter().enumerate().all(|(index, class)| index == *class);
        let known = if classes.is_empty() { values } else { classes.len() };
        let fits = predict.values() == known
            && classes.iter().all(|class| *class < values)
            && (known == values || matches!(meaning, Meaning::Probabilities | Meaning::Scores));
        match fits {
            true => Ok(Own { predict, classes: if in_order && known == values { Vec::new() } else { classes } }),
            false => Err(damaged("the model of a group has other values than that of the others")),
        }
    }

    /// Which group a row is of.
    fn group(&self, row: &[f32]) -> Option<usize> {
        let code = |at: &usize| row.get(*at).copied().filter(|code| *code >= 0.0).map(|code| code as u32);
        if let [at] = self.at.as_slice() {
            let code = code(at)?;
            let groups = &self.groups[..self.count];
            // Where each category has a model, its index is that of the model.
            return match groups.get(code as usize) {
                Some(own) if *own == code => Some(code as usize),
                _ => groups.binary_search(&code).ok(),
            };
        }
        let key: Vec<u32> = self.at.iter().map(code).collect::<Option<_>>()?;
        let (width, mut first, mut behind) = (key.len(), 0, self.count);
        while first < behind {
            let middle = usize::midpoint(first, behind);
            match self.groups[middle * width..(middle + 1) * width].cmp(&key) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => first = middle + 1,
                std::cmp::Ordering::Greater => behind = middle,
            }
        }
        None
    }

    /// The model of a group.
    fn answering(&self, group: Option<usize>) -> Answering<'_> {
        let Some(group) = group else { return Answering::Fallback };
        let own = self.opened[group].get_or_init(|| self.open_own(group).ok().map(Box::new));
        own.as_deref().map_or(Answering::Damaged, Answering::Own)
    }

    fn predict_of(&self, group: Option<usize>) -> Option<(&dyn Predict, &[usize])> {
        match self.answering(group) {
            Answering::Own(own) => Some((own.predict.as_ref(), own.classes.as_slice())),
            Answering::Fallback => Some((self.fallback.as_ref(), &[])),
            Answering::Damaged => None,
        }
    }

    /// The features that the models see.
    fn strip(&self, row: &[f32], stripped: &mut [f32]) {
        let (mut from, mut to) = (0, 0);
        for at in self.at.iter().copied().chain([row.len()]) {
            stripped[to..to + at - from].copy_from_slice(&row[from..at]);
            to += at - from;
            from = at + 1;
        }
    }

    /// Values of some classes in the places of these among all.
    fn spread(&self, own: &[f32], classes: &[usize], values: &mut [f32]) {
        values.fill(if self.fallback.meaning() == Meaning::Scores { NO_SCORE } else { 0.0 });
        for (value, class) in own.iter().zip(classes) {
            values[*class] = *value;
        }
    }

    /// Predicts rows of one group, whose features are those that its model sees.
    fn predict_group(&self, group: Option<usize>, rows: &[f32], values: &mut [f32]) {
        thread_local! {
            static OWN: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
        }
        match self.predict_of(group) {
            None => values.fill(f32::NAN),
            Some((predict, [])) => predict.predict_rows(rows, values),
            Some((predict, classes)) => OWN.with_borrow_mut(|own| {
                own.resize(rows.len() / predict.width() * classes.len(), 0.0);
                predict.predict_rows(rows, own);
                let of_rows = own.chunks_exact(classes.len()).zip(values.chunks_exact_mut(self.fallback.values()));
                of_rows.for_each(|(own, values)| self.spread(own, classes, values));
            }),
        }
    }

    /// Predicts some rows, those of a group at once.
    fn predict_block(&self, rows: &[f32], values: &mut [f32]) {
        let (width, own_width, per_row) = (self.width(), self.fallback.width(), self.values());
        let groups = rows.chunks_exact(width).map(|row| self.group(row));
        let mut order: Vec<(Option<usize>, usize)> = groups.enumerate().map(|(row, group)| (group, row)).collect();
        order.sort_unstable();
        let (mut own, mut predicted) = (Vec::new(), Vec::new());
        for run in order.chunk_by(|(a, _), (b, _)| a == b) {
            own.resize(run.len() * own_width, 0.0);
            predicted.resize(run.len() * per_row, 0.0);
            for ((_, row), stripped) in run.iter().zip(own.chunks_exact_mut(own_width)) {
                self.strip(&rows[row * width..(row + 1) * width], stripped);
            }
            self.predict_group(run[0].0, &own, &mut predicted);
            for ((_, row), predicted) in run.iter().zip(predicted.chunks_exact(per_row)) {
                values[row * per_row..(row + 1) * per_row].copy_from_slice(predicted);
            }
        }
    }

    /// The contributions to the values of the model of a group, of trees too.
    fn own_contributions(predict: &dyn Predict, row: &[f32], out: &mut [f32]) -> bool {
        match predict.explainers().as_deref() {
            Ok([]) => predict.contributions(row, out),
            // Of two classes the margin is that of the second.
            Ok([explainer]) if explainer.num_outputs() == 1 && predict.values() == 2 => {
                let (first, second) = out.split_at_mut(row.len() + 1);
                let explained = explainer.explain(row, second, || {}).is_ok();
                first.iter_mut().zip(second).for_each(|(first, second)| *first = -*second);
                explained
            }
            Ok(several) => {
                let whole = several.iter().map(Explainer::num_values).sum::<usize>() == out.len();
                let mut rest = out;
                whole
                    && several.iter().all(|explainer| {
                        let (own, others) = std::mem::take(&mut rest).split_at_mut(explainer.num_values());
                        rest = others;
                        explainer.explain(row, own, || {}).is_ok()
                    })
            }
            Err(_) => false,
        }
    }
}

impl Predict for Grouped {
    fn width(&self) -> usize {
        self.fallback.width() + self.at.len()
    }

    fn values(&self) -> usize {
        self.fallback.values()
    }

    fn meaning(&self) -> Meaning {
        self.fallback.meaning()
    }

    fn takes_missing(&self) -> bool {
        self.fallback.takes_missing()
    }

    /// A group may be missing.
    fn refused(&self, rows: &[f32]) -> Option<usize> {
        if self.takes_missing() {
            return None;
        }
        let width = self.width();
        let is_refused = |(at, value): &(usize, &f32)| value.is_nan() && !self.at.contains(&(at % width));
        rows.iter().enumerate().find(is_refused).map(|(at, _)| at)
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        let (mut small, mut large) = ([0.0; ON_STACK], Vec::new());
        let width = self.fallback.width();
        let stripped = match small.get_mut(..width) {
            Some(small) => small,
            None => {
                large.resize(width, 0.0);
                large.as_mut_slice()
            }
        };
        self.strip(row, stripped);
        let group = self.group(row);
        match self.predict_of(group) {
            Some((predict, [])) => predict.predict(stripped, values),
            _ => self.predict_group(group, stripped, values),
        }
    }

    fn predict_rows(&self, rows: &[f32], values: &mut [f32]) {
        if rows.len() == self.width() {
            return self.predict(rows, values);
        }
        let blocks = rows.chunks(BLOCK * self.width()).zip(values.chunks_mut(BLOCK * self.values()));
        blocks.for_each(|(rows, values)| self.predict_block(rows, values));
    }

    /// Those of the model of the row's group; the group itself, which chooses the model, contributes nothing.
    fn contributions(&self, row: &[f32], contributions: &mut [f32]) -> bool {
        let Some((predict, classes)) = self.predict_of(self.group(row)) else { return false };
        let width = predict.width();
        let (mut stripped, mut own) = (vec![0.0; width], vec![0.0; predict.values() * (width + 1)]);
        self.strip(row, &mut stripped);
        if !Grouped::own_contributions(predict, &stripped, &mut own) {
            return false;
        }
        contributions.fill(0.0);
        let places: Vec<usize> = (0..=self.width()).filter(|place| !self.at.contains(place)).collect();
        for (index, own) in own.chunks_exact(width + 1).enumerate() {
            let value = classes.get(index).copied().unwrap_or(index);
            let out = &mut contributions[value * (self.width() + 1)..];
            own.iter().zip(&places).for_each(|(contribution, place)| out[*place] = *contribution);
        }
        true
    }

    /// Those of all models together.
    fn splits(&self) -> Option<Vec<Splits>> {
        let mut all = vec![Splits::default(); self.width()];
        let places: Vec<usize> = (0..self.width()).filter(|place| !self.at.contains(place)).collect();
        for group in (0..self.count).map(Some).chain([None]) {
            let (predict, _) = self.predict_of(group)?;
            for (splits, place) in predict.splits()?.into_iter().zip(&places) {
                all[*place] = all[*place].and(splits);
            }
        }
        Some(all)
    }

    fn work(&self) -> usize {
        self.fallback.work() + self.at.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::linear::{self, Link};
    use crate::forms::{check, open, stored_of};

    fn line(slope: f64) -> Model {
        linear::model(vec![slope], vec![0.0], vec![0.0], Link::Identity)
    }

    fn members(keys: &[&[u32]]) -> Vec<Member> {
        let member = |(index, key): (usize, &&[u32])| Member {
            key: key.to_vec(),
            model: line(index as f64),
            classes: Vec::new(),
        };
        keys.iter().enumerate().map(member).collect()
    }

    fn value(model: &dyn Predict, row: &[f32]) -> f32 {
        let mut value = [0.0];
        model.predict(row, &mut value);
        value[0]
    }

    #[test]
    fn groups_of_one_and_of_two_features_are_found() {
        let gaps =
            open(&stored_of(&model(&[1], 0, members(&[&[0], &[2], &[5]]), line(9.0)).unwrap()).unwrap()).unwrap();
        for (code, slope) in [(0.0, 0.0), (1.0, 9.0), (2.0, 1.0), (5.0, 2.0), (6.0, 9.0), (f32::NAN, 9.0), (-1.0, 9.0)]
        {
            assert_eq!(value(gaps.as_ref(), &[3.0, code]), 3.0 * slope, "{code}");
        }
        let two = model(&[0, 2], 0, members(&[&[0, 1], &[1, 0], &[1, 7]]), line(9.0)).unwrap();
        let two = open(&stored_of(&two).unwrap()).unwrap();
        for (key, slope) in
            [([0.0, 1.0], 0.0), ([1.0, 0.0], 1.0), ([1.0, 7.0], 2.0), ([0.0, 0.0], 9.0), ([1.0, f32::NAN], 9.0)]
        {
            assert_eq!(value(two.as_ref(), &[key[0], 3.0, key[1]]), 3.0 * slope, "{key:?}");
        }
    }

    #[test]
    fn damaged_groups_are_refused() {
        let whole = || model(&[1], 0, members(&[&[0], &[2]]), line(9.0)).unwrap();
        let wide = linear::model(vec![1.0, 1.0], vec![0.0], vec![0.0, 0.0], Link::Identity);
        let odd = vec![Member { key: vec![0], model: wide, classes: Vec::new() }];
        for (model, why) in [
            (whole().set("at", serde_json::json!([])), "no features"),
            (whole().set("at", serde_json::json!([7])), "does not have"),
            (whole().set("count", 3), "cut"),
            (whole().set("count", 1_u64 << 31), "cut"),
            (whole().with("groups", vec![2_u32, 0]), "not in order"),
            (whole().with("kinds", vec![7_u32, 0, 0, 0]), "no form"),
            (whole().with("places/means", vec![0_u32; 6]), "its"),
            (whole().with("places/coefficients", vec![9_u32, 8, 0, 8, 0, 8]), "cut"),
            (whole().with("classes", vec![0_u32]), "classes"),
            (model(&[1], 0, odd, line(1.0)).unwrap(), "unlike"),
            (
                model(&[1], 0, vec![Member { key: vec![0], model: whole(), classes: Vec::new() }], line(1.0)).unwrap(),
                "groups itself",
            ),
        ] {
            let error = check(&stored_of(&model).unwrap()).err().unwrap().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
