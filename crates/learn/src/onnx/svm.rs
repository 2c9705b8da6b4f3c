//! Support vector machines, as the sums of kernels that `forms::kernel` predicts by.

use forest::error::Result;

use super::elementwise::applied;
use super::lower::{Call, Lower};
use super::network::folded;
use super::pipeline::{Transform, both, classes, classified, transform, transformed};
use super::value::{Kind, Lanes, Value};
use crate::forms::kernel::{self, Link, Parts};
use crate::forms::program::{Fold, Unary};
use crate::numerics::kernel::{Kernel, Shape};
use crate::numerics::tiles::Tiles;

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

/// The part of a support vector machine whose rows have `columns` dual coefficients each. Returns its values.
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
    let numbers = call.node.floats("coefficients")?;
    if rows.checked_mul(names.len() - 1) != Some(numbers.len()) {
        return Err(call.node.invalid(format!("{} coefficients for {rows} support vectors", numbers.len())));
    }
    let (slopes, offsets) = (call.node.floats("prob_a")?, call.node.floats("prob_b")?);
    if slopes.len() != offsets.len() || (!slopes.is_empty() && slopes.len() != pairs) {
        return Err(call.node.invalid("its prob_a and prob_b are not one number a pair of classes"));
    }
    if slopes.is_empty() {
        return voted(call, &starts, &numbers, names);
    }
    // By other classes there, by rows here.
    let columns = names.len() - 1;
    let duals = (0..rows).flat_map(|row| (0..columns).map(move |other| (row, other)));
    let duals = duals.map(|(row, other)| f64::from(numbers[other * rows + row])).collect();
    let sigmoids = slopes.iter().zip(&offsets).map(|(slope, offset)| (f64::from(*slope), f64::from(*offset))).collect();
    let scores = part(call, duals, columns, Link::Pairs { starts, sigmoids, break_ties: false }, names.len())?;
    classified(call, scores, names)
}

/// A sum for each two classes, positive where the first of them is meant: the class with the most votes, and the sums.
fn voted<'a>(call: &mut Call<'a, '_>, starts: &[u32], numbers: &[f32], names: Vec<String>) -> Result<Vec<Value<'a>>> {
    let classes = names.len();
    let rows = starts.last().copied().unwrap_or(0) as usize;
    let pairs: Vec<(usize, usize)> =
        (0..classes).flat_map(|first| (first + 1..classes).map(move |second| (first, second))).collect();
    call.spend(rows.saturating_mul(pairs.len()))?;
    let class_of = |row: usize| starts.partition_point(|start| *start as usize <= row) - 1;
    let mut duals = Vec::with_capacity(rows * pairs.len());
    for row in 0..rows {
        let own = class_of(row);
        duals.extend(pairs.iter().map(|(first, second)| match own {
            own if own == *first => f64::from(numbers[(second - 1) * rows + row]),
            own if own == *second => f64::from(numbers[first * rows + row]),
            _ => 0.0,
        }));
    }
    let sums = part(call, duals, pairs.len(), Link::Values, pairs.len())?;
    let won = applied(call, Value::Lanes(sums.clone()), Unary::Above, 0.0)?;
    let lost = applied(call, won.clone(), Unary::Not, 0.0)?;
    let (Value::Lanes(won), Value::Lanes(lost)) = (won, lost) else { return Err(call.node.invalid("it has no sums")) };
    let vote = |class: usize| {
        let of = |(place, pair): (usize, &(usize, usize))| match *pair {
            (first, _) if first == class => Some(won.lanes[place]),
            (_, second) if second == class => Some(lost.lanes[place]),
            _ => None,
        };
        pairs.iter().enumerate().filter_map(of).collect::<Vec<u32>>()
    };
    let votes: Vec<u32> = (0..classes).flat_map(vote).collect();
    let votes = Lanes { lanes: votes.into(), dims: vec![classes, classes - 1], kind: Kind::Float };
    let votes = folded(call, &votes, &[1], false, Fold::Sum, Kind::Float)?;
    let scores = if classes == 2 { both(call, &sums, Transform::None)? } else { sums };
    let mut outputs = classified(call, votes, names)?;
    outputs.truncate(1);
    outputs.push(Value::Lanes(scores));
    Ok(outputs)
}
