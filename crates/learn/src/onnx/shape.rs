//! Operators that move numbers and make none.

use std::rc::Rc;

use forest::error::Result;

use super::lower::{Call, Lower};
use super::message::{Data, Type};
use super::value::{Constant, Kind, Lanes, Value, taken, transposed};

pub(super) const OPERATORS: &[(&str, &str, Lower)] = &[
    ("", "Identity", |call| Ok(vec![call.value(0)?])),
    ("", "Dropout", |call| Ok(vec![call.value(0)?])),
    ("", "Constant", constant),
    ("", "Reshape", reshape),
    ("", "Flatten", flatten),
    ("", "Squeeze", squeeze),
    ("", "Unsqueeze", unsqueeze),
    ("", "Transpose", transpose),
    ("", "Concat", concat),
    ("", "Gather", gather),
    ("", "Slice", slice),
    ("", "Split", split),
    ("", "Shape", |call| match call.value(0)? {
        Value::Lanes(lanes) if !call.node.has("start")? && !call.node.has("end")? => Ok(vec![Value::Sizes(lanes.dims)]),
        _ => Err(call.node.unsupported("the shape of what does not depend on the row")),
    }),
    ("", "ConstantOfShape", constant_of_shape),
    ("ai.onnx.ml", "ArrayFeatureExtractor", extract),
    ("ai.onnx.ml", "FeatureVectorizer", |call| joined(call, 0)),
];

fn constant<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let node = call.node;
    let listed = |numbers: Vec<f64>, kind| {
        let dims = vec![numbers.len()];
        Constant { data: Rc::new(Data::Numbers(numbers)), dims, kind }
    };
    let constant = if let Some(tensor) = node.tensor("value")? {
        Constant::of(tensor)?
    } else if node.has("value_float")? {
        Constant::scalar(node.float("value_float", 0.0)?.into(), Kind::Float)
    } else if node.has("value_int")? {
        Constant::scalar(node.int("value_int", 0)? as f64, Kind::Int)
    } else if node.has("value_floats")? {
        listed(node.floats("value_floats")?.into_iter().map(f64::from).collect(), Kind::Float)
    } else if node.has("value_ints")? {
        listed(node.ints("value_ints")?.into_iter().map(|int| int as f64).collect(), Kind::Int)
    } else {
        return Err(node.unsupported("a constant of its kind"));
    };
    call.spend(constant.numbers().map_or(0, <[f64]>::len))?;
    Ok(vec![Value::Constant(constant)])
}

/// The dimensions of a value, those of the rows left out.
fn dims<'v>(call: &Call<'_, '_>, value: &'v Value<'_>) -> Result<&'v [usize]> {
    match value {
        Value::Lanes(lanes) => Ok(&lanes.dims),
        Value::Constant(constant) => Ok(&constant.dims),
        _ => Err(call.node.unsupported("an input that is not of numbers")),
    }
}

/// The same elements in their order, with other dimensions.
fn shaped<'a>(call: &Call<'a, '_>, value: Value<'a>, dims: Vec<usize>) -> Result<Value<'a>> {
    let count = dims.iter().try_fold(1_usize, |count, dim| count.checked_mul(*dim));
    let found = match &value {
        Value::Lanes(lanes) => Some(lanes.lanes.len()),
        Value::Constant(Constant { data, .. }) => match &**data {
            Data::Numbers(numbers) => Some(numbers.len()),
            Data::Texts(texts) => Some(texts.len()),
        },
        _ => None,
    };
    match value {
        _ if found != count => Err(call.node.unsupported("a shape of another size")),
        Value::Lanes(lanes) => Ok(Value::Lanes(Lanes { dims, ..lanes })),
        Value::Constant(constant) => Ok(Value::Constant(Constant { dims, ..constant })),
        value => Ok(value),
    }
}

fn reshape<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let value = call.value(0)?;
    // There is one class a row, whatever its shape.
    if let Value::Class { .. } = value {
        return Ok(vec![value]);
    }
    let shape = match call.node.has("shape")? {
        true => call.node.ints("shape")?,
        false => call.whole(1)?.ok_or_else(|| call.node.invalid("it lacks a shape"))?,
    };
    let own = dims(call, &value)?;
    let count = own.iter().product::<usize>();
    let (own, wanted): (Vec<usize>, &[i64]) = match (&value, shape.as_slice()) {
        (Value::Constant(_), shape) => (own.to_vec(), shape),
        // As many rows as there are, or the one row that the graph was written for.
        (_, [-1..=1, rest @ ..]) => (own.to_vec(), rest),
        _ => return Err(call.node.unsupported("a shape that moves rows")),
    };
    let mut dims = Vec::with_capacity(wanted.len());
    for (axis, size) in wanted.iter().enumerate() {
        dims.push(match size {
            0 => own.get(axis).copied().unwrap_or(0),
            -1 => usize::MAX,
            size => usize::try_from(*size).map_err(|_| call.node.invalid("a shape with a negative size"))?,
        });
    }
    if let Some(open) = dims.iter().position(|dim| *dim == usize::MAX) {
        let rest = dims.iter().filter(|dim| **dim != usize::MAX).try_fold(1_usize, |rest, dim| rest.checked_mul(*dim));
        dims[open] = rest.and_then(|rest| count.checked_div(rest)).unwrap_or(0);
    }
    Ok(vec![shaped(call, value, dims)?])
}

fn flatten<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let value = call.value(0)?;
    match (&value, call.node.int("axis", 1)?) {
        (Value::Lanes(lanes), 1) => {
            let width = lanes.lanes.len();
            Ok(vec![shaped(call, value, vec![width])?])
        }
        _ => Err(call.node.unsupported("an axis other than 1")),
    }
}

/// The axes among a value's dimensions.
fn axes_of(call: &Call<'_, '_>, value: &Value<'_>, axes: &[i64], rank: usize) -> Result<Vec<usize>> {
    let rows = usize::from(matches!(value, Value::Lanes(_)));
    axes.iter()
        .map(|axis| {
            let axis = call.axis(*axis, rank)?;
            axis.checked_sub(rows).ok_or_else(|| call.node.unsupported("what moves rows"))
        })
        .collect()
}

fn squeeze<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let value = call.value(0)?;
    if let Value::Class { .. } = value {
        return Ok(vec![value]);
    }
    let own = dims(call, &value)?.to_vec();
    let rank = own.len() + usize::from(matches!(value, Value::Lanes(_)));
    let axes = match call.axes(1)? {
        Some(axes) => axes_of(call, &value, &axes, rank)?,
        None => (0..own.len()).filter(|axis| own[*axis] == 1).collect(),
    };
    let dims = own.iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, dim)| *dim).collect();
    Ok(vec![shaped(call, value, dims)?])
}

fn unsqueeze<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let value = call.value(0)?;
    let mut own = dims(call, &value)?.to_vec();
    let axes = call.axes(1)?.ok_or_else(|| call.node.invalid("it lacks axes"))?;
    if axes.len() > 8 {
        return Err(call.node.unsupported("more than 8 dimensions"));
    }
    let rank = own.len() + usize::from(matches!(value, Value::Lanes(_))) + axes.len();
    let mut axes = axes_of(call, &value, &axes, rank)?;
    axes.sort_unstable();
    for axis in axes {
        own.insert(axis.min(own.len()), 1);
    }
    Ok(vec![shaped(call, value, own)?])
}

fn transpose<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let value = call.value(0)?;
    let own = dims(call, &value)?.to_vec();
    let rows = usize::from(matches!(value, Value::Lanes(_)));
    let rank = own.len() + rows;
    let order = match call.node.has("perm")? {
        true => call.node.ints("perm")?,
        false => (0..rank as i64).rev().collect(),
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..rank as i64) {
        return Err(call.node.invalid("its perm is not an order of the axes"));
    }
    if rows == 1 && order.first() != Some(&0) {
        return Err(call.node.unsupported("what moves rows"));
    }
    let order: Vec<usize> = order[rows..].iter().map(|axis| *axis as usize - rows).collect();
    call.afford(&own)?;
    let indices = transposed(&own, &order);
    let dims = order.iter().map(|axis| own[*axis]).collect();
    Ok(vec![call.picked(&value, &indices, dims)?])
}

fn concat<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let axis = call.node.int("axis", 1)?;
    let first = call.value(0)?;
    let rows = usize::from(matches!(first, Value::Lanes(_)));
    let rank = dims(call, &first)?.len() + rows;
    let axis = axes_of(call, &first, &[axis], rank)?.first().copied().unwrap_or(0);
    joined(call, axis)
}

/// The inputs one behind the other along an axis of their dimensions.
fn joined<'a>(call: &mut Call<'a, '_>, axis: usize) -> Result<Vec<Value<'a>>> {
    let mut values = Vec::with_capacity(call.node.inputs.len());
    for index in 0..call.node.inputs.len() {
        values.push(call.value(index)?);
    }
    let apart = || call.node.unsupported("inputs whose shapes do not go together");
    let first = values.first().ok_or_else(apart)?;
    let mut whole = dims(call, first)?.to_vec();
    let size = whole.get(axis).copied().ok_or_else(apart)?;
    whole[axis] = 0;
    let block = |dims: &[usize]| dims[axis..].iter().product::<usize>();
    for value in &values {
        let own = dims(call, value)?;
        let same = own.len() == whole.len() && (0..own.len()).all(|at| at == axis || own[at] == whole[at]);
        if !same || std::mem::discriminant(value) != std::mem::discriminant(first) {
            return Err(apart());
        }
        whole[axis] = whole[axis].checked_add(own[axis]).ok_or_else(apart)?;
    }
    let _ = size;
    call.afford(&whole)?;
    let outer: usize = whole[..axis].iter().product();
    let (mut lanes, mut numbers, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let mut kind = Kind::Float;
    for at in 0..outer {
        for value in &values {
            let block = block(dims(call, value)?);
            let range = at * block..(at + 1) * block;
            match value {
                Value::Lanes(own) => {
                    lanes.extend_from_slice(&own.lanes[range]);
                    if (own.kind == Kind::Text) != (kind == Kind::Text) && !(at == 0 && lanes.len() == block) {
                        return Err(call.node.unsupported("texts beside numbers"));
                    }
                    kind = own.kind;
                }
                Value::Constant(own) => {
                    kind = own.kind;
                    match &*own.data {
                        Data::Numbers(own) => numbers.extend_from_slice(&own[range]),
                        Data::Texts(own) => texts.extend_from_slice(&own[range]),
                    }
                }
                _ => {}
            }
        }
    }
    Ok(vec![match first {
        Value::Lanes(_) => Value::Lanes(Lanes { lanes: lanes.into(), dims: whole, kind }),
        _ if kind == Kind::Text => Value::Constant(Constant { data: Rc::new(Data::Texts(texts)), dims: whole, kind }),
        _ => Value::Constant(Constant { data: Rc::new(Data::Numbers(numbers)), dims: whole, kind }),
    }])
}

/// Elements of a value along an axis of its dimensions, by their places, some of which may count from the end.
fn along<'a>(
    call: &mut Call<'a, '_>,
    value: &Value<'a>,
    axis: usize,
    places: &[i64],
    shape: &[usize],
) -> Result<Value<'a>> {
    let own = dims(call, value)?.to_vec();
    let size = own[axis] as i64;
    let mut which = Vec::with_capacity(places.len());
    for place in places {
        let from = if *place < 0 { place + size } else { *place };
        if !(0..size).contains(&from) {
            return Err(call.node.invalid(format!("there is no element {place} of {size}")));
        }
        which.push(from as usize);
    }
    let mut whole = own.clone();
    whole.splice(axis..=axis, shape.iter().copied());
    call.afford(&whole)?;
    let indices = taken(&own, axis, &which);
    call.picked(value, &indices, whole)
}

fn gather<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let value = call.value(0)?;
    let places = call.constant(1)?;
    let numbers = call.whole(1)?.unwrap_or_default();
    let rank = dims(call, &value)?.len() + usize::from(matches!(value, Value::Lanes(_)));
    let axis = axes_of(call, &value, &[call.node.int("axis", 0)?], rank)?.first().copied().unwrap_or(0);
    Ok(vec![along(call, &value, axis, &numbers, &places.dims)?])
}

fn extract<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let value = call.value(0)?;
    match (&value, call.value(1)?) {
        // A class by its place among all.
        (Value::Constant(constant), Value::Lanes(index)) if index.lanes.len() == 1 => {
            if constant.dims.iter().product::<usize>() != constant.dims.last().copied().unwrap_or(1) {
                return Err(call.node.unsupported("classes of more than one dimension"));
            }
            Ok(vec![Value::Class { index, names: Rc::new(constant.names()) }])
        }
        (_, Value::Constant(_)) => {
            let places = call.whole(1)?.unwrap_or_default();
            let last = dims(call, &value)?.len().checked_sub(1);
            let last = last.ok_or_else(|| call.node.unsupported("an input of one dimension"))?;
            Ok(vec![along(call, &value, last, &places, &[places.len()])?])
        }
        _ => Err(call.node.unsupported("places that depend on the row")),
    }
}

/// The indexes that a slice selects from a dimension.
fn places(start: i64, end: i64, step: i64, size: i64) -> Vec<i64> {
    let from_end = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
    if step > 0 {
        let (start, end) = (from_end(start).clamp(0, size), from_end(end).clamp(0, size));
        (start..end).step_by(usize::try_from(step).unwrap_or(usize::MAX)).collect()
    } else {
        let (start, end) = (from_end(start).clamp(-1, size - 1), from_end(end).clamp(-1, size - 1));
        let back = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
        (end + 1..=start).rev().step_by(back.max(1)).collect()
    }
}

fn slice<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let mut value = call.value(0)?;
    let (starts, ends, axes, steps) = match call.node.has("starts")? {
        true => {
            let axes = if call.node.has("axes")? { Some(call.node.ints("axes")?) } else { None };
            (call.node.ints("starts")?, call.node.ints("ends")?, axes, None)
        }
        false => {
            let (starts, ends) = (call.whole(1)?.unwrap_or_default(), call.whole(2)?.unwrap_or_default());
            (starts, ends, call.whole(3)?, call.whole(4)?)
        }
    };
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    let lengths = [starts.len(), ends.len(), axes.len(), steps.len()];
    if lengths.iter().any(|length| *length != starts.len()) || steps.contains(&0) {
        return Err(call.node.invalid("its starts, ends, axes and steps do not go together"));
    }
    for (((start, end), axis), step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let own = dims(call, &value)?;
        let rank = own.len() + usize::from(matches!(value, Value::Lanes(_)));
        let axis = axes_of(call, &value, &[*axis], rank)?.first().copied().unwrap_or(0);
        let size = dims(call, &value)?.get(axis).copied().unwrap_or(0);
        call.spend(size)?;
        let places = places(*start, *end, *step, size as i64);
        value = along(call, &value, axis, &places, &[places.len()])?;
    }
    Ok(vec![value])
}

fn split<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let value = call.value(0)?;
    let sizes = if call.node.has("split")? { Some(call.node.ints("split")?) } else { call.whole(1)? };
    let rank = dims(call, &value)?.len() + usize::from(matches!(value, Value::Lanes(_)));
    let axis = axes_of(call, &value, &[call.node.int("axis", 0)?], rank)?.first().copied().unwrap_or(0);
    let size = dims(call, &value)?.get(axis).copied().unwrap_or(0) as i64;
    let count = call.node.outputs.len().max(1) as i64;
    let sizes = sizes.unwrap_or_else(|| {
        let each = (size + count - 1) / count;
        (0..count).map(|part| each.min(size - part * each).max(0)).collect()
    });
    let mut whole = 0_i64;
    for part in &sizes {
        whole = whole.saturating_add(*part);
    }
    if whole != size || sizes.iter().any(|part| *part < 0) || sizes.len() as i64 != count {
        return Err(call.node.invalid(format!("its parts are not {count} that make {size}")));
    }
    let (mut parts, mut at) = (Vec::new(), 0);
    for part in sizes {
        let places: Vec<i64> = (at..at + part).collect();
        parts.push(along(call, &value, axis, &places, &[places.len()])?);
        at += part;
    }
    Ok(parts)
}

fn constant_of_shape<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let (number, kind) = match call.node.tensor("value")? {
        None => (0.0, Kind::Float),
        Some(tensor) => {
            let kind = if Type::INTS.contains(&tensor.element) { Kind::Int } else { Kind::Float };
            match tensor.data {
                Data::Numbers(numbers) => (numbers.first().copied().unwrap_or(0.0), kind),
                Data::Texts(_) => return Err(call.node.unsupported("a value that is a text")),
            }
        }
    };
    match call.value(0)? {
        Value::Sizes(dims) => {
            let constant = Value::Constant(Constant::scalar(number, kind));
            let at = call.operand(&constant, &dims)?;
            Ok(vec![Value::Lanes(Lanes::from(at, dims, kind))])
        }
        _ => Err(call.node.unsupported("a shape that is not that of a row's tensor")),
    }
}
