//! The effects that completed statements have on their session.

use crate::model::request::Request;
use crate::model::session::SELECTED;
use crate::model::session::{Outcome, Unfollowed};
use crate::model::subscriber::Subscribers;
use classify::configure::Argument;
use classify::{Discard as Discards, Kind, Reasons, Verdict};

use crate::backend::subscriber_asks;
use crate::state::client::Client;
use crate::state::server::{Residue, Server};

/// The extent to which a statement has run.
#[derive(Clone, Copy)]
pub enum End<'a> {
    /// To its end, which has this tag.
    Command(&'a [u8]),
    /// To the last row that was asked for.
    Suspended,
    /// Only as far as its values were read: a function in the CHECK of a domain has seen them.
    Bound,
    /// Into an error.
    Error,
}

/// Notes the state that the request at the head may have left in its session, now that it has run: to its end, to the
/// last row that was asked for, or into an error, which undoes neither locks of the session nor statements that a
/// function has prepared.
pub fn leaves(server: &mut Server, client: Option<&mut Client>, subscribers: &Subscribers, end: End<'_>) {
    let verdict = match server.exchange.requests.front() {
        Some(Request::Query(verdict, _)) => verdict.clone(),
        Some(Request::Execute(Some(statement)) | Request::Bind(Some(statement))) => statement.verdict(),
        Some(Request::Execute(None) | Request::Bind(None)) => None,
        _ => return,
    };
    let known = verdict.as_deref();
    let undone = matches!(end, End::Error | End::Bound) && known.is_some_and(|verdict| verdict.pins.any());
    let is_bound = matches!(end, End::Bound);
    let residue = if undone || known.is_none_or(|verdict| verdict.opaque) {
        Residue::Anything
    } else if known.is_some_and(|verdict| verdict.dirties || is_bound && verdict.is_call && verdict.session()) {
        // A portal may be run in a way that does not show here.
        Residue::Settings
    } else {
        Residue::Nothing
    };
    server.known.residue = server.known.residue.max(residue);
    server.life.retire |= known.is_some_and(|verdict| verdict.lasting);
    let Some(client) = client else { return };
    client.session.unfollowed = client.session.unfollowed.max(Unfollowed::by(known));
    let place = server.exchange.finished;
    if matches!(end, End::Command(_) | End::Suspended) {
        known.map_or(&[][..], |verdict| &verdict.configures).iter().for_each(|call| {
            // Those in parameters have been read at the Bind.
            if let Argument::Text(name) = &call.name {
                client.session.configures(name);
            }
        });
    }
    match end {
        End::Command(text) => {
            server.exchange.finished += 1;
            command_complete(server, client, subscribers, text, known, place);
        }
        // It has set all that it sets, though its client may ask for more rows: there are none.
        End::Suspended if known.is_some_and(|verdict| verdict.is_call) => {
            command_complete(server, client, subscribers, SELECTED, known, place);
        }
        End::Suspended => client.session.pins.finished(b"", known),
        // Cancelled while it empties temporary tables, it has dropped statements, and no error brings them back.
        End::Error if known.and_then(|verdict| verdict.kind_of(place)) == Some(&Kind::Discard(Discards::All)) => {
            server.known.statements.doubt();
        }
        End::Error | End::Bound => (),
    }
}

/// Notes the effects on the session of the command in this place of its text, which has finished with this tag.
fn command_complete(
    server: &mut Server,
    client: &mut Client,
    subscribers: &Subscribers,
    text: &[u8],
    verdict: Option<&Verdict>,
    place: usize,
) {
    let kind = verdict.and_then(|verdict| verdict.kind_of(place));
    let heard =
        server.holder().is_some_and(|listener| subscriber_asks::is_heard(subscribers, listener, client, text, kind));
    match client.session.pending.finished(text, kind) {
        Outcome::Noted => (),
        Outcome::Unknown => server.known.residue = server.known.residue.max(Residue::Settings),
        Outcome::Unread => {
            server.known.residue = server.known.residue.max(Residue::Settings);
            client.session.pins.hold(Reasons::SETTING);
        }
        Outcome::Discarded => {
            client.prepared.statements.clear();
            client.session.configured.clear();
            server.known.statements.clear();
            server.known.residue = Residue::Nothing;
        }
    }
    if let Some(subscriptions) = client.subscriptions.as_mut().filter(|_| heard || text != b"LISTEN") {
        subscriptions.finished(text, kind);
    }
    if heard {
        // The LISTEN is undone before other clients get the connection.
        server.known.residue = server.known.residue.max(Residue::Anything);
    } else {
        client.session.pins.finished(text, verdict);
        client.session.listened_alone |= text == b"LISTEN";
    }
    if verdict.is_none_or(|verdict| verdict.is_ddl) && client.session.creates_temporary() {
        client.session.pins.hold(Reasons::TEMPORARY);
    }
    if text == b"DEALLOCATE ALL" {
        client.prepared.statements.clear();
        server.known.statements.clear();
    }
}
