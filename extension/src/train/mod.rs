//! `pgml.train`: from the arguments of a call to a stored, and perhaps deployed, model.
//!
//! The way of a training: `request` (arguments) -> `source` (which rows) -> `engine` (are the hyperparameters possible)
//! -> `cursor` (the rows, once) -> `columns` and `label` (what they are) -> `spool` (in a temporary file) -> a split ->
//! `engine` with two `view`s of the spool -> `score` (metrics) -> `refit` (on all rows) -> the registry -> `compare`
//! (whether to deploy). [`steps`] has each of these as a function.
//! Everything happens in the caller's transaction: nothing is left of a training that fails.

mod auto;
mod base;
pub mod categories;
pub mod class_weight;
pub mod columns;
mod compare;
pub mod cursor;
pub mod cut;
pub mod defaults;
mod engine;
mod feature;
mod groups;
pub mod interrupts;
pub mod label;
mod origin;
mod positive;
mod refit;
pub mod report;
pub mod request;
mod rival;
mod roles;
mod score;
mod search;
pub mod series;
pub mod sides;
mod snapshot;
pub mod source;
mod spool;
mod statistics;
mod steps;
mod view;

use std::cell::RefCell;

use learn::auto::NAME;
use learn::preprocess::{ALL, GROUP_BY, Pipeline, Raw, Role, Spec};
use learn::split::{Sampling, Split};
use pgrx::{IntoDatum, pg_sys};
use serde_json::{Map, Value, json};

use crate::access;
use crate::activity::{self, Phase};
use crate::doubts;
use crate::error::{Error, Result};
use crate::memory::{GivenBack, OwnContext};
use crate::metric::Metric;
use crate::model_meta::{ModelMeta, ROWS_PATH, Task};
use crate::registry::{self, Project, Snapshot};
use crate::sql::{Call, text_datum};
use base::Base;
use columns::{Data, Reader};
use defaults::Notices;
pub use engine::ALGORITHMS;
use engine::{Engine, Fitted, Prepared};
use report::{EverySecond, MessageLog};
pub use request::Request;
use rival::Rival;
use roles::Roles;
pub use series::{Asked as SeriesAsked, METRICS as FORECAST_METRICS};
use source::Source;
use steps::{HeldOut, Training};
use view::View;

crate::sql_function!(pgml_train, train);
crate::sql_function!(pgml_xgboost_version, xgboost_version);

fn xgboost_version(_: &Call) -> Result<pg_sys::Datum> {
    Ok(text_datum(&engine::xgboost_version()?))
}

fn train(call: &Call) -> Result<pg_sys::Datum> {
    // Whatever becomes of it, a connection is not left with the memory that a training takes.
    let _given_back = GivenBack;
    let _context = OwnContext::begin(c"pgml training");
    let request = Request::read(call)?;
    registry::check_writable(c"pgml.train()")?;
    let outcome = run(&request, registry::next_id(c"training_jobs_id_seq")?)?;
    call.rows(&[vec![
        Some(text_datum(&outcome.project)),
        Some(text_datum(outcome.task.name())),
        Some(text_datum(outcome.algorithm)),
        outcome.deployed.into_datum(),
    ]])
}

/// What came of a training.
pub struct Outcome {
    pub project: String,
    pub task: Task,
    /// The one that was trained: what was asked for may mean another for the task.
    pub algorithm: &'static str,
    pub model_id: i64,
    pub deployed: bool,
    /// What is to be said of it, as of a search that was cut short.
    pub note: Option<String>,
}

/// Trains, stores the model and perhaps deploys it, with the rights of the current role. `id` is what it is known by
/// while it runs.
pub fn run(request: &Request, id: i64) -> Result<Outcome> {
    access::require_training(&request.project_name, request.automatic_deploy)?;
    let project = registry::find_project(&request.project_name)?;
    let task = task_of(request, project.as_ref())?;
    check_label(request, task, project.as_ref())?;
    let metric = Metric::find(request.metric.as_deref(), project.as_ref(), task)?;
    let said = MessageLog::begin();
    let algorithm = ALGORITHMS.iter().position(|name| *name == request.algorithm).unwrap_or(ALGORITHMS.len());
    let _shown =
        activity::Shown::begin(id, project.as_ref().map(|project| project.id), &request.project_name, algorithm);

    if task == Task::Forecast {
        return series::run(request, project, &metric, &said);
    }
    let mut training = Training::plan(request, project, task, metric)?;
    let (mut data, not_null) = training.read()?;
    let HeldOut { split, remembered, has_seen } = training.divide(&mut data)?;
    let columns = training.describe(&mut data, &split, &not_null)?;
    let model_id = registry::next_id(c"models_id_seq")?;
    let asked = if request.algorithm == NAME { NAME } else { training.algorithm() };
    announce(request, asked, &data, &split, model_id);
    let first = training.fit(&data, &split)?;
    let mut scored = training.score(&data, &split, &first)?;
    let whole = training.fit_again(&mut data, &split, &first, &mut scored.metrics)?;

    activity::phase(Phase::Storing);
    let (project, recipe) = training.store_project(&data, &first, &columns)?;
    let doubts = doubts::of(&scored.metrics).join(", and ");
    let mut warnings = said.so_far();
    if !doubts.is_empty() {
        warnings.push(format!("on the {} held out {doubts}", learn::count(split.test_rows(), "row")));
    }
    let better = training.decide((&project, &recipe), &mut scored, has_seen, &data, &split)?;
    if !warnings.is_empty() {
        scored.metrics.insert("warnings".into(), json!(warnings));
    }
    training.store_model((model_id, project.id), &data, &first, &scored, whole.as_ref())?;
    if !remembered.is_empty() {
        registry::insert_file(model_id, ROWS_PATH, &remembered.to_bytes()?)?;
    }
    if better {
        report::info(&format!("Deploying model id: {model_id}"));
        if !doubts.is_empty() {
            report::warning(&format!(
                "model {model_id} is deployed, but on the {} held out {doubts}",
                learn::count(split.test_rows(), "row")
            ));
        }
        registry::insert_deployment(project.id, model_id, "new_score")?;
    }
    data.spool.close();
    if let Some(rival) = data.rival {
        rival.spool.close();
    }
    let note = first.found.and_then(|found| found.note);
    Ok(Outcome { project: project.name, task, algorithm: training.algorithm(), model_id, deployed: better, note })
}

/// The task, which a project keeps.
fn task_of(request: &Request, project: Option<&Project>) -> Result<Task> {
    let name = &request.project_name;
    match (request.task, project) {
        (Some(task), None) => Ok(task),
        (None, None) => Err(Error::invalid(format!("the first training of project \"{name}\" needs a task")).hint(
            "Use task => 'regression', 'classification', 'clustering', 'decomposition', 'anomaly' or 'forecast'.",
        )),
        (wanted, Some(project)) => {
            let task = Task::parse(&project.task).ok_or_else(|| {
                Error::unsupported(format!("project \"{name}\" is for {}, which is not supported", project.task))
            })?;
            match wanted {
                Some(wanted) if wanted != task => {
                    Err(Error::invalid(format!("project \"{name}\" is for {}, not for {}", task.name(), wanted.name()))
                        .hint("Use another project_name."))
                }
                _ => Ok(task),
            }
        }
    }
}

/// Refuses a label where the task has none, none where a new project needs one, and several of a classification.
fn check_label(request: &Request, task: Task, project: Option<&Project>) -> Result<()> {
    let labels = request.y_column_name.as_ref().map_or(0, Vec::len);
    if labels > 0 && !task.has_label() {
        return Err(Error::invalid(format!("task {} takes no y_column_name", task.name())).hint(
            "Leave y_column_name out. A column that is not to be learnt from is left out with a query in parentheses.",
        ));
    }
    let series = SeriesAsked { group_by: None, ..request.series.clone() };
    if task != Task::Forecast && !series.is_empty() {
        return Err(Error::invalid(format!(
            "time_column, horizon and frequency are for task forecast, and the project is for {}",
            task.name()
        ))
        .hint("A split by time takes preprocess => '{\"<column>\": {\"role\": \"time\"}}'."));
    }
    if request.search.is_some() && task == Task::Anomaly {
        return Err(Error::unsupported("a search needs a label, by which models are compared")
            .hint("Train with several hyperparams, and look at which rows each model finds."));
    }
    if let (Some(class), false) = (&request.positive_class, task == Task::Classification) {
        return Err(Error::invalid(format!("task {} has no classes, and positive_class is \"{class}\"", task.name())));
    }
    if labels > 1 && task == Task::Classification {
        return Err(Error::unsupported(format!("a classification has one label, and y_column_name has {labels}"))
            .hint("Train a project for each label."));
    }
    // Later trainings have the label of the snapshot before.
    if labels == 0 && task.has_label() && request.relation_name.is_some() && project.is_none() {
        return Err(Error::invalid(format!(
            "the first training of project \"{}\" needs a y_column_name, the label",
            request.project_name
        )));
    }
    Ok(())
}

/// Which fit of a training it is.
#[derive(Clone, Copy)]
enum Fit {
    /// On the rows that are not held out, in as many rounds as the hyperparameters say; the learning curve is its.
    First,
    /// On all rows, in as many rounds as are given.
    Again(Option<u32>),
}

/// Trains on the training rows of a split.
fn fit(
    plan: &Plan,
    data: &Data,
    split: &Split,
    engine: &dyn Engine,
    base: Option<&Base>,
    which: Fit,
) -> Result<Fitted> {
    let mut often = EverySecond::default();
    let (rounds, curve) = match which {
        Fit::First => (None, true),
        Fit::Again(rounds) => (rounds, false),
    };
    let mut prepared = Prepared { base, rounds, curve, ..ready(&plan.snapshot.preprocess, data, split, engine)? };
    if let Some(base) = base {
        base.prepare(&mut prepared.meta);
    }
    engine.train(&prepared, &mut |progress| {
        activity::rounds(progress.round, progress.rounds, progress.elapsed);
        if often.passes() {
            report::info(&report::rounds(progress));
        }
    })
}

/// The rows of a split, prepared for an engine.
fn ready<'a>(
    preprocess: &Map<String, Value>,
    data: &'a Data,
    split: &'a Split,
    engine: &dyn Engine,
) -> Result<Prepared<'a>> {
    let pipeline = prepare(preprocess, data, split, engine)?;
    let class_weight =
        engine.class_weight().map(|asked| asked.of_classes(data, split).map(|weights| (asked.clone(), weights)));
    let class_weight = class_weight.transpose()?;
    let meta = ModelMeta { pipeline, ..data.meta() };
    Ok(Prepared { data, split, meta, class_weight, kept: RefCell::default(), base: None, rounds: None, curve: false })
}

/// What is done to columns before the engine sees them, learnt from the training rows.
fn prepare(
    preprocess: &Map<String, Value>,
    data: &Data,
    split: &Split,
    engine: &dyn Engine,
) -> Result<Option<Pipeline>> {
    let mut specs = Vec::with_capacity(data.features.len());
    for feature in &data.features {
        let mut spec = Spec::of(preprocess, &feature.name, feature.categories.is_some())?;
        if let Some((impute, _)) = defaults::impute(feature, &spec, engine) {
            spec = Spec { impute: Some(impute), lenient: true, ..spec };
        }
        specs.push(spec);
    }
    let roles = Roles::of(preprocess)?;
    for name in preprocess.keys() {
        if name != ALL
            && roles.of_column(name) == Role::Feature
            && !data.features.iter().any(|feature| feature.name == *name)
        {
            let names: Vec<String> = data.features.iter().map(|feature| feature.name.clone()).collect();
            let error = Error::new(
                pgrx::PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                format!("preprocess names column \"{name}\", which is not a feature"),
            );
            return Err(error.hint(crate::nearest::hint(name, &names)));
        }
    }
    let categories: Vec<Option<Vec<String>>> =
        data.meta().columns.into_iter().map(|column| column.categories).collect();
    let raws: Vec<Raw<'_>> = data
        .features
        .iter()
        .zip(&specs)
        .zip(&categories)
        .flat_map(|((feature, spec), categories)| {
            let origins = feature.origins.iter().copied().chain(std::iter::repeat(0.0)).take(feature.size);
            origins.map(|origin| Raw { name: &feature.name, categories: categories.as_deref(), spec, origin })
        })
        .collect();
    Pipeline::learn(&raws, engine.takes_categories(), |take| {
        let mut view = View::new(data, split, false, u64::MAX);
        let targets = data.labels.len().max(1);
        while let Some(part) = view.chunk()? {
            let firsts: Vec<f32> = match targets {
                1 if !part.labels.is_empty() => part.labels.to_vec(),
                _ if part.labels.is_empty() => vec![0.0; part.rows],
                _ => part.labels.iter().step_by(targets).copied().collect(),
            };
            take(part.features, &firsts);
            interrupts::check();
        }
        Ok(())
    })
}

/// Which rows a training reads, and what is recorded of that.
struct Plan {
    source: Source,
    labels: Vec<String>,
    sampling: Sampling,
    snapshot: Snapshot,
    /// Whether the snapshot is to be recorded; a materialized one that is used again is not.
    is_new: bool,
    /// Whether the rows are to be copied first.
    materialize: bool,
}

impl Plan {
    fn make(request: &Request, task: Task, project: Option<&Project>) -> Result<Plan> {
        let last = match project {
            Some(project) => registry::last_snapshot(project.id)?,
            None => None,
        };
        let Some(relation_name) = &request.relation_name else {
            let last = last.ok_or_else(|| {
                Error::invalid(format!(
                    "the first training of project \"{}\" needs a relation_name",
                    request.project_name
                ))
            })?;
            return Plan::again(request, task, last);
        };
        let labels = match (&request.y_column_name, last) {
            _ if !task.has_label() => Vec::new(),
            (Some(labels), _) => labels.clone(),
            (None, Some(last)) if !last.y_column_name.is_empty() => last.y_column_name,
            (None, _) => {
                return Err(Error::invalid(format!(
                    "the first training of project \"{}\" needs a y_column_name, the label",
                    request.project_name
                )));
            }
        };
        let source = Source::resolve(relation_name)?;
        let preprocess = with_groups(request, task, request.preprocess.clone(), None)?;
        Plan::new(request, source, labels, request.test_size, request.test_sampling, preprocess)
    }

    /// The same rows as last time; the same label, split and preparation where nothing else is asked for.
    fn again(request: &Request, task: Task, last: Snapshot) -> Result<Plan> {
        let labels = match &request.y_column_name {
            Some(labels) => labels.clone(),
            None => last.y_column_name.clone(),
        };
        // What was done to the columns is done again, unless something else is asked for.
        let preprocess = match request.preprocess.is_empty() {
            true => last.preprocess.clone(),
            false => request.preprocess.clone(),
        };
        let preprocess = with_groups(request, task, preprocess, Some(&last.preprocess))?;
        let (test_size, sampling) = request.split_after(&last);
        let same = labels == last.y_column_name
            && (test_size, sampling.name()) == (last.test_size, last.test_sampling.as_str());
        if last.materialized {
            let table = std::ffi::CString::new(format!("snapshot_{}", last.id)).unwrap_or_default();
            let source = Source::relation(registry::relation_oid(&table)?)?;
            check_may_repeat(request, &source, &last)?;
            report::info(&format!("Using existing snapshot from {}", source.name));
            if !same {
                return Plan::new(request, source, labels, test_size, sampling, preprocess);
            }
            let snapshot = Snapshot { preprocess, ..last };
            return Ok(Plan { source, labels, sampling, snapshot, is_new: false, materialize: false });
        }
        // The table may have changed since: what is read now is a snapshot of its own.
        let source = Source::resolve(&last.relation_name).map_err(|error| match error.code() {
            Some(pgrx::PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE) => {
                error.hint("The project's last training read it. relation_name => '...' names another.")
            }
            _ => error,
        })?;
        check_may_repeat(request, &source, &last)?;
        Plan::new(request, source, labels, test_size, sampling, preprocess)
    }

    /// Leaves out what a new snapshot does not learn from: columns of no use, and what the last training left out.
    fn leave_out(&mut self, request: &Request, told: &mut Notices) -> Result<()> {
        let columns = cursor::describe(&self.source.statement)?;
        if request.y_column_name.is_none() {
            columns::require_inherited(&self.labels, &columns)?;
        }
        if request.preprocess.is_empty() {
            // What was left out before, and is there no more, is not missed.
            let is_there = |name: &String| columns.iter().any(|column| column.name == *name);
            self.snapshot.preprocess.retain(|name, spec| is_there(name) || *spec != json!({ "role": "ignore" }));
        }
        defaults::leave_out(&columns, &self.labels, &mut self.snapshot.preprocess, told)
    }

    /// Copies the rows into a table, which is read from then on.
    fn copy_rows(&mut self) -> Result<()> {
        // Refuses what is not one query that only reads, before it is run.
        cursor::describe(&self.source.statement)?;
        activity::phase(Phase::Copying);
        report::info(&format!("Snapshotting {}, this may take a little while...", self.source.name));
        let relation = registry::materialize(self.snapshot.id, &self.source.statement)?;
        let table = Source::relation(relation)?;
        report::info(&format!("Snapshot of {} created and saved in {}", self.source.name, table.name));
        self.source.statement = table.statement;
        self.source.relation = table.relation;
        Ok(())
    }

    fn new(
        request: &Request,
        source: Source,
        labels: Vec<String>,
        test_size: f32,
        sampling: Sampling,
        preprocess: Map<String, Value>,
    ) -> Result<Plan> {
        let snapshot = Snapshot {
            id: registry::next_id(c"snapshots_id_seq")?,
            relation_name: source.name.clone(),
            y_column_name: labels.clone(),
            test_size,
            test_sampling: sampling.name().to_owned(),
            materialized: request.materialize_snapshot,
            owner: access::user(),
            preprocess,
        };
        Ok(Plan { source, labels, sampling, snapshot, is_new: true, materialize: request.materialize_snapshot })
    }
}

/// What is to be done to columns, and which tell the group of a row: those of the call, or else those of the last training. An
/// empty group_by is none.
fn with_groups(
    request: &Request,
    task: Task,
    mut preprocess: Map<String, Value>,
    last: Option<&Map<String, Value>>,
) -> Result<Map<String, Value>> {
    // Series are told apart by themselves.
    if task == Task::Forecast {
        return Ok(preprocess);
    }
    let tells_group = |spec: &Value| spec.get("encode").is_some_and(|encode| encode == GROUP_BY);
    let Some(group_by) = &request.series.group_by else {
        let before = last.into_iter().flatten().filter(|(_, spec)| tells_group(spec));
        preprocess.extend(before.map(|(name, spec)| (name.clone(), spec.clone())));
        return Ok(preprocess);
    };
    preprocess.retain(|_, spec| !tells_group(spec));
    for name in group_by.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let before = preprocess.insert(name.to_owned(), json!({ "encode": GROUP_BY }));
        if before.as_ref().is_some_and(tells_group) {
            return Err(Error::invalid(format!("group_by names column \"{name}\" twice")));
        }
        if before.is_some() {
            return Err(Error::invalid(format!("group_by and preprocess both name column \"{name}\""))
                .hint("The column tells the group of a row, and is prepared in no other way."));
        }
    }
    Ok(preprocess)
}

/// Refuses what another role has named, where reading it could do what this role may do.
fn check_may_repeat(request: &Request, source: &Source, last: &Snapshot) -> Result<()> {
    if source.may_be_read_for(last.owner)? {
        return Ok(());
    }
    let name = &request.project_name;
    let who = match last.owner {
        pg_sys::InvalidOid => "an unknown role".to_owned(),
        owner => format!("role \"{}\"", access::role_name(owner)),
    };
    let reader = access::role_name(access::user());
    Err(Error::new(
        pgrx::PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("relation_name of project \"{name}\" was given by {who}: role \"{reader}\" must give its own"),
    )
    .hint("Give relation_name and y_column_name."))
}

/// Reads all rows. Gives the columns that are declared NOT NULL too.
fn read(
    plan: &Plan,
    roles: &Roles,
    task: Task,
    engine: &dyn Engine,
    rival: Option<&mut Rival>,
    base: Option<&Base>,
) -> Result<(Data, Vec<String>)> {
    let described = cursor::describe(&plan.source.statement)?;
    let not_null = match plan.source.relation {
        Some(relation) => registry::not_null_columns(relation)?,
        None => Vec::new(),
    };
    let mut often = EverySecond::default();
    let progress = Box::new(move |rows| {
        activity::rows(rows);
        if often.passes() {
            report::info(&format!("{} read", learn::count(rows, "row")));
        }
    });
    let rival = rival.map(|rival| rival.reader(&plan.labels, &described)).transpose()?.flatten();
    let base_sides = base.and_then(|base| base.sides(&plan.labels, &described));
    let key = defaults::key(&described)?;
    let by_place = plan.sampling == Sampling::Last || plan.snapshot.test_size == 0.0;
    let mut reader = Reader::new(task, &plan.labels, roles, &described, &not_null, progress)?.with_sides(
        &described,
        roles,
        (by_place, &key),
        rival,
        base_sides,
    );
    if let Some(base) = base {
        reader.as_in(base.columns());
    }
    // The sizes of arrays are not known yet, so what refers to columns is checked after the rows then, and where columns
    // make several features.
    if let Some(features) = reader.scalar_features() {
        engine.rehearse(&features)?;
    }
    cursor::run(&plan.source.statement, plan.snapshot.materialized, &mut reader)?;
    let data = reader.finish(&plan.source.name)?;
    if !data.left_out.is_empty() || data.features.iter().any(|feature| feature.many.is_some()) {
        engine.rehearse(&data.final_features())?;
    }
    Ok((data, not_null))
}

fn announce(request: &Request, algorithm: &str, data: &Data, split: &Split, model_id: i64) {
    let classes = data.classes().map(|classes| format!("num_distinct_labels: {classes}, ")).unwrap_or_default();
    report::info(&format!(
        "Dataset {{ num_features: {}, num_labels: {}, {classes}num_rows: {}, num_train_rows: {}, num_test_rows: {} }}",
        data.width(),
        data.labels.len(),
        data.spool.rows(),
        split.train_rows(),
        split.test_rows()
    ));
    report::info(&format!(
        "Training Model {{ id: {model_id}, task: {}, algorithm: {}, runtime: rust }}",
        data.task.name(),
        algorithm
    ));
    report::info(&format!("Hyperparams: {}", Value::Object(request.hyperparams.clone())));
}
