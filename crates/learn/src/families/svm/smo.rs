//! The quadratic programmes of support vector machines, solved two variables at a time (sequential minimal
//! optimisation, Platt 1998), which two is chosen by second order information (Fan, Chen and Lin, "Working set selection
//! using second order information for training support vector machines", 2005), and for the nu-formulations with one
//! constraint more as Chang and Lin, "Training nu-support vector classifiers", 2001, say.
//!
//! The least of `½ βᵀKβ + Σ linear·y·α` with `β = Σ y·α` a row, `0 ≤ α ≤ bound`, and `Σ y·α` (with nu also `Σ α`) as it
//! is at the start. A variable belongs to a row; regression has two a row, one of each sign. What is kept up to date is
//! the slope of each variable times its sign, which for all variables of a row changes by the same amount.

use std::ops::Range;

use crate::Error;
use crate::family::Control;
use crate::numerics::kernel::Kernel;
use crate::numerics::pace::Pace;
use crate::numerics::tiles::{LANES, Tiles, wide};

/// The curvature that replaces one that is not positive, as with equal rows.
const LEAST_CURVATURE: f64 = 1e-12;

const OVERFLOW: Error = Error::Diverged("a kernel is too large a number; scale the features, or choose another kernel");

/// A quadratic programme. All but `tiles` have one element a variable; variable `v` is of row `v % tiles.rows()`.
pub(crate) struct Programme<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) tiles: &'a Tiles,
    /// How many variables have the positive sign: they come first, and are of other rows than those behind them, or of
    /// all rows.
    pub(crate) positives: usize,
    /// What a variable costs, times its sign.
    pub(crate) linear: Vec<f64>,
    pub(crate) bounds: Vec<f64>,
    /// Where to begin; within the bounds.
    pub(crate) start: Vec<f64>,
    /// Whether the variables of each sign keep their sum.
    pub(crate) nu: bool,
}

/// How exactly to solve, and with what means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// By how much two slopes may be in the wrong order in the end.
    pub(crate) tol: f64,
    /// Bytes of the kernel matrix that are kept.
    pub(crate) cache: usize,
    /// The most iterations.
    pub(crate) most: u64,
}

/// The solution of a programme.
#[derive(Debug)]
pub(crate) struct Solution {
    /// For each row the sum of its variables, each with its sign.
    pub(crate) beta: Vec<f64>,
    /// The slope between the variables that may still grow and those that may still shrink.
    pub(crate) rho: f64,
    /// With nu, half of how far the slopes of the two signs are apart.
    pub(crate) margin: f64,
    pub(crate) converged: bool,
}

/// Rows of the kernel matrix, those that were used last kept.
struct Cache<'a> {
    kernel: &'a Kernel,
    tiles: &'a Tiles,
    /// The place of each row, or none.
    place_of: Vec<u32>,
    places: Vec<Place>,
    most: usize,
    clock: u64,
    scratch: Vec<f64>,
}

struct Place {
    row: usize,
    used: u64,
    values: Vec<f32>,
}

const NOWHERE: u32 = u32::MAX;

impl<'a> Cache<'a> {
    fn new(programme: &Programme<'a>, bytes: usize) -> Cache<'a> {
        let rows = programme.tiles.rows();
        let most = (bytes / (rows * size_of::<f32>()).max(1)).clamp(2, rows.max(2));
        let scratch = vec![0.0; programme.tiles.count() * LANES];
        let (kernel, tiles) = (programme.kernel, programme.tiles);
        Cache { kernel, tiles, place_of: vec![NOWHERE; rows], places: Vec::new(), most, clock: 0, scratch }
    }

    /// Makes sure of a row, and gives its place, which it keeps at least until the row after the next is asked for.
    fn fetch(&mut self, row: usize) -> Result<usize, Error> {
        self.clock += 1;
        if self.place_of[row] != NOWHERE {
            let place = self.place_of[row] as usize;
            self.places[place].used = self.clock;
            return Ok(place);
        }
        let mut place = self.places.len();
        if place < self.most {
            let mut values = Vec::new();
            room::reserve(&mut values, self.tiles.rows())?;
            self.places.push(Place { row, used: self.clock, values });
        } else {
            let oldest = self.places.iter().enumerate().min_by_key(|(_, place)| place.used);
            place = oldest.map_or(0, |(place, _)| place);
            self.place_of[self.places[place].row] = NOWHERE;
            self.places[place].row = row;
            self.places[place].used = self.clock;
        }
        self.place_of[row] = place as u32;
        self.kernel.measure(self.tiles, &self.tiles.row(row), 0, &mut self.scratch);
        let values = &mut self.places[place].values;
        values.clear();
        values.extend(self.scratch[..self.tiles.rows()].iter().map(|value| *value as f32));
        Ok(place)
    }
}

struct Solver<'a> {
    programme: &'a Programme<'a>,
    alpha: Vec<f64>,
    /// The slope of each variable times its sign.
    slopes: Vec<f64>,
    /// 0 where the sum of its row may grow by a variable, or else infinity.
    up: Vec<f64>,
    /// 1 where it may shrink, or else 0.
    down: Vec<f64>,
    diagonal: Vec<f64>,
    cache: Cache<'a>,
}

/// Solves it.
pub(crate) fn solve(programme: &Programme<'_>, effort: &Effort, control: &mut Control<'_>) -> Result<Solution, Error> {
    let rows = programme.tiles.rows();
    let diagonal = (0..rows).map(|row| programme.kernel.of_itself(&programme.tiles.row(row))).collect();
    let variables = programme.linear.len();
    let mut solver = Solver {
        programme,
        alpha: programme.start.clone(),
        slopes: programme.linear.clone(),
        up: vec![0.0; variables],
        down: vec![0.0; variables],
        diagonal,
        cache: Cache::new(programme, effort.cache),
    };
    let mut pace = Pace::default();
    solver.begin(&mut pace, control)?;
    let mut iterations = 0;
    let mut converged = false;
    while iterations < effort.most {
        let Some((first, second)) = solver.choose(effort.tol)? else {
            converged = true;
            break;
        };
        solver.step(first, second)?;
        pace.spend(8 * variables + rows, control)?;
        iterations += 1;
    }
    match solver.slopes.iter().all(|slope| slope.is_finite()) {
        true => Ok(solver.finish(converged)),
        false => Err(OVERFLOW),
    }
}

impl Solver<'_> {
    fn sign(&self, variable: usize) -> f64 {
        if variable < self.programme.positives { 1.0 } else { -1.0 }
    }

    /// Works out the slopes at the start.
    fn begin(&mut self, pace: &mut Pace, control: &mut Control<'_>) -> Result<(), Error> {
        let rows = self.programme.tiles.rows();
        let mut beta = vec![0.0; rows];
        for variable in 0..self.alpha.len() {
            beta[variable % rows] += self.sign(variable) * self.alpha[variable];
            self.place(variable);
        }
        for (row, beta) in beta.into_iter().enumerate().filter(|(_, beta)| *beta != 0.0) {
            let place = self.cache.fetch(row)?;
            self.add(beta, place, None);
            pace.spend(rows * (self.programme.tiles.width() + 8), control)?;
        }
        Ok(())
    }

    /// Takes note of where a variable may go.
    fn place(&mut self, variable: usize) {
        let (alpha, bound) = (self.alpha[variable], self.programme.bounds[variable]);
        let (grows, shrinks) = (alpha < bound, alpha > 0.0);
        let (up, down) = if variable < self.programme.positives { (grows, shrinks) } else { (shrinks, grows) };
        self.up[variable] = if up { 0.0 } else { f64::INFINITY };
        self.down[variable] = if down { 1.0 } else { 0.0 };
    }

    /// Adds a multiple of a row of the kernel matrix, less another, to the slopes.
    fn add(&mut self, factor: f64, place: usize, less: Option<usize>) {
        let values = &self.cache.places[place].values;
        for slopes in self.slopes.chunks_exact_mut(values.len()) {
            match less {
                None => slopes.iter_mut().zip(values).for_each(|(slope, value)| *slope += factor * f64::from(*value)),
                Some(less) => exchange(slopes, factor, values, &self.cache.places[less].values),
            }
        }
    }

    /// The variables of each sign.
    fn signs(&self) -> [Range<usize>; 2] {
        [0..self.programme.positives, self.programme.positives..self.slopes.len()]
    }

    /// The two variables whose exchange gains most, `None` where none gains enough.
    fn choose(&mut self, tol: f64) -> Result<Option<(usize, usize)>, Error> {
        let rows = self.programme.tiles.rows();
        let mut firsts = [(f64::INFINITY, 0); 2];
        for (first, sign) in firsts.iter_mut().zip(self.signs()) {
            let least = least(&self.slopes[sign.clone()], &self.up[sign.clone()]);
            let at = sign.clone().find(|variable| self.slopes[*variable] + self.up[*variable] == least);
            *first = (least, at.unwrap_or(sign.start));
        }
        if !self.programme.nu {
            // They may be exchanged for one another, whatever their sign is.
            let first = if firsts[1].0 < firsts[0].0 { firsts[1] } else { firsts[0] };
            firsts = [first, first];
        }
        let (mut best, mut widest) = ((0.0, None), 0.0);
        for ((least, first), sign) in firsts.into_iter().zip(self.signs()) {
            if least == f64::INFINITY || sign.is_empty() {
                continue;
            }
            let place = self.cache.fetch(first % rows)?;
            let of_row = sign.start % rows..sign.start % rows + sign.len();
            let candidates = Candidates {
                slopes: &self.slopes[sign.clone()],
                down: &self.down[sign.clone()],
                kernels: &self.cache.places[place].values[of_row.clone()],
                diagonal: &self.diagonal[of_row],
                least,
                curvature: self.diagonal[first % rows],
            };
            let found = gains(&candidates, best.0);
            widest = f64::max(widest, found.widest);
            if let Some(at) = found.at {
                best = (found.gain, Some((first, sign.start + at)));
            }
        }
        match best.1 {
            _ if widest < tol => Ok(None),
            // No gain is a number.
            None => Err(OVERFLOW),
            found => Ok(found),
        }
    }

    /// Exchanges some of one variable for another, as far as gains most or until one is at its bound.
    fn step(&mut self, first: usize, second: usize) -> Result<(), Error> {
        let rows = self.programme.tiles.rows();
        let bounds = &self.programme.bounds;
        let (a, b) = (self.cache.fetch(first % rows)?, self.cache.fetch(second % rows)?);
        let kernel = f64::from(self.cache.places[a].values[second % rows]);
        let curvature = self.diagonal[first % rows] + self.diagonal[second % rows] - 2.0 * kernel;
        let mut size = (self.slopes[second] - self.slopes[first]) / curvature.max(LEAST_CURVATURE);
        // The first goes up by its sign, the second down.
        let (first_grows, second_grows) = (first < self.programme.positives, second >= self.programme.positives);
        let room = |variable: usize, grows: bool| match grows {
            true => bounds[variable] - self.alpha[variable],
            false => self.alpha[variable],
        };
        let (room_first, room_second) = (room(first, first_grows), room(second, second_grows));
        size = size.min(room_first).min(room_second);
        for (variable, grows, room) in [(first, first_grows, room_first), (second, second_grows, room_second)] {
            // At its bound it is exactly there, whatever rounding makes of the sum.
            self.alpha[variable] = match (grows, size >= room) {
                (true, true) => bounds[variable],
                (false, true) => 0.0,
                (true, false) => self.alpha[variable] + size,
                (false, false) => self.alpha[variable] - size,
            };
            self.place(variable);
        }
        self.add(size, a, Some(b));
        Ok(())
    }

    fn finish(&self, converged: bool) -> Solution {
        let rows = self.programme.tiles.rows();
        let mut beta = vec![0.0; rows];
        for (variable, alpha) in self.alpha.iter().enumerate() {
            beta[variable % rows] += self.sign(variable) * alpha;
        }
        let [positive, negative] = self.signs();
        let (rho, margin) = match self.programme.nu {
            false => (self.level(0..self.slopes.len()), 0.0),
            true => {
                let (positive, negative) = (self.level(positive), self.level(negative));
                ((positive + negative) / 2.0, (positive - negative) / 2.0)
            }
        };
        Solution { beta, rho, margin, converged }
    }

    /// The slope of those variables that are not at a bound, or else the middle of where it may be.
    fn level(&self, variables: Range<usize>) -> f64 {
        let (mut sum, mut count) = (0.0, 0u32);
        let (mut least, mut most) = (f64::NEG_INFINITY, f64::INFINITY);
        for variable in variables {
            let slope = self.slopes[variable];
            match (self.up[variable] == 0.0, self.down[variable] == 1.0) {
                (true, true) => (sum, count) = (sum + slope, count + 1),
                (true, false) => most = most.min(slope),
                (false, true) => least = least.max(slope),
                (false, false) => {}
            }
        }
        match (count, least.is_finite(), most.is_finite()) {
            (1.., _, _) => sum / f64::from(count),
            (_, true, true) => (least + most) / 2.0,
            (_, true, false) => least,
            (_, false, true) => most,
            _ => 0.0,
        }
    }
}

/// What a variable may be exchanged for.
struct Candidates<'a> {
    slopes: &'a [f64],
    down: &'a [f64],
    /// With the row of the variable.
    kernels: &'a [f32],
    diagonal: &'a [f64],
    /// The slope of the variable.
    least: f64,
    /// The kernel of its row and itself.
    curvature: f64,
}

/// The best candidate for the second variable of a step.
struct BestPair {
    gain: f64,
    /// `None` where none gains more than what was there before.
    at: Option<usize>,
    /// By how much the slopes are in the wrong order at most.
    widest: f64,
}

wide!(fn exchange(slopes: &mut [f64], factor: f64, more: &[f32], less: &[f32]) = exchange_any);
wide!(fn least(slopes: &[f64], up: &[f64]) -> f64 = least_any);
wide!(fn gains(candidates: &Candidates<'_>, gain: f64) -> BestPair = gains_any);

#[inline(always)]
fn exchange_any(slopes: &mut [f64], factor: f64, more: &[f32], less: &[f32]) {
    for ((slope, more), less) in slopes.iter_mut().zip(more).zip(less) {
        *slope += factor * (f64::from(*more) - f64::from(*less));
    }
}

#[inline(always)]
fn least_any(slopes: &[f64], up: &[f64]) -> f64 {
    let mut least = [f64::INFINITY; 8];
    let ((slopes, slopes_rest), (up, up_rest)) = (slopes.as_chunks::<8>(), up.as_chunks::<8>());
    for (slopes, up) in slopes.iter().zip(up) {
        for lane in 0..8 {
            let slope = slopes[lane] + up[lane];
            least[lane] = if slope < least[lane] { slope } else { least[lane] };
        }
    }
    let rest = slopes_rest.iter().zip(up_rest).map(|(slope, up)| slope + up);
    least.into_iter().chain(rest).fold(f64::INFINITY, f64::min)
}

#[inline(always)]
fn gains_any(candidates: &Candidates<'_>, gain: f64) -> BestPair {
    const BLOCK: usize = 64;
    let Candidates { slopes, down, kernels, diagonal, least, curvature } = *candidates;
    let mut found = BestPair { gain, at: None, widest: 0.0 };
    let mut start = 0;
    let blocks = slopes.chunks(BLOCK).zip(down.chunks(BLOCK)).zip(kernels.chunks(BLOCK)).zip(diagonal.chunks(BLOCK));
    for (((slopes, down), kernels), diagonal) in blocks {
        let mut gains = [0.0; BLOCK];
        let (mut most, mut widest) = (0.0, 0.0);
        let each = slopes.iter().zip(down).zip(kernels).zip(diagonal).zip(&mut gains);
        for ((((slope, down), kernel), diagonal), gain) in each {
            let gap = (slope - least) * down;
            let gap = if gap > 0.0 { gap } else { 0.0 };
            let curve = curvature + diagonal - 2.0 * f64::from(*kernel);
            let curve = if curve > LEAST_CURVATURE { curve } else { LEAST_CURVATURE };
            *gain = gap * gap / curve;
            widest = if gap > widest { gap } else { widest };
            most = if *gain > most { *gain } else { most };
        }
        if most > found.gain {
            found.gain = most;
            found.at = gains.iter().position(|gain| *gain == most).map(|at| start + at);
        }
        found.widest = f64::max(found.widest, widest);
        start += BLOCK;
    }
    found
}
