//! XGBoost's binary format of before JSON, which no XGBoost since 3.1 reads: as JSON, which all do.
//!
//! It is what `save_model` wrote under names that ended neither in `.json` nor in `.ubj`, and so what PostgresML has in
//! its tables. The fields are those of the structs that XGBoost 1.x wrote as they lay in memory, little-endian.

use std::fmt::Write;

use super::document::{write_list, write_number, write_string};
use crate::error::{Error, Result};
use crate::json;
use crate::value::Number;

/// What such a file begins with.
const MAGIC: &[u8] = b"binf";

/// Bytes of what a node takes: itself, and its statistics.
const NODE: usize = 20;
const STATISTICS: usize = 16;

/// What stands for the feature of a node that was deleted.
const DELETED: u32 = u32::MAX;

/// Whether these bytes begin as such a model does.
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// The same model as JSON. What is in it is checked by [`super::read`], as of any JSON.
///
/// # Errors
/// [`Error::Format`] for something else, [`Error::Syntax`] where it breaks off, and [`Error::Unsupported`] for a booster
/// that XGBoost 1.x did not have.
pub fn to_json(bytes: &[u8]) -> Result<String> {
    let bytes = bytes.strip_prefix(MAGIC).ok_or_else(|| Error::Format("it does not begin with \"binf\"".into()))?;
    let mut reader = Reader { bytes, at: 0 };
    let header = Header::read(&mut reader)?;
    let objective = reader.string()?;
    let name = reader.string()?;
    let mut booster = String::new();
    match name.as_str() {
        "gbtree" => {
            trees(&mut reader, &mut booster)?;
        }
        "dart" => {
            booster.push_str("{\"name\":\"dart\",\"gbtree\":");
            let count = trees(&mut reader, &mut booster)?;
            booster.push_str(",\"weight_drop\":");
            let weights = if count == 0 { Vec::new() } else { reader.floats()? };
            write_list(&mut booster, ('[', ']'), weights.into_iter(), write_float);
            booster.push('}');
        }
        "gblinear" => {
            // The number of features, that of outputs, and what was reserved.
            reader.take(2 * 4 + 32 * 4)?;
            booster.push_str("{\"name\":\"gblinear\",\"model\":{\"weights\":");
            write_list(&mut booster, ('[', ']'), reader.floats()?.into_iter(), write_float);
            booster.push_str("}}");
        }
        other => {
            return Err(Error::Unsupported { path: "booster".into(), what: format!("booster {other:?}") });
        }
    }
    let (attributes, described) = if header.has_attributes { attributes(&mut reader)? } else { Default::default() };
    let mut json = String::new();
    json.push_str("{\"learner\":{\"attributes\":");
    write_list(&mut json, ('{', '}'), attributes.iter(), |json, (name, text)| {
        write_string(json, name);
        json.push(':');
        write_string(json, text);
    });
    let _ = write!(json, ",\"feature_names\":[],\"feature_types\":[],\"gradient_booster\":{booster}");
    let Header { base_score, features, classes, version: (major, minor), .. } = header;
    let _ = write!(
        json,
        ",\"learner_model_param\":{{\"base_score\":\"{base_score:e}\",\"num_class\":\"{classes}\",\
         \"num_feature\":\"{features}\",\"num_target\":\"1\"}},\"objective\":"
    );
    match described {
        Some(described) => json.push_str(&described),
        None => {
            json.push_str("{\"name\":");
            write_string(&mut json, &objective);
            json.push('}');
        }
    }
    let _ = write!(json, "}},\"version\":[{major},{minor},0]}}");
    Ok(json)
}

struct Header {
    base_score: f32,
    features: u32,
    classes: i32,
    has_attributes: bool,
    version: (u32, u32),
}

impl Header {
    fn read(reader: &mut Reader<'_>) -> Result<Header> {
        let header = Header {
            base_score: reader.float()?,
            features: reader.word()?,
            classes: reader.word()? as i32,
            has_attributes: reader.word()? != 0,
            version: {
                // Whether metrics follow at the end.
                reader.word()?;
                (reader.word()?, reader.word()?)
            },
        };
        // What was reserved.
        reader.take(27 * 4)?;
        Ok(header)
    }
}

/// Names and texts.
type Attributes = Vec<(String, String)>;

/// The attributes, and the objective with its parameters, which stands among them.
fn attributes(reader: &mut Reader<'_>) -> Result<(Attributes, Option<String>)> {
    let (mut attributes, mut objective) = (Vec::new(), None);
    for _ in 0..reader.length(16)? {
        let (name, text) = (reader.string()?, reader.string()?);
        match name.as_str() {
            "objective" => {
                // What goes into the JSON as it is, is one value.
                json::parse(text.as_bytes())?;
                objective = Some(text);
            }
            "metrics" => {}
            _ => attributes.push((name, text)),
        }
    }
    Ok((attributes, objective))
}

/// Writes the trees as JSON, and gives their number.
fn trees(reader: &mut Reader<'_>, json: &mut String) -> Result<usize> {
    let count = reader.word()? as usize;
    let parallel = reader.word()?.max(1);
    // Numbers of the learner's, the size of a leaf, and what was reserved.
    reader.take(4 + 4 + 8 + 4 + 4 + 32 * 4)?;
    let _ = write!(
        json,
        "{{\"name\":\"gbtree\",\"model\":{{\"gbtree_model_param\":{{\"num_parallel_tree\":\"{parallel}\",\
         \"num_trees\":\"{count}\",\"size_leaf_vector\":\"0\"}},\"trees\":["
    );
    for index in 0..count {
        json.push_str(if index > 0 { "," } else { "" });
        tree(reader, index, json)?;
    }
    json.push_str("],\"tree_info\":");
    let outputs: Vec<u32> = if count == 0 { Vec::new() } else { reader.words(count)? };
    write_list(json, ('[', ']'), outputs.into_iter(), |json, output| {
        let _ = write!(json, "{output}");
    });
    json.push_str("}}");
    Ok(count)
}

#[derive(Clone, Copy)]
struct Node {
    parent: u32,
    left: i32,
    right: i32,
    feature: u32,
    value: f32,
}

fn tree(reader: &mut Reader<'_>, index: usize, json: &mut String) -> Result<()> {
    reader.word()?;
    let count = reader.word()? as usize;
    reader.take(8)?;
    let features = reader.word()?;
    reader.take(4 + 31 * 4)?;
    let mut nodes = Vec::new();
    for words in reader.take(count.saturating_mul(NODE))?.chunks_exact(NODE).map(words_of) {
        let [parent, left, right, feature, value] = words;
        let node = Node { parent, left: left as i32, right: right as i32, feature, value: f32::from_bits(value) };
        nodes.push(if feature == DELETED { Node { left: -1, right: -1, feature: 0, ..node } } else { node });
    }
    let statistics: Vec<[u32; 4]> =
        reader.take(count.saturating_mul(STATISTICS))?.chunks_exact(STATISTICS).map(words_of).collect();
    let list = |json: &mut String, name: &str, write: &dyn Fn(&mut String, usize)| {
        let _ = write!(json, "\"{name}\":");
        write_list(json, ('[', ']'), 0..count, |json, node| write(json, node));
        json.push(',');
    };
    let number = |json: &mut String, number: i64| {
        let _ = write!(json, "{number}");
    };
    json.push('{');
    list(json, "base_weights", &|json, node| write_float(json, f32::from_bits(statistics[node][2])));
    list(json, "default_left", &|json, node| number(json, i64::from(nodes[node].feature >> 31)));
    list(json, "left_children", &|json, node| number(json, i64::from(nodes[node].left)));
    list(json, "loss_changes", &|json, node| write_float(json, f32::from_bits(statistics[node][0])));
    list(json, "parents", &|json, node| number(json, i64::from(nodes[node].parent & (u32::MAX >> 1))));
    list(json, "right_children", &|json, node| number(json, i64::from(nodes[node].right)));
    list(json, "split_conditions", &|json, node| write_float(json, nodes[node].value));
    list(json, "split_indices", &|json, node| number(json, i64::from(nodes[node].feature & (u32::MAX >> 1))));
    list(json, "split_type", &|json, _| json.push('0'));
    list(json, "sum_hessian", &|json, node| write_float(json, f32::from_bits(statistics[node][1])));
    let _ = write!(
        json,
        "\"categories\":[],\"categories_nodes\":[],\"categories_segments\":[],\"categories_sizes\":[],\"id\":{index},\
         \"tree_param\":{{\"num_deleted\":\"0\",\"num_feature\":\"{features}\",\"num_nodes\":\"{count}\",\
         \"size_leaf_vector\":\"0\"}}}}"
    );
    Ok(())
}

fn write_float(json: &mut String, number: f32) {
    write_number(json, Number::Float(number));
}

/// Reads a number of 32-bit words.
fn words_of<const WORDS: usize>(bytes: &[u8]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = bytes.try_into().map_or(0, u32::from_le_bytes);
    }
    words
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let taken = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| Error::Syntax {
            format: "XGBoost's old binary format",
            offset: self.at + MAGIC.len(),
            what: format!("{count} bytes are claimed where {} are left", self.bytes.len() - self.at),
        })?;
        self.at += count;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32> {
        let [word] = words_of(self.take(4)?);
        Ok(word)
    }

    fn words(&mut self, count: usize) -> Result<Vec<u32>> {
        let bytes = self.take(count.saturating_mul(4))?;
        Ok(bytes.chunks_exact(4).map(words_of).map(|[word]| word).collect())
    }

    fn float(&mut self) -> Result<f32> {
        self.word().map(f32::from_bits)
    }

    /// The count of the elements that follow, each of which has at least `size` bytes.
    fn length(&mut self, size: usize) -> Result<usize> {
        let [low, high] = words_of(self.take(8)?);
        let length = usize::try_from(u64::from(high) << 32 | u64::from(low)).unwrap_or(usize::MAX);
        if length > (self.bytes.len() - self.at) / size {
            // Asks for more than there is, which is the error.
            self.take(length.saturating_mul(size))?;
        }
        Ok(length)
    }

    fn floats(&mut self) -> Result<Vec<f32>> {
        let length = self.length(4)?;
        Ok(self.words(length)?.into_iter().map(f32::from_bits).collect())
    }

    fn string(&mut self) -> Result<String> {
        let length = self.length(1)?;
        let offset = self.at + MAGIC.len();
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| Error::Syntax {
            format: "XGBoost's old binary format",
            offset,
            what: "not UTF-8".into(),
        })
    }
}
