//! `pgml.export_sql`: a small model of trees as an expression of plain SQL, for where there is no extension.
//!
//! A tree is a CASE of CASEs, and the trees are added in the order and the type in which the model adds them, so that the
//! result is its prediction but for the last bits of an exp. What would not be so is refused.

use std::fmt::Write;

use bytes::Bytes;
use forest::Ensemble;
use forest::double::{self, CATEGORIES, MISSING_LEFT, Trees, ZERO_IS_MISSING};
use forest::ensemble::{self, Transform};
use learn::family::{Array, Stored};
use pgrx::{PgSqlErrorCode, pg_sys};

use super::export;
use crate::access::{self, Privilege};
use crate::error::{Error, Result};
use crate::model_meta::{self, FeatureColumn, ModelMeta, Task};
use crate::names;
use crate::sql::{Call, text_datum};

crate::sql_function!(pgml_export_sql_model, model);
crate::sql_function!(pgml_export_sql_project, project);

/// Nodes of all trees together: some hundred kilobytes of SQL, which the parser takes in milliseconds.
const MOST_NODES: usize = 10_000;

/// Bytes of the expression: nodes may name long columns and many categories, and imported trees may share what is below
/// them, which is written once for each way there.
const LONGEST: usize = 4 << 20;

/// Levels of a tree: the planner goes down as many calls.
const DEEPEST: usize = 64;

/// `pgml.export_sql(model_id)`.
fn model(call: &Call) -> Result<pg_sys::Datum> {
    let Some(model_id) = call.i64(0) else { return Err(Error::null_argument("model_id")) };
    access::require_of_model(model_id, Privilege::Export)?;
    expression(model_id).map(|sql| text_datum(&sql))
}

/// `pgml.export_sql(project_name)`: the deployed model.
fn project(call: &Call) -> Result<pg_sys::Datum> {
    let name = call.text(0, "project_name", names::LONGEST)?.ok_or_else(|| Error::null_argument("project_name"))?;
    expression(export::deployed(&name)?).map(|sql| text_datum(&sql))
}

fn expression(model_id: i64) -> Result<String> {
    let stored = export::stored_bytes(model_id)?;
    let damaged = |error: &dyn std::fmt::Display| Error::corrupted(format!("the stored model cannot be read: {error}"));
    if Stored::is_one(&stored) {
        let read = Stored::read(Bytes::from(stored)).map_err(|error| damaged(&error))?;
        // What its arrays point at is checked here.
        learn::forms::open(&read).map(drop).map_err(|error| damaged(&error))?;
        match read.form() {
            "trees" => {}
            "program" => {
                return Err(Error::unsupported(format!("model {model_id} is a graph of ONNX, and cannot be written as SQL"))
                    .hint("pgml.export_sql works for a model of trees that was imported from the file of its own library: XGBoost, LightGBM or CatBoost."));
            }
            "grouped" => {
                return Err(Error::unsupported(format!(
                    "model {model_id} is one for each group of rows, and cannot be written as SQL"
                ))
                .hint("Train a project for the group that is to be written as SQL, without group_by."));
            }
            _ => {
                return Err(Error::unsupported(format!("model {model_id} is not a model of trees"))
                    .hint("Only models of trees can be written as SQL."));
            }
        }
        let meta = read.attribute(model_meta::ATTRIBUTE).unwrap_or_default();
        let meta = ModelMeta::from_json(meta).map_err(|error| damaged(&error))?;
        return of_tree_arrays(&read, &Row::of(&meta)?, meta.task);
    }
    let ensemble = forest::xgboost::read(&stored).map_err(|error| damaged(&error))?;
    let meta = crate::model::describe(&ensemble)?;
    of_ensemble(&ensemble, &Row::of(&meta)?, meta.task)
}

/// The model's features as SQL has them.
struct Row {
    features: Vec<Feature>,
}

struct Feature {
    /// As a real, or, of categories, as a text.
    sql: String,
    /// The categories by their codes, of a column of text.
    categories: Option<Vec<String>>,
    /// Whether it can be NaN.
    floats: bool,
}

impl Row {
    fn of(meta: &ModelMeta) -> Result<Row> {
        let refused = |what: String| Err(Error::unsupported(format!("{what} has no form in plain SQL")));
        if meta.pipeline.is_some() {
            return refused("preprocess of columns".to_owned());
        }
        let mut features = Vec::new();
        for FeatureColumn { name, pg_type, size, categories, hashed, origins, .. } in &meta.columns {
            let column = format!("\"{}\"", name.replace('"', "\"\""));
            let element = pg_type.strip_suffix("[]").unwrap_or(pg_type);
            let is_number = ["real", "double precision", "smallint", "integer", "bigint", "numeric"].contains(&element);
            if *hashed || (!is_number && element != "boolean" && categories.is_none()) {
                return refused(format!("column {column} of type {pg_type}"));
            }
            for index in 0..*size as usize {
                let value = match pg_type.ends_with("[]") {
                    true => format!("({column})[{}]", index + 1),
                    false => column.clone(),
                };
                let origin = origins.get(index).copied().unwrap_or(0.0);
                let sql = match (categories, element) {
                    (Some(_), _) => format!("{value}::text"),
                    (None, "boolean") => format!("{value}::int::real"),
                    (None, _) if origin != 0.0 => format!("({value}::float8 - {})::real", double(origin)),
                    (None, _) => format!("{value}::real"),
                };
                let floats = ["real", "double precision", "numeric"].contains(&element);
                features.push(Feature { sql, categories: categories.clone(), floats });
            }
        }
        Ok(Row { features })
    }

    fn feature(&self, index: u32) -> Result<&Feature> {
        self.features
            .get(index as usize)
            .ok_or_else(|| Error::corrupted("a split refers to a feature that the model does not have"))
    }
}

impl Feature {
    /// The first where the number is less, the second where it is not, a missing one (and zero, if that is as good as
    /// missing) on the side that is said.
    fn split(&self, threshold: f32, missing_left: bool, zero: bool, left: &str, right: &str) -> String {
        let x = &self.sql;
        let threshold = real(threshold);
        let known = match zero {
            true => format!(" AND NOT abs({x}) <= '1e-35'::real"),
            false => String::new(),
        };
        if missing_left {
            let number = if self.floats { format!(" AND {x} <> 'NaN'::real") } else { String::new() };
            format!("CASE WHEN {x} >= {threshold}{number}{known} THEN {right} ELSE {left} END")
        } else {
            format!("CASE WHEN {x} < {threshold}{known} THEN {left} ELSE {right} END")
        }
    }

    /// Whether it is a category of these codes, as a condition; `has` is asked about all that there are.
    fn is_one_of(&self, mut has: impl FnMut(u32) -> bool) -> Result<String> {
        let Some(categories) = &self.categories else {
            return Err(Error::unsupported("a split of numbers that are categories has no form in plain SQL"));
        };
        let names: Vec<String> =
            (0u32..).zip(categories).filter(|(code, _)| has(*code)).map(|(_, name)| literal(name)).collect();
        let x = &self.sql;
        Ok(match names.is_empty() {
            false => format!("{x} IN ({})", names.join(", ")),
            true => "false".to_owned(),
        })
    }
}

/// A text as SQL reads it, whatever standard_conforming_strings says.
fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

fn real(number: f32) -> String {
    if number.is_infinite() {
        return format!("'{}Infinity'::real", if number < 0.0 { "-" } else { "" });
    }
    format!("'{number:e}'::real")
}

fn double(number: f64) -> String {
    format!("'{number:e}'::float8")
}

fn bounded(nodes: usize) -> Result<()> {
    if nodes > MOST_NODES {
        let code = PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
        return Err(Error::new(
            code,
            format!("the model has {nodes} nodes, and at most {MOST_NODES} can be written as SQL"),
        )
        .hint("Train with fewer or smaller trees: n_estimators, max_depth."));
    }
    Ok(())
}

/// A part of the expression, unless it is too long already.
fn within(sql: String) -> Result<String> {
    check_length(sql.len())?;
    Ok(sql)
}

fn check_length(bytes: usize) -> Result<()> {
    pgrx::check_for_interrupts!();
    if bytes <= LONGEST {
        return Ok(());
    }
    let code = PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
    Err(Error::new(code, format!("the model as SQL would have more than {LONGEST} bytes, the limit"))
        .hint("Train with fewer or smaller trees: n_estimators, max_depth."))
}

fn too_deep() -> Error {
    let code = PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
    Error::new(code, format!("a tree of the model has more than {DEEPEST} levels, the limit for SQL"))
}

fn of_ensemble(ensemble: &Ensemble, row: &Row, task: Task) -> Result<String> {
    bounded(ensemble.trees.iter().map(|tree| tree.nodes.len()).sum())?;
    if ensemble.linear.is_some() {
        return Err(Error::unsupported("a model of booster gblinear has no trees, and cannot be written as SQL"));
    }
    let mut margins: Vec<String> = ensemble.base_margin.iter().map(|base| real(*base)).collect();
    let mut length = 0;
    for tree in &ensemble.trees {
        let output = tree.output as usize;
        let base = ensemble.base_margin.get(output).copied().unwrap_or_default();
        let sql = of_tree(tree, 0, base, row, 0)?;
        let margin = margins.get_mut(output).ok_or_else(|| Error::corrupted("a tree belongs to no output"))?;
        let _ = write!(margin, "\n + {sql}");
        length += sql.len();
        check_length(length)?;
    }
    let classify = task == Task::Classification;
    match (ensemble.transform, margins.as_slice(), classify) {
        (Transform::Identity, [margin], false) => Ok(format!("({margin})")),
        (Transform::Sigmoid, [margin], false) => Ok(format!("({})::real", logistic(margin, 1.0))),
        (Transform::Exp | Transform::ExpDouble, [margin], false) => Ok(format!("exp(({margin})::float8)::real")),
        (Transform::Sigmoid, [margin], true) => Ok(two_classes(&format!("({})::real", logistic(margin, 1.0)))),
        (Transform::Softmax, margins, true) => Ok(softmax(margins)),
        _ => Err(Error::unsupported(format!("objective \"{}\" has no form in plain SQL", ensemble.objective))),
    }
}

fn of_tree(tree: &ensemble::Tree, index: u32, base: f32, row: &Row, depth: usize) -> Result<String> {
    use forest::ensemble::Node;
    if depth > DEEPEST {
        return Err(too_deep());
    }
    let child = |index: u32| of_tree(tree, index, base, row, depth + 1);
    match tree.nodes.get(index as usize) {
        Some(Node::Leaf(leaf)) => Ok(real(match tree.weight {
            None => *leaf,
            // As the model adds the leaves of a dart.
            Some(weight) => ((base + leaf) - base) * weight,
        })),
        Some(Node::Numeric { feature, threshold, default_left, left, right }) => {
            within(row.feature(*feature)?.split(*threshold, *default_left, false, &child(*left)?, &child(*right)?))
        }
        Some(Node::Categorical { feature, categories, default_left, left, right }) => {
            let has = |code: u32| categories.binary_search(&code).is_ok();
            let (left, right) = (child(*left)?, child(*right)?);
            // What is not among the categories is missing.
            let (side, other) = if *default_left { (right, left) } else { (left, right) };
            let is_one = row.feature(*feature)?.is_one_of(|code| has(code) == *default_left)?;
            within(format!("CASE WHEN {is_one} THEN {side} ELSE {other} END"))
        }
        _ => Err(Error::unsupported("trees with several values in a leaf have no form in plain SQL")),
    }
}

fn of_tree_arrays(stored: &Stored, row: &Row, task: Task) -> Result<String> {
    let nodes: Array<u32> = stored.array("nodes")?;
    let (roots, values): (Array<u32>, Array<f64>) = (stored.array("roots")?, stored.array("values")?);
    let (categories, base): (Array<u32>, Array<f64>) = (stored.array("categories")?, stored.array("base")?);
    let nodes: Vec<double::Node> = nodes
        .chunks_exact(4)
        .map(|node| double::Node { feature: node[0], threshold: node[1], left: node[2], right: node[3] })
        .collect();
    bounded(nodes.len())?;
    let size = stored.count("size")?;
    let outputs = base.len();
    let trees = Trees { nodes: &nodes, roots: &roots, values: &values, categories: &categories, outputs, size };
    if stored.text("aggregation")? != "sum" {
        return Err(Error::unsupported("the median of trees has no form in plain SQL"));
    }
    let divisor = stored.number("divisor")?;
    let (mut sums, mut length) = (Vec::with_capacity(outputs), 0);
    for (output, base) in base.iter().enumerate() {
        let mut parts = Vec::new();
        for tree in 0..trees.len() {
            if size == 1 && tree % outputs != output {
                continue;
            }
            let part = of_node(&trees, roots[tree], if size == 1 { 0 } else { output }, row, 0)?;
            length += part.len();
            check_length(length)?;
            parts.push(part);
        }
        let sum = if parts.is_empty() { double(0.0) } else { parts.join("\n + ") };
        sums.push(format!("{} + ({sum}) / {}", double(*base), double(divisor)));
    }
    let scale = stored.number("scale")?;
    let link = stored.text("link")?;
    match (link, sums.as_slice(), task == Task::Classification) {
        ("identity", [sum], false) => Ok(format!("({sum})::real")),
        ("exp", [sum], false) => Ok(format!("exp({sum})::real")),
        ("logistic_value", [sum], false) => Ok(format!("({})::real", logistic(sum, scale))),
        ("logistic", [sum], true) => Ok(two_classes(&format!("({})::real", logistic(sum, scale)))),
        ("softmax", sums, true) => Ok(softmax(sums)),
        ("probabilities", sums, true) => Ok(format!("ARRAY[({})::real]", sums.join(")::real, ("))),
        _ => Err(Error::unsupported(format!("the model's link, {link}, has no form in plain SQL"))),
    }
}

fn of_node(trees: &Trees<'_>, index: u32, output: usize, row: &Row, depth: usize) -> Result<String> {
    if depth > DEEPEST {
        return Err(too_deep());
    }
    let node = trees.nodes[index as usize];
    if node.is_leaf() {
        return Ok(double(trees.values[node.left as usize + output]));
    }
    let left = of_node(trees, node.left, output, row, depth + 1)?;
    let right = of_node(trees, node.right, output, row, depth + 1)?;
    let feature = row.feature(node.column())?;
    let missing_left = node.feature & MISSING_LEFT != 0;
    if node.feature & CATEGORIES == 0 {
        let zero = node.feature & ZERO_IS_MISSING != 0;
        return within(feature.split(f32::from_bits(node.threshold), missing_left, zero, &left, &right));
    }
    let set = node.threshold as usize;
    let words = &trees.categories[set + 1..set + 1 + trees.categories[set] as usize];
    let bit = |code: u32| words.get(code as usize / 32).map(|word| word >> (code % 32) & 1 == 1);
    // What is not among the categories is missing.
    let (side, other, these) = if missing_left { (right, left, false) } else { (left, right, true) };
    let is_one = feature.is_one_of(|code| bit(code) == Some(these))?;
    within(format!("CASE WHEN {is_one} THEN {side} ELSE {other} END"))
}

/// The logistic function; where it is all but 0 or 1, exp would be out of range.
fn logistic(margin: &str, scale: f64) -> String {
    let scaled = if scale == 1.0 { format!("({margin})") } else { format!("({margin}) * {}", double(scale)) };
    format!("1 / (1 + exp(greatest(least(-({scaled})::float8, 87), -700)))")
}

/// The probabilities of both classes of that of the second.
fn two_classes(second: &str) -> String {
    format!("(SELECT ARRAY['1'::real - p, p] FROM (SELECT {second} AS p) AS second)")
}

/// The probabilities of the classes of their margins.
fn softmax(margins: &[String]) -> String {
    format!(
        "(SELECT array_agg((e / s)::real ORDER BY n) FROM (SELECT e, n, sum(e) OVER () AS s FROM (SELECT n, \
         exp(greatest(m - max(m) OVER (), -80)) AS e FROM unnest(ARRAY[({})::float8]) WITH ORDINALITY AS margins(m, n)) \
         AS powers) AS sums)",
        margins.join(")::float8,\n(")
    )
}
