//! A weighted sum of kernels with training rows: what support vector machines, kernel ridge regression and Gaussian
//! processes predict by.

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Stored};
use crate::numerics::kernel::Kernel;
use crate::numerics::platt::couple;
use crate::numerics::tiles::{LANES, Tiles};

/// Stored as `tiles` (the rows that count, see [`Tiles`]), `duals` (row by row), `intercepts` (one for each sum), `starts`,
/// `slopes` and `offsets` (see [`Link`]), and the settings.
pub(crate) const FORM: Form = Form { name: "kernel", open };

/// Tiles that are measured in one go.
const STEP: usize = 16;

/// What the sums are.
pub(crate) enum Link {
    /// The values of a regression: a dual for each value and row.
    Values,
    /// A sum for each two classes, positive where the first of them is meant: of (0, 1), (0, 2), ... (1, 2), ... The
    /// rows lie class by class, and have a dual against each other class, in the order of the classes.
    Pairs {
        /// Where the rows of each class begin, and where the last end.
        starts: Vec<u32>,
        /// What makes a probability of a sum: `1 / (1 + exp(slope * sum + offset))`; empty where there are only scores.
        sigmoids: Vec<(f64, f64)>,
        /// Whether sums decide between classes with as many votes, rather than the order of the classes.
        break_ties: bool,
    },
}

/// What a model is made of.
pub(crate) struct Parts {
    pub(crate) kernel: Kernel,
    /// Packed.
    pub(crate) tiles: Vec<f32>,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) duals: Vec<f64>,
    pub(crate) intercepts: Vec<f64>,
    pub(crate) link: Link,
}

/// A model, if all its numbers are finite.
pub(crate) fn model(parts: Parts) -> Result<Model, Error> {
    if !parts.duals.iter().chain(&parts.intercepts).all(|number| number.is_finite()) {
        return Err(Error::Diverged("a dual coefficient is not finite; scale the features, or choose another kernel"));
    }
    let (starts, sigmoids, break_ties) = match parts.link {
        Link::Values => (Vec::new(), Vec::new(), false),
        Link::Pairs { starts, sigmoids, break_ties } => (starts, sigmoids, break_ties),
    };
    Ok(parts
        .kernel
        .store(Model::new(&FORM))
        .set("rows", parts.rows)
        .set("width", parts.width)
        .set("break_ties", break_ties)
        .with("tiles", parts.tiles)
        .with("duals", parts.duals)
        .with("intercepts", parts.intercepts)
        .with("starts", starts)
        .with("slopes", sigmoids.iter().map(|(slope, _)| *slope).collect::<Vec<f64>>())
        .with("offsets", sigmoids.iter().map(|(_, offset)| *offset).collect::<Vec<f64>>()))
}

struct Sums {
    kernel: Kernel,
    tiles: Tiles,
    /// How many a row.
    columns: usize,
    duals: Array<f64>,
    intercepts: Array<f64>,
    pairs: Option<Pairs>,
}

struct Pairs {
    classes: usize,
    /// For each row its class.
    class_of: Vec<u32>,
    /// For each class the sums that its duals belong to.
    sums_of: Vec<Vec<usize>>,
    slopes: Array<f64>,
    offsets: Array<f64>,
    break_ties: bool,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let (rows, width) = (stored.count("rows")?, stored.count("width")?);
    if width == 0 {
        return Err(Error::Model("it has no features".into()));
    }
    let intercepts: Array<f64> = stored.array("intercepts")?;
    let starts: Array<u32> = stored.array("starts")?;
    let (pairs, columns) = match starts.len().checked_sub(1) {
        None => (None, intercepts.len()),
        Some(classes) => {
            (Some(Pairs::open(stored, &starts, rows, classes, intercepts.len())?), classes.saturating_sub(1))
        }
    };
    let length = rows.checked_mul(columns).ok_or_else(|| Error::Model("it is too large".into()))?;
    Ok(Box::new(Sums {
        kernel: Kernel::stored(stored)?,
        tiles: Tiles::stored(stored, "tiles", rows, width)?,
        columns,
        duals: stored.array_of("duals", length)?,
        intercepts,
        pairs,
    }))
}

/// The place of the sum of two classes, the first below the second.
pub(crate) fn pair(first: usize, second: usize, classes: usize) -> usize {
    first * (2 * classes - first - 1) / 2 + second - first - 1
}

impl Pairs {
    fn open(stored: &Stored, starts: &[u32], rows: usize, classes: usize, sums: usize) -> Result<Pairs, Error> {
        let wrong = || Error::Model("its classes do not go together".into());
        let expected = classes.checked_mul(classes.saturating_sub(1)).ok_or_else(wrong)? / 2;
        let ordered = starts.windows(2).all(|two| two[0] <= two[1]);
        let whole = starts.first() == Some(&0) && starts.last().is_some_and(|last| *last as usize == rows);
        if classes == 0 || sums != expected || !ordered || !whole {
            return Err(wrong());
        }
        // Whether the tiles and duals of these rows are there is checked below; nothing larger than they is allocated here.
        if stored.array::<f32>("tiles")?.len() < rows {
            return Err(wrong());
        }
        let class_of =
            (0..classes).flat_map(|class| (starts[class]..starts[class + 1]).map(move |_| class as u32)).collect();
        let sums_of = (0..classes)
            .map(|class| {
                let others = (0..classes).filter(|other| *other != class);
                others.map(|other| pair(class.min(other), class.max(other), classes)).collect()
            })
            .collect();
        let slopes: Array<f64> = stored.array("slopes")?;
        let offsets = stored.array_of("offsets", slopes.len())?;
        if !slopes.is_empty() && slopes.len() != sums {
            return Err(wrong());
        }
        Ok(Pairs { classes, class_of, sums_of, slopes, offsets, break_ties: stored.flag("break_ties")? })
    }

    /// A vote for each sum, and a share below a third of a vote that grows with the sums; of two classes the sum itself.
    fn scores(&self, sums: &[f64], values: &mut [f32]) {
        if let [sum] = sums {
            values[0] = *sum as f32;
            values[1] = -*sum as f32;
            return;
        }
        let mut votes = vec![0u32; self.classes];
        let mut confidences = vec![0.0; self.classes];
        let pairs = (0..self.classes).flat_map(|first| (first + 1..self.classes).map(move |second| (first, second)));
        for ((first, second), sum) in pairs.zip(sums) {
            votes[if *sum > 0.0 { first } else { second }] += 1;
            confidences[first] += sum;
            confidences[second] -= sum;
        }
        for ((value, votes), confidence) in values.iter_mut().zip(&votes).zip(&confidences) {
            *value = (f64::from(*votes) + confidence / (3.0 * (confidence.abs() + 1.0))) as f32;
        }
        if !self.break_ties {
            // The first class with the most votes is the answer, so its score must be the largest.
            let most = votes.iter().copied().max().unwrap_or(0);
            let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            if let Some(first) = votes.iter().position(|votes| *votes == most) {
                values[first] = largest;
            }
        }
    }

    fn probabilities(&self, sums: &[f64], values: &mut [f32]) {
        let sigmoids = self.slopes.iter().zip(self.offsets.iter());
        let pairs: Vec<f64> = sums
            .iter()
            .zip(sigmoids)
            .map(|(sum, (slope, offset))| 1.0 / (1.0 + (slope * sum + offset).exp()))
            .collect();
        for (value, probability) in values.iter_mut().zip(couple(&pairs, self.classes)) {
            *value = probability as f32;
        }
    }
}

impl Sums {
    fn sums(&self, row: &[f32]) -> Vec<f64> {
        let query = self.kernel.query(row);
        let mut sums = self.intercepts.to_vec();
        let mut kernels = [0.0; STEP * LANES];
        for first in (0..self.tiles.count()).step_by(STEP) {
            let kernels = &mut kernels[..(self.tiles.count() - first).min(STEP) * LANES];
            self.kernel.measure(&self.tiles, &query, first, kernels);
            let rows = first * LANES..(first * LANES + kernels.len()).min(self.tiles.rows());
            if self.columns == 0 {
                continue;
            }
            let duals = &self.duals[rows.start * self.columns..rows.end * self.columns];
            match &self.pairs {
                None if self.columns == 1 => {
                    sums[0] += duals.iter().zip(&*kernels).map(|(dual, kernel)| dual * kernel).sum::<f64>();
                }
                None => {
                    for (duals, kernel) in duals.chunks_exact(self.columns).zip(&*kernels) {
                        for (sum, dual) in sums.iter_mut().zip(duals) {
                            *sum += dual * kernel;
                        }
                    }
                }
                Some(pairs) => {
                    let classes = &pairs.class_of[rows];
                    for ((duals, kernel), class) in duals.chunks_exact(self.columns).zip(&*kernels).zip(classes) {
                        for (dual, sum) in duals.iter().zip(&pairs.sums_of[*class as usize]) {
                            sums[*sum] += dual * kernel;
                        }
                    }
                }
            }
        }
        sums
    }
}

impl Predict for Sums {
    fn width(&self) -> usize {
        self.tiles.width()
    }

    fn values(&self) -> usize {
        self.pairs.as_ref().map_or(self.intercepts.len(), |pairs| pairs.classes)
    }

    fn meaning(&self) -> Meaning {
        match &self.pairs {
            None => Meaning::Values,
            Some(pairs) if pairs.slopes.is_empty() => Meaning::Scores,
            Some(_) => Meaning::Probabilities,
        }
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        let sums = self.sums(row);
        match &self.pairs {
            None => values.iter_mut().zip(sums).for_each(|(value, sum)| *value = sum as f32),
            Some(pairs) if pairs.slopes.is_empty() => pairs.scores(&sums, values),
            Some(pairs) => pairs.probabilities(&sums, values),
        }
    }

    fn work(&self) -> usize {
        self.tiles.rows() * (self.width() + self.columns + 8)
    }
}
