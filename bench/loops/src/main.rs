//! One relay on three event loops: `loops {mio|tokio|uring} PORT SERVER USER DATABASE`.
//!
//! It listens at 127.0.0.1:PORT, lets anyone in, and sends clients' requests over two connections to the server at SERVER
//! (the path of its Unix socket), one behind the other: what a pooler does at the least. What is done with the bytes is
//! the same code ([`relay`]) on each loop, so that a difference is the loop's.

mod on_mio;
mod on_tokio;
mod on_uring;
mod relay;

use std::io::{Error, Read, Result, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;

use relay::{Relay, SERVERS};

/// Read at once.
pub const READ: usize = 65_536;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = || Error::other("usage: loops {mio|tokio|uring} PORT SERVER USER DATABASE");
    let [kind, port, server, user, database] = arguments.as_slice() else { return Err(usage()) };
    let port: u16 = port.parse().map_err(|_| usage())?;
    let (first, greeting) = log_in(server, user, database)?;
    let (second, _) = log_in(server, user, database)?;
    let servers: [UnixStream; SERVERS] = [first, second];
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let relay = Relay::new(greeting);
    match kind.as_str() {
        "mio" => on_mio::run(listener, servers, relay),
        "tokio" => on_tokio::run(listener, servers, relay),
        "uring" => on_uring::run(&listener, &servers, relay),
        _ => Err(usage()),
    }
}

/// A connection to the server, and what it said at login.
fn log_in(path: &str, user: &str, database: &str) -> Result<(UnixStream, Vec<u8>)> {
    let mut stream = UnixStream::connect(path)?;
    let body = format!("user\0{user}\0database\0{database}\0\0");
    let length = u32::try_from(body.len() + 8).map_err(Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], &[0, 3, 0, 0], body.as_bytes()].concat())?;
    let (mut said, mut scratch) = (Vec::new(), [0; 4096]);
    while !said.ends_with(b"Z\0\0\0\x05I") {
        let count = stream.read(&mut scratch)?;
        said.extend_from_slice(scratch.get(..count).unwrap_or_default());
        if count == 0 || said.first() == Some(&b'E') {
            return Err(Error::other("the server lets nobody in without a password"));
        }
    }
    Ok((stream, said))
}
