//! The network: embeddings of the tokens, then layers of attention and of a product up and down, each added to what came
//! in and normalised.
//!
//! The tokens of several texts stand one behind the other, without padding between them. All products but those of the
//! attention are made of all of them at once.

use crate::arrays::Array;
use crate::error::Error;
use crate::matrix::{LANES, Rows, Scratch, padded};
use crate::settings::{self, Activation, Task};
use crate::store::Opened;
use crate::tokens::{Tokens, Vocabulary};
use crate::vectors;

/// Tokens whose attention is computed at once: the memory for it is that number times the length of the text.
const QUERIES: usize = 96;

pub struct Network {
    settings: settings::Network,
    words: Array<f32>,
    positions: Array<f32>,
    types: Array<f32>,
    norm: Norm,
    layers: Vec<Layer>,
    head: Option<Head>,
}

struct Norm {
    weight: Array<f32>,
    bias: Array<f32>,
}

/// A product and what is added to it.
struct Dense {
    weights: Array<f32>,
    bias: Array<f32>,
    outputs: usize,
    inputs: usize,
}

struct Layer {
    qkv: Dense,
    mix: Dense,
    mix_norm: Norm,
    up: Dense,
    down: Dense,
    down_norm: Norm,
}

/// What makes one number of the first token.
struct Head {
    pool: Dense,
    score: Array<f32>,
    bias: Array<f32>,
}

impl Norm {
    fn of(image: &Opened, name: &str, size: usize) -> Result<Norm, Error> {
        Ok(Norm { weight: image.floats(name, size)?, bias: image.floats(&format!("{name}_bias"), size)? })
    }

    fn apply(&self, rows: &mut [f32], stride: usize, epsilon: f32) {
        vectors::normalize_rows(rows, stride, &self.weight, &self.bias, epsilon);
    }
}

impl Dense {
    fn of(image: &Opened, name: &str, outputs: usize, inputs: usize) -> Result<Dense, Error> {
        let weights = image.matrix(name, outputs, inputs)?;
        Ok(Dense { weights, bias: image.floats(&format!("{name}_bias"), outputs)?, outputs, inputs })
    }

    /// Into rows of [`padded`] outputs.
    fn apply(&self, scratch: &mut Scratch, rows: Rows<'_>, out: &mut Vec<f32>) -> Result<(), Error> {
        let stride = padded(self.outputs);
        resize(out, rows.count * stride)?;
        scratch.product(rows, self.inputs, &self.weights, out, stride)?;
        vectors::add_to_rows(out, stride, &self.bias);
        Ok(())
    }
}

/// Makes it so long; what it had does not matter.
fn resize(values: &mut Vec<f32>, length: usize) -> Result<(), Error> {
    values.clear();
    room::reserve(values, length)?;
    values.resize(length, 0.0);
    Ok(())
}

/// The memory of the work, kept from one text to the next.
#[derive(Default)]
pub struct Work {
    scratch: Scratch,
    qkv: Vec<f32>,
    mixed: Vec<f32>,
    made: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    scores: Vec<f32>,
    context: Vec<f32>,
}

/// The last layer: a row for each token.
pub struct States {
    pub rows: Vec<f32>,
    pub stride: usize,
}

impl Network {
    pub fn open(image: &Opened) -> Result<(Network, Vocabulary), Error> {
        let settings = image.about.network.clone();
        let settings::Network { hidden, intermediate, .. } = settings;
        let layers = (0..settings.layers).map(|layer| {
            let name = |part: &str| format!("{layer}/{part}");
            Ok(Layer {
                qkv: Dense::of(image, &name("qkv"), 3 * hidden, hidden)?,
                mix: Dense::of(image, &name("mix"), hidden, hidden)?,
                mix_norm: Norm::of(image, &name("mix_norm"), hidden)?,
                up: Dense::of(image, &name("up"), intermediate, hidden)?,
                down: Dense::of(image, &name("down"), hidden, intermediate)?,
                down_norm: Norm::of(image, &name("down_norm"), hidden)?,
            })
        });
        let head = match image.about.task() {
            Task::Embedding => None,
            Task::Score => Some(Head {
                pool: Dense::of(image, "pool", hidden, hidden)?,
                score: image.floats("score", hidden)?,
                bias: image.floats("score_bias", 1)?,
            }),
        };
        let vocabulary = Vocabulary::open(image)?;
        let network = Network {
            words: image.floats("words", settings.vocabulary * hidden)?,
            positions: image.floats("positions", settings.positions * hidden)?,
            types: image.floats("types", settings.types * hidden)?,
            norm: Norm::of(image, "norm", hidden)?,
            layers: layers.collect::<Result<Vec<_>, Error>>()?,
            head,
            settings,
        };
        Ok((network, vocabulary))
    }

    /// The last layer of some texts, one behind the other. `each` is called between layers, and may unwind.
    pub fn states(&self, work: &mut Work, texts: &[Tokens], each: &dyn Fn()) -> Result<States, Error> {
        let settings::Network { hidden, epsilon, activation, .. } = self.settings;
        let stride = padded(hidden);
        let mut rows = Vec::new();
        self.embed(texts, stride, &mut rows)?;
        let count = rows.len() / stride;
        let lengths: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
        for layer in &self.layers {
            each();
            layer.qkv.apply(&mut work.scratch, Rows { values: &rows, stride, count }, &mut work.qkv)?;
            self.attend(work, &lengths, stride)?;
            layer.mix.apply(&mut work.scratch, Rows { values: &work.mixed, stride, count }, &mut work.made)?;
            add(&mut rows, &work.made);
            layer.mix_norm.apply(&mut rows, stride, epsilon);
            layer.up.apply(&mut work.scratch, Rows { values: &rows, stride, count }, &mut work.qkv)?;
            match activation {
                Activation::Gelu => vectors::gelu(&mut work.qkv),
                Activation::GeluByTanh => vectors::gelu_by_tanh(&mut work.qkv),
                Activation::Relu => vectors::relu(&mut work.qkv),
            }
            let inner = Rows { values: &work.qkv, stride: padded(layer.up.outputs), count };
            layer.down.apply(&mut work.scratch, inner, &mut work.made)?;
            add(&mut rows, &work.made);
            layer.down_norm.apply(&mut rows, stride, epsilon);
        }
        Ok(States { rows, stride })
    }

    /// What goes into the first layer: of each token its word, its type and its position.
    fn embed(&self, texts: &[Tokens], stride: usize, rows: &mut Vec<f32>) -> Result<(), Error> {
        let settings::Network { hidden, first_position, types, epsilon, .. } = self.settings;
        let count: usize = texts.iter().map(|text| text.ids.len()).sum();
        resize(rows, count * stride)?;
        let tokens = texts.iter().flat_map(|text| text.ids.iter().zip(&text.types).enumerate());
        for (row, (place, (id, kind))) in rows.chunks_exact_mut(stride).zip(tokens) {
            let word = &self.words[*id as usize * hidden..][..hidden];
            let kind = &self.types[(*kind as usize).min(types - 1) * hidden..][..hidden];
            let position = &self.positions[(first_position + place) * hidden..][..hidden];
            for (((value, word), kind), position) in row.iter_mut().zip(word).zip(kind).zip(position) {
                *value = word + kind + position;
            }
        }
        self.norm.apply(rows, stride, epsilon);
        Ok(())
    }

    /// From queries, keys and values in `work.qkv` to what each token takes of the tokens of its text, in `work.mixed`.
    fn attend(&self, work: &mut Work, lengths: &[usize], stride: usize) -> Result<(), Error> {
        let settings::Network { hidden, heads, .. } = self.settings;
        let (head, wide) = (self.settings.head(), padded(3 * hidden));
        resize(&mut work.mixed, lengths.iter().sum::<usize>() * stride)?;
        let mut first = 0;
        for &length in lengths {
            for number in 0..heads {
                let part = |which: usize| &work.qkv[first * wide + which * hidden + number * head..];
                pack_keys(part(1), wide, length, head, &mut work.keys)?;
                pack_values(part(2), wide, length, head, &mut work.values)?;
                for begin in (0..length).step_by(QUERIES) {
                    let count = QUERIES.min(length - begin);
                    let queries = Rows { values: &part(0)[begin * wide..], stride: wide, count };
                    resize(&mut work.scores, count * padded(length))?;
                    work.scratch.product(queries, head, &work.keys, &mut work.scores, padded(length))?;
                    let scale = 1.0 / (head as f32).sqrt();
                    vectors::softmax(&mut work.scores, padded(length), length, scale);
                    let shares = Rows { values: &work.scores, stride: padded(length), count };
                    resize(&mut work.context, count * padded(head))?;
                    work.scratch.product(shares, length, &work.values, &mut work.context, padded(head))?;
                    let mixed = work.mixed[(first + begin) * stride..].chunks_exact_mut(stride);
                    for (to, from) in mixed.zip(work.context.chunks_exact(padded(head))) {
                        to[number * head..][..head].copy_from_slice(&from[..head]);
                    }
                }
            }
            first += length;
        }
        Ok(())
    }

    /// The score of a text whose first token has this state.
    pub fn score(&self, work: &mut Work, state: &[f32]) -> Result<f32, Error> {
        let Some(head) = &self.head else { return Err(Error::Damaged("the model gives no scores".into())) };
        let rows = Rows { values: state, stride: state.len(), count: 1 };
        head.pool.apply(&mut work.scratch, rows, &mut work.made)?;
        vectors::tanh(&mut work.made);
        let pairs = work.made.iter().zip(head.score.iter());
        Ok(pairs.map(|(value, weight)| value * weight).sum::<f32>() + head.bias[0])
    }
}

fn add(rows: &mut [f32], more: &[f32]) {
    for (value, more) in rows.iter_mut().zip(more) {
        *value += more;
    }
}

/// Packs keys as weights whose outputs are the tokens.
fn pack_keys(keys: &[f32], stride: usize, count: usize, head: usize, packed: &mut Vec<f32>) -> Result<(), Error> {
    resize(packed, padded(count) * head)?;
    for token in 0..count {
        let panel = &mut packed[token / LANES * head * LANES..][..head * LANES];
        let key = &keys[token * stride..][..head];
        for (to, value) in panel[token % LANES..].iter_mut().step_by(LANES).zip(key) {
            *to = *value;
        }
    }
    Ok(())
}

/// Packs values as weights whose inputs are the tokens.
fn pack_values(values: &[f32], stride: usize, count: usize, head: usize, packed: &mut Vec<f32>) -> Result<(), Error> {
    resize(packed, padded(head) * count)?;
    for token in 0..count {
        let value = &values[token * stride..][..head];
        for (panel, some) in value.chunks(LANES).enumerate() {
            packed[(panel * count + token) * LANES..][..some.len()].copy_from_slice(some);
        }
    }
    Ok(())
}
