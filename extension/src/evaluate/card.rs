//! `pgml.describe` and `pgml.card`: what people say of a model, and all that is known of it on one page of Markdown.

use pgrx::{IntoDatum, pg_sys};
use serde_json::{Map, Value};

use super::importance;
use crate::access::{self, Privilege};
use crate::doubts;
use crate::error::{Error, Result};
use crate::lookup;
use crate::memory::GivenBack;
use crate::names::{self, Key};
use crate::registry;
use crate::sql::{Call, too_long};
use crate::train::report::short;

crate::sql_function!(pgml_describe, describe);
crate::sql_function!(pgml_card, card);

const LONGEST_DESCRIPTION: usize = 10_000;
const MOST_TAGS: usize = 32;
const LONGEST_TAG: usize = 64;

/// Columns, and hyperparameters of a line, that a card has.
const MOST_COLUMNS: usize = 50;
const MOST_FEATURES: usize = 10;

/// `pgml.describe(model_id, description, tags) RETURNS void`.
fn describe(call: &Call) -> Result<pg_sys::Datum> {
    let model = call.i64(0).ok_or_else(|| Error::null_argument("model_id"))?;
    registry::check_writable(c"pgml.describe()")?;
    access::require_of_model(model, Privilege::Deploy)?;
    // A character has four bytes at most.
    let description = call.text(1, "description", 4 * LONGEST_DESCRIPTION)?;
    let characters = description.as_ref().map_or(0, |text| text.chars().count());
    if characters > LONGEST_DESCRIPTION {
        return Err(long("description", characters, LONGEST_DESCRIPTION));
    }
    let tags = call.text_array(2, "tags", MOST_TAGS, 4 * LONGEST_TAG)?;
    for (index, tag) in tags.iter().flatten().enumerate() {
        if tag.trim().is_empty() {
            return Err(Error::invalid("a tag must not be empty"));
        }
        if tag.chars().count() > LONGEST_TAG {
            return Err(long("a tag", tag.chars().count(), LONGEST_TAG));
        }
        if tags.iter().flatten().take(index).any(|other| other == tag) {
            return Err(Error::invalid(format!("tag \"{tag}\" is given twice")));
        }
    }
    registry::describe_model(model, description.as_deref(), tags)?;
    Ok(call.no_value())
}

fn long(what: &str, characters: usize, most: usize) -> Error {
    let Error::Report(mut report) = too_long(what, characters, most) else { return too_long(what, characters, most) };
    report.message = format!("{what} has {characters} characters: the limit is {most}");
    Error::Report(report)
}

/// `pgml.card(model_id) RETURNS text`.
fn card(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let model = call.i64(0).ok_or_else(|| Error::null_argument("model_id"))?;
    access::require_of_model(model, Privilege::See)?;
    let may = |privilege| {
        names::with_latest(|snapshot| match lookup::project_of_model(model, snapshot)? {
            Some(project) => access::may(&project, privilege, snapshot),
            None => Ok(false),
        })
    };
    let known = registry::all_of_model(model)?;
    let data = if may(Privilege::Export)? { Shown::All } else { Shown::Part };
    let importance = match may(Privilege::Explain)? {
        true => Some(importance::ranked(&names::resolve(Key::Model(model), Privilege::Explain)?)?),
        false => None,
    };
    let ranked = importance.map(|ranked| {
        let gains = ranked.iter().filter_map(|(name, splits)| Some((name.clone(), splits.as_ref()?.gain?)));
        gains.filter(|(_, gain)| *gain > 0.0).collect::<Vec<_>>()
    });
    Ok(page(&known, data, ranked.as_deref()).into_datum().unwrap_or(pg_sys::Datum::from(0)))
}

/// Whether what a model was trained on is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    All,
    Part,
}

/// What may stand anywhere in Markdown, tables too.
fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' => escaped.push(' '),
            '|' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '#' | '\\' => {
                escaped.push('\\');
                escaped.push(character);
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or("")
}

/// The texts of an array, each in its place.
fn texts(of: &Value, name: &str) -> Vec<String> {
    let items = of.get(name).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(plain).collect()
}

/// What a card is made of.
struct Card<'a> {
    project: &'a Value,
    model: &'a Value,
    snapshot: &'a Value,
    deployed: bool,
    metrics: &'a Map<String, Value>,
    hyperparams: &'a Map<String, Value>,
    lines: Vec<String>,
}

fn page(known: &Value, data: Shown, ranked: Option<&[(String, f64)]>) -> String {
    let (null, nothing) = (Value::Null, Map::new());
    let part = |name: &str| known.get(name).unwrap_or(&null);
    let object = |name: &str| part("model").get(name).and_then(Value::as_object).unwrap_or(&nothing);
    let mut card = Card {
        project: part("project"),
        model: part("model"),
        snapshot: part("snapshot"),
        deployed: known.get("deployed").and_then(Value::as_bool) == Some(true),
        metrics: object("metrics"),
        hyperparams: object("hyperparams"),
        lines: Vec::new(),
    };
    card.head();
    card.training(data);
    card.measured();
    card.columns();
    card.importance(ranked.unwrap_or_default());
    card.limits();
    card.lines.push(String::new());
    card.lines.join("\n")
}

impl Card<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).and_then(Value::as_f64)
    }

    fn say(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn title(&mut self, title: &str) {
        self.lines.extend([String::new(), format!("## {title}"), String::new()]);
    }

    fn head(&mut self) {
        let id = self.model.get("id").unwrap_or(&Value::Null);
        self.say(format!("# {}: model {id}", plain(text(self.project, "name"))));
        let description = text(self.model, "description");
        if !description.is_empty() {
            self.lines.extend([String::new(), description.trim_end().to_owned()]);
        }
        self.say("");
        let labels = texts(self.snapshot, "y_column_name");
        let of = if labels.is_empty() { String::new() } else { format!(" of {}", labels.join(", ")) };
        self.say(format!("- Task: {}{of}", plain(text(self.project, "task"))));
        self.say(format!("- Algorithm: {}", plain(text(self.model, "algorithm"))));
        self.say(format!("- Deployed: {}", if self.deployed { "yes" } else { "no" }));
        if let Some(decision) = self.metrics.get("decision").and_then(Value::as_str) {
            self.say(format!("- Decision of its training: {}", plain(decision)));
        }
        let tags = texts(self.model, "tags");
        if !tags.is_empty() {
            self.say(format!("- Tags: {}", tags.join(", ")));
        }
    }

    fn training(&mut self, data: Shown) {
        self.title("Training");
        self.source(data);
        let at = text(self.model, "created_at").replace('T', " ");
        self.say(format!("- At: {}", at.split('.').next().unwrap_or_default()));
        let samples = self.snapshot.get("analysis").and_then(|analysis| analysis.get("samples"));
        if let Some(rows) = samples.and_then(Value::as_u64) {
            let held_out = self.number("rows");
            let held = held_out.map_or("none held out".to_owned(), |held| format!("{held} of them held out"));
            let rule = match (held_out, text(self.snapshot, "test_sampling")) {
                (None, _) => String::new(),
                (_, "last") => ", the last ones".to_owned(),
                (_, sampling) => format!(" ({})", plain(&format!("test_sampling {sampling}"))),
            };
            self.say(format!("- Rows: {rows}, {held}{rule}"));
        }
        if self.metrics.get("refit").and_then(Value::as_bool) == Some(true) {
            self.say("- Fitted again on all rows after it was measured");
        }
        let groups = self.metrics.get("groups");
        let of_groups = |name: &str| groups.and_then(|groups| groups.get(name)).and_then(Value::as_u64);
        if let (Some(all), Some(own)) = (of_groups("number"), of_groups("with_own_model")) {
            self.say(format!("- A model for each of {own} groups, of {all}, and one of all rows for the others"));
        }
        if let Some(seconds) = self.number("fit_time") {
            let again =
                self.number("refit_time").map(|again| format!(", and {} for the fit on all rows", short(again)));
            self.say(format!("- Seconds: {}{}", short(seconds), again.unwrap_or_default()));
        }
        let given =
            self.hyperparams.iter().map(|(name, value)| format!("{} = {}", plain(name), plain(&value.to_string())));
        let given: Vec<String> = given.collect();
        let given = if given.is_empty() { "all by default".to_owned() } else { given.join(", ") };
        self.say(format!("- Hyperparameters: {given}"));
        let search = text(self.model, "search");
        if !search.is_empty() {
            self.say(format!("- Found by a {} search", plain(search)));
        }
    }

    fn source(&mut self, data: Shown) {
        let snapshot = self.snapshot;
        if snapshot.is_null() {
            self.say("- Data: not known; the model was imported, or its snapshot was deleted");
            return;
        }
        let relation = match data {
            Shown::All => plain(text(snapshot, "relation_name")),
            Shown::Part => "shown to roles with the privilege export".to_owned(),
        };
        let copied = match snapshot.get("materialized").and_then(Value::as_bool) {
            Some(true) => ", copied",
            _ => "",
        };
        self.say(format!("- Data: {relation} (snapshot {}{copied})", snapshot.get("id").unwrap_or(&Value::Null)));
        let role = text(snapshot, "owner");
        if !role.is_empty() && role != "-" {
            self.say(format!("- By: role {}", plain(role)));
        }
    }

    fn measured(&mut self) {
        const NOT_METRICS: [&str; 6] = ["rows", "fit_time", "score_time", "refit_time", "positive_class", "refit"];
        let values = self.metrics.iter().filter(|(name, _)| !NOT_METRICS.contains(&name.as_str()));
        let measured: Vec<(&String, f64)> = values.filter_map(|(name, value)| Some((name, value.as_f64()?))).collect();
        if measured.is_empty() {
            return;
        }
        self.title("Metrics");
        let class = self.metrics.get("positive_class").and_then(Value::as_str);
        let class =
            class.map(|class| format!("; of the class {} where a metric is of one", plain(class))).unwrap_or_default();
        let rows = self.number("rows").map_or("held-out rows".to_owned(), |rows| learn::count(rows, "held-out row"));
        self.lines.extend([format!("On the {rows}{class}."), String::new()]);
        self.lines.extend(["| metric | value |".to_owned(), "|---|---|".to_owned()]);
        self.lines.extend(measured.iter().map(|(name, value)| format!("| {} | {} |", plain(name), short(*value))));
    }

    fn columns(&mut self) {
        let columns: &[Value] = self.snapshot.get("columns").and_then(Value::as_array).map_or(&[], Vec::as_slice);
        if columns.is_empty() {
            return;
        }
        self.title("Columns");
        self.lines.extend(["| column | type | role |".to_owned(), "|---|---|---|".to_owned()]);
        for column in columns.iter().take(MOST_COLUMNS) {
            let role = if column.get("label").and_then(Value::as_bool) == Some(true) { "label" } else { "feature" };
            self.say(format!("| {} | {} | {role} |", plain(text(column, "name")), plain(text(column, "pg_type"))));
        }
        let asked = self.snapshot.get("analysis").and_then(|analysis| analysis.get("preprocess"));
        for (name, spec) in asked.and_then(Value::as_object).into_iter().flatten() {
            if let Some(role) = spec.get("role").and_then(Value::as_str) {
                self.say(format!("| {} | | {} |", plain(name), plain(role)));
            }
        }
        if columns.len() > MOST_COLUMNS {
            let more = learn::count(columns.len() - MOST_COLUMNS, "more column");
            self.lines.extend([String::new(), format!("And {more}.")]);
        }
    }

    fn importance(&mut self, ranked: &[(String, f64)]) {
        if ranked.is_empty() {
            return;
        }
        self.title("Importance");
        self.lines.extend(["| feature | part of the gain of all splits |".to_owned(), "|---|---|".to_owned()]);
        let total: f64 = ranked.iter().map(|(_, gain)| gain).sum();
        let mut sorted = ranked.to_vec();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (name, gain) in sorted.iter().take(MOST_FEATURES) {
            self.say(format!("| {} | {:.1} % |", plain(name), 100.0 * gain / total));
        }
    }

    fn limits(&mut self) {
        self.title("Limits");
        let held_out = self.number("rows");
        match held_out {
            None => self.say("- No rows were held out: it is not known how good the model is."),
            Some(rows) if rows < 100.0 => {
                self.say(format!("- The metrics are of {}, and so uncertain.", learn::count(rows, "row")));
            }
            Some(_) => {}
        }
        let doubts = doubts::of(self.metrics).into_iter();
        self.lines.extend(doubts.map(|doubt| format!("- On the held-out rows {}.", plain(&doubt))));
        if self.hyperparams.keys().any(|name| name == "early_stopping_rounds") {
            self.say("- The held-out rows decided when to stop: the metrics are a little too good.");
        }
        if held_out.is_some() {
            self.say(
                "- The metrics are of rows like those of the training. Of other rows (later ones, other places) nothing is \
                 known: compare them with pgml.drift and pgml.evaluate, or watch them with pgml.watch.",
            );
        }
        let mut columns = self.snapshot.get("columns").and_then(Value::as_array).into_iter().flatten();
        if columns.any(|column| column.get("statistics").is_some_and(|found| found.get("categories").is_some())) {
            self.say("- A category that the training has not seen is a missing value to the model.");
        }
        self.say("- What a feature has to do with the label is correlation; the model does not know causes.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_stays_in_its_place() {
        assert_eq!(plain("a|b\n# c`"), "a\\|b \\# c\\`");
    }
}
