//! What a model is, from its files that are JSON: `config.json` of Transformers, and those of sentence-transformers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, unreadable};
use crate::store::Files;
use crate::tokens;

/// Tokens, features, layers and the like of a model: more are a mistake, and far from what overflows.
pub const MOST: usize = 1 << 20;

/// All that is known of a model beside its arrays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The format of the file that this stands in.
    pub format: String,
    pub network: Network,
    pub tokens: tokens::Settings,
    pub output: Output,
    /// Tokens of a text, or of a pair of texts, with those that are put around it; what is longer is cut.
    pub max_tokens: usize,
    /// Texts to be put before a text, by name.
    pub prompts: BTreeMap<String, String>,
    /// The one of these that is used if none is named.
    pub default_prompt: Option<String>,
}

/// The layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Network {
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub intermediate: usize,
    pub epsilon: f32,
    pub activation: Activation,
    /// The position of the first token.
    pub first_position: usize,
    /// Positions that there are embeddings of.
    pub positions: usize,
    /// Types of tokens: the second text of a pair is of the second type where there are two.
    pub types: usize,
    pub vocabulary: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    Gelu,
    GeluByTanh,
    Relu,
}

/// What is made of the last layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// One vector.
    Embedding { pooling: Pooling, normalize: bool },
    /// One number, of a pair of texts; `sigmoid` has it between 0 and 1.
    Score { sigmoid: bool },
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Embedding,
    Score,
}

/// How the vectors of the tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    First,
    Last,
    Mean,
    MeanOfRoot,
    Max,
}

impl About {
    /// Reads the files; `format` is what the settings will say that they are of.
    pub fn read(files: &Files<'_>, format: &str) -> Result<About, Error> {
        let config = files.json("config.json")?.ok_or(Error::Missing("config.json"))?;
        let tokenizer = files.json("tokenizer.json")?.ok_or(Error::Missing("tokenizer.json"))?;
        let network = Network::read(&config)?;
        let sentences = files.json("config_sentence_transformers.json")?.unwrap_or_default();
        let output = Output::read(files, &config, &sentences)?;
        let prompts = sentences.get("prompts").and_then(Value::as_object).into_iter().flatten();
        let prompts = prompts.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())));
        let default = sentences.get("default_prompt_name").and_then(Value::as_str).map(str::to_owned);
        Ok(About {
            format: format.to_owned(),
            max_tokens: max_tokens(files, &network, &output)?,
            tokens: tokens::Settings::read(&tokenizer)?,
            network,
            output,
            prompts: prompts.collect(),
            default_prompt: default,
        })
    }

    pub fn task(&self) -> Task {
        match self.output {
            Output::Embedding { .. } => Task::Embedding,
            Output::Score { .. } => Task::Score,
        }
    }
}

/// As sentence-transformers finds it: what the folder says, at most what the network has positions for.
fn max_tokens(files: &Files<'_>, network: &Network, output: &Output) -> Result<usize, Error> {
    let places = network.positions - network.first_position;
    let said = match output {
        Output::Embedding { .. } => {
            let own = files.json("sentence_bert_config.json")?.unwrap_or_default();
            own.get("max_seq_length").and_then(Value::as_u64)
        }
        Output::Score { .. } => None,
    };
    let said = match said {
        Some(said) => Some(said),
        None => {
            let own = files.json("tokenizer_config.json")?.unwrap_or_default();
            // It may be 1e30, for none.
            own.get("model_max_length").and_then(Value::as_u64)
        }
    };
    let said = said.and_then(|said| usize::try_from(said).ok()).unwrap_or(usize::MAX);
    match said.min(places) {
        0..8 => Err(unreadable("sentence_bert_config.json", "max_seq_length leaves no room for a text")),
        most => Ok(most),
    }
}

impl Network {
    fn read(config: &Value) -> Result<Network, Error> {
        let size = |name: &'static str| match config.get(name).and_then(Value::as_u64) {
            Some(size) if (1..=MOST as u64).contains(&size) => Ok(size as usize),
            _ => Err(unreadable("config.json", format!("it lacks a valid \"{name}\""))),
        };
        let text = |name: &str| config.get(name).and_then(Value::as_str);
        let kind = text("model_type").unwrap_or("nothing");
        // Those of RoBERTa count positions from the one behind that of padding.
        let first_position = match kind {
            "bert" => 0,
            "roberta" | "xlm-roberta" | "camembert" => size("pad_token_id")? + 1,
            other => {
                return Err(Error::Unsupported(format!(
                    "a model of type \"{other}\" (bert, roberta and xlm-roberta are)"
                )));
            }
        };
        if text("position_embedding_type").is_some_and(|kind| kind != "absolute") {
            return Err(Error::Unsupported("a position_embedding_type other than absolute".into()));
        }
        let activation = match text("hidden_act").unwrap_or("gelu") {
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::GeluByTanh,
            "relu" => Activation::Relu,
            other => return Err(Error::Unsupported(format!("the activation \"{other}\""))),
        };
        let epsilon = config.get("layer_norm_eps").and_then(Value::as_f64).unwrap_or(1e-12) as f32;
        let network = Network {
            hidden: size("hidden_size")?,
            layers: size("num_hidden_layers")?,
            heads: size("num_attention_heads")?,
            intermediate: size("intermediate_size")?,
            epsilon,
            activation,
            first_position,
            positions: size("max_position_embeddings")?,
            types: size("type_vocab_size")?,
            vocabulary: size("vocab_size")?,
        };
        if !network.hidden.is_multiple_of(network.heads) {
            return Err(unreadable("config.json", "hidden_size is no multiple of num_attention_heads"));
        }
        if network.positions <= first_position + 8 || !(0.0..1.0).contains(&epsilon) {
            return Err(unreadable("config.json", "max_position_embeddings or layer_norm_eps cannot be meant"));
        }
        Ok(network)
    }

    /// Features of a head.
    pub fn head(&self) -> usize {
        self.hidden / self.heads
    }
}

impl Output {
    fn read(files: &Files<'_>, config: &Value, sentences: &Value) -> Result<Output, Error> {
        let architectures = config.get("architectures").and_then(Value::as_array).into_iter().flatten();
        let classifies =
            architectures.filter_map(Value::as_str).any(|name| name.ends_with("ForSequenceClassification"));
        if classifies {
            return Output::of_scores(config, sentences);
        }
        let Some(modules) = files.json("modules.json")? else {
            // What sentence-transformers does with a folder of Transformers alone.
            return Ok(Output::Embedding { pooling: Pooling::Mean, normalize: false });
        };
        let modules = modules.as_array().ok_or_else(|| unreadable("modules.json", "it is no array"))?;
        let (mut pooling, mut normalize) = (None, false);
        for module in modules {
            let kind = module.get("type").and_then(Value::as_str).unwrap_or_default();
            match kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" => {}
                "Pooling" => {
                    let own = files.json("1_Pooling/config.json")?.ok_or(Error::Missing("1_Pooling/config.json"))?;
                    pooling = Some(Pooling::read(&own)?);
                }
                "Normalize" => normalize = true,
                _ => return Err(Error::Unsupported(format!("a module of type \"{kind}\" (modules.json)"))),
            }
        }
        let pooling = pooling.ok_or_else(|| unreadable("modules.json", "it has no Pooling"))?;
        Ok(Output::Embedding { pooling, normalize })
    }

    /// Of a cross-encoder.
    fn of_scores(config: &Value, sentences: &Value) -> Result<Output, Error> {
        let labels = config.get("id2label").and_then(Value::as_object).map(serde_json::Map::len);
        let labels = labels.or(config.get("num_labels").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok()));
        if labels != Some(1) {
            let labels = labels.unwrap_or(2);
            return Err(Error::Unsupported(format!("a classifier of {labels} labels (a cross-encoder has one)")));
        }
        // Where sentence-transformers has written it, the newest first.
        let own = config.get("sentence_transformers").and_then(|own| own.get("activation_fn"));
        let activation = own
            .or(sentences.get("activation_fn"))
            .or(config.get("sbert_ce_default_activation_function"))
            .and_then(Value::as_str)
            .unwrap_or("torch.nn.modules.activation.Sigmoid");
        match activation.rsplit('.').next().unwrap_or_default() {
            "Sigmoid" => Ok(Output::Score { sigmoid: true }),
            "Identity" => Ok(Output::Score { sigmoid: false }),
            _ => Err(Error::Unsupported(format!("the activation \"{activation}\" of a score"))),
        }
    }
}

impl Pooling {
    fn read(config: &Value) -> Result<Pooling, Error> {
        const MODES: [(&str, Pooling); 5] = [
            ("cls", Pooling::First),
            ("mean", Pooling::Mean),
            ("max", Pooling::Max),
            ("mean_sqrt_len", Pooling::MeanOfRoot),
            ("lasttoken", Pooling::Last),
        ];
        // Of old, each mode is a key of its own: pooling_mode_mean_tokens.
        let old = |key: &str| -> Option<String> {
            let mode = key.strip_prefix("pooling_mode_")?;
            Some(mode.trim_end_matches("_tokens").trim_end_matches("_token").to_owned())
        };
        let named = config.get("pooling_mode").and_then(Value::as_str).map(|mode| vec![mode.to_owned()]);
        let modes: Vec<String> = named.unwrap_or_else(|| {
            let keys = config.as_object().into_iter().flatten();
            keys.filter(|(_, value)| **value == Value::Bool(true)).filter_map(|(key, _)| old(key)).collect()
        });
        match modes.as_slice() {
            [mode] => MODES
                .iter()
                .find(|(name, _)| name == mode)
                .map(|(_, pooling)| *pooling)
                .ok_or_else(|| Error::Unsupported(format!("the pooling \"{mode}\""))),
            [] => Err(unreadable("1_Pooling/config.json", "it has no pooling mode")),
            several => Err(Error::Unsupported(format!("several poolings at once ({})", several.join(", ")))),
        }
    }
}
