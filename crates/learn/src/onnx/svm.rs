//! Support vector machines, as the sums of kernels that `families::forms::kernel` predicts by.

use forest::error::Result;

use super::lower::{Call, Lower};
use super::pipeline::{Transform, classes, classified, transform, transformed};
use super::value::{Kind, Lanes, Value};
use crate::families::forms::kernel::{self, Link, Parts};
use crate::families::kernel::{Kernel, Shape};
use crate::families::tiles::Tiles;

pub(super) const OPERATORS: &[(&str, &str, Lower)] =
    &[("ai.onnx.ml", "SVMRegressor", regressor), ("ai.onnx.ml", "SVMClassifier", classifier)];

fn kernel(call: &Call<'_, '_>) -> Result<Kernel> {
    let shape = match call.node.text("kernel_type", "LINEAR")? {
        "LINEAR" => Shape::Linear,
        "POLY" => Shape::Poly,
        "RBF" => Shape::Rbf,
        "SIGMOID" => Shape::Sigmoid,
        other => return Err(call.node.unsupported(&format!("kernel_type {other}"))),
    };
    let numbers = call.node.floats("kernel_params")?;
    let at = |index: usize| numbers.get(index).copied().map_or(0.0, f64::from);
    Ok(Kernel { shape, gamma: at(0), coef0: at(1), degree: at(2) })
}

/// The part of a machine whose rows have so many duals each; gives its values.
fn part(call: &mut Call<'_, '_>, duals: Vec<f64>, columns: usize, link: Link, values: usize) -> Result<Lanes> {
    let (lanes, width) = call.table(0)?;
    let vectors = call.node.floats("support_vectors")?;
    let rows = vectors.len().checked_div(width).unwrap_or(0);
    if rows == 0 || rows * width != vectors.len() || rows.checked_mul(columns) != Some(duals.len()) {
        let (found, dual) = (vectors.len(), duals.len());
        return Err(call
            .node
            .invalid(format!("{found} numbers of support vectors and {dual} coefficients for {width} features")));
    }
    let refused = |error: crate::Error| call.node.invalid(error.to_string());
    let order: Vec<usize> = (0..rows).collect();
    let parts = Parts {
        kernel: kernel(call)?,
        tiles: Tiles::pack(&vectors, width, &order).map_err(refused)?,
        rows,
        width,
        duals,
        intercepts: call.node.floats("rho")?.into_iter().map(f64::from).collect(),
        link,
    };
    let model = kernel::model(parts).map_err(refused)?;
    let from = call.gather(&lanes.lanes)?;
    call.spend(values)?;
    let at = call.program.part(model, from, values);
    Ok(Lanes::from(at, vec![values], Kind::Float))
}

fn regressor<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let transform = transform(call)?;
    if call.node.int("one_class", 0)? != 0 {
        return Err(call.node.unsupported("a search for outliers"));
    }
    if call.node.floats("rho")?.len() != 1 {
        return Err(call.node.invalid("its rho is not one number"));
    }
    let duals = call.node.floats("coefficients")?.into_iter().map(f64::from).collect();
    let sum = part(call, duals, 1, Link::Values, 1)?;
    Ok(vec![Value::Lanes(transformed(call, sum, transform)?)])
}

fn classifier<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    if transform(call)? != Transform::None {
        return Err(call.node.unsupported("a post_transform"));
    }
    let names = classes(call)?;
    let each = call.node.ints("vectors_per_class")?;
    let pairs = names.len().saturating_mul(names.len().saturating_sub(1)) / 2;
    if names.len() < 2 || each.len() != names.len() || call.node.floats("rho")?.len() != pairs {
        return Err(call.node.unsupported("a machine that is not of support vectors by classes"));
    }
    let mut starts = vec![0_u32];
    for count in &each {
        let last = starts.last().copied().unwrap_or(0);
        let next = u32::try_from(*count).ok().and_then(|count| last.checked_add(count));
        starts.push(next.ok_or_else(|| call.node.invalid("its vectors_per_class are no counts"))?);
    }
    let rows = starts.last().copied().unwrap_or(0) as usize;
    // By other classes there, by rows here.
    let (columns, numbers) = (names.len() - 1, call.node.floats("coefficients")?);
    if rows.checked_mul(columns) != Some(numbers.len()) {
        return Err(call.node.invalid(format!("{} coefficients for {rows} support vectors", numbers.len())));
    }
    let duals = (0..rows).flat_map(|row| (0..columns).map(move |other| (row, other)));
    let duals = duals.map(|(row, other)| f64::from(numbers[other * rows + row])).collect();
    let (slopes, offsets) = (call.node.floats("prob_a")?, call.node.floats("prob_b")?);
    if slopes.len() != offsets.len() || (!slopes.is_empty() && slopes.len() != pairs) {
        return Err(call.node.invalid("its prob_a and prob_b are not one number a pair of classes"));
    }
    let sigmoids = slopes.iter().zip(&offsets).map(|(slope, offset)| (f64::from(*slope), f64::from(*offset))).collect();
    let scores = part(call, duals, columns, Link::Pairs { starts, sigmoids, break_ties: false }, names.len())?;
    classified(call, scores, names)
}
