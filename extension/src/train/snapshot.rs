//! `pgml.snapshot`: rows are copied and looked at without a training, for several trainings to come.

use pgrx::pg_sys;
use serde_json::json;

use super::columns::Reader;
use super::cursor;
use super::defaults::{self, Notices};
use super::report;
use super::request;
use super::roles::Roles;
use super::source::Source;
use crate::access;
use crate::error::Result;
use crate::features::Kind;
use crate::memory::{GivenBack, OwnContext};
use crate::model_meta::Task;
use crate::registry::{self, Snapshot};
use crate::sql::{Call, text_datum};

crate::sql_function!(pgml_snapshot, snapshot);

fn snapshot(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let _context = OwnContext::begin(c"pgml snapshot");
    let mut asked = request::SnapshotRequest::read(call)?;
    registry::check_writable(c"pgml.snapshot()")?;
    let source = Source::resolve(&asked.relation_name)?;
    let labels: Vec<String> = asked.y_column_name.iter().cloned().collect();
    let mut told = Notices::default();
    defaults::leave_out(&cursor::describe(&source.statement)?, &labels, &mut asked.preprocess, &mut told)?;
    let id = registry::next_id(c"snapshots_id_seq")?;
    report::info(&format!("Snapshotting {}, this may take a little while...", source.name));
    let table = Source::relation(registry::materialize(id, &source.statement)?)?;

    let described = cursor::describe(&table.statement)?;
    let label = described.iter().find(|column| labels.contains(&column.name));
    let task = match label.map(|column| Kind::of(column.type_oid)) {
        Some(Some(Kind::Text(_))) => Task::Classification,
        _ if labels.is_empty() => Task::Clustering,
        _ => Task::Regression,
    };
    let roles = Roles::of(&asked.preprocess)?;
    let mut reader = Reader::new(task, &labels, &roles, &described, &[], Box::new(|_| {}))?;
    cursor::run(&table.statement, true, &mut reader)?;
    let mut data = reader.finish(&source.name)?;
    for (name, why) in std::mem::take(&mut data.left_out) {
        told.leave_out(&name, why, &mut asked.preprocess);
    }
    told.read(&data);
    told.notice();
    let mut analysis = json!({ "samples": data.spool.rows() });
    if !asked.preprocess.is_empty() {
        analysis["preprocess"] = serde_json::Value::Object(asked.preprocess.clone());
    }
    let recorded = Snapshot {
        id,
        relation_name: source.name.clone(),
        y_column_name: labels,
        test_size: asked.test_size,
        test_sampling: asked.test_sampling.name().to_owned(),
        materialized: true,
        owner: access::user(),
        preprocess: asked.preprocess,
    };
    registry::insert_snapshot(&recorded, &data.columns_json(&[])?, &analysis)?;
    data.spool.close();
    report::info(&format!("Snapshot of {} created and saved in {}", source.name, table.name));
    let label = recorded.y_column_name.first().map(|name| text_datum(name));
    call.rows(&[vec![Some(text_datum(&table.name)), label]])
}
