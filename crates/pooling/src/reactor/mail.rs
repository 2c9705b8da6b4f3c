//! The messages of other threads to this worker.

use crate::admin::{measure, obey};
use crate::backend::cancel;
use crate::frontend::{accept, challenge, shards};
use crate::pools::{configure, grow, leave, limits, moves, upkeep};
use crate::reactor::{after, ending};
use crate::shared::Message;
use crate::state::Core;
use crate::sync::lock;
use crate::takeover::adopt;

/// Works on the messages of other threads to this worker.
pub fn read_messages(core: &mut Core) {
    let Some(mailbox) = core.shared.mailboxes.get(core.id.0) else { return };
    let messages = std::mem::take(&mut *lock(&mailbox.messages));
    for message in messages {
        match message {
            Message::Arrived(arrival) => accept::take_in(core, *arrival),
            Message::Returned(transfer) => drop(moves::settle_in(core, *transfer)),
            Message::Adopted(adopted) => adopt::receive(core, *adopted),
            Message::Bequeathed(counts) => upkeep::inherit(core, *counts),
            Message::Derived(key, secret) => challenge::derived(core, key, &secret),
            Message::Cancel(key, cancel, asker) => cancel::cancel(core, key, &cancel, asker),
            Message::Cancelled(key) => leave::close_client(core, key, "cancel request"),
            Message::Order(asker, number, order) => {
                let answer = obey::obey(core, &order);
                core.shared.tell(asker, Message::Answer(number, Box::new(answer)));
            }
            Message::Answer(number, answer) => obey::console_answer(core, number, *answer),
            // The asker may have given up.
            Message::Measure(asker) => drop(asker.send(measure::measure(core))),
            Message::Resolved(host, changed) => configure::resolved(core, &host, changed),
            Message::MakeRoom(limit, asker) => limits::make_room_for_another(core, limit, asker),
            Message::Room(limit) => grow::grow_under(core, &limit),
            Message::Reload => configure::take_config(core),
            // The views of clusters look at the board by themselves; being awake is all that is needed.
            Message::Clusters => (),
            Message::ShardMap => shards::look_for_map(core),
            Message::Replayed => core.router.replayed = true,
            Message::Shutdown(way) => ending::begin_to_end(core, way),
        }
        after::run_after(core);
    }
}
