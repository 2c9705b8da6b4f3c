//! In whose name servers are asked.

use wire::md5;
use wire::scram::{Credential, Secret};

use crate::config::{Config, Database};
use crate::shared::{Shared, lock};

/// With what one logs in.
#[derive(Debug, Clone)]
pub(super) struct Account {
    pub user: String,
    /// The password as it is stored: plain or MD5.
    pub stored: Option<String>,
    /// The keys of a SCRAM secret, when its user has logged in.
    pub keys: Option<Credential>,
}

/// The accounts to try, in order: `monitor_user`, or the user of the entry's server connections; where neither is set,
/// `auth_user`, then those who have pools of their own here, then those who have logged in.
pub(super) fn accounts(
    shared: &Shared,
    config: &Config,
    name: &str,
    entry: &Database,
    seen: &[String],
) -> Vec<Account> {
    let settings = &config.settings;
    let some = |name: &String| (!name.is_empty()).then(|| name.clone());
    let asker = entry.monitor_user.clone().or_else(|| some(&settings.monitor_user)).or_else(|| entry.user.clone());
    let mut names: Vec<String> = match asker {
        Some(user) => vec![user],
        None => {
            let auth_user = entry.auth_user.clone().or_else(|| some(&settings.auth_user));
            let of_pools =
                config.users.iter().filter(|(_, user)| user.pool_sizes.contains_key(name)).map(|(name, _)| name);
            auth_user.into_iter().chain(of_pools.cloned()).chain(seen.iter().cloned()).collect()
        }
    };
    let mut known = Vec::new();
    names.retain(|name| {
        let fresh = !known.contains(name);
        known.push(name.clone());
        fresh
    });
    names.into_iter().map(|user| account(shared, config, entry, user)).collect()
}

fn account(shared: &Shared, config: &Config, entry: &Database, user: String) -> Account {
    let own = entry.password.clone().filter(|_| entry.user.as_ref().is_none_or(|of_entry| *of_entry == user));
    let stored = own.or_else(|| config.passwords.get(&user).cloned());
    let keys = stored.as_deref().and_then(Secret::read).and_then(|secret| {
        let client_key = lock(&shared.keys).get(&user).copied()?;
        Some(Credential::Keys { client_key, server_key: secret.server_key })
    });
    Account { user, stored: stored.filter(|stored| Secret::read(stored).is_none()), keys }
}

impl Account {
    /// The password, if it is known as it is.
    pub fn plain(&self) -> Option<&str> {
        self.stored.as_deref().filter(|stored| !md5::is_stored(stored))
    }

    /// What answers a request for an MD5 hash.
    pub fn hashed(&self) -> Option<String> {
        let stored = self.stored.as_deref()?;
        Some(if md5::is_stored(stored) { stored.to_owned() } else { md5::stored(&self.user, stored.as_bytes()) })
    }

    /// What answers a request for SCRAM.
    pub fn credential(&self) -> Option<Credential> {
        self.plain().map(|password| Credential::Password(password.as_bytes().to_vec())).or_else(|| self.keys.clone())
    }
}
