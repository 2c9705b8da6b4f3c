//! The system's log: a datagram for each line, to the socket of the log daemon, as syslog(3) sends them (RFC 3164).
//!
//! Unlike syslog(3) this code never waits: the threads that log carry the traffic of all clients. A line for which
//! there is no room is dropped and counted. The lines have no time; the daemon adds the local time.

use std::fmt::Arguments;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use pooling::config::SyslogFacility;

/// Where systems have the socket.
const SOCKET: &str = "/dev/log";

/// How much a line matters, in syslog's numbers.
#[derive(Debug, Clone, Copy)]
pub enum Severity {
    /// Someone should look at it.
    Warning = 4,
    /// Good to know.
    Informational = 6,
}

/// The way to the system's log.
#[derive(Debug)]
pub struct Syslog {
    socket: UnixDatagram,
    path: PathBuf,
    /// The name under which the lines appear.
    ident: String,
    facility: SyslogFacility,
    /// Lines that were dropped since the last that was sent.
    lost: u64,
}

impl Syslog {
    /// To be known there by a name.
    pub fn new(ident: &str, facility: SyslogFacility) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: SOCKET.into(), ident: ident.to_owned(), facility, lost: 0 })
    }

    /// Sends a line, behind one that says how many were dropped before it, if any were.
    pub fn send(&mut self, severity: Severity, text: Arguments<'_>) {
        if self.lost > 0 {
            let remark = format_args!("{} lines of the log were lost: they could not be sent at once", self.lost);
            if !self.put(Severity::Warning, remark) {
                self.lost += 1;
                return;
            }
            self.lost = 0;
        }
        if !self.put(severity, text) {
            self.lost += 1;
        }
    }

    /// Whether there was room for a line. Where nobody keeps a log there is nobody who could miss one.
    fn put(&self, severity: Severity, text: Arguments<'_>) -> bool {
        let priority = self.facility as u8 * 8 + severity as u8;
        let line = format!("<{priority}>{}[{}]: {text}", self.ident, std::process::id()).replace('\0', " ");
        // The socket has no peer, so that a log that was started again is found again.
        match self.socket.send_to(line.as_bytes(), &self.path) {
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived(log: &UnixDatagram) -> String {
        let mut line = [0; 1000];
        let length = log.recv(&mut line).unwrap();
        String::from_utf8_lossy(&line[..length]).into_owned()
    }

    #[test]
    fn lines_arrive_with_their_priority_also_when_the_log_was_started_again() {
        let path = std::env::temp_dir().join(format!("howdah-syslog-{}", std::process::id()));
        let mut syslog = Syslog::new("pooler", SyslogFacility::AuthPriv).unwrap();
        syslog.path.clone_from(&path);
        syslog.send(Severity::Warning, format_args!("nobody is there"));
        for _ in 0..2 {
            let log = UnixDatagram::bind(&path).unwrap();
            syslog.send(Severity::Informational, format_args!("a\0b"));
            assert_eq!(arrived(&log), format!("<86>pooler[{}]: a b", std::process::id()));
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_log_that_does_not_keep_up_hears_how_much_it_missed() {
        let path = std::env::temp_dir().join(format!("howdah-syslog-slow-{}", std::process::id()));
        let log = UnixDatagram::bind(&path).unwrap();
        let mut syslog = Syslog::new("pooler", SyslogFacility::Local7).unwrap();
        syslog.path.clone_from(&path);
        let mut sent = 0;
        while syslog.lost < 3 {
            syslog.send(Severity::Informational, format_args!("line {sent}"));
            sent += 1;
        }
        for number in 0..sent - 3 {
            assert!(arrived(&log).ends_with(&format!("]: line {number}")));
        }
        syslog.send(Severity::Warning, format_args!("there is room"));
        assert_eq!(
            arrived(&log),
            format!(
                "<188>pooler[{}]: 3 lines of the log were lost: they could not be sent at once",
                std::process::id()
            )
        );
        assert!(arrived(&log).ends_with("]: there is room"));
        std::fs::remove_file(&path).unwrap();
    }
}
