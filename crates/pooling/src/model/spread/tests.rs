use super::*;

const FREE: Bounds = Bounds { least: 1, most: 8 };

fn busy(spread: &mut Spread, name: &str, busy: f64) {
    for member in spread.members(name).to_vec() {
        spread.report(member, busy, &[(name.to_owned(), 1)].into());
    }
    spread.decide();
}

fn enter(spread: &mut Spread, name: &str, count: usize) {
    for _ in 0..count {
        spread.enter(name, FREE, 0).unwrap();
    }
}

#[test]
fn databases_are_spread_evenly_and_keep_their_workers() {
    let mut spread = Spread::new(3);
    let names: Vec<String> = (0..8).map(|number| format!("db{number}")).collect();
    names.iter().for_each(|name| spread.settle(name, FREE));
    names.iter().for_each(|name| spread.settle(name, FREE));
    let dealt: Vec<_> = names.iter().map(|name| spread.first(name).unwrap()).collect();
    assert_eq!(dealt, [1, 2, 0, 1, 2, 0, 1, 2]);
    assert_eq!(spread.first("other"), None, "asking gives no worker");
}

#[test]
fn a_database_is_forgotten_by_its_first_worker_and_only_without_clients() {
    let mut spread = Spread::new(2);
    ["a", "b", "c", "e"].iter().for_each(|name| spread.settle(name, FREE));
    assert_eq!(spread.enter("e", FREE, 0), Ok(0));
    let mut gone = spread.forget(1, |name| name == "c");
    gone.sort();
    assert_eq!(gone, ["a"]);
    assert_eq!(spread.forget(0, |_| false), ["b"], "e has a client");
    spread.leave("e", 0);
    assert_eq!(spread.forget(0, |_| false), ["e"]);
    assert_eq!(spread.members("c"), [1]);
    spread.settle("f", Bounds { least: 2, most: 2 });
    let [first, other] = spread.members("f") else { panic!("{spread:?}") };
    let (first, other) = (*first, *other);
    assert_eq!(spread.forget(other, |name| name == "c"), [""; 0]);
    assert_eq!(spread.forget(first, |name| name == "c"), ["f"]);
}

#[test]
fn a_database_has_no_more_clients_than_it_may_have_on_all_workers() {
    let mut spread = Spread::new(4);
    let two = Bounds { least: 2, most: 2 };
    assert_eq!(
        [spread.enter("d", two, 3), spread.enter("d", two, 3), spread.enter("d", two, 3)],
        [Ok(1), Ok(2), Ok(1)]
    );
    assert_eq!(spread.enter("d", two, 3), Err(Full));
    spread.leave("d", 2);
    assert_eq!(spread.enter("d", two, 3), Ok(2));
}

#[test]
fn a_busy_database_keeps_within_bounds_that_have_become_less() {
    let mut spread = Spread::new(8);
    enter(&mut spread, "d", 64);
    (0..3).for_each(|_| busy(&mut spread, "d", 0.9));
    assert_eq!(spread.members("d").len(), 8);
    spread.settle("d", Bounds { least: 1, most: 2 });
    busy(&mut spread, "d", 0.9);
    assert_eq!(spread.members("d").len(), 2);
}

#[test]
fn a_busy_database_gets_twice_as_many_workers_and_a_calm_one_half() {
    let mut spread = Spread::new(8);
    enter(&mut spread, "d", 64);
    busy(&mut spread, "d", 0.6);
    assert_eq!(spread.members("d").len(), 1);
    for members in [2, 4, 8, 8] {
        busy(&mut spread, "d", 0.9);
        assert_eq!(spread.members("d").len(), members);
    }
    for _ in 1..ROUNDS {
        busy(&mut spread, "d", 0.1);
        assert_eq!(spread.members("d").len(), 8);
    }
    busy(&mut spread, "d", 0.1);
    assert_eq!(spread.members("d").len(), 4);
}

#[test]
fn few_clients_stay_with_one_worker_however_busy() {
    let mut spread = Spread::new(8);
    enter(&mut spread, "d", 15);
    busy(&mut spread, "d", 1.0);
    assert_eq!(spread.members("d").len(), 1);
    enter(&mut spread, "d", 1);
    busy(&mut spread, "d", 1.0);
    assert_eq!(spread.members("d").len(), 2);
}

#[test]
fn what_another_database_costs_spreads_nobody() {
    let mut spread = Spread::new(1);
    enter(&mut spread, "a", 50);
    enter(&mut spread, "b", 50);
    let mut spread = Spread { workers: 4, ..spread };
    spread.busy.resize(4, 0.0);
    spread.databases.values_mut().for_each(|database| {
        database.clients.resize(4, 0);
        database.load.resize(4, 0.0);
    });
    spread.report(0, 0.9, &[("a".to_owned(), 900), ("b".to_owned(), 100)].into());
    assert_eq!(spread.decide(), [("a".to_owned(), 2)]);
}

#[test]
fn clients_move_until_members_have_about_as_many() {
    let mut spread = Spread::new(2);
    enter(&mut spread, "d", 64);
    let first = spread.first("d").unwrap();
    assert_eq!(spread.excess("d", first), []);
    busy(&mut spread, "d", 1.0);
    let other = spread.members("d")[1];
    assert_eq!(spread.excess("d", first), [Excess { clients: 32, to: other }]);
    (0..30).for_each(|_| spread.change("d", first, other));
    assert!(spread.excess("d", first).is_empty() && spread.excess("d", other).is_empty(), "about as many");
    // The clients of a worker that serves the database no longer all go.
    (0..ROUNDS).for_each(|_| busy(&mut spread, "d", 0.0));
    assert_eq!(spread.excess("d", other), [Excess { clients: 30, to: first }]);
}

#[test]
fn clients_of_one_worker_move_to_all_others() {
    let mut spread = Spread::new(4);
    enter(&mut spread, "d", 16);
    let first = spread.first("d").unwrap();
    spread.settle("d", Bounds { least: 4, most: 4 });
    spread.decide();
    let excess = spread.excess("d", first);
    assert_eq!(excess.iter().map(|excess| excess.clients).collect::<Vec<_>>(), [4, 4, 4]);
}

#[test]
fn a_single_worker_serves_all() {
    let mut spread = Spread::new(1);
    let many = Bounds { least: 4, most: 8 };
    spread.settle("a", many);
    spread.settle("b", many);
    assert_eq!((spread.members("a"), spread.members("b")), (&[0][..], &[0][..]));
}
