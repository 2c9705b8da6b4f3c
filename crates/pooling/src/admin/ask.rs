//! Asking all workers on behalf of a client of the console.

use crate::model::keys::ClientKey;

use crate::admin::command::Command;
use crate::admin::console::Asked;
use crate::admin::order::Order;
use crate::error::{Error, Severity};
use crate::shared::Message;
use crate::state::Core;

/// Asks all workers on behalf of a console client, which waits for the result.
pub fn ask(core: &mut Core, client: ClientKey, command: Command, order: Order) {
    core.lifecycle.console.last += 1;
    let number = core.lifecycle.console.last;
    let workers = core.shared.mailboxes.len();
    let asked = Asked { client, command, answers: Vec::new(), missing: workers, again: None };
    core.lifecycle.console.asked.insert(number, asked);
    if let Some(client) = core.clients.get_mut(client) {
        client.input.console_waits = Some(number);
    }
    core.shared.tell_all(|| Message::Order(core.id, number, order.clone()));
}

/// Reads the configuration again and puts it in force everywhere; an error leaves the old one.
pub fn reload(core: &Core) -> Result<(), Error> {
    core.shared.outside.reload(&core.shared).map_err(Error::Configuration)
}

/// Sends a console client an error.
pub fn console_error(core: &mut Core, key: ClientKey, error: &Error) {
    if let Some(client) = core.clients.get_mut(key) {
        error.write(client.io.out(), Severity::Error);
    }
}
