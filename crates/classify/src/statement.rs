//! From a statement's tree to its verdict: queries by [`Judge`], the others here.

use pg_query::NodeEnum;
use pg_query::protobuf::{
    CopyStmt, DiscardMode, Node, OnCommitAction, TransactionStmt, TransactionStmtKind, VariableSetKind,
    VariableSetStmt, a_const,
};

use crate::Parsed;
use crate::catalog::Catalog;
use crate::configure;
use crate::judge::{Judge, is_temporary};
use crate::pinning::Reasons;
use crate::verdict::{Discard, Isolation, Kind, Modes, Reason, Set, Value, Verdict};

/// A word of CREATE's options meaning WITH HOLD, in DeclareCursorStmt.options.
const CURSOR_OPT_HOLD: i32 = 0x0020;

/// The verdict on a text whose statements these are.
pub fn verdict(statements: &[Parsed<'_>], catalog: &Catalog) -> Verdict {
    let mut whole = Verdict {
        kind: Kind::Read,
        statements: u32::try_from(statements.len()).unwrap_or(u32::MAX),
        each: Vec::new(),
        read_only: true,
        pipelinable: Ok(()),
        pins: Reasons::NONE,
        pins_beside_listen: Reasons::NONE,
        unpins: false,
        configures: Vec::new(),
        is_call: false,
        dirties: false,
        unsettles: false,
        opaque: false,
        lasting: false,
        transaction: false,
        is_ddl: false,
        stale: false,
        route: None,
        shape: None,
        normalized: None,
        generation: catalog.generation(),
    };
    for statement in statements {
        let mut one = single(&statement.node, statement.text, catalog);
        one.pins_beside_listen = one.pins.without(Reasons::LISTEN);
        if statements.len() == 1 {
            return Verdict { statements: 1, ..one };
        }
        whole.read_only &= one.read_only && matches!(one.kind, Kind::Read | Kind::Explain);
        whole.pins |= one.pins;
        whole.pins_beside_listen |= one.pins_beside_listen;
        whole.unpins |= one.unpins;
        whole.configures.append(&mut one.configures);
        whole.is_call |= one.is_call;
        whole.dirties |= one.dirties || one.sets();
        whole.unsettles |= one.unsettles;
        whole.opaque |= one.opaque;
        whole.lasting |= one.lasting;
        whole.transaction |= one.transaction;
        whole.is_ddl |= one.is_ddl;
        whole.stale |= one.stale;
        whole.each.push(one.kind);
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
    let words = Words::of(sql);
    let mut verdict = Verdict {
        kind: Kind::Write,
        statements: 1,
        each: Vec::new(),
        read_only: false,
        pipelinable: Err(reason),
        pins: Reasons::NONE,
        pins_beside_listen: Reasons::NONE,
        unpins: false,
        configures: Vec::new(),
        is_call: false,
        dirties: true,
        unsettles: true,
        opaque: true,
        lasting: false,
        transaction: false,
        is_ddl: false,
        stale: false,
        route: None,
        shape: None,
        normalized: None,
        generation: catalog.generation(),
    };
    verdict.pins = words.pins;
    verdict.pins_beside_listen = words.pins;
    verdict.unpins = true;
    verdict.transaction = words.transaction;
    verdict.is_ddl = words.ddl;
    verdict
}

/// What the words of a text allow, which may come in parts. A false alarm costs only speed.
#[derive(Debug, Default)]
pub struct Words {
    /// The beginning of the word that the last part has ended with.
    part: Vec<u8>,
    pins: Reasons,
    transaction: bool,
    ddl: bool,
}

/// Longer than any word that is looked for.
const WORD: usize = 32;

impl Words {
    fn of(sql: &[u8]) -> Self {
        let mut words = Self::default();
        words.read(sql);
        words.end();
        words
    }

    /// Reads the next part of the text.
    pub fn read(&mut self, part: &[u8]) {
        let mut words = part.split(|&byte| !byte.is_ascii_alphanumeric() && byte != b'_' && byte < 128).peekable();
        while let Some(word) = words.next() {
            let ends = words.peek().is_some();
            if ends && self.part.is_empty() {
                self.word(word);
                continue;
            }
            let room = WORD.saturating_sub(self.part.len()).min(word.len());
            self.part.extend_from_slice(word.get(..room).unwrap_or_default());
            if ends {
                self.end();
            }
        }
    }

    /// Adds what the whole text allows to the verdict on its beginning.
    pub fn add_to(mut self, verdict: &mut Verdict) {
        self.end();
        verdict.pins |= self.pins;
        verdict.pins_beside_listen |= self.pins;
        verdict.transaction |= self.transaction;
        verdict.is_ddl |= self.ddl;
    }

    fn end(&mut self) {
        let last = std::mem::take(&mut self.part);
        self.word(&last);
    }

    fn word(&mut self, word: &[u8]) {
        let is = |one: &str| word.eq_ignore_ascii_case(one.as_bytes());
        let starts = |with: &str| word.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with.as_bytes()));
        match word.first().map(u8::to_ascii_lowercase) {
            Some(b'a') => {
                self.ddl |= is("alter");
                self.transaction |= is("abort");
            }
            Some(b'b') => self.transaction |= is("begin"),
            Some(b'c') => {
                self.ddl |= is("create");
                self.transaction |= is("commit");
            }
            Some(b'd') => self.ddl |= is("drop"),
            Some(b'e') => self.transaction |= is("end"),
            Some(b'h') => self.pins |= Reasons::CURSOR.when(is("hold")),
            Some(b'l') => self.pins |= Reasons::LISTEN.when(is("listen")) | Reasons::LASTING.when(is("load")),
            Some(b'p') => {
                self.pins |= Reasons::PREPARED.when(is("prepare"))
                    | Reasons::TEMPORARY.when(starts("pg_temp"))
                    | Reasons::LOCK.when(starts("pg_advisory") || starts("pg_try_advisory"));
                self.transaction |= is("prepare");
            }
            Some(b'r') => self.transaction |= is("rollback") || is("release"),
            Some(b's') => {
                self.transaction |= is("start") || is("savepoint");
                self.pins |= Reasons::SETTING.when(is("set_config"));
            }
            Some(b't') => self.pins |= Reasons::TEMPORARY.when(is("temp") || is("temporary")),
            _ => (),
        }
    }
}

fn single(statement: &Node, canonical: &str, catalog: &Catalog) -> Verdict {
    let mut judge = Judge::new(catalog);
    let mut verdict = Verdict {
        kind: Kind::Utility,
        statements: 1,
        each: Vec::new(),
        read_only: false,
        pipelinable: Err(Reason::Utility),
        pins: Reasons::NONE,
        pins_beside_listen: Reasons::NONE,
        unpins: false,
        configures: Vec::new(),
        is_call: false,
        dirties: false,
        unsettles: false,
        opaque: false,
        lasting: false,
        transaction: false,
        is_ddl: false,
        stale: false,
        route: None,
        shape: None,
        normalized: None,
        generation: catalog.generation(),
    };
    match &statement.node {
        None => verdict.pipelinable = Err(Reason::Unfamiliar),
        Some(node) => {
            let known = configures(&mut verdict, node, catalog)
                || query(&mut verdict, &mut judge, statement, node)
                || session(&mut verdict, node, canonical);
            if !known {
                other(&mut verdict, &mut judge, node, canonical);
            }
        }
    }
    verdict.pins |= judge.pins;
    // A definition calls functions of users: of defaults, of indexes, of event triggers.
    verdict.opaque |= judge.opaque || verdict.is_ddl;
    verdict.unsettles = verdict.dirties || verdict.opaque || judge.unsettles;
    verdict.dirties |= judge.dirties;
    verdict.lasting |= judge.lasting;
    verdict.stale |= judge.stale;
    verdict.unpins = judge.unpins || may_unpin(&verdict);
    verdict.configures = judge.configures;
    verdict
}

/// Whether a statement may end a reason to pin by what it is or what it runs: not by triggers, which would be strange,
/// nor by a prepared statement, of which there may be many.
fn may_unpin(verdict: &Verdict) -> bool {
    match verdict.kind {
        Kind::Discard(_) | Kind::Deallocate(_) => true,
        Kind::Execute(_) | Kind::Copy { .. } => false,
        Kind::Utility => verdict.opaque && !verdict.pins.any(),
        _ => verdict.opaque && verdict.pipelinable != Err(Reason::Write) || verdict.dirties && verdict.is_ddl,
    }
}

/// A query that is a SET in other words. False if it is another.
fn configures(verdict: &mut Verdict, node: &NodeEnum, catalog: &Catalog) -> bool {
    let NodeEnum::SelectStmt(select) = node else { return false };
    let Some(sets) = configure::sets(select, catalog) else { return false };
    for set in &sets {
        let Value::Text(value) = &set.value else { continue };
        verdict.pins |= pins_by_value(&set.name, value);
        verdict.lasting |= set.name == "seed";
    }
    verdict.kind = Kind::Set(sets);
    verdict.is_call = true;
    verdict.pipelinable = Err(Reason::SessionState);
    true
}

/// What it pins to set this parameter.
fn pins_by_value(name: &str, value: &str) -> Reasons {
    // Whatever is created from now on may be temporary.
    Reasons::TEMPORARY.when(name == "search_path" && value.to_ascii_lowercase().contains("pg_temp"))
        | Reasons::LASTING.when(name == "seed")
}

/// Judges a statement that is a query or has one in it. False if it is another.
fn query(verdict: &mut Verdict, judge: &mut Judge<'_>, statement: &Node, node: &NodeEnum) -> bool {
    match node {
        NodeEnum::SelectStmt(select) => {
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
        NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) | NodeEnum::MergeStmt(_) => {
            judge.query(Some(statement));
            verdict.kind = Kind::Write;
            verdict.pipelinable = Err(Reason::Write);
        }
        NodeEnum::DeclareCursorStmt(declare) => {
            let hold = declare.options & CURSOR_OPT_HOLD != 0;
            judge.query(declare.query.as_deref());
            verdict.kind = Kind::Declare { name: declare.portalname.clone(), hold };
            verdict.read_only = judge.write.is_none();
            verdict.pipelinable = Err(Reason::SessionState);
            verdict.pins = Reasons::CURSOR.when(hold);
        }
        NodeEnum::CopyStmt(copy) => copy_verdict(verdict, copy, judge),
        NodeEnum::ExplainStmt(explain) => {
            // ANALYZE may be given by a value (`ANALYZE off`), which a shape does not keep: so as if it ran.
            verdict.kind = Kind::Explain;
            judge.query(explain.query.as_deref());
            verdict.read_only = judge.write.is_none();
            if let Some(NodeEnum::CreateTableAsStmt(create)) =
                explain.query.as_ref().and_then(|query| query.node.as_ref())
            {
                verdict.is_ddl = true;
                let into = create.into.as_ref().and_then(|into| into.rel.as_ref());
                verdict.pins = Reasons::TEMPORARY.when(into.is_some_and(is_temporary));
            }
        }
        _ => return false,
    }
    true
}

/// Judges a statement about the state of its session. False if it is another.
fn session(verdict: &mut Verdict, node: &NodeEnum, canonical: &str) -> bool {
    let given = |name: &String| (!name.is_empty()).then(|| name.clone());
    match node {
        NodeEnum::VariableSetStmt(set) => set_verdict(verdict, set, canonical),
        NodeEnum::VariableShowStmt(show) => verdict.kind = Kind::Show(show.name.to_ascii_lowercase()),
        NodeEnum::DiscardStmt(discard) => {
            verdict.kind = Kind::Discard(match discard.target() {
                DiscardMode::DiscardPlans => Discard::Plans,
                DiscardMode::DiscardSequences => Discard::Sequences,
                DiscardMode::DiscardTemp => Discard::Temp,
                DiscardMode::DiscardAll | DiscardMode::Undefined => Discard::All,
            });
        }
        NodeEnum::PrepareStmt(prepare) => {
            verdict.kind = Kind::Prepare(prepare.name.clone());
            verdict.pins = Reasons::PREPARED;
        }
        NodeEnum::ExecuteStmt(execute) => {
            verdict.kind = Kind::Execute(execute.name.clone());
            verdict.opaque = true;
        }
        NodeEnum::DeallocateStmt(deallocate) => {
            verdict.kind = Kind::Deallocate((!deallocate.isall).then(|| deallocate.name.clone()));
            // The name may be that of a statement of the protocol, which is somebody else's.
            verdict.opaque = !deallocate.isall;
        }
        NodeEnum::FetchStmt(fetch) => verdict.kind = Kind::Fetch(fetch.portalname.clone()),
        NodeEnum::ClosePortalStmt(close) => verdict.kind = Kind::Close(given(&close.portalname)),
        NodeEnum::ListenStmt(listen) => {
            verdict.kind = Kind::Listen(listen.conditionname.clone());
            verdict.pins = Reasons::LISTEN;
        }
        NodeEnum::UnlistenStmt(unlisten) => verdict.kind = Kind::Unlisten(given(&unlisten.conditionname)),
        NodeEnum::LoadStmt(_) => {
            verdict.pins = Reasons::LASTING;
            verdict.lasting = true;
        }
        _ => return false,
    }
    verdict.pipelinable = Err(Reason::SessionState);
    true
}

/// Judges a statement that is neither a query nor about its session alone.
fn other(verdict: &mut Verdict, judge: &mut Judge<'_>, node: &NodeEnum, canonical: &str) {
    match node {
        NodeEnum::TransactionStmt(transaction) => {
            verdict.kind = transaction_kind(transaction);
            verdict.transaction = true;
            verdict.pipelinable = Err(Reason::TransactionControl);
        }
        NodeEnum::NotifyStmt(_) => {
            verdict.kind = Kind::Notify;
            verdict.pipelinable = Err(Reason::Write);
        }
        NodeEnum::LockStmt(_) => {
            verdict.kind = Kind::Lock;
            verdict.pipelinable = Err(Reason::LockingClause);
        }
        NodeEnum::DoStmt(_) | NodeEnum::CallStmt(_) => {
            verdict.kind = Kind::Write;
            verdict.pipelinable = Err(Reason::Write);
            verdict.dirties = true;
            verdict.is_ddl = true;
            // What a DO runs stands in its canonical text.
            verdict.pins = Words::of(canonical.as_bytes()).pins;
        }
        NodeEnum::TruncateStmt(truncate) => {
            for relation in &truncate.relations {
                match &relation.node {
                    Some(NodeEnum::RangeVar(relation)) => judge.target(relation),
                    _ => verdict.opaque = true,
                }
            }
        }
        node => utility(verdict, node),
    }
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
        NodeEnum::CompositeTypeStmt(create) => create.typevar.as_ref(),
        _ => None,
    };
    verdict.pins = Reasons::TEMPORARY.when(relation.is_some_and(is_temporary));
    // What is left out calls functions too, of indexes and of views, but what these do to the session is undone.
    verdict.is_ddl = !matches!(
        node,
        NodeEnum::VacuumStmt(_)
            | NodeEnum::CheckPointStmt(_)
            | NodeEnum::ReindexStmt(_)
            | NodeEnum::ClusterStmt(_)
            | NodeEnum::ConstraintsSetStmt(_)
            | NodeEnum::CommentStmt(_)
            | NodeEnum::RefreshMatViewStmt(_)
    );
    // Made in the session's temporary schema, whatever it is.
    let made = match node {
        NodeEnum::CreateFunctionStmt(create) => create.funcname.as_slice(),
        NodeEnum::DefineStmt(define) => define.defnames.as_slice(),
        NodeEnum::CreateEnumStmt(create) => create.type_name.as_slice(),
        NodeEnum::CreateRangeStmt(create) => create.type_name.as_slice(),
        NodeEnum::CreateDomainStmt(create) => create.domainname.as_slice(),
        NodeEnum::CreateStatsStmt(create) => create.defnames.as_slice(),
        NodeEnum::CreateOpClassStmt(create) => create.opclassname.as_slice(),
        NodeEnum::CreateOpFamilyStmt(create) => create.opfamilyname.as_slice(),
        NodeEnum::CreateConversionStmt(create) => create.conversion_name.as_slice(),
        _ => &[],
    };
    let temporary = crate::judge::names(made).first().is_some_and(|name| name.starts_with("pg_temp"));
    verdict.pins |= Reasons::TEMPORARY.when(temporary);
}

fn copy_verdict(verdict: &mut Verdict, copy: &CopyStmt, judge: &mut Judge<'_>) {
    let wire = copy.filename.is_empty() && !copy.is_program;
    verdict.kind = Kind::Copy { from: copy.is_from, wire };
    if copy.is_from || !wire {
        verdict.pipelinable = Err(Reason::Write);
    }
    match (&copy.relation, &copy.query) {
        (Some(relation), _) if copy.is_from => {
            judge.target(relation);
            judge.condition(copy.where_clause.as_deref());
        }
        (Some(relation), _) => judge.relation(relation),
        (None, query) => judge.query(query.as_deref()),
    }
    verdict.read_only = wire && judge.write.is_none();
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
            "transaction_isolation" => modes.isolation = Isolation::named(&value),
            _ => (),
        }
    }
    modes
}

/// A SET or RESET.
fn set_verdict(verdict: &mut Verdict, set: &VariableSetStmt, canonical: &str) {
    let name = named(&set.name);
    verdict.kind = match set.kind() {
        VariableSetKind::VarResetAll => Kind::Reset { name: None },
        VariableSetKind::VarSetMulti if name == "session characteristics" => Kind::Set(characteristics(&set.args)),
        VariableSetKind::VarSetMulti => Kind::SetTransaction(modes(&set.args)),
        // They are set for the transaction that is open, whatever the words.
        _ if name.starts_with("transaction_") => Kind::SetTransaction(mode(&name, &set.args)),
        VariableSetKind::VarReset => Kind::Reset { name: Some(name) },
        VariableSetKind::VarSetDefault => Kind::Set(vec![Set::new(name, set.is_local, Value::Default, canonical)]),
        VariableSetKind::VarSetValue => {
            let values: Option<Vec<String>> = set.args.iter().map(constant).collect();
            let value = values.map_or(Value::Other, |values| Value::Text(values.join(", ")));
            verdict.pins = pins_by_value(&name, canonical);
            verdict.lasting = name == "seed";
            Kind::Set(vec![Set::new(name, set.is_local, value, canonical)])
        }
        // FROM CURRENT: the value is not in the text.
        VariableSetKind::VarSetCurrent | VariableSetKind::Undefined => {
            verdict.dirties = true;
            Kind::Utility
        }
    };
}

/// A parameter as servers call it today.
pub fn named(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        "sort_mem" => "work_mem".to_owned(),
        "vacuum_mem" => "maintenance_work_mem".to_owned(),
        _ => name,
    }
}

/// What SET SESSION CHARACTERISTICS sets: a parameter for each of its modes.
fn characteristics(modes: &[Node]) -> Vec<Set> {
    let mode = |node: &Node| {
        let Some(NodeEnum::DefElem(mode)) = &node.node else { return None };
        let value = mode.arg.as_deref().and_then(constant)?;
        let value = match value.as_str() {
            "1" => "on".to_owned(),
            "0" => "off".to_owned(),
            _ => value,
        };
        let name = format!("default_{}", mode.defname);
        let statement = format!("set {name} = '{value}'");
        Some(Set { name, local: false, value: Value::Text(value), statement })
    };
    modes.iter().filter_map(mode).collect()
}

/// The mode of the transaction that a parameter stands for.
fn mode(name: &str, args: &[Node]) -> Modes {
    let mut modes = Modes::default();
    let value = args.first().and_then(constant).map(|value| value.to_ascii_lowercase());
    let on = value.as_deref().and_then(|value| match value {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    });
    match name {
        "transaction_read_only" => modes.read_only = on,
        "transaction_deferrable" => modes.deferrable = on,
        "transaction_isolation" => modes.isolation = value.as_deref().and_then(Isolation::named),
        _ => (),
    }
    modes
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
