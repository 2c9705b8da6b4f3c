//! The values of a TOML file, in the form that the settings' own readers take.

use toml::Value as Toml;

/// A value as the settings' own readers take it.
pub fn text(value: &Toml) -> String {
    match value {
        Toml::String(text) => text.clone(),
        Toml::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// What is added to the error about an unknown key.
pub fn meant(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}
