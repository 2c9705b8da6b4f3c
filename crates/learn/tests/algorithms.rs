//! `docs/reference/algorithms.md` is made from the table of families: `UPDATE=1 cargo test -p learn --test algorithms`.

use std::fmt::Write;

use learn::families::FAMILIES;
use learn::family::{Family, Kind, Task};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/algorithms.md");

const HEAD: &str = "# Algorithms and their hyperparameters

The `algorithm` and the `hyperparams` of `pgml.train`, under scikit-learn's names and with its defaults. Unknown names and
values out of range are errors before a row is read. `xgboost` and `xgboost_random_forest`, for regression and
classification, have [a page of their own](xgboost-hyperparameters.md). In SQL, `pgml.hyperparameters()` gives the same. This
page is made from the table in `crates/learn/src/family/mod.rs`.

*Categories*: whether columns of text are taken as they are; otherwise each category becomes a feature (one-hot), unless
`preprocess` says otherwise. *Missing*: whether NULL is taken as a missing value; otherwise it is imputed, as
`preprocess` says or by the median. *Weights*: whether a column may give the weight of each row (the role `weight`). With such an algorithm, and with
XGBoost's, a classification also has the hyperparameter `class_weight`. `\"balanced\"` weighs each class by the inverse of its
frequency among the training rows, as scikit-learn's `compute_class_weight`. An object, such as `{\"spam\": 5}`, gives the weights
of classes; a class that the object does not name has the weight 1. Class weights are multiplied by the weights of the rows.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for task in Task::ALL {
        let families: Vec<&&Family> = FAMILIES.iter().filter(|family| family.task == task).collect();
        // Forecasts are not of families: docs/guide/forecasts.md has their hyperparameters.
        if families.is_empty() {
            continue;
        }
        let name = task.name();
        let _ = write!(page, "\n## {}{}\n\n", name[..1].to_uppercase(), &name[1..]);
        page.push_str("| algorithm | categories | missing | weights |\n|---|---|---|---|\n");
        for family in &families {
            let yes = |flag| if flag { "yes" } else { "" };
            let (categories, missing) = (yes(family.takes_categories), yes(family.takes_missing));
            let weights = yes(family.takes_weights);
            let _ = writeln!(page, "| `{}` | {categories} | {missing} | {weights} |", family.name);
        }
        for family in families {
            let _ = write!(page, "\n### {} ({name})\n\n", family.name);
            page.push_str("| name | takes | default | what it does |\n|---|---|---|---|\n");
            for parameter in family.parameters {
                let default = match parameter.kind {
                    Kind::Refused(_) => String::new(),
                    _ => format!("`{}`", parameter.default),
                };
                let allowed = parameter.kind.allowed().replace('|', "\\|");
                let _ = writeln!(page, "| `{}` | {allowed} | {default} | {} |", parameter.name, parameter.about);
            }
        }
    }
    page
}

#[test]
fn the_page_is_up_to_date() {
    let written = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PATH, &written).unwrap();
    }
    let page = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(written == page, "docs/reference/algorithms.md is not up to date: set UPDATE=1 and run again");
}

#[test]
fn every_default_is_allowed_and_every_sentence_ends() {
    for family in FAMILIES {
        for parameter in family.parameters {
            let at = format!("{} {} {}", family.name, family.task.name(), parameter.name);
            assert!(
                serde_json::from_str::<serde_json::Value>(parameter.default).is_ok(),
                "{at}: {}",
                parameter.default
            );
            assert!(parameter.about.ends_with('.'), "{at}: {}", parameter.about);
        }
        let names: Vec<&str> = family.parameters.iter().map(|parameter| parameter.name).collect();
        let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
        assert_eq!(twice, None, "{}", family.name);
    }
}
