//! Takes the clients of the process before this one over (`-R`).

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pooling::assignment::Place;
use pooling::client_permit::ClientPermit;
use pooling::io::Io;
use pooling::shared::{Message, Shared};
use pooling::state::adopted::{Adopted, Described};

use crate::net::Stream;
use crate::takeover::Predecessor;

/// How often the old process is asked for clients at first.
const SOON: Duration = Duration::from_millis(20);

/// How often it is asked when it has had time for all clients that were idle.
const LATER: Duration = Duration::from_millis(200);

/// For how long the old process is asked often.
const BUSY: Duration = Duration::from_secs(30);

/// Takes the clients of the process before over, until it has none or ends.
pub fn adopt(mut before: Predecessor, shared: &Arc<Shared>) {
    let begun = Instant::now();
    let mut count = 0;
    loop {
        match before.clients() {
            Ok((described, sockets)) => {
                count += described.len();
                for (described, socket) in described.into_iter().zip(sockets) {
                    if let Err(error) = take(described, socket, shared) {
                        pooling::warning!("-R: a client of the old pooler was lost: {error}");
                    }
                }
            }
            Err(why) => {
                pooling::info!(
                    "-R: took over {count} clients; the old pooler has ended its console connection ({why})"
                );
                return;
            }
        }
        std::thread::sleep(if begun.elapsed() < BUSY { SOON } else { LATER });
    }
}

/// Gives a client that was taken over to a worker of its database.
fn take(described: Described, socket: OwnedFd, shared: &Arc<Shared>) -> std::io::Result<()> {
    let stream = Stream::taken_over(socket, described.is_tcp)?;
    let mut permit = ClientPermit::new(shared.counts.clone());
    // The process before has let it in.
    let _ = permit.take(&described.user, false, 0, 0);
    let place = Place::take_one_more(&shared.assignment, &shared.config(), &described.database, &described.served_as);
    let worker = place.worker();
    let adopted = Adopted { io: Io::new(Box::new(stream)), permit, place, described };
    shared.tell(worker, Message::Adopted(Box::new(adopted)));
    Ok(())
}
