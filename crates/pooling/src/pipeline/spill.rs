//! Answers of pipelined connections that are too long to be kept until they are complete.

use crate::model::turn::Turn;

use crate::state::Schedule;
use crate::state::client::Client;
use crate::state::server::Server;

/// The length of an answer beyond which a unit has its pipelined connection to itself until it ends.
const LONGEST_ANSWER: usize = 65_536;

/// Passes on an answer of a pipelined connection's unit that has grown too long to be kept; the pipelined connection is
/// the unit's own until it ends.
pub fn spill(server: &mut Server, client: Option<&mut Client>, schedule: &mut Schedule) {
    let Some(pipeline) = server.pipeline_mut() else { return };
    if pipeline.again {
        return pipeline.drop_answer();
    }
    if !pipeline.forwarded && pipeline.stage.len() <= LONGEST_ANSWER {
        return;
    }
    (pipeline.forwarded, pipeline.closed) = (true, true);
    match pipeline.head().zip(client) {
        Some((key, client)) => {
            pipeline.pass_answer(client.io.out());
            schedule.unflushed.push(Turn::Client(key));
        }
        None => pipeline.drop_answer(),
    }
}
