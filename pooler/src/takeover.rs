//! A new process takes over the listening sockets of a running one (`-R`), and no client that connects meanwhile is
//! refused.
//!
//! The new process asks on the console, over the Unix socket and under the same account: the answer to `TAKEOVER` has
//! the sockets themselves (SCM_RIGHTS) beside rows that name them. They are the same sockets with the same backlog, so
//! both processes accept until the new one serves clients and sends `TAKEOVER DONE`. Then the old process closes them,
//! and ends when its clients have left or were taken over too (`takeover.rs`). It goes on listening on a Unix socket
//! of its own: the new process, at which cancel requests arrive, passes those for the old one's clients on to this
//! socket. If the new process fails before `TAKEOVER DONE`, nothing has changed.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pooling::model::keys::{ClientKey, WorkerId};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use wire::backend::{self, tag};
use wire::frame::{self, HEADER};
use wire::startup::{self, CancelKey};

use crate::account;
use crate::inherited::Inherited;
use crate::listen::socket_path;
use pooling::config::Settings;
use pooling::io::MOST_HANDED;
use pooling::shared::{Message, Shared};
use pooling::state::adopted::{Described, Row};
use pooling::sync::lock;

/// How long the other process may take for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Cancel requests that are passed on at the same time; more have no effect.
const AT_ONCE: usize = 16;

/// The process whose sockets are taken over.
#[derive(Debug)]
pub struct Predecessor {
    stream: UnixStream,
    /// Its sockets.
    pub inherited: Inherited,
}

/// Why a takeover was not concluded.
#[derive(Debug)]
pub enum Failed {
    /// The other process does not agree.
    Refused(String),
    /// The other process is gone.
    Gone(String),
}

impl Predecessor {
    /// Asks the process that runs with these settings for its sockets; `None` when there is none.
    pub fn find(settings: &Settings) -> Result<Option<Self>, String> {
        let Some(path) = socket_path(settings) else {
            return Err("-R needs unix_socket_dir: the sockets are handed over there".to_owned());
        };
        let told = |error: &dyn std::fmt::Display| format!("-R: {}: {error}", path.display());
        let mut stream = match UnixStream::connect(&path) {
            Ok(stream) => stream,
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused) =>
            {
                pooling::info!("-R: no pooler runs at {}, so this one starts as without -R", path.display());
                return Ok(None);
            }
            Err(error) => return Err(told(&error)),
        };
        let (own, theirs) = (account::own(), account::peer(&stream).map_err(|error| told(&error))?);
        if theirs != own {
            // Whoever may write to the folder may have made it, and would keep the sockets that it hands over.
            let whose = format!("the process that listens there runs as the user {theirs}, and this one as {own}");
            return Err(told(&whose));
        }
        let limited = stream.set_read_timeout(Some(ANSWER)).and_then(|()| stream.set_write_timeout(Some(ANSWER)));
        limited.map_err(|error| told(&error))?;
        let mut hello = Vec::new();
        startup::write_startup(&mut hello, [("user", "howdah"), ("database", "howdah")]);
        stream.write_all(&hello).map_err(|error| told(&error))?;
        read_answer(&stream).map_err(|error| told(&error))?;
        let (rows, sockets) = ask(&mut stream, "TAKEOVER").map_err(|error| told(&error))?;
        let inherited = Inherited::read(&named(&rows), sockets).map_err(|error| told(&error))?;
        Ok(Some(Self { stream, inherited }))
    }

    /// Tells it that its sockets are served here. Where it is to be found from now on, and those that had them before it.
    pub fn release(&mut self) -> Result<Vec<PathBuf>, Failed> {
        let text = |error: std::io::Error| Failed::Gone(error.to_string());
        self.stream.set_read_timeout(Some(ANSWER)).map_err(text)?;
        match ask(&mut self.stream, "TAKEOVER DONE") {
            Ok((rows, _)) => Ok(named(&rows).into_iter().map(|(_, path)| PathBuf::from(path)).collect()),
            Err(Trouble::Refused(why)) => Err(Failed::Refused(why)),
            Err(trouble) => Err(Failed::Gone(trouble.to_string())),
        }
    }

    /// Asks for clients that have nothing under way: what their sessions are, and their sockets.
    pub fn clients(&mut self) -> Result<(Vec<Described>, Vec<OwnedFd>), String> {
        let (rows, sockets) = ask(&mut self.stream, "TAKEOVER CLIENTS").map_err(|trouble| trouble.to_string())?;
        let described = Described::read(&rows)?;
        if described.len() != sockets.len() {
            return Err(format!(
                "the running pooler described {} clients and handed over {} sockets",
                described.len(),
                sockets.len()
            ));
        }
        Ok((described, sockets))
    }
}

/// What keeps from an answer.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Protocol(#[from] wire::Error),
    #[error(
        "the running pooler asks for a password: it runs as another account, or is not a howdah-pooler of this version"
    )]
    Password,
}

type Answered = (Vec<Row>, Vec<OwnedFd>);

/// Rows of two texts: a word, and a place.
fn named(rows: &[Row]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pair = |row: &Row| Some((text(row.first()?), text(row.get(1)?)));
    rows.iter().filter_map(pair).collect()
}

fn ask(stream: &mut UnixStream, command: &str) -> Result<Answered, Trouble> {
    let mut query = Vec::new();
    wire::frontend::write_query(&mut query, command);
    stream.write_all(&query)?;
    read_answer(stream)
}

/// Reads up to ReadyForQuery: rows, and the sockets that came with them.
fn read_answer(stream: &UnixStream) -> Result<Answered, Trouble> {
    let (mut held, mut rows, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
    let mut refused = None;
    loop {
        while let Some(message) = frame::message(&held)? {
            match message.tag {
                tag::READY_FOR_QUERY => {
                    return refused.map_or_else(|| Ok((rows, sockets)), |why| Err(Trouble::Refused(why)));
                }
                tag::ERROR_RESPONSE => {
                    let report = backend::report(message.body)?;
                    if report.severity == "FATAL" {
                        return Err(Trouble::Refused(report.message));
                    }
                    refused = Some(report.message);
                }
                tag::AUTHENTICATION if message.body != [0; 4] => return Err(Trouble::Password),
                tag::DATA_ROW => {
                    let row = backend::data_row(message.body)?;
                    rows.push(row.iter().map(|value| value.unwrap_or_default().to_vec()).collect());
                }
                _ => (),
            }
            let total = HEADER + message.body.len();
            held.drain(..total);
        }
        let mut part = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_HANDED))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got =
            recvmsg(stream, &mut [IoSliceMut::new(&mut part)], &mut control, flags).map_err(std::io::Error::from)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(handed) = message {
                sockets.extend(handed);
            }
        }
        if got.bytes == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        held.extend_from_slice(part.get(..got.bytes).unwrap_or_default());
    }
}

/// Where this process listens when another has its sockets.
pub fn own_path(settings: &Settings) -> Option<PathBuf> {
    let mut path = socket_path(settings)?.into_os_string();
    path.push(format!(".{}", std::process::id()));
    Some(path.into())
}

/// Passes a cancel request that names nobody here on to the processes that had the sockets before; false when there are
/// none. Who brought it is told when it has had its effect. It comes to each of them once: those that have handed the
/// sockets over pass nothing on.
pub fn pass_on(shared: &Arc<Shared>, cancel: &CancelKey, asker: (WorkerId, ClientKey)) -> bool {
    let before = lock(&shared.takeover.before).clone();
    if before.is_empty() || shared.takeover.is_handed_over() {
        return false;
    }
    let passing_on = &shared.takeover.passing_on;
    if passing_on.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
        passing_on.fetch_sub(1, Ordering::Relaxed);
        return false;
    }
    let mut request = Vec::new();
    startup::write_cancel(&mut request, cancel);
    let inner = shared.clone();
    let deliver = move || {
        for path in before {
            if !deliver(&path, &request) {
                lock(&inner.takeover.before).retain(|before| *before != path);
            }
        }
        inner.tell(asker.0, Message::Cancelled(asker.1));
        inner.takeover.passing_on.fetch_sub(1, Ordering::Relaxed);
    };
    let started = std::thread::Builder::new().name("cancel".to_owned()).spawn(deliver).is_ok();
    if !started {
        passing_on.fetch_sub(1, Ordering::Relaxed);
    }
    started
}

/// Sends a cancel request, and waits until it has had its effect; false when nobody is there any more.
fn deliver(path: &Path, request: &[u8]) -> bool {
    let Ok(mut stream) = UnixStream::connect(path) else { return false };
    // Whatever fails from here on, there is nobody to be told.
    let _ = stream.set_read_timeout(Some(ANSWER)).and_then(|()| stream.write_all(request));
    let _ = stream.read(&mut [0; 16]);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use pooling::takeover::answer::answer_to_takeover;
    use pooling::takeover::inherited::AFTERWARDS;

    #[test]
    fn what_is_answered_is_read_again() {
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(&answer_to_takeover([("tcp", "a:1".to_owned()), (AFTERWARDS, "/x".to_owned())])).unwrap();
        let (rows, sockets) = read_answer(&here).unwrap();
        assert_eq!(named(&rows), [("tcp".to_owned(), "a:1".to_owned()), (AFTERWARDS.to_owned(), "/x".to_owned())]);
        assert!(sockets.is_empty());
        drop(there);
        assert!(matches!(read_answer(&here), Err(Trouble::Io(_))));
    }
}
