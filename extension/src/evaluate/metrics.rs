//! `pgml.evaluate` and `pgml.compare`: the metrics of a training, on any rows.

use learn::metrics::MOST_SCORES;
use pgrx::{IntoDatum, JsonB, pg_sys};
use serde_json::{Map, Value, json};

use super::rows::{self, Member, Relation, Take};
use super::sided::{Judge, Sided, Wanted};
use crate::access::{self, Privilege};
use crate::error::{Error, Result};
use crate::measure::Measures;
use crate::memory::{GivenBack, OwnContext};
use crate::metric::Metric;
use crate::model::Model;
use crate::names::{self, Key, Resolved};
use crate::registry::{self, Candidate, Project};
use crate::sql::{Call, text_datum};
use crate::train::cursor::Receiver;

crate::sql_function!(pgml_evaluate, evaluate);
crate::sql_function!(pgml_compare, compare);

impl Take for Measures {
    fn row(&mut self, model: &Model, features: &[f32], labels: &[f32], values: &[f32]) -> Result<()> {
        let class = model.class_index(values).and_then(|class| u32::try_from(class).ok()).unwrap_or(0);
        self.add(model, features, labels, values, class)
    }
}

/// `pgml.evaluate(project or model, relation_name, y_column_name) RETURNS jsonb`.
fn evaluate(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let metrics = {
        let _context = OwnContext::begin(c"pgml evaluation");
        let target = super::target(call, Privilege::Predict)?;
        let relation = Relation::of(call, 1)?;
        let labels = super::labels(call, 2)?;
        let (target, mut sided) = Sided::of(call, 3, target, &relation, labels.as_deref())?;
        let measures = Measures::new(&target.model, target.model.classes().len(), true, MOST_SCORES)?;
        let mut member = Member::new(target, &relation, labels.as_deref(), measures)?;
        rows::run(&relation, &mut sided, &mut member)?;
        // Held-out rows are said to be so in the answer; of all rows this does not say what they were.
        if sided.wanted == Wanted::All || sided.doubt().is_some() || sided.narrowed().is_some() {
            sided.tell();
        }
        described(&member, &sided)?
    };
    Ok(JsonB(Value::Object(metrics)).into_datum().unwrap_or(pg_sys::Datum::from(0)))
}

/// The metrics, and of which and how many rows they are.
fn described(member: &Member<Measures>, sided: &Sided) -> Result<Map<String, Value>> {
    let mut metrics = match member.rows() {
        0 => Map::new(),
        _ => {
            let mut metrics = member.taker.all()?;
            metrics.extend(member.taker.by_class(&member.classes()));
            metrics
        }
    };
    metrics.insert("rows".to_owned(), json!(member.rows()));
    metrics.insert("rows_used".to_owned(), json!(sided.wanted.name()));
    Ok(metrics)
}

/// A model of a project that is measured beside others, or why it cannot be.
struct Entrant {
    candidate: Candidate,
    member: std::result::Result<Member<Measures>, String>,
}

impl Entrant {
    /// Goes on with the model unless an error of its own has ended that.
    fn go_on(&mut self, work: impl FnOnce(&mut Member<Measures>) -> Result<()>) -> Result<()> {
        let Ok(member) = &mut self.member else { return Ok(()) };
        match work(member) {
            Err(Error::Report(report)) => self.member = Err(report.message),
            outcome => outcome?,
        }
        Ok(())
    }

    fn metrics(&self, sided: &Sided) -> Result<Option<Map<String, Value>>> {
        self.member.as_ref().ok().map(|member| described(member, sided)).transpose()
    }
}

/// The rows go to all of them.
struct Entrants(Vec<Entrant>);

impl Receiver for Entrants {
    fn row(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<()> {
        self.0.iter_mut().try_for_each(|entrant| entrant.go_on(|member| member.row(values, nulls)))
    }
}

impl Judge for Entrants {
    fn lacks_label(&self, values: &[pg_sys::Datum], nulls: &[bool]) -> bool {
        let mut members = self.0.iter().filter_map(|entrant| entrant.member.as_ref().ok()).peekable();
        members.peek().is_some() && members.all(|member| member.lacks_label(values, nulls))
    }
}

/// `pgml.compare(project_name, relation_name, y_column_name) RETURNS TABLE (model_id bigint, algorithm text, deployed
/// boolean, metrics jsonb, error text)`: the best first. One reading of the relation gives all models the same rows.
fn compare(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let name = call.text(0, "project_name", names::LONGEST)?.ok_or_else(|| Error::null_argument("project_name"))?;
    access::require(&name, Privilege::Predict)?;
    access::require(&name, Privilege::See)?;
    let Some(project) = registry::find_project(&name)? else { return Err(names::no_such_project(&name)) };
    let deployed = registry::deployed_model(project.id)?;
    let relation = Relation::of(call, 1)?;
    let labels = super::labels(call, 2)?;
    let mut models = registry::models(project.id)?;
    models.retain(|model| model.status == "successful");
    let count = models.len().max(1);
    let mut targets = Vec::with_capacity(count);
    for candidate in models {
        pgrx::check_for_interrupts!();
        targets.push((names::resolve(Key::Model(candidate.id), Privilege::Predict), candidate));
    }
    // The same rows for all.
    let known: Vec<(i64, &Model)> =
        targets.iter().filter_map(|(target, model)| Some((model.id, &*target.as_ref().ok()?.model))).collect();
    let mut sided = Sided::new(Wanted::read(call, 3)?, &known, &relation, labels.as_deref())?;
    // And the same class that is looked for: that of the deployed model.
    let leading = known.iter().find(|(id, _)| deployed == Some(*id)).or(known.first());
    let positive = leading.and_then(|(_, model)| Some(model.classes().get(model.positive?)?.text.clone()));
    let mut entrants = Entrants(Vec::with_capacity(count));
    for (target, candidate) in targets {
        let enter = || {
            let target = admitted(target?, &candidate, &sided)?;
            let classes = target.model.classes();
            let class = classes.iter().position(|class| positive.as_ref() == Some(&class.text));
            let class = class.or(target.model.positive).and_then(|class| u32::try_from(class).ok());
            let measures = Measures::new(&target.model, classes.len(), true, MOST_SCORES / count)?.of_class(class);
            Ok(Member::new(target, &relation, labels.as_deref(), measures)?.sharing(count))
        };
        let member = match enter() {
            Ok(member) => Ok(member),
            Err(Error::Report(report)) => Err(report.message),
            Err(caught) => return Err(caught),
        };
        entrants.0.push(Entrant { candidate, member });
    }
    sided.read(&relation, &mut entrants)?;
    sided.tell();
    let rows: Vec<_> = ranked(entrants, &project, &sided)?
        .into_iter()
        .map(|(metrics, Entrant { candidate, member })| {
            [
                candidate.id.into_datum(),
                Some(text_datum(&candidate.algorithm)),
                (deployed == Some(candidate.id)).into_datum(),
                metrics.and_then(|metrics| JsonB(Value::Object(metrics)).into_datum()),
                member.err().map(|message| text_datum(&message)),
            ]
        })
        .collect();
    call.rows(rows)
}

/// The model that is measured, unless the rows say nothing of it.
fn admitted(target: Resolved, candidate: &Candidate, sided: &Sided) -> Result<Resolved> {
    if sided.wanted != Wanted::HeldOut {
        return Ok(target);
    }
    let has = |name: &str| candidate.metrics.get(name).is_some();
    if has("fit_time") && !has("rows") {
        return Err(Error::invalid("it was trained without held-out rows, on these rows too"));
    }
    if sided.untold.contains(&candidate.id) {
        return Err(Error::invalid("it is not known on which of these rows it was trained"));
    }
    names::unseen(target)
}

/// A model of a project, with its metrics unless it cannot be measured.
type Measured = (Option<Map<String, Value>>, Entrant);

/// All of them with their metrics, the best first.
fn ranked(entrants: Entrants, project: &Project, sided: &Sided) -> Result<Vec<Measured>> {
    let mut ranked = Vec::with_capacity(entrants.0.len());
    for mut entrant in entrants.0 {
        entrant.go_on(|member| member.finish(sided))?;
        let metrics = entrant.metrics(sided)?;
        let task = entrant.member.as_ref().ok().map(|member| member.target.model.task);
        let score = metrics.as_ref().zip(task).and_then(|(metrics, task)| {
            // An aggregate function of one's own is not among the metrics.
            let by = [Metric::of_project(project, task), Metric::of_task(task)];
            by.iter().find_map(|metric| metric.of(metrics).map(|score| metric.upwards(score)))
        });
        ranked.push((score.unwrap_or(f64::NEG_INFINITY), metrics, entrant));
    }
    // The newest came first, and stays so among equals.
    ranked.sort_by(|(a, _, first), (b, _, second)| {
        b.total_cmp(a).then(first.member.is_err().cmp(&second.member.is_err()))
    });
    Ok(ranked.into_iter().map(|(_, metrics, entrant)| (metrics, entrant)).collect())
}
