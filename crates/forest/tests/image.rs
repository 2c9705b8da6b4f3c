//! A damaged image is refused, whatever the damage.

use forest::ensemble::{Node, Transform, Tree};
use forest::{Ensemble, Forest, ImageError, PredictError, compile};

fn stump() -> Ensemble {
    let split = Node::Numeric { feature: 1, threshold: 0.5, default_left: true, left: 1, right: 2 };
    let set = Node::Categorical { feature: 0, categories: vec![1, 40], default_left: false, left: 1, right: 2 };
    let leaves = [Node::Leaf(1.0), Node::Leaf(2.0)];
    let tree = |root| Tree {
        nodes: [vec![root], leaves.to_vec()].concat(),
        covers: Vec::new(),
        gains: Vec::new(),
        output: 0,
        weight: None,
    };
    Ensemble {
        num_features: 2,
        num_outputs: 1,
        base_margin: vec![0.5],
        trees: vec![tree(split.clone()), tree(split.clone()), tree(split.clone()), tree(split), tree(set)],
        linear: None,
        transform: Transform::Identity,
        objective: "reg:squarederror".to_owned(),
        feature_names: Vec::new(),
        feature_types: Vec::new(),
        attributes: Default::default(),
    }
}

#[test]
fn every_flipped_byte_is_refused() {
    let image = compile(&stump(), b"metadata").unwrap();
    Forest::open(image.as_slice()).unwrap();
    for i in 0..image.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut damaged = image.clone();
            damaged[i] ^= mask;
            assert!(Forest::open(damaged).is_err(), "byte {i} ^ {mask}");
        }
    }
}

#[test]
fn every_truncation_and_any_growth_is_refused() {
    let image = compile(&stump(), &[]).unwrap();
    for length in 0..image.len() {
        assert!(Forest::open(image[..length].to_vec()).is_err(), "{length} bytes");
    }
    let mut grown = image.clone();
    grown.push(0);
    let expected = image.len() as u64;
    assert_eq!(Forest::open(grown).unwrap_err(), ImageError::Length { expected, found: expected + 1 });
}

#[test]
fn an_image_that_was_checked_before_predicts_the_same_and_its_header_is_still_looked_at() {
    let image = compile(&stump(), b"metadata").unwrap();
    let checked = Forest::open(image.as_slice()).unwrap();
    // SAFETY: these very bytes have just been accepted.
    let again = unsafe { Forest::open_again(image.as_slice()) }.unwrap();
    assert_eq!(again.metadata(), checked.metadata());
    for row in [[0.0, 0.0], [1.0, 0.7], [f32::NAN, f32::NAN]] {
        let (mut one, mut other) = ([0.0], [0.0]);
        checked.predict_row(&row, &mut one).unwrap();
        again.predict_row(&row, &mut other).unwrap();
        assert_eq!(one, other);
    }
    for length in [0, 10, 63, 64, 100, image.len() - 1] {
        // SAFETY: what is refused by the length that the header tells is not looked at any further.
        assert!(unsafe { Forest::open_again(&image[..length]) }.is_err(), "{length} bytes");
    }
}

#[test]
fn an_image_of_another_version_is_told_from_a_damaged_one() {
    let mut image = compile(&stump(), &[]).unwrap();
    image[24] += 1;
    assert!(matches!(Forest::open(image).unwrap_err(), ImageError::Version { .. }));
    assert_eq!(Forest::open(b"something else".to_vec()).unwrap_err(), ImageError::Magic);
}

#[test]
fn equal_models_give_equal_images() {
    assert_eq!(compile(&stump(), b"m").unwrap(), compile(&stump(), b"m").unwrap());
}

#[test]
fn wrong_lengths_are_refused_and_write_nothing() {
    let forest = Forest::open(compile(&stump(), &[]).unwrap()).unwrap();
    let mut out = [7.0; 2];
    assert_eq!(forest.predict_row(&[0.0; 3], &mut out[..1]), Err(PredictError::Features { expected: 2, found: 3 }));
    assert_eq!(forest.margin_row(&[0.0; 2], &mut out), Err(PredictError::Output { expected: 1, found: 2 }));
    assert_eq!(forest.predict_batch(&[0.0; 3], &mut out), Err(PredictError::Rows { features: 2, found: 3 }));
    assert_eq!(forest.margin_batch(&[0.0; 6], &mut out), Err(PredictError::Output { expected: 3, found: 2 }));
    assert_eq!(out, [7.0; 2]);
    assert_eq!(forest.predict_batch(&[], &mut []), Ok(()));
}

#[test]
fn broken_ensembles_do_not_compile() {
    let leaf = Node::Leaf(0.0);
    let split = |feature, left, right| Node::Numeric { feature, threshold: 0.0, default_left: false, left, right };
    for (nodes, path) in [
        (vec![], "trees[0].nodes[0]"),
        (vec![split(0, 0, 1), leaf.clone()], "trees[0].nodes[0]"),
        (vec![split(0, 1, 1), leaf.clone()], "trees[0].nodes[1]"),
        (vec![split(0, 1, 9), leaf.clone()], "trees[0].nodes[9]"),
        (vec![split(2, 1, 2), leaf.clone(), leaf.clone()], "trees[0].nodes[0]"),
        (vec![Node::VectorLeaf(vec![0.0; 2])], "trees[0].nodes[0]"),
    ] {
        let mut ensemble = stump();
        ensemble.trees = vec![Tree { nodes, covers: Vec::new(), gains: Vec::new(), output: 0, weight: None }];
        let error = compile(&ensemble, &[]).unwrap_err().to_string();
        assert!(error.starts_with(path), "{error}");
    }
}
