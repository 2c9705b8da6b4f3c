//! Whether a newly trained model takes the place of the deployed one: it does unless that one is better.
//!
//! - *Which rows judge.* Those that neither was trained on, as each of the two reads them (`rival.rs`); where fewer than twenty
//!   are known, each model is known by its score on the rows that its own training held out. A model that cannot read the
//!   rows is never the better one.
//! - *When they may.* Where they hold the classes of the deployed model about as often as its own held-out rows did, or five
//!   times each; and where the metric says anything of them: f1 of rows without the class that is looked for does not. Rows
//!   that lack what the deployed model knows never make a better one.
//! - *What they say.* The metric, beside its noise; docs/design/scores.md has the cases.

use learn::side;
use learn::split::Split;
use serde_json::{Map, Value};

use super::columns::Data;
use super::label::Classes;
use super::report::{self, short};
use super::rival::{Rival, RivalRows};
use super::score::{Grades, Scorer};
use crate::error::Result;
use crate::exchange::description::UNNAMED_LABEL;
use crate::metric::Metric;
use crate::model::Model;
use crate::model_meta::Task;
use crate::registry::{self, Project, Recipe};
use crate::{lookup, names};

/// Fewer rows than these decide nothing.
const FEWEST: u64 = 20;

/// So many rows of a class are enough to judge by.
const ENOUGH_OF_CLASS: u64 = 5;

/// What is less probable than that a class of which five rows are to be expected has none is no chance: e to the -5.
const CHANCE: f64 = 0.006_737_946_999_085_467;

/// Takes the new model, what it was made by and of, and its metrics on its own test rows; and the deployed model as it was when
/// the rows were read.
pub fn decide(
    (project, recipe): (&Project, &Recipe),
    metric: &Metric,
    (new, metrics): (&Scorer, &Map<String, Value>),
    rival: Option<&Rival>,
    data: &Data,
    split: &Split,
) -> Result<Decision> {
    let Some(deployed) = registry::deployed_model(project.id)? else {
        return Ok(Decision { better: true, reason: "the project had no deployed model".to_owned() });
    };
    if let Some(decision) = without_comparison(metric, (deployed, metrics), data, split) {
        return Ok(decision);
    }
    let model = unseen_model(deployed)?;
    let recorded = Recorded::find(project, deployed, &model)?;
    let left_out = left_out(&model, data);
    if let Some(decision) = is_of_others((deployed, &model, &recorded), &left_out, metric, data) {
        return Ok(decision);
    }
    let rows = data.rival.as_ref().filter(|_| rival.is_some_and(|rival| rival.id == deployed));
    let shared = shared_rows(rows, &model, data, split);
    let by_query = rows.is_some_and(|rows| rows.left_out);
    if let Some(why) = rows.and_then(|rows| rows.unreadable.as_ref()).filter(|_| !by_query) {
        return Ok(Decision::told(format!(
            "Deployed model {deployed} cannot read these rows: {why}. The new model replaces it"
        )));
    }
    let takes_same = model.same_columns(&data.meta().columns);
    let current = match rows {
        Some(_) => Scorer::of_rival(model, data),
        None => Scorer::new(model, data),
    };
    let (lost, unknown) = current.classes_apart(data);
    if !unknown.is_empty() && Some(unknown.len()) == data.classes() {
        return Ok(Decision::told(format!(
            "Deployed model {deployed} knows none of the classes of these rows: the new model replaces it"
        )));
    }
    if let Some(decision) = Jury::all(data).misses(deployed, &recorded) {
        return Ok(decision);
    }
    if rows.is_some_and(|rows| rows.refuses) {
        let why = "which is deployed, takes no missing values and cannot predict all rows";
        return Ok(Decision::warned(true, format!("model {deployed}, {why}: the new model replaces it")));
    }
    // The same trained again on more rows than then is to be preferred unless it is found to be worse.
    let before = registry::recipe_of_model(deployed)?.filter(|_| left_out.is_empty());
    let more = before.and_then(|before| recipe.rows_more(&before)).unwrap_or(0);
    let contest =
        Contest { metric, new, data, split, deployed, recorded, current, takes_same, lost, unknown, left_out, more };
    if rows.is_some_and(|rows| rows.judges.changed) && !by_query {
        let why = "some rows that its training held out are gone, have changed or have other keys";
        if let Some(decision) = contest.is_better_even_so(why)? {
            return Ok(decision);
        }
    }
    let why = match shared.filter(|(shared, _)| shared.test_rows() >= FEWEST && !by_query) {
        None if by_query => format!("model {deployed} takes columns that the query leaves out"),
        None => format!("fewer than {FEWEST} rows are known that neither was trained on"),
        Some((shared, theirs)) => match contest.by_rows_of_neither(&shared, &theirs)? {
            Ok(decision) => return Ok(decision),
            Err(why) => why,
        },
    };
    contest.by_own_rows(&why, metrics)
}

/// What is decided where nothing is known of how good the new model is.
fn without_comparison(
    metric: &Metric,
    (deployed, metrics): (i64, &Map<String, Value>),
    data: &Data,
    split: &Split,
) -> Option<Decision> {
    if data.task == Task::Anomaly {
        let reason = "no label says which of two models finds the outliers".to_owned();
        return Some(Decision { better: true, reason });
    }
    let why = says_nothing(metric, metrics, data, split)?;
    Some(Decision::warned(false, format!("{why}: model {deployed} stays deployed")))
}

/// The deployed model as it is compared: the one that has not seen the rows that its training held out.
fn unseen_model(deployed: i64) -> Result<Model> {
    Model::of_bytes(&names::with_latest(|snapshot| lookup::unseen_model_bytes(deployed, snapshot))?)
}

/// Why nothing is known of the new model.
fn says_nothing(metric: &Metric, metrics: &Map<String, Value>, data: &Data, split: &Split) -> Option<String> {
    if metric.of(metrics).is_none() {
        let because = if split.test_rows() == 0 { ", because there are no test rows" } else { "" };
        return Some(format!("the new model has no {}{because}", metric.name()));
    }
    let constant = || "the label is the same in all rows, from which nothing can be learnt".to_owned();
    data.is_constant().then(constant)
}

/// The columns of a model that are no features of the rows, in quotes.
fn left_out(model: &Model, data: &Data) -> Vec<String> {
    let is_feature = |name: &str| data.features.iter().any(|feature| feature.name == name);
    let left_out = model.columns.iter().filter(|column| !is_feature(&column.name));
    left_out.map(|column| format!("\"{}\"", column.name)).collect()
}

/// What is decided of models that predict different labels, or are of different columns where there is no label.
fn is_of_others(
    (deployed, model, recorded): (i64, &Model, &Recorded),
    left_out: &[String],
    metric: &Metric,
    data: &Data,
) -> Option<Decision> {
    let labels: Vec<&str> = model.labels.iter().map(|label| label.name.as_str()).collect();
    let own_labels: Vec<&str> = data.labels.iter().map(|label| label.name.as_str()).collect();
    // A library's file does not say what the label is called.
    let unnamed = recorded.labels.is_none() && labels.iter().all(|label| label.starts_with(UNNAMED_LABEL));
    if labels != own_labels && !(unnamed && labels.len() == own_labels.len()) {
        return Some(Decision::warned(
            false,
            format!(
                "deployed model {deployed} predicts {}, and the new model {}: model {deployed} stays deployed. \
                 SELECT pgml.deploy(...) of the new model deploys it",
                labels.join(", "),
                own_labels.join(", ")
            ),
        ));
    }
    let is_known = |name: &str| model.columns.iter().any(|column| column.name == name);
    let added = data.features.iter().any(|feature| !is_known(&feature.name));
    if data.task.has_label() || !added && left_out.is_empty() {
        return None;
    }
    let better = left_out.is_empty();
    let outcome = if better { "the new model replaces it" } else { "it stays deployed" };
    Some(Decision::warned(
        better,
        format!(
            "deployed model {deployed} is of other columns, in which {} says something else: {outcome}. \
             SELECT pgml.deploy(...) deploys the other one",
            metric.name()
        ),
    ))
}

/// The rows that neither was trained on, by their numbers among those that the new and the deployed model read.
fn shared_rows(rows: Option<&RivalRows>, model: &Model, data: &Data, split: &Split) -> Option<(Split, Split)> {
    if let Some(rows) = rows {
        return rows.judges.known.as_ref().map(|known| (split.both(known), rows.held_out_too(split)));
    }
    // Another one was deployed meanwhile: by the same rule, of the same columns, it held out the same rows.
    let rule = model.split.as_ref().filter(|rule| rule.is_known());
    let agree = rule.zip(data.rule.as_ref()).is_some_and(|(theirs, own)| theirs.agrees_with(own));
    (agree && model.same_columns(&data.meta().columns)).then(|| (split.clone(), split.clone()))
}

/// Two models that can be compared, and what is known of them.
struct Contest<'a> {
    metric: &'a Metric,
    new: &'a Scorer,
    data: &'a Data,
    split: &'a Split,
    deployed: i64,
    recorded: Recorded,
    /// The deployed model, on the rows as it reads them.
    current: Scorer,
    /// Whether it takes the columns of the new one.
    takes_same: bool,
    /// The classes that only the deployed model knows, and those that it does not know.
    lost: Vec<String>,
    unknown: Vec<String>,
    /// Its columns that the new one was trained without.
    left_out: Vec<String>,
    /// How many rows more the new one was trained on, where it is the same otherwise.
    more: u64,
}

impl Contest<'_> {
    /// On rows that it may have been trained on the deployed model is favoured: one that is as good even so is better.
    fn is_better_even_so(&self, why: &str) -> Result<Option<Decision>> {
        let (data, split) = (self.data, self.split);
        let jury = Jury::of(data, split, "that were held out")?;
        if !self.takes_same || jury.rows < FEWEST || !jury.is_told(self.metric, data) {
            return Ok(None);
        }
        let old = Scorer::new(unseen_model(self.deployed)?, data);
        let groups = Groups::of(data, split);
        let compare = |metric: &Metric| -> Result<Option<Difference>> {
            let new = self.new.grade(data, split, metric, &groups)?;
            Ok(Difference::of(metric, &new, &old.grade(data, split, metric, &groups)?))
        };
        let found = match compare(self.metric)? {
            None if !self.unknown.is_empty() => compare(&Metric::of_task(data.task))?,
            found => found,
        };
        Ok(found.filter(Difference::is_better).map(|found| {
            let (scores, between) = found.told(",", &of_deployed(self.deployed, &self.unknown));
            let outcome =
                format!("on which that one may have been trained ({why}; {between}): the new model replaces it");
            Decision::compared(true, format!("{scores}, on {}, {outcome}", jury.what))
        }))
    }

    /// By the rows that neither was trained on; or why these do not tell.
    fn by_rows_of_neither(&self, shared: &Split, theirs: &Split) -> Result<std::result::Result<Decision, String>> {
        let data = self.data;
        let jury = Jury::of(data, shared, "that neither was trained on")?;
        if let Some(decision) = jury.misses(self.deployed, &self.recorded) {
            return Ok(Ok(decision));
        }
        let groups = Groups::of(data, shared);
        let compare = |metric: &Metric| -> Result<Option<Difference>> {
            if !jury.is_told(metric, data) {
                return Ok(None);
            }
            let new = self.new.grade(data, shared, metric, &groups)?;
            Ok(Difference::of(metric, &new, &self.current.grade(data, theirs, metric, &groups)?))
        };
        let mut first = compare(self.metric)?;
        if first.is_none() && !(self.lost.is_empty() && self.unknown.is_empty()) {
            // Some metrics are only defined where both know the same classes.
            first = compare(&Metric::of_task(data.task))?;
        }
        let second = match (&first, self.metric.second()) {
            (Some(first), Some(second)) if first.is_noise() => compare(&second)?,
            _ => None,
        };
        Ok(first.ok_or_else(|| format!("{} do not tell", jury.what)).map(|first| {
            by_shared(&first, second, (self.deployed, &self.unknown), (&jury, &self.without()), self.more)
        }))
    }

    /// By the scores of both, each on the rows that its own training held out.
    fn by_own_rows(&self, why: &str, metrics: &Map<String, Value>) -> Result<Decision> {
        let (deployed, data) = (self.deployed, self.data);
        let jury = Jury::of(data, self.split, "that were held out")?;
        if let Some(decision) = jury.misses(deployed, &self.recorded) {
            return Ok(decision);
        }
        if !jury.is_told(self.metric, data) {
            return Ok(Decision::warned(
                false,
                format!(
                    "{} says nothing of {}, which {}: model {deployed} stays deployed",
                    self.metric.name(),
                    jury.what,
                    if jury.is_constant { "are of one label" } else { "lack a class" }
                ),
            ));
        }
        if let Some(decision) = self.is_better_even_so(why)? {
            return Ok(decision);
        }
        Ok(self.recorded.decide((deployed, self.metric), metrics, (why, &self.without()), data, &jury, self.more))
    }

    /// What the new model was trained without, in words.
    fn without(&self) -> String {
        match self.left_out.is_empty() {
            true => String::new(),
            false => format!(", trained without {},", self.left_out.join(", ")),
        }
    }
}

/// The new model's own metrics are not to be believed.
pub fn unjudged(why: &str) -> Decision {
    Decision {
        better: false,
        reason: format!(
            "{why}. The deployed model stays deployed: SELECT pgml.deploy(...) of the new model deploys it"
        ),
    }
}

/// Rows that judge two models.
struct Jury {
    /// In words.
    what: String,
    rows: u64,
    /// The classes, and how many of the rows are of each; none where the label is no class.
    classes: Vec<(String, u64)>,
    /// Whether the label is the same in all of them.
    is_constant: bool,
}

impl Jury {
    /// All rows of a training.
    fn all(data: &Data) -> Jury {
        let members = data.labels.first().and_then(|label| label.classes.as_ref()).map(Classes::members);
        let classes = data.class_names().into_iter().zip(members.unwrap_or_default()).collect();
        Jury { what: "the rows".to_owned(), rows: data.spool.rows(), classes, is_constant: data.is_constant() }
    }

    /// Those that a split holds out.
    fn of(data: &Data, split: &Split, which: &str) -> Result<Jury> {
        let mut classes: Vec<(String, u64)> = data.class_names().into_iter().map(|name| (name, 0)).collect();
        if let Some(known) = data.labels.first().and_then(|label| label.classes.as_ref()) {
            let remap = known.remap();
            for (_, code) in (0..).zip(data.spool.labels()?).filter(|(row, _)| split.is_test(*row)) {
                if let Some((_, rows)) = remap.get(code as usize).and_then(|class| classes.get_mut(*class as usize)) {
                    *rows += 1;
                }
            }
        }
        let is_constant = data.labels.len() == 1 && {
            let labels = data.spool.labels()?;
            let mut held_out = (0..).zip(&labels).filter(|(row, _)| split.is_test(*row)).map(|(_, label)| *label);
            let first = held_out.next();
            held_out.all(|label| Some(label) == first)
        };
        let rows = split.test_rows();
        Ok(Jury { what: format!("the {} {which}", learn::count(rows, "row")), rows, classes, is_constant })
    }

    fn of_class(&self, class: &str) -> u64 {
        self.classes.iter().find(|(name, _)| name == class).map_or(0, |(_, rows)| *rows)
    }

    /// The deployed model stays where the rows have fewer of a class that it knows than chance explains, and too few to judge
    /// by.
    fn misses(&self, deployed: i64, recorded: &Recorded) -> Option<Decision> {
        let missed = recorded.shares().filter_map(|(class, share)| {
            let (found, expected) = (self.of_class(class), share * self.rows as f64);
            let what = match found {
                0 => format!("no class \"{class}\""),
                found => format!("{found} of class \"{class}\""),
            };
            let is_missed = found < ENOUGH_OF_CLASS && at_most(found, expected) <= CHANCE;
            is_missed.then(|| format!("{what} (about {expected:.0} were to be expected)"))
        });
        let missed: Vec<String> = missed.collect();
        (!missed.is_empty()).then(|| {
            Decision::warned(
                false,
                format!(
                    "{} have {}, which deployed model {deployed} knows: model {deployed} stays deployed. \
                     SELECT pgml.deploy(...) of the new model deploys it",
                    self.what,
                    missed.join(", ")
                ),
            )
        })
    }

    /// Whether a metric says anything of the rows: what is of a class does not where none is of it, and what weighs classes
    /// against each other does not where all are of one.
    fn is_told(&self, metric: &Metric, data: &Data) -> bool {
        let there = self.classes.iter().filter(|(_, rows)| *rows > 0).count();
        let looked_for = data.positive.and_then(|class| self.classes.get(class as usize));
        match metric.name() {
            "r2" | "explained_variance" => !self.is_constant,
            _ if metric.is_own() || self.classes.is_empty() => true,
            "mcc" | "balanced_accuracy" => there > 1,
            _ if metric.is_of_class() => looked_for.is_none_or(|(_, rows)| *rows > 0),
            _ => true,
        }
    }
}

/// How probable it is that so few are found where so many are expected.
fn at_most(found: u64, expected: f64) -> f64 {
    let mut term = (-expected).exp();
    let mut sum = term;
    for count in 1..=found {
        term *= expected / count as f64;
        sum += term;
    }
    sum
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

    /// The new model is better, and the reason is said.
    fn told(reason: String) -> Decision {
        report::info(&reason);
        Decision { better: true, reason }
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
    fn of(metric: &Metric, new: &Grades, deployed: &Grades) -> Option<Difference> {
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

    fn is_tie(&self) -> bool {
        self.is_better() && self.metric.at_least_as_good(self.deployed, self.new)
    }

    /// Both scores and what lies between them.
    fn told(&self, of_new: &str, of_deployed: &str) -> (String, String) {
        let spread = self.error.map(|error| format!(" +- {}", short(error))).unwrap_or_default();
        let noise = if self.is_noise() { ", within the noise" } else { "" };
        let difference = self.new - self.deployed;
        let sign = if difference < 0.0 { "" } else { "+" };
        (
            format!("{} {}{of_new} and {}{of_deployed}", self.metric.name(), short(self.new), short(self.deployed)),
            format!("difference {sign}{}{spread}{noise}", short(difference)),
        )
    }
}

/// ` of deployed model 7`, with the classes that it does not know.
fn of_deployed(deployed: i64, unknown: &[String]) -> String {
    match unknown {
        [] => format!(" of deployed model {deployed}"),
        unknown => format!(" of deployed model {deployed}, which does not know {}", named(unknown)),
    }
}

/// By the rows that neither was trained on: by the first difference or, where that is within the noise, by the second, if there
/// is one. `more` rows than the deployed one the new one has read, if it is made as that one was.
fn by_shared(
    first: &Difference,
    second: Option<Difference>,
    (deployed, unknown): (i64, &[String]),
    (jury, without): (&Jury, &str),
    more: u64,
) -> Decision {
    let (scores, between) = first.told(if without.is_empty() { "," } else { without }, &of_deployed(deployed, unknown));
    let (better, outcome) = verdict(first, second, deployed, more);
    Decision::compared(better, format!("{scores}, on {} ({between}){outcome}", jury.what))
}

/// What two differences say, the second only where the first is within the noise.
fn verdict(first: &Difference, second: Option<Difference>, deployed: i64, more: u64) -> (bool, String) {
    let second = second.filter(|second| first.is_noise() && !second.is_tie());
    let last = second.as_ref().unwrap_or(first);
    let by_more = !last.is_better() && last.is_noise() && more > 0;
    let outcome = match by_more {
        true => format!("the new model, which is the same with {}, replaces it", learn::count(more, "more row")),
        false => outcome(last.is_better(), last.is_noise(), deployed),
    };
    let second = second.as_ref().map(|second| {
        let (scores, between) = second.told(",", "");
        format!("; {scores} ({between})")
    });
    (last.is_better() || by_more, format!("{}: {outcome}", second.unwrap_or_default()))
}

fn outcome(better: bool, is_noise: bool, deployed: i64) -> String {
    match (better, is_noise) {
        (true, _) => "the new model replaces it".to_owned(),
        (false, true) => format!("the new model is not better, and model {deployed} stays deployed"),
        (false, false) => format!("the new model is worse, and model {deployed} stays deployed"),
    }
}

/// What is recorded of a model: the metrics are of the rows that its training held out.
struct Recorded {
    metrics: Map<String, Value>,
    labels: Option<Vec<String>>,
}

impl Recorded {
    fn find(project: &Project, model_id: i64, read: &Model) -> Result<Recorded> {
        let model = registry::models(project.id)?.into_iter().find(|model| model.id == model_id);
        let mut metrics = model.as_ref().and_then(|model| model.metrics.as_object().cloned()).unwrap_or_default();
        // It went on from a model that had been trained on the rows held out.
        if read.split.as_ref().is_some_and(|rule| !rule.has_tests()) {
            metrics.clear();
        }
        Ok(Recorded { metrics, labels: model.and_then(|model| model.labels) })
    }

    fn of(&self, metric: &Metric, data: &Data) -> Option<f64> {
        metric.of_class(&self.metrics, data.positive_class().as_deref(), data.positive == Some(1))
    }

    /// By the scores of both, each on the rows that its own training held out, and why these decide.
    fn decide(
        &self,
        (deployed, metric): (i64, &Metric),
        metrics: &Map<String, Value>,
        (why, without): (&str, &str),
        data: &Data,
        jury: &Jury,
        more: u64,
    ) -> Decision {
        // What somebody's own aggregate gives of other rows, a sum of costs perhaps, says nothing.
        let of_task = Metric::of_task(data.task);
        let metric = if metric.is_own() { &of_task } else { metric };
        let difference = |metric: &Metric| {
            let (new, deployed) = (metric.of(metrics)?, self.of(metric, data)?);
            let error = self.rows().map(|rows| metric.error(new, jury.rows).hypot(metric.error(deployed, rows)));
            Some(Difference { metric: metric.clone(), new, deployed, error })
        };
        let Some(first) = difference(metric) else {
            return Decision::warned(
                true,
                format!(
                    "deployed model {deployed} has no {}, since it was imported, or trained without held-out rows or by an \
                     older version: the new model replaces it. SELECT pgml.deploy({deployed}) deploys it again",
                    metric.name()
                ),
            );
        };
        let then = self.rows();
        let (better, outcome) = match jury.rows < FEWEST && then.is_some_and(|then| then > jury.rows) {
            true => (
                false,
                format!(": a score of fewer than {FEWEST} rows says too little, and model {deployed} stays deployed"),
            ),
            false => verdict(&first, metric.second().and_then(|second| difference(&second)), deployed, more),
        };
        let then = then.map_or("rows".to_owned(), |rows| rows.to_string());
        let of_new = format!("{without} on {},", jury.what);
        let of_deployed = format!(" of deployed model {deployed} on the {then} that its own training held out");
        let (scores, between) = first.told(&of_new, &of_deployed);
        Decision::compared(better, format!("{scores} ({why}; {between}){outcome}"))
    }

    /// How many rows that were, where it is known.
    fn rows(&self) -> Option<u64> {
        self.metrics.get("rows")?.as_u64()
    }

    /// The classes that are known to have been among the rows, and the share of each.
    fn shares(&self) -> impl Iterator<Item = (&str, f64)> {
        let classes = self.metrics.get("classes").and_then(Value::as_object).into_iter().flatten();
        let rows = self.rows().unwrap_or(0);
        classes.filter_map(move |(class, found)| Some((class.as_str(), found.get("rows")?.as_f64()? / rows as f64)))
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
