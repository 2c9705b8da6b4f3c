//! The queue of the requests that a server has not answered. Requests come at its end and leave at its head, so the queue
//! knows without a search whether one of a kind is among them: a client may send thousands before it waits, and each of
//! them asks.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use classify::Verdict;
use wire::backend::Status;

use crate::model::held::Held;
use crate::model::request::{Copies, Request, forgets, may_leave_open, may_set, resets};
use crate::model::session::sets_reading;

/// The memory of the requests, in bytes, from which on their client waits until the server has answered half of them.
/// An answer of the pooler's own sends nothing to the server, so nothing else would make the client wait.
const MOST: usize = 1_048_576;

/// The requests without an answer, in the order in which they were sent.
#[derive(Debug, Default)]
pub struct Requests {
    queue: VecDeque<Request>,
    /// The number of the last request.
    last: Latest,
    /// How much memory they have.
    room: Room,
    /// The latest of the requests that run statements, by what these may do.
    runs: Runs,
    /// The latest of the requests that are about names, and the same within a transaction that has failed.
    names: [Latest; 2],
    /// The latest that changes which statement its client has without a name.
    unnamed: Latest,
    /// The latest Parse of the server's statement without a name.
    unnamed_parse: Latest,
    /// The latest that ends a unit, and the latest that ends one whose requests are skipped.
    ends: [Latest; 2],
    /// The latest that has been answered and ends a unit.
    ended: Latest,
    /// The latest that may take in one COPY, the latest that may take in several, and the latest end of one.
    copies: Copying,
    /// The latest question of the pooler's own for the shape of a statement.
    check: Latest,
    /// The latest that does more than to name or describe statements.
    more_than_names: Latest,
    /// The latest that binds a portal or runs it: what it has done is committed by the next Sync.
    acts: Latest,
    counts: Counts,
}

/// Numbers of requests, from the first on.
#[derive(Debug, Default)]
struct Counts {
    /// All that were sent.
    sent: u64,
    /// Those that bind a portal, and those of them that have been answered.
    bound: u64,
    bound_and_answered: u64,
    /// Those of the extended protocol that have been answered and begin a transaction if none is open.
    begun: u64,
}

/// The memory of requests.
#[derive(Debug, Default)]
struct Room {
    /// The bytes of their names and texts, which a client may make long.
    lengths: usize,
    /// Whether they have had [`MOST`] bytes, and have more than half of that still.
    full: bool,
    /// Whether the server was told to send the answers that it has, since then.
    flushed: bool,
}

impl Room {
    fn taken(&self, requests: usize) -> usize {
        requests.saturating_mul(size_of::<Request>()).saturating_add(self.lengths)
    }
}

/// The latest requests that run statements which may do this.
#[derive(Debug, Default)]
struct Runs {
    set_reading: Latest,
    may_set: Latest,
    transaction: Latest,
    leave_open: Latest,
    reset: Latest,
}

/// The latest of the requests that concern a COPY FROM STDIN.
#[derive(Debug, Default)]
struct Copying {
    one: Latest,
    many: Latest,
    end: Latest,
}

/// The latest request of a kind: its number. Requests are numbered from 1 on, so 0 is none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Latest(u64);

impl Requests {
    /// Adds a request that was sent.
    pub fn push_back(&mut self, request: Request) {
        self.note(&request);
        self.counts.sent += 1;
        self.counts.bound += u64::from(matches!(request, Request::Bind(_)));
        self.queue.push_back(request);
        self.room.full |= self.room.taken(self.queue.len()) >= MOST;
    }

    /// Takes the request at the head.
    pub fn pop_front(&mut self) -> Option<Request> {
        let request = self.queue.pop_front()?;
        if request.ends_unit() {
            self.ended = Latest(self.last.0 - self.queue.len() as u64);
        }
        self.room.lengths = self.room.lengths.saturating_sub(request.length());
        self.counts.bound_and_answered += u64::from(matches!(request, Request::Bind(_)));
        self.counts.begun += u64::from(request.begins_implicitly());
        self.drain();
        Some(request)
    }

    /// How many requests have been sent.
    pub fn sent(&self) -> u64 {
        self.counts.sent
    }

    /// How many of the answered requests were of the extended protocol and have begun a transaction, if none was open.
    pub fn begun(&self) -> u64 {
        self.counts.begun
    }

    /// How many portals have been bound, with the last one.
    pub fn bound(&self) -> u64 {
        self.counts.bound
    }

    /// How many of the Binds have been answered, or skipped behind an error.
    pub fn bound_and_answered(&self) -> u64 {
        self.counts.bound_and_answered
    }

    /// The last request that is more than the end of a COPY.
    pub fn last(&self) -> Option<&Request> {
        self.queue.iter().rev().find(|request| !matches!(request, Request::CopyEnd))
    }

    /// Whether there are so many requests that their client has to wait.
    pub fn are_full(&self) -> bool {
        self.room.full
    }

    /// Whether the server is to be told to send the answers that it has: once each time that the client has to wait.
    pub fn are_to_be_flushed(&mut self) -> bool {
        !std::mem::replace(&mut self.room.flushed, true)
    }

    /// Whether one of the requests may change how its session reads statements: the text of one, or what it calls.
    pub fn set_reading(&self) -> bool {
        self.has(self.runs.set_reading)
    }

    /// Whether one of the requests may change how its session reads statements, or how it finds names.
    pub fn may_set(&self) -> bool {
        self.has(self.runs.may_set)
    }

    /// Whether a statement may begin or end a transaction in a unit whose end has not been answered: the status of the
    /// server is known only then.
    pub fn may_hold_transaction(&self) -> bool {
        self.runs.transaction > self.ended
    }

    /// Whether one of the requests may be a statement that opens a transaction block.
    pub fn may_leave_open(&self) -> bool {
        self.has(self.runs.leave_open)
    }

    /// Whether one of the requests may restore parameters to their values at startup.
    pub fn reset(&self) -> bool {
        // The class of a statement may become known after it was sent. There are few of these: a unit behind one waits.
        self.has(self.runs.reset) && self.queue.iter().any(Request::resets)
    }

    /// Whether names of statements depend on the answer to one of the requests.
    pub fn are_about_names(&self, status: Status) -> bool {
        let [names, of_failed] = self.names;
        self.has(if status == Status::Failed { of_failed } else { names })
    }

    /// Whether one of the requests changes which statement its client has without a name.
    pub fn are_about_unnamed(&self) -> bool {
        self.has(self.unnamed)
    }

    /// Whether the answer to one of the requests changes which statement the next request means that has no name: a
    /// request of an earlier unit does, which an error may have it skip.
    pub fn unsettle_unnamed(&self) -> bool {
        let [end, _] = self.ends;
        self.has(self.unnamed) && self.has(end) && end >= self.unnamed
    }

    /// Whether the last Parse of the server's statement without a name is of the same unit as the next request, or none
    /// of the requests ends a unit.
    pub fn has_own_unnamed(&self) -> bool {
        let [end, _] = self.ends;
        !self.has(end) || self.unnamed_parse > end
    }

    /// Whether one of the requests ends a unit that has failed, as [`Request::ends_failed_unit`] says it.
    pub fn end_failed_unit(&self, skips: bool) -> bool {
        let [end, skipped] = self.ends;
        self.has(if skips { skipped } else { end })
    }

    /// Whether the last of the requests that end a unit is no Sync.
    pub fn query_since_sync(&self) -> bool {
        let [end, sync] = self.ends;
        self.has(end) && end > sync
    }

    /// Whether one of the requests may take in a COPY whose end is not among the requests behind it. `ended`: the client
    /// has ended the one that the request at the head takes in.
    pub fn may_copy(&self, ended: bool) -> bool {
        let Copying { one, many, end } = self.copies;
        let is_ended = end > one || ended && self.place(one) == Some(0);
        self.has(many) || self.has(one) && !is_ended
    }

    /// Whether one of the requests is the pooler's own question for the shape of a statement.
    pub fn check(&self) -> bool {
        self.has(self.check)
    }

    /// Whether all requests only name or describe statements.
    pub fn only_name(&self) -> bool {
        !self.has(self.more_than_names)
    }

    /// Whether a portal has been bound since the last Sync, answered or not, whatever has become of the portal.
    pub fn have_acted(&self) -> bool {
        let [_, sync] = self.ends;
        self.acts > sync
    }

    fn has(&self, latest: Latest) -> bool {
        self.place(latest).is_some()
    }

    /// The place of a request in the queue, unless it has been answered.
    fn place(&self, latest: Latest) -> Option<usize> {
        let behind = usize::try_from(self.last.0 - latest.0).unwrap_or(usize::MAX);
        self.queue.len().checked_sub(behind)?.checked_sub(1)
    }

    /// Corrects the class of the last request, if that is a Query of a known class.
    pub fn amend_query(&mut self, amend: impl FnOnce(&mut Verdict)) -> Option<Arc<Verdict>> {
        let Some(Request::Query(Some(verdict), _)) = self.queue.back_mut() else { return None };
        amend(Arc::make_mut(verdict));
        let verdict = verdict.clone();
        self.note_again();
        Some(verdict)
    }

    /// Changes which statement their client had without a name before the first of the requests that are about it; `is_own`
    /// tells by its number whether a unit is of that client. Gives the number of the request's unit, if there is one.
    pub fn replace_unnamed(&mut self, before: &Option<Rc<Held>>, is_own: impl Fn(usize) -> bool) -> Option<usize> {
        let last = self.place(self.unnamed)?;
        let mut unit = 0;
        for request in self.queue.iter_mut().take(last + 1) {
            let (ends, length) = (request.ends_unit(), request.length());
            if let Some(place) = request.unnamed_before().filter(|_| is_own(unit)) {
                place.clone_from(before);
                self.room.lengths = self.room.lengths.saturating_sub(length).saturating_add(request.length());
                return Some(unit);
            }
            unit += usize::from(ends);
        }
        None
    }

    /// Drops the end of the COPY of the request at the head, if it has been sent: answers of the pooler's own may stand
    /// between them, of which the server gets nothing. Whether it has been.
    pub fn take_copy_end(&mut self) -> bool {
        let mut behind = self.queue.iter().enumerate().skip(1);
        let next = behind.find(|(_, request)| !matches!(request, Request::Invented { .. }));
        let Some((place, Request::CopyEnd)) = next else { return false };
        self.queue.remove(place);
        self.note_again();
        true
    }

    fn note(&mut self, request: &Request) {
        let this = Latest(self.last.0 + 1);
        let note = |latest: &mut Latest, is_of_kind: bool| {
            if is_of_kind {
                *latest = this;
            }
        };
        self.last = this;
        if request.runs() {
            let verdict = request.verdict();
            let may = |holds: fn(&Verdict) -> bool| verdict.as_deref().is_none_or(holds);
            let is_call = matches!(request, Request::Call { .. });
            note(&mut self.runs.set_reading, may(sets_reading));
            note(&mut self.runs.may_set, may(may_set));
            // What a FunctionCall calls is in no transaction block of its own, and forgets no names.
            note(&mut self.runs.transaction, !is_call && may(|verdict| verdict.transaction));
            note(&mut self.runs.leave_open, !is_call && may(may_leave_open));
            let resets = match request {
                Request::Execute(_) => may(resets),
                _ => verdict.as_deref().is_some_and(resets),
            };
            note(&mut self.runs.reset, resets);
            let forgets = !is_call && may(forgets);
            self.names.iter_mut().for_each(|latest| note(latest, forgets));
            let copies = request.copies();
            note(&mut self.copies.many, copies == Copies::Many);
            note(&mut self.copies.one, copies == Copies::One);
        } else {
            for (latest, status) in self.names.iter_mut().zip([Status::Idle, Status::Failed]) {
                note(latest, request.is_about_names(status));
            }
        }
        note(&mut self.copies.end, matches!(request, Request::CopyEnd));
        note(&mut self.unnamed, request.is_about_unnamed());
        note(&mut self.unnamed_parse, matches!(request, Request::Parse { unnamed: true, .. }));
        for (latest, skips) in self.ends.iter_mut().zip([false, true]) {
            note(latest, request.ends_failed_unit(skips));
        }
        note(&mut self.check, matches!(request, Request::Check(_)));
        note(&mut self.more_than_names, !request.only_names());
        note(&mut self.acts, matches!(request, Request::Bind(_) | Request::Execute(_)));
        self.room.lengths = self.room.lengths.saturating_add(request.length());
    }

    fn note_again(&mut self) {
        let queue = std::mem::take(&mut self.queue);
        self.room.lengths = 0;
        queue.iter().for_each(|request| self.note(request));
        self.queue = queue;
        self.drain();
    }

    /// Notes that requests are gone.
    fn drain(&mut self) {
        if self.room.taken(self.queue.len()) <= MOST / 2 {
            (self.room.full, self.room.flushed) = (false, false);
        }
    }
}

/// Requests that were not run, since an error came first, with whether each was skipped, and whether it ends its unit: the
/// first request of a unit has failed, and behind an error of the extended protocol only a Sync ends a unit. `skips`: the
/// error came before all of them.
pub fn undone<T: Borrow<Request>>(
    requests: impl IntoIterator<Item = T>,
    mut skips: bool,
) -> impl Iterator<Item = (Undone, T)> {
    requests.into_iter().map(move |request| {
        let (skipped, ends_unit) = (skips, request.borrow().ends_failed_unit(skips));
        // Behind a COPY that has failed, a server ignores its lines and their end.
        skips = if matches!(request.borrow(), Request::CopyEnd) { skips } else { !ends_unit };
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
        assert!(!requests.set_reading());
        requests.push_back(Request::Sync);
        assert!(!requests.set_reading());
        requests.push_back(Request::Call { large_objects: false });
        requests.extend((0..100).map(|_| Request::Sync));
        assert!(requests.set_reading());
        requests.pop_front();
        assert!(requests.set_reading(), "the call is at the head");
        requests.pop_front();
        assert!(!requests.set_reading());
        let call = || Request::Call { large_objects: false };
        let mut requests: Requests = [call(), Request::CopyEnd, Request::Bind(None), call()].into_iter().collect();
        assert!(requests.take_copy_end() && !requests.take_copy_end());
        assert!(requests.set_reading() && requests.len() == 3);
        let answered = [0, 0, 1, 1].map(|count| {
            assert_eq!((requests.bound(), requests.bound_and_answered()), (1, count), "numbers stay");
            requests.pop_front();
            requests.set_reading()
        });
        assert_eq!(answered, [true, true, false, false]);
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
        assert!(requests.are_to_be_flushed(), "the next time again");
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
            20 => Request::CopyEnd,
            21 => Request::Settle,
            _ => Request::Bind(None),
        }
    }

    /// What is asked about the requests, each as it is known and as a search finds it.
    fn asked(requests: &Requests) -> Vec<(bool, bool)> {
        let any = |is: &dyn Fn(&Request) -> bool| requests.iter().any(is);
        let may = |request: &Request, holds: fn(&Verdict) -> bool| {
            matches!(request, Request::Query(..) | Request::Execute(_))
                && request.verdict().as_deref().is_none_or(holds)
        };
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
        let may_copy = |ended: bool| {
            let [one, many] = [Copies::One, Copies::Many].map(|copies| place(&|request| request.copies() == copies));
            let end = place(&|request| matches!(request, Request::CopyEnd));
            many.is_some() || one.is_some() && end < one && !(ended && one == Some(0))
        };
        let mut all = vec![
            (
                requests.set_reading(),
                any(&|request| matches!(request, Request::Call { .. }) || may(request, sets_reading)),
            ),
            (requests.may_set(), any(&Request::may_set)),
            (requests.has(requests.runs.transaction), any(&|request| may(request, |verdict| verdict.transaction))),
            (requests.may_leave_open(), any(&|request| may(request, may_leave_open))),
            (requests.reset(), any(&Request::resets)),
            (requests.are_about_unnamed(), any(&Request::is_about_unnamed)),
            (requests.has_own_unnamed(), own_unnamed()),
            (requests.unsettle_unnamed(), unsettles()),
            (requests.may_copy(false), may_copy(false)),
            (requests.may_copy(true), may_copy(true)),
            (requests.check(), any(&|request| matches!(request, Request::Check(_)))),
            (requests.only_name(), requests.iter().all(Request::only_names)),
        ];
        for status in [Status::Idle, Status::Transaction, Status::Failed] {
            all.push((requests.are_about_names(status), any(&|request| request.is_about_names(status))));
        }
        for skips in [false, true] {
            all.push((requests.end_failed_unit(skips), any(&|request| request.ends_failed_unit(skips))));
        }
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
        assert_eq!(requests.room.lengths, 0);
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
    fn behind_an_error_of_the_extended_protocol_only_a_sync_ends_a_unit() {
        let query = || Request::Query(None, None);
        let requests = [Request::Bind(None), query(), Request::Sync, query(), query(), Request::Sync];
        let ends = |skips| undone(&requests, skips).map(|(undone, _)| undone.ends_unit).collect::<Vec<_>>();
        let skipped = |skips| undone(&requests, skips).map(|(undone, _)| undone.skipped).collect::<Vec<_>>();
        assert_eq!(ends(false), [false, false, true, true, true, true]);
        assert_eq!(skipped(false), [false, true, true, false, false, false]);
        assert_eq!(ends(true), ends(false));
        assert_eq!(skipped(true), [true, true, true, false, false, false]);
        let copied = [query(), Request::CopyEnd, query(), Request::CopyEnd, Request::Sync];
        assert_eq!(undone(&copied, false).filter(|(undone, _)| undone.ends_unit).count(), 3);
    }

    #[test]
    fn what_is_known_is_what_a_search_would_find() {
        let mut requests = Requests::default();
        let (mut random, mut seen) = (1_u32, [[false; 2]; 17]);
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (random >> 16) as usize;
            // Half of the time most requests are dull, so that none of a kind may be among many.
            match (number / 32) % 4 {
                0 | 1 if requests.len() > 1 => _ = requests.pop_front(),
                2 if number.is_multiple_of(64) => _ = requests.take_copy_end(),
                _ => requests.push_back(request(number)),
            }
            let bound = requests.iter().filter(|request| matches!(request, Request::Bind(_))).count() as u64;
            assert_eq!(requests.bound(), requests.bound_and_answered() + bound);
            for (place, (known, found)) in asked(&requests).into_iter().enumerate() {
                assert_eq!(known, found, "question {place} of {requests:?}");
                seen[place][usize::from(found)] = true;
            }
        }
        assert_eq!(seen, [[true; 2]; 17], "each answer was given");
    }
}
