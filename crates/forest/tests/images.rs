//! Images of every version that was ever written: those of today's predict what they predicted, those of others are
//! refused by their version, so that their owner compiles them anew.
//!
//! Each was compiled from the model of its name in tests/models/3.1.3, where the predictions are too.

#![allow(clippy::panic, clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::{Path, PathBuf};

use forest::{Forest, IMAGE_VERSION, ImageError, compile, xgboost};

const MODELS: [&str; 7] =
    ["regression.ubj", "softprob.json", "categories.ubj", "dart.ubj", "linear.ubj", "vectors.ubj", "hinge.ubj"];
const METADATA: &[u8] = b"{\"a\":1}";

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn image(version: u32, model: &str) -> PathBuf {
    tests().join(format!("images/{version}")).join(model).with_extension("image")
}

/// Writes those of today's version: to be done when it changes, once, and never again for the same version.
#[test]
#[ignore = "writes files"]
fn write_images() {
    for name in MODELS {
        let model = fs::read(tests().join("models/3.1.3").join(name)).expect("a model");
        let path = image(IMAGE_VERSION, name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let bytes = compile(&xgboost::read(&model).expect("a model"), METADATA).expect("an image");
        fs::write(path, bytes).expect("an image");
    }
}

fn floats(text: &str) -> Vec<f32> {
    text.split_whitespace().map(|x| x.parse().expect("a number")).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn images_of_today_predict_what_they_did() {
    for name in MODELS {
        let path = image(IMAGE_VERSION, name);
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let forest = Forest::open(bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(forest.metadata(), METADATA);
        let text = fs::read_to_string(tests().join("models/3.1.3").join(name).with_extension("txt")).expect("a text");
        let mut lines = 0;
        for line in text.lines() {
            let parts: Vec<Vec<f32>> = line.split('|').map(floats).collect();
            let [row, margins, values] = parts.as_slice() else { panic!("{name}: {line}") };
            let (mut margin, mut value) = (vec![0.0; forest.num_outputs()], vec![0.0; forest.num_values()]);
            forest.margin_row(row, &mut margin).expect("a row");
            forest.predict_row(row, &mut value).expect("a row");
            assert_eq!((bits(&margin), bits(&value)), (bits(margins), bits(values)), "{name}: {line}");
            lines += 1;
        }
        assert!(lines > 5);
    }
}

#[test]
fn images_of_other_versions_are_refused_by_their_version() {
    for version in 1..IMAGE_VERSION {
        for name in MODELS {
            let path = image(version, name);
            let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert_eq!(Forest::open(bytes).err(), Some(ImageError::Version { found: version }), "{}", path.display());
        }
    }
}
