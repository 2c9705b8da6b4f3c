//! All clusterings and decompositions against scikit-learn's own, which `tests/groups/generate.py` wrote down.

use std::collections::HashMap;

use serde_json::Value;

use crate::families::testing::{data_set, fit_of, given, standardise, try_fit, unlabelled};
use crate::families::{FAMILIES, family};
use crate::family::{Control, Family, Meaning, Predict, Task};
use crate::metrics::{Clustering, Decomposition};

fn cases(kind: &str) -> Vec<Value> {
    let table: Value = serde_json::from_str(include_str!("../../../tests/groups/cases.json")).unwrap();
    table[kind].as_array().unwrap().clone()
}

fn rows_of(case: &Value) -> (Vec<f32>, usize) {
    let (mut features, width, _) = data_set(case["data"].as_str().unwrap());
    if case["standardised"].as_bool().unwrap() {
        standardise(&mut features, &mut [], width);
    }
    (features, width)
}

fn name_of(case: &Value) -> String {
    format!("{} of {} {}", case["algorithm"], case["data"], case["hyperparams"])
}

fn labels_of(case: &Value) -> Vec<i32> {
    let label = |letter: char| match letter {
        '-' => -1,
        '0'..='9' => letter as i32 - '0' as i32,
        'a'..='z' => letter as i32 - 'a' as i32 + 10,
        _ => letter as i32 - 'A' as i32 + 36,
    };
    case["labels"].as_str().unwrap().chars().map(label).collect()
}

fn predicted(model: &dyn Predict, features: &[f32]) -> Vec<i32> {
    let mut value = [0.0];
    let of = |row| {
        model.predict(row, &mut value);
        assert_eq!(value[0].fract(), 0.0);
        value[0] as i32
    };
    features.chunks(model.width()).map(of).collect()
}

/// The adjusted Rand index: 1 for the same groups, 0 for what chance would do.
fn agreement(a: &[i32], b: &[i32]) -> f64 {
    let pairs = |count: f64| count * (count - 1.0) / 2.0;
    let (mut both, mut of_a, mut of_b) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (a, b) in a.iter().zip(b) {
        *both.entry((*a, *b)).or_insert(0.0) += 1.0;
        *of_a.entry(*a).or_insert(0.0) += 1.0;
        *of_b.entry(*b).or_insert(0.0) += 1.0;
    }
    let sum = |counts: Vec<f64>| counts.into_iter().map(pairs).sum::<f64>();
    let together = sum(both.into_values().collect());
    let (of_a, of_b) = (sum(of_a.into_values().collect()), sum(of_b.into_values().collect()));
    let chance = of_a * of_b / pairs(a.len() as f64);
    let most = (of_a + of_b) / 2.0;
    if most == chance { 1.0 } else { (together - chance) / (most - chance) }
}

/// Metrics of a clustering by name.
fn metrics_of(features: &[f32], width: usize, labels: &[i32]) -> HashMap<&'static str, f64> {
    let mut metrics = Clustering::new(width, 0);
    for (row, label) in features.chunks(width).zip(labels) {
        metrics.add(row, *label).unwrap();
    }
    let all = metrics.all(&mut Control::new(&mut |_| Ok(()))).unwrap();
    all.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
}

/// Whether the case is of a family that is there.
fn agrees(case: &Value) -> Result<(), String> {
    let (features, width) = rows_of(case);
    let family = family(case["algorithm"].as_str().unwrap(), Task::Clustering).map_err(|error| error.to_string())?;
    let model = fit_of(family, &unlabelled(&features, width), &case["hyperparams"].to_string());
    assert_eq!(model.meaning(), Meaning::Cluster);
    let (found, wanted) = (predicted(model.as_ref(), &features), labels_of(case));
    let (agreement, least) = (agreement(&found, &wanted), case["agreement"].as_f64().unwrap());
    let same_noise = || found.iter().zip(&wanted).all(|(a, b)| (*a < 0) == (*b < 0));
    if agreement < least || (least == 1.0 && !same_noise()) {
        return Err(format!("{}: agreement {agreement}, not {least}", name_of(case)));
    }
    if let Some(wanted) = case["inertia"].as_f64() {
        let found = metrics_of(&features, width, &found)["inertia"];
        if found > wanted * if least > 0.95 { 1.0001 } else { 1.03 } {
            return Err(format!("{}: inertia {found}, scikit-learn's {wanted}", name_of(case)));
        }
    }
    Ok(())
}

#[test]
fn clusterings_agree_with_scikit_learn() {
    let faults: Vec<String> = cases("groups").iter().filter_map(|case| agrees(case).err()).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn metrics_of_clusterings_are_scikit_learns() {
    for case in cases("groups").iter().step_by(3).filter(|case| case["data"] != "digits") {
        let (features, width) = rows_of(case);
        let found = metrics_of(&features, width, &labels_of(case));
        // The silhouette is one of standardised columns: `metrics::clustering` has its test.
        for name in ["calinski_harabasz", "davies_bouldin"] {
            let wanted = case[name].as_f64().unwrap();
            assert!((found[name] - wanted).abs() < 1e-7 * wanted.abs().max(1.0), "{}: {name}", name_of(case));
        }
    }
}

#[test]
fn decompositions_agree_with_scikit_learn() {
    for case in cases("components") {
        let (features, width) = rows_of(&case);
        let family = family(case["algorithm"].as_str().unwrap(), Task::Decomposition).unwrap();
        let model = fit_of(family, &unlabelled(&features, width), &case["hyperparams"].to_string());
        assert_eq!(model.meaning(), Meaning::Components);
        let mut values = vec![0.0; model.values()];
        let mut metrics = Decomposition::new(width, model.values()).unwrap();
        for (index, row) in features.chunks(width).enumerate() {
            model.predict(row, &mut values);
            metrics.add(row, &values);
            if let Some(wanted) = case["first"].get(index) {
                assert_eq!(wanted.as_array().unwrap().len(), values.len(), "{}", name_of(&case));
                for (found, wanted) in values.iter().zip(wanted.as_array().unwrap()) {
                    let (found, wanted) = (f64::from(*found), wanted.as_f64().unwrap());
                    assert!(
                        (found - wanted).abs() < 1e-4 * wanted.abs().max(1.0),
                        "{}: {found} {wanted}",
                        name_of(&case)
                    );
                }
            }
        }
        let (found, wanted) = (metrics.cumulative_explained_variance().unwrap(), case["explained"].as_f64().unwrap());
        // Sums of the features as they are do not only say how they differ, so that two definitions are not the same.
        let margin = if family.name == "pca" { 1e-5 } else { 0.1 };
        assert!((found - wanted).abs() < margin, "{}: {found} {wanted}", name_of(&case));
    }
}

fn without_labels() -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().copied().filter(|family| !family.task.has_label())
}

#[test]
fn odd_rows_are_learnt_from_or_refused() {
    let rows: [(&str, Vec<f32>, usize); 6] = [
        ("one row", vec![1.0, 2.0], 2),
        ("two rows", vec![1.0, 2.0, 3.0, 4.0], 2),
        ("equal rows", vec![7.0; 120], 3),
        ("a constant column", (0..120).map(|i| if i % 2 == 0 { 5.0 } else { i as f32 }).collect(), 2),
        ("huge values", (0..120).map(|i| if i % 7 == 0 { 3e38 } else { -3e38 * (i % 2) as f32 }).collect(), 3),
        ("few different rows", (0..120).map(|i| (i % 3) as f32).collect(), 3),
    ];
    for family in without_labels() {
        let count =
            ["n_clusters", "n_components"].into_iter().find(|name| family.parameters.iter().any(|p| p.name == *name));
        for (name, features, width) in &rows {
            for clusters in [None, Some(1), Some(2), Some(3)] {
                let hyperparams = match (clusters, count) {
                    (Some(clusters), Some(count)) => format!("{{\"{count}\": {clusters}}}"),
                    _ => "{}".into(),
                };
                // Refused is fine: what is to be seen is that it ends, with an answer or a reason.
                if let Ok(model) = try_fit(family, &unlabelled(features, *width), &hyperparams) {
                    let mut values = vec![f32::NAN; model.values()];
                    for row in features.chunks(*width) {
                        model.predict(row, &mut values);
                        let whole = values.iter().all(|value| !value.is_nan());
                        assert!(whole, "{} of {name}: {values:?}", family.name);
                    }
                }
            }
        }
    }
}

#[test]
fn more_clusters_than_rows_are_refused() {
    let features = [1.0, 2.0, 3.0, 4.0, 5.0];
    for family in without_labels() {
        let Some(name) =
            ["n_clusters", "n_components"].into_iter().find(|name| family.parameters.iter().any(|p| p.name == *name))
        else {
            continue;
        };
        let refused = try_fit(family, &unlabelled(&features, 1), &format!("{{\"{name}\": 6}}"));
        let Err(error) = refused else { panic!("{} takes 6 clusters of 5 rows", family.name) };
        assert!(error.to_string().contains(name), "{}: {error}", family.name);
    }
}

#[test]
fn a_seed_means_the_same_model() {
    let (features, width, _) = data_set("wine");
    for family in without_labels().filter(|family| family.parameters.iter().any(|p| p.name == "random_state")) {
        let bytes = |seed: u64, hyperparams: &str| {
            let problem = crate::family::Problem { seed, ..unlabelled(&features, width) };
            let mut ask = |_| Ok(());
            let model =
                (family.fit)(&problem, &given(family, hyperparams).unwrap(), &mut Control::new(&mut ask)).unwrap();
            predicted_bits(crate::forms::open_new(&model).unwrap().as_ref(), &features)
        };
        assert_eq!(bytes(1, "{}"), bytes(1, "{}"), "{}", family.name);
        assert_eq!(bytes(1, "{\"random_state\": 5}"), bytes(2, "{\"random_state\": 5}"), "{}", family.name);
    }
}

fn predicted_bits(model: &dyn Predict, features: &[f32]) -> Vec<u32> {
    let mut values = vec![0.0; model.values()];
    let of = |row| {
        model.predict(row, &mut values);
        values.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    features.chunks(model.width()).flat_map(of).collect()
}

#[test]
fn a_training_ends_when_it_is_told_to() {
    let (features, width, _) = data_set("wine");
    for family in without_labels() {
        let mut ask = |_| Err(Box::new("enough") as crate::rows::Stop);
        let given = given(family, "{}").unwrap();
        let stopped = (family.fit)(&unlabelled(&features, width), &given, &mut Control::new(&mut ask));
        assert!(matches!(stopped, Err(crate::Error::Stopped(_))), "{}", family.name);
    }
}
