//! What speaks against a model that is deployed all the same: it is no better than a guess that looks at no feature.

use serde_json::{Map, Value};

/// Sentences about the metrics that a training has stored; none of a model that there is nothing to say against, or that
/// was measured on no rows.
pub fn of(metrics: &Map<String, Value>) -> Vec<String> {
    let mut doubts = Vec::new();
    let number = |name: &str| metrics.get(name).and_then(Value::as_f64);
    if let Some(r2) = number("r2").filter(|r2| *r2 <= 0.0) {
        doubts.push(format!("it is no better than the mean of the label (r2 {r2:.6})"));
    }
    if let Some(silhouette) = number("silhouette").filter(|silhouette| *silhouette < 0.0) {
        doubts.push(format!(
            "its rows are nearer to another cluster than to their own in the mean (silhouette {silhouette:.6}): scaled columns, \
             preprocess => '{{\"*\": {{\"scale\": \"standard\"}}}}', another number of clusters or another algorithm may part \
             them better"
        ));
    }
    let Some(classes) = metrics.get("classes").and_then(Value::as_object) else { return doubts };
    let count = |class: &Value, name: &str| class.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let there: Vec<(&String, f64, f64)> = classes
        .iter()
        .map(|(name, class)| (name, count(class, "rows"), count(class, "predicted")))
        .filter(|(_, rows, _)| *rows > 0.0)
        .collect();
    if let Some(class) = metrics.get("positive_class").and_then(Value::as_str)
        && !there.iter().any(|(name, ..)| *name == class)
    {
        doubts.push(format!("no row is of class \"{class}\", so f1, precision and recall say nothing"));
    }
    let rows: f64 = there.iter().map(|(_, rows, _)| rows).sum();
    let never: Vec<String> = there
        .iter()
        .filter(|(.., predicted)| *predicted == 0.0)
        .map(|(name, of_class, _)| format!("\"{name}\" ({of_class} of the {rows} rows)"))
        .collect();
    match never.len().checked_sub(MOST_NAMES) {
        _ if never.is_empty() => {}
        None | Some(0) => doubts.push(format!("it never predicts {}", never.join(", "))),
        Some(more) => {
            let named = never.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
            doubts.push(format!("it never predicts {named} and {}", learn::count(more, "more class")));
        }
    }
    if there.len() < 2 {
        return doubts;
    }
    let by_chance = 1.0 / there.len() as f64;
    // What is by chance may be a little more in binary fractions.
    if let Some(accuracy) = number("balanced_accuracy").filter(|accuracy| *accuracy <= by_chance + 1e-9) {
        doubts.push(format!("its balanced accuracy is that of chance ({accuracy:.6})"));
    }
    // Who ranks rows well may mean other probabilities, as with weights of classes.
    if number("roc_auc").is_some_and(|area| area >= RANKS_WELL) {
        return doubts;
    }
    let of_shares: f64 = there.iter().map(|(_, of_class, _)| -(of_class / rows) * (of_class / rows).ln()).sum();
    if let Some(loss) = number("log_loss").filter(|loss| *loss >= of_shares) {
        doubts.push(format!(
            "its probabilities are no better than the shares of the classes (log loss {loss:.6}, that of the shares \
             {of_shares:.6})"
        ));
    }
    doubts
}

/// The area under the ROC curve of a model that has learnt something, though its probabilities may be off.
const RANKS_WELL: f64 = 0.6;

/// Classes that are named at most.
const MOST_NAMES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn doubts(metrics: Value) -> Vec<String> {
        of(metrics.as_object().unwrap_or(&Map::new()))
    }

    #[test]
    fn there_is_nothing_against_a_model_that_knows_something() {
        let class = |rows: u32, predicted: u32| json!({"rows": rows, "predicted": predicted});
        assert!(doubts(json!({})).is_empty());
        assert!(doubts(json!({"r2": 0.1})).is_empty());
        let metrics = json!({"balanced_accuracy": 0.8, "log_loss": 0.3,
            "classes": {"a": class(5, 4), "b": class(5, 6), "c": class(0, 0)}});
        assert!(doubts(metrics).is_empty());
        let weighted = json!({"balanced_accuracy": 0.96, "roc_auc": 0.99, "log_loss": 0.15,
            "classes": {"fraud": class(1, 8), "ok": class(99, 92)}});
        assert!(doubts(weighted).is_empty());
    }

    #[test]
    fn a_guess_is_called_so() {
        assert_eq!(doubts(json!({"r2": -0.5})), ["it is no better than the mean of the label (r2 -0.500000)"]);
        assert!(doubts(json!({"silhouette": 0.1})).is_empty());
        assert!(
            doubts(json!({"silhouette": -0.1}))[0]
                .starts_with("its rows are nearer to another cluster than to their own")
        );
        let metrics = json!({"balanced_accuracy": 0.5, "log_loss": 0.7,
            "classes": {"fraud": {"rows": 1, "predicted": 0}, "ok": {"rows": 9, "predicted": 10}}});
        let found = doubts(metrics);
        assert_eq!(found.len(), 3, "{found:?}");
        let unseen = json!({"positive_class": "fraud",
            "classes": {"fraud": {"rows": 0, "predicted": 0}, "ok": {"rows": 9, "predicted": 9}}});
        assert_eq!(doubts(unseen), ["no row is of class \"fraud\", so f1, precision and recall say nothing"]);
        assert_eq!(found[0], "it never predicts \"fraud\" (1 of the 10 rows)");
    }
}
