//! The engines that train, behind one interface: the only place that knows which algorithms there are.

use std::any::Any;
use std::cell::RefCell;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use learn::curve::{self, Curve, Part, Sample};
use learn::families::{self, FAMILIES};
use learn::family::{Control, Family, Given, Predict, Problem, Stored};
use learn::grouped::{self, Groups};
use learn::preprocess::Pipeline;
use learn::rows::{Chunk, Rows, Stop};
use learn::split::Split;
use learn::xgboost::{Algorithm, Column, ColumnKind, Columns, Library, Matrices, Params, Task as LearnTask};
use pgrx::PgSqlErrorCode;
use serde_json::{Map, Value};

use super::base::Base;
use super::class_weight::ClassWeight;
use super::columns::{Data, Feature, FeatureKind};
use super::cut;
use super::groups::{self, Named};
use super::interrupts::{self, Interrupted};
use super::request::SEEDS;
use super::view::View;
use crate::error::{Error, Result};
use crate::guc;
use crate::memory;
use crate::model_meta::{self, Class, ModelMeta, Task};

/// Algorithms that XGBoost trains.
const XGBOOST: [&str; 2] = ["xgboost", "xgboost_random_forest"];

/// Algorithms that are offered, for whatever task.
pub static ALGORITHMS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut names = XGBOOST.to_vec();
    for family in FAMILIES {
        if !names.contains(&family.name) {
            names.push(family.name);
        }
    }
    names.extend(super::series::ALGORITHMS);
    names
});

/// A training that was asked for: algorithm and hyperparameters, found to be possible.
pub trait Engine {
    /// Looks at hyperparameters that refer to columns, before any row is read.
    fn rehearse(&self, _features: &[(String, FeatureKind)]) -> Result<()> {
        Ok(())
    }

    /// Whether rows to measure on are needed to know when to stop.
    fn stops_early(&self) -> bool {
        false
    }

    /// The algorithm that it is, which is not the one that was asked for where that means another.
    fn algorithm(&self) -> &'static str;

    /// Whether categories are taken as they are.
    fn takes_categories(&self) -> bool;

    /// How many categories of a column are taken as they are; `None` where any number is.
    fn most_categories(&self) -> Option<usize> {
        None
    }

    /// Whether missing values are taken as they are.
    fn takes_missing(&self) -> bool {
        true
    }

    /// Where the model's bytes stand in `pgml.files`; that of one for each group stands where those of families do.
    fn path(&self, grouped: bool) -> &'static str;

    /// Refuses a model for each group where the algorithm cannot have one.
    fn require_groups(&self) -> Result<()>;

    /// Whether rows may count more than others.
    fn takes_weights(&self) -> bool;

    /// How much rows of a class count, if that was asked for.
    fn class_weight(&self) -> Option<&ClassWeight> {
        None
    }

    /// Trains on the rows that are not test rows.
    fn train(&self, rows: &Prepared<'_>, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<Fitted>;
}

/// The rows of a training, and what is done to them before an engine sees them.
pub struct Prepared<'a> {
    pub data: &'a Data,
    pub split: &'a Split,
    /// What is done to each row; what the model says of itself has that too.
    pub meta: ModelMeta,
    /// How much rows of a class count, and that of each class.
    pub class_weight: Option<(ClassWeight, Vec<f32>)>,
    /// The rows as an engine has read them, for the next training on the same ones.
    pub kept: RefCell<Option<Box<dyn Any>>>,
    /// The model that the training goes on from.
    pub base: Option<&'a Base>,
    /// Rounds to take, whatever the hyperparameters say of when to stop.
    pub rounds: Option<u32>,
    /// Whether the learning curve is asked for.
    pub curve: bool,
}

impl Prepared<'_> {
    /// The rows that are tested on, or those that are not, `limit` of them at most.
    fn view(&self, test: bool, limit: u64) -> View<'_> {
        self.view_of(self.split, test, limit)
    }

    /// The same of another split of the rows.
    fn view_of<'b>(&'b self, split: &'b Split, test: bool, limit: u64) -> View<'b> {
        let by_class = self.class_weight.as_ref().map(|(_, weights)| weights.as_slice());
        View::new(self.data, split, test, limit).prepared(self.meta.pipeline.as_ref()).by_class(by_class)
    }

    /// Which of the features that the engine sees tell the group of a row: among the numbers of a compact row, and of a
    /// finished one. None where there are no groups.
    fn groups(&self, compact: bool) -> (Vec<usize>, Vec<usize>) {
        let raw: Vec<bool> = (self.data.features.iter())
            .flat_map(|feature| std::iter::repeat_n(feature.tells_group, feature.size))
            .collect();
        let places = |sources: Vec<usize>| -> Vec<usize> {
            let tells = |(_, source): &(usize, &usize)| raw.get(**source).copied().unwrap_or(false);
            sources.iter().enumerate().filter(tells).map(|(place, _)| place).collect()
        };
        let own = || (0..raw.len()).collect::<Vec<_>>();
        let finished = self.meta.pipeline.as_ref().map_or_else(own, Pipeline::sources);
        match self.meta.pipeline.as_ref().filter(|_| compact) {
            Some(pipeline) => (places(pipeline.compact_sources()), places(finished)),
            None => (places(finished.clone()), places(finished)),
        }
    }

    /// Name, kind and number of categories of each feature that the engine sees.
    fn features(&self) -> Vec<(String, FeatureKind, usize)> {
        let kinds = self.data.features.iter().flat_map(|feature| {
            let categories = feature.categories.as_ref().map_or(0, |sorted| sorted.values.len());
            std::iter::repeat_n((feature.kind, categories), feature.size)
        });
        let raw: Vec<(String, FeatureKind, usize)> =
            self.data.feature_names().into_iter().zip(kinds).map(|(name, (kind, n))| (name, kind, n)).collect();
        let Some(pipeline) = &self.meta.pipeline else { return raw };
        let made = pipeline.made();
        // What was made of a feature stands together: where it begins, and how much it is.
        let mut parts = vec![(0, 0); pipeline.raw_width()];
        for (index, (source, _)) in made.iter().enumerate() {
            if let Some((first, count)) = parts.get_mut(*source) {
                *first = if *count == 0 { index } else { *first };
                *count += 1;
            }
        }
        let features = made.iter().enumerate().map(|(index, (source, untouched))| {
            let Some((name, kind, categories)) = raw.get(*source) else {
                return (format!("f{index}"), FeatureKind::Quantity, 0);
            };
            let (first, count) = parts.get(*source).copied().unwrap_or((index, 1));
            match (untouched, count == 1) {
                (true, _) => (name.clone(), *kind, *categories),
                (false, true) => (name.clone(), FeatureKind::Quantity, 0),
                (false, false) => (format!("{name}={}", index - first), FeatureKind::Quantity, 0),
            }
        });
        features.collect()
    }
}

/// How a training is getting on.
pub struct Progress<'a> {
    pub round: u32,
    pub rounds: u32,
    /// Name and value of the metric on some held-out rows.
    pub metric: Option<(&'a str, f64)>,
    pub elapsed: Duration,
}

/// A trained model.
pub struct Fitted {
    /// In the format of the training library, self-describing: see [`crate::model_meta`].
    pub model: Vec<u8>,
    pub warnings: Vec<String>,
    /// The rounds that were found best on the held-out rows, where the training stopped early by them.
    pub rounds: Option<u32>,
    /// The learning curve, if it was asked for and there are rounds.
    pub curve: Curve,
    /// What became of each group, where each has a model.
    pub groups: Vec<Named>,
}

/// Finds the engine of an algorithm and checks the hyperparameters.
pub fn open(algorithm: &str, task: Task, hyperparams: &Map<String, Value>, seed: u64) -> Result<Box<dyn Engine>> {
    let mut hyperparams = hyperparams.clone();
    let least_rows = least_rows(&mut hyperparams)?;
    let class_weight = match task {
        Task::Classification => ClassWeight::take(&mut hyperparams)?,
        _ => None,
    };
    let engine: Box<dyn Engine> = match (algorithm, task) {
        ("xgboost", Task::Regression | Task::Classification) => {
            Box::new(Xgboost { least_rows, ..Xgboost::open(Algorithm::Xgboost, task, &hyperparams)? })
        }
        ("xgboost_random_forest", Task::Regression | Task::Classification) => {
            Box::new(Xgboost { least_rows, ..Xgboost::open(Algorithm::XgboostRandomForest, task, &hyperparams)? })
        }
        _ => Box::new(Learner { least_rows, ..Learner::open(algorithm, task, &hyperparams, seed)? }),
    };
    match class_weight {
        None => Ok(engine),
        Some(_) if !engine.takes_weights() => {
            Err(Error::invalid(format!("algorithm \"{algorithm}\" takes no weights of rows, and so no class_weight")))
        }
        Some(class_weight) => Ok(Box::new(Weighing { engine, class_weight })),
    }
}

/// Training rows below which a group has no model of its own, where nobody says how many.
const LEAST_ROWS: usize = 30;

/// The hyperparameter that says so.
pub const LEAST_ROWS_NAME: &str = "min_group_rows";

/// Takes it out.
fn least_rows(hyperparams: &mut Map<String, Value>) -> Result<Option<usize>> {
    let Some(value) = hyperparams.remove(LEAST_ROWS_NAME) else { return Ok(None) };
    let rows = value.as_u64().filter(|rows| *rows > 0).and_then(|rows| usize::try_from(rows).ok());
    rows.map(Some).ok_or_else(|| {
        Error::invalid(format!(
            "hyperparameter \"{LEAST_ROWS_NAME}\" cannot be {value}: it must be a whole number from 1"
        ))
    })
}

/// An engine whose rows count by their class.
struct Weighing {
    engine: Box<dyn Engine>,
    class_weight: ClassWeight,
}

impl Engine for Weighing {
    fn rehearse(&self, features: &[(String, FeatureKind)]) -> Result<()> {
        self.engine.rehearse(features)
    }

    fn stops_early(&self) -> bool {
        self.engine.stops_early()
    }

    fn algorithm(&self) -> &'static str {
        self.engine.algorithm()
    }

    fn takes_categories(&self) -> bool {
        self.engine.takes_categories()
    }

    fn most_categories(&self) -> Option<usize> {
        self.engine.most_categories()
    }

    fn takes_missing(&self) -> bool {
        self.engine.takes_missing()
    }

    fn path(&self, grouped: bool) -> &'static str {
        self.engine.path(grouped)
    }

    fn require_groups(&self) -> Result<()> {
        self.engine.require_groups()
    }

    fn takes_weights(&self) -> bool {
        true
    }

    fn class_weight(&self) -> Option<&ClassWeight> {
        Some(&self.class_weight)
    }

    fn train(&self, rows: &Prepared<'_>, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<Fitted> {
        self.engine.train(rows, progress)
    }
}

/// Families that are trained here.
struct Learner {
    family: &'static Family,
    given: Given,
    seed: u64,
    least_rows: Option<usize>,
}

impl Learner {
    fn open(algorithm: &str, task: Task, hyperparams: &Map<String, Value>, seed: u64) -> Result<Learner> {
        // What PostgresML makes of its default algorithm where there is nothing linear to do.
        let name = match (algorithm, task) {
            ("linear", Task::Clustering) => "kmeans",
            ("linear", Task::Decomposition) => "pca",
            ("linear", Task::Anomaly) => "isolation_forest",
            (name, _) => name,
        };
        // Loaded by the one family that asks for it; an empty path would be the server itself.
        let library = crate::guc::lightgbm_library();
        if !library.is_empty() {
            learn::lightgbm::set_library(library);
            let_threads_sleep();
        }
        let family = families::family(name, task).map_err(|error| {
            let offered = ALGORITHMS.iter().filter(|name| {
                FAMILIES.iter().any(|family| family.name == **name && family.task == task)
                    || matches!(task, Task::Regression | Task::Classification) && XGBOOST.contains(name)
            });
            Error::unsupported(error.to_string()).detail(format!(
                "Algorithms for {}: {}.",
                task.name(),
                offered.copied().collect::<Vec<_>>().join(", ")
            ))
        })?;
        let given = Given::check(family.parameters, &without_seed(family, hyperparams)?).map_err(|error| {
            match task == Task::Classification && family.takes_weights {
                true => ClassWeight::or_meant(error),
                false => error,
            }
        })?;
        Ok(Learner { family, given, seed, least_rows: None })
    }

    /// How many models of groups are trained side by side. LightGBM's library has settings for the whole process.
    fn threads(&self) -> usize {
        if self.family.name == "lightgbm" { 1 } else { guc::omp_num_threads().max(1) as usize }
    }
}

/// The hyperparameters without those that seed the split, where the algorithm itself leaves nothing to chance.
fn without_seed(family: &Family, hyperparams: &Map<String, Value>) -> Result<Map<String, Value>> {
    let mut rest = hyperparams.clone();
    for name in SEEDS {
        if family.parameters.iter().any(|parameter| parameter.name == name) {
            continue;
        }
        match rest.remove(name) {
            Some(value) if !value.is_i64() && !value.is_null() => {
                return Err(Error::invalid(format!(
                    "hyperparameter \"{name}\" cannot be {value}: it must be a whole number, which seeds the split"
                )));
            }
            _ => {}
        }
    }
    Ok(rest)
}

impl Engine for Learner {
    fn algorithm(&self) -> &'static str {
        self.family.name
    }

    fn takes_categories(&self) -> bool {
        self.family.takes_categories
    }

    fn most_categories(&self) -> Option<usize> {
        // Trees that are grown here have codes of a byte, and would take more categories for numbers.
        (self.family.name != "lightgbm").then_some(255)
    }

    fn takes_missing(&self) -> bool {
        self.family.takes_missing
    }

    fn path(&self, _grouped: bool) -> &'static str {
        model_meta::FAMILY_PATH
    }

    fn takes_weights(&self) -> bool {
        self.family.takes_weights
    }

    fn require_groups(&self) -> Result<()> {
        match self.family.task {
            Task::Regression | Task::Classification => Ok(()),
            task => Err(Error::unsupported(format!("group_by is not for task {}", task.name()))
                .hint("group_by is for regression, classification and forecast.")),
        }
    }

    fn train(&self, rows: &Prepared<'_>, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<Fitted> {
        let mut meta = rows.meta.clone();
        let all = match rows.kept.take().and_then(|kept| kept.downcast::<Gathered>().ok()) {
            Some(kept) => *kept,
            None => Gathered::read(rows, self.family.takes_one_hot(), self.family.takes_missing)?,
        };
        if let Some(label) = meta.labels.first_mut().filter(|label| label.classes.is_some()) {
            label.classes = Some(all.classes.clone());
        }
        let categories: Vec<Option<u32>> = rows
            .features()
            .iter()
            .map(|(_, kind, count)| (*kind == FeatureKind::Category).then(|| u32::try_from(*count).unwrap_or(u32::MAX)))
            .collect();
        let categories = if categories.iter().any(Option::is_some) { &categories[..] } else { &[] };
        let problem = all.problem(rows, categories, self.seed);
        let mut ask = asking(progress);
        let mut control = Control::new(&mut ask);
        let (at, finished) = rows.groups(!all.one_hot.is_empty());
        let fit = |problem: &Problem<'_>, control: &mut Control<'_>| {
            families::fit(self.family, problem, &self.given, control)
        };
        let (mut model, groups) = match at.is_empty() {
            true => (fit(&problem, &mut control)?, Vec::new()),
            false => {
                let least_rows = self.least_rows.unwrap_or(LEAST_ROWS);
                let groups = Groups { at: &at, finished: &finished, least_rows, threads: self.threads() };
                let (model, found) = grouped::fit(&problem, &groups, &fit, &mut control)?;
                (model, groups::named(rows.data, found))
            }
        };
        let bytes = Bytes::from(model.to_bytes(&[
            (model_meta::ATTRIBUTE.to_owned(), meta.to_json()),
            (model_meta::ALGORITHM.to_owned(), self.family.name.to_owned()),
        ])?);
        let mut curve = Curve::default();
        if rows.curve && all.one_hot.is_empty() && rows.data.labels.len() == 1 {
            let opened = learn::forms::open(&Stored::read(bytes.clone())?)?;
            curve = all.curve(rows, opened.as_ref(), &mut control)?;
        }
        *rows.kept.borrow_mut() = Some(Box::new(all));
        Ok(Fitted { model: bytes.into(), warnings: std::mem::take(&mut model.warnings), rounds: None, curve, groups })
    }
}

/// What a training asks: whether it is to end. Tells how far it is.
fn asking(
    progress: &mut dyn FnMut(&Progress<'_>),
) -> impl FnMut(Option<learn::family::Progress>) -> std::result::Result<(), Stop> {
    let began = Instant::now();
    move |now| {
        // Nothing but Rust is on the stack: an ERROR may come from here.
        interrupts::check();
        cut::check()?;
        if let Some(now) = now {
            progress(&Progress {
                round: u32::try_from(now.done).unwrap_or(u32::MAX),
                rounds: u32::try_from(now.of).unwrap_or(u32::MAX),
                metric: None,
                elapsed: began.elapsed(),
            });
        }
        Ok(())
    }
}

/// All training rows, in memory.
struct Gathered {
    rows: usize,
    /// Numbers of a row.
    width: usize,
    /// Where one number stands for the features of a column of categories: as in [`Problem`].
    one_hot: Vec<u32>,
    features: Vec<f32>,
    labels: Vec<f32>,
    /// One for each row, where rows have weights.
    weights: Option<Vec<f32>>,
    /// Those that a training row has, by whose numbers the labels go; none without classes.
    classes: Vec<Class>,
}

impl Gathered {
    /// `one_hot`: whether one number may stand for the features of a column; `missing`: whether values may be missing.
    fn read(rows: &Prepared<'_>, one_hot: bool, missing_values: bool) -> Result<Gathered> {
        let mut view = rows.view(false, u64::MAX);
        let compact = rows.meta.pipeline.as_ref().filter(|_| one_hot).and_then(Pipeline::compact);
        if compact.is_some() {
            view = view.compact();
        }
        let one_hot = compact.unwrap_or_default();
        let width = view.width();
        let count = usize::try_from(rows.split.train_rows()).unwrap_or(usize::MAX);
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        memory::reserve(&mut features, count.saturating_mul(width))?;
        memory::reserve(&mut labels, count.saturating_mul(rows.data.labels.len()))?;
        let mut weights = (rows.data.weighted || rows.class_weight.is_some()).then(Vec::new);
        if let Some(weights) = &mut weights {
            memory::reserve(weights, count)?;
        }
        let mut read = 0;
        while let Some(part) = view.chunk()? {
            features.extend_from_slice(part.features);
            if let (Some(weights), Some(some)) = (&mut weights, part.weights) {
                weights.extend_from_slice(some);
            }
            labels.extend_from_slice(part.labels);
            read += part.rows;
            interrupts::check();
        }
        let (groups, _) = rows.groups(!one_hot.is_empty());
        let is_missing = |(at, value): (usize, &f32)| value.is_nan() && !groups.contains(&(at % width.max(1)));
        if !missing_values && features.iter().enumerate().any(is_missing) {
            return Err(missing(rows, &features, width, (!one_hot.is_empty(), &groups)));
        }
        if weights.as_ref().is_some_and(|weights| weights.iter().all(|weight| *weight == 0.0)) {
            return Err(Error::invalid("the weights of all training rows are 0"));
        }
        let classes = rows.meta.labels.first().and_then(|label| label.classes.clone());
        let mut all = Gathered { rows: read, width, one_hot, features, labels, weights, classes: Vec::new() };
        if let Some(classes) = classes {
            all.only_classes_of_rows(classes)?;
        }
        Ok(all)
    }

    /// What is to be learnt.
    fn problem<'a>(&'a self, rows: &Prepared<'_>, categories: &'a [Option<u32>], seed: u64) -> Problem<'a> {
        Problem {
            rows: self.rows,
            width: rows.meta.pipeline.as_ref().map_or(self.width, Pipeline::width),
            features: &self.features,
            targets: rows.data.labels.len(),
            labels: &self.labels,
            classes: self.classes.len(),
            weights: self.weights.as_deref(),
            categories,
            one_hot: &self.one_hot,
            seed,
        }
    }

    /// How good the model was after each round, on some of these rows and some of those that are held out.
    fn curve(&self, rows: &Prepared<'_>, model: &dyn Predict, control: &mut Control<'_>) -> Result<Curve> {
        if model.rounds() < 2 {
            return Ok(Curve::default());
        }
        let most = curve::sample_rows(model.rounds());
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        let one_in = self.rows.div_ceil(most).max(1);
        for row in (0..self.rows).step_by(one_in) {
            features.extend_from_slice(self.features.get(row * self.width..(row + 1) * self.width).unwrap_or(&[]));
            labels.extend(self.labels.get(row));
        }
        let (mut others, mut truths) = (Vec::new(), Vec::new());
        let spread = rows.split.spread_tests(most as u64);
        // Classes that the model does not know are no part of its curve.
        let known: Vec<Option<f32>> = rows.data.class_names().iter().map(|name| self.number_of(name)).collect();
        let mut view = rows.view_of(&spread, true, most as u64);
        while let Some(part) = view.chunk()? {
            for (row, label) in part.features.chunks_exact(self.width.max(1)).zip(part.labels) {
                let label = if known.is_empty() { Some(*label) } else { known.get(*label as usize).copied().flatten() };
                if let Some(label) = label {
                    others.extend_from_slice(row);
                    truths.push(label);
                }
            }
            interrupts::check();
        }
        let train = Sample { part: Part::Train, features: &features, labels: &labels };
        let test = Sample { part: Part::Test, features: &others, labels: &truths };
        Ok(curve::of_model(model, &[train, test], control)?)
    }

    /// The number of a class that has training rows.
    fn number_of(&self, class: &str) -> Option<f32> {
        self.classes.iter().position(|own| own.text == class).map(|number| number as f32)
    }

    /// Of classes without a training row nothing can be learnt, and the model does not know them: leaves them out, and
    /// numbers the others anew.
    fn only_classes_of_rows(&mut self, mut classes: Vec<Class>) -> Result<()> {
        let mut present = vec![false; classes.len()];
        for label in &self.labels {
            if let Some(present) = present.get_mut(*label as usize) {
                *present = true;
            }
        }
        let mut next = 0;
        let numbers: Vec<f32> = present
            .iter()
            .map(|present| {
                next += u32::from(*present);
                next.saturating_sub(1) as f32
            })
            .collect();
        for label in &mut self.labels {
            *label = numbers.get(*label as usize).copied().unwrap_or(*label);
        }
        let mut kept = present.into_iter();
        classes.retain(|_| kept.next().unwrap_or(true));
        if classes.len() < 2 {
            let only = classes.first().map_or("", |class| class.text.as_str());
            return Err(super::class_weight::one_class(only));
        }
        self.classes = classes;
        Ok(())
    }
}

/// Of features where some are missing, and may not be: all their columns.
fn missing(rows: &Prepared<'_>, features: &[f32], width: usize, (compact, groups): (bool, &[usize])) -> Error {
    let mut found = vec![false; width];
    for row in features.chunks_exact(width.max(1)) {
        found.iter_mut().zip(row).for_each(|(found, value)| *found |= value.is_nan());
    }
    found.iter_mut().enumerate().filter(|(at, _)| groups.contains(at)).for_each(|(_, found)| *found = false);
    let raw: Vec<&Feature> =
        rows.data.features.iter().flat_map(|feature| std::iter::repeat_n(feature, feature.size)).collect();
    let sources = match &rows.meta.pipeline {
        Some(pipeline) if compact => pipeline.compact_sources(),
        Some(pipeline) => pipeline.sources(),
        None => (0..width).collect(),
    };
    let mut mended = Map::new();
    let mut names: Vec<String> = Vec::new();
    for (source, _) in sources.iter().zip(&found).filter(|(_, found)| **found) {
        let Some(feature) = raw.get(*source) else { continue };
        let impute = if feature.categories.is_some() { "mode" } else { "mean" };
        if mended.insert(feature.name.clone(), serde_json::json!({ "impute": impute })).is_none() {
            names.push(format!("\"{}\"", feature.name));
        }
    }
    let (columns, row) = match names.as_slice() {
        [_] => ("column", "is NULL or NaN in a training row"),
        _ => ("columns", "are NULL or NaN in training rows"),
    };
    let what = format!("{columns} {} {row}, and the algorithm takes no missing values", names.join(", "));
    Error::new(PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED, what).hint(format!(
        "Use preprocess => '{}', leave such rows out, or use an algorithm that takes missing values, such as xgboost.",
        super::defaults::quoted(&mended)
    ))
}

/// Version of the XGBoost library that the settings name.
pub fn xgboost_version() -> Result<String> {
    let (major, minor, patch) = library()?.version();
    Ok(format!("{major}.{minor}.{patch}"))
}

/// The library that the settings name. Each that was ever named stays open, as its threads do.
fn library() -> Result<&'static Library> {
    thread_local! {
        static OPEN: RefCell<Vec<(String, &'static Library)>> = const { RefCell::new(Vec::new()) };
    }
    let path = crate::guc::xgboost_library();
    if path.is_empty() {
        // To the dynamic loader an empty path is the server itself.
        let reason = "the setting is empty".to_owned();
        return Err(learn::Error::Library { path, reason }.into());
    }
    if let Some(open) = OPEN.with_borrow(|open| open.iter().find(|(name, _)| *name == path).map(|(_, open)| *open)) {
        return Ok(open);
    }
    let_threads_sleep();
    let opened: &'static Library = Box::leak(Box::new(Library::open(Path::new(&path))?));
    OPEN.with_borrow_mut(|open| open.push((path, opened)));
    Ok(opened)
}

/// Has the threads of a training sleep while they wait for each other, unless the server's environment says otherwise.
///
/// OpenMP's threads spin as they wait, which keeps the cores from the server's other work, and where there is such work
/// slows the training itself to a half or a third. The variable is read when the library is loaded.
fn let_threads_sleep() {
    // SAFETY: both are C strings. Nothing is written when the variable is there, and when it is not yet, the library
    // has not been loaded: a backend has no thread but this one that could read the environment meanwhile.
    unsafe { libc::setenv(c"OMP_WAIT_POLICY".as_ptr(), c"passive".as_ptr(), 0) };
}

/// Rows that the metric in progress reports is measured on, unless early stopping needs them all.
const PROGRESS_ROWS: u64 = 20_000;

/// Training rows that a learning curve is measured on.
const CURVE_ROWS: u64 = 10_000;

struct Xgboost {
    library: &'static Library,
    algorithm: Algorithm,
    task: Task,
    hyperparams: Map<String, Value>,
    /// With a number of classes that is a guess.
    params: Params,
    least_rows: Option<usize>,
}

impl Xgboost {
    fn open(algorithm: Algorithm, task: Task, hyperparams: &Map<String, Value>) -> Result<Xgboost> {
        let library = library()?;
        // How many classes there are is known only after the last row. What is wrong with any number of them is wrong
        // with the one that is given, or else with two and with three.
        let given = hyperparams.get("num_class").and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
        let guesses = match (task, given) {
            (Task::Classification, Some(classes)) => vec![LearnTask::Classification { classes }],
            (Task::Classification, None) => {
                vec![LearnTask::Classification { classes: 2 }, LearnTask::Classification { classes: 3 }]
            }
            _ => vec![LearnTask::Regression],
        };
        let mut failure = None;
        for guess in guesses {
            match Params::parse(algorithm, guess, hyperparams) {
                Ok(params) => {
                    return Ok(Xgboost {
                        library,
                        algorithm,
                        task,
                        hyperparams: hyperparams.clone(),
                        params,
                        least_rows: None,
                    });
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let failure = failure.map(|error| match task {
            Task::Classification => ClassWeight::or_meant(error),
            _ => error,
        });
        Err(failure.map_or_else(|| Error::invalid("hyperparams cannot be read"), Error::from))
    }

    /// The parameters, now that the number of classes is known.
    fn params(&self, classes: Option<usize>) -> Result<Params> {
        let task = match (self.task, classes) {
            (Task::Classification, Some(classes)) => {
                LearnTask::Classification { classes: u32::try_from(classes).unwrap_or(u32::MAX) }
            }
            _ => LearnTask::Regression,
        };
        let mut params = Params::parse(self.algorithm, task, &self.hyperparams)?;
        params.default_nthread(u32::try_from(crate::guc::omp_num_threads()).unwrap_or(1));
        Ok(params)
    }
}

impl Xgboost {
    /// Trains a model for each group, each by one thread.
    fn train_groups(
        &self,
        prepared: &Prepared<'_>,
        (at, finished): (Vec<usize>, Vec<usize>),
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Fitted> {
        let all = match prepared.kept.take().and_then(|kept| kept.downcast::<Gathered>().ok()) {
            Some(kept) => *kept,
            None => Gathered::read(prepared, false, true)?,
        };
        let mut meta = prepared.meta.clone();
        if let Some(label) = meta.labels.first_mut().filter(|label| label.classes.is_some()) {
            label.classes = Some(all.classes.clone());
        }
        let own = prepared.features().into_iter().enumerate().filter(|(place, _)| !finished.contains(place));
        let columns = columns(own.map(|(_, feature)| feature))?;
        let (library, algorithm, hyperparams) = (self.library, self.algorithm, &self.hyperparams);
        let fit = |problem: &Problem<'_>, control: &mut Control<'_>| {
            let task = match problem.classes {
                0 => LearnTask::Regression,
                classes => LearnTask::Classification { classes: u32::try_from(classes).unwrap_or(u32::MAX) },
            };
            let mut params = Params::parse(algorithm, task, hyperparams)?;
            params.default_nthread(1);
            let (features, labels, weights) = (problem.features, problem.labels, problem.weights);
            let mut rows = Whole { width: problem.width, chunk: Chunk { features, labels, weights }, given: false };
            let trained = learn::xgboost::train(library, &params, &columns, &mut rows, None, &[], &mut |_| {
                control.check().map_err(|error| Box::new(error) as Stop)
            })?;
            Ok(grouped::of_xgboost(trained.model, problem.classes > 0))
        };
        let mut ask = asking(progress);
        let least_rows = self.least_rows.unwrap_or(LEAST_ROWS);
        let groups =
            Groups { at: &at, finished: &finished, least_rows, threads: guc::omp_num_threads().max(1) as usize };
        let problem = all.problem(prepared, &[], 0);
        let (model, found) = grouped::fit(&problem, &groups, &fit, &mut Control::new(&mut ask))?;
        let groups = groups::named(prepared.data, found);
        let bytes = model.to_bytes(&[
            (model_meta::ATTRIBUTE.to_owned(), meta.to_json()),
            (model_meta::ALGORITHM.to_owned(), self.algorithm.name().to_owned()),
        ])?;
        *prepared.kept.borrow_mut() = Some(Box::new(all));
        Ok(Fitted { model: bytes, warnings: model.warnings, rounds: None, curve: Curve::default(), groups })
    }
}

/// Rows that are all in memory.
struct Whole<'a> {
    width: usize,
    chunk: Chunk<'a>,
    given: bool,
}

impl Rows for Whole<'_> {
    fn width(&self) -> usize {
        self.width
    }

    fn rewind(&mut self) -> std::result::Result<(), Stop> {
        self.given = false;
        Ok(())
    }

    fn next(&mut self) -> std::result::Result<Option<Chunk<'_>>, Stop> {
        Ok((!std::mem::replace(&mut self.given, true)).then_some(self.chunk))
    }
}

impl Engine for Xgboost {
    fn rehearse(&self, features: &[(String, FeatureKind)]) -> Result<()> {
        // Any number of categories will do.
        let columns = columns(features.iter().map(|(name, kind)| (name.clone(), *kind, 4)))?;
        self.params.dry_run(self.library, &columns).map_err(refused_hyperparameters)?;
        Ok(())
    }

    fn stops_early(&self) -> bool {
        self.params.early_stopping_rounds().is_some()
    }

    fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    fn takes_categories(&self) -> bool {
        true
    }

    fn path(&self, grouped: bool) -> &'static str {
        if grouped { model_meta::FAMILY_PATH } else { model_meta::XGBOOST_PATH }
    }

    fn require_groups(&self) -> Result<()> {
        let objective = self.params.objective();
        let known = match self.task {
            Task::Classification => ["binary:logistic", "multi:softprob"].contains(&objective),
            _ => !objective.starts_with("survival:") && !objective.starts_with("rank:"),
        };
        let what = if self.stops_early() {
            "early_stopping_rounds".to_owned()
        } else if self.hyperparams.contains_key("xgb_model") {
            "xgb_model".to_owned()
        } else if !known {
            format!("objective \"{objective}\"")
        } else {
            return Ok(());
        };
        Err(Error::unsupported(format!("group_by takes no {what}"))
            .hint("Leave it out, or train a project for each group."))
    }

    fn takes_weights(&self) -> bool {
        true
    }

    fn train(&self, prepared: &Prepared<'_>, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<Fitted> {
        let groups = prepared.groups(false);
        if !groups.0.is_empty() {
            return self.train_groups(prepared, groups, progress);
        }
        let mut params = self.params(prepared.data.classes())?;
        if let Some(rounds) = prepared.rounds {
            params.fix_rounds(rounds);
        }
        let columns = columns(prepared.features().into_iter())?;
        let attributes = [(model_meta::ATTRIBUTE.to_owned(), prepared.meta.to_json())];

        let limit = if self.stops_early() { u64::MAX } else { PROGRESS_ROWS };
        let kept = prepared.kept.take().and_then(|kept| kept.downcast::<(u64, Matrices<'static>)>().ok());
        let kept = match kept.filter(|kept| kept.0 == limit && kept.1.serve(&params, &columns)) {
            Some(kept) => kept,
            None => {
                let mut rows = prepared.view(false, u64::MAX);
                // Tables are sorted more often than not: the first rows would be those of a few weeks.
                let spread = prepared.split.spread_tests(limit);
                let mut held_out = (spread.test_rows() > 0).then(|| prepared.view_of(&spread, true, limit));
                let held_out = held_out.as_mut().map(|view| view as &mut dyn learn::rows::Rows);
                let some = prepared.split.spread_trains(CURVE_ROWS);
                let mut sample = prepared.curve.then(|| prepared.view_of(&some, true, CURVE_ROWS));
                let sample = sample.as_mut().map(|view| view as &mut dyn learn::rows::Rows);
                Box::new((limit, Matrices::read(self.library, &params, &columns, &mut rows, held_out, sample)?))
            }
        };
        if let Some(base) = prepared.base {
            base.check(&prepared.meta, &params)?;
        }
        let from = prepared.base.map(|base| base.bytes.as_slice());
        let mut curve = Curve::default();
        let asked = prepared.curve.then_some(&mut curve);
        let trained = kept.1.go_on(from, &params, &attributes, asked, &mut |round| {
            // Between rounds the library is not on the stack: an ERROR may come from here.
            interrupts::check();
            cut::check()?;
            progress(&Progress {
                round: round.round,
                rounds: round.total,
                metric: round.metrics.last().map(|metric| (metric.name.as_str(), metric.value)),
                elapsed: round.elapsed,
            });
            Ok(())
        })?;
        let mut warnings = params.warnings().to_vec();
        warnings.extend(trained.warnings);
        *prepared.kept.borrow_mut() = Some(kept);
        let rounds = trained.best_iteration.map(|_| trained.rounds);
        // A single round is no curve.
        if trained.rounds_trained < 2 {
            curve = Curve::default();
        }
        Ok(Fitted { model: trained.model, warnings, rounds, curve, groups: Vec::new() })
    }
}

/// What the library refuses in a rehearsal are the values of hyperparameters.
fn refused_hyperparameters(error: learn::Error) -> Error {
    match error {
        learn::Error::Refused(reason) => Error::invalid(format!("hyperparams are refused: {reason}")),
        error => error.into(),
    }
}

fn columns(features: impl Iterator<Item = (String, FeatureKind, usize)>) -> Result<Columns> {
    let columns = features
        .map(|(name, kind, categories)| Column {
            name,
            kind: match kind {
                FeatureKind::Quantity => ColumnKind::Quantitative,
                FeatureKind::Integer => ColumnKind::Integer,
                FeatureKind::Boolean => ColumnKind::Indicator,
                // A text column that is NULL everywhere has no category; its only value is missing.
                FeatureKind::Category => {
                    ColumnKind::Categorical { categories: u32::try_from(categories.max(1)).unwrap_or(u32::MAX) }
                }
            },
        })
        .collect();
    Ok(Columns::new(columns)?)
}

impl From<learn::Error> for Error {
    fn from(error: learn::Error) -> Error {
        use learn::Error as Learn;
        use pgrx::PgSqlErrorCode as Code;
        let message = error.to_string();
        match error {
            Learn::Library { .. } | Learn::Version { .. } => Error::new(Code::ERRCODE_UNDEFINED_FILE, message).hint(
                "Training needs the XGBoost library where the setting pgml.xgboost_library says; predictions do not.",
            ),
            Learn::LightGbmLibrary { .. } => Error::new(Code::ERRCODE_UNDEFINED_FILE, message).hint(
                "Training by lightgbm needs its library where the setting pgml.lightgbm_library says (for example, the \
                 lib_lightgbm.so that \"pip install lightgbm\" brings), and the system's libgomp.so.1; predictions need neither. \
                 howdah-server finds the library of its own environment: \"pip install lightgbm\", then \
                 \"howdah-server down\" and \"howdah-server up\".",
            ),
            Learn::UnknownParameter { .. } | Learn::InvalidParameter { .. } | Learn::DuplicateParameter { .. } => {
                Error::invalid(message)
            }
            Learn::Memory => Error::new(Code::ERRCODE_OUT_OF_MEMORY, message)
                .detail("The training library, or the buffer of rows for it, asked for more memory than is available."),
            Learn::NoRows(_) => Error::new(Code::ERRCODE_NO_DATA_FOUND, message),
            Learn::Infinite { .. } => Error::new(Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, message),
            Learn::Split(_)
            | Learn::Task(_)
            | Learn::TooManyRows { .. }
            | Learn::Diverged(_)
            | Learn::Search(_)
            | Learn::Columns(_)
            | Learn::Category { .. }
            | Learn::Label { .. }
            | Learn::Weight { .. } => Error::invalid(message),
            Learn::Model(_) => Error::corrupted(message),
            Learn::Refused(_) => Error::new(Code::ERRCODE_EXTERNAL_ROUTINE_EXCEPTION, message)
                .hint("Check that the hyperparameters, above all the objective, fit the columns and the label."),
            Learn::Stopped(stop) => match stop.downcast::<Error>() {
                Ok(error) => *error,
                Err(stop) if stop.is::<Interrupted>() => {
                    interrupts::check();
                    Error::new(Code::ERRCODE_QUERY_CANCELED, "canceling training due to an interrupt")
                }
                // A panic, perhaps an ERROR of PostgreSQL on its way: on it goes.
                Err(stop) => std::panic::resume_unwind(stop),
            },
            _ => Error::new(PgSqlErrorCode::ERRCODE_EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, message),
        }
    }
}
