//! How good a clustering or a decomposition is, where there is no label to compare with. Rows are measured as the model
//! sees them.

use learn::family::Control;
use learn::metrics;
use serde_json::{Map, Value};

use super::interrupts;
use super::score::{Scorer, to_json};
use super::view::View;
use crate::error::Result;
use crate::model_meta::Task;

/// The seed of the sample that a silhouette is of, where there are many rows.
const SEED: u64 = 0;

/// Metrics of the rows of the view.
pub fn score(scorer: &Scorer, view: &mut View<'_>) -> Result<Map<String, Value>> {
    let model = scorer.model();
    let (width, components) = (model.finished_width(), model.num_values());
    let mut finished = Vec::new();
    let mut failure = Ok(());
    let mut each = |row: &[f32], take: &mut dyn FnMut(&[f32]) -> Result<()>| {
        if failure.is_ok() {
            failure = model.finish(row, &mut finished).and_then(|()| take(&finished));
        }
    };
    let named = match model.task {
        Task::Clustering => {
            let mut clustering = metrics::Clustering::new(width, SEED);
            scorer.predict(view, |row, _, values| {
                let cluster = values.first().map_or(-1, |value| *value as i32);
                each(row, &mut |row| Ok(clustering.add(row, cluster)?));
            })?;
            let mut ask = |_| {
                interrupts::check();
                Ok(())
            };
            clustering.all(&mut Control::new(&mut ask))?
        }
        _ => {
            let mut decomposition = metrics::Decomposition::new(width, components)?;
            scorer.predict(view, |row, _, values| {
                each(row, &mut |row| {
                    decomposition.add(row, values);
                    Ok(())
                });
            })?;
            decomposition.all()
        }
    };
    failure?;
    Ok(to_json(named))
}
