//! Forecasts: `pgml.train(task => 'forecast')`, from rows of a table to a model for each series.
//!
//! The way: `read` (rows into series of equal steps) -> `fit` (each without its last steps, for the metrics, then whole) ->
//! the registry -> whether to deploy.

mod backtest;
mod fit;
mod method;
mod read;

use std::time::Instant;

use forecast::grid::Frequency;
use forecast::{Method, Model};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::report::{self, MessageLog};
use super::{Outcome, Plan, Request, check_label, cursor};
use crate::activity::{self, Phase};
use crate::error::{Error, Result};
use crate::forecast::stored::{Head, Stored};
use crate::metric::Metric;
use crate::model_meta::Task;
use crate::nearest;
use crate::registry::{self, NewModel, Project, Recipe};
pub use fit::METRICS;
use fit::Scores;
use method::Settings;
pub use method::parameters;
use read::{Columns, Table};

/// Algorithms for series, the default first.
pub const ALGORITHMS: [&str; 5] = ["ets", "arima", "theta", "mstl", "seasonal_naive"];

/// What a call says of its series.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Asked {
    pub time_column: Option<String>,
    /// Names of columns, divided by commas.
    pub group_by: Option<String>,
    /// Steps that a forecast has unless it says how many.
    pub horizon: Option<i32>,
    pub frequency: Option<Frequency>,
}

impl Asked {
    /// What is not given is as in the last training of the project.
    fn or(self, last: Asked) -> Asked {
        Asked {
            time_column: self.time_column.or(last.time_column),
            group_by: self.group_by.or(last.group_by),
            horizon: self.horizon.or(last.horizon),
            frequency: self.frequency.or(last.frequency),
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Asked::default()
    }
}

/// How many steps are forecast where nobody says so: a season, or ten.
fn usual_horizon(seasons: &[usize]) -> usize {
    seasons.first().copied().unwrap_or(10)
}

/// What is learnt from, and how.
struct Prepared {
    plan: Plan,
    columns: Columns,
    table: Table,
    asked: Asked,
    method: Method,
    seasons: Vec<usize>,
    horizon: usize,
}

impl Prepared {
    /// Reads the rows. What the call does not say is as in the last training of the project.
    fn read(request: &Request, project: Option<&Project>, recipe: &Recipe) -> Result<Prepared> {
        let settings = Settings::read(&recipe.algorithm, &recipe.hyperparams)?;
        let last = project.map(|project| registry::last_series(project.id)).transpose()?.flatten();
        let asked = request.series.clone().or(last.unwrap_or_default());
        let mut plan = Plan::make(request, Task::Forecast, project)?;
        if plan.materialize {
            plan.copy_rows()?;
        }
        activity::phase(Phase::Reading);
        let columns = Columns::find(&cursor::describe(&plan.source.statement)?, &plan.labels, &asked)?;
        let table = read::read(&plan, &columns, &asked, settings.gather, settings.fill)?;
        let seasons = settings.seasons.unwrap_or_else(|| table.grid.frequency.seasons());
        let horizon = asked.horizon.map_or_else(|| usual_horizon(&seasons), |horizon| horizon as usize);
        activity::phase(Phase::Training);
        Ok(Prepared { plan, columns, table, asked, method: settings.method, seasons, horizon })
    }

    /// The head of the model.
    fn head(&self) -> Head {
        let (clock, columns) = (self.table.clock.clone(), &self.columns);
        let names = (columns.group_by.clone(), columns.time.name.clone());
        Head::new(clock, self.table.grid, self.horizon, names, self.table.series.len())
    }
}

/// Algorithm and hyperparameters: where the call says neither, those of the deployed model.
fn recipe(request: &Request, project: Option<&Project>) -> Result<Recipe> {
    if request.algorithm == super::request::ALGORITHM && request.hyperparams.is_empty() {
        let deployed = project.map(|project| registry::deployed_model(project.id)).transpose()?.flatten();
        if let Some(recipe) = deployed.map(registry::recipe_of_model).transpose()?.flatten() {
            return Ok(recipe);
        }
    }
    Ok(Recipe {
        algorithm: named(&request.algorithm)?.to_owned(),
        hyperparams: request.hyperparams.clone(),
        preprocess: Map::new(),
        rows: None,
    })
}

/// Trains, stores the model and perhaps deploys it; see [`super::run`].
pub fn run(request: &Request, project: Option<Project>, metric: &Metric, said: &MessageLog) -> Result<Outcome> {
    check_label(request, Task::Forecast, project.as_ref())?;
    refuse_what_series_lack(request)?;
    let recipe = recipe(request, project.as_ref())?;
    let algorithm = named(&recipe.algorithm)?;
    let prepared = Prepared::read(request, project.as_ref(), &recipe)?;
    let model_id = registry::next_id(c"models_id_seq")?;
    announce(&recipe, &prepared, model_id);
    let begun = Instant::now();
    let Prepared { plan, table, method, seasons, horizon, .. } = &prepared;
    let tests = if plan.snapshot.test_size == 0.0 { 0 } else { *horizon };
    let scores = Scores::of(table, method, seasons, tests)?;
    let fitted = fit::all(table, method, seasons)?;
    let mut metrics = scores.metrics();
    metrics.insert("series".into(), json!(table.series.len()));
    metrics.insert("models".into(), json!(fitted.names));
    metrics.insert("fit_time".into(), json!(begun.elapsed().as_secs_f64()));
    report::info(&format!("Metrics: {}", report::rounded(&metrics)));
    if fitted.simpler > 0 {
        report::warning(&format!(
            "{} series too short or too plain for {algorithm}: the last season is repeated there",
            fitted.simpler
        ));
    }

    activity::phase(Phase::Storing);
    let project = registry::project_to_add_to(&request.project_name, Task::Forecast.name(), request.automatic_deploy)?;
    super::task_of(request, Some(&project))?;
    if request.metric.is_some() {
        registry::set_metric(project.id, metric.name())?;
    }
    let decision = decide(request, &project, (&recipe, &prepared.asked), metric, &metrics)?;
    if let Some((_, reason)) = &decision {
        metrics.insert("decision".into(), json!(reason));
    }
    let warnings = said.so_far();
    if !warnings.is_empty() {
        metrics.insert("warnings".into(), json!(warnings));
    }
    store((model_id, project.id), prepared, &recipe, metrics, fitted.models)?;
    let deployed = decision.is_some_and(|(better, _)| better);
    if deployed {
        report::info(&format!("Deploying model id: {model_id}"));
        registry::insert_deployment(project.id, model_id, "new_score")?;
    }
    Ok(Outcome { project: project.name, task: Task::Forecast, algorithm, model_id, deployed, note: None })
}

/// Stores the snapshot and the model with its series.
fn store(
    (id, project_id): (i64, i64),
    prepared: Prepared,
    recipe: &Recipe,
    metrics: Map<String, Value>,
    models: Vec<Model>,
) -> Result<()> {
    let (plan, table) = (&prepared.plan, &prepared.table);
    if plan.is_new || !registry::keep_snapshot(plan.snapshot.id)? {
        let analysis = json!({ "samples": table.rows, "series": prepared.asked });
        registry::insert_snapshot(&plan.snapshot, &prepared.columns.to_json(), &analysis)?;
    }
    registry::insert_model(&NewModel {
        id,
        project_id,
        snapshot_id: Some(plan.snapshot.id),
        num_features: 0,
        algorithm: &recipe.algorithm,
        hyperparams: Value::Object(recipe.hyperparams.clone()).to_string(),
        metrics: Value::Object(metrics).to_string(),
        search: None,
    })?;
    let head = prepared.head();
    let series = prepared.table.series.into_iter().zip(models);
    head.store(id, series.map(|(series, model)| Stored { last: series.last(), key: series.key, model }).collect())
}

/// The algorithm of that name, for series.
fn named(name: &str) -> Result<&'static str> {
    let name = if name == "linear" { ALGORITHMS[0] } else { name };
    ALGORITHMS.into_iter().find(|known| *known == name).ok_or_else(|| {
        Error::unsupported(format!("algorithm \"{name}\" is not for task forecast"))
            .detail(format!("Algorithms for forecast: {}.", ALGORITHMS.join(", ")))
            .hint(nearest::hint(name, &ALGORITHMS.map(str::to_owned)))
    })
}

/// Refuses arguments that mean nothing to series.
fn refuse_what_series_lack(request: &Request) -> Result<()> {
    let given = [
        ("search", request.search.is_some()),
        ("preprocess", !request.preprocess.is_empty()),
        ("refit", request.refit == Some(false)),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(Error::unsupported(format!("task forecast takes no {name}")).hint(
            "The algorithms for forecasts choose their parameters by themselves, and learn from all rows in the end.",
        )),
        None => Ok(()),
    }
}

fn announce(recipe: &Recipe, prepared: &Prepared, model_id: i64) {
    let seasons: Vec<String> = prepared.seasons.iter().map(ToString::to_string).collect();
    report::info(&format!(
        "Dataset {{ num_series: {}, num_rows: {}, frequency: {}, seasons: [{}] }}",
        prepared.table.series.len(),
        prepared.table.rows,
        prepared.table.grid.frequency.name(),
        seasons.join(", ")
    ));
    report::info(&format!(
        "Training Model {{ id: {model_id}, task: forecast, algorithm: {}, runtime: rust }}",
        recipe.algorithm
    ));
    report::info(&format!("Hyperparams: {}", Value::Object(recipe.hyperparams.clone())));
}

/// Whether the model is to be deployed, and why; `None` where nobody asked for it. A model that is made as the deployed one was
/// follows it, since it knows what has come since; another one has to have forecast better.
fn decide(
    request: &Request,
    project: &Project,
    (own, asked): (&Recipe, &Asked),
    metric: &Metric,
    metrics: &Map<String, Value>,
) -> Result<Option<(bool, String)>> {
    if !request.automatic_deploy {
        return Ok(None);
    }
    let Some(deployed) = registry::deployed_model(project.id)? else {
        return Ok(Some((true, "the project had no deployed model".into())));
    };
    let recipe = registry::recipe_of_model(deployed)?;
    if recipe.is_some_and(|recipe| recipe.algorithm == own.algorithm && recipe.hyperparams == own.hyperparams) {
        let reason = format!("made as model {deployed} was, of newer rows");
        return Ok(Some((true, reason)));
    }
    // Errors of other series, or of more steps, say nothing of these: who asks for others wants them.
    let before = registry::snapshot_of_model(deployed)?;
    if before.and_then(|(_, analysis)| Asked::deserialize(&analysis["series"]).ok()).as_ref() != Some(asked) {
        return Ok(Some((true, format!("made of other series or steps than model {deployed}"))));
    }
    let models = registry::models(project.id)?;
    let theirs = models.iter().find(|model| model.id == deployed).and_then(|model| model.metrics.as_object());
    let (name, theirs) = (metric.name(), theirs.and_then(|theirs| metric.of(theirs)));
    Ok(Some(match (metric.of(metrics), theirs) {
        (_, None) => (true, format!("model {deployed} has no {name}")),
        (None, Some(_)) => (false, format!("the new model has no {name}: model {deployed} stays deployed")),
        (Some(own), Some(theirs)) => {
            let better = metric.at_least_as_good(own, theirs);
            let (own, theirs) = (report::short(own), report::short(theirs));
            let words = if better { "no worse than" } else { "worse than" };
            (better, format!("{name} of {own} is {words} {theirs} of model {deployed}"))
        }
    }))
}
