//! The description of a stored model: the columns that it was trained from, and the meaning of its outputs. It is JSON,
//! in the booster attribute `pgml`.
//!
//! A model is self-describing: its bytes alone, in whatever database, are enough to predict from a whole row and to
//! name classes.

pub use learn::family::Task;
use learn::preprocess::Pipeline;
use learn::side::Rule;
use serde_json::{Map, Value, json};

/// Booster attribute that holds the JSON.
pub const ATTRIBUTE: &str = "pgml";

/// Attribute of a stored model of a family that names its algorithm, which its form does not tell.
pub const ALGORITHM: &str = "algorithm";

/// Where a model's bytes stand in `pgml.files`: as XGBoost saves it.
pub const XGBOOST_PATH: &str = "model.ubj";

/// The same, of a model that was saved as text and brought here so.
pub const XGBOOST_TEXT_PATH: &str = "model.json";

/// Where a model's bytes stand in `pgml.files`: as other families are stored.
pub const FAMILY_PATH: &str = "model.safetensors";

/// Whether the bytes stand there of the model that answers; a model has one of them.
pub fn is_model_path(path: &str) -> bool {
    path == XGBOOST_PATH || path == FAMILY_PATH || path == XGBOOST_TEXT_PATH
}

/// Where stands which rows of its training a model was trained on, or which ones were held out.
pub const ROWS_PATH: &str = "remembered_rows";

/// Where stands what is known of the groups of rows that each have a model.
pub const GROUPS_PATH: &str = "groups.json";

/// Before the path of a model that was fitted again on all rows: there stands the fit that has not seen the rows held out.
const HELD_OUT: &str = "held_out/";

/// Where the fit stands that has not seen the rows held out, of a model that stands at `path` and has seen them.
pub fn held_out_path(path: &str) -> String {
    format!("{HELD_OUT}{path}")
}

/// Whether the bytes of such a fit stand there.
pub fn is_held_out_path(path: &str) -> bool {
    path.strip_prefix(HELD_OUT).is_some_and(is_model_path)
}

/// Versions of the description that are read. The first knew one label and no preprocessing, and is still written where
/// there is nothing else to say; the third knows origins, without which predictions are wrong.
const VERSIONS: [u64; 3] = [1, 2, 3];

#[derive(Debug, Clone, PartialEq)]
pub struct ModelMeta {
    pub task: Task,
    /// In the order of the features.
    pub columns: Vec<FeatureColumn>,
    /// One; several in a joint regression; none in a clustering or decomposition.
    pub labels: Vec<LabelColumn>,
    /// What is done to a row before the model sees it.
    pub pipeline: Option<Pipeline>,
    /// Which rows were held out of its training, where that is known.
    pub split: Option<Rule>,
    /// Of a classification, the class that is looked for, as text: f1, precision, recall and curves are of it. Of two classes
    /// it is the second where nothing is said.
    pub positive: Option<String>,
}

/// A column of the relation that the model was trained from.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureColumn {
    pub name: String,
    /// As `format_type` gives it: `real`, `smallint[]`, ...
    pub pg_type: String,
    /// How many features the column makes: 1, or the length of its arrays, whose elements come in storage order.
    pub size: u32,
    /// For a column of categories their names in "C" order: the feature is the index. A value that is not among them is
    /// missing, as NULL is: NaN.
    pub categories: Option<Vec<String>>,
    /// Whether the categories are buckets: a value is in the one that `learn::preprocess::bucket` says.
    pub hashed: bool,
    /// Buckets that no training row has, in order: what is in them is as little known as any other category that training has
    /// not seen.
    pub empty: Vec<u32>,
    /// Taken off the values, read as float64, before they are rounded to float32: one for each feature that the column
    /// makes, or none.
    pub origins: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LabelColumn {
    pub name: String,
    pub pg_type: String,
    /// `None` in regression.
    pub classes: Option<Vec<Class>>,
}

/// In the order of the model's outputs: numbers ascending, false before true, text in "C" order.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// The class as text.
    pub text: String,
    /// What pgml.predict returns: the label itself if it is a number or boolean, otherwise the index of the class.
    pub value: f32,
}

/// Why the JSON is not a description of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    #[error("the model's description is not JSON: {0}")]
    Json(String),
    #[error("the model's description has version {0}, and this extension reads versions 1 to 3")]
    Version(String),
    #[error("the model's description lacks a valid \"{0}\"")]
    Field(&'static str),
}

impl ModelMeta {
    /// The value of the booster attribute.
    pub fn to_json(&self) -> String {
        let columns: Vec<Value> = self
            .columns
            .iter()
            .map(|column| {
                let mut json = json!({
                    "name": column.name,
                    "type": column.pg_type,
                    "size": column.size,
                    "categories": column.categories,
                });
                if column.hashed {
                    json["hashed"] = json!(true);
                }
                if !column.empty.is_empty() {
                    json["empty"] = json!(column.empty);
                }
                if !column.origins.is_empty() {
                    json["origins"] = json!(column.origins);
                }
                json
            })
            .collect();
        let mut root = json!({ "version": 1, "task": self.task.name(), "columns": columns });
        match (self.labels.as_slice(), &self.pipeline) {
            ([label], None) => root["label"] = label.to_json(),
            (labels, pipeline) => {
                root["version"] = json!(2);
                root["labels"] = labels.iter().map(LabelColumn::to_json).collect();
                root["preprocess"] = pipeline.as_ref().map_or(Value::Null, Pipeline::to_json);
            }
        }
        if let Some(split) = &self.split {
            root["split"] = split.to_json();
        }
        if self.columns.iter().any(|column| !column.origins.is_empty()) {
            root["version"] = json!(3);
        }
        if let Some(positive) = &self.positive {
            root["positive_class"] = json!(positive);
        }
        root.to_string()
    }

    /// Reads what [`ModelMeta::to_json`] wrote.
    pub fn from_json(text: &str) -> Result<ModelMeta, MetaError> {
        let root: Value = serde_json::from_str(text).map_err(|error| MetaError::Json(error.to_string()))?;
        let root = root.as_object().ok_or(MetaError::Field("version"))?;
        match root.get("version") {
            Some(version) if version.as_u64().is_some_and(|version| VERSIONS.contains(&version)) => {}
            Some(version) => return Err(MetaError::Version(version.to_string())),
            None => return Err(MetaError::Field("version")),
        }
        let task = root.get("task").and_then(Value::as_str).and_then(Task::parse).ok_or(MetaError::Field("task"))?;
        let columns = root
            .get("columns")
            .and_then(Value::as_array)
            .ok_or(MetaError::Field("columns"))?
            .iter()
            .map(|column| {
                let column = column.as_object().ok_or(MetaError::Field("columns"))?;
                let size = column
                    .get("size")
                    .and_then(Value::as_u64)
                    .and_then(|size| u32::try_from(size).ok())
                    .filter(|size| *size > 0)
                    .ok_or(MetaError::Field("size"))?;
                Ok(FeatureColumn {
                    name: text_field(column, "name")?,
                    pg_type: text_field(column, "type")?,
                    size,
                    origins: origins_field(column, size)?,
                    categories: texts_field(column, "categories")?,
                    hashed: column.get("hashed").and_then(Value::as_bool).unwrap_or(false),
                    empty: empty_field(column)?,
                })
            })
            .collect::<Result<Vec<_>, MetaError>>()?;
        let labels = match root.get("labels") {
            None => vec![LabelColumn::from_json(root.get("label"))?],
            Some(labels) => {
                let labels = labels.as_array().ok_or(MetaError::Field("labels"))?;
                labels.iter().map(|label| LabelColumn::from_json(Some(label))).collect::<Result<Vec<_>, _>>()?
            }
        };
        let pipeline = match root.get("preprocess") {
            None | Some(Value::Null) => None,
            Some(json) => Some(Pipeline::from_json(json).ok_or(MetaError::Field("preprocess"))?),
        };
        let fits = match task {
            Task::Classification => labels.len() == 1 && labels.iter().all(|label| label.classes.is_some()),
            Task::Regression => !labels.is_empty() && labels.iter().all(|label| label.classes.is_none()),
            Task::Clustering | Task::Decomposition | Task::Anomaly => labels.is_empty(),
            Task::Forecast => false,
        };
        if !fits {
            return Err(MetaError::Field("classes"));
        }
        // A rule of a later version is none that this one can ask.
        let split = root.get("split").and_then(Rule::from_json);
        let positive = root.get("positive_class").and_then(Value::as_str).map(str::to_owned);
        Ok(ModelMeta { task, columns, labels, pipeline, split, positive })
    }
}

impl LabelColumn {
    fn to_json(&self) -> Value {
        let classes = self.classes.as_ref();
        let texts: Option<Vec<&str>> = classes.map(|classes| classes.iter().map(|class| class.text.as_str()).collect());
        let values: Option<Vec<f32>> = classes.map(|classes| classes.iter().map(|class| class.value).collect());
        json!({ "name": self.name, "type": self.pg_type, "classes": texts, "values": values })
    }

    fn from_json(value: Option<&Value>) -> Result<LabelColumn, MetaError> {
        let label = value.and_then(Value::as_object).ok_or(MetaError::Field("label"))?;
        let classes = match texts_field(label, "classes")? {
            None => None,
            Some(texts) => {
                let values = label.get("values").and_then(Value::as_array).ok_or(MetaError::Field("values"))?;
                if values.len() != texts.len() || texts.is_empty() {
                    return Err(MetaError::Field("values"));
                }
                let classes = texts.into_iter().zip(values).map(|(text, value)| {
                    let value = value.as_f64().map(|value| value as f32).filter(|value| value.is_finite());
                    Ok(Class { text, value: value.ok_or(MetaError::Field("values"))? })
                });
                Some(classes.collect::<Result<Vec<_>, MetaError>>()?)
            }
        };
        Ok(LabelColumn { name: text_field(label, "name")?, pg_type: text_field(label, "type")?, classes })
    }
}

fn text_field(object: &Map<String, Value>, field: &'static str) -> Result<String, MetaError> {
    object.get(field).and_then(Value::as_str).map(str::to_owned).ok_or(MetaError::Field(field))
}

/// Models of before do not say which buckets had rows.
fn empty_field(object: &Map<String, Value>) -> Result<Vec<u32>, MetaError> {
    let Some(buckets) = object.get("empty") else { return Ok(Vec::new()) };
    let number = |bucket: &Value| bucket.as_u64().and_then(|bucket| u32::try_from(bucket).ok());
    let buckets: Option<Vec<u32>> = buckets.as_array().and_then(|buckets| buckets.iter().map(number).collect());
    buckets.filter(|buckets| buckets.is_sorted()).ok_or(MetaError::Field("empty"))
}

fn texts_field(object: &Map<String, Value>, field: &'static str) -> Result<Option<Vec<String>>, MetaError> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(values)) => {
            let texts: Option<Vec<String>> = values.iter().map(|value| value.as_str().map(str::to_owned)).collect();
            texts.map(Some).ok_or(MetaError::Field(field))
        }
        Some(_) => Err(MetaError::Field(field)),
    }
}

fn origins_field(object: &Map<String, Value>, size: u32) -> Result<Vec<f64>, MetaError> {
    let Some(origins) = object.get("origins") else { return Ok(Vec::new()) };
    let origins: Option<Vec<f64>> = origins.as_array().and_then(|all| all.iter().map(Value::as_f64).collect());
    origins.filter(|origins| origins.len() == size as usize).ok_or(MetaError::Field("origins"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iris() -> ModelMeta {
        ModelMeta {
            task: Task::Classification,
            columns: vec![
                FeatureColumn {
                    name: "petal \"width\"".into(),
                    pg_type: "real".into(),
                    size: 1,
                    categories: None,
                    hashed: false,
                    empty: Vec::new(),
                    origins: Vec::new(),
                },
                FeatureColumn {
                    name: "soil".into(),
                    pg_type: "text".into(),
                    size: 1,
                    categories: Some(vec!["clay".into(), "sand".into()]),
                    hashed: false,
                    empty: Vec::new(),
                    origins: Vec::new(),
                },
            ],
            labels: vec![LabelColumn {
                name: "species".into(),
                pg_type: "integer".into(),
                classes: Some(vec![Class { text: "1".into(), value: 1.0 }, Class { text: "5".into(), value: 5.0 }]),
            }],
            pipeline: None,
            split: None,
            positive: Some("5".into()),
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let mut meta = iris();
        assert_eq!(ModelMeta::from_json(&meta.to_json()), Ok(meta.clone()));
        meta.task = Task::Regression;
        meta.labels[0].classes = None;
        assert_eq!(ModelMeta::from_json(&meta.to_json()), Ok(meta.clone()));
        meta.labels.push(meta.labels[0].clone());
        assert_eq!(ModelMeta::from_json(&meta.to_json()), Ok(meta.clone()));
        (meta.task, meta.labels) = (Task::Clustering, Vec::new());
        meta.pipeline = Pipeline::from_json(&json!([{}, {"one_hot": 2}]));
        assert!(meta.pipeline.is_some());
        assert_eq!(ModelMeta::from_json(&meta.to_json()), Ok(meta.clone()));
        meta.split = Some(Rule::plain(learn::side::By::Test("held_out".into())));
        meta.columns[0].origins = vec![1_700_000_000.0];
        assert_eq!(ModelMeta::from_json(&meta.to_json()), Ok(meta));
    }

    #[test]
    fn what_is_no_description_is_an_error() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"version":4}"#,
            r#"{"version":3,"task":"clustering","columns":[{"name":"a","type":"real","size":2,"origins":[1]}]}"#,
            r#"{"version":1,"task":"clustering"}"#,
            r#"{"version":1,"task":"regression","columns":[{"name":"a","type":"real","size":0}]}"#,
            r#"{"version":1,"task":"classification","columns":[],"label":{"name":"y","type":"real","classes":null}}"#,
            r#"{"version":1,"task":"classification","columns":[],
                "label":{"name":"y","type":"real","classes":["a","b"],"values":[1]}}"#,
            r#"{"version":1,"task":"classification","columns":[],
                "label":{"name":"y","type":"real","classes":["a","b"],"values":[0,1e39]}}"#,
        ] {
            assert!(ModelMeta::from_json(text).is_err(), "{text}");
        }
    }
}
