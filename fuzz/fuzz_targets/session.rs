//! What becomes of sessions between clients and servers that share them, told by a schedule: what clients say and when,
//! how far a server has got, what fails and what dies, which answers come together and which in pieces.
//!
//! The pooler is the real one, over sockets, turned by hand. The server is a model of PostgreSQL ([`model`]), and with a
//! session of that kind for each client the judge of what arrives there:
//!
//! - nothing of a client reaches a server before the pooler's own question there is answered;
//! - a unit of a client runs in the session that its client would have without a pooler;
//! - what the pooler believes of a free session is what the server has;
//! - no write is done twice, no cancel request strikes anybody else's unit;
//! - each client is answered once for each unit, by what is its own, and none waits for ever.

#![no_main]

#[path = "session/judge.rs"]
mod judge;
#[path = "session/model.rs"]
mod model;

use libfuzzer_sys::fuzz_target;

use judge::{CLIENTS, World};

/// The schedule.
struct Schedule<'a>(std::slice::Iter<'a, u8>);

impl Schedule<'_> {
    fn next(&mut self) -> Option<usize> {
        self.0.next().map(|byte| usize::from(*byte))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next().unwrap_or(0) % limit
    }
}

fuzz_target!(|data: &[u8]| {
    let mut schedule = Schedule(data.iter());
    let mut world = World::new(schedule.below(16));
    // What goes on for long shows no more than what goes on for a while.
    for _ in 0..200 {
        let Some(step) = schedule.next() else { break };
        let (who, what) = (step / 16 % CLIENTS, step % 16);
        match what {
            0..=3 => {
                let commands: Vec<usize> = (0..=schedule.below(3)).map(|_| schedule.next().unwrap_or(0)).collect();
                world.say(who, step / 16, &commands);
            }
            4 => world.send(who, schedule.below(64)),
            5 => world.send(who, usize::MAX),
            6 => world.work(who, schedule.below(4) + 1),
            7 => world.answer(who, schedule.below(40)),
            8 => world.answer(who, usize::MAX),
            9 => world.strike(who, schedule.below(3)),
            10 => world.kill(who),
            11 => world.cancel(who),
            12 => world.take_cancels(),
            13 => world.leave(who),
            14 => world.mutter(who, schedule.below(3)),
            _ => world.settle(),
        }
        // What comes in one turn may have come at any time before.
        if step & 128 == 0 || what > 8 {
            world.turn();
        }
    }
    world.end();
});
