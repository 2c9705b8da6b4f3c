//! The reference page of the configuration, made from the tables of settings and keys.

use std::fmt::Write;

use super::toml_file;
use pooling::config::entries::{Database, Key, User};
use pooling::config::settings::{Settings, WITHOUT_EFFECT};

/// The text of `docs/reference/pooler-settings.md`.
pub fn page() -> String {
    let mut page = String::from(
        "# Settings of the pooler\n\
         \n\
         `howdah-pooler settings` makes this page from the tables in the code; a test compares the two.\n\
         \n\
         In `pgbouncer.ini` the settings stand under `[pgbouncer]`, in `howdah.toml` under `[pooler]`. An unknown setting is\n\
         an error in `howdah.toml`, and a line in the log with the other formats. Times are in seconds, fractions allowed;\n\
         on and off are `1` and `0`, or `true` and `false`. `SET` on the console and `RELOAD` change a setting if the third\n\
         column says yes; a change of any other setting needs a restart.\n\
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
         A database is a line `name = key=value key=value` under `[databases]` in `pgbouncer.ini`, or a section\n\
         `[databases.NAME]` in `howdah.toml`. The name `*` stands for all databases without an entry of their own.\n\
         \n",
    );
    keys(&mut page, Database::KEYS);
    page.push_str(
        "\n## Users\n\
         \n\
         A user is a line `name = key=value` under `[users]` in `pgbouncer.ini`, or a section `[users.NAME]` in `howdah.toml`.\n\
         A section `[users.NAME]` can also have the key `password`: a plain password, an MD5 hash, or a SCRAM secret as in\n\
         `pg_authid`.\n\
         \n",
    );
    keys(&mut page, User::KEYS);
    page.push_str(
        "\n## The environment\n\
         \n\
         In the strings of `howdah.toml`, `${NAME}` is the value of the environment variable NAME, which must be set;\n\
         `${NAME:-text}` is `text` if the variable is unset or empty; `$${` is a literal `${`.\n\
         \n\
         ## Settings without effect\n\
         \n\
         These settings of `pgbouncer.ini` have no effect: ",
    );
    let without: Vec<String> = WITHOUT_EFFECT.iter().map(|name| format!("`{name}`")).collect();
    page.push_str(&without.join(", "));
    page.push_str(". The log names each of them once.\n");
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
