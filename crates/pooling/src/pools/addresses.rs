//! The addresses of the servers' hosts, as far as their names have been looked up.

use crate::resolve::Resolution;
use crate::state::Core;

/// The address of a host, as far as it is known; the worker is told when a look-up under way has ended.
pub fn find_host(core: &Core, host: &str) -> Resolution {
    core.shared.resolver.find(host, &core.config.settings, core.now, || core.shared.outside.look_up(&core.shared, host))
}

/// Looks up again the names of servers in use whose addresses are old.
pub fn refresh_names(core: &mut Core) {
    let mut hosts: Vec<&str> = Vec::new();
    for server in core.servers.values() {
        let host = server.at.host.as_str();
        if !hosts.contains(&host) && core.shared.resolver.is_old(host, core.now) {
            hosts.push(host);
        }
    }
    for host in hosts {
        let _ = find_host(core, host);
    }
}
