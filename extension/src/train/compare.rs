//! Whether a newly trained model takes the place of the deployed one: it does unless that one is better on rows that neither
//! was trained on. Where there are too few of these, each is known by its score on the rows that its own training held out.
//! A model that cannot read the table any more is never the better one, and rows that lack what the deployed model knows (a
//! class, different labels) never make a better one.

use learn::preprocess::Role;
use learn::side::{self, Rule};
use learn::split::Split;
use pgrx::PgSqlErrorCode;
use serde_json::{Map, Value};

use super::columns::Data;
use super::cursor::ResultColumn;
use super::report;
use super::roles::Roles;
use super::score::{Grades, Scorer};
use super::sides::SideReader;
use crate::error::Result;
use crate::metric::Metric;
use crate::model::{Column, Model};
use crate::model_meta::{LabelColumn, Task};
use crate::registry::{self, Project};
use crate::{lookup, names};

/// Fewer rows than these decide nothing.
const FEWEST: u64 = 20;

/// A class of which fewer rows than these are to be expected may be missing by chance.
const FEWEST_OF_CLASS: f64 = 5.0;

/// The deployed model, as it was when the rows were read.
pub struct Rival {
    id: i64,
    algorithm: String,
    /// That it was trained and tested on, where that is known.
    rows: Option<u64>,
    rule: Option<Rule>,
    task: Task,
    labels: Vec<LabelColumn>,
}

impl Rival {
    /// That of a project, if it has one.
    pub fn find(project: Option<&Project>) -> Result<Option<Rival>> {
        let Some(project) = project else { return Ok(None) };
        let Some(id) = registry::deployed_model(project.id)? else { return Ok(None) };
        names::with_latest(|snapshot| {
            let Some(digest) = lookup::model_digest(id, snapshot)? else { return Ok(None) };
            let model = Model::load(&digest, || lookup::model_bytes(id, snapshot))?;
            let found = registry::models(project.id)?.into_iter().find(|model| model.id == id);
            let rows = registry::snapshot_of_model(id)?.and_then(|(_, analysis)| analysis.get("samples")?.as_u64());
            Ok(Some(Rival {
                id,
                algorithm: found.map(|model| model.algorithm).unwrap_or_default(),
                rows,
                rule: model.split.clone(),
                task: model.task,
                labels: model.labels,
            }))
        })
    }

    /// What tells which of these rows its training held out; `None` where nothing can.
    pub fn sides(&self, labels: &[String], columns: &[ResultColumn]) -> Option<SideReader> {
        SideReader::new(self.rule.as_ref()?, self.task, &self.labels, Some(labels), columns).ok()
    }
}

/// Takes the new model, of this algorithm, and its metrics on its own test rows; and the deployed model as it was when the
/// rows were read.
pub fn decide(
    (project, algorithm): (&Project, &str),
    metric: &Metric,
    (new, metrics): (&Scorer, &Map<String, Value>),
    rival: Option<&Rival>,
    (data, roles): (&Data, &Roles),
    split: &Split,
) -> Result<Decision> {
    let Some(deployed) = registry::deployed_model(project.id)? else {
        return Ok(Decision { better: true, reason: "the project had no deployed model".to_owned() });
    };
    let name = metric.name();
    let Some(own) = metric.of(metrics) else {
        return Ok(Decision::warned(
            false,
            format!(
                "the new model has no {name}{}: model {deployed} stays deployed",
                if split.test_rows() == 0 { ", because there are no test rows" } else { "" }
            ),
        ));
    };
    if data.is_constant() {
        return Ok(Decision::warned(
            false,
            format!(
                "the label is the same in all rows, from which nothing can be learnt: model {deployed} stays deployed"
            ),
        ));
    }
    let bytes = names::with_latest(|snapshot| lookup::unseen_model_bytes(deployed, snapshot))?;
    let recorded = Recorded::find(project, deployed)?;
    let by_records = |why: String| Ok(recorded.decide((deployed, metric, own), why, data, split));
    let theirs = Model::of_bytes(&bytes)?;
    let labels: Vec<&str> = theirs.labels.iter().map(|label| label.name.as_str()).collect();
    let own_labels: Vec<&str> = data.labels.iter().map(|label| label.name.as_str()).collect();
    if labels != own_labels {
        return Ok(Decision::warned(
            false,
            format!(
                "deployed model {deployed} predicts {}, and the new model {}: model {deployed} stays deployed. \
                 SELECT pgml.deploy(...) of the new model deploys it",
                labels.join(", "),
                own_labels.join(", ")
            ),
        ));
    }
    let Some(current) = Scorer::new(&bytes, data)? else {
        let is_ignored = |column: &&Column| roles.of_column(&column.name) == Role::Ignore;
        let left_out: Vec<String> =
            theirs.columns.iter().filter(is_ignored).map(|column| format!("\"{}\"", column.name)).collect();
        if !left_out.is_empty() {
            return by_records(format!("the new model was trained without {}", left_out.join(", ")));
        }
        let reason = format!(
            "Deployed model {deployed} cannot read these rows, whose columns are others: the new model replaces it"
        );
        report::info(&reason);
        return Ok(Decision { better: true, reason });
    };
    let (lost, unknown) = current.classes_apart(data);
    if let Some(decision) = by_classes(deployed, &lost, &unknown, &recorded, data) {
        return Ok(decision);
    }
    let (since, shared) = match rival.filter(|rival| rival.id == deployed) {
        Some(_) => (None, data.before.as_ref().map(|before| split.both(before))),
        // Another one was deployed meanwhile: by the same rule it held out the same rows.
        None => {
            let since = Rival::find(Some(project))?;
            let rule = since.as_ref().and_then(|since| since.rule.as_ref()).filter(|rule| rule.is_known());
            let shared = (rule.is_some() && rule == data.rule.as_ref()).then(|| split.clone());
            (since, shared)
        }
    };
    let rival = since.as_ref().or(rival);
    let shared = shared.filter(|shared| shared.test_rows() >= FEWEST);
    if let Some(shared) = &shared {
        let groups = Groups::of(data, shared);
        let grades = |metric: &Metric| -> Result<(Grades, Grades)> {
            Ok((new.grade(data, shared, metric, &groups)?, current.grade(data, shared, metric, &groups)?))
        };
        match grades(metric) {
            Err(error) if error.code() == Some(PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED) => {
                return Ok(takes_no_missing(deployed));
            }
            graded => {
                // Trained again on more rows than then, it is to be preferred unless it is found to be worse.
                let more = rival.filter(|rival| rival.algorithm == algorithm).and_then(|rival| rival.rows);
                let more = data.spool.rows().saturating_sub(more.unwrap_or(u64::MAX));
                let graded = graded?;
                let mut first = Difference::of(metric, &graded);
                if first.is_none() && !(lost.is_empty() && unknown.is_empty()) {
                    // Some metrics are only defined where both know the same classes.
                    let by_class = Metric::of_task(data.task);
                    first = Difference::of(&by_class, &grades(&by_class)?);
                }
                let second = match (&first, metric.second()) {
                    (Some(first), Some(second)) if first.is_noise() && more == 0 => {
                        Difference::of(&second, &grades(&second)?)
                    }
                    _ => None,
                };
                if let Some(first) = first {
                    let deployed = (deployed, unknown.as_slice());
                    return Ok(by_shared(&first, second.as_ref(), deployed, shared.test_rows(), more));
                }
            }
        }
    } else if let Err(error) = current.score(data, split)
        && error.code() == Some(PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED)
    {
        return Ok(takes_no_missing(deployed));
    }
    by_records(match shared {
        None => format!("fewer than {FEWEST} rows are known that neither was trained on"),
        Some(shared) => format!("the {} rows that neither was trained on do not tell", shared.test_rows()),
    })
}

/// By the classes alone, where these decide: `lost` are known to the deployed model and not in the rows, and `unknown` the
/// other way round.
fn by_classes(
    deployed: i64,
    lost: &[String],
    unknown: &[String],
    recorded: &Recorded,
    data: &Data,
) -> Option<Decision> {
    if !unknown.is_empty() && unknown.len() == data.classes()? {
        let reason =
            format!("Deployed model {deployed} knows none of the classes of these rows: the new model replaces it");
        report::info(&reason);
        return Some(Decision { better: true, reason });
    }
    let rows = data.spool.rows() as f64;
    let missed: Vec<&String> = lost.iter().filter(|class| recorded.share(class) * rows >= FEWEST_OF_CLASS).collect();
    (!missed.is_empty()).then(|| {
        Decision::warned(
            false,
            format!(
                "the rows have no {}, which deployed model {deployed} knows and the new model does not: model {deployed} stays \
                 deployed. SELECT pgml.deploy(...) of the new model deploys it",
                named(&missed)
            ),
        )
    })
}

/// `class "a"`, `classes "a", "b"`
fn named<T: std::fmt::Display>(classes: &[T]) -> String {
    let quoted: Vec<String> = classes.iter().map(|class| format!("\"{class}\"")).collect();
    let of_more = if classes.len() == 1 { "class" } else { "classes" };
    format!("{of_more} {}", quoted.join(", "))
}

/// Whether a new model replaces the deployed one, and why or why not, in words.
pub struct Decision {
    pub better: bool,
    pub reason: String,
}

impl Decision {
    /// Says the reason as a warning.
    fn warned(better: bool, reason: String) -> Decision {
        report::warning(&reason);
        Decision { better, reason }
    }

    /// Says the reason, as a warning where the deployed model stays.
    fn compared(better: bool, reason: String) -> Decision {
        let text = format!("Comparing the new model: {reason}");
        if better {
            report::info(&text)
        } else {
            report::warning(&text)
        }
        Decision { better, reason }
    }
}

/// How much better the new model is than the deployed one, by a metric, on rows that neither was trained on.
struct Difference {
    metric: Metric,
    new: f64,
    deployed: f64,
    /// The standard error of the difference.
    error: Option<f64>,
}

impl Difference {
    /// `None` where one of the two has no score.
    fn of(metric: &Metric, (new, deployed): &(Grades, Grades)) -> Option<Difference> {
        let error = new.error_of_difference(deployed);
        Some(Difference { metric: metric.clone(), new: new.score?, deployed: deployed.score?, error })
    }

    fn is_noise(&self) -> bool {
        let difference = (self.new - self.deployed).abs();
        difference <= self.error.map_or(0.0, |error| 2.0 * error)
    }

    fn is_better(&self) -> bool {
        self.metric.at_least_as_good(self.new, self.deployed)
    }

    /// Both scores and what lies between them.
    fn told(&self, of_deployed: &str) -> (String, String) {
        let spread = self.error.map(|error| format!(" +- {error:.6}")).unwrap_or_default();
        let noise = if self.is_noise() { ", within the noise" } else { "" };
        (
            format!("{} {:.6}, and {:.6}{of_deployed}", self.metric.name(), self.new, self.deployed),
            format!("difference {:+.6}{spread}{noise}", self.new - self.deployed),
        )
    }
}

/// By the rows that neither was trained on: by the first difference or, where that is within the noise, by the second, if there
/// is one. `more` rows than the deployed one the new one has read, if it is of the same algorithm.
fn by_shared(
    first: &Difference,
    second: Option<&Difference>,
    (deployed, unknown): (i64, &[String]),
    rows: u64,
    more: u64,
) -> Decision {
    let better = second.unwrap_or(first).is_better();
    let by_more = !better && first.is_noise() && more > 0;
    let outcome = match by_more {
        true => format!("the new model, of the same algorithm with {more} more rows, replaces it"),
        false => outcome(better, deployed),
    };
    let without = match unknown {
        [] => String::new(),
        unknown => format!(", which does not know {}", named(unknown)),
    };
    let (scores, between) = first.told(&format!(" of deployed model {deployed}{without}"));
    let second = second.map(|second| {
        let (scores, between) = second.told("");
        format!("; {scores} ({between})")
    });
    let second = second.unwrap_or_default();
    Decision::compared(
        better || by_more,
        format!("{scores}, on the {rows} rows that neither was trained on ({between}){second}: {outcome}"),
    )
}

fn outcome(better: bool, deployed: i64) -> String {
    match better {
        true => "the new model replaces it".to_owned(),
        false => format!("the new model is worse, and model {deployed} stays deployed"),
    }
}

fn takes_no_missing(deployed: i64) -> Decision {
    Decision::warned(
        true,
        format!(
            "model {deployed}, which is deployed, takes no missing values and cannot predict all test rows: the new model \
             replaces it"
        ),
    )
}

/// The metrics of a model on the rows that its training held out.
struct Recorded(Map<String, Value>);

impl Recorded {
    fn find(project: &Project, model_id: i64) -> Result<Recorded> {
        let model = registry::models(project.id)?.into_iter().find(|model| model.id == model_id);
        Ok(Recorded(model.and_then(|model| model.metrics.as_object().cloned()).unwrap_or_default()))
    }

    fn of(&self, metric: &Metric, data: &Data) -> Option<f64> {
        metric.of_class(&self.0, data.positive_class().as_deref(), data.positive == Some(1))
    }

    /// By the scores of both, each on the rows that its own training held out, and why these decide.
    fn decide(
        &self,
        (deployed, metric, own): (i64, &Metric, f64),
        why: String,
        data: &Data,
        split: &Split,
    ) -> Decision {
        let name = metric.name();
        let Some(current) = self.of(metric, data) else {
            return Decision::warned(
                true,
                format!(
                    "deployed model {deployed} has no {name}, since it was imported or trained without held-out rows: the new \
                     model replaces it. SELECT pgml.deploy({deployed}) deploys it again"
                ),
            );
        };
        let (rows, rows_then) = (split.test_rows(), self.rows());
        let too_few = rows < FEWEST && rows_then.is_some_and(|then| then > rows);
        let better = !too_few && metric.at_least_as_good(own, current);
        Decision::compared(
            better,
            format!(
                "{name} {own:.6} on the {rows} rows that were held out, and {current:.6} of deployed model {deployed} on the {} \
                 that its own training held out ({why}): {}",
                rows_then.map_or("rows".to_owned(), |rows| rows.to_string()),
                match too_few {
                    true => format!(
                        "a score of fewer than {FEWEST} rows says too little, and model {deployed} stays deployed"
                    ),
                    false => outcome(better, deployed),
                }
            ),
        )
    }

    /// How many rows that were, where it is known.
    fn rows(&self) -> Option<u64> {
        self.0.get("rows")?.as_u64()
    }

    /// The share of a class in the rows; 0 where it is not known.
    fn share(&self, class: &str) -> f64 {
        let of_class = || self.0.get("classes")?.get(class)?.get("rows")?.as_f64();
        of_class().zip(self.rows()).map_or(0.0, |(of_class, rows)| of_class / rows as f64)
    }
}

/// The groups of rows that a jackknife leaves out one after another: by the rows' hashes, so that equal rows are together.
pub struct Groups(Vec<u8>);

/// Groups of a jackknife.
pub const GROUPS: usize = 20;

impl Groups {
    /// Of the test rows of a split, in their order.
    fn of(data: &Data, split: &Split) -> Groups {
        let hash = |row: u64| {
            let hashes = data.hashes.as_ref().map(|hashes| &hashes.rows);
            hashes.and_then(|hashes| hashes.get(row as usize)).map_or(side::mix(row), |hash| side::mix(*hash))
        };
        Groups(
            (0..split.rows()).filter(|row| split.is_test(*row)).map(|row| (hash(row) % GROUPS as u64) as u8).collect(),
        )
    }

    /// That of the test row of that number.
    pub fn get(&self, row: usize) -> usize {
        self.0.get(row).map_or(0, |group| usize::from(*group))
    }
}
