//! Rows of the training, each with its cluster: another row belongs to the cluster of the nearest one. For clusterings
//! that have no rule of their own for rows that they have not seen.

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Stored};
use crate::numerics::distance::Metric;
use crate::numerics::kd_tree::KdTree;

/// Stored as `rows` and `boxes` (as [`KdTree`] has them), `clusters` (of each row, -1 for none), `only_itself` (1 for a
/// row that speaks for nothing but rows equal to it), and the settings `width`, `metric`, `power`, and `within`: beyond
/// this distance a row belongs to no cluster; null for any distance.
// Stored models have this name.
pub(crate) const FORM: Form = Form { name: "witnesses", open };

/// A row that speaks for others.
pub(crate) struct LabelledRow {
    /// Which row of the training it is.
    pub(crate) row: usize,
    /// Its cluster, or -1.
    pub(crate) cluster: i32,
    /// Whether it speaks for nothing but rows equal to it.
    pub(crate) only_itself: bool,
}

/// A model of some rows of the training.
pub(crate) fn model(
    features: &[f32],
    width: usize,
    labelled_rows: &[LabelledRow],
    metric: Metric,
    within: Option<f64>,
) -> Result<Model, Error> {
    let mut rows = Vec::new();
    room::reserve(&mut rows, labelled_rows.len() * width)?;
    for labelled_row in labelled_rows {
        rows.extend_from_slice(&features[labelled_row.row * width..(labelled_row.row + 1) * width]);
    }
    let (tree, order) = KdTree::new(&rows, width, metric)?;
    let placed = || order.iter().map(|index| &labelled_rows[*index as usize]);
    let (name, power) = metric.name();
    Ok(Model::new(&FORM)
        .set("width", width)
        .set("metric", name)
        .set("power", power)
        .set("within", within)
        .with("rows", tree.rows.to_vec())
        .with("boxes", tree.boxes.to_vec())
        .with("clusters", placed().map(|labelled_row| labelled_row.cluster).collect::<Vec<i32>>())
        .with("only_itself", placed().map(|labelled_row| u8::from(labelled_row.only_itself)).collect::<Vec<u8>>()))
}

/// A model of all rows of the training, whose clusters are these, by Euclidean distance.
pub(crate) fn of_all(features: &[f32], width: usize, clusters: &[i32]) -> Result<Model, Error> {
    let labelled_row = |(row, cluster): (usize, &i32)| LabelledRow { row, cluster: *cluster, only_itself: false };
    let labelled_rows: Vec<LabelledRow> = clusters.iter().enumerate().map(labelled_row).collect();
    model(features, width, &labelled_rows, Metric::Euclidean, None)
}

struct Witnesses {
    tree: KdTree,
    clusters: Array<i32>,
    only_itself: Array<u8>,
    within: f64,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let metric = Metric::named(stored.text("metric")?, stored.number("power")?)
        .ok_or_else(|| Error::Model("its metric is not known".into()))?;
    let tree = KdTree::stored(stored.array("rows")?, stored.array("boxes")?, stored.count("width")?, metric)?;
    let within = match stored.setting("within")?.is_null() {
        true => f64::INFINITY,
        false => metric.reduce(stored.number("within")?),
    };
    let clusters = stored.array_of("clusters", tree.len())?;
    let only_itself = stored.array_of("only_itself", tree.len())?;
    Ok(Box::new(Witnesses { tree, clusters, only_itself, within }))
}

impl Predict for Witnesses {
    fn width(&self) -> usize {
        self.tree.width()
    }

    fn values(&self) -> usize {
        1
    }

    fn meaning(&self) -> Meaning {
        Meaning::Cluster
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        let takes =
            |place: usize, distance: f64| distance <= self.within && (self.only_itself[place] == 0 || distance == 0.0);
        let nearest = self.tree.nearest(row, 1, |place| self.clusters[place], takes);
        values[0] = nearest.first().map_or(-1.0, |(_, place)| self.clusters[*place] as f32);
    }

    fn work(&self) -> usize {
        // A tree is worth it in few dimensions; in many, all rows may be near.
        self.tree.width() * self.tree.len().clamp(1, 1000)
    }
}
