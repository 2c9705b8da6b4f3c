//! Distances between rows: one home, so that a row has the same distance in training as in prediction, to the bit.

use crate::Error;
use crate::family::Given;

/// The squared Euclidean distance. Four sums, which the processor can add at the same time.
#[inline]
pub(crate) fn squared<A: Copy + Into<f64>, B: Copy + Into<f64>>(a: &[A], b: &[B]) -> f64 {
    let (a_parts, b_parts) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest = a_parts.remainder().iter().zip(b_parts.remainder());
    let mut sums = [0.0f64; 4];
    for (a, b) in a_parts.zip(b_parts) {
        for lane in 0..4 {
            let gap: f64 = a[lane].into() - b[lane].into();
            sums[lane] += gap * gap;
        }
    }
    let mut sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    for (a, b) in rest {
        let gap: f64 = (*a).into() - (*b).into();
        sum += gap * gap;
    }
    sum
}

/// How far two rows are apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Metric {
    Euclidean,
    Manhattan,
    Chebyshev,
    /// The root of the sum of these powers of the differences.
    Minkowski(f64),
}

/// The names that [`Metric::given`] knows.
pub(crate) const METRICS: &[&str] =
    &["euclidean", "l2", "manhattan", "l1", "cityblock", "chebyshev", "infinity", "minkowski"];

impl Metric {
    /// Of the hyperparameters `metric` and `p`.
    pub(crate) fn given(given: &Given) -> Result<Metric, Error> {
        let power = given.maybe_number("p").unwrap_or(2.0);
        Metric::named(given.word("metric"), power)
            .ok_or_else(|| given.refuse("metric", format!("it is one of {}", METRICS.join(", "))))
    }

    /// Of a name that is no power; Euclidean where there is no such name.
    pub(crate) fn given_plain(name: &str) -> Metric {
        Metric::named(name, 2.0).unwrap_or(Metric::Euclidean)
    }

    /// As a model stores it; `None` where there is no such metric.
    pub(crate) fn named(name: &str, power: f64) -> Option<Metric> {
        match name {
            "euclidean" | "l2" => Some(Metric::Euclidean),
            "manhattan" | "l1" | "cityblock" => Some(Metric::Manhattan),
            "chebyshev" | "infinity" => Some(Metric::Chebyshev),
            "minkowski" if power == 2.0 => Some(Metric::Euclidean),
            "minkowski" if power == 1.0 => Some(Metric::Manhattan),
            "minkowski" if power > 0.0 => Some(Metric::Minkowski(power)),
            _ => None,
        }
    }

    /// Its name, and the power of the differences.
    pub(crate) fn name(self) -> (&'static str, f64) {
        match self {
            Metric::Euclidean => ("euclidean", 2.0),
            Metric::Manhattan => ("manhattan", 1.0),
            Metric::Chebyshev => ("chebyshev", 1.0),
            Metric::Minkowski(power) => ("minkowski", power),
        }
    }

    /// What orders rows as their distance does and takes less to compute: without the root.
    #[inline]
    pub(crate) fn reduced<A: Copy + Into<f64>, B: Copy + Into<f64>>(self, a: &[A], b: &[B]) -> f64 {
        let gaps = a.iter().zip(b).map(|(a, b)| ((*a).into() - (*b).into()).abs());
        match self {
            Metric::Euclidean => squared(a, b),
            _ => self.of_gaps(gaps),
        }
    }

    /// The reduced distance of a distance.
    pub(crate) fn reduce(self, distance: f64) -> f64 {
        match self {
            Metric::Euclidean => distance * distance,
            Metric::Manhattan | Metric::Chebyshev => distance,
            Metric::Minkowski(power) => distance.powf(power),
        }
    }

    /// The distance of a reduced distance.
    pub(crate) fn distance(self, reduced: f64) -> f64 {
        match self {
            Metric::Euclidean => reduced.sqrt(),
            Metric::Manhattan | Metric::Chebyshev => reduced,
            Metric::Minkowski(power) => reduced.powf(power.recip()),
        }
    }

    /// The reduced distance of two rows with these differences, none of them negative.
    #[inline]
    pub(crate) fn of_gaps(self, gaps: impl Iterator<Item = f64>) -> f64 {
        match self {
            Metric::Euclidean => gaps.map(|gap| gap * gap).sum(),
            Metric::Manhattan => gaps.sum(),
            Metric::Chebyshev => gaps.fold(0.0, f64::max),
            Metric::Minkowski(power) => gaps.map(|gap| gap.powf(power)).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_their_definitions() {
        let (a, b) = ([0.0f32, 3.0, -1.0, 2.0, 5.0], [1.0f32, 1.0, -1.0, 5.0, 5.5]);
        for (name, power, wanted) in [
            ("euclidean", 2.0, (1.0f64 + 4.0 + 9.0 + 0.25).sqrt()),
            ("cityblock", 2.0, 6.5),
            ("chebyshev", 2.0, 3.0),
            ("minkowski", 3.0, (1.0f64 + 8.0 + 27.0 + 0.125).cbrt()),
        ] {
            let metric = Metric::named(name, power).unwrap();
            let distance = metric.distance(metric.reduced(&a, &b));
            assert!((distance - wanted).abs() < 1e-12, "{name}: {distance}");
            assert!((metric.reduce(wanted) - metric.reduced(&a, &b)).abs() < 1e-12, "{name}");
            assert_eq!(Metric::named(metric.name().0, metric.name().1), Some(metric));
        }
        assert_eq!(Metric::named("hamming", 2.0), None);
    }
}
