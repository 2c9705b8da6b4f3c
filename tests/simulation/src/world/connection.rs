//! A connection to the server: what PostgreSQL's backend holds for it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::Write;

use pooling::memory::End;
use wire::backend::{self, Extra, Status};
use wire::frame::HEADER;
use wire::startup::{self, Packet};
use wire::{frontend, header};

use super::copy::CopyIn;
use super::ledger::Said;
use super::shapes::shifting;
use crate::model::{REPORTED, Session, Values, reported};
use crate::statement::{Command, Shifting, read};

/// The message of an error that comes of a cancel request which the unit's client did not send.
pub(super) const STRAY: &str = "canceled by a stranger";

/// What a server's connection has been asked and has not answered.
pub(super) struct Question {
    pub(super) tag: u8,
    pub(super) body: Vec<u8>,
    pub(super) own: bool,
}

/// A statement that is prepared on a server's connection.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) sql: String,
    /// The type of its parameter, and the time zone in which its text was read last: its rows say so.
    pub(super) of_type: u32,
    pub(super) zone: String,
    /// The search_path by which its text was read last; none once its cached plan has been given up.
    pub(super) path: Option<String>,
    /// What it does with the relation that shifts, and the shape by which it was parsed.
    pub(super) shifting: Option<(Shifting, usize)>,
}

/// What is left of a Query of several statements.
pub(super) struct Script {
    pub(super) commands: VecDeque<Command>,
    /// It is the pooler's own.
    pub(super) own: bool,
    /// It does nothing but lift limits.
    pub(super) lifts: bool,
}

pub(super) struct Connection {
    pub(super) id: usize,
    /// Which server it leads to.
    pub(super) host: usize,
    pub(super) socket: End,
    pub(super) input: Vec<u8>,
    pub(super) is_logged_in: bool,
    /// For which database and as which user it has logged in.
    pub(super) database: String,
    pub(super) user: String,
    pub(super) questions: VecDeque<Question>,
    /// The names of the units of which messages have come, and the client whose came last: its place, and which it was.
    pub(super) arrived: Vec<String>,
    pub(super) last: Option<(usize, usize)>,
    pub(super) answers: VecDeque<u8>,
    /// Bytes that were answered and told.
    pub(super) made: usize,
    pub(super) told: usize,
    /// Where the answers to the pooler's own questions end that have not been told.
    pub(super) own: VecDeque<usize>,
    pub(super) own_asked: usize,
    pub(super) session: Session,
    pub(super) reported: Values,
    /// Whether it has said that it is a standby's, if it says that.
    pub(super) standby: Option<bool>,
    pub(super) statements: HashMap<Vec<u8>, Prepared>,
    pub(super) portals: HashMap<Vec<u8>, (Prepared, Option<String>)>,
    pub(super) skips: bool,
    /// Who has begun a unit there, and what its client's session is in it.
    pub(super) unit: Option<(usize, String, Session)>,
    /// Whose the transaction is that is open there: the client's place, which client it was, and its session.
    pub(super) holder: Option<(usize, usize, Session)>,
    pub(super) strike: Option<&'static str>,
    /// What was to lift the limits of a client has been struck.
    pub(super) limited: bool,
    /// A cancel request has arrived for what is at the front.
    pub(super) cancelled: bool,
    /// What has failed was struck by a cancel request that its client did not ask for.
    pub(super) strays: bool,
    /// Messages have come of something that has not ended.
    pub(super) is_begun: bool,
    /// The Query that runs.
    pub(super) script: Option<Script>,
    /// The COPY that is taken in.
    pub(super) copy: Option<CopyIn>,
    /// What the unit has been answered.
    pub(super) said: Vec<Said>,
    /// Its unit has not ended, and what it has done of LISTEN and UNLISTEN is committed.
    pub(super) relistened: bool,
    /// What it listens to.
    pub(super) channels: BTreeSet<String>,
    /// Its transaction has to do with the relation that shifts, which does not change meanwhile.
    pub(super) locks: bool,
    /// Up to which notification it has read.
    pub(super) read_to: usize,
}

impl Connection {
    /// One that has been accepted.
    pub(super) fn new(id: usize, host: usize, socket: End) -> Self {
        Self {
            id,
            host,
            socket,
            input: Vec::new(),
            is_logged_in: false,
            database: String::new(),
            user: String::new(),
            questions: VecDeque::new(),
            arrived: Vec::new(),
            last: None,
            answers: VecDeque::new(),
            made: 0,
            told: 0,
            own: VecDeque::new(),
            own_asked: 0,
            session: Session::default(),
            reported: Values::new(),
            standby: None,
            statements: HashMap::new(),
            portals: HashMap::new(),
            skips: false,
            unit: None,
            holder: None,
            strike: None,
            limited: false,
            cancelled: false,
            strays: false,
            is_begun: false,
            script: None,
            copy: None,
            said: Vec::new(),
            relistened: false,
            channels: BTreeSet::new(),
            locks: false,
            read_to: 0,
        }
    }

    pub(super) fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        self.made += out.len();
        self.answers.extend(out);
    }

    /// A statement has been done.
    pub(super) fn tell_end(&mut self, tag: &str) {
        self.said.push(Said::Tag(tag.to_owned()));
        self.say(|out| backend::write_command_complete(out, tag));
    }

    pub(super) fn tell_row(&mut self, row: &str) {
        self.said.push(Said::Row);
        self.say(|out| backend::write_data_row(out, [Some(row.as_bytes())].into_iter()));
    }

    /// A message is answered with an error.
    pub(super) fn refuse(&mut self, code: &str) {
        let words = if std::mem::take(&mut self.strays) { STRAY } else { "no" };
        self.refuse_with(code, words, None);
    }

    /// Likewise in these words, by this routine of the server.
    pub(super) fn refuse_with(&mut self, code: &str, words: &str, routine: Option<&str>) {
        self.said.push(Said::Error(code.to_owned()));
        let extra = Extra { hint: None, routine };
        self.say(|out| backend::write_error_with(out, "ERROR", code, words, extra));
        (self.skips, self.locks) = (true, false);
    }

    /// Whether a cancel request finds something to strike.
    pub(super) fn is_busy(&self) -> bool {
        // What is left of a COPY that has ended is read in passing.
        self.copy.is_some() || self.questions.iter().any(|question| !matches!(question.tag, b'd' | b'c' | b'f'))
    }

    /// The server lets everybody in.
    pub(super) fn log_in(&mut self, reports_search_path: bool, standby: Option<bool>) {
        let Ok(Some((Packet::Startup(startup), count))) = startup::read(&self.input) else { return };
        let value = |name| startup.get(name).unwrap_or_default().to_owned();
        (self.database, self.user) = (value("database"), value("user"));
        self.input.drain(..count);
        self.is_logged_in = true;
        let pid = i32::try_from(self.id).unwrap();
        for name in REPORTED.iter().filter(|name| reports_search_path || **name != "search_path") {
            self.reported.insert((*name).to_owned(), reported(&self.session.current, name));
        }
        let told = self.reported.clone();
        let mut out = Vec::new();
        backend::write_authentication(&mut out, &backend::Authentication::Ok);
        self.standby = standby;
        if let Some(standby) = standby {
            backend::write_parameter_status(&mut out, "in_hot_standby", if standby { "on" } else { "off" });
        }
        for (name, value) in &told {
            backend::write_parameter_status(&mut out, name, value);
        }
        backend::write_backend_key_data(&mut out, pid, b"abcd");
        backend::write_ready_for_query(&mut out, Status::Idle);
        let _ = self.socket.write_all(&out);
    }

    /// What is reported has changed.
    pub(super) fn report(&mut self, standby: bool) {
        if self.standby.as_mut().is_some_and(|told| std::mem::replace(told, standby) != standby) {
            let value = if standby { "on" } else { "off" };
            self.say(|out| backend::write_parameter_status(out, "in_hot_standby", value));
        }
        let mut changed = Vec::new();
        for (name, before) in &mut self.reported {
            let now = reported(&self.session.current, name);
            if now != *before {
                *before = now.clone();
                changed.push((name.clone(), now));
            }
        }
        for (name, value) in changed {
            self.say(|out| backend::write_parameter_status(out, &name, &value));
        }
    }

    pub(super) fn take_questions(&mut self) {
        while let Ok(Some(head)) = header(&self.input) {
            if self.input.len() < head.total() {
                return;
            }
            let message: Vec<u8> = self.input.drain(..head.total()).collect();
            let body = message[HEADER..].to_vec();
            let own = head.tag == b'Q' && read(std::str::from_utf8(&body[..body.len() - 1]).unwrap()).1.is_none();
            // An alignment may follow what lifts limits; nothing of a client's may.
            assert!(
                own || head.tag == b'X' || self.own_asked == 0,
                "a client's message behind one of the pooler's own"
            );
            self.own_asked += usize::from(own);
            self.arrived.extend(owner_of(head.tag, &body));
            self.questions.push_back(Question { tag: head.tag, body, own });
        }
    }

    pub(super) fn parse(&mut self, body: &[u8], shape: usize) {
        if self.skips {
            return;
        }
        let parse = frontend::parse(body).unwrap();
        let sql = String::from_utf8(parse.query.to_vec()).unwrap();
        let ends = |command: &Command| {
            matches!(command, Command::Commit { .. } | Command::Rollback { .. } | Command::RollbackTo(_))
        };
        if self.session.failed && !read(&sql).0.iter().all(ends) {
            return self.refuse("25P02");
        }
        if !parse.name.is_empty() && self.statements.contains_key(parse.name) {
            return self.complain("42P05");
        }
        let of_type = parse.definition.get(parse.query.len() + 3..).and_then(|types| types.first_chunk());
        let shifting = shifting(&sql).map(|how| (how, shape));
        let found = shifting.map_or(0, |(how, shape)| how.parameter(shape));
        let of_type = of_type.map_or(found, |oid| u32::from_be_bytes(*oid));
        self.locks |= shifting.is_some();
        let prepared = Prepared { sql, of_type, zone: String::new(), path: None, shifting };
        self.statements.insert(parse.name.to_vec(), prepared);
        self.revalidate(parse.name);
        self.say(|out| backend::write_empty(out, b'1'));
    }

    /// Reads the text of a statement anew, by the settings in force, if the search_path is not that of the last reading, or
    /// the cached plan has been given up: as PostgreSQL does when a statement is bound or described.
    pub(super) fn revalidate(&mut self, name: &[u8]) {
        let [zone, path] = ["TimeZone", "search_path"].map(|setting| reported(&self.session.current, setting));
        let Some(prepared) = self.statements.get_mut(name) else { return };
        if prepared.path.as_ref() != Some(&path) {
            (prepared.zone, prepared.path) = (zone, Some(path));
        }
    }

    pub(super) fn bind(&mut self, body: &[u8]) {
        if self.skips {
            return;
        }
        let bind = frontend::bind(body).unwrap();
        if !self.session.failed {
            self.revalidate(bind.statement);
        }
        let Some(prepared) = self.statements.get(bind.statement).cloned() else { return self.complain("26000") };
        let parameter = value_of(body, &bind);
        self.portals.insert(bind.portal.to_vec(), (prepared, parameter));
        self.say(|out| backend::write_empty(out, b'2'));
    }

    /// The names of its statements.
    pub(super) fn names(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.statements.keys().filter(|name| !name.is_empty())
    }

    pub(super) fn close(&mut self, body: &[u8]) {
        if self.skips {
            return;
        }
        if let Ok(frontend::Target::Statement(name)) = frontend::target(b'C', body) {
            self.statements.remove(name);
        }
        self.say(|out| backend::write_empty(out, b'3'));
    }

    /// An error has been met, in its session and in what its client's is to be.
    pub(super) fn fail(&mut self) {
        self.session.fail();
        if let Some((_, _, theirs)) = &mut self.unit {
            theirs.fail();
        }
    }

    pub(super) fn complain(&mut self, code: &'static str) {
        // Statements that neighbours have prepared may not be there in the end; then what relies on them is asked again.
        assert!(!self.session.explicit, "{code} within a transaction");
        self.fail();
        self.refuse(code);
    }
}

/// The name of the unit that a message is signed with; a statement that is prepared once has it in its parameter.
fn owner_of(tag: u8, body: &[u8]) -> Option<String> {
    let sql = match tag {
        b'Q' => frontend::query(body).ok()?,
        b'P' => frontend::parse(body).ok()?.query,
        b'B' => return value_of(body, &frontend::bind(body)?),
        _ => return None,
    };
    read(std::str::from_utf8(sql).ok()?).1
}

/// The one parameter that a Bind may have, of which the length comes first.
pub(super) fn value_of(body: &[u8], bind: &frontend::Bind<'_>) -> Option<String> {
    let rest = body.get(bind.portal.len() + bind.statement.len() + 2..)?;
    (rest[3] == 1).then(|| {
        let length = usize::from(rest[7]);
        String::from_utf8(rest[8..8 + length].to_vec()).unwrap()
    })
}
