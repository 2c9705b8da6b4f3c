//! One part of the spooled rows, those to learn from or those to test on, as an engine wants them.

use std::any::Any;

use learn::preprocess::Pipeline;
use learn::rows::{Chunk, Rows, Stop};
use learn::split::Split;
use learn::spool::Block;

use super::columns::Data;
use super::interrupts;
use super::rival::RivalRows;
use super::spool::Spool;
use crate::error::Result;
use crate::memory;

/// Rows of a spool that are, or are not, test rows; with the codes of categories and classes put into their final
/// order.
pub struct View<'a> {
    spool: &'a Spool,
    split: &'a Split,
    wanted: bool,
    /// Positions of categorical features, and the final index for each of their codes.
    categories: Vec<(usize, &'a [f32])>,
    /// Features that have an origin, and it.
    origins: Vec<(usize, f64)>,
    classes: Option<&'a [f32]>,
    /// What is done to each row.
    pipeline: Option<&'a Pipeline>,
    is_compact: bool,
    /// Labels of a row; those after the first stand behind its features in the spool.
    targets: usize,
    /// Whether the last of what stands behind the features is the row's weight.
    weighted: bool,
    /// How much a row counts by its class, one for each class.
    by_class: Option<&'a [f32]>,
    /// At most so many rows.
    limit: u64,
    /// The block that comes next, and rows given so far.
    block: usize,
    given: u64,
    packed: Vec<u8>,
    unpacked: Block,
    features: Vec<f32>,
    labels: Vec<f32>,
    weights: Vec<f32>,
    finished: Vec<f32>,
}

/// Some rows.
pub struct Part<'a> {
    pub rows: usize,
    /// Row by row.
    pub features: &'a [f32],
    /// Row by row, as many a row as there are labels.
    pub labels: &'a [f32],
    /// One for each row, of rows to train on, where a column says so.
    pub weights: Option<&'a [f32]>,
}

impl<'a> View<'a> {
    /// The rows that are tested on, or those that are not, `limit` of them at most, as SQL gives them.
    pub fn new(data: &'a Data, split: &'a Split, test: bool, limit: u64) -> View<'a> {
        let mut position = 0;
        let (mut categories, mut origins) = (Vec::new(), Vec::new());
        for feature in &data.features {
            let own = feature.origins.iter().enumerate().filter(|(_, origin)| **origin != 0.0);
            origins.extend(own.map(|(element, origin)| (position + element, *origin)));
            if let Some(sorted) = &feature.categories {
                categories.push((position, sorted.remap.as_slice()));
            }
            position += feature.size;
        }
        View {
            spool: &data.spool,
            split,
            wanted: test,
            categories,
            origins,
            classes: data.labels.first().and_then(|label| label.classes.as_ref()).map(|classes| classes.remap()),
            pipeline: None,
            is_compact: false,
            targets: data.labels.len(),
            weighted: data.weighted,
            by_class: None,
            limit,
            block: 0,
            given: 0,
            packed: Vec::new(),
            unpacked: Block::new(),
            features: Vec::new(),
            labels: Vec::new(),
            weights: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// The rows that a split of the deployed model's rows holds out, as that model reads them.
    pub fn of_rival(data: &'a Data, rival: &'a RivalRows, split: &'a Split) -> View<'a> {
        let (categories, origins) = (Vec::new(), Vec::new());
        View { spool: &rival.spool, categories, origins, weighted: false, ..View::new(data, split, true, u64::MAX) }
    }

    /// The same rows, with categories by their codes of appearance.
    pub fn with_codes(mut self) -> View<'a> {
        self.categories.clear();
        self
    }

    /// The same rows, prepared.
    pub fn prepared(mut self, pipeline: Option<&'a Pipeline>) -> View<'a> {
        self.pipeline = pipeline;
        self
    }

    /// The same rows, each of which counts as much as its class, too.
    pub fn by_class(mut self, weights: Option<&'a [f32]>) -> View<'a> {
        self.by_class = weights;
        self
    }

    /// The same rows, prepared but for one-hot features, which are one number a column ([`Pipeline::compact`]).
    pub fn compact(mut self) -> View<'a> {
        self.is_compact = true;
        self
    }

    /// Features of a row.
    pub fn width(&self) -> usize {
        match self.pipeline {
            Some(pipeline) if self.is_compact => pipeline.compact_sources().len(),
            Some(pipeline) => pipeline.width(),
            None => self.raw_width(),
        }
    }

    fn raw_width(&self) -> usize {
        self.spool.width() - self.targets.saturating_sub(1) - usize::from(self.weighted)
    }

    pub fn first(&mut self) {
        (self.block, self.given) = (0, 0);
    }

    /// Features and labels of some rows, `None` after the last.
    pub fn chunk(&mut self) -> Result<Option<Part<'_>>> {
        while self.block < self.spool.blocks() && self.given < self.limit {
            // Of the last rows, say, most blocks have none.
            if !self.wants_of_block() {
                self.block += 1;
                continue;
            }
            self.spool.read(self.block, &mut self.packed, &mut self.unpacked)?;
            for (feature, origin) in &self.origins {
                self.unpacked.take_off(*feature, *origin, self.spool.width());
            }
            self.take();
            self.block += 1;
            let rows = self.features.len() / self.raw_width().max(1);
            if rows > 0 {
                self.given += rows as u64;
                self.reorder();
                self.prepare()?;
                self.weigh_classes()?;
                let features = if self.pipeline.is_some() { &self.finished } else { &self.features };
                let weights =
                    ((self.weighted || self.by_class.is_some()) && !self.wanted).then_some(self.weights.as_slice());
                return Ok(Some(Part { rows, features, labels: &self.labels, weights }));
            }
        }
        Ok(None)
    }

    fn prepare(&mut self) -> Result<()> {
        let Some(pipeline) = self.pipeline else { return Ok(()) };
        self.finished.clear();
        let width = self.raw_width();
        let finished = self.width();
        memory::reserve(&mut self.finished, self.features.len() / width.max(1) * finished)?;
        for row in self.features.chunks_exact(width) {
            match self.is_compact {
                true => pipeline.apply_compact(row, &mut self.finished),
                false => pipeline.apply(row, &mut self.finished),
            }
        }
        Ok(())
    }

    /// Multiplies the rows' weights by those of their classes.
    fn weigh_classes(&mut self) -> Result<()> {
        let Some(by_class) = self.by_class else { return Ok(()) };
        if !self.weighted {
            memory::reserve(&mut self.weights, self.labels.len())?;
            self.weights.resize(self.labels.len(), 1.0);
        }
        for (weight, label) in self.weights.iter_mut().zip(&self.labels) {
            *weight *= by_class.get(*label as usize).copied().unwrap_or(1.0);
        }
        Ok(())
    }

    fn wants(&self, row: u64) -> bool {
        if self.wanted { self.split.is_test(row) } else { self.split.is_train(row) }
    }

    /// Whether a row of the block that comes next is wanted.
    fn wants_of_block(&self) -> bool {
        let start = (self.block * self.spool.block_rows()) as u64;
        let end = self.spool.rows().min(start + self.spool.block_rows() as u64);
        (start..end).any(|row| self.wants(row))
    }

    /// The wanted rows of the block just read.
    fn take(&mut self) {
        let (width, start) = (self.spool.width(), (self.block * self.spool.block_rows()) as u64);
        let room = usize::try_from(self.limit - self.given).unwrap_or(usize::MAX);
        let chunk = self.unpacked.chunk();
        self.features.clear();
        self.labels.clear();
        self.weights.clear();
        let raw = self.raw_width();
        let mut taken = 0;
        for ((row, features), label) in (start..).zip(chunk.features.chunks_exact(width)).zip(chunk.labels) {
            if self.wants(row) && taken < room {
                let (features, mut others) = features.split_at(raw);
                self.features.extend_from_slice(features);
                if self.weighted
                    && let Some((weight, rest)) = others.split_last()
                {
                    self.weights.push(*weight);
                    others = rest;
                }
                if self.targets > 0 {
                    self.labels.push(*label);
                    self.labels.extend_from_slice(others);
                }
                taken += 1;
            }
        }
    }

    /// From codes of appearance to final indexes.
    fn reorder(&mut self) {
        let width = self.raw_width();
        for (position, remap) in &self.categories {
            for value in self.features.iter_mut().skip(*position).step_by(width) {
                if !value.is_nan() {
                    *value = remap.get(*value as usize).copied().unwrap_or(f32::NAN);
                }
            }
        }
        if let Some(classes) = self.classes {
            for label in &mut self.labels {
                *label = classes.get(*label as usize).copied().unwrap_or(f32::NAN);
            }
        }
    }
}

fn stop(reason: impl Any + Send) -> Stop {
    Box::new(reason)
}

// A PostgreSQL ERROR in here is a panic by the time it leaves pgrx; the engine carries it past the library.
impl Rows for View<'_> {
    fn width(&self) -> usize {
        View::width(self)
    }

    fn rewind(&mut self) -> std::result::Result<(), Stop> {
        self.first();
        Ok(())
    }

    fn next(&mut self) -> std::result::Result<Option<Chunk<'_>>, Stop> {
        interrupts::check_inside_library().map_err(stop)?;
        match self.chunk() {
            Ok(part) => {
                Ok(part.map(|part| Chunk { features: part.features, labels: part.labels, weights: part.weights }))
            }
            Err(error) => Err(stop(error)),
        }
    }
}
