//! What matters of a request while it is not answered, as marks: the queue knows the latest request with each mark
//! ([`Requests`](crate::model::requests::Requests)), so nothing searches the queue, which may have thousands of requests.

use classify::Verdict;

use crate::model::request::{Copies, Request, forgets, may_leave_open, may_set, resets};
use crate::model::session::sets_reading;

/// What matters of a request while it is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It may change how its session reads statements: the text of one, or what it calls.
    SetsReading,
    /// It may change that, or how the session finds names.
    MaySet,
    /// It may begin or end a transaction.
    Transaction,
    /// It may open a transaction block.
    LeavesOpen,
    /// It may restore parameters to their values at startup.
    Resets,
    /// It may forget prepared statements.
    Forgets,
    /// Names of statements depend on its answer.
    Names,
    /// It changes which statement its client has without a name.
    Unnamed,
    /// It prepares the server's statement without a name.
    UnnamedParse,
    /// It ends a unit.
    Ends,
    /// It may take in a COPY.
    Copies,
    /// It is a question of the pooler's own for the shape of a statement.
    Check,
    /// It binds a portal or runs it: what it has done is committed by the next Sync.
    Acts,
    /// Nothing is sent behind it.
    Alone,
}

/// The number of marks.
pub const MARKS: usize = Mark::Alone as usize + 1;

impl Request {
    /// The marks of the request, a bit each.
    pub fn marks(&self) -> u32 {
        let mut marks = 0;
        let mut note = |mark: Mark, has: bool| marks |= u32::from(has) << mark as u32;
        if self.runs() {
            let verdict = self.verdict();
            let may = |holds: fn(&Verdict) -> bool| verdict.as_deref().is_none_or(holds);
            let is_call = matches!(self, Self::Call { .. });
            note(Mark::SetsReading, may(sets_reading));
            note(Mark::MaySet, may(may_set));
            // What a FunctionCall calls is in no transaction block of its own, and forgets no names.
            note(Mark::Transaction, !is_call && may(|verdict| verdict.transaction));
            note(Mark::LeavesOpen, !is_call && may(may_leave_open));
            note(Mark::Forgets, !is_call && may(forgets));
            let is_execute = matches!(self, Self::Execute(_));
            note(Mark::Resets, verdict.as_deref().map_or(is_execute, resets));
            note(Mark::Copies, self.copies() != Copies::No);
        }
        note(Mark::Names, self.is_about_names());
        note(Mark::Unnamed, self.is_about_unnamed());
        note(Mark::UnnamedParse, matches!(self, Self::Parse { unnamed: true, .. }));
        note(Mark::Ends, self.ends_unit());
        note(Mark::Check, matches!(self, Self::Check(_)));
        note(Mark::Acts, matches!(self, Self::Bind(_) | Self::Execute(_) | Self::Refuse));
        note(Mark::Alone, self.is_guard());
        marks
    }
}
