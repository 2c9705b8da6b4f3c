//! The two files of a model, both in the format safetensors: the one that is stored, with the weights as its library has
//! them, and the image, with the weights as the products read them. Beside the arrays, the header has an entry `pgml`, the
//! settings as JSON.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use safetensors::Dtype;
use safetensors::tensor::{SafeTensors, TensorView};
use serde_json::{Value, json};

use crate::WEIGHTS;
use crate::arrays::Array;
use crate::error::{Error, unreadable};
use crate::matrix::{pack, padded};
use crate::settings::{About, MOST, Network, Task};
use crate::tokens::Entries;

/// The entry of the header that is ours.
const ABOUT: &str = "pgml";

/// What is stored.
const STORED: &str = "pgml:encoder:1";

/// What is used. Another layout gets another number, and images are made anew.
const IMAGE: &str = "pgml:encoder-image:1";

/// The files of a model.
pub struct Files<'a> {
    /// Of those in [`crate::FILES`] that are there, by name.
    pub texts: BTreeMap<&'static str, Vec<u8>>,
    /// `model.safetensors`.
    pub weights: &'a [u8],
}

impl Files<'_> {
    /// A file as JSON; `None` where it is not there.
    pub fn json(&self, name: &'static str) -> Result<Option<Value>, Error> {
        let Some(bytes) = self.texts.get(name) else { return Ok(None) };
        serde_json::from_slice(bytes).map(Some).map_err(|error| unreadable(name, error))
    }
}

/// The arrays of a layer as Transformers names them, and those of the image that they make: several matrices, or biases,
/// make one.
const LAYER: [(&str, &[&str]); 12] = [
    ("qkv", &["attention.self.query.weight", "attention.self.key.weight", "attention.self.value.weight"]),
    ("qkv_bias", &["attention.self.query.bias", "attention.self.key.bias", "attention.self.value.bias"]),
    ("mix", &["attention.output.dense.weight"]),
    ("mix_bias", &["attention.output.dense.bias"]),
    ("mix_norm", &["attention.output.LayerNorm.weight"]),
    ("mix_norm_bias", &["attention.output.LayerNorm.bias"]),
    ("up", &["intermediate.dense.weight"]),
    ("up_bias", &["intermediate.dense.bias"]),
    ("down", &["output.dense.weight"]),
    ("down_bias", &["output.dense.bias"]),
    ("down_norm", &["output.LayerNorm.weight"]),
    ("down_norm_bias", &["output.LayerNorm.bias"]),
];

/// An array of the image, and what it is made of.
struct Made {
    name: String,
    sources: Vec<String>,
    /// Of a matrix that is packed, or else of the values as they are.
    outputs: usize,
    inputs: usize,
    packed: bool,
}

/// All arrays of numbers of a network, in the order of their use.
fn arrays(network: &Network, task: Task) -> Vec<Made> {
    let Network { hidden, intermediate, .. } = *network;
    let plain = |name: &str, source: &str, outputs, inputs| Made {
        name: name.to_owned(),
        sources: vec![source.to_owned()],
        outputs,
        inputs,
        packed: false,
    };
    let mut all = vec![
        plain("words", "embeddings.word_embeddings.weight", network.vocabulary, hidden),
        plain("positions", "embeddings.position_embeddings.weight", network.positions, hidden),
        plain("types", "embeddings.token_type_embeddings.weight", network.types, hidden),
        plain("norm", "embeddings.LayerNorm.weight", hidden, 1),
        plain("norm_bias", "embeddings.LayerNorm.bias", hidden, 1),
    ];
    for layer in 0..network.layers {
        all.extend(LAYER.iter().map(|(name, sources)| {
            let (outputs, inputs) = match *name {
                "up" => (intermediate, hidden),
                "up_bias" => (intermediate, 1),
                "down" => (hidden, intermediate),
                "qkv" => (hidden, hidden),
                "mix" => (hidden, hidden),
                _ => (hidden, 1),
            };
            Made {
                name: format!("{layer}/{name}"),
                sources: sources.iter().map(|source| format!("encoder.layer.{layer}.{source}")).collect(),
                outputs,
                inputs,
                packed: inputs > 1,
            }
        }));
    }
    if task == Task::Score {
        all.push(Made { packed: true, ..plain("pool", "pooler.dense.weight", hidden, hidden) });
        all.push(plain("pool_bias", "pooler.dense.bias", hidden, 1));
        all.push(plain("score", "classifier.weight", 1, hidden));
        all.push(plain("score_bias", "classifier.bias", 1, 1));
    }
    all
}

/// The names by which an array may stand in a file of weights: alone or within a model of several parts, and as older
/// versions called it.
fn names_of(source: &str) -> impl Iterator<Item = String> + '_ {
    let other = match source {
        "pooler.dense.weight" => "classifier.dense.weight".to_owned(),
        "pooler.dense.bias" => "classifier.dense.bias".to_owned(),
        "classifier.weight" => "classifier.out_proj.weight".to_owned(),
        "classifier.bias" => "classifier.out_proj.bias".to_owned(),
        source => source.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"),
    };
    let prefixes = ["", "bert.", "roberta.", "model."];
    prefixes.into_iter().flat_map(move |prefix| [format!("{prefix}{source}"), format!("{prefix}{other}")])
}

/// What is stored of a model, after all of it was looked at.
///
/// # Errors
/// Where a file cannot be read or is missing, and where the model is of a kind that is not supported.
pub fn stored(files: &Files<'_>) -> Result<Vec<u8>, Error> {
    let about = About::read(files, STORED)?;
    let tokenizer = files.json("tokenizer.json")?.ok_or(Error::Missing("tokenizer.json"))?;
    let entries = Entries::read(&tokenizer, about.network.vocabulary)?;
    drop(tokenizer);
    let tensors = SafeTensors::deserialize(files.weights).map_err(|error| unreadable(WEIGHTS, error))?;
    // The largest numbers first, so that all are aligned.
    let mut pieces = vec![Piece::of_bytes("scores", Dtype::F64, bytemuck::cast_slice(&entries.scores))];
    for made in arrays(&about.network, about.task()) {
        for source in &made.sources {
            let found = names_of(source).find_map(|name| tensors.tensor(&name).ok());
            let tensor = found.ok_or_else(|| unreadable(WEIGHTS, format!("it has no {source}")))?;
            check(&tensor, source, made.outputs, made.inputs)?;
            let (dtype, bytes) = (tensor.dtype(), tensor.data());
            pieces.push(Piece { name: source.clone(), dtype, length: bytes.len(), source: Source::Bytes(bytes) });
        }
    }
    let bytes = |values| bytemuck::cast_slice::<u32, u8>(values);
    pieces.push(Piece::of_bytes("units", Dtype::U32, bytes(&entries.units)));
    pieces.push(Piece::of_bytes("ends", Dtype::U32, bytes(&entries.ends)));
    pieces.push(Piece::of_bytes("ids", Dtype::U32, bytes(&entries.ids)));
    pieces.push(Piece::of_bytes("mapped", Dtype::U8, &entries.mapped));
    pieces.push(Piece::of_bytes("texts", Dtype::U8, &entries.texts));
    write(&about, &pieces, Vec::new())
}

/// Whether an array is of numbers that are known here, as many as the settings say.
fn check(tensor: &TensorView<'_>, name: &str, outputs: usize, inputs: usize) -> Result<(), Error> {
    let count: usize = tensor.shape().iter().product();
    if width_of(tensor.dtype()).is_none() {
        return Err(Error::Unsupported(format!("the type {:?} of {name} in {WEIGHTS}", tensor.dtype())));
    }
    if count != outputs.saturating_mul(inputs) {
        let shape = tensor.shape();
        return Err(unreadable(WEIGHTS, format!("{name} has the shape {shape:?}, which config.json does not say")));
    }
    Ok(())
}

/// Bytes of a number of weights.
fn width_of(dtype: Dtype) -> Option<usize> {
    match dtype {
        Dtype::F32 => Some(4),
        Dtype::F16 | Dtype::BF16 => Some(2),
        _ => None,
    }
}

/// The image of what is stored, behind what `image` has: its length is a multiple of eight.
///
/// # Errors
/// Where it is damaged.
pub fn image(stored: &[u8], image: Vec<u8>) -> Result<Vec<u8>, Error> {
    let mut about = read_about(stored, STORED)?;
    IMAGE.clone_into(&mut about.format);
    let tensors = SafeTensors::deserialize(stored).map_err(damaged)?;
    let tensor = |name: &str| tensors.tensor(name).map_err(damaged);
    let other = |name: &'static str, dtype: Dtype| {
        let tensor = tensor(name)?;
        match tensor.dtype() == dtype {
            true => Ok(Piece::of_bytes(name, dtype, tensor.data())),
            false => Err(Error::Damaged(format!("\"{name}\" is of another type"))),
        }
    };
    let mut pieces = vec![other("scores", Dtype::F64)?];
    for made in arrays(&about.network, about.task()) {
        let sources = made.sources.iter().map(|source| {
            let tensor = tensor(source)?;
            check(&tensor, source, made.outputs, made.inputs)?;
            Ok(tensor)
        });
        let sources = sources.collect::<Result<Vec<_>, Error>>()?;
        let outputs = made.outputs * sources.len();
        let length = 4 * made.inputs * if made.packed { padded(outputs) } else { outputs };
        let source = Source::Weights { sources, outputs, inputs: made.inputs, packed: made.packed };
        pieces.push(Piece { name: made.name, dtype: Dtype::F32, length, source });
    }
    for name in ["units", "ends", "ids"] {
        pieces.push(other(name, Dtype::U32)?);
    }
    for name in ["mapped", "texts"] {
        pieces.push(other(name, Dtype::U8)?);
    }
    write(&about, &pieces, image)
}

fn damaged(reason: impl ToString) -> Error {
    Error::Damaged(reason.to_string())
}

/// An array on its way to a file.
struct Piece<'a> {
    name: String,
    dtype: Dtype,
    length: usize,
    source: Source<'a>,
}

enum Source<'a> {
    /// As they are.
    Bytes(&'a [u8]),
    /// Numbers of one or more arrays, as float32.
    Weights { sources: Vec<TensorView<'a>>, outputs: usize, inputs: usize, packed: bool },
}

impl<'a> Piece<'a> {
    fn of_bytes(name: &str, dtype: Dtype, bytes: &'a [u8]) -> Piece<'a> {
        Piece { name: name.to_owned(), dtype, length: bytes.len(), source: Source::Bytes(bytes) }
    }

    fn append(&self, file: &mut Vec<u8>) -> Result<(), Error> {
        match &self.source {
            Source::Bytes(bytes) => file.extend_from_slice(bytes),
            Source::Weights { sources, outputs, inputs, packed } => {
                let mut values = Vec::new();
                for source in sources {
                    floats(source, &mut values)?;
                }
                if *packed {
                    let mut panels = Vec::new();
                    pack(&values, *outputs, *inputs, &mut panels)?;
                    values = panels;
                }
                file.extend_from_slice(bytemuck::cast_slice(&values));
            }
        }
        Ok(())
    }
}

/// The numbers of an array as float32, whichever width they have, and wherever they lie.
fn floats(tensor: &TensorView<'_>, values: &mut Vec<f32>) -> Result<(), Error> {
    let (bytes, width) = (tensor.data(), width_of(tensor.dtype()).unwrap_or(4));
    room::reserve(values, bytes.len() / width)?;
    match tensor.dtype() {
        Dtype::F32 => values.extend(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))),
        Dtype::BF16 => {
            let words = bytes.as_chunks().0.iter().map(|bytes| u32::from(u16::from_le_bytes(*bytes)));
            values.extend(words.map(|word| f32::from_bits(word << 16)));
        }
        _ => values.extend(bytes.as_chunks().0.iter().map(|bytes| of_half(u16::from_le_bytes(*bytes)))),
    }
    Ok(())
}

/// A float16.
fn of_half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction as f32 / f32::from_bits(0x4b80_0000),
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    f32::from_bits(size.to_bits() | sign)
}

/// The file of these arrays, behind what `file` has.
fn write(about: &About, pieces: &[Piece<'_>], mut file: Vec<u8>) -> Result<Vec<u8>, Error> {
    let about = serde_json::to_string(about).map_err(damaged)?;
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), json!({ ABOUT: about }));
    let mut end = 0;
    for piece in pieces {
        let width = match piece.dtype {
            Dtype::U8 => 1,
            Dtype::F64 => 8,
            other => width_of(other).unwrap_or(4),
        };
        let begin = end;
        end += piece.length;
        let array = json!({"dtype": piece.dtype, "shape": [piece.length / width], "data_offsets": [begin, end]});
        header.insert(piece.name.clone(), array);
    }
    let mut header = Value::Object(header).to_string();
    // So that the arrays are aligned.
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    room::reserve(&mut file, 8 + header.len() + end)?;
    file.extend_from_slice(&(header.len() as u64).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    for piece in pieces {
        piece.append(&mut file)?;
    }
    Ok(file)
}

/// The settings in a file of that format.
fn read_about(file: &[u8], format: &str) -> Result<About, Error> {
    let (_, header) = SafeTensors::read_metadata(file).map_err(damaged)?;
    let about = header.metadata().as_ref().and_then(|metadata| metadata.get(ABOUT));
    let about = about.ok_or_else(|| damaged("it is not the file of a text encoder"))?;
    let about: About = serde_json::from_str(about).map_err(damaged)?;
    let Network { hidden, layers, heads, intermediate, positions, types, vocabulary, first_position, .. } =
        about.network;
    let sizes = [hidden, layers, heads, intermediate, positions, types, vocabulary];
    let sound = sizes.iter().all(|size| (1..=MOST).contains(size))
        && hidden.is_multiple_of(heads)
        && first_position < positions
        && about.max_tokens <= positions - first_position;
    match about.format == format && sound {
        true => Ok(about),
        false => Err(damaged(format!("its format is \"{}\", not \"{format}\"", about.format))),
    }
}

/// An image, its arrays where they lie.
pub struct Opened {
    pub about: About,
    bytes: Bytes,
    arrays: HashMap<String, (Dtype, Bytes)>,
}

impl Opened {
    pub fn read(bytes: Bytes) -> Result<Opened, Error> {
        let about = read_about(&bytes, IMAGE)?;
        let tensors = SafeTensors::deserialize(&bytes).map_err(damaged)?;
        let array = |view: &TensorView<'_>| (view.dtype(), bytes.slice_ref(view.data()));
        let arrays = tensors.iter().map(|(name, view)| (name.to_owned(), array(&view))).collect();
        Ok(Opened { about, bytes, arrays })
    }

    /// Bytes of the image.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// An array of numbers, of that length if one is given.
    pub fn array<T: bytemuck::AnyBitPattern>(
        &self,
        name: &str,
        dtype: Dtype,
        length: Option<usize>,
    ) -> Result<Array<T>, Error> {
        let found = self.arrays.get(name).filter(|(found, _)| *found == dtype);
        let array = found.and_then(|(_, bytes)| Array::of(bytes.clone()));
        let array = array.filter(|array| length.is_none_or(|length| array.len() == length));
        array.ok_or_else(|| damaged(format!("it lacks \"{name}\"")))
    }

    /// Numbers of the network.
    pub fn floats(&self, name: &str, length: usize) -> Result<Array<f32>, Error> {
        self.array(name, Dtype::F32, Some(length))
    }

    /// The weights of a matrix, packed.
    pub fn matrix(&self, name: &str, outputs: usize, inputs: usize) -> Result<Array<f32>, Error> {
        self.floats(name, padded(outputs).saturating_mul(inputs))
    }
}
