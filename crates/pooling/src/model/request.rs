//! The requests that a server has not answered yet.

use std::rc::Rc;
use std::sync::Arc;

use classify::{Discard, Kind, Value, Verdict};

use crate::model::held::Held;
use crate::model::known::Prepared;
use crate::model::statement::Statement;

/// A statement that is being described.
#[derive(Debug, Clone)]
pub struct Described {
    /// The statement, as its client has it.
    pub held: Rc<Held>,
    /// The statement, as the server has it.
    pub statement: Rc<Statement>,
    /// The number of the server's copy ([`ServerCopy`](crate::model::known::ServerCopy)).
    pub copy: u64,
}

/// A request that the server has not answered yet.
#[derive(Debug)]
pub enum Request {
    /// A client's Query, its class if known, and the client's statement without a name, which the Query ends unless it
    /// is skipped.
    Query(Option<Arc<Verdict>>, Option<Rc<Held>>),
    /// A client's FunctionCall.
    Call {
        /// Whether its function only works on large objects, as drivers' FunctionCalls do.
        large_objects: bool,
    },
    /// A client's Sync.
    Sync,
    /// A Sync of the pooler's in place of a client's Flush: the answer is not for the client.
    HiddenSync,
    /// A Parse; `hidden` when the client did not send it, so that the answer is not for it.
    Parse {
        /// The client's name for it.
        name: Option<Box<[u8]>>,
        /// The statement that is prepared; `None` when the pooler does not remember it.
        statement: Option<Rc<Statement>>,
        /// The number of the server's copy that it makes, if the statement has a name of the pooler's; else 0.
        copy: u64,
        /// Whether the statement is the unnamed one.
        unnamed: bool,
        /// Whether the answer is kept from the client.
        hidden: bool,
        /// The statement that has the name already, where the server has to refuse the Parse.
        taken: Option<Rc<Statement>>,
        /// The client's statement without a name that the Parse replaces, unless it is skipped.
        before: Option<Rc<Held>>,
    },
    /// A Bind of this statement.
    Bind(Option<Rc<Statement>>),
    /// A Describe of this statement, or of a portal of it, when the pooler knows the statement and has to know what the
    /// client is told.
    Describe(Option<Described>),
    /// A Describe of the pooler's own: it shows whether the server's copy of this statement is described as its client
    /// was told.
    Check(Described),
    /// A message that the server refuses, in place of one that would run a statement of another shape than its client
    /// was told: so the client's unit and transaction fail there.
    Refuse,
    /// An Execute of a portal of this statement.
    Execute(Option<Rc<Statement>>),
    /// A Close that the client sent.
    Close,
    /// A Close of the pooler's: this statement makes room.
    Evict(Prepared),
    /// An answer that the client gets without the server being asked.
    Invented {
        /// The type byte of the answer.
        tag: u8,
        /// The name that the client has given or forgotten, unless an error comes first.
        name: Option<Box<[u8]>>,
        /// The statement that the client has forgotten by that name, or replaced if it has no name.
        closed: Option<Rc<Held>>,
    },
    /// A Query of the pooler's within a client's transaction: parameters that were reset get the values that the client
    /// started with.
    Restore {
        /// Whether its end is that of the client's unit, and its error one of that unit: so a late cancel request of
        /// the client's strikes what the client is waiting for.
        ends_unit: bool,
    },
    /// A Query of the pooler's before another, which is sent whatever the outcome of this one.
    Prelude,
    /// A Query of the pooler's that brings the session in line with the client; no client sees the answer.
    Align,
    /// A Query of the pooler's between clients.
    Clean,
    /// The `connect_query`, before the first client.
    Connect,
    /// The question what is left in a client's session, while the client has nothing under way.
    Settle,
    /// The query that finds a password.
    Lookup,
    /// The question whether a server is a standby.
    Role,
}

impl Request {
    /// Whether the answer ends with a ReadyForQuery that the client sees.
    pub fn ends_clients_unit(&self) -> bool {
        matches!(self, Self::Query(..) | Self::Call { .. } | Self::Sync | Self::Restore { ends_unit: true })
    }

    /// Whether the request is a statement of the pooler's own.
    pub fn is_ours(&self) -> bool {
        matches!(
            self,
            Self::Prelude
                | Self::Restore { .. }
                | Self::Align
                | Self::Clean
                | Self::Connect
                | Self::Settle
                | Self::Lookup
                | Self::Role
        )
    }

    /// Whether the answer ends with a ReadyForQuery.
    pub fn ends_unit(&self) -> bool {
        self.is_ours() || matches!(self, Self::Query(..) | Self::Call { .. } | Self::Sync | Self::HiddenSync)
    }

    /// Whether the request changes which statement its client has without a name.
    pub fn is_about_unnamed(&self) -> bool {
        matches!(
            self,
            Self::Query(..) | Self::Parse { name: None, hidden: false, .. } | Self::Invented { name: None, .. }
        )
    }

    /// The statement that its client had without a name before the request, if the request changes which it is.
    pub fn unnamed_before(&mut self) -> Option<&mut Option<Rc<Held>>> {
        match self {
            Self::Query(_, before)
            | Self::Parse { name: None, hidden: false, before, .. }
            | Self::Invented { name: None, closed: before, .. } => Some(before),
            _ => None,
        }
    }

    /// Whether the request may change how its session reads statements, by its text or by what it calls.
    pub fn may_set(&self) -> bool {
        self.runs() && self.verdict().as_deref().is_none_or(may_set)
    }

    /// The Parse of nothing that stands before a Sync which would lose a transaction block.
    pub fn guard() -> Self {
        Self::Parse { name: None, statement: None, copy: 0, unnamed: true, hidden: true, taken: None, before: None }
    }

    /// Whether the request is that Parse.
    pub fn is_guard(&self) -> bool {
        matches!(self, Self::Parse { statement: None, unnamed: true, hidden: true, .. })
    }

    /// Whether the request runs a statement or a function.
    pub fn runs(&self) -> bool {
        matches!(self, Self::Query(..) | Self::Execute(_) | Self::Call { .. })
    }

    /// The class of the statement that the request runs, if known.
    pub fn verdict(&self) -> Option<Arc<Verdict>> {
        match self {
            Self::Query(verdict, _) => verdict.clone(),
            Self::Execute(statement) => statement.as_ref().and_then(|statement| statement.verdict()),
            _ => None,
        }
    }
}

impl Request {
    /// Whether names of statements depend on the answer.
    pub fn is_about_names(&self) -> bool {
        match self {
            Self::Parse { unnamed, .. } => !unnamed,
            Self::Invented { .. } => true,
            Self::Query(..) | Self::Execute(_) => self.verdict().as_deref().is_none_or(forgets),
            _ => false,
        }
    }

    /// Whether the request changes the statements that the server knows by names of the pooler's.
    pub fn changes_prepared(&self) -> bool {
        matches!(self, Self::Parse { statement: Some(_), unnamed: false, .. } | Self::Evict(_))
    }

    /// Whether the request may restore parameters to their values at startup.
    pub fn resets(&self) -> bool {
        matches!(self, Self::Execute(None)) || self.verdict().as_deref().is_some_and(resets)
    }

    /// How many COPYs FROM STDIN the request may run.
    pub fn copies(&self) -> Copies {
        match self {
            Self::Query(verdict, _) => copies(verdict.as_deref()),
            // The portal may be of any statement.
            Self::Execute(None) => Copies::One,
            // A statement of the protocol is one statement.
            Self::Execute(Some(statement)) => match copies(statement.verdict().as_deref()) {
                Copies::Many if has_copy(statement.text()) => Copies::One,
                Copies::One => Copies::One,
                _ => Copies::No,
            },
            _ => Copies::No,
        }
    }

    /// How many bytes the names and texts of the request have, which a client may make long.
    pub fn length(&self) -> usize {
        let texts = match self {
            Self::Parse { statement, .. } => statement.as_deref(),
            Self::Invented { closed, .. } => closed.as_ref().map(|held| &**held.statement()),
            _ => None,
        };
        self.name().len() + texts.map_or(0, |statement| statement.definition.len())
    }

    /// The client's name for the statement of the request, if the request keeps it.
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Parse { name, .. } | Self::Invented { name, .. } => name.as_deref().unwrap_or_default(),
            _ => &[],
        }
    }
}

/// Whether a statement may change how its session reads statements, by its text or by what it calls.
pub fn may_set(verdict: &Verdict) -> bool {
    let sets = |kind: &Kind| matches!(kind, Kind::Set(_) | Kind::Rollback { .. } | Kind::RollbackTo(_));
    verdict.session() || sets(&verdict.kind) || verdict.each.iter().any(sets)
}

/// Whether a statement may open a transaction block.
pub fn may_leave_open(verdict: &Verdict) -> bool {
    let ends = matches!(verdict.kind, Kind::Commit { chain: false } | Kind::Rollback { chain: false });
    verdict.transaction && !(ends && verdict.statements == 1)
}

/// Whether a statement may forget prepared statements.
pub fn forgets(verdict: &Verdict) -> bool {
    let forgets = |kind: &Kind| matches!(kind, Kind::Deallocate(_) | Kind::Discard(_));
    forgets(&verdict.kind) || verdict.each.iter().any(forgets) || verdict.statements > 1 && verdict.dirties
}

/// How many COPYs FROM STDIN a request may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// None.
    No,
    /// One at most.
    One,
    /// Any number.
    Many,
}

/// How many COPYs FROM STDIN a statement may run; one of unknown class may be several statements.
fn copies(verdict: Option<&Verdict>) -> Copies {
    let copies = |kind: &Kind| matches!(kind, Kind::Copy { from: true, wire: true });
    match verdict {
        None => Copies::Many,
        Some(verdict) if verdict.each.iter().any(copies) => Copies::Many,
        // What could not be parsed.
        Some(verdict) if verdict.opaque && verdict.dirties && verdict.each.is_empty() => Copies::Many,
        Some(verdict) if copies(&verdict.kind) => Copies::One,
        Some(_) => Copies::No,
    }
}

/// Whether a text has the word COPY, which no statement can spell otherwise.
fn has_copy(text: &[u8]) -> bool {
    let is_copy = |at: usize| text.get(at..at + 4).is_some_and(|word| word.eq_ignore_ascii_case(b"copy"));
    memchr::memchr2_iter(b'c', b'C', text).any(is_copy)
}

/// Whether a statement may restore parameters to their values at startup.
pub fn resets(verdict: &Verdict) -> bool {
    let resets = |kind: &Kind| match kind {
        Kind::Reset { .. } | Kind::Discard(Discard::All) => true,
        Kind::Set(sets) => sets.iter().any(|set| set.value == Value::Default),
        _ => false,
    };
    resets(&verdict.kind) || verdict.each.iter().any(resets) || verdict.statements > 1 && verdict.dirties
}
