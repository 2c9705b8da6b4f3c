//! A client of the console: simple and extended protocol.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use pooling::client::Discard;
use pooling::keys::ClientKey;
use pooling::lexing::{Lexing, UNCLEAR};
use pooling::statement::Statements;
use pooling::turn::Step;
use wire::backend::{self, ColumnType, Status};
use wire::frame::{self, HEADER};
use wire::frontend::{self, Target, tag};

use super::show::Show;
use crate::admin::ask;
use crate::admin::command::Command;
use crate::admin::order::Answer;
use crate::admin::seen::Snapshot;
use crate::admin::show::view::{Dialect, Row, View};
use crate::frontend::leave;
use crate::pause::mark_paused;
use crate::reactor::{sockets, succeed};
use crate::shared::Message;
use crate::state::{Core, suspension};
use crate::sync::lock;

/// A message to the console is not longer than this.
const MAX_MESSAGE: usize = 65_536;

/// Tells a console client what a server would tell.
pub fn greet_on_console(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get_mut(key.0) else { return };
    for (name, value) in [
        ("server_version", concat!(env!("CARGO_PKG_VERSION"), "/howdah")),
        ("client_encoding", "UTF8"),
        ("server_encoding", "UTF8"),
        ("DateStyle", "ISO"),
        ("TimeZone", "GMT"),
        ("standard_conforming_strings", "on"),
        ("is_superuser", "on"),
    ] {
        backend::write_parameter_status(client.io.out(), name, value);
    }
    backend::write_backend_key_data(client.io.out(), 0, &[0; 4]);
    backend::write_ready_for_query(client.io.out(), Status::Idle);
    sockets::flush_client(core, key);
}

/// Works on what a console client sends.
pub fn console_input(core: &mut Core, key: ClientKey, left: &[u8]) -> Step {
    if core.clients.get(key.0).is_none_or(|client| client.input.console_waits.is_some()) {
        return Step::Stop;
    }
    let message = match wire::header(left) {
        Ok(Some(head)) if head.body > MAX_MESSAGE => Err("the message is too long for the console".to_owned()),
        Ok(_) => frame::message(left).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let message = match message {
        Ok(Some(message)) => message,
        Ok(None) => return Step::More,
        Err(error) => {
            leave::fatal(core, key, "08P01", &error);
            return Step::Took(left.len());
        }
    };
    let total = HEADER + message.body.len();
    match console_message(core, key, message.tag, message.body) {
        Ok(()) => Step::Took(total),
        Err(error) => {
            leave::fatal(core, key, "08P01", &error.to_string());
            Step::Took(left.len())
        }
    }
}

fn console_message(core: &mut Core, key: ClientKey, tag: u8, body: &[u8]) -> Result<(), wire::Error> {
    let Some(client) = core.clients.get_mut(key.0) else { return Ok(()) };
    if client.input.discard == Discard::Unit && !matches!(tag, tag::SYNC | tag::TERMINATE) {
        return Ok(());
    }
    match tag {
        tag::QUERY => {
            client.input.unsynced = false;
            let text = String::from_utf8_lossy(frontend::query(body)?).into_owned();
            console_run(core, key, &text);
        }
        tag::PARSE => {
            let parse = frontend::parse(body)?;
            let statement = Statements::default().share(parse.definition, UNCLEAR, Lexing::Conforming);
            client.prepared.statements.insert(parse.name.into(), statement);
            backend::write_empty(client.io.out(), backend::tag::PARSE_COMPLETE);
        }
        tag::BIND => {
            let names = frontend::bind(body).ok_or(wire::Error::Short { tag, field: "the names" })?;
            let formats = frontend::result_formats(body)?;
            if formats.contains(&true) {
                core.lifecycle.console.formats.insert(key, formats);
            } else {
                core.lifecycle.console.formats.remove(&key);
            }
            match client.prepared.statements.get(names.statement).cloned() {
                Some(statement) => {
                    client.prepared.portals = [(names.portal.into(), Some(statement))].into();
                    backend::write_empty(client.io.out(), backend::tag::BIND_COMPLETE);
                }
                None => console_failed(core, key, "26000", "there is no such prepared statement"),
            }
        }
        tag::DESCRIBE => {
            let target = frontend::target(tag, body)?;
            let formats = match target {
                Target::Statement(_) => None,
                Target::Portal(_) => core.lifecycle.console.formats.get(&key),
            };
            let statement = match target {
                Target::Statement(name) => client.prepared.statements.get(name).cloned(),
                Target::Portal(_) => client.prepared.portals.values().next().cloned().flatten(),
            };
            if matches!(target, Target::Statement(_)) {
                frame::write(client.io.out(), backend::tag::PARAMETER_DESCRIPTION, |out| {
                    out.extend_from_slice(&[0, 0])
                });
            }
            let command = statement.and_then(|statement| Command::read(&text_of(&statement)).ok());
            let dialect = Dialect::of(&client.identity.database);
            match command.and_then(|command| command.columns(dialect)) {
                Some(columns) => {
                    let is_binary = |number| is_binary(formats, number);
                    backend::write_row_description_in(client.io.out(), columns.iter().copied(), is_binary);
                }
                None => backend::write_empty(client.io.out(), backend::tag::NO_DATA),
            }
        }
        tag::EXECUTE => match client.prepared.portals.values().next().cloned().flatten() {
            Some(statement) => {
                client.input.unsynced = true;
                console_run(core, key, &text_of(&statement));
            }
            None => console_failed(core, key, "34000", "there is no such portal"),
        },
        tag::CLOSE => {
            if let Target::Statement(name) = frontend::target(tag, body)? {
                client.prepared.statements.remove(name);
            }
            backend::write_empty(client.io.out(), backend::tag::CLOSE_COMPLETE);
        }
        tag::SYNC => {
            client.input.discard = Discard::No;
            client.input.unsynced = false;
            backend::write_ready_for_query(client.io.out(), Status::Idle);
        }
        tag::FLUSH => (),
        tag::TERMINATE => leave::close_client(core, key, "client close request"),
        other => {
            let message = format!("invalid frontend message type {other}");
            leave::fatal(core, key, "08P01", &message);
        }
    }
    Ok(())
}

/// An error, and what follows it in the protocol that the client uses.
fn console_failed(core: &mut Core, key: ClientKey, code: &str, message: &str) {
    ask::console_error(core, key, code, message);
    let Some(client) = core.clients.get_mut(key.0) else { return };
    client.input.discard = Discard::Unit;
}

fn console_run(core: &mut Core, key: ClientKey, text: &str) {
    let Some(client) = core.clients.get(key.0) else { return };
    let outcome = match Command::read(text) {
        Ok(command) if !client.identity.admin && !command.only_looks() => {
            Err(("42501", "admin access needed".to_owned())).map(|()| command)
        }
        Ok(command) => Ok(command),
        Err(message) => Err(("42601", message)),
    };
    let outcome = outcome.and_then(|command| console_begin(core, key, command).map_err(|message| ("42601", message)));
    if let Err((code, message)) = outcome {
        console_refused(core, key, code, &message);
    }
}

/// The error of a command that was run, by either protocol.
pub fn console_refused(core: &mut Core, key: ClientKey, code: &str, message: &str) {
    if core.clients.get(key.0).is_some_and(|client| client.input.unsynced) {
        console_failed(core, key, code, message);
    } else {
        ask::console_error(core, key, code, message);
        console_ready(core, key);
    }
}

/// Begins a command: what needs no worker's answer is done at once.
fn console_begin(core: &mut Core, key: ClientKey, command: Command) -> Result<(), String> {
    let config = core.config.clone();
    match &command {
        Command::Pause(name)
        | Command::Resume(name)
        | Command::Reconnect(name)
        | Command::Kill(name)
        | Command::WaitClose(name) => {
            if let Some(name) = name
                && config.database(name).is_none()
                && name.split_once(',').is_none_or(|(database, _)| config.database(database).is_none())
            {
                return Err(format!("no such database: {name}"));
            }
        }
        Command::Disable(name) | Command::Enable(name) if config.database(name).is_none() => {
            return Err(format!("no such database: {name}"));
        }
        _ => (),
    }
    let mark = |name: &Option<String>| lock(&core.shared.orders.paused).contains(name.as_deref().unwrap_or_default());
    match &command {
        Command::Pause(_) | Command::Kill(_) | Command::Suspend if suspension::is_suspended(&core.shared) => {
            return Err("already suspended".to_owned());
        }
        Command::Pause(_) | Command::Kill(_) if mark(&None) => return Err("already paused".to_owned()),
        Command::Suspend if !lock(&core.shared.orders.paused).is_empty() => {
            return Err("cannot suspend while databases are paused".to_owned());
        }
        Command::Resume(_) if core.shared.orders.ending.load(Ordering::Relaxed) => {
            return Err("the pooler is shutting down".to_owned());
        }
        Command::Resume(Some(name)) if !mark(&Some(name.clone())) => {
            return Err(format!("database {name} is not paused"));
        }
        Command::Suspend if core.shared.orders.ending.load(Ordering::Relaxed) => {
            return Err("the pooler is shutting down".to_owned());
        }
        Command::Resume(None)
            if lock(&core.shared.orders.paused).is_empty() && !suspension::is_suspended(&core.shared) =>
        {
            return Err("the pooler is neither paused nor suspended".to_owned());
        }
        _ => (),
    }
    match &command {
        Command::Pause(name) | Command::Kill(name) => mark_paused(&core.shared, name.as_deref(), true),
        Command::Suspend => {
            suspension::begin(&core.shared, core.now);
        }
        Command::Resume(None) if suspension::end(&core.shared) => (),
        Command::Resume(name) => mark_paused(&core.shared, name.as_deref(), false),
        Command::Disable(name) => {
            lock(&core.shared.orders.disabled).insert(name.clone());
        }
        Command::Enable(name) => {
            lock(&core.shared.orders.disabled).remove(name);
        }
        Command::Reload => ask::reload(core)?,
        // The answer carries the sockets, and has been sent.
        Command::Takeover { done: false } => return succeed::hand_over(core, key),
        Command::Takeover { done: true } => succeed::handed_over(core, key)?,
        Command::TakeoverClients => return succeed::hand_clients_over(core, key),
        Command::Shutdown(way) => core.shared.tell_all(|| Message::Shutdown(*way)),
        Command::Set(name, value) => {
            if let Some(notice) = set(core, name, value)?
                && let Some(client) = core.clients.get_mut(key.0)
            {
                backend::write_notice(client.io.out(), "NOTICE", "00000", &notice);
            }
        }
        _ => (),
    }
    match command.order() {
        Some(order) => ask::ask(core, key, command, order),
        None => console_result(core, key, &command, Vec::new()),
    }
    Ok(())
}

/// Changes a setting until the next reload. What is set for TLS may need another setting beside it, as a certificate
/// its key: then it waits for that, and what is to be told so is given back.
fn set(core: &Core, name: &str, value: &str) -> Result<Option<String>, String> {
    let mut changed = (*core.shared.config()).clone();
    let changeable = changed.settings.show().iter().any(|shown| shown.name == name && shown.changeable);
    let mut waiting = lock(&core.shared.orders.waiting_settings);
    let of_tls = name.contains("_tls_");
    for (name, value) in waiting.iter().filter(|_| of_tls) {
        // It was read when it was set.
        let _ = changed.settings.set(name, value);
    }
    match changed.settings.set(name, value) {
        Some(Ok(())) if changeable => (),
        Some(Ok(())) => return Err(format!("{name} cannot be changed while running")),
        Some(Err(expected)) => return Err(format!("{name} = {value}: expected {expected}")),
        None => return Err(format!("there is no setting {name}")),
    }
    if let Err(why) = changed.prepare() {
        if !of_tls {
            return Err(why);
        }
        waiting.push((name.to_owned(), value.to_owned()));
        return Ok(Some(format!("{name} = {value} waits for another setting of TLS, the old one is in force: {why}")));
    }
    if of_tls {
        waiting.clear();
    }
    core.shared.adopt(changed);
    core.shared.board.reload();
    core.shared.tell_all(|| Message::Reload);
    Ok(None)
}

/// Tells a console client the result of its command.
pub fn console_result(core: &mut Core, key: ClientKey, command: &Command, answers: Vec<Answer>) {
    if let Command::KillClient(id) = command
        && !answers.iter().any(|answer| matches!(answer, Answer::Found(true)))
    {
        let message = format!("no client has the id {id} (SHOW CLIENTS shows them)");
        return console_refused(core, key, "42704", &message);
    }
    let snapshots: Vec<Snapshot> = answers
        .into_iter()
        .filter_map(|answer| if let Answer::Seen(snapshot) = answer { Some(snapshot) } else { None })
        .collect();
    let view = View { snapshots: &snapshots, config: &core.config, shared: &core.shared };
    let Some(client) = core.clients.get_mut(key.0) else { return };
    let (extended, dialect) = (client.input.unsynced, Dialect::of(&client.identity.database));
    let out = client.io.out();
    match command {
        Command::Show(_) | Command::Ban(..) | Command::Unban(_) => {
            let rows = match command {
                Command::Show(show) => {
                    if *show == Show::Help && !extended {
                        backend::write_notice(out, "NOTICE", "00000", crate::admin::show::help::TEXT);
                    }
                    show.rows(&view, dialect)
                }
                Command::Ban(host, seconds) => banned(core.shared.board.ban(host, *seconds)),
                Command::Unban(host) => banned(core.shared.board.unban(host)),
                _ => Vec::new(),
            };
            let columns = command.columns(dialect).unwrap_or_default();
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
            if !matches!(command, Command::Show(_)) {
                core.shared.tell_all(|| Message::Clusters);
            }
        }
        Command::ShowParameter(parameter) => {
            if !extended {
                backend::write_row_description(out, command.columns(dialect).unwrap_or_default().iter().copied());
            }
            backend::write_data_row(out, [Some(parameter.value.as_bytes())].into_iter());
            backend::write_command_complete(out, command.tag());
        }
        Command::SetParameter => {
            backend::write_notice(out, "NOTICE", "00000", "SET ignored");
            backend::write_command_complete(out, command.tag());
        }
        Command::Empty => backend::write_empty(out, backend::tag::EMPTY_QUERY_RESPONSE),
        other => backend::write_command_complete(out, other.tag()),
    }
    if !extended {
        console_ready(core, key);
    }
}

fn console_ready(core: &mut Core, key: ClientKey) {
    if let Some(client) = core.clients.get_mut(key.0) {
        backend::write_ready_for_query(client.io.out(), Status::Idle);
    }
}

/// Whether a column is wanted in binary format.
fn is_binary(formats: Option<&Vec<bool>>, number: usize) -> bool {
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

/// The text of a statement.
fn text_of(statement: &Rc<pooling::statement::Statement>) -> String {
    let text = statement.definition.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// The rows that BAN and UNBAN tell.
fn banned(servers: Vec<(String, balancer::Standing, String)>) -> Vec<crate::admin::show::view::Row> {
    let row = |(database, standing, host): (String, balancer::Standing, String)| {
        vec![Some(database), Some("*".to_owned()), Some(standing.word().to_owned()), Some(host)]
    };
    servers.into_iter().map(row).collect()
}
