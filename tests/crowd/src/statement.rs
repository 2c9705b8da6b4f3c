//! The statements of the crowd: each is its text, what it must answer in the session that its client's model keeps, and
//! what it leaves there. Everything that it answers carries a tag of its own wherever that can be.

use std::borrow::Cow;

use crate::ledger::{Key, Ledger, Told};
use crate::session::{Reading, Session};
use crate::settings::{ROLES, Setting, Text, USERS, Value};
use crate::world::World;

/// An error of PostgreSQL: its SQLSTATE and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// The SQLSTATE.
    pub code: &'static str,
    /// The message.
    pub message: Cow<'static, str>,
}

impl SqlError {
    /// An error.
    pub fn new(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }
}

/// One value of a row, as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// This.
    Is(Text),
    /// One of these: what happened to the session was not told.
    In(Vec<Text>),
    /// Whatever: what it must be is not known.
    Any,
}

impl Cell {
    fn of(text: impl Into<Text>) -> Self {
        Self::Is(text.into())
    }

    fn one_of(values: impl Iterator<Item = Text>) -> Self {
        let mut values: Vec<Text> = values.collect();
        values.sort_unstable();
        values.dedup();
        match values.as_slice() {
            [one] => Self::Is(one.clone()),
            _ => Self::In(values),
        }
    }

    /// Whether a value is as it must be.
    pub fn fits(&self, value: Option<&[u8]>) -> bool {
        match self {
            Self::Is(text) => value == Some(text.as_bytes()),
            Self::In(texts) => texts.iter().any(|text| value == Some(text.as_bytes())),
            Self::Any => true,
        }
    }
}

impl From<&Value> for Cell {
    fn from(value: &Value) -> Self {
        Self::one_of(value.all().cloned())
    }
}

/// The rows that a statement must answer.
#[derive(Debug, Clone)]
pub enum Rows {
    /// None, and no columns.
    Nothing,
    /// These.
    These(Vec<Vec<Cell>>),
    /// One value, so many times.
    Same(Text, usize),
    /// A tag and a number, from one to this.
    Numbered(Text, usize),
    /// Whatever: what they must be is not known.
    Unknown,
}

impl Rows {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Nothing | Self::Unknown => 0,
            Self::These(rows) => rows.len(),
            Self::Same(_, count) | Self::Numbered(_, count) => *count,
        }
    }

    /// Whether the row at a place is as it must be.
    pub fn fits(&self, at: usize, row: &[Option<&[u8]>]) -> bool {
        match (self, row) {
            (Self::Nothing, _) => false,
            (Self::Unknown, _) => true,
            (Self::These(rows), _) => rows.get(at).is_some_and(|wanted| {
                wanted.len() == row.len() && wanted.iter().zip(row).all(|(cell, value)| cell.fits(*value))
            }),
            (Self::Same(text, count), [value]) => at < *count && *value == Some(text.as_bytes()),
            (Self::Numbered(text, count), [value]) => {
                let number = (at + 1).to_string();
                at < *count
                    && value.is_some_and(|value| {
                        value.strip_prefix(text.as_bytes()).and_then(|rest| rest.strip_prefix(b" "))
                            == Some(number.as_bytes())
                    })
            }
            _ => false,
        }
    }
}

/// What a statement must answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its rows, or those before its error.
    pub rows: Rows,
    /// The error that it ends with.
    pub error: Option<SqlError>,
    /// An error that it may end with: what decides it is not known.
    pub perhaps: Option<SqlError>,
    /// The messages of its notices.
    pub notices: Vec<Text>,
}

impl Answer {
    /// Rows and nothing else.
    pub fn rows(rows: Rows) -> Self {
        Self { rows, error: None, perhaps: None, notices: Vec::new() }
    }

    fn row(cells: Vec<Cell>) -> Self {
        Self::rows(Rows::These(vec![cells]))
    }

    fn error(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { error: Some(SqlError::new(code, message)), ..Self::rows(Rows::Nothing) }
    }
}

/// What a statement leaves in its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    None,
    Set(Setting, Text),
    SetLocal(Setting, Text),
    Reset(Setting),
    ResetAll,
    DiscardAll,
    Write(Vec<Key>),
    /// A row of `public`, if its answer says that it was written.
    Shift(Key),
    /// Rows that break a deferred constraint.
    Violate,
    Begin {
        read_only: bool,
    },
    Commit,
    Rollback,
    Savepoint(u8),
    RollbackTo(u8),
    Release(u8),
    Declare {
        hold: bool,
    },
    Fetch(usize),
    CloseCursor,
    Temp,
    TempAdd(Text),
    TempDrop,
    Lock,
    Unlock,
    Listen(bool),
    Notify(Text),
}

/// The type of a column: its OID and the length of its values.
pub type Type = (u32, i16);
/// `text`.
pub const TEXT: Type = (25, -1);
/// `integer`.
pub const INT4: Type = (23, 4);
/// `bigint`.
pub const INT8: Type = (20, 8);
const TIMESTAMPTZ: Type = (1184, 8);
const DATE: Type = (1082, 4);
const INTERVAL: Type = (1186, 16);
const BYTEA: Type = (17, -1);
const BOOL: Type = (16, 1);
const VOID: Type = (2278, 4);

/// A column as its RowDescription must tell it.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// The table of the tenant, or of `tools`, that it is of, and its number there.
    pub source: Option<(&'static str, i16)>,
}

const fn column(name: &'static str, kind: Type) -> Column {
    Column { name, kind, source: None }
}

const fn of_table(name: &'static str, kind: Type, table: &'static str, number: i16) -> Column {
    Column { name, kind, source: Some((table, number)) }
}

/// What a statement is held against.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The session before it.
    pub session: &'a Session,
    /// The rows of its client.
    pub ledger: &'a Ledger,
    /// What all share.
    pub world: &'a World,
    /// How its literals may have been read.
    pub reading: &'a Reading,
}

type Expect = Box<dyn Fn(&Scene<'_>) -> Answer>;

/// How a statement moves data by COPY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copying {
    /// It does not.
    No,
    /// To the client.
    Out,
    /// From the client: what it sends, and how that ends.
    In {
        /// The data.
        data: Text,
        /// It ends with CopyFail.
        fails: bool,
    },
}

/// A statement.
pub struct Statement {
    /// What it is, for counts.
    pub label: &'static str,
    /// Its text, with `$1`, `$2` for its parameters.
    pub sql: Text,
    /// Their values.
    pub arguments: Vec<String>,
    /// Their types.
    pub types: &'static [u32],
    /// Its columns; none for a statement without rows.
    pub columns: &'static [Column],
    /// What it must answer.
    expect: Expect,
    /// The error of its analysis.
    pub refused: Option<SqlError>,
    /// What it leaves.
    pub effect: Effect,
    /// Its command tag; `*` stands for the number of rows.
    pub tag: &'static str,
    /// How it moves data.
    pub copying: Copying,
    /// What it sets is not promised to last beyond its transaction through a pooler.
    pub vague: bool,
}

impl std::fmt::Debug for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} {:?}", self.label, self.sql, self.arguments)
    }
}

impl Statement {
    fn new(label: &'static str, sql: impl Into<Text>, tag: &'static str, effect: Effect) -> Self {
        Self {
            label,
            sql: sql.into(),
            arguments: Vec::new(),
            types: &[],
            columns: &[],
            expect: Box::new(|_| Answer::rows(Rows::Nothing)),
            refused: None,
            effect,
            tag,
            copying: Copying::No,
            vague: false,
        }
    }

    fn select(
        label: &'static str,
        sql: &'static str,
        columns: &'static [Column],
        expect: impl Fn(&Scene<'_>) -> Answer + 'static,
    ) -> Self {
        Self { columns, expect: Box::new(expect), ..Self::new(label, sql, "SELECT *", Effect::None) }
    }

    fn with(mut self, types: &'static [u32], arguments: Vec<String>) -> Self {
        (self.types, self.arguments) = (types, arguments);
        self
    }

    /// What it must answer.
    pub fn expect(&self, scene: &Scene<'_>) -> Answer {
        let mut answer = (self.expect)(scene);
        if let Some(error) = scene.session.refuses(&self.effect) {
            (answer.rows, answer.error) = (Rows::Nothing, Some(error));
        }
        if matches!(self.effect, Effect::Shift(_)) && scene.session.read_only() != Some(false) {
            answer.perhaps = Some(SqlError::new("25006", "cannot execute INSERT in a read-only transaction"));
        }
        let writes = match self.effect {
            Effect::Write(_) | Effect::Violate if self.copying == Copying::No => Some("INSERT"),
            Effect::Write(_) | Effect::Violate => Some("COPY FROM"),
            // A temporary table may be written to, but neither made nor dropped.
            Effect::Temp => Some("CREATE TABLE"),
            Effect::TempDrop => Some("DROP TABLE"),
            _ => None,
        };
        if let Some(verb) = writes {
            let error = SqlError::new("25006", format!("cannot execute {verb} in a read-only transaction"));
            match scene.session.read_only() {
                Some(true) => (answer.rows, answer.error) = (Rows::Nothing, Some(error)),
                None => answer.perhaps = Some(error),
                Some(false) => (),
            }
        }
        // A function does not warn.
        if self.columns.is_empty() {
            answer.notices.extend(scene.session.warns(&self.effect).map(Text::from));
        }
        answer
    }

    /// The same, where a pooler does not promise to carry on what it sets.
    pub fn blurred(mut self) -> Self {
        self.vague = true;
        self
    }

    /// Whether it runs in a transaction that has failed.
    pub fn is_exit(&self) -> bool {
        matches!(self.effect, Effect::Commit | Effect::Rollback | Effect::RollbackTo(_))
    }

    /// Its command tag after so many rows.
    pub fn tag(&self, session: &Session, rows: usize) -> Cow<'static, str> {
        match self.effect {
            Effect::Commit if session.has_failed() => "ROLLBACK".into(),
            _ if self.tag.contains('*') => self.tag.replace('*', &rows.to_string()).into(),
            _ => self.tag.into(),
        }
    }

    /// Its text with its arguments in their places.
    pub fn plain(&self) -> String {
        let mut sql = self.sql.to_string();
        for (at, value) in self.arguments.iter().enumerate() {
            sql = sql.replace(&format!("${}", at + 1), &format!("'{value}'"));
        }
        sql
    }

    /// The keys that it writes.
    pub fn keys(&self) -> &[Key] {
        match &self.effect {
            Effect::Write(keys) => keys,
            Effect::Shift(key) => std::slice::from_ref(key),
            _ => &[],
        }
    }
}

const TEXT_1: &[u32] = &[25];
const TAG: &[Column] = &[column("text", TEXT)];
const TAG_AND_ANY: &[Column] = &[column("text", TEXT), column("?column?", TEXT)];

/// Its tag alone.
pub fn tag_row(tag: &Text) -> Statement {
    let text = tag.clone();
    Statement::select("tag", "SELECT $1::text", TAG, move |_| Answer::row(vec![Cell::Is(text.clone())]))
        .with(TEXT_1, vec![tag.to_string()])
}

/// A row of the tenant's own table.
pub fn item(tag: &Text, id: usize) -> Statement {
    let text = tag.clone();
    const COLUMNS: &[Column] = &[column("text", TEXT), of_table("v", TEXT, "item", 2)];
    Statement::select("item", "SELECT $1::text, v FROM item WHERE id = $2::int", COLUMNS, move |scene| {
        let value = match scene.session.vars().tenant() {
            Some(tenant) => Cell::of(format!("{tenant} item {id}")),
            None => Cell::Any,
        };
        Answer::row(vec![Cell::Is(text.clone()), value])
    })
    .with(&[25, 23], vec![tag.to_string(), id.to_string()])
}

/// A function that each tenant has.
pub fn here(tag: &Text) -> Statement {
    let text = tag.clone();
    const COLUMNS: &[Column] = &[column("text", TEXT), column("here", TEXT)];
    Statement::select("here", "SELECT $1::text, here()", COLUMNS, move |scene| {
        let value = scene.session.vars().tenant().map_or(Cell::Any, Cell::of);
        Answer::row(vec![Cell::Is(text.clone()), value])
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// Several rows.
pub fn series(tag: &Text, rows: usize) -> Statement {
    let text = tag.clone();
    let sql = "SELECT $1::text || ' ' || g FROM generate_series(1, $2::int) g";
    const COLUMNS: &[Column] = &[column("?column?", TEXT)];
    Statement::select("series", sql, COLUMNS, move |_| Answer::rows(Rows::Numbered(text.clone(), rows)))
        .with(&[25, 23], vec![tag.to_string(), rows.to_string()])
}

/// Many rows of a kilobyte.
pub fn long(tag: &Text, rows: usize) -> Statement {
    let text: Text = format!("{tag}{}", "y".repeat(1000)).into();
    let sql = "SELECT $1::text || repeat('y', 1000) FROM generate_series(1, $2::int)";
    const COLUMNS: &[Column] = &[column("?column?", TEXT)];
    Statement::select("long", sql, COLUMNS, move |_| Answer::rows(Rows::Same(text.clone(), rows)))
        .with(&[25, 23], vec![tag.to_string(), rows.to_string()])
}

/// One row of many bytes.
pub fn big(tag: &Text, bytes: usize) -> Statement {
    let text: Text = format!("{tag}{}", "x".repeat(bytes)).into();
    const COLUMNS: &[Column] = &[column("?column?", TEXT)];
    Statement::select("big", "SELECT $1::text || repeat('x', $2::int)", COLUMNS, move |_| {
        Answer::rows(Rows::Same(text.clone(), 1))
    })
    .with(&[25, 23], vec![tag.to_string(), bytes.to_string()])
}

/// What it sees of its settings.
pub fn seen(tag: &Text) -> Statement {
    const WATCHED: [Setting; 12] = [
        Setting::SearchPath,
        Setting::Role,
        Setting::TimeZone,
        Setting::DateStyle,
        Setting::IntervalStyle,
        Setting::Encoding,
        Setting::Conforming,
        Setting::Application,
        Setting::WorkMem,
        Setting::Timeout,
        Setting::Bytea,
        Setting::Tag,
    ];
    const COLUMNS: &[Column] = &[
        column("text", TEXT),
        column("current_setting", TEXT),
        column("current_setting", TEXT),
        column("current_setting", TEXT),
        column("current_setting", TEXT),
        column("current_setting", TEXT),
        column("current_setting", TEXT),
        column("current_setting", TEXT),
        column("current_setting", TEXT),
        column("current_setting", TEXT),
        column("current_setting", TEXT),
        column("current_setting", TEXT),
        column("coalesce", TEXT),
    ];
    let sql = "SELECT $1::text, current_setting('search_path'), current_setting('role'), current_setting('TimeZone'), \
         current_setting('DateStyle'), current_setting('IntervalStyle'), current_setting('client_encoding'), \
         current_setting('standard_conforming_strings'), current_setting('application_name'), \
         current_setting('work_mem'), current_setting('statement_timeout'), current_setting('bytea_output'), \
         coalesce(current_setting('my.tag', true), '')";
    let text = tag.clone();
    Statement::select("seen", sql, COLUMNS, move |scene| {
        let mut cells = vec![Cell::Is(text.clone())];
        cells.extend(WATCHED.iter().map(|setting| Cell::from(scene.session.vars().get(*setting))));
        Answer::row(cells)
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// Whether its session and its transaction refuse writes.
pub fn read_only(tag: &Text) -> Statement {
    const COLUMNS: &[Column] =
        &[column("text", TEXT), column("current_setting", TEXT), column("current_setting", TEXT)];
    let sql = "SELECT $1::text, current_setting('default_transaction_read_only'), \
         current_setting('transaction_read_only')";
    let text = tag.clone();
    Statement::select("read only", sql, COLUMNS, move |scene| {
        let now = match scene.session.read_only() {
            Some(true) => Cell::of("on"),
            Some(false) => Cell::of("off"),
            None => Cell::Any,
        };
        Answer::row(vec![Cell::Is(text.clone()), Cell::from(scene.session.vars().get(Setting::ReadOnly)), now])
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// Who it is.
pub fn who(tag: &Text) -> Statement {
    const COLUMNS: &[Column] = &[
        column("text", TEXT),
        column("current_user", TEXT),
        column("session_user", TEXT),
        column("current_schema", TEXT),
    ];
    let text = tag.clone();
    let sql = "SELECT $1::text, current_user::text, session_user::text, current_schema()::text";
    Statement::select("who", sql, COLUMNS, move |scene| {
        let vars = scene.session.vars();
        let user = vars.user().map_or(Cell::Any, Cell::of);
        let tenant = vars.tenant().map_or(Cell::Any, Cell::of);
        Answer::row(vec![Cell::Is(text.clone()), user, Cell::from(vars.get(Setting::Authorization)), tenant])
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// The rows that a policy shows it.
pub fn mine(tag: &Text) -> Statement {
    const COLUMNS: &[Column] = &[column("text", TEXT), of_table("v", TEXT, "mine", 2)];
    let text = tag.clone();
    Statement::select("mine", "SELECT $1::text, v FROM tools.mine ORDER BY owner", COLUMNS, move |scene| {
        let Some(user) = scene.session.vars().user() else {
            return Answer::rows(Rows::Unknown);
        };
        let owners = ["crowd", "role_1", "role_2"];
        let row = |owner: &&str| vec![Cell::Is(text.clone()), Cell::of(format!("of {owner}"))];
        let seen = owners.iter().filter(|owner| user == USERS[1] || user == **owner);
        Answer::rows(Rows::These(seen.map(row).collect()))
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// A table that one role alone may read.
pub fn secret(tag: &Text) -> Statement {
    const COLUMNS: &[Column] = &[column("text", TEXT), of_table("v", TEXT, "secret", 1)];
    let text = tag.clone();
    Statement::select("secret", "SELECT $1::text, v FROM tools.secret", COLUMNS, move |scene| {
        let denied = SqlError::new("42501", "permission denied for table secret");
        let row = || Answer::row(vec![Cell::Is(text.clone()), Cell::of("the secret of role_1")]);
        match scene.session.vars().user() {
            Some(user) if user == ROLES[0] || user == USERS[1] => row(),
            Some(_) => Answer { error: Some(denied), ..Answer::rows(Rows::Nothing) },
            None => Answer { perhaps: Some(denied), ..row() },
        }
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// Values as the session wants them shown.
pub fn shown(tag: &Text) -> Statement {
    const COLUMNS: &[Column] = &[
        column("text", TEXT),
        column("to_timestamp", TIMESTAMPTZ),
        column("to_date", DATE),
        column("make_interval", INTERVAL),
        column("decode", BYTEA),
    ];
    let text = tag.clone();
    let sql = "SELECT $1::text, to_timestamp(1709374272), to_date('2024-03-02', 'YYYY-MM-DD'), \
         make_interval(days => 1, hours => 2), decode('0102', 'hex')";
    Statement::select("shown", sql, COLUMNS, move |scene| {
        let vars = scene.session.vars();
        let known = |setting| vars.get(setting).known().unwrap_or("?");
        let style = known(Setting::DateStyle);
        let cell = |text: Option<&Text>| text.map_or(Cell::Any, |text| Cell::Is(text.clone()));
        Answer::row(vec![
            Cell::Is(text.clone()),
            cell(scene.world.moments.get(&format!("{style} {}", known(Setting::TimeZone)))),
            cell(scene.world.dates.get(style)),
            cell(scene.world.intervals.get(known(Setting::IntervalStyle))),
            cell(scene.world.bytes.get(known(Setting::Bytea))),
        ])
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// A literal that DateStyle decides.
pub fn date_read(tag: &Text) -> Statement {
    const COLUMNS: &[Column] = &[column("text", TEXT), column("to_char", TEXT)];
    let text = tag.clone();
    let sql = "SELECT $1::text, to_char('02/03/2024'::date, 'YYYY-MM-DD')";
    Statement::select("date read", sql, COLUMNS, move |scene| {
        let read = |style: &Text| if style.ends_with("DMY") { "2024-03-02" } else { "2024-02-03" }.into();
        Answer::row(vec![Cell::Is(text.clone()), Cell::one_of(scene.reading.style.all().map(read))])
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// A literal that TimeZone decides.
pub fn moment_read(tag: &Text) -> Statement {
    const COLUMNS: &[Column] = &[column("text", TEXT), column("extract", INT8)];
    let text = tag.clone();
    let sql = "SELECT $1::text, extract(epoch FROM '2024-01-01 00:00'::timestamptz)::bigint";
    Statement::select("moment read", sql, COLUMNS, move |scene| {
        let read = |zone: &Text| {
            let late = match &**zone {
                "Asia/Tokyo" => -9,
                "America/New_York" => 5,
                _ => 0,
            };
            (1_704_067_200 + late * 3600).to_string().into()
        };
        Answer::row(vec![Cell::Is(text.clone()), Cell::one_of(scene.reading.zone.all().map(read))])
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// A literal that client_encoding decides.
pub fn octets(tag: &Text) -> Statement {
    const COLUMNS: &[Column] = &[column("text", TEXT), column("octet_length", INT4)];
    let text = tag.clone();
    Statement::select("octets", "SELECT $1::text, octet_length('é')", COLUMNS, move |scene| {
        let read = |encoding: &Text| if &**encoding == "LATIN1" { "4" } else { "2" }.into();
        Answer::row(vec![Cell::Is(text.clone()), Cell::one_of(scene.reading.encoding.all().map(read))])
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// A literal that standard_conforming_strings decides.
pub fn slashes(tag: &Text) -> Statement {
    const COLUMNS: &[Column] = &[column("text", TEXT), column("length", INT4)];
    let text = tag.clone();
    Statement::select("slashes", r"SELECT $1::text, length('a\\b')", COLUMNS, move |scene| {
        let read = |conforming: &Text| if &**conforming == "off" { "3" } else { "4" }.into();
        Answer::row(vec![Cell::Is(text.clone()), Cell::one_of(scene.reading.conforming.all().map(read))])
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// A cast that fails.
pub fn cast(tag: &Text) -> Statement {
    let text = tag.clone();
    const COLUMNS: &[Column] = &[column("int4", INT4)];
    Statement::select("cast", "SELECT $1::text::int", COLUMNS, move |_| {
        Answer::error("22P02", format!("invalid input syntax for type integer: \"{text}\""))
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// A division that fails, for the same text at once everywhere.
pub fn zero(tag: &Text) -> Statement {
    let sql = "SELECT $1::text, (1 / (length($1::text) - length($1::text)))::text";
    const COLUMNS: &[Column] = &[column("text", TEXT), column("text", TEXT)];
    Statement::select("zero", sql, COLUMNS, |_| Answer::error("22012", "division by zero"))
        .with(TEXT_1, vec![tag.to_string()])
}

/// Rows, and an error behind them.
pub fn late(tag: &Text) -> Statement {
    let text = tag.clone();
    let sql = "SELECT $1::text || ' ' || g, (12 / (5 - g))::text FROM generate_series(1, 9) g";
    const COLUMNS: &[Column] = &[column("?column?", TEXT), column("text", TEXT)];
    Statement::select("late", sql, COLUMNS, move |_| {
        let row = |g: usize| vec![Cell::of(format!("{text} {g}")), Cell::of((12 / (5 - g)).to_string())];
        Answer {
            error: Some(SqlError::new("22012", "division by zero")),
            ..Answer::rows(Rows::These((1..5).map(row).collect()))
        }
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// A function that fails with the client's own tag.
pub fn boom(tag: &Text) -> Statement {
    let text = tag.clone();
    const COLUMNS: &[Column] = &[column("boom", TEXT)];
    Statement::select("boom", "SELECT tools.boom($1::text)", COLUMNS, move |_| {
        Answer::error("P0001", format!("boom {text}"))
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// A function with notices.
pub fn note(tag: &Text) -> Statement {
    let text = tag.clone();
    const COLUMNS: &[Column] = &[column("note", TEXT)];
    Statement::select("note", "SELECT tools.note($1::text)", COLUMNS, move |_| Answer {
        notices: vec![format!("one {text}").into(), format!("two {text}").into()],
        ..Answer::row(vec![Cell::Is(text.clone())])
    })
    .with(TEXT_1, vec![tag.to_string()])
}

/// A function that takes its time.
pub fn nap(tag: &Text, milliseconds: usize) -> Statement {
    let text = tag.clone();
    const COLUMNS: &[Column] = &[column("nap", TEXT)];
    Statement::select("nap", "SELECT tools.nap($1::text, $2::float)", COLUMNS, move |_| {
        Answer::row(vec![Cell::Is(text.clone())])
    })
    .with(&[25, 701], vec![tag.to_string(), format!("{}", milliseconds as f64 / 1000.0)])
}

/// What cannot be prepared, in the same words for all.
pub fn nowhere(tag: &Text) -> Statement {
    let refused = SqlError::new("42703", "column \"nowhere\" does not exist");
    let statement = Statement::select("nowhere", "SELECT $1::text, nowhere FROM item", TAG_AND_ANY, |_| {
        Answer::rows(Rows::Nothing)
    });
    Statement { refused: Some(refused), ..statement }.with(TEXT_1, vec![tag.to_string()])
}

/// A syntax error.
pub fn nonsense(tag: &Text) -> Statement {
    let refused = SqlError::new("42601", "syntax error at or near \"SELEC\"");
    Statement { refused: Some(refused), ..Statement::new("nonsense", format!("SELEC '{tag}'"), "", Effect::None) }
}

/// A row of the ledger.
pub fn insert(key: Key) -> Statement {
    Statement::new(
        "insert",
        "INSERT INTO ledger (k, tag) VALUES ($1::bigint, $2::text)",
        "INSERT 0 1",
        Effect::Write(vec![key]),
    )
    .with(&[20, 25], vec![key.0.to_string(), key.0.to_string()])
}

/// A row of the ledger, and who has written it.
pub fn insert_returning(key: Key) -> Statement {
    const COLUMNS: &[Column] = &[of_table("k", INT8, "ledger", 1), of_table("who", TEXT, "ledger", 3)];
    let sql = "INSERT INTO ledger (k, tag) VALUES ($1::bigint, $2::text) RETURNING k, who";
    let statement = Statement::select("returning", sql, COLUMNS, move |scene| {
        let user = scene.session.vars().user().map_or(Cell::Any, Cell::of);
        Answer::row(vec![Cell::of(key.0.to_string()), user])
    });
    Statement { effect: Effect::Write(vec![key]), tag: "INSERT 0 *", ..statement }
        .with(&[20, 25], vec![key.0.to_string(), key.0.to_string()])
}

/// A row that a function writes: it looks like a read.
pub fn put(key: Key) -> Statement {
    const COLUMNS: &[Column] = &[column("put", INT8)];
    let statement = Statement::select("put", "SELECT put($1::bigint)", COLUMNS, move |_| {
        Answer::row(vec![Cell::of(key.0.to_string())])
    });
    Statement { effect: Effect::Write(vec![key]), ..statement }.with(&[20], vec![key.0.to_string()])
}

/// A function that reads, or writes a row, as the server's administrator likes at the moment.
pub fn shifty(key: Key) -> Statement {
    const COLUMNS: &[Column] = &[column("shifty", TEXT)];
    let statement = Statement::select("shifty", "SELECT tools.shifty($1::bigint)", COLUMNS, |_| {
        Answer::row(vec![Cell::In(vec!["read".into(), "wrote".into()])])
    });
    Statement { effect: Effect::Shift(key), ..statement }.with(&[20], vec![key.0.to_string()])
}

/// A row, and an error after it.
pub fn insert_bad(key: Key) -> Statement {
    const COLUMNS: &[Column] = &[column("?column?", INT8)];
    let sql = "INSERT INTO ledger (k, tag) VALUES ($1::bigint, $2::text) RETURNING 1 / (k - k)";
    let statement = Statement::select("bad insert", sql, COLUMNS, |_| Answer::error("22012", "division by zero"));
    Statement { effect: Effect::Write(vec![key]), tag: "INSERT 0 *", ..statement }
        .with(&[20, 25], vec![key.0.to_string(), key.0.to_string()])
}

/// Rows by COPY; with `bad` the last line cannot be read, with `fails` the client takes it back.
pub fn copy_in(keys: Vec<Key>, bad: bool, fails: bool) -> Statement {
    let mut data: String = keys.iter().map(|key| format!("{0}\t{0}\n", key.0)).collect();
    if bad {
        data.push_str("bad\tbad\n");
    }
    let rows = keys.len();
    let statement = Statement::new("copy in", "COPY ledger (k, tag) FROM STDIN", "COPY *", Effect::Write(keys));
    let expect = move |_: &Scene<'_>| {
        // The tag counts the rows that came.
        if bad {
            Answer::error("22P02", "invalid input syntax for type bigint: \"bad\"")
        } else if fails {
            Answer::error("57014", "COPY from stdin failed: taken back")
        } else {
            Answer::rows(Rows::Numbered("".into(), rows))
        }
    };
    Statement { expect: Box::new(expect), copying: Copying::In { data: data.into(), fails }, ..statement }
}

/// Rows by COPY to the client.
pub fn copy_out(tag: &Text, rows: usize) -> Statement {
    let text = tag.clone();
    let sql = format!("COPY (SELECT '{tag} ' || g FROM generate_series(1, {rows}) g) TO STDOUT");
    Statement {
        expect: Box::new(move |_| Answer::rows(Rows::Numbered(text.clone(), rows))),
        copying: Copying::Out,
        ..Statement::new("copy out", sql, "COPY *", Effect::None)
    }
}

/// Whether a row of its own is there.
pub fn look(tag: &Text, key: Key) -> Statement {
    const COLUMNS: &[Column] = &[column("text", TEXT), column("count", INT8)];
    let text = tag.clone();
    let sql = "SELECT $1::text, count(*) FROM ledger WHERE k = $2::bigint";
    Statement::select("look", sql, COLUMNS, move |scene| {
        let either = || Cell::In(vec!["0".into(), "1".into()]);
        let (told, tenant) = scene.ledger.look(key);
        let count = match (told, tenant, scene.session.vars().tenant()) {
            (Told::Failed, ..) => Cell::of("0"),
            (_, Some(there), Some(here)) if there != here => Cell::of("0"),
            (Told::Done | Told::Open, Some(_), Some(_)) => Cell::of("1"),
            _ => either(),
        };
        Answer::row(vec![Cell::Is(text.clone()), count])
    })
    .with(&[25, 20], vec![tag.to_string(), key.0.to_string()])
}

/// Rows that break a deferred constraint.
pub fn violate(key: Key) -> Statement {
    let sql = "INSERT INTO dup (k) VALUES ($1::bigint), ($1::bigint)";
    Statement::new("violate", sql, "INSERT 0 2", Effect::Violate).with(&[20], vec![key.0.to_string()])
}

/// An empty query.
pub fn empty() -> Statement {
    Statement::new("empty", "", "", Effect::None)
}

/// SET in one of its spellings.
pub fn set(setting: Setting, value: &str, spelling: usize) -> Statement {
    let sql = match (setting, spelling) {
        (Setting::SearchPath, 1) if !value.contains(',') => format!("SET SCHEMA '{value}'"),
        (Setting::SearchPath, 2) => format!("SET SESSION search_path TO {value}"),
        (Setting::SearchPath, _) => format!("SET search_path = {value}"),
        (Setting::Role, _) => format!("SET ROLE {value}"),
        (Setting::Authorization, _) => format!("SET SESSION AUTHORIZATION {value}"),
        (Setting::TimeZone, 1) => format!("SET TIME ZONE '{value}'"),
        (Setting::Encoding, 1) => format!("SET NAMES '{value}'"),
        (_, 2) => format!("SET SESSION {} TO '{value}'", setting.name()),
        (_, 3) => format!("/* app=shop */ set {} = '{value}' /* app='crowd' */ ;", setting.name()),
        _ => format!("SET {} = '{value}'", setting.name()),
    };
    Statement::new("set", sql, "SET", Effect::Set(setting, value.into()))
}

/// `set_config`, until the session ends or the transaction does.
pub fn set_config(setting: Setting, value: &str, local: bool) -> Statement {
    let sql = format!("SELECT set_config('{}', '{value}', {local})", setting.name());
    const COLUMNS: &[Column] = &[column("set_config", TEXT)];
    let text: Text = value.into();
    let answer = text.clone();
    let effect = if local { Effect::SetLocal(setting, text) } else { Effect::Set(setting, text) };
    Statement {
        columns: COLUMNS,
        vague: !local,
        expect: Box::new(move |_| Answer::row(vec![Cell::Is(answer.clone())])),
        ..Statement::new("set_config", sql, "SELECT *", effect)
    }
}

/// SET LOCAL.
pub fn set_local(setting: Setting, value: &str) -> Statement {
    let sql = match setting {
        Setting::SearchPath => format!("SET LOCAL search_path = {value}"),
        Setting::Role => format!("SET LOCAL ROLE {value}"),
        _ => format!("SET LOCAL {} = '{value}'", setting.name()),
    };
    Statement::new("set local", sql, "SET", Effect::SetLocal(setting, value.into()))
}

/// RESET.
pub fn reset(setting: Setting) -> Statement {
    let sql = match setting {
        Setting::Role => "RESET ROLE".to_owned(),
        Setting::Authorization => "RESET SESSION AUTHORIZATION".to_owned(),
        _ => format!("RESET {}", setting.name()),
    };
    Statement::new("reset", sql, "RESET", Effect::Reset(setting))
}

/// A statement that has no rows and always the same tag.
pub fn command(sql: &'static str, tag: &'static str, effect: Effect) -> Statement {
    Statement::new(tag, sql, tag, effect)
}

/// SAVEPOINT, ROLLBACK TO or RELEASE.
pub fn savepoint(effect: Effect) -> Statement {
    let (sql, tag) = match effect {
        Effect::RollbackTo(name) => (format!("ROLLBACK TO SAVEPOINT p{name}"), "ROLLBACK"),
        Effect::Release(name) => (format!("RELEASE SAVEPOINT p{name}"), "RELEASE"),
        Effect::Savepoint(name) => (format!("SAVEPOINT p{name}"), "SAVEPOINT"),
        _ => return command("", "", Effect::None),
    };
    // A SET before it, in the same transaction.
    let vague = matches!(effect, Effect::RollbackTo(_));
    Statement { vague, ..Statement::new("savepoint", sql, tag, effect) }
}

/// FETCH.
pub fn fetch(client: u32, count: usize) -> Statement {
    const COLUMNS: &[Column] = &[column("?column?", TEXT)];
    Statement {
        columns: COLUMNS,
        expect: Box::new(move |scene| {
            let row = |g: usize| vec![Cell::of(format!("cursor of {client} {g}"))];
            Answer::rows(Rows::These(scene.session.fetched(count).map(row).collect()))
        }),
        ..Statement::new("fetch", format!("FETCH {count} FROM c"), "FETCH *", Effect::Fetch(count))
    }
}

/// DECLARE.
pub fn declare(client: u32, hold: bool) -> Statement {
    let hold_words = if hold { "WITH HOLD " } else { "" };
    let rows = crate::session::CURSOR_ROWS;
    let sql =
        format!("DECLARE c CURSOR {hold_words}FOR SELECT 'cursor of {client} ' || g FROM generate_series(1, {rows}) g");
    Statement::new("declare", sql, "DECLARE CURSOR", Effect::Declare { hold })
}

/// The contents of the temporary table.
pub fn temp_rows() -> Statement {
    const COLUMNS: &[Column] = &[column("coalesce", TEXT)];
    let sql = "SELECT coalesce(string_agg(tag, ',' ORDER BY tag), '') FROM scratch";
    Statement::select("temp rows", sql, COLUMNS, |scene| match &scene.session.facts.temp {
        Some(rows) => {
            let mut rows: Vec<&str> = rows.iter().map(|row| &**row).collect();
            rows.sort_unstable();
            Answer::row(vec![Cell::of(rows.join(","))])
        }
        None => Answer::error("42P01", "relation \"scratch\" does not exist"),
    })
}

/// A row of the temporary table.
pub fn temp_add(tag: &Text) -> Statement {
    let sql = format!("INSERT INTO scratch VALUES ('{tag}')");
    Statement {
        expect: Box::new(|scene| match scene.session.facts.temp {
            Some(_) => Answer::rows(Rows::Nothing),
            None => Answer::error("42P01", "relation \"scratch\" does not exist"),
        }),
        ..Statement::new("temp add", sql, "INSERT 0 1", Effect::TempAdd(tag.clone()))
    }
}

/// The temporary table comes, or goes.
pub fn temp(there: bool) -> Statement {
    let (sql, tag, effect) = if there {
        ("CREATE TEMP TABLE scratch (tag text)", "CREATE TABLE", Effect::Temp)
    } else {
        ("DROP TABLE scratch", "DROP TABLE", Effect::TempDrop)
    };
    let expect = move |scene: &Scene<'_>| match (&scene.session.facts.temp, there) {
        (Some(_), true) => Answer::error("42P07", "relation \"scratch\" already exists"),
        (None, false) => Answer::error("42P01", "table \"scratch\" does not exist"),
        _ => Answer::rows(Rows::Nothing),
    };
    Statement { expect: Box::new(expect), ..Statement::new("temp", sql, tag, effect) }
}

/// A session's advisory lock of its own.
pub fn lock(client: u32) -> Statement {
    const COLUMNS: &[Column] = &[column("pg_advisory_lock", VOID)];
    let sql = format!("SELECT pg_advisory_lock({client})");
    Statement {
        columns: COLUMNS,
        expect: Box::new(|_| Answer::row(vec![Cell::of("")])),
        ..Statement::new("lock", sql, "SELECT *", Effect::Lock)
    }
}

/// It is given back: whether it was held.
pub fn unlock(client: u32) -> Statement {
    const COLUMNS: &[Column] = &[column("pg_advisory_unlock", BOOL)];
    let sql = format!("SELECT pg_advisory_unlock({client})");
    Statement {
        columns: COLUMNS,
        expect: Box::new(move |scene| {
            let held = scene.session.locks > 0;
            Answer {
                notices: if held { Vec::new() } else { vec!["you don't own a lock of type ExclusiveLock".into()] },
                ..Answer::row(vec![Cell::of(if held { "t" } else { "f" })])
            }
        }),
        ..Statement::new("unlock", sql, "SELECT *", Effect::Unlock)
    }
}

/// LISTEN or UNLISTEN, on a channel of its own.
pub fn listen(client: u32, listens: bool) -> Statement {
    let (sql, tag) = if listens { ("LISTEN", "LISTEN") } else { ("UNLISTEN", "UNLISTEN") };
    Statement::new("listen", format!("{sql} of_{client}"), tag, Effect::Listen(listens))
}

/// NOTIFY on that channel.
pub fn notify(client: u32, tag: &Text) -> Statement {
    Statement::new("notify", format!("NOTIFY of_{client}, '{tag}'"), "NOTIFY", Effect::Notify(tag.clone()))
}
