//! Looks up names of servers on a thread of its own, since a look-up may block for a long time.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use pooling::monitor::Note;
use pooling::shared::Shared;

/// A name to look up, and the number under which the answer is told.
pub(super) type Question = (usize, String, u16);

/// Starts the thread. It ends when the sender is dropped.
pub(super) fn spawn(shared: Arc<Shared>) -> io::Result<Sender<Question>> {
    let (sender, questions): (Sender<Question>, Receiver<Question>) = channel();
    std::thread::Builder::new().name("names".to_owned()).spawn(move || {
        for (number, host, port) in questions {
            let found = look_up(&host, port);
            shared.board.note(Note::Resolved(number, host, found));
        }
    })?;
    Ok(sender)
}

/// The addresses of a name. It may take long.
fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")));
    }
    Ok(found)
}
