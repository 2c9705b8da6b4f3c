//! Orders of the process that takes the sockets and the clients over.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use crate::model::keys::ClientKey;

use crate::error::Error;
use crate::io::{Kind, MOST_HANDED};
use crate::log::{self, Level};
use crate::pools::{depart, moves};
use crate::shared::{Ending, Message};
use crate::state::adopted::Row;
use crate::state::listeners::LISTENERS;
use crate::state::transfer::Transfer;
use crate::state::{Core, account, suspension};
use crate::sync::lock;
use crate::takeover::answer::{answer_to_takeover, send_with, write_plain_rows, write_rows};
use crate::takeover::inherited::AFTERWARDS;

/// Gives the listening sockets to the process that asks for them on the console.
pub fn hand_over(core: &mut Core, key: ClientKey) -> Result<(), Error> {
    may_hand_over(core, key)?;
    let metrics = lock(&core.shared.takeover.metrics);
    let mut sockets: Vec<(Kind, String, BorrowedFd<'_>)> = core.entrance.listeners.sockets();
    if let Some(metrics) = metrics.as_ref() {
        sockets.push((Kind::Metrics, metrics.address.clone(), metrics.socket.as_fd()));
    }
    if sockets.len() > MOST_HANDED {
        return Err(Error::ManySockets(MOST_HANDED));
    }
    let rows: Vec<(&str, String)> = sockets.iter().map(|(kind, address, _)| (kind.word(), address.clone())).collect();
    let handed: Vec<BorrowedFd<'_>> = sockets.iter().map(|(_, _, socket)| *socket).collect();
    let answer = answer_to_takeover(rows);
    send_with(&mut core.clients, key, &answer, &handed)?;
    crate::info!("the listening sockets were given to a process that was started by -R");
    Ok(())
}

/// Gives the clients that have nothing under way to the process that has taken the sockets over.
pub fn hand_clients_over(core: &mut Core, key: ClientKey) -> Result<(), Error> {
    let own = core.clients.get(key).is_some_and(|client| account::is_own_user(client) && !client.input.unsynced);
    if !own || !core.shared.takeover.is_handed_over() {
        return Err(Error::ClientsForOthers);
    }
    let transfers = depart::next_leaving(core, key);
    let rows: Vec<Row> = transfers.iter().flat_map(|transfer| depart::describe(core, transfer)).collect();
    let mut answer = Vec::new();
    write_plain_rows(&mut answer, &rows);
    let handed: Vec<BorrowedFd<'_>> = transfers.iter().filter_map(Transfer::socket).collect();
    if let Err(why) = send_with(&mut core.clients, key, &answer, &handed) {
        drop(handed);
        for transfer in transfers {
            moves::give_back(core, transfer);
        }
        return Err(why);
    }
    Ok(())
}

/// Notes that another process serves the sockets: this process closes its own, and ends when its clients have left.
pub fn handed_over(core: &mut Core, key: ClientKey) -> Result<(), Error> {
    may_hand_over(core, key)?;
    let own = core.shared.outside.listen_apart(&core.config.settings);
    let own = own.unwrap_or_else(|error| {
        crate::warning!("cancel requests for the remaining clients will have no effect: {error}");
        None
    });
    let before = lock(&core.shared.takeover.before).clone();
    let own_path = own.as_ref().and_then(|own| own.shared()).map(|(_, path, _)| path);
    let paths = own_path.into_iter().chain(before.iter().map(|path| path.display().to_string()));
    if let Some(client) = core.clients.get_mut(key) {
        write_rows(client.io.out(), paths.map(|path| (AFTERWARDS, path)));
    }
    let replaced = core.entrance.listeners.replace(&*core.reactor.network, LISTENERS, own.into_iter().collect());
    replaced.map_err(|error| Error::HandOver(error.to_string()))?;
    core.shared.takeover.handed_over.store(true, Ordering::Relaxed);
    if let Some(metrics) = lock(&core.shared.takeover.metrics).take() {
        metrics.waker.wake();
    }
    let text = "another process has taken the listening sockets over: ending when the last client has left";
    log::event(Level::Log, None, "takeover", ("", ""), format_args!("{text}"));
    core.shared.tell_all(|| Message::Shutdown(Ending::WaitForClients));
    Ok(())
}

fn may_hand_over(core: &Core, key: ClientKey) -> Result<(), Error> {
    let Some(client) = core.clients.get(key) else { return Ok(()) };
    if !account::is_own_user(client) || client.input.unsynced {
        return Err(Error::TakeoverByOthers);
    }
    if core.shared.takeover.is_handed_over() {
        return Err(Error::TakenOver);
    }
    if core.shared.orders.ending.load(Ordering::Relaxed) {
        return Err(Error::EndsAlready);
    }
    if suspension::is_suspended(&core.shared) || !lock(&core.shared.orders.paused).is_empty() {
        return Err(Error::TakeoverOfHeld);
    }
    Ok(())
}
