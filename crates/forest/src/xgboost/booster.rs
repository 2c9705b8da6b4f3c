//! The three boosters: `gbtree`, `dart` (a gbtree within, and a weight for each tree) and `gblinear`.

use crate::ensemble::{Linear, Node, Tree};
use crate::error::Result;
use crate::value::{At, shorten};
use crate::xgboost::tree;

pub(crate) struct Booster {
    pub(crate) trees: Vec<Tree>,
    pub(crate) linear: Option<Linear>,
    /// Whether the file has no round at all.
    pub(crate) untrained: bool,
}

impl Booster {
    fn of_trees(mut trees: Vec<Tree>, kept: usize) -> Self {
        let untrained = trees.is_empty();
        trees.truncate(kept);
        Self { trees, linear: None, untrained }
    }
}

/// What is to be read, and what the booster must agree with.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) num_features: u32,
    pub(crate) num_outputs: u32,
    /// The last round to keep.
    pub(crate) best_iteration: Option<usize>,
    /// Whether to keep the cover and the gain of each node.
    pub(crate) covers: bool,
}

impl Reader {
    pub(crate) fn read(self, booster: At<'_, '_>) -> Result<Booster> {
        let name = booster.field("name")?;
        match name.string()? {
            // Since 3.3 a dart is a gbtree with weights (3.4 moved them into the model), and a weight multiplies the leaf,
            // which can be done here once.
            "gbtree" => {
                let model = booster.field("model")?;
                let weights = model.get("weight_drop")?.or(booster.get("weight_drop")?);
                let mut booster = self.gbtree(model, weights)?;
                booster.trees.iter_mut().for_each(fold_weight);
                Ok(booster)
            }
            "dart" => {
                let weights = booster.field("weight_drop")?;
                let inner = booster.field("gbtree")?;
                self.gbtree(inner.field("model")?, Some(weights))
            }
            "gblinear" => gblinear(booster.field("model")?, self.num_features, self.num_outputs),
            other => Err(name.path.unsupported(format!("booster {:?}", shorten(other)))),
        }
    }

    fn gbtree(self, model: At<'_, '_>, weight_drop: Option<At<'_, '_>>) -> Result<Booster> {
        let Self { num_features, num_outputs, best_iteration, covers } = self;
        let params = model.field("gbtree_model_param")?;
        let list = model.field("trees")?;
        let items = list.items()?;
        let num_trees = params.field("num_trees")?;
        if num_trees.integer_text()? != items.len() as i64 {
            return Err(list.invalid(format!(
                "{} trees where num_trees is {}",
                items.len(),
                num_trees.integer_text()?
            )));
        }

        let info = model.field("tree_info")?;
        let outputs = info.ints()?;
        if outputs.len() != items.len() {
            return Err(info.invalid(format!("{} outputs for {} trees", outputs.len(), items.len())));
        }
        let weights = match weight_drop {
            None => None,
            Some(weight_drop) => {
                let weights = weight_drop.floats()?;
                if weights.len() != items.len() {
                    return Err(weight_drop.invalid(format!("{} weights for {} trees", weights.len(), items.len())));
                }
                Some(weights)
            }
        };

        // XGBoost puts each tree at the place that its id says.
        let mut trees: Vec<Option<Tree>> = Vec::new();
        trees.resize_with(items.len(), || None);
        for (i, value) in items.iter().enumerate() {
            let tree = At { value, path: list.path.index(i) };
            let place = match tree.get("id")? {
                None => i,
                Some(id) => {
                    let place = usize::try_from(id.integer_text()?).ok();
                    place.filter(|&place| place < items.len()).ok_or_else(|| id.invalid("no such place"))?
                }
            };
            let (Some(slot), Some(&output)) = (trees.get_mut(place), outputs.get(place)) else {
                return Err(tree.invalid("no such place"));
            };
            if slot.is_some() {
                return Err(tree.path.field("id").invalid("two trees of one id"));
            }
            let output = u32::try_from(output).ok().filter(|&output| output < num_outputs).ok_or_else(|| {
                info.path.index(place).invalid(format!("output {output} where there are {num_outputs}"))
            })?;
            let weight = weights.as_ref().and_then(|weights| weights.get(place)).copied();
            let tree::Nodes { nodes, covers, gains } = tree::read(tree, num_features, num_outputs, covers)?;
            *slot = Some(Tree { nodes, covers, gains, output, weight });
        }
        let trees: Vec<Tree> = trees.into_iter().flatten().collect();
        let kept = match best_iteration {
            None => trees.len(),
            Some(best) => trees_of_rounds(model, params, &trees, num_outputs, best.saturating_add(1))?,
        };
        Ok(Booster::of_trees(trees, kept))
    }
}

fn fold_weight(tree: &mut Tree) {
    let Some(weight) = tree.weight.take() else { return };
    for node in &mut tree.nodes {
        match node {
            Node::Leaf(leaf) => *leaf *= weight,
            Node::VectorLeaf(leaf) => leaf.iter_mut().for_each(|value| *value *= weight),
            Node::Numeric { .. } | Node::Categorical { .. } => {}
        }
    }
}

/// How many trees the first `rounds` rounds have: all of them if there are fewer rounds.
fn trees_of_rounds(
    model: At<'_, '_>,
    params: At<'_, '_>,
    trees: &[Tree],
    num_outputs: u32,
    rounds: usize,
) -> Result<usize> {
    let num_trees = trees.len();
    // Since 2.0 a file says where each round begins.
    if let Some(indptr) = model.get("iteration_indptr")? {
        let starts = indptr.ints()?;
        let Some(&end) = starts.get(rounds).or(starts.last()) else { return Ok(num_trees) };
        return match usize::try_from(end) {
            Ok(end) if end <= num_trees => Ok(end),
            _ => Err(indptr.invalid(format!("a round ends at tree {end} where there are {num_trees}"))),
        };
    }
    let parallel = match params.get("num_parallel_tree")? {
        None => 1,
        Some(param) => match usize::try_from(param.integer_text()?) {
            // 0 is what files of before the parameter existed may say.
            Ok(parallel) => parallel.max(1),
            Err(_) => return Err(param.invalid("a negative number of trees")),
        },
    };
    let vector = trees.iter().any(|tree| tree.nodes.iter().any(|node| matches!(node, Node::VectorLeaf(_))));
    let outputs = if vector { 1 } else { num_outputs as usize };
    Ok(rounds.saturating_mul(parallel).saturating_mul(outputs).min(num_trees))
}

fn gblinear(model: At<'_, '_>, num_features: u32, num_outputs: u32) -> Result<Booster> {
    let field = model.field("weights")?;
    let mut weights = field.floats()?;
    let split = (num_features as usize).saturating_mul(num_outputs as usize);
    if weights.len() != split.saturating_add(num_outputs as usize) {
        return Err(field.invalid(format!(
            "{} weights for {num_features} features, a bias and {num_outputs} outputs",
            weights.len()
        )));
    }
    let bias = weights.split_off(split);
    let untrained = match model.get("boosted_rounds")? {
        None => false,
        Some(rounds) => rounds.integer_text()? == 0,
    };
    Ok(Booster { trees: Vec::new(), linear: Some(Linear { weights, bias }), untrained })
}
