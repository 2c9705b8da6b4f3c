//! The queue of the requests that a server has not answered. Requests come at its end and leave at its head, so the queue
//! knows without a search whether one of a kind is among them: a client may send thousands before it waits, and each of
//! them asks.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use classify::Verdict;

use crate::model::held::Held;
use crate::model::mark::{MARKS, Mark};
use crate::model::request::{Copies, Request};

/// The memory of the requests, in bytes, from which on their client waits until the server has answered half of them.
/// An answer of the pooler's own sends nothing to the server, so nothing else would make the client wait.
const MOST: usize = 1_048_576;

/// The requests without an answer, in the order in which they were sent.
#[derive(Debug, Default)]
pub struct Requests {
    queue: VecDeque<Request>,
    /// How many have been sent, which is the number of the last one.
    sent: u64,
    /// How many had been sent when the server was last told to send the answers that it has.
    flushed: u64,
    /// The bytes of their names and texts, which a client may make long.
    lengths: usize,
    /// Whether they have had [`MOST`] bytes, and have more than half of that still.
    full: bool,
    /// The number of the latest request with each mark, and 0 if there was none.
    latest: [u64; MARKS],
    /// The number of the latest that has been answered and ends a unit.
    ended: u64,
    /// How many bind a portal, and how many of those have been answered.
    bound: u64,
    bound_and_answered: u64,
}

impl Requests {
    /// Adds a request that was sent.
    pub fn push_back(&mut self, request: Request) {
        // A Query within a unit of the extended protocol: what it ends depends on the version of the server.
        let is_within = self.are_within_unit() && matches!(request, Request::Query(..) | Request::Call { .. });
        // A Sync may end a block that such a Query has opened.
        let ends_block = matches!(request, Request::Sync) && self.latest(Mark::Alone) > 0 && !self.has(Mark::Alone);
        self.sent += 1;
        self.note(&request, self.sent);
        if is_within {
            self.latest[Mark::Alone as usize] = self.sent;
        } else if ends_block {
            self.latest[Mark::Transaction as usize] = self.sent;
            self.latest[Mark::Alone as usize] = 0;
        }
        self.bound += u64::from(matches!(request, Request::Bind(_)));
        self.queue.push_back(request);
        self.full |= self.memory() >= MOST;
    }

    /// Takes the request at the head.
    pub fn pop_front(&mut self) -> Option<Request> {
        let request = self.queue.pop_front()?;
        if request.ends_unit() {
            self.ended = self.sent - self.queue.len() as u64;
        }
        self.lengths = self.lengths.saturating_sub(request.length());
        self.bound_and_answered += u64::from(matches!(request, Request::Bind(_)));
        self.full &= self.memory() > MOST / 2;
        Some(request)
    }

    /// How many portals have been bound, with the last one.
    pub fn bound(&self) -> u64 {
        self.bound
    }

    /// How many of the Binds have been answered, or skipped behind an error.
    pub fn bound_and_answered(&self) -> u64 {
        self.bound_and_answered
    }

    /// Whether there are so many requests that their client has to wait.
    pub fn are_full(&self) -> bool {
        self.full
    }

    /// Whether the server is to be told to send the answers that it has: once behind the same request.
    pub fn are_to_be_flushed(&mut self) -> bool {
        std::mem::replace(&mut self.flushed, self.sent) < self.sent
    }

    /// Notes that the server has got more than the requests.
    pub fn are_to_be_flushed_again(&mut self) {
        self.flushed = 0;
    }

    /// Whether one of the requests has this mark.
    pub fn has(&self, mark: Mark) -> bool {
        self.place(mark).is_some()
    }

    /// Whether one of the requests of the unit that has not been ended has this mark.
    pub fn has_in_unit(&self, mark: Mark) -> bool {
        self.has(mark) && self.latest(mark) > self.latest(Mark::Ends)
    }

    /// Whether a unit has begun that no request has ended. What the pooler has answered at once has begun none.
    pub fn are_within_unit(&self) -> bool {
        self.latest(Mark::Ends) < self.sent
    }

    /// Whether one of the requests of a unit that has been ended has this mark.
    pub fn has_before_unit(&self, mark: Mark) -> bool {
        self.has(mark) && self.has(Mark::Ends) && self.latest(mark) <= self.latest(Mark::Ends)
    }

    /// Whether a statement may begin or end a transaction in a unit whose end has not been answered: the status of the
    /// server is known only then.
    pub fn may_hold_transaction(&self) -> bool {
        self.latest(Mark::Transaction) > self.ended
    }

    /// Whether one of the requests may restore parameters to their values at startup.
    pub fn reset(&self) -> bool {
        // The class of a statement may become known after it was sent. There are few of these: a unit behind one waits.
        self.has(Mark::Resets) && self.queue.iter().any(Request::resets)
    }

    /// Whether the last Parse of the server's statement without a name is of the same unit as the next request, or none
    /// of the requests ends a unit.
    pub fn has_own_unnamed(&self) -> bool {
        !self.has(Mark::Ends) || self.latest(Mark::UnnamedParse) > self.latest(Mark::Ends)
    }

    /// How many COPYs FROM STDIN the latest of the requests that may run any may run: until that is answered, nothing
    /// but a Sync is sent behind it.
    pub fn copies(&self) -> Copies {
        self.place(Mark::Copies).and_then(|place| self.queue.get(place)).map_or(Copies::No, Request::copies)
    }

    /// Whether all requests only name or describe statements.
    pub fn only_name(&self) -> bool {
        !self.has(Mark::Acts) && !self.has(Mark::Ends)
    }

    /// Whether a portal has been bound in the unit that has not been ended, answered or not, whatever has become of the
    /// portal.
    pub fn have_acted(&self) -> bool {
        self.latest(Mark::Acts) > self.latest(Mark::Ends)
    }

    fn latest(&self, mark: Mark) -> u64 {
        self.latest[mark as usize]
    }

    /// The place in the queue of the latest request with a mark.
    fn place(&self, mark: Mark) -> Option<usize> {
        let behind = usize::try_from(self.sent - self.latest(mark)).unwrap_or(usize::MAX);
        self.queue.len().checked_sub(behind)?.checked_sub(1)
    }

    fn memory(&self) -> usize {
        self.queue.len().saturating_mul(size_of::<Request>()).saturating_add(self.lengths)
    }

    fn note(&mut self, request: &Request, number: u64) {
        let marks = request.marks();
        let latest = self.latest.iter_mut().enumerate().filter(|(mark, _)| marks & 1 << mark != 0);
        latest.for_each(|(_, latest)| *latest = number);
        self.lengths = self.lengths.saturating_add(request.length());
    }

    /// Corrects the class of the last request, if that is a Query of a known class.
    pub fn amend_query(&mut self, amend: impl FnOnce(&mut Verdict)) -> Option<Arc<Verdict>> {
        let Some(Request::Query(Some(verdict), _)) = self.queue.back_mut() else { return None };
        amend(Arc::make_mut(verdict));
        let (verdict, marks) = (verdict.clone(), self.queue.back()?.marks());
        // Its end can only add to what it may do.
        let latest = self.latest.iter_mut().enumerate().filter(|(mark, _)| marks & 1 << mark != 0);
        latest.for_each(|(_, latest)| *latest = self.sent);
        Some(verdict)
    }

    /// Changes which statement their client had without a name before the first of the requests that are about it; `is_own`
    /// tells by its number whether a unit is of that client. Gives the number of the request's unit, if there is one.
    pub fn replace_unnamed(&mut self, before: &Option<Rc<Held>>, is_own: impl Fn(usize) -> bool) -> Option<usize> {
        let last = self.place(Mark::Unnamed)?;
        let mut unit = 0;
        for request in self.queue.iter_mut().take(last + 1) {
            let (ends, length) = (request.ends_unit(), request.length());
            if let Some(place) = request.unnamed_before().filter(|_| is_own(unit)) {
                place.clone_from(before);
                self.lengths = self.lengths.saturating_sub(length).saturating_add(request.length());
                return Some(unit);
            }
            unit += usize::from(ends);
        }
        None
    }
}

/// Requests that were not run, since an error came first, with whether each was skipped, and whether it ends its unit: the
/// first request of a unit has failed. `skips`: the error came before all of them.
pub fn undone<T: Borrow<Request>>(
    requests: impl IntoIterator<Item = T>,
    mut skips: bool,
) -> impl Iterator<Item = (Undone, T)> {
    requests.into_iter().map(move |request| {
        let (skipped, ends_unit) = (skips, request.borrow().ends_unit());
        skips = !ends_unit;
        (Undone { skipped, ends_unit }, request)
    })
}

/// The part of a request in a unit that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undone {
    /// Whether the server has skipped the request; else it has failed.
    pub skipped: bool,
    /// Whether the unit ends with it.
    pub ends_unit: bool,
}

impl Deref for Requests {
    type Target = VecDeque<Request>;

    fn deref(&self) -> &VecDeque<Request> {
        &self.queue
    }
}

impl Extend<Request> for Requests {
    fn extend<T: IntoIterator<Item = Request>>(&mut self, requests: T) {
        requests.into_iter().for_each(|request| self.push_back(request));
    }
}

impl FromIterator<Request> for Requests {
    fn from_iter<T: IntoIterator<Item = Request>>(requests: T) -> Self {
        let mut all = Self::default();
        all.extend(requests);
        all
    }
}

impl IntoIterator for Requests {
    type Item = Request;
    type IntoIter = std::collections::vec_deque::IntoIter<Request>;

    fn into_iter(self) -> Self::IntoIter {
        self.queue.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::lexing::Lexing;
    use crate::model::request::Described;
    use crate::model::statement::Statements;
    use classify::Classifier;

    #[test]
    fn a_request_that_sets_is_known_until_it_is_answered() {
        let mut requests = Requests::default();
        assert!(!requests.has(Mark::SetsReading));
        requests.push_back(Request::Sync);
        assert!(!requests.has(Mark::SetsReading));
        requests.push_back(Request::Call { large_objects: false });
        requests.extend((0..100).map(|_| Request::Sync));
        assert!(requests.has(Mark::SetsReading));
        requests.pop_front();
        assert!(requests.has(Mark::SetsReading), "the call is at the head");
        requests.pop_front();
        assert!(!requests.has(Mark::SetsReading));
    }

    #[test]
    fn the_answers_to_binds_are_counted() {
        let mut requests: Requests = [Request::Sync, Request::Bind(None), Request::Sync].into_iter().collect();
        for count in [0, 0, 1, 1] {
            assert_eq!((requests.bound(), requests.bound_and_answered()), (1, count));
            requests.pop_front();
        }
    }

    #[test]
    fn their_client_waits_from_a_limit_on_until_half_of_it_is_answered() {
        let long = || Request::Invented { tag: b'3', name: Some([b'x'; 1000].into()), closed: None };
        let mut requests = Requests::default();
        while !requests.are_full() {
            requests.push_back(long());
        }
        let most = requests.len();
        assert!((500..=1050).contains(&most), "long names count: {most}");
        assert!(requests.are_to_be_flushed() && !requests.are_to_be_flushed(), "once");
        while requests.are_full() {
            requests.pop_front();
        }
        assert!(requests.len() <= most / 2 && requests.len() > most / 2 - 2, "{} of {most}", requests.len());
        assert!(!requests.are_to_be_flushed(), "nothing was sent since");
        requests.extend((0..most).map(|_| long()));
        assert!(requests.are_full());
        while requests.pop_front().is_some() {}
        assert!(!requests.are_full());
        requests.extend((0..32_000).map(|_| Request::Sync));
        assert!(requests.are_full(), "short ones count too");
    }

    #[test]
    fn what_a_unit_has_run_counts_until_its_sync() {
        let mut requests = Requests::default();
        requests.push_back(Request::Describe(None));
        assert!(!requests.have_acted());
        requests.extend([Request::Bind(None), Request::Close]);
        while requests.pop_front().is_some() {}
        assert!(requests.have_acted(), "also when all is answered");
        requests.push_back(Request::Sync);
        requests.pop_front();
        requests.push_back(Request::Close);
        assert!(!requests.have_acted());
    }

    /// The request with this number, of nearly all kinds.
    fn request(number: usize) -> Request {
        let class = |sql: &str| Some(Arc::new((**Classifier::new(1).classify(sql.as_bytes(), true)).clone()));
        let query = |sql| Request::Query(class(sql), None);
        let parse = |name: &[u8], unnamed, hidden| Request::Parse {
            name: (!name.is_empty()).then(|| name.into()),
            statement: None,
            copy: 0,
            unnamed,
            hidden,
            taken: None,
            before: None,
        };
        match number % 23 {
            0 => query("BEGIN"),
            1 => query("COMMIT"),
            2 => query("SELECT 1"),
            3 => query("SET work_mem = 1"),
            4 => query("RESET ALL"),
            5 => query("DISCARD ALL"),
            6 => query("DEALLOCATE ALL"),
            7 => Request::Query(None, None),
            8 => Request::Call { large_objects: false },
            9 => Request::HiddenSync,
            10 => parse(b"", true, false),
            11 => parse(b"s", false, false),
            12 => parse(b"", true, true),
            13 => Request::Execute(None),
            14 => Request::Invented { tag: b'3', name: None, closed: None },
            15 => Request::Invented { tag: b'3', name: Some((*b"s").into()), closed: None },
            16 => {
                let statement = Statements::default().share(b"SELECT 1", 0, Lexing::Conforming);
                Request::Check(Described { held: Held::new(statement.clone()), statement, copy: 0 })
            }
            17 => Request::Restore { ends_unit: true },
            18 => Request::Sync,
            19 => query("COPY a FROM STDIN"),
            20 => Request::Refuse,
            21 => Request::Settle,
            _ => Request::Bind(None),
        }
    }

    /// What is asked about the requests, each as it is known and as a search finds it.
    fn asked(requests: &Requests) -> Vec<(bool, bool)> {
        let any = |is: &dyn Fn(&Request) -> bool| requests.iter().any(is);
        let own_unnamed = || {
            for request in requests.iter().rev() {
                match request {
                    Request::Parse { unnamed: true, .. } => return true,
                    request if request.ends_unit() => return false,
                    _ => (),
                }
            }
            true
        };
        let place = |is: &dyn Fn(&Request) -> bool| requests.iter().rposition(is);
        let unsettles = || {
            let unnamed = place(&Request::is_about_unnamed);
            unnamed.is_some() && place(&Request::ends_unit) >= unnamed
        };
        let place_of = |mark: Mark| place(&|request| request.marks() & 1 << mark as u32 != 0);
        let last_end = || place_of(Mark::Ends);
        let marks = [
            Mark::SetsReading,
            Mark::MaySet,
            Mark::LeavesOpen,
            Mark::Forgets,
            Mark::Names,
            Mark::Unnamed,
            Mark::Ends,
            Mark::Copies,
            Mark::Check,
            Mark::Acts,
        ];
        let mut all: Vec<_> = marks.iter().map(|mark| (requests.has(*mark), place_of(*mark).is_some())).collect();
        let forgets = place_of(Mark::Forgets);
        all.extend([
            (requests.reset(), any(&Request::resets)),
            (requests.has_own_unnamed(), own_unnamed()),
            (requests.has_before_unit(Mark::Unnamed), unsettles()),
            (requests.has_in_unit(Mark::Forgets), forgets.is_some() && forgets > last_end()),
            (requests.only_name(), place_of(Mark::Acts).is_none() && last_end().is_none()),
        ]);
        all
    }

    #[test]
    fn the_statement_without_a_name_is_replaced_in_the_next_request_about_it() {
        let held = || {
            let statement = Statements::default().share(b"SELECT 1\0\0\0", 0, Lexing::Conforming);
            Some(Held::new(statement))
        };
        let parse = |before| Request::Parse {
            name: None,
            statement: None,
            copy: 0,
            unnamed: true,
            hidden: false,
            taken: None,
            before,
        };
        let invented = |closed| Request::Invented { tag: b'3', name: None, closed };
        let mut requests: Requests =
            [Request::Bind(None), Request::Sync, parse(held()), Request::Sync, invented(None), Request::Sync]
                .into_iter()
                .collect();
        let first = held();
        assert_eq!(requests.replace_unnamed(&first, |unit| unit == 3), None, "that unit is of another client");
        assert_eq!(requests.replace_unnamed(&None, |_| true), Some(1));
        assert!(matches!(&requests[2], Request::Parse { before: None, .. }));
        assert_eq!(requests.replace_unnamed(&first, |unit| unit == 2), Some(2));
        assert!(matches!(&requests[4], Request::Invented { closed: Some(_), .. }));
        while requests.pop_front().is_some() {}
        assert_eq!(requests.lengths, 0);
        assert_eq!(requests.replace_unnamed(&first, |_| true), None);
    }

    #[test]
    fn a_transaction_is_uncertain_up_to_the_end_of_the_unit() {
        let mut requests: Requests =
            [Request::Sync, Request::Bind(None), Request::Execute(None), Request::Sync, Request::Bind(None)]
                .into_iter()
                .collect();
        let mut uncertain = || {
            requests.pop_front();
            requests.may_hold_transaction()
        };
        assert_eq!([(); 5].map(|()| uncertain()), [true, true, true, false, false]);
    }

    #[test]
    fn behind_the_first_of_a_unit_that_fails_all_are_skipped_up_to_its_end() {
        let requests = [Request::Bind(None), Request::Execute(None), Request::Sync, Request::Query(None, None)];
        let ends = |skips| undone(&requests, skips).map(|(undone, _)| undone.ends_unit).collect::<Vec<_>>();
        let skipped = |skips| undone(&requests, skips).map(|(undone, _)| undone.skipped).collect::<Vec<_>>();
        assert_eq!(ends(false), [false, false, true, true]);
        assert_eq!(skipped(false), [false, true, true, false]);
        assert_eq!((ends(true), skipped(true)), (ends(false), vec![true, true, true, false]));
    }

    #[test]
    fn a_query_within_a_unit_stands_alone() {
        let is_alone = |requests: &[fn() -> Request]| {
            let mut all = Requests::default();
            for request in requests {
                all.push_back(request());
                all.pop_front();
            }
            all.push_back(Request::Query(None, None));
            all.has(Mark::Alone)
        };
        assert!(!is_alone(&[]) && !is_alone(&[|| Request::Query(None, None)]));
        assert!(is_alone(&[|| Request::Execute(None)]), "also where what stands before it is answered");
        assert!(!is_alone(&[|| Request::Execute(None), || Request::Sync]));
        let mut requests: Requests = [Request::guard(), Request::Sync].into_iter().collect();
        assert!(requests.has(Mark::Alone));
        while requests.pop_front().is_some() {}
        requests.push_back(Request::Sync);
        assert!(requests.may_hold_transaction(), "it may end the block of such a Query");
        requests.pop_front();
        requests.push_back(Request::Sync);
        assert!(!requests.may_hold_transaction());
    }

    #[test]
    fn what_is_known_is_what_a_search_would_find() {
        let mut requests = Requests::default();
        let (mut random, mut seen) = (1_u32, [[false; 2]; 15]);
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (random >> 16) as usize;
            // Half of the time most requests are dull, so that none of a kind may be among many.
            match (number / 32) % 4 {
                0 | 1 if requests.len() > 1 => _ = requests.pop_front(),
                _ => requests.push_back(request(number)),
            }
            let bound = requests.iter().filter(|request| matches!(request, Request::Bind(_))).count() as u64;
            assert_eq!(requests.bound(), requests.bound_and_answered() + bound);
            for (place, (known, found)) in asked(&requests).into_iter().enumerate() {
                assert_eq!(known, found, "question {place} of {requests:?}");
                seen[place][usize::from(found)] = true;
            }
        }
        assert_eq!(seen, [[true; 2]; 15], "each answer was given");
    }
}
