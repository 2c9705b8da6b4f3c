//! Commands of the console: whether they may be run now, and what they change.

use std::sync::atomic::Ordering;

use crate::model::keys::ClientKey;
use wire::backend;
use wire::sqlstate;

use crate::admin::command::Command;
use crate::admin::{ask, result, succeed};
use crate::config::Config;
use crate::config::settings::WITHOUT_EFFECT;
use crate::error::Error;
use crate::log::{self, Event};
use crate::pause::mark_paused;
use crate::shared::{Message, Shared};
use crate::state::{Core, suspension};
use crate::sync::lock;

/// Runs a command. If workers must be asked, the result follows when all have answered.
pub fn run(core: &mut Core, key: ClientKey, text: &str) {
    let Some(client) = core.clients.get(key) else { return };
    let is_admin = client.identity.admin;
    let outcome = match Command::read(text) {
        Ok(command) if !is_admin && !command.only_looks() => Err(Error::NotAdmin),
        Ok(command) => {
            // A new process asks for clients again and again.
            if !command.only_looks() && !matches!(command, Command::TakeoverClients) {
                crate::info!(of core.name_client(key); "console: {:?}", text.trim());
            }
            let kind = command.kind_of_event();
            let begun = begin(core, key, command);
            if let (Some(kind), Ok(())) = (kind, &begun) {
                keep(core, key, kind, text);
            }
            begun
        }
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        result::refused(core, key, &error);
    }
}

/// Keeps a command, which has been logged, for SHOW EVENTS.
fn keep(core: &Core, key: ClientKey, kind: &'static str, text: &str) {
    let by = core.name_client(key);
    let database = text.split_whitespace().nth(1).unwrap_or_default().trim_matches(['"', ';']).to_owned();
    let text = format!("{} by {} at {}", text.trim(), by.user, by.client.unwrap_or_default());
    let (date, server) = (core.shared.outside.date(), String::new());
    log::keep(Event { date, kind, database, server, text });
}

/// Begins a command; one that needs no worker's answer is run at once.
fn begin(core: &mut Core, key: ClientKey, command: Command) -> Result<(), Error> {
    require_database(&core.config, &command)?;
    require_state(&core.shared, &command)?;
    match &command {
        // The answer carries the sockets, and has been sent.
        Command::Takeover { done: false } => return succeed::hand_over(core, key),
        Command::TakeoverClients => return succeed::hand_clients_over(core, key),
        Command::Takeover { done: true } => succeed::handed_over(core, key)?,
        Command::Reload => ask::reload(core)?,
        Command::Set(name, value) => {
            if let Some(notice) = set(core, name, value)?
                && let Some(client) = core.clients.get_mut(key)
            {
                backend::write_notice(client.io.out(), "NOTICE", sqlstate::SUCCESSFUL_COMPLETION, &notice);
            }
        }
        command => mark(core, command),
    }
    match command.order() {
        Some(order) => ask::ask(core, key, command, order),
        None => result::result(core, key, &command, Vec::new()),
    }
    Ok(())
}

/// Refuses a command about a database that is not known.
fn require_database(config: &Config, command: &Command) -> Result<(), Error> {
    let (name, known) = match command {
        Command::Pause(Some(name))
        | Command::Resume(Some(name))
        | Command::Reconnect(Some(name))
        | Command::Kill(Some(name))
        | Command::WaitClose(Some(name)) => {
            let of_user = name.split_once(',').is_some_and(|(database, _)| config.database(database).is_some());
            (name, of_user || config.database(name).is_some())
        }
        Command::Disable(name) | Command::Enable(name) => (name, config.database(name).is_some()),
        _ => return Ok(()),
    };
    if known { Ok(()) } else { Err(Error::NoDatabaseToOrder(name.clone())) }
}

/// Refuses a command that makes no sense in the state of the pooler.
fn require_state(shared: &Shared, command: &Command) -> Result<(), Error> {
    let is_paused = |name: &str| lock(&shared.orders.paused).contains(name);
    let is_ending = || shared.orders.ending.load(Ordering::Relaxed);
    let why = match command {
        Command::Pause(_) | Command::Kill(_) | Command::Suspend if suspension::is_suspended(shared) => {
            Error::AlreadySuspended
        }
        Command::Pause(_) | Command::Kill(_) if is_paused("") => Error::AlreadyPaused,
        Command::Suspend if !lock(&shared.orders.paused).is_empty() => Error::PausedInPart,
        Command::Resume(_) | Command::Suspend if is_ending() => Error::EndsAlready,
        Command::Resume(Some(name)) if !is_paused(name) => Error::NotPaused(name.clone()),
        Command::Resume(None) if lock(&shared.orders.paused).is_empty() && !suspension::is_suspended(shared) => {
            Error::NothingToResume
        }
        _ => return Ok(()),
    };
    Err(why)
}

/// Marks for all workers the objects that a command pauses, suspends, disables or ends, or removes the marks.
fn mark(core: &Core, command: &Command) {
    match command {
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
        Command::Shutdown(way) => core.shared.tell_all(|| Message::Shutdown(*way)),
        _ => (),
    }
}

/// Changes a setting until the next reload. A setting of TLS may need another beside it, as a certificate needs its
/// key: then it waits for that, and a notice about that is given back.
fn set(core: &Core, name: &str, value: &str) -> Result<Option<String>, Error> {
    let mut changed = (*core.shared.config()).clone();
    let changeable = changed.settings.show().iter().any(|shown| shown.name == name && shown.changeable);
    let mut waiting = lock(&core.shared.orders.waiting_settings);
    let of_tls = name.contains("_tls_");
    for (name, value) in waiting.iter().filter(|_| of_tls) {
        // The value was read when it was set.
        let _ = changed.settings.set(name, value);
    }
    match changed.settings.set(name, value) {
        Some(Ok(())) if changeable => (),
        Some(Ok(())) => return Err(Error::FixedSetting(name.to_owned())),
        Some(Err(expected)) => {
            let (name, value) = (name.to_owned(), value.to_owned());
            return Err(Error::SettingValue { name, value, expected });
        }
        None if WITHOUT_EFFECT.contains(&name) => {
            return Ok(Some(format!("{name} is a setting of PgBouncer that has no effect here")));
        }
        None => return Err(Error::NoSetting(name.to_owned())),
    }
    if let Err(why) = core.shared.outside.prepare(&mut changed) {
        if !of_tls {
            return Err(Error::Configuration(why));
        }
        waiting.push((name.to_owned(), value.to_owned()));
        return Ok(Some(format!(
            "{name} = {value} takes effect when the other TLS settings fit; until then the old value stays in force: {why}"
        )));
    }
    if of_tls {
        waiting.clear();
    }
    core.shared.adopt(changed);
    core.shared.board.reload();
    core.shared.tell_all(|| Message::Reload);
    Ok(None)
}
