//! The queue of the requests that a server has not answered. Requests come at its end and leave at its head, so the queue
//! knows without a search whether one of them changes settings: a client may send thousands before it waits.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use classify::Verdict;

use crate::model::request::Request;

/// The requests without an answer, in the order in which they were sent.
#[derive(Debug, Default)]
pub struct Requests {
    queue: VecDeque<Request>,
    set_reading: Latest,
    may_set: Latest,
}

/// The latest request of a kind: the number of requests that were sent after it. If there was none, that is all of them.
#[derive(Debug, Default)]
struct Latest(usize);

impl Latest {
    fn sent(&mut self, is_of_kind: bool) {
        self.0 = if is_of_kind { 0 } else { self.0.saturating_add(1) };
    }

    /// Whether one of the kind is among the last `count` requests.
    fn is_within(&self, count: usize) -> bool {
        self.0 < count
    }
}

impl Requests {
    /// Adds a request that was sent.
    pub fn push_back(&mut self, request: Request) {
        self.note(&request);
        self.queue.push_back(request);
    }

    /// Takes the request at the head.
    pub fn pop_front(&mut self) -> Option<Request> {
        self.queue.pop_front()
    }

    /// Whether one of the requests changes by its own text how its session reads literals.
    pub fn set_reading(&self) -> bool {
        self.set_reading.is_within(self.queue.len())
    }

    /// Whether one of the requests may change how its session reads statements.
    pub fn may_set(&self) -> bool {
        self.may_set.is_within(self.queue.len())
    }

    /// Corrects the class of the last request, if that is a Query of a known class.
    pub fn amend_query(&mut self, amend: impl FnOnce(&mut Verdict)) -> Option<Arc<Verdict>> {
        let Some(Request::Query(Some(verdict), _)) = self.queue.back_mut() else { return None };
        amend(Arc::make_mut(verdict));
        let verdict = verdict.clone();
        self.note_again();
        Some(verdict)
    }

    /// Drops the requests for which `keep` is false.
    pub fn retain(&mut self, keep: impl FnMut(&Request) -> bool) {
        self.queue.retain(keep);
        self.note_again();
    }

    fn note(&mut self, request: &Request) {
        self.set_reading.sent(request.sets_reading());
        self.may_set.sent(request.may_set());
    }

    fn note_again(&mut self) {
        let queue = std::mem::take(&mut self.queue);
        queue.iter().for_each(|request| self.note(request));
        self.queue = queue;
    }
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

    #[test]
    fn a_request_that_sets_is_known_until_it_is_answered() {
        let mut requests = Requests::default();
        assert!(!requests.set_reading());
        requests.push_back(Request::Sync);
        assert!(!requests.set_reading());
        requests.push_back(Request::Call);
        requests.extend((0..100).map(|_| Request::Sync));
        assert!(requests.set_reading());
        requests.pop_front();
        assert!(requests.set_reading(), "the call is at the head");
        requests.pop_front();
        assert!(!requests.set_reading());
        let mut requests: Requests = [Request::Call, Request::Sync, Request::Sync].into_iter().collect();
        requests.retain(|request| !matches!(request, Request::Sync));
        assert!(requests.set_reading(), "what was dropped stood behind it");
        requests.retain(|_| false);
        assert!(!requests.set_reading());
    }
}
