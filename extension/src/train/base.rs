//! The model that a training goes on from: the hyperparameter `xgb_model`.

use learn::family::Stored;
use learn::side::By;
use learn::split::Split;
use learn::xgboost::Params;
use pgrx::{PgSqlErrorCode, pg_sys};
use serde_json::Value;

use super::columns::Data;
use super::cursor::ResultColumn;
use super::request::Request;
use super::sides::SideReader;
use crate::access::{self, Privilege};
use crate::error::{Error, Result};
use crate::model::describe;
use crate::model_meta::{FeatureColumn, ModelMeta};
use crate::registry::{self, Project};
use crate::{lookup, names};

/// A stored model of XGBoost's, and what a training must have in common with it.
pub struct Base {
    id: i64,
    pub bytes: Vec<u8>,
    meta: ModelMeta,
    objective: String,
    booster: &'static str,
    /// Not read from a file.
    trained_here: bool,
}

impl Base {
    /// The model that the hyperparameters name; `None` where they name none. As it was before it was fitted again on all
    /// rows where this training is to be `refitted` too: what it holds out has not been seen by the model then, either.
    pub fn find(request: &Request, project: Option<&Project>, refitted: bool) -> Result<Option<Base>> {
        let id = match request.hyperparams.get("xgb_model") {
            // Other algorithms have no such hyperparameter, and say so.
            _ if request.algorithm != "xgboost" => return Ok(None),
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(word)) if word == "deployed" => deployed(request, project)?,
            Some(value) => match value.as_i64() {
                Some(id) => id,
                None => return Ok(None),
            },
        };
        if request.search.is_some() {
            return Err(Error::invalid("a search cannot continue the training of a model")
                .hint("Leave xgb_model or search out."));
        }
        // Of the project itself, whoever trains it may build on what is there.
        let own = project.is_some_and(|project| {
            registry::project_of_model(id).is_ok_and(|of| of.is_some_and(|of| of.id == project.id))
        });
        if !own {
            access::require_of_model(id, Privilege::Export)?;
        }
        Base::read(id, if refitted { lookup::unseen_model_bytes } else { lookup::model_bytes }).map(Some)
    }

    /// The model as it answers, which has seen all rows of its training if it was fitted again.
    pub fn whole(&self) -> Result<Base> {
        Base::read(self.id, lookup::model_bytes)
    }

    fn read(id: i64, bytes: fn(i64, pg_sys::Snapshot) -> Result<Vec<u8>>) -> Result<Base> {
        let bytes = names::with_latest(|snapshot| bytes(id, snapshot))?;
        if bytes.is_empty() {
            return Err(names::no_such_model(id));
        }
        if Stored::is_one(&bytes) {
            return Err(Error::invalid(format!(
                "model {id} is not a model of XGBoost, so xgboost cannot continue its training"
            )));
        }
        let ensemble = forest::xgboost::read(&bytes)
            .map_err(|error| Error::corrupted(format!("the stored model cannot be read: {error}")))?;
        let meta = describe(&ensemble)?;
        let weighted = ensemble.trees.iter().any(|tree| tree.weight.is_some());
        let booster = if ensemble.linear.is_some() {
            "gblinear"
        } else if weighted {
            "dart"
        } else {
            "gbtree"
        };
        let trained_here = registry::snapshot_of_model(id)?.is_some();
        Ok(Base { id, bytes, meta, objective: ensemble.objective, booster, trained_here })
    }

    /// The columns of its rows.
    pub fn columns(&self) -> &[FeatureColumn] {
        &self.meta.columns
    }

    /// What tells which of these rows its training held out; `None` where nothing can.
    pub fn sides(&self, labels: &[String], columns: &[ResultColumn]) -> Option<SideReader> {
        let rule = self.meta.split.as_ref().filter(|_| self.trained_here)?;
        SideReader::new((self.id, rule), self.meta.task, &self.meta.labels, Some(labels), columns).ok()
    }

    /// What the hashes were seeded with by which it held rows out.
    pub fn seed_of_sides(&self) -> Option<u64> {
        let rule = self.meta.split.as_ref().filter(|rule| self.trained_here && rule.has_tests())?;
        matches!(rule.by, By::Content(_) | By::Key(_) | By::Group(_)).then_some(rule.seed)
    }

    /// Why the rows that are held out say nothing of what is made of it: it was trained on them.
    pub fn has_seen(&self, data: &Data, split: &Split) -> Option<String> {
        let tests = split.test_rows();
        if tests == 0 {
            return None;
        }
        let what = match &data.base {
            None => "it is not known which rows it was trained on, and they may be among them",
            Some(base) if split.both(base).test_rows() * 20 < tests * 19 => "it was trained on many of them",
            Some(_) => return None,
        };
        Some(format!(
            "the metrics are of {} held out, but not from model {}, whose training is continued: {what}. Train with the \
             test_size, test_sampling, random_state and roles of columns that it was trained with",
            learn::count(tests, "row"),
            self.id
        ))
    }

    /// Has the columns keep the origins that they have in the model, whose trees know no others.
    pub fn place(&self, data: &mut Data) {
        for feature in &mut data.features {
            let own =
                self.meta.columns.iter().find(|own| own.name == feature.name && own.size as usize == feature.size);
            feature.origins = own.map(|own| own.origins.clone()).unwrap_or_default();
        }
    }

    /// Has columns prepared as they were for the model, where the same is asked for: its trees know the means, scales and
    /// so on that were learnt then, and not those of the rows that are new.
    pub fn prepare(&self, meta: &mut ModelMeta) {
        // What the model knows it goes on knowing.
        for (own, new) in self.meta.columns.iter().zip(&mut meta.columns) {
            new.empty.retain(|bucket| own.empty.binary_search(bucket).is_ok());
        }
        if let (Some(own), Some(new)) = (&self.meta.pipeline, &meta.pipeline)
            && own.is_like(new)
        {
            meta.pipeline = Some(own.clone());
        }
    }

    /// That the rows of this training have the same features and classes, and it the same aim.
    pub fn check(&self, meta: &ModelMeta, params: &Params) -> Result<()> {
        let id = self.id;
        let differs = |what: String| {
            let code = PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE;
            Err(Error::new(code, format!("the training of model {id} cannot be continued: {what}")))
        };
        let alike = match (&self.meta.pipeline, &meta.pipeline) {
            (None, None) => true,
            (Some(own), Some(new)) => own.is_like(new),
            _ => false,
        };
        if !alike {
            return differs("the model's preprocess differs from the preprocess of this training".to_owned());
        }
        if self.meta.columns.len() != meta.columns.len() {
            let (own, new) = (self.meta.columns.len(), meta.columns.len());
            return differs(format!("the model has {}, but the rows have {new}", learn::count(own, "column")));
        }
        for (own, new) in self.meta.columns.iter().zip(&meta.columns) {
            if own.name != new.name || own.size != new.size {
                return differs(format!(
                    "the rows have column \"{}\" (features: {}) in place of the model's column \"{}\" (features: {})",
                    new.name, new.size, own.name, own.size
                ));
            }
            if own.categories != new.categories || own.hashed != new.hashed {
                return differs(format!("column \"{}\" has other categories in the model than in the rows", own.name));
            }
        }
        let classes = |meta: &ModelMeta| -> Option<Vec<String>> {
            let classes = meta.labels.first()?.classes.as_ref()?;
            Some(classes.iter().map(|class| class.text.clone()).collect())
        };
        let (own, new) = (classes(&self.meta), classes(meta));
        if own != new {
            let list = |classes: Option<Vec<String>>| classes.unwrap_or_default().join(", ");
            return differs(format!(
                "the model's classes are {}, but the classes of the rows are {}",
                list(own),
                list(new)
            ));
        }
        if self.objective != params.objective() {
            return differs(format!(
                "the model's objective is \"{}\", but the objective of this training is \"{}\"",
                self.objective,
                params.objective()
            ));
        }
        if self.booster != params.booster() {
            return differs(format!(
                "the model's booster is \"{}\", but the booster of this training is \"{}\"",
                self.booster,
                params.booster()
            ));
        }
        Ok(())
    }
}

fn deployed(request: &Request, project: Option<&Project>) -> Result<i64> {
    let name = &request.project_name;
    let missing =
        || Error::undefined(format!("project \"{name}\" has no deployed model whose training could be continued"));
    let project = project.ok_or_else(missing)?;
    registry::deployed_model(project.id)?.ok_or_else(missing)
}
