//! Where the hosts of servers are, as far as their names have been looked up.

use std::sync::Arc;
use std::thread;

use crate::resolve::Found;
use crate::shared::{Message, Shared};
use crate::state::Core;

/// Begins to look a name up; the workers are told when it is done.
fn begin(shared: &Arc<Shared>, host: &str) {
    let (asker, name) = (shared.clone(), host.to_owned());
    let run = move || {
        let settings = asker.config().settings.clone();
        let changed = asker.resolver.learn(&name, &settings);
        asker.tell_all(|| Message::Resolved(name.clone(), changed));
    };
    // Where no thread can be had, the next one to ask tries again.
    if thread::Builder::new().name("resolver".to_owned()).spawn(run).is_err() {
        shared.resolver.give_up(host);
    }
}

/// Where a host is, as far as it is known; when it is being looked up, the worker is told when that is done.
pub fn find_host(core: &Core, host: &str) -> Found {
    core.shared.resolver.find(host, &core.config.settings, || begin(&core.shared, host))
}

/// Looks up again the names of servers that are in use, when what is known of them is old.
pub fn refresh_names(core: &mut Core) {
    let mut hosts: Vec<&str> = Vec::new();
    for (_, server) in core.servers.iter() {
        let host = server.at.host.as_str();
        if !hosts.contains(&host) && core.shared.resolver.is_old(host) {
            hosts.push(host);
        }
    }
    for host in hosts {
        let _ = find_host(core, host);
    }
}
