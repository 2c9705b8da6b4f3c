//! The names of categories, which XGBoost keeps in its files since 3.1 if it was trained from a data frame.

use std::collections::HashSet;

use super::document::Syntax;
use crate::error::Result;
use crate::value::{At, shorten};

/// For each feature the names of its categories, in the order of their codes, and `None` for one that has no categories or
/// does not name them. Empty where none does. Categories that are numbers have the number as their name.
///
/// # Errors
/// Those of [`super::read`].
pub fn categories(bytes: &[u8]) -> Result<Vec<Option<Vec<String>>>> {
    let value = Syntax::of(bytes)?.parse(bytes)?;
    let root = At::root(&value);
    let whole = root.get("Model")?;
    let learner = whole.as_ref().unwrap_or(&root).field("learner")?;
    let booster = learner.field("gradient_booster")?;
    // The trees of a dart are in a gbtree.
    let inner = booster.get("gbtree")?;
    let Some(model) = inner.as_ref().unwrap_or(&booster).get("model")? else { return Ok(Vec::new()) };
    let Some(categories) = model.get("cats")? else { return Ok(Vec::new()) };
    let Some(features) = categories.get("enc")? else { return Ok(Vec::new()) };
    let named = |(index, value)| names(At { value, path: features.path.index(index) });
    features.items()?.iter().enumerate().map(named).collect()
}

fn names(feature: At<'_, '_>) -> Result<Option<Vec<String>>> {
    let Some(values) = feature.get("values")? else { return Ok(None) };
    let names = match feature.get("offsets")? {
        Some(offsets) => match texts(values, offsets)? {
            Some(texts) => texts,
            None => return Ok(None),
        },
        None => values.doubles()?.into_iter().map(number).collect(),
    };
    let mut seen = HashSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(values.invalid(format!("category {:?} twice", shorten(twice))));
    }
    Ok((!names.is_empty()).then_some(names))
}

/// The texts between the offsets in one run of bytes. `None` for texts beyond ASCII: XGBoost 3.2 counts their letters where
/// it should count bytes if the data frame is one of pandas, and nothing tells these offsets, and the last bytes that are
/// missing, from right ones.
fn texts(values: At<'_, '_>, offsets: At<'_, '_>) -> Result<Option<Vec<String>>> {
    // XGBoost writes its bytes with a sign.
    let bytes: Vec<u8> = values.ints()?.into_iter().map(|byte| byte as u8).collect();
    if !bytes.is_ascii() {
        return Ok(None);
    }
    let ends = offsets.ints()?;
    let place = |index: usize| ends.get(index).and_then(|end| usize::try_from(*end).ok());
    let text = |index: usize| {
        let text = bytes.get(place(index)?..place(index + 1)?)?;
        std::str::from_utf8(text).ok().map(str::to_owned)
    };
    let count = ends.len().saturating_sub(1);
    (0..count)
        .map(|index| text(index).ok_or_else(|| offsets.path.index(index).invalid("no text between it and the next")))
        .collect::<Result<_>>()
        .map(Some)
}

/// As PostgreSQL prints it, of an integer at least.
fn number(value: f64) -> String {
    match value as f32 {
        short if f64::from(short) == value => short.to_string(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(features: &str) -> String {
        format!(r#"{{"learner":{{"gradient_booster":{{"model":{{"cats":{{"enc":{features}}}}}}}}}}}"#)
    }

    #[test]
    fn texts_and_numbers_are_names() {
        let known = categories(
            file(
                r#"[{"offsets":[],"values":[]},{"offsets":[0,3,5],"values":[114,101,100,103,114]},
                {"offsets":[0,3],"values":[103,114,-61,-68]},{"type":15,"values":[1,5,16777217]},{}]"#,
            )
            .as_bytes(),
        );
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(known, Ok(vec![None, names(&["red", "gr"]), None, names(&["1", "5", "16777217"]), None]));
        assert_eq!(categories(file("[]").as_bytes()), Ok(vec![]));
        assert_eq!(categories(br#"{"learner":{"gradient_booster":{"name":"gbtree"}}}"#), Ok(vec![]));
    }

    #[test]
    fn what_are_no_names_is_refused() {
        for features in [
            r#"[{"offsets":[0,9],"values":[114]}]"#,
            r#"[{"offsets":[1,0],"values":[114]}]"#,
            r#"[{"offsets":[-1,1],"values":[114]}]"#,
            r#"[{"offsets":[0,1,2],"values":[114,114]}]"#,
            r#"[{"values":[1,1]}]"#,
            r#"[{"values":["a"]}]"#,
            "[1]",
        ] {
            assert!(categories(file(features).as_bytes()).is_err(), "{features}");
        }
    }
}
