//! ONNX's messages, as far as a graph of operators needs them.

use std::collections::HashMap;

use forest::error::{Error, Result};

use super::protobuf::{Field, Message, numbers, room};

/// Nodes, initializers, inputs and outputs of a graph: far more than models of rows have, and few enough that what is kept
/// of each is small beside a connection.
const MOST: usize = 1 << 16;

/// What a model is: a graph, and the versions of the operators.
pub(super) struct Model<'a> {
    pub(super) graph: Graph<'a>,
    /// By domain; ONNX's own is "".
    versions: HashMap<&'a str, i64>,
}

#[derive(Default)]
pub(super) struct Graph<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) initializers: HashMap<&'a str, Message<'a>>,
    pub(super) inputs: Vec<Input<'a>>,
    pub(super) outputs: Vec<&'a str>,
}

/// An input of the graph.
pub(super) struct Input<'a> {
    pub(super) name: &'a str,
    /// As [`Type`]; `None` where it is not a tensor.
    pub(super) element: Option<i64>,
    /// `None` for a dimension that is not fixed.
    pub(super) dims: Vec<Option<i64>>,
}

/// One application of an operator.
pub(super) struct Node<'a> {
    pub(super) operator: &'a str,
    pub(super) domain: &'a str,
    pub(super) inputs: Vec<&'a str>,
    pub(super) outputs: Vec<&'a str>,
    message: Message<'a>,
}

/// The types of tensors' elements.
pub(super) struct Type;

impl Type {
    pub(super) const FLOAT: i64 = 1;
    pub(super) const INT32: i64 = 6;
    pub(super) const INT64: i64 = 7;
    pub(super) const STRING: i64 = 8;
    pub(super) const BOOL: i64 = 9;
    pub(super) const DOUBLE: i64 = 11;
    /// Those that are whole numbers: of 8 to 64 bits.
    pub(super) const INTS: [i64; 8] = [2, 3, 4, 5, 6, 7, 12, 13];
}

/// A tensor that the file has.
pub(super) struct Tensor<'a> {
    pub(super) dims: Vec<usize>,
    pub(super) element: i64,
    pub(super) data: Data<'a>,
}

#[derive(Clone)]
pub(super) enum Data<'a> {
    Numbers(Vec<f64>),
    Texts(Vec<&'a str>),
}

impl<'a> Model<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Model<'a>> {
        let (mut graph, mut versions) = (None, HashMap::new());
        for field in Message::of(bytes).fields() {
            match field? {
                (7, field) => graph = Some(Graph::read(field.message()?)?),
                (8, field) => {
                    let (mut domain, mut version) = ("", 1);
                    for field in field.message()?.fields() {
                        match field? {
                            (1, field) => domain = field.text()?,
                            (2, field) => version = field.int()?,
                            _ => {}
                        }
                    }
                    // Some write ONNX's own domain out, and some converters say a domain twice.
                    let entry = versions.entry(if domain == "ai.onnx" { "" } else { domain }).or_insert(version);
                    *entry = version.max(*entry);
                }
                _ => {}
            }
        }
        let graph = graph.ok_or_else(|| Error::Format("it has no graph".into()))?;
        Ok(Model { graph, versions })
    }

    /// The version of ONNX's own operators.
    pub(super) fn version(&self) -> i64 {
        self.versions.get("").copied().unwrap_or(1)
    }
}

impl<'a> Graph<'a> {
    fn read(message: Message<'a>) -> Result<Graph<'a>> {
        let mut graph = Graph::default();
        for field in message.fields() {
            match field? {
                (1, field) => graph.nodes.push(Node::read(field.message()?)?),
                (5, field) => {
                    let tensor = field.message()?;
                    let name = name(tensor, 8)?;
                    if graph.initializers.insert(name, tensor).is_some() {
                        return Err(tensor.wrong("two initializers of the same name"));
                    }
                }
                (11, field) => graph.inputs.push(Input::read(field.message()?)?),
                (12, field) => graph.outputs.push(name(field.message()?, 1)?),
                (15, _) => return Err(unsupported("the graph", "a sparse initializer")),
                _ => {}
            }
            let lengths = [graph.nodes.len(), graph.initializers.len(), graph.inputs.len(), graph.outputs.len()];
            if lengths.iter().any(|length| *length > MOST) {
                return Err(unsupported("the graph", &format!("more than {MOST} nodes, initializers or inputs")));
            }
        }
        Ok(graph)
    }
}

/// The text of that field.
fn name(message: Message<'_>, wanted: u32) -> Result<&str> {
    let mut name = "";
    for field in message.fields() {
        match field? {
            (number, field) if number == wanted => name = field.text()?,
            _ => {}
        }
    }
    Ok(name)
}

impl<'a> Input<'a> {
    fn read(message: Message<'a>) -> Result<Input<'a>> {
        let mut input = Input { name: "", element: None, dims: Vec::new() };
        for field in message.fields() {
            match field? {
                (1, field) => input.name = field.text()?,
                (2, field) => {
                    for field in field.message()?.fields() {
                        if let (1, field) = field? {
                            input.tensor(field.message()?)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(input)
    }

    fn tensor(&mut self, message: Message<'a>) -> Result<()> {
        for field in message.fields() {
            match field? {
                (1, field) => self.element = Some(field.int()?),
                (2, field) => {
                    for dim in field.message()?.fields() {
                        let (1, dim) = dim? else { continue };
                        let mut size = None;
                        for field in dim.message()?.fields() {
                            if let (1, field) = field? {
                                size = Some(field.int()?);
                            }
                        }
                        self.dims.push(size);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl<'a> Node<'a> {
    fn read(message: Message<'a>) -> Result<Node<'a>> {
        let mut node = Node { operator: "", domain: "", inputs: Vec::new(), outputs: Vec::new(), message };
        for field in message.fields() {
            match field? {
                (1, field) => node.inputs.push(field.text()?),
                (2, field) => node.outputs.push(field.text()?),
                (4, field) => node.operator = field.text()?,
                (7, field) => node.domain = Some(field.text()?).filter(|domain| *domain != "ai.onnx").unwrap_or(""),
                _ => {}
            }
        }
        Ok(node)
    }

    /// What it is called in messages.
    pub(super) fn path(&self) -> String {
        match self.outputs.iter().find(|name| !name.is_empty()) {
            Some(output) => format!("{} \"{output}\"", self.operator),
            None => self.operator.to_owned(),
        }
    }

    pub(super) fn invalid(&self, what: impl Into<String>) -> Error {
        Error::Invalid { path: self.path(), what: what.into() }
    }

    pub(super) fn unsupported(&self, what: &str) -> Error {
        unsupported(&self.path(), what)
    }

    /// The fields of an attribute.
    fn attribute(&self, wanted: &str) -> Result<Option<Message<'a>>> {
        for field in self.message.fields() {
            if let (5, field) = field?
                && name(field.message()?, 1)? == wanted
            {
                return field.message().map(Some);
            }
        }
        Ok(None)
    }

    /// Calls `take` with each field of an attribute that has this number; whether there is the attribute.
    fn each(&self, wanted: &str, number: u32, mut take: impl FnMut(Field<'a>) -> Result<()>) -> Result<bool> {
        let Some(attribute) = self.attribute(wanted)? else { return Ok(false) };
        for field in attribute.fields() {
            match field? {
                (found, field) if found == number => take(field)?,
                _ => {}
            }
        }
        Ok(true)
    }

    pub(super) fn has(&self, name: &str) -> Result<bool> {
        self.attribute(name).map(|found| found.is_some())
    }

    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64> {
        let mut value = None;
        let has = self.each(name, 3, |field| field.int().map(|int| value = Some(int)))?;
        // A zero need not be written.
        Ok(value.unwrap_or(if has { 0 } else { default }))
    }

    pub(super) fn float(&self, name: &str, default: f32) -> Result<f32> {
        let mut values = Vec::new();
        let has = self.each(name, 2, |field| field.floats(&mut values))?;
        Ok(values.last().copied().unwrap_or(if has { 0.0 } else { default }))
    }

    pub(super) fn text(&self, name: &str, default: &'a str) -> Result<&'a str> {
        let mut value = default;
        self.each(name, 4, |field| field.text().map(|text| value = text))?;
        Ok(value)
    }

    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>> {
        let mut values = Vec::new();
        self.each(name, 8, |field| field.ints(&mut values))?;
        Ok(values)
    }

    pub(super) fn floats(&self, name: &str) -> Result<Vec<f32>> {
        let mut values = Vec::new();
        self.each(name, 7, |field| field.floats(&mut values))?;
        Ok(values)
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<&'a str>> {
        let mut values = Vec::new();
        self.each(name, 9, |field| field.text().map(|text| values.push(text)))?;
        Ok(values)
    }

    pub(super) fn tensor(&self, name: &str) -> Result<Option<Tensor<'a>>> {
        let mut found = None;
        self.each(name, 5, |field| Tensor::read(field.message()?).map(|tensor| found = Some(tensor)))?;
        Ok(found)
    }

    /// Numbers that are an attribute as float32, or as float64 in a tensor of that name with `_as_tensor`.
    pub(super) fn doubles(&self, name: &str) -> Result<Vec<f64>> {
        match self.tensor(&format!("{name}_as_tensor"))? {
            Some(Tensor { data: Data::Numbers(numbers), .. }) => Ok(numbers),
            Some(_) => Err(self.invalid(format!("{name}_as_tensor is of texts"))),
            None => Ok(self.floats(name)?.into_iter().map(f64::from).collect()),
        }
    }
}

pub(super) fn unsupported(path: &str, what: &str) -> Error {
    Error::Unsupported { path: path.to_owned(), what: what.to_owned() }
}

/// The fields of a tensor that have its elements.
#[derive(Default)]
struct Elements<'a> {
    floats: Vec<f32>,
    doubles: Vec<f64>,
    ints: Vec<i64>,
    texts: Vec<&'a str>,
    raw: Option<Message<'a>>,
}

impl<'a> Tensor<'a> {
    pub(super) fn read(message: Message<'a>) -> Result<Tensor<'a>> {
        let (mut dims, mut element, mut elements) = (Vec::new(), 0, Elements::default());
        for field in message.fields() {
            match field? {
                (1, field) => field.ints(&mut dims)?,
                (2, field) => element = field.int()?,
                (4, field) => field.floats(&mut elements.floats)?,
                (5 | 7 | 11, field) => field.ints(&mut elements.ints)?,
                (6, field) => elements.texts.push(field.text()?),
                (9, field) => elements.raw = Some(field.message()?),
                (10, field) => field.doubles(&mut elements.doubles)?,
                (3 | 13, _) => return Err(unsupported("a tensor", "data in another file")),
                _ => {}
            }
        }
        if dims.len() > 8 {
            return Err(unsupported("a tensor", "more than 8 dimensions"));
        }
        let length = dims
            .iter()
            .try_fold(1_i64, |length, dim| length.checked_mul(*dim))
            .filter(|_| !dims.iter().any(|dim| *dim < 0));
        let data = elements.data(element, message)?;
        let found = match &data {
            Data::Numbers(numbers) => numbers.len(),
            Data::Texts(texts) => texts.len(),
        };
        if length.and_then(|length| usize::try_from(length).ok()) != Some(found) {
            return Err(message.wrong(&format!("a tensor of {dims:?} with {found} elements")));
        }
        Ok(Tensor { dims: dims.iter().map(|dim| *dim as usize).collect(), element, data })
    }
}

impl<'a> Elements<'a> {
    fn data(self, element: i64, message: Message<'a>) -> Result<Data<'a>> {
        if element == Type::STRING {
            return Ok(Data::Texts(self.texts));
        }
        let mut out = Vec::new();
        match (element, self.raw) {
            (Type::FLOAT, Some(raw)) => numbers(raw, &mut out, |bytes| f64::from(f32::from_le_bytes(bytes)))?,
            (Type::DOUBLE, Some(raw)) => numbers(raw, &mut out, f64::from_le_bytes)?,
            (Type::INT64, Some(raw)) => numbers(raw, &mut out, |bytes| i64::from_le_bytes(bytes) as f64)?,
            (Type::INT32, Some(raw)) => numbers(raw, &mut out, |bytes| f64::from(i32::from_le_bytes(bytes)))?,
            (Type::BOOL | 2, Some(raw)) => numbers(raw, &mut out, |[byte]| f64::from(byte))?,
            (3, Some(raw)) => numbers(raw, &mut out, |bytes| f64::from(i8::from_le_bytes(bytes)))?,
            (Type::FLOAT, None) => widen(&mut out, &self.floats, f64::from)?,
            (Type::DOUBLE, None) => out = self.doubles,
            (Type::INT64 | Type::INT32 | Type::BOOL | 2 | 3, None) => widen(&mut out, &self.ints, |int| int as f64)?,
            (other, _) => return Err(unsupported("a tensor", &format!("an element of type {other}"))),
        }
        if message.bytes().len() < out.len() / 8 {
            return Err(message.wrong("a tensor that is longer than its bytes"));
        }
        Ok(Data::Numbers(out))
    }
}

fn widen<T: Copy>(out: &mut Vec<f64>, from: &[T], to: fn(T) -> f64) -> Result<()> {
    room(out, from.len())?;
    out.extend(from.iter().map(|number| to(*number)));
    Ok(())
}
