//! Looks up the names of servers on threads of their own, since the system's resolver blocks.
//!
//! A worker asks for the known addresses of a name; if there are none, a thread looks the name up and tells the workers
//! when it has the answer. Each look-up has a thread of its own, so that one name whose server does not answer delays
//! no other.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::config::Settings;
use crate::sync::lock;

/// The outcome of a search for a name's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// One of the addresses of the name, in turn; or the host itself, if it is no name.
    At(String),
    /// The name is being looked up.
    Pending,
    /// The name could not be looked up, for this reason.
    Failed(String),
}

/// The time for which the outcome of a look-up is good for those that have waited for it, however short the setting.
const HANDED_ON: Duration = Duration::from_millis(250);

#[derive(Debug)]
struct Name {
    addresses: Vec<IpAddr>,
    /// The reason why there are no addresses.
    failure: Option<String>,
    until: Instant,
    /// The time of the last look-up.
    learned: Option<Instant>,
    /// The time since when the name is being looked up.
    pending: Option<Instant>,
    next: usize,
}

/// A name as SHOW DNS_HOSTS shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The name.
    pub name: String,
    /// The time for which the addresses are still valid.
    pub left: Duration,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether the name is being looked up.
    pub pending: bool,
}

/// The names that are known.
#[derive(Debug, Default)]
pub struct Resolver {
    names: Mutex<HashMap<String, Name>>,
}

impl Resolver {
    /// Finds an address of `host`. If the name must be looked up, `begin` is called, once, to do so.
    pub fn find(&self, host: &str, settings: &Settings, now: Instant, begin: impl FnOnce()) -> Resolution {
        if host.is_empty() || host.starts_with('/') || host.parse::<IpAddr>().is_ok() {
            return Resolution::At(host.to_owned());
        }
        let mut names = lock(&self.names);
        let name = names.entry(host.to_owned()).or_insert_with(|| Name {
            addresses: Vec::new(),
            failure: None,
            until: now,
            learned: None,
            pending: None,
            next: 0,
        });
        if let Some(since) = name.pending {
            let late = settings.server_connect_timeout.limit().is_some_and(|limit| now - since >= limit);
            return if late {
                Resolution::Failed(format!("looking up \"{host}\" takes too long"))
            } else {
                Resolution::Pending
            };
        }
        if now < name.until || name.learned.is_some_and(|learned| now - learned < HANDED_ON) {
            if let Some(why) = &name.failure {
                return Resolution::Failed(why.clone());
            }
            if let Some(address) = name.addresses.get(name.next % name.addresses.len().max(1)) {
                name.next = name.next.wrapping_add(1);
                return Resolution::At(address.to_string());
            }
        }
        name.pending = Some(now);
        drop(names);
        begin();
        Resolution::Pending
    }

    /// Keeps the outcome of a look-up; whether the addresses are others than before.
    pub fn learn(&self, host: &str, outcome: io::Result<Vec<IpAddr>>, settings: &Settings, now: Instant) -> bool {
        let mut names = lock(&self.names);
        let Some(name) = names.get_mut(host) else { return false };
        (name.pending, name.learned) = (None, Some(now));
        match outcome {
            Ok(mut addresses) if !addresses.is_empty() => {
                let mut seen = std::collections::HashSet::new();
                addresses.retain(|address| seen.insert(*address));
                let changed =
                    !name.addresses.is_empty() && name.addresses.iter().any(|address| !addresses.contains(address));
                name.addresses = addresses;
                name.failure = None;
                name.until = now + settings.dns_max_ttl.0;
                changed
            }
            outcome => {
                let why = outcome.map_or_else(|error| error.to_string(), |_| "it has no address".to_owned());
                // The addresses stay: connections that are open are not closed because a look-up fails.
                name.failure = Some(format!("cannot look up \"{host}\": {why}"));
                name.until = now + settings.dns_nxdomain_ttl.0;
                false
            }
        }
    }

    /// A name is not being looked up after all.
    pub fn give_up(&self, host: &str) {
        if let Some(name) = lock(&self.names).get_mut(host) {
            name.pending = None;
        }
    }

    /// Whether a name that was looked up is to be looked up again.
    pub fn is_old(&self, host: &str, now: Instant) -> bool {
        lock(&self.names).get(host).is_some_and(|name| name.pending.is_none() && now >= name.until)
    }

    /// The addresses of a host, as far as they are known.
    pub fn addresses(&self, host: &str) -> Vec<IpAddr> {
        lock(&self.names).get(host).map(|name| name.addresses.clone()).unwrap_or_default()
    }

    /// The names that are known.
    pub fn known(&self, now: Instant) -> Vec<Known> {
        let mut known: Vec<Known> = lock(&self.names)
            .iter()
            .map(|(host, name)| Known {
                name: host.clone(),
                left: name.until.saturating_duration_since(now),
                addresses: name.addresses.clone(),
                pending: name.pending.is_some(),
            })
            .collect();
        known.sort_by(|a, b| a.name.cmp(&b.name));
        known
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::config::Seconds;

    fn found(addresses: &[&str]) -> io::Result<Vec<IpAddr>> {
        Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
    }

    #[test]
    fn names_are_looked_up_once_and_their_addresses_used_in_turn() {
        let resolver = Resolver::default();
        let mut settings = Settings { dns_max_ttl: Seconds::whole(100), ..Settings::default() };
        let (begun, mut now) = (Cell::new(0), Instant::now());
        let find =
            |host: &str, settings: &Settings, now| resolver.find(host, settings, now, || begun.set(begun.get() + 1));
        let twice = || found(&["10.0.0.1", "10.0.0.1", "::1"]);
        for literal in ["", "/tmp", "127.0.0.1", "::1"] {
            assert_eq!(find(literal, &settings, now), Resolution::At(literal.to_owned()));
        }
        assert_eq!(find("two", &settings, now), Resolution::Pending);
        assert_eq!(find("two", &settings, now), Resolution::Pending);
        assert_eq!(begun.get(), 1, "nobody looks up what is being looked up");
        assert!(!resolver.learn("two", twice(), &settings, now), "the first answer is no change");
        let given: Vec<Resolution> = (0..3).map(|_| find("two", &settings, now)).collect();
        assert_eq!(given, ["10.0.0.1", "::1", "10.0.0.1"].map(|at| Resolution::At(at.to_owned())));
        assert_eq!(begun.get(), 1);
        assert!(!resolver.is_old("two", now));
        // An old name is looked up again, and a change is reported.
        settings.dns_max_ttl = Seconds::whole(0);
        resolver.learn("two", twice(), &settings, now);
        assert!(resolver.is_old("two", now));
        assert!(matches!(find("two", &settings, now), Resolution::At(_)), "those who waited for it use it");
        now += HANDED_ON;
        assert_eq!(find("two", &settings, now), Resolution::Pending);
        assert!(resolver.learn("two", found(&["10.0.0.9"]), &settings, now));
        assert_eq!(resolver.known(now)[0].addresses, ["10.0.0.9".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_failure_is_remembered_and_one_that_hangs_is_told() {
        let (resolver, mut now) = (Resolver::default(), Instant::now());
        let mut settings = Settings { dns_nxdomain_ttl: Seconds::whole(100), ..Settings::default() };
        assert_eq!(resolver.find("none", &settings, now, || ()), Resolution::Pending);
        settings.server_connect_timeout = Seconds::whole(1);
        now += Duration::from_secs(1);
        assert_eq!(
            resolver.find("none", &settings, now, || ()),
            Resolution::Failed("looking up \"none\" takes too long".to_owned())
        );
        assert!(!resolver.learn("none", Err(io::Error::other("nobody knows it")), &settings, now));
        let failed = Resolution::Failed("cannot look up \"none\": nobody knows it".to_owned());
        assert_eq!(resolver.find("none", &settings, now, || unreachable!()), failed);
    }
}
