//! Holds what a unit was answered against the model of its client's session, message by message, and brings the model
//! up to date. The model says what PostgreSQL must answer; what may come at any time in its place is an error that
//! strikes: a cancel request of the client's own, its statement_timeout, and the loss of a server where servers are
//! being killed.

use std::rc::Rc;

use wire::backend::{self, Report, tag};
use wire::frame::{self, Fields};

use crate::ledger::{Ledger, Told};
use crate::session::{Portal, Prepared, Reading, Session, Unnamed};
use crate::settings::{SETTINGS, Setting, Text, USERS};
use crate::statement::{Answer, Column, Copying, Effect, Rows, Scene, SqlError, Statement};
use crate::unit::{Op, Unit, portal_name, statement_name};
use crate::world::World;

/// With these a server, or the pooler in its place, says that the connection to it has ended.
pub const LOST: [&str; 7] = ["08006", "08003", "08000", "57P01", "57P02", "57P03", "57P05"];
const DYING: &str = "terminating connection because of crash of another server process";
const CANCELLED: &str = "canceling statement due to user request";
const TIMED_OUT: &str = "canceling statement due to statement timeout";

/// What may happen beside what clients do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// Servers are killed.
    pub kills: bool,
    /// The client has taken on a role that may be dropped: any error is right, as long as it is honest.
    pub lenient: bool,
}

/// How a unit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As it should.
    Well,
    /// With an error that the model foresaw.
    Failed,
    /// By its client's cancel request.
    Cancelled,
    /// By its session's `statement_timeout`.
    TimedOut,
    /// With its server.
    Lost,
    /// With an error that whoever has taken on a dropped role must expect.
    Excused,
}

/// What is not as it must be.
pub type Wrong = String;

/// One judgement.
pub struct Judge<'a> {
    rules: Rules,
    world: &'a World,
    session: &'a mut Session,
    ledger: &'a mut Ledger,
    unit: &'a Unit,
    client: u32,
    left: &'a [u8],
    /// Whether its statement_timeout may have struck when the unit began.
    timed: bool,
    /// An error has come: the rest of the unit is skipped.
    skipping: bool,
    /// The statement at hand ends its transaction.
    ending: bool,
    /// What follows cannot be known.
    adrift: bool,
    /// What a function that sometimes writes has said that it did.
    wrote: bool,
    end: End,
    code: String,
    notices: Vec<String>,
    wanted_notices: Vec<Text>,
    notified: Vec<(String, String)>,
    changed: Vec<(String, String)>,
}

/// Judges a whole answer, ReadyForQuery included.
pub fn judge(
    rules: Rules,
    world: &World,
    session: &mut Session,
    ledger: &mut Ledger,
    client: u32,
    unit: &Unit,
    answer: &[u8],
) -> Result<End, Wrong> {
    let timed = may_time_out(session);
    let mut judge = Judge {
        rules,
        world,
        session,
        ledger,
        unit,
        client,
        left: answer,
        timed,
        skipping: false,
        ending: false,
        adrift: false,
        wrote: false,
        end: End::Well,
        code: String::new(),
        notices: Vec::new(),
        wanted_notices: Vec::new(),
        notified: Vec::new(),
        changed: Vec::new(),
    };
    for op in &unit.ops {
        judge.op(op)?;
    }
    judge.finish()?;
    Ok(judge.end)
}

/// The channel and the payload of a NotificationResponse.
pub fn notification(body: &[u8]) -> Result<(String, String), Wrong> {
    let mut fields = Fields::new(tag::NOTIFICATION_RESPONSE, body);
    let parts = fields
        .i32("the process")
        .and_then(|_| Ok((fields.text("the channel")?.to_owned(), fields.text("the payload")?.to_owned())));
    parts.map_err(|error| error.to_string())
}

/// Whether a notification, its channel and its payload, is a client's own, and comes in its place.
pub fn hold_notification(
    session: &mut Session,
    client: u32,
    (channel, payload): &(String, String),
) -> Result<(), Wrong> {
    if *channel != format!("of_{client}") {
        return Err(format!("notified of {payload:?} on {channel:?}"));
    }
    session.is_notified(payload)
}

fn may_time_out(session: &Session) -> bool {
    session.vars().get(Setting::Timeout).all().any(|value| &**value != "0")
}

impl<'a> Judge<'a> {
    // Messages

    /// The next message that is an answer, which stays there; what comes at any time is noted.
    fn peek(&mut self) -> Result<(u8, &'a [u8]), Wrong> {
        loop {
            let message = frame::message(self.left).map_err(|error| error.to_string())?;
            let Some(message) = message else { return Err("the answer ends too early".to_owned()) };
            match message.tag {
                tag::NOTICE_RESPONSE => {
                    let notice = report(message.body)?.message;
                    if !(self.rules.kills && notice == DYING) {
                        self.notices.push(notice);
                    }
                }
                tag::PARAMETER_STATUS => {
                    let (name, value) = backend::parameter_status(message.body).map_err(|error| error.to_string())?;
                    self.changed.push((name.to_owned(), value.to_owned()));
                }
                tag::NOTIFICATION_RESPONSE => {
                    self.notified.push(notification(message.body)?);
                }
                _ => return Ok((message.tag, message.body)),
            }
            self.left = message.rest;
        }
    }

    fn take(&mut self) -> Result<(u8, &'a [u8]), Wrong> {
        let (tag, body) = self.peek()?;
        self.left = self.left.get(frame::HEADER + body.len()..).unwrap_or_default();
        Ok((tag, body))
    }

    /// Takes a message of this type without a body; false when an error came that may come there.
    fn simple(&mut self, wanted: u8, errors: &[&SqlError]) -> Result<bool, Wrong> {
        let (tag, body) = self.take()?;
        match tag {
            _ if tag == wanted && body.is_empty() => Ok(true),
            tag::ERROR_RESPONSE => self.error(body, errors).map(|()| false),
            _ => Err(format!("{} in place of {}", char::from(tag), char::from(wanted))),
        }
    }

    /// Takes the error that must come, or one that strikes in its place.
    fn refused(&mut self, error: &SqlError) -> Result<(), Wrong> {
        self.refused_by(&[error])
    }

    /// Takes one of these errors, or one that strikes in their place.
    fn refused_by(&mut self, errors: &[&SqlError]) -> Result<(), Wrong> {
        let (tag, body) = self.take()?;
        if tag != tag::ERROR_RESPONSE {
            return Err(format!("{} in place of {errors:?}", char::from(tag)));
        }
        self.error(body, errors)
    }

    /// An error has come: one of these, or one that strikes.
    fn error(&mut self, body: &[u8], foreseen: &[&SqlError]) -> Result<(), Wrong> {
        let report = report(body)?;
        let foreseen = foreseen.iter().any(|error| report.code == error.code && report.message == error.message);
        self.end = if foreseen {
            End::Failed
        } else {
            self.strikes(&report).ok_or_else(|| format!("another error: {} {}", report.code, report.message))?
        };
        self.skipping = true;
        if self.end == End::Lost {
            self.session.lose(self.ledger, self.unit.commits());
        } else {
            self.session.fail(self.ledger, &report.code);
        }
        self.code = report.code;
        Ok(())
    }

    /// How an error strikes, if it may.
    fn strikes(&self, report: &Report) -> Option<End> {
        let cancelled = report.code == "57014" && report.message == CANCELLED;
        if cancelled && self.unit.cancellable {
            Some(End::Cancelled)
        } else if self.is_timeout(report) || cancelled && self.is_timed() {
            // PostgreSQL takes one in thirty timeouts for a cancel request.
            Some(End::TimedOut)
        } else if self.rules.kills && LOST.contains(&report.code.as_str()) {
            Some(End::Lost)
        } else if self.rules.lenient && !cancelled || self.adrift {
            Some(End::Excused)
        } else {
            None
        }
    }

    /// Whether its statement_timeout may strike.
    fn is_timed(&self) -> bool {
        self.timed || may_time_out(self.session)
    }

    /// Whether this is its own statement_timeout.
    fn is_timeout(&self, report: &Report) -> bool {
        report.code == "57014" && report.message == TIMED_OUT && self.is_timed()
    }

    // Operations

    fn op(&mut self, op: &Op) -> Result<(), Wrong> {
        match op {
            Op::Query(statements) => self.query(statements),
            Op::Sync => self.sync(),
            _ if self.skipping => {
                if let (Op::Parse { name, statement }, End::Lost) = (op, self.end) {
                    self.perhaps_prepared(*name, statement);
                }
                Ok(())
            }
            Op::Parse { name, statement } => self.parse(*name, statement),
            Op::Bind { portal, name, statement } => self.bind(*portal, *name, statement),
            Op::DescribeStatement { name, statement } => self.describe_statement(*name, statement),
            Op::DescribePortal { portal } => self.describe_portal(*portal),
            Op::Execute { portal, most } => self.execute(*portal, *most),
            Op::CloseStatement { name } => {
                if self.simple(tag::CLOSE_COMPLETE, &[])? {
                    self.session.named.retain(|prepared| prepared.name != *name);
                    if *name == 0 {
                        self.session.unnamed = Unnamed::Not;
                    }
                }
                Ok(())
            }
            Op::ClosePortal { portal } => {
                if self.simple(tag::CLOSE_COMPLETE, &[])? {
                    self.session.portals.retain(|open| open.name != *portal);
                }
                Ok(())
            }
        }
    }

    fn query(&mut self, statements: &[Rc<Statement>]) -> Result<(), Wrong> {
        let reading = Reading::of(self.session.vars());
        self.session.unnamed = Unnamed::Not;
        self.session.portals.retain(|portal| portal.name != 0);
        for (at, statement) in statements.iter().enumerate() {
            self.session.start();
            if statement.sql.is_empty() {
                // It is nothing at all among others.
                if statements.len() == 1 {
                    self.simple(tag::EMPTY_QUERY_RESPONSE, &[])?;
                }
                continue;
            }
            if let Some(error) = self.refusal(statement) {
                self.refused(&error)?;
                break;
            }
            let mut answer = self.expect(statement, &reading);
            let is_last = at + 1 == statements.len();
            if is_last && self.session.status() == b'I' && answer.error.is_none() {
                // The transaction of the Query itself ends before the statement is told to be complete.
                answer.error = if statement.effect == Effect::Violate {
                    Some(violation())
                } else if statement.effect == Effect::Rollback {
                    None
                } else {
                    self.session.refuses_commit()
                };
            }
            self.run(statement, &answer, Run { from: 0, most: 0, header: true })?;
            if self.skipping {
                break;
            }
        }
        if self.skipping {
            if matches!(self.end, End::Cancelled | End::TimedOut | End::Lost) {
                self.session.unnamed = Unnamed::Perhaps;
            }
        } else {
            self.session.end_unit(self.ledger);
        }
        Ok(())
    }

    /// The error that keeps a statement from being analysed, or run at all.
    fn refusal(&self, statement: &Statement) -> Option<SqlError> {
        let is_nonsense = statement.refused.as_ref().is_some_and(|error| error.code == "42601");
        if !is_nonsense && self.session.has_failed() && !statement.is_exit() {
            return (!statement.sql.is_empty()).then(in_failed_transaction);
        }
        if matches!(statement.effect, Effect::TempDrop) {
            return None;
        }
        let reading = Reading::of(self.session.vars());
        let error = statement.refused.clone().or_else(|| statement.expect(&self.scene(&reading)).error);
        error.filter(|error| ["42601", "42703", "42P01"].contains(&error.code))
    }

    fn scene<'b>(&'b self, reading: &'b Reading) -> Scene<'b> {
        Scene { session: self.session, ledger: self.ledger, world: self.world, reading }
    }

    fn expect(&mut self, statement: &Statement, reading: &Reading) -> Answer {
        let answer = statement.expect(&self.scene(reading));
        self.wanted_notices.extend(answer.notices.iter().cloned());
        answer
    }

    fn parse(&mut self, name: u8, statement: &Rc<Statement>) -> Result<(), Wrong> {
        self.session.start();
        if name == 0 {
            self.session.unnamed = Unnamed::Not;
        }
        let there = self.session.named.iter().find(|prepared| prepared.name == name).map(|prepared| prepared.sure);
        let exists = SqlError::new("42P05", format!("prepared statement \"{}\" already exists", statement_name(name)));
        let mut error = self.refusal(statement).or_else(|| (there == Some(true)).then(|| exists.clone()));
        let answered = self.peek()?.0 == tag::PARSE_COMPLETE;
        if self.session.is_pooled() && answered && error == Some(in_failed_transaction()) {
            // A pooler that knows the statement need not ask.
            error = None;
        }
        if let Some(error) = error {
            self.refused(&error)?;
        } else {
            let foreseen: &[&SqlError] = if there.is_some() { &[&exists] } else { &[] };
            if self.simple(tag::PARSE_COMPLETE, foreseen)? {
                self.prepared(name, statement, true);
                return Ok(());
            }
        }
        match self.end {
            End::Cancelled | End::TimedOut if name == 0 => self.session.unnamed = Unnamed::Perhaps,
            End::Lost => self.perhaps_prepared(name, statement),
            _ => (),
        }
        Ok(())
    }

    fn prepared(&mut self, name: u8, statement: &Statement, sure: bool) {
        let reading = Reading::of(self.session.vars());
        let prepared = Prepared { name, sure, sql: statement.sql.clone(), reading };
        if name == 0 {
            self.session.unnamed = Unnamed::Is(prepared);
        } else {
            self.session.named.retain(|old| old.name != name);
            self.session.named.push(prepared);
        }
    }

    fn perhaps_prepared(&mut self, name: u8, statement: &Statement) {
        if name == 0 {
            self.session.unnamed = Unnamed::Perhaps;
        } else if self.session.named.iter().all(|prepared| prepared.name != name) {
            self.prepared(name, statement, false);
        }
    }

    /// How the literals of a statement may have been read: as at its Parse, or as now. None: it is not there, or it
    /// may not be.
    fn find(&mut self, name: u8) -> (Option<Reading>, bool) {
        let now = Reading::of(self.session.vars());
        let prepared = match (&mut self.session.unnamed, name) {
            (Unnamed::Is(prepared), 0) => Some(prepared),
            (Unnamed::Perhaps, 0) => {
                self.adrift = true;
                return (Some(now), false);
            }
            (Unnamed::Not, 0) => None,
            _ => self.session.named.iter_mut().find(|prepared| prepared.name == name),
        };
        match prepared {
            Some(prepared) => {
                prepared.reading = prepared.reading.or(&now);
                (Some(prepared.reading.clone()), prepared.sure)
            }
            None => (None, true),
        }
    }

    fn bind(&mut self, portal: u8, name: u8, statement: &Rc<Statement>) -> Result<(), Wrong> {
        self.session.start();
        let missing = missing_statement(name);
        let (reading, sure) = self.find(name);
        if self.session.has_failed() && !statement.is_exit() {
            // Which of the two is looked at first is nobody's concern.
            let error = if reading.is_none() || !sure { missing } else { in_failed_transaction() };
            return self.refused_by(&[&error, &in_failed_transaction()]);
        }
        let Some(reading) = reading else { return self.refused(&missing) };
        // What can be worked out when the plan is made fails here.
        let answer = statement.expect(&self.scene(&reading));
        let mut foreseen: Vec<&SqlError> = answer.error.iter().chain(&answer.perhaps).collect();
        if !sure {
            foreseen.push(&missing);
        }
        if self.simple(tag::BIND_COMPLETE, &foreseen)? {
            self.session.portals.retain(|open| open.name != portal);
            self.session.portals.push(Portal { name: portal, statement: Rc::clone(statement), reading, given: None });
        }
        Ok(())
    }

    fn describe_statement(&mut self, name: u8, statement: &Statement) -> Result<(), Wrong> {
        self.session.start();
        let missing = missing_statement(name);
        let (reading, sure) = self.find(name);
        if reading.is_none() {
            return self.refused(&missing);
        }
        if self.session.has_failed() && !statement.columns.is_empty() {
            let error = if sure { in_failed_transaction() } else { missing };
            return self.refused_by(&[&error, &in_failed_transaction()]);
        }
        let (tag, body) = self.take()?;
        match tag {
            tag::ERROR_RESPONSE => {
                let foreseen: &[&SqlError] = if sure { &[] } else { &[&missing] };
                return self.error(body, foreseen);
            }
            tag::PARAMETER_DESCRIPTION => {
                let mut wanted = (statement.types.len() as u16).to_be_bytes().to_vec();
                statement.types.iter().for_each(|oid| wanted.extend_from_slice(&oid.to_be_bytes()));
                if wanted != body && !self.adrift {
                    return Err(format!("parameters {body:?}, not {:?}", statement.types));
                }
            }
            _ => return Err(format!("{} in place of t", char::from(tag))),
        }
        self.described(statement)
    }

    fn describe_portal(&mut self, portal: u8) -> Result<(), Wrong> {
        self.session.start();
        let found = self.session.portals.iter().find(|open| open.name == portal);
        let Some(statement) = found.map(|open| Rc::clone(&open.statement)) else {
            return self.refused(&missing_portal(portal));
        };
        if self.session.has_failed() && !statement.columns.is_empty() {
            return self.refused(&in_failed_transaction());
        }
        self.described(&statement)
    }

    /// RowDescription or NoData.
    fn described(&mut self, statement: &Statement) -> Result<(), Wrong> {
        let knows = !matches!(statement.effect, Effect::Fetch(_)) || self.session.cursor.is_some();
        let columns = if knows { statement.columns } else { &[] };
        let (tag, body) = self.take()?;
        match tag {
            tag::ERROR_RESPONSE => self.error(body, &[]),
            tag::NO_DATA if columns.is_empty() => Ok(()),
            tag::ROW_DESCRIPTION if !columns.is_empty() => self.columns(columns, body),
            _ if self.adrift => Ok(()),
            _ => Err(format!("{} as the description of {} columns", char::from(tag), columns.len())),
        }
    }

    fn columns(&self, columns: &[Column], body: &[u8]) -> Result<(), Wrong> {
        if self.adrift {
            return Ok(());
        }
        let read = |fields: &mut Fields<'_>| -> Result<bool, wire::Error> {
            let mut good = usize::try_from(fields.i16("the number of columns")?) == Ok(columns.len());
            for column in columns {
                good &= fields.cstr("the name")? == column.name.as_bytes();
                let (table, number) = (fields.i32("the table")? as u32, fields.i16("the number")?);
                good &= match (column.source, self.session.vars().tenant()) {
                    (None, _) => (table, number) == (0, 0),
                    (Some((name, wanted)), Some(tenant)) => {
                        number == wanted && self.world.table(tenant, name) == Some(table)
                    }
                    (Some((_, wanted)), None) => number == wanted,
                };
                good &= (fields.i32("the type")? as u32, fields.i16("the length")?) == column.kind;
                good &= (fields.i32("the modifier")?, fields.i16("the format")?) == (-1, 0);
            }
            Ok(good && fields.left().is_empty())
        };
        match read(&mut Fields::new(tag::ROW_DESCRIPTION, body)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("columns {:?}, not {columns:?}", String::from_utf8_lossy(body))),
            Err(error) => Err(error.to_string()),
        }
    }

    fn execute(&mut self, portal: u8, most: usize) -> Result<(), Wrong> {
        self.session.start();
        let Some(at) = self.session.portals.iter().position(|open| open.name == portal) else {
            return self.refused(&missing_portal(portal));
        };
        let open = &self.session.portals[at];
        let (statement, reading, given) = (Rc::clone(&open.statement), open.reading.clone(), open.given);
        if statement.sql.is_empty() {
            return self.simple(tag::EMPTY_QUERY_RESPONSE, &[]).map(|_| ());
        }
        if self.session.has_failed() && !statement.is_exit() {
            return self.refused(&in_failed_transaction());
        }
        let answer = self.expect(&statement, &reading);
        let run = Run { from: given.unwrap_or(0), most, header: false };
        let count = self.run(&statement, &answer, run)?;
        if let Some(open) = self.session.portals.iter_mut().find(|open| open.name == portal) {
            open.given = Some(given.unwrap_or(0) + count);
        }
        Ok(())
    }

    /// What a statement answers when it runs, up to its end: how many rows came.
    fn run(&mut self, statement: &Statement, answer: &Answer, run: Run) -> Result<usize, Wrong> {
        self.ending = matches!(statement.effect, Effect::Commit | Effect::Rollback);
        let (first, _) = self.peek()?;
        match (&statement.copying, first) {
            (_, tag::ERROR_RESPONSE) => (),
            (Copying::No, _) if run.header && !statement.columns.is_empty() => self.described(statement)?,
            (Copying::No, _) => (),
            (Copying::Out, tag::COPY_OUT_RESPONSE) | (Copying::In { .. }, tag::COPY_IN_RESPONSE) => {
                self.take()?;
            }
            _ => return Err(format!("{} at the begin of a COPY", char::from(first))),
        }
        if self.skipping {
            return Ok(0);
        }
        let mut count = 0;
        loop {
            let (tag, body) = self.take()?;
            match tag {
                tag::DATA_ROW | tag::COPY_DATA => {
                    self.row(statement, answer, run.from + count, tag, body)?;
                    count += 1;
                }
                tag::COPY_DONE if statement.copying == Copying::Out => (),
                tag::PORTAL_SUSPENDED if run.most > 0 && count == run.most => return Ok(count),
                tag::COMMAND_COMPLETE => {
                    return self.complete(statement, answer, run.from, count, body).map(|()| count);
                }
                tag::ERROR_RESPONSE => return self.broke(answer, run.from + count, body).map(|()| count),
                _ => return Err(format!("{} among rows", char::from(tag))),
            }
        }
    }

    fn row(&mut self, statement: &Statement, answer: &Answer, at: usize, tag: u8, body: &[u8]) -> Result<(), Wrong> {
        let out = statement.copying == Copying::Out;
        let values = match (tag, out) {
            (tag::COPY_DATA, true) => vec![Some(body.strip_suffix(b"\n").unwrap_or_default())],
            (tag::DATA_ROW, false) => backend::data_row(body).map_err(|error| error.to_string())?,
            _ => return Err("rows of the wrong kind".to_owned()),
        };
        self.wrote = values.first() == Some(&Some(b"wrote"));
        if answer.rows.fits(at, &values) || self.adrift {
            return Ok(());
        }
        let shown = |value: &Option<&[u8]>| value.map(|value| String::from_utf8_lossy(value).into_owned());
        let got: Vec<_> = values.iter().map(shown).collect();
        let wanted = match &answer.rows {
            Rows::These(rows) => format!("{:?}", rows.get(at)),
            other => format!("{other:?}").chars().take(300).collect(),
        };
        Err(format!("row {at} is {got:?}, not {wanted}"))
    }

    fn complete(
        &mut self,
        statement: &Statement,
        answer: &Answer,
        from: usize,
        count: usize,
        body: &[u8],
    ) -> Result<(), Wrong> {
        if let (Some(error), false) = (&answer.error, self.adrift) {
            return Err(format!("no error {} {}", error.code, error.message));
        }
        let copies_in = matches!(statement.copying, Copying::In { .. });
        let total = answer.rows.len().saturating_sub(from);
        if !self.adrift && !copies_in && !matches!(answer.rows, Rows::Unknown) && count != total {
            return Err(format!("{count} rows, not {total}"));
        }
        let wanted = statement.tag(self.session, if copies_in { total } else { count });
        let got = backend::command_complete(body).map_err(|error| error.to_string())?;
        if got != wanted.as_bytes() && !self.adrift {
            return Err(format!("complete by {:?}, not {wanted:?}", String::from_utf8_lossy(got)));
        }
        self.session.apply(&statement.effect, self.ledger);
        if let (Effect::Shift(key), true) = (&statement.effect, self.wrote) {
            self.session.shifted(*key, self.ledger);
        }
        if statement.vague {
            self.session.blur();
        }
        Ok(())
    }

    /// A statement has ended with an error, after so many rows.
    fn broke(&mut self, answer: &Answer, rows: usize, body: &[u8]) -> Result<(), Wrong> {
        let foreseen: Vec<&SqlError> = answer.error.iter().chain(&answer.perhaps).collect();
        self.error(body, &foreseen)?;
        if self.end == End::Failed && answer.error.is_some() && rows < answer.rows.len() {
            // A deferred constraint fails when all rows have been given.
            return Err(format!("the error came after {rows} rows of {}", answer.rows.len()));
        }
        if self.end == End::Failed && self.ending && answer.error.as_ref().is_some_and(|error| *error == violation()) {
            self.session.abort(self.ledger, Told::Failed, "23505");
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Wrong> {
        if self.skipping {
            return Ok(());
        }
        let implicit = self.session.status() == b'I';
        let refusal = self.session.refuses_commit().filter(|_| implicit);
        let (tag, body) = self.peek()?;
        // A timer that has run out too late for the last statement strikes when the server reads on, wherever that is.
        if tag == tag::ERROR_RESPONSE && (implicit || self.is_timeout(&report(body)?)) {
            self.take()?;
            return self.error(body, &refusal.iter().collect::<Vec<_>>());
        }
        if let Some(error) = refusal {
            return Err(format!("no error {} {}", error.code, error.message));
        }
        self.session.end_unit(self.ledger);
        Ok(())
    }

    // The end

    fn finish(&mut self) -> Result<(), Wrong> {
        let (mut tag, mut body) = self.take()?;
        if tag == tag::ERROR_RESPONSE && self.strikes(&report(body)?) == Some(End::Lost) {
            // The server has died between its last answer and the ReadyForQuery.
            self.error(body, &[])?;
            (tag, body) = self.take()?;
        }
        if tag != tag::READY_FOR_QUERY {
            let what = if tag == tag::ERROR_RESPONSE { report(body)?.message } else { String::new() };
            return Err(format!("{} {what} in place of ReadyForQuery", char::from(tag)));
        }
        if !self.left.is_empty() {
            return Err("more than one answer".to_owned());
        }
        let struck = matches!(self.end, End::Cancelled | End::TimedOut | End::Lost | End::Excused);
        if struck && body == b"I" && self.session.status() == b'E' && (self.ending || self.end == End::Excused) {
            self.session.abort(self.ledger, Told::Failed, "struck");
        }
        if body != [self.session.status()] {
            return Err(format!(
                "status {:?}, not {:?}",
                String::from_utf8_lossy(body),
                char::from(self.session.status())
            ));
        }
        if self.end != End::Lost {
            for key in self.unit.keys() {
                if self.ledger.look(key).0 == Told::Unknown {
                    self.ledger.tell(&[key], Told::Failed, &self.code);
                }
            }
        }
        self.hold_notices()?;
        self.hold_notifications()?;
        self.hold_settings()
    }

    fn hold_notices(&self) -> Result<(), Wrong> {
        let fits = self.notices.len() <= self.wanted_notices.len()
            && self.notices.iter().zip(&self.wanted_notices).all(|(got, wanted)| **got == **wanted);
        let all = self.notices.len() == self.wanted_notices.len() || self.end != End::Well;
        if fits && all || self.adrift {
            return Ok(());
        }
        Err(format!("notices {:?}, not {:?}", self.notices, self.wanted_notices))
    }

    fn hold_notifications(&mut self) -> Result<(), Wrong> {
        for told in std::mem::take(&mut self.notified) {
            hold_notification(self.session, self.client, &told)?;
        }
        self.session.holds_notifications(false)
    }

    /// Whether it was told of its settings as they are.
    fn hold_settings(&mut self) -> Result<(), Wrong> {
        for (name, value) in std::mem::take(&mut self.changed) {
            note_setting(self.session, &name, &value)?;
        }
        for setting in SETTINGS.into_iter().filter(|setting| self.world.reports(*setting)) {
            let (value, told) = (self.session.vars().get(setting), &self.session.told[setting as usize]);
            if let (Some(value), Some(told)) = (value.known(), told)
                && value != &**told
            {
                return Err(format!("not told that {} is {value:?}: its client takes it for {told:?}", setting.name()));
            }
        }
        Ok(())
    }
}

/// How a statement is run.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// How many rows it has given before.
    from: usize,
    /// How many it may give now; 0 for all.
    most: usize,
    /// It tells its columns first.
    header: bool,
}

/// A ParameterStatus has come: it must tell what the session has.
pub fn note_setting(session: &mut Session, name: &str, value: &str) -> Result<(), Wrong> {
    if name == "is_superuser" {
        let user = session.vars().user();
        let wanted = user.map(|user| if user == USERS[1] { "on" } else { "off" });
        session.superuser = Some(value == "on");
        return match wanted {
            Some(wanted) if wanted != value => Err(format!("told that is_superuser is {value:?}")),
            _ => Ok(()),
        };
    }
    let Some(setting) = SETTINGS.into_iter().find(|setting| setting.name() == name) else {
        return Ok(());
    };
    // Where what it is may change with the connection, what was told of one says nothing.
    session.told[setting as usize] = session.vars().get(setting).known().map(|_| value.into());
    if session.vars().get(setting).may_be(value) {
        return Ok(());
    }
    Err(format!("told that {name} is {value:?}, not {:?}", session.vars().get(setting)))
}

fn report(body: &[u8]) -> Result<Report, Wrong> {
    backend::report(body).map_err(|error| error.to_string())
}

fn in_failed_transaction() -> SqlError {
    SqlError::new("25P02", "current transaction is aborted, commands ignored until end of transaction block")
}

fn violation() -> SqlError {
    SqlError::new("23505", "duplicate key value violates unique constraint \"dup_k_key\"")
}

fn missing_statement(name: u8) -> SqlError {
    if name == 0 {
        return SqlError::new("26000", "unnamed prepared statement does not exist");
    }
    SqlError::new("26000", format!("prepared statement \"{}\" does not exist", statement_name(name)))
}

fn missing_portal(portal: u8) -> SqlError {
    SqlError::new("34000", format!("portal \"{}\" does not exist", portal_name(portal)))
}
