//! Mean shift (Fukunaga and Hostetler, 1975; Comaniciu and Meer, 2002) with a flat kernel: from each row, to the mean of
//! the rows within the bandwidth and on from there until it stays. Where many arrive is the centre of a cluster.

use std::collections::BTreeMap;

use crate::Error;
use crate::families::cluster::common::{self, RANDOM_STATE};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::centroids;
use crate::numerics::distance::{Metric, squared};
use crate::numerics::kd_tree::KdTree;

/// `mean_shift`, as scikit-learn's MeanShift.
pub(crate) const MEAN_SHIFT: Family = Family {
    name: "mean_shift",
    task: Task::Clustering,
    parameters: &[
        Parameter {
            name: "bandwidth",
            kind: Kind::OrNull(&Kind::Above(0.0, f64::INFINITY)),
            default: "null",
            about: "The bandwidth: each mean is of the rows within this distance; null for the average distance of a row within which three tenths of all rows are.",
        },
        Parameter {
            name: "seeds",
            kind: Kind::OrNull(&Kind::Refused("the rows are the seeds")),
            default: "null",
            about: "Not supported.",
        },
        Parameter {
            name: "bin_seeding",
            kind: Kind::Flag,
            default: "false",
            about: "Whether the seeds are the cells of a grid that have rows, which are fewer, instead of all rows.",
        },
        Parameter {
            name: "min_bin_freq",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "1",
            about: "The minimum number of rows in a cell of the grid.",
        },
        Parameter {
            name: "cluster_all",
            kind: Kind::Flag,
            default: "true",
            about: "Whether rows beyond the bandwidth of all centres belong to the nearest one, rather than to none.",
        },
        Parameter {
            name: "max_iter",
            kind: Kind::Integer(0, i32::MAX as i64),
            default: "300",
            about: "The maximum number of moves of each seed.",
        },
        Parameter { name: "n_jobs", kind: Kind::Ignored, default: "null", about: "No effect." },
        RANDOM_STATE,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &centroids::FORM,
};

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    common::unweighted(problem, "mean_shift")?;
    let bandwidth = match given.maybe_number("bandwidth") {
        Some(bandwidth) => bandwidth,
        None => usual_distance(problem, control)?,
    };
    let seeds = match given.flag("bin_seeding") {
        true => cells(problem, bandwidth, given.count("min_bin_freq")),
        false => (0..problem.rows).map(|row| place(problem.row(row))).collect(),
    };
    let mut arrived = arrive(problem, seeds, bandwidth, given.count("max_iter"), control)?;
    // Where most rows are comes first, and among equals the larger place.
    arrived.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| compare(&b.1, &a.1)));
    let mut centres: Vec<Vec<f64>> = Vec::new();
    for (_, place) in arrived {
        control.check()?;
        // One that is near a better one is the same.
        if !centres.iter().any(|centre| squared(centre, &place).sqrt() <= bandwidth) {
            centres.push(place);
        }
    }
    if centres.is_empty() {
        return Err(given.refuse("bandwidth", "no row is within this distance of any seed"));
    }
    let within = (!given.flag("cluster_all")).then_some(bandwidth);
    let clusters = (0..centres.len() as i32).collect();
    Ok(centroids::labelled(centres.concat(), clusters, problem.width, within))
}

fn place(row: &[f32]) -> Vec<f64> {
    row.iter().map(|value| f64::from(*value)).collect()
}

fn compare(a: &[f64], b: &[f64]) -> std::cmp::Ordering {
    let mut differing = a.iter().zip(b).map(|(a, b)| a.total_cmp(b)).filter(|order| order.is_ne());
    differing.next().unwrap_or(std::cmp::Ordering::Equal)
}

/// The average distance within which a row has three tenths of all rows.
fn usual_distance(problem: &Problem<'_>, control: &mut Control<'_>) -> Result<f64, Error> {
    let near = ((problem.rows as f64 * 0.3) as usize).max(1);
    let mut distances = Vec::new();
    room::reserve(&mut distances, problem.rows)?;
    let mut sum = 0.0;
    for row in 0..problem.rows {
        control.check()?;
        distances.clear();
        distances.extend((0..problem.rows).map(|other| squared(problem.row(row), problem.row(other))));
        let (_, distance, _) = distances.select_nth_unstable_by(near - 1, f64::total_cmp);
        sum += distance.sqrt();
    }
    Ok(sum / problem.rows as f64)
}

/// The centres of the cells of a grid that have at least `least` rows; all rows where each has a cell of its own.
fn cells(problem: &Problem<'_>, size: f64, least: usize) -> Vec<Vec<f64>> {
    let mut counts: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
    for row in 0..problem.rows {
        let cell = problem.row(row).iter().map(|value| (f64::from(*value) / size).round_ties_even() + 0.0);
        *counts.entry(cell.map(f64::to_bits).collect()).or_default() += 1;
    }
    let middle = |cell: &Vec<u64>| cell.iter().map(|bits| f64::from_bits(*bits) * size).collect::<Vec<f64>>();
    let seeds: Vec<Vec<f64>> =
        counts.iter().filter(|(_, count)| **count >= least).map(|(cell, _)| middle(cell)).collect();
    match seeds.len() == problem.rows || size == 0.0 {
        true => (0..problem.rows).map(|row| place(problem.row(row))).collect(),
        false => seeds,
    }
}

/// Where the seeds arrive, and how many rows are near there; each place once.
fn arrive(
    problem: &Problem<'_>,
    seeds: Vec<Vec<f64>>,
    bandwidth: f64,
    most: usize,
    control: &mut Control<'_>,
) -> Result<Vec<(usize, Vec<f64>)>, Error> {
    let (tree, order) = KdTree::new(problem.features, problem.width, Metric::Euclidean)?;
    let mut found: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
    let count = seeds.len() as u64;
    for (done, mut at) in seeds.into_iter().enumerate() {
        control.progress(done as u64, count)?;
        let (mut moves, mut near) = (0, Vec::new());
        loop {
            control.check()?;
            near.clear();
            tree.within(&at, bandwidth * bandwidth, |place, _| near.push(order[place]));
            if near.is_empty() {
                break;
            }
            // In the order of the rows, so that seeds which arrive at the same rows arrive at the same place.
            near.sort_unstable();
            let mut mean = vec![0.0; problem.width];
            for row in &near {
                for (sum, value) in mean.iter_mut().zip(problem.row(*row as usize)) {
                    *sum += f64::from(*value);
                }
            }
            mean.iter_mut().for_each(|sum| *sum /= near.len() as f64);
            let moved = squared(&mean, &at).sqrt();
            at = mean;
            if moved <= 1e-3 * bandwidth || moves == most {
                break;
            }
            moves += 1;
        }
        if !near.is_empty() {
            found.insert(at.iter().map(|value| value.to_bits()).collect(), near.len());
        }
    }
    let place = |bits: Vec<u64>| bits.into_iter().map(f64::from_bits).collect();
    Ok(found.into_iter().map(|(bits, count)| (count, place(bits))).collect())
}
