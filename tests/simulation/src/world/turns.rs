//! The order in which clients get a server connection for which all of them wait: first come, first served, but for a
//! bounded number of clients that go before the first one since the connection has their settings.

use super::World;

/// The client that waits longest may be passed so many times. The pooler promises 16 while it is the first in the queue;
/// each of the other eleven may have been let in before.
const PASSES: usize = 16 + 11;

/// The state of a unit that waits for a server connection.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// It has come to a server.
    placed: bool,
    /// In which turn of the pooler it was found to wait, and how many have gone before it while no other waited longer.
    waits: Option<(u64, usize)>,
    /// It goes by the connection that listens for all, or may have to wait for a cancel request.
    pub(super) is_apart: bool,
}

impl Turn {
    /// That of a unit of these bytes.
    pub(super) fn of(said: &[u8]) -> Self {
        Self { is_apart: said.windows(6).any(|part| part == b"LISTEN"), ..Self::default() }
    }

    /// A server connection is lost: who had got it waits for another.
    pub(super) fn begin_again(&mut self) {
        if let Some((_, passed)) = &mut self.waits {
            *passed = 0;
        }
    }
}

impl World {
    /// The pooler has done what it could: each client that has sent a unit and has no server connection waits.
    pub(super) fn note_waits(&mut self) {
        let Some(moment) = &mut self.moment else { return };
        *moment += 1;
        for (place, client) in self.clients.iter_mut().enumerate() {
            let holds = |born| {
                let held = |connection: &super::Connection| {
                    connection.holder.as_ref().is_some_and(|(of, who, _)| (*of, *who) == (place, born))
                };
                self.connections.iter().any(held)
            };
            let (sent, greeted, holds) = (client.sent, client.greeted && !client.gone, holds(client.born));
            let Some(unit) = client.units.front_mut() else { continue };
            let waits = greeted && !holds && sent >= unit.end && !unit.turn.placed;
            let waits = waits && !unit.turn.is_apart && !unit.cancelled;
            unit.turn.waits = waits.then(|| unit.turn.waits.unwrap_or((*moment, 0)));
        }
    }

    /// Units have come to servers: nobody who waits longer is passed over too often.
    pub(super) fn take_turns(&mut self) {
        let arrived: Vec<(usize, String)> = self
            .connections
            .iter_mut()
            .flat_map(|connection| {
                let id = connection.id;
                connection.arrived.drain(..).map(move |owner| (id, owner))
            })
            .collect();
        arrived.iter().for_each(|(id, owner)| self.note_service(*id, owner));
        if self.moment.is_none() {
            return;
        }
        for (id, owner) in arrived {
            self.take_turn(id, &owner);
        }
    }

    fn take_turn(&mut self, id: usize, owner: &str) {
        // A client that leaves within a message has the pooler close the connection within the message, too.
        let mut parts = owner.split('.').map_while(|part| part.parse::<usize>().ok());
        let (Some(born), Some(place)) = (parts.next(), parts.next()) else { return };
        let Some(connection) = self.connections.iter_mut().find(|connection| connection.id == id) else { return };
        let kept = connection.last.replace((place, born)) == Some((place, born));
        if self.clients[place].born != born {
            return;
        }
        let Some(unit) = self.clients[place].units.iter_mut().find(|unit| unit.name == owner) else { return };
        let again = std::mem::replace(&mut unit.turn.placed, true);
        let since = unit.turn.waits.take().map_or(u64::MAX, |(since, _)| since);
        if again || kept {
            return;
        }
        let waiting = self.clients.iter_mut().filter(|client| !client.gone).filter_map(|client| {
            let unit = client.units.front_mut()?;
            unit.turn.waits.is_some().then_some(unit)
        });
        let Some(first) = waiting.min_by_key(|unit| unit.turn.waits.map(|(since, _)| since)) else { return };
        if let Some((waits, passed)) = &mut first.turn.waits
            && *waits < since
        {
            *passed += 1;
            assert!(*passed <= PASSES, "{} waits, and {passed} that came later have gone before", first.name);
        }
    }
}
