//! Operators on each number by itself.

use std::rc::Rc;

use forest::error::Result;

use super::lower::{Call, Lower};
use super::message::{Data, Type};
use super::value::{Constant, Kind, Lanes, Value, broadcast, common};
use crate::forms::program::{Binary, Step, Unary};

pub(super) const OPERATORS: &[(&str, &str, Lower)] = &[
    ("", "Relu", |call| unary(call, Unary::Relu, 0.0)),
    ("", "Sigmoid", |call| unary(call, Unary::Sigmoid, 0.0)),
    ("", "Tanh", |call| unary(call, Unary::Tanh, 0.0)),
    ("", "Exp", |call| unary(call, Unary::Exp, 0.0)),
    ("", "Log", |call| unary(call, Unary::Log, 0.0)),
    ("", "Neg", |call| unary(call, Unary::Neg, 0.0)),
    ("", "Abs", |call| unary(call, Unary::Abs, 0.0)),
    ("", "Sqrt", |call| unary(call, Unary::Sqrt, 0.0)),
    ("", "Reciprocal", |call| unary(call, Unary::Reciprocal, 0.0)),
    ("", "Floor", |call| unary(call, Unary::Floor, 0.0)),
    ("", "Ceil", |call| unary(call, Unary::Ceil, 0.0)),
    ("", "Round", |call| unary(call, Unary::Round, 0.0)),
    ("", "Sign", |call| unary(call, Unary::Sign, 0.0)),
    ("", "Not", |call| unary(call, Unary::Not, 0.0)),
    ("", "IsNaN", |call| unary(call, Unary::IsNan, 0.0)),
    ("", "Erf", |call| unary(call, Unary::Erf, 0.0)),
    ("", "Sin", |call| unary(call, Unary::Sin, 0.0)),
    ("", "Cos", |call| unary(call, Unary::Cos, 0.0)),
    ("", "Softplus", |call| unary(call, Unary::Softplus, 0.0)),
    ("", "Softsign", |call| unary(call, Unary::Softsign, 0.0)),
    ("", "LeakyRelu", |call| unary(call, Unary::LeakyRelu, call.node.float("alpha", 0.01)?)),
    ("", "Elu", |call| unary(call, Unary::Elu, call.node.float("alpha", 1.0)?)),
    ("", "HardSigmoid", hard_sigmoid),
    ("", "Clip", clip),
    ("", "Add", |call| binary(call, Binary::Add)),
    ("", "Sub", |call| binary(call, Binary::Sub)),
    ("", "Mul", |call| binary(call, Binary::Mul)),
    ("", "Div", |call| binary(call, Binary::Div)),
    ("", "Pow", |call| binary(call, Binary::Pow)),
    ("", "Min", |call| several(call, Binary::Min)),
    ("", "Max", |call| several(call, Binary::Max)),
    ("", "Sum", |call| several(call, Binary::Add)),
    ("", "Equal", |call| binary(call, Binary::Equal)),
    ("", "Less", |call| binary(call, Binary::Less)),
    ("", "LessOrEqual", |call| binary(call, Binary::LessOrEqual)),
    ("", "Greater", |call| binary(call, Binary::Greater)),
    ("", "GreaterOrEqual", |call| binary(call, Binary::GreaterOrEqual)),
    ("", "And", |call| binary(call, Binary::And)),
    ("", "Or", |call| binary(call, Binary::Or)),
    ("", "Xor", |call| binary(call, Binary::Xor)),
    ("", "Where", choose),
    ("", "Cast", cast),
    ("ai.onnx.ml", "Binarizer", |call| unary(call, Unary::Above, call.node.float("threshold", 0.0)?)),
];

/// What kind a function's values are of.
fn kind_of(function: Unary, from: Kind) -> Kind {
    match function {
        Unary::Not | Unary::IsNan | Unary::IsTrue => Kind::Bool,
        Unary::Neg | Unary::Abs | Unary::Sign | Unary::Relu | Unary::AtLeast | Unary::AtMost => from,
        Unary::Trunc => Kind::Int,
        _ => Kind::Float,
    }
}

fn unary<'a>(call: &mut Call<'a, '_>, function: Unary, a: f32) -> Result<Vec<Value<'a>>> {
    let value = call.value(0)?;
    Ok(vec![applied(call, value, function, a)?])
}

/// A function of each number of a value.
pub(super) fn applied<'a>(call: &mut Call<'a, '_>, value: Value<'a>, function: Unary, a: f32) -> Result<Value<'a>> {
    match value {
        Value::Constant(constant) => {
            let kind = kind_of(function, constant.kind);
            let Data::Numbers(numbers) = &*constant.data else {
                return Err(call.node.unsupported("an input of texts"));
            };
            let numbers = numbers.iter().map(|x| f64::from(function.apply(*x as f32, a))).collect();
            Ok(Value::Constant(Constant { data: Rc::new(Data::Numbers(numbers)), dims: constant.dims, kind }))
        }
        Value::Lanes(lanes) if lanes.kind != Kind::Text => {
            let count = lanes.lanes.len();
            let from = call.gather(&lanes.lanes)?;
            call.spend(count)?;
            let at = call.program.push(Step::Unary { function, from, count, a }, count);
            Ok(Value::Lanes(Lanes::from(at, lanes.dims, kind_of(function, lanes.kind))))
        }
        _ => Err(call.node.unsupported("an input that is not of numbers")),
    }
}

fn hard_sigmoid<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    if call.node.float("beta", 0.5)? != 0.5 {
        return Err(call.node.unsupported("a beta other than 0.5"));
    }
    unary(call, Unary::HardSigmoid, call.node.float("alpha", 0.2)?)
}

fn clip<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let mut value = call.value(0)?;
    for (index, name, function) in [(1, "min", Unary::AtLeast), (2, "max", Unary::AtMost)] {
        let bound = match call.node.has(name)? {
            true => Some(call.node.float(name, 0.0)?),
            false => match call.optional(index)? {
                None => None,
                Some(Value::Constant(constant)) => {
                    constant.numbers().and_then(|numbers| numbers.first()).map(|x| *x as f32)
                }
                Some(_) => return Err(call.node.unsupported("a bound that depends on the row")),
            },
        };
        if let Some(bound) = bound {
            value = applied(call, value, function, bound)?;
        }
    }
    Ok(vec![value])
}

/// What kind a function of two gives.
fn kind_of_two(function: Binary, a: Kind, b: Kind) -> Kind {
    use Binary::{And, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Or, Xor};
    match function {
        Equal | Less | LessOrEqual | Greater | GreaterOrEqual | And | Or | Xor => Kind::Bool,
        _ if a == Kind::Int && b == Kind::Int => Kind::Int,
        _ => Kind::Float,
    }
}

fn kind(value: &Value<'_>) -> Kind {
    match value {
        Value::Lanes(lanes) => lanes.kind,
        Value::Constant(constant) => constant.kind,
        Value::Class { .. } | Value::Sizes(_) => Kind::Int,
        Value::Map { .. } => Kind::Float,
    }
}

/// A class that is a whole number is as good as that number only where the classes are 0, 1, 2, ...: elsewhere the numbers
/// are what the names say.
fn number<'a>(call: &Call<'a, '_>, value: Value<'a>) -> Result<Value<'a>> {
    match value {
        Value::Class { index, names } => {
            let counts = names.iter().enumerate().all(|(place, name)| *name == place.to_string());
            match counts {
                true => Ok(Value::Lanes(index)),
                false => Err(call.node.unsupported("arithmetic with classes")),
            }
        }
        value => Ok(value),
    }
}

fn binary<'a>(call: &mut Call<'a, '_>, function: Binary) -> Result<Vec<Value<'a>>> {
    let (left, right) = (call.value(0)?, call.value(1)?);
    let (left, right) = (number(call, left)?, number(call, right)?);
    Ok(vec![two(call, function, &left, &right)?])
}

fn several<'a>(call: &mut Call<'a, '_>, function: Binary) -> Result<Vec<Value<'a>>> {
    let mut value = call.value(0)?;
    for index in 1..call.node.inputs.len() {
        let other = call.value(index)?;
        value = two(call, function, &value, &other)?;
    }
    Ok(vec![value])
}

/// A function of each two numbers of values that broadcast.
pub(super) fn two<'a>(
    call: &mut Call<'a, '_>,
    function: Binary,
    left: &Value<'a>,
    right: &Value<'a>,
) -> Result<Value<'a>> {
    let kinds = (kind(left), kind(right));
    if kinds.0 == Kind::Text || kinds.1 == Kind::Text {
        return Err(call.node.unsupported("an input of texts"));
    }
    let kind = kind_of_two(function, kinds.0, kinds.1);
    let value = match (left, right) {
        (Value::Constant(left), Value::Constant(right)) => constants(call, function, left, right, kind)?,
        _ => {
            let dims = call.common(&[left, right])?;
            let (left, right) = (call.operand(left, &dims)?, call.operand(right, &dims)?);
            let count = call.afford(&dims)?;
            let at = call.program.push(Step::Binary { function, left, right, count }, count);
            Value::Lanes(Lanes::from(at, dims, kind))
        }
    };
    match function == Binary::Div && kind == Kind::Int {
        true => applied(call, value, Unary::Trunc, 0.0),
        false => Ok(value),
    }
}

fn constants<'a>(
    call: &mut Call<'a, '_>,
    function: Binary,
    left: &Constant<'a>,
    right: &Constant<'a>,
    kind: Kind,
) -> Result<Value<'a>> {
    let apart = || call.node.unsupported("inputs whose shapes do not go together");
    let dims = common(&left.dims, &right.dims).ok_or_else(apart)?;
    let (Some(a), Some(b)) = (left.numbers(), right.numbers()) else { return Err(apart()) };
    let count = call.afford(&dims)?;
    let apart = || call.node.unsupported("inputs whose shapes do not go together");
    let (left, right) =
        (broadcast(&left.dims, &dims).ok_or_else(apart)?, broadcast(&right.dims, &dims).ok_or_else(apart)?);
    let mut numbers = Vec::with_capacity(count);
    for (left, right) in left.iter().zip(&right) {
        numbers.push(f64::from(function.apply(a[*left] as f32, b[*right] as f32)));
    }
    Ok(Value::Constant(Constant { data: Rc::new(Data::Numbers(numbers)), dims, kind }))
}

fn choose<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let values = [call.value(0)?, call.value(1)?, call.value(2)?];
    if values.iter().any(|value| kind(value) == Kind::Text) {
        return Err(call.node.unsupported("an input of texts"));
    }
    let dims = call.common(&[&values[0], &values[1], &values[2]])?;
    let test = call.operand(&values[0], &dims)?;
    let then = call.operand(&values[1], &dims)?;
    let otherwise = call.operand(&values[2], &dims)?;
    let count = call.afford(&dims)?;
    let at = call.program.push(Step::Choose { test, then, otherwise, count }, count);
    Ok(vec![Value::Lanes(Lanes::from(at, dims, kind(&values[1])))])
}

fn cast<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let value = call.value(0)?;
    let to = call.node.int("to", Type::FLOAT)?;
    let to = Kind::of(to).ok_or_else(|| call.node.unsupported("a type that it casts to"))?;
    Ok(vec![match value {
        // Classes that were booleans come as 0 and 1.
        Value::Class { index, names } if to == Kind::Bool => {
            let truth = |name: &String| if name == "0" { "false".to_owned() } else { "true".to_owned() };
            let booleans = names.iter().all(|name| name == "0" || name == "1");
            let names = if booleans { std::rc::Rc::new(names.iter().map(truth).collect()) } else { names };
            Value::Class { index, names }
        }
        value @ (Value::Class { .. } | Value::Map { .. } | Value::Sizes(_)) => value,
        value if kind(&value) == Kind::Text || to == Kind::Text => match kind(&value) == to {
            true => value,
            false => return Err(call.node.unsupported("a cast from or to texts")),
        },
        value => match (kind(&value), to) {
            (Kind::Float, Kind::Int) => applied(call, value, Unary::Trunc, 0.0)?,
            (Kind::Float | Kind::Int, Kind::Bool) => applied(call, value, Unary::IsTrue, 0.0)?,
            _ => match value {
                Value::Lanes(lanes) => Value::Lanes(Lanes { kind: to, ..lanes }),
                Value::Constant(constant) => Value::Constant(Constant { kind: to, ..constant }),
                value => value,
            },
        },
    }])
}
