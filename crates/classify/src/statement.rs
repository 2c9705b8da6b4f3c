//! From a statement's tree to its verdict: queries by [`Judge`], the others here.

use pg_query::NodeEnum;
use pg_query::protobuf::{
    CopyStmt, DiscardMode, Node, OnCommitAction, TransactionStmt, TransactionStmtKind, VariableSetKind,
    VariableSetStmt, a_const,
};

use crate::catalog::Catalog;
use crate::judge::{Judge, is_temporary};
use crate::verdict::{Discard, Isolation, Kind, Modes, Reason, Set, Value, Verdict};

/// A word of CREATE's options meaning WITH HOLD, in DeclareCursorStmt.options.
const CURSOR_OPT_HOLD: i32 = 0x0020;

/// The verdict on a text whose statements these are.
pub fn verdict(statements: &[Node], canonical: &str, catalog: &Catalog) -> Verdict {
    let mut whole = Verdict {
        kind: Kind::Read,
        statements: u32::try_from(statements.len()).unwrap_or(u32::MAX),
        read_only: true,
        pipelinable: Ok(()),
        pins: false,
        dirties: false,
        transaction: false,
        is_ddl: false,
        stale: false,
        route: None,
        shape: None,
        generation: catalog.generation(),
    };
    for statement in statements {
        let one = single(statement, canonical, catalog);
        if statements.len() == 1 {
            return Verdict { statements: 1, ..one };
        }
        whole.read_only &= one.read_only && matches!(one.kind, Kind::Read | Kind::Explain);
        whole.pins |= one.pins;
        whole.dirties |= one.session();
        whole.transaction |= one.transaction;
        whole.is_ddl |= one.is_ddl;
        whole.stale |= one.stale;
    }
    if statements.len() > 1 {
        whole.pipelinable = Err(Reason::MultiStatement);
        if !whole.read_only {
            whole.kind = Kind::Write;
        }
    }
    whole
}

/// The verdict on what could not be judged: a write that may do anything that its words allow. One pass, since the text
/// may be long.
pub fn opaque(sql: &[u8], reason: Reason, catalog: &Catalog) -> Verdict {
    let mut verdict = Verdict {
        kind: Kind::Write,
        statements: 1,
        read_only: false,
        pipelinable: Err(reason),
        pins: false,
        dirties: true,
        transaction: false,
        is_ddl: false,
        stale: false,
        route: None,
        shape: None,
        generation: catalog.generation(),
    };
    // A false alarm costs only speed.
    for word in sql.split(|&byte| !byte.is_ascii_alphanumeric() && byte != b'_' && byte < 128) {
        let is = |one: &str| word.eq_ignore_ascii_case(one.as_bytes());
        let starts = |with: &str| word.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with.as_bytes()));
        match word.first().map(u8::to_ascii_lowercase) {
            Some(b'a') => {
                verdict.is_ddl |= is("alter");
                verdict.transaction |= is("abort");
            }
            Some(b'b') => verdict.transaction |= is("begin"),
            Some(b'c') => {
                verdict.is_ddl |= is("create");
                verdict.transaction |= is("commit");
            }
            Some(b'd') => verdict.is_ddl |= is("drop"),
            Some(b'e') => verdict.transaction |= is("end"),
            Some(b'h') => verdict.pins |= is("hold"),
            Some(b'l') => verdict.pins |= is("listen") || is("load"),
            Some(b'p') => {
                verdict.pins |=
                    is("prepare") || starts("pg_temp") || starts("pg_advisory") || starts("pg_try_advisory");
                verdict.transaction |= is("prepare");
            }
            Some(b'r') => verdict.transaction |= is("rollback") || is("release"),
            Some(b's') => verdict.transaction |= is("start") || is("savepoint"),
            Some(b't') => verdict.pins |= is("temp") || is("temporary"),
            _ => (),
        }
    }
    verdict
}

fn single(statement: &Node, canonical: &str, catalog: &Catalog) -> Verdict {
    let mut judge = Judge::new(catalog);
    let mut verdict = Verdict {
        kind: Kind::Utility,
        statements: 1,
        read_only: false,
        pipelinable: Err(Reason::Utility),
        pins: false,
        dirties: false,
        transaction: false,
        is_ddl: false,
        stale: false,
        route: None,
        shape: None,
        generation: catalog.generation(),
    };
    let session = Err(Reason::SessionState);
    match &statement.node {
        Some(NodeEnum::SelectStmt(select)) => {
            judge.select(select);
            verdict.kind = if judge.write.is_some() { Kind::Write } else { Kind::Read };
            verdict.read_only = judge.write.is_none();
            verdict.pipelinable = match judge.write.clone().or(judge.alone.clone()) {
                Some(reason) => Err(reason),
                None => Ok(()),
            };
            // SELECT INTO makes a table.
            verdict.is_ddl = has_into(select);
        }
        Some(NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) | NodeEnum::MergeStmt(_)) => {
            verdict.kind = Kind::Write;
            verdict.pipelinable = Err(Reason::Write);
            // What it calls is not walked: the words tell.
            verdict.pins = canonical.contains("advisory_");
            verdict.dirties = canonical.contains("set_config") || canonical.contains("setseed");
        }
        Some(NodeEnum::TransactionStmt(transaction)) => {
            verdict.kind = transaction_kind(transaction);
            verdict.transaction = true;
            verdict.pipelinable = Err(Reason::TransactionControl);
        }
        Some(NodeEnum::VariableSetStmt(set)) => {
            verdict.kind = set_kind(set, canonical);
            verdict.pipelinable = session;
            verdict.pins = matches!(&verdict.kind, Kind::Set(set)
                if set.name == "search_path" && set.statement.to_ascii_lowercase().contains("pg_temp"));
        }
        Some(NodeEnum::VariableShowStmt(show)) => {
            verdict.kind = Kind::Show(show.name.to_ascii_lowercase());
            verdict.pipelinable = session;
        }
        Some(NodeEnum::DiscardStmt(discard)) => {
            verdict.kind = Kind::Discard(match discard.target() {
                DiscardMode::DiscardPlans => Discard::Plans,
                DiscardMode::DiscardSequences => Discard::Sequences,
                DiscardMode::DiscardTemp => Discard::Temp,
                DiscardMode::DiscardAll | DiscardMode::Undefined => Discard::All,
            });
            verdict.pipelinable = session;
        }
        Some(NodeEnum::PrepareStmt(prepare)) => {
            verdict.kind = Kind::Prepare(prepare.name.clone());
            verdict.pipelinable = session;
            verdict.pins = true;
        }
        Some(NodeEnum::ExecuteStmt(execute)) => {
            verdict.kind = Kind::Execute(execute.name.clone());
            verdict.pipelinable = session;
        }
        Some(NodeEnum::DeallocateStmt(deallocate)) => {
            verdict.kind = Kind::Deallocate((!deallocate.isall).then(|| deallocate.name.clone()));
            verdict.pipelinable = session;
        }
        Some(NodeEnum::DeclareCursorStmt(declare)) => {
            let hold = declare.options & CURSOR_OPT_HOLD != 0;
            judge.query(declare.query.as_deref());
            verdict.kind = Kind::Declare { name: declare.portalname.clone(), hold };
            verdict.read_only = judge.write.is_none();
            verdict.pipelinable = session;
            verdict.pins = hold;
        }
        Some(NodeEnum::FetchStmt(fetch)) => {
            verdict.kind = Kind::Fetch(fetch.portalname.clone());
            verdict.pipelinable = session;
        }
        Some(NodeEnum::ClosePortalStmt(close)) => {
            verdict.kind = Kind::Close((!close.portalname.is_empty()).then(|| close.portalname.clone()));
            verdict.pipelinable = session;
        }
        Some(NodeEnum::ListenStmt(listen)) => {
            verdict.kind = Kind::Listen(listen.conditionname.clone());
            verdict.pipelinable = session;
            verdict.pins = true;
        }
        Some(NodeEnum::UnlistenStmt(unlisten)) => {
            let name = &unlisten.conditionname;
            verdict.kind = Kind::Unlisten((!name.is_empty()).then(|| name.clone()));
            verdict.pipelinable = session;
        }
        Some(NodeEnum::NotifyStmt(_)) => {
            verdict.kind = Kind::Notify;
            verdict.pipelinable = Err(Reason::Write);
        }
        Some(NodeEnum::LockStmt(_)) => {
            verdict.kind = Kind::Lock;
            verdict.pipelinable = Err(Reason::LockingClause);
        }
        Some(NodeEnum::LoadStmt(_)) => {
            verdict.pins = true;
            verdict.pipelinable = session;
        }
        Some(NodeEnum::CopyStmt(copy)) => copy_verdict(&mut verdict, copy, &mut judge),
        Some(NodeEnum::ExplainStmt(explain)) => {
            // ANALYZE may be given by a value (`ANALYZE off`), which a shape does not keep: so as if it ran.
            verdict.kind = Kind::Explain;
            judge.query(explain.query.as_deref());
            verdict.read_only = judge.write.is_none();
            if let Some(NodeEnum::CreateTableAsStmt(create)) =
                explain.query.as_ref().and_then(|query| query.node.as_ref())
            {
                verdict.is_ddl = true;
                verdict.pins = create.into.as_ref().and_then(|into| into.rel.as_ref()).is_some_and(is_temporary);
            }
        }
        Some(NodeEnum::DoStmt(_)) | Some(NodeEnum::CallStmt(_)) => {
            verdict.kind = Kind::Write;
            verdict.pipelinable = Err(Reason::Write);
            verdict.dirties = true;
            verdict.is_ddl = true;
            // A procedure may commit.
            verdict.pins = canonical.contains("advisory_");
        }
        Some(node) => utility(&mut verdict, node),
        None => verdict.pipelinable = Err(Reason::Unfamiliar),
    }
    verdict.pins |= judge.pins;
    verdict.dirties |= judge.dirties;
    verdict.stale |= judge.stale;
    verdict
}

fn has_into(select: &pg_query::protobuf::SelectStmt) -> bool {
    select.into_clause.is_some() || select.larg.as_deref().is_some_and(has_into)
}

/// What makes, changes or drops things, and what is left.
fn utility(verdict: &mut Verdict, node: &NodeEnum) {
    let relation = match node {
        NodeEnum::CreateStmt(create) => {
            // One that is dropped with its transaction leaves nothing.
            if create.oncommit() == OnCommitAction::OncommitDrop { None } else { create.relation.as_ref() }
        }
        NodeEnum::CreateTableAsStmt(create) => create
            .into
            .as_ref()
            .and_then(|into| if into.on_commit() == OnCommitAction::OncommitDrop { None } else { into.rel.as_ref() }),
        NodeEnum::ViewStmt(view) => view.view.as_ref(),
        NodeEnum::CreateSeqStmt(sequence) => sequence.sequence.as_ref(),
        _ => None,
    };
    verdict.pins = relation.is_some_and(is_temporary);
    verdict.is_ddl = !matches!(
        node,
        NodeEnum::VacuumStmt(_)
            | NodeEnum::CheckPointStmt(_)
            | NodeEnum::TruncateStmt(_)
            | NodeEnum::ReindexStmt(_)
            | NodeEnum::ClusterStmt(_)
            | NodeEnum::ConstraintsSetStmt(_)
            | NodeEnum::CommentStmt(_)
            | NodeEnum::RefreshMatViewStmt(_)
    );
    // Made in the session's temporary schema, whatever it is.
    if let NodeEnum::CreateFunctionStmt(create) = node {
        verdict.pins |= crate::judge::names(&create.funcname).first().is_some_and(|name| name.starts_with("pg_temp"));
    }
}

fn copy_verdict(verdict: &mut Verdict, copy: &CopyStmt, judge: &mut Judge<'_>) {
    let wire = copy.filename.is_empty() && !copy.is_program;
    verdict.kind = Kind::Copy { from: copy.is_from, wire };
    if copy.is_from || !wire {
        verdict.pipelinable = Err(Reason::Write);
        return;
    }
    match (&copy.relation, &copy.query) {
        (Some(relation), _) => judge.relation(relation),
        (None, query) => judge.query(query.as_deref()),
    }
    verdict.read_only = judge.write.is_none();
}

fn transaction_kind(transaction: &TransactionStmt) -> Kind {
    let chain = transaction.chain;
    let name = || transaction.savepoint_name.clone();
    match transaction.kind() {
        TransactionStmtKind::TransStmtBegin | TransactionStmtKind::TransStmtStart => {
            Kind::Begin(modes(&transaction.options))
        }
        TransactionStmtKind::TransStmtCommit => Kind::Commit { chain },
        TransactionStmtKind::TransStmtRollback => Kind::Rollback { chain },
        TransactionStmtKind::TransStmtSavepoint => Kind::Savepoint(name()),
        TransactionStmtKind::TransStmtRelease => Kind::Release(name()),
        TransactionStmtKind::TransStmtRollbackTo => Kind::RollbackTo(name()),
        TransactionStmtKind::TransStmtPrepare
        | TransactionStmtKind::TransStmtCommitPrepared
        | TransactionStmtKind::TransStmtRollbackPrepared => Kind::TwoPhase,
        TransactionStmtKind::Undefined => Kind::Utility,
    }
}

fn modes(options: &[Node]) -> Modes {
    let mut modes = Modes::default();
    for option in options {
        let Some(NodeEnum::DefElem(option)) = &option.node else { continue };
        let Some(value) = option.arg.as_deref().and_then(constant) else { continue };
        match option.defname.as_str() {
            "transaction_read_only" => modes.read_only = Some(value != "0"),
            "transaction_deferrable" => modes.deferrable = Some(value != "0"),
            "transaction_isolation" => {
                modes.isolation = match value.as_str() {
                    "read uncommitted" => Some(Isolation::ReadUncommitted),
                    "read committed" => Some(Isolation::ReadCommitted),
                    "repeatable read" => Some(Isolation::RepeatableRead),
                    "serializable" => Some(Isolation::Serializable),
                    _ => None,
                };
            }
            _ => (),
        }
    }
    modes
}

fn set_kind(set: &VariableSetStmt, canonical: &str) -> Kind {
    let name = set.name.to_ascii_lowercase();
    match set.kind() {
        VariableSetKind::VarReset => return Kind::Reset { name: Some(name) },
        VariableSetKind::VarResetAll => return Kind::Reset { name: None },
        VariableSetKind::VarSetMulti if name.starts_with("transaction") => {
            return Kind::SetTransaction(modes(&set.args));
        }
        _ => (),
    }
    let value = match set.kind() {
        VariableSetKind::VarSetDefault => Value::Default,
        VariableSetKind::VarSetValue => set
            .args
            .iter()
            .map(constant)
            .collect::<Option<Vec<_>>>()
            .map_or(Value::Other, |values| Value::Text(values.join(", "))),
        _ => Value::Other,
    };
    Kind::Set(Set { name, local: set.is_local, value, statement: canonical.trim_end().to_owned() })
}

/// A constant as `set_config` would take it.
fn constant(node: &Node) -> Option<String> {
    let Some(NodeEnum::AConst(constant)) = &node.node else { return None };
    Some(match constant.val.as_ref()? {
        a_const::Val::Ival(value) => value.ival.to_string(),
        a_const::Val::Fval(value) => value.fval.clone(),
        a_const::Val::Boolval(value) => value.boolval.to_string(),
        a_const::Val::Sval(value) => value.sval.clone(),
        a_const::Val::Bsval(_) => return None,
    })
}
