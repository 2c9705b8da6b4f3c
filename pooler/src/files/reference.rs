//! The reference page of the configuration, made from the tables of settings and keys.

use std::fmt::Write;

use super::{ini, toml_file};
use pooling::config::entries::{Database, Key, User};
use pooling::config::settings::Settings;

/// The text of `docs/reference/pooler-settings.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# Settings of the pooler\n\
         \n\
         Made from the tables in the code by `howdah-pooler settings`; a test holds it to them.\n\
         \n\
         In `pgbouncer.ini` these stand under `[pgbouncer]`, in `howdah.toml` under `[pooler]`. An unknown setting is an\n\
         error in `howdah.toml`, and a line in the log for the other formats. Times are in seconds, fractions allowed;\n\
         on and off are `1` and `0`, or `true` and `false`. `SET` on the console and `RELOAD` change a setting if the\n\
         third column says yes; others need a restart.\n\
         \n\
         | setting | default | changes while running | meaning |\n\
         |---|---|---|---|\n",
    );
    let own = toml_file::defaults().show();
    for (shown, own) in Settings::default().show().iter().zip(own) {
        let mut default = code(&shown.default);
        if own.value != shown.default {
            let _ = write!(default, "; in `howdah.toml` {}", code(&own.value));
        }
        let changes = if shown.changeable { "yes" } else { "no" };
        let _ = writeln!(page, "| `{}` | {default} | {changes} | {} |", shown.name, sentence(shown.meaning));
    }
    page.push_str(
        "\n## Databases\n\
         \n\
         One `name = key=value key=value` each under `[databases]` in `pgbouncer.ini`, a section `[databases.NAME]` in\n\
         `howdah.toml`. The name `*` stands for all that have no entry.\n\
         \n",
    );
    keys(&mut page, Database::KEYS);
    page.push_str(
        "\n## Users\n\
         \n\
         One `name = key=value` each under `[users]` in `pgbouncer.ini`, a section `[users.NAME]` in `howdah.toml`, where\n\
         `password` is a key too: plain, an MD5 hash, or a SCRAM secret as `pg_authid` has it.\n\
         \n",
    );
    keys(&mut page, User::KEYS);
    page.push_str(
        "\n## The environment\n\
         \n\
         In the strings of `howdah.toml`, `${NAME}` is the environment variable of that name, which must be there;\n\
         `${NAME:-text}` is `text` when it is not there or empty; `$${` is a plain `${`.\n\
         \n\
         ## Settings without effect\n\
         \n\
         Of `pgbouncer.ini`: ",
    );
    let without: Vec<String> = ini::WITHOUT_EFFECT.iter().map(|name| format!("`{name}`")).collect();
    page.push_str(&without.join(", "));
    page.push_str(". Each is named in the log once.\n");
    page
}

fn keys(page: &mut String, keys: &[Key]) {
    page.push_str("| key | meaning |\n|---|---|\n");
    for key in keys {
        let _ = writeln!(page, "| `{}` | {} |", key.name, sentence(key.meaning));
    }
}

/// A comment in one line, fit for a table.
fn sentence(comment: &str) -> String {
    let lines: Vec<&str> = comment.lines().map(str::trim).collect();
    lines.join(" ").trim().replace('|', "\\|")
}

fn code(value: &str) -> String {
    if value.is_empty() { "empty".to_owned() } else { format!("`{value}`") }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use crate::files::{pgcat, toml_file};
    use pooling::config::Settings;

    /// The table of the guide: the settings whose defaults differ by format.
    fn by_format() -> String {
        let mut table =
            String::from("| setting | `pgbouncer.ini` | `pgcat.toml` | `howdah.toml` |\n|---|---|---|---|\n");
        let formats = [Settings::default().show(), pgcat::defaults().show(), toml_file::defaults().show()];
        let [ini, pgcat, howdah] = &formats;
        for ((ini, pgcat), howdah) in ini.iter().zip(pgcat).zip(howdah) {
            let values = [&ini.value, &pgcat.value, &howdah.value];
            if values.iter().any(|value| *value != values[0]) {
                let [a, b, c] = values.map(|value| super::code(value));
                let _ = writeln!(table, "| `{}` | {a} | {b} | {c} |", ini.name);
            }
        }
        table
    }

    #[test]
    fn the_guide_has_each_default_that_differs_by_format() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/pooler.md");
        let guide = std::fs::read_to_string(&path).unwrap_or_default();
        let table = by_format();
        assert!(guide.contains(&table), "docs/guide/pooler.md lacks this table:\n{table}");
    }

    #[test]
    fn the_page_in_the_documentation_is_this_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/pooler-settings.md");
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == super::page(),
            "docs/reference/pooler-settings.md is not what the code says: howdah-pooler settings > that file"
        );
    }
}
