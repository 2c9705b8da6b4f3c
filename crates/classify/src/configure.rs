//! Calls of `set_config`: a SET in the form of a query.

use pg_query::NodeEnum;
use pg_query::protobuf::{FuncCall, Node, SelectStmt, SetOperation, a_const};

use crate::catalog::Catalog;
use crate::judge::{is_text, names};
use crate::parameter;
use crate::statement::named;
use crate::verdict::{Set, Value};

/// A call of `set_config` for the session whose parameter or value its text does not tell. The server knows the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// The parameter.
    pub name: Argument,
    /// Whether it is set for the transaction alone.
    pub local: Argument,
}

/// An argument of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// A constant; `t` and `f` for a boolean.
    Text(String),
    /// NULL.
    Null,
    /// A parameter of the statement, by its number.
    Parameter(usize),
    /// Anything else.
    Other,
}

impl Argument {
    fn of(node: &Node) -> Self {
        match &node.node {
            Some(NodeEnum::TypeCast(cast)) => {
                let known =
                    cast.type_name.as_ref().is_some_and(|name| is_text(name) || is_boolean(&names(&name.names)));
                cast.arg.as_deref().filter(|_| known).map_or(Self::Other, Self::of)
            }
            Some(NodeEnum::ParamRef(parameter)) => {
                usize::try_from(parameter.number).map_or(Self::Other, Self::Parameter)
            }
            Some(NodeEnum::AConst(constant)) if constant.isnull => Self::Null,
            Some(NodeEnum::AConst(constant)) => match &constant.val {
                Some(a_const::Val::Sval(text)) => Self::Text(text.sval.clone()),
                Some(a_const::Val::Boolval(value)) => Self::Text(if value.boolval { "t" } else { "f" }.to_owned()),
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }

    /// The value as a boolean, in the words that PostgreSQL takes.
    pub fn as_boolean(&self) -> Option<bool> {
        let Self::Text(text) = self else { return None };
        let text = text.trim().to_ascii_lowercase();
        let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
        match () {
            () if begins("true", 1) || begins("yes", 1) || text == "on" || text == "1" => Some(true),
            () if begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0" => Some(false),
            () => None,
        }
    }
}

fn is_boolean(name: &[&str]) -> bool {
    matches!(name, ["bool"] | ["pg_catalog", "bool"])
}

/// The arguments of a call of PostgreSQL's `set_config`, or of what may be one.
pub fn arguments(call: &FuncCall) -> Option<[Argument; 3]> {
    let [name, value, local] = call.args.as_slice() else { return None };
    Some([Argument::of(name), Argument::of(value), Argument::of(local)])
}

/// What a query sets, if it is nothing but calls of `set_config` with constants: a SET, in other words.
pub fn sets(select: &SelectStmt, catalog: &Catalog) -> Option<Vec<Set>> {
    let sets: Vec<Set> = select.target_list.iter().map(|target| set(target, catalog)).collect::<Option<_>>()?;
    let (limit_option, op) = (select.limit_option, SetOperation::SetopNone.into());
    let plain = SelectStmt { target_list: select.target_list.clone(), limit_option, op, ..SelectStmt::default() };
    (!sets.is_empty() && *select == plain).then_some(sets)
}

fn set(target: &Node, catalog: &Catalog) -> Option<Set> {
    let Some(NodeEnum::ResTarget(target)) = &target.node else { return None };
    let Some(NodeEnum::FuncCall(call)) = &target.val.as_deref()?.node else { return None };
    // The calls of another have more to them than arguments.
    let plain = FuncCall { funcname: call.funcname.clone(), args: call.args.clone(), ..FuncCall::default() };
    let bare = FuncCall { location: 0, funcformat: plain.funcformat, ..(**call).clone() };
    if bare != plain || !is_own(&names(&call.funcname), catalog) {
        return None;
    }
    let [Argument::Text(name), value, local] = arguments(call)? else { return None };
    let (name, local) = (named(&name), local.as_boolean()?);
    // They are of the transaction, whatever the words.
    if name.starts_with("transaction_") {
        return None;
    }
    let scope = if local { "SET LOCAL" } else { "SET" };
    Some(match value {
        Argument::Null => {
            let statement = format!("{scope} {} TO DEFAULT", parameter::quoted(&name));
            Set { name, local, value: Value::Default, statement }
        }
        Argument::Text(value) => {
            let statement = format!("{scope} {} = {}", parameter::quoted(&name), parameter::assigned(&name, &value));
            Set { name, local, value: Value::Text(value), statement }
        }
        _ => return None,
    })
}

/// Whether this is the name of PostgreSQL's own function, and of no user's beside it.
fn is_own(name: &[&str], catalog: &Catalog) -> bool {
    match name {
        ["pg_catalog", "set_config"] => true,
        ["set_config"] => catalog.function(None, "set_config").is_none_or(|function| function.system),
        _ => false,
    }
}
