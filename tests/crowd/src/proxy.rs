//! A slow network between the pooler and the server: what is said on a connection is joined, split and late, and never
//! changed.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::dice::Dice;

/// A thread's stack: these do nothing but copy.
const STACK: usize = 128 * 1024;
/// As much as is carried at once.
const ROOM: usize = 1 << 16;

/// What one direction of a connection is like.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// In so many of a thousand cases what is said is held back and joined with what follows.
    joins: usize,
    /// In so many it is split.
    splits: usize,
    /// For how long it is held back at most, in microseconds.
    delay: usize,
}

/// Listens on this port of 127.0.0.1 and passes on to the server, on threads that end with the process.
pub fn start(port: u16, server: SocketAddr, delay: u64, seed: u64) -> Result<(), String> {
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|error| format!("port {port}: {error}"))?;
    let count = AtomicU64::new(0);
    let accept = move || {
        for near in listener.incoming().flatten() {
            let place = count.fetch_add(1, Ordering::Relaxed);
            let _ = connect(near, server, delay as usize * 1000, Dice::new(seed, u64::MAX / 2 + place));
        }
    };
    thread::Builder::new().spawn(accept).map(|_| ()).map_err(|error| error.to_string())
}

fn connect(near: TcpStream, server: SocketAddr, delay: usize, mut dice: Dice) -> std::io::Result<()> {
    let far = TcpStream::connect(server)?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let (near, far) = (Arc::new(near), Arc::new(far));
    for (from, to) in [(&near, &far), (&far, &near)] {
        let (from, to) = (Arc::clone(from), Arc::clone(to));
        // Most are quick, as networks are; some are slow with everything.
        let line = match dice.below(10) {
            0..5 => Line { joins: 100, splits: 150, delay: delay / 20 },
            5..9 => Line { joins: 200, splits: 100, delay: delay / 5 },
            _ => Line { joins: 1000, splits: 0, delay },
        };
        let dice = Dice::new(dice.below(usize::MAX) as u64, 1);
        thread::Builder::new().stack_size(STACK).spawn(move || {
            let _ = carry(&from, &to, line, dice);
            // Whoever still talks to the one that has gone must hear of it.
            let _ = to.shutdown(Shutdown::Write);
        })?;
    }
    Ok(())
}

/// Carries one direction until its end.
fn carry(mut from: &TcpStream, mut to: &TcpStream, line: Line, mut dice: Dice) -> std::io::Result<()> {
    let mut room = vec![0; ROOM];
    loop {
        let mut count = match from.read(&mut room) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                let _ = to.shutdown(Shutdown::Both);
                return Err(error);
            }
        };
        if dice.permille(line.joins) {
            thread::sleep(Duration::from_micros(dice.below(line.delay + 1) as u64));
            count += more(from, &mut room[count..])?;
        }
        let mut left = &room[..count];
        while dice.permille(line.splits) && left.len() > 1 {
            let (first, rest) = left.split_at(dice.between(1, left.len() - 1));
            to.write_all(first)?;
            left = rest;
            thread::sleep(Duration::from_micros(dice.below(500) as u64));
        }
        to.write_all(left)?;
    }
}

/// What else has come meanwhile.
fn more(mut from: &TcpStream, room: &mut [u8]) -> std::io::Result<usize> {
    if room.is_empty() {
        return Ok(0);
    }
    // It would hold for both directions; each connection has two threads, and the other only writes to this one.
    let mut peeked = [0];
    from.set_read_timeout(Some(Duration::from_micros(1)))?;
    let there = matches!(from.peek(&mut peeked), Ok(1));
    from.set_read_timeout(None)?;
    if there { from.read(room) } else { Ok(0) }
}
