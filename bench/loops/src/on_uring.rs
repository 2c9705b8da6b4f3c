//! The relay on io_uring: one multishot accept, a multishot receive for each connection into buffers that all share, and
//! the sends of a turn submitted together with the wait for the next.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::io::{Error, ErrorKind, Result};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::relay::{Relay, SERVERS};

/// Entries of the queue of submissions.
const ENTRIES: u32 = 4096;
/// Buffers that are provided, a power of two, and the size of each.
const BUFFERS: u16 = 512;
const SIZE: usize = 16_384;
const GROUP: u16 = 0;
const PAGE: usize = 4096;

/// What a completion is of; beside it stands the number of the connection.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const KINDS: u64 = 4;

/// A connection: the servers have the first numbers, clients those behind.
#[derive(Debug, Default)]
struct Line {
    fd: RawFd,
    /// A client's socket, which is closed with it.
    client: Option<TcpStream>,
    /// What is being sent; the kernel reads it until the completion has come.
    flying: Vec<u8>,
    sends: bool,
    receives: bool,
    is_gone: bool,
}

struct Loop {
    ring: IoUring,
    listener: RawFd,
    lines: Vec<Option<Line>>,
    relay: Relay,
    buffers: Buffers,
}

/// Runs until a server connection fails.
///
/// # Errors
/// Those of the system.
pub fn run(listener: &TcpListener, servers: &[UnixStream; SERVERS], relay: Relay) -> Result<()> {
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_defer_taskrun()
        .setup_cqsize(2 * ENTRIES)
        .build(ENTRIES)?;
    let buffers = Buffers::new();
    // SAFETY: the list has as many entries as is said, begins at a page, and is never freed.
    unsafe { ring.submitter().register_buf_ring_with_flags(buffers.ring as u64, BUFFERS, GROUP, 0)? };
    let lines = servers.iter().map(|server| Some(Line { fd: server.as_raw_fd(), ..Line::default() })).collect();
    let mut all = Loop { ring, listener: listener.as_raw_fd(), lines, relay, buffers };
    for number in 0..SERVERS {
        all.receive(number)?;
    }
    all.accept()?;
    let mut completions = Vec::new();
    loop {
        match all.ring.submit_and_wait(1) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => (),
        }
        completions.extend(all.ring.completion().map(|one| (one.user_data(), one.result(), one.flags())));
        for (whose, result, flags) in completions.drain(..) {
            let number = usize::try_from(whose / KINDS).map_err(Error::other)?;
            match whose % KINDS {
                ACCEPT => all.accepted(result, flags)?,
                RECEIVE => all.received(number, result, flags)?,
                _ => all.sent(number, result)?,
            }
        }
        for number in 0..SERVERS {
            all.send(number)?;
        }
        let touched = all.relay.touched();
        for &key in &touched {
            all.send(key + SERVERS)?;
        }
        all.relay.done(touched);
    }
}

impl Loop {
    /// Puts an entry into the queue; it is submitted with the next wait.
    fn push(&mut self, entry: squeue::Entry, kind: u64, number: usize) -> Result<()> {
        let whose = u64::try_from(number).map_err(Error::other)? * KINDS + kind;
        let entry = entry.user_data(whose);
        loop {
            // SAFETY: what entries point to is in a `Line`, which stays until the completion has come.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    fn accept(&mut self) -> Result<()> {
        self.push(opcode::AcceptMulti::new(Fd(self.listener)).build(), ACCEPT, 0)
    }

    fn accepted(&mut self, result: i32, flags: u32) -> Result<()> {
        if result >= 0 {
            // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
            let stream = unsafe { TcpStream::from_raw_fd(result) };
            stream.set_nodelay(true)?;
            let number = self.relay.enter() + SERVERS;
            self.lines.resize_with(self.lines.len().max(number + 1), || None);
            if let Some(place) = self.lines.get_mut(number) {
                *place = Some(Line { fd: result, client: Some(stream), ..Line::default() });
            }
            self.receive(number)?;
        }
        if cqueue::more(flags) { Ok(()) } else { self.accept() }
    }

    fn receive(&mut self, number: usize) -> Result<()> {
        let Some(Some(line)) = self.lines.get_mut(number) else { return Ok(()) };
        line.receives = true;
        let entry = opcode::RecvMulti::new(Fd(line.fd), GROUP).build();
        self.push(entry, RECEIVE, number)
    }

    fn received(&mut self, number: usize, result: i32, flags: u32) -> Result<()> {
        // Without buffers it is tried again: each has been given back by then.
        let mut stays = result > 0 || result == -libc::ENOBUFS;
        if let (Some(id), Ok(length)) = (cqueue::buffer_select(flags), usize::try_from(result)) {
            let said = self.buffers.bytes(id, length);
            if number < SERVERS {
                self.relay.answer(number, said)?;
            } else {
                stays &= self.relay.hear(number - SERVERS, said);
            }
            self.buffers.provide(id);
        }
        if !cqueue::more(flags) {
            self.lines.get_mut(number).into_iter().flatten().for_each(|line| line.receives = false);
            if stays {
                return self.receive(number);
            }
        }
        if stays { Ok(()) } else { self.leave(number) }
    }

    /// Sends what has been gathered, unless something is on its way.
    fn send(&mut self, number: usize) -> Result<()> {
        let Some(Some(line)) = self.lines.get_mut(number) else { return Ok(()) };
        if line.sends || line.is_gone {
            return Ok(());
        }
        let out = match number.checked_sub(SERVERS) {
            None => self.relay.for_server(number),
            Some(key) => self.relay.for_client(key),
        };
        let Some(out) = out else { return Ok(()) };
        std::mem::swap(&mut line.flying, out);
        line.sends = true;
        let length = u32::try_from(line.flying.len()).map_err(Error::other)?;
        // All of it is sent, or it fails.
        let entry = opcode::Send::new(Fd(line.fd), line.flying.as_ptr(), length).flags(libc::MSG_WAITALL).build();
        self.push(entry, SEND, number)
    }

    fn sent(&mut self, number: usize, result: i32) -> Result<()> {
        let Some(Some(line)) = self.lines.get_mut(number) else { return Ok(()) };
        line.sends = false;
        let is_whole = usize::try_from(result).is_ok_and(|sent| sent == line.flying.len());
        line.flying.clear();
        if is_whole && !line.is_gone {
            // What has been gathered meanwhile.
            return self.send(number);
        }
        self.leave(number)
    }

    /// A connection has ended: it is forgotten when the kernel has done with it.
    fn leave(&mut self, number: usize) -> Result<()> {
        if number < SERVERS {
            return Err(Error::other("a server connection has ended"));
        }
        let Some(place) = self.lines.get_mut(number) else { return Ok(()) };
        let Some(line) = place else { return Ok(()) };
        if !line.is_gone {
            line.is_gone = true;
            // Ends what is being received; it has ended already where the client has.
            let _ = line.client.as_ref().map(|client| client.shutdown(Shutdown::Both));
        }
        if !line.sends && !line.receives {
            *place = None;
            self.relay.leave(number - SERVERS);
        }
        Ok(())
    }
}

/// The buffers into which is received: the kernel takes them from a list that both see.
struct Buffers {
    ring: *mut BufRingEntry,
    memory: *mut u8,
    /// How many have ever been provided.
    tail: u16,
}

impl Buffers {
    /// All of them, provided.
    fn new() -> Self {
        let count = usize::from(BUFFERS);
        let ring = zeroed(count * size_of::<BufRingEntry>()).cast();
        let mut made = Self { ring, memory: zeroed(count * SIZE), tail: 0 };
        for id in 0..BUFFERS {
            made.provide(id);
        }
        made
    }

    /// What was received into a buffer.
    fn bytes(&self, id: u16, length: usize) -> &[u8] {
        // SAFETY: the memory holds all buffers, is never freed, and the kernel writes to none that it has not been given.
        unsafe { std::slice::from_raw_parts(self.memory.add(usize::from(id % BUFFERS) * SIZE), length.min(SIZE)) }
    }

    /// Gives a buffer to the kernel.
    fn provide(&mut self, id: u16) {
        // SAFETY: the place is within the list, and the kernel reads none behind the tail; the tail lies in the first entry.
        unsafe {
            let entry = &mut *self.ring.add(usize::from(self.tail % BUFFERS));
            entry.set_addr(self.memory.add(usize::from(id) * SIZE) as u64);
            entry.set_len(SIZE as u32);
            entry.set_bid(id);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(self.ring).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

/// Memory of nothing but zeroes that begins at a page.
fn zeroed(bytes: usize) -> *mut u8 {
    let Ok(layout) = Layout::from_size_align(bytes, PAGE) else { return std::ptr::null_mut() };
    // SAFETY: it is not of no bytes.
    let made = unsafe { alloc_zeroed(layout) };
    if made.is_null() {
        handle_alloc_error(layout)
    }
    made
}
