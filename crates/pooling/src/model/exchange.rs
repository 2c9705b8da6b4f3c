//! The requests that were sent to a server, and how far it has answered them.

use std::time::Instant;

use wire::backend::{Report, tag};
use wire::sqlstate;

use crate::model::gate::Before;
use crate::model::known::Known;
use crate::model::mark::Mark;
use crate::model::request::{Copies, Request};
use crate::model::requests::Requests;

/// The destination of the body of a long message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// To the client.
    On,
    /// The body is dropped.
    Off,
}

/// How far the COPY FROM STDIN of the request at the head has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Copying {
    /// The server takes in no COPY.
    #[default]
    No,
    /// The server takes in lines, and the client has not ended them.
    Open {
        /// The number of Syncs that the client has sent behind its last line. The server ignores a Sync within a COPY
        /// and answers one behind the error that has ended it, so the server gets them when such an error has come.
        syncs: usize,
        /// Whether the client has sent no line.
        early: bool,
    },
    /// The lines have ended, and the server has not answered that.
    Ended {
        /// The number of Syncs that the server gets when an error has come: the pooler has ended lines behind which the
        /// client had sent them, and then another message.
        syncs: usize,
    },
}

impl Copying {
    /// Whether the server takes in lines.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// The number of Syncs that are to be answered now that an error has ended the COPY. Behind a line the server reads
    /// on only after it has looked at the line; before the first line only a trigger of the statement fails. (A
    /// cancellation and a timeout strike when the next line has come.)
    pub fn failed(self) -> usize {
        match self {
            Self::Open { syncs, .. } | Self::Ended { syncs } => syncs,
            Self::No => 0,
        }
    }

    /// The same where the server has died: it may have waited for the first line, and has ignored a Sync before that.
    pub fn lost(self) -> usize {
        if matches!(self, Self::Open { early: true, .. }) { 0 } else { self.failed() }
    }
}

/// The requests that were sent to a server, and how far it has answered them.
#[derive(Debug, Default)]
pub struct Exchange {
    /// The requests without an answer.
    pub requests: Requests,
    /// Whether an error has ended the unit at the head: its other requests will not be answered.
    pub failed: bool,
    /// The number of statements of the request at the head that have finished.
    pub finished: usize,
    /// Whether a statement of the unit at the head that may have changed settings has finished; the server reports them
    /// when the unit ends.
    pub has_set: bool,
    /// The number of times that a client has sent requests while none was unanswered.
    pub begun: u64,
    /// Whether the server has answered any of the requests since then.
    pub answered: bool,
    /// How far the COPY of the request at the head has come.
    pub copying: Copying,
    /// The number of bytes of a long message that are still to come, and their destination.
    pub passing: (usize, Option<Passing>),
    /// The error of a statement of the pooler's own.
    pub own_error: Option<Report>,
    /// Whether the requests may have written, and their end has not been seen.
    pub writes: bool,
    /// What has come of the statement at the head so far.
    pub ran: Ran,
}

/// What has come of a statement so far, for the counts by shape.
#[derive(Debug, Default)]
pub struct Ran {
    /// Whether it has ended: a unit may only prepare statements.
    pub ended: bool,
    /// The rows that command tags count.
    pub rows: u64,
    /// The SQLSTATE of the error.
    pub error: Option<[u8; 5]>,
    /// The end of the statement before it in its unit, if there was one.
    pub since: Option<Instant>,
}

impl Ran {
    /// Notes the end of a statement, and the rows that its tag counts, if it has one.
    pub fn end(&mut self, tag: &[u8]) {
        self.ended = true;
        let digits = tag.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |place| place + 1);
        let count = tag.get(digits..).unwrap_or_default().iter();
        let count = count.fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
        self.rows = self.rows.saturating_add(count);
    }
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
        self.head_is_done();
        self.has_set = false;
        let mut unanswered = Vec::new();
        loop {
            match self.requests.pop_front()? {
                request if request.ends_unit() => return Some((request, unanswered)),
                request => unanswered.push(request),
            }
        }
    }

    /// Notes that the request at the head has been answered.
    pub fn head_is_done(&mut self) {
        (self.finished, self.copying) = (0, Copying::No);
    }

    /// Whether the request at the head has failed, and those behind it up to the end of its unit will be skipped: the
    /// server reads on to the next Sync.
    pub fn skips(&self) -> bool {
        self.failed && self.requests.front().is_some_and(|request| !request.ends_unit())
    }

    /// Whether an error has come in a unit of the extended protocol whose Sync has not been sent.
    pub fn skips_to_sync(&self) -> bool {
        self.failed && !self.requests.has(Mark::Ends)
    }

    /// Notes that the client has ended the lines that the server takes in.
    pub fn end_copy(&mut self) {
        self.copying = Copying::Ended { syncs: 0 };
        self.requests.are_to_be_flushed_again();
    }

    /// What of the COPY that may be under way the next message of the client waits for.
    pub fn copy_before(&self) -> Before {
        match (self.copying, self.requests.copies()) {
            (Copying::Open { .. }, _) => Before::COPY | Before::COPY_END,
            (_, Copies::No) => Before::NOTHING,
            // Whether the COPY succeeds or has failed, the server answers a Sync behind its end.
            (Copying::Ended { syncs: 0 }, Copies::One) => Before::COPY | Before::COPY_START,
            _ => Before::COPY | Before::COPY_START | Before::COPY_END,
        }
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
            (
                sqlstate::INVALID_SQL_STATEMENT_NAME,
                Some(Request::Bind(_) | Request::Describe(_) | Request::Check(_)),
            ) => {
                let Some(statement) = named else { return false };
                known.remove(statement);
            }
            (
                sqlstate::DUPLICATE_PSTATEMENT,
                Some(Request::Parse { statement: Some(statement), unnamed: false, .. }),
            ) => statement.renew(),
            (sqlstate::FEATURE_NOT_SUPPORTED, _) if report.routine == "RevalidateCachedQuery" => {
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
    use std::sync::Arc;

    use classify::{Classifier, Verdict};

    use super::*;
    use crate::model::lexing::Lexing;
    use crate::model::statement::Statements;

    fn asked(requests: impl IntoIterator<Item = Request>) -> Exchange {
        Exchange { requests: requests.into_iter().collect(), ..Exchange::default() }
    }

    #[test]
    fn behind_an_error_everything_up_to_the_sync_stays_unanswered() {
        let mut exchange =
            asked([Request::Bind(None), Request::Execute(None), Request::Sync, Request::Call { large_objects: true }]);
        let (ended, unanswered) = exchange.end_unit().unwrap();
        assert!(matches!(ended, Request::Sync));
        assert_eq!(unanswered.len(), 2);
        let (ended, unanswered) = exchange.end_unit().unwrap();
        assert!(matches!(ended, Request::Call { .. }) && unanswered.is_empty());
        assert!(exchange.end_unit().is_none(), "nothing was asked");
    }

    #[test]
    fn a_unit_that_fails_is_skipped_up_to_its_sync() {
        let mut exchange = asked([Request::Execute(None)]);
        exchange.failed = true;
        assert!(exchange.skips() && exchange.skips_to_sync());
        exchange.requests.push_back(Request::Sync);
        assert!(exchange.skips() && !exchange.skips_to_sync(), "the Sync is on its way");
        let mut exchange = asked([Request::Query(None, None)]);
        exchange.failed = true;
        assert!(!exchange.skips() && !exchange.skips_to_sync(), "a Query ends its unit itself");
    }

    fn class(sql: &str) -> Option<Arc<Verdict>> {
        Some(Classifier::new(1).classify(sql.as_bytes(), true).clone())
    }

    fn copy(sql: &str) -> Request {
        Request::Query(class(sql), None)
    }

    fn execute(sql: &str) -> Request {
        let definition = [sql.as_bytes(), b"\0\0\0"].concat();
        Request::Execute(Some(Statements::default().share(&definition, 0, Lexing::Conforming)))
    }

    const ONE: &str = "COPY a FROM STDIN";
    const TWO: &str = "COPY a FROM STDIN; COPY b FROM STDIN";
    const ALL: Before = Before::COPY.and(Before::COPY_START).and(Before::COPY_END);

    #[test]
    fn all_waits_behind_what_may_copy_until_the_server_has_said_whether_it_does() {
        for request in [copy(ONE), copy(TWO), Request::Query(None, None), execute(ONE), Request::Execute(None)] {
            assert_eq!(asked([request]).copy_before(), ALL);
        }
        assert_eq!(asked([copy(ONE), Request::Sync]).copy_before(), ALL);
        for other in
            ["SELECT 1", "COPY a TO STDOUT", "COPY a FROM '/x'", "SET a.b = 'c'; SELECT 2", "SELECT 1; SELECT 2"]
        {
            assert_eq!(asked([copy(other)]).copy_before(), Before::NOTHING, "{other}");
        }
        assert_eq!(
            asked([execute("SELECT 1")]).copy_before(),
            Before::NOTHING,
            "no other is a COPY, even of unknown class"
        );
    }

    #[test]
    fn a_sync_goes_behind_the_end_of_the_only_copy() {
        let taken = |request| {
            let mut exchange = asked([request]);
            exchange.copying = Copying::Open { syncs: 0, early: true };
            let open = exchange.copy_before();
            exchange.end_copy();
            (open, exchange.copy_before())
        };
        let open = Before::COPY.and(Before::COPY_END);
        assert_eq!(taken(execute(ONE)), (open, Before::COPY.and(Before::COPY_START)));
        assert_eq!(taken(copy(ONE)), (open, Before::COPY.and(Before::COPY_START)));
        assert_eq!(taken(copy(TWO)), (open, ALL), "the second COPY may come");
        let mut exchange = asked([copy(ONE)]);
        exchange.copying = Copying::Ended { syncs: 1 };
        assert_eq!(exchange.copy_before(), ALL, "an error will come");
    }
}
