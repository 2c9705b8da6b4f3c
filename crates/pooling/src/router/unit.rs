//! Units: the end of a unit in a client's input, its statements, and so the way in which it may be sent.

use std::rc::Rc;
use std::time::Instant;

use crate::model::extent::{Said, Unit, Unread, extent, judged};
use crate::model::fingerprint::{Fingerprint, NotPipelined, Statements};
use crate::model::keys::{ClientKey, PoolKey};

use crate::router::fingerprints;
use crate::state::client::Client;
use crate::state::pool::Pool;
use crate::state::{Core, served};

/// The ways in which a unit may be sent.
pub enum Dispatch {
    /// The unit may be sent between units of other clients.
    Shared(Option<Rc<Fingerprint>>),
    /// The unit needs a connection to itself, but may be retried: a read; or, when true, a write, if the server has
    /// refused it for being a replica.
    Alone(Option<Rc<Fingerprint>>, bool),
    /// The connection is checked out to the client.
    Unpipelined(NotPipelined),
}

/// The unit at the front of a client's input, which is cut and judged once.
pub struct Front<'a> {
    /// The unit; none if its end cannot be known before it is sent.
    pub unit: Option<Unit<'a>>,
    /// Whether it may go down a pipelined connection, as far as its messages show.
    pub may_share: bool,
    /// The statements that it prepares and runs.
    pub runs: Result<Statements, NotPipelined>,
}

impl<'a> Front<'a> {
    /// The unit at the front of an input; none if more of it must come. For the choice of a server in a cluster a longer
    /// one is waited for than goes down a pipelined connection: a write may stand at its end.
    pub fn read(core: &mut Core, key: ClientKey, pool: PoolKey, input: &'a [u8], in_cluster: bool) -> Option<Self> {
        let shared = extent(input);
        let may_share = shared.is_ok();
        let unit = match shared {
            Err(Unread::Never) if in_cluster => judged(input),
            read => read,
        };
        match unit {
            Ok(unit) => Some(Self { runs: runs(core, key, pool, &unit), unit: Some(unit), may_share }),
            Err(Unread::Never) => Some(Self { unit: None, may_share, runs: Err(NotPipelined::Protocol) }),
            Err(Unread::More) => None,
        }
    }
}

/// The way in which a unit of these statements may be sent to the server of a pool; `doubtful` while their class may have
/// changed.
pub fn way(
    client: &Client,
    pool: &mut Pool,
    runs: Result<Statements, NotPipelined>,
    doubtful: bool,
    now: Instant,
) -> Dispatch {
    let fingerprints = match runs {
        Ok(fingerprints) => fingerprints,
        Err(why) => return Dispatch::Unpipelined(why),
    };
    let mut alone = (client.checkout.attempts > 0).then_some(NotPipelined::Failed);
    let in_cluster = pool.cluster_of.home.is_some();
    let mut writes = false;
    for fingerprint in &fingerprints {
        match fingerprint.way(now) {
            Ok(None) => (),
            Ok(Some(why)) => alone = Some(why),
            // The unit is kept until it is answered, so that it can be sent to the primary if this server is none.
            Err(why) if in_cluster && fingerprint.is_plain_write() => {
                alone = Some(why);
                writes = true;
            }
            Err(why) => return Dispatch::Unpipelined(why),
        }
    }
    // The unit is neither shared nor retried then, unless it proves to be a write.
    if doubtful {
        if !in_cluster {
            return Dispatch::Unpipelined(NotPipelined::Catalog);
        }
        alone = Some(NotPipelined::Catalog);
        writes = true;
    }
    // The state to undo on the connection afterwards is that of the statement that may leave most.
    let opaque = fingerprints.iter().position(|fingerprint| fingerprint.verdict.opaque);
    let fingerprint = fingerprints.into_iter().nth(opaque.unwrap_or(0));
    match alone {
        None => Dispatch::Shared(fingerprint),
        Some(why) => {
            pool.count_unpipelined(why);
            Dispatch::Alone(fingerprint, writes)
        }
    }
}

/// The fingerprints of the statements that a unit prepares and runs.
pub fn runs(core: &mut Core, key: ClientKey, pool: PoolKey, unit: &Unit<'_>) -> Result<Statements, NotPipelined> {
    let (clients, servers, mut context) = core.split();
    let context = &mut context;
    let Some((client, server)) = served(clients, servers, key) else { return Err(NotPipelined::Protocol) };
    let (client, server) = (&*client, server.as_deref());
    let mut fingerprints = Statements::new();
    let mut prepared: Vec<(&[u8], Rc<Fingerprint>)> = Vec::new();
    let mut bound = false;
    for message in &unit.messages {
        match message.said {
            Said::Query(sql) => fingerprints.push(fingerprints::fingerprint(context, (client, server), pool, sql)?),
            Said::Parse(parse) => {
                let fingerprint = fingerprints::fingerprint_of_parse(context, (client, server), pool, &parse)?;
                fingerprints.push(fingerprint.clone());
                prepared.push((parse.name, fingerprint));
            }
            Said::Bind(bind) => {
                bound = true;
                match prepared.iter().rev().find(|(name, _)| *name == bind.statement) {
                    Some((_, fingerprint)) => fingerprints.push(fingerprint.clone()),
                    None => {
                        fingerprints.push(fingerprints::fingerprint_of_prepared(context, client, pool, bind.statement)?)
                    }
                }
            }
            // A portal that was not bound here does not exist: the error is the server's to make.
            Said::Execute if !bound => return Err(NotPipelined::Protocol),
            _ => (),
        }
    }
    Ok(fingerprints)
}
