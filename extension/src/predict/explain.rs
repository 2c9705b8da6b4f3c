//! The explanation of predictions: `pgml.explain`, `pgml.explain_batch`.
//!
//! Explanations need the covers of the model's nodes, which the compiled model does not have. So a backend that
//! explains reads the stored model (pgml.files) once and keeps its explainer for the next call; a backend that only
//! predicts pays nothing.

use std::cell::RefCell;
use std::ffi::CStr;
use std::rc::Rc;

use forest::Explainer;
use pgrx::{PgSqlErrorCode, pg_sys};
use room::{Bounds, Recent};

use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::features::{Kind, Many};
use crate::memory;
use crate::model::Model;
use crate::names::{self, Key, Resolved};
use crate::sql::{Call, text_datum};

use super::batch::new_real_array;
use super::call_site::{CallSite, Ready, project_key};

crate::sql_function!(pgml_explain, explain);
crate::sql_function!(pgml_explain_batch, explain_batch);

/// Rows of one explanation, a feature and class each.
const ROWS_AT_MOST: usize = 1 << 20;

/// Models that a backend keeps ready to explain; each takes about twice as much memory as the stored model.
const KEPT: Bounds = Bounds { entries: 8, weight: 128 << 20 };

thread_local! {
    /// By the model's address, which no other has while it is kept here.
    static PREPARED: RefCell<Recent<usize, Rc<Prepared>>> = RefCell::default();
}

struct Prepared {
    model: Rc<Model>,
    /// Of a model of trees, the outputs of the first before those of the next; any other knows its contributions itself.
    explainers: Vec<Explainer>,
    /// One for each feature.
    features: Vec<Feature>,
    /// What each output speaks for.
    outputs: Vec<Option<String>>,
    /// The categories of each text column, by code.
    categories: Vec<Vec<Box<str>>>,
}

struct Feature {
    name: String,
    values: Values,
    /// Was taken off.
    origin: f64,
}

/// How a feature's number is written.
enum Values {
    Number,
    Boolean,
    /// Which of the prepared categories are its own.
    Category(usize),
}

/// `pgml.explain(project or model, features...) RETURNS TABLE (feature text, value text, contribution real, class text)`.
fn explain(call: &Call) -> Result<pg_sys::Datum> {
    // SAFETY: the call is running; the SQL declarations put the name first and the features after it.
    let ready = unsafe {
        let site = CallSite::of(call.fcinfo(), 0, Privilege::Explain)?;
        site.ready(call.fcinfo())?
    };
    let Some(Ready { target, row, .. }) = ready else { return call.rows([[None; 4]; 0]) };
    let prepared = prepare(target)?;
    let (outputs, width) = (prepared.outputs.len(), target.model.width() + 1);
    let count = outputs * width;
    if count > ROWS_AT_MOST {
        let code = PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
        return Err(Error::new(
            code,
            format!("pgml.explain returns at most {ROWS_AT_MOST} rows, and this call needs {count}"),
        )
        .hint("Use pgml.explain_batch."));
    }
    let mut contributions = memory::filled(0.0, count)?;
    prepared.explain_into(target, row, &mut contributions)?;
    let outputs = contributions.chunks_exact(row.len() + 1).zip(&prepared.outputs);
    // Made before they are stored: text that is made meanwhile would live as long as the query.
    let rows = outputs.flat_map(|(contributions, output)| {
        let features =
            prepared.features.iter().zip(row).map(|(feature, value)| (&*feature.name, Some((feature, *value))));
        features.chain([("bias", None)]).zip(contributions).map(|((name, value), contribution)| {
            [
                Some(text_datum(name)),
                value.and_then(|(feature, value)| prepared.value(feature, value)),
                Some(pg_sys::Datum::from(contribution.to_bits())),
                output.as_deref().map(text_datum),
            ]
        })
    });
    call.rows(rows.collect::<Vec<_>>())
}

/// `pgml.explain_batch(project or model, real[]) RETURNS real[]`: an array of rows, in each (of each class) one
/// contribution a feature and the bias.
fn explain_batch(call: &Call) -> Result<pg_sys::Datum> {
    let (Some(name), Some(features)) = (call.datum(0), call.datum(1)) else { return Ok(call.null()) };
    // SAFETY: within the running call, whose arguments have the types of its declaration.
    let (key, element) = unsafe {
        let info = (*call.fcinfo()).flinfo;
        let key = match pg_sys::get_fn_expr_argtype(info, 0) {
            pg_sys::INT8OID => Key::Model(name.value() as i64),
            _ => project_key(name)?,
        };
        (key, Kind::of(pg_sys::get_fn_expr_argtype(info, 1)))
    };
    let Some(Kind::Many(array @ Many::Array(_))) = element else {
        return Err(Error::invalid("features must be an array of numbers"));
    };
    let target = names::resolve(key, Privilege::Explain)?;
    super::input::warn_of_single(array, &target);
    let mut rows = Vec::new();
    // SAFETY: the argument is an array of this element type.
    let shape = unsafe { array.read_less(features, usize::MAX, target.model.origins(), &mut rows)? };
    let count = super::batch::whole_rows(&target, &shape)?;
    target.model.number_categories(&mut rows)?;
    let prepared = prepare(&target)?;
    let (outputs, width) = (prepared.outputs.len(), target.model.width() + 1);
    let dimensions = if outputs == 1 { &[count, width][..] } else { &[count, outputs, width] };
    let (array, contributions) = new_real_array(dimensions, "contributions", "Explain the rows in several groups.")?;
    for (row, contributions) in rows.chunks_exact(width - 1).zip(contributions.chunks_exact_mut(outputs * width)) {
        prepared.explain_into(&target, row, contributions)?;
    }
    Ok(array)
}

/// The contributions of one row, by each in turn.
fn explain_trees(explainers: &[Explainer], row: &[f32], out: &mut [f32]) -> Result<()> {
    let mut rest = out;
    for explainer in explainers {
        let (own, others) = rest.split_at_mut_checked(explainer.num_values()).ok_or_else(misfit)?;
        let explained = explainer.explain(row, own, || {
            pgrx::check_for_interrupts!();
        });
        explained.map_err(|error| Error::new(PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, error.to_string()))?;
        rest = others;
    }
    if rest.is_empty() { Ok(()) } else { Err(misfit()) }
}

/// The outputs that are explained are not those of the compiled model.
#[cold]
fn misfit() -> Error {
    Error::corrupted("the stored model has changed since it was compiled")
}

/// What explains the model that `target` means, made at the first call.
fn prepare(target: &Resolved) -> Result<Rc<Prepared>> {
    let key = Rc::as_ptr(&target.model).addr();
    if let Some(prepared) = PREPARED.with_borrow(|kept| kept.get(&key).cloned()) {
        return Ok(prepared);
    }
    let _given_back = memory::GivenBack;
    let explainers = target.model.explainers(|| names::stored_bytes(target))?;
    let explainers = explainers.map_err(|error| cannot_explain(target, &error))?;
    let prepared = Rc::new(Prepared::new(target.model.clone(), explainers));
    let weight = prepared.explainers.iter().map(Explainer::bytes).sum();
    PREPARED.with_borrow_mut(|kept| kept.insert(key, prepared.clone(), weight, &KEPT, |_| true));
    Ok(prepared)
}

fn cannot_explain(target: &Resolved, error: &forest::Error) -> Error {
    match error {
        forest::Error::Unsupported { .. } => {}
        forest::Error::Memory { bytes } => return memory::no_room(*bytes),
        _ => return Error::corrupted(format!("the stored model cannot be read: {error}")),
    }
    Error::unsupported(format!("the predictions of {target} cannot be explained"))
        .detail(format!("{error}."))
        .hint("An explanation needs the number of training rows in each node of a tree. An imported model has these numbers if its library saved them: XGBoost as sum_hessian (of trees for several targets since 3.3), LightGBM as internal_count and leaf_count, CatBoost as leaf_weights. pgml.feature_importance and pgml.permutation_importance do not need them.")
}

impl Prepared {
    /// Contributions of one row's features and the bias, those of an output together.
    fn explain_into(&self, target: &Resolved, row: &[f32], out: &mut [f32]) -> Result<()> {
        let (outputs, width) = (self.outputs.len(), row.len() + 1);
        let contributions = match self.explainers.is_empty() {
            false if self.model.sources().is_none() => return explain_trees(&self.explainers, row, out),
            false => {
                let mut finished = Vec::new();
                self.model.finish(row, &mut finished)?;
                let mut contributions = memory::filled(0.0, self.explainers.iter().map(Explainer::num_values).sum())?;
                explain_trees(&self.explainers, &finished, &mut contributions)?;
                contributions
            }
            true => self.model.contributions(row)?.ok_or_else(|| {
                Error::unsupported(format!("the predictions of {target} cannot be explained"))
                    .hint("pgml.explain works for linear models and models of trees that were not imported as ONNX. pgml.permutation_importance works for every model.")
            })?,
        };
        // A feature's share is that of all features that were made of it.
        let sources = self.model.sources().unwrap_or_else(|| (0..row.len()).collect());
        if contributions.len() != outputs * (sources.len() + 1) || out.len() != outputs * width {
            return Err(misfit());
        }
        out.fill(0.0);
        for (made, out) in contributions.chunks_exact(sources.len() + 1).zip(out.chunks_exact_mut(width)) {
            for (value, source) in made.iter().zip(sources.iter().chain([&row.len()])) {
                out[*source] += value;
            }
        }
        Ok(())
    }

    fn new(model: Rc<Model>, explainers: Vec<Explainer>) -> Prepared {
        let (mut features, mut categories) = (Vec::with_capacity(model.width()), Vec::new());
        for column in &model.columns {
            for element in 1..=column.size {
                let name = column.feature_name(element);
                let values = if column.is_category() {
                    Values::Category(categories.len())
                } else if column.is_boolean() {
                    Values::Boolean
                } else {
                    Values::Number
                };
                let origin = column.origins.get(element - 1).copied().unwrap_or(0.0);
                features.push(Feature { name, values, origin });
            }
            if column.is_category() {
                categories.push(column.category_names().into_iter().map(Into::into).collect());
            }
        }
        let count = match explainers.is_empty() {
            true => model.num_values(),
            false => explainers.iter().map(Explainer::num_outputs).sum(),
        };
        let outputs = (0..count).map(|output| model.output_name(output, count)).collect();
        Prepared { model, explainers, features, outputs, categories }
    }

    /// A feature's value as SQL writes it; `None` where it is missing, or a category that training did not meet.
    fn value(&self, feature: &Feature, value: f32) -> Option<pg_sys::Datum> {
        if value.is_nan() {
            return None;
        }
        match feature.values {
            Values::Category(column) => {
                let code = (value >= 0.0).then_some(value as usize);
                let name = code.and_then(|code| self.categories.get(column)?.get(code));
                name.map(|name| text_datum(name))
            }
            Values::Boolean if value == 0.0 => Some(text_datum("false")),
            Values::Boolean if value == 1.0 => Some(text_datum("true")),
            Values::Boolean | Values::Number if feature.origin != 0.0 => {
                // SAFETY: the output function of double precision gives a palloc'd C string.
                let text = unsafe {
                    let datum = Some(pg_sys::Datum::from((f64::from(value) + feature.origin).to_bits()));
                    let text = pgrx::direct_function_call_as_datum(pg_sys::float8out, &[datum])?;
                    CStr::from_ptr(text.cast_mut_ptr())
                };
                Some(text_datum(&text.to_string_lossy()))
            }
            Values::Boolean | Values::Number => {
                // SAFETY: the output function of real gives a palloc'd C string.
                let text = unsafe {
                    let datum = Some(pg_sys::Datum::from(value.to_bits()));
                    let text = pgrx::direct_function_call_as_datum(pg_sys::float4out, &[datum])?;
                    CStr::from_ptr(text.cast_mut_ptr())
                };
                Some(text_datum(&text.to_string_lossy()))
            }
        }
    }
}
