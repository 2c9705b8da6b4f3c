//! `pgml.deploy`: which model answers for a project from now on.

use std::cmp::Ordering;

use learn::count;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys};
use serde_json::Value;

use crate::access::{self, Privilege};
use crate::error::{Error, Result};
use crate::metric::Metric;
use crate::model_meta::Task;
use crate::names;
use crate::registry::{self, Candidate, Project};
use crate::sql::{Call, text_datum};
use crate::train::report::short;

crate::sql_function!(pgml_deploy_model, deploy_model);
crate::sql_function!(pgml_deploy_project, deploy_project);

/// `pgml.deploy(model_id)`.
fn deploy_model(call: &Call) -> Result<pg_sys::Datum> {
    let Some(model_id) = call.i64(0) else { return Err(Error::null_argument("model_id")) };
    registry::check_writable(c"pgml.deploy()")?;
    access::require_of_model(model_id, Privilege::Deploy)?;
    let Some(project) = registry::project_of_model(model_id)? else { return Err(names::no_such_model(model_id)) };
    let models = registry::models(project.id)?;
    let model = models.into_iter().find(|model| model.id == model_id).ok_or_else(|| names::no_such_model(model_id))?;
    require_trained(&model)?;
    deploy(call, &project, &model, "specific")
}

fn require_trained(model: &Candidate) -> Result<()> {
    match model.status.as_str() {
        "successful" => Ok(()),
        status => Err(not_ready(format!("model {} cannot be deployed: its training is {status}", model.id))),
    }
}

/// 55000.
fn not_ready(message: String) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

/// `pgml.deploy(project_name, strategy, algorithm, model_id, share)`.
fn deploy_project(call: &Call) -> Result<pg_sys::Datum> {
    let Some(name) = call.text(0, "project_name", names::LONGEST)? else {
        return Err(Error::null_argument("project_name"));
    };
    let Some(strategy) = call.enum_label(1) else { return Err(Error::null_argument("strategy")) };
    let algorithm = call.enum_label(2);
    registry::check_writable(c"pgml.deploy()")?;
    access::require(&name, Privilege::Deploy)?;
    let Some(project) = registry::find_project(&name)? else { return Err(names::no_such_project(&name)) };

    let mut models = registry::models(project.id)?;
    let (model_id, share) = (call.i64(3), call.f64(4));
    if matches!(strategy.as_str(), "canary" | "shadow") {
        if algorithm.is_some() {
            return Err(Error::invalid(format!("strategy \"{strategy}\" needs a model, not an algorithm")));
        }
        return try_out(call, &project, &models, &strategy, model_id, share);
    }
    if model_id.is_some() || share.is_some() {
        return Err(Error::invalid(format!("strategy \"{strategy}\" takes no model_id and no share"))
            .hint("Use pgml.deploy(model_id) for a model, or strategy canary or shadow to try one out."));
    }
    if strategy == "rollback" && registry::end_trial(project.id, None)? {
        return answered_by_deployed(call, &project, &models, &strategy);
    }
    models.retain(|model| {
        model.status == "successful" && algorithm.as_ref().is_none_or(|algorithm| *algorithm == model.algorithm)
    });
    if matches!(strategy.as_str(), "best_score" | "most_recent") {
        only_of_one_label(&project, &strategy, &mut models)?;
    }
    let chosen = match strategy.as_str() {
        "best_score" => best(&project, models)?.map(|(model, report)| {
            report.report(PgLogLevel::NOTICE);
            model
        }),
        "most_recent" => models.into_iter().next(),
        "rollback" => previous(&registry::deployments(project.id)?, models),
        "new_score" => {
            return Err(Error::invalid("strategy \"new_score\" is only for deployments by pgml.train")
                .hint("Use best_score, most_recent or rollback."));
        }
        _ => {
            return Err(Error::invalid(format!("strategy \"{strategy}\" needs a model, not a project"))
                .hint("Use pgml.deploy(model_id), or best_score, most_recent or rollback."));
        }
    };
    let Some(chosen) = chosen else {
        let of = algorithm.map(|algorithm| format!(" of algorithm {algorithm}")).unwrap_or_default();
        return Err(match strategy.as_str() {
            "rollback" => Error::undefined(format!("project \"{name}\" had no other model{of} deployed before"))
                .hint("The view pgml.overview lists the deployments."),
            _ => Error::undefined(format!("project \"{name}\" has no successfully trained model{of}"))
                .hint("The view pgml.trained_models lists the models."),
        });
    };
    deploy(call, &project, &chosen, &strategy)
}

/// A canary, or a shadow: the model that is deployed stays so.
fn try_out(
    call: &Call,
    project: &Project,
    models: &[Candidate],
    strategy: &str,
    model_id: Option<i64>,
    share: Option<f64>,
) -> Result<pg_sys::Datum> {
    let Some(model_id) = model_id else {
        return Err(Error::invalid(format!("strategy \"{strategy}\" needs a model")).hint(format!(
            "pgml.deploy('{}', '{strategy}', model_id => 7{})",
            project.name,
            example(strategy)
        )));
    };
    match (strategy, share) {
        ("shadow", None) => {}
        ("shadow", Some(_)) => {
            return Err(Error::invalid("strategy \"shadow\" takes no share: a shadow answers for no key"));
        }
        (_, Some(share)) if share > 0.0 && share <= 1.0 => {}
        (_, share) => {
            let given = share.map_or("NULL".to_owned(), |share| share.to_string());
            return Err(Error::invalid(format!("share must be above 0 and at most 1: {given}"))
                .hint("share => 0.1 lets the canary answer for one key of ten."));
        }
    }
    let model = models.iter().find(|model| model.id == model_id).ok_or_else(|| {
        Error::undefined(format!("model {model_id} does not belong to project \"{}\"", project.name))
            .hint("The view pgml.trained_models lists the models.")
    })?;
    require_trained(model)?;
    match registry::deployed_model(project.id)? {
        None => {
            return Err(not_ready(format!(
                "project \"{}\" has no deployed model, which a canary or shadow needs",
                project.name
            ))
            .hint("Deploy a model first."));
        }
        Some(deployed) if deployed == model_id => {
            return Err(not_ready(format!("model {model_id} is the deployed one already")));
        }
        Some(_) => {}
    }
    registry::set_trial(project.id, model_id, strategy, share)?;
    call.rows(&[row(project, strategy, model)])
}

fn example(strategy: &str) -> &'static str {
    if strategy == "canary" { ", share => 0.1" } else { "" }
}

/// A trial has ended: the row says which model answers as before.
fn answered_by_deployed(call: &Call, project: &Project, models: &[Candidate], strategy: &str) -> Result<pg_sys::Datum> {
    let deployed = registry::deployed_model(project.id)?;
    let model = models.iter().find(|model| Some(model.id) == deployed);
    call.rows(model.map(|model| row(project, strategy, model)))
}

fn row(project: &Project, strategy: &str, model: &Candidate) -> Vec<Option<pg_sys::Datum>> {
    vec![Some(text_datum(&project.name)), Some(text_datum(strategy)), Some(text_datum(&model.algorithm))]
}

fn deploy(call: &Call, project: &Project, model: &Candidate, strategy: &str) -> Result<pg_sys::Datum> {
    registry::insert_deployment(project.id, model.id, strategy)?;
    call.rows(&[row(project, strategy, model)])
}

/// Leaves the models that predict what the deployed one does, or, where none is deployed, what the newest one does: scores of
/// other labels say nothing beside its own, and who predicts by the project's name would get another column's values.
fn only_of_one_label(project: &Project, strategy: &str, models: &mut Vec<Candidate>) -> Result<()> {
    let deployed = registry::deployed_model(project.id)?;
    let all = registry::models(project.id)?;
    let reference = match deployed {
        Some(deployed) => all.iter().find(|model| model.id == deployed),
        None => all.iter().find(|model| model.status == "successful"),
    };
    let Some((reference, labels)) = reference.and_then(|model| Some((model.id, model.labels.clone()?))) else {
        return Ok(());
    };
    let is_other = |model: &Candidate| model.labels.as_ref().is_some_and(|other| *other != labels);
    let named = |labels: &[String]| labels.join(", ");
    let of = |model: &Candidate| {
        let others = named(model.labels.as_deref().unwrap_or_default());
        let standing = if deployed.is_some() { "deployed " } else { "" };
        format!("model {} predicts {others}, and {standing}model {reference} {}", model.id, named(&labels))
    };
    // That one was asked for, and another would be no answer.
    if let ("most_recent", Some(newest)) = (strategy, models.first())
        && is_other(newest)
    {
        return Err(not_ready(of(newest)).hint(format!("SELECT pgml.deploy({}) deploys it all the same.", newest.id)));
    }
    let others: Vec<String> = models.iter().filter(|model| is_other(model)).map(of).collect();
    models.retain(|model| !is_other(model));
    if !others.is_empty() {
        let text = format!("models of another label are not compared: {}", others.join("; "));
        pgrx::ereport!(PgLogLevel::NOTICE, PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, text);
    }
    Ok(())
}

/// The model that is best by the project's metric, of the class that its last model looks for, the newer one of equals;
/// models without the metric come last. With what is to be said of the choice.
fn best(project: &Project, models: Vec<Candidate>) -> Result<Option<(Candidate, ErrorReport)>> {
    let Some(task) = Task::parse(&project.task) else { return Ok(None) };
    let metric = Metric::of_project(project, task);
    let class = registry::positive_class(project.id)?;
    let score = |model: &Candidate| {
        let metrics = model.metrics.as_object()?;
        // Of a model of before pgml 3.3.0 nothing says which class it is of: the second one.
        let classes = metrics.get("classes").and_then(Value::as_object);
        let is_second = classes.is_none_or(|classes| classes.keys().max() == class.as_ref());
        metric.of_class(metrics, class.as_deref(), is_second).map(|score| metric.upwards(score))
    };
    // The newest come first, and of several largest `max_by` takes the last.
    let chosen = models.iter().rev().max_by(|a, b| match (score(a), score(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_some().cmp(&b.is_some()).then(Ordering::Equal),
    });
    let Some(chosen) = chosen else { return Ok(None) };
    let (id, algorithm, name) = (chosen.id, &chosen.algorithm, metric.name());
    let report = |text: String| ErrorReport::new(PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION, text, "pgml_deploy");
    let Some(value) = score(chosen).map(|score| metric.upwards(score)) else {
        let text = format!("model {id} ({algorithm}), the newest one, is deployed: no model has a score by {name}");
        return Ok(Some((chosen.clone(), report(text))));
    };
    let rows = chosen.metrics.get("rows").and_then(Value::as_u64);
    let on = rows.map(|rows| format!(" on {}", count(rows, "held-out row"))).unwrap_or_default();
    let scored: Vec<i64> = models.iter().filter(|model| score(model).is_some()).map(|model| model.id).collect();
    let best_of = if scored.len() > 1 { format!(", the best of {} scores", scored.len()) } else { String::new() };
    let text = format!("model {id} ({algorithm}) is deployed: {name} {}{on}{best_of}", short(value));
    // Scores of other rows differ by the rows, too.
    let data = registry::data_of_models(project.id)?;
    let of = |id: i64| data.iter().find(|(model, _)| *model == id).map(|(_, data)| data);
    let others =
        scored.iter().filter(|other| **other != id && (of(**other).is_none() || of(**other) != of(id))).count();
    let report = match others {
        0 => report(text),
        _ => report(format!("{text}, of which {} may be of other rows", count(others, "score")))
            .set_hint("pgml.compare measures all models on the same rows."),
    };
    Ok(Some((chosen.clone(), report)))
}

/// The model of the latest deployment that is not the current model's.
fn previous(deployments: &[i64], models: Vec<Candidate>) -> Option<Candidate> {
    let current = deployments.first()?;
    deployments.iter().filter(|id| *id != current).find_map(|id| models.iter().find(|model| model.id == *id)).cloned()
}
