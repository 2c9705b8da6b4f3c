//! What a server was asked and has not answered.

use std::rc::Rc;
use std::sync::Arc;

use classify::{Discard, Kind, Value, Verdict};
use wire::backend::Status;

use crate::model::known::Prepared;
use crate::model::statement::Statement;

/// What was asked of the server and has not been answered, in order.
#[derive(Debug)]
pub enum Request {
    /// A client's Query, what is known of it, and the client's statement without a name, which it ends unless it is
    /// skipped.
    Query(Option<Arc<Verdict>>, Option<Rc<Statement>>),
    /// A client's FunctionCall.
    Call,
    /// A client's Sync.
    Sync,
    /// A Sync of ours in place of a client's Flush: the answer is not for the client.
    HiddenSync,
    /// The end of the client's part of a COPY, whether or not the server takes one in.
    CopyEnd,
    /// A Parse; `hidden` when the client did not send it, so that the answer is not for it.
    Parse {
        /// The client's name for it.
        name: Option<Box<[u8]>>,
        /// What is prepared; `None` when it is not ours to remember.
        statement: Option<Rc<Statement>>,
        /// Whether it is the unnamed statement.
        unnamed: bool,
        /// Whether the answer is kept from the client.
        hidden: bool,
        /// The statement that has the name already, where it is the server's to refuse it.
        taken: Option<Rc<Statement>>,
        /// The client's statement without a name that it replaces, unless it is skipped.
        before: Option<Rc<Statement>>,
    },
    /// A Bind of this statement.
    Bind(Option<Rc<Statement>>),
    /// A Describe, of this statement when it is one of ours.
    Describe(Option<Rc<Statement>>),
    /// An Execute of a portal of this statement.
    Execute(Option<Rc<Statement>>),
    /// A Close that the client sent.
    Close,
    /// A Close of ours: this statement makes room.
    Evict(Prepared),
    /// An answer that the client gets without the server being asked.
    Invented {
        /// Its type byte.
        tag: u8,
        /// The name that the client has given or forgotten, unless an error comes first.
        name: Option<Box<[u8]>>,
        /// What it has forgotten by that name, or replaced where it has none.
        closed: Option<Rc<Statement>>,
    },
    /// A Query of ours within a client's transaction: what was reset gets the values that the client started with.
    Restore {
        /// Its end is that of the client's unit, and its error one of that unit: so a cancel request of the client's that
        /// comes late strikes what the client is waiting for.
        ends_unit: bool,
    },
    /// A Query of ours before another of ours, which is sent whatever becomes of this.
    Prelude,
    /// A Query of ours that brings the session in line with the client; nobody sees the answer.
    Align,
    /// A Query of ours between clients.
    Clean,
    /// The query that finds a password.
    Lookup,
    /// The question whether a server is a standby.
    Role,
}

impl Request {
    /// Whether it is answered by a ReadyForQuery that its client sees.
    pub fn ends_clients_unit(&self) -> bool {
        matches!(self, Self::Query(..) | Self::Call | Self::Sync | Self::Restore { ends_unit: true })
    }

    /// Whether it is answered by a ReadyForQuery.
    pub fn ends_unit(&self) -> bool {
        matches!(
            self,
            Self::Query(..)
                | Self::Call
                | Self::Sync
                | Self::HiddenSync
                | Self::Prelude
                | Self::Restore { .. }
                | Self::Align
                | Self::Clean
                | Self::Lookup
                | Self::Role
        )
    }

    /// Whether it changes what its client's statement without a name is.
    pub fn is_about_unnamed(&self) -> bool {
        matches!(
            self,
            Self::Query(..) | Self::Parse { name: None, hidden: false, .. } | Self::Invented { name: None, .. }
        )
    }

    /// Whether it ends a unit that has failed: behind an error in the extended protocol (`skips`) the server skips
    /// everything up to the next Sync, a Query too.
    pub fn ends_failed_unit(&self, skips: bool) -> bool {
        if skips { matches!(self, Self::Sync | Self::HiddenSync) } else { self.ends_unit() }
    }
}

impl Request {
    /// Whether names of statements depend on how it is answered.
    pub fn is_about_names(&self, status: Status) -> bool {
        match self {
            // The unnamed statement is prepared again wherever that is not certain, which a failed transaction refuses.
            Self::Parse { unnamed, .. } => !unnamed || status == Status::Failed,
            Self::Invented { .. } => true,
            Self::Query(verdict, _) => verdict.as_deref().is_none_or(forgets),
            Self::Execute(statement) => {
                statement.as_ref().and_then(|statement| statement.verdict()).as_deref().is_none_or(forgets)
            }
            _ => false,
        }
    }

    /// Whether it changes which statements the server knows by names of ours.
    pub fn changes_prepared(&self) -> bool {
        matches!(self, Self::Parse { statement: Some(_), unnamed: false, .. } | Self::Evict(_))
    }

    /// Whether it may lead parameters back to what they were at startup.
    pub fn resets(&self) -> bool {
        match self {
            Self::Query(verdict, _) => verdict.as_deref().is_some_and(resets),
            Self::Execute(statement) => {
                statement.as_ref().and_then(|known| known.verdict()).as_deref().is_some_and(resets)
            }
            _ => false,
        }
    }
}

/// Whether a statement may forget prepared statements.
fn forgets(verdict: &Verdict) -> bool {
    matches!(verdict.kind, Kind::Deallocate(_) | Kind::Discard(_)) || verdict.statements > 1 && verdict.dirties
}

/// Whether a statement may lead parameters back to what they were at startup.
fn resets(verdict: &Verdict) -> bool {
    match &verdict.kind {
        Kind::Reset { .. } | Kind::Discard(Discard::All) => true,
        Kind::Set(sets) => sets.iter().any(|set| set.value == Value::Default),
        _ => verdict.statements > 1 && verdict.dirties,
    }
}
