//! The servers of a database: `servers = [{host = ..., port = ..., role = ..., weight = ...}, ...]`.

use balancer::{Configured, MAX_SERVERS, Setup};
use toml::{Table, Value as Toml};

use super::nearest::nearest;
use super::toml_value::{meant, text};
use pooling::config::entries::Database;
use pooling::config::value::Value;

/// The keys of an entry of `servers`.
const SERVER_KEYS: &[&str] = &["host", "port", "role", "weight"];

/// Reads the list.
pub fn read(value: &Toml, section: &str) -> Result<Vec<Setup>, String> {
    let expected =
        || format!("[{section}] servers = {value}: expected a list of {{host = ..., port = ..., role = ...}}");
    let items = value.as_array().ok_or_else(expected)?;
    items.iter().map(|item| server(item.as_table().ok_or_else(expected)?, section)).collect()
}

fn server(item: &Table, section: &str) -> Result<Setup, String> {
    let mut setup = Setup { host: String::new(), port: 5432, role: Configured::Auto, weight: 1 };
    for (key, value) in item {
        let given = text(value);
        let outcome = match key.as_str() {
            "host" if given.is_empty() || given.contains(',') => Err("one name, address or folder of a Unix socket"),
            "host" => String::read(&given).map(|host| setup.host = host),
            "port" => u16::read(&given).map(|port| setup.port = port),
            "role" => Configured::read(&given).map(|role| setup.role = role),
            "weight" => given
                .parse()
                .ok()
                .filter(|weight| *weight <= 1_000_000)
                .map(|weight| setup.weight = weight)
                .ok_or("a whole number from 0 to 1000000"),
            _ => {
                let near = nearest(key, SERVER_KEYS.iter().copied());
                return Err(format!("[{section}] servers: a server has no key {key}{}", meant(near)));
            }
        };
        outcome.map_err(|expected| format!("[{section}] servers: {key} = {value}: expected {expected}"))?;
    }
    if setup.host.is_empty() {
        return Err(format!("[{section}] servers: a server has no host"));
    }
    Ok(setup)
}

/// Looks at the servers of an entry, and notes where a connection leads for which no server has been chosen: to the
/// one that is called the primary, or the first.
pub fn settle(entry: &mut Database, section: &str) -> Result<(), String> {
    let servers = &entry.servers;
    if servers.len() > MAX_SERVERS {
        return Err(format!("[{section}] has {} servers: {MAX_SERVERS} at most are supported", servers.len()));
    }
    if servers.iter().filter(|server| server.role == Configured::Primary).count() > 1 {
        return Err(format!("[{section}] has two primaries"));
    }
    for (number, server) in servers.iter().enumerate() {
        let same = |other: &Setup| other.host == server.host && other.port == server.port;
        if servers.iter().take(number).any(same) {
            return Err(format!("[{section}] has the server {}:{} twice", server.host, server.port));
        }
    }
    let first = servers.iter().find(|server| server.role == Configured::Primary).or(servers.first());
    if let Some(first) = first {
        (entry.hosts, entry.port) = (vec![first.host.clone()], Some(first.port));
    }
    Ok(())
}
