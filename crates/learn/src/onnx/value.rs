//! The values on the edges of a graph while it becomes a program.

use std::rc::Rc;

use forest::error::Result;

use super::message::{Data, Tensor, Type, unsupported};

/// What a number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    Int,
    Bool,
    /// The code of a category.
    Text,
}

impl Kind {
    pub(super) fn of(element: i64) -> Option<Kind> {
        match element {
            Type::FLOAT | Type::DOUBLE => Some(Kind::Float),
            Type::BOOL => Some(Kind::Bool),
            Type::STRING => Some(Kind::Text),
            int if Type::INTS.contains(&int) => Some(Kind::Int),
            _ => None,
        }
    }
}

/// Numbers that a row has: a tensor whose first dimension is the rows.
#[derive(Clone)]
pub(super) struct Lanes {
    /// Their places on the tape.
    pub(super) lanes: Rc<[u32]>,
    /// The dimensions but the first.
    pub(super) dims: Vec<usize>,
    pub(super) kind: Kind,
}

/// Numbers or texts that are the same for all rows.
#[derive(Clone)]
pub(super) struct Constant<'a> {
    pub(super) data: Rc<Data<'a>>,
    pub(super) dims: Vec<usize>,
    pub(super) kind: Kind,
}

#[derive(Clone)]
pub(super) enum Value<'a> {
    Lanes(Lanes),
    Constant(Constant<'a>),
    /// Classes, by their places in a list.
    Class {
        index: Lanes,
        names: Rc<Vec<String>>,
    },
    /// A number for each class.
    Map {
        scores: Lanes,
        names: Rc<Vec<String>>,
    },
    /// The dimensions of lanes.
    Sizes(Vec<usize>),
}

impl Lanes {
    /// The numbers from there on, as many as these dimensions have.
    pub(super) fn from(from: usize, dims: Vec<usize>, kind: Kind) -> Lanes {
        let count: usize = dims.iter().product();
        let first = u32::try_from(from).unwrap_or(u32::MAX);
        Lanes { lanes: (0..count as u32).map(|index| first.saturating_add(index)).collect(), dims, kind }
    }

    pub(super) fn rank(&self) -> usize {
        1 + self.dims.len()
    }
}

impl<'a> Constant<'a> {
    pub(super) fn of(tensor: Tensor<'a>) -> Result<Constant<'a>> {
        let kind = Kind::of(tensor.element).ok_or_else(|| unsupported("a tensor", "an element of its type"))?;
        Ok(Constant { data: Rc::new(tensor.data), dims: tensor.dims, kind })
    }

    pub(super) fn scalar(number: f64, kind: Kind) -> Constant<'a> {
        Constant { data: Rc::new(Data::Numbers(vec![number])), dims: Vec::new(), kind }
    }

    pub(super) fn numbers(&self) -> Option<&[f64]> {
        match &*self.data {
            Data::Numbers(numbers) => Some(numbers),
            Data::Texts(_) => None,
        }
    }

    /// As labels.
    pub(super) fn names(&self) -> Vec<String> {
        match &*self.data {
            Data::Texts(texts) => texts.iter().map(|text| (*text).to_owned()).collect(),
            Data::Numbers(numbers) => numbers.iter().map(f64::to_string).collect(),
        }
    }
}

/// For each element of a tensor of dimensions `to` the one of a tensor of dimensions `from` that stands for it, where
/// dimensions of 1 stand for any; `None` where they do not go together. `to` has at least as many.
pub(super) fn broadcast(from: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    let missing = to.len().checked_sub(from.len())?;
    let mut indices = vec![0];
    for (axis, size) in to.iter().enumerate() {
        let own = if axis < missing { 1 } else { from[axis - missing] };
        if own != *size && own != 1 {
            return None;
        }
        let step = |index: &usize| {
            let index = index * own;
            (0..*size).map(move |at| index + if own == 1 { 0 } else { at })
        };
        indices = indices.iter().flat_map(step).collect();
    }
    Some(indices)
}

/// The dimensions that two broadcast to.
pub(super) fn common(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |dims: &[usize], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |axis| dims[axis]);
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (a, b) if a == b || b == 1 => Some(a),
            (1, b) => Some(b),
            _ => None,
        })
        .collect()
}

/// For each element of a transposed tensor the one of the tensor of these dimensions that comes there.
pub(super) fn transposed(dims: &[usize], order: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis];
    }
    let mut indices = vec![0];
    for axis in order {
        let (size, stride) = (dims[*axis], strides[*axis]);
        indices = indices.iter().flat_map(|index| (0..size).map(move |at| index + at * stride)).collect();
    }
    indices
}

/// For each element of the tensor that takes these of an axis the one of the tensor of these dimensions.
pub(super) fn taken(dims: &[usize], axis: usize, which: &[usize]) -> Vec<usize> {
    let inner: usize = dims[axis + 1..].iter().product();
    let outer: usize = dims[..axis].iter().product();
    let size = dims[axis];
    let block = |outer: usize| {
        which.iter().flat_map(move |at| (0..inner).map(move |inside| (outer * size + at) * inner + inside))
    };
    (0..outer).flat_map(block).collect()
}
