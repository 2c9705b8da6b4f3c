//! The least of a function of a few numbers without its slope, by the simplex of Nelder and Mead (1965), in a box.

use crate::Error;

/// Searches from a point, in steps of about 1; the point and the value there. A value that is not finite counts as
/// infinitely large.
pub(crate) fn least(
    start: &[f64],
    (low, high): (f64, f64),
    most: usize,
    value: &mut dyn FnMut(&[f64]) -> Result<f64, Error>,
) -> Result<(Vec<f64>, f64), Error> {
    let mut evaluations = 0;
    let mut at = |mut point: Vec<f64>| -> Result<(Vec<f64>, f64), Error> {
        point.iter_mut().for_each(|number| *number = number.clamp(low, high));
        evaluations += 1;
        let found = if evaluations > most { f64::INFINITY } else { value(&point)? };
        Ok((point, if found.is_finite() { found } else { f64::INFINITY }))
    };
    let start: Vec<f64> = start.iter().map(|number| number.clamp(low, high)).collect();
    let mut corners = vec![at(start.clone())?];
    for index in 0..start.len() {
        let mut point = start.clone();
        point[index] += if point[index] + 1.0 > high { -1.0 } else { 1.0 };
        corners.push(at(point)?);
    }
    let worst = start.len();
    for _ in 0..most {
        corners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let spread = |index: usize| {
            let values = corners.iter().map(|corner| corner.0[index]);
            values.clone().fold(f64::NEG_INFINITY, f64::max) - values.fold(f64::INFINITY, f64::min)
        };
        if (0..start.len()).all(|index| spread(index) < 1e-4) {
            break;
        }
        let centre: Vec<f64> = (0..start.len())
            .map(|index| corners[..worst].iter().map(|corner| corner.0[index]).sum::<f64>() / worst as f64)
            .collect();
        let along = |factor: f64| -> Vec<f64> {
            centre.iter().zip(&corners[worst].0).map(|(centre, corner)| centre + factor * (corner - centre)).collect()
        };
        let (reflected, expanded, contracted) = (along(-1.0), along(-2.0), (along(-0.5), along(0.5)));
        let reflected = at(reflected)?;
        if reflected.1 < corners[0].1 {
            let expanded = at(expanded)?;
            corners[worst] = if expanded.1 < reflected.1 { expanded } else { reflected };
        } else if reflected.1 < corners[worst - 1].1 {
            corners[worst] = reflected;
        } else {
            let outside = reflected.1 < corners[worst].1;
            let contracted = at(if outside { contracted.0 } else { contracted.1 })?;
            if contracted.1 < corners[worst].1.min(reflected.1) {
                corners[worst] = contracted;
            } else {
                let best = corners[0].0.clone();
                for corner in &mut corners[1..] {
                    *corner = at(corner.0.iter().zip(&best).map(|(a, b)| (a + b) / 2.0).collect())?;
                }
            }
        }
    }
    corners.sort_by(|a, b| a.1.total_cmp(&b.1));
    Ok(corners.swap_remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valley_is_walked_down_to_its_end() {
        let mut rosenbrock = |at: &[f64]| Ok((1.0 - at[0]).powi(2) + 100.0 * (at[1] - at[0] * at[0]).powi(2));
        let (at, value) = least(&[-1.2, 1.0], (-5.0, 5.0), 1000, &mut rosenbrock).unwrap();
        assert!(value < 1e-6 && (at[0] - 1.0).abs() < 1e-2, "{at:?}");
        let (at, _) = least(&[0.5], (-2.0, 2.0), 100, &mut |at| Ok(-at[0])).unwrap();
        assert_eq!(at, [2.0]);
        let (at, _) = least(&[0.5], (-2.0, 2.0), 100, &mut |at| Ok((at[0] - 0.25).powi(2))).unwrap();
        assert!((at[0] - 0.25).abs() < 1e-3);
        assert!(least(&[0.5], (-2.0, 2.0), 100, &mut |_| Ok(f64::NAN)).is_ok());
    }
}
