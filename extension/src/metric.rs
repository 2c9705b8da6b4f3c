//! By which metric the models of a project are compared: that of the task, one of pgml's that was named, or an aggregate
//! function of the caller's own over pairs of a label and a prediction.

use learn::family::Control;
use learn::metrics::{self, Named};
use pgrx::datum::DatumWithOid;
use pgrx::{PgSqlErrorCode, Spi, pg_sys};
use serde_json::{Map, Value};

use crate::access;
use crate::error::{Error, Result};
use crate::model_meta::Task;
use crate::registry::{self, Project};

/// A metric, and which way is better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    name: String,
    larger: bool,
    /// Whether it is an aggregate function, called by its qualified name.
    own: bool,
    /// Whether nobody has named it.
    by_default: bool,
}

impl Metric {
    /// That of a task, unless another is asked for.
    pub fn of_task(task: Task) -> Metric {
        let name = match task {
            Task::Regression => "r2",
            Task::Classification => "f1",
            Task::Clustering => "silhouette",
            Task::Decomposition => "standardised_explained_variance",
            Task::Anomaly => "outlier_share",
            Task::Forecast => "mase",
        };
        Metric { by_default: true, ..Metric::named(name) }
    }

    /// What decides where the difference by this metric is within the noise: the f1 of a rare class depends on a handful of
    /// predictions around 0.5, and is 0 for whoever predicts no row of it; the area under the ROC curve is of all rows.
    pub fn second(&self) -> Option<Metric> {
        (self.by_default && self.name == "f1").then(|| Metric::named("roc_auc"))
    }

    /// By which candidates are compared in an automatic choice: where nobody has named a metric, by one that all predictions
    /// have a part in, not only those near 0.5.
    pub fn of_choice(&self, classes: Option<usize>) -> Metric {
        match classes {
            Some(2) if self.by_default => Metric::named("roc_auc"),
            Some(_) if self.by_default => Metric::named("log_loss"),
            _ => self.clone(),
        }
    }

    /// One of pgml's.
    pub fn named(name: &str) -> Metric {
        // One's own has a qualified name.
        let smaller = !name.contains('.')
            && ["error", "loss", "davies_bouldin", "inertia", "brier", "mase", "smape", "crps"]
                .iter()
                .any(|part| name.contains(part));
        Metric { name: name.to_owned(), larger: !smaller, own: false, by_default: false }
    }

    /// The one that a training asks for, or that the project remembers.
    pub fn find(asked: Option<&str>, project: Option<&Project>, task: Task) -> Result<Metric> {
        let remembered = project.and_then(|project| project.metric.as_deref());
        let Some(name) = asked.or(remembered) else { return Ok(Metric::of_task(task)) };
        let names = names(task)?;
        if names.contains(&name) {
            return Ok(Metric::named(name));
        }
        let Some((name, owner)) = aggregate(name)? else {
            let error = Error::undefined(format!(
                "a {} has no metric \"{name}\", and there is no such aggregate function",
                task.name()
            ));
            return Err(error.hint(format!(
                "The metrics are {}. An aggregate function of one's own takes (double precision, double precision), the label \
                 and the prediction.",
                names.join(", ")
            )));
        };
        if !task.has_label() || task == Task::Forecast {
            return Err(Error::unsupported(format!(
                "a {} has no predictions of rows, which aggregate function {name} takes",
                task.name()
            )));
        }
        // It runs with the rights of this role, which has not named it.
        if asked.is_none() && !access::role_acts_as(owner, access::user()) {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!(
                    "the metric of the project is aggregate function {name} of role \"{}\"",
                    access::role_name(owner)
                ),
            )
            .hint("Name the metric."));
        }
        Ok(Metric { name, larger: true, own: true, by_default: false })
    }

    /// The metric by which the stored ones of a project's models are compared.
    pub fn of_project(project: &Project, task: Task) -> Metric {
        match &project.metric {
            None => Metric::of_task(task),
            Some(name) => Metric::named(name),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it takes pairs of labels and predictions, and is not among the model's metrics.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Whether it is of the class that is looked for.
    pub fn is_of_class(&self) -> bool {
        matches!(self.name.as_str(), "f1" | "precision" | "recall" | "average_precision")
    }

    /// Its value among others.
    pub fn of(&self, metrics: &Map<String, Value>) -> Option<f64> {
        metrics.get(&self.name).and_then(Value::as_f64)
    }

    /// Its value among those of a model that looked for another class than this one, perhaps; of a model of before pgml 3.3.0
    /// that was the second of two.
    pub fn of_class(&self, metrics: &Map<String, Value>, class: Option<&str>, is_second: bool) -> Option<f64> {
        let own = metrics.get("positive_class").and_then(Value::as_str);
        let alike = own == class || own.is_none() && is_second;
        match self.name.as_str() {
            name if self.is_of_class() && !alike => metrics.get("classes")?.get(class?)?.get(name)?.as_f64(),
            _ => self.of(metrics),
        }
    }

    /// What the aggregate function makes of these, with the rights of the caller.
    pub fn of_pairs(&self, labels: Vec<f64>, predictions: Vec<f64>) -> Result<Option<f64>> {
        let statement = format!(
            "SELECT {}(l, p)::pg_catalog.float8 FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) AS r (l, p)",
            self.name
        );
        // SAFETY: the oid is the type's own; the datum is made for the length of the call.
        let array = |values: Vec<f64>| unsafe { DatumWithOid::new(values, pg_sys::FLOAT8ARRAYOID) };
        let arguments = [array(labels), array(predictions)];
        Spi::connect_mut(|client| Ok(client.update(&statement, Some(1), &arguments)?.first().get_one::<f64>()?))
    }

    /// The value so that larger is better.
    pub fn upwards(&self, value: f64) -> f64 {
        if self.larger { value } else { -value }
    }

    /// The standard error of a score of so many rows, about: of errors, and of what they explain, that of a mean of squares of
    /// normal errors, of others that of a share.
    pub fn error(&self, score: f64, rows: u64) -> f64 {
        let squares = (2.0 / rows as f64).sqrt();
        match self.name() {
            "r2" => (1.0 - score).abs() * squares,
            _ if self.larger && (0.0..=1.0).contains(&score) => (score * (1.0 - score) / rows as f64).sqrt(),
            _ => score.abs() * squares,
        }
    }

    /// To six digits, as scores are shown: float32 tells no more.
    pub fn at_least_as_good(&self, value: f64, other: f64) -> bool {
        self.upwards(value) >= self.upwards(other) - 5e-7
    }
}

/// The names of all metrics of a task.
pub fn names(task: Task) -> Result<Vec<&'static str>> {
    let all: Vec<Named> = match task {
        Task::Regression => metrics::Regression::new().all(),
        Task::Classification => metrics::Classification::new(2).all(),
        Task::Clustering => metrics::Clustering::new(1, 0).all(&mut Control::new(&mut |_| Ok(())))?,
        Task::Decomposition => metrics::Decomposition::new(1, 1)?.all(),
        Task::Anomaly => metrics::Outliers::default().all(),
        Task::Forecast => return Ok(crate::train::FORECAST_METRICS.to_vec()),
    };
    Ok(all.into_iter().map(|(name, _)| name).collect())
}

/// The qualified name of an aggregate function over two float8, and its owner.
fn aggregate(name: &str) -> Result<Option<(String, pg_sys::Oid)>> {
    if name.contains(['(', ')', ';']) {
        return Ok(None);
    }
    let arguments = [registry::argument(format!("{name}(double precision, double precision)"))];
    Spi::connect_mut(|client| {
        let rows = client.update(
            "SELECT pg_catalog.format('%I.%I', n.nspname, p.proname), p.proowner FROM pg_catalog.pg_proc p
             INNER JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
             WHERE p.oid OPERATOR(pg_catalog.=) pg_catalog.to_regprocedure($1) AND p.prokind OPERATOR(pg_catalog.=) 'a'",
            Some(1),
            &arguments,
        )?;
        let found = registry::collect(rows, &mut |tuple| Ok((registry::value(tuple, 1)?, registry::value(tuple, 2)?)))?;
        Ok(found.into_iter().next())
    })
}
