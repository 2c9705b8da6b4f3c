//! The reference of hyperparameters is made from the table: `UPDATE=1 cargo test -p learn --test reference` writes it.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use learn::xgboost::{Kind, Params, Task};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/xgboost-hyperparameters.md");

fn page() -> String {
    let mut page = String::from(
        "# Hyperparameters of xgboost and xgboost_random_forest\n\n\
         The `hyperparams` of `pgml.train`, under XGBoost's own names or any of the others given here. Unknown names \
         and values out of range are errors before a row is read. Made from `crates/learn/src/xgboost/table.rs`.\n\n\
         | name | also | takes | default | what it does |\n|---|---|---|---|---|\n",
    );
    let code = |name: &&str| format!("`{name}`");
    let listed = |names: &[&str]| names.iter().map(code).collect::<Vec<_>>().join(", ");
    let ignored = |kind: Kind| matches!(kind, Kind::Ignored(_) | Kind::Refused(_));
    for row in Params::table().iter().filter(|row| !ignored(row.kind)) {
        let takes = match row.kind {
            Kind::Choice(words) => listed(words),
            kind => kind.allowed(),
        };
        let also = listed(row.aliases);
        page += &format!("| `{}` | {also} | {takes} | {} | {} |\n", row.name, row.default, row.about);
    }
    page += "\n## Objectives and metrics\n\n";
    for (tasks, task) in [
        ("Objectives of a regression", Task::Regression),
        ("of two classes", Task::Classification { classes: 2 }),
        ("of more classes", Task::Classification { classes: 3 }),
    ] {
        page += &format!("- {tasks}: {}.\n", listed(Params::objectives(task)));
    }
    page += &format!(
        "- Metrics for `eval_metric`: {}. A number may follow some of them, as in `error@0.7`, and has to follow `ams` \
         and `tweedie-nloglik`.\n",
        listed(&Params::metrics().collect::<Vec<_>>())
    );
    page += "\n## Names that are accepted or refused for a reason\n\nAccepted with a warning, since they change nothing here:\n\n";
    for row in Params::table() {
        if let Kind::Ignored(reason) = row.kind {
            page += &format!("- `{}`: {reason}.\n", row.name);
        }
    }
    page += "\nRefused:\n\n";
    for row in Params::table() {
        if let Kind::Refused(reason) = row.kind {
            page += &format!("- `{}`: {reason}.\n", row.name);
        }
    }
    page
}

#[test]
fn the_reference_says_what_the_table_says() {
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PATH, &page).unwrap();
    }
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(written == page, "docs/reference/xgboost-hyperparameters.md is not up to date: set UPDATE=1 and run again");
}
