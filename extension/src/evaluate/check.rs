//! `pgml.check`: the rows that a watch names beside the deployed model and its training, once.
//!
//! Two passes over the rows: one for drift, missing values and categories, one, where there are labels, for metrics.

use learn::count;
use learn::metrics::MOST_SCORES;
use pgrx::spi::quote_identifier;
use pgrx::{IntoDatum, PgSqlErrorCode, pg_sys};
use serde_json::{Map, Value, json};

use super::drift;
use super::rows::{self, Member, Relation};
use super::sided::{Sided, Wanted};
use super::watch::{self, Thresholds};
use crate::access::{self, Privilege};
use crate::error::{Error, Result};
use crate::measure::Measures;
use crate::memory::{GivenBack, OwnContext};
use crate::metric::Metric;
use crate::names::{self, Key};
use crate::registry::{self, Project, Watch};
use crate::sql::{Call, text_datum};
use crate::train::source::Source;

crate::sql_function!(pgml_check, check);

const CHANNEL: &str = "pgml_watch";

/// Standard errors that a share or a metric has to be off by, for it not to be chance: about one in a thousand.
const ERRORS: f64 = 3.0;

/// A line of a check.
struct Finding {
    what: &'static str,
    name: Option<String>,
    value: Option<f64>,
    threshold: Option<f64>,
    crossed: bool,
    detail: String,
}

impl Finding {
    /// What could not be compared, and why.
    fn failure(what: &'static str, name: Option<String>, detail: String) -> Finding {
        Finding { what, name, value: None, threshold: None, crossed: true, detail }
    }
}

/// A type of moments, as SQL writes it.
pub fn moment_type(type_oid: pg_sys::Oid) -> Option<&'static str> {
    match type_oid {
        pg_sys::DATEOID => Some("pg_catalog.date"),
        pg_sys::TIMESTAMPOID => Some("timestamp without time zone"),
        pg_sys::TIMESTAMPTZOID => Some("timestamp with time zone"),
        _ => None,
    }
}

/// `pgml.check(project_name) RETURNS TABLE (what text, name text, value double precision, threshold double precision,
/// crossed boolean, detail text)`.
fn check(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    registry::check_writable(c"pgml.check()")?;
    let project = watch::project(call)?;
    let model = watch::deployed(&project)?;
    let watch = registry::watch(project.id)?.ok_or_else(|| {
        Error::undefined(format!("project \"{}\" is not watched", project.name))
            .hint("pgml.watch(project_name, relation_name) says what is to be compared.")
    })?;
    let findings = {
        let _context = OwnContext::begin(c"pgml check");
        look(&project, model, &watch)?
    };
    // Two checks at a time would both find what the other has not told yet.
    registry::lock_project(project.id, &project.name)?;
    let before = registry::insert_check(project.id, model, &to_json(&findings))?;
    for finding in findings.iter().filter(|finding| finding.crossed && !was_crossed(&before, finding)) {
        let payload = json!({
            "project": crate::error::shorten(&project.name, 200),
            "model_id": model,
            "what": finding.what,
            "name": finding.name,
            "value": finding.value,
            "threshold": finding.threshold,
        });
        registry::notify(CHANNEL, &payload.to_string())?;
    }
    call.rows(findings.iter().map(|finding| {
        [
            Some(text_datum(finding.what)),
            finding.name.as_deref().map(text_datum),
            finding.value.into_datum(),
            finding.threshold.into_datum(),
            finding.crossed.into_datum(),
            Some(text_datum(&finding.detail)),
        ]
    }))
}

fn to_json(findings: &[Finding]) -> Value {
    findings
        .iter()
        .map(|finding| {
            json!({
                "what": finding.what, "name": finding.name, "value": finding.value, "threshold": finding.threshold,
                "crossed": finding.crossed, "detail": finding.detail,
            })
        })
        .collect()
}

fn was_crossed(before: &Value, finding: &Finding) -> bool {
    before.as_array().into_iter().flatten().any(|other| {
        other.get("what").and_then(Value::as_str) == Some(finding.what)
            && other.get("name").and_then(Value::as_str) == finding.name.as_deref()
            && other.get("crossed").and_then(Value::as_bool) == Some(true)
    })
}

/// Compares the rows that are watched.
fn look(project: &Project, model: i64, watch: &Watch) -> Result<Vec<Finding>> {
    let source = Source::resolve(&watch.relation_name)?;
    if !source.may_be_read_for(watch.owner)? {
        let (given_by, reader) = (access::role_name(watch.owner), access::role_name(access::user()));
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!(
                "what is watched for project \"{}\" was given by role \"{given_by}\": role \"{reader}\" must give its own",
                project.name
            ),
        )
        .hint("Call pgml.watch as the role that calls pgml.check, or watch a plain table."));
    }
    let thresholds = Thresholds::read(&watch.thresholds)?;
    let all = Relation::of_source(&source, None)?;
    let recent = condition(watch, &all)?;
    let relation = Relation::of_source(&source, recent.as_deref())?;
    let mut findings = Vec::new();
    // What cannot be compared is told, beside what the rest of the rows says.
    let measured = |findings: &mut Vec<Finding>| match metrics(
        project,
        model,
        &source,
        recent.as_deref(),
        &relation,
        &thresholds,
        findings,
    ) {
        Ok(()) => Ok(()),
        Err(error) => error.message().map(|message| findings.push(Finding::failure("metric", None, message))),
    };
    match drift::columns_in(model, &relation) {
        Ok(mut columns) => {
            relation.read(&mut columns)?;
            volume(&thresholds, columns.rows, watch, &mut findings);
            measured(&mut findings)?;
            for (name, error) in std::mem::take(&mut columns.unlike) {
                findings.push(Finding::failure("column", Some(name), error.message()?));
            }
            of_columns(columns, &thresholds, watch, &mut findings);
        }
        // Nothing is known of the training's rows; what has labels can be measured all the same.
        Err(error) if error.code() == Some(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE) => {
            let mut count = Count(0);
            relation.read(&mut count)?;
            volume(&thresholds, count.0, watch, &mut findings);
            measured(&mut findings)?;
        }
        Err(error) => return Err(error),
    }
    Ok(findings)
}

struct Count(u64);

impl crate::train::cursor::Receiver for Count {
    fn row(&mut self, _values: &[pg_sys::Datum], _nulls: &[bool]) -> Result<()> {
        self.0 += 1;
        if self.0.is_multiple_of(4096) {
            crate::train::interrupts::check();
        }
        Ok(())
    }
}

/// Which rows are of the last period.
fn condition(watch: &Watch, relation: &Relation) -> Result<Option<String>> {
    let (Some(name), Some(period)) = (&watch.time_column, &watch.period) else { return Ok(None) };
    let column = relation.columns().iter().find(|column| column.name == *name);
    let Some(moment) = column.and_then(|column| moment_type(column.type_oid)) else {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
            format!("column \"{name}\", the time_column of the watch, is not a date or timestamp of the relation"),
        )
        .hint("Call pgml.watch again."));
    };
    Ok(Some(format!(
        "pgml_rows.{column} OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.-) '{period}'::interval)::{moment} \
         AND pgml_rows.{column} OPERATOR(pg_catalog.<=) pg_catalog.now()::{moment}",
        column = quote_identifier(name)
    )))
}

fn volume(thresholds: &Thresholds, rows: u64, watch: &Watch, findings: &mut Vec<Finding>) {
    let value = rows as f64;
    let few = thresholds.min_rows.is_some_and(|least| value < least);
    let many = thresholds.max_rows.is_some_and(|most| value > most);
    let detail = match &watch.period {
        Some(period) => format!("rows of the last {period}"),
        None => "all rows".to_owned(),
    };
    findings.push(Finding {
        what: "rows",
        name: None,
        value: Some(value),
        threshold: if many { thresholds.max_rows } else { thresholds.min_rows.or(thresholds.max_rows) },
        crossed: few || many,
        detail,
    });
}

/// Drift, missing values and categories, column by column.
fn of_columns(columns: drift::Columns, thresholds: &Thresholds, watch: &Watch, findings: &mut Vec<Finding>) {
    let rows = columns.rows as f64;
    let enough = rows > 0.0 && rows >= thresholds.enough_rows;
    let (mut drifts, mut shares) = (Vec::new(), Vec::new());
    for column in columns.columns {
        let share = if rows > 0.0 { Some(column.missing as f64 / rows) } else { None };
        if let (Some(share), Some(before)) = (share, column.missing_before)
            && (share > 0.0 || before > 0.0)
        {
            let threshold = thresholds.missing.map(|more| (before + more).min(1.0));
            let by_chance = before + ERRORS * (before * (1.0 - before) / rows).sqrt();
            shares.push(Finding {
                what: "missing",
                name: Some(column.name.clone()),
                value: Some(share),
                threshold,
                crossed: enough && threshold.is_some_and(|threshold| share > threshold && share > by_chance),
                detail: format!(
                    "{} of {}; share in the training {before:.4}",
                    column.missing,
                    count(columns.rows, "row")
                ),
            });
        }
        let (name, moved, distance, unseen) = column.drift();
        if let Some(moved) = moved {
            let ks = distance.map(|distance| format!(", ks {distance:.4}")).unwrap_or_default();
            // The rows are chosen by their time, which is another in each period.
            let moves = watch.time_column.as_ref() == Some(&name);
            let threshold = thresholds.drift.filter(|_| !moves);
            let why = if moves { "; time moves on by itself, and crosses nothing" } else { "" };
            drifts.push(Finding {
                what: "drift",
                name: Some(name.clone()),
                value: Some(moved.stability),
                threshold,
                crossed: threshold.is_some_and(|most| moved.stability > most) && moved.chance < thresholds.p_value,
                detail: format!("{}, p_value {:.3e}{ks}{why}", count(columns.rows, "row"), moved.chance),
            });
        }
        if let Some(unseen) = unseen.filter(|_| rows > 0.0) {
            let share = unseen as f64 / rows;
            shares.push(Finding {
                what: "unseen",
                name: Some(name),
                value: Some(share),
                threshold: thresholds.unseen,
                crossed: enough && thresholds.unseen.is_some_and(|most| share > most),
                detail: format!("{unseen} of {}", count(columns.rows, "row")),
            });
        }
    }
    drifts.sort_by(|a, b| b.value.unwrap_or(0.0).total_cmp(&a.value.unwrap_or(0.0)));
    shares.sort_by_key(|finding| finding.what != "missing");
    findings.extend(drifts);
    findings.extend(shares);
}

impl Thresholds {
    /// Whether a metric of so many rows is beyond its bound or, where none is given, worse than in training.
    fn judge(&self, metric: &Metric, value: f64, trained: Option<f64>, rows: u64, which: &str) -> Finding {
        let bound = self.metrics.get(metric.name()).and_then(Value::as_f64);
        let worse_than = |limit: f64| metric.upwards(value) < metric.upwards(limit);
        let (threshold, beyond) = match (bound, trained, self.decline) {
            (Some(bound), ..) => (Some(bound), worse_than(bound)),
            (None, Some(trained), Some(decline)) => {
                let limit = trained - metric.upwards(decline * trained.abs());
                let chance = trained - metric.upwards(ERRORS * metric.error(trained, rows));
                (Some(limit), worse_than(limit) && worse_than(chance))
            }
            _ => (None, false),
        };
        let trained =
            trained.map(|trained| format!("; {trained:.4} on the held-out rows of the training")).unwrap_or_default();
        Finding {
            what: "metric",
            name: Some(metric.name().to_owned()),
            value: value.is_finite().then_some(value),
            threshold,
            crossed: beyond && rows as f64 >= self.enough_rows,
            detail: format!("{which}{trained}"),
        }
    }
}

/// The metrics, where the rows have labels.
fn metrics(
    project: &Project,
    model: i64,
    source: &Source,
    recent: Option<&str>,
    relation: &Relation,
    thresholds: &Thresholds,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let target = names::resolve(Key::Model(model), Privilege::Deploy)?;
    let labels: Vec<String> = target.model.labels.iter().map(|label| label.name.clone()).collect();
    let is_there = |label: &String| relation.columns().iter().any(|column| column.name == *label);
    if labels.is_empty() || !labels.iter().all(is_there) {
        return Ok(());
    }
    let known = labels.iter().map(|label| format!("pgml_rows.{} IS NOT NULL", quote_identifier(label)));
    let conditions: Vec<String> = recent.map(str::to_owned).into_iter().chain(known).collect();
    let relation = Relation::of_source(source, Some(&conditions.join(" AND ")))?;
    let mut sided = Sided::untrained(model, &target.model, &relation, recent.is_none())?;
    let target = if sided.wanted == Wanted::HeldOut { names::unseen(target)? } else { target };
    let task = target.model.task;
    let measures = Measures::new(&target.model, target.model.classes().len(), true, MOST_SCORES)?;
    let mut member = Member::new(target, &relation, None, measures)?;
    rows::run(&relation, &mut sided, &mut member)?;
    let rows = member.rows();
    let which = sided.described("rows with labels");
    let own = Metric::of_project(project, task);
    if rows == 0 {
        if sided.seen() > 0 {
            let name = Some(own.name().to_owned());
            findings.push(Finding { crossed: false, ..Finding::failure("metric", name, which) });
        }
        return Ok(());
    }
    let found = member.taker.all()?;
    let before = registry::models(project.id)?.into_iter().find(|other| other.id == model);
    let before: Map<String, Value> = before.and_then(|model| model.metrics.as_object().cloned()).unwrap_or_default();
    let mut names = vec![own.name().to_owned()];
    names.extend(thresholds.metrics.keys().filter(|name| *name != own.name()).cloned());
    for name in names {
        let metric = Metric::named(&name);
        let Some(value) = metric.of(&found) else {
            let detail = "a check does not compute this metric of these rows".to_owned();
            findings.push(Finding { crossed: false, ..Finding::failure("metric", Some(name), detail) });
            continue;
        };
        let trained = metric.of(&before).filter(|trained| trained.is_finite());
        findings.push(thresholds.judge(&metric, value, trained, rows, &which));
    }
    Ok(())
}
