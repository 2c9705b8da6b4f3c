//! What is known of a client's unit before it is sent to the hub or a shard, and how it is refused.

use sharding::{Parameters, Proof, Proved, Reason};
use wire::frame::HEADER;
use wire::frontend::{self, tag};

use crate::catalog::hubless::{Comment, Hubless};
use crate::error::Error;
use crate::frontend::replies::NO_STATEMENT;
use crate::frontend::statements;
use crate::model::keys::ClientKey;
use crate::model::request::Request;
use crate::model::turn::Step;
use crate::pools::leave;
use crate::state::Core;

/// What helps a statement that is refused.
const HINT: &str = "give each sharding key a value, or choose the shard by SET SHARD or a comment";

/// Where the statements of a unit may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// On any server: they name no tables.
    Anywhere,
    /// On the hub, and why there.
    Hub(Reason),
    /// On this shard of the map.
    Shard(usize),
}

impl Target {
    /// The kind of server.
    pub fn kind(&self) -> &'static str {
        if matches!(self, Self::Shard(_)) { "shard" } else { "hub" }
    }

    /// The name of the rule that leads there.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Anywhere => "not_sharded",
            Self::Hub(reason) => reason.name(),
            Self::Shard(_) => "key",
        }
    }

    /// Why statements run there.
    pub fn why(&self) -> String {
        match self {
            Self::Anywhere => "it names no sharded table; in a transaction it runs where that is".to_owned(),
            Self::Hub(reason) => reason.to_string(),
            Self::Shard(_) => "every sharded table in it is restricted to keys of this shard".to_owned(),
        }
    }

    /// What makes them run on one shard.
    pub fn hint(&self) -> Option<&'static str> {
        if let Self::Hub(reason) = self { Some(reason.hint()) } else { None }
    }
}

/// Where a client's transaction is, as far as it keeps what is prepared from another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    Not,
    OnHub,
    OnShard,
}

/// What the proofs of a unit's statements say together.
#[derive(Debug, Default)]
pub struct Judgement {
    pub shard: Option<usize>,
    pub hub: Option<Reason>,
    pub writes: bool,
    /// Whether a statement may mean something else outside of its transaction.
    pub is_bound: bool,
    /// Whether a statement needs a slot that is about to move.
    pub closes: bool,
    /// What comments say, for hubless shards.
    pub words: Words,
}

impl Judgement {
    pub fn add(&mut self, proved: &Proved, sql: &[u8], parameters: &impl Parameters) {
        self.writes |= proved.proof.writes;
        self.is_bound |= !proved.proof.is_free;
        self.closes |= proved.closes(sql, parameters);
        match proved.shard(sql, parameters) {
            Ok(Some(shard)) if self.shard.is_some_and(|other| other != shard) => {
                self.hub.get_or_insert(Reason::Several);
            }
            Ok(Some(shard)) => self.shard = Some(shard),
            Ok(None) => {
                if let Some(reason) = &proved.proof.hub {
                    self.hub.get_or_insert(reason.clone());
                }
            }
            Err(reason) => {
                self.hub.get_or_insert(reason);
            }
        }
    }

    /// Adds a statement that is only prepared, where its client is held: the server there need not be able to.
    pub fn prepare(&mut self, proof: &Proof, held: Held) {
        let reason = match held {
            Held::Not => None,
            Held::OnShard => proof.only_on_hub().cloned(),
            Held::OnHub if proof.writes => Some(proof.needs.as_ref().err().cloned().unwrap_or(Reason::OnHub)),
            Held::OnHub => None,
        };
        if let Some(reason) = reason {
            self.writes |= held == Held::OnHub;
            self.hub.get_or_insert(reason);
        }
    }

    /// The target, and whether rows of shards are written there; the hub writes them only if it `may`.
    ///
    /// # Errors
    /// Why statements that write rows of shards are refused.
    pub fn target(self, may: bool) -> Result<(Target, bool), Reason> {
        match (self.hub, self.shard) {
            (Some(reason), _) if self.writes && (!may || matches!(reason, Reason::Definition(_))) => Err(reason),
            (Some(reason), _) => Ok((Target::Hub(reason), self.writes)),
            (None, Some(shard)) => Ok((Target::Shard(shard), self.writes)),
            (None, None) => Ok((Target::Anywhere, false)),
        }
    }
}

/// What a command to the pooler answers: its row, if it has one, and its tag.
pub struct Answer {
    pub row: Vec<Option<String>>,
    pub tag: &'static str,
}

/// Where a unit goes, and why.
pub struct Decision {
    pub target: Target,
    /// Whether rows of shards are written there.
    pub writes: bool,
    /// The name of the rule that leads there.
    pub rule: &'static str,
    pub why: String,
}

/// Why a unit is refused, and the name of that in counts.
pub type Refusal = (Error, &'static str);

/// What the comments in the statements of a unit say together.
#[derive(Debug, Default)]
pub struct Words {
    pub shard: Option<usize>,
    pub refused: Option<Error>,
}

impl Words {
    /// Takes the comment of a statement. Whether nothing else decides about the statement.
    pub fn say_all(&mut self, rule: Option<&Hubless>, sql: &[u8]) -> bool {
        let Some(rule) = rule else { return false };
        let shard = match rule.comment(sql) {
            None => return !rule.is_automatic,
            Some(Comment::Shard(number)) => numbered(rule, number),
            Some(Comment::Key(key)) => keyed(rule, key),
        };
        match shard {
            Ok(shard) if self.shard.is_none_or(|other| other == shard) => self.shard = Some(shard),
            Ok(_) => self.refused = Some(unsharded(&Reason::Several)),
            Err(error) => self.refused = Some(error),
        }
        true
    }
}

pub fn numbered(rule: &Hubless, number: &str) -> Result<usize, Error> {
    rule.numbered(number).map_err(|number| Error::NoShard { number, shards: rule.shards() })
}

pub fn keyed(rule: &Hubless, key: &str) -> Result<usize, Error> {
    rule.keyed(key).ok_or_else(|| Error::ShardingKey(key.to_owned()))
}

pub fn unsharded(reason: &Reason) -> Error {
    Error::NotOfOneShard { why: reason.to_string(), hint: HINT }
}

/// Refuses the unit at the front of a client's input. Within a transaction the server gets a message that it refuses, so
/// that the transaction fails there.
pub fn refuse(core: &mut Core, key: ClientKey, (tag, input): (u8, &[u8]), error: Error) -> Step {
    let Some(client) = core.clients.get_mut(key) else { return Step::Stop };
    if let Some(step) = client.checkout.wait_for_own() {
        return step;
    }
    let Some(server) = client.checkout.server().and_then(|server| core.servers.get_mut(server)) else {
        leave::refuse(core, key, &error);
        return Step::Stop;
    };
    let Ok(Some(head)) = wire::header(input) else { return Step::More };
    client.input.dropping = head.body;
    statements::begin(client, server, core.now);
    client.route.refusal = Some(Box::new(error));
    frontend::write_execute(server.io.out(), NO_STATEMENT);
    server.exchange.requests.push_back(Request::Refuse);
    client.input.unsynced = tag != tag::QUERY;
    if tag == tag::QUERY {
        client.prepared.unnamed = None;
        frontend::write_sync(server.io.out());
        server.exchange.requests.push_back(Request::Sync);
    }
    Step::Took(HEADER)
}
