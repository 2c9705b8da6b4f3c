//! The answers to `TAKEOVER` on the console, with sockets beside them.

use std::os::fd::BorrowedFd;

use crate::model::keys::ClientKey;
use crate::model::slots::Slots;
use wire::backend::{self, ColumnType, Status};

use crate::error::Error;
use crate::state::adopted::Row;
use crate::state::client::Client;

/// The columns of the answers to `TAKEOVER` and `TAKEOVER DONE`.
const COLUMNS: [(&str, ColumnType); 2] = [("kind", ColumnType::Text), ("address", ColumnType::Text)];

/// Writes an answer of rows to `TAKEOVER`.
pub fn write_rows<'a>(out: &mut Vec<u8>, rows: impl IntoIterator<Item = (&'a str, String)>) {
    backend::write_row_description(out, COLUMNS.into_iter());
    for (word, address) in rows {
        backend::write_data_row(out, [Some(word.as_bytes()), Some(address.as_bytes())].into_iter());
    }
}

/// Writes rows to an answer.
pub fn write_plain_rows(answer: &mut Vec<u8>, rows: &[Row]) {
    backend::write_row_description(answer, COLUMNS.into_iter());
    for row in rows {
        backend::write_data_row(answer, row.iter().map(|value| Some(value.as_slice())));
    }
    backend::write_command_complete(answer, "TAKEOVER");
    backend::write_ready_for_query(answer, Status::Idle);
}

/// The answer to `TAKEOVER`: rows of sockets.
pub fn answer_to_takeover<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> Vec<u8> {
    let mut answer = Vec::new();
    write_rows(&mut answer, rows);
    backend::write_command_complete(&mut answer, "TAKEOVER");
    backend::write_ready_for_query(&mut answer, Status::Idle);
    answer
}

/// Sends an answer on the console with sockets beside it.
pub fn send_with(
    clients: &mut Slots<ClientKey, Client>,
    key: ClientKey,
    answer: &[u8],
    handed: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    let Some(client) = clients.get_mut(key) else {
        return Err(Error::HandOver("the other process has ended".to_owned()));
    };
    let text = |error: std::io::Error| Error::HandOver(format!("cannot hand the sockets over: {error}"));
    client.io.flush().map_err(text)?;
    if client.io.pending() > 0 {
        return Err(Error::HandOver("the other process has not read the previous answers".to_owned()));
    }
    let sent = client.io.socket.write_with(answer, handed).map_err(text)?;
    client.io.out().extend_from_slice(answer.get(sent..).unwrap_or_default());
    Ok(())
}
