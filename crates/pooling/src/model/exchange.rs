//! The requests that were sent to a server, and how far it has answered them.

use std::time::Instant;

use wire::backend::{Report, Status, tag};

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
    /// How far the COPY of the request at the head has come.
    pub copying: Copying,
    /// How many requests had been sent when the client last sent a line that the server did not take in yet.
    pub lines_behind: u64,
    /// Whether the client has sent a Sync that the server gets when it is certain that the server will answer it.
    pub sync_waits: bool,
    /// The number of bytes of a long message that are still to come, and their destination.
    pub passing: (usize, Option<Passing>),
    /// The error of a statement of the pooler's own.
    pub own_error: Option<Report>,
    /// Whether the requests may have written, and their end has not been seen.
    pub writes: bool,
    /// What is known of the block that is open.
    pub block: Block,
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

/// A change of the transaction block that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A statement has opened a block.
    Opened,
    /// A statement has ended a block, as far as its tag shows: with AND CHAIN the tag is the same.
    Ended,
}

/// What is known of the transaction block that is open.
#[derive(Debug, Default)]
pub struct Block {
    /// The last change by a statement of the unit at the head.
    pub change: Option<Change>,
    /// The number of requests that had begun a transaction ([`Requests::begun`]) when the server came to lose the block:
    /// if none follows up to its end, the server rolls the block back, and says so to the next command only.
    pub lost: Option<u64>,
    /// The same number at the end of the last unit.
    begun: u64,
}

impl Exchange {
    /// Notes that a unit has ended, with a Sync or not, by which the status of the session has become `after`. Whether the
    /// transaction that has ended is rolled back though the server says nothing of that.
    ///
    /// PostgreSQL 18 opens a block at a Query behind an Execute without a Sync; a Sync that follows at once ends the block,
    /// commits nothing of it, and the next command fails: no other client may get the connection. A block of the client's
    /// own outlasts the Sync, and a Query may end either.
    pub fn loses_block(&mut self, before: Status, after: Status, is_sync: bool) -> bool {
        let (change, begun) = (self.block.change.take(), self.requests.begun());
        let is_behind = std::mem::replace(&mut self.block.begun, begun) < begun;
        match after {
            Status::Idle => return self.block.lost.take() == Some(begun) && is_sync,
            Status::Transaction if !is_sync && change != Some(Change::Opened) => {
                let is_new = before == Status::Idle || change == Some(Change::Ended);
                if is_new && is_behind || self.block.lost.is_some() {
                    self.block.lost = Some(begun);
                }
            }
            _ => self.block.lost = None,
        }
        false
    }

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

    /// Whether the server must see a Parse of a statement that it has: the server refuses one in a block that
    /// has failed, as one may have by what is not answered yet, and does not lose a block behind one. `status` is the last
    /// that the server has told.
    pub fn must_parse(&self, status: Status) -> bool {
        let in_block = status != Status::Idle || self.requests.may_hold_transaction();
        let may_fail = self.requests.query_since_sync() || in_block && self.requests.end_failed_unit(false);
        // Within a COPY a Parse would end the session.
        self.block.lost.is_some() || may_fail && !self.requests.may_copy(matches!(self.copying, Copying::Ended { .. }))
    }

    /// Notes the end of a unit: gives the request that has ended it, and the requests before it that will not be
    /// answered, since an error came first. None if there were no requests.
    pub fn end_unit(&mut self) -> Option<(Request, Vec<Request>)> {
        (self.finished, self.has_set, self.copying) = (0, false, Copying::No);
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

    /// Notes that the server takes in a COPY, whose end the client may have sent already. Other requests behind its lines
    /// are of a client that takes the COPY to have failed.
    pub fn take_copy(&mut self) {
        self.copying = if self.requests.take_copy_end() {
            Copying::Ended { syncs: 0 }
        } else {
            let waits = self.requests.len() == 1 && std::mem::take(&mut self.sync_waits);
            // Lines behind an earlier request are of another COPY.
            Copying::Open { syncs: usize::from(waits), early: self.lines_behind != self.requests.sent() }
        };
        self.lines_behind = 0;
    }

    /// Whether the client takes the COPY that has just begun to have failed, and nothing that the server gets tells the
    /// server so: the pooler answers all messages behind the COPY itself, or they wait.
    pub fn is_given_up(&self) -> bool {
        let mut behind = self.requests.iter().skip(1);
        let silent = |request: &Request| matches!(request, Request::Invented { .. } | Request::Sync);
        self.copying.is_open() && self.requests.len() > 1 && behind.all(silent)
    }

    /// The number of Syncs behind the last line that the server takes in, if all that the client sends is of that COPY.
    /// Once it has sent another request, it takes the COPY to have failed.
    pub fn syncs_of_lines(&mut self) -> Option<&mut usize> {
        match &mut self.copying {
            Copying::Open { syncs, .. } if self.requests.len() == 1 => Some(syncs),
            _ => None,
        }
    }

    /// Notes that the client has sent a line.
    pub fn take_line(&mut self) {
        if self.syncs_of_lines().is_some() {
            self.copying = Copying::Open { syncs: 0, early: false };
        } else {
            self.lines_behind = self.requests.sent();
        }
    }

    /// Whether the Sync that waits is to be sent now.
    pub fn sync_is_due(&mut self) -> bool {
        let is_due = self.sync_waits && !self.may_ignore_sync();
        self.sync_waits &= !is_due;
        is_due
    }

    /// Notes that the client has ended the lines of a COPY that is under way, or of one that may come: the server ignores
    /// an end of none, and the request before it takes that end with it.
    pub fn end_copy(&mut self) {
        if self.syncs_of_lines().is_some() {
            self.copying = Copying::Ended { syncs: 0 };
        } else if !self.requests.is_empty() {
            self.requests.push_back(Request::CopyEnd);
        }
    }

    /// Whether the server may be within a COPY when a Sync comes that is sent now, and so ignore the Sync, or may have met
    /// an error before and answer the Sync. What has been answered of the requests does not show which.
    pub fn may_ignore_sync(&self) -> bool {
        self.requests.may_copy(matches!(self.copying, Copying::Ended { .. })) && !self.skips_to_sync()
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
        let mut exchange = asked([
            Request::Bind(None),
            Request::Query(None, None),
            Request::Sync,
            Request::Call { large_objects: true },
        ]);
        exchange.skips = true;
        let (ended, unanswered) = exchange.end_unit().unwrap();
        assert!(matches!(ended, Request::Sync));
        assert_eq!(unanswered.len(), 2, "a Query is skipped too");
        let (ended, unanswered) = exchange.end_unit().unwrap();
        assert!(matches!(ended, Request::Call { .. }) && unanswered.is_empty());
        assert!(exchange.end_unit().is_none(), "nothing was asked");
    }

    #[test]
    fn a_block_is_lost_that_a_query_behind_an_execute_has_opened_and_a_sync_ends() {
        use Status::{Idle, Transaction};
        let query = || Request::Query(None, None);
        let end = |exchange: &mut Exchange, before, after| {
            let (ended, _) = exchange.end_unit().unwrap();
            exchange.loses_block(before, after, matches!(ended, Request::Sync))
        };
        let mut exchange = asked([Request::Bind(None), Request::Execute(None), query(), Request::Sync]);
        exchange.requests.pop_front();
        exchange.requests.pop_front();
        assert!(!end(&mut exchange, Idle, Transaction) && exchange.block.lost.is_some());
        assert!(end(&mut exchange, Transaction, Idle));
        exchange.requests.extend([query(), Request::Sync]);
        assert!(!end(&mut exchange, Idle, Transaction), "as behind COMMIT AND CHAIN: nothing has begun before it");
        assert!(exchange.block.lost.is_none());
        assert!(!end(&mut exchange, Transaction, Idle));
        exchange.requests.extend([Request::Execute(None), query(), Request::Sync]);
        exchange.requests.pop_front();
        exchange.block.change = Some(Change::Opened);
        assert!(!end(&mut exchange, Idle, Transaction) && exchange.block.lost.is_none(), "the client's own");
        assert!(!end(&mut exchange, Transaction, Transaction), "it outlasts the Sync");
        exchange.requests.extend([Request::Execute(None), Request::Execute(None), query(), Request::Sync]);
        exchange.requests.pop_front();
        exchange.requests.pop_front();
        exchange.block.change = Some(Change::Ended);
        assert!(!end(&mut exchange, Transaction, Transaction) && exchange.must_parse(Transaction));
        assert!(end(&mut exchange, Transaction, Idle), "its COMMIT came first");
        assert!(!exchange.must_parse(Idle));
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

    #[test]
    fn a_sync_waits_until_the_server_has_said_whether_it_takes_in_a_copy() {
        assert!(asked([copy(ONE)]).may_ignore_sync());
        assert!(asked([copy(TWO)]).may_ignore_sync());
        assert!(asked([Request::Query(None, None)]).may_ignore_sync(), "its class is unknown");
        assert!(asked([copy("SELECT 1"), execute(ONE), copy("SELECT 1")]).may_ignore_sync(), "of unknown class too");
        assert!(!asked([execute("SELECT 1")]).may_ignore_sync(), "no other is a COPY, even of unknown class");
        for other in
            ["SELECT 1", "COPY a TO STDOUT", "COPY a FROM '/x'", "SET a.b = 'c'; SELECT 2", "SELECT 1; SELECT 2"]
        {
            assert!(!asked([copy(other)]).may_ignore_sync(), "{other}");
        }
    }

    #[test]
    fn behind_an_error_a_sync_is_answered_for_certain() {
        let mut exchange = asked([execute(ONE)]);
        assert!(exchange.may_ignore_sync());
        (exchange.failed, exchange.skips) = (true, true);
        assert!(!exchange.may_ignore_sync());
        exchange.requests.extend([Request::Sync, execute(ONE)]);
        assert!(exchange.may_ignore_sync(), "that is another unit");
    }

    #[test]
    fn behind_the_end_of_the_only_copy_a_sync_is_answered_for_certain() {
        assert!(!asked([copy(ONE), Request::CopyEnd]).may_ignore_sync());
        assert!(asked([copy(ONE), Request::CopyEnd, copy(ONE)]).may_ignore_sync());
        let mut exchange = asked([copy(ONE)]);
        exchange.take_copy();
        assert!(exchange.copying.is_open());
        exchange.end_copy();
        assert!(!exchange.may_ignore_sync() && exchange.requests.len() == 1);
        exchange.requests.push_back(copy(ONE));
        assert!(exchange.may_ignore_sync(), "another COPY");
        assert!(exchange.end_unit().is_some() && exchange.copying == Copying::No);
    }

    #[test]
    fn a_parse_is_sent_where_the_server_may_refuse_it() {
        let query = |sql: &str| asked([copy(sql)]);
        assert!(query("SELECT 1/0").must_parse(Status::Transaction));
        assert!(!query(ONE).must_parse(Status::Transaction), "it may be within the COPY");
        assert!(asked([Request::Sync]).must_parse(Status::Transaction), "the unit may have failed");
        assert!(!asked([Request::Sync]).must_parse(Status::Idle) && !asked([]).must_parse(Status::Transaction));
    }

    #[test]
    fn a_sync_that_waits_is_sent_or_becomes_part_of_a_copy() {
        let mut exchange = asked([execute(ONE)]);
        exchange.sync_waits = true;
        assert!(!exchange.sync_is_due());
        (exchange.failed, exchange.skips) = (true, true);
        assert!(exchange.sync_is_due() && !exchange.sync_is_due(), "once");
        let mut exchange = asked([copy(TWO), Request::CopyEnd]);
        exchange.sync_waits = true;
        exchange.take_copy();
        assert!(exchange.sync_waits && !exchange.sync_is_due(), "it stands behind the end of the first COPY");
        exchange.take_copy();
        assert!(!exchange.sync_waits && exchange.copying == Copying::Open { syncs: 1, early: true });
        let mut exchange = asked([copy("SELECT 1; COPY a FROM STDIN")]);
        exchange.sync_waits = true;
        assert!(exchange.end_unit().is_some() && exchange.sync_is_due());
    }

    #[test]
    fn a_copy_has_the_lines_that_came_behind_its_request() {
        let is_early = |exchange: &mut Exchange| {
            exchange.take_copy();
            exchange.copying == Copying::Open { syncs: 0, early: true }
        };
        let mut exchange = asked([copy("SELECT 1"), execute(ONE)]);
        exchange.take_line();
        assert!(exchange.end_unit().is_some());
        assert!(!is_early(&mut exchange), "the unit before it has ended meanwhile");
        let mut exchange = asked([copy("SELECT 1")]);
        exchange.take_line();
        exchange.requests.push_back(copy(ONE));
        assert!(exchange.end_unit().is_some());
        assert!(is_early(&mut exchange), "those lines are of none");
    }

    #[test]
    fn a_copy_is_given_up_if_only_the_pooler_answers_what_follows() {
        let close = || Request::Invented { tag: tag::CLOSE_COMPLETE, name: None, closed: None };
        for (behind, given_up) in [
            (vec![], false),
            (vec![close()], true),
            (vec![close(), Request::Sync, close()], true),
            (vec![Request::CopyEnd, close()], false),
            (vec![close(), Request::CopyEnd], false),
            (vec![close(), close(), Request::CopyEnd, Request::CopyEnd], false),
            (vec![close(), copy(ONE)], false),
        ] {
            let mut exchange = asked([copy(ONE)].into_iter().chain(behind));
            assert!(!exchange.is_given_up(), "the server has not said that it takes in a COPY");
            exchange.take_copy();
            assert_eq!(exchange.is_given_up(), given_up, "{:?}", exchange.requests);
        }
    }

    #[test]
    fn the_end_of_a_copy_may_stand_behind_answers_of_the_pooler() {
        let close = || Request::Invented { tag: tag::CLOSE_COMPLETE, name: None, closed: None };
        let mut exchange = asked([copy(TWO), close(), Request::CopyEnd]);
        exchange.take_copy();
        assert!(exchange.copying == (Copying::Ended { syncs: 0 }) && exchange.requests.len() == 2);
        exchange.take_copy();
        assert!(exchange.copying.is_open() && exchange.is_given_up(), "the second has no end");
    }

    #[test]
    fn each_copy_of_a_query_takes_the_end_that_is_its_own() {
        let mut exchange = asked([copy(TWO)]);
        exchange.end_copy();
        assert!(exchange.may_ignore_sync(), "the second one may come");
        exchange.take_copy();
        assert!(
            exchange.copying == (Copying::Ended { syncs: 0 })
                && exchange.requests.len() == 1
                && exchange.may_ignore_sync()
        );
        exchange.take_copy();
        assert!(exchange.copying.is_open(), "the end was that of the first");
        let mut exchange = asked([copy(ONE), copy(ONE), Request::CopyEnd]);
        exchange.sync_waits = true;
        exchange.take_copy();
        assert!(
            exchange.copying.is_open() && exchange.sync_waits,
            "the end is that of the second, if the first has failed"
        );
        let mut exchange = asked([copy(TWO), Request::CopyEnd, Request::CopyEnd]);
        exchange.take_copy();
        assert!(exchange.copying == (Copying::Ended { syncs: 0 }) && exchange.requests.len() == 2);
        exchange.take_copy();
        assert!(exchange.copying == (Copying::Ended { syncs: 0 }) && exchange.requests.len() == 1);
    }
}
