//! The engines that train, behind one interface: the only place that knows which algorithms there are.

use std::path::Path;
use std::time::Duration;

use learn::split::Split;
use learn::xgboost::{Algorithm, Column, ColumnKind, Columns, Library, Params, Task as LearnTask};
use pgrx::PgSqlErrorCode;
use serde_json::{Map, Value};

use super::columns::{Data, FeatureKind};
use super::interrupts::{self, Interrupted};
use super::view::View;
use crate::error::{Error, Result};
use crate::model_meta::{self, Task};

/// Algorithms that are offered.
pub const ALGORITHMS: [&str; 2] = ["xgboost", "xgboost_random_forest"];

/// A training that was asked for: algorithm and hyperparameters, found to be possible.
pub trait Engine {
    /// Looks at hyperparameters that refer to columns, before any row is read.
    fn rehearse(&self, features: &[(String, FeatureKind)]) -> Result<()>;

    /// Whether rows to measure on are needed to know when to stop.
    fn stops_early(&self) -> bool;

    /// Trains on the rows that are not test rows.
    fn train(&self, data: &Data, split: &Split, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<Fitted>;
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
}

/// Finds the engine of an algorithm and checks the hyperparameters.
pub fn open(algorithm: &str, task: Task, hyperparams: &Map<String, Value>) -> Result<Box<dyn Engine>> {
    match algorithm {
        "xgboost" => Ok(Box::new(Xgboost::open(Algorithm::Xgboost, task, hyperparams)?)),
        "xgboost_random_forest" => Ok(Box::new(Xgboost::open(Algorithm::XgboostRandomForest, task, hyperparams)?)),
        _ => Err(Error::unsupported(format!("algorithm \"{algorithm}\" is not supported"))
            .detail(format!("Supported are {}.", ALGORITHMS.join(" and ")))
            .hint("Use algorithm => 'xgboost'.")),
    }
}

/// Version of the XGBoost library that the settings name.
pub fn xgboost_version() -> Result<String> {
    let (major, minor, patch) = library()?.version();
    Ok(format!("{major}.{minor}.{patch}"))
}

fn library() -> Result<Library> {
    let path = crate::guc::xgboost_library();
    if path.is_empty() {
        // To the dynamic loader an empty path is the server itself.
        let reason = "the setting is empty".to_owned();
        return Err(learn::Error::Library { path, reason }.into());
    }
    let_threads_sleep();
    Ok(Library::open(Path::new(&path))?)
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

struct Xgboost {
    library: Library,
    algorithm: Algorithm,
    task: Task,
    hyperparams: Map<String, Value>,
    /// With a number of classes that is a guess.
    params: Params,
}

impl Xgboost {
    fn open(algorithm: Algorithm, task: Task, hyperparams: &Map<String, Value>) -> Result<Xgboost> {
        let library = library()?;
        // How many classes there are is known only after the last row. What is wrong with any number of them is wrong
        // with the one that is given, or else with two and with three.
        let given = hyperparams.get("num_class").and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok());
        let guesses = match (task, given) {
            (Task::Regression, _) => vec![LearnTask::Regression],
            (Task::Classification, Some(classes)) => vec![LearnTask::Classification { classes }],
            (Task::Classification, None) => {
                vec![LearnTask::Classification { classes: 2 }, LearnTask::Classification { classes: 3 }]
            }
        };
        let mut failure = None;
        for guess in guesses {
            match Params::parse(algorithm, guess, hyperparams) {
                Ok(params) => {
                    return Ok(Xgboost { library, algorithm, task, hyperparams: hyperparams.clone(), params });
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
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

impl Engine for Xgboost {
    fn rehearse(&self, features: &[(String, FeatureKind)]) -> Result<()> {
        // Any number of categories will do.
        let columns = columns(features.iter().map(|(name, kind)| (name.clone(), *kind, 4)))?;
        self.params.dry_run(&self.library, &columns).map_err(refused_hyperparameters)?;
        Ok(())
    }

    fn stops_early(&self) -> bool {
        self.params.early_stopping_rounds().is_some()
    }

    fn train(&self, data: &Data, split: &Split, progress: &mut dyn FnMut(&Progress<'_>)) -> Result<Fitted> {
        let params = self.params(data.label.classes.as_ref().map(|classes| classes.len()))?;
        let kinds = data.features.iter().flat_map(|feature| {
            let categories = feature.categories.as_ref().map_or(0, |sorted| sorted.values.len());
            std::iter::repeat_n((feature.kind, categories), feature.size)
        });
        let columns = columns(data.feature_names().into_iter().zip(kinds).map(|(name, (kind, n))| (name, kind, n)))?;
        let attributes = [(model_meta::ATTRIBUTE.to_owned(), data.meta().to_json())];

        let mut rows = View::new(data, split, false, u64::MAX);
        let limit = if self.stops_early() { u64::MAX } else { PROGRESS_ROWS };
        let mut held_out = (split.test_rows() > 0).then(|| View::new(data, split, true, limit));
        let trained = learn::xgboost::train(
            &self.library,
            &params,
            &columns,
            &mut rows,
            held_out.as_mut().map(|view| view as &mut dyn learn::rows::Rows),
            &attributes,
            &mut |round| {
                // Between rounds the library is not on the stack: an ERROR may come from here.
                interrupts::check();
                progress(&Progress {
                    round: round.round,
                    rounds: round.total,
                    metric: round.metrics.last().map(|metric| (metric.name.as_str(), metric.value)),
                    elapsed: round.elapsed,
                });
                Ok(())
            },
        )?;
        let mut warnings = params.warnings().to_vec();
        warnings.extend(trained.warnings);
        Ok(Fitted { model: trained.model, warnings })
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
            Learn::UnknownParameter { .. } | Learn::InvalidParameter { .. } | Learn::DuplicateParameter { .. } => {
                Error::invalid(message)
            }
            Learn::Memory => Error::new(Code::ERRCODE_OUT_OF_MEMORY, message)
                .detail("The training library, or the rows on their way to it, asked for more than there is."),
            Learn::NoRows(_) => Error::new(Code::ERRCODE_NO_DATA_FOUND, message),
            Learn::Infinite { .. } => Error::new(Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, message),
            Learn::Split(_)
            | Learn::Task(_)
            | Learn::Columns(_)
            | Learn::Category { .. }
            | Learn::Label { .. }
            | Learn::Weight { .. } => Error::invalid(message),
            Learn::Refused(_) => Error::new(Code::ERRCODE_EXTERNAL_ROUTINE_EXCEPTION, message)
                .hint("Do the hyperparameters, the objective above all, fit the columns and the label?"),
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
