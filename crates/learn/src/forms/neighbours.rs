//! The nearest training rows and their labels: what k nearest neighbours predict by.
//!
//! Where a row has few features, the rows are in the order of a k-d tree (Friedman, Bentley and Finkel, 1977), whole
//! tiles a leaf. A node is a range of tiles; the tile in its middle begins its second half, and at the index of that
//! tile stand the feature that tells the halves apart and its value between them. So the tree needs no pointers, and
//! whatever a damaged model says, a search ends.

use std::ops::Range;

use crate::Error;
use crate::family::{Array, Control, Form, Meaning, Model, Predict, Problem, Stored};
use crate::numerics::tiles::{LANES, Measure, Tiles, widen};

/// Stored as `tiles` (the rows, see [`Tiles`]), `order` (the place of each among the training rows), `labels` (row by
/// row, in the order of the tiles), `axes` and `splits` (of the tree, one a tile, or none), and the settings.
pub(crate) const FORM: Form = Form { name: "neighbours", open };

/// Tiles of a node that is not divided any more.
const LEAF: usize = 2;

/// Features of a row up to which a tree is worth it: beyond, a search visits most leaves anyway.
const TREE_WIDTH: usize = 15;

/// Rows that are looked up together, and bytes of training rows that they are measured against in one go, so that those
/// stay in the first cache.
const BLOCK_ROWS: usize = 32;
const BLOCK_BYTES: usize = 16 << 10;

/// How far two rows are apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Metric {
    /// By the differences of their features.
    Differences(Measure),
    /// By the angle between them.
    Cosine,
}

impl Metric {
    /// What is summed up.
    fn measure(self) -> Measure {
        match self {
            Metric::Differences(measure) => measure,
            Metric::Cosine => Measure::Dot,
        }
    }

    fn name(self) -> (&'static str, f64) {
        match self {
            Metric::Differences(Measure::Manhattan) => ("manhattan", 1.0),
            Metric::Differences(Measure::Chebyshev) => ("chebyshev", 0.0),
            Metric::Differences(Measure::Power(power)) => ("minkowski", power),
            Metric::Differences(Measure::Squared | Measure::Dot) => ("euclidean", 2.0),
            Metric::Cosine => ("cosine", 0.0),
        }
    }

    fn of_name(name: &str, power: f64) -> Option<Metric> {
        Some(match name {
            "manhattan" => Metric::Differences(Measure::Manhattan),
            "chebyshev" => Metric::Differences(Measure::Chebyshev),
            "minkowski" => Metric::Differences(Measure::Power(power)),
            "euclidean" => Metric::Differences(Measure::Squared),
            "cosine" => Metric::Cosine,
            _ => return None,
        })
    }

    /// The distance that a sum means.
    fn distance(self, sum: f64) -> f64 {
        match self {
            Metric::Differences(Measure::Squared) => sum.sqrt(),
            Metric::Differences(Measure::Power(power)) => sum.powf(1.0 / power),
            _ => sum,
        }
    }

    /// The least sum of rows that differ at least so much in each feature.
    fn least(self, offsets: &[f64]) -> f64 {
        match self.measure() {
            Measure::Chebyshev => offsets.iter().copied().fold(0.0, f64::max),
            Measure::Manhattan => offsets.iter().sum(),
            Measure::Power(power) => offsets.iter().map(|offset| offset.powf(power)).sum(),
            Measure::Squared | Measure::Dot => offsets.iter().map(|offset| offset * offset).sum(),
        }
    }
}

/// How neighbours speak for a row.
pub(crate) struct Vote {
    pub(crate) neighbours: usize,
    pub(crate) metric: Metric,
    /// Whether one counts by the inverse of its distance.
    pub(crate) by_distance: bool,
    /// Whether a tree is made of the rows, where they are suited to it.
    pub(crate) tree: bool,
}

/// A model of the rows of a problem.
pub(crate) fn model(problem: &Problem<'_>, vote: &Vote, control: &mut Control<'_>) -> Result<Model, Error> {
    let tiles = problem.rows.div_ceil(LANES);
    let mut order: Vec<usize> = (0..problem.rows).collect();
    let (mut axes, mut splits) = (Vec::new(), Vec::new());
    if vote.tree && vote.metric != Metric::Cosine && problem.width <= TREE_WIDTH && tiles > LEAF {
        axes = vec![0u32; tiles];
        splits = vec![0f32; tiles];
        divide(problem, &mut order, 0, (&mut axes, &mut splits), control)?;
    }
    let labels: Vec<f32> = order
        .iter()
        .flat_map(|row| &problem.labels[row * problem.targets..(row + 1) * problem.targets])
        .copied()
        .collect();
    let (metric, power) = vote.metric.name();
    Ok(Model::new(&FORM)
        .set("rows", problem.rows)
        .set("width", problem.width)
        .set("classes", problem.classes)
        .set("targets", problem.targets)
        .set("neighbours", vote.neighbours)
        .set("by_distance", vote.by_distance)
        .set("metric", metric)
        .set("power", power)
        .with("tiles", Tiles::pack(problem.features, problem.width, &order)?)
        .with("order", order.iter().map(|row| *row as u32).collect::<Vec<u32>>())
        .with("labels", labels)
        .with("axes", axes)
        .with("splits", splits))
}

/// Puts the rows of a node, which begins with a tile, in the order of the tree.
fn divide(
    problem: &Problem<'_>,
    rows: &mut [usize],
    tile: usize,
    (axes, splits): (&mut [u32], &mut [f32]),
    control: &mut Control<'_>,
) -> Result<(), Error> {
    let tiles = rows.len().div_ceil(LANES);
    if tiles <= LEAF {
        return Ok(());
    }
    control.check()?;
    let value = |row: usize, axis: usize| problem.features[row * problem.width + axis];
    let mut widest = (0, f32::NEG_INFINITY);
    for axis in 0..problem.width {
        let (mut least, mut most) = (f32::INFINITY, f32::NEG_INFINITY);
        for row in rows.iter() {
            least = least.min(value(*row, axis));
            most = most.max(value(*row, axis));
        }
        if most - least > widest.1 {
            widest = (axis, most - least);
        }
    }
    let (axis, middle) = (widest.0, tiles / 2);
    let (_, median, _) =
        rows.select_nth_unstable_by(middle * LANES, |a, b| value(*a, axis).total_cmp(&value(*b, axis)).then(a.cmp(b)));
    axes[tile + middle] = axis as u32;
    splits[tile + middle] = value(*median, axis);
    let (low, high) = rows.split_at_mut(middle * LANES);
    divide(problem, low, tile, (&mut *axes, &mut *splits), control)?;
    divide(problem, high, tile + middle, (axes, splits), control)
}

/// The nearest rows that were met so far, the nearest first; of two that are as near, the one that comes first among
/// the training rows.
struct Nearest {
    most: usize,
    /// The sum of the measure, the place among the training rows, and the place in the tiles.
    found: Vec<(f64, u32, u32)>,
}

impl Nearest {
    fn new(most: usize) -> Nearest {
        Nearest { most, found: Vec::with_capacity(most + 1) }
    }

    /// The sum above which a row is none of the nearest.
    #[inline]
    fn limit(&self) -> f64 {
        match self.found.len() < self.most {
            true => f64::INFINITY,
            false => self.found.last().map_or(f64::NEG_INFINITY, |worst| worst.0),
        }
    }

    fn see(&mut self, sum: f64, order: u32, place: u32) {
        let at = self.found.partition_point(|other| (other.0, other.1) < (sum, order));
        if at < self.most {
            self.found.insert(at, (sum, order, place));
            self.found.truncate(self.most);
        }
    }
}

/// Room for what some tiles are measured to be.
struct Scratch {
    rough: Vec<f32>,
    exact: Vec<f64>,
}

/// The training rows, in which the nearest of others are found.
pub(crate) struct Neighbours {
    tiles: Tiles,
    order: Array<u32>,
    labels: Array<f32>,
    axes: Array<u32>,
    splits: Array<f32>,
    /// One over the length of each row, where the metric asks for it.
    inverse: Vec<f64>,
    neighbours: usize,
    metric: Metric,
    by_distance: bool,
    classes: usize,
    targets: usize,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    Ok(Box::new(open_rows(stored)?))
}

/// The rows of a stored model.
pub(crate) fn open_rows(stored: &Stored) -> Result<Neighbours, Error> {
    let (rows, width) = (stored.count("rows")?, stored.count("width")?);
    let (classes, targets) = (stored.count("classes")?, stored.count("targets")?);
    let neighbours = stored.count("neighbours")?;
    // Each class has a row, so that nobody makes room for more.
    let counts = rows > 0 && width > 0 && targets > 0 && (1..=rows).contains(&neighbours);
    if !counts || classes > rows || (classes > 0 && targets > 1) {
        return Err(Error::Model("its counts do not go together".into()));
    }
    let tiles = Tiles::stored(stored, "tiles", rows, width)?;
    let length = rows.checked_mul(targets).ok_or_else(|| Error::Model("it is too large".into()))?;
    let labels: Array<f32> = stored.array_of("labels", length)?;
    if classes > 0 && !labels.iter().all(|label| *label >= 0.0 && (*label as usize) < classes) {
        return Err(Error::Model("it has a label of no class".into()));
    }
    let axes: Array<u32> = stored.array("axes")?;
    let nodes = if axes.is_empty() { 0 } else { tiles.count() };
    let splits = stored.array_of("splits", nodes)?;
    let power = stored.number("power")?;
    let metric = Metric::of_name(stored.text("metric")?, power)
        .filter(|metric| !matches!(metric, Metric::Differences(Measure::Power(power)) if *power <= 0.0))
        .ok_or_else(|| Error::Model("its metric is not known".into()))?;
    if axes.len() != nodes || axes.iter().any(|axis| *axis as usize >= width) {
        return Err(Error::Model("its tree is damaged".into()));
    }
    if nodes > 0 && metric == Metric::Cosine {
        return Err(Error::Model("it has a tree that its metric has no use for".into()));
    }
    let inverse = match metric {
        Metric::Cosine => (0..rows).map(|row| inverse_length(&tiles.row(row))).collect(),
        Metric::Differences(_) => Vec::new(),
    };
    let order: Array<u32> = stored.array_of("order", rows)?;
    if order.iter().any(|row| *row as usize >= rows) {
        return Err(Error::Model("its rows are in no order".into()));
    }
    let by_distance = stored.flag("by_distance")?;
    Ok(Neighbours { tiles, order, labels, axes, splits, inverse, neighbours, metric, by_distance, classes, targets })
}

/// One over the length of a row; 0 where it has none, so that it is at right angles to everything.
fn inverse_length(row: &[f64]) -> f64 {
    let length = row.iter().map(|value| value * value).sum::<f64>().sqrt();
    if length > 0.0 { 1.0 / length } else { 0.0 }
}

impl Neighbours {
    /// Shows some tiles to a row, which is there in both precisions.
    fn scan(&self, (row, query): (&[f32], &[f64]), tiles: Range<usize>, scratch: &mut Scratch, nearest: &mut Nearest) {
        let step = scratch.exact.len() / LANES;
        let mut tile = tiles.start;
        while tile < tiles.end {
            let next = (tile + step).min(tiles.end);
            let places = tile * LANES..(next * LANES).min(self.tiles.rows());
            let rough = &mut scratch.rough[..(next - tile) * LANES];
            if self.tiles.screen(self.metric.measure(), row, tile, rough) {
                self.look_closer(query, places, rough, nearest);
            } else {
                let exact = &mut scratch.exact[..(next - tile) * LANES];
                self.tiles.measure(self.metric.measure(), query, tile, exact);
                self.see(query, places, exact, nearest);
            }
            tile = next;
        }
    }

    /// Measures those again that may be among the nearest by what was measured roughly.
    fn look_closer(&self, query: &[f64], places: Range<usize>, rough: &[f32], nearest: &mut Nearest) {
        let slack = self.tiles.slack();
        // Beyond these numbers a square is infinite in float32, or nothing.
        let bound = |limit: f64| if limit > 1e37 { f32::INFINITY } else { (limit * slack + 1e-30) as f32 };
        let mut most = bound(nearest.limit());
        for (tile, rough) in rough.chunks_exact(LANES).enumerate() {
            if !rough.iter().fold(false, |any, sum| any | (*sum <= most)) {
                continue;
            }
            for (lane, rough) in rough.iter().enumerate() {
                let place = places.start + tile * LANES + lane;
                if *rough <= most && place < places.end {
                    let sum = self.tiles.measure_one(self.metric.measure(), query, place);
                    if sum <= nearest.limit() {
                        nearest.see(sum, self.order[place], place as u32);
                        most = bound(nearest.limit());
                    }
                }
            }
        }
    }

    /// Takes those into account that were measured exactly.
    fn see(&self, query: &[f64], places: Range<usize>, sums: &mut [f64], nearest: &mut Nearest) {
        if self.metric == Metric::Cosine {
            let length = inverse_length(query);
            for (sum, inverse) in sums.iter_mut().zip(&self.inverse[places.clone()]) {
                *sum = (1.0 - *sum * inverse * length).clamp(0.0, 2.0);
            }
        }
        for (place, sum) in places.zip(sums) {
            if *sum <= nearest.limit() {
                nearest.see(*sum, self.order[place], place as u32);
            }
        }
    }

    /// Searches a node of the tree, whose rows differ at least by `offsets` from the row.
    fn search(
        &self,
        (row, query): (&[f32], &[f64]),
        node: Range<usize>,
        offsets: &mut [f64],
        scratch: &mut Scratch,
        nearest: &mut Nearest,
    ) {
        if node.len() <= LEAF {
            return self.scan((row, query), node, scratch, nearest);
        }
        let middle = node.start + node.len() / 2;
        let axis = self.axes[middle] as usize;
        let split = f64::from(self.splits[middle]);
        let (near, far) = match query[axis] <= split {
            true => (node.start..middle, middle..node.end),
            false => (middle..node.end, node.start..middle),
        };
        self.search((row, query), near, offsets, scratch, nearest);
        let before = std::mem::replace(&mut offsets[axis], (query[axis] - split).abs());
        // A little less than what was rounded, so that no row is missed that is as near as the last.
        if self.metric.least(offsets) * (1.0 - 1e-12) <= nearest.limit() {
            self.search((row, query), far, offsets, scratch, nearest);
        }
        offsets[axis] = before;
    }

    fn answer(&self, nearest: &Nearest, values: &mut [f32]) {
        let mut weights: Vec<f64> = nearest
            .found
            .iter()
            .map(|(sum, _, _)| if self.by_distance { 1.0 / self.metric.distance(*sum) } else { 1.0 })
            .collect();
        if weights.iter().any(|weight| weight.is_infinite()) {
            for weight in &mut weights {
                *weight = f64::from(weight.is_infinite());
            }
        }
        // Only where distances are beyond all numbers.
        if weights.iter().sum::<f64>() <= 0.0 {
            weights.fill(1.0);
        }
        let total: f64 = weights.iter().sum();
        let mut sums = vec![0.0; values.len()];
        for ((_, _, place), weight) in nearest.found.iter().zip(&weights) {
            let labels = &self.labels[*place as usize * self.targets..(*place as usize + 1) * self.targets];
            match self.classes {
                0 => sums.iter_mut().zip(labels).for_each(|(sum, label)| *sum += weight * f64::from(*label)),
                _ => sums[labels[0] as usize] += weight,
            }
        }
        for (value, sum) in values.iter_mut().zip(sums) {
            *value = (sum / total) as f32;
        }
    }
}

impl Predict for Neighbours {
    fn width(&self) -> usize {
        self.tiles.width()
    }

    fn values(&self) -> usize {
        if self.classes > 0 { self.classes } else { self.targets }
    }

    fn meaning(&self) -> Meaning {
        if self.classes > 0 { Meaning::Probabilities } else { Meaning::Values }
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        self.predict_rows(row, values);
    }

    fn predict_rows(&self, rows: &[f32], values: &mut [f32]) {
        let each = self.values();
        self.search_all(rows, |row, nearest| self.answer(nearest, &mut values[row * each..(row + 1) * each]));
    }

    fn work(&self) -> usize {
        match self.axes.is_empty() {
            true => self.tiles.rows() * self.width(),
            false => (self.neighbours + LEAF * LANES * self.tiles.count().ilog2() as usize) * self.width(),
        }
    }
}

impl Neighbours {
    /// How many training rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.tiles.rows()
    }

    /// How many neighbours are found.
    pub(crate) fn most(&self) -> usize {
        self.neighbours
    }

    /// Gives the distances and the training rows that are nearest to each of these rows, the nearest first.
    pub(crate) fn find(&self, rows: &[f32], mut take: impl FnMut(usize, &mut dyn Iterator<Item = (f64, usize)>)) {
        self.search_all(rows, |row, nearest| {
            let mut found = nearest.found.iter().map(|(sum, order, _)| (self.metric.distance(*sum), *order as usize));
            take(row, &mut found);
        });
    }

    fn search_all(&self, rows: &[f32], mut take: impl FnMut(usize, &Nearest)) {
        let (width, tiles) = (self.tiles.width(), self.tiles.count());
        let step = (BLOCK_BYTES / (width * LANES * size_of::<f32>())).max(1);
        let mut scratch = Scratch { rough: vec![0.0; step * LANES], exact: vec![0.0; step * LANES] };
        for (block, rows) in rows.chunks(BLOCK_ROWS * width).enumerate() {
            let queries: Vec<Vec<f64>> = rows.chunks_exact(width).map(widen).collect();
            let mut nearest: Vec<Nearest> = queries.iter().map(|_| Nearest::new(self.neighbours)).collect();
            if self.axes.is_empty() {
                for first in (0..tiles).step_by(step) {
                    let some = first..(first + step).min(tiles);
                    for ((row, query), nearest) in rows.chunks_exact(width).zip(&queries).zip(&mut nearest) {
                        self.scan((row, query), some.clone(), &mut scratch, nearest);
                    }
                }
            } else {
                for ((row, query), nearest) in rows.chunks_exact(width).zip(&queries).zip(&mut nearest) {
                    self.search((row, query), 0..tiles, &mut vec![0.0; width], &mut scratch, nearest);
                }
            }
            for (row, nearest) in nearest.iter().enumerate() {
                take(block * BLOCK_ROWS + row, nearest);
            }
        }
    }
}
