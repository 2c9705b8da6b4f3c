//! Operators over a row's numbers together: matrices, sums, softmax.

use forest::error::Result;

use super::elementwise::two;
use super::lower::{Call, Lower};
use super::value::{Constant, Kind, Lanes, Value, transposed};
use crate::forms::program::{Binary, Fold, Spread, Step};

pub(super) const OPERATORS: &[(&str, &str, Lower)] = &[
    ("", "MatMul", mat_mul),
    ("", "Gemm", gemm),
    ("", "BatchNormalization", batch_normalization),
    ("", "Softmax", |call| softmax(call, Spread::Softmax)),
    ("", "LogSoftmax", |call| softmax(call, Spread::LogSoftmax)),
    ("", "LpNormalization", lp_normalization),
    ("", "ReduceSum", |call| reduce(call, Fold::Sum)),
    ("", "ReduceMean", |call| reduce(call, Fold::Mean)),
    ("", "ReduceMax", |call| reduce(call, Fold::Max)),
    ("", "ReduceMin", |call| reduce(call, Fold::Min)),
    ("", "ReduceProd", |call| reduce(call, Fold::Product)),
    ("", "ReduceL1", |call| reduce(call, Fold::L1)),
    ("", "ReduceL2", |call| reduce(call, Fold::L2)),
    ("", "ReduceSumSquare", |call| reduce(call, Fold::SumSquare)),
    ("", "ReduceLogSumExp", |call| reduce(call, Fold::LogSumExp)),
    ("", "ArgMax", |call| best(call, Fold::ArgMax)),
    ("", "ArgMin", |call| best(call, Fold::ArgMin)),
];

/// Each row of `lanes`, whose last dimension is `width`, times a matrix of `count` rows, plus `count` numbers. The
/// dimensions are those of the result.
pub(super) fn dense<'a>(
    call: &mut Call<'a, '_>,
    lanes: &Lanes,
    width: usize,
    matrix: impl Iterator<Item = f32>,
    more: impl Iterator<Item = f32>,
    count: usize,
    dims: Vec<usize>,
) -> Result<Lanes> {
    let rows = lanes.lanes.len().checked_div(width).unwrap_or(0);
    let from = call.gather(&lanes.lanes)?;
    let size = count.saturating_mul(width);
    call.spend(size)?;
    let made = call.afford(&dims)?;
    let numbers = call.program.numbers(matrix.chain(more));
    let at = call.program.push(Step::Dense { from, rows, width, count, numbers }, made);
    Ok(Lanes::from(at, dims, Kind::Float))
}

/// The numbers of a constant matrix, and its dimensions.
fn matrix<'c>(call: &Call<'_, '_>, constant: &'c Constant<'_>) -> Result<(&'c [f64], usize, usize)> {
    match (constant.numbers(), constant.dims.as_slice()) {
        (Some(numbers), [rows]) => Ok((numbers, *rows, 1)),
        (Some(numbers), [rows, columns]) => Ok((numbers, *rows, *columns)),
        _ => Err(call.node.unsupported("a matrix of more than two dimensions")),
    }
}

fn mat_mul<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let lanes = call.lanes(0)?;
    let constant = call.constant(1)?;
    let (numbers, width, count) = matrix(call, &constant)?;
    if lanes.dims.last() != Some(&width) || width == 0 {
        return Err(call.node.invalid(format!("rows of {:?} times a matrix of {width} rows", lanes.dims)));
    }
    let mut dims = lanes.dims.clone();
    dims.pop();
    if constant.dims.len() == 2 {
        dims.push(count);
    }
    let columns = (0..count).flat_map(|column| (0..width).map(move |row| numbers[row * count + column] as f32));
    let none = std::iter::repeat_n(0.0, count);
    Ok(vec![Value::Lanes(dense(call, &lanes, width, columns, none, count, dims)?)])
}

fn gemm<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let lanes = call.lanes(0)?;
    let constant = call.constant(1)?;
    let (numbers, rows, columns) = matrix(call, &constant)?;
    let (alpha, beta) = (call.node.float("alpha", 1.0)?, call.node.float("beta", 1.0)?);
    if call.node.int("transA", 0)? != 0 {
        return Err(call.node.unsupported("what moves rows"));
    }
    let turned = call.node.int("transB", 0)? != 0;
    let (width, count) = if turned { (columns, rows) } else { (rows, columns) };
    if lanes.dims.as_slice() != [width] || width == 0 || constant.dims.len() != 2 {
        return Err(call.node.invalid(format!("rows of {:?} times a matrix of {width} rows", lanes.dims)));
    }
    let place = |column: usize, row: usize| if turned { column * width + row } else { row * count + column };
    let matrix = (0..count).flat_map(|column| (0..width).map(move |row| alpha * numbers[place(column, row)] as f32));
    let none = std::iter::repeat_n(0.0, count);
    let product = Value::Lanes(dense(call, &lanes, width, matrix, none, count, vec![count])?);
    let Some(more) = call.optional(2)? else { return Ok(vec![product]) };
    let beta = Value::Constant(Constant::scalar(beta.into(), Kind::Float));
    let more = two(call, Binary::Mul, &more, &beta)?;
    Ok(vec![two(call, Binary::Add, &product, &more)?])
}

fn batch_normalization<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let lanes = call.lanes(0)?;
    let epsilon = f64::from(call.node.float("epsilon", 1e-5)?);
    let channels = lanes.dims.first().copied().unwrap_or(1);
    let mut four = Vec::with_capacity(4);
    for index in 1..=4 {
        let constant = call.constant(index)?;
        match constant.numbers() {
            Some(numbers) if numbers.len() == channels => four.push(numbers.to_vec()),
            _ => return Err(call.node.invalid(format!("its input {index} is not of {channels} numbers"))),
        }
    }
    if call.node.int("training_mode", 0)? != 0 {
        return Err(call.node.unsupported("a training"));
    }
    let scale: Vec<f64> =
        four[0].iter().zip(&four[3]).map(|(scale, variance)| scale / (variance + epsilon).sqrt()).collect();
    let shift = scale.iter().zip(&four[2]).zip(&four[1]).map(|((scale, mean), shift)| shift - mean * scale).collect();
    let mut value = Value::Lanes(lanes.clone());
    for (function, numbers) in [(Binary::Mul, scale), (Binary::Add, shift)] {
        let mut dims = vec![channels];
        dims.resize(lanes.dims.len().max(1), 1);
        let data = std::rc::Rc::new(super::message::Data::Numbers(numbers));
        value = two(call, function, &value, &Value::Constant(Constant { data, dims, kind: Kind::Float }))?;
    }
    Ok(vec![value])
}

/// The numbers with these axes last, and the order of axes that it is.
fn last<'a>(call: &mut Call<'a, '_>, lanes: &Lanes, axes: &[usize]) -> Result<(usize, Vec<usize>)> {
    let rest = (0..lanes.dims.len()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = rest.chain(axes.iter().copied()).collect();
    call.afford(&lanes.dims)?;
    let moved: Vec<u32> = transposed(&lanes.dims, &order).iter().map(|index| lanes.lanes[*index]).collect();
    Ok((call.gather(&moved)?, order))
}

fn softmax<'a>(call: &mut Call<'a, '_>, spread: Spread) -> Result<Vec<Value<'a>>> {
    let lanes = call.lanes(0)?;
    let old = call.version < 13;
    let axis = call.node.int("axis", if old { 1 } else { -1 })?;
    let axis = call.inner_axis(axis, &lanes)?;
    // Up to version 12 what follows the axis was one dimension with it.
    let axes: Vec<usize> = if old { (axis..lanes.dims.len()).collect() } else { vec![axis] };
    Ok(vec![Value::Lanes(spread_over(call, &lanes, &axes, spread)?)])
}

fn lp_normalization<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let lanes = call.lanes(0)?;
    let spread = match call.node.int("p", 2)? {
        1 => Spread::L1,
        2 => Spread::L2,
        _ => return Err(call.node.unsupported("a norm other than 1 and 2")),
    };
    let axis = call.node.int("axis", -1)?;
    let axis = call.inner_axis(axis, &lanes)?;
    Ok(vec![Value::Lanes(spread_over(call, &lanes, &[axis], spread)?)])
}

/// As many numbers of each group along axes.
pub(super) fn spread_over<'a>(call: &mut Call<'a, '_>, lanes: &Lanes, axes: &[usize], spread: Spread) -> Result<Lanes> {
    let (from, order) = last(call, lanes, axes)?;
    let size: usize = axes.iter().map(|axis| lanes.dims[*axis]).product();
    let count = lanes.lanes.len();
    let groups = count.checked_div(size).unwrap_or(0);
    call.spend(count)?;
    let at = call.program.push(Step::Spread { spread, from, groups, size }, groups * size);
    // Back to the order in which they came.
    let moved: Vec<usize> = order.iter().map(|axis| lanes.dims[*axis]).collect();
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, axis)| back[*axis] = place);
    let made = Lanes::from(at, moved.clone(), Kind::Float);
    let places = transposed(&moved, &back);
    let ordered = places.iter().map(|index| made.lanes[*index]).collect();
    Ok(Lanes { lanes: ordered, dims: lanes.dims.clone(), kind: Kind::Float })
}

fn reduce<'a>(call: &mut Call<'a, '_>, fold: Fold) -> Result<Vec<Value<'a>>> {
    let lanes = call.lanes(0)?;
    let keep = call.node.int("keepdims", 1)? != 0;
    let mut axes = Vec::new();
    match call.axes(1)? {
        Some(given) if !given.is_empty() => {
            for axis in given {
                axes.push(call.inner_axis(axis, &lanes)?);
            }
        }
        _ => return Err(call.node.unsupported("what goes across rows")),
    }
    axes.sort_unstable();
    axes.dedup();
    Ok(vec![Value::Lanes(folded(call, &lanes, &axes, keep, fold, Kind::Float)?)])
}

fn best<'a>(call: &mut Call<'a, '_>, fold: Fold) -> Result<Vec<Value<'a>>> {
    let lanes = call.lanes(0)?;
    if call.node.int("select_last_index", 0)? != 0 {
        return Err(call.node.unsupported("the last of equals"));
    }
    let keep = call.node.int("keepdims", 1)? != 0;
    let axis = call.node.int("axis", 0)?;
    let axis = call.inner_axis(axis, &lanes)?;
    Ok(vec![Value::Lanes(folded(call, &lanes, &[axis], keep, fold, Kind::Int)?)])
}

/// One number of each group along axes.
pub(super) fn folded<'a>(
    call: &mut Call<'a, '_>,
    lanes: &Lanes,
    axes: &[usize],
    keep: bool,
    fold: Fold,
    kind: Kind,
) -> Result<Lanes> {
    let size: usize = axes.iter().map(|axis| lanes.dims[*axis]).product();
    if size == 0 {
        return Err(call.node.unsupported("a dimension of nothing"));
    }
    let (from, _) = last(call, lanes, axes)?;
    let groups = lanes.lanes.len() / size;
    let at = call.program.push(Step::Fold { fold, from, groups, size }, groups);
    if fold == Fold::ArgMax && groups == 1 {
        call.largest.insert(u32::try_from(at).unwrap_or(u32::MAX), lanes.lanes.clone());
    }
    let kept = lanes.dims.iter().enumerate().filter_map(|(axis, dim)| match axes.contains(&axis) {
        true => keep.then_some(1),
        false => Some(*dim),
    });
    Ok(Lanes::from(at, kept.collect(), kind))
}
