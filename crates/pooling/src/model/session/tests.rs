use classify::{Classifier, Verdict};

use super::*;

fn verdict(sql: &str) -> Verdict {
    (**Classifier::new(1).classify(sql.as_bytes(), true)).clone()
}

/// Runs commands that finish well, and gives what a client with this base, and a server, are then believed to have.
fn run(base: &[&str], commands: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let mut startup = Sets::default();
    for name in base {
        startup.set(name, format!("SET {name} = startup"));
    }
    let (mut client, mut server) = (startup.clone(), startup.clone());
    let mut pending = Pending::default();
    let believe = |pending: &mut Pending, client: &mut Sets, server: &mut Sets| {
        for change in pending.take() {
            client.apply(&change, &startup);
            server.apply(&change, &Sets::default());
        }
    };
    for (sql, tag) in commands {
        assert_eq!(pending.finished(tag.as_bytes(), verdict(sql).kind_of(0)), Outcome::Noted, "{sql}");
    }
    pending.keep();
    believe(&mut pending, &mut client, &mut server);
    let text = |sets: &Sets| {
        let mut sql = String::new();
        sets.write(&mut sql);
        sql.split_terminator(';').map(str::to_owned).collect()
    };
    (text(&client), text(&server))
}

#[test]
fn a_reset_leads_to_what_was_asked_for_at_startup() {
    let (client, server) = run(&["work_mem"], &[("SET work_mem = '1MB'", "SET"), ("RESET work_mem", "RESET")]);
    assert_eq!(client, ["SET work_mem = startup"]);
    assert!(server.is_empty());
    let (client, server) = run(&["work_mem"], &[("SET role = 'a'", "SET"), ("RESET ALL", "RESET")]);
    assert_eq!(client.len(), 2, "{client:?}");
    assert!(client[0].contains("work_mem") && client[1].contains("role"));
    assert_eq!(server.len(), 1, "{server:?}");
}

#[test]
fn savepoints_undo_what_came_behind_them() {
    let commands = [
        ("BEGIN", "BEGIN"),
        ("SET work_mem = '1MB'", "SET"),
        ("SAVEPOINT a", "SAVEPOINT"),
        ("SET work_mem = '2MB'", "SET"),
        ("SAVEPOINT b", "SAVEPOINT"),
        ("SET enable_sort = off", "SET"),
        ("RELEASE b", "RELEASE"),
        ("ROLLBACK TO a", "ROLLBACK"),
        ("SET enable_hashjoin = off", "SET"),
        ("COMMIT", "COMMIT"),
    ];
    let (client, _) = run(&[], &commands);
    assert_eq!(client.len(), 2, "{client:?}");
    assert!(client[0].contains("1MB") && client[1].contains("enable_hashjoin"), "{client:?}");
}

#[test]
fn what_a_chained_commit_has_kept_no_rollback_undoes() {
    let commands = [
        ("BEGIN", "BEGIN"),
        ("SET work_mem = '1MB'", "SET"),
        ("COMMIT AND CHAIN", "COMMIT"),
        ("SET work_mem = '2MB'", "SET"),
        ("ROLLBACK", "ROLLBACK"),
    ];
    let (client, _) = run(&[], &commands);
    assert_eq!(client.len(), 1);
    assert!(client[0].contains("1MB"));
}

#[test]
fn identity_and_schema_are_replayed_as_they_were_said() {
    let (client, _) = run(&[], &[("SET search_path = sa", "SET"), ("SET SCHEMA 'sb'", "SET")]);
    assert_eq!(client.len(), 1, "{client:?}");
    assert!(client[0].contains("sb"));
    let commands =
        [("SET SESSION AUTHORIZATION bob", "SET"), ("SET ROLE carol", "SET"), ("RESET SESSION AUTHORIZATION", "RESET")];
    assert!(run(&[], &commands).0.is_empty());
    let commands = [("SET ROLE carol", "SET"), ("SET SESSION AUTHORIZATION bob", "SET"), ("SET ROLE dan", "SET")];
    let (client, _) = run(&[], &commands);
    assert_eq!(client.len(), 2, "{client:?}");
    assert!(client[0].contains("bob") && client[1].contains("dan"));
}

#[test]
fn what_cannot_be_told_is_unknown() {
    let mut pending = Pending::default();
    assert_eq!(pending.finished(b"SET", None), Outcome::Unread);
    assert_eq!(pending.finished(b"SET", verdict("SET LOCAL work_mem = '1MB'").kind_of(0)), Outcome::Noted);
    assert_eq!(pending.finished(b"ROLLBACK", None), Outcome::Noted);
    assert_eq!(pending.finished(b"SET", verdict("SET work_mem = '1MB'").kind_of(0)), Outcome::Noted);
    assert_eq!(pending.finished(b"ROLLBACK", None), Outcome::Unknown);
    assert!(pending.is_empty());
}

fn target(sets: &[(&str, &str)], read_only: bool) -> Target {
    let mut target = Target { sets: Sets::default(), vars: Vars::default(), read_only };
    for (name, statement) in sets {
        target.sets.set(name, (*statement).to_owned());
    }
    target
}

#[test]
fn an_alignment_says_no_more_than_it_must() {
    let tracked = Tracked::new(&[]);
    let none = target(&[], false);
    let mem = target(&[("work_mem", "SET work_mem TO '1MB'")], false);
    let reads = target(&[], true);
    let fresh = Confirmed::default();
    assert!(fresh.meets(&none) && !fresh.meets(&reads));
    assert_eq!(fresh.alignment(&mem, &tracked).rest, "SET work_mem TO '1MB';");
    assert_eq!(fresh.alignment(&reads, &tracked).rest, "SET default_transaction_read_only=on;");
    let reading = Confirmed { read_only: true, ..Confirmed::default() };
    assert_eq!(reading.alignment(&none, &tracked).rest, "RESET default_transaction_read_only;");
    let had = Confirmed { sets: mem.sets.clone(), ..Confirmed::default() };
    assert_eq!(had.alignment(&none, &tracked).rest, RESET);
}

#[test]
fn no_limit_of_another_client_ends_an_alignment() {
    let tracked = Tracked::new(&[]);
    let quick = target(&[("statement_timeout", "SET statement_timeout TO 1"), ("a.b", "SET a.b TO 1")], false);
    let had = Confirmed { sets: quick.sets.clone(), ..Confirmed::default() };
    let alignment = had.alignment(&target(&[], false), &tracked);
    assert_eq!((alignment.first.as_str(), alignment.rest.as_str()), ("SET statement_timeout=0;", RESET));
    // Its own limits come last.
    let own = Confirmed::default().alignment(&quick, &tracked).rest;
    assert_eq!(own, "SET a.b TO 1;SET statement_timeout TO 1;");
}

#[test]
fn a_clients_own_mode_comes_back_when_reads_are_over() {
    let tracked = Tracked::new(&[]);
    let name = "default_transaction_read_only";
    let own = target(&[(name, "SET default_transaction_read_only TO off")], false);
    let reading = Confirmed { sets: own.sets.clone(), vars: Vars::default(), read_only: true, ..Confirmed::default() };
    let sql = reading.alignment(&own, &tracked).rest;
    assert_eq!(sql, format!("{RESET}SET {name} TO off;"));
    let back = Confirmed { read_only: false, ..reading }.alignment(&Target { read_only: true, ..own }, &tracked).rest;
    assert_eq!(back, format!("{RESET}SET {name} TO off;SET {name}=on;"));
    // It does not come back among reads either, where another client's were before.
    let own = target(&[(name, "SET default_transaction_read_only TO off")], true);
    let others = Confirmed { read_only: true, ..Confirmed::default() };
    assert_eq!(others.alignment(&own, &tracked).rest, format!("{RESET}SET {name} TO off;SET {name}=on;"));
}

#[test]
fn the_last_word_on_a_parameter_says_whether_it_is_reset() {
    let mut pending = Pending::default();
    let mut says = |tag: &str, sql: &str, wanted: bool| {
        pending.finished(tag.as_bytes(), verdict(sql).kind_of(0));
        assert_eq!(pending.resets("search_path"), wanted, "after {sql}");
    };
    says("SET", "SET search_path = a", false);
    says("RESET", "RESET search_path", true);
    says("SET", "SET search_path = b", false);
    says("RESET", "RESET ALL", true);
    says("SAVEPOINT", "SAVEPOINT s", true);
    says("SET", "SET search_path = c", false);
    says("ROLLBACK", "ROLLBACK TO s", true);
    pending.restore("search_path".to_owned(), "SET search_path = startup".to_owned());
    assert!(!pending.resets("search_path"));
    // The server has forgotten the startup value too.
    pending.finished(b"ROLLBACK", verdict("ROLLBACK TO s").kind_of(0));
    assert!(pending.resets("search_path"));
    assert!(pending.resets("timezone"), "RESET ALL resets all but the identity");
    assert!(!pending.resets("role"));
}

#[test]
fn a_savepoint_that_is_not_known_by_name_hides_those_before_it() {
    let mut pending = Pending::default();
    assert_eq!(pending.finished(b"SAVEPOINT", verdict("SAVEPOINT s").kind_of(0)), Outcome::Noted);
    assert_eq!(pending.finished(b"SET", verdict("SET ROLE a").kind_of(0)), Outcome::Noted);
    assert_eq!(pending.finished(b"SAVEPOINT", None), Outcome::Noted);
    // The savepoint that it leads back to is not known, so neither is the role.
    assert_eq!(pending.finished(b"ROLLBACK", verdict("ROLLBACK TO s").kind_of(0)), Outcome::Unknown);
    assert!(pending.is_empty());
}

#[test]
fn savepoints_of_one_name_in_a_row_are_one() {
    let mut pending = Pending::default();
    for _ in 0..10_000 {
        pending.finished(b"SAVEPOINT", verdict("SAVEPOINT autosave").kind_of(0));
    }
    assert_eq!(pending.finished(b"SET", verdict("SET ROLE a").kind_of(0)), Outcome::Noted);
    pending.keep();
    assert_eq!(pending.take().len(), 1);
}

#[test]
fn each_statement_of_a_text_is_followed() {
    let text = verdict("SET ROLE a; SAVEPOINT s; SET work_mem = '1MB' ; RESET ROLE; ROLLBACK TO s");
    let mut pending = Pending::default();
    for (place, tag) in ["SET", "SAVEPOINT", "SET", "RESET", "ROLLBACK"].iter().enumerate() {
        assert_eq!(pending.finished(tag.as_bytes(), text.kind_of(place)), Outcome::Noted);
    }
    pending.keep();
    let changes = pending.take();
    assert!(
        matches!(&*changes, [Change::Set { name, statement }] if name == "role" && statement == "set role a"),
        "{changes:?}"
    );
}

#[test]
fn what_has_been_discarded_stays_so_when_the_rest_fails() {
    let mut pending = Pending::default();
    pending.finished(b"SET", verdict("SET ROLE a").kind_of(0));
    assert_eq!(pending.finished(b"DISCARD ALL", verdict("DISCARD ALL").kind_of(0)), Outcome::Discarded);
    pending.finished(b"SET", verdict("SET work_mem = '1MB'").kind_of(0));
    pending.drop_all();
    assert!(pending.resets("role") && pending.resets("work_mem"));
    assert!(pending.take().iter().all(|change| !matches!(change, Change::Set { .. })));
    assert!(pending.is_empty());
    pending.finished(b"SET", verdict("SET ROLE a").kind_of(0));
    pending.drop_all();
    assert!(pending.is_empty());
}
