//! Clients of the process before this one are taken over.

use std::sync::Arc;
use std::time::Duration;

use crate::model::lexing::Lexing;
use crate::model::statement::Carried;
use crate::model::vars::{Tracked, Vars};
use classify::parameter;
use wire::startup::CancelKey;

use crate::monitor::owed::Owed;
use crate::pools::moves;
use crate::state::Core;
use crate::state::adopted::{Adopted, CONSISTENCIES, Definition, ROLES, value_of};
use crate::state::transfer::{Activity, CarriedIdentity, CarriedSession, CarriedStatements, Settings, Transfer};
use crate::sync::lock;

/// Settings as a session here has them: a parameter is tracked or not by the configuration in force.
fn settings(values: Vec<(String, String)>, sets: Vec<(String, String)>, tracked: &Tracked) -> Settings {
    let (mut vars, mut others) = (Vars::default(), Vec::new());
    for (name, value) in values {
        match tracked.place(&name) {
            Some(place) => vars.set(place, &value),
            None => others.push((name.to_lowercase(), parameter::set(&name, &value))),
        }
    }
    others.extend(sets);
    (vars.carry(), others)
}

/// Takes in a client of the process before.
pub fn receive(core: &mut Core, adopted: Adopted) {
    let Adopted { io, permit, place, described } = adopted;
    let (stored, client_key) = described.learnt;
    let stored = stored.map(Arc::from);
    lock(&core.shared.learnt).learn(&core.config, &described.database, &described.user, stored, client_key);
    let ([values, startup_values], [sets, startup_sets]) = (described.values, described.sets);
    let carried = |of: Definition| Carried::anew(of.text.into(), Lexing::of_word(&of.lexing), of.shape);
    let statements = described.prepared.statements.into_iter();
    let owed = Owed { chosen: value_of(&CONSISTENCIES, &described.choices.read_your_writes), ..Owed::default() };
    let identity = CarriedIdentity {
        permit,
        place,
        user: described.user,
        database: described.database,
        served_as: described.served_as,
        cancel_key: CancelKey { pid: described.cancel_pid, secret: described.cancel_secret },
        minor: described.minor,
        since: core.now.checked_sub(Duration::from_secs(described.age)).unwrap_or(core.now),
        admin: described.admin,
    };
    let session = CarriedSession {
        settings: settings(values, sets, &core.parameters.tracked),
        startup: settings(startup_values, startup_sets, &core.parameters.tracked),
        role: value_of(&ROLES, &described.choices.role),
        primary_reads: described.choices.primary_reads.parse().ok(),
        shard: described.choices.shard.parse().ok(),
        owed,
    };
    let prepared = CarriedStatements {
        statements: statements.map(|(name, definition)| (name.into(), carried(definition))).collect(),
        unnamed: described.prepared.unnamed.map(carried),
        renamed: described.prepared.renamed,
    };
    let (id, request_since, kills) = (core.shared.next_id(), core.now, core.lifecycle.kills);
    let activity = Activity::default();
    let transfer = Transfer { io, id, identity, session, prepared, request_since, activity, kills };
    let Some(key) = moves::settle_in(core, transfer) else { return };
    // Only the process before followed the client's earlier commits.
    let cluster = core.clients.get(key).and_then(|client| client.route.home).and_then(|home| core.pools.get(home));
    let view = cluster.and_then(|home| home.cluster_of.cluster).and_then(|place| core.router.clusters.get(place));
    if let (Some(client), Some(view)) = (core.clients.get_mut(key), view) {
        client.route.owed.renew(view);
    }
}
