//! Where the hosts of servers are, as far as their names have been looked up.

use crate::resolve::Found;
use crate::state::Core;

/// Where a host is, as far as it is known; when it is being looked up, the worker is told when that is done.
pub fn find_host(core: &Core, host: &str) -> Found {
    core.shared.resolver.find(host, &core.config.settings, core.now, || core.shared.outside.look_up(&core.shared, host))
}

/// Looks up again the names of servers that are in use, when what is known of them is old.
pub fn refresh_names(core: &mut Core) {
    let mut hosts: Vec<&str> = Vec::new();
    for (_, server) in core.servers.iter() {
        let host = server.at.host.as_str();
        if !hosts.contains(&host) && core.shared.resolver.is_old(host, core.now) {
            hosts.push(host);
        }
    }
    for host in hosts {
        let _ = find_host(core, host);
    }
}
