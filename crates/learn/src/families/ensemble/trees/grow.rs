//! One tree of decisions, grown from binned rows: CART (Breiman, Friedman, Olshen and Stone, 1984), or with a random
//! threshold a feature (Geurts, Ernst and Wehenkel, 2006).
//!
//! What a node knows of its rows is how many there are, their weight, and one or more weighted sums: of the targets, of
//! gradients (and the weights are second derivatives then), or the weight of each class but the first. Every criterion
//! is a function of these. They are added up a bin of a feature, and a split is a border between bins; a set of
//! occupied bins makes that as cheap for small nodes as for large ones.

use std::collections::BinaryHeap;
use std::ops::Range;

use forest::double::{Node, Trees};

use super::bins::{Bins, MISSING};
use crate::Error;
use crate::family::Control;
use crate::random::Random;

/// What makes a split good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Criterion {
    /// The squares of what the sums leave.
    SquaredError,
    /// The deviance of a Poisson distribution.
    Poisson,
    /// How probably two rows of a node have different classes.
    Gini,
    /// The information, in bits, that the class of a row of a node has.
    Entropy,
}

/// When a node is split, and how.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    pub(crate) criterion: Criterion,
    pub(crate) max_depth: usize,
    /// Rows that a node must have to be split.
    pub(crate) min_split: usize,
    /// Rows that a leaf must have.
    pub(crate) min_leaf: usize,
    /// Weight that a leaf must have.
    pub(crate) min_weight: f64,
    /// Features that are tried at a node, in a random order; all of them in their own order where it is `None`.
    pub(crate) tried: Option<usize>,
    /// With a limit, the best leaf is split first.
    pub(crate) max_leaves: Option<usize>,
    /// The least gain, as a share of the weight of all rows.
    pub(crate) min_decrease: f64,
    /// Whether a split must gain anything at all.
    pub(crate) must_gain: bool,
    /// Whether a random threshold is tried a feature, instead of all.
    pub(crate) random_thresholds: bool,
    /// What is added to the weight of a node where its sum is squared.
    pub(crate) l2: f64,
    /// What is added to the weight of a category where categories are put in order.
    pub(crate) smooth: f64,
}

/// The labels by which rows are split, one for each row of the whole problem.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sums<'a> {
    /// A fixed number of targets for each row, already multiplied by the weight.
    Numbers(&'a [f64], usize),
    /// The class, and the number of classes.
    Classes(&'a [u32], usize),
}

impl Sums<'_> {
    /// How many sums a node has.
    pub(crate) fn count(&self) -> usize {
        match self {
            Sums::Numbers(_, count) => *count,
            Sums::Classes(_, classes) => classes - 1,
        }
    }
}

/// A tree, and which rows ended where.
pub(crate) struct Tree {
    /// With children, leaves and sets counted from 0.
    pub(crate) nodes: Vec<Node>,
    pub(crate) categories: Vec<u32>,
    /// The weight of the rows that went through each node.
    pub(crate) covers: Vec<f32>,
    /// By how much the split of each node lowered the criterion, times the weight of the rows; 0 for a leaf.
    pub(crate) gains: Vec<f32>,
    /// The rows, those of a leaf together.
    pub(crate) rows: Vec<u32>,
    /// Where in `rows` those of each leaf are.
    pub(crate) leaves: Vec<Range<usize>>,
}

impl Tree {
    /// The leaf where a row ends.
    pub(crate) fn leaf_of(&self, row: &[f32]) -> usize {
        let roots = [0, self.nodes.len() as u32];
        let trees =
            Trees { nodes: &self.nodes, roots: &roots, values: &[], categories: &self.categories, outputs: 1, size: 1 };
        trees.leaf(0, row)
    }

    /// The rows of a leaf.
    pub(crate) fn rows_of(&self, leaf: usize) -> &[u32] {
        &self.rows[self.leaves[leaf].clone()]
    }
}

/// Codes of a feature, one bit each.
type Codes = [u64; 4];

fn has(codes: &Codes, code: u8) -> bool {
    codes[usize::from(code >> 6)] >> (code & 63) & 1 == 1
}

fn add(codes: &mut Codes, code: u8) {
    codes[usize::from(code >> 6)] |= 1 << (code & 63);
}

/// A way to divide a node's rows.
#[derive(Debug, Clone, Copy)]
struct Split {
    gain: f64,
    feature: usize,
    /// What goes left, MISSING among it where missing values do.
    left: Codes,
    threshold: f32,
}

/// A node that may be split.
struct Open {
    node: usize,
    rows: Range<usize>,
    depth: usize,
    split: Split,
    /// The histograms of all features, where there was a use for them.
    kept: Option<Vec<f64>>,
    /// Whether nodes come by what they gain, those that gain the same in their own order; or the last one first.
    by_gain: bool,
}

impl PartialEq for Open {
    fn eq(&self, other: &Open) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Open) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Open {
    fn cmp(&self, other: &Open) -> std::cmp::Ordering {
        let gains = if self.by_gain { self.split.gain.total_cmp(&other.split.gain) } else { std::cmp::Ordering::Equal };
        gains.then_with(|| match self.by_gain {
            true => other.node.cmp(&self.node),
            false => self.node.cmp(&other.node),
        })
    }
}

/// Numbers a bin has before its sums: rows, and weight.
const HEAD: usize = 2;
/// Codes a feature has.
const CODES: usize = 256;
/// Nodes with fewer rows than this share nothing with their sibling: to add them up is as fast.
const SHARED: usize = 2048;
/// Steps between two checks for interrupts.
const CHECKED: usize = 100_000;

/// Grows trees from the same bins, one after another.
pub(crate) struct Grower<'a> {
    bins: &'a Bins,
    growth: Growth,
    stride: usize,
    /// The sums of one feature's bins.
    cells: Vec<f64>,
    /// The features, in the order of the last node.
    features: Vec<usize>,
    /// The weights and sums (or classes) of a node's rows, in the order of the rows.
    weights: Vec<f64>,
    sums: Vec<f64>,
    classes: Vec<u32>,
    spare: Vec<u32>,
    total: Vec<f64>,
    left: Vec<f64>,
    right: Vec<f64>,
    /// The weight of all rows of the tree.
    whole: f64,
    steps: usize,
}

/// What a tree is grown from.
#[derive(Clone, Copy)]
pub(crate) struct Sample<'a> {
    /// One for each row of the problem.
    pub(crate) weights: &'a [f64],
    pub(crate) sums: Sums<'a>,
}

/// What the growing of one tree has at hand.
struct Hands<'s, 'r, 'c> {
    sample: Sample<'s>,
    random: &'r mut Random,
    control: &'r mut Control<'c>,
}

/// A node that waits for the search for its split.
struct PendingNode {
    node: usize,
    rows: Range<usize>,
    depth: usize,
    kept: Option<Vec<f64>>,
}

impl<'a> Grower<'a> {
    pub(crate) fn new(bins: &'a Bins, growth: Growth) -> Grower<'a> {
        Grower {
            bins,
            growth,
            stride: 0,
            cells: Vec::new(),
            features: (0..bins.width()).collect(),
            weights: Vec::new(),
            sums: Vec::new(),
            classes: Vec::new(),
            spare: Vec::new(),
            total: Vec::new(),
            left: Vec::new(),
            right: Vec::new(),
            whole: 0.0,
            steps: 0,
        }
    }

    /// Chooses from these features only, from the next tree on.
    pub(crate) fn restrict(&mut self, features: Vec<usize>) {
        self.features = features;
    }

    /// The growth, to be changed between two trees.
    pub(crate) fn growth(&mut self) -> &mut Growth {
        &mut self.growth
    }

    /// Grows a tree from these rows, of which there must be one.
    pub(crate) fn grow(
        &mut self,
        rows: Vec<u32>,
        sample: Sample<'_>,
        random: &mut Random,
        control: &mut Control<'_>,
    ) -> Result<Tree, Error> {
        self.stride = HEAD + sample.sums.count();
        self.cells.clear();
        self.cells.resize(self.stride * CODES, 0.0);
        self.whole = rows.iter().map(|row| sample.weights[*row as usize]).sum();
        let mut tree = Tree {
            nodes: vec![Node::leaf(0)],
            categories: Vec::new(),
            covers: vec![self.whole as f32],
            gains: vec![0.0],
            leaves: Vec::new(),
            rows,
        };
        let mut queue = Queue::new(self.growth.max_leaves.is_some());
        let all = 0..tree.rows.len();
        let mut hands = Hands { sample, random, control };
        match self.consider(&tree, PendingNode { node: 0, rows: all.clone(), depth: 0, kept: None }, &mut hands)? {
            Some(open) => queue.push(open),
            None => tree.leaves.push(all),
        }
        // Each split makes one more leaf of what is closed or waits to be.
        let mut leaves = 1;
        while let Some(mut open) = queue.pop() {
            if self.growth.max_leaves.is_some_and(|most| leaves >= most) {
                close(&mut tree, open.node, open.rows)?;
                continue;
            }
            leaves += 1;
            let kept = open.kept.take();
            let middle = self.divide(&mut tree, &open);
            let (left, right) = (open.rows.start..middle, middle..open.rows.end);
            let first = u32::try_from(tree.nodes.len()).map_err(|_| Error::Memory)?;
            tree.nodes.extend([Node::leaf(0), Node::leaf(0)]);
            tree.gains.extend([0.0, 0.0]);
            tree.gains[open.node] = open.split.gain as f32;
            self.write(&mut tree, &open, first, left.len())?;
            let [of_left, of_right] = self.share(&tree, kept, &left, &right, &mut hands)?;
            for (node, rows, kept) in [(first, left, of_left), (first + 1, right, of_right)] {
                let node = node as usize;
                let weight: f64 = tree.rows[rows.clone()].iter().map(|row| sample.weights[*row as usize]).sum();
                tree.covers.push(weight as f32);
                let found = PendingNode { node, rows: rows.clone(), depth: open.depth + 1, kept };
                match self.consider(&tree, found, &mut hands)? {
                    Some(open) => queue.push(open),
                    None => close(&mut tree, node, rows)?,
                }
            }
        }
        Ok(tree)
    }

    /// The node with its best split, where it may be split and there is one.
    fn consider(
        &mut self,
        tree: &Tree,
        found: PendingNode,
        hands: &mut Hands<'_, '_, '_>,
    ) -> Result<Option<Open>, Error> {
        let PendingNode { node, rows, depth, kept } = found;
        let growth = &self.growth;
        if depth >= growth.max_depth || rows.len() < growth.min_split || rows.len() / 2 < growth.min_leaf {
            return Ok(None);
        }
        let members = &tree.rows[rows.clone()];
        let is_pure = self.gather(members, hands.sample)?;
        self.worked(members.len(), hands)?;
        if is_pure || self.total[1] < 2.0 * self.growth.min_weight {
            return Ok(None);
        }
        let kept = match kept {
            None if self.shares(rows.len()) => Some(self.histograms(members, hands)?),
            kept => kept,
        };
        let split = self.search(members, kept.as_deref(), hands)?;
        let by_gain = self.growth.max_leaves.is_some();
        let least = self.growth.min_decrease * self.whole;
        let enough = |split: &Split| match self.growth.must_gain {
            true => split.gain > least,
            false => split.gain + f64::EPSILON * self.whole >= least,
        };
        Ok(split.filter(enough).map(|split| Open { node, rows, depth, split, kept, by_gain }))
    }

    /// Checks for the end of the training, after a fixed number of steps.
    fn worked(&mut self, steps: usize, hands: &mut Hands<'_, '_, '_>) -> Result<(), Error> {
        self.steps += steps;
        if self.steps > CHECKED {
            self.steps = 0;
            hands.control.check()?;
        }
        Ok(())
    }

    /// Puts weights and sums of a node's rows side by side, and adds them up; whether they are all alike.
    fn gather(&mut self, rows: &[u32], sample: Sample<'_>) -> Result<bool, Error> {
        self.total.clear();
        self.total.resize(self.stride, 0.0);
        self.weights.clear();
        room::reserve(&mut self.weights, rows.len())?;
        self.weights.extend(rows.iter().map(|row| sample.weights[*row as usize]));
        self.total[0] = rows.len() as f64;
        self.total[1] = self.weights.iter().sum();
        let mut alike = true;
        match sample.sums {
            Sums::Classes(classes, _) => {
                self.classes.clear();
                room::reserve(&mut self.classes, rows.len())?;
                self.classes.extend(rows.iter().map(|row| classes[*row as usize]));
                let first = self.classes.first().copied();
                for (class, weight) in self.classes.iter().zip(&self.weights) {
                    alike &= Some(*class) == first;
                    if *class > 0 {
                        self.total[HEAD + *class as usize - 1] += weight;
                    }
                }
            }
            Sums::Numbers(numbers, count) => {
                self.classes.clear();
                self.sums.clear();
                room::reserve(&mut self.sums, rows.len() * count)?;
                for row in rows {
                    let at = *row as usize * count;
                    self.sums.extend_from_slice(&numbers[at..at + count]);
                }
                let first_weight = self.weights.first().copied().unwrap_or(0.0);
                for (sums, weight) in self.sums.chunks_exact(count).zip(&self.weights) {
                    for (index, sum) in sums.iter().enumerate() {
                        self.total[HEAD + index] += sum;
                        alike &= sum * first_weight == self.sums[index] * weight;
                    }
                }
            }
        }
        Ok(alike)
    }

    /// Whether the histograms of a node with this number of rows are kept for its children.
    fn shares(&self, rows: usize) -> bool {
        rows >= SHARED && self.growth.tried.is_none_or(|tried| tried >= self.features.len()) && self.stride == HEAD + 1
    }

    /// The histograms of all features of a node whose rows were gathered.
    fn histograms(&mut self, rows: &[u32], hands: &mut Hands<'_, '_, '_>) -> Result<Vec<f64>, Error> {
        let size = self.stride * CODES;
        let mut all = Vec::new();
        room::reserve(&mut all, size * self.bins.width())?;
        all.resize(size * self.bins.width(), 0.0);
        for index in 0..self.features.len() {
            let feature = self.features[index];
            let (codes, cells) = (self.bins.codes(feature), &mut all[feature * size..(feature + 1) * size]);
            one_sum(codes, rows, &self.weights, &self.sums, &self.classes, cells);
            self.worked(rows.len(), hands)?;
        }
        Ok(all)
    }

    /// The histograms of two children by those of their parent: the smaller one's are added up, the other's are the rest.
    fn share(
        &mut self,
        tree: &Tree,
        kept: Option<Vec<f64>>,
        left: &Range<usize>,
        right: &Range<usize>,
        hands: &mut Hands<'_, '_, '_>,
    ) -> Result<[Option<Vec<f64>>; 2], Error> {
        let Some(mut rest) = kept.filter(|_| self.shares(left.len().max(right.len()))) else { return Ok([None, None]) };
        let left_is_smaller = left.len() < right.len();
        let rows = &tree.rows[if left_is_smaller { left } else { right }.clone()];
        self.gather(rows, hands.sample)?;
        let smaller = self.histograms(rows, hands)?;
        for (rest, part) in rest.iter_mut().zip(&smaller) {
            *rest -= part;
        }
        let smaller = Some(smaller).filter(|_| self.shares(rows.len()));
        Ok(if left_is_smaller { [smaller, Some(rest)] } else { [Some(rest), smaller] })
    }

    /// The best split of a node whose rows were gathered.
    fn search(
        &mut self,
        rows: &[u32],
        kept: Option<&[f64]>,
        hands: &mut Hands<'_, '_, '_>,
    ) -> Result<Option<Split>, Error> {
        let count = self.features.len();
        let wanted = self.growth.tried.unwrap_or(count);
        let mut best: Option<Split> = None;
        let mut varied = 0;
        for visited in 0..count {
            // Features that are the same in all rows do not count, and one without any split is not enough.
            if varied >= wanted && best.is_some() {
                break;
            }
            if self.growth.tried.is_some() {
                let other = visited + hands.random.index(count - visited);
                self.features.swap(visited, other);
            }
            let feature = self.features[visited];
            let mut cells = std::mem::take(&mut self.cells);
            let occupied = match kept {
                Some(kept) => {
                    let size = self.stride * CODES;
                    cells.copy_from_slice(&kept[feature * size..(feature + 1) * size]);
                    occupied(&cells, self.stride)
                }
                None => self.add_up(feature, rows, &mut cells),
            };
            let codes: u32 = occupied.iter().map(|word| word.count_ones()).sum();
            if codes > 1 {
                varied += 1;
                self.scan(feature, &cells, &occupied, hands.random, &mut best);
            }
            for code in codes_of(&occupied) {
                let at = usize::from(code) * self.stride;
                cells[at..at + self.stride].fill(0.0);
            }
            if kept.is_some() {
                cells.fill(0.0);
            }
            self.cells = cells;
            self.worked(rows.len(), hands)?;
        }
        Ok(best)
    }

    /// Adds up the rows by the codes of a feature; gives the codes that there are.
    fn add_up(&mut self, feature: usize, rows: &[u32], cells: &mut [f64]) -> Codes {
        let codes = self.bins.codes(feature);
        if self.stride == HEAD + 1 {
            one_sum(codes, rows, &self.weights, &self.sums, &self.classes, cells);
            return codes_in(codes, rows, cells);
        }
        let mut occupied = [0; 4];
        let count = self.stride - HEAD;
        for (index, (row, weight)) in rows.iter().zip(&self.weights).enumerate() {
            let code = codes[*row as usize];
            add(&mut occupied, code);
            let at = usize::from(code) * self.stride;
            let cell = &mut cells[at..at + self.stride];
            cell[0] += 1.0;
            cell[1] += weight;
            match self.classes.get(index) {
                Some(0) => {}
                Some(class) => cell[HEAD + *class as usize - 1] += weight,
                None => {
                    for (to, from) in cell[HEAD..].iter_mut().zip(&self.sums[index * count..]) {
                        *to += from;
                    }
                }
            }
        }
        occupied
    }

    /// Looks for a better split by a feature.
    fn scan(&mut self, feature: usize, cells: &[f64], occupied: &Codes, random: &mut Random, best: &mut Option<Split>) {
        let missing = has(occupied, MISSING);
        let mut order = [0_u8; CODES];
        let mut count = 0;
        for code in codes_of(occupied).filter(|code| *code != MISSING) {
            order[count] = code;
            count += 1;
        }
        let order = &mut order[..count];
        let column = &self.bins.columns[feature];
        if column.categories.is_some() {
            self.sort_categories(order, cells, random);
        }
        // Only one place is tried where thresholds are random.
        let only = self.growth.random_thresholds.then(|| match (&column.categories, &order[..]) {
            (None, [first, .., last]) => {
                let (from, to) = (column.lower[usize::from(*first)], column.upper[usize::from(*last)]);
                let threshold = f64::from(from) + random.unit() * (f64::from(to) - f64::from(from));
                let below = order.iter().take_while(|code| f64::from(column.upper[usize::from(**code)]) < threshold);
                (below.count().clamp(1, count - 1), Some(threshold))
            }
            _ => (1 + random.index(count.max(2) - 1), None),
        });
        let directions: &[bool] = match (missing, only) {
            (false, _) => &[false],
            (true, None) => &[false, true],
            (true, Some(_)) => {
                if random.bits() & 1 == 0 {
                    &[false]
                } else {
                    &[true]
                }
            }
        };
        for missing_left in directions {
            // All values may part from what is missing.
            let end = if missing && !missing_left { count } else { count - 1 };
            let range = match only {
                Some((after, _)) => after.min(end).max(1)..after.min(end).max(1) + 1,
                None => 1..end + 1,
            };
            let Some((gain, after)) = self.sweep(cells, order, *missing_left, range) else { continue };
            if best.as_ref().is_none_or(|best| gain > best.gain) {
                let mut left = [0; 4];
                order[..after].iter().for_each(|code| add(&mut left, *code));
                if *missing_left {
                    add(&mut left, MISSING);
                }
                let drawn = only.and_then(|(_, threshold)| threshold);
                let column = &self.bins.columns[feature];
                let threshold = match column.categories {
                    Some(_) => 0.0,
                    None => threshold(&column.lower, &column.upper, &order[after - 1..], drawn),
                };
                *best = Some(Split { gain, feature, left, threshold });
            }
        }
    }

    /// Puts categories into the order of their means: the best set is one end of it (Fisher, 1958). Of several classes,
    /// by the share of the largest one.
    fn sort_categories(&self, order: &mut [u8], cells: &[f64], random: &mut Random) {
        if self.growth.random_thresholds {
            random.shuffle(order);
            return;
        }
        let sums = &self.total[HEAD..];
        let largest = (0..sums.len()).fold(0, |best, index| if sums[index] > sums[best] { index } else { best });
        let mean = |code: u8| {
            let cell = &cells[usize::from(code) * self.stride..];
            cell[HEAD + largest] / (cell[1] + self.growth.smooth).max(f64::MIN_POSITIVE)
        };
        order.sort_by(|a, b| mean(*a).total_cmp(&mean(*b)));
    }

    /// The best gain of a split of these codes within the range, and the number of codes to the left of that split.
    fn sweep(&mut self, cells: &[f64], order: &[u8], missing_left: bool, range: Range<usize>) -> Option<(f64, usize)> {
        let stride = self.stride;
        let cell = |code: u8| &cells[usize::from(code) * stride..(usize::from(code) + 1) * stride];
        self.left.clear();
        match missing_left {
            true => self.left.extend_from_slice(cell(MISSING)),
            false => self.left.resize(stride, 0.0),
        }
        let (least_rows, least_weight) = (self.growth.min_leaf as f64, self.growth.min_weight);
        let before = self.score(&self.total);
        let mut best: Option<(f64, usize)> = None;
        for after in 1..range.end {
            for (sum, part) in self.left.iter_mut().zip(cell(order[after - 1])) {
                *sum += part;
            }
            let (rows, weight) = (self.left[0], self.left[1]);
            if after < range.start || rows < least_rows || weight < least_weight {
                continue;
            }
            if self.total[0] - rows < least_rows || self.total[1] - weight < least_weight {
                // There are only fewer to come.
                break;
            }
            self.right.clear();
            self.right.extend(self.total.iter().zip(&self.left).map(|(total, left)| total - left));
            let gain = self.score(&self.left) + self.score(&self.right) - before;
            if best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, after));
            }
        }
        best.filter(|(gain, _)| gain.is_finite())
    }

    /// How much a node explains: more is better, and of a split it is the sum of both sides.
    #[inline]
    fn score(&self, node: &[f64]) -> f64 {
        let (weight, sums) = (node[1], &node[HEAD..]);
        let total = weight + self.growth.l2;
        if total <= 0.0 {
            return 0.0;
        }
        // Of classes, the first has what the others leave.
        let first = |sums: &[f64]| (weight - sums.iter().sum::<f64>()).max(0.0);
        let bits = |sum: f64| if sum > 0.0 { sum * (sum / weight).log2() } else { 0.0 };
        match self.growth.criterion {
            Criterion::SquaredError => sums.iter().map(|sum| sum * sum).sum::<f64>() / total,
            Criterion::Gini => (sums.iter().map(|sum| sum * sum).sum::<f64>() + first(sums).powi(2)) / total,
            Criterion::Entropy => sums.iter().map(|sum| bits(*sum)).sum::<f64>() + bits(first(sums)),
            Criterion::Poisson => {
                sums.iter().map(|sum| if *sum > 0.0 { sum * (sum / weight).ln() } else { f64::NEG_INFINITY }).sum()
            }
        }
    }

    /// Puts the rows that go left before those that go right; gives where the latter begin.
    fn divide(&mut self, tree: &mut Tree, open: &Open) -> usize {
        let codes = self.bins.codes(open.split.feature);
        self.spare.clear();
        let rows = &mut tree.rows[open.rows.clone()];
        let mut end = 0;
        for index in 0..rows.len() {
            let row = rows[index];
            if has(&open.split.left, codes[row as usize]) {
                rows[end] = row;
                end += 1;
            } else {
                self.spare.push(row);
            }
        }
        rows[end..].copy_from_slice(&self.spare);
        open.rows.start + end
    }

    /// Makes a node what its split says.
    fn write(&self, tree: &mut Tree, open: &Open, first: u32, left: usize) -> Result<(), Error> {
        let split = &open.split;
        let feature = u32::try_from(split.feature).map_err(|_| Error::Memory)?;
        let codes = self.bins.codes(split.feature);
        let any_missing =
            has(&split.left, MISSING) || tree.rows[open.rows.clone()].iter().any(|row| codes[*row as usize] == MISSING);
        let categories = self.bins.columns[split.feature].categories;
        let missing_left = match any_missing {
            true => has(&split.left, MISSING),
            // A set of categories is often the larger one because it is chosen so that little happens there: an unseen
            // category goes to each side as often as rows do, over all trees, so that it is predicted as the mean of both.
            false if categories.is_some() => {
                Random::new(split.gain.to_bits() ^ u64::from(first)).index(open.rows.len()) < left
            }
            // Where nothing was missing, the larger part is the better guess.
            false => 2 * left >= open.rows.len(),
        };
        tree.nodes[open.node] = match categories {
            None => Node::numeric(feature, split.threshold, missing_left, first, first + 1),
            Some(count) => {
                let mut set = split.left;
                if missing_left {
                    // So do categories that no row of the node has.
                    let mut seen = [0; 4];
                    tree.rows[open.rows.clone()].iter().for_each(|row| add(&mut seen, codes[*row as usize]));
                    set.iter_mut().zip(seen).for_each(|(word, seen)| *word |= !seen);
                }
                let at = u32::try_from(tree.categories.len()).map_err(|_| Error::Memory)?;
                let words = count.div_ceil(32);
                tree.categories.push(words as u32);
                let halves = set.iter().flat_map(|word| [*word as u32, (word >> 32) as u32]);
                tree.categories.extend(halves.take(words));
                Node::categorical(feature, at, missing_left, first, first + 1)
            }
        };
        Ok(())
    }
}

/// Makes a leaf of a node.
fn close(tree: &mut Tree, node: usize, rows: Range<usize>) -> Result<(), Error> {
    let leaf = u32::try_from(tree.leaves.len()).map_err(|_| Error::Memory)?;
    tree.nodes[node] = Node::leaf(leaf);
    tree.leaves.push(rows);
    Ok(())
}

/// Where `x < threshold` parts the first of these codes from what comes after it.
fn threshold(lower: &[f32], upper: &[f32], codes: &[u8], drawn: Option<f64>) -> f32 {
    let [last, next, ..] = codes else { return f32::INFINITY };
    let (below, above) = (upper[usize::from(*last)], lower[usize::from(*next)]);
    let middle = match drawn.filter(|drawn| *drawn > f64::from(below) && *drawn <= f64::from(above)) {
        Some(drawn) => drawn as f32,
        None => (0.5 * (f64::from(below) + f64::from(above))) as f32,
    };
    if middle > below && middle <= above { middle } else { above }
}

/// Adds up rows with one sum each by their codes.
fn one_sum(codes: &[u8], rows: &[u32], weights: &[f64], sums: &[f64], classes: &[u32], cells: &mut [f64]) {
    let (cells, _) = cells.as_chunks_mut::<{ HEAD + 1 }>();
    let Ok(cells) = <&mut [[f64; HEAD + 1]; CODES]>::try_from(cells) else { return };
    if classes.is_empty() {
        for ((row, weight), sum) in rows.iter().zip(weights).zip(sums) {
            let cell = &mut cells[usize::from(codes[*row as usize])];
            cell[0] += 1.0;
            cell[1] += weight;
            cell[2] += sum;
        }
    } else {
        for ((row, weight), class) in rows.iter().zip(weights).zip(classes) {
            let cell = &mut cells[usize::from(codes[*row as usize])];
            cell[0] += 1.0;
            cell[1] += weight;
            cell[2] += weight * f64::from(*class);
        }
    }
}

/// The codes of these rows: looked up in the cells where there are many rows.
fn codes_in(codes: &[u8], rows: &[u32], cells: &[f64]) -> Codes {
    if rows.len() >= CODES {
        return occupied(cells, HEAD + 1);
    }
    let mut found = [0; 4];
    rows.iter().for_each(|row| add(&mut found, codes[*row as usize]));
    found
}

/// The codes that have rows.
fn occupied(cells: &[f64], stride: usize) -> Codes {
    let mut occupied = [0; 4];
    for (code, cell) in cells.chunks_exact(stride).enumerate() {
        if cell[0] > 0.0 {
            add(&mut occupied, code as u8);
        }
    }
    occupied
}

fn codes_of(occupied: &Codes) -> impl Iterator<Item = u8> {
    let occupied = *occupied;
    (0..4_u8).flat_map(move |index| {
        let mut word = occupied[usize::from(index)];
        std::iter::from_fn(move || {
            let bit = word.trailing_zeros();
            (word != 0).then(|| {
                word &= word - 1;
                index * 64 + bit as u8
            })
        })
    })
}

/// The nodes that wait: the last one first, or the best.
enum Queue {
    Stack(Vec<Open>),
    Heap(BinaryHeap<Open>),
}

impl Queue {
    fn new(best_first: bool) -> Queue {
        if best_first { Queue::Heap(BinaryHeap::new()) } else { Queue::Stack(Vec::new()) }
    }

    fn push(&mut self, open: Open) {
        match self {
            Queue::Stack(stack) => stack.push(open),
            Queue::Heap(heap) => heap.push(open),
        }
    }

    fn pop(&mut self) -> Option<Open> {
        match self {
            Queue::Stack(stack) => stack.pop(),
            Queue::Heap(heap) => heap.pop(),
        }
    }
}
