//! The table against the library itself.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::booster::Booster;
use super::feed::Feed;
use super::matrix::Matrix;
use super::table::{BINARY_OBJECTIVES, METRICS, REGRESSION_OBJECTIVES, TABLE, find};
use super::*;
use crate::rows::{Chunk, Rows, Stop};

fn library() -> Library {
    let path = std::env::var_os("HOWDAH_XGBOOST_LIB").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/xgboost/xgboost/lib/libxgboost.so")),
        PathBuf::from,
    );
    assert!(path.exists(), "there is no XGBoost at {}: run `make setup`", path.display());
    Library::open(&path).unwrap()
}

struct Four(bool);

impl Rows for Four {
    fn width(&self) -> usize {
        1
    }

    fn rewind(&mut self) -> Result<(), Stop> {
        self.0 = false;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop> {
        let chunk = Chunk { features: &[0.0, 1.0, 2.0, 3.0], labels: &[0.0, 1.0, 0.0, 1.0], weights: None };
        Ok((!std::mem::replace(&mut self.0, true)).then_some(chunk))
    }
}

/// Every name in the sections of the library's configuration that hold parameters.
fn names(config: &Value, section: &str, found: &mut BTreeSet<String>) {
    match config {
        Value::Object(map) => {
            for (key, value) in map {
                if value.is_string() && section.ends_with("_param") {
                    found.insert(key.clone());
                }
                names(value, key, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| names(value, section, found)),
        _ => {}
    }
}

#[test]
fn the_library_has_no_parameter_that_the_table_lacks() {
    let library = library();
    let columns = Columns::new(vec![Column { name: "x".into(), kind: ColumnKind::Quantitative }]).unwrap();
    let mut found = BTreeSet::new();
    let objectives = REGRESSION_OBJECTIVES.iter().chain(BINARY_OBJECTIVES);
    let settings = ["gbtree", "dart", "gblinear"].iter().map(|booster| (*booster, "reg:squarederror"));
    for (booster, objective) in settings.chain(objectives.map(|objective| ("gbtree", *objective))) {
        let mut four = Four(false);
        let mut feed = Feed::new(&library, &mut four, &columns, Task::Regression, "learn from").unwrap();
        let matrix = Matrix::dense(&mut feed, &columns, 1).unwrap();
        let model = Booster::create(&library, &[&matrix]).unwrap();
        for (name, value) in [("booster", booster), ("objective", objective), ("verbosity", "0"), ("nthread", "1")] {
            model.set(name, value).unwrap();
        }
        for (name, value) in [("quantile_alpha", "0.5"), ("num_class", "2")] {
            if objective.contains("quantile") == (name == "quantile_alpha")
                && (name != "num_class" || objective.starts_with("multi"))
            {
                model.set(name, value).unwrap();
            }
        }
        // Not all objectives take these labels; the configuration is there all the same.
        let _ = model.update(0, &matrix);
        let config: Value = serde_json::from_slice(&model.config().unwrap()).unwrap();
        names(&config, "", &mut found);
    }
    assert!(found.len() > 50, "{found:?}");
    // What the library writes down although nobody can set it.
    let internal = ["boost_from_average", "num_trees", "updater_seq"];
    let missing: Vec<_> =
        found.iter().filter(|name| find(name).is_none() && !internal.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}

#[test]
fn names_are_there_once_and_described() {
    let mut seen = BTreeSet::new();
    for row in TABLE {
        for name in row.aliases.iter().chain([&row.name]) {
            assert!(seen.insert(*name), "\"{name}\" is there twice");
        }
        assert!(row.about.ends_with('.') && row.about.len() > 10, "{}", row.name);
        assert!(!row.kind.allowed().is_empty(), "{}", row.name);
        assert_eq!(row.default.is_empty(), matches!(row.kind, Kind::Ignored(_) | Kind::Refused(_)), "{}", row.name);
    }
}

/// A value of the kind that is in range and goes with most others.
fn valid(row: &Parameter) -> Option<Value> {
    Some(match (row.name, row.kind) {
        ("objective", _) => json!("reg:squarederror"),
        ("updater", _) => json!("grow_quantile_histmaker"),
        ("early_stopping_rounds", _) => json!(3),
        (_, Kind::Number { min, above, max, .. }) => {
            json!(if above { (min + max.min(min + 1.0)) / 2.0 } else { min })
        }
        (_, Kind::Integer { min, .. }) => json!(min.max(0)),
        (_, Kind::Flag) => json!(true),
        (_, Kind::Choice(words)) => json!(words[0]),
        (_, Kind::Metrics) => json!(["mae", "rmse"]),
        (_, Kind::BaseScore | Kind::Quantiles) => json!(0.5),
        (_, Kind::Monotone) => json!([1, 0]),
        (_, Kind::Interactions) => json!([[0, 1]]),
        (_, Kind::Ignored(_)) => json!("whatever"),
        _ => return None,
    })
}

#[test]
fn every_parameter_is_taken_by_the_library_alone() {
    let library = library();
    let column = |name: &str| Column { name: name.into(), kind: ColumnKind::Quantitative };
    let columns = Columns::new(vec![column("a"), column("b")]).unwrap();
    for row in TABLE {
        let Some(value) = valid(row) else { continue };
        for name in row.aliases.iter().chain([&row.name]) {
            let mut given = Map::from_iter([(name.to_string(), value.clone())]);
            if row.about.starts_with("Booster ") {
                let booster = if row.about.contains("dart") { "dart" } else { "gblinear" };
                given.insert("booster".into(), booster.into());
            }
            let mut params = Params::parse(Algorithm::Xgboost, Task::Regression, &given).unwrap();
            params.default_nthread(1);
            let warnings = params.dry_run(&library, &columns).unwrap_or_else(|error| panic!("{name}: {error}"));
            // The library's own warning that a name is not one of its parameters.
            let other_objective = ["quantile_alpha", "tweedie_variance_power", "huber_slope"].contains(&row.name);
            let linear = ["top_k", "tolerance", "max_row_perbatch"].contains(&row.name);
            if !other_objective && !linear {
                assert!(warnings.iter().all(|warning| !warning.contains("not used")), "{name}: {warnings:?}");
            }
            assert_eq!(params.warnings().is_empty(), !matches!(row.kind, Kind::Ignored(_)), "{name}");
        }
    }
}

#[test]
fn every_metric_is_one_of_the_librarys() {
    let library = library();
    let columns = Columns::new(vec![Column { name: "a".into(), kind: ColumnKind::Quantitative }]).unwrap();
    for (name, at) in METRICS {
        let name = if *at == super::table::At::Must { format!("{name}@1.5") } else { (*name).to_string() };
        let (task, objective) = match name.as_str() {
            "merror" | "mlogloss" => (Task::Classification { classes: 3 }, "multi:softprob"),
            "quantile" => (Task::Regression, "reg:quantileerror"),
            _ => (Task::Classification { classes: 2 }, "binary:logistic"),
        };
        let mut given = json!({"eval_metric": name, "objective": objective, "nthread": 1});
        if name == "quantile" {
            given["quantile_alpha"] = json!(0.5);
        }
        let params = Params::parse(Algorithm::Xgboost, task, given.as_object().unwrap()).unwrap();
        params.dry_run(&library, &columns).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
