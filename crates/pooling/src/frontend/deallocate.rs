//! SQL's `DEALLOCATE name` for a statement that its client has prepared by the protocol. PHP's PDO, Perl's DBD::Pg and
//! psycopg with an older libpq free statements so. On servers the statement has another name, and other clients may use
//! it: as for a Close of the protocol, only this client forgets it, and no server is asked.

use crate::frontend::messages;
use crate::model::client::Discard;
use crate::model::keys::ClientKey;
use crate::model::turn::Step;
use crate::state::client::Client;
use crate::state::server::Server;
use crate::state::{Core, served};
use classify::Kind;
use wire::Header;
use wire::backend::{self, Status};
use wire::frame::HEADER;
use wire::frontend::tag;

/// The longest text that is looked at.
const LONGEST: usize = 512;

/// The text of a Query that may free a statement of its client, whose names servers do not know.
pub fn may_free<'a>(client: &Client, server: Option<&Server>, head: Header, left: &'a [u8]) -> Option<&'a [u8]> {
    // A Close that is skipped behind an error has closed nothing.
    let has_none = client.prepared.statements.is_empty() && is_answered(server);
    if head.tag != tag::QUERY || has_none {
        return None;
    }
    let sql = left.get(HEADER..head.total())?.strip_suffix(b"\0")?;
    let may_free = sql.len() <= LONGEST && memchr::memchr2_iter(b'd', b'D', sql).any(|at| is_word(sql, at));
    (may_free && !client.input.unsynced && client.input.discard == Discard::No).then_some(sql)
}

/// Whether a client's server has answered all, if it has one.
fn is_answered(server: Option<&Server>) -> bool {
    server.is_none_or(|server| server.exchange.requests.is_empty())
}

/// Answers a Query of this text that frees one of its client's statements.
pub fn frees_statement(core: &mut Core, key: ClientKey, sql: &[u8], head: Header) -> Option<Step> {
    let (clients, servers, mut context) = core.split();
    let (client, server) = served(clients, servers, key)?;
    let server = server.as_deref();
    let verdict = messages::look_at(&mut context, client, server, sql).filter(|verdict| verdict.statements == 1)?;
    let Kind::Deallocate(Some(name)) = &verdict.kind else { return None };
    if client.checkout.pipelined().is_some() || !is_answered(server) {
        client.checkout.behind_own = true;
        return Some(Step::Stop);
    }
    let status = server.map_or(Status::Idle, |server| server.status);
    if status == Status::Failed || !client.prepared.statements.contains_key(name.as_bytes()) {
        return None;
    }
    client.prepared.statements.remove(name.as_bytes());
    // As in PostgreSQL, a Query ends the unnamed statement.
    client.prepared.unnamed = None;
    client.activity.queries += 1;
    backend::write_command_complete(client.io.out(), "DEALLOCATE");
    backend::write_ready_for_query(client.io.out(), status);
    Some(Step::Took(head.total()))
}

/// Whether the word DEALLOCATE stands at this place.
fn is_word(sql: &[u8], at: usize) -> bool {
    const WORD: &[u8] = b"deallocate";
    sql.get(at..at + WORD.len()).is_some_and(|word| word.eq_ignore_ascii_case(WORD))
}
