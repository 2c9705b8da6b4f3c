//! Which rows are trained on, and which are kept for the test.
//!
//! Rows are known by their ordinal, from 0, in the order in which they are read. On which side a row is, [`crate::side`]
//! says.

use std::collections::{BTreeMap, HashMap};

use crate::Error;
use crate::random::Random;

/// How test rows are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Any rows.
    Random,
    /// The last rows.
    Last,
    /// Any rows, but of each class about the same share.
    Stratified,
}

impl Sampling {
    /// All of them.
    pub const ALL: [Sampling; 3] = [Sampling::Random, Sampling::Last, Sampling::Stratified];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Sampling::Random => "random",
            Sampling::Last => "last",
            Sampling::Stratified => "stratified",
        }
    }

    /// The sampling of this name.
    pub fn from_name(name: &str) -> Option<Sampling> {
        Sampling::ALL.into_iter().find(|sampling| sampling.name() == name)
    }
}

/// How many rows are tested on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TestSize {
    /// A share of all rows, at least 0 and below 1.
    Fraction(f64),
    /// This number of rows.
    Rows(u64),
}

impl TestSize {
    /// Below 1 is a share, above 1 a number of rows.
    ///
    /// # Errors
    /// [`Error::Split`] if it is negative, exactly 1, not finite, or a number of rows that is not whole.
    pub fn new(size: f64) -> Result<TestSize, Error> {
        if (0.0..1.0).contains(&size) {
            Ok(TestSize::Fraction(size))
        } else if size > 1.0 && size.fract() == 0.0 && size < 9e15 {
            Ok(TestSize::Rows(size as u64))
        } else {
            Err(Error::Split(format!(
                "test size cannot be {size}: a share of the rows, at least 0 and below 1, or a whole number of rows \
                 above 1"
            )))
        }
    }

    /// How many of `rows` rows are tested on. A share is rounded to the nearest number, and leaves one to train on.
    ///
    /// # Errors
    /// [`Error::Split`] if a number of rows leaves none to train on.
    pub fn of(self, rows: u64) -> Result<u64, Error> {
        match self {
            TestSize::Fraction(share) => Ok(((rows as f64 * share).round() as u64).min(rows.saturating_sub(1))),
            TestSize::Rows(wanted) if wanted < rows => Ok(wanted),
            TestSize::Rows(wanted) => Err(Error::Split(format!(
                "{} leave none to train on: {}",
                crate::count(wanted, "test row"),
                crate::there_are(rows, "row")
            ))),
        }
    }
}

/// Rows divided into those to train on and those to test on; one bit a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    bits: Vec<u64>,
    rows: u64,
    test: u64,
    /// In a fold of a cross-validation, the rows that are neither trained nor tested on.
    left_out: Option<Box<Split>>,
}

impl Split {
    /// Takes the last rows to test on.
    ///
    /// # Errors
    /// [`Error::Split`] if the test size leaves nothing to train on.
    pub fn last(rows: u64, size: TestSize) -> Result<Split, Error> {
        let mut split = Split::none(rows);
        for row in rows - size.of(rows)?..rows {
            split.test(row);
        }
        Ok(split)
    }

    /// The rows that are marked are tested on.
    pub fn marked(marks: impl Iterator<Item = bool>) -> Split {
        let mut split = Split::none(0);
        for marked in marks {
            if split.rows.is_multiple_of(64) {
                split.bits.push(0);
            }
            split.rows += 1;
            if marked {
                split.test(split.rows - 1);
            }
        }
        split
    }

    /// The rows of the latest times are tested on, those of one time together: gives the first time that is.
    /// Takes 8 bytes a row meanwhile.
    ///
    /// # Errors
    /// [`Error::Split`] if there are fewer rows, or all rows have the same time.
    pub fn latest(times: &[i64], size: TestSize) -> Result<(Split, i64), Error> {
        let rows = times.len() as u64;
        let wanted = size.of(rows)?;
        if wanted == 0 {
            return Ok((Split::none(rows), i64::MAX));
        }
        let mut sorted = gathered(times.iter().copied())?;
        sorted.sort_unstable();
        let begins = sorted.windows(2).enumerate().filter_map(|(at, pair)| match pair {
            [one, other] if one != other => Some((rows - at as u64 - 1, *other)),
            _ => None,
        });
        let cutoff = begins.min_by_key(|(tests, _)| tests.abs_diff(wanted)).map(|(_, cutoff)| cutoff);
        let cutoff = cutoff.ok_or_else(|| Error::Split("all rows are of one time, which cannot be divided".into()))?;
        Ok((Split::marked(times.iter().map(|time| *time >= cutoff)), cutoff))
    }

    /// The rows that both test on: neither was trained on them.
    pub fn both(&self, other: &Split) -> Split {
        Split::marked((0..self.rows).map(|row| self.is_test(row) && other.is_test(row)))
    }

    /// No row is tested on.
    pub fn none(rows: u64) -> Split {
        Split { bits: vec![0; rows.div_ceil(64) as usize], rows, test: 0, left_out: None }
    }

    fn test(&mut self, row: u64) {
        if let Some(word) = self.bits.get_mut((row / 64) as usize) {
            *word |= 1 << (row % 64);
            self.test += 1;
        }
    }

    /// Whether a row is tested on; rows that are not there are not.
    pub fn is_test(&self, row: u64) -> bool {
        self.bits.get((row / 64) as usize).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Whether a row is trained on.
    pub fn is_train(&self, row: u64) -> bool {
        !self.is_test(row) && !self.left_out.as_ref().is_some_and(|left_out| left_out.is_test(row))
    }

    /// Divides the training rows for a cross-validation into `count` folds. The test rows of the whole are left out of all.
    /// Takes 16 bytes a row meanwhile.
    ///
    /// # Errors
    /// [`Error::Split`] where there are fewer than two folds, or fewer training rows (or groups) than folds need.
    pub fn folds(&self, count: usize, by: Folds<'_>, seed: u64) -> Result<Vec<Split>, Error> {
        let few = |what: &str, there: u64| Error::Split(format!("{there} {what} cannot be divided into {count} folds"));
        if count < 2 || self.train_rows() < count as u64 {
            return Err(few("training rows", self.train_rows()));
        }
        let mut folds: Vec<Split> = vec![Split::none(self.rows); count];
        match by {
            Folds::Random => self.deal(&mut folds, |_| 0, seed)?,
            Folds::Classes(labels) => {
                let mut numbers = ClassNumbers::default();
                self.deal(&mut folds, |row| labels.get(row).map_or(0, |label| numbers.number(*label)), seed)?;
            }
            Folds::Groups(groups) => {
                let mut sizes = sizes_of(groups, |row| self.is_train(row));
                if sizes.len() < count {
                    return Err(few("groups", sizes.len() as u64));
                }
                Random::new(seed).shuffle(&mut sizes);
                sizes.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
                let mut fold_of = HashMap::new();
                let mut totals = vec![0; count];
                for (size, group) in sizes {
                    // The largest groups first, each to the fold that has the fewest rows.
                    let least = (0..count).min_by_key(|fold| totals.get(*fold)).unwrap_or(0);
                    fold_of.insert(group, least);
                    if let Some(total) = totals.get_mut(least) {
                        *total += size;
                    }
                }
                for (row, group) in groups.iter().enumerate().filter(|(row, _)| self.is_train(*row as u64)) {
                    if let Some(fold) = fold_of.get(group).and_then(|fold| folds.get_mut(*fold)) {
                        fold.test(row as u64);
                    }
                }
            }
            Folds::Times(times) => return self.forward(count, times),
        }
        for fold in &mut folds {
            fold.left_out = (self.test > 0).then(|| Box::new(self.clone()));
        }
        Ok(folds)
    }

    /// The same test rows, and a sample of the training rows: one in `one_in`, but at least `fewest` where there are as many.
    pub fn thinned(&self, one_in: u64, fewest: u64, seed: u64) -> Split {
        let wanted = (self.train_rows() / one_in.max(1)).max(fewest).min(self.train_rows());
        let mut draw = Draw { left: self.train_rows(), wanted };
        let mut random = Random::new(seed);
        let mut left_out = Split::none(self.rows);
        for row in (0..self.rows).filter(|row| !self.is_test(*row)) {
            if !self.is_train(row) || !draw.next(&mut random) {
                left_out.test(row);
            }
        }
        Split { left_out: Some(Box::new(left_out)), ..self.clone() }
    }

    /// A sample of at most `most` test rows, spread evenly over all of them; without training rows.
    pub fn spread_tests(&self, most: u64) -> Split {
        self.spread(self.test_rows(), most, |row| self.is_test(row))
    }

    /// The same of the training rows: they are tested on.
    pub fn spread_trains(&self, most: u64) -> Split {
        self.spread(self.train_rows(), most, |row| self.is_train(row))
    }

    fn spread(&self, of: u64, most: u64, wanted: impl Fn(u64) -> bool) -> Split {
        let one_in = of.div_ceil(most.max(1)).max(1);
        let mut met = 0;
        Split::marked((0..self.rows).map(|row| {
            met += u64::from(wanted(row));
            wanted(row) && met % one_in == 0
        }))
    }

    /// Deals the training rows out, those of a class (and all) evenly, give or take one.
    fn deal(&self, folds: &mut [Split], mut class: impl FnMut(usize) -> usize, seed: u64) -> Result<(), Error> {
        let mut rows: Vec<(u32, u64)> = Vec::new();
        for row in (0..self.rows).filter(|row| self.is_train(*row)) {
            if rows.len() == rows.capacity() {
                let more = rows.len().max(1024);
                room::reserve(&mut rows, more)?;
            }
            rows.push((u32::try_from(class(row as usize)).unwrap_or(u32::MAX), row));
        }
        Random::new(seed).shuffle(&mut rows);
        rows.sort_by_key(|(class, _)| *class);
        let count = folds.len().max(1);
        for (at, (_, row)) in rows.iter().enumerate() {
            if let Some(fold) = folds.get_mut(at % count) {
                fold.test(*row);
            }
        }
        Ok(())
    }

    /// Folds that are trained on what was before and tested on what came then: of `count + 1` parts in the order of time
    /// all but the first are tested on.
    fn forward(&self, count: usize, times: &[i64]) -> Result<Vec<Split>, Error> {
        let order = by_time(times, (0..self.rows).filter(|row| self.is_train(*row)))?;
        let part = |number: usize| number * order.len() / (count + 1);
        if part(1) == 0 {
            let rows = order.len();
            return Err(Error::Split(format!("{rows} training rows cannot be divided into {count} folds by time")));
        }
        let mut folds = Vec::with_capacity(count);
        for number in 1..=count {
            let mut fold = Split::none(self.rows);
            order.iter().take(part(number + 1)).skip(part(number)).for_each(|row| fold.test(*row));
            let mut left_out = Split::none(self.rows);
            (0..self.rows).filter(|row| self.is_test(*row)).for_each(|row| left_out.test(row));
            order.iter().skip(part(number + 1)).for_each(|row| left_out.test(*row));
            fold.left_out = (left_out.test > 0).then(|| Box::new(left_out));
            folds.push(fold);
        }
        Ok(folds)
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many of them are tested on.
    pub fn test_rows(&self) -> u64 {
        self.test
    }

    /// How many of them are trained on.
    pub fn train_rows(&self) -> u64 {
        self.rows - self.test - self.left_out.as_ref().map_or(0, |left_out| left_out.test)
    }

    /// The bits, row 0 lowest in the first word, for those who store them.
    pub fn words(&self) -> &[u64] {
        &self.bits
    }
}

/// By what training rows are divided for a cross-validation.
#[derive(Debug, Clone, Copy)]
pub enum Folds<'a> {
    /// Each row is a test row in one of the folds, and trained on in the others; folds have the same number of rows, give or
    /// take one.
    Random,
    /// As many of each class in each fold, give or take one; a label for each row.
    Classes(&'a [f32]),
    /// The rows of a group are in one fold; the number of its group a row.
    Groups(&'a [u32]),
    /// Each fold is tested on rows that come after those it is trained on; the time of each row.
    Times(&'a [i64]),
}

/// Those rows in the order of their times, of equal ones as they come.
fn by_time(times: &[i64], rows: impl Iterator<Item = u64>) -> Result<Vec<u64>, Error> {
    let mut order: Vec<u64> = Vec::new();
    room::reserve(&mut order, times.len())?;
    order.extend(rows);
    order.sort_by_key(|row| times.get(*row as usize).copied());
    Ok(order)
}

/// The rows of each group that count, and the group, in the order of the groups.
fn sizes_of(groups: &[u32], counts: impl Fn(u64) -> bool) -> Vec<(u64, u32)> {
    let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
    for (row, group) in groups.iter().enumerate() {
        if counts(row as u64) {
            *sizes.entry(*group).or_default() += 1;
        }
    }
    sizes.into_iter().map(|(group, size)| (size, group)).collect()
}

/// Selection sampling: how many rows are still to come, and how many of them are wanted.
struct Draw {
    left: u64,
    wanted: u64,
}

impl Draw {
    fn next(&mut self, random: &mut Random) -> bool {
        let drawn = random.below(self.left) < self.wanted;
        self.left = self.left.saturating_sub(1);
        self.wanted -= u64::from(drawn);
        drawn
    }
}

/// All of these, in memory that there is.
pub(crate) fn gathered<T>(values: impl Iterator<Item = T>) -> Result<Vec<T>, Error> {
    let mut all = Vec::new();
    for value in values {
        if all.len() == all.capacity() {
            let more = all.len().max(1024);
            room::reserve(&mut all, more)?;
        }
        all.push(value);
    }
    Ok(all)
}

/// Numbers of classes, in the order of their appearance; whole numbers, which classes mostly are, are looked up in a
/// table.
#[derive(Default)]
struct ClassNumbers {
    small: Vec<Option<usize>>,
    others: HashMap<u32, usize>,
    count: usize,
}

impl ClassNumbers {
    fn number(&mut self, label: f32) -> usize {
        const SMALL: f32 = 4096.0;
        let slot = if (0.0..SMALL).contains(&label) && label.fract() == 0.0 {
            let index = label as usize;
            if index >= self.small.len() {
                self.small.resize(index + 1, None);
            }
            self.small.get_mut(index)
        } else {
            None
        };
        let count = &mut self.count;
        let mut fresh = || {
            *count += 1;
            *count - 1
        };
        match slot {
            Some(slot) => *slot.get_or_insert_with(fresh),
            None => *self.others.entry(label.to_bits()).or_insert_with(&mut fresh),
        }
    }
}

#[cfg(test)]
mod fold_tests {
    use super::*;

    #[test]
    fn each_training_row_is_tested_once() {
        let labels: Vec<f32> = (0..103).map(|row| (row % 3) as f32).collect();
        let whole = Split::last(103, TestSize::Rows(13)).unwrap();
        let folds = whole.folds(4, Folds::Classes(&labels), 7).unwrap();
        for row in 0..103 {
            let tests = folds.iter().filter(|fold| fold.is_test(row)).count();
            let trains = folds.iter().filter(|fold| fold.is_train(row)).count();
            assert_eq!((tests, trains), if whole.is_test(row) { (0, 0) } else { (1, 3) }, "row {row}");
        }
        for fold in &folds {
            assert_eq!(fold.train_rows() + fold.test_rows(), 90);
            assert!((22..=23).contains(&fold.test_rows()));
            let of_class = |class: f32| {
                labels.iter().enumerate().filter(|(row, label)| **label == class && fold.is_test(*row as u64)).count()
            };
            assert!([0.0, 1.0, 2.0].into_iter().all(|class| (7..=8).contains(&of_class(class))));
        }
        assert_eq!(folds, whole.folds(4, Folds::Classes(&labels), 7).unwrap());
        assert_ne!(folds, whole.folds(4, Folds::Classes(&labels), 8).unwrap());
        assert!(whole.folds(1, Folds::Random, 0).is_err() && whole.folds(91, Folds::Random, 0).is_err());
    }
}

#[cfg(test)]
mod column_tests {
    use super::*;

    #[test]
    fn groups_stay_together() {
        let groups: Vec<u32> = (0..1000).map(|row| (row * row % 37) as u32).collect();
        let split = Split::marked(groups.iter().map(|group| group % 4 == 0));
        let sides = |split: &Split, group: u32| {
            let rows = (0..1000).filter(|row| groups[*row as usize] == group);
            rows.fold((false, false), |(test, train), row| (test | split.is_test(row), train | split.is_train(row)))
        };
        assert!((0..37).all(|group| sides(&split, group) != (true, true)));
        for fold in split.folds(5, Folds::Groups(&groups), 3).unwrap() {
            assert!((0..37).all(|group| sides(&fold, group) != (true, true)));
            assert!(fold.test_rows() > 100 && fold.train_rows() + fold.test_rows() == split.train_rows());
            let thinned = fold.thinned(4, 10, 1);
            assert_eq!((thinned.train_rows(), thinned.test_rows()), (fold.train_rows() / 4, fold.test_rows()));
            assert!((0..1000).all(|row| !thinned.is_train(row) || fold.is_train(row)));
            assert_eq!((0..1000).filter(|row| thinned.is_train(*row)).count() as u64, thinned.train_rows());
            assert_eq!(fold.thinned(1000, 10_000, 1).train_rows(), fold.train_rows());
        }
    }

    #[test]
    fn the_latest_rows_are_tested_on_whatever_their_order() {
        let times: Vec<i64> = (0..100).map(|row| (row * 37) % 100).collect();
        let (split, cutoff) = Split::latest(&times, TestSize::Rows(10)).unwrap();
        assert_eq!(cutoff, 90);
        assert!((0..100).all(|row| split.is_test(row) == (times[row as usize] >= 90)));
        for (number, fold) in split.folds(4, Folds::Times(&times), 0).unwrap().iter().enumerate() {
            let trained = (0..100).filter(|row| fold.is_train(*row)).map(|row| times[row as usize]);
            let tested = || (0..100).filter(|row| fold.is_test(*row)).map(|row| times[row as usize]);
            let latest = trained.max().unwrap();
            let (first, last) = (tested().min().unwrap(), tested().max().unwrap());
            assert_eq!((latest, first, last), (18 * (number as i64 + 1) - 1, latest + 1, latest + 18));
            assert_eq!((fold.test_rows(), fold.train_rows()), (18, 18 * (number as u64 + 1)));
        }
    }

    #[test]
    fn marked_rows_are_tested_on() {
        let split = Split::marked([true, false, true].into_iter());
        assert_eq!((split.test_rows(), split.is_test(0), split.is_test(1), split.is_test(2)), (2, true, false, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(of: f64) -> TestSize {
        TestSize::new(of).unwrap()
    }

    fn drawn(split: &Split) -> Vec<u64> {
        (0..split.rows()).filter(|&row| split.is_test(row)).collect()
    }

    #[test]
    fn a_test_size_is_a_share_or_a_number_of_rows() {
        assert_eq!(share(0.25).of(10).unwrap(), 3);
        assert_eq!(share(0.0).of(10).unwrap(), 0);
        assert_eq!(share(0.99).of(10).unwrap(), 9, "one row stays to train on");
        assert_eq!(share(0.5).of(0).unwrap(), 0);
        assert_eq!(share(7.0).of(10).unwrap(), 7);
        assert!(share(10.0).of(10).is_err());
        for size in [1.0, -0.1, 2.5, f64::NAN, f64::INFINITY] {
            assert!(matches!(TestSize::new(size), Err(Error::Split(_))), "{size}");
        }
    }

    #[test]
    fn the_last_rows_are_the_last() {
        let split = Split::last(100, share(0.1)).unwrap();
        assert_eq!(drawn(&split), (90..100).collect::<Vec<_>>());
        assert_eq!((split.test_rows(), split.train_rows()), (10, 90));
        assert!(!split.is_test(100) && !split.is_test(1 << 40));
    }
}
