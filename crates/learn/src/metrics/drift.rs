//! How far values have moved from those of before: the population stability index and the Kolmogorov-Smirnov statistic.
//!
//! Few rows of the same distribution differ by chance: of thirty rows a tenth of the values is often not met, and the index
//! is large. So a test says too how likely such rows are.

use crate::random::Random;

/// Values of a column that are kept while it is read.
const SAMPLE: usize = 8192;

/// Points that are kept of a distribution: the quantiles at the middles of this number of equal parts.
pub const POINTS: usize = 256;

/// Parts of about the same size that a distribution is cut into for the population stability index.
const PARTS: usize = 10;

/// Categories that are told apart, the most frequent ones.
const CATEGORIES: usize = 20;

/// What a share counts as at least, so that the logarithm of none is not infinite.
const LEAST_SHARE: f64 = 1e-4;

/// How far the shares of parts have moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moved {
    /// The population stability index.
    pub stability: f64,
    /// How likely rows of the distribution of before differ as much by chance: of Pearson's chi-squared test that both have
    /// the same shares.
    pub chance: f64,
}

/// A sample of the values of a column, any of which is in it with the same probability. Skips over values as Li's algorithm
/// L does ("Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n)))", 1994), so that a value costs a
/// comparison.
#[derive(Debug, Clone)]
pub struct Sample {
    values: Vec<f32>,
    seen: u64,
    /// The number of the value that comes into the sample next.
    next: u64,
    weight: f64,
    random: Random,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample { values: Vec::new(), seen: 0, next: 0, weight: 1.0, random: Random::new(0) }
    }
}

impl Sample {
    /// Takes a value, which is not NaN.
    #[inline]
    pub fn add(&mut self, value: f32) {
        self.seen += 1;
        if self.values.len() < SAMPLE || self.seen == self.next {
            self.keep(value);
        }
    }

    #[cold]
    fn keep(&mut self, value: f32) {
        if self.values.len() < SAMPLE {
            self.values.push(value);
            if self.values.len() < SAMPLE {
                return;
            }
        } else {
            let at = self.random.index(SAMPLE);
            if let Some(place) = self.values.get_mut(at) {
                *place = value;
            }
        }
        // 1 - unit() is never 0.
        self.weight *= ((1.0 - self.random.unit()).ln() / SAMPLE as f64).exp();
        let skipped = (1.0 - self.random.unit()).ln() / (-self.weight).ln_1p();
        self.next = self.seen.saturating_add(skipped as u64).saturating_add(1);
    }

    /// The points of the distribution, from the least: all values, if they are few.
    pub fn points(&self) -> Vec<f32> {
        let mut sorted = self.values.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        if sorted.len() <= POINTS {
            return sorted;
        }
        let middle = |part: usize| (2 * part + 1) * sorted.len() / (2 * POINTS);
        (0..POINTS).filter_map(|part| sorted.get(middle(part)).copied()).collect()
    }
}

/// Numbers beside the distribution of before.
#[derive(Debug, Clone)]
pub struct Numbers {
    /// The points of before, each once, and the share of the points up to it.
    points: Vec<(f32, f64)>,
    /// The share of the rows of before that had no value.
    missing_before: f64,
    /// How many values of before the shares are known from.
    rows_before: u64,
    /// For each point how many values lie between the one before and it, and how many are equal to it; at the end those
    /// above all points.
    between: Vec<u64>,
    equal: Vec<u64>,
    missing: u64,
}

impl Numbers {
    /// The points, in any order, and the share of the earlier rows that had no value.
    pub fn new(points: &[f32], missing_before: f64, rows_before: u64) -> Numbers {
        let mut sorted = points.to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        let count = sorted.len().max(1) as f64;
        let mut points: Vec<(f32, f64)> = Vec::with_capacity(sorted.len());
        for (index, point) in sorted.iter().enumerate() {
            let share = (index + 1) as f64 / count;
            match points.last_mut() {
                Some((last, up_to)) if last == point => *up_to = share,
                _ => points.push((*point, share)),
            }
        }
        let (between, equal) = (vec![0; points.len() + 1], vec![0; points.len()]);
        Numbers { points, missing_before, rows_before: rows_before.min(SAMPLE as u64), between, equal, missing: 0 }
    }

    /// Takes a value; NaN is a missing one.
    pub fn add(&mut self, value: f32) {
        if value.is_nan() {
            self.missing += 1;
            return;
        }
        let at = self.points.partition_point(|(point, _)| *point < value);
        let same = self.points.get(at).is_some_and(|(point, _)| *point == value);
        if let Some(count) = if same { self.equal.get_mut(at) } else { self.between.get_mut(at) } {
            *count += 1;
        }
    }

    fn present(&self) -> u64 {
        self.between.iter().chain(&self.equal).sum()
    }

    /// The largest difference of the shares of values up to some number, then and now; `None` without values.
    pub fn kolmogorov_smirnov(&self) -> Option<f64> {
        let present = self.present();
        if present == 0 || self.points.is_empty() {
            return None;
        }
        let (mut largest, mut reached, mut before) = (0.0f64, 0, 0.0);
        for (((_, up_to), between), equal) in self.points.iter().zip(&self.between).zip(&self.equal) {
            // Just below the point, then at it.
            reached += between;
            largest = largest.max((reached as f64 / present as f64 - before).abs());
            reached += equal;
            before = *up_to;
            largest = largest.max((reached as f64 / present as f64 - before).abs());
        }
        Some(largest)
    }

    /// How far the shares of tenths of the values of before have moved, and that of missing ones; `None` without rows.
    pub fn moved(&self) -> Option<Moved> {
        let rows = self.present() + self.missing;
        if rows == 0 || self.points.is_empty() {
            return None;
        }
        let mut parts = Vec::with_capacity(PARTS + 1);
        // Where the part begins that is being counted, and how many values are in it so far.
        let (mut start, mut reached, mut count) = (0.0, 0.0, 0);
        let tenth = |share: f64| (share * PARTS as f64 + 1e-9).floor();
        for ((_, up_to), (between, equal)) in self.points.iter().zip(self.between.iter().zip(&self.equal)) {
            count += between;
            // A value that a tenth of the rows had is a part of its own: what lies beside it is something else.
            if (up_to - reached) * PARTS as f64 + 1e-9 >= 1.0 {
                parts.push((reached - start, count));
                parts.push((up_to - reached, *equal));
                (start, count) = (*up_to, 0);
            } else {
                count += equal;
                if tenth(*up_to) > tenth(start) {
                    parts.push((up_to - start, count));
                    (start, count) = (*up_to, 0);
                }
            }
            reached = *up_to;
        }
        // What is above all points belongs to the last part, unless that is one value.
        let above = count + self.between.last().copied().unwrap_or(0);
        let ends_in_value = self.points.len() == 1
            || self.points.iter().rev().nth(1).is_some_and(|(_, before)| (1.0 - before) * PARTS as f64 + 1e-9 >= 1.0);
        match parts.last_mut() {
            Some((_, last)) if start >= 1.0 && !ends_in_value => *last += above,
            _ => parts.push((reached - start, above)),
        }
        parts.iter_mut().for_each(|(share, _)| *share *= 1.0 - self.missing_before);
        parts.push((self.missing_before, self.missing));
        Some(moved(&parts, rows, self.rows_before))
    }
}

/// Categories beside how often they were met before.
#[derive(Debug, Clone)]
pub struct Categories {
    /// The shares of the most frequent ones, of all others together, and of missing values.
    before: Vec<f64>,
    rows_before: u64,
    now: Vec<u64>,
}

impl Categories {
    /// From the number of rows of each category, and of rows without a value. Also returns the index of each category here.
    pub fn new(members: &[u64], missing: u64) -> (Categories, Vec<usize>) {
        let rows_before = members.iter().sum::<u64>() + missing;
        let all = rows_before.max(1) as f64;
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(members.get(*index).copied()));
        let told = order.len().min(CATEGORIES);
        let mut indexes = vec![told; members.len()];
        let mut before = vec![0.0; told + 2];
        for (place, index) in order.into_iter().enumerate() {
            let place = place.min(told);
            let share = members.get(index).map_or(0.0, |members| *members as f64 / all);
            if let (Some(sum), Some(slot)) = (before.get_mut(place), indexes.get_mut(index)) {
                *sum += share;
                *slot = place;
            }
        }
        if let Some(share) = before.last_mut() {
            *share = missing as f64 / all;
        }
        (Categories { now: vec![0; before.len()], before, rows_before }, indexes)
    }

    /// Takes a value by its index; `None` is one that was not met before.
    pub fn add(&mut self, index: Option<usize>) {
        let others = self.now.len().saturating_sub(2);
        if let Some(count) = self.now.get_mut(index.unwrap_or(others).min(others)) {
            *count += 1;
        }
    }

    /// Takes a missing value.
    pub fn add_missing(&mut self) {
        if let Some(count) = self.now.last_mut() {
            *count += 1;
        }
    }

    /// How far the shares of the most frequent categories of before have moved, that of all others together, and that of
    /// missing values; `None` without rows.
    pub fn moved(&self) -> Option<Moved> {
        let rows = self.now.iter().sum();
        let parts: Vec<_> = self.before.iter().copied().zip(self.now.iter().copied()).collect();
        (rows > 0).then(|| moved(&parts, rows, self.rows_before))
    }
}

/// Of parts, their shares of before and their rows of now.
fn moved(parts: &[(f64, u64)], rows: u64, rows_before: u64) -> Moved {
    let (count, count_before) = (rows as f64, rows_before.max(1) as f64);
    let (mut stability, mut squares, mut met) = (0.0, 0.0, 0usize);
    for (before, now) in parts {
        let now = *now as f64 / count;
        // Of a part that is empty then and now nothing has moved.
        if *before > 0.0 || now > 0.0 {
            met += 1;
            squares += (now - before).powi(2) / ((before * count_before + now * count) / (count_before + count));
        }
        let (before, now) = (before.max(LEAST_SHARE), now.max(LEAST_SHARE));
        stability += (now - before) * (now / before).ln();
    }
    let squares = squares * count * count_before / (count + count_before);
    Moved { stability, chance: chi_squared_above(squares, met.saturating_sub(1)) }
}

/// The probability that chi-squared with these degrees of freedom is above a value. The sum has one more term for every two
/// degrees, behind that of one degree.
fn chi_squared_above(value: f64, degrees: usize) -> f64 {
    let half = value / 2.0;
    if degrees == 0 || half <= 0.0 {
        return 1.0;
    }
    let odd = degrees % 2 == 1;
    let mut sum = if odd { erfc(half.sqrt()) } else { 0.0 };
    let mut term = (-half).exp() * if odd { 2.0 * (half / std::f64::consts::PI).sqrt() } else { 1.0 };
    for step in 1..=degrees / 2 {
        sum += term;
        term *= half / if odd { step as f64 + 0.5 } else { step as f64 };
    }
    sum.min(1.0)
}

/// The complementary error function of a number that is not negative, to seven digits (Numerical Recipes, 6.2).
fn erfc(x: f64) -> f64 {
    const TERMS: [f64; 10] = [
        0.17087277,
        -0.82215223,
        1.48851587,
        -1.13520398,
        0.27886807,
        -0.18628806,
        0.09678418,
        0.37409196,
        1.00002368,
        -1.26551223,
    ];
    let t = 1.0 / (1.0 + x / 2.0);
    t * (TERMS.iter().fold(0.0, |sum, term| sum * t + term) - x * x).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: impl IntoIterator<Item = f32>) -> Vec<f32> {
        let mut sample = Sample::default();
        values.into_iter().for_each(|value| sample.add(value));
        sample.points()
    }

    fn moved(before: &[f32], now: impl IntoIterator<Item = f32>) -> (f64, f64) {
        let mut numbers = Numbers::new(before, 0.0, before.len() as u64);
        now.into_iter().for_each(|value| numbers.add(value));
        (numbers.moved().unwrap().stability, numbers.kolmogorov_smirnov().unwrap())
    }

    /// The definition: the largest difference of the shares at any value, by going over all of them.
    fn two_sample(a: &[f32], b: &[f32]) -> f64 {
        let share =
            |of: &[f32], up_to: f32| of.iter().filter(|value| **value <= up_to).count() as f64 / of.len() as f64;
        a.iter().chain(b).map(|at| (share(a, *at) - share(b, *at)).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn a_column_of_one_value_that_has_another_has_moved() {
        let of = |before: &[f32], now: &[f32]| {
            let mut numbers = Numbers::new(before, 0.0, 1000);
            now.iter().for_each(|value| numbers.add(*value));
            numbers.moved().unwrap()
        };
        let one = [1.0; 200];
        assert!(of(&one, &one).stability.abs() < 1e-9);
        for other in [&[7.0; 200][..], &[0.0; 200], &[[1.0; 100], [7.0; 100]].concat()] {
            let moved = of(&one, other);
            assert!(moved.stability > 1.0 && moved.chance < 1e-6, "{moved:?}");
        }
        // Beside two values, too.
        let two = [[0.0; 100], [1.0; 100]].concat();
        assert!(of(&two, &[0.5; 200]).stability > 1.0);
        assert!(of(&two, &two).stability.abs() < 1e-9);
    }

    #[test]
    fn of_few_values_the_statistic_is_exact() {
        let mut random = Random::new(7);
        for round in 0..50 {
            let mut draw = |count, scale: f64| -> Vec<f32> {
                (0..count).map(|_| (random.normal() * scale).round() as f32 / 2.0).collect()
            };
            let (a, b) = (draw(20 + round, 3.0), draw(30, 4.0));
            let (_, found) = moved(&points(a.iter().copied()), b.iter().copied());
            assert!((found - two_sample(&a, &b)).abs() < 1e-12, "{found} {}", two_sample(&a, &b));
        }
    }

    #[test]
    fn the_same_distribution_has_not_moved_and_another_has() {
        let mut random = Random::new(1);
        let mut draw = |shift: f64| -> Vec<f32> { (0..50_000).map(|_| (random.normal() + shift) as f32).collect() };
        let before = points(draw(0.0));
        assert_eq!(before.len(), POINTS);
        let (stable, same) = moved(&before, draw(0.0));
        assert!(stable < 0.005 && same < 0.025, "{stable} {same}");
        // Two normal distributions that lie one deviation apart differ by 2 * Phi(1/2) - 1 at most.
        let (unstable, other) = moved(&before, draw(1.0));
        assert!(unstable > 0.5 && (other - 0.3829).abs() < 0.025, "{unstable} {other}");
    }

    /// Values of SciPy's chi2.sf.
    #[test]
    fn chi_squared_is_that_of_the_tables() {
        let known = [
            (1, 3.841_459, 0.05),
            (2, 5.991_465, 0.05),
            (3, 7.814_728, 0.05),
            (9, 21.665_994, 0.01),
            (10, 23.209_251, 0.01),
            (21, 11.591_305, 0.95),
        ];
        for (degrees, value, above) in known {
            assert!((chi_squared_above(value, degrees) - above).abs() < 1e-6, "{degrees} {value}");
        }
        assert_eq!((chi_squared_above(0.0, 3), chi_squared_above(5.0, 0)), (1.0, 1.0));
    }

    #[test]
    fn few_rows_of_the_same_distribution_differ_by_chance() {
        let mut random = Random::new(3);
        let mut draw =
            |count, shift: f64| -> Vec<f32> { (0..count).map(|_| (random.normal() + shift) as f32).collect() };
        let before = points(draw(500, 0.0));
        let mut of = |shift| {
            let mut numbers = Numbers::new(&before, 0.0, 500);
            draw(30, shift).into_iter().for_each(|value| numbers.add(value));
            numbers.moved().unwrap()
        };
        let same: Vec<Moved> = (0..400).map(|_| of(0.0)).collect();
        let large = same.iter().filter(|moved| moved.stability > 0.25).count();
        let unlikely = same.iter().filter(|moved| moved.chance < 0.01).count();
        assert!(large > 200 && unlikely < 12, "{large} {unlikely}");
        assert!(of(1.5).chance < 0.001);
    }

    #[test]
    fn few_values_make_few_parts() {
        let before: Vec<f32> = (0..100).map(|index| f32::from(u8::from(index < 30))).collect();
        let wanted = |share: f64| (share - 0.3) * (share / 0.3).ln() + (0.3 - share) * ((1.0 - share) / 0.7).ln();
        let (stability, largest) = moved(&points(before), (0..10).map(|index| f32::from(u8::from(index < 6))));
        assert!((stability - wanted(0.6)).abs() < 1e-9 && (largest - 0.3).abs() < 1e-9, "{stability} {largest}");
    }

    #[test]
    fn missing_values_move_the_index_alone() {
        let before: Vec<f32> = (0..100u8).map(f32::from).collect();
        let mut numbers = Numbers::new(&before, 0.5, 200);
        before.iter().for_each(|value| numbers.add(*value));
        (0..100).for_each(|_| numbers.add(f32::NAN));
        assert!(numbers.moved().unwrap().stability.abs() < 1e-9);
        (0..200).for_each(|_| numbers.add(f32::NAN));
        assert!(numbers.moved().unwrap().stability > 0.2);
        assert!(numbers.kolmogorov_smirnov().unwrap() < 1e-9);
    }

    #[test]
    fn categories_that_are_new_move_the_index() {
        let (mut categories, indexes) = Categories::new(&[10, 80, 10], 0);
        for (category, count) in [(0, 1), (1, 8), (2, 1)] {
            (0..count).for_each(|_| categories.add(indexes.get(category).copied()));
        }
        assert!(categories.moved().unwrap().stability.abs() < 1e-9);
        (0..10).for_each(|_| categories.add(None));
        assert!(categories.moved().unwrap().stability > 1.0);
        let (mut many, indexes) = Categories::new(&[1; 100], 0);
        (0..100).for_each(|category| many.add(indexes.get(category).copied()));
        assert!(many.moved().unwrap().stability.abs() < 1e-9);
        assert_eq!(Categories::new(&[], 0).0.moved(), None);
    }

    #[test]
    fn a_sample_is_of_all_values_alike() {
        let mut sample = Sample::default();
        (0..1_000_000u32).for_each(|value| sample.add(value as f32));
        assert_eq!(sample.values.len(), SAMPLE);
        let mean = sample.values.iter().map(|value| f64::from(*value)).sum::<f64>() / SAMPLE as f64;
        assert!((mean - 500_000.0).abs() < 4.0 * 288_675.0 / (SAMPLE as f64).sqrt(), "{mean}");
        let late = sample.values.iter().filter(|value| **value > 900_000.0).count();
        assert!((700..950).contains(&late), "{late}");
    }
}
