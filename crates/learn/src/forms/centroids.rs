//! Centres, each of a cluster: a row belongs to the cluster of the nearest one.

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Stored, Weights, WeightsOf};
use crate::numerics::distance::squared;

/// Stored as `centres` (one after the other, `width` numbers each), `clusters` (of each centre), and the settings
/// `width` and `within`: beyond this distance a row belongs to no cluster; null for any distance.
pub(crate) const FORM: Form = Form { name: "centroids", open };

/// A model of centres, the first of which speaks for cluster 0, and so on.
pub(crate) fn model(centres: Vec<f64>, width: usize) -> Model {
    let clusters = (0..(centres.len() / width.max(1)) as i32).collect();
    labelled(centres, clusters, width, None)
}

/// A model of centres that speak for these clusters, up to a distance.
pub(crate) fn labelled(centres: Vec<f64>, clusters: Vec<i32>, width: usize, within: Option<f64>) -> Model {
    Model::new(&FORM).set("width", width).set("within", within).with("centres", centres).with("clusters", clusters)
}

struct Centroids {
    centres: Array<f64>,
    clusters: Array<i32>,
    width: usize,
    within: f64,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let width = stored.count("width")?;
    let clusters: Array<i32> = stored.array("clusters")?;
    let length = clusters.len().checked_mul(width).ok_or_else(|| Error::Model("it is too large".into()))?;
    let within = match stored.setting("within")?.is_null() {
        true => f64::INFINITY,
        false => stored.number("within")?,
    };
    Ok(Box::new(Centroids { centres: stored.array_of("centres", length)?, clusters, width, within }))
}

/// The nearest of these centres and the square of its distance; the first of equally near ones, and no centre at an
/// infinite distance where there is none.
pub(crate) fn nearest<T: Copy + Into<f64>>(row: &[T], centres: &[f64]) -> (usize, f64) {
    let mut best = (0, f64::INFINITY);
    for (index, centre) in centres.chunks_exact(row.len().max(1)).enumerate() {
        let distance = squared(row, centre);
        if distance < best.1 {
            best = (index, distance);
        }
    }
    best
}

impl Predict for Centroids {
    fn width(&self) -> usize {
        self.width
    }

    fn values(&self) -> usize {
        1
    }

    fn meaning(&self) -> Meaning {
        Meaning::Cluster
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        let (index, distance) = nearest(row, &self.centres);
        let cluster = if distance.sqrt() <= self.within { self.clusters.get(index).copied() } else { None };
        values[0] = cluster.unwrap_or(-1) as f32;
    }

    fn weights(&self) -> Vec<Weights> {
        let centres = self.centres.chunks_exact(self.width.max(1)).zip(self.clusters.iter());
        let weights = |(centre, cluster): (&[f64], &i32)| Weights {
            of: WeightsOf::Cluster(*cluster),
            numbers: centre.to_vec(),
            intercept: None,
        };
        centres.map(weights).collect()
    }

    fn work(&self) -> usize {
        self.centres.len().max(1)
    }
}
