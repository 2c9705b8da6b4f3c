//! The answer to a client of the console: the result of its command, or the error.

use crate::model::client::Discard;
use crate::model::keys::ClientKey;
use wire::backend::{self, ColumnType, Status};
use wire::sqlstate;

use crate::admin::ask;
use crate::admin::command::Command;
use crate::admin::order::Answer;
use crate::admin::seen::Snapshot;
use crate::admin::show::view::{Dialect, Row, View};
use crate::admin::show::{Show, help};
use crate::error::Error;
use crate::shared::Message;
use crate::state::Core;

/// Sends an error; in the extended protocol nothing more is answered up to the next Sync.
pub fn failed(core: &mut Core, key: ClientKey, error: &Error) {
    ask::console_error(core, key, error);
    let Some(client) = core.clients.get_mut(key) else { return };
    client.input.discard = Discard::Unit;
}

/// Sends the error of a command that was run, by either protocol.
pub fn refused(core: &mut Core, key: ClientKey, error: &Error) {
    if core.clients.get(key).is_some_and(|client| client.input.unsynced) {
        failed(core, key, error);
    } else {
        ask::console_error(core, key, error);
        ready(core, key);
    }
}

/// Sends a console client the result of its command.
pub fn result(core: &mut Core, key: ClientKey, command: &Command, answers: Vec<Answer>) {
    if let Command::KillClient(id) = command
        && !answers.iter().any(|answer| matches!(answer, Answer::Found(true)))
    {
        return refused(core, key, &Error::NoClient(*id));
    }
    let Some(client) = core.clients.get_mut(key) else { return };
    let (extended, dialect) = (client.input.unsynced, Dialect::of(&client.identity.database));
    match command {
        Command::Show(what) => {
            if *what == Show::Help && !extended {
                backend::write_notice(client.io.out(), "NOTICE", sqlstate::SUCCESSFUL_COMPLETION, help::TEXT);
            }
            let seen = |answer| if let Answer::Seen(snapshot) = answer { Some(snapshot) } else { None };
            let snapshots: Vec<Snapshot> = answers.into_iter().filter_map(seen).collect();
            let view = View {
                snapshots: &snapshots,
                config: &core.config,
                shared: &core.shared,
                now: core.now,
                date: core.shared.outside.date(),
            };
            let rows = what.rows(&view, dialect);
            write_rows(core, key, command, rows);
        }
        Command::Ban(host, seconds) => {
            let rows = banned(core.shared.board.ban(host, *seconds, core.now));
            write_rows(core, key, command, rows);
            core.shared.tell_all(|| Message::Clusters);
        }
        Command::Unban(host) => {
            let rows = banned(core.shared.board.unban(host, core.now));
            write_rows(core, key, command, rows);
            core.shared.tell_all(|| Message::Clusters);
        }
        Command::ShowParameter(parameter) => {
            write_rows(core, key, command, vec![vec![Some(parameter.value.to_owned())]]);
        }
        Command::SetParameter => {
            backend::write_notice(client.io.out(), "NOTICE", sqlstate::SUCCESSFUL_COMPLETION, "SET ignored");
            backend::write_command_complete(client.io.out(), command.tag());
        }
        Command::Empty => backend::write_empty(client.io.out(), backend::tag::EMPTY_QUERY_RESPONSE),
        other => backend::write_command_complete(client.io.out(), other.tag()),
    }
    if !extended {
        ready(core, key);
    }
}

/// Writes the rows of a command. In the extended protocol a Describe has sent their columns, and a Bind has chosen the
/// formats.
fn write_rows(core: &mut Core, key: ClientKey, command: &Command, rows: Vec<Row>) {
    let Some(client) = core.clients.get_mut(key) else { return };
    let extended = client.input.unsynced;
    let columns = command.columns(Dialect::of(&client.identity.database)).unwrap_or_default();
    let out = client.io.out();
    if !extended && !columns.is_empty() {
        backend::write_row_description(out, columns.iter().copied());
    }
    let formats = core.lifecycle.console.formats.get(&key).filter(|_| extended);
    for mut row in rows.into_iter().map(bytes) {
        for (number, (value, (_, kind))) in row.iter_mut().zip(columns).enumerate() {
            if *kind == ColumnType::Int8 && is_binary(formats, number) {
                *value = value.take().as_deref().and_then(binary);
            }
        }
        backend::write_data_row(out, row.iter().map(Option::as_deref));
    }
    backend::write_command_complete(out, command.tag());
}

fn ready(core: &mut Core, key: ClientKey) {
    if let Some(client) = core.clients.get_mut(key) {
        backend::write_ready_for_query(client.io.out(), Status::Idle);
    }
}

/// Whether a column is wanted in binary format.
pub fn is_binary(formats: Option<&Vec<bool>>, number: usize) -> bool {
    match formats.map(Vec::as_slice) {
        Some([one]) => *one,
        Some(each) => each.get(number).copied().unwrap_or(false),
        None => false,
    }
}

/// The values of a row as bytes; those of texts are the same in both formats.
fn bytes(row: Row) -> Vec<Option<Vec<u8>>> {
    row.into_iter().map(|value| value.map(String::into_bytes)).collect()
}

/// A number in binary format.
fn binary(text: &[u8]) -> Option<Vec<u8>> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(number.to_be_bytes().to_vec())
}

/// The rows of the results of BAN and UNBAN.
fn banned(servers: Vec<(String, balancer::Standing, String)>) -> Vec<Row> {
    let row = |(database, standing, host): (String, balancer::Standing, String)| {
        vec![Some(database), Some("*".to_owned()), Some(standing.word().to_owned()), Some(host)]
    };
    servers.into_iter().map(row).collect()
}
