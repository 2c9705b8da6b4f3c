//! Hyperparameters: checked against the table when they are parsed, and against the library by a dry run.

use serde_json::{Map, Value};

use super::library::Library;
use super::table::{Kind, METRICS, Parameter, TABLE, find, objectives};
use super::value::{Feature, Given, Monotone, resolve_interactions};
use super::{Algorithm, Columns, Task};
use crate::Error;
use crate::nearest::nearest;

/// Hyperparameters that are known and in range.
#[derive(Clone, Debug)]
pub struct Params {
    algorithm: Algorithm,
    task: Task,
    rounds: u32,
    early_stopping_rounds: Option<u32>,
    settings: Vec<(&'static str, String)>,
    metrics: Vec<String>,
    monotone: Option<(Monotone, String, Value)>,
    interactions: Option<(Vec<Vec<Feature>>, String, Value)>,
    warnings: Vec<String>,
}

/// XGBRegressor's and XGBClassifier's default, and XGBRFRegressor's number of trees.
const ROUNDS: u32 = 100;

/// Trees of a round at the most, where their number is given: no cancel is heeded before a round's last tree, and with
/// little data ten thousand take a second.
const MOST_TREES: u64 = 10_000;

/// Columns of a dry run: more are no different to the library, and a million of them take it a minute.
const FEW_COLUMNS: usize = 64;

/// Classes of a dry run: more are no different to the library, and each costs a tree.
const FEW_CLASSES: u32 = 4;

/// XGBRFRegressor's and XGBRFClassifier's defaults.
const FOREST: [(&str, &str); 4] =
    [("learning_rate", "1.0"), ("subsample", "0.8"), ("colsample_bynode", "0.8"), ("reg_lambda", "1e-05")];

impl Params {
    /// All hyperparameters that are understood, for documentation.
    pub fn table() -> &'static [Parameter] {
        TABLE
    }

    /// The objectives of a task, in XGBoost's words.
    pub fn objectives(task: Task) -> &'static [&'static str] {
        objectives(task)
    }

    /// The metrics that can be measured in each round. After `error`, `pre`, `map` and `ndcg` an `@` and a number may
    /// follow, after `ams` and `tweedie-nloglik` they must.
    pub fn metrics() -> impl Iterator<Item = &'static str> {
        METRICS.iter().map(|(name, _)| *name)
    }

    /// Reads hyperparameters. A null means that the parameter is not given.
    ///
    /// # Errors
    /// [`Error::UnknownParameter`], [`Error::InvalidParameter`] and [`Error::DuplicateParameter`], each naming the
    /// parameter as it was given; [`Error::Task`] for fewer than two classes.
    pub fn parse(algorithm: Algorithm, task: Task, hyperparams: &Map<String, Value>) -> Result<Params, Error> {
        task.check()?;
        let mut given: Vec<(&'static Parameter, Given<'_>)> = Vec::new();
        for (name, value) in hyperparams {
            let Some(row) = find(name) else {
                let known = TABLE.iter().flat_map(|row| row.aliases.iter().copied().chain([row.name]));
                return Err(Error::UnknownParameter { name: name.clone(), nearest: nearest(name, known) });
            };
            if value.is_null() {
                continue;
            }
            if let Some((_, first)) = given.iter().find(|(earlier, _)| earlier.name == row.name) {
                return Err(Error::DuplicateParameter { first: first.name.into(), second: name.clone() });
            }
            given.push((row, Given { name, value }));
        }

        let linear = given
            .iter()
            .any(|(row, given)| row.name == "booster" && matches!(given.value.as_str(), Some("gblinear" | "linear")));
        let mut params = Params {
            algorithm,
            task,
            rounds: ROUNDS,
            early_stopping_rounds: None,
            settings: Vec::new(),
            metrics: Vec::new(),
            monotone: None,
            interactions: None,
            warnings: Vec::new(),
        };
        for (row, given) in &given {
            params.take(row, given, linear)?;
        }
        params.complete(&given)?;
        Ok(params)
    }

    /// Takes one parameter over.
    #[expect(clippy::too_many_lines, reason = "a list")]
    fn take(&mut self, row: &'static Parameter, given: &Given<'_>, linear: bool) -> Result<(), Error> {
        match (row.name, row.kind) {
            (_, Kind::Ignored(reason)) => {
                self.warnings.push(format!("hyperparameter \"{}\" changes nothing: {reason}", given.name));
            }
            (_, Kind::Refused(reason)) => return Err(given.wrong(reason)),
            (_, kind @ Kind::Model) => {
                let is_model =
                    given.value.as_i64().is_some_and(|id| id > 0) || given.value.as_str() == Some("deployed");
                match (is_model, self.algorithm) {
                    (false, _) => return Err(given.wrong(kind.allowed())),
                    (true, Algorithm::XgboostRandomForest) => {
                        return Err(given.wrong("a random forest has one round, and none to go on with"));
                    }
                    (true, Algorithm::Xgboost) => {}
                }
            }
            ("n_estimators", kind) => self.rounds = given.count(kind)?,
            ("early_stopping_rounds", kind) => {
                if self.algorithm == Algorithm::XgboostRandomForest {
                    return Err(given.wrong("a random forest has one round, so it cannot stop early"));
                }
                self.early_stopping_rounds = Some(given.count(kind)?);
            }
            ("tree_method", kind) => {
                let mut method = given.text(kind)?;
                if method == "gpu_hist" {
                    self.warnings.push("tree_method \"gpu_hist\" is gone from XGBoost, \"hist\" is used".into());
                    method = "hist".into();
                }
                self.settings.push((row.name, method));
            }
            ("booster", kind) => {
                let mut booster = given.text(kind)?;
                if booster == "linear" {
                    booster = "gblinear".into();
                }
                if booster != "gbtree" && self.algorithm == Algorithm::XgboostRandomForest {
                    return Err(given.wrong("a random forest is grown by booster \"gbtree\""));
                }
                self.settings.push((row.name, booster));
            }
            ("objective", _) => {
                let mut objective = given.objective(self.task)?;
                if objective == "reg:linear" {
                    self.warnings.push("objective \"reg:linear\" is now called \"reg:squarederror\"".into());
                    objective = "reg:squarederror".into();
                }
                self.settings.push((row.name, objective));
            }
            (_, Kind::Metrics) => self.metrics = given.metrics()?,
            (_, Kind::BaseScore) => self.settings.push((row.name, given.base_score(self.task)?)),
            (_, Kind::Quantiles) => self.settings.push((row.name, given.quantiles()?)),
            (_, Kind::Updater) => self.settings.push((row.name, given.updaters(linear)?)),
            (_, Kind::Monotone) => {
                self.monotone = Some((given.monotone()?, given.name.into(), given.value.clone()));
            }
            (_, Kind::Interactions) => {
                self.interactions = Some((given.interactions()?, given.name.into(), given.value.clone()));
            }
            (_, Kind::Classes) => match self.task {
                Task::Classification { classes } if given.value.as_f64() == Some(f64::from(classes)) => {}
                Task::Classification { classes } => {
                    return Err(given.wrong(format!("the label has {classes} classes")));
                }
                Task::Regression => return Err(given.wrong("a regression has no classes")),
            },
            (_, kind) => self.settings.push((row.name, given.text(kind)?)),
        }
        Ok(())
    }

    /// Adds the defaults that are not the library's own, and checks what several parameters say together.
    fn complete(&mut self, given: &[(&'static Parameter, Given<'_>)]) -> Result<(), Error> {
        let named = |name: &str| given.iter().find(|(row, _)| row.name == name).map(|(_, given)| given);
        if self.setting("objective").is_none() {
            let objective = match self.task {
                Task::Regression => "reg:squarederror",
                Task::Classification { classes: 2 } => "binary:logistic",
                Task::Classification { .. } => "multi:softprob",
            };
            self.settings.push(("objective", objective.into()));
        }
        if let (Task::Classification { classes }, Some(objective)) = (self.task, self.setting("objective"))
            && objective.starts_with("multi:")
        {
            self.settings.push(("num_class", classes.to_string()));
        }
        if self.setting("objective") == Some("reg:quantileerror")
            && named("quantile_alpha").is_none()
            && let Some(objective) = named("objective")
        {
            return Err(objective.wrong("it needs \"quantile_alpha\", the quantile to predict"));
        }
        let measured = !self.metrics.is_empty() || self.setting("disable_default_eval_metric") != Some("1");
        if let (false, Some(given)) = (measured, named("early_stopping_rounds")) {
            return Err(given.wrong("there is no metric to stop by"));
        }
        if let (Some(given), Some(_)) = (named("early_stopping_rounds"), named("xgb_model")) {
            return Err(given.wrong("a training that goes on from a model does not stop early"));
        }
        let multiclass = self.objective().starts_with("multi:");
        if let (false, Some(metric), Some(given)) =
            (multiclass, self.metrics.iter().find(|name| is_multiclass(name)), named("eval_metric"))
        {
            return Err(given.wrong(format!("metric \"{metric}\" is for objectives of several classes, multi:*")));
        }
        if self.algorithm == Algorithm::XgboostRandomForest {
            let parallel = self.setting("num_parallel_tree").and_then(|text| text.parse::<u32>().ok());
            if let (Some(parallel), Some(_), Some(given)) =
                (parallel, named("n_estimators"), named("num_parallel_tree"))
                && parallel != self.rounds
            {
                let trees = self.rounds;
                return Err(given.wrong(format!("\"n_estimators\" asks for a random forest of {trees} trees")));
            }
            let trees = parallel.unwrap_or(self.rounds);
            self.settings.retain(|(name, _)| *name != "num_parallel_tree");
            self.settings.push(("num_parallel_tree", trees.to_string()));
            self.rounds = 1;
            for (name, value) in FOREST {
                if self.setting(name).is_none() {
                    self.settings.push((name, value.into()));
                }
            }
        }
        let asked = named("num_parallel_tree").or(named("n_estimators")).filter(|_| self.trees_a_round() > MOST_TREES);
        match asked {
            Some(given) => Err(given.wrong(format!(
                "a round, which nothing interrupts, would grow {} trees, and {MOST_TREES} are the most",
                self.trees_a_round()
            ))),
            None => Ok(()),
        }
    }

    /// Trees that are grown in each round, those of all classes or quantiles.
    fn trees_a_round(&self) -> u64 {
        let number = |name| self.setting(name).and_then(|text| text.parse().ok()).unwrap_or(1);
        let quantiles = self.setting("quantile_alpha").map_or(1, |text| text.split(',').count() as u64);
        u64::saturating_mul(number("num_parallel_tree"), number("num_class")).saturating_mul(quantiles)
    }

    /// The algorithm they are for.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The task they are for.
    pub fn task(&self) -> Task {
        self.task
    }

    /// The most rounds that a training takes; 1 for a random forest.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// After how many rounds without an improvement a training stops; it then needs rows to evaluate on.
    pub fn early_stopping_rounds(&self) -> Option<u32> {
        self.early_stopping_rounds
    }

    /// Sets the exact number of rounds, without early stopping.
    pub fn fix_rounds(&mut self, rounds: u32) {
        self.rounds = rounds;
        self.early_stopping_rounds = None;
    }

    /// The loss that is minimised, in XGBoost's words.
    pub fn objective(&self) -> &str {
        self.setting("objective").unwrap_or("reg:squarederror")
    }

    /// `gbtree`, `dart` or `gblinear`.
    pub fn booster(&self) -> &str {
        self.setting("booster").unwrap_or("gbtree")
    }

    /// The number of threads, where it is given and not "all".
    pub fn nthread(&self) -> Option<u32> {
        self.setting("nthread").and_then(|text| text.parse().ok()).filter(|&threads| threads > 0)
    }

    /// Sets the number of threads unless the hyperparameters do.
    pub fn default_nthread(&mut self, threads: u32) {
        if self.setting("nthread").is_none() {
            self.settings.push(("nthread", threads.to_string()));
        }
    }

    /// What was accepted although it changes nothing, a sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether the method works on all values of all rows, which then have to be in memory, four to eight bytes each,
    /// instead of on their quantiles: `approx`, `exact` and `gblinear`.
    pub fn needs_all_values(&self) -> bool {
        let updater = self.setting("updater").unwrap_or("grow_quantile_histmaker");
        self.booster() == "gblinear"
            || matches!(self.setting("tree_method"), Some("approx" | "exact"))
            || !updater.split(',').all(|name| name == "grow_quantile_histmaker")
    }

    /// Trains a round or two on a few made-up rows, so that values that the library refuses, alone or together, are
    /// found out before any real row is read. Gives the library's warnings, a sentence each.
    ///
    /// Takes some milliseconds.
    ///
    /// # Errors
    /// [`Error::Refused`] with the library's reason, and [`Error::InvalidParameter`] for constraints that do not fit
    /// the columns.
    pub fn dry_run(&self, library: &Library, columns: &Columns) -> Result<Vec<String>, Error> {
        let mut reduced = self.reduced();
        if columns.width() <= FEW_COLUMNS {
            return super::train::dry_run(library, &reduced, columns);
        }
        reduced.narrow(columns)?;
        super::train::dry_run(library, &reduced, &columns.first(FEW_COLUMNS)?)
    }

    /// Fits the constraints, which have to fit all columns, to the first few.
    fn narrow(&mut self, columns: &Columns) -> Result<(), Error> {
        if let Some((monotone, name, value)) = &mut self.monotone {
            let mut directions = monotone.directions(columns, &Given { name, value })?;
            directions.truncate(FEW_COLUMNS);
            *monotone = Monotone::ByPosition(directions);
        }
        if let Some((groups, name, value)) = &mut self.interactions {
            let resolved = resolve_interactions(groups, columns, &Given { name, value })?;
            let few = |group: Vec<usize>| group.into_iter().filter(|position| *position < FEW_COLUMNS);
            *groups = resolved.into_iter().map(|group| few(group).map(Feature::Position).collect()).collect();
            groups.retain(|group| !group.is_empty());
        }
        Ok(())
    }

    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Like these, but with as little work as shows whether they are possible.
    pub(super) fn reduced(&self) -> Params {
        let mut reduced = self.clone();
        reduced.rounds = self.rounds.min(2);
        reduced.early_stopping_rounds = None;
        let lower = |value: &mut String, most: u32| {
            if value.parse::<u32>().is_ok_and(|number| number > most) {
                *value = most.to_string();
            }
        };
        for (name, value) in &mut reduced.settings {
            match *name {
                "num_parallel_tree" => lower(value, 2),
                "num_class" => lower(value, FEW_CLASSES),
                // One number a class, which were counted when they were read.
                "base_score" if value.starts_with('[') => {
                    let few: Vec<&str> = value.trim_matches(['[', ']']).split(',').take(FEW_CLASSES as usize).collect();
                    *value = format!("[{}]", few.join(","));
                }
                _ => {}
            }
        }
        // More threads would spend longer on meeting each other than on so few rows.
        reduced.settings.retain(|(name, _)| *name != "nthread");
        reduced.default_nthread(1);
        if let Task::Classification { classes } = &mut reduced.task {
            *classes = FEW_CLASSES.min(*classes);
        }
        reduced
    }

    /// Names and values as the library is told them, for `make fuzz`.
    ///
    /// # Errors
    /// As [`Params::dry_run`], without the library's.
    #[cfg(fuzzing)]
    pub fn told(&self, columns: &Columns) -> Result<Vec<(&'static str, String)>, Error> {
        self.resolve(columns)
    }

    /// Names and values as the library is told them.
    pub(super) fn resolve(&self, columns: &Columns) -> Result<Vec<(&'static str, String)>, Error> {
        let mut all = vec![("validate_parameters", "1".to_string())];
        all.extend(self.settings.iter().cloned());
        all.extend(self.metrics.iter().map(|metric| ("eval_metric", metric.clone())));
        if let Some((monotone, name, value)) = &self.monotone {
            all.push(("monotone_constraints", monotone.resolve(columns, &Given { name, value })?));
        }
        if let Some((groups, name, value)) = &self.interactions {
            let groups = resolve_interactions(groups, columns, &Given { name, value })?;
            all.push(("interaction_constraints", Value::from(groups).to_string()));
        }
        Ok(all)
    }
}

/// Whether a metric looks for the most probable of several classes.
fn is_multiclass(metric: &str) -> bool {
    matches!(metric, "merror" | "mlogloss")
}
