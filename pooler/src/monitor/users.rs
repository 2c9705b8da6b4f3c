//! The users as whom health checks log in.

use pooling::config::{Config, Database};

/// The users to try, in order: `monitor_user`, or the user of the entry's server connections; where neither is set,
/// `auth_user`, then those who have pools of their own here, then those who have logged in.
pub(super) fn users(config: &Config, name: &str, entry: &Database, seen: &[String]) -> Vec<String> {
    let settings = &config.settings;
    let some = |name: &String| (!name.is_empty()).then(|| name.clone());
    let asker = entry.monitor_user.clone().or_else(|| some(&settings.monitor_user)).or_else(|| entry.user.clone());
    if let Some(user) = asker {
        return vec![user];
    }
    let auth_user = entry.auth_user.clone().or_else(|| some(&settings.auth_user));
    let of_pools = config.users.iter().filter(|(_, user)| user.pool_sizes.contains_key(name)).map(|(name, _)| name);
    let mut users: Vec<String> = Vec::new();
    for user in auth_user.into_iter().chain(of_pools.cloned()).chain(seen.iter().cloned()) {
        if !users.contains(&user) {
            users.push(user);
        }
    }
    users
}
