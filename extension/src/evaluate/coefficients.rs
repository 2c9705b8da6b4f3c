//! `pgml.coefficients`: the numbers that a model has for its features, as rows.

use learn::family::WeightsOf;
use pgrx::{IntoDatum, pg_sys};

use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::memory::GivenBack;
use crate::sql::{Call, text_datum};

crate::sql_function!(pgml_coefficients, coefficients);

/// What stands for a feature beside the intercept.
const INTERCEPT: &str = "(intercept)";

/// `pgml.coefficients(project or model) RETURNS TABLE (class text, component integer, feature text, coefficient double
/// precision, unscaled double precision)`.
///
/// Categories and centres are values of the data, which only who may export reads.
fn coefficients(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let target = super::target(call, Privilege::Export)?;
    let model = &target.model;
    let weights = model.weights();
    if weights.is_empty() {
        return Err(Error::unsupported(format!(
            "the model of {target} is not made of coefficients, centres or components"
        ))
        .hint("pgml.feature_importance is for models of trees, pgml.permutation_importance for all. Of a model for each group, pgml.explain tells of one row."));
    }
    let features = model.finished_names();
    let names: Vec<pg_sys::Datum> = features.iter().map(|(name, _)| text_datum(name)).collect();
    let intercept = text_datum(INTERCEPT);
    let sums = weights.len();
    let rows = weights.iter().flat_map(|weights| {
        let class = match weights.of {
            WeightsOf::Value(index) => {
                model.output_name(index, if sums == 1 { 1 } else { model.num_values() }).map(|name| text_datum(&name))
            }
            _ => None,
        };
        let component = match weights.of {
            WeightsOf::Value(_) => None,
            WeightsOf::Cluster(cluster) => Some(cluster),
            // As elements of an array are counted.
            WeightsOf::Component(index) => i32::try_from(index + 1).ok(),
        };
        let row = move |name, number: f64, unscaled: f64| {
            [class, component.into_datum(), Some(name), number.into_datum(), unscaled.into_datum()]
        };
        let own = weights.numbers.iter().zip(&features).zip(&names).map(move |((number, (_, making)), name)| {
            let unscaled = match weights.of {
                WeightsOf::Cluster(_) => number * making.divisor + making.offset,
                _ => number / making.divisor,
            };
            row(*name, *number, unscaled)
        });
        let taken_off =
            weights.numbers.iter().zip(&features).map(|(number, (_, making))| number * making.offset / making.divisor);
        let taken_off: f64 = taken_off.sum();
        let rest = weights.intercept.map(|number| row(intercept, number, number - taken_off));
        own.chain(rest)
    });
    call.rows(rows)
}
