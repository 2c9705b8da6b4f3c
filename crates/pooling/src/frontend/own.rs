//! Statements of clients of databases with shards that the pooler answers itself, such as SHOW ROUTE and SET SHARD, by either
//! protocol.
//!
//! Drivers prepare what is repeated. So a statement that is such a command is prepared and described here, and a Bind of it
//! is answered with its Execute: nothing stands between them.

use wire::backend::{self, ColumnType, Status};
use wire::frontend::{Parse, Target, tag};

use crate::catalog::hubless::Hubless;
use crate::error::Error;
use crate::frontend::hubless;
use crate::frontend::judgement::{Answer, refuse};
use crate::model::extent::{self, Said, Unit};
use crate::model::held::Held;
use crate::model::keys::{ClientKey, PoolKey};
use crate::model::lexing::{Lexing, UNCLEAR};
use crate::model::turn::{Step, Turn};
use crate::state::Core;
use crate::state::client::Client;

/// A command to the pooler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    Hubless(hubless::Command<'a>),
    /// SHOW ROUTE FOR this statement, in quotes.
    ShowRoute(&'a str),
    /// SET ROUTE NOTICES TO on or off.
    SetNotices(bool),
}

impl<'a> Command<'a> {
    pub fn read(rule: Option<&Hubless>, sql: &'a [u8]) -> Option<Self> {
        let first = sql.trim_ascii_start().first()?;
        if !first.eq_ignore_ascii_case(&b's') {
            return None;
        }
        let hubless = || rule.and_then(|_| hubless::Command::read(sql)).map(Self::Hubless);
        let route = || shown_statement(sql).map(Self::ShowRoute);
        hubless().or_else(route).or_else(|| wanted_notices(sql).map(Self::SetNotices))
    }

    /// The columns of its answer; none if it has no rows.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Hubless(hubless::Command::ShowShard) => &["shard"],
            Self::ShowRoute(_) => &["route", "why", "hint"],
            _ => &[],
        }
    }
}

/// What answers SHOW ROUTE FOR a statement; none while it is not known.
type Show<'a> = &'a dyn Fn(&mut Core, &str) -> Option<Answer>;

/// Whether a `SET ROUTE NOTICES TO on` or `off` wants notices.
fn wanted_notices(sql: &[u8]) -> Option<bool> {
    let text = std::str::from_utf8(sql).ok().filter(|text| text.len() < 100)?.to_ascii_lowercase();
    let words: Vec<&str> = text.trim_end_matches([';', ' ', '\n']).split_ascii_whitespace().collect();
    match words.as_slice() {
        ["set", "route", "notices", "to", "on"] => Some(true),
        ["set", "route", "notices", "to", "off"] => Some(false),
        _ => None,
    }
}

/// The statement of a `SHOW ROUTE FOR 'statement'`, with its quotes.
fn shown_statement(sql: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(sql).ok()?.trim().trim_end_matches(';').trim_end();
    let mut rest = text;
    for word in ["show", "route", "for"] {
        let (first, behind) = rest.split_at_checked(word.len())?;
        rest = behind.trim_start();
        if !first.eq_ignore_ascii_case(word) || rest.len() == behind.len() && word != "for" {
            return None;
        }
    }
    unquoted(rest).map(|_| rest)
}

/// The text between quotes or dollars.
fn unquoted(text: &str) -> Option<String> {
    let quoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).map(|text| text.replace("''", "'"));
    let dollars = || text.strip_prefix("$$").and_then(|rest| rest.strip_suffix("$$")).map(str::to_owned);
    quoted.or_else(dollars)
}

/// Answers a command at the front of a client's input, or a part of it; the next step for the input, if there is one.
pub fn answer(
    core: &mut Core,
    key: ClientKey,
    (home, rule): (PoolKey, Option<&Hubless>),
    (tag, input): (u8, &[u8]),
    show: Show<'_>,
) -> Option<Step> {
    let unit = extent::first(input)?;
    let message = unit.messages.first()?;
    let client = core.clients.get(key)?;
    let held = |name: &[u8]| Some(client.prepared.held(name)?.statement().text().to_vec());
    let sql = match message.said {
        Said::Query(sql) => sql.to_vec(),
        Said::Parse(parse) if !client.prepared.statements.contains_key(parse.name) => parse.query.to_vec(),
        Said::Bind(bind) if bind.portal.is_empty() => held(bind.statement)?,
        Said::Describe(Target::Statement(name)) => held(name)?,
        _ => return None,
    };
    let command = Command::read(rule, &sql)?;
    if let Some(step) = awaits_answers(core, key) {
        return step;
    }
    let failed = core.clients.get(key)?.route.begun.as_ref().is_some_and(|begun| begun.has_failed);
    if failed || status(core, key) == Status::Failed {
        return failed.then(|| refuse(core, key, (tag, input), Error::TransactionFailed));
    }
    let mut taken = unit.bytes.len();
    let runs = |core: &mut Core| match run(core, key, rule, command, show) {
        Ok(answer) => answer.ok_or(None),
        Err(error) => Err(Some(refuse(core, key, (tag, input), error))),
    };
    match message.said {
        Said::Parse(parse) => hold(core, key, home, parse)?,
        Said::Describe(_) => {
            let out = core.clients.get_mut(key)?.io.out();
            wire::frame::write(out, backend::tag::PARAMETER_DESCRIPTION, |out| out.extend_from_slice(&[0, 0]));
            describe(out, command);
        }
        Said::Bind(_) => {
            let described;
            (described, taken) = match execution(input, taken) {
                Ok(found) => found,
                Err(step) => return step,
            };
            let answer = match runs(core) {
                Ok(answer) => answer,
                Err(step) => return step,
            };
            let out = core.clients.get_mut(key)?.io.out();
            backend::write_empty(out, backend::tag::BIND_COMPLETE);
            (0..described).for_each(|_| describe(out, command));
            tell(out, &answer);
        }
        _ => {
            let answer = match runs(core) {
                Ok(answer) => answer,
                Err(step) => return step,
            };
            answer_query(core, key, command, &answer)?;
        }
    }
    if tag != tag::QUERY {
        core.clients.get_mut(key)?.input.unsynced = true;
    }
    core.schedule.unflushed.push(Turn::Client(key));
    Some(Step::Took(taken))
}

/// Prepares a command, as a Parse asks.
fn hold(core: &mut Core, key: ClientKey, home: PoolKey, parse: Parse<'_>) -> Option<()> {
    let statement = core.pools.get_mut(home)?.statements.share(parse.definition, UNCLEAR, Lexing::Conforming);
    let client = core.clients.get_mut(key)?;
    match parse.name {
        [] => client.prepared.unnamed = Some(Held::new(statement)),
        name => drop(client.prepared.statements.insert(name.into(), Held::new(statement))),
    }
    backend::write_empty(client.io.out(), backend::tag::PARSE_COMPLETE);
    Some(())
}

/// Answers a Query.
fn answer_query(core: &mut Core, key: ClientKey, command: Command<'_>, answer: &Answer) -> Option<()> {
    let status = status(core, key);
    let client = core.clients.get_mut(key)?;
    // As in PostgreSQL, a Query ends the unnamed statement.
    client.prepared.unnamed = None;
    let out = client.io.out();
    if !command.columns().is_empty() {
        describe(out, command);
    }
    tell(out, answer);
    backend::write_ready_for_query(out, status);
    Some(())
}

/// How often a portal is described behind its Bind, and where its Execute ends; or the step for the input without them.
fn execution(input: &[u8], mut taken: usize) -> Result<(usize, usize), Option<Step>> {
    let mut described = 0;
    loop {
        let next = extent::first(input.get(taken..).unwrap_or_default()).ok_or(Some(Step::More))?;
        taken += next.bytes.len();
        match next.messages.first().map(|message| message.said) {
            Some(Said::Describe(Target::Portal([]))) => described += 1,
            Some(Said::Execute) => return Ok((described, taken)),
            _ => return Err(None),
        }
    }
}

/// Whether a command is among the statements of a unit.
pub fn is_in(client: &Client, rule: Option<&Hubless>, unit: &Unit<'_>) -> bool {
    let is_command = |sql: &[u8]| Command::read(rule, sql).is_some();
    unit.messages.iter().any(|message| match message.said {
        Said::Parse(parse) => is_command(parse.query),
        Said::Bind(bind) => {
            client.prepared.held(bind.statement).is_some_and(|held| is_command(held.statement().text()))
        }
        _ => false,
    })
}

/// Where answers to the client are under way: what is to be done instead, nothing if its server has to answer first.
fn awaits_answers(core: &mut Core, key: ClientKey) -> Option<Option<Step>> {
    let client = core.clients.get_mut(key)?;
    // Its units in flight are answered first.
    if let Some(step) = client.checkout.wait_for_own() {
        return Some(Some(step));
    }
    let server = client.checkout.server().and_then(|server| core.servers.get(server));
    if server.is_none_or(|server| server.exchange.requests.is_empty()) {
        return None;
    }
    if client.input.unsynced {
        return Some(None);
    }
    client.checkout.behind_own = true;
    Some(Some(Step::Stop))
}

/// The status of the client's transaction.
fn status(core: &Core, key: ClientKey) -> Status {
    let Some(client) = core.clients.get(key) else { return Status::Idle };
    let server = client.checkout.server().and_then(|server| core.servers.get(server));
    server.map_or_else(|| client.route.status(), |server| server.status)
}

/// Runs a command; none if it is not answered now.
fn run(
    core: &mut Core,
    key: ClientKey,
    rule: Option<&Hubless>,
    command: Command<'_>,
    show: Show<'_>,
) -> Result<Option<Answer>, Error> {
    Ok(match (command, rule) {
        (Command::Hubless(command), Some(rule)) => Some(hubless::run(core, key, rule, command)?),
        (Command::Hubless(_), None) => None,
        (Command::ShowRoute(shown), _) => show(core, &unquoted(shown).unwrap_or_default()),
        (Command::SetNotices(wanted), _) => {
            core.clients.get_mut(key).into_iter().for_each(|client| client.route.notices = wanted);
            Some(Answer { row: Vec::new(), tag: "SET" })
        }
    })
}

/// Says which columns the answer to a command has.
fn describe(out: &mut Vec<u8>, command: Command<'_>) {
    match command.columns() {
        [] => backend::write_empty(out, backend::tag::NO_DATA),
        columns => backend::write_row_description(out, columns.iter().map(|name| (*name, ColumnType::Text))),
    }
}

fn tell(out: &mut Vec<u8>, answer: &Answer) {
    if !answer.row.is_empty() {
        backend::write_data_row(out, answer.row.iter().map(|value| value.as_deref().map(str::as_bytes)));
    }
    backend::write_command_complete(out, answer.tag);
}
