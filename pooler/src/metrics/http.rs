//! `/metrics`, `/healthz` and `/readyz`, for Prometheus and for the programs that start and balance poolers.
//!
//! One thread accepts requests, and each request gets a thread of its own, since requests are few and must not delay
//! each other. These threads share no lock for which a statement would have to wait.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};

use super::ask::ask_all;
use super::page;
use crate::inherited::Inherited;
use crate::net;
use pooling::admin::measured::Measured;
use pooling::admin::seen::{Part, PoolSeen};
use pooling::config::Settings;
use pooling::io::Kind;
use pooling::shared::Shared;
use pooling::sync::lock;
use pooling::takeover::inherited::MetricsSocket;

/// Requests that are answered at the same time; more are closed.
const AT_ONCE: usize = 16;
/// How long a request may take to arrive, and the answer to leave.
const REQUEST: Duration = Duration::from_secs(5);
/// A request with its headers is not longer than this.
const LONGEST: usize = 16_384;
/// How long the workers have to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// The same while they are ending: some have ended already.
const LAST_ANSWER: Duration = Duration::from_millis(100);

/// By what events name the socket, and the end of listening here.
const SOCKET: Token = Token(0);
const END: Token = Token(1);

/// Where it listens; none when it is turned off. A socket that another process has handed over is used again.
pub fn listen(settings: &Settings, inherited: &mut Inherited) -> io::Result<Option<TcpListener>> {
    if settings.metrics_port == 0 {
        return Ok(None);
    }
    let host = if settings.metrics_addr == "*" { "::" } else { settings.metrics_addr.as_str() };
    let addresses: Vec<_> = (host, settings.metrics_port).to_socket_addrs()?.collect();
    if let Some(socket) = addresses.iter().find_map(|address| inherited.take(Kind::Metrics, &address.to_string())) {
        return Ok(Some(socket.into()));
    }
    let told = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!(
                "metrics_addr, metrics_port: cannot listen on {}:{}: {error}",
                settings.metrics_addr, settings.metrics_port
            ),
        )
    };
    match TcpListener::bind(addresses.as_slice()) {
        Err(_) if settings.metrics_addr == "*" => {
            // A system without IPv6.
            TcpListener::bind(("0.0.0.0", settings.metrics_port)).map(Some).map_err(told)
        }
        outcome => outcome.map(Some).map_err(told),
    }
}

/// Answers requests, in threads of its own, until another process has the socket.
pub fn serve(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut poll = Poll::new()?;
    let waker = Waker::new(poll.registry(), END)?;
    *lock(&shared.takeover.metrics) = Some(MetricsSocket {
        socket: listener.try_clone()?.into(),
        address: listener.local_addr()?.to_string(),
        waker: Box::new(net::Waker(waker)),
    });
    let mut listener = mio::net::TcpListener::from_std(listener);
    poll.registry().register(&mut listener, SOCKET, Interest::READABLE)?;
    let accept = move || {
        let busy = Arc::new(AtomicUsize::new(0));
        let mut events = Events::with_capacity(4);
        while !shared.takeover.is_handed_over() {
            // A signal may have interrupted it; then nobody is there, which is no trouble.
            let _ = poll.poll(&mut events, None);
            accept_all(&listener, &busy, &shared);
        }
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(accept).map(|_| ())
}

/// Answers those who have arrived, each in a thread of its own.
fn accept_all(listener: &mio::net::TcpListener, busy: &Arc<AtomicUsize>, shared: &Arc<Shared>) {
    while !shared.takeover.is_handed_over() {
        let stream = match listener.accept() {
            Ok((stream, _)) => TcpStream::from(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => {
                // As when no file is left to be opened: it may pass.
                pooling::warning!("cannot accept a request for metrics: {error}");
                thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if busy.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
            busy.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (counted, shared) = (busy.clone(), shared.clone());
        let answer = move || {
            // A client that goes away or says nothing is nobody's trouble.
            let _ = stream.set_nonblocking(false).and_then(|()| answer(stream, &shared));
            counted.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("metrics".to_owned()).spawn(answer).is_err() {
            busy.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What is answered: a status, a type, a body.
struct Answer(&'static str, &'static str, String);

const PLAIN: &str = "text/plain; charset=utf-8";

fn answer(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let deadline = Instant::now() + REQUEST;
    stream.set_write_timeout(Some(REQUEST))?;
    let mut held = Vec::new();
    let (answer, with_body) = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        let mut part = [0; 2048];
        let count = stream.read(&mut part)?;
        if count == 0 {
            return Ok(());
        }
        held.extend_from_slice(part.get(..count).unwrap_or_default());
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&held) {
            Ok(httparse::Status::Complete(_)) => {
                let path = request.path.unwrap_or_default();
                let path = path.split('?').next().unwrap_or_default();
                break match request.method {
                    Some("GET") => (about(path, shared), true),
                    Some("HEAD") => (about(path, shared), false),
                    _ => (Answer("405 Method Not Allowed", PLAIN, "only GET and HEAD are answered\n".to_owned()), true),
                };
            }
            Ok(httparse::Status::Partial) if held.len() < LONGEST => (),
            _ => break (Answer("400 Bad Request", PLAIN, "this is not a request\n".to_owned()), true),
        }
    };
    let Answer(status, kind, body) = answer;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
        body.len(),
        if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" },
    );
    stream.write_all(head.as_bytes())?;
    if with_body {
        stream.write_all(body.as_bytes())?;
    }
    Ok(())
}

fn about(path: &str, shared: &Shared) -> Answer {
    if !matches!(path, "/metrics" | "/healthz" | "/readyz") {
        return Answer("404 Not Found", PLAIN, "there are /metrics, /healthz and /readyz\n".to_owned());
    }
    let ending = shared.orders.ending.load(Ordering::Relaxed);
    let measured = ask_all(shared, if ending { LAST_ANSWER } else { ANSWER });
    if path == "/metrics" {
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        return Answer("200 OK", kind, page::page(shared, &measured));
    }
    let trouble = if path == "/healthz" { ill(shared, &measured) } else { unready(shared, &measured) };
    match trouble {
        None => Answer("200 OK", PLAIN, "ok\n".to_owned()),
        Some(trouble) => Answer("503 Service Unavailable", PLAIN, format!("{trouble}\n")),
    }
}

/// Why it should be started anew: a worker that does not turn its loop any more.
fn ill(shared: &Shared, measured: &[Measured]) -> Option<String> {
    let missing = shared.mailboxes.len() - measured.len();
    let ending = shared.orders.ending.load(Ordering::Relaxed);
    (missing > 0 && !ending).then(|| format!("{missing} of {} workers do not answer", shared.mailboxes.len()))
}

/// Why clients should be sent elsewhere.
fn unready(shared: &Shared, measured: &[Measured]) -> Option<String> {
    if shared.orders.ending.load(Ordering::Relaxed) {
        return Some("shutting down".to_owned());
    }
    if lock(&shared.orders.paused).contains("") {
        return Some("paused".to_owned());
    }
    if pooling::state::suspension::is_suspended(shared) {
        return Some("suspended".to_owned());
    }
    if let Some(trouble) = ill(shared, measured) {
        return Some(trouble);
    }
    // One server that is down is no reason to send the clients of the others away. A pool that has not failed may reach its
    // server: clients that were sent elsewhere could not show that.
    let pools = measured.iter().flat_map(|measured| &measured.pools).map(|(pool, _)| pool);
    let mut with_servers = pools.filter(|pool| pool.part != Part::Clients).peekable();
    let dead = with_servers.peek().is_some() && with_servers.all(PoolSeen::is_dead);
    dead.then(|| "no server can be reached".to_owned())
}
