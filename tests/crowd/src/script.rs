//! What a client does: who it is, and its episodes, each some units that belong together.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::dice::Dice;
use crate::ledger::Key;
use crate::options::Options;
use crate::session::Session;
use crate::settings::{DEFAULT_PATH, Setting, Text, USERS};
use crate::statement::{self as statements, Effect, Statement};
use crate::unit::Unit;

/// How many named statements a client has at most.
const NAMES: u8 = 8;

/// Who a client is, and what it does beside the usual.
#[derive(Debug, Clone, Default)]
pub struct Persona {
    /// Its user.
    pub user: &'static str,
    /// What it asks for at startup.
    pub startup: Vec<(Setting, Text)>,
    /// It changes its settings.
    pub sets: bool,
    /// It takes on roles.
    pub roles: bool,
    /// It sends cancel requests.
    pub cancels: bool,
    /// It sets a statement_timeout of 1 ms.
    pub timeouts: bool,
    /// It leaves things in its session that pin its connection.
    pub pins: bool,
    /// It moves data by COPY.
    pub copies: bool,
    /// It asks for long results and is slow to read them.
    pub slow: bool,
    /// The role that it takes on, which may be dropped.
    pub doomed: Option<String>,
    /// After so many units it leaves.
    pub units: usize,
}

impl Persona {
    /// Somebody, as the dice fall.
    pub fn new(dice: &mut Dice, options: &Options, client: u32, doomed: Option<String>) -> Self {
        let mut having = |what: &str, permille: usize| dice.permille(permille) && options.with(what);
        let mut persona = Self {
            user: USERS[0],
            sets: having("sets", 450),
            roles: having("roles", 250),
            cancels: having("cancels", 150),
            timeouts: having("timeouts", 60),
            pins: having("pins", 40),
            copies: having("copies", 150),
            slow: having("slow", 30),
            ..Self::default()
        };
        if having("authorizations", 100) {
            persona.user = USERS[1];
        }
        if having("doomed", 20) && persona.user == USERS[0] {
            persona.doomed = doomed;
        }
        let mut chance = having("startup", 600);
        if having("readonly", 20) {
            persona.startup.push((Setting::ReadOnly, "on".into()));
        }
        while chance {
            let setting = *dice.pick(&STARTUP);
            let value = value_of(dice, setting, client, 0);
            if persona.startup.iter().all(|(other, _)| *other != setting) {
                persona.startup.push((setting, value));
            }
            chance = dice.permille(500);
        }
        persona.units = 1 + if dice.permille(200) { dice.below(20) } else { dice.below(800) };
        persona
    }

    /// Whether a unit of its may be struck at any time.
    pub fn is_calm(&self) -> bool {
        !self.cancels && !self.timeouts && self.doomed.is_none()
    }
}

/// What may be asked for at startup.
const STARTUP: [Setting; 8] = [
    Setting::SearchPath,
    Setting::SearchPath,
    Setting::TimeZone,
    Setting::DateStyle,
    Setting::Application,
    Setting::WorkMem,
    Setting::IntervalStyle,
    Setting::Tag,
];

/// What clients change.
const CHANGED: [Setting; 13] = [
    Setting::SearchPath,
    Setting::SearchPath,
    Setting::SearchPath,
    Setting::TimeZone,
    Setting::DateStyle,
    Setting::IntervalStyle,
    Setting::Encoding,
    Setting::Conforming,
    Setting::Application,
    Setting::WorkMem,
    Setting::Bytea,
    Setting::Tag,
    Setting::Tag,
];

fn value_of(dice: &mut Dice, setting: Setting, client: u32, n: u32) -> Text {
    match setting.choices() {
        [] => format!("of {client}-{n}").into(),
        choices => (*dice.pick(choices)).into(),
    }
}

/// What writes the episodes of one client.
#[derive(Debug)]
pub struct Script<'a> {
    /// Its dice.
    pub dice: &'a mut Dice,
    /// What is left out.
    pub options: &'a Options,
    /// Who it is.
    pub persona: &'a Persona,
    /// Its session, in which nothing is under way.
    pub session: &'a Session,
    /// Its number.
    pub client: u32,
    /// The number of its last tag.
    pub n: &'a mut u32,
    /// The names that its statements will have, and their texts.
    names: Vec<(u8, Text)>,
    /// The key of its last row.
    pub last_key: &'a mut Option<Key>,
    units: VecDeque<Unit>,
}

impl<'a> Script<'a> {
    /// A script for a client whose session is so.
    pub fn new(
        dice: &'a mut Dice,
        options: &'a Options,
        persona: &'a Persona,
        session: &'a Session,
        client: u32,
        n: &'a mut u32,
        last_key: &'a mut Option<Key>,
    ) -> Self {
        let names = session.named.iter().map(|prepared| (prepared.name, prepared.sql.clone())).collect();
        Self { dice, options, persona, session, client, n, names, last_key, units: VecDeque::new() }
    }

    /// One episode.
    pub fn episode(mut self) -> VecDeque<Unit> {
        if self.session.status() != b'I' {
            let (sql, effect) =
                if self.dice.permille(700) { ("ROLLBACK", Effect::Rollback) } else { ("COMMIT", Effect::Commit) };
            self.form(statements::command(sql, if sql == "COMMIT" { "COMMIT" } else { "ROLLBACK" }, effect));
            return self.units;
        }
        let persona = self.persona;
        if let Some(role) = &persona.doomed
            && self.dice.permille(300)
        {
            self.doomed(role);
            return self.units;
        }
        let having = |yes: bool, weight: usize| if yes { weight } else { 0 };
        let kind = self.dice.weighted(&[
            (500, 0),
            (180, 1),
            (60, 2),
            (80, 3),
            (having(persona.sets, 90), 4),
            (having(persona.sets && self.options.with("failures"), 60), 5),
            (having(persona.roles, 70), 6),
            (having(persona.timeouts, 40), 7),
            (having(persona.pins, 30), 8),
            (having(persona.copies, 30), 9),
            (having(self.options.with("names"), 15), 10),
            (having(persona.user == USERS[1], 40), 11),
            (having(persona.sets && self.options.with("vague"), 15), 12),
            (having(persona.sets, 4), 13),
            (having(self.options.with("shifts"), 10), 14),
            (having(persona.cancels, 5), 15),
        ]);
        match kind {
            0 => self.reads(),
            1 => self.writes(),
            2 => self.together(),
            3 => self.transaction(),
            4 => self.sets(),
            5 => self.undone(),
            6 => self.roles(),
            7 => self.timeouts(),
            8 => self.pins(),
            9 => self.copies(),
            10 => self.misnamed(),
            11 => self.authorization(),
            12 => self.vague(),
            13 => self.discard(),
            15 => self.endless(),
            _ => self.shifting(),
        }
        self.units
    }

    fn tag(&mut self) -> Text {
        *self.n += 1;
        format!("{}-{}", self.client, self.n).into()
    }

    fn key(&mut self) -> Key {
        *self.n += 1;
        let key = Key::new(self.client, *self.n);
        *self.last_key = Some(key);
        key
    }

    // Statements

    #[expect(clippy::too_many_lines, reason = "one arm a statement")]
    fn read(&mut self) -> Statement {
        let tag = self.tag();
        let parsing = if self.options.with("parsing") { 25 } else { 0 };
        let slow = if self.persona.slow { 15 } else { 1 };
        match self.dice.weighted(&[
            (150, 0),
            (200, 1),
            (60, 2),
            (60, 3),
            (70, 4),
            (70, 5),
            (40, 6),
            (30, 7),
            (30, 8),
            (parsing, 9),
            (parsing, 10),
            (parsing / 2, 11),
            (parsing / 2, 12),
            (10, 13),
            (10, 14),
            (10, 15),
            (15, 16),
            (20, 17),
            (12, 18),
            (4, 19),
            (slow, 20),
            (slow, 21),
            (12, 22),
            (40, 23),
            (5, 24),
            (5, 25),
        ]) {
            0 => statements::tag_row(&tag),
            1 => statements::item(&tag, self.dice.between(1, 100)),
            2 => statements::series(&tag, self.dice.between(0, 12)),
            3 => statements::here(&tag),
            4 => statements::seen(&tag),
            5 => statements::who(&tag),
            6 => statements::shown(&tag),
            7 => statements::mine(&tag),
            8 => statements::secret(&tag),
            9 => statements::date_read(&tag),
            10 => statements::moment_read(&tag),
            11 => statements::octets(&tag),
            12 => statements::slashes(&tag),
            13 => statements::cast(&tag),
            14 => statements::zero(&tag),
            15 => statements::late(&tag),
            16 => statements::boom(&tag),
            17 => statements::note(&tag),
            18 => statements::nowhere(&tag),
            19 => statements::nonsense(&tag),
            20 => statements::long(&tag, if self.persona.slow { self.dice.between(100, 4000) } else { 200 }),
            21 => statements::big(&tag, self.dice.between(10_000, 100_000)),
            22 => {
                let nap = *self.dice.pick(&[1, 1, 5, 20, 60]);
                statements::nap(&tag, nap)
            }
            23 => self.look(),
            25 => statements::empty(),
            _ => statements::read_only(&tag),
        }
    }

    fn write(&mut self) -> Statement {
        let key = self.key();
        match self.dice.below(20) {
            0..9 => statements::insert(key),
            9..14 => statements::insert_returning(key),
            14..18 => statements::put(key),
            _ => statements::insert_bad(key),
        }
    }

    fn look(&mut self) -> Statement {
        let tag = self.tag();
        match *self.last_key {
            Some(key) => statements::look(&tag, key),
            None => statements::tag_row(&tag),
        }
    }

    fn change(&mut self) -> Statement {
        let setting = *self.dice.pick(&CHANGED);
        if self.dice.permille(20) {
            return statements::command("RESET ALL", "RESET", Effect::ResetAll);
        }
        if self.dice.permille(250) {
            return statements::reset(setting);
        }
        *self.n += 1;
        let value = value_of(self.dice, setting, self.client, *self.n);
        statements::set(setting, &value, self.dice.below(6))
    }

    // Forms

    /// A statement as one unit or two, in some form.
    fn form(&mut self, statement: Statement) {
        let reusable = !statement.arguments.is_empty() && statement.refused.is_none();
        let named = if reusable { 300 } else { 20 };
        let split = if self.persona.is_calm() && reusable { 40 } else { 0 };
        let suspended = if statement.label == "series" { 300 } else { 0 };
        match self.dice.weighted(&[
            (300, 0),
            (250, 1),
            (100, 2),
            (named, 3),
            (split, 4),
            (30, 5),
            (30, 6),
            (suspended, 7),
        ]) {
            0 => self.units.push_back(Unit::simple(vec![statement])),
            1 => self.extended(statement, |_, _, _| ()),
            2 => self.extended(statement, |unit, _, _| {
                unit.describe_portal(0);
            }),
            3 => self.named(statement),
            4 => self.split(statement),
            5 => self.extended(statement, |unit, _, _| {
                unit.flush(None);
            }),
            6 => self.waiting(statement),
            _ => self.suspended(statement),
        }
    }

    fn extended(&mut self, statement: Statement, between: impl FnOnce(&mut Unit, u8, &Rc<Statement>)) {
        let statement = Rc::new(statement);
        let mut unit = Unit::default();
        unit.parse(0, &statement).bind(0, 0, &statement);
        between(&mut unit, 0, &statement);
        unit.execute(0, 0);
        self.units.push_back(unit.sync());
    }

    /// A name for a text: one that it has, or a new one.
    fn name(&mut self, sql: &Text) -> Option<(u8, bool)> {
        // A name that is being closed has no text.
        if sql.is_empty() {
            return None;
        }
        if let Some((name, _)) = self.names.iter().find(|(_, text)| text == sql) {
            return Some((*name, true));
        }
        let free = (1..=NAMES).find(|name| self.names.iter().all(|(used, _)| used != name))?;
        self.names.push((free, sql.clone()));
        Some((free, false))
    }

    fn named(&mut self, statement: Statement) {
        let Some((name, there)) = self.name(&statement.sql) else {
            return self.extended(statement, |_, _, _| ());
        };
        let statement = Rc::new(statement);
        let mut unit = Unit::default();
        if !there {
            unit.parse(name, &statement);
            if self.dice.permille(300) {
                unit.describe_statement(name, &statement);
                if self.dice.permille(500) {
                    self.units.push_back(std::mem::take(&mut unit).sync());
                }
            }
        }
        unit.bind(0, name, &statement);
        if self.dice.permille(300) {
            unit.describe_portal(0);
        }
        unit.execute(0, 0);
        self.units.push_back(unit.sync());
        if self.dice.permille(60) {
            let mut unit = Unit::default();
            unit.close_statement(name);
            self.units.push_back(unit.sync());
            // Its name is not used again before that is answered.
            self.names.retain(|(used, _)| *used != name);
            self.names.push((name, "".into()));
        }
    }

    fn split(&mut self, statement: Statement) {
        let statement = Rc::new(statement);
        let mut unit = Unit::default();
        unit.parse(0, &statement);
        self.units.push_back(unit.sync());
        let mut unit = Unit::default();
        unit.bind(0, 0, &statement).execute(0, 0);
        self.units.push_back(unit.sync());
    }

    /// What comes behind a Flush waits for what comes before it.
    fn waiting(&mut self, statement: Statement) {
        let statement = Rc::new(statement);
        let described = if statement.columns.is_empty() { b'n' } else { b'T' };
        let mut unit = Unit::default();
        unit.parse(0, &statement).describe_statement(0, &statement).flush(Some(described));
        unit.bind(0, 0, &statement).execute(0, 0);
        self.units.push_back(unit.sync());
    }

    /// A portal with a name that is executed several times.
    fn suspended(&mut self, statement: Statement) {
        let statement = Rc::new(statement);
        let mut unit = Unit::default();
        let most = self.dice.between(1, 7);
        unit.parse(0, &statement).bind(1, 0, &statement);
        for _ in 0..self.dice.between(1, 3) {
            unit.execute(1, most);
            if self.dice.permille(300) {
                unit.flush(None);
            }
        }
        unit.close_portal(1);
        self.units.push_back(unit.sync());
    }

    // Episodes

    fn reads(&mut self) {
        for _ in 0..*self.dice.pick(&[1, 1, 1, 2, 3, 6]) {
            let statement = self.read();
            self.form(statement);
        }
    }

    fn writes(&mut self) {
        for _ in 0..*self.dice.pick(&[1, 1, 2, 3]) {
            let statement = self.write();
            self.form(statement);
            if self.dice.permille(400) {
                let statement = self.look();
                self.form(statement);
            }
        }
    }

    /// Several statements in one unit, the last of which may fail and take the others with it.
    fn together(&mut self) {
        let simple = self.dice.permille(400);
        let mut statements = Vec::new();
        for _ in 0..self.dice.between(2, 4) {
            let statement = if self.dice.permille(500) { self.write() } else { self.read() };
            // Text that is read before its time, and rows that would make the unit long.
            if !["nonsense", "empty", "slashes", "octets", "long", "big"].contains(&statement.label) {
                statements.push(statement);
            }
        }
        if self.dice.permille(100) {
            let key = self.key();
            statements.push(statements::violate(key));
        }
        if simple {
            if !statements.is_empty() {
                self.units.push_back(Unit::simple(statements));
            }
            return;
        }
        let mut unit = Unit::default();
        for statement in statements {
            self.add(&mut unit, statement);
        }
        self.units.push_back(unit.sync());
    }

    /// Appends a statement to a unit.
    fn add(&mut self, unit: &mut Unit, statement: Statement) {
        let statement = Rc::new(statement);
        unit.parse(0, &statement).bind(0, 0, &statement);
        if self.dice.permille(100) {
            unit.describe_portal(0);
        }
        unit.execute(0, 0);
        if self.dice.permille(50) {
            unit.flush(None);
        }
    }

    fn transaction(&mut self) {
        self.begin();
        let cursor = self.dice.permille(150);
        if cursor {
            self.form(statements::declare(self.client, false));
        }
        let mut points = 0;
        for _ in 0..self.dice.between(1, 4) {
            match self.dice.below(12) {
                0..4 => {
                    let statement = self.write();
                    self.form(statement);
                }
                4..7 => {
                    let statement = self.read();
                    self.form(statement);
                }
                7 if self.persona.sets => self.changes_in_transaction(),
                8 => {
                    points += 1;
                    self.form(statements::savepoint(Effect::Savepoint(points)));
                    let statement = self.write();
                    self.form(statement);
                }
                9 if points > 0 => {
                    let name = self.dice.between(1, points.into()) as u8;
                    let effect = if self.dice.permille(700) { Effect::RollbackTo(name) } else { Effect::Release(name) };
                    self.form(statements::savepoint(effect));
                    let statement = self.look();
                    self.form(statement);
                }
                10 if cursor => {
                    let count = self.dice.between(1, 4);
                    self.form(statements::fetch(self.client, count));
                }
                11 if self.dice.permille(200) => {
                    let key = self.key();
                    self.form(statements::violate(key));
                }
                _ => {
                    let statement = self.look();
                    self.form(statement);
                }
            }
        }
        self.end_transaction();
    }

    fn begin(&mut self) {
        let (sql, read_only) = match self.dice.below(12) {
            0 => ("BEGIN READ ONLY", true),
            1 => ("BEGIN ISOLATION LEVEL REPEATABLE READ", false),
            2 => ("START TRANSACTION", false),
            _ => ("BEGIN", false),
        };
        let tag = if sql.starts_with("START") { "START TRANSACTION" } else { "BEGIN" };
        self.form(statements::command(sql, tag, Effect::Begin { read_only }));
    }

    fn end_transaction(&mut self) {
        match self.dice.below(20) {
            // It stays open until the next episode, or until its client has left.
            0 => (),
            1..4 => self.form(statements::command("ROLLBACK", "ROLLBACK", Effect::Rollback)),
            _ => self.form(statements::command("COMMIT", "COMMIT", Effect::Commit)),
        }
        if self.persona.sets && self.dice.permille(300) {
            let tag = self.tag();
            self.form(statements::seen(&tag));
        }
    }

    fn changes_in_transaction(&mut self) {
        let setting = *self.dice.pick(&[Setting::Tag, Setting::WorkMem, Setting::SearchPath, Setting::TimeZone]);
        let value = value_of(self.dice, setting, self.client, *self.n);
        let statement = match self.dice.below(3) {
            0 => statements::set_local(setting, &value),
            1 => statements::set_config(setting, &value, true),
            _ => self.change(),
        };
        self.form(statement);
        let tag = self.tag();
        self.form(statements::seen(&tag));
    }

    fn sets(&mut self) {
        for _ in 0..self.dice.between(1, 3) {
            let statement = self.change();
            self.form(statement);
            if self.dice.permille(400) {
                let statement = self.read();
                self.form(statement);
            }
        }
        let tag = self.tag();
        self.form(statements::seen(&tag));
    }

    /// Changes that an error in their unit, or at its end, takes back.
    fn undone(&mut self) {
        let change = if self.persona.roles && self.dice.permille(400) {
            if self.dice.permille(500) {
                statements::reset(Setting::Role)
            } else {
                let role = *self.dice.pick(Setting::Role.choices());
                statements::set(Setting::Role, role, 0)
            }
        } else {
            self.change()
        };
        let tag = self.tag();
        let bad = match self.dice.below(4) {
            0 => statements::cast(&tag),
            1 => statements::zero(&tag),
            2 => statements::nowhere(&tag),
            _ => {
                let key = self.key();
                statements::violate(key)
            }
        };
        match self.dice.below(4) {
            0 => self.units.push_back(Unit::simple(vec![change, bad])),
            1 => {
                self.begin();
                self.form(change);
                self.form(bad);
                self.form(statements::command("COMMIT", "COMMIT", Effect::Commit));
            }
            _ => {
                let mut unit = Unit::default();
                self.add(&mut unit, change);
                self.add(&mut unit, bad);
                self.units.push_back(unit.sync());
            }
        }
        for _ in 0..self.dice.between(1, 3) {
            let tag = self.tag();
            let statement = if self.dice.permille(500) { statements::seen(&tag) } else { statements::who(&tag) };
            self.form(statement);
        }
    }

    fn roles(&mut self) {
        let role = *self.dice.pick(Setting::Role.choices());
        self.form(statements::set(Setting::Role, role, 0));
        for _ in 0..self.dice.between(1, 4) {
            let tag = self.tag();
            let statement = match self.dice.below(6) {
                0 => statements::who(&tag),
                1 => statements::secret(&tag),
                2 => statements::mine(&tag),
                3 => self.write(),
                4 => statements::here(&tag),
                _ => self.read(),
            };
            self.form(statement);
        }
        if self.dice.permille(600) {
            let statement = if self.dice.permille(500) {
                statements::reset(Setting::Role)
            } else {
                statements::set(Setting::Role, "none", 0)
            };
            self.form(statement);
        }
    }

    fn authorization(&mut self) {
        self.form(statements::set(Setting::Authorization, USERS[0], 0));
        for _ in 0..self.dice.between(1, 3) {
            let statement = if self.dice.permille(400) {
                let tag = self.tag();
                statements::who(&tag)
            } else if self.dice.permille(300) {
                let role = *self.dice.pick(Setting::Role.choices());
                statements::set(Setting::Role, role, 0)
            } else {
                self.read()
            };
            self.form(statement);
        }
        self.form(statements::reset(Setting::Authorization));
        let tag = self.tag();
        self.form(statements::who(&tag));
    }

    fn timeouts(&mut self) {
        self.form(statements::set(Setting::Timeout, "1ms", 0));
        for _ in 0..self.dice.between(1, 5) {
            let statement = if self.dice.permille(400) { self.write() } else { self.read() };
            self.form(statement);
        }
        if self.dice.permille(300) {
            self.transaction();
        }
        self.form(statements::reset(Setting::Timeout));
    }

    /// What stays in a session and pins its connection: until DISCARD ALL, or until its client leaves.
    fn pins(&mut self) {
        let client = self.client;
        let mut what = vec![0, 1, 2, 3];
        for _ in 0..self.dice.between(1, 2) {
            let which = what.swap_remove(self.dice.below(what.len()));
            match which {
                0 => self.temporary(),
                1 => {
                    self.form(statements::lock(client));
                    let statement = self.read();
                    self.form(statement);
                    if self.dice.permille(500) {
                        self.form(statements::unlock(client));
                    }
                }
                2 => {
                    self.form(statements::listen(client, true));
                    for _ in 0..self.dice.between(1, 3) {
                        let tag = self.tag();
                        self.form(statements::notify(client, &tag));
                    }
                    if self.dice.permille(500) {
                        self.form(statements::listen(client, false));
                    }
                }
                _ => {
                    self.form(statements::declare(client, true));
                    for _ in 0..self.dice.between(1, 3) {
                        let count = self.dice.between(1, 3);
                        self.form(statements::fetch(client, count));
                    }
                    self.form(statements::command("CLOSE c", "CLOSE CURSOR", Effect::CloseCursor));
                }
            }
        }
        self.discard();
    }

    fn temporary(&mut self) {
        self.form(statements::temp(true));
        for _ in 0..self.dice.between(1, 3) {
            let tag = self.tag();
            self.form(statements::temp_add(&tag));
            self.form(statements::temp_rows());
        }
        if self.dice.permille(500) {
            self.form(statements::temp(false));
        }
    }

    fn discard(&mut self) {
        let statement = statements::command("DISCARD ALL", "DISCARD ALL", Effect::DiscardAll);
        match self.dice.below(3) {
            0 => self.units.push_back(Unit::simple(vec![statement])),
            1 => self.extended(statement, |_, _, _| ()),
            _ => self.discard_and_name(&Rc::new(statement)),
        }
        // No name is used before it is known that they are gone.
        self.names = (1..=NAMES).map(|name| (name, "".into())).collect();
        let tag = self.tag();
        self.form(statements::seen(&tag));
    }

    /// A name that is given behind a DISCARD ALL in its unit: one that is never another statement's.
    fn discard_and_name(&mut self, discard: &Rc<Statement>) {
        let name = NAMES + 1;
        let statement = Rc::new(statements::tag_row(&self.tag()));
        let mut unit = Unit::default();
        unit.parse(0, discard).bind(0, 0, discard).execute(0, 0);
        unit.parse(name, &statement).bind(0, name, &statement).execute(0, 0);
        self.units.push_back(unit.sync());
        let statement = Rc::new(statements::tag_row(&self.tag()));
        let mut unit = Unit::default();
        unit.bind(0, name, &statement).execute(0, 0);
        self.units.push_back(unit.sync());
    }

    fn copies(&mut self) {
        let tag = self.tag();
        if self.dice.permille(400) {
            let rows = self.dice.between(0, 50);
            let statement = statements::copy_out(&tag, rows);
            if self.dice.permille(500) {
                self.units.push_back(Unit::simple(vec![statement]));
            } else {
                self.extended(statement, |_, _, _| ());
            }
            return;
        }
        let keys = (0..self.dice.between(1, 3)).map(|_| self.key()).collect();
        let (bad, fails) = (self.dice.permille(200), self.dice.permille(200));
        let statement = statements::copy_in(keys, bad, fails);
        if self.dice.permille(500) {
            self.units.push_back(Unit::simple(vec![statement]));
        } else {
            let statement = Rc::new(statement);
            let mut unit = Unit::default();
            unit.parse(0, &statement).bind(0, 0, &statement).execute(0, 0);
            let wait = self.dice.permille(500);
            unit.copy(&statement, wait);
            self.units.push_back(unit.sync());
        }
        let statement = self.look();
        self.form(statement);
    }

    /// Names that are not there, or there already.
    fn misnamed(&mut self) {
        let tag = self.tag();
        let statement = Rc::new(statements::tag_row(&tag));
        let mut unit = Unit::default();
        let there = self.names.iter().find(|(_, text)| !text.is_empty()).map(|(name, _)| *name);
        if let Some(name) = there.filter(|_| self.dice.permille(500)) {
            unit.parse(name, &statement);
            self.units.push_back(unit.sync());
            return;
        }
        if self.dice.permille(300) {
            unit.parse(0, &statement).bind(0, 0, &statement).execute(7, 0);
        } else if self.dice.permille(300) {
            unit.describe_statement(99, &statement);
        } else {
            unit.bind(0, 99, &statement).execute(0, 0);
        }
        self.units.push_back(unit.sync());
    }

    /// Changes that a pooler does not promise to carry on: they are put right in the same breath.
    fn vague(&mut self) {
        let setting = *self.dice.pick(&CHANGED);
        *self.n += 1;
        let value = value_of(self.dice, setting, self.client, *self.n);
        let tag = self.tag();
        match self.dice.below(3) {
            0 => self.form(statements::set_config(setting, &value, false)),
            _ => {
                let set = statements::set(setting, &value, 0).blurred();
                self.units.push_back(Unit::simple(vec![set, statements::tag_row(&tag)]));
            }
        }
        let statement = self.read();
        self.form(statement);
        let value = if setting == Setting::SearchPath { DEFAULT_PATH.into() } else { value };
        self.form(statements::set(setting, &value, 0));
    }

    /// A function that may be another by now than it was known to be.
    fn shifting(&mut self) {
        for _ in 0..self.dice.between(1, 3) {
            let key = self.key();
            self.form(statements::shifty(key));
        }
    }

    /// A role that may be dropped at any time.
    fn doomed(&mut self, role: &str) {
        self.form(statements::set(Setting::Role, role, 0));
        for _ in 0..self.dice.between(2, 12) {
            let statement = if self.dice.permille(300) { self.write() } else { self.read() };
            self.form(statement);
        }
        if self.dice.permille(300) {
            self.form(statements::reset(Setting::Role));
        }
    }

    /// What would take a minute, if its client did not cancel it.
    fn endless(&mut self) {
        let tag = self.tag();
        let mut unit = Unit::simple(vec![statements::nap(&tag, 60_000)]);
        unit.endless = true;
        self.units.push_back(unit);
    }
}
