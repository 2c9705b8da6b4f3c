//! From texts to vectors, and from pairs of texts to scores.

use std::cell::RefCell;

use bytes::Bytes;

use crate::error::Error;
use crate::network::{Network, Work};
use crate::settings::{About, Output, Pooling, Task};
use crate::store::Opened;
use crate::tokens::{Part, Tokens, Vocabulary};
use crate::vectors;

/// Tokens that go through the network at once. More make it no faster, and take more memory.
const AT_ONCE: usize = 384;

/// A model that is ready to be used.
pub struct Encoder {
    about: About,
    network: Network,
    vocabulary: Vocabulary,
    work: RefCell<Work>,
    bytes: usize,
}

/// What is asked of an embedding beside the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Put before each text.
    pub prompt: String,
    /// Of the first so many features only.
    pub dimensions: Option<usize>,
    /// Divided by its length, whatever the model says.
    pub normalize: bool,
}

impl Encoder {
    /// Opens an image.
    ///
    /// # Errors
    /// [`Error::Damaged`] where it is none.
    pub fn open(bytes: Bytes) -> Result<Encoder, Error> {
        let image = Opened::read(bytes)?;
        let (network, vocabulary) = Network::open(&image)?;
        let tokens = &image.about.tokens;
        if tokens.around() >= image.about.max_tokens {
            return Err(Error::Damaged("the template of a text has more tokens than the model reads".into()));
        }
        if tokens.words.need_scores() && !vocabulary.has_scores() {
            return Err(Error::Damaged("the vocabulary has no scores".into()));
        }
        let templates = tokens.single.iter().chain(&tokens.pair);
        let own = templates.filter_map(|part| if let Part::Token(id, _) = part { Some(*id) } else { None });
        let ids = own.chain(tokens.added.iter().map(|added| added.id)).chain([vocabulary.largest()]);
        if ids.chain([tokens.words.unknown()]).any(|id| id as usize >= image.about.network.vocabulary) {
            return Err(Error::Damaged("a token is not in the vocabulary".into()));
        }
        let bytes = image.len();
        Ok(Encoder { about: image.about, network, vocabulary, work: RefCell::default(), bytes })
    }

    pub fn about(&self) -> &About {
        &self.about
    }

    /// Bytes of the image.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Features of an embedding.
    pub fn dimensions(&self) -> usize {
        self.about.network.hidden
    }

    /// The embedding of each text. `each` is called every few milliseconds, and may unwind.
    ///
    /// # Errors
    /// [`Error::Unsupported`] by a model that gives scores, [`Error::Memory`] where there is not enough.
    pub fn embed(&self, texts: &[String], options: &Options, each: &dyn Fn()) -> Result<Vec<Vec<f32>>, Error> {
        let Output::Embedding { pooling, normalize } = self.about.output else {
            return Err(Error::Unsupported("an embedding by a model that gives scores".into()));
        };
        let settings = &self.about.tokens;
        let mut vectors = Vec::with_capacity(texts.len());
        let tokens = |text: &String| match options.prompt.as_str() {
            "" => settings.single(&self.vocabulary, text, self.about.max_tokens),
            prompt => settings.single(&self.vocabulary, &format!("{prompt}{text}"), self.about.max_tokens),
        };
        self.in_batches(texts.iter().map(tokens), each, |_, rows, stride| {
            let mut vector = pooled(rows, stride, self.about.network.hidden, pooling);
            if normalize {
                vectors::to_unit_length(&mut vector);
            }
            if let Some(dimensions) = options.dimensions {
                vector.truncate(dimensions);
            }
            if options.normalize {
                vectors::to_unit_length(&mut vector);
            }
            vectors.push(vector);
            Ok(())
        })?;
        Ok(vectors)
    }

    /// The score of each text for a query.
    ///
    /// # Errors
    /// [`Error::Unsupported`] by a model that gives embeddings, [`Error::Memory`] where there is not enough.
    pub fn scores(&self, query: &str, texts: &[String], each: &dyn Fn()) -> Result<Vec<f32>, Error> {
        let Output::Score { sigmoid } = self.about.output else {
            return Err(Error::Unsupported("a score by a model that gives embeddings".into()));
        };
        let settings = &self.about.tokens;
        let tokens = |text: &String| settings.pair(&self.vocabulary, query, text, self.about.max_tokens);
        let mut scores = Vec::with_capacity(texts.len());
        self.in_batches(texts.iter().map(tokens), each, |work, rows, stride| {
            let score = self.network.score(work, &rows[..stride])?;
            scores.push(if sigmoid { 1.0 / (1.0 + (-score).exp()) } else { score });
            Ok(())
        })?;
        Ok(scores)
    }

    /// Has the texts' tokens go through the network, some at once; `of` gets the rows of each text.
    fn in_batches(
        &self,
        texts: impl Iterator<Item = Tokens>,
        each: &dyn Fn(),
        mut of: impl FnMut(&mut Work, &[f32], usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let work = &mut *self.work.borrow_mut();
        let mut texts = texts.peekable();
        while texts.peek().is_some() {
            let (mut batch, mut count) = (Vec::new(), 0);
            while let Some(tokens) = texts.next_if(|next| count == 0 || count + next.ids.len() <= AT_ONCE) {
                count += tokens.ids.len();
                batch.push(tokens);
            }
            let states = self.network.states(work, &batch, each)?;
            let mut rest = states.rows.as_slice();
            for tokens in &batch {
                let (own, behind) = rest.split_at(tokens.ids.len() * states.stride);
                of(work, own, states.stride)?;
                rest = behind;
            }
        }
        Ok(())
    }

    /// What the model is for.
    pub fn task(&self) -> Task {
        self.about.task()
    }
}

/// One vector of the rows of a text, of which there is at least one.
fn pooled(rows: &[f32], stride: usize, hidden: usize, pooling: Pooling) -> Vec<f32> {
    let count = (rows.len() / stride).max(1);
    let mut rows = rows.chunks_exact(stride).map(|row| &row[..hidden]);
    let mut vector = vec![0.0; hidden];
    match pooling {
        Pooling::First => return rows.next().map_or(vector, <[f32]>::to_vec),
        Pooling::Last => return rows.next_back().map_or(vector, <[f32]>::to_vec),
        Pooling::Max => {
            vector.fill(f32::MIN);
            for row in rows {
                for (value, other) in vector.iter_mut().zip(row) {
                    *value = value.max(*other);
                }
            }
        }
        Pooling::Mean | Pooling::MeanOfRoot => {
            for row in rows {
                for (value, more) in vector.iter_mut().zip(row) {
                    *value += more;
                }
            }
            let count = count as f32;
            let divisor = if pooling == Pooling::Mean { count } else { count.sqrt() };
            for value in &mut vector {
                *value /= divisor;
            }
        }
    }
    vector
}
