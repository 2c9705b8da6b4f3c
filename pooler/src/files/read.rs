//! Reading a configuration: its file in one of the formats, the files that this names, and whether it can be used.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{environment, ini, pgcat, toml_file, userlist};
use crate::tls;
use pooling::config::configuration::{Config, is_console};
use pooling::config::entries::Database;
use pooling::config::value::AuthType;
use pooling::hba::Hba;
use pooling::ident::Ident;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file says something that is not understood.
    #[error("{path}: {message}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What, where and what was expected.
        message: String,
    },
}

/// Reads a file: a `pgbouncer.ini` unless its name ends in `.toml`; among those, a `pgcat.toml` by its `[pools]`.
pub fn read(path: &Path) -> Result<Config, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let complain = |message| Error::Content { path: path.to_owned(), message };
    let mut config = parse(path, &text).map_err(complain)?;
    config.path = path.to_owned();
    config.files.insert(0, path.to_owned());
    read_passwords(&mut config)?;
    config.complete_hubless().map_err(complain)?;
    check(&mut config).map_err(complain)?;
    prepare(&mut config).map_err(complain)?;
    Ok(config)
}

/// Reads the text of a file, and what that includes. What is called neither `.ini` nor `.toml` is read as a
/// `pgbouncer.ini`, since PgBouncer minds no name, but not without a word: it may be meant for another format.
pub fn parse(path: &Path, text: &str) -> Result<Config, String> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    if ending != Some("toml") {
        let remark = "the file is read as a pgbouncer.ini, since its name ends neither in .ini nor in .toml";
        return match (ending, ini::read(text, path)) {
            (Some("ini"), outcome) => outcome,
            (_, Err(message)) => Err(format!("{message} ({remark})")),
            (_, Ok(mut config)) => {
                config.remarks.insert(0, remark.to_owned());
                Ok(config)
            }
        };
    }
    let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    if table.contains_key("pools") {
        return pgcat::read(&table);
    }
    environment::put_in(&mut table, &|name| std::env::var(name).ok())?;
    toml_file::read(&table)
}

/// Reads the files that settings name, for TLS and who may come in; again after a setting was changed.
pub fn prepare(config: &mut Config) -> Result<(), String> {
    let settings = &config.settings;
    if settings.auth_type == AuthType::Cert && !settings.client_tls_sslmode.verifies() {
        return Err("auth_type = cert: client_tls_sslmode must be verify-ca or verify-full".to_owned());
    }
    config.tls = tls::read(settings, &mut config.remarks)?;
    (config.hba, config.ident) = (Arc::default(), Arc::default());
    if settings.auth_type == AuthType::Hba {
        config.hba = named("auth_hba_file", &settings.auth_hba_file, Hba::read)?;
        if !settings.auth_ident_file.is_empty() {
            config.ident = named("auth_ident_file", &settings.auth_ident_file, Ident::read)?;
        }
        if let Some(map) = config.hba.maps().find(|map| !config.ident.has(map)) {
            return Err(format!("auth_hba_file: map={map}: there is no such map in auth_ident_file"));
        }
    }
    Ok(())
}

fn read_passwords(config: &mut Config) -> Result<(), Error> {
    if config.settings.auth_file.is_empty() {
        return Ok(());
    }
    let path = PathBuf::from(&config.settings.auth_file);
    config.files.push(path.clone());
    let complain = |message| Error::Content {
        path: config.path.clone(),
        message: format!("auth_file = {}: {message}", config.settings.auth_file),
    };
    let text = std::fs::read_to_string(&path).map_err(|error| complain(format!("cannot read the file: {error}")))?;
    let read = userlist::read(&text).map_err(complain)?;
    config.passwords.extend(read);
    Ok(())
}

fn check(config: &mut Config) -> Result<(), String> {
    let folder = &config.settings.unix_socket_dir;
    if folder.starts_with('@') {
        return Err(format!("unix_socket_dir = {folder}: a socket without a file is not supported; name a folder"));
    }
    if folder.starts_with('/') {
        // An entry without a host means the socket there, as in PgBouncer.
        for entry in config.databases.values_mut().chain(config.fallback.as_mut()) {
            if entry.hosts.is_empty() && entry.servers.is_empty() {
                entry.hosts.push(String::new());
            }
            entry.hosts.iter_mut().filter(|host| host.is_empty()).for_each(|host| host.clone_from(folder));
        }
    }
    let settings = &config.settings;
    if settings.listen_addr.0.is_empty() && settings.unix_socket_dir.is_empty() {
        return Err("neither listen_addr nor unix_socket_dir is set: nobody could connect".to_owned());
    }
    if let Some(name) = config.databases.keys().find(|name| is_console(name)) {
        return Err(format!(
            "database {name}: this name belongs to the console; give the entry another name, and dbname={name}"
        ));
    }
    if let Some(name) = config.auth_databases().find(|name| is_console(name)) {
        return Err(format!(
            "auth_dbname = {name}: this is the console, which runs no auth_query; give the name of a database"
        ));
    }
    let is_looked_up = |entry: &Database| {
        let user = entry.auth_user.as_ref().unwrap_or(&settings.auth_user);
        let place = entry.auth_dbname.as_ref().unwrap_or(&settings.auth_dbname);
        !user.is_empty() && place.is_empty()
    };
    if config.fallback.as_ref().is_some_and(is_looked_up) {
        config.remarks.push(
            "auth_user with the database * and without auth_dbname: passwords are looked up in any database that a \
             client names, so unauthenticated clients can cause connections to servers; set auth_dbname"
                .to_owned(),
        );
    }
    let missing = config.auth_databases().filter(|name| config.database(name).is_none()).collect::<BTreeSet<_>>();
    let missing: Vec<String> = missing.into_iter().map(no_auth_database).collect();
    config.remarks.extend(missing);
    if !config.has_databases() {
        config.remarks.push("no database is configured: only the console can be used".to_owned());
    } else if nobody_can_log_in(config) {
        config.remarks.push(
            "no user can log in: there is no password (auth_file, or [users.NAME] in a howdah.toml), and no auth_user \
             that looks passwords up"
                .to_owned(),
        );
    }
    let unknown: BTreeSet<&str> = auth_users(config).filter(|user| !config.passwords.contains_key(*user)).collect();
    let remark = |user| {
        format!(
            "auth_user {user} has no password (auth_file, or [users.{user}] in a howdah.toml): the servers must \
             accept this user without a password"
        )
    };
    let remarks: Vec<String> = unknown.into_iter().map(remark).collect();
    config.remarks.extend(remarks);
    Ok(())
}

fn no_auth_database(name: &String) -> String {
    format!(
        "auth_dbname = {name}: there is no such database in the configuration, so no password can be looked up there, \
         and users without a password in the configuration cannot log in"
    )
}

/// Who looks passwords up.
fn auth_users(config: &Config) -> impl Iterator<Item = &str> {
    let of_entries = config.databases.values().chain(&config.fallback).filter_map(|entry| entry.auth_user.as_ref());
    of_entries.chain([&config.settings.auth_user]).map(String::as_str).filter(|user| !user.is_empty())
}

/// Whether a configuration gives no user a way to log in to a database.
pub fn nobody_can_log_in(config: &Config) -> bool {
    !matches!(config.settings.auth_type, AuthType::Any | AuthType::Hba)
        && config.passwords.is_empty()
        && auth_users(config).next().is_none()
}

/// Reads a file that a setting names.
fn named<T>(setting: &str, path: &str, read: fn(&str) -> Result<T, String>) -> Result<Arc<T>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{setting}: cannot read {path}: {error}"))?;
    read(&text).map(Arc::new).map_err(|error| format!("{setting}: {path}: {error}"))
}
