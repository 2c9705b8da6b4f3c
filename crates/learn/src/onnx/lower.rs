//! From a graph to a program: node after node, in the order of the file.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use forest::error::{Error, Result};

use super::message::{Data, Graph, Input, Model, Node, Tensor, unsupported};
use super::value::{Constant, Kind, Lanes, Value, broadcast, common};
use super::{elementwise, network, pipeline, shape, svm, trees};
use crate::forms::program::{Builder, Step};

/// Numbers that may be moved, made or looked at for each byte of the file, and beside it: a file of a few bytes says
/// nothing that takes longer than a blink.
const SPENT_A_BYTE: usize = 8;
const SPENT: usize = 1 << 22;

/// The most features of a row: what a table can have is far less.
const MOST_FEATURES: usize = 1 << 20;

/// How an operator's application becomes steps.
pub(super) type Lower = for<'a, 'l> fn(&mut Call<'a, 'l>) -> Result<Vec<Value<'a>>>;

/// The operators: domain, name, and what they become.
const TABLES: [&[(&str, &str, Lower)]; 6] = [
    elementwise::OPERATORS,
    shape::OPERATORS,
    network::OPERATORS,
    pipeline::OPERATORS,
    trees::OPERATORS,
    svm::OPERATORS,
];

/// A graph that has become a program.
pub(super) struct Lowered<'a> {
    pub(super) program: Builder,
    /// What the graph's outputs are.
    pub(super) outputs: Vec<Value<'a>>,
    /// The inputs by their names, with how many features each of them is.
    pub(super) inputs: Vec<(&'a str, usize)>,
    pub(super) texts: Texts,
    pub(super) largest: Largest,
}

/// For places of the largest of some numbers those numbers.
pub(super) type Largest = HashMap<u32, Rc<[u32]>>;

/// The categories of each feature that is a text, by their codes.
#[derive(Default)]
pub(super) struct Texts {
    codes: HashMap<usize, HashMap<String, usize>>,
}

impl Texts {
    /// Says that a feature is a text.
    fn declare(&mut self, feature: usize) {
        self.codes.entry(feature).or_default();
    }

    /// The code of a category, which is new or known.
    pub(super) fn code(&mut self, feature: usize, category: &str) -> Option<usize> {
        let codes = self.codes.get_mut(&feature)?;
        let next = codes.len();
        Some(*codes.entry(category.to_owned()).or_insert(next))
    }

    /// How many categories a feature has; `None` where it is no text.
    pub(super) fn count(&self, feature: usize) -> Option<usize> {
        self.codes.get(&feature).map(HashMap::len)
    }

    /// The categories of a feature; `None` where it is no text.
    pub(super) fn of(&self, feature: usize) -> Option<Vec<String>> {
        let mut names: Vec<(&String, &usize)> = self.codes.get(&feature)?.iter().collect();
        names.sort_unstable_by_key(|(_, code)| **code);
        Some(names.into_iter().map(|(name, _)| name.clone()).collect())
    }
}

/// An operator that is being applied.
pub(super) struct Call<'a, 'l> {
    pub(super) node: &'l Node<'a>,
    pub(super) version: i64,
    pub(super) program: &'l mut Builder,
    pub(super) texts: &'l mut Texts,
    pub(super) largest: &'l mut Largest,
    pub(super) width: usize,
    graph: &'l Graph<'a>,
    values: &'l HashMap<&'a str, Value<'a>>,
    left: &'l mut usize,
    /// The most elements of one tensor.
    most: usize,
}

fn operator(node: &Node<'_>) -> Option<Lower> {
    let same = |(domain, name, _): &&(&str, &str, Lower)| *domain == node.domain && *name == node.operator;
    TABLES.iter().flat_map(|table| table.iter()).find(same).map(|(_, _, lower)| *lower)
}

/// Translates a model into a program; `bytes` is the size of its file.
pub(super) fn lower<'a>(model: &Model<'a>, bytes: usize) -> Result<Lowered<'a>> {
    let graph = &model.graph;
    let needed = needed(graph)?;
    refuse_unknown(graph, &needed)?;
    let (mut texts, mut largest) = (Texts::default(), Largest::new());
    let mut values = HashMap::new();
    let (inputs, width) = inputs(graph, &mut texts, &mut values)?;
    let mut program = Builder::new(width);
    let mut left = bytes.saturating_mul(SPENT_A_BYTE).saturating_add(SPENT);
    for (node, _) in graph.nodes.iter().zip(&needed).filter(|(_, needed)| **needed) {
        let Some(operator) = operator(node) else { continue };
        let mut call = Call {
            node,
            version: model.version(),
            program: &mut program,
            texts: &mut texts,
            largest: &mut largest,
            width,
            graph,
            values: &values,
            left: &mut left,
            most: bytes.saturating_add(SPENT),
        };
        let made = operator(&mut call)?;
        for (name, value) in node.outputs.iter().zip(made) {
            if !name.is_empty() && values.insert(*name, value).is_some() {
                return Err(node.invalid("its output has been made before"));
            }
        }
    }
    let outputs = graph
        .outputs
        .iter()
        .map(|name| values.get(name).cloned().ok_or_else(|| invalid(name, "nothing makes this output")));
    Ok(Lowered { outputs: outputs.collect::<Result<_>>()?, program, inputs, texts, largest })
}

fn invalid(name: &str, what: &str) -> Error {
    Error::Invalid { path: format!("\"{name}\""), what: what.to_owned() }
}

/// For each node whether an output of the graph depends on it.
fn needed(graph: &Graph<'_>) -> Result<Vec<bool>> {
    if graph.outputs.is_empty() {
        return Err(Error::Format("its graph has no outputs".into()));
    }
    let mut names: HashSet<&str> = graph.outputs.iter().copied().collect();
    let mut needed = vec![false; graph.nodes.len()];
    for (node, needed) in graph.nodes.iter().zip(&mut needed).rev() {
        *needed = node.outputs.iter().any(|name| !name.is_empty() && names.contains(name));
        if *needed {
            names.extend(&node.inputs);
        }
    }
    Ok(needed)
}

/// Names all operators that are not known, so that nobody has to find one after the other.
fn refuse_unknown(graph: &Graph<'_>, needed: &[bool]) -> Result<()> {
    let mut unknown = Vec::new();
    for (node, needed) in graph.nodes.iter().zip(needed) {
        if *needed && operator(node).is_none() {
            let domain = if node.domain.is_empty() { String::new() } else { format!("{}.", node.domain) };
            let name = format!("{domain}{}", node.operator);
            if !unknown.contains(&name) {
                unknown.push(name);
            }
        }
        if unknown.len() == 20 {
            break;
        }
    }
    match unknown.as_slice() {
        [] => Ok(()),
        [one] => Err(unsupported("the graph", &format!("operator {one}"))),
        several => Err(unsupported("the graph", &format!("each of the operators {}", several.join(", ")))),
    }
}

/// Puts the features on the tape, input after input.
fn inputs<'a>(
    graph: &Graph<'a>,
    texts: &mut Texts,
    values: &mut HashMap<&'a str, Value<'a>>,
) -> Result<(Vec<(&'a str, usize)>, usize)> {
    let (mut inputs, mut width) = (Vec::new(), 0_usize);
    for Input { name, element, dims } in &graph.inputs {
        // In old files the constants are listed among the inputs.
        if graph.initializers.contains_key(name) {
            continue;
        }
        let kind = element.and_then(Kind::of);
        let kind =
            kind.ok_or_else(|| unsupported(&format!("input \"{name}\""), "what is no tensor of numbers or texts"))?;
        let trailing = dims.get(1..).unwrap_or_default();
        let trailing: Option<Vec<usize>> =
            trailing.iter().map(|dim| dim.and_then(|dim| usize::try_from(dim).ok()).filter(|dim| *dim > 0)).collect();
        let trailing = trailing
            .ok_or_else(|| unsupported(&format!("input \"{name}\""), "a number of features that is not fixed"))?;
        let size = trailing.iter().try_fold(1_usize, |size, dim| size.checked_mul(*dim));
        let size = size.filter(|size| *size <= MOST_FEATURES - width);
        let size = size.ok_or_else(|| unsupported("the graph", &format!("more than {MOST_FEATURES} features")))?;
        if kind == Kind::Text {
            (width..width + size).for_each(|feature| texts.declare(feature));
        }
        let lanes = Lanes::from(width, trailing, kind);
        if values.insert(name, Value::Lanes(lanes)).is_some() {
            return Err(invalid(name, "two inputs have this name"));
        }
        inputs.push((*name, size));
        width += size;
    }
    match width {
        0 => Err(Error::Format("its graph has no inputs".into())),
        width => Ok((inputs, width)),
    }
}

impl<'a> Call<'a, '_> {
    /// Counts numbers that are about to be made; refuses what would be far more than the file is worth.
    pub(super) fn spend(&mut self, numbers: usize) -> Result<()> {
        match self.left.checked_sub(numbers) {
            Some(left) if numbers <= self.most => {
                *self.left = left;
                Ok(())
            }
            _ => Err(self.node.unsupported("a tensor far larger than the file")),
        }
    }

    /// As [`Self::spend`], for a tensor of these dimensions; gives how many elements it has.
    pub(super) fn afford(&mut self, dims: &[usize]) -> Result<usize> {
        let count = dims.iter().try_fold(1_usize, |count, dim| count.checked_mul(*dim)).unwrap_or(usize::MAX);
        self.spend(count)?;
        Ok(count)
    }

    /// An input that may be left out.
    pub(super) fn optional(&mut self, index: usize) -> Result<Option<Value<'a>>> {
        let Some(name) = self.node.inputs.get(index).filter(|name| !name.is_empty()) else { return Ok(None) };
        if let Some(value) = self.values.get(name) {
            return Ok(Some(value.clone()));
        }
        let Some(tensor) = self.graph.initializers.get(name) else {
            return Err(self.node.invalid(format!("nothing has made its input \"{name}\" before")));
        };
        // Read each time that it is used: what a file uses often counts as often.
        self.spend(tensor.bytes().len())?;
        Constant::of(Tensor::read(*tensor)?).map(|constant| Some(Value::Constant(constant)))
    }

    pub(super) fn value(&mut self, index: usize) -> Result<Value<'a>> {
        self.optional(index)?.ok_or_else(|| self.node.invalid(format!("it lacks input {index}")))
    }

    /// An input that depends on the row, of numbers.
    pub(super) fn lanes(&mut self, index: usize) -> Result<Lanes> {
        match self.value(index)? {
            Value::Lanes(lanes) if lanes.kind != Kind::Text => Ok(lanes),
            Value::Class { index, .. } => Ok(index),
            Value::Map { scores, .. } => Ok(scores),
            Value::Lanes(_) => Err(self.node.unsupported("an input of texts")),
            _ => Err(self.node.unsupported("an input that does not depend on the row")),
        }
    }

    /// As [`Self::lanes`], with a dimension of features: as rows of so many numbers.
    pub(super) fn table(&mut self, index: usize) -> Result<(Lanes, usize)> {
        let lanes = self.lanes(index)?;
        let width = lanes.lanes.len();
        match lanes.dims.len() {
            0 | 1 => Ok((lanes, width)),
            _ => Err(self.node.unsupported("an input of more than two dimensions")),
        }
    }

    /// An input that is the same for all rows.
    pub(super) fn constant(&mut self, index: usize) -> Result<Constant<'a>> {
        match self.value(index)? {
            Value::Constant(constant) => Ok(constant),
            _ => Err(self.node.unsupported(&format!("an input {index} that depends on the row"))),
        }
    }

    /// The whole numbers that an input is, which may be left out.
    pub(super) fn whole(&mut self, index: usize) -> Result<Option<Vec<i64>>> {
        let Some(value) = self.optional(index)? else { return Ok(None) };
        match &value {
            Value::Constant(constant) if constant.kind == Kind::Int => {
                Ok(constant.numbers().map(|numbers| numbers.iter().map(|number| *number as i64).collect()))
            }
            _ => Err(self.node.unsupported(&format!("an input {index} that is not constant whole numbers"))),
        }
    }

    /// A list of axes that was an attribute first and became an input.
    pub(super) fn axes(&mut self, index: usize) -> Result<Option<Vec<i64>>> {
        match self.node.has("axes")? {
            true => self.node.ints("axes").map(Some),
            false => self.whole(index),
        }
    }

    /// An axis of a tensor of that rank.
    pub(super) fn axis(&self, axis: i64, rank: usize) -> Result<usize> {
        let rank = rank as i64;
        let axis = if axis < 0 { axis + rank } else { axis };
        match (0..rank).contains(&axis) {
            true => Ok(axis as usize),
            false => Err(self.node.invalid(format!("there is no axis {axis} of {rank}"))),
        }
    }

    /// An axis of lanes, among their dimensions; the rows' own is refused.
    pub(super) fn inner_axis(&self, axis: i64, lanes: &Lanes) -> Result<usize> {
        let axis = self.axis(axis, lanes.rank())?;
        axis.checked_sub(1).ok_or_else(|| self.node.unsupported("what goes across rows"))
    }

    /// Puts numbers one behind the other on the tape.
    pub(super) fn gather(&mut self, lanes: &[u32]) -> Result<usize> {
        self.spend(lanes.len())?;
        Ok(self.program.gather(lanes))
    }

    /// Puts constants on the tape.
    pub(super) fn constants(&mut self, numbers: &[f32]) -> Result<usize> {
        self.spend(numbers.len())?;
        let at = self.program.numbers(numbers.iter().copied());
        Ok(self.program.push(Step::Constant { numbers: at, count: numbers.len() }, numbers.len()))
    }

    /// The dimensions, but the rows', that values broadcast to, of which at least one depends on the row.
    pub(super) fn common(&self, values: &[&Value<'a>]) -> Result<Vec<usize>> {
        let apart = || self.node.unsupported("inputs whose shapes do not go together");
        let mut whole: Vec<usize> = vec![1];
        let mut rank = None;
        for value in values {
            match value {
                Value::Lanes(lanes) => {
                    if rank.is_some_and(|rank| rank != lanes.rank()) {
                        return Err(apart());
                    }
                    rank = Some(lanes.rank());
                    let dims: Vec<usize> = std::iter::once(1).chain(lanes.dims.iter().copied()).collect();
                    whole = common(&whole, &dims).ok_or_else(apart)?;
                }
                Value::Constant(constant) => whole = common(&whole, &constant.dims).ok_or_else(apart)?,
                _ => return Err(self.node.unsupported("an input that is not of numbers")),
            }
        }
        // A constant that has a dimension of rows would make more of them.
        match rank == Some(whole.len()) && whole.first() == Some(&1) {
            true => Ok(whole.split_off(1)),
            false => Err(apart()),
        }
    }

    /// Puts a value that broadcasts to these dimensions on the tape.
    pub(super) fn operand(&mut self, value: &Value<'a>, dims: &[usize]) -> Result<usize> {
        self.afford(dims)?;
        let apart = || self.node.unsupported("inputs whose shapes do not go together");
        match value {
            Value::Lanes(lanes) => {
                let indices = broadcast(&lanes.dims, dims).ok_or_else(apart)?;
                let lanes: Vec<u32> = indices.iter().map(|index| lanes.lanes[*index]).collect();
                self.gather(&lanes)
            }
            Value::Constant(constant) => {
                let whole: Vec<usize> = std::iter::once(1).chain(dims.iter().copied()).collect();
                let indices = broadcast(&constant.dims, &whole).ok_or_else(apart)?;
                let Data::Numbers(numbers) = &*constant.data else {
                    return Err(self.node.unsupported("an input of texts"));
                };
                let numbers: Vec<f32> = indices.iter().map(|index| numbers[*index] as f32).collect();
                self.constants(&numbers)
            }
            _ => Err(self.node.unsupported("an input that is not of numbers")),
        }
    }

    /// The same numbers in other places: for each element of the result that of the value.
    pub(super) fn picked(&mut self, value: &Value<'a>, indices: &[usize], dims: Vec<usize>) -> Result<Value<'a>> {
        self.spend(indices.len())?;
        Ok(match value {
            Value::Lanes(Lanes { lanes, kind, .. }) => {
                let lanes: Rc<[u32]> = indices.iter().map(|index| lanes[*index]).collect();
                Value::Lanes(Lanes { lanes, dims, kind: *kind })
            }
            Value::Constant(Constant { data, kind, .. }) => {
                let data = match &**data {
                    Data::Numbers(numbers) => Data::Numbers(indices.iter().map(|index| numbers[*index]).collect()),
                    Data::Texts(texts) => Data::Texts(indices.iter().map(|index| texts[*index]).collect()),
                };
                Value::Constant(Constant { data: Rc::new(data), dims, kind: *kind })
            }
            _ => return Err(self.node.unsupported("an input that is not of numbers")),
        })
    }
}
