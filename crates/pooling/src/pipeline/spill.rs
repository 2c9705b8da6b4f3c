//! Answers of pipelined connections that are too long to be kept until they are complete.

use crate::model::keys::ServerKey;
use crate::model::turn::Turn;

use crate::state::Core;

/// The length of an answer beyond which a unit has its pipelined connection to itself until it ends.
const LONGEST_ANSWER: usize = 65_536;

/// Passes on an answer of a pipelined connection's unit that has grown too long to be kept; the pipelined connection is
/// the unit's own until it ends.
pub fn spill(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let Some(pipeline) = server.pipeline_mut() else { return };
    if pipeline.again {
        pipeline.drop_answer();
        return;
    }
    if !pipeline.forwarded && pipeline.stage.len() <= LONGEST_ANSWER {
        return;
    }
    pipeline.forwarded = true;
    pipeline.closed = true;
    let Some(client_key) = pipeline.head() else {
        pipeline.drop_answer();
        return;
    };
    if let Some(client) = core.clients.get_mut(client_key.0) {
        pipeline.pass_answer(client.io.out());
        core.schedule.unflushed.push(Turn::Client(client_key));
    }
}
