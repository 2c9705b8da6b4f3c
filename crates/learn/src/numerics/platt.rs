//! Probabilities of decisions that are none: a sigmoid of each decision between two classes (Platt 1999, found as Lin,
//! Lin and Weng, "A note on Platt's probabilistic outputs for support vector machines", 2007, do), and the
//! probabilities of many classes from those of each two (Wu, Lin and Weng, "Probability estimates for multi-class
//! classification by pairwise coupling", 2004, their second method).

/// The slope and the offset of `1 / (1 + exp(slope * decision + offset))`, the probability of the positive ones, by
/// Newton's method with a line search.
pub(crate) fn sigmoid(decisions: &[f64], positive: &[bool]) -> (f64, f64) {
    let positives = positive.iter().filter(|positive| **positive).count() as f64;
    let negatives = positive.len() as f64 - positives;
    // Not quite 1 and 0, so that decisions that are never wrong do not make a step of the sigmoid.
    let targets: Vec<f64> = positive
        .iter()
        .map(|positive| if *positive { (positives + 1.0) / (positives + 2.0) } else { 1.0 / (negatives + 2.0) })
        .collect();
    let loss = |slope: f64, offset: f64| -> f64 {
        let each = decisions.iter().zip(&targets).map(|(decision, target)| {
            let score = decision * slope + offset;
            match score >= 0.0 {
                true => target * score + (-score).exp().ln_1p(),
                false => (target - 1.0) * score + score.exp().ln_1p(),
            }
        });
        each.sum()
    };
    let (mut slope, mut offset) = (0.0, ((negatives + 1.0) / (positives + 1.0)).ln());
    let mut value = loss(slope, offset);
    for _ in 0..100 {
        // A little on the diagonal keeps the matrix of second derivatives invertible.
        let (mut h11, mut h22, mut h21, mut g1, mut g2) = (1e-12, 1e-12, 0.0, 0.0, 0.0);
        for (decision, target) in decisions.iter().zip(&targets) {
            let score = decision * slope + offset;
            let p = 1.0 / (1.0 + score.exp());
            let curve = p * (1.0 - p);
            h11 += decision * decision * curve;
            h22 += curve;
            h21 += decision * curve;
            g1 += decision * (target - p);
            g2 += target - p;
        }
        if g1.abs() < 1e-5 && g2.abs() < 1e-5 {
            break;
        }
        let determinant = h11 * h22 - h21 * h21;
        let step1 = -(h22 * g1 - h21 * g2) / determinant;
        let step2 = -(h11 * g2 - h21 * g1) / determinant;
        let descent = g1 * step1 + g2 * step2;
        let mut size = 1.0;
        let before = value;
        while size >= 1e-10 {
            let new = loss(slope + size * step1, offset + size * step2);
            if new < value + 1e-4 * size * descent {
                (slope, offset, value) = (slope + size * step1, offset + size * step2, new);
                break;
            }
            size /= 2.0;
        }
        if value >= before {
            break;
        }
    }
    (slope, offset)
}

/// The probabilities of the classes from those of the first of each two, in the order (0, 1), (0, 2), ... (1, 2), ...
pub(crate) fn couple(pairs: &[f64], classes: usize) -> Vec<f64> {
    let inside = |probability: f64| probability.clamp(1e-7, 1.0 - 1e-7);
    if let [first] = pairs {
        return vec![inside(*first), 1.0 - inside(*first)];
    }
    let mut first_of = vec![0.0; classes * classes];
    let mut each = pairs.iter();
    for first in 0..classes {
        for second in first + 1..classes {
            let probability = inside(each.next().copied().unwrap_or(0.5));
            first_of[first * classes + second] = probability;
            first_of[second * classes + first] = 1.0 - probability;
        }
    }
    let r = |first: usize, second: usize| first_of[first * classes + second];
    let mut q = vec![0.0; classes * classes];
    for t in 0..classes {
        for j in (0..classes).filter(|j| *j != t) {
            q[t * classes + t] += r(j, t) * r(j, t);
            q[t * classes + j] = -r(j, t) * r(t, j);
        }
    }
    let mut p = vec![1.0 / classes as f64; classes];
    for _ in 0..classes.max(100) {
        let mut qp: Vec<f64> =
            q.chunks_exact(classes).map(|row| row.iter().zip(&p).map(|(q, p)| q * p).sum()).collect();
        let mut pqp: f64 = p.iter().zip(&qp).map(|(p, qp)| p * qp).sum();
        let worst = qp.iter().map(|qp| (qp - pqp).abs()).fold(0.0, f64::max);
        if worst < 0.005 / classes as f64 {
            break;
        }
        for t in 0..classes {
            let own = q[t * classes + t];
            let step = (pqp - qp[t]) / own;
            p[t] += step;
            // Everything is divided by the new sum, 1 + step; pᵀQp follows from what it was.
            pqp = (pqp + step * (step * own + 2.0 * qp[t])) / (1.0 + step) / (1.0 + step);
            for j in 0..classes {
                qp[j] = (qp[j] + step * q[t * classes + j]) / (1.0 + step);
                p[j] /= 1.0 + step;
            }
        }
    }
    p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_that_agree_are_found_again() {
        let classes = [0.5, 0.3, 0.15, 0.05];
        let mut pairs = Vec::new();
        for first in 0..4 {
            for second in first + 1..4 {
                pairs.push(classes[first] / (classes[first] + classes[second]));
            }
        }
        for (found, expected) in couple(&pairs, 4).iter().zip(classes) {
            assert!((found - expected).abs() < 5e-3, "{found} {expected}");
        }
        assert_eq!(couple(&[], 1), [1.0]);
    }

    #[test]
    fn the_sigmoid_is_that_of_a_logistic_regression() {
        // Decisions that are positive with the probability 1 / (1 + exp(-2 x)).
        let mut random = crate::random::Random::new(3);
        let decisions: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let positive: Vec<bool> =
            decisions.iter().map(|x| random.unit() < 1.0 / (1.0 + (-2.0 * x + 0.5).exp())).collect();
        let (slope, offset) = sigmoid(&decisions, &positive);
        assert!((slope + 2.0).abs() < 0.1 && (offset - 0.5).abs() < 0.1, "{slope} {offset}");
        for (decisions, positive) in [(&[][..], &[][..]), (&[1.0, 1.0], &[true, true]), (&[0.0, 0.0], &[true, false])] {
            let (slope, offset) = sigmoid(decisions, positive);
            assert!(slope.is_finite() && offset.is_finite());
        }
    }
}
