//! Files written by XGBoosts of 1.7 to 3.4 are read and answer what the XGBoost that wrote them answered.
//!
//! tests/models/README.md says how the files were made.

#![allow(clippy::panic, clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Booster, DMatrix, Spec, hostile_rows, random_model};
use forest::ensemble::Node;
use forest::xgboost;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models")
}

/// Name, the format to save in, and what to train; `None` for versions that cannot.
fn specs(version: (u32, u32)) -> Vec<(&'static str, &'static str, Spec)> {
    let small = || Spec { features: 5, rows: 100, depth: 2, rounds: 3, ..Spec::default() };
    let mut specs = vec![
        ("regression", "ubj", small()),
        ("regression-text", "json", small()),
        ("logistic", "json", Spec { objective: "binary:logistic", ..small() }),
        ("logitraw", "ubj", Spec { objective: "binary:logitraw", ..small() }),
        ("hinge", "ubj", Spec { objective: "binary:hinge", ..small() }),
        ("poisson", "ubj", Spec { objective: "count:poisson", ..small() }),
        ("aft", "ubj", Spec { objective: "survival:aft", ..small() }),
        ("ndcg", "ubj", Spec { objective: "rank:ndcg", ..small() }),
        ("softprob", "json", Spec { objective: "multi:softprob", outputs: 3, ..small() }),
        ("softmax", "ubj", Spec { objective: "multi:softmax", outputs: 3, num_parallel_tree: 2, ..small() }),
        ("dart", "ubj", Spec { booster: "dart", ..small() }),
        ("dart-text", "json", Spec { booster: "dart", objective: "multi:softprob", outputs: 3, ..small() }),
        ("linear", "ubj", Spec { booster: "gblinear", ..small() }),
        ("linear-text", "json", Spec { booster: "gblinear", objective: "binary:logistic", ..small() }),
        ("categories", "ubj", Spec { categorical: 0.7, ..small() }),
        ("categories-text", "json", Spec { categorical: 0.7, ..small() }),
        ("targets", "ubj", Spec { outputs: 3, depth: 2, ..small() }),
    ];
    if version >= (2, 0) {
        specs.push(("quantiles", "ubj", Spec { objective: "reg:quantileerror", outputs: 2, ..small() }));
        specs.push(("vectors", "ubj", Spec { outputs: 3, vector_leaves: true, ..small() }));
        specs.push(("vectors-text", "json", Spec { outputs: 2, vector_leaves: true, ..small() }));
    }
    if version >= (3, 3) {
        specs.push(("expectiles", "ubj", Spec { objective: "reg:expectileerror", outputs: 3, ..small() }));
    }
    specs
}

/// Writes tests/models for the library that `HOWDAH_XGBOOST_LIB` names.
#[test]
#[ignore = "writes files; see tests/models/README.md"]
fn write_models() {
    let (major, minor, patch) = common::version();
    let folder = folder().join(format!("{major}.{minor}.{patch}"));
    fs::create_dir_all(&folder).expect("a folder");
    for (seed, (name, format, spec)) in specs((major, minor)).into_iter().enumerate() {
        let model = random_model(seed as u64, &spec);
        let rows = hostile_rows(seed as u64, 12, &model, &[]);
        // Not every version takes infinities.
        let rows: Vec<f32> = rows.iter().map(|x| if x.is_infinite() { f32::MAX.copysign(*x) } else { *x }).collect();
        let margins = model.predict(&rows, true).expect("margins");
        let values = model.predict(&rows, false).expect("predictions");
        let mut text = String::new();
        for i in 0..12 {
            let line = |all: &[f32]| {
                let width = all.len() / 12;
                all[i * width..][..width].iter().map(|x| format!("{x:?}")).collect::<Vec<_>>().join(" ")
            };
            writeln!(text, "{} | {} | {}", line(&rows), line(&margins), line(&values)).expect("text");
        }
        fs::write(folder.join(format!("{name}.{format}")), if format == "ubj" { &model.ubj } else { &model.json })
            .expect("a model");
        fs::write(folder.join(format!("{name}.txt")), text).expect("predictions");
    }
}

struct Line {
    row: Vec<f32>,
    margins: Vec<f32>,
    values: Vec<f32>,
}

fn lines(text: &str) -> Vec<Line> {
    let floats = |part: &str| part.split_whitespace().map(|x| x.parse().expect("a number")).collect::<Vec<f32>>();
    let line = |line: &str| {
        let mut parts = line.split('|').map(floats);
        let mut part = || parts.next().expect("three parts");
        Line { row: part(), margins: part(), values: part() }
    };
    text.lines().map(line).collect()
}

fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}

#[test]
fn files_of_other_versions_answer_as_they_did() {
    let mut files = 0;
    // The tests can be pointed at other versions, which add up a dart in another way.
    let current = matches!(common::version(), (3, 2, _));
    for version in ["1.7.6", "2.1.4", "3.0.5", "3.1.3", "3.2.0", "3.3.0", "3.4.1"] {
        let newer = version >= "3.3";
        for entry in fs::read_dir(folder().join(version)).expect("tests/models") {
            let path = entry.expect("a file").path();
            if path.extension().is_some_and(|extension| extension == "txt") {
                continue;
            }
            files += 1;
            let name = path.display();
            let file = fs::read(&path).expect("a file");
            let ensemble = xgboost::read(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
            // XGBoost 3.2 dies of a segmentation fault on files with vector leaves of before 3.2, and takes no notice
            // of the weights of a dart of after.
            let vectors = ensemble.trees.iter().flat_map(|t| &t.nodes).any(|n| matches!(n, Node::VectorLeaf(_)));
            let now = if vectors || newer || !current { None } else { Some(Booster::load(&file).expect("a model")) };
            for line in lines(&fs::read_to_string(path.with_extension("txt")).expect("predictions")) {
                let mut out = vec![0.0; ensemble.num_outputs as usize];
                ensemble.margin(&line.row, &mut out);
                assert!(same(&out, &line.margins), "{name}: {out:?}, XGBoost {:?}, row {:?}", line.margins, line.row);
                if let Some(now) = &now {
                    let columns = line.row.len();
                    let now = match ensemble.linear {
                        None => now.predict(&line.row, columns, true, 0),
                        Some(_) => now.predict_dmatrix(&DMatrix::new(&line.row, columns).expect("a row"), true),
                    };
                    assert!(now.as_ref().is_ok_and(|now| same(&out, now)), "{name}: {out:?}, XGBoost now {now:?}");
                }
                let count = ensemble.transform.apply(&mut out);
                assert!(same(&out[..count], &line.values), "{name}: {out:?}, XGBoost {:?}", line.values);
            }
        }
    }
    assert_eq!(files, 17 + 4 * 20 + 2 * 21);
}
