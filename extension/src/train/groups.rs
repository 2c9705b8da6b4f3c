//! What is known of the groups of rows that each have a model: the rows that this was trained on, how good it is on those
//! held out, and how good the model for all other groups would have been there.

use std::collections::BTreeMap;

use learn::grouped::Group;
use learn::metrics::MOST_SCORES;
use learn::split::Split;
use serde_json::{Map, Value, json};

use super::columns::{Data, Feature, FeatureKind};
use super::score::Scorer;
use crate::error::Result;
use crate::measure::Measures;
use crate::metric::Metric;

/// A group by the values of its columns, and what became of it in a training.
pub struct Named {
    key: Vec<Value>,
    rows: usize,
    without: Option<String>,
}

/// Gives groups, told by the numbers of categories that hold now, their names.
pub fn named(data: &Data, groups: Vec<Group>) -> Vec<Named> {
    let columns: Vec<&Feature> = data.features.iter().filter(|feature| feature.tells_group).collect();
    let name = |group: Group| Named {
        key: columns.iter().zip(&group.key).map(|(column, code)| value(column, *code)).collect(),
        rows: group.rows,
        without: group.without,
    };
    groups.into_iter().map(name).collect()
}

/// The value of a category: a number or a boolean where the column is of them.
fn value(column: &Feature, code: u32) -> Value {
    let category = column.categories.as_ref().and_then(|sorted| sorted.values.get(code as usize));
    let text = category.map_or("", |category| category.text.as_str());
    let typed = crate::features::Number::of(crate::features::base_type(column.type_oid));
    match (typed, text.parse::<i64>(), column.kind) {
        (Some(crate::features::Number::Bool), ..) => json!(text == "true"),
        (Some(_), Ok(number), FeatureKind::Category) => json!(number),
        _ => json!(text),
    }
}

/// How good predictions of the rows of a group are that were held out.
struct Sums {
    rows: u64,
    own: Measures,
    fallback: Measures,
}

/// The same of all groups.
pub struct Scores {
    metric: String,
    /// By the values of the group's columns as JSON, which a group of no model has, too; none of rows without a group, or of
    /// one that no training row is of.
    groups: BTreeMap<Option<String>, (u64, Option<f64>, Option<f64>)>,
    /// The metrics of the model for all other groups on all rows.
    pub fallback: Map<String, Value>,
}

impl Scores {
    /// Of a model with groups; `None` of any other, and where nothing is held out.
    pub fn of(scorer: &Scorer, data: &Data, split: &Split, metric: &Metric) -> Result<Option<Scores>> {
        if data.group_columns().is_empty() || split.test_rows() == 0 {
            return Ok(None);
        }
        let metric = if metric.is_own() { Metric::of_task(data.task) } else { metric.clone() };
        let (mut columns, mut at) = (Vec::new(), 0);
        for feature in &data.features {
            columns.extend(feature.tells_group.then_some((feature, at)));
            at += feature.size;
        }
        let (mut groups, mut fallback) =
            (BTreeMap::<Option<Vec<u32>>, Sums>::new(), scorer.measures(data, MOST_SCORES)?);
        let (mut others, mut values) = (Vec::new(), Vec::new());
        scorer.predict_tests(data, split, |features, labels, own| {
            let code =
                |(_, at): &(&Feature, usize)| features.get(*at).filter(|code| **code >= 0.0).map(|code| *code as u32);
            let key: Option<Vec<u32>> = columns.iter().map(code).collect();
            others.clear();
            others.extend_from_slice(features);
            columns.iter().filter_map(|(_, at)| others.get_mut(*at).map(|value| *value = f32::NAN)).for_each(drop);
            scorer.predict_row(&others, &mut values)?;
            if !groups.contains_key(&key) {
                let sums = Sums { rows: 0, own: scorer.measures(data, 0)?, fallback: scorer.measures(data, 0)? };
                groups.insert(key.clone(), sums);
            }
            if let Some(sums) = groups.get_mut(&key) {
                sums.rows += 1;
                scorer.add(&mut sums.own, features, labels, own)?;
                scorer.add(&mut sums.fallback, &others, labels, &values)?;
            }
            scorer.add(&mut fallback, &others, labels, &values)
        })?;
        let score = |measures: &Measures| Ok::<_, crate::error::Error>(metric.of(&measures.all()?));
        let mut found = BTreeMap::new();
        for (key, sums) in &groups {
            let name = key.as_ref().map(|key| {
                let values = columns.iter().zip(key).map(|((column, _), code)| value(column, *code));
                Value::Array(values.collect()).to_string()
            });
            found.insert(name, (sums.rows, score(&sums.own)?, score(&sums.fallback)?));
        }
        Ok(Some(Scores { metric: metric.name().to_owned(), groups: found, fallback: fallback.all()? }))
    }
}

/// What is kept beside the model of its groups, for `pgml.groups`.
pub fn to_json(data: &Data, groups: &[Named], scores: Option<&Scores>) -> Value {
    let score = |name: Option<String>| scores.and_then(|scores| scores.groups.get(&name)).copied().unwrap_or_default();
    let mut rows: Vec<Value> = (groups.iter())
        .map(|group| {
            let (held_out, own, fallback) = score(Some(Value::Array(group.key.clone()).to_string()));
            json!([group.key, group.rows, group.without, held_out, own, fallback])
        })
        .collect();
    let (held_out, own, fallback) = score(None);
    if held_out > 0 {
        rows.push(json!([null, 0, "no group of the training rows", held_out, own, fallback]));
    }
    json!({ "columns": data.group_columns(), "metric": scores.map(|scores| &scores.metric), "groups": rows })
}

/// What the metrics of a model say of its groups.
pub fn summary(groups: &[Named], scores: Option<&Scores>) -> Value {
    let own = groups.iter().filter(|group| group.without.is_none()).count();
    let mut summary = json!({ "number": groups.len(), "with_own_model": own });
    if let Some(scores) = scores {
        summary["fallback"] = json!(scores.fallback);
    }
    summary
}
