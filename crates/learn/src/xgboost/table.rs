//! Every hyperparameter: its names, what it takes, its default, and a sentence. Parsing, error messages and the
//! documentation are all made from this table.

use super::Task;

/// A hyperparameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub kind: Kind,
    /// What it is when it is not given, in words where it depends.
    pub default: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// Quantiles that one model may predict; each takes a tree in each round.
pub(super) const MOST_QUANTILES: usize = 100;

/// What a hyperparameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// A finite number.
    Number {
        /// The least value.
        min: f64,
        /// Whether the least value itself is excluded.
        above: bool,
        /// The greatest value, infinite if there is none.
        max: f64,
        /// Whether the greatest value itself is excluded.
        below: bool,
    },
    /// A whole number.
    Integer {
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
    },
    /// True or false; 1 and 0 will do.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of the objectives of the task.
    Objective,
    /// A metric or a list of metrics.
    Metrics,
    /// A number, or a list of one number a class.
    BaseScore,
    /// A number from 0 to 1, or a list of several.
    Quantiles,
    /// One of -1, 0 and 1 for every column: a list, or an object by column name.
    Monotone,
    /// Lists of columns that may be used together, each a list of names or of positions from 0.
    Interactions,
    /// Names of tree updaters with commas between them, or of a linear updater.
    Updater,
    /// As many as there are classes; only there because others ask for it.
    Classes,
    /// A model to go on from, which the caller finds: its id, or `deployed`.
    Model,
    /// Accepted and without any effect, for the reason given.
    Ignored(&'static str),
    /// Known, but not possible here, for the reason given.
    Refused(&'static str),
}

impl Kind {
    /// What is allowed, to end a sentence with: "a number above 0 and at most 1".
    pub fn allowed(&self) -> String {
        match *self {
            Kind::Number { min, above, max, below } => {
                let from = match (min == f64::NEG_INFINITY, above) {
                    (true, _) => None,
                    (_, true) => Some(format!("above {min}")),
                    (_, false) => Some(format!("at least {min}")),
                };
                let to = match (max == f64::INFINITY, below) {
                    (true, _) => None,
                    (_, true) => Some(format!("below {max}")),
                    (_, false) => Some(format!("at most {max}")),
                };
                match (from, to) {
                    (Some(from), Some(to)) => format!("a number {from} and {to}"),
                    (Some(only), None) | (None, Some(only)) => format!("a number, {only}"),
                    (None, None) => "a number".into(),
                }
            }
            Kind::Integer { min, max } => match (min == i64::MIN, max >= i64::from(i32::MAX)) {
                (true, _) => "a whole number".into(),
                (false, true) => format!("a whole number, at least {min}"),
                (false, false) => format!("a whole number from {min} to {max}"),
            },
            Kind::Flag => "true or false".into(),
            Kind::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                match quoted.split_last() {
                    Some((last, [])) => format!("only {last} is possible"),
                    Some((last, others)) => format!("{} or {last}", others.join(", ")),
                    None => String::new(),
                }
            }
            Kind::Objective => "one of the objectives of the task".into(),
            Kind::Metrics => "the name of a metric, or a list of such names".into(),
            Kind::BaseScore => "a number, or a list of one number a class".into(),
            Kind::Quantiles => {
                format!("a number from 0 to 1, or a list of {MOST_QUANTILES} such numbers at most, in ascending order")
            }
            Kind::Monotone => {
                "a list of -1, 0 or 1 for every column, or an object from column names to -1, 0 or 1".into()
            }
            Kind::Interactions => "a list of lists of column names or of positions from 0".into(),
            Kind::Updater => "names of updaters with commas between them".into(),
            Kind::Classes => "the number of classes of the label".into(),
            Kind::Model => "the id of a model, or \"deployed\"".into(),
            Kind::Ignored(_) => "anything".into(),
            Kind::Refused(reason) => reason.into(),
        }
    }
}

const I32: i64 = i32::MAX as i64;

const fn at_least(min: f64) -> Kind {
    Kind::Number { min, above: false, max: f64::INFINITY, below: false }
}

const fn fraction() -> Kind {
    Kind::Number { min: 0.0, above: false, max: 1.0, below: false }
}

/// A share of rows or columns, of which there must be some.
const fn share() -> Kind {
    Kind::Number { min: 0.0, above: true, max: 1.0, below: false }
}

const fn count(min: i64) -> Kind {
    Kind::Integer { min, max: I32 }
}

const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Parameter {
    Parameter { name, aliases, kind, default, about }
}

const REMOVED: &str = "XGBoost no longer has it";
const WRAPPER: &str = "it concerns the Python package, not the model";
const RANKING: &str = "it is for ranking, which is not one of the tasks";
const SURVIVAL: &str = "it is for objective survival:aft, which is not possible here";
const SETTLED: &str = "it follows from the rows";

/// All of them, those that matter most first.
pub(super) static TABLE: &[Parameter] = &[
    // How many trees, and how fast they learn.
    row(
        "n_estimators",
        &["boost_rounds", "num_boost_round", "num_round"],
        count(1),
        "100",
        "Rounds of boosting; in a random forest, the number of trees.",
    ),
    row(
        "learning_rate",
        &["eta"],
        at_least(0.0),
        "0.3; 0.5 for gblinear; 1 in a random forest",
        "The learning rate: the factor of each tree's prediction; smaller values need more rounds and overfit less.",
    ),
    row(
        "early_stopping_rounds",
        &[],
        count(1),
        "off",
        "Stop when the last metric has not improved on held-out rows for this many rounds, and keep the best round.",
    ),
    row("max_depth", &[], count(0), "6", "Levels of splits in a tree; 0 for no limit."),
    row("max_leaves", &[], count(0), "0", "Leaves of a tree; 0 for no limit."),
    row(
        "min_child_weight",
        &[],
        at_least(0.0),
        "1",
        "The minimum sum of second derivatives (in a regression: of row weights) on each side of a split.",
    ),
    row("gamma", &["min_split_loss"], at_least(0.0), "0", "The minimum gain of a split."),
    row("max_delta_step", &[], at_least(0.0), "0", "The maximum absolute value of a leaf; 0 for no limit."),
    row(
        "reg_lambda",
        &["lambda"],
        at_least(0.0),
        "1; 0 for gblinear; 1e-5 in a random forest",
        "L2 regularisation of the leaves or coefficients.",
    ),
    row("reg_alpha", &["alpha"], at_least(0.0), "0", "L1 regularisation of the leaves or coefficients."),
    // What each tree sees.
    row("subsample", &[], share(), "1; 0.8 in a random forest", "The share of the rows from which each tree is grown."),
    row(
        "sampling_method",
        &[],
        Kind::Choice(&["uniform", "gradient_based"]),
        "uniform",
        "The method by which rows are drawn if subsample is below 1.",
    ),
    row("colsample_bytree", &[], share(), "1", "The share of columns that each tree may use."),
    row("colsample_bylevel", &[], share(), "1", "The share of a tree's columns that each level may use."),
    row(
        "colsample_bynode",
        &[],
        share(),
        "1; 0.8 in a random forest",
        "The share of a level's columns that each split may use.",
    ),
    // What is optimised and watched.
    row(
        "objective",
        &[],
        Kind::Objective,
        "reg:squarederror; binary:logistic for two classes; multi:softprob for more",
        "The loss that is minimised.",
    ),
    row(
        "eval_metric",
        &[],
        Kind::Metrics,
        "the metric of the objective",
        "The metrics that are computed on held-out rows after each round; the last of them decides about early stopping.",
    ),
    row(
        "base_score",
        &[],
        Kind::BaseScore,
        "fitted to the labels",
        "The prediction before the first tree, in the unit of the label.",
    ),
    row(
        "scale_pos_weight",
        &[],
        at_least(0.0),
        "1",
        "The weight of rows of the second of two classes; class_weight weighs a class by its name.",
    ),
    row(
        "xgb_model",
        &[],
        Kind::Model,
        "none",
        "The model whose training continues, with new rows of the same columns and classes: its id, or \"deployed\".",
    ),
    row("num_class", &[], Kind::Classes, "counted from the labels", "The number of classes."),
    row(
        "quantile_alpha",
        &[],
        Kind::Quantiles,
        "none",
        "The quantile that objective reg:quantileerror predicts, 0.5 for the median, or several.",
    ),
    row(
        "tweedie_variance_power",
        &[],
        Kind::Number { min: 1.0, above: true, max: 2.0, below: true },
        "1.5",
        "For objective reg:tweedie: near 1 is a Poisson, near 2 a gamma distribution.",
    ),
    row(
        "huber_slope",
        &[],
        Kind::Number { min: 0.0, above: true, max: f64::INFINITY, below: false },
        "1",
        "For objective reg:pseudohubererror: the error at which the loss turns from a parabola into a line.",
    ),
    row("disable_default_eval_metric", &[], Kind::Flag, "false", "Compute only the metrics in eval_metric."),
    // Knowledge about the columns.
    row(
        "monotone_constraints",
        &[],
        Kind::Monotone,
        "none",
        "For each column: 1 if the prediction may only rise with the column's value, -1 if it may only fall, 0 for no constraint.",
    ),
    row(
        "interaction_constraints",
        &[],
        Kind::Interactions,
        "none",
        "Groups of columns: a path from the root to a leaf uses columns of one group only.",
    ),
    row(
        "max_cat_to_onehot",
        &[],
        count(1),
        "4",
        "Categorical columns with fewer categories are split one category against the rest.",
    ),
    row(
        "max_cat_threshold",
        &[],
        count(1),
        "64",
        "The maximum number of categories that a split of a categorical column sets apart.",
    ),
    // How trees are grown.
    row(
        "booster",
        &[],
        Kind::Choice(&["gbtree", "dart", "gblinear", "linear"]),
        "gbtree",
        "Trees, trees with dropout, or a linear model (\"linear\" means gblinear).",
    ),
    row(
        "tree_method",
        &[],
        Kind::Choice(&["auto", "hist", "approx", "exact", "gpu_hist"]),
        "auto, which is hist",
        "The method of the search for splits; approx and exact hold all rows in memory; gpu_hist means hist.",
    ),
    row(
        "grow_policy",
        &[],
        Kind::Choice(&["depthwise", "lossguide"]),
        "depthwise",
        "Whether the leaf nearest to the root (depthwise) or the leaf with the largest gain (lossguide) is split first.",
    ),
    // approx reserves memory for all of them, column by column, before it looks at a row.
    row(
        "max_bin",
        &[],
        Kind::Integer { min: 2, max: 65_536 },
        "256",
        "The number of bins into which hist and approx sort a column's values.",
    ),
    row(
        "num_parallel_tree",
        &[],
        count(1),
        "1",
        "The number of trees that each round grows, at most 10000 over all classes; in a random forest another name of n_estimators.",
    ),
    row(
        "multi_strategy",
        &[],
        Kind::Choice(&["one_output_per_tree", "multi_output_tree"]),
        "one_output_per_tree",
        "Whether each class has trees of its own, or each tree has leaves with a value for every class.",
    ),
    row(
        "updater",
        &[],
        Kind::Updater,
        "chosen by tree_method; shotgun for gblinear",
        "The steps that grow a tree (grow_colmaker, grow_histmaker, grow_quantile_histmaker, prune, refresh), or the \
         solver of a linear model (shotgun, coord_descent).",
    ),
    row("refresh_leaf", &[], Kind::Flag, "true", "Whether updater refresh renews the leaves too."),
    row(
        "process_type",
        &[],
        Kind::Choice(&["default"]),
        "default",
        "Whether trees are grown (default) or those of an earlier model are changed (update, which is not possible).",
    ),
    row(
        "max_cached_hist_node",
        &[],
        count(1),
        "no limit",
        "The number of nodes whose histograms hist keeps; a smaller number saves memory.",
    ),
    row("debug_synchronize", &[], Kind::Flag, "false", "Check that all workers grew the same tree."),
    // Trees with dropout.
    row(
        "sample_type",
        &[],
        Kind::Choice(&["uniform", "weighted"]),
        "uniform",
        "Booster dart: the method by which the trees to leave out are drawn.",
    ),
    row(
        "normalize_type",
        &[],
        Kind::Choice(&["tree", "forest"]),
        "tree",
        "Booster dart: the weight of a new tree, compared with the trees that were left out.",
    ),
    row("rate_drop", &[], fraction(), "0", "Booster dart: the share of trees that is left out of a round."),
    row("one_drop", &[], Kind::Flag, "false", "Booster dart: leave out at least one tree."),
    row("skip_drop", &[], fraction(), "0", "Booster dart: the probability that a round leaves no tree out."),
    // Linear models.
    row(
        "feature_selector",
        &[],
        Kind::Choice(&["cyclic", "shuffle", "random", "greedy", "thrifty"]),
        "cyclic",
        "Booster gblinear: the order in which coefficients are updated.",
    ),
    row(
        "top_k",
        &[],
        Kind::Integer { min: 0, max: u32::MAX as i64 },
        "0",
        "Booster gblinear: the number of coefficients that greedy and thrifty update; 0 for all.",
    ),
    row(
        "tolerance",
        &[],
        at_least(0.0),
        "0",
        "Booster gblinear: the training ends when no coefficient changes by more than this.",
    ),
    row(
        "max_row_perbatch",
        &[],
        count(1),
        "no limit",
        "Booster gblinear: the number of rows that are processed at once.",
    ),
    // Running.
    row(
        "seed",
        &["random_state"],
        Kind::Integer { min: i64::MIN, max: i64::MAX },
        "0",
        "The seed: the same data and the same seed give the same model.",
    ),
    row(
        "seed_per_iteration",
        &[],
        Kind::Flag,
        "false",
        "Whether the seed of each round is made from the seed and the number of the round.",
    ),
    row(
        "nthread",
        &["n_jobs"],
        Kind::Integer { min: -1, max: I32 },
        "pgml.omp_num_threads (1)",
        "The number of threads of the training; 0 or -1 for one for each processor.",
    ),
    row("device", &[], Kind::Choice(&["cpu"]), "cpu", "The device on which the training runs; only cpu is possible."),
    row(
        "verbosity",
        &[],
        Kind::Integer { min: 0, max: 3 },
        "1",
        "The level of the library's messages: none, warnings, information, or all.",
    ),
    // What is accepted so that an application can move over unchanged.
    row("predictor", &[], Kind::Ignored(REMOVED), "", "In older versions of XGBoost the choice of the predictor."),
    row(
        "sketch_eps",
        &[],
        Kind::Ignored(REMOVED),
        "",
        "In older versions of XGBoost the precision of approx; see max_bin.",
    ),
    row(
        "sketch_ratio",
        &[],
        Kind::Ignored(REMOVED),
        "",
        "In older versions of XGBoost the precision of approx; see max_bin.",
    ),
    row(
        "single_precision_histogram",
        &[],
        Kind::Ignored(REMOVED),
        "",
        "In older versions of XGBoost the precision of the sums of hist.",
    ),
    row(
        "deterministic_histogram",
        &[],
        Kind::Ignored(REMOVED),
        "",
        "In older versions of XGBoost whether a GPU's sums were reproducible.",
    ),
    row(
        "default_direction",
        &[],
        Kind::Ignored(REMOVED),
        "",
        "In older versions of XGBoost the side of a split to which missing values go, which is learnt now.",
    ),
    row(
        "enable_feature_grouping",
        &[],
        Kind::Ignored(REMOVED),
        "",
        "In older versions of XGBoost whether columns were bundled.",
    ),
    row("cache_opt", &[], Kind::Ignored(REMOVED), "", "In older versions of XGBoost an optimisation."),
    row("split_evaluator", &[], Kind::Ignored(REMOVED), "", "In older versions of XGBoost the evaluation of splits."),
    row(
        "silent",
        &[],
        Kind::Ignored(REMOVED),
        "",
        "In older versions of XGBoost whether the library was silent; see verbosity.",
    ),
    row("gpu_id", &[], Kind::Ignored(REMOVED), "", "In older versions of XGBoost the number of the GPU; see device."),
    row("n_gpus", &[], Kind::Ignored(REMOVED), "", "In older versions of XGBoost the number of GPUs; see device."),
    row(
        "enable_experimental_json_serialization",
        &[],
        Kind::Ignored(REMOVED),
        "",
        "In older versions of XGBoost the format of the model.",
    ),
    row(
        "fail_on_invalid_gpu_id",
        &[],
        Kind::Ignored("only the processor is possible"),
        "",
        "The behaviour when there is no GPU.",
    ),
    row(
        "validate_parameters",
        &[],
        Kind::Ignored("parameters are always validated"),
        "",
        "Whether unused parameters are reported.",
    ),
    row(
        "sparse_threshold",
        &[],
        Kind::Ignored("rows that are streamed are kept in one way only"),
        "",
        "The share of values below which a column is stored in sparse form.",
    ),
    row("num_feature", &[], Kind::Ignored(SETTLED), "", "The number of columns."),
    row("num_target", &[], Kind::Ignored(SETTLED), "", "The number of targets."),
    row("enable_categorical", &[], Kind::Ignored(SETTLED), "", "Whether text columns are categories; they are."),
    row("feature_types", &[], Kind::Ignored(SETTLED), "", "The types of the columns."),
    row(
        "importance_type",
        &[],
        Kind::Ignored(WRAPPER),
        "",
        "The kind of feature importance that the Python package shows.",
    ),
    row("verbose", &["verbose_eval"], Kind::Ignored(WRAPPER), "", "Whether the Python package prints metrics."),
    row("use_label_encoder", &[], Kind::Ignored(WRAPPER), "", "Whether the Python package encodes labels."),
    row("lambdarank_pair_method", &[], Kind::Ignored(RANKING), "", "For ranking: the method by which pairs are drawn."),
    row(
        "lambdarank_num_pair_per_sample",
        &[],
        Kind::Ignored(RANKING),
        "",
        "For ranking: the number of pairs that are drawn.",
    ),
    row("lambdarank_normalization", &[], Kind::Ignored(RANKING), "", "For ranking: whether gradients are normalised."),
    row(
        "lambdarank_score_normalization",
        &[],
        Kind::Ignored(RANKING),
        "",
        "For ranking: whether scores are normalised.",
    ),
    row(
        "lambdarank_unbiased",
        &[],
        Kind::Ignored(RANKING),
        "",
        "For ranking: whether clicks are corrected for position.",
    ),
    row(
        "lambdarank_bias_norm",
        &[],
        Kind::Ignored(RANKING),
        "",
        "For ranking: the regularisation of the correction for position.",
    ),
    row(
        "ndcg_exp_gain",
        &[],
        Kind::Ignored(RANKING),
        "",
        "For ranking: whether the gain is exponential in the relevance.",
    ),
    row(
        "aft_loss_distribution",
        &[],
        Kind::Ignored(SURVIVAL),
        "",
        "For survival:aft: the distribution of survival times.",
    ),
    row(
        "aft_loss_distribution_scale",
        &[],
        Kind::Ignored(SURVIVAL),
        "",
        "For survival:aft: the scale of the distribution of survival times.",
    ),
    // What would change the model silently if it were ignored.
    row("missing", &[], Kind::Refused("missing values are NULL"), "", "The value that means a missing value."),
    row(
        "feature_weights",
        &[],
        Kind::Refused("column weights are not possible here"),
        "",
        "The weight of each column when columns are drawn.",
    ),
    row(
        "callbacks",
        &[],
        Kind::Refused("callbacks are not possible here"),
        "",
        "Functions that are called in each round.",
    ),
];

/// Objectives with one number a row as label and as prediction.
pub(super) static REGRESSION_OBJECTIVES: &[&str] = &[
    "reg:squarederror",
    "reg:squaredlogerror",
    "reg:logistic",
    "reg:pseudohubererror",
    "reg:absoluteerror",
    "reg:quantileerror",
    "reg:gamma",
    "reg:tweedie",
    "count:poisson",
    "survival:cox",
    "binary:logistic",
    "binary:logitraw",
    "reg:linear",
];

/// Objectives for two classes.
pub(super) static BINARY_OBJECTIVES: &[&str] =
    &["binary:logistic", "binary:logitraw", "binary:hinge", "reg:logistic", "multi:softprob", "multi:softmax"];

/// Objectives for any number of classes.
pub(super) static MULTICLASS_OBJECTIVES: &[&str] = &["multi:softprob", "multi:softmax"];

/// The objectives of a task.
pub(super) fn objectives(task: Task) -> &'static [&'static str] {
    match task {
        Task::Regression => REGRESSION_OBJECTIVES,
        Task::Classification { classes: 2 } => BINARY_OBJECTIVES,
        Task::Classification { .. } => MULTICLASS_OBJECTIVES,
    }
}

/// Metrics, and whether an `@` and a number may or must follow.
pub(super) static METRICS: &[(&str, At)] = &[
    ("rmse", At::Never),
    ("rmsle", At::Never),
    ("mae", At::Never),
    ("mape", At::Never),
    ("mphe", At::Never),
    ("logloss", At::Never),
    ("error", At::May),
    ("merror", At::Never),
    ("mlogloss", At::Never),
    ("auc", At::Never),
    ("aucpr", At::Never),
    ("pre", At::May),
    ("map", At::May),
    ("ndcg", At::May),
    ("ams", At::Must),
    ("poisson-nloglik", At::Never),
    ("gamma-nloglik", At::Never),
    ("gamma-deviance", At::Never),
    ("cox-nloglik", At::Never),
    ("tweedie-nloglik", At::Must),
    ("quantile", At::Never),
];

/// Whether a metric takes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Never,
    May,
    Must,
}

/// The row of a name or alias.
pub(super) fn find(name: &str) -> Option<&'static Parameter> {
    TABLE.iter().find(|row| row.name == name || row.aliases.contains(&name))
}
