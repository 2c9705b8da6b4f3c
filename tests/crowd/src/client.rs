//! One client: its connection, its model, and what is under way between them.

use std::collections::VecDeque;
use std::time::Instant;

use wire::backend::{self, Report, tag};
use wire::frame;
use wire::startup;

use crate::crowd::Shared;
use crate::dice::Dice;
use crate::judge::{self, End, LOST, Rules};
use crate::ledger::{Key, Ledger, Told};
use crate::options::Options;
use crate::script::{Persona, Script};
use crate::session::Session;
use crate::socket::Socket;
use crate::trace::Trace;
use crate::unit::{Chunk, Unit};
use crate::world::{DATABASE, World};

/// Where a client stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It connects.
    Connecting,
    /// It waits for its greeting.
    Greeting,
    /// It talks.
    Live,
    /// It has ended, and another takes its place.
    Gone,
}

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// With a Terminate and a FIN, when all is answered.
    Politely,
    /// With a FIN as soon as it has sent a batch.
    Sent,
    /// With a RST as soon as it has sent a batch.
    SentReset,
    /// With a RST when the first bytes of an answer have come.
    Answered,
    /// With a RST a moment after it has sent a batch.
    Soon,
}

/// What it counts, for whoever runs it.
#[derive(Debug, Default)]
pub struct Happened {
    /// Units that were answered: what they were and how they ended.
    pub units: Vec<(&'static str, End)>,
    /// It was told of a lost server, and closed.
    pub dropped: bool,
    /// It could not log in while servers were being killed.
    pub refused: bool,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its number, never used again.
    pub id: u32,
    /// Its dice.
    pub dice: Dice,
    /// Who it is.
    pub persona: Persona,
    /// Its connection.
    pub socket: Socket,
    /// Where it stands.
    pub stage: Stage,
    /// What it saw of late.
    pub trace: Trace,
    /// The body of its BackendKeyData.
    pub key: Vec<u8>,
    /// How many of its cancel requests are under way.
    pub cancels: usize,
    /// How it will leave when it sends next.
    pub leave: Option<Leave>,
    /// It does not read.
    pub deaf: bool,
    /// When it was last heard.
    pub heard: Instant,
    /// Units that are sent and not answered.
    pub flight: VecDeque<(Unit, Instant)>,
    rules: Rules,
    checks_greeting: bool,
    session: Session,
    todo: VecDeque<Unit>,
    /// What of the last unit in flight is still to be sent.
    chunks: VecDeque<Chunk>,
    /// Where in what has come the next message begins.
    scanned: usize,
    /// The types of the messages of the answer that is coming, as bits.
    seen: u128,
    sent: usize,
    n: u32,
    last_key: Option<Key>,
}

impl Client {
    /// A client that connects.
    pub fn new(id: u32, socket: Socket, shared: &Shared) -> Self {
        let (options, world) = (&shared.options, &shared.world);
        let mut dice = Dice::new(options.seed, u64::from(id));
        let persona = Persona::new(&mut dice, options, id, shared.doomed.get());
        let vars = world.session(persona.user, &persona.startup);
        let rules = Rules { kills: options.kills > 0.0 || options.crashes > 0.0, lenient: persona.doomed.is_some() };
        let mut trace = Trace::new(shared.began);
        trace.note(&format!("client {id} connects as {persona:?}"));
        Self {
            id,
            dice,
            persona,
            socket,
            stage: Stage::Connecting,
            trace,
            key: Vec::new(),
            cancels: 0,
            leave: None,
            deaf: false,
            heard: Instant::now(),
            flight: VecDeque::new(),
            rules,
            checks_greeting: options.with("greetings"),
            session: Session::new(vars, options.pooler.is_some()),
            todo: VecDeque::new(),
            chunks: VecDeque::new(),
            scanned: 0,
            seen: 0,
            sent: 0,
            n: 0,
            last_key: None,
        }
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Live && self.flight.is_empty()
    }

    /// Something may have come: all that is whole is judged.
    pub fn hear(&mut self, world: &World, ledger: &mut Ledger, happened: &mut Happened) -> Result<(), String> {
        if self.stage == Stage::Connecting && self.socket.is_open() {
            self.introduce();
        }
        loop {
            let header = frame::header(&self.socket.held[self.scanned..]).map_err(|error| error.to_string())?;
            let Some(header) = header else { break };
            let end = self.scanned + header.total();
            if self.socket.held.len() < end {
                break;
            }
            self.scanned = end;
            self.heard = Instant::now();
            self.seen |= 1 << (header.tag & 0x7f);
            if header.tag == tag::READY_FOR_QUERY {
                self.answered(world, ledger, happened)?;
            } else if self.stage == Stage::Greeting && header.tag == tag::ERROR_RESPONSE {
                return self.refused(happened);
            }
        }
        self.go_on();
        if self.socket.closed && self.stage != Stage::Gone {
            self.dropped(ledger, happened)?;
        } else if self.stage == Stage::Live && self.flight.is_empty() && self.scanned > 0 {
            self.unasked()?;
        }
        Ok(())
    }

    fn introduce(&mut self) {
        let mut packet = Vec::new();
        let mut asked = vec![("user", self.persona.user), ("database", DATABASE)];
        asked.extend(self.persona.startup.iter().map(|(setting, value)| (setting.name(), &**value)));
        startup::write_startup(&mut packet, asked);
        self.socket.send(&packet);
        self.stage = Stage::Greeting;
    }

    fn take(&mut self) -> Vec<u8> {
        let rest = self.socket.held.split_off(self.scanned);
        self.scanned = 0;
        self.seen = 0;
        std::mem::replace(&mut self.socket.held, rest)
    }

    /// A ReadyForQuery has come.
    fn answered(&mut self, world: &World, ledger: &mut Ledger, happened: &mut Happened) -> Result<(), String> {
        let answer = self.take();
        self.trace.got(&answer);
        if self.stage == Stage::Greeting {
            self.stage = Stage::Live;
            let strict = self.checks_greeting;
            return self.greeted(&answer, strict);
        }
        let Some((unit, _)) = self.flight.pop_front() else {
            return Err("an answer that nothing asked for".to_owned());
        };
        let end = judge::judge(self.rules, world, &mut self.session, ledger, self.id, &unit, &answer)
            .map_err(|wrong| format!("{wrong}\n  the unit: {:?}", unit.ops))?;
        happened.units.push((unit.label(), end));
        if self.flight.is_empty() {
            self.session.holds_notifications(true)?;
            self.chunks.clear();
        }
        Ok(())
    }

    fn greeted(&mut self, mut greeting: &[u8], strict: bool) -> Result<(), String> {
        while let Ok(Some(message)) = frame::message(greeting) {
            match message.tag {
                tag::BACKEND_KEY_DATA => self.key = message.body.to_vec(),
                tag::PARAMETER_STATUS => {
                    let (name, value) = backend::parameter_status(message.body).map_err(|error| error.to_string())?;
                    if strict {
                        judge::note_setting(&mut self.session, name, value)?;
                    }
                }
                tag::AUTHENTICATION | tag::READY_FOR_QUERY => (),
                other => return Err(format!("{} in the greeting", char::from(other))),
            }
            greeting = message.rest;
        }
        Ok(())
    }

    /// It is not let in.
    fn refused(&mut self, happened: &mut Happened) -> Result<(), String> {
        let answer = self.take();
        self.trace.got(&answer);
        self.stage = Stage::Gone;
        happened.refused = true;
        match last_error(&answer) {
            Some((code, _)) if self.rules.kills && LOST.contains(&code.as_str()) => Ok(()),
            Some((code, message)) => Err(format!("refused at login: {code} {message}")),
            None => Ok(()),
        }
    }

    /// Something came that nobody asked for: notifications, or the end of the connection.
    fn unasked(&mut self) -> Result<(), String> {
        let mut answer = self.take();
        self.trace.got(&answer);
        while let Ok(Some(message)) = frame::message(&answer) {
            if message.tag != tag::NOTIFICATION_RESPONSE {
                break;
            }
            judge::hold_notification(&mut self.session, self.id, &judge::notification(message.body)?)?;
            answer = message.rest.to_vec();
        }
        if answer.is_empty() {
            return self.session.holds_notifications(true);
        }
        // The end of the connection follows where this is the end of its server.
        let dies = reports(&answer).is_some_and(|all| all.iter().all(|report| LOST.contains(&report.code.as_str())));
        if dies && self.rules.kills && self.session.has_server() {
            return Ok(());
        }
        Err("a message that nothing asked for".to_owned())
    }

    /// The other side has closed the connection.
    fn dropped(&mut self, ledger: &mut Ledger, happened: &mut Happened) -> Result<(), String> {
        let stage = self.stage;
        let rest = std::mem::take(&mut self.socket.held);
        self.trace.got(&rest);
        self.trace.note(&format!("closed: {}", self.socket.fault.as_deref().unwrap_or("a FIN")));
        self.end(ledger);
        happened.dropped = true;
        let told = last_error(&rest);
        let excused = self.rules.lenient
            || self.rules.kills && (stage != Stage::Live || told.is_none_or(|(code, _)| LOST.contains(&code.as_str())));
        if excused {
            return Ok(());
        }
        Err("the connection was closed".to_owned())
    }

    /// It was told what is wrong, so that nothing is known any more.
    pub fn give_up(&mut self, ledger: &mut Ledger) {
        self.stage = Stage::Gone;
        self.session.abort(ledger, Told::Unknown, "wrong");
    }

    /// Its connection is no more, or will not be: what becomes of its rows.
    pub fn end(&mut self, ledger: &mut Ledger) {
        self.stage = Stage::Gone;
        let commits = self.flight.iter().any(|(unit, _)| unit.commits());
        let told = if commits { Told::Unknown } else { Told::Failed };
        self.session.abort(ledger, told, "left");
    }

    /// It sends its next units, and says when it wants to be asked again for more.
    pub fn batch(&mut self, ledger: &mut Ledger, options: &Options) {
        if self.todo.is_empty() {
            let script = Script::new(
                &mut self.dice,
                options,
                &self.persona,
                &self.session,
                self.id,
                &mut self.n,
                &mut self.last_key,
            );
            self.todo = script.episode();
        }
        let count = *self.dice.pick(&[1, 1, 2, 3, 6, 12]);
        let mut bytes = Vec::new();
        for _ in 0..count {
            let Some(mut unit) = self.todo.pop_front() else { break };
            ledger.send(&unit.keys());
            unit.cancellable |= self.cancels > 0;
            self.chunks = std::mem::take(&mut unit.chunks).into();
            if let Some(first) = self.chunks.pop_front() {
                bytes.extend_from_slice(&first.bytes);
            }
            self.flight.push_back((unit, Instant::now()));
            self.sent += 1;
            if !self.chunks.is_empty() {
                break;
            }
        }
        if !bytes.is_empty() {
            self.trace.sent(&bytes);
            self.socket.send(&bytes);
        }
    }

    /// Sends what waited for a part of the answer.
    fn go_on(&mut self) {
        while self.flight.len() == 1 {
            let Some(chunk) = self.chunks.front() else { return };
            let failed = self.seen & (1 << tag::ERROR_RESPONSE) != 0;
            // Whether a statement has columns may depend on what became of those before it.
            let described = matches!(chunk.after, tag::ROW_DESCRIPTION | tag::NO_DATA);
            let either = if described { 1 << tag::ROW_DESCRIPTION | 1 << tag::NO_DATA } else { 1 << chunk.after };
            if !failed && self.seen & either == 0 {
                return;
            }
            if let Some(chunk) = self.chunks.pop_front() {
                let bytes = if failed { chunk.otherwise } else { chunk.bytes };
                self.trace.sent(&bytes);
                self.socket.send(&bytes);
            }
        }
    }

    /// Whether what is under way ends only when it is cancelled.
    pub fn is_endless(&self) -> bool {
        self.flight.iter().any(|(unit, _)| unit.endless)
    }

    /// Whether it has done all that it came for.
    pub fn has_done(&self) -> bool {
        self.sent >= self.persona.units
    }

    /// A cancel request of its own is under way: what it may strike.
    pub fn cancels(&mut self) {
        self.cancels += 1;
        for (unit, _) in &mut self.flight {
            unit.cancellable = true;
        }
        self.trace.note("a cancel request begins");
    }
}

/// What errors and notices say; none where there are other messages among them.
fn reports(mut bytes: &[u8]) -> Option<Vec<Report>> {
    let mut found = Vec::new();
    while let Ok(Some(message)) = frame::message(bytes) {
        if !matches!(message.tag, tag::ERROR_RESPONSE | tag::NOTICE_RESPONSE) {
            return None;
        }
        found.push(backend::report(message.body).ok()?);
        bytes = message.rest;
    }
    Some(found)
}

/// The SQLSTATE and the message of the last error among these messages.
fn last_error(mut bytes: &[u8]) -> Option<(String, String)> {
    let mut found = None;
    while let Ok(Some(message)) = frame::message(bytes) {
        if message.tag == tag::ERROR_RESPONSE {
            found = backend::report(message.body).ok().map(|report| (report.code, report.message));
        }
        bytes = message.rest;
    }
    found
}
