//! A server checks the settings of a client's startup packet before the client is greeted.

use std::fmt::Write;

use crate::model::keys::ClientKey;
use crate::model::vars::Tracked;
use classify::parameter;

use crate::pools::checkout;
use crate::state::Core;
use crate::state::client::Client;

/// Has a server check the settings in a client's startup packet, before the client is greeted, unless they are known to
/// be valid or no server connection is free. Whether the client waits for that.
pub fn verify_startup(core: &mut Core, key: ClientKey) -> bool {
    let Some(client) = core.clients.get_mut(key) else { return false };
    if client.session.verified.is_some() {
        return false;
    }
    // Parameters that servers do not report are carried as other SETs are.
    for &place in core.parameters.tracked.silent() {
        if let (Some(value), Some(name)) = (client.session.vars.take(place), core.parameters.tracked.names().nth(place))
        {
            client.session.sets.set(&name.to_lowercase(), parameter::set(name, &value));
        }
    }
    client.session.startup = (client.session.vars.clone(), client.session.sets.clone());
    let (Some(home), Some(asked)) = (client.route.home, asked(client, &core.parameters.tracked)) else { return false };
    let Some(pool) = core.pools.get(home) else { return false };
    if let Some(verified) = pool.greetings.verified.get(asked.as_str()).cloned() {
        client.session.take_verified(verified);
        return false;
    }
    if client.checkout.strikes > 0 || pool.limits.paused || pool.cluster_of.cluster.is_some() || !pool.is_unwanted() {
        return false;
    }
    let Some((server, _)) = checkout::take_idle(core, home, key) else { return false };
    checkout::assign(core, server, key);
    true
}

/// The settings in a client's startup packet, as a text; none if every server accepts them.
pub fn asked(client: &Client, tracked: &Tracked) -> Option<String> {
    let mut text = String::new();
    for (place, name) in tracked.names().enumerate() {
        if let Some(value) = client.session.startup.0.get(place).filter(|_| name != "application_name") {
            let _ = write!(text, "{name}={value}\0");
        }
    }
    client.session.startup.1.write(&mut text);
    (!text.is_empty()).then_some(text)
}
