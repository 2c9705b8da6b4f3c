//! The transform of an objective, for predictions and for the intercept, which a file keeps in the space of
//! predictions.

use crate::ensemble::Transform;
use crate::oracle::expectile_margins;

/// Major and minor.
pub(crate) type Version = (i64, i64);

/// From `base_score` to a margin: the objective's `ProbToMargin`, in float32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intercept {
    Identity,
    Logit,
    Log,
    /// [`Intercept::Log`], of nothing but positive numbers.
    LogOfPositive,
    Expectiles,
}

impl Intercept {
    /// The error says what is wrong with a score.
    pub(crate) fn margins(self, scores: &[f32]) -> Result<Vec<f32>, String> {
        match self {
            Self::Expectiles => Ok(expectile_margins(scores)),
            _ => scores.iter().map(|&score| self.margin(score)).collect(),
        }
    }

    fn margin(self, score: f32) -> Result<f32, String> {
        // XGBoost's guard: where all labels are the same, the score is 0 or 1.
        const EPSILON: f32 = 1e-6;
        match self {
            Self::Identity | Self::Expectiles => Ok(score),
            Self::Logit if (0.0..=1.0).contains(&score) => Ok(-(1.0 / score.clamp(EPSILON, 1.0 - EPSILON) - 1.0).ln()),
            Self::Logit => Err(format!("{score:?} is not a probability")),
            Self::LogOfPositive if score.is_nan() || score <= 0.0 => Err(format!("{score:?} is not above 0")),
            Self::Log | Self::LogOfPositive => Ok(score.ln()),
        }
    }
}

/// `None` for an objective that is not known. What an objective does may depend on the version that wrote the file.
pub(crate) fn find(name: &str, version: Version) -> Option<(Transform, Intercept)> {
    Some(match name {
        "reg:quantileerror" if version >= (3, 4) => (Transform::Sorted, Intercept::Identity),
        "reg:squarederror"
        | "reg:linear"
        | "reg:squaredlogerror"
        | "reg:pseudohubererror"
        | "reg:absoluteerror"
        | "reg:quantileerror"
        | "binary:logitraw"
        | "rank:pairwise"
        | "rank:ndcg"
        | "rank:map" => (Transform::Identity, Intercept::Identity),
        "reg:logistic" | "binary:logistic" => (Transform::Sigmoid, Intercept::Logit),
        "binary:hinge" => (Transform::Hinge, Intercept::Identity),
        "reg:gamma" => (Transform::Exp, Intercept::LogOfPositive),
        "count:poisson" | "reg:tweedie" | "survival:cox" => (Transform::Exp, Intercept::Log),
        "survival:aft" => (Transform::ExpDouble, Intercept::Log),
        "multi:softmax" => (Transform::Argmax, Intercept::Identity),
        "multi:softprob" => (Transform::Softmax, Intercept::Identity),
        "reg:expectileerror" => (Transform::Expectiles, Intercept::Expectiles),
        _ => return None,
    })
}
