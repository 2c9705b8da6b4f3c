//! The requests that were sent to a server, and how far it has answered them.

use wire::backend::{Report, tag};

use crate::model::known::Known;
use crate::model::request::Request;
use crate::model::requests::Requests;

/// The destination of the body of a long message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// To the client.
    On,
    /// The body is dropped.
    Off,
}

/// The requests that were sent to a server, and how far it has answered them.
#[derive(Debug, Default)]
pub struct Exchange {
    /// The requests without an answer.
    pub requests: Requests,
    /// Whether an error has ended the unit at the head: its other requests will not be answered.
    pub failed: bool,
    /// Whether the requests up to the next Sync will not be answered, not even a Query.
    pub skips: bool,
    /// The number of statements of the request at the head that have finished.
    pub finished: usize,
    /// Whether a statement of the unit at the head that may have changed settings has finished; the server reports them
    /// when the unit ends.
    pub has_set: bool,
    /// The number of times that a client has sent requests while none was unanswered.
    pub begun: u64,
    /// Whether the server has answered any of the requests since then.
    pub answered: bool,
    /// Whether the server takes in a COPY.
    pub copying: bool,
    /// The number of bytes of a long message that are still to come, and their destination.
    pub passing: (usize, Option<Passing>),
    /// The error of a statement of the pooler's own.
    pub own_error: Option<Report>,
    /// Whether the requests may have written, and their end has not been seen.
    pub writes: bool,
}

impl Exchange {
    /// Whether a message of this type answers the request at the head.
    pub fn is_answered_by(&self, tag: u8) -> bool {
        matches!(
            (self.requests.front(), tag),
            (Some(Request::Parse { .. }), tag::PARSE_COMPLETE)
                | (Some(Request::Bind(_)), tag::BIND_COMPLETE)
                | (Some(Request::Close | Request::Evict(..)), tag::CLOSE_COMPLETE)
                | (Some(Request::Describe(_) | Request::Check(_)), tag::ROW_DESCRIPTION | tag::NO_DATA)
                | (
                    Some(Request::Execute(_)),
                    tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED
                )
        )
    }

    /// Notes the end of a unit: gives the request that has ended it, and the requests before it that will not be
    /// answered, since an error came first. None if there were no requests.
    pub fn end_unit(&mut self) -> Option<(Request, Vec<Request>)> {
        (self.finished, self.has_set, self.copying) = (0, false, false);
        let skips = std::mem::take(&mut self.skips);
        let mut unanswered = Vec::new();
        loop {
            match self.requests.pop_front()? {
                request if request.ends_failed_unit(skips) => return Some((request, unanswered)),
                request => unanswered.push(request),
            }
        }
    }

    /// Drops ends of COPYs that have no request before them: the server has ignored them.
    pub fn pop_copy_ends(&mut self) {
        while matches!(self.requests.front(), Some(Request::CopyEnd)) {
            self.requests.pop_front();
        }
    }

    /// Notes that the server takes in a COPY; whether its client's unit goes on behind it.
    pub fn take_copy(&mut self) -> bool {
        // The server ignores the Syncs that it finds in the stream of a COPY, which ends where its client ended it.
        let end = self.requests.iter().position(|request| matches!(request, Request::CopyEnd));
        self.copying = end.is_none();
        let mut at = 0;
        self.requests.retain(|request| {
            at += 1;
            !matches!(request, Request::Sync) || end.is_some_and(|end| at > end)
        });
        // The unit goes on, unless the client has ended it behind the COPY; requests since then go on too.
        let extended = matches!(self.requests.front(), Some(Request::Execute(_)));
        extended && !self.requests.iter().any(|request| matches!(request, Request::Sync))
    }

    /// Whether an error has come in a unit of the extended protocol whose Sync has not been sent.
    pub fn skips_to_sync(&self) -> bool {
        self.failed && !self.requests.end_failed_unit(self.skips)
    }

    /// Whether an error is about a prepared statement of the pooler's own: the server does not have it, or has it
    /// unexpectedly, or its plan is stale. Then the next use of the statement prepares it afresh.
    pub fn forgets_statement(&self, known: &mut Known, report: &Report) -> bool {
        let front = self.requests.front();
        let named = match front {
            Some(Request::Bind(statement) | Request::Execute(statement)) => statement.as_ref(),
            Some(Request::Describe(described)) => described.as_ref().map(|described| &described.statement),
            Some(Request::Check(described)) => Some(&described.statement),
            _ => None,
        };
        match (report.code.as_str(), front) {
            ("26000", Some(Request::Bind(_) | Request::Describe(_) | Request::Check(_))) => {
                let Some(statement) = named else { return false };
                known.remove(statement);
            }
            ("42P05", Some(Request::Parse { statement: Some(statement), unnamed: false, .. })) => statement.renew(),
            ("0A000", _) if report.routine == "RevalidateCachedQuery" => {
                let Some(statement) = named else { return false };
                statement.renew();
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(requests: impl IntoIterator<Item = Request>) -> Exchange {
        Exchange { requests: requests.into_iter().collect(), ..Exchange::default() }
    }

    #[test]
    fn behind_an_error_everything_up_to_the_sync_stays_unanswered() {
        let mut exchange = asked([Request::Bind(None), Request::Query(None, None), Request::Sync, Request::Call]);
        exchange.skips = true;
        let (ended, unanswered) = exchange.end_unit().unwrap();
        assert!(matches!(ended, Request::Sync));
        assert_eq!(unanswered.len(), 2, "a Query is skipped too");
        let (ended, unanswered) = exchange.end_unit().unwrap();
        assert!(matches!(ended, Request::Call) && unanswered.is_empty());
        assert!(exchange.end_unit().is_none(), "nothing was asked");
    }

    #[test]
    fn syncs_within_the_stream_of_a_copy_are_not_answered() {
        let mut exchange = asked([Request::Execute(None), Request::Sync, Request::CopyEnd, Request::Sync]);
        assert!(!exchange.take_copy(), "the Sync behind the COPY ends the unit");
        assert!(!exchange.copying);
        assert_eq!(exchange.requests.len(), 3);
        let mut exchange = asked([Request::Execute(None), Request::Sync]);
        assert!(exchange.take_copy() && exchange.copying);
        assert_eq!(exchange.requests.len(), 1);
        let mut exchange = asked([Request::Query(None, None)]);
        assert!(!exchange.take_copy(), "a Query ends by itself");
    }
}
