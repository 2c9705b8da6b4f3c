//! A client of the console: simple and extended protocol.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use wire::backend::{self, ColumnType, Status};
use wire::frame::{self, HEADER};
use wire::frontend::{self, Target, tag};

use super::show::{Dialect, Row, Show, View};
use super::{Answer, Command, Snapshot, mark_paused};
use crate::client::{ClientKey, Discard};
use crate::shared::{Message, lock};
use crate::statement::{Lexing, Statements, UNCLEAR};
use crate::suspend;
use crate::worker::{Step, Worker};

/// A message to the console is not longer than this.
const MAX_MESSAGE: usize = 65_536;

impl Worker {
    /// Tells a console client what a server would tell.
    pub fn greet_on_console(&mut self, key: ClientKey) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
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
        self.flush_client(key);
    }

    /// Works on what a console client sends.
    pub fn console_input(&mut self, key: ClientKey, left: &[u8]) -> Step {
        if self.clients.get(key.0).is_none_or(|client| client.console_waits.is_some()) {
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
                self.fatal(key, "08P01", &error);
                return Step::Took(left.len());
            }
        };
        let total = HEADER + message.body.len();
        match self.console_message(key, message.tag, message.body) {
            Ok(()) => Step::Took(total),
            Err(error) => {
                self.fatal(key, "08P01", &error.to_string());
                Step::Took(left.len())
            }
        }
    }

    fn console_message(&mut self, key: ClientKey, tag: u8, body: &[u8]) -> Result<(), wire::Error> {
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        if client.discard == Discard::Unit && !matches!(tag, tag::SYNC | tag::TERMINATE) {
            return Ok(());
        }
        match tag {
            tag::QUERY => {
                client.unsynced = false;
                let text = String::from_utf8_lossy(frontend::query(body)?).into_owned();
                self.console_run(key, &text);
            }
            tag::PARSE => {
                let parse = frontend::parse(body)?;
                let statement = Statements::default().share(parse.definition, UNCLEAR, Lexing::Conforming);
                client.statements.insert(parse.name.into(), statement);
                backend::write_empty(client.io.out(), backend::tag::PARSE_COMPLETE);
            }
            tag::BIND => {
                let names = frontend::bind(body).ok_or(wire::Error::Short { tag, field: "the names" })?;
                let formats = frontend::result_formats(body)?;
                if formats.contains(&true) {
                    self.console.formats.insert(key, formats);
                } else {
                    self.console.formats.remove(&key);
                }
                match client.statements.get(names.statement).cloned() {
                    Some(statement) => {
                        client.portals = [(names.portal.into(), Some(statement))].into();
                        backend::write_empty(client.io.out(), backend::tag::BIND_COMPLETE);
                    }
                    None => self.console_failed(key, "26000", "there is no such prepared statement"),
                }
            }
            tag::DESCRIBE => {
                let target = frontend::target(tag, body)?;
                let formats = match target {
                    Target::Statement(_) => None,
                    Target::Portal(_) => self.console.formats.get(&key),
                };
                let statement = match target {
                    Target::Statement(name) => client.statements.get(name).cloned(),
                    Target::Portal(_) => client.portals.values().next().cloned().flatten(),
                };
                if matches!(target, Target::Statement(_)) {
                    frame::write(client.io.out(), backend::tag::PARAMETER_DESCRIPTION, |out| {
                        out.extend_from_slice(&[0, 0])
                    });
                }
                let command = statement.and_then(|statement| Command::read(&text_of(&statement)).ok());
                let dialect = Dialect::of(&client.database);
                match command.and_then(|command| command.columns(dialect)) {
                    Some(columns) => {
                        let is_binary = |number| is_binary(formats, number);
                        backend::write_row_description_in(client.io.out(), columns.iter().copied(), is_binary);
                    }
                    None => backend::write_empty(client.io.out(), backend::tag::NO_DATA),
                }
            }
            tag::EXECUTE => match client.portals.values().next().cloned().flatten() {
                Some(statement) => {
                    client.unsynced = true;
                    self.console_run(key, &text_of(&statement));
                }
                None => self.console_failed(key, "34000", "there is no such portal"),
            },
            tag::CLOSE => {
                if let Target::Statement(name) = frontend::target(tag, body)? {
                    client.statements.remove(name);
                }
                backend::write_empty(client.io.out(), backend::tag::CLOSE_COMPLETE);
            }
            tag::SYNC => {
                client.discard = Discard::No;
                client.unsynced = false;
                backend::write_ready_for_query(client.io.out(), Status::Idle);
            }
            tag::FLUSH => (),
            tag::TERMINATE => self.close_client(key, "client close request"),
            other => {
                let message = format!("invalid frontend message type {other}");
                self.fatal(key, "08P01", &message);
            }
        }
        Ok(())
    }

    /// An error, and what follows it in the protocol that the client uses.
    fn console_failed(&mut self, key: ClientKey, code: &str, message: &str) {
        self.console_error(key, code, message);
        let Some(client) = self.clients.get_mut(key.0) else { return };
        client.discard = Discard::Unit;
    }

    fn console_run(&mut self, key: ClientKey, text: &str) {
        let Some(client) = self.clients.get(key.0) else { return };
        let outcome = match Command::read(text) {
            Ok(command) if !client.admin && !command.only_looks() => {
                Err(("42501", "admin access needed".to_owned())).map(|()| command)
            }
            Ok(command) => Ok(command),
            Err(message) => Err(("42601", message)),
        };
        let outcome =
            outcome.and_then(|command| self.console_begin(key, command).map_err(|message| ("42601", message)));
        if let Err((code, message)) = outcome {
            self.console_refused(key, code, &message);
        }
    }

    /// The error of a command that was run, by either protocol.
    pub fn console_refused(&mut self, key: ClientKey, code: &str, message: &str) {
        if self.clients.get(key.0).is_some_and(|client| client.unsynced) {
            self.console_failed(key, code, message);
        } else {
            self.console_error(key, code, message);
            self.console_ready(key);
        }
    }

    /// Begins a command: what needs no worker's answer is done at once.
    fn console_begin(&mut self, key: ClientKey, command: Command) -> Result<(), String> {
        let config = self.config.clone();
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
        let mark = |name: &Option<String>| lock(&self.shared.paused).contains(name.as_deref().unwrap_or_default());
        match &command {
            Command::Pause(_) | Command::Kill(_) | Command::Suspend if suspend::is_suspended(&self.shared) => {
                return Err("already suspended".to_owned());
            }
            Command::Pause(_) | Command::Kill(_) if mark(&None) => return Err("already paused".to_owned()),
            Command::Suspend if !lock(&self.shared.paused).is_empty() => {
                return Err("cannot suspend while databases are paused".to_owned());
            }
            Command::Resume(_) if self.shared.ending.load(Ordering::Relaxed) => {
                return Err("the pooler is shutting down".to_owned());
            }
            Command::Resume(Some(name)) if !mark(&Some(name.clone())) => {
                return Err(format!("database {name} is not paused"));
            }
            Command::Suspend if self.shared.ending.load(Ordering::Relaxed) => {
                return Err("the pooler is shutting down".to_owned());
            }
            Command::Resume(None) if lock(&self.shared.paused).is_empty() && !suspend::is_suspended(&self.shared) => {
                return Err("the pooler is neither paused nor suspended".to_owned());
            }
            _ => (),
        }
        match &command {
            Command::Pause(name) | Command::Kill(name) => mark_paused(&self.shared, name.as_deref(), true),
            Command::Suspend => {
                suspend::begin(&self.shared, self.now);
            }
            Command::Resume(None) if suspend::end(&self.shared) => (),
            Command::Resume(name) => mark_paused(&self.shared, name.as_deref(), false),
            Command::Disable(name) => {
                lock(&self.shared.disabled).insert(name.clone());
            }
            Command::Enable(name) => {
                lock(&self.shared.disabled).remove(name);
            }
            Command::Reload => self.reload()?,
            // The answer carries the sockets, and has been sent.
            Command::Takeover { done: false } => return self.hand_over(key),
            Command::Takeover { done: true } => self.handed_over(key)?,
            Command::TakeoverClients => return self.hand_clients_over(key),
            Command::Shutdown(way) => self.shared.tell_all(|| Message::Shutdown(*way)),
            Command::Set(name, value) => {
                if let Some(notice) = self.set(name, value)?
                    && let Some(client) = self.clients.get_mut(key.0)
                {
                    backend::write_notice(client.io.out(), "NOTICE", "00000", &notice);
                }
            }
            _ => (),
        }
        match command.order() {
            Some(order) => self.ask(key, command, order),
            None => self.console_result(key, &command, Vec::new()),
        }
        Ok(())
    }

    /// Changes a setting until the next reload. What is set for TLS may need another setting beside it, as a certificate
    /// its key: then it waits for that, and what is to be told so is given back.
    fn set(&self, name: &str, value: &str) -> Result<Option<String>, String> {
        let mut changed = (*self.shared.config()).clone();
        let changeable = changed.settings.show().iter().any(|shown| shown.name == name && shown.changeable);
        let mut waiting = lock(&self.shared.waiting_settings);
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
            return Ok(Some(format!(
                "{name} = {value} waits for another setting of TLS, the old one is in force: {why}"
            )));
        }
        if of_tls {
            waiting.clear();
        }
        self.shared.adopt(changed);
        self.shared.board.reload();
        self.shared.tell_all(|| Message::Reload);
        Ok(None)
    }

    /// Tells a console client the result of its command.
    pub fn console_result(&mut self, key: ClientKey, command: &Command, answers: Vec<Answer>) {
        if let Command::KillClient(id) = command
            && !answers.iter().any(|answer| matches!(answer, Answer::Found(true)))
        {
            let message = format!("no client has the id {id} (SHOW CLIENTS shows them)");
            return self.console_refused(key, "42704", &message);
        }
        let snapshots: Vec<Snapshot> = answers
            .into_iter()
            .filter_map(|answer| if let Answer::Seen(snapshot) = answer { Some(snapshot) } else { None })
            .collect();
        let view = View { snapshots: &snapshots, config: &self.config, shared: &self.shared };
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let (extended, dialect) = (client.unsynced, Dialect::of(&client.database));
        let out = client.io.out();
        match command {
            Command::Show(_) | Command::Ban(..) | Command::Unban(_) => {
                let rows = match command {
                    Command::Show(show) => {
                        if *show == Show::Help && !extended {
                            backend::write_notice(out, "NOTICE", "00000", super::show::help::TEXT);
                        }
                        show.rows(&view, dialect)
                    }
                    Command::Ban(host, seconds) => super::banned(self.shared.board.ban(host, *seconds)),
                    Command::Unban(host) => super::banned(self.shared.board.unban(host)),
                    _ => Vec::new(),
                };
                let columns = command.columns(dialect).unwrap_or_default();
                if !extended && !columns.is_empty() {
                    backend::write_row_description(out, columns.iter().copied());
                }
                let formats = self.console.formats.get(&key).filter(|_| extended);
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
                    self.shared.tell_all(|| Message::Clusters);
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
            self.console_ready(key);
        }
    }

    fn console_ready(&mut self, key: ClientKey) {
        if let Some(client) = self.clients.get_mut(key.0) {
            backend::write_ready_for_query(client.io.out(), Status::Idle);
        }
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
fn text_of(statement: &Rc<crate::statement::Statement>) -> String {
    let text = statement.definition.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
