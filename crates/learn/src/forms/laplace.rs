//! Gaussian processes of classes by Laplace's approximation: the mean and the variance of a latent function, and from
//! them the probability of a class, each against the rest.

use faer::Mat;

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Problem, Stored};
use crate::numerics::kernel::Kernel;
use crate::numerics::tiles::Tiles;

/// Stored as `tiles` (the training rows, see [`Tiles`]) and, one function after the other, `gradients` and `roots` (one
/// a row), `factors` (the lower triangle row by row), `gammas` and `degrees` (of the kernel); and the settings.
pub(crate) const FORM: Form = Form { name: "laplace", open };

/// A latent function, which tells a class from the rest.
pub(crate) struct Binary {
    pub(crate) kernel: Kernel,
    pub(crate) gradients: Vec<f64>,
    pub(crate) roots: Vec<f64>,
    /// Of which only the lower triangle counts.
    pub(crate) factor: Mat<f64>,
}

/// A model of these functions: one for the second of two classes, otherwise one for each class.
pub(crate) fn model(tiles: Vec<f32>, problem: &Problem<'_>, parts: Vec<Binary>) -> Result<Model, Error> {
    let kernel = parts.first().ok_or(Error::Diverged("there are no classes"))?.kernel;
    let mut factors: Vec<f64> = Vec::new();
    room::reserve(&mut factors, parts.len() * triangle(problem.rows))?;
    for part in &parts {
        for row in 0..problem.rows {
            factors.extend((0..=row).map(|column| part.factor[(row, column)]));
        }
    }
    let numbers = |of: fn(&Binary) -> &[f64]| parts.iter().flat_map(of).copied().collect::<Vec<f64>>();
    Ok(kernel
        .store(Model::new(&FORM))
        .set("rows", problem.rows)
        .set("width", problem.width)
        .set("classes", problem.classes)
        .with("tiles", tiles)
        .with("gradients", numbers(|part| &part.gradients))
        .with("roots", numbers(|part| &part.roots))
        .with("factors", factors)
        .with("gammas", parts.iter().map(|part| part.kernel.gamma).collect::<Vec<f64>>())
        .with("degrees", parts.iter().map(|part| part.kernel.degree).collect::<Vec<f64>>()))
}

/// Elements of a lower triangle.
fn triangle(rows: usize) -> usize {
    rows * (rows + 1) / 2
}

struct Laplace {
    tiles: Tiles,
    classes: usize,
    kernels: Vec<Kernel>,
    gradients: Array<f64>,
    roots: Array<f64>,
    factors: Array<f64>,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let (rows, width) = (stored.count("rows")?, stored.count("width")?);
    let gammas: Array<f64> = stored.array("gammas")?;
    let degrees: Array<f64> = stored.array_of("degrees", gammas.len())?;
    let classes = stored.count("classes")?;
    let functions = if classes == 2 { 1 } else { classes };
    if rows == 0 || width == 0 || classes == 0 || gammas.len() != functions {
        return Err(Error::Model("its counts do not go together".into()));
    }
    let times = |count: usize| count.checked_mul(gammas.len()).ok_or_else(|| Error::Model("it is too large".into()));
    let kernel = Kernel::stored(stored)?;
    let kernels =
        gammas.iter().zip(degrees.iter()).map(|(gamma, degree)| Kernel { gamma: *gamma, degree: *degree, ..kernel });
    let factors: Array<f64> = stored.array_of("factors", times(triangle(rows))?)?;
    let positive = |factor: &[f64]| (0..rows).all(|row| factor[triangle(row) + row] > 0.0);
    if !factors.chunks_exact(triangle(rows)).all(positive) {
        return Err(Error::Model("its factor has no inverse".into()));
    }
    Ok(Box::new(Laplace {
        classes,
        tiles: Tiles::stored(stored, "tiles", rows, width)?,
        kernels: kernels.collect(),
        gradients: stored.array_of("gradients", times(rows)?)?,
        roots: stored.array_of("roots", times(rows)?)?,
        factors,
    }))
}

/// The mean of the logistic function over a normal distribution, by the trapezoidal rule, which for it is exact to more
/// places than are asked for.
fn expected(mean: f64, variance: f64) -> f64 {
    let deviation = variance.max(0.0).sqrt();
    let (mut sum, mut total) = (0.0, 0.0);
    for step in -20..=20 {
        let at = f64::from(step) * 0.35;
        let weight = (-at * at / 2.0).exp();
        total += weight;
        sum += weight / (1.0 + (-(mean + deviation * at)).exp());
    }
    sum / total
}

/// The sum of products, in four sums at a time.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    let mut sums = [0.0; 4];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

impl Laplace {
    /// The mean of a function, and the probability that it gives its class.
    fn probability(&self, index: usize, row: &[f32]) -> (f64, f64) {
        let (rows, kernel) = (self.tiles.rows(), &self.kernels[index]);
        let query = kernel.query(row);
        let kernels = kernel.measure_all(&self.tiles, &query);
        let own = index * rows..(index + 1) * rows;
        let mean = dot(&self.gradients[own.clone()], &kernels[..rows]);
        let (roots, factor) = (&self.roots[own], &self.factors[index * triangle(rows)..(index + 1) * triangle(rows)]);
        // What the training rows explain of the variance.
        let mut solved: Vec<f64> = Vec::with_capacity(rows);
        for (row, (root, kernel)) in roots.iter().zip(&kernels).enumerate() {
            let factor = &factor[triangle(row)..triangle(row) + row + 1];
            solved.push((root * kernel - dot(&factor[..row], &solved)) / factor[row]);
        }
        (mean, expected(mean, kernel.of_itself(&query) - dot(&solved, &solved)))
    }
}

impl Predict for Laplace {
    fn width(&self) -> usize {
        self.tiles.width()
    }

    fn values(&self) -> usize {
        self.classes
    }

    fn meaning(&self) -> Meaning {
        Meaning::Probabilities
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        if let [first, second] = values {
            let (mean, probability) = self.probability(0, row);
            (*first, *second) = ((1.0 - probability) as f32, probability as f32);
            // Far from all rows the difference is too small for these numbers, but there is one.
            if first == second && mean > 0.0 {
                *second = second.next_up();
            }
            return;
        }
        let each: Vec<f64> = (0..self.kernels.len()).map(|index| self.probability(index, row).1).collect();
        let sum: f64 = each.iter().sum();
        let even = 1.0 / each.len() as f64;
        for (value, probability) in values.iter_mut().zip(each) {
            *value = (if sum > 0.0 { probability / sum } else { even }) as f32;
        }
    }

    fn work(&self) -> usize {
        self.kernels.len() * (triangle(self.tiles.rows()) + self.tiles.rows() * self.width())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_probability_is_that_of_many_draws() {
        assert_eq!(expected(0.0, 4.0), 0.5);
        assert!((expected(2.0, 0.0) - 1.0 / (1.0 + (-2f64).exp())).abs() < 1e-12);
        let mut random = crate::random::Random::new(11);
        let draws = 200_000;
        let sum: f64 = (0..draws).map(|_| 1.0 / (1.0 + (-(1.0 + 3.0 * random.normal())).exp())).sum();
        assert!((expected(1.0, 9.0) - sum / f64::from(draws)).abs() < 3e-3);
    }
}
