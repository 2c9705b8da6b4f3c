//! What an objective does to a prediction, and to the intercept that a file keeps in the space of predictions.

use crate::ensemble::Transform;

/// From `base_score` to a margin: the objective's `ProbToMargin`, in float32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intercept {
    Identity,
    Logit,
    Log,
}

impl Intercept {
    /// The error says what is wrong with the score.
    pub(crate) fn margin(self, score: f32) -> Result<f32, &'static str> {
        match self {
            Self::Identity => Ok(score),
            Self::Logit if score > 0.0 && score < 1.0 => Ok(-(1.0 / score - 1.0).ln()),
            Self::Logit => Err("is not a probability between 0 and 1"),
            Self::Log => Ok(score.ln()),
        }
    }
}

/// `None` for an objective that is not known.
pub(crate) fn find(name: &str) -> Option<(Transform, Intercept)> {
    Some(match name {
        "reg:squarederror"
        | "reg:linear"
        | "reg:squaredlogerror"
        | "reg:pseudohubererror"
        | "reg:absoluteerror"
        | "reg:quantileerror"
        | "rank:pairwise"
        | "rank:ndcg"
        | "rank:map" => (Transform::Identity, Intercept::Identity),
        "reg:logistic" | "binary:logistic" => (Transform::Sigmoid, Intercept::Logit),
        "binary:logitraw" => (Transform::Identity, Intercept::Logit),
        "binary:hinge" => (Transform::Hinge, Intercept::Identity),
        "count:poisson" | "reg:gamma" | "reg:tweedie" | "survival:cox" | "survival:aft" => {
            (Transform::Exp, Intercept::Log)
        }
        "multi:softmax" => (Transform::Argmax, Intercept::Identity),
        "multi:softprob" => (Transform::Softmax, Intercept::Identity),
        _ => return None,
    })
}
