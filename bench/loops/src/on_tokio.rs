//! The relay on tokio's current-thread runtime: a task for each client, and two for each server connection.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{ErrorKind, Result};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{tcp, unix};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};

use crate::READ;
use crate::relay::{Relay, SERVERS};

/// What the tasks share.
struct Shared {
    relay: RefCell<Relay>,
    scratch: RefCell<Vec<u8>>,
    clients: RefCell<Vec<Option<Rc<tcp::OwnedWriteHalf>>>>,
    /// Tell that something is to be sent to a server.
    wanted: [Notify; SERVERS],
}

/// Runs until a server connection fails.
///
/// # Errors
/// Those of the system.
pub fn run(listener: TcpListener, servers: [UnixStream; SERVERS], relay: Relay) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, serve(listener, servers, relay))
}

async fn serve(listener: TcpListener, servers: [UnixStream; SERVERS], relay: Relay) -> Result<()> {
    let shared = Rc::new(Shared {
        relay: RefCell::new(relay),
        scratch: RefCell::new(vec![0; READ]),
        clients: RefCell::default(),
        wanted: Default::default(),
    });
    for (number, server) in servers.into_iter().enumerate() {
        server.set_nonblocking(true)?;
        let (reader, writer) = tokio::net::UnixStream::from_std(server)?.into_split();
        spawn_local(hear_server(shared.clone(), number, reader));
        spawn_local(tell_server(shared.clone(), number, writer));
    }
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        let key = shared.relay.borrow_mut().enter();
        let mut clients = shared.clients.borrow_mut();
        let length = clients.len().max(key + 1);
        clients.resize(length, None);
        if let Some(place) = clients.get_mut(key) {
            *place = Some(Rc::new(writer));
        }
        spawn_local(hear_client(shared.clone(), key, reader));
    }
}

/// Reads once, into memory that all tasks share, and has it done with.
async fn read<T>(from: &mut (impl AsyncRead + Unpin), shared: &Shared, then: impl Fn(&[u8]) -> T) -> Result<T> {
    poll_fn(|context| {
        let mut scratch = shared.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        match Pin::new(&mut *from).poll_read(context, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(())) => Poll::Ready(Ok(then(buffer.filled()))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn hear_client(shared: Rc<Shared>, key: usize, mut reader: tcp::OwnedReadHalf) {
    while let Ok(true) = read(&mut reader, &shared, |said| shared.relay.borrow_mut().hear(key, said)).await {
        for (number, wanted) in shared.wanted.iter().enumerate() {
            if shared.relay.borrow_mut().for_server(number).is_some() {
                wanted.notify_one();
            }
        }
        tell_clients(&shared);
    }
    shared.clients.borrow_mut().get_mut(key).into_iter().for_each(|place| *place = None);
    shared.relay.borrow_mut().leave(key);
}

/// A server that fails ends the process: nothing is left to be measured.
async fn hear_server(shared: Rc<Shared>, number: usize, mut reader: unix::OwnedReadHalf) {
    while let Ok(Ok(())) = read(&mut reader, &shared, |said| shared.relay.borrow_mut().answer(number, said)).await {
        tell_clients(&shared);
    }
    std::process::exit(1);
}

/// Sends what has been gathered since: this task has its turn behind the clients that were ready with the first.
async fn tell_server(shared: Rc<Shared>, number: usize, writer: unix::OwnedWriteHalf) {
    let Some(wanted) = shared.wanted.get(number) else { return };
    loop {
        wanted.notified().await;
        let mut out = shared.relay.borrow_mut().for_server(number).map(std::mem::take).unwrap_or_default();
        while !out.is_empty() {
            match writer.try_write(&out) {
                Ok(count) => drop(out.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock && writer.writable().await.is_ok() => (),
                Err(_) => std::process::exit(1),
            }
        }
        // Its memory is used again.
        let mut relay = shared.relay.borrow_mut();
        relay.give_back(number, out);
    }
}

fn tell_clients(shared: &Rc<Shared>) {
    let touched = shared.relay.borrow_mut().touched();
    for &key in &touched {
        let Some(writer) = shared.clients.borrow().get(key).cloned().flatten() else { continue };
        let mut relay = shared.relay.borrow_mut();
        let Some(out) = relay.for_client(key) else { continue };
        match writer.try_write(out) {
            Ok(count) if count == out.len() => out.clear(),
            Ok(count) => drop(out.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => (),
            // One who has gone is met when it is read from.
            Err(_) => out.clear(),
        }
        if !out.is_empty() {
            spawn_local(try_again(shared.clone(), writer));
            relay.touch(key);
        }
    }
    shared.relay.borrow_mut().done(touched);
}

/// What a client has not taken goes when it takes more, which a bench hardly meets.
async fn try_again(shared: Rc<Shared>, writer: Rc<tcp::OwnedWriteHalf>) {
    if writer.writable().await.is_ok() {
        tell_clients(&shared);
    }
}
