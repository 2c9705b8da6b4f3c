//! One part of the spooled rows, those to learn from or those to test on, as an engine wants them.

use std::any::Any;

use learn::rows::{Chunk, Rows, Stop};
use learn::split::Split;
use learn::spool::Block;

use super::columns::Data;
use super::interrupts;
use super::spool::Spool;
use crate::error::Result;

/// Rows of a spool that are, or are not, test rows; with the codes of categories and classes put into their final
/// order.
pub struct View<'a> {
    spool: &'a Spool,
    split: &'a Split,
    wanted: bool,
    /// Positions of categorical features, and the final index for each of their codes.
    categories: Vec<(usize, &'a [f32])>,
    classes: Option<&'a [f32]>,
    /// At most so many rows.
    limit: u64,
    /// The block that comes next, and rows given so far.
    block: usize,
    given: u64,
    packed: Vec<u8>,
    unpacked: Block,
    features: Vec<f32>,
    labels: Vec<f32>,
}

impl<'a> View<'a> {
    /// The rows that are tested on, or those that are not, `limit` of them at most.
    pub fn new(data: &'a Data, split: &'a Split, test: bool, limit: u64) -> View<'a> {
        let mut position = 0;
        let mut categories = Vec::new();
        for feature in &data.features {
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
            classes: data.label.classes.as_ref().map(|classes| classes.remap()),
            limit,
            block: 0,
            given: 0,
            packed: Vec::new(),
            unpacked: Block::new(),
            features: Vec::new(),
            labels: Vec::new(),
        }
    }

    pub fn first(&mut self) {
        (self.block, self.given) = (0, 0);
    }

    /// Features and labels of some rows, `None` after the last.
    pub fn chunk(&mut self) -> Result<Option<(&[f32], &[f32])>> {
        while self.block < self.spool.blocks() && self.given < self.limit {
            // Of the last rows, say, most blocks have none.
            if !self.wants_of_block() {
                self.block += 1;
                continue;
            }
            self.spool.read(self.block, &mut self.packed, &mut self.unpacked)?;
            self.take();
            self.block += 1;
            if !self.labels.is_empty() {
                self.given += self.labels.len() as u64;
                self.reorder();
                return Ok(Some((&self.features, &self.labels)));
            }
        }
        Ok(None)
    }

    /// Whether a row of the block that comes next is wanted.
    fn wants_of_block(&self) -> bool {
        let start = (self.block * self.spool.block_rows()) as u64;
        let end = self.spool.rows().min(start + self.spool.block_rows() as u64);
        (start..end).any(|row| self.split.is_test(row) == self.wanted)
    }

    /// The wanted rows of the block just read.
    fn take(&mut self) {
        let (width, start) = (self.spool.width(), (self.block * self.spool.block_rows()) as u64);
        let room = usize::try_from(self.limit - self.given).unwrap_or(usize::MAX);
        let chunk = self.unpacked.chunk();
        self.features.clear();
        self.labels.clear();
        for ((row, features), label) in (start..).zip(chunk.features.chunks_exact(width)).zip(chunk.labels) {
            if self.split.is_test(row) == self.wanted && self.labels.len() < room {
                self.features.extend_from_slice(features);
                self.labels.push(*label);
            }
        }
    }

    /// From codes of appearance to final indexes.
    fn reorder(&mut self) {
        let width = self.spool.width();
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
        self.spool.width()
    }

    fn rewind(&mut self) -> std::result::Result<(), Stop> {
        self.first();
        Ok(())
    }

    fn next(&mut self) -> std::result::Result<Option<Chunk<'_>>, Stop> {
        interrupts::check_inside_library().map_err(stop)?;
        match self.chunk() {
            Ok(chunk) => Ok(chunk.map(|(features, labels)| Chunk { features, labels, weights: None })),
            Err(error) => Err(stop(error)),
        }
    }
}
