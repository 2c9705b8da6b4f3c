//! The importance of a model's features: by its own splits, and by its loss of quality when a feature is shuffled.

use learn::family::Splits;
use learn::random::Random;
use pgrx::{IntoDatum, pg_sys};

use super::rows::{self, Member, Relation, Take};
use super::sided::Sided;
use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::measure::Measures;
use crate::memory::{self, GivenBack};
use crate::metric::Metric;
use crate::model::Model;
use crate::names::{self, Resolved};
use crate::predict::batch::{ROWS_AT_ONCE, WORK_AT_ONCE};
use crate::sql::{Call, text_datum};
use crate::train::interrupts;

crate::sql_function!(pgml_feature_importance, feature_importance);
crate::sql_function!(pgml_permutation_importance, permutation_importance);

/// Values of the rows that are kept to be permuted: 128 MB.
const MOST_KEPT: usize = 1 << 25;

/// Permutations of a feature.
const MOST_REPEATS: i32 = 1000;

/// `pgml.feature_importance(project or model) RETURNS TABLE (feature text, gain double precision, weight double precision,
/// cover double precision)`.
fn feature_importance(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let target = super::target(call, Privilege::Explain)?;
    let mean = |sum: Option<f64>, count: u64| sum.map(|sum| sum / count.max(1) as f64);
    let rows: Vec<_> = ranked(&target)?
        .iter()
        .map(|(name, splits)| {
            [
                Some(text_datum(name)),
                gain(splits).into_datum(),
                splits.map(|splits| splits.count as f64).into_datum(),
                splits.and_then(|splits| mean(splits.cover, splits.count)).into_datum(),
            ]
        })
        .collect();
    call.rows(rows)
}

/// What the splits by a feature gained, on average.
pub fn gain(splits: &Option<Splits>) -> Option<f64> {
    splits.and_then(|splits| splits.gain.map(|sum| sum / splits.count.max(1) as f64))
}

/// The columns of a model with its splits by them, the most important first; in the model's order where it has no splits.
pub fn ranked(target: &Resolved) -> Result<Vec<(String, Option<Splits>)>> {
    let model = &target.model;
    let splits = model.splits(|| names::stored_bytes(target))?.map(|splits| of_columns(model, splits));
    let mut features: Vec<(String, Option<Splits>)> = match &splits {
        None => model.feature_names().into_iter().map(|name| (name, None)).collect(),
        Some(splits) => model.feature_names().into_iter().zip(splits.iter().map(|splits| Some(*splits))).collect(),
    };
    let weight = |splits: &Option<Splits>| splits.map_or(0, |splits| splits.count);
    features.sort_by(|(_, a), (_, b)| {
        let gains = gain(b).unwrap_or(0.0).total_cmp(&gain(a).unwrap_or(0.0));
        gains.then(weight(b).cmp(&weight(a)))
    });
    Ok(features)
}

/// What the model's features tell of those of a row as SQL gives it, which they were made of. A feature that no split is
/// by has gained nothing, if the others tell what they gained.
fn of_columns(model: &Model, splits: Vec<Splits>) -> Vec<Splits> {
    let mut of_columns = vec![Splits::default(); model.width()];
    let sources = model.sources().unwrap_or_else(|| (0..model.width()).collect());
    for (splits, source) in splits.into_iter().zip(sources) {
        if let Some(sum) = of_columns.get_mut(source) {
            *sum = sum.and(splits);
        }
    }
    let used = |splits: &&Splits| splits.count > 0;
    let (gains, covers) = (
        of_columns.iter().filter(used).all(|splits| splits.gain.is_some()),
        of_columns.iter().filter(used).all(|splits| splits.cover.is_some()),
    );
    let used = of_columns.iter().any(|splits| splits.count > 0);
    for splits in of_columns.iter_mut().filter(|splits| splits.count == 0) {
        splits.gain = (used && gains).then_some(0.0);
        splits.cover = (used && covers).then_some(0.0);
    }
    of_columns
}

/// Rows that are kept, all of them or, of more than there is room for, a sample of them: any row is in it with the same
/// probability (Vitter's algorithm R).
struct Sample {
    features: Vec<f32>,
    labels: Vec<f32>,
    rows: usize,
    seen: u64,
    random: Random,
}

impl Take for Sample {
    fn row(&mut self, _model: &Model, features: &[f32], labels: &[f32], _values: &[f32]) -> Result<()> {
        self.seen += 1;
        let (width, targets) = (features.len(), labels.len());
        if (self.rows + 1) * (width + targets) <= MOST_KEPT || self.rows == 0 {
            memory::reserve(&mut self.features, width)?;
            memory::reserve(&mut self.labels, targets)?;
            self.features.extend_from_slice(features);
            self.labels.extend_from_slice(labels);
            self.rows += 1;
            return Ok(());
        }
        let at = usize::try_from(self.random.below(self.seen)).unwrap_or(usize::MAX);
        if at < self.rows {
            if let Some(place) = self.features.get_mut(at * width..(at + 1) * width) {
                place.copy_from_slice(features);
            }
            if let Some(place) = self.labels.get_mut(at * targets..(at + 1) * targets) {
                place.copy_from_slice(labels);
            }
        }
        Ok(())
    }
}

impl Sample {
    /// The key metric of the rows, with the values of one feature in another order if that is given.
    fn score(&self, model: &Model, permuted: Option<(usize, &[f32])>) -> Result<Option<f64>> {
        let (width, targets) = (model.width().max(1), self.labels.len() / self.rows.max(1));
        let mut measures = Measures::new(model, model.classes().len(), true, 0)?;
        let at_once = (WORK_AT_ONCE / model.work()).clamp(1, ROWS_AT_ONCE);
        let (mut block, mut values) = (Vec::new(), Vec::new());
        for (number, features) in self.features.chunks(at_once * width).enumerate() {
            interrupts::check();
            let first = number * at_once;
            block.clear();
            memory::reserve(&mut block, features.len())?;
            block.extend_from_slice(features);
            if let Some((feature, others)) = permuted {
                for (value, other) in block.iter_mut().skip(feature).step_by(width).zip(others.iter().skip(first)) {
                    *value = *other;
                }
            }
            model.predict_all(&block, &mut values)?;
            for (row, values) in values.chunks_exact(model.num_values().max(1)).enumerate() {
                let labels = self.labels.get((first + row) * targets..(first + row + 1) * targets).unwrap_or(&[]);
                measures.row(model, &[], labels, values)?;
            }
        }
        Ok(Metric::of_task(model.task).of(&measures.all()?))
    }
}

/// `pgml.permutation_importance(project or model, relation_name, repeats, seed, y_column_name) RETURNS TABLE (feature text,
/// importance double precision, std_dev double precision)`.
fn permutation_importance(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let target = super::target(call, Privilege::Predict)?;
    if !target.model.task.has_label() {
        return Err(Error::unsupported(format!("{target} is for {}, which has no label", target.model.task.name())));
    }
    let relation = Relation::of(call, 1)?;
    let repeats = call.i32(2).ok_or_else(|| Error::null_argument("repeats"))?;
    if !(1..=MOST_REPEATS).contains(&repeats) {
        return Err(Error::invalid(format!("repeats must be from 1 to {MOST_REPEATS}: {repeats}")));
    }
    let seed = call.i64(3).ok_or_else(|| Error::null_argument("seed"))?;
    let labels = super::labels(call, 4)?;
    let random = Random::new(seed.cast_unsigned());
    let sample = Sample { features: Vec::new(), labels: Vec::new(), rows: 0, seen: 0, random };
    let (target, mut sided) = Sided::of(call, 5, target, &relation, labels.as_deref())?;
    let mut member = Member::new(target, &relation, labels.as_deref(), sample)?;
    rows::run(&relation, &mut sided, &mut member)?;
    sided.tell();
    let (model, mut sample) = (member.target.model, member.taker);
    let before = sample.score(&model, None)?;
    let mut found = Vec::with_capacity(model.width());
    let mut column = memory::filled(0.0, sample.rows)?;
    for feature in 0..model.width() {
        let values = sample.features.iter().skip(feature).step_by(model.width().max(1));
        column.iter_mut().zip(values).for_each(|(place, value)| *place = *value);
        let mut drops = Vec::with_capacity(usize::try_from(repeats).unwrap_or(1));
        for _ in 0..repeats {
            sample.random.shuffle(&mut column);
            let after = sample.score(&model, Some((feature, &column)))?;
            drops.extend(before.zip(after).map(|(before, after)| before - after));
        }
        found.push(mean_and_deviation(&drops));
    }
    let mut rows: Vec<_> = model.feature_names().into_iter().zip(found).collect();
    rows.sort_by(|(_, a), (_, b)| {
        let mean = |found: &Option<(f64, f64)>| found.map_or(f64::NEG_INFINITY, |(mean, _)| mean);
        mean(b).total_cmp(&mean(a))
    });
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(name, found)| {
            [
                Some(text_datum(&name)),
                found.map(|(mean, _)| mean).into_datum(),
                found.map(|(_, deviation)| deviation).into_datum(),
            ]
        })
        .collect();
    call.rows(rows)
}

fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (!values.is_empty()).then(|| (mean, (squares / count).sqrt()))
}
