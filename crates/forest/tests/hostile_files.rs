//! Whatever a file holds, reading it ends soon, in a model or in an error that says what and where, and takes no more
//! memory than the file is worth.

#![allow(clippy::panic, clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use common::{Random, Spec, handmade, random_model};
use forest::ensemble::Node;
use forest::{Ensemble, Error, Form, compile_as, xgboost};

/// The system's allocator, counting what this thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    let held = HELD.get() + change;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

// SAFETY: every call goes to the system's allocator as it is; counting touches nothing but two thread-local integers,
// which need no allocation of their own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both live while the bytes are copied.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads, and holds the reader to its bounds of time and memory.
fn read(file: &[u8]) -> Result<Ensemble, Error> {
    let (held, start) = (HELD.get(), Instant::now());
    PEAK.set(held);
    let result = xgboost::read(file);
    let (took, peak) = (start.elapsed(), (PEAK.get() - held) as usize);
    let megabytes = file.len().div_ceil(1 << 20).max(1) as u32;
    assert!(took < Duration::from_secs(2) * megabytes, "{took:?} for {} bytes", file.len());
    assert!(peak < 100 * file.len() + (1 << 20), "{peak} bytes of memory for a file of {}", file.len());
    result
}

/// Reads, and where that succeeds predicts: what was accepted must be safe to walk.
fn read_and_walk(file: &[u8]) -> bool {
    let Ok(ensemble) = read(file) else { return false };
    let mut out = vec![0.0; ensemble.num_outputs as usize];
    for x in [0.0, f32::NAN, f32::INFINITY, -1e30, 3.0] {
        ensemble.margin(&vec![x; (ensemble.num_features as usize).min(1000)], &mut out);
    }
    ensemble.transform.apply(&mut out);
    true
}

fn small_models() -> Vec<Vec<u8>> {
    let small = || Spec { features: 3, rows: 60, depth: 2, rounds: 2, ..Spec::default() };
    let specs = [
        small(),
        Spec { categorical: 1.0, ..small() },
        Spec { booster: "dart", objective: "multi:softprob", outputs: 2, ..small() },
        Spec { booster: "gblinear", ..small() },
        Spec { outputs: 2, vector_leaves: true, ..small() },
    ];
    let models = specs.iter().map(|spec| random_model(1, spec));
    models.flat_map(|model| [model.ubj, model.json]).collect()
}

#[test]
fn every_truncation_is_an_error() {
    for model in small_models() {
        assert!(read(&model).is_ok());
        for length in 0..model.len() {
            let error = read(&model[..length]).expect_err("a part of a model is none");
            assert!(matches!(error, Error::Syntax { .. } | Error::Format(_)), "{length} bytes: {error}");
        }
    }
}

#[test]
fn bytes_after_the_end_are_an_error() {
    for mut model in small_models() {
        model.push(b'}');
        assert!(matches!(read(&model), Err(Error::Syntax { .. })));
    }
}

#[test]
fn flipped_bytes_neither_panic_nor_hang() {
    let random = &mut Random::new(1);
    let models = small_models();
    let mut accepted = 0;
    for _ in 0..100_000 / models.len() {
        for model in &models {
            let mut file = model.clone();
            for _ in 0..random.between(1, 4) {
                let at = random.below(file.len());
                file[at] = match random.below(4) {
                    0 => file[at] ^ (1 << random.below(8)),
                    1 => *random.pick(b"0123456789-eE.,:[]{}\"NaZTFSUiIlLdD$#\xff\x7f\x80\0"),
                    2 => file[random.below(model.len())],
                    _ => random.bits() as u8,
                };
            }
            accepted += usize::from(read_and_walk(&file));
        }
    }
    // Both sides of the reader were met: a flipped digit of a leaf is a model too.
    assert!(accepted > 1000, "{accepted}");
}

#[test]
fn pieces_moved_about_neither_panic_nor_hang() {
    let random = &mut Random::new(2);
    let models = small_models();
    for _ in 0..2000 {
        for model in &models {
            let mut file = model.clone();
            let (from, to) = (random.below(file.len()), random.below(file.len()));
            let piece = file[from..(from + random.below(60)).min(file.len())].to_vec();
            let end = if random.chance(0.5) { to } else { (to + random.below(60)).min(file.len()) };
            file.splice(to..end, piece);
            read_and_walk(&file);
        }
    }
}

/// A model of two trees of three leaves, one output each, changed as text: what is replaced, by what, the error.
#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn a_contradiction_is_named_with_its_place() {
    const TREE: &str = "learner.gradient_booster.model.trees[0]";
    let sound = handmade::staircase("reg:squarederror", "5E-1", &[vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]]);
    assert!(read(sound.as_bytes()).is_ok());
    let cases = [
        (r#""learner":"#, r#""learned":"#, "learner: missing".to_owned()),
        (r#""gradient_booster":"#, r#""booster":"#, "learner.gradient_booster: missing".to_owned()),
        (
            r#""name":"gbtree""#,
            r#""name":"gbforest""#,
            "learner.gradient_booster.name: booster \"gbforest\" is not supported".to_owned(),
        ),
        (
            "reg:squarederror",
            "reg:novelty",
            "learner.objective.name: objective \"reg:novelty\" is not supported".to_owned(),
        ),
        (r#""num_target":"2""#, r#""num_target":"3""#, String::new()),
        (
            r#""num_target":"2""#,
            r#""num_target":"1""#,
            "learner.gradient_booster.model.tree_info[1]: output 1 where there are 1".to_owned(),
        ),
        (
            r#""num_target":"2""#,
            r#""num_target":"2147483647""#,
            "learner.learner_model_param.num_target: 2147483647 outputs in a file of".to_owned(),
        ),
        (
            r#""num_target":"2""#,
            r#""num_target":"-1""#,
            "learner.learner_model_param.num_target: -1 outputs in a file of".to_owned(),
        ),
        (
            r#""num_class":"0""#,
            r#""num_class":"1e9""#,
            "learner.learner_model_param.num_class: expected an integer, found \"1e9\"".to_owned(),
        ),
        (
            r#""boost_from_average":"0","num_class":"0","num_feature":"1""#,
            r#""num_feature":"-1""#,
            "learner.learner_model_param.num_feature: expected the number of features, between 0 and 2^30".to_owned(),
        ),
        (
            r#""boost_from_average":"0","num_class":"0","num_feature":"1""#,
            r#""num_feature":"1073741823""#,
            "learner.learner_model_param.num_feature: expected the number of features, between 0 and 2^30".to_owned(),
        ),
        (
            r#""boost_from_average":"0","num_class":"0","num_feature":"1""#,
            r#""num_feature":"0""#,
            format!("{TREE}.split_indices[0]: feature 0 where there are 0"),
        ),
        (
            r#""base_score":"5E-1""#,
            r#""base_score":"[1,2,3]""#,
            "learner.learner_model_param.base_score: 3 numbers for 2 outputs".to_owned(),
        ),
        (
            r#""base_score":"5E-1""#,
            r#""base_score":"half""#,
            "learner.learner_model_param.base_score: expected a number or an array of numbers, found \"half\""
                .to_owned(),
        ),
        (
            r#""base_score":"5E-1""#,
            r#""base_score":[5E-1]"#,
            "learner.learner_model_param.base_score: expected a string, found an array of numbers".to_owned(),
        ),
        (
            r#""num_trees":"2""#,
            r#""num_trees":"3""#,
            "learner.gradient_booster.model.trees: 2 trees where num_trees is 3".to_owned(),
        ),
        (
            r#""tree_info":[0,1]"#,
            r#""tree_info":[0]"#,
            "learner.gradient_booster.model.tree_info: 1 outputs for 2 trees".to_owned(),
        ),
        (
            r#""tree_info":[0,1]"#,
            r#""tree_info":[0,-1]"#,
            "learner.gradient_booster.model.tree_info[1]: output -1 where there are 2".to_owned(),
        ),
        (
            r#""tree_info":[0,1]"#,
            r#""tree_info":[0,"1"]"#,
            "learner.gradient_booster.model.tree_info[1]: expected an integer, found a string".to_owned(),
        ),
        (
            r#""tree_info":[0,1]"#,
            r#""tree_info":[0,1.5]"#,
            "learner.gradient_booster.model.tree_info[1]: expected an integer, found 1.5".to_owned(),
        ),
        (
            r#""tree_info":[0,1]"#,
            r#""tree_info":{}"#,
            "learner.gradient_booster.model.tree_info: expected an array of numbers, found an object".to_owned(),
        ),
        (r#""id":1"#, r#""id":0"#, "learner.gradient_booster.model.trees[1].id: two trees of one id".to_owned()),
        (r#""id":1"#, r#""id":2"#, "learner.gradient_booster.model.trees[1].id: no such place".to_owned()),
        (
            r#""left_children":[1,-1,3,-1,-1]"#,
            r#""left_children":[5,-1,3,-1,-1]"#,
            format!("{TREE}.left_children[0]: no node 5 among 5"),
        ),
        (
            r#""left_children":[1,-1,3,-1,-1]"#,
            r#""left_children":[1,-1,-7,-1,-1]"#,
            format!("{TREE}.left_children[2]: no node -7 among 5"),
        ),
        (
            r#""left_children":[1,-1,3,-1,-1]"#,
            r#""left_children":[1,-1,0,-1,-1]"#,
            format!("{TREE}.left_children[2]: node 0 has two parents or is its own ancestor"),
        ),
        (
            r#""left_children":[1,-1,3,-1,-1]"#,
            r#""left_children":[1,-1,2,-1,-1]"#,
            format!("{TREE}.left_children[2]: node 2 has two parents or is its own ancestor"),
        ),
        (
            r#""left_children":[1,-1,3,-1,-1]"#,
            r#""left_children":[1,-1,9223372036854775807,-1,-1]"#,
            format!("{TREE}.left_children[2]: no node 9223372036854775807 among 5"),
        ),
        (
            r#""left_children":[1,-1,3,-1,-1]"#,
            r#""left_children":[1,-1,9223372036854775808,-1,-1]"#,
            format!("{TREE}.left_children[2]: expected an integer, found 9223372036854775808"),
        ),
        (
            r#""left_children":[1,-1,3,-1,-1]"#,
            r#""left_children":[1,-1,3,-1]"#,
            format!("{TREE}.tree_param.num_nodes: 5 nodes, left_children has 4"),
        ),
        (
            r#""left_children":[1,-1,3,-1,-1]"#,
            r#""left_children":[]"#,
            format!("{TREE}.left_children: a tree without nodes"),
        ),
        (
            r#""right_children":[2,-1,4,-1,-1]"#,
            r#""right_children":[2,-1,3,-1,-1]"#,
            format!("{TREE}.right_children[2]: node 3 has two parents or is its own ancestor"),
        ),
        (
            r#""right_children":[2,-1,4,-1,-1]"#,
            r#""right_children":[-1,-1,4,-1,-1]"#,
            format!("{TREE}.right_children[0]: no node -1 among 5"),
        ),
        (
            r#""right_children":[2,-1,4,-1,-1]"#,
            r#""right_children":[2,-1,4]"#,
            format!("{TREE}.right_children: 3 elements where left_children has 5"),
        ),
        (
            r#""split_indices":[0,0,0,0,0]"#,
            r#""split_indices":[0,0,1,0,0]"#,
            format!("{TREE}.split_indices[2]: feature 1 where there are 1"),
        ),
        (
            r#""split_indices":[0,0,0,0,0]"#,
            r#""split_indices":[0,0,-1,0,0]"#,
            format!("{TREE}.split_indices[2]: feature -1 where there are 1"),
        ),
        (
            r#""split_indices":[0,0,0,0,0]"#,
            r#""split_indices":[0]"#,
            format!("{TREE}.split_indices: 1 elements where left_children has 5"),
        ),
        (
            r#""split_type":[0,0,0,0,0]"#,
            r#""split_type":[2,0,0,0,0]"#,
            format!("{TREE}.split_type[0]: a split of type 2 is not supported"),
        ),
        (
            r#""split_type":[0,0,0,0,0]"#,
            r#""split_type":[1,0,0,0,0]"#,
            format!("{TREE}.categories_nodes: nothing of node 0, which splits by category"),
        ),
        (
            r#""categories":[],"categories_nodes":[],"categories_segments":[],"categories_sizes":[],"default_left":[0,0,0,0,0],"id":0,"left_children":[1,-1,3,-1,-1],"#,
            r#""categories":[3,4],"categories_nodes":[0,2],"categories_segments":[0,1],"categories_sizes":[1,2],"default_left":[0,0,0,0,0],"id":0,"left_children":[1,-1,3,-1,-1],"#,
            String::new(),
        ),
        (
            r#""size_leaf_vector":"1""#,
            r#""size_leaf_vector":"2""#,
            format!("{TREE}.base_weights: 5 values for 5 nodes of 2"),
        ),
        (
            r#""size_leaf_vector":"1""#,
            r#""size_leaf_vector":"3""#,
            format!("{TREE}.tree_param.size_leaf_vector: leaves of 3 values where there are 2 outputs"),
        ),
        (
            r#""split_conditions":[1E0"#,
            r#""split_conditions":["1E0""#,
            format!("{TREE}.split_conditions[0]: expected a number, found a string"),
        ),
        (
            r#""feature_names":[]"#,
            r#""feature_names":["a","b"]"#,
            "learner.feature_names: 2 strings for 1 features".to_owned(),
        ),
        (
            r#""feature_names":[]"#,
            r#""feature_names":[1]"#,
            "learner.feature_names: expected an array of values, found an array of numbers".to_owned(),
        ),
        (
            r#""attributes":{}"#,
            r#""attributes":{"best_iteration":"soon"}"#,
            "learner.attributes.best_iteration: expected a round, found \"soon\"".to_owned(),
        ),
        (
            r#""attributes":{}"#,
            r#""attributes":{"best_iteration":1}"#,
            "learner.attributes.best_iteration: expected a string, found a number".to_owned(),
        ),
        (r#""version":["#, r#""version":[}"#, "malformed JSON at byte".to_owned()),
        (r#""version":["#, r#""version":[01,"#, "malformed JSON at byte".to_owned()),
        (r#""version":["#, r#""version":[2.,"#, "expected a digit, found ','".to_owned()),
        (r#""version":["#, r#""v":"\ud800","version":["#, "a lone surrogate in a string".to_owned()),
        (r#""version":["#, r#""v":"\x","version":["#, "expected an escape, found 'x'".to_owned()),
    ];
    for (from, to, expected) in cases {
        if expected.is_empty() {
            // Sound after the change, or changed in what is not read.
            assert!(read_and_walk(sound.replacen(from, to, 1).as_bytes()), "{to}");
            continue;
        }
        assert!(sound.contains(from), "{from}");
        let error = read(sound.replacen(from, to, 1).as_bytes()).expect_err(to).to_string();
        assert!(error.contains(&expected), "{to}: {error:?} is not {expected:?}");
    }
}

#[test]
fn contradictions_of_categories_are_named() {
    let model = random_model(1, &Spec { categorical: 1.0, rounds: 1, depth: 1, ..Spec::default() });
    let sound = String::from_utf8(model.json).expect("UTF-8");
    let list = |name: &str| {
        let start = sound.find(&format!("\"{name}\":[")).expect(name);
        let end = start + sound[start..].find(']').expect("the end") + 1;
        &sound[start..end]
    };
    let cases = [
        ("categories", r#""categories":[]"#, "categories_segments[0]: outside of the 0 categories"),
        ("categories", r#""categories":[16777216]"#, "categories[0]: category 16777216 is not between 0 and 2^24"),
        ("categories", r#""categories":[-1]"#, "categories[0]: category -1 is not between 0 and 2^24"),
        ("categories_segments", r#""categories_segments":[-1]"#, "categories_segments[0]: outside of the"),
        (
            "categories_segments",
            r#""categories_segments":[9223372036854775807]"#,
            "categories_segments[0]: outside of the",
        ),
        ("categories_sizes", r#""categories_sizes":[9223372036854775807]"#, "categories_segments[0]: outside of the"),
        (
            "categories_sizes",
            r#""categories_sizes":[1,1]"#,
            "categories_sizes: 2 elements where categories_nodes has 1",
        ),
        (
            "categories_nodes",
            r#""categories_nodes":[1]"#,
            "categories_nodes: nothing of node 0, which splits by category",
        ),
    ];
    for (name, to, expected) in cases {
        let text = sound.replacen(list(name), to, 1);
        // One category is enough for the cases of categories[0].
        let text = if to.contains("\"categories\":[") && !to.contains("[]") {
            text.replacen(list("categories_sizes"), r#""categories_sizes":[1]"#, 1)
        } else {
            text
        };
        let error = read(text.as_bytes()).expect_err(to).to_string();
        let place = "learner.gradient_booster.model.trees[0].";
        assert!(error.starts_with(place) && error.contains(expected), "{to}: {error:?} is not {expected:?}");
    }
    let swapped = sound
        .replacen(list("categories_nodes"), r#""categories_nodes":[0,0]"#, 1)
        .replacen(list("categories_sizes"), r#""categories_sizes":[1,1]"#, 1)
        .replacen(list("categories_segments"), r#""categories_segments":[0,0]"#, 1);
    let error = read(swapped.as_bytes()).expect_err("twice").to_string();
    assert!(error.ends_with("categories_nodes[1]: not in ascending order"), "{error}");
}

#[test]
fn claimed_lengths_reserve_nothing() {
    let claims = [i64::MAX, i64::MIN, -1, 1 << 60, 1 << 40, 1 << 32, (1 << 31) - 1, 1 << 20];
    for model in small_models().into_iter().step_by(2) {
        // Each length of the file is an L and eight bytes.
        let lengths: Vec<usize> = (0..model.len() - 9).filter(|&at| model[at..].starts_with(b"L\0\0\0\0\0")).collect();
        assert!(lengths.len() > 20);
        for at in lengths {
            for claim in claims {
                let mut file = model.clone();
                file[at + 1..at + 9].copy_from_slice(&claim.to_be_bytes());
                assert!(read(&file).is_err(), "length {claim} at {at}");
            }
        }
    }
    let claim = |head: &[u8], tail: &[u8]| [head, &(1i64 << 60).to_be_bytes(), tail].concat();
    for file in [
        claim(b"{L", b""),
        claim(b"{#L", b""),
        claim(b"{L\0\0\0\0\0\0\0\x01a[#L", b""),
        claim(b"{L\0\0\0\0\0\0\0\x01a[#L", &[b'Z'; 1000]),
        claim(b"{L\0\0\0\0\0\0\0\x01a[$d#L", b""),
        claim(b"{L\0\0\0\0\0\0\0\x01a[$Z#L", b"}"),
        claim(b"{L\0\0\0\0\0\0\0\x01a[$N#L", b"}"),
        claim(b"{L\0\0\0\0\0\0\0\x01a[$[#L", b"}"),
        claim(b"{L\0\0\0\0\0\0\0\x01aSL", b"}"),
        claim(b"{$d#L", b"}"),
    ] {
        let error = read(&file).expect_err("hostile");
        assert!(matches!(error, Error::Syntax { format: "UBJSON", .. }), "{error}");
    }
}

#[test]
fn claimed_features_reserve_nothing() {
    let sound = handmade::staircase("reg:squarederror", "5E-1", &[vec![1.0, 2.0, 3.0]]);
    let own = r#""boost_from_average":"0","num_class":"0","num_feature":"1""#;
    assert!(sound.contains(own));
    let claims = sound.replace(own, &own.replace(r#""num_feature":"1""#, r#""num_feature":"500000000""#));
    let before = HELD.get();
    PEAK.set(before);
    let ensemble = read(claims.as_bytes()).expect("a model of many features");
    for form in [Form::Auto, Form::Compact, Form::Wide, Form::Rank] {
        compile_as(&ensemble, b"", form).expect("it can be compiled");
    }
    assert!(PEAK.get() - before < 1 << 20, "{} bytes", PEAK.get() - before);
}

#[test]
fn many_tiny_values_are_an_error() {
    let million = 1_000_000;
    for (head, piece) in [
        (b"{\"a\":[".as_slice(), b"[],".as_slice()),
        (b"{L\0\0\0\0\0\0\0\x01a[", b"Z"),
        (b"{L\0\0\0\0\0\0\0\x01a[", b"[]"),
        (b"{L\0\0\0\0\0\0\0\x01a{", b"i\0Z"),
    ] {
        for count in [million / 4, 4 * million] {
            let error = read(&[head, &piece.repeat(count)].concat()).expect_err("hostile").to_string();
            let expected = if count > million { "too many values for a model of this size" } else { "expected" };
            assert!(error.contains(expected), "{count} of {piece:?}: {error}");
        }
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let million = 1_000_000;
    let ubj = |open: &[u8]| [b"{".as_slice(), &open.repeat(million)].concat();
    for file in [
        format!("{{\"a\":{}", "[".repeat(million)).into_bytes(),
        format!("{{\"a\":{}", "{\"a\":".repeat(million)).into_bytes(),
        ubj(b"L\0\0\0\0\0\0\0\x01a{"),
        [b"{L\0\0\0\0\0\0\0\x01a".as_slice(), &b"[".repeat(million)].concat(),
        [b"{L\0\0\0\0\0\0\0\x01a".as_slice(), &b"[#i\x01".repeat(million)].concat(),
    ] {
        let error = read(&file).expect_err("deep").to_string();
        assert!(error.ends_with("nested deeper than 64 levels"), "{error}");
    }
}

#[test]
fn what_is_no_model_is_said_so() {
    for (file, expected) in [
        (b"".as_slice(), "not a model file: it is empty"),
        (b" \n", "not a model file: it is empty"),
        (b"binf\0\0", "not a model file: it is of XGBoost's old binary format; save it again as JSON or UBJSON"),
        (b"\x80\x04\x95", "not a model file: it is neither JSON nor UBJSON"),
        (b"[1]", "not a model file: it is neither JSON nor UBJSON"),
        (b"{}", "learner: missing"),
        (b"{ \"learner\" : [] }", "learner: expected an object, found an array"),
        (
            b"{\"learner\":{\"learner_model_param\":null}}",
            "learner.learner_model_param: expected an object, found null",
        ),
        (b"{\"a\":\"\xff\"}", "malformed JSON at byte 6: not UTF-8"),
        (b"{\"a\":tru}", "malformed JSON at byte 5: expected a value, found 't'"),
        (b"{\"a\"", "malformed JSON at byte 4: expected ':', found the end of the file"),
        (b"{i\x01a?", "malformed UBJSON at byte 4: expected a value, found '?'"),
        (b"{i\x01a[$d#S", "malformed UBJSON at byte 8: expected a length, found 'S'"),
    ] {
        assert_eq!(read(file).expect_err("no model").to_string(), expected);
    }
}

#[test]
fn a_tree_as_deep_as_it_is_large_is_read() {
    let leaves: Vec<f32> = (0..50_000).map(|i| i as f32).collect();
    let model = handmade::staircase("reg:squarederror", "0E0", &[leaves]);
    let ensemble = read(model.as_bytes()).expect("a model");
    let mut out = [0.0];
    ensemble.margin(&[49_998.5], &mut out);
    assert_eq!(out, [49_998.0]);
}

#[test]
fn what_pruning_left_behind_is_dropped() {
    let sound = handmade::staircase("reg:squarederror", "0E0", &[vec![1.0, 2.0, 3.0]]);
    // The second split becomes a leaf; its children stay, pointing at no feature.
    let pruned = sound
        .replace("\"left_children\":[1,-1,3,-1,-1]", "\"left_children\":[1,-1,-1,-1,-1]")
        .replace("\"right_children\":[2,-1,4,-1,-1]", "\"right_children\":[2,-1,-1,-1,-1]")
        .replace("\"split_indices\":[0,0,0,0,0]", "\"split_indices\":[0,0,0,2147483647,2147483647]");
    let ensemble = read(pruned.as_bytes()).expect("a model");
    assert_eq!(ensemble.trees[0].nodes.len(), 3);
    let mut out = [0.0];
    ensemble.margin(&[7.0], &mut out);
    // What was the threshold is the leaf's value.
    assert_eq!(out, [2.0]);
}

/// Arrays of numbers stay in the file until a tree needs them, so that little is held beside the nodes.
#[test]
fn a_large_model_takes_little_more_memory_than_its_nodes() {
    let random = &mut Random::new(1);
    let leaves: Vec<Vec<f32>> = (0..500).map(|_| (0..1000).map(|_| random.unit() - 0.5).collect()).collect();
    let model = handmade::staircase("reg:squarederror", "0E0", &leaves);
    let held = HELD.get();
    PEAK.set(held);
    let start = Instant::now();
    let ensemble = xgboost::read(model.as_bytes()).expect("a model");
    let (took, peak) = (start.elapsed(), (PEAK.get() - held) as usize);
    let nodes = ensemble.trees.iter().map(|tree| tree.nodes.len()).sum::<usize>();
    assert_eq!(nodes, 500 * 1999);
    assert!(peak < nodes * size_of::<Node>() * 11 / 10, "{peak} bytes of memory for {nodes} nodes");
    assert!(took < Duration::from_secs(20), "{took:?} for {} bytes", model.len());
}
