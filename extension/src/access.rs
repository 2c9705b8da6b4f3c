//! The privileges of roles on projects.
//!
//! A project belongs to a role. That role, its members and superusers may do everything with it. Other roles cannot see
//! it, except by the privileges that they were granted: `pgml.privileges` has a row for each role and privilege. Reads
//! of the registry's tables are checked here too, by the policies of row level security.
//!
//! The decision is made from the registry under a snapshot, by index scans, as predictions are: in parallel workers, on
//! standbys, and without any privilege on the tables.

use std::ffi::CStr;

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::error::{Error, Result, shorten};
use crate::lookup::{self, Project};
use crate::{names, registry};

/// What a role may be granted on a project.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Privilege {
    /// To see its models with their hyperparameters and metrics, and its deployments.
    See,
    Predict,
    Explain,
    Train,
    Deploy,
    /// To read its models' bytes and what they were trained on, values of the data among it.
    Export,
}

impl Privilege {
    pub const ALL: [Privilege; 6] = [
        Privilege::See,
        Privilege::Predict,
        Privilege::Explain,
        Privilege::Train,
        Privilege::Deploy,
        Privilege::Export,
    ];

    /// As in `pgml.privileges`.
    pub fn name(self) -> &'static str {
        match self {
            Privilege::See => "see",
            Privilege::Predict => "predict",
            Privilege::Explain => "explain",
            Privilege::Train => "train",
            Privilege::Deploy => "deploy",
            Privilege::Export => "export",
        }
    }

    pub fn parse(name: &str) -> Option<Privilege> {
        Privilege::ALL.into_iter().find(|privilege| privilege.name() == name)
    }
}

// Declared here because pgrx's wrapper saves and restores the exception stack around each call, which costs more than
// the call, once a row. It reads a variable.
unsafe extern "C" {
    #[link_name = "GetUserId"]
    safe fn get_user_id() -> pg_sys::Oid;
}

/// The current role.
#[inline]
pub fn user() -> pg_sys::Oid {
    get_user_id()
}

/// The name of a role; its number if it is no more.
pub fn role_name(role: pg_sys::Oid) -> String {
    // SAFETY: a palloc'd C string, null for a role that is not there.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        if name.is_null() { role.to_u32().to_string() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
    }
}

/// Whether the current role may act as another one: it is that role, a member of it, or a superuser.
pub fn acts_as(role: pg_sys::Oid) -> bool {
    // SAFETY: look-ups in the catalog caches, within a transaction.
    unsafe { pg_sys::has_privs_of_role(user(), role) }
}

/// Whether a role may do all that another one may.
pub fn role_acts_as(role: pg_sys::Oid, other: pg_sys::Oid) -> bool {
    // SAFETY: as in `acts_as`. No role is 0.
    role != pg_sys::InvalidOid && unsafe { pg_sys::has_privs_of_role(role, other) }
}

/// Whether the current role owns the project.
pub fn owns(project: &Project) -> bool {
    match project.owner {
        Some(owner) => acts_as(owner),
        // SAFETY: as in `acts_as`.
        None => unsafe { pg_sys::superuser_arg(user()) },
    }
}

/// Whether the current role may do that with the project.
pub fn may(project: &Project, privilege: Privilege, snapshot: pg_sys::Snapshot) -> Result<bool> {
    if project.owner.is_none() {
        // The tables of pgml 3.0.0: every role may predict, and that is all that can be done before they are upgraded.
        return Ok(matches!(privilege, Privilege::Predict | Privilege::Explain));
    }
    Ok(owns(project) || lookup::any_grant(project.id, snapshot, |role, what| what == privilege.name() && has(role))?)
}

/// Whether the project is there for the current role.
pub fn knows(project: &Project, snapshot: pg_sys::Snapshot) -> Result<bool> {
    Ok(project.owner.is_none() || owns(project) || lookup::any_grant(project.id, snapshot, |role, _| has(role))?)
}

/// Whether what a role was granted is the current role's. 0 stands for PUBLIC.
fn has(role: pg_sys::Oid) -> bool {
    role == pg_sys::InvalidOid || acts_as(role)
}

/// What the current role asks for with a project.
pub enum Answer {
    Granted,
    /// It knows the project, and may not do this.
    Denied,
    /// It is told what is told of projects that are not there.
    Hidden,
}

pub fn ask(project: &Project, privilege: Privilege, snapshot: pg_sys::Snapshot) -> Result<Answer> {
    Ok(if may(project, privilege, snapshot)? {
        Answer::Granted
    } else if knows(project, snapshot)? {
        Answer::Denied
    } else {
        Answer::Hidden
    })
}

/// Whether the current role may do that with the project; `missing` is what it is told of one that it must not know of.
pub fn require_known(
    project: &Project,
    privilege: Privilege,
    snapshot: pg_sys::Snapshot,
    missing: impl FnOnce() -> Error,
) -> Result<()> {
    match ask(project, privilege, snapshot)? {
        Answer::Granted => Ok(()),
        Answer::Denied => Err(denied(&lookup::project_name(project.id, snapshot)?, privilege)),
        Answer::Hidden => Err(missing()),
    }
}

/// The project of that name, if the current role may do that with it now.
pub fn require(name: &str, privilege: Privilege) -> Result<Project> {
    names::with_latest(|snapshot| {
        let missing = || names::no_such_project(name);
        let project = lookup::project_named(name, snapshot)?.ok_or_else(missing)?;
        require_known(&project, privilege, snapshot, missing)?;
        Ok(project)
    })
}

/// The same, of the project of a model.
pub fn require_of_model(model: i64, privilege: Privilege) -> Result<()> {
    names::with_latest(|snapshot| {
        let project = lookup::project_of_model(model, snapshot)?.ok_or_else(|| names::no_such_model(model))?;
        require_known(&project, privilege, snapshot, || names::no_such_model(model))
    })
}

/// That the project is the current role's; `missing` is as in [`require_known`].
pub fn require_own(project: &Project, snapshot: pg_sys::Snapshot, missing: impl FnOnce() -> Error) -> Result<()> {
    if owns(project) {
        return Ok(());
    }
    if !knows(project, snapshot)? {
        return Err(missing());
    }
    let name = lookup::project_name(project.id, snapshot)?;
    let code = PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE;
    Err(Error::new(code, format!("must be owner of project \"{name}\"")))
}

/// That the project of the model is the current role's.
pub fn require_own_model(model: i64, snapshot: pg_sys::Snapshot) -> Result<()> {
    let missing = || names::no_such_model(model);
    let project = lookup::project_of_model(model, snapshot)?.ok_or_else(missing)?;
    require_own(&project, snapshot, missing)
}

/// Whether the current role may train, and deploy, for the project of that name, which need not be there yet. Said before
/// the work, instead of after it.
pub fn require_training(name: &str, deploying: bool) -> Result<()> {
    names::with_latest(|snapshot| {
        let Some(project) = lookup::project_named(name, snapshot)? else {
            return if registry::may_make_projects()? { Ok(()) } else { Err(may_not_train(name)) };
        };
        for privilege in [Privilege::Train, Privilege::Deploy] {
            if privilege == Privilege::Deploy && !deploying {
                continue;
            }
            match ask(&project, privilege, snapshot)? {
                Answer::Granted => {}
                Answer::Denied if privilege == Privilege::Deploy => {
                    return Err(denied(name, privilege)
                        .detail("With automatic_deploy => false the training does not need this privilege."));
                }
                Answer::Denied => return Err(denied(name, privilege)),
                Answer::Hidden => return Err(may_not_train(name)),
            }
        }
        Ok(())
    })
}

/// Of a project that is not there, for a role that may make none, and of one that it must not know of.
fn may_not_train(name: &str) -> Error {
    let role = role_name(user());
    Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("role \"{role}\" may not train project \"{}\"", shorten(name, 63)),
    )
    .hint(
        "A role with INSERT on pgml.projects can create projects; the owner of a project can let others train it, \
         with pgml.grant(project_name, role, 'train').",
    )
}

/// The error of a role that knows the project.
pub fn denied(name: &str, privilege: Privilege) -> Error {
    let (role, privilege) = (role_name(user()), privilege.name());
    let literal = |text: &str| text.replace('\'', "''");
    Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("permission denied for project \"{name}\": role \"{role}\" may not {privilege}"),
    )
    .hint(format!(
        "The owner of the project can grant the privilege: SELECT pgml.grant('{}', '{}', '{privilege}');",
        literal(name),
        literal(&role)
    ))
}
