//! A client of the console: its greeting, and the messages that it sends.

use crate::model::client::Discard;
use crate::model::keys::ClientKey;
use crate::model::turn::Step;
use wire::backend::{self, Status};
use wire::frame::{self, HEADER};
use wire::frontend::{self, tag};

use crate::admin::{extended, run};
use crate::error::Error;
use crate::pools::leave;
use crate::state::Core;

/// The length of the longest message to the console.
const MAX_MESSAGE: usize = 65_536;

/// Works on the messages of a console client.
pub fn console_input(core: &mut Core, key: ClientKey, left: &[u8]) -> Step {
    if core.clients.get(key).is_none_or(|client| client.input.console_waits.is_some()) {
        return Step::Stop;
    }
    let message = match wire::header(left) {
        Ok(Some(head)) if head.body > MAX_MESSAGE => Err(Error::LongCommand),
        Ok(_) => frame::message(left).map_err(Error::from),
        Err(error) => Err(error.into()),
    };
    let message = match message {
        Ok(Some(message)) => message,
        Ok(None) => return Step::More,
        Err(error) => {
            leave::fatal(core, key, &error);
            return Step::Took(left.len());
        }
    };
    let total = HEADER + message.body.len();
    match console_message(core, key, message.tag, message.body) {
        Ok(()) => Step::Took(total),
        Err(error) => {
            leave::fatal(core, key, &error.into());
            Step::Took(left.len())
        }
    }
}

fn console_message(core: &mut Core, key: ClientKey, tag: u8, body: &[u8]) -> Result<(), wire::Error> {
    let Some(client) = core.clients.get_mut(key) else { return Ok(()) };
    if client.input.discard == Discard::Unit && !matches!(tag, tag::SYNC | tag::TERMINATE) {
        return Ok(());
    }
    match tag {
        tag::QUERY => {
            client.input.unsynced = false;
            let text = String::from_utf8_lossy(frontend::query(body)?).into_owned();
            run::run(core, key, &text);
        }
        tag::PARSE => extended::parse(client, body)?,
        tag::BIND => extended::bind(core, key, body)?,
        tag::DESCRIBE => extended::describe(core, key, body)?,
        tag::EXECUTE => extended::execute(core, key),
        tag::CLOSE => extended::close(client, body)?,
        tag::SYNC => {
            client.input.discard = Discard::No;
            client.input.unsynced = false;
            backend::write_ready_for_query(client.io.out(), Status::Idle);
        }
        tag::FLUSH => (),
        tag::TERMINATE => leave::close_client(core, key, "client close request"),
        other => {
            leave::fatal(core, key, &Error::MessageType(other));
        }
    }
    Ok(())
}
