//! `howdah.toml`: `[pooler]` holds the settings, `[databases.NAME]` and `[users.NAME]` the rest. What is not known is
//! an error that names the nearest key.

use toml::{Table, Value as Toml};

use super::nearest::nearest;
use super::server_list;
use super::toml_value::{meant, text};
use pooling::config::configuration::Config;
use pooling::config::entries::{Database, User};
use pooling::config::settings::Settings;
use pooling::config::value::{AuthType, List, PoolMode, Seconds, Shutdown};

/// Where `howdah.toml` starts from, where that differs from PgBouncer: what one would choose today.
pub fn defaults() -> Settings {
    Settings {
        listen_addr: List(vec!["127.0.0.1".to_owned()]),
        pool_mode: PoolMode::Transaction,
        auth_type: AuthType::Scram,
        max_client_conn: 10_000,
        server_login_retry: Seconds::whole(1),
        sigterm: Shutdown::WaitForServers,
        autoreload: Seconds::whole(1),
        ..Settings::default()
    }
}

/// Reads a parsed `howdah.toml`.
pub fn read(table: &Table) -> Result<Config, String> {
    let mut config = Config { settings: defaults(), ..Config::default() };
    for (section, content) in table {
        let Toml::Table(content) = content else {
            return Err(format!(
                "{section} stands outside of a section: expected [pooler], [databases.NAME], [users.NAME]"
            ));
        };
        match section.as_str() {
            "pooler" => {
                for (key, value) in content {
                    let outcome = config.settings.set(key, &text(value));
                    judge(outcome, "pooler", key, value, Settings::NAMES.iter().copied())?;
                }
            }
            "databases" => {
                for (name, entry) in tables(content, section)? {
                    let database = read_database(name, entry)?;
                    if database.wildcard {
                        config.fallback = Some(database);
                    } else {
                        config.databases.insert(name.to_owned(), database);
                    }
                }
            }
            "users" => {
                for (name, entry) in tables(content, section)? {
                    let (user, password) = read_user(name, entry)?;
                    config.users.insert(name.to_owned(), user);
                    config.passwords.extend(password.map(|password| (name.to_owned(), password)));
                }
            }
            other => {
                let near = nearest(other, ["pooler", "databases", "users"]);
                return Err(format!("there is no section [{other}]{}", meant(near)));
            }
        }
    }
    Ok(config)
}

/// The entry of a database.
fn read_database(name: &str, entry: &Table) -> Result<Database, String> {
    let section = format!("databases.{name}");
    let mut database = Database { wildcard: name == "*", ..Database::default() };
    for (key, value) in entry {
        if key == "servers" {
            database.servers = server_list::read(value, &section)?;
            continue;
        }
        let outcome = database.set(key, &text(value));
        judge(outcome, &section, key, value, ["servers"].into_iter().chain(Database::names()))?;
    }
    if entry.contains_key("servers") {
        if let Some(key) = ["host", "port"].into_iter().find(|key| entry.contains_key(*key)) {
            return Err(format!("[{section}] has servers and {key}: expected one of them"));
        }
        if database.servers.is_empty() {
            return Err(format!("[{section}] servers is empty"));
        }
        server_list::settle(&mut database, &section)?;
    }
    Ok(database)
}

/// The entry of a user, and the password if there is one.
fn read_user(name: &str, entry: &Table) -> Result<(User, Option<String>), String> {
    let (mut user, mut password) = (User::default(), None);
    for (key, value) in entry {
        if key == "password" {
            password = Some(text(value));
            continue;
        }
        let outcome = user.set(key, &text(value));
        judge(outcome, &format!("users.{name}"), key, value, User::names().chain(["password"]))?;
    }
    Ok((user, password))
}

fn tables<'a>(content: &'a Table, section: &str) -> Result<Vec<(&'a str, &'a Table)>, String> {
    content
        .iter()
        .map(|(name, entry)| match entry {
            Toml::Table(entry) => Ok((name.as_str(), entry)),
            _ => Err(format!("[{section}] holds {name}, which is not a section: expected [{section}.NAME]")),
        })
        .collect()
}

fn judge(
    outcome: Option<Result<(), &'static str>>,
    section: &str,
    key: &str,
    value: &Toml,
    known: impl Iterator<Item = &'static str>,
) -> Result<(), String> {
    match outcome {
        Some(Ok(())) => Ok(()),
        Some(Err(expected)) => Err(format!("[{section}] {key} = {value}: expected {expected}")),
        None => Err(format!("[{section}] has no key {key}{}", meant(nearest(key, known)))),
    }
}
