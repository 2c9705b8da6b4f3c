//! The judge must notice what the crowd is for: answers that are wrong in one place each.

use wire::backend::{self, ColumnType, tag};
use wire::frame::{write, write_cstr};

use crate::judge::{End, Rules, judge};
use crate::ledger::{Key, Ledger, Told};
use crate::session::Session;
use crate::settings::{Setting, Text, USERS};
use crate::statement::{self, Effect, Statement};
use crate::unit::Unit;
use crate::world::World;

struct Answer(Vec<u8>);

impl Answer {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn columns(mut self, names: &[&str]) -> Self {
        backend::write_row_description(&mut self.0, names.iter().map(|name| (*name, ColumnType::Text)));
        self
    }

    fn row(mut self, values: &[&str]) -> Self {
        backend::write_data_row(&mut self.0, values.iter().map(|value| Some(value.as_bytes())));
        self
    }

    fn complete(mut self, text: &str) -> Self {
        backend::write_command_complete(&mut self.0, text);
        self
    }

    fn error(mut self, code: &str, message: &str) -> Self {
        backend::write_error(&mut self.0, "ERROR", code, message);
        self
    }

    fn notice(mut self, message: &str) -> Self {
        backend::write_notice(&mut self.0, "NOTICE", "00000", message);
        self
    }

    fn told(mut self, name: &str, value: &str) -> Self {
        backend::write_parameter_status(&mut self.0, name, value);
        self
    }

    fn notified(mut self, channel: &str, payload: &str) -> Self {
        write(&mut self.0, tag::NOTIFICATION_RESPONSE, |out| {
            out.extend_from_slice(&[0; 4]);
            write_cstr(out, channel.as_bytes());
            write_cstr(out, payload.as_bytes());
        });
        self
    }

    fn empty(mut self, tag: u8) -> Self {
        backend::write_empty(&mut self.0, tag);
        self
    }

    fn ready(mut self, status: u8) -> Vec<u8> {
        write(&mut self.0, tag::READY_FOR_QUERY, |out| out.push(status));
        self.0
    }
}

fn session() -> Session {
    Session::new(World::default().session(USERS[0], &[(Setting::Timeout, "0".into())]), true)
}

fn verdict(session: &mut Session, ledger: &mut Ledger, unit: &Unit, answer: &[u8]) -> Result<End, String> {
    judge(Rules::default(), &World::default(), session, ledger, 1, unit, answer)
}

fn simple(statement: Statement) -> Unit {
    Unit::simple(vec![statement])
}

#[test]
fn a_row_is_taken_as_it_must_be_and_in_no_other_way() {
    let tag: Text = "1-1".into();
    let good = || Answer::new().columns(&["text"]).row(&["1-1"]).complete("SELECT 1");
    let answers: Vec<(&str, Vec<u8>)> = vec![
        ("another's row", Answer::new().columns(&["text"]).row(&["2-1"]).complete("SELECT 1").ready(b'I')),
        ("no row", Answer::new().columns(&["text"]).complete("SELECT 0").ready(b'I')),
        (
            "a row too many",
            Answer::new().columns(&["text"]).row(&["1-1"]).row(&["1-1"]).complete("SELECT 2").ready(b'I'),
        ),
        ("another tag", Answer::new().columns(&["text"]).row(&["1-1"]).complete("SELECT 2").ready(b'I')),
        ("another column", Answer::new().columns(&["test"]).row(&["1-1"]).complete("SELECT 1").ready(b'I')),
        ("no columns", Answer::new().row(&["1-1"]).complete("SELECT 1").ready(b'I')),
        ("ReadyForQuery alone", Answer::new().ready(b'I')),
        ("another's SET", Answer::new().complete("SET").ready(b'I')),
        ("another's SET before it", Answer::new().complete("SET").columns(&["text"]).row(&["1-1"]).ready(b'I')),
        ("another status", good().ready(b'T')),
        (
            "a cancel that it did not ask for",
            Answer::new().error("57014", "canceling statement due to user request").ready(b'I'),
        ),
        (
            "a timeout that it has not",
            Answer::new().error("57014", "canceling statement due to statement timeout").ready(b'I'),
        ),
        ("another's error", Answer::new().error("P0001", "boom 2-1").ready(b'I')),
        ("a loss", Answer::new().error("08006", "server connection lost").ready(b'I')),
        ("an error behind it", good().error("P0001", "boom").ready(b'I')),
        ("another's notice", good().notice("one 2-1").ready(b'I')),
        ("another's setting", good().told("TimeZone", "Asia/Tokyo").ready(b'I')),
        ("another's notification", good().notified("of_2", "x").ready(b'I')),
        ("two answers", {
            let mut two = good().ready(b'I');
            two.extend(good().ready(b'I'));
            two
        }),
    ];
    let unit = simple(statement::tag_row(&tag));
    let mut ledger = Ledger::default();
    assert_eq!(verdict(&mut session(), &mut ledger, &unit, &good().ready(b'I')), Ok(End::Well));
    for (what, answer) in answers {
        assert!(verdict(&mut session(), &mut ledger, &unit, &answer).is_err(), "{what}");
    }
}

#[test]
fn what_strikes_is_excused_where_it_may_strike() {
    let cancelled = Answer::new().error("57014", "canceling statement due to user request").ready(b'I');
    let lost = Answer::new().error("08006", "the outcome is unknown").ready(b'I');
    let key = Key::new(1, 1);
    let mut ledger = Ledger::default();
    let mut unit = simple(statement::insert(key));
    unit.cancellable = true;
    ledger.send(&[key]);
    assert_eq!(verdict(&mut session(), &mut ledger, &unit, &cancelled), Ok(End::Cancelled));
    assert_eq!(ledger.look(key).0, Told::Failed);
    ledger.send(&[key]);
    let rules = Rules { kills: true, lenient: false };
    let mut session = session();
    assert_eq!(judge(rules, &World::default(), &mut session, &mut ledger, 1, &unit, &lost), Ok(End::Lost));
    assert_eq!(ledger.look(key).0, Told::Unknown);
}

#[test]
fn a_server_may_die_before_its_ready_for_query() {
    let (world, begun) = (World::default(), || Answer::new().complete("BEGIN"));
    let begin = simple(statement::command("BEGIN", "BEGIN", Effect::Begin { read_only: false }));
    for (kills, code, status, allowed) in [
        (true, "08006", b'I', true),
        (true, "08006", b'T', false),
        (false, "08006", b'I', false),
        (true, "22012", b'I', false),
    ] {
        let rules = Rules { kills, lenient: false };
        let answer = begun().error(code, "lost").ready(status);
        let told = judge(rules, &world, &mut session(), &mut Ledger::default(), 1, &begin, &answer);
        assert_eq!(told == Ok(End::Lost), allowed, "{kills} {code} {told:?}");
    }
}

#[test]
fn what_a_lost_unit_has_done_to_its_session_is_unknown() {
    let world = World::default();
    let lost = || Answer::new().error("08006", "the outcome is unknown");
    let rules = Rules { kills: true, lenient: false };
    let mut ledger = Ledger::default();
    let mut one = session();
    let mut told = |session: &mut Session, unit: &Unit, answer: Vec<u8>| {
        judge(rules, &world, session, &mut ledger, 1, unit, &answer)
    };
    // It has discarded all, and nobody was told what became of it.
    let set = simple(statement::command(
        "SET standard_conforming_strings TO 'off'",
        "SET",
        Effect::Set(Setting::Conforming, "off".into()),
    ));
    let off = Answer::new().complete("SET").told("standard_conforming_strings", "off").ready(b'I');
    assert_eq!(told(&mut one, &set, off), Ok(End::Well));
    let discard = std::rc::Rc::new(statement::command("DISCARD ALL", "DISCARD ALL", Effect::DiscardAll));
    let mut unit = Unit::default();
    unit.parse(0, &discard).bind(0, 0, &discard).execute(0, 0);
    let begun = || Answer::new().empty(tag::PARSE_COMPLETE).empty(tag::BIND_COMPLETE).complete("DISCARD ALL");
    let unit = unit.sync();
    assert_eq!(told(&mut one, &unit, begun().error("08006", "lost").ready(b'I')), Ok(End::Lost));
    assert_eq!(one.vars().get(Setting::Conforming).known(), None);
    // It has prepared a statement, perhaps: in a failed transaction too it may not be there.
    let statement = std::rc::Rc::new(statement::tag_row(&"1-1".into()));
    let mut parse = Unit::default();
    parse.parse(1, &statement);
    assert_eq!(told(&mut one, &parse.sync(), lost().ready(b'I')), Ok(End::Lost));
    let begin = simple(statement::command("BEGIN", "BEGIN", Effect::Begin { read_only: false }));
    assert_eq!(told(&mut one, &begin, Answer::new().complete("BEGIN").ready(b'T')), Ok(End::Well));
    let mut bind = Unit::default();
    bind.bind(0, 1, &statement).execute(0, 0);
    let bind = bind.sync();
    for _ in 0..2 {
        let missing = Answer::new().error("26000", "prepared statement \"s1\" does not exist").ready(b'E');
        assert_eq!(told(&mut one, &bind, missing), Ok(End::Failed));
    }
}

#[test]
fn a_timeout_behind_the_last_statement_takes_back_its_transaction() {
    let timeout = "canceling statement due to statement timeout";
    let session =
        |timeout: &str| Session::new(World::default().session(USERS[0], &[(Setting::Timeout, timeout.into())]), true);
    let extended = |statement: Statement| {
        let mut unit = Unit::default();
        let statement = std::rc::Rc::new(statement);
        unit.parse(0, &statement).bind(0, 0, &statement).execute(0, 0);
        unit.sync()
    };
    let done = |tag: &str| Answer::new().empty(tag::PARSE_COMPLETE).empty(tag::BIND_COMPLETE).complete(tag);
    let begin = || extended(statement::command("BEGIN", "BEGIN", Effect::Begin { read_only: false }));
    let key = Key::new(1, 1);
    let mut ledger = Ledger::default();
    ledger.send(&[key]);
    let late = |tag: &str, status: u8| done(tag).error("57014", timeout).ready(status);
    let mut timed = session("1ms");
    let insert = extended(statement::insert(key));
    assert_eq!(verdict(&mut timed, &mut ledger, &insert, &late("INSERT 0 1", b'I')), Ok(End::TimedOut));
    assert_eq!(ledger.look(key).0, Told::Failed);
    assert_eq!(verdict(&mut timed, &mut ledger, &begin(), &late("BEGIN", b'E')), Ok(End::TimedOut));
    assert_eq!(timed.status(), b'E');
    assert!(verdict(&mut session("1ms"), &mut ledger, &begin(), &late("BEGIN", b'T')).is_err());
    assert!(verdict(&mut session("0"), &mut ledger, &begin(), &late("BEGIN", b'E')).is_err());
    let other = done("BEGIN").error("57014", "canceling statement due to user request").ready(b'E');
    assert!(verdict(&mut session("1ms"), &mut ledger, &begin(), &other).is_err());
}

#[test]
fn an_error_takes_back_what_its_unit_has_set() {
    let mut session = session();
    let mut ledger = Ledger::default();
    let set = statement::set(Setting::SearchPath, "tenant_1", 0);
    let well = Answer::new().complete("SET").ready(b'I');
    assert_eq!(verdict(&mut session, &mut ledger, &simple(set), &well), Ok(End::Well));
    let unit = Unit::simple(vec![statement::reset(Setting::SearchPath), statement::cast(&"1-1".into())]);
    let error = "invalid input syntax for type integer: \"1-1\"";
    let failed = Answer::new().complete("RESET").error("22P02", error).ready(b'I');
    assert_eq!(verdict(&mut session, &mut ledger, &unit, &failed), Ok(End::Failed));
    assert_eq!(session.vars().tenant(), Some("tenant_1"));
}

#[test]
fn a_deferred_constraint_fails_at_commit_and_takes_the_rows_along() {
    let mut session = session();
    let mut ledger = Ledger::default();
    let key = Key::new(1, 1);
    let steps = [
        (statement::command("BEGIN", "BEGIN", Effect::Begin { read_only: false }), "BEGIN", b'T'),
        (statement::insert(key), "INSERT 0 1", b'T'),
        (statement::violate(key), "INSERT 0 2", b'T'),
    ];
    for (statement, tag, status) in steps {
        let answer = Answer::new().complete(tag).ready(status);
        assert_eq!(verdict(&mut session, &mut ledger, &simple(statement), &answer), Ok(End::Well));
    }
    assert_eq!(ledger.look(key).0, Told::Open);
    let commit = simple(statement::command("COMMIT", "COMMIT", Effect::Commit));
    let error = "duplicate key value violates unique constraint \"dup_k_key\"";
    assert!(verdict(&mut session, &mut ledger, &commit, &Answer::new().complete("COMMIT").ready(b'I')).is_err());
    let failed = Answer::new().error("23505", error).ready(b'I');
    assert_eq!(verdict(&mut session, &mut ledger, &commit, &failed), Ok(End::Failed));
    assert_eq!(ledger.look(key).0, Told::Failed);
}

#[test]
fn a_statement_is_there_when_its_parse_was_answered_and_not_otherwise() {
    let statement = std::rc::Rc::new(statement::tag_row(&"1-1".into()));
    let mut session = session();
    let mut ledger = Ledger::default();
    let mut bind = Unit::default();
    bind.bind(0, 1, &statement).execute(0, 0);
    let bind = bind.sync();
    let done = || Answer::new().empty(tag::BIND_COMPLETE).row(&["1-1"]).complete("SELECT 1").ready(b'I');
    assert!(verdict(&mut session, &mut ledger, &bind, &done()).is_err());
    let missing =
        |name: &str| Answer::new().error("26000", &format!("prepared statement \"{name}\" does not exist")).ready(b'I');
    assert!(verdict(&mut session, &mut ledger, &bind, &missing("HOWDAH_1_0")).is_err());
    assert_eq!(verdict(&mut session, &mut ledger, &bind, &missing("s1")), Ok(End::Failed));
    let mut parse = Unit::default();
    parse.parse(1, &statement);
    let parsed = Answer::new().empty(tag::PARSE_COMPLETE).ready(b'I');
    assert_eq!(verdict(&mut session, &mut ledger, &parse.sync(), &parsed), Ok(End::Well));
    assert_eq!(verdict(&mut session, &mut ledger, &bind, &done()), Ok(End::Well));
    assert!(verdict(&mut session, &mut ledger, &bind, &missing("s1")).is_err());
}

#[test]
fn notifications_behind_a_pooler_come_later_and_in_order() {
    let mut ledger = Ledger::default();
    let listening = |ledger: &mut Ledger| {
        let mut session = session();
        for (statement, tag) in [
            (statement::listen(1, true), "LISTEN"),
            (statement::notify(1, &"first".into()), "NOTIFY"),
            (statement::notify(1, &"second".into()), "NOTIFY"),
        ] {
            let answer = Answer::new().complete(tag).ready(b'I');
            assert_eq!(verdict(&mut session, ledger, &simple(statement), &answer), Ok(End::Well));
        }
        session
    };
    let mut all = listening(&mut ledger);
    let hears = |session: &mut Session, payload: &str| {
        session.is_notified(payload).unwrap();
        session.holds_notifications(true).is_ok()
    };
    assert!(["first", "second"].iter().all(|payload| hears(&mut all, payload)));
    assert!(!hears(&mut all, "second"), "twice");
    assert!(!hears(&mut listening(&mut ledger), "second"), "the first is lost");
    let mut over = listening(&mut ledger);
    let answer = Answer::new().complete("UNLISTEN").ready(b'I');
    let unit = simple(statement::listen(1, false));
    assert_eq!(verdict(&mut over, &mut ledger, &unit, &answer), Ok(End::Well));
    assert!(hears(&mut over, "second"), "the first need not come");
    let mut ahead = listening(&mut ledger);
    assert!(hears(&mut ahead, "first") && hears(&mut ahead, "second"));
    ahead.is_notified("third").unwrap();
    let answer = Answer::new().complete("NOTIFY").ready(b'I');
    let unit = simple(statement::notify(1, &"third".into()));
    assert_eq!(verdict(&mut ahead, &mut ledger, &unit, &answer), Ok(End::Well));
    assert!(ahead.holds_notifications(true).is_ok(), "what another connection heard came before the answer");
}
