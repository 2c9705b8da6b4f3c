//! Which algorithms an automatic choice tries, and with which hyperparameters.
//!
//! Each algorithm is tried with its own defaults first. After that a point is moved at random: the best one of an algorithm, by steps that
//! become shorter where nothing is found and longer where something is, as in a (1+1) evolution strategy (Rechenberg, 1973).
//! Algorithms that did better are tried more often.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::family::Task;
use crate::random::Random;

/// The algorithm that stands for the choice among others.
pub const NAME: &str = "auto";

/// A hyperparameter, and between which numbers it is looked for.
struct Range {
    name: &'static str,
    low: f64,
    high: f64,
    /// Where the algorithm's own default lies, or about.
    default: f64,
    log: bool,
    whole: bool,
}

const fn number(name: &'static str, (low, high): (f64, f64), default: f64) -> Range {
    Range { name, low, high, default, log: false, whole: false }
}

const fn log(name: &'static str, (low, high): (f64, f64), default: f64) -> Range {
    Range { name, low, high, default, log: true, whole: false }
}

const fn whole(name: &'static str, (low, high): (f64, f64), default: f64) -> Range {
    Range { name, low, high, default, log: true, whole: true }
}

impl Range {
    /// From 0 to 1.
    fn place_of(&self, value: f64) -> f64 {
        match self.log {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }

    fn value_at(&self, place: f64) -> Value {
        let value = match self.log {
            true => self.low * (self.high / self.low).powf(place),
            false => self.low + (self.high - self.low) * place,
        };
        // Three digits are enough to tell candidates apart, and to read.
        match self.whole {
            true => Value::from(value.round() as i64),
            false => Value::from(format!("{value:.2e}").parse().unwrap_or(value)),
        }
    }
}

/// An algorithm, and where its hyperparameters are looked for.
struct Space {
    algorithm: &'static str,
    /// Whether numbers are scaled before.
    scaled: bool,
    /// More training rows would take too long.
    most_rows: u64,
    /// Whether the first candidate is at the ranges' defaults, where the algorithm's own take long.
    quickly: bool,
    tasks: &'static [Task],
    ranges: &'static [Range],
    fixed: &'static [(&'static str, bool)],
}

const BOTH: &[Task] = &[Task::Regression, Task::Classification];

const FOREST: &[Range] = &[
    whole("n_estimators", (50.0, 500.0), 100.0),
    log("max_features", (0.05, 1.0), 0.5),
    whole("min_samples_leaf", (1.0, 50.0), 1.0),
];

/// Quick and good ones first: of a short time the first few are tried.
static SPACES: &[Space] = &[
    Space {
        algorithm: "xgboost",
        ranges: &[
            whole("n_estimators", (20.0, 2000.0), 100.0),
            whole("max_depth", (2.0, 12.0), 6.0),
            log("learning_rate", (0.01, 0.5), 0.3),
            log("min_child_weight", (0.1, 100.0), 1.0),
            number("subsample", (0.5, 1.0), 1.0),
            number("colsample_bytree", (0.3, 1.0), 1.0),
            log("reg_lambda", (0.01, 100.0), 1.0),
            log("reg_alpha", (0.001, 10.0), 0.001),
        ],
        ..PLAIN
    },
    Space {
        algorithm: "ridge",
        scaled: true,
        tasks: &[Task::Regression],
        ranges: &[log("alpha", (0.001, 10_000.0), 1.0)],
        ..PLAIN
    },
    Space {
        algorithm: "linear",
        scaled: true,
        tasks: &[Task::Classification],
        ranges: &[log("C", (0.0001, 1000.0), 1.0)],
        ..PLAIN
    },
    Space {
        algorithm: "lightgbm",
        ranges: &[
            whole("n_estimators", (20.0, 2000.0), 100.0),
            whole("num_leaves", (4.0, 500.0), 31.0),
            log("learning_rate", (0.01, 0.5), 0.1),
            whole("min_child_samples", (2.0, 150.0), 20.0),
            number("colsample_bytree", (0.3, 1.0), 1.0),
            log("reg_lambda", (0.001, 100.0), 0.001),
            log("reg_alpha", (0.001, 10.0), 0.001),
        ],
        ..PLAIN
    },
    Space { algorithm: "extra_trees", ranges: FOREST, ..PLAIN },
    Space { algorithm: "random_forest", ranges: FOREST, ..PLAIN },
    Space {
        algorithm: "catboost",
        quickly: true,
        ranges: &[
            whole("iterations", (50.0, 3000.0), 300.0),
            whole("depth", (3.0, 10.0), 6.0),
            log("learning_rate", (0.01, 0.3), 0.1),
            log("l2_leaf_reg", (0.3, 30.0), 3.0),
        ],
        ..PLAIN
    },
    Space { tasks: &[Task::Regression], ..SVM },
    // Without probabilities it could not be compared.
    Space { tasks: &[Task::Classification], fixed: &[("probability", true)], ..SVM },
];

const SVM: Space = Space {
    algorithm: "svm",
    scaled: true,
    most_rows: 5_000,
    ranges: &[log("C", (0.03, 300.0), 1.0), log("gamma", (0.0001, 3.0), 0.05)],
    ..PLAIN
};

const PLAIN: Space =
    Space { algorithm: "", scaled: false, most_rows: u64::MAX, quickly: false, tasks: BOTH, ranges: &[], fixed: &[] };

/// One to try.
#[derive(Clone)]
pub struct Candidate {
    /// Which of the tuner's spaces it is of.
    space: usize,
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// Whether numbers are to be scaled before.
    pub scaled: bool,
    /// Those that are not the algorithm's defaults.
    pub hyperparams: Map<String, Value>,
    /// Where it is in its space, each from 0 to 1.
    places: Vec<f64>,
}

/// What is known of an algorithm so far.
struct Known {
    space: &'static Space,
    /// The score of the best, and where it is.
    best: Option<(f64, Vec<f64>)>,
    /// How far the next one is from it, about.
    step: f64,
}

const FIRST_STEP: f64 = 0.25;
const STEPS: (f64, f64) = (0.03, 0.4);
/// So often another one is drawn in place of one that was tried.
const DRAWS: usize = 20;
/// One in so many is drawn from anywhere.
const ANYWHERE: u64 = 6;

/// Says what to try next.
pub struct Tuner {
    known: Vec<Known>,
    /// Algorithms whose defaults were given out.
    begun: usize,
    /// What was given out beside these: after rounding, neighbours may be the same.
    given: HashSet<String>,
    random: Random,
}

impl Tuner {
    /// For a task with so many training rows; `algorithms` are those that may be chosen, all where it is empty.
    pub fn new(task: Task, rows: u64, algorithms: &[String], seed: u64) -> Tuner {
        let asked = |space: &&Space| algorithms.is_empty() || algorithms.iter().any(|name| name == space.algorithm);
        let spaces = SPACES.iter().filter(|space| space.tasks.contains(&task) && rows <= space.most_rows).filter(asked);
        let known = spaces.map(|space| Known { space, best: None, step: FIRST_STEP }).collect();
        Tuner { known, begun: 0, given: HashSet::new(), random: Random::new(seed) }
    }

    /// Whether there is no algorithm to try.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// The next candidate: the algorithms' defaults, then the neighbours of what was good. `None` where no algorithm has a
    /// score.
    pub fn propose(&mut self) -> Option<Candidate> {
        if let Some(known) = self.known.get(self.begun) {
            let space = self.begun;
            self.begun += 1;
            let places = known.space.ranges.iter().map(|range| range.place_of(range.default)).collect();
            return Some(candidate(known.space, space, places, known.space.quickly));
        }
        let mut last = None;
        for _ in 0..DRAWS {
            let next = self.draw()?;
            if self.given.insert(format!("{} {}", next.space, Value::Object(next.hyperparams.clone()))) {
                return Some(next);
            }
            last = Some(next);
        }
        last
    }

    /// A neighbour of the best of an algorithm, or one from anywhere.
    fn draw(&mut self) -> Option<Candidate> {
        let space = self.choose()?;
        let known = self.known.get(space)?;
        let (_, best) = known.best.as_ref()?;
        let random = &mut self.random;
        let places = match random.below(ANYWHERE) {
            0 => best.iter().map(|_| random.unit()).collect(),
            _ => moved(best, known.step, random),
        };
        Some(candidate(known.space, space, places, true))
    }

    /// One of those with a score: the best one half of the time, the next a quarter, and so on.
    fn choose(&mut self) -> Option<usize> {
        let score = |known: &Known| known.best.as_ref().map(|(score, _)| *score);
        let mut order: Vec<(f64, usize)> =
            self.known.iter().enumerate().filter_map(|(index, known)| Some((score(known)?, index))).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let last = order.len().checked_sub(1)?;
        let place = (0..last).find(|_| self.random.below(2) == 0).unwrap_or(0);
        order.get(place).map(|(_, index)| *index)
    }

    /// What came of one: its score, of which larger is better; `None` where it was given up.
    pub fn tell(&mut self, tried: &Candidate, score: Option<f64>) {
        let Some(known) = self.known.get_mut(tried.space) else { return };
        let better = score.filter(|score| known.best.as_ref().is_none_or(|(best, _)| score > best));
        let factor = if better.is_some() { 1.3 } else { 0.94 };
        known.step = (known.step * factor).clamp(STEPS.0, STEPS.1);
        if let Some(score) = better {
            known.best = Some((score, tried.places.clone()));
        }
    }
}

/// A point near another: about half of its coordinates are moved, at least one.
fn moved(from: &[f64], step: f64, random: &mut Random) -> Vec<f64> {
    let sure = random.index(from.len());
    let mut place = |(index, from): (usize, &f64)| {
        let moves = index == sure || random.below(2) == 0;
        // Reflected at the ends.
        let to = if moves { (from + step * random.normal()).rem_euclid(2.0) } else { *from };
        if to > 1.0 { 2.0 - to } else { to }
    };
    from.iter().enumerate().map(&mut place).collect()
}

fn candidate(space: &'static Space, index: usize, places: Vec<f64>, tuned: bool) -> Candidate {
    let mut hyperparams: Map<String, Value> =
        space.fixed.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
    if tuned {
        let values = space.ranges.iter().zip(&places);
        hyperparams.extend(values.map(|(range, place)| (range.name.to_owned(), range.value_at(*place))));
    }
    Candidate { space: index, algorithm: space.algorithm, scaled: space.scaled, hyperparams, places }
}

/// The algorithms that may be chosen for a task.
pub fn algorithms(task: Task) -> impl Iterator<Item = &'static str> {
    SPACES.iter().filter(move |space| space.tasks.contains(&task)).map(|space| space.algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families;
    use crate::family::Given;

    #[test]
    fn all_that_is_proposed_is_possible() {
        for task in [Task::Regression, Task::Classification] {
            let mut tuner = Tuner::new(task, 1000, &[], 1);
            let mut tried = std::collections::HashSet::new();
            for number in 0..2000 {
                let candidate = tuner.propose().unwrap();
                tuner.tell(&candidate, Some(f64::from(number % 7)));
                if candidate.algorithm != "xgboost" {
                    let family = families::family(candidate.algorithm, task).unwrap();
                    Given::check(family.parameters, &candidate.hyperparams).unwrap();
                }
                tried.insert(candidate.algorithm);
            }
            assert_eq!(tried.len(), algorithms(task).count());
        }
    }

    #[test]
    fn defaults_come_first_and_lie_where_the_space_says() {
        let mut tuner = Tuner::new(Task::Regression, 1_000_000, &["ridge".to_owned(), "svm".to_owned()], 1);
        let first = tuner.propose().unwrap();
        assert_eq!((first.algorithm, first.hyperparams.len()), ("ridge", 0));
        // Not for so many rows; and without a score there is nothing to go on from.
        assert!(tuner.propose().is_none());
        tuner.tell(&first, Some(0.5));
        assert!(tuner.propose().unwrap().hyperparams.contains_key("alpha"));
        for space in SPACES {
            for range in space.ranges {
                let place = range.place_of(range.default);
                assert!((0.0..=1.0).contains(&place), "{} of {}", range.name, space.algorithm);
            }
        }
    }

    #[test]
    fn the_tuner_comes_near_to_an_optimum() {
        let mut tuner = Tuner::new(Task::Regression, 1000, &["xgboost".to_owned()], 3);
        let mut best = f64::NEG_INFINITY;
        for _ in 0..400 {
            let candidate = tuner.propose().unwrap();
            let score = -candidate.places.iter().map(|place| (place - 0.3).powi(2)).sum::<f64>();
            best = best.max(score);
            tuner.tell(&candidate, Some(score));
        }
        assert!(best > -0.03, "{best}");
    }
}
