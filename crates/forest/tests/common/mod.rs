//! Random models trained by the real XGBoost, and rows made to find what a kernel gets wrong.
//!
//! Everything is a function of a seed: a failure names the seed and the [`Spec`] that reproduce it.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of this module")]

pub mod handmade;
mod library;

pub use library::{Booster, DMatrix, version};

/// SplitMix64: tiny, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// Between the two, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 24) as f32
    }

    pub fn chance(&mut self, probability: f32) -> bool {
        self.unit() < probability
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// What model to train.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Any of the library's, such as `reg:squarederror`, `multi:softprob`, `survival:aft`.
    pub objective: &'static str,
    /// `gbtree`, `dart` or `gblinear`.
    pub booster: &'static str,
    pub features: usize,
    /// Rows to train on; bounds how deep trees get.
    pub rows: usize,
    pub depth: usize,
    /// Boosting rounds: `rounds * num_parallel_tree * outputs` trees (without the last factor for vector leaves).
    pub rounds: usize,
    pub num_parallel_tree: usize,
    /// Classes of `multi:*`, targets of a regression or of `binary:logistic` with several labels, quantiles of
    /// `reg:quantileerror`; else 1.
    pub outputs: usize,
    /// `multi_strategy = multi_output_tree`.
    pub vector_leaves: bool,
    /// The share of missing values in the training rows.
    pub missing: f32,
    /// The share of features that are categorical.
    pub categorical: f32,
    /// Categories of such a feature; beyond 4 (`max_cat_to_onehot`) splits are by sets.
    pub categories: usize,
    /// More parameters of the library, as they are.
    pub extra: Vec<(&'static str, String)>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            objective: "reg:squarederror",
            booster: "gbtree",
            features: 8,
            rows: 400,
            depth: 4,
            rounds: 10,
            num_parallel_tree: 1,
            outputs: 1,
            vector_leaves: false,
            missing: 0.1,
            categorical: 0.0,
            categories: 12,
            extra: Vec::new(),
        }
    }
}

/// A model of the real library, and rows like those it was trained on.
pub struct Model {
    /// UBJSON, as `XGBoosterSaveModelToBuffer` writes it.
    pub ubj: Vec<u8>,
    /// The same model as JSON.
    pub json: Vec<u8>,
    /// To predict with; loaded from `ubj`, one thread.
    pub booster: Booster,
    /// Which features are categorical.
    pub categorical: Vec<bool>,
    /// The rows of the training, row after row.
    pub rows: Vec<f32>,
    pub spec: Spec,
}

impl Model {
    /// What the library answers: `XGBoosterPredictFromDense`, for gblinear `XGBoosterPredictFromDMatrix`.
    pub fn predict(&self, rows: &[f32], margin: bool) -> Result<Vec<f32>, String> {
        if self.spec.booster == "gblinear" {
            return self.booster.predict_dmatrix(&DMatrix::new(rows, self.spec.features)?, margin);
        }
        self.booster.predict(rows, self.spec.features, margin, 0)
    }
}

/// Trains a model on random data.
///
/// # Panics
/// If the library refuses the spec.
pub fn random_model(seed: u64, spec: &Spec) -> Model {
    try_random_model(seed, spec).unwrap_or_else(|error| panic!("seed {seed}, {spec:?}: {error}"))
}

/// What the library is told.
fn params(seed: u64, spec: &Spec) -> Vec<(&'static str, String)> {
    let mut params = vec![
        ("objective", spec.objective.to_owned()),
        ("booster", spec.booster.to_owned()),
        ("nthread", "1".to_owned()),
        ("seed", (seed % 1_000_000).to_string()),
    ];
    if spec.booster != "gblinear" {
        params.push(("tree_method", "hist".to_owned()));
        params.push(("max_depth", spec.depth.to_string()));
        params.push(("num_parallel_tree", spec.num_parallel_tree.to_string()));
        params.push(("min_child_weight", "0.01".to_owned()));
        if spec.num_parallel_tree > 1 {
            params.push(("subsample", "0.7".to_owned()));
        }
        if spec.vector_leaves {
            params.push(("multi_strategy", "multi_output_tree".to_owned()));
        }
    }
    if spec.booster == "dart" {
        params.push(("rate_drop", "0.3".to_owned()));
    }
    if spec.objective.starts_with("multi:") {
        params.push(("num_class", spec.outputs.to_string()));
    }
    for (objective, param) in [("reg:quantileerror", "quantile_alpha"), ("reg:expectileerror", "expectile_alpha")] {
        if spec.objective == objective {
            let alpha = |i| (i as f32 / (spec.outputs + 1) as f32).to_string();
            params.push((param, format!("[{}]", (1..=spec.outputs).map(alpha).collect::<Vec<_>>().join(","))));
        }
    }
    params.extend(spec.extra.iter().cloned());
    params
}

fn try_random_model(seed: u64, spec: &Spec) -> Result<Model, String> {
    let random = &mut Random::new(seed);
    let categorical: Vec<bool> = (0..spec.features).map(|_| random.chance(spec.categorical)).collect();
    // Features differ in scale, some have few values, so that rows meet thresholds exactly.
    let scales: Vec<f32> = (0..spec.features).map(|_| *random.pick(&[1e-3, 1.0, 1.0, 30.0, 1e6])).collect();
    let steps: Vec<bool> = (0..spec.features).map(|_| random.chance(0.4)).collect();
    let effects: Vec<f32> = (0..spec.features * spec.outputs).map(|_| random.unit() - 0.5).collect();

    let mut rows = Vec::with_capacity(spec.rows * spec.features);
    let mut scores = Vec::with_capacity(spec.rows * spec.outputs);
    for _ in 0..spec.rows {
        let start = scores.len();
        scores.resize(start + spec.outputs, 0.0);
        for f in 0..spec.features {
            let (x, unit) = if categorical[f] {
                let category = random.below(spec.categories);
                (category as f32, ((category * 7919) % spec.categories) as f32 / spec.categories as f32)
            } else {
                let unit = random.unit() * 2.0 - 1.0;
                let unit = if steps[f] { (unit * 4.0).round() / 4.0 } else { unit };
                (unit * scales[f], unit)
            };
            for (o, score) in scores[start..].iter_mut().enumerate() {
                *score += effects[f * spec.outputs + o] * unit + 0.3 * (unit * 5.0).sin() * effects[f];
            }
            rows.push(if random.chance(spec.missing) { f32::NAN } else { x });
        }
        for score in &mut scores[start..] {
            *score += random.unit() * 0.2;
        }
    }

    let mut matrix = DMatrix::new(&rows, spec.features)?;
    if categorical.contains(&true) {
        let types: Vec<String> = categorical.iter().map(|&c| if c { "c" } else { "q" }.to_owned()).collect();
        matrix.set_strings("feature_type", &types)?;
    }
    label(&mut matrix, spec, &scores, random)?;

    let params = params(seed, spec);
    let trained = Booster::new(&[&matrix], &params)?;
    for round in 0..spec.rounds {
        trained.update(round, &matrix)?;
    }
    if spec.rounds == 0 {
        trained.predict_dmatrix(&matrix, true)?;
    }
    let ubj = trained.save("ubj");
    let json = trained.save("json");
    let booster = Booster::load(&ubj)?;
    Ok(Model { ubj, json, booster, categorical, rows, spec: spec.clone() })
}

/// Labels that the objective takes, out of scores of about -2 to 2.
fn label(matrix: &mut DMatrix, spec: &Spec, scores: &[f32], random: &mut Random) -> Result<(), String> {
    let classes = spec.outputs;
    let of_rows = || scores.chunks_exact(spec.outputs);
    match spec.objective {
        "multi:softmax" | "multi:softprob" => {
            let largest = |row: &[f32]| (0..classes).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0) as f32;
            matrix.set("label", &of_rows().map(largest).collect::<Vec<_>>())
        }
        // One label for all quantiles.
        "reg:quantileerror" | "reg:expectileerror" => {
            matrix.set("label", &of_rows().map(|row| row[0] * 10.0).collect::<Vec<_>>())
        }
        "survival:aft" => {
            let times: Vec<f32> = scores.iter().map(|s| s.exp()).collect();
            let upper: Vec<f32> =
                times.iter().map(|t| if random.chance(0.3) { f32::INFINITY } else { t * 1.5 }).collect();
            matrix.set("label_lower_bound", &times)?;
            matrix.set("label_upper_bound", &upper)
        }
        // A negative time is censored.
        "survival:cox" => {
            let times = scores.iter().map(|s| if random.chance(0.2) { -s.exp() } else { s.exp() });
            matrix.set("label", &times.collect::<Vec<_>>())
        }
        objective if objective.starts_with("rank:") => {
            let map = objective == "rank:map";
            let relevance = |s: &f32| if map { f32::from(*s > 0.0) } else { (s * 2.0 + 2.0).clamp(0.0, 4.0).round() };
            matrix.set("label", &scores.iter().map(relevance).collect::<Vec<_>>())?;
            let mut groups = Vec::new();
            let mut left = spec.rows;
            while left > 0 {
                let size = random.between(1, 20).min(left);
                groups.push(size as u32);
                left -= size;
            }
            matrix.set_groups(&groups)
        }
        objective => {
            let label = |s: &f32| match objective {
                "binary:logistic" | "binary:logitraw" | "binary:hinge" => f32::from(*s > 0.1),
                "reg:logistic" => 1.0 / (1.0 + (-s).exp()),
                "count:poisson" => s.exp().round(),
                "reg:gamma" => s.exp() + 0.01,
                "reg:tweedie" => (s.exp() - 0.5).max(0.0),
                "reg:squaredlogerror" => s.exp(),
                _ => s * 10.0,
            };
            matrix.set_labels(&scores.iter().map(label).collect::<Vec<_>>(), spec.outputs)
        }
    }
}

/// Rows made to find what a kernel gets wrong, row after row: those of the training, the thresholds of the model
/// themselves and their neighbours, missing values, infinities, zeros of both signs, denormals, integers past 2^24,
/// fractional, unseen, negative and huge categories.
///
/// `thresholds` has the pairs of feature and threshold of the model's splits, or is empty.
pub fn hostile_rows(seed: u64, count: usize, model: &Model, thresholds: &[(u32, f32)]) -> Vec<f32> {
    const SPECIAL: [f32; 22] = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        f32::MIN_POSITIVE,
        -f32::MIN_POSITIVE,
        1e-45,
        -1e-45,
        1e-40,
        f32::MAX,
        f32::MIN,
        16_777_215.0,
        16_777_216.0,
        16_777_218.0,
        -16_777_216.0,
        2_147_483_648.0,
        4_294_967_296.0,
        1e19,
        -1.0,
        -0.5,
        0.5,
    ];
    let random = &mut Random::new(seed);
    let features = model.spec.features;
    let mut rows = Vec::with_capacity(count * features);
    for _ in 0..count {
        let start = random.below(model.spec.rows) * features;
        rows.extend_from_slice(&model.rows[start..start + features]);
        let at = rows.len() - features;
        let row = &mut rows[at..];
        if random.chance(0.05) {
            row.fill(*random.pick(&SPECIAL));
            continue;
        }
        let share = *random.pick(&[0.0, 0.1, 0.5, 1.0]);
        for (x, categorical) in row.iter_mut().zip(&model.categorical) {
            if !random.chance(share) {
                continue;
            }
            *x = match random.below(4) {
                0 => f32::NAN,
                1 if *categorical => random.below(model.spec.categories * 2) as f32 + *random.pick(&[0.0, 0.0, 0.7]),
                1 => f32::from_bits(random.bits() as u32),
                _ => *random.pick(&SPECIAL),
            };
        }
        if !thresholds.is_empty() {
            for _ in 0..random.below(features.min(8) + 1) {
                let (feature, threshold) = *random.pick(thresholds);
                row[feature as usize] = match random.below(3) {
                    0 => threshold,
                    1 => threshold.next_up(),
                    _ => threshold.next_down(),
                };
            }
        }
    }
    rows
}

/// Seconds of processor time of this thread: other programs on the machine do not count.
pub fn cpu_seconds() -> f64 {
    #[cfg(target_os = "linux")]
    {
        const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
        unsafe extern "C" {
            fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
        }
        let mut time = [0; 2];
        // SAFETY: on the 64-bit Linux that this bench is for, a timespec is two such integers.
        assert_eq!(unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
        time[0] as f64 + time[1] as f64 * 1e-9
    }
    #[cfg(not(target_os = "linux"))]
    {
        static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
        START.elapsed().as_secs_f64()
    }
}
