use super::*;

#[test]
fn databases_are_spread_evenly_and_keep_their_workers() {
    let mut spread = Spread::new(3);
    let names: Vec<String> = (0..8).map(|number| format!("db{number}")).collect();
    names.iter().for_each(|name| spread.settle(name, 1));
    names.iter().for_each(|name| spread.settle(name, 1));
    let dealt: Vec<_> = names.iter().map(|name| spread.first(name).unwrap()).collect();
    assert_eq!(dealt, [1, 2, 0, 1, 2, 0, 1, 2]);
    assert_eq!(spread.first("other"), None, "asking gives no worker");
}

#[test]
fn a_database_is_forgotten_by_its_first_worker_and_only_without_clients() {
    let mut spread = Spread::new(2);
    ["a", "b", "c", "e"].iter().for_each(|name| spread.settle(name, 1));
    assert_eq!(spread.enter(("e", "u"), 9, 0), Ok(0));
    let mut gone = spread.forget(1, |name| name == "c");
    gone.sort();
    assert_eq!(gone, ["a"]);
    assert_eq!(spread.forget(0, |_| false), ["b"], "e has a client");
    spread.leave(("e", "u"), 0);
    assert_eq!(spread.forget(0, |_| false), ["e"]);
    assert_eq!(spread.members("c"), [1]);
    spread.settle("f", 2);
    let [first, other] = spread.members("f") else { panic!("{spread:?}") };
    let (first, other) = (*first, *other);
    assert_eq!(spread.forget(other, |name| name == "c"), [""; 0]);
    assert_eq!(spread.forget(first, |name| name == "c"), ["f"]);
}

#[test]
fn a_database_has_no_more_clients_than_it_may_have_on_all_workers() {
    let mut spread = Spread::new(4);
    spread.settle("d", 2);
    assert_eq!([(); 3].map(|()| spread.enter(("d", "u"), 9, 3)), [Ok(1), Ok(2), Ok(1)]);
    assert_eq!(spread.enter(("d", "u"), 9, 3), Err(Full));
    spread.leave(("d", "u"), 2);
    assert_eq!(spread.enter(("d", "u"), 9, 3), Ok(2));
}

#[test]
fn a_client_waits_for_no_connection_while_its_pool_has_one_elsewhere() {
    let mut spread = Spread::new(4);
    spread.settle("d", 3);
    let mut clients: Vec<(&str, usize)> = Vec::new();
    for number in 0..1000_usize {
        let user = ["u", "v"][number * 7 % 11 % 2];
        let size = if user == "u" { 7 } else { 2 };
        if clients.iter().filter(|(other, _)| *other == user).count() < size {
            clients.push((user, spread.enter(("d", user), size, 0).unwrap()));
        }
        for (place, member) in spread.members("d").iter().enumerate() {
            let here = clients.iter().filter(|client| **client == (user, *member)).count();
            assert!(here <= spread.share("d", *member, size), "{user} at the member {place}");
        }
        if number % 3 > 0 {
            let (user, worker) = clients.swap_remove(number * 31 % clients.len());
            spread.leave(("d", user), worker);
        }
    }
}

#[test]
fn clients_beyond_the_size_of_their_pool_come_to_all_that_have_a_share() {
    let mut spread = Spread::new(3);
    spread.settle("d", 3);
    let members = spread.members("d").to_vec();
    let mut entered = [(); 30].map(|()| spread.enter(("d", "u"), 2, 0).unwrap());
    entered.sort();
    let of = |member: usize| entered.iter().filter(|worker| **worker == member).count();
    assert_eq!([of(members[0]), of(members[1]), of(members[2])], [15, 15, 0]);
}

#[test]
fn the_shares_of_all_workers_are_the_whole() {
    let mut spread = Spread::new(5);
    spread.settle("d", 3);
    for all in 0..20 {
        let shares: Vec<usize> = spread.members("d").iter().map(|member| spread.share("d", *member, all)).collect();
        assert_eq!(shares.iter().sum::<usize>(), all);
        assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
    }
    assert_eq!(spread.share("d", 0, 8), 0);
    assert_eq!(spread.share("e", 0, 8), 8);
}

#[test]
fn a_database_keeps_its_workers_while_it_has_clients() {
    let mut spread = Spread::new(4);
    spread.settle("d", 2);
    let worker = spread.enter(("d", "u"), 9, 0).unwrap();
    spread.settle("d", 1);
    spread.settle("d", 4);
    assert_eq!(spread.members("d").len(), 2);
    spread.leave(("d", "u"), worker);
    spread.settle("d", 4);
    assert_eq!(spread.members("d").len(), 4);
    spread.settle("d", 1);
    assert_eq!(spread.members("d").len(), 1);
}
