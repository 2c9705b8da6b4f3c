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

fn page(known: &Value, data: Shown, ranked: Option<&[(String, f64)]>) -> String {
    let null = Value::Null;
    let part = |name: &str| known.get(name).unwrap_or(&null);
    let (project, model, snapshot) = (part("project"), part("model"), part("snapshot"));
    let nothing = Map::new();
    let metrics = model.get("metrics").and_then(Value::as_object).unwrap_or(&nothing);
    let number = |name: &str| metrics.get(name).and_then(Value::as_f64);
    let mut lines: Vec<String> = Vec::new();
    lines.push(format!("# {}: model {}", plain(text(project, "name")), model.get("id").unwrap_or(&null)));
    let description = text(model, "description");
    if !description.is_empty() {
        lines.extend([String::new(), description.trim_end().to_owned()]);
    }
    lines.push(String::new());
    let labels: Vec<String> = snapshot
        .get("y_column_name")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(plain)
        .collect();
    let of = if labels.is_empty() { String::new() } else { format!(" of {}", labels.join(", ")) };
    lines.push(format!("- Task: {}{of}", plain(text(project, "task"))));
    lines.push(format!("- Algorithm: {}", plain(text(model, "algorithm"))));
    let deployed = known.get("deployed").and_then(Value::as_bool) == Some(true);
    lines.push(format!("- Deployed: {}", if deployed { "yes" } else { "no" }));
    if let Some(decision) = metrics.get("decision").and_then(Value::as_str) {
        lines.push(format!("- Decision of its training: {}", plain(decision)));
    }
    let tags: Vec<String> = model
        .get("tags")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(plain)
        .collect();
    if !tags.is_empty() {
        lines.push(format!("- Tags: {}", tags.join(", ")));
    }

    lines.extend([String::new(), "## Training".to_owned(), String::new()]);
    let samples = snapshot.get("analysis").and_then(|analysis| analysis.get("samples")).and_then(Value::as_u64);
    let held_out = number("rows");
    if snapshot.is_null() {
        lines.push("- Data: not known; the model was imported, or its snapshot was deleted".to_owned());
    } else {
        let relation = match data {
            Shown::All => plain(text(snapshot, "relation_name")),
            Shown::Part => "shown to roles with the privilege export".to_owned(),
        };
        let copied = match snapshot.get("materialized").and_then(Value::as_bool) {
            Some(true) => ", copied",
            _ => "",
        };
        lines.push(format!("- Data: {relation} (snapshot {}{copied})", snapshot.get("id").unwrap_or(&null)));
        let role = text(snapshot, "owner");
        if !role.is_empty() && role != "-" {
            lines.push(format!("- By: role {}", plain(role)));
        }
    }
    lines.push(format!("- At: {}", text(model, "created_at").replace('T', " ").split('.').next().unwrap_or_default()));
    if let Some(rows) = samples {
        let held = held_out.map_or("none held out".to_owned(), |held| format!("{held} of them held out"));
        let rule = match (held_out, text(snapshot, "test_sampling")) {
            (None, _) => String::new(),
            (_, "last") => ", the last ones".to_owned(),
            (_, sampling) => format!(" ({})", plain(&format!("test_sampling {sampling}"))),
        };
        lines.push(format!("- Rows: {rows}, {held}{rule}"));
    }
    if metrics.get("refit").and_then(Value::as_bool) == Some(true) {
        lines.push("- Fitted again on all rows after it was measured".to_owned());
    }
    if let Some(seconds) = number("fit_time") {
        let again = number("refit_time").map(|again| format!(", and {} for the fit on all rows", short(again)));
        lines.push(format!("- Seconds: {}{}", short(seconds), again.unwrap_or_default()));
    }
    let hyperparams = model.get("hyperparams").and_then(Value::as_object).unwrap_or(&nothing);
    let given: Vec<String> =
        hyperparams.iter().map(|(name, value)| format!("{} = {}", plain(name), plain(&value.to_string()))).collect();
    let given = if given.is_empty() { "all by default".to_owned() } else { given.join(", ") };
    lines.push(format!("- Hyperparameters: {given}"));
    if !text(model, "search").is_empty() {
        lines.push(format!("- Found by a {} search", plain(text(model, "search"))));
    }

    const NOT_METRICS: [&str; 6] = ["rows", "fit_time", "score_time", "refit_time", "positive_class", "refit"];
    let measured: Vec<(&String, f64)> = metrics
        .iter()
        .filter(|(name, _)| !NOT_METRICS.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name, value.as_f64()?)))
        .collect();
    if !measured.is_empty() {
        lines.extend([String::new(), "## Metrics".to_owned(), String::new()]);
        let class = metrics.get("positive_class").and_then(Value::as_str);
        let class =
            class.map(|class| format!("; of the class {} where a metric is of one", plain(class))).unwrap_or_default();
        let rows = held_out.map_or(String::new(), |rows| format!(" {rows}"));
        lines.extend([format!("On the{rows} held-out rows{class}."), String::new()]);
        lines.extend(["| metric | value |".to_owned(), "|---|---|".to_owned()]);
        lines.extend(measured.iter().map(|(name, value)| format!("| {} | {} |", plain(name), short(*value))));
    }

    let columns: Vec<&Value> = snapshot.get("columns").and_then(Value::as_array).into_iter().flatten().collect();
    if !columns.is_empty() {
        lines.extend([String::new(), "## Columns".to_owned(), String::new()]);
        lines.extend(["| column | type | role |".to_owned(), "|---|---|---|".to_owned()]);
        for column in columns.iter().take(MOST_COLUMNS) {
            let role = if column.get("label").and_then(Value::as_bool) == Some(true) { "label" } else { "feature" };
            lines.push(format!("| {} | {} | {role} |", plain(text(column, "name")), plain(text(column, "pg_type"))));
        }
        let asked = snapshot.get("analysis").and_then(|analysis| analysis.get("preprocess")).and_then(Value::as_object);
        for (name, spec) in asked.into_iter().flatten() {
            if let Some(role) = spec.get("role").and_then(Value::as_str) {
                lines.push(format!("| {} | | {} |", plain(name), plain(role)));
            }
        }
        if columns.len() > MOST_COLUMNS {
            lines.extend([String::new(), format!("And {} more columns.", columns.len() - MOST_COLUMNS)]);
        }
    }

    if let Some(ranked) = ranked.filter(|ranked| !ranked.is_empty()) {
        lines.extend([String::new(), "## Importance".to_owned(), String::new()]);
        lines.extend(["| feature | part of the gain of all splits |".to_owned(), "|---|---|".to_owned()]);
        let total: f64 = ranked.iter().map(|(_, gain)| gain).sum();
        let part = |gain: f64| format!("{:.1} %", 100.0 * gain / total);
        let mut sorted = ranked.to_vec();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        lines.extend(
            sorted.iter().take(MOST_FEATURES).map(|(name, gain)| format!("| {} | {} |", plain(name), part(*gain))),
        );
    }

    lines.extend([String::new(), "## Limits".to_owned(), String::new()]);
    match held_out {
        None => lines.push("- No rows were held out: it is not known how good the model is.".to_owned()),
        Some(rows) if rows < 100.0 => {
            lines.push(format!("- The metrics are of {rows} rows, and so uncertain."));
        }
        Some(_) => {}
    }
    lines.extend(doubts::of(metrics).into_iter().map(|doubt| format!("- On the held-out rows {}.", plain(&doubt))));
    if hyperparams.keys().any(|name| name == "early_stopping_rounds") {
        lines.push("- The held-out rows decided when to stop: the metrics are a little too good.".to_owned());
    }
    if held_out.is_some() {
        lines.push(
            "- The metrics are of rows like those of the training. Of other rows (later ones, other places) nothing is known: \
             compare them with pgml.drift and pgml.evaluate, or watch them with pgml.watch."
                .to_owned(),
        );
    }
    if columns.iter().any(|column| column.get("statistics").is_some_and(|found| found.get("categories").is_some())) {
        lines.push("- A category that the training has not seen is a missing value to the model.".to_owned());
    }
    lines.push("- What a feature has to do with the label is correlation; the model does not know causes.".to_owned());
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_stays_in_its_place() {
        assert_eq!(plain("a|b\n# c`"), "a\\|b \\# c\\`");
    }
}
