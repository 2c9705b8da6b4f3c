//! A model that gets an attribute, or is written as JSON, is the same model, whichever version wrote it.

#![allow(clippy::panic, clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::path::{Path, PathBuf};

use forest::Ensemble;
use forest::xgboost::{self, ReadOptions, document};

fn models() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    let entries =
        |folder: &Path| std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path());
    let versions = entries(&folder).filter(|path| path.is_dir());
    versions
        .flat_map(|version| entries(&version).collect::<Vec<_>>())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json" || extension == "ubj"))
        .collect()
}

fn read(bytes: &[u8], path: &Path) -> Ensemble {
    let options = ReadOptions { covers: true, ..ReadOptions::default() };
    xgboost::read_with(bytes, options).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn an_attribute_changes_nothing_else() {
    let models = models();
    assert!(models.len() > 100);
    for path in &models {
        let bytes = std::fs::read(path).expect("a file");
        let added = document::with_attribute(&bytes, "pgml", "{\"a\": \"é\"}").expect("an attribute");
        let mut expected = read(&bytes, path);
        expected.attributes.insert("pgml".to_owned(), "{\"a\": \"é\"}".to_owned());
        assert_eq!(format!("{:?}", read(&added, path)), format!("{expected:?}"), "{}", path.display());
    }
}

#[test]
fn a_model_as_json_is_the_same() {
    for path in &models() {
        let bytes = std::fs::read(path).expect("a file");
        let json = document::to_json(&bytes).expect("JSON");
        // By their text, since NaN equals nothing.
        assert_eq!(
            format!("{:?}", read(json.as_bytes(), path)),
            format!("{:?}", read(&bytes, path)),
            "{}",
            path.display()
        );
    }
}

#[test]
fn what_is_damaged_is_an_error_or_a_model() {
    for path in models().iter().filter(|path| path.to_string_lossy().contains("3.2.0")).take(12) {
        let bytes = std::fs::read(path).expect("a file");
        for end in (0..bytes.len()).step_by(bytes.len() / 97 + 1) {
            assert!(document::with_attribute(&bytes[..end], "a", "b").is_err());
            assert!(document::to_json(&bytes[..end]).is_err());
        }
    }
}
