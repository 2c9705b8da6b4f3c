//! The superuser's own connection, straight to the server: it waits for each answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use wire::{backend, frame, frontend, startup};

/// Who prepares the server, does mischief and reads the tables.
pub const SUPERUSER: &str = "postgres";

/// A connection.
#[derive(Debug)]
pub struct Admin {
    socket: TcpStream,
    held: Vec<u8>,
    /// What the server reported at login, by name.
    pub reported: Vec<(String, String)>,
}

impl Admin {
    /// Connects, without a password.
    pub fn connect(server: SocketAddr, database: &str, user: &str) -> Result<Self, String> {
        let socket = TcpStream::connect_timeout(&server, Duration::from_secs(10)).map_err(|error| error.to_string())?;
        let limit = Some(Duration::from_secs(300));
        socket.set_read_timeout(limit).and_then(|()| socket.set_nodelay(true)).map_err(|error| error.to_string())?;
        let mut admin = Self { socket, held: Vec::new(), reported: Vec::new() };
        let mut packet = Vec::new();
        startup::write_startup(&mut packet, [("user", user), ("database", database)]);
        admin.socket.write_all(&packet).map_err(|error| error.to_string())?;
        admin.answer()?;
        Ok(admin)
    }

    /// The rows of one Query, NULL as an empty text; its error as text.
    pub fn ask(&mut self, sql: &str) -> Result<Vec<Vec<String>>, String> {
        let mut packet = Vec::new();
        frontend::write_query(&mut packet, sql);
        self.socket.write_all(&packet).map_err(|error| error.to_string())?;
        self.answer()
    }

    /// The first value of one Query.
    pub fn value(&mut self, sql: &str) -> Result<String, String> {
        let rows = self.ask(sql)?;
        rows.into_iter().flatten().next().ok_or_else(|| format!("no row: {sql}"))
    }

    fn answer(&mut self) -> Result<Vec<Vec<String>>, String> {
        let (mut rows, mut error) = (Vec::new(), None);
        loop {
            let (tag, body) = self.message()?;
            match tag {
                backend::tag::DATA_ROW => {
                    let values = backend::data_row(&body).map_err(|error| error.to_string())?;
                    let text = |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
                    rows.push(values.into_iter().map(text).collect());
                }
                backend::tag::PARAMETER_STATUS => {
                    if let Ok((name, value)) = backend::parameter_status(&body) {
                        self.reported.push((name.to_owned(), value.to_owned()));
                    }
                }
                backend::tag::ERROR_RESPONSE => {
                    let report = backend::report(&body).map_err(|error| error.to_string())?;
                    error = Some(format!("{} {}", report.code, report.message));
                }
                backend::tag::READY_FOR_QUERY => return error.map_or(Ok(rows), Err),
                _ => (),
            }
        }
    }

    fn message(&mut self) -> Result<(u8, Vec<u8>), String> {
        loop {
            if let Some(message) = frame::message(&self.held).map_err(|error| error.to_string())? {
                let found = (message.tag, message.body.to_vec());
                let used = self.held.len() - message.rest.len();
                self.held.drain(..used);
                return Ok(found);
            }
            let mut more = vec![0; 1 << 18];
            match self.socket.read(&mut more) {
                Ok(0) => return Err("the server has closed the connection".to_owned()),
                Ok(read) => self.held.extend_from_slice(&more[..read]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}
