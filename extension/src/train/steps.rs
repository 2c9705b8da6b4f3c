//! The steps of a training, which [`super::run`] takes one after the other: the plan, the rows, their division, the fit,
//! its scores, the fit on all rows, and what is stored of them.

use std::time::{Duration, Instant};

use learn::preprocess::{ALL, Role};
use learn::remembered::Memory;
use learn::side::{self, By, Rule};
use learn::split::{Split, TestSize};
use serde_json::{Map, Value, json};

use super::auto::Choice;
use super::base::Base;
use super::columns::{self, Data};
use super::cursor;
use super::defaults::{self, Notices};
use super::engine::{self, Engine, Fitted};
use super::groups;
use super::refit::{self, Wanted};
use super::request::Request;
use super::rival::Rival;
use super::roles::Roles;
use super::score::Scorer;
use super::search::{self, SearchResult, Trial};
use super::sides;
use super::{Fit, Plan, class_weight, compare, fit, positive, read, report, task_of};
use crate::activity::{self, Phase};
use crate::error::{Error, Result};
use crate::metric::Metric;
use crate::model::Model;
use crate::model_meta::{GROUPS_PATH, Task, held_out_path};
use crate::registry::{self, NewModel, Project, Recipe};

/// A training under way: what was asked for, and what its steps have made of that.
pub struct Training<'a> {
    request: &'a Request,
    project: Option<Project>,
    task: Task,
    metric: Metric,
    /// The combinations of a search, which are all possible.
    trials: Vec<Trial>,
    /// What is left to choose of the algorithm.
    choice: Option<Choice>,
    engine: Box<dyn Engine>,
    plan: Plan,
    roles: Roles,
    told: Notices,
    again: Wanted,
    base: Option<Base>,
    rival: Option<Rival>,
}

/// Refuses a model for each group where there cannot be one, and what is said of groups where there are none.
fn require_groups(request: &Request, plan: &Plan, roles: &Roles, engine: &dyn Engine) -> Result<()> {
    let columns = roles.group_columns();
    if columns.is_empty() {
        let named = request.hyperparams.contains_key(engine::LEAST_ROWS_NAME);
        return match named {
            true => Err(Error::invalid(format!("hyperparameter \"{}\" needs group_by", engine::LEAST_ROWS_NAME))),
            false => Ok(()),
        };
    }
    engine.require_groups()?;
    let there = cursor::describe(&plan.source.statement)?;
    for name in columns {
        if plan.labels.iter().any(|label| label == name) {
            return Err(Error::invalid(format!("column \"{name}\" of group_by is the label")));
        }
        if !there.iter().any(|column| column.name == name) {
            return Err(columns::no_column(name, "of group_by", &there));
        }
    }
    Ok(())
}

/// The rows that are held out.
pub struct HeldOut {
    pub split: Split,
    /// What is kept of the rows to know these by.
    pub remembered: Memory,
    /// Why they say nothing, where the model that the training goes on from was trained on them.
    pub has_seen: Option<String>,
}

/// The fit on the training rows.
pub struct First {
    fitted: Fitted,
    time: Duration,
    pub found: Option<SearchResult>,
}

impl First {
    /// Those that were searched for, or else given.
    fn hyperparams<'a>(&'a self, request: &'a Request) -> &'a Map<String, Value> {
        self.found.as_ref().map_or(&request.hyperparams, |found| &found.hyperparams)
    }
}

/// The first fit on the rows held out.
pub struct Scored {
    scorer: Scorer,
    pub metrics: Map<String, Value>,
    residuals: Option<Value>,
    groups: Option<groups::Scores>,
}

impl<'a> Training<'a> {
    /// Settles what can be before the rows are read, and refuses what is not possible.
    pub fn plan(request: &'a Request, project: Option<Project>, task: Task, metric: Metric) -> Result<Training<'a>> {
        let choice = Choice::of(request, task)?;
        let trials = match &request.search {
            Some(search) => search::trials(request, search, task)?,
            None => Vec::new(),
        };
        // Searched for, those that are given alone may not be possible.
        let first = trials.first().map(|trial| trial.hyperparams(request));
        let hyperparams = first.as_ref().unwrap_or(&request.hyperparams);
        let engine = match &choice {
            Some(choice) => choice.stand_in(request, task)?,
            None => engine::open(&request.algorithm, task, hyperparams, request.seed())?,
        };
        let mut plan = Plan::make(request, task, project.as_ref())?;
        let mut told = Notices::default();
        if plan.is_new {
            plan.leave_out(request, &mut told)?;
        }
        let roles = Roles::of(&plan.snapshot.preprocess)?;
        if choice.is_some() && !roles.group_columns().is_empty() {
            return Err(Error::unsupported("algorithm \"auto\" does not choose for each group")
                .hint("Name the algorithm, or leave group_by out."));
        }
        require_groups(request, &plan, &roles, engine.as_ref())?;
        let again = Wanted::of(request, &plan, &roles);
        let base = Base::find(request, project.as_ref(), again != Wanted::No)?;
        if engine.stops_early() && plan.snapshot.test_size == 0.0 && !roles.has(Role::Test) {
            return Err(Error::invalid("early_stopping_rounds needs test rows, but test_size is 0"));
        }
        if plan.materialize {
            plan.copy_rows()?;
        }
        Ok(Training {
            request,
            project,
            task,
            metric,
            trials,
            choice,
            engine,
            plan,
            roles,
            told,
            again,
            base,
            rival: None,
        })
    }

    /// The algorithm that is trained: what was asked for may mean another for the task.
    pub fn algorithm(&self) -> &'static str {
        self.engine.algorithm()
    }

    /// Reads all rows. Gives the columns that are declared NOT NULL too.
    pub fn read(&mut self) -> Result<(Data, Vec<String>)> {
        activity::phase(Phase::Reading);
        self.rival = Rival::find(self.project.as_ref())?;
        let (rival, base) = (self.rival.as_mut(), self.base.as_ref());
        let (mut data, not_null) = read(&self.plan, &self.roles, self.task, self.engine.as_ref(), rival, base)?;
        for (name, why) in std::mem::take(&mut data.left_out) {
            self.told.leave_out(&name, why, &mut self.plan.snapshot.preprocess);
            self.roles = Roles::of(&self.plan.snapshot.preprocess)?;
        }
        if let Some(base) = &self.base {
            base.place(&mut data);
        }
        if let Some(warning) = data.blurred() {
            report::warning(&warning);
        }
        data.positive = positive::of(self.request, self.project.as_ref(), &data)?;
        activity::rows(data.spool.rows());
        Ok((data, not_null))
    }

    /// Divides the rows into those that are trained on and those that are held out.
    pub fn divide(&self, data: &mut Data) -> Result<HeldOut> {
        let (request, snapshot, base) = (self.request, &self.plan.snapshot, self.base.as_ref());
        let size = TestSize::new(f64::from(snapshot.test_size))?;
        // What goes on from a model holds out what that has held out.
        let seed = base.and_then(Base::seed_of_sides);
        let seed = seed.unwrap_or_else(|| side::seed(&request.project_name, request.seed()));
        let (split, mut rule) = sides::divide(data, self.plan.sampling, size, seed)?;
        let has_seen = base.and_then(|base| base.has_seen(data, &split));
        let mut remembered = Memory::default();
        match has_seen {
            Some(_) => rule = Rule::plain(By::Nothing),
            None => remembered = sides::remember(data, &mut rule, &split)?,
        }
        data.rule = Some(rule);
        self.require_rows(data.spool.rows(), &split)?;
        if let Some(warning) = &has_seen {
            report::warning(warning);
        }
        Ok(HeldOut { split, remembered, has_seen })
    }

    fn require_rows(&self, rows: u64, split: &Split) -> Result<()> {
        let marked = self.roles.has(Role::Test);
        let tests = self.plan.snapshot.test_size > 0.0 || marked;
        if split.train_rows() > 0 && (split.test_rows() > 0 || !tests) {
            return Ok(());
        }
        let hint = match marked {
            true => {
                "The column with the role \"test\" must be true in some rows, which are tested on, and not in others."
            }
            false => "With test_size => 0 all rows are trained on, and none is tested.",
        };
        Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_NO_DATA_FOUND,
            format!(
                "{} has too few rows: of {rows}, {} would be trained on and {} tested on",
                self.plan.source.name,
                split.train_rows(),
                split.test_rows()
            ),
        )
        .hint(hint))
    }

    /// What a new snapshot records of the columns. Says what is done to them by default.
    pub fn describe(&mut self, data: &mut Data, split: &Split, not_null: &[String]) -> Result<Value> {
        class_weight::require_two_classes(data, split)?;
        let columns = if self.plan.is_new { data.columns_json(not_null)? } else { Value::Null };
        for (name, kept, all) in data.keep_categories_of(split, &self.roles, self.engine.as_ref())? {
            self.told.grouped(&name, format!("all but the {kept} most frequent of {all}"));
        }
        for feature in &data.features {
            let spec = self.roles.spec(&feature.name, feature.categories.is_some())?;
            if let Some((_, Some(how))) = defaults::impute(feature, &spec, self.engine.as_ref()) {
                self.told.imputed(&feature.name, how);
            }
            if feature.untold > 0 {
                self.told.grouped(&feature.name, format!("all but the first {}", columns::MOST_CATEGORIES));
            }
        }
        self.told.read(data);
        self.told.notice();
        Ok(columns)
    }

    /// Searches for hyperparameters where that was asked for, and fits the model on the training rows.
    pub fn fit(&mut self, data: &Data, split: &Split) -> Result<First> {
        activity::phase(Phase::Training);
        let request = self.request;
        let found = match (&request.search, &self.choice) {
            (Some(search), _) => {
                let trials = std::mem::take(&mut self.trials);
                Some(search::run(request, search, trials, &self.plan, (data, split), &self.metric)?)
            }
            (None, Some(choice)) => Some(choice.run(request, &self.plan, (data, split), &self.metric)?),
            (None, None) => None,
        };
        let hyperparams = found.as_ref().map_or(&request.hyperparams, |found| &found.hyperparams);
        if let Some(found) = &found {
            let (algorithm, of_all) = found.algorithm.clone().unwrap_or((&request.algorithm, None));
            self.engine = engine::open(algorithm, self.task, hyperparams, request.seed())?;
            self.plan.snapshot.preprocess.extend(of_all.map(|all| (ALL.to_owned(), all)));
            report::info(&format!("Hyperparams: {}", Value::Object(hyperparams.clone())));
        }
        let begun = Instant::now();
        let fitted = fit(&self.plan, data, split, self.engine.as_ref(), self.base.as_ref(), Fit::First)?;
        let time = begun.elapsed();
        for warning in positive::of_other(hyperparams, data).iter().chain(&fitted.warnings) {
            report::warning(warning);
        }
        Ok(First { fitted, time, found })
    }

    /// Measures the model on the rows held out.
    pub fn score(&self, data: &Data, split: &Split, first: &First) -> Result<Scored> {
        activity::phase(Phase::Scoring);
        let begun = Instant::now();
        let scorer = Scorer::new(Model::of_bytes(&first.fitted.model)?, data);
        let (mut metrics, residuals) = scorer.measure(data, split, true)?;
        if self.metric.is_own()
            && let Some(value) = scorer.value(data, split, &self.metric)?
        {
            metrics.insert(self.metric.name().to_owned(), json!(value));
        }
        if self.task == Task::Regression && metrics.get("mean_absolute_error").is_some_and(Value::is_null) {
            report::warning(
                "the model predicts values that are not finite for some of the held-out rows: scale or bound the features \
                 and the label",
            );
        }
        if !metrics.is_empty() {
            report::info(&format!("Metrics: {}", report::rounded(&metrics)));
        }
        // Later trainings remember it, also where nothing is measured.
        if let Some(positive) = data.positive_class() {
            metrics.insert("positive_class".into(), json!(positive));
        }
        if split.test_rows() > 0 {
            metrics.insert("rows".into(), json!(split.test_rows()));
        }
        metrics.insert("fit_time".into(), json!(first.time.as_secs_f64()));
        metrics.insert("score_time".into(), json!(begun.elapsed().as_secs_f64()));
        if let Some(found) = &first.found {
            metrics.insert("search_results".into(), found.results.clone());
        }
        let groups = groups::Scores::of(&scorer, data, split, &self.metric)?;
        if !data.group_columns().is_empty() {
            metrics.insert("groups".into(), groups::summary(&first.fitted.groups, groups.as_ref()));
        }
        Ok(Scored { scorer, metrics, residuals, groups })
    }

    /// Fits again on all rows, where that was asked for or is cheap.
    pub fn fit_again(
        &self,
        data: &mut Data,
        split: &Split,
        first: &First,
        metrics: &mut Map<String, Value>,
    ) -> Result<Option<Fitted>> {
        let rows = data.spool.rows();
        // The model that it goes on from is another one where it was fitted again, so this one has to be, too.
        let always = self.base.is_some() && self.again != Wanted::No;
        if !always && !self.again.is_due(rows, first.time) {
            return Ok(None);
        }
        report::info(&format!(
            "Fitting the model again on all {rows} rows; the metrics are those of the {} held out before",
            learn::count(split.test_rows(), "row")
        ));
        let begun = Instant::now();
        let engine = self.engine.as_ref();
        data.keep_categories_of(&Split::none(rows), &self.roles, engine)?;
        let whole = refit::run(self.again, &self.plan, data, engine, self.base.as_ref(), first.fitted.rounds)?;
        data.keep_categories_of(split, &self.roles, engine)?;
        if whole.is_some() {
            metrics.insert("refit".into(), json!(true));
            metrics.insert("refit_time".into(), json!(begun.elapsed().as_secs_f64()));
        }
        Ok(whole)
    }

    /// Stores the project and the snapshot. Gives what the model was made by, too.
    pub fn store_project(&self, data: &Data, first: &First, columns: &Value) -> Result<(Project, Recipe)> {
        let (request, plan) = (self.request, &self.plan);
        let project = registry::project_to_add_to(&request.project_name, self.task.name(), request.automatic_deploy)?;
        if self.project.as_ref().is_some_and(|before| before.id != project.id) {
            return Err(registry::gone(&request.project_name));
        }
        // Made for another task meanwhile.
        task_of(request, Some(&project))?;
        if request.metric.is_some() {
            registry::set_metric(project.id, self.metric.name())?;
        }
        // A table that changes is looked at anew each time; of one that is kept, keys are no longer known.
        let mut preprocess = plan.snapshot.preprocess.clone();
        preprocess.retain(|name, _| plan.snapshot.materialized || !self.told.has_left_out(name));
        let recipe = Recipe {
            algorithm: self.algorithm().to_owned(),
            hyperparams: first.hyperparams(request).clone(),
            preprocess,
            rows: Some(data.spool.rows()),
        };
        // It went meanwhile if the last model that was trained on it was deleted.
        if plan.is_new || !registry::keep_snapshot(plan.snapshot.id)? {
            let mut analysis = json!({ "samples": data.spool.rows() });
            if !recipe.preprocess.is_empty() {
                analysis["preprocess"] = Value::Object(recipe.preprocess.clone());
            }
            registry::insert_snapshot(&plan.snapshot, columns, &analysis)?;
        }
        Ok((project, recipe))
    }

    /// Whether the model is to be deployed.
    pub fn decide(
        &self,
        (project, recipe): (&Project, &Recipe),
        scored: &mut Scored,
        has_seen: Option<String>,
        data: &Data,
        split: &Split,
    ) -> Result<bool> {
        if !self.request.automatic_deploy {
            return Ok(false);
        }
        let decision = match has_seen {
            Some(reason) if self.project.is_some() => compare::unjudged(&reason),
            _ => {
                let new = (&scored.scorer, &scored.metrics);
                compare::decide((project, recipe), &self.metric, new, self.rival.as_ref(), data, split)?
            }
        };
        scored.metrics.insert("decision".into(), json!(decision.reason));
        Ok(decision.better)
    }

    /// Stores the model with its files.
    pub fn store_model(
        &self,
        (id, project_id): (i64, i64),
        data: &Data,
        first: &First,
        scored: &Scored,
        whole: Option<&Fitted>,
    ) -> Result<()> {
        let text = |map: &Map<String, Value>| Value::Object(map.clone()).to_string();
        registry::insert_model(&NewModel {
            id,
            project_id,
            snapshot_id: Some(self.plan.snapshot.id),
            num_features: i32::try_from(data.width()).unwrap_or(i32::MAX),
            algorithm: self.algorithm(),
            hyperparams: text(first.hyperparams(self.request)),
            metrics: text(&scored.metrics),
            search: (self.request.search.as_ref())
                .map(|search| (search.method.name(), text(&search.params), text(&search.args))),
        })?;
        if let Some(residuals) = &scored.residuals {
            registry::set_residuals(id, residuals)?;
        }
        registry::insert_curve(id, &first.fitted.curve)?;
        let answering = whole.unwrap_or(&first.fitted);
        let path = self.engine.path(!data.group_columns().is_empty());
        if !data.group_columns().is_empty() {
            let groups = groups::to_json(data, &answering.groups, scored.groups.as_ref());
            registry::insert_file(id, GROUPS_PATH, groups.to_string().as_bytes())?;
        }
        registry::insert_file(id, path, &answering.model)?;
        if whole.is_some() {
            registry::insert_file(id, &held_out_path(path), &first.fitted.model)?;
        }
        Ok(())
    }
}
