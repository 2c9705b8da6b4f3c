//! The relay on mio, which the pooler is on: edge-triggered epoll, registered once for reading.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::READ;
use crate::relay::{Relay, SERVERS};

const LISTENER: Token = Token(SERVERS);
const CLIENTS: usize = SERVERS + 1;
/// Who takes no more now is tried again so much later, which a bench hardly meets.
const LATER: Duration = Duration::from_millis(1);

/// Runs until a server connection fails.
///
/// # Errors
/// Those of the system.
#[expect(clippy::too_many_lines, reason = "a loop that is read from top to bottom")]
pub fn run(listener: TcpListener, servers: [UnixStream; SERVERS], mut relay: Relay) -> Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(256);
    let mut scratch = vec![0; READ];
    listener.set_nonblocking(true)?;
    let mut listener = mio::net::TcpListener::from_std(listener);
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut lines = Vec::new();
    for (number, server) in servers.into_iter().enumerate() {
        server.set_nonblocking(true)?;
        let mut line = mio::net::UnixStream::from_std(server);
        poll.registry().register(&mut line, Token(number), Interest::READABLE)?;
        lines.push(line);
    }
    let mut clients: Vec<Option<TcpStream>> = Vec::new();
    let mut stuck: Vec<usize> = Vec::new();
    loop {
        match poll.poll(&mut events, (!stuck.is_empty()).then_some(LATER)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => (),
        }
        for event in &events {
            match event.token() {
                LISTENER => {
                    while let Ok((mut stream, _)) = listener.accept() {
                        stream.set_nodelay(true)?;
                        let key = relay.enter();
                        poll.registry().register(&mut stream, Token(key + CLIENTS), Interest::READABLE)?;
                        clients.resize_with(clients.len().max(key + 1), || None);
                        if let Some(place) = clients.get_mut(key) {
                            *place = Some(stream);
                        }
                    }
                }
                Token(number) if number < SERVERS => {
                    let Some(line) = lines.get_mut(number) else { continue };
                    while let Some(said) = read(line, &mut scratch)? {
                        relay.answer(number, said)?;
                        if said.len() < READ {
                            break;
                        }
                    }
                }
                Token(token) => {
                    let key = token - CLIENTS;
                    let Some(place) = clients.get_mut(key) else { continue };
                    let Some(stream) = place else { continue };
                    let stays = loop {
                        match read(stream, &mut scratch) {
                            Ok(Some(said)) if !relay.hear(key, said) => break false,
                            Ok(Some(said)) if said.len() < READ => break true,
                            Ok(Some(_)) => (),
                            Ok(None) => break true,
                            Err(_) => break false,
                        }
                    };
                    if !stays {
                        *place = None;
                        relay.leave(key);
                    }
                }
            }
        }
        // What has come together goes together.
        for (number, line) in lines.iter_mut().enumerate() {
            if let Some(out) = relay.for_server(number) {
                write(line, out)?;
            }
        }
        let mut touched = relay.touched();
        touched.append(&mut stuck);
        for &key in &touched {
            if let (Some(Some(stream)), Some(out)) = (clients.get_mut(key), relay.for_client(key)) {
                // One who has gone is met when it is read from.
                if write(stream, out).is_ok() && !out.is_empty() {
                    stuck.push(key);
                }
            }
        }
        relay.done(touched);
    }
}

/// Reads once: none when there is nothing now.
fn read<'a>(from: &mut impl Read, scratch: &'a mut [u8]) -> Result<Option<&'a [u8]>> {
    match from.read(scratch) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(scratch.get(..count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sends what can be sent now.
fn write(to: &mut impl Write, out: &mut Vec<u8>) -> Result<()> {
    let mut sent = 0;
    while let Some(rest) = out.get(sent..).filter(|rest| !rest.is_empty()) {
        match to.write(rest) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    out.drain(..sent);
    Ok(())
}
