//! Reading a configuration: its file in one of the formats, the files that this names, and whether it can be used.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::configuration::{Config, is_console};
use super::entries::Database;
use super::value::AuthType;
use super::{environment, ini, pgcat, toml_file, userlist};
use crate::hba::Hba;
use crate::ident::Ident;
use crate::io::ReadTls;

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

impl Config {
    /// Reads a file: a `pgbouncer.ini` unless its name ends in `.toml`; among those, a `pgcat.toml` by its `[pools]`.
    pub fn read(path: &Path, read_tls: ReadTls) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let complain = |message| Error::Content { path: path.to_owned(), message };
        let mut config = Self::parse(path, &text).map_err(complain)?;
        config.path = path.to_owned();
        config.files.insert(0, path.to_owned());
        config.read_passwords()?;
        config.check().map_err(complain)?;
        config.prepare(read_tls).map_err(complain)?;
        Ok(config)
    }

    /// Reads the text of a file, and what that includes. What is called neither `.ini` nor `.toml` is read as a
    /// `pgbouncer.ini`, since PgBouncer minds no name, but not without a word: it may be meant for another format.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, String> {
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
    pub fn prepare(&mut self, read_tls: ReadTls) -> Result<(), String> {
        let settings = &self.settings;
        if settings.auth_type == AuthType::Cert && !settings.client_tls_sslmode.verifies() {
            return Err("auth_type = cert: client_tls_sslmode must be verify-ca or verify-full".to_owned());
        }
        self.tls = read_tls(settings, &mut self.remarks)?;
        (self.hba, self.ident) = (Arc::default(), Arc::default());
        if settings.auth_type == AuthType::Hba {
            self.hba = named("auth_hba_file", &settings.auth_hba_file, Hba::read)?;
            if !settings.auth_ident_file.is_empty() {
                self.ident = named("auth_ident_file", &settings.auth_ident_file, Ident::read)?;
            }
            if let Some(map) = self.hba.maps().find(|map| !self.ident.has(map)) {
                return Err(format!("auth_hba_file: map={map}: there is no such map in auth_ident_file"));
            }
        }
        Ok(())
    }

    fn read_passwords(&mut self) -> Result<(), Error> {
        if self.settings.auth_file.is_empty() {
            return Ok(());
        }
        let path = PathBuf::from(&self.settings.auth_file);
        self.files.push(path.clone());
        let complain = |message| Error::Content {
            path: self.path.clone(),
            message: format!("auth_file = {}: {message}", self.settings.auth_file),
        };
        let text = std::fs::read_to_string(&path).map_err(|error| complain(format!("cannot read it: {error}")))?;
        let read = userlist::read(&text).map_err(complain)?;
        self.passwords.extend(read);
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let settings = &self.settings;
        if settings.listen_addr.0.is_empty() && settings.unix_socket_dir.is_empty() {
            return Err("neither listen_addr nor unix_socket_dir is set: nobody could connect".to_owned());
        }
        if let Some(name) = self.databases.keys().find(|name| is_console(name)) {
            return Err(format!(
                "database {name}: this name belongs to the console; give the entry another name, and dbname={name}"
            ));
        }
        if let Some(name) = self.auth_databases().find(|name| is_console(name)) {
            return Err(format!(
                "auth_dbname = {name}: this is the console, which runs no auth_query; give the name of a database"
            ));
        }
        let is_looked_up = |entry: &Database| {
            let user = entry.auth_user.as_ref().unwrap_or(&settings.auth_user);
            let place = entry.auth_dbname.as_ref().unwrap_or(&settings.auth_dbname);
            !user.is_empty() && place.is_empty()
        };
        if self.fallback.as_ref().is_some_and(is_looked_up) {
            self.remarks.push(
                "auth_user with the database * and without auth_dbname: passwords are looked up in whatever database a \
                 client names, so strangers can cause connections to servers; set auth_dbname"
                    .to_owned(),
            );
        }
        if self.databases.is_empty() && self.fallback.is_none() {
            self.remarks.push("no database is configured: only the console can be used".to_owned());
        }
        Ok(())
    }
}

/// Reads a file that a setting names.
fn named<T>(setting: &str, path: &str, read: fn(&str) -> Result<T, String>) -> Result<Arc<T>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{setting}: cannot read {path}: {error}"))?;
    read(&text).map(Arc::new).map_err(|error| format!("{setting}: {path}: {error}"))
}
