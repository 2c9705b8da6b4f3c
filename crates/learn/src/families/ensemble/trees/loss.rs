//! The losses that boosting minimises round by round: functions of a score and a label, by their first and second
//! derivatives.

/// A loss. Scores are what the trees add up to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Loss {
    /// Half the square of the error.
    Squared,
    /// The error without its sign.
    Absolute,
    /// The square of errors up to a quantile of them, and in proportion to them beyond.
    Huber(f64),
    /// Errors on one side count more: the score is a quantile.
    Quantile(f64),
    /// Of a Poisson distribution; the score is the logarithm of its mean.
    Poisson,
    /// Of a gamma distribution; the score is the logarithm of its mean.
    Gamma,
    /// Of two classes; the score is the logarithm of their odds.
    Logistic,
    /// Of two classes as AdaBoost has it; the score is half the logarithm of their odds.
    Exponential,
    /// The log loss of several classes, each with a score.
    Softmax(usize),
}

impl Loss {
    /// How many scores there are.
    pub(crate) fn scores(self) -> usize {
        if let Loss::Softmax(classes) = self { classes } else { 1 }
    }

    /// The constant scores with the least loss.
    pub(crate) fn base(self, labels: &[f32], weights: &[f64]) -> Vec<f64> {
        let total: f64 = weights.iter().sum();
        let mean = || labels.iter().zip(weights).map(|(label, weight)| f64::from(*label) * weight).sum::<f64>() / total;
        let share = |share: f64| share.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
        let log_odds = |share: f64| (share / (1.0 - share)).ln();
        let quantile_of = |share| {
            let mut values: Vec<(f64, f64)> =
                labels.iter().zip(weights).map(|(label, weight)| (f64::from(*label), *weight)).collect();
            quantile(&mut values, share)
        };
        match self {
            Loss::Squared => vec![mean()],
            Loss::Absolute | Loss::Huber(_) => vec![quantile_of(0.5)],
            Loss::Quantile(share) => vec![quantile_of(share)],
            Loss::Poisson | Loss::Gamma => vec![mean().max(f64::MIN_POSITIVE).ln()],
            Loss::Logistic => vec![log_odds(share(mean()))],
            Loss::Exponential => vec![0.5 * log_odds(share(mean()))],
            Loss::Softmax(classes) => {
                let mut sums = vec![0.0; classes];
                for (label, weight) in labels.iter().zip(weights) {
                    sums[*label as usize] += weight;
                }
                sums.iter().map(|sum| share(sum / total).ln()).collect()
            }
        }
    }

    /// Calls with each output, the first derivative, with its sign turned, and the second, of a row with these scores.
    /// `delta` is where the error turns linear, see [`Loss::Huber`].
    pub(crate) fn derivatives(self, scores: &[f64], label: f64, delta: f64, mut take: impl FnMut(usize, f64, f64)) {
        if let Loss::Softmax(_) = self {
            // What the scores have in common is worked out once a row, not once an output: there may be many classes.
            let (largest, sum) = softmax(scores);
            for (output, score) in scores.iter().enumerate() {
                let share = (score - largest).exp() / sum;
                take(output, f64::from(u8::from(label == output as f64)) - share, share * (1.0 - share));
            }
        } else if let Some(score) = scores.first() {
            let (first, second) = self.of_one(*score, label, delta);
            take(0, first, second);
        }
    }

    /// The derivatives of a loss of one score.
    fn of_one(self, score: f64, label: f64, delta: f64) -> (f64, f64) {
        match self {
            Loss::Squared => (label - score, 1.0),
            Loss::Absolute => (sign(label - score), 1.0),
            Loss::Huber(_) => ((label - score).clamp(-delta, delta), 1.0),
            Loss::Quantile(share) => (if label > score { share } else { share - 1.0 }, 1.0),
            Loss::Poisson => (label - score.exp(), score.exp()),
            Loss::Gamma => {
                let ratio = label * (-score).exp();
                (ratio - 1.0, ratio)
            }
            Loss::Logistic | Loss::Softmax(_) => {
                let share = logistic(score);
                (label - share, share * (1.0 - share))
            }
            Loss::Exponential => {
                let signed = 2.0 * label - 1.0;
                let loss = (-signed * score).exp();
                (signed * loss, loss)
            }
        }
    }

    /// What a row with these scores loses.
    pub(crate) fn of(self, scores: &[f64], label: f64, delta: f64) -> f64 {
        let score = scores[0];
        let error = label - score;
        match self {
            Loss::Squared => 0.5 * error * error,
            Loss::Absolute => error.abs(),
            Loss::Huber(_) if error.abs() <= delta => 0.5 * error * error,
            Loss::Huber(_) => delta * (error.abs() - 0.5 * delta),
            Loss::Quantile(share) => {
                if error > 0.0 {
                    share * error
                } else {
                    (share - 1.0) * error
                }
            }
            Loss::Poisson => score.exp() - label * score,
            Loss::Gamma => score + label * (-score).exp(),
            Loss::Logistic => score.max(0.0) - label * score + (-score.abs()).exp().ln_1p(),
            Loss::Exponential => (-(2.0 * label - 1.0) * score).exp(),
            Loss::Softmax(_) => -share_of(scores, label as usize).max(f64::MIN_POSITIVE).ln(),
        }
    }

    /// The best answer of a leaf for these errors (and their weights), where it is not a step of Newton's.
    pub(crate) fn answer(self, errors: &mut [(f64, f64)], delta: f64) -> Option<f64> {
        match self {
            Loss::Absolute => Some(quantile(errors, 0.5)),
            Loss::Quantile(share) => Some(quantile(errors, share)),
            Loss::Huber(_) => {
                let median = quantile(errors, 0.5);
                let weight: f64 = errors.iter().map(|(_, weight)| weight).sum();
                let sum: f64 =
                    errors.iter().map(|(error, weight)| weight * (error - median).clamp(-delta, delta)).sum();
                Some(median + sum / weight.max(f64::MIN_POSITIVE))
            }
            _ => None,
        }
    }
}

fn sign(error: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error.signum() }
}

fn logistic(score: f64) -> f64 {
    1.0 / (1.0 + (-score).exp())
}

/// The largest score, and the sum of what the others are beside it.
fn softmax(scores: &[f64]) -> (f64, f64) {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (largest, scores.iter().map(|score| (score - largest).exp()).sum())
}

/// The probability that softmax gives an output.
fn share_of(scores: &[f64], output: usize) -> f64 {
    let (largest, sum) = softmax(scores);
    (scores[output] - largest).exp() / sum
}

/// The least of some values (with their weights) that this share of the weights does not exceed.
pub(crate) fn quantile(values: &mut [(f64, f64)], share: f64) -> f64 {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = share * values.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut reached = 0.0;
    for (index, (value, weight)) in values.iter().enumerate() {
        reached += weight;
        if reached >= wanted && reached > 0.0 {
            // Between two values where the share is reached exactly.
            let next = values[index + 1..].iter().find(|(_, weight)| *weight > 0.0);
            return match next.filter(|_| reached == wanted) {
                Some((next, _)) => 0.5 * (value + next),
                None => *value,
            };
        }
    }
    values.last().map_or(0.0, |(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_those_of_the_loss() {
        let step = 1e-6;
        for (loss, scores, label) in [
            (Loss::Squared, vec![0.3], 1.7),
            (Loss::Absolute, vec![0.3], 1.7),
            (Loss::Huber(0.9), vec![0.3], 1.7),
            (Loss::Huber(0.9), vec![1.3], 1.7),
            (Loss::Quantile(0.9), vec![0.3], 0.1),
            (Loss::Poisson, vec![0.3], 2.0),
            (Loss::Gamma, vec![0.3], 2.0),
            (Loss::Logistic, vec![0.3], 1.0),
            (Loss::Logistic, vec![-0.3], 0.0),
            (Loss::Exponential, vec![0.3], 0.0),
            (Loss::Softmax(3), vec![0.3, -0.2, 1.0], 1.0),
        ] {
            let derivatives = |scores: &[f64]| {
                let mut all = Vec::new();
                loss.derivatives(scores, label, 1.0, |output, first, second| {
                    assert_eq!(output, all.len());
                    all.push((first, second));
                });
                assert_eq!(all.len(), loss.scores());
                all
            };
            for output in 0..loss.scores() {
                let moved = |by: f64| {
                    let mut scores = scores.clone();
                    scores[output] += by;
                    (loss.of(&scores, label, 1.0), derivatives(&scores)[output])
                };
                let ((less, before), (more, after)) = (moved(-step), moved(step));
                let (first, second) = derivatives(&scores)[output];
                assert!((first + (more - less) / (2.0 * step)).abs() < 1e-6, "{loss:?}");
                let constant = matches!(loss, Loss::Absolute | Loss::Huber(_) | Loss::Quantile(_));
                assert!(constant || (second + (after.0 - before.0) / (2.0 * step)).abs() < 1e-6, "{loss:?}");
            }
        }
    }

    #[test]
    fn quantiles_count_weights() {
        assert_eq!(quantile(&mut [(3.0, 1.0), (1.0, 1.0), (2.0, 1.0)], 0.5), 2.0);
        assert_eq!(quantile(&mut [(3.0, 1.0), (1.0, 1.0)], 0.5), 2.0);
        assert_eq!(quantile(&mut [(3.0, 1.0), (1.0, 5.0), (2.0, 1.0)], 0.5), 1.0);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }
}
