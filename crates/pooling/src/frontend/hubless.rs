//! The shard of a client's next unit where there is no hub and clients choose, as with PgCat.
//!
//! A unit goes to the shard that a comment in it names; else to that of its sharding key, if it is proved to be of one
//! shard; else to the one that its session has chosen by SET SHARD or SET SHARDING KEY; else to the default. Statements on
//! tables with a sharding key that are not proved to be of one shard go where a comment or the session says, or are
//! refused: never to the default, nor to a shard that was chosen for another statement.

use std::rc::Rc;
use std::sync::LazyLock;

use regex::bytes::Regex;
use sharding::Reason;
use wire::backend::Status;

use crate::catalog::hubless::Hubless;
use crate::config::DefaultShard;
use crate::error::Error;
use crate::frontend::judgement::{Answer, Decision, Judgement, Refusal, Target, keyed, numbered, unsharded};
use crate::model::keys::ClientKey;
use crate::state::Core;

/// The commands as PgCat reads them.
static COMMANDS: LazyLock<Option<[Regex; 3]>> = LazyLock::new(|| {
    Some([
        Regex::new(r"(?i)^ *SET SHARDING KEY TO '?([0-9]+)'? *;? *$").ok()?,
        Regex::new(r"(?i)^ *SET SHARD TO '?([0-9]+|ANY)'? *;? *$").ok()?,
        Regex::new(r"(?i)^ *SHOW SHARD *;? *$").ok()?,
    ])
});

/// A longer text is searched for no command.
const LONGEST: usize = 200;

/// A command to the pooler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    SetShardingKey(&'a str),
    SetShard(&'a str),
    ShowShard,
}

impl<'a> Command<'a> {
    pub fn read(sql: &'a [u8]) -> Option<Self> {
        if sql.len() > LONGEST {
            return None;
        }
        let [key, shard, show] = COMMANDS.as_ref()?;
        let value = |regex: &Regex| std::str::from_utf8(regex.captures(sql)?.get(1)?.as_bytes()).ok();
        let show = || show.is_match(sql).then_some(Self::ShowShard);
        value(key).map(Self::SetShardingKey).or_else(|| value(shard).map(Self::SetShard)).or_else(show)
    }
}

/// What decides about a unit's shard.
enum Choice {
    Refused(Refusal),
    /// A comment.
    Comment(usize),
    /// The values of its keys.
    Proved(usize),
    /// The session, and why its keys do not, if there are some.
    Session(usize, Option<Reason>),
    Default,
}

impl Choice {
    fn of(rule: &Hubless, chosen: Option<usize>, judgement: Judgement) -> Self {
        let Judgement { shard, hub, words, .. } = judgement;
        if let Some(error) = words.refused {
            return Self::Refused((error, "comment"));
        }
        let unsharded = |reason: &Reason| Self::Refused((unsharded(reason), reason.name()));
        match (words.shard, shard, hub, chosen) {
            (Some(word), Some(proved), ..) if word != proved => unsharded(&Reason::Several),
            (Some(word), ..) => Self::Comment(word),
            (None, Some(proved), None, _) => Self::Proved(proved),
            // There were more shards when it was chosen.
            (None, _, _, Some(chosen)) if chosen >= rule.shards() => {
                Self::Refused((Error::NoShard { number: chosen.to_string(), shards: rule.shards() }, "session"))
            }
            (None, _, reason, Some(chosen)) => Self::Session(chosen, reason),
            (None, _, Some(reason), None) => unsharded(&reason),
            (None, None, None, None) => Self::Default,
        }
    }

    /// The name of the rule, and why the unit goes there.
    fn told(&self) -> (&'static str, String) {
        match self {
            Self::Refused((error, name)) => (name, error.to_string()),
            Self::Comment(_) => ("comment", "a comment in it names the shard".to_owned()),
            Self::Proved(_) => ("key", "every sharded table in it is restricted to keys of this shard".to_owned()),
            Self::Session(_, None) => ("session", "the session has chosen the shard".to_owned()),
            Self::Session(_, Some(reason)) => ("session", format!("the session has chosen the shard, since {reason}")),
            Self::Default => ("default", "no shard is chosen; in a transaction it runs where that is".to_owned()),
        }
    }
}

/// Decides where a unit goes. Within a transaction, or a unit of which the server has a part, what names no table with a
/// sharding key runs where that is.
///
/// # Errors
/// Why the unit is refused.
pub(super) fn decide(
    core: &Core,
    key: ClientKey,
    rule: &Hubless,
    judgement: Judgement,
    is_within: bool,
) -> Result<Decision, Refusal> {
    let client = core.clients.get(key);
    let chosen = client.and_then(|client| client.route.chosen);
    let has_own = client.is_some_and(|client| client.checkout.server().is_some());
    let choice = Choice::of(rule, chosen, judgement);
    let (name, why) = choice.told();
    let target = match choice {
        Choice::Refused(refusal) => return Err(refusal),
        Choice::Session(_, None) if is_within => Target::Anywhere,
        Choice::Default if has_own => Target::Anywhere,
        Choice::Comment(shard) | Choice::Proved(shard) | Choice::Session(shard, _) => Target::Shard(shard),
        Choice::Default => Target::Shard(default_shard(core, key, rule)),
    };
    Ok(Decision { target, writes: false, rule: name, why })
}

/// Where a statement would go, why, and what helps.
pub(super) fn route(
    core: &Core,
    key: ClientKey,
    rule: &Hubless,
    sql: &[u8],
    mut judgement: Judgement,
) -> (String, String, Option<&'static str>) {
    let name = |shard: usize| rule.names.map.shards.get(shard).map_or_else(String::new, ToString::to_string);
    judgement.words.say_all(Some(rule), sql);
    if judgement.words.shard.is_some() {
        // It is the word of the user.
        (judgement.shard, judgement.hub) = (None, None);
    }
    let chosen = core.clients.get(key).and_then(|client| client.route.chosen);
    let choice = Choice::of(rule, chosen, judgement);
    let (_, why) = choice.told();
    match choice {
        Choice::Refused((error, _)) => ("refused".to_owned(), why, error.hint()),
        Choice::Comment(shard) | Choice::Proved(shard) | Choice::Session(shard, _) => (name(shard), why, None),
        Choice::Default => match rule.default {
            DefaultShard::Number(shard) => (name(shard), why, None),
            _ => ("random".to_owned(), why, None),
        },
    }
}

/// The shard of a unit for which none is chosen.
fn default_shard(core: &Core, key: ClientKey, rule: &Hubless) -> usize {
    let all = rule.shards();
    match rule.default {
        DefaultShard::Number(shard) => shard,
        DefaultShard::Random => random(all),
        DefaultShard::RandomHealthy => {
            let healthy: Vec<usize> = (0..all).filter(|shard| is_healthy(core, key, rule, *shard)).collect();
            healthy.get(random(healthy.len())).copied().unwrap_or_else(|| random(all))
        }
    }
}

/// A number below this one, or 0.
fn random(below: usize) -> usize {
    getrandom::u32().ok().and_then(|random| (random as usize).checked_rem(below)).unwrap_or(0)
}

/// Whether a server of a shard has answered of late, or none was asked.
fn is_healthy(core: &Core, key: ClientKey, rule: &Hubless, shard: usize) -> bool {
    let Some(name) = rule.names.map.shards.get(shard) else { return false };
    let Some(client) = core.clients.get(key) else { return false };
    let user: Rc<str> = core.config.pool_user(name, &client.identity.user).into();
    let pool = core.pool_names.get(&((**name).into(), user)).and_then(|pool| core.pools.get(*pool));
    let Some(pool) = pool else { return true };
    if let Some(view) = pool.cluster_of.cluster.and_then(|place| core.router.clusters.get(place)) {
        return !view.view().is_dead();
    }
    let of_entry = core.config.database(name).and_then(|entry| entry.ban_time);
    let shunned = of_entry.unwrap_or(core.config.settings.ban_time).0;
    let failed = pool.connections.failure.as_ref().map(|failure| failure.at);
    failed.is_none_or(|at| core.now.saturating_duration_since(at) >= shunned)
}

/// Runs a command, where nothing of the client is under way.
///
/// # Errors
/// Why it cannot be obeyed.
pub(super) fn run(core: &mut Core, key: ClientKey, rule: &Hubless, command: Command<'_>) -> Result<Answer, Error> {
    let Some(client) = core.clients.get_mut(key) else { return Ok(Answer { row: Vec::new(), tag: "SET SHARD" }) };
    let server = client.checkout.server().and_then(|server| core.servers.get(server));
    let (shard, tag) = match command {
        Command::ShowShard => {
            let shard = client.route.chosen.map_or_else(|| "unset".to_owned(), |shard| shard.to_string());
            return Ok(Answer { row: vec![Some(shard)], tag: "SELECT 1" });
        }
        _ if server.is_some_and(|server| server.status != Status::Idle) => {
            let why = "it has begun on its shard, so that no other can be chosen before its end".to_owned();
            return Err(Error::OtherShard(why));
        }
        Command::SetShardingKey(value) => (keyed(rule, value)?, "SET SHARDING KEY"),
        Command::SetShard(any) if any.eq_ignore_ascii_case("any") => (random(rule.shards()), "SET SHARD"),
        Command::SetShard(number) => (numbered(rule, number)?, "SET SHARD"),
    };
    client.route.chosen = Some(shard);
    Ok(Answer { row: Vec::new(), tag })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_pgcat_reads_them() {
        for (sql, command) in [
            ("SET SHARDING KEY TO '13'", Some(Command::SetShardingKey("13"))),
            ("  SeT SHaRDInG KeY to 13 ; ", Some(Command::SetShardingKey("13"))),
            ("set shard to '2';", Some(Command::SetShard("2"))),
            ("SET SHARD TO any", Some(Command::SetShard("any"))),
            ("SHOW SHARD", Some(Command::ShowShard)),
            (" show shard  ;  ", Some(Command::ShowShard)),
            ("SET SHARDING KEY TO '-1'", None),
            ("SET SHARDING KEY TO 'a'", None),
            ("SET SHARD = 1", None),
            ("SET SHARD TO 1; SELECT 1", None),
            ("\nSHOW SHARD", None),
            ("SHOW SHARDS", None),
        ] {
            assert_eq!(Command::read(sql.as_bytes()), command, "{sql}");
        }
    }
}
