//! The extended protocol on the console: commands that are prepared, bound and described before they are run.

use std::rc::Rc;

use crate::model::held::Held;
use crate::model::keys::ClientKey;
use crate::model::lexing::{Lexing, UNCLEAR};
use crate::model::portals::Portal;
use crate::model::shape::Fit;
use crate::model::statement::{Statement, Statements};
use wire::frontend::{self, Target, tag};
use wire::{backend, frame};

use crate::admin::command::Command;
use crate::admin::result::{self, is_binary};
use crate::admin::run;
use crate::admin::show::view::Dialect;
use crate::error::Error;
use crate::state::Core;
use crate::state::client::Client;

/// Parse: keeps a command under a name. Errors in it are sent when it is run.
pub fn parse(client: &mut Client, body: &[u8]) -> Result<(), wire::Error> {
    let parse = frontend::parse(body)?;
    let statement = Statements::default().share(parse.definition, UNCLEAR, Lexing::Conforming);
    client.prepared.statements.insert(parse.name.into(), Held::new(statement));
    backend::write_empty(client.io.out(), backend::tag::PARSE_COMPLETE);
    Ok(())
}

/// Bind: the command that is run next, and the formats of its columns.
pub fn bind(core: &mut Core, key: ClientKey, body: &[u8]) -> Result<(), wire::Error> {
    let Some(client) = core.clients.get_mut(key) else { return Ok(()) };
    let names = frontend::bind(body).ok_or(wire::Error::Short { tag: tag::BIND, field: "the names" })?;
    let formats = frontend::result_formats(body)?;
    if formats.contains(&true) {
        core.lifecycle.console.formats.insert(key, formats);
    } else {
        core.lifecycle.console.formats.remove(&key);
    }
    match client.prepared.statements.get(names.statement).cloned() {
        Some(held) => {
            client.prepared.portals.insert(
                b"",
                Portal { of: Some((held.clone(), held.statement().clone())), fit: Fit::Same, copy: 0, bound: 0 },
            );
            backend::write_empty(client.io.out(), backend::tag::BIND_COMPLETE);
        }
        None => result::failed(core, key, &Error::NoPrepared(String::from_utf8_lossy(names.statement).into_owned())),
    }
    Ok(())
}

/// Describe: the columns of a command, in the formats that a Bind asked for.
pub fn describe(core: &mut Core, key: ClientKey, body: &[u8]) -> Result<(), wire::Error> {
    let Some(client) = core.clients.get_mut(key) else { return Ok(()) };
    let (statement, formats) = match frontend::target(tag::DESCRIBE, body)? {
        Target::Statement(name) => {
            frame::write(client.io.out(), backend::tag::PARAMETER_DESCRIPTION, |out| out.extend_from_slice(&[0, 0]));
            (client.prepared.statements.get(name).map(|held| held.statement().clone()), None)
        }
        Target::Portal(_) => (bound(client), core.lifecycle.console.formats.get(&key)),
    };
    let command = statement.and_then(|statement| Command::read(&text_of(&statement)).ok());
    let dialect = Dialect::of(&client.identity.database);
    match command.and_then(|command| command.columns(dialect)) {
        Some(columns) => {
            let is_binary = |number| is_binary(formats, number);
            backend::write_row_description_in(client.io.out(), columns.iter().copied(), is_binary);
        }
        None => backend::write_empty(client.io.out(), backend::tag::NO_DATA),
    }
    Ok(())
}

/// Execute: runs the command that was bound.
pub fn execute(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get_mut(key) else { return };
    match bound(client) {
        Some(statement) => {
            client.input.unsynced = true;
            run::run(core, key, &text_of(&statement));
        }
        None => result::failed(core, key, &Error::NoPortal),
    }
}

/// Close: forgets a command. A portal stays until another takes its place.
pub fn close(client: &mut Client, body: &[u8]) -> Result<(), wire::Error> {
    if let Target::Statement(name) = frontend::target(tag::CLOSE, body)? {
        client.prepared.statements.remove(name);
    }
    backend::write_empty(client.io.out(), backend::tag::CLOSE_COMPLETE);
    Ok(())
}

/// The command of the last Bind. The console has one portal, whatever its name.
fn bound(client: &Client) -> Option<Rc<Statement>> {
    client.prepared.portals.statement(b"").cloned()
}

/// The text of a statement.
fn text_of(statement: &Rc<Statement>) -> String {
    let text = statement.definition.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
