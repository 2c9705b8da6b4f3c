//! Sockets in memory, for simulations: to their users they are Unix sockets, and their behaviour depends on no other
//! thread. Events come in the order of their causes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::config::Settings;
use crate::io::Kind;
use crate::io::{Event, Listening, Network, Peer, Socket, Wake, Watcher};
use crate::monitor::address::Address;
use crate::sync::lock;

/// The number of bytes that fit into one direction of a connection.
const ROOM: usize = 200_000;

/// The number of clients that may wait to be accepted.
const BACKLOG: usize = 1024;

/// The state of one end of a connection.
#[derive(Debug)]
struct State {
    /// The number of the other end.
    other: RawFd,
    /// The bytes that have come and were not read.
    come: VecDeque<u8>,
    /// Whether the other end sends nothing more.
    ended: bool,
    /// Whether the other end was closed before it had read everything.
    reset: bool,
    /// Whether this end sends nothing more.
    ends: bool,
}

/// The settings by which a socket is watched.
#[derive(Debug)]
struct Watched {
    poll: usize,
    token: usize,
    room: bool,
    /// Whether an event of the socket is due.
    due: bool,
}

#[derive(Debug, Default)]
struct Board {
    last: RawFd,
    ends: HashMap<RawFd, State>,
    /// The connections that wait to be accepted, by the listener's number.
    listeners: HashMap<RawFd, VecDeque<RawFd>>,
    paths: HashMap<PathBuf, RawFd>,
    watched: HashMap<RawFd, Watched>,
    /// Sockets with events that are due, by poll.
    due: Vec<VecDeque<RawFd>>,
    woken: HashSet<usize>,
}

impl Board {
    fn number(&mut self) -> RawFd {
        self.last += 1;
        self.last
    }

    /// Something has happened at an end; `room`: that there is room again.
    fn happens(&mut self, at: RawFd, room: bool) {
        let Some(watched) = self.watched.get_mut(&at).filter(|watched| watched.room || !room) else { return };
        if !std::mem::replace(&mut watched.due, true)
            && let Some(due) = self.due.get_mut(watched.poll)
        {
            due.push_back(at);
        }
    }

    /// Whether an event of a socket is due as soon as it is watched.
    fn has_news(&self, socket: RawFd, room: bool) -> bool {
        let waits = self.listeners.get(&socket).is_some_and(|waiting| !waiting.is_empty());
        waits || self.ends.get(&socket).is_some_and(|end| room || end.ended || end.reset || !end.come.is_empty())
    }

    fn close(&mut self, number: RawFd) {
        self.watched.remove(&number);
        let Some(end) = self.ends.remove(&number) else { return };
        if let Some(other) = self.ends.get_mut(&end.other) {
            other.ended = true;
            other.reset |= !end.come.is_empty();
            self.happens(end.other, false);
        }
    }
}

/// A network in memory.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    board: Arc<Mutex<Board>>,
}

impl Memory {
    /// Something that waits for events, for a worker.
    pub fn poll(&self) -> Poll {
        let mut board = lock(&self.board);
        board.due.push(VecDeque::new());
        Poll { memory: self.clone(), number: board.due.len() - 1 }
    }

    /// Listens at a path, in place of an earlier listener.
    pub fn listen(&self, path: &Path) -> Listener {
        let mut board = lock(&self.board);
        let number = board.number();
        board.paths.insert(path.to_owned(), number);
        board.listeners.insert(number, VecDeque::new());
        Listener { memory: self.clone(), number, path: path.to_owned() }
    }

    /// Connects to the listener at a path.
    pub fn connect(&self, path: &Path) -> io::Result<End> {
        let mut board = lock(&self.board);
        let listener = *board.paths.get(path).ok_or(ErrorKind::ConnectionRefused)?;
        if board.listeners.get(&listener).is_none_or(|waiting| waiting.len() >= BACKLOG) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let (here, there) = (board.number(), board.number());
        let end = |other| State { other, come: VecDeque::new(), ended: false, reset: false, ends: false };
        board.ends.insert(here, end(there));
        board.ends.insert(there, end(here));
        board.listeners.entry(listener).or_default().push_back(there);
        board.happens(listener, false);
        Ok(End { memory: self.clone(), number: here })
    }
}

/// A listener at a path, until it is dropped.
#[derive(Debug)]
pub struct Listener {
    memory: Memory,
    number: RawFd,
    path: PathBuf,
}

impl Listener {
    /// The next connection that waits; none if no connection waits.
    pub fn next(&self) -> Option<End> {
        let number = lock(&self.memory.board).listeners.get_mut(&self.number)?.pop_front()?;
        Some(End { memory: self.memory.clone(), number })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut board = lock(&self.memory.board);
        if board.paths.get(&self.path) == Some(&self.number) {
            board.paths.remove(&self.path);
        }
        board.watched.remove(&self.number);
        for waiting in board.listeners.remove(&self.number).unwrap_or_default() {
            board.close(waiting);
        }
    }
}

impl Listening for Listener {
    fn accept(&self) -> io::Result<Box<dyn Socket>> {
        self.next().map(|end| Box::new(end) as Box<dyn Socket>).ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn is_local(&self) -> bool {
        true
    }

    fn descriptor(&self) -> RawFd {
        self.number
    }

    fn shared(&self) -> Option<(Kind, String, BorrowedFd<'_>)> {
        None
    }

    fn give_away(self: Box<Self>) {}
}

/// One end of a connection, which is closed when it is dropped.
#[derive(Debug)]
pub struct End {
    memory: Memory,
    number: RawFd,
}

impl Drop for End {
    fn drop(&mut self) {
        lock(&self.memory.board).close(self.number);
    }
}

impl io::Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Socket::read(self, buffer)
    }
}

/// A simulated client or server sends all its bytes at once, however full the connection is.
impl io::Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut board = lock(&self.memory.board);
        let number = board.ends.get(&self.number).ok_or(ErrorKind::BrokenPipe)?.other;
        board.ends.get_mut(&number).ok_or(ErrorKind::BrokenPipe)?.come.extend(bytes);
        board.happens(number, false);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut board = lock(&self.memory.board);
        let Some(end) = board.ends.get_mut(&self.number) else { return Ok(0) };
        if end.come.is_empty() {
            return match (end.ended, std::mem::take(&mut end.reset)) {
                (_, true) => Err(ErrorKind::ConnectionReset.into()),
                (true, _) => Ok(0),
                (false, _) => Err(ErrorKind::WouldBlock.into()),
            };
        }
        let (other, was_full) = (end.other, end.come.len() >= ROOM);
        // Both parts of the ring: fewer bytes than there is room for mean that there are no more.
        let mut count = 0;
        while let Some(room) = buffer.get_mut(count..).filter(|room| !room.is_empty() && !end.come.is_empty()) {
            count += io::Read::read(&mut end.come, room)?;
        }
        if was_full {
            board.happens(other, true);
        }
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut board = lock(&self.memory.board);
        let end = board.ends.get(&self.number).filter(|end| !end.ends).ok_or(ErrorKind::BrokenPipe)?;
        let number = end.other;
        let other = board.ends.get_mut(&number).ok_or(ErrorKind::BrokenPipe)?;
        let Some(fits) = bytes.get(..ROOM.saturating_sub(other.come.len()).min(bytes.len())) else { return Ok(0) };
        if fits.is_empty() && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        other.come.extend(fits);
        board.happens(number, false);
        Ok(fits.len())
    }

    fn write_with(&mut self, _: &[u8], _: &[BorrowedFd<'_>]) -> io::Result<usize> {
        Err(ErrorKind::Unsupported.into())
    }

    fn half_close(&self) -> io::Result<()> {
        let mut board = lock(&self.memory.board);
        let Some(end) = board.ends.get_mut(&self.number) else { return Ok(()) };
        end.ends = true;
        let number = end.other;
        if let Some(other) = board.ends.get_mut(&number) {
            other.ended = true;
            board.happens(number, false);
        }
        Ok(())
    }

    fn connected(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn tune(&self, _: &Settings) {}

    fn is_local(&self) -> bool {
        true
    }

    fn peer(&self) -> Peer {
        Peer::Unix
    }

    fn local(&self) -> Peer {
        Peer::Unix
    }

    fn is_own_account(&self) -> bool {
        true
    }

    fn account(&self) -> Option<String> {
        None
    }

    fn descriptor(&self) -> RawFd {
        self.number
    }

    fn shared(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A queue of the events of one worker.
#[derive(Debug)]
pub struct Poll {
    memory: Memory,
    number: usize,
}

impl Poll {
    /// The waker of the worker.
    pub fn waker(&self) -> Waker {
        Waker { memory: self.memory.clone(), number: self.number }
    }

    /// The events since the last call; `woken` is the token of the event of having been woken.
    pub fn events(&self, woken: usize) -> Vec<Event> {
        let mut board = lock(&self.memory.board);
        let due = board.due.get_mut(self.number).map(std::mem::take).unwrap_or_default();
        let mut events = Vec::with_capacity(due.len() + 1);
        if board.woken.remove(&self.number) {
            events.push(Event { token: woken, readable: true, closed: false });
        }
        for socket in due {
            let Some(watched) = board.watched.get_mut(&socket).filter(|watched| watched.poll == self.number) else {
                continue;
            };
            watched.due = false;
            let token = watched.token;
            let end = board.ends.get(&socket);
            let closed = end.is_some_and(|end| end.ended || end.reset);
            let readable = closed || end.is_none_or(|end| !end.come.is_empty());
            events.push(Event { token, readable, closed });
        }
        events
    }

    /// A handle to this queue, for connecting and watching.
    pub fn network(&self) -> Self {
        Self { memory: self.memory.clone(), number: self.number }
    }
}

impl Watcher for Poll {
    fn watch(&self, socket: RawFd, token: usize, room: bool) -> io::Result<()> {
        let mut board = lock(&self.memory.board);
        board.watched.insert(socket, Watched { poll: self.number, token, room, due: false });
        if board.has_news(socket, room) {
            board.happens(socket, false);
        }
        Ok(())
    }

    fn change(&self, socket: RawFd, token: usize, room: bool) -> io::Result<()> {
        self.watch(socket, token, room)
    }

    fn unwatch(&self, socket: RawFd) {
        lock(&self.memory.board).watched.remove(&socket);
    }
}

impl Network for Poll {
    fn connect(&self, address: &Address, _: &Settings) -> io::Result<Box<dyn Socket>> {
        match address {
            Address::Unix(path) => Ok(Box::new(self.memory.connect(path)?)),
            Address::Tcp(_) => Err(ErrorKind::AddrNotAvailable.into()),
        }
    }
}

/// Wakes a worker.
#[derive(Debug)]
pub struct Waker {
    memory: Memory,
    number: usize,
}

impl Wake for Waker {
    fn wake(&self) {
        lock(&self.memory.board).woken.insert(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A read that gives fewer bytes than there is room for has given all, however the bytes lie in the ring.
    #[test]
    fn a_short_read_leaves_nothing() {
        let memory = Memory::default();
        let path = Path::new("socket");
        let listener = memory.listen(path);
        let mut there = memory.connect(path).unwrap();
        let mut here = listener.next().unwrap();
        let mut buffer = [0; 200];
        for round in 0..50 {
            there.write_all(&[7; 100]).unwrap();
            assert_eq!(Socket::read(&mut here, &mut buffer[..60]).unwrap(), 60, "in round {round}");
            there.write_all(&[7; 60]).unwrap();
            assert_eq!(Socket::read(&mut here, &mut buffer).unwrap(), 100, "in round {round}");
        }
    }
}
