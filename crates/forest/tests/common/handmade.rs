//! Model files put together by hand, where training cannot be made to give what a test needs.

/// A JSON model of one feature, one tree an output, as of the library's version, all of one shape: x < 1 goes to the first leaf, else x < 2 to the
/// second, and so on. `leaves` has one list an output, all equally long.
pub fn staircase(objective: &str, base_score: &str, leaves: &[Vec<f32>]) -> String {
    let trees: Vec<String> = leaves.iter().enumerate().map(|(id, leaves)| stairs(id, leaves)).collect();
    let outputs: Vec<String> = (0..leaves.len()).map(|o| o.to_string()).collect();
    let (count, outputs) = (leaves.len(), outputs.join(","));
    let (classes, targets) = if objective.starts_with("multi:") { (count, 1) } else { (0, count) };
    let params = if objective.starts_with("multi:") {
        format!(r#","softmax_multiclass_param":{{"num_class":"{classes}"}}"#)
    } else if objective == "survival:aft" {
        r#","aft_loss_param":{"aft_loss_distribution":"normal","aft_loss_distribution_scale":"1"}"#.to_owned()
    } else if objective.starts_with("rank:") {
        r#","lambdarank_param":{}"#.to_owned()
    } else if objective == "reg:pseudohubererror" {
        r#","pseudo_huber_param":{"huber_slope":"1"}"#.to_owned()
    } else if objective == "count:poisson" {
        r#","poisson_regression_param":{"max_delta_step":"0.7"}"#.to_owned()
    } else if objective == "reg:tweedie" {
        r#","tweedie_regression_param":{"tweedie_variance_power":"1.5"}"#.to_owned()
    } else if objective == "reg:quantileerror" {
        r#","quantile_loss_param":{"quantile_alpha":"[0.5]"}"#.to_owned()
    } else if objective == "reg:expectileerror" {
        format!(
            r#","expectile_loss_param":{{"expectile_alpha":"[{}]"}}"#,
            (1..=count).map(|i| format!("{:E}", i as f32 / 10.0)).collect::<Vec<_>>().join(",")
        )
    } else {
        r#","reg_loss_param":{"scale_pos_weight":"1"}"#.to_owned()
    };
    let (major, minor, patch) = super::version();
    format!(
        r#"{{"learner":{{"attributes":{{}},"feature_names":[],"feature_types":[],"gradient_booster":{{"model":{{"gbtree_model_param":{{"num_parallel_tree":"1","num_trees":"{count}"}},"iteration_indptr":[0,{count}],"tree_info":[{outputs}],"trees":[{}]}},"name":"gbtree"}},"learner_model_param":{{"base_score":"{base_score}","boost_from_average":"0","num_class":"{classes}","num_feature":"1","num_target":"{targets}"}},"objective":{{"name":"{objective}"{params}}}}},"version":[{major},{minor},{patch}]}}"#,
        trees.join(",")
    )
}

/// Node 2i is the split at i + 1, its left child 2i + 1 a leaf, its right child the next split; the last is a leaf.
fn stairs(id: usize, leaves: &[f32]) -> String {
    let steps = leaves.len() - 1;
    let nodes = 2 * steps + 1;
    let split = |node: usize| node.is_multiple_of(2) && node < 2 * steps;
    let list = |of: &dyn Fn(usize) -> String| (0..nodes).map(of).collect::<Vec<_>>().join(",");
    let child = |by: usize| list(&|node| if split(node) { (node + by).to_string() } else { "-1".to_owned() });
    let parents = list(&|node| match node {
        0 => "2147483647".to_owned(),
        _ if node.is_multiple_of(2) => (node - 2).to_string(),
        _ => (node - 1).to_string(),
    });
    let conditions = list(&|node| {
        if split(node) {
            number((node / 2 + 1) as f32)
        } else {
            number(leaves[if node == 2 * steps { steps } else { node / 2 }])
        }
    });
    let (zeros, floats) = (list(&|_| "0".to_owned()), list(&|_| "0E0".to_owned()));
    format!(
        r#"{{"base_weights":[{floats}],"categories":[],"categories_nodes":[],"categories_segments":[],"categories_sizes":[],"default_left":[{zeros}],"id":{id},"left_children":[{}],"loss_changes":[{floats}],"parents":[{parents}],"right_children":[{}],"split_conditions":[{conditions}],"split_indices":[{zeros}],"split_type":[{zeros}],"sum_hessian":[{floats}],"tree_param":{{"num_deleted":"0","num_feature":"1","num_nodes":"{nodes}","size_leaf_vector":"1"}}}}"#,
        child(1),
        child(2)
    )
}

/// As XGBoost writes a float32.
fn number(x: f32) -> String {
    if x.is_nan() {
        "NaN".to_owned()
    } else if x.is_infinite() {
        if x > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        format!("{x:E}")
    }
}
