//! Trees that are summed in double precision, and what is made of the sums: what all ensembles of trees predict by but
//! XGBoost's.

use forest::double::{Link, Node, Noted, TreeArrays, Trees};
use forest::{Explainer, importance};

use crate::Error;
use crate::family::{Array, Control, Form, Meaning, Model, Predict, Splits, Stored};

/// Stored as `nodes` (four numbers for each node, see [`Node`]), `roots`, `values` (of the leaves), `categories`, `covers`
/// (one for each node, or none), `gains` (the same; older models have no such array), `base` (one for each output),
/// `weights` (one for each tree for a median, or none), and the settings `width`, `size` (values of a leaf),
/// `aggregation`, `divisor`, `link` and `scale`.
pub(crate) const FORM: Form = Form { name: "trees", open };

/// Trees on their way to be stored, and what is made of them.
#[derive(Debug, Clone)]
pub(crate) struct Ensemble {
    pub(crate) width: usize,
    pub(crate) arrays: TreeArrays,
    /// What is added to the sums, one for each output.
    pub(crate) base: Vec<f64>,
    /// The weights of the trees, where the prediction is the median of what they say: the least value that at least half
    /// of the weights do not exceed. Empty where it is the sum.
    pub(crate) weights: Vec<f64>,
    /// What the sums are divided by.
    pub(crate) divisor: f64,
    pub(crate) link: Link,
    /// What scores are multiplied by before the logistic function.
    pub(crate) scale: f64,
}

impl Ensemble {
    /// No trees yet; with leaves of `size` values.
    pub(crate) fn new(width: usize, base: Vec<f64>, size: usize, link: Link) -> Ensemble {
        let arrays = TreeArrays::new(base.len(), size);
        Ensemble { width, arrays, base, weights: Vec::new(), divisor: 1.0, link, scale: 1.0 }
    }

    /// The model.
    pub(crate) fn model(self) -> Model {
        let arrays = self.arrays;
        Model::new(&FORM)
            .set("width", self.width)
            .set("size", arrays.size)
            .set("aggregation", if self.weights.is_empty() { "sum" } else { "median" })
            .set("divisor", self.divisor)
            .set("link", self.link.name())
            .set("scale", self.scale)
            .with::<u32>("nodes", bytemuck::cast_slice(&arrays.nodes).to_vec())
            .with("roots", arrays.roots)
            .with("values", arrays.values)
            .with("categories", arrays.categories)
            .with("covers", arrays.covers)
            .with("gains", arrays.gains)
            .with("base", self.base)
            .with("weights", self.weights)
    }
}

impl From<forest::lightgbm::Model> for Ensemble {
    fn from(model: forest::lightgbm::Model) -> Ensemble {
        Ensemble {
            width: model.width,
            base: vec![0.0; model.arrays.outputs],
            arrays: model.arrays,
            weights: Vec::new(),
            divisor: model.divisor,
            link: model.link,
            scale: model.scale,
        }
    }
}

struct Opened {
    width: usize,
    nodes: Array<u32>,
    roots: Array<u32>,
    values: Array<f64>,
    categories: Array<u32>,
    covers: Array<f32>,
    gains: Option<Array<f32>>,
    base: Array<f64>,
    weights: Array<f64>,
    size: usize,
    divisor: f64,
    link: Link,
    scale: f64,
    depth: usize,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let damaged = |what: &str| Error::Model(what.to_owned());
    let name = stored.text("link")?;
    let link = Link::NAMES.iter().find(|(known, _)| *known == name).map(|(_, link)| *link);
    let mut opened = Opened {
        width: stored.count("width")?,
        nodes: stored.array("nodes")?,
        roots: stored.array("roots")?,
        values: stored.array("values")?,
        categories: stored.array("categories")?,
        covers: stored.array("covers")?,
        gains: stored.array("gains").ok(),
        base: stored.array("base")?,
        weights: stored.array("weights")?,
        size: stored.count("size")?,
        divisor: stored.number("divisor")?,
        link: link.ok_or_else(|| Error::Model(format!("its link \"{name}\" is not known")))?,
        scale: stored.number("scale")?,
        depth: 0,
    };
    // Once for all: what is aligned for u32 and of the right length is nodes.
    bytemuck::try_cast_slice::<u32, Node>(&opened.nodes).map_err(|_| damaged("its last node is cut"))?;
    opened.trees().check(opened.width).map_err(Error::Model)?;
    let trees = opened.roots.len() - 1;
    match stored.text("aggregation")? {
        "sum" if opened.weights.is_empty() => {}
        "median" if opened.weights.len() == trees && trees > 0 && opened.base.len() == 1 && opened.size == 1 => {}
        _ => return Err(damaged("its trees do not come together")),
    }
    if opened.link == Link::Logistic && opened.base.len() != 1 {
        return Err(damaged("it has more than one score for two classes"));
    }
    opened.depth = opened.trees().depth();
    Ok(Box::new(opened))
}

/// Rows that go through a tree before the next tree has its turn.
const BLOCK: usize = 64;

impl Opened {
    fn trees(&self) -> Trees<'_> {
        Trees {
            nodes: bytemuck::cast_slice(&self.nodes),
            roots: &self.roots,
            values: &self.values,
            categories: &self.categories,
            outputs: self.base.len(),
            size: self.size,
        }
    }

    fn median(&self, row: &[f32]) -> f64 {
        let trees = self.trees();
        let answers =
            self.weights.iter().enumerate().map(|(tree, weight)| (self.values[trees.leaf(tree, row)], *weight));
        let mut answers: Vec<(f64, f64)> = answers.collect();
        answers.sort_by(|a, b| a.0.total_cmp(&b.0));
        middle(&answers)
    }

    /// Trees of a round: one for each output, or one for all.
    fn trees_of_round(&self) -> usize {
        if self.size == 1 { self.base.len() } else { 1 }
    }

    /// What the sums are divided by after each round: of trees that are averaged their number, of those that vote (whose
    /// largest value is the tree's weight) the part of the votes.
    fn divisors(&self) -> Vec<f64> {
        let rounds = self.rounds();
        if self.divisor == 1.0 || self.divisor == rounds as f64 {
            let averaged = self.divisor != 1.0;
            return (1..=rounds).map(|round| if averaged { round as f64 } else { 1.0 }).collect();
        }
        let trees = self.trees();
        let mut reached = 0.0;
        let sums: Vec<f64> = trees
            .roots
            .windows(2)
            .map(|tree| {
                let leaf = trees.nodes[tree[0] as usize..tree[1] as usize].iter().find(|node| node.is_leaf());
                let values = leaf.map_or(&[][..], |leaf| &trees.values[leaf.left as usize..][..self.size]);
                reached += values.iter().copied().fold(0.0, f64::max);
                reached
            })
            .collect();
        sums.iter().map(|sum| self.divisor * sum / reached).collect()
    }
}

/// The least of these answers, in order, that at least half of the weights do not exceed.
fn middle(answers: &[(f64, f64)]) -> f64 {
    let half = 0.5 * answers.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut reached = 0.0;
    for (answer, weight) in answers {
        reached += weight;
        if reached >= half {
            return *answer;
        }
    }
    answers.last().map_or(0.0, |(answer, _)| *answer)
}

impl Predict for Opened {
    fn width(&self) -> usize {
        self.width
    }

    fn values(&self) -> usize {
        self.link.values(self.base.len())
    }

    fn meaning(&self) -> Meaning {
        match self.link {
            Link::Probabilities | Link::Logistic | Link::Softmax => Meaning::Probabilities,
            Link::OneVersusRest => Meaning::Scores,
            _ => Meaning::Values,
        }
    }

    fn takes_missing(&self) -> bool {
        true
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        self.predict_rows(row, values);
    }

    fn predict_rows(&self, rows: &[f32], values: &mut [f32]) {
        const ON_STACK: usize = 16;
        let outputs = self.base.len();
        let block = if rows.len() > self.width { BLOCK } else { 1 };
        let (mut small, mut large) = ([0.0; ON_STACK], Vec::new());
        let sums: &mut [f64] = if block * outputs <= ON_STACK {
            &mut small[..block * outputs]
        } else {
            large.resize(block * outputs, 0.0);
            &mut large
        };
        let per_row = self.values();
        for (rows, values) in rows.chunks(block * self.width).zip(values.chunks_mut(block * per_row)) {
            sums.fill(0.0);
            if self.weights.is_empty() {
                self.trees().sums_of_rows(rows, self.width, sums);
            } else {
                for (row, sum) in rows.chunks_exact(self.width).zip(sums.iter_mut()) {
                    *sum = self.median(row);
                }
            }
            for (sums, values) in sums.chunks_exact_mut(outputs).zip(values.chunks_exact_mut(per_row)) {
                for (sum, base) in sums.iter_mut().zip(self.base.iter()) {
                    *sum = base + *sum / self.divisor;
                }
                self.link.apply(self.scale, sums, values);
            }
        }
    }

    fn splits(&self) -> Option<Vec<Splits>> {
        let noted = Noted { covers: &self.covers, gains: self.gains.as_deref().unwrap_or(&[]) };
        Some(importance::of_trees(&self.trees(), noted, self.width))
    }

    fn explainers(&self) -> Result<Vec<Explainer>, forest::Error> {
        if !self.weights.is_empty() {
            return Err(forest::Error::Unsupported {
                path: "aggregation".to_owned(),
                what: "explaining a median of trees, over which contributions do not add up,".to_owned(),
            });
        }
        Explainer::of_trees(&self.trees(), &self.covers, self.width, &self.base, self.divisor).map(|one| vec![one])
    }

    fn rounds(&self) -> usize {
        self.trees().len() / self.trees_of_round()
    }

    fn predict_staged(
        &self,
        rows: &[f32],
        at: &[u32],
        control: &mut Control<'_>,
        take: &mut dyn FnMut(u32, &[f32]),
    ) -> Result<(), Error> {
        let (trees, outputs, per_row) = (self.trees(), self.base.len(), self.values());
        let (count, divisors) = (rows.len() / self.width, self.divisors());
        let (mut sums, mut values, mut scores) = (Vec::new(), Vec::new(), vec![0.0; outputs]);
        room::reserve(&mut sums, count * outputs)?;
        room::reserve(&mut values, count * per_row)?;
        sums.resize(count * outputs, 0.0);
        values.resize(count * per_row, 0.0);
        // Where the median is asked for: what the trees so far say of each row, in order.
        let mut answers: Vec<Vec<(f64, f64)>> = vec![Vec::new(); if self.weights.is_empty() { 0 } else { count }];
        let mut next = 0;
        for round in at {
            let end = *round as usize * self.trees_of_round();
            for tree in next..end.min(trees.len()) {
                control.check()?;
                for (row, sums) in rows.chunks_exact(self.width).zip(sums.chunks_exact_mut(outputs)) {
                    trees.add(tree, row, sums);
                }
                for (row, answers) in rows.chunks_exact(self.width).zip(&mut answers) {
                    let answer = self.values[trees.leaf(tree, row)];
                    let place = answers.partition_point(|(other, _)| *other <= answer);
                    answers.insert(place, (answer, self.weights[tree]));
                }
            }
            next = end;
            let divisor = divisors.get(*round as usize - 1).copied().unwrap_or(self.divisor);
            for (row, (sums, values)) in sums.chunks_exact(outputs).zip(values.chunks_exact_mut(per_row)).enumerate() {
                for ((score, sum), base) in scores.iter_mut().zip(sums).zip(self.base.iter()) {
                    *score = base + sum / divisor;
                }
                if let (Some(answers), Some(score)) = (answers.get(row), scores.first_mut()) {
                    *score = self.base[0] + middle(answers);
                }
                self.link.apply(self.scale, &mut scores, values);
            }
            take(*round, &values);
        }
        Ok(())
    }

    fn work(&self) -> usize {
        (self.roots.len() - 1) * self.depth
    }
}
