//! The owners of projects, their operations on projects, the grants to other roles, and the functions of the policies
//! on the registry's tables.

use std::ffi::CString;

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::access::{self, Privilege};
use crate::error::{Error, Result};
use crate::lookup::{self, Project};
use crate::sql::{Call, LONGEST_NAME};
use crate::{names, registry};

crate::sql_function!(pgml_grant, grant);
crate::sql_function!(pgml_revoke, revoke);
crate::sql_function!(pgml_set_owner, set_owner);
crate::sql_function!(pgml_rename_project, rename_project);
crate::sql_function!(pgml_delete_project, delete_project);
crate::sql_function!(pgml_delete_model, delete_model);
crate::sql_function!(pgml_has_privilege, has_privilege);
crate::sql_function!(pgml_project_allows, project_allows);
crate::sql_function!(pgml_model_allows, model_allows);
crate::sql_function!(pgml_snapshot_allows, snapshot_allows);

/// `pgml.grant(project_name, role, privilege)`.
fn grant(call: &Call) -> Result<pg_sys::Datum> {
    registry::check_writable(c"pgml.grant()")?;
    let (project, role, privileges) = subject(call)?;
    for privilege in privileges {
        registry::grant(project.id, role, privilege.name())?;
    }
    Ok(call.no_value())
}

/// `pgml.revoke(project_name, role, privilege)`.
fn revoke(call: &Call) -> Result<pg_sys::Datum> {
    registry::check_writable(c"pgml.revoke()")?;
    let (project, role, privileges) = subject(call)?;
    for privilege in privileges {
        registry::revoke(project.id, role, privilege.name())?;
    }
    Ok(call.no_value())
}

/// `pgml.set_owner(project_name, role)`.
fn set_owner(call: &Call) -> Result<pg_sys::Datum> {
    registry::check_writable(c"pgml.set_owner()")?;
    let project = owned(call)?;
    let role = role(&required(call, 1, "role")?)?;
    // As ALTER ... OWNER TO: nothing is given to who did not ask for it.
    // SAFETY: a role that exists; raises its own ERROR (42501).
    unsafe {
        #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
        pg_sys::check_is_member_of_role(access::user(), role);
        #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
        pg_sys::check_can_set_role(access::user(), role);
    }
    registry::set_owner(project.id, role)?;
    Ok(call.no_value())
}

/// `pgml.rename_project(project_name, new_name)`.
fn rename_project(call: &Call) -> Result<pg_sys::Datum> {
    registry::check_writable(c"pgml.rename_project()")?;
    let project = owned(call)?;
    let name = call.text(1, "new_name", names::LONGEST)?.ok_or_else(|| Error::null_argument("new_name"))?;
    if name.trim().is_empty() {
        return Err(Error::invalid("new_name must not be empty"));
    }
    let other = names::with_latest(|snapshot| lookup::project_named(&name, snapshot))?;
    if other.is_some_and(|other| other.id != project.id) {
        let code = PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT;
        return Err(Error::new(code, format!("project \"{name}\" already exists")));
    }
    registry::rename_project(project.id, &name)?;
    Ok(call.no_value())
}

/// `pgml.delete_project(project_name)`.
fn delete_project(call: &Call) -> Result<pg_sys::Datum> {
    registry::check_writable(c"pgml.delete_project()")?;
    let project = owned(call)?;
    let name = required(call, 0, "project_name")?;
    registry::lock_project(project.id, &name)?;
    let models: Vec<i64> = registry::models(project.id)?.iter().map(|model| model.id).collect();
    require_unused(models, &format!("project \"{name}\""))?;
    registry::delete_project(project.id)?;
    Ok(call.no_value())
}

/// `pgml.delete_model(model_id)`.
fn delete_model(call: &Call) -> Result<pg_sys::Datum> {
    registry::check_writable(c"pgml.delete_model()")?;
    let model = call.i64(0).ok_or_else(|| Error::null_argument("model_id"))?;
    names::with_latest(|snapshot| access::require_own_model(model, snapshot))?;
    let project = registry::project_of_model(model)?.ok_or_else(|| names::no_such_model(model))?;
    registry::lock_project(project.id, &project.name)?;
    require_unused(vec![model], &format!("model {model}"))?;
    registry::delete_model(model)?;
    Ok(call.no_value())
}

/// Refuses to delete what tables would miss at the next INSERT, as PostgreSQL does.
fn require_unused(models: Vec<i64>, what: &str) -> Result<()> {
    let users = registry::users_of_models(models)?;
    if users.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        format!("cannot delete {what} because other objects depend on it: {}", users.join(", ")),
    )
    .hint("Drop them, or let them name another model, before."))
}

/// `pgml.has_privilege(project_name, privilege)`.
fn has_privilege(call: &Call) -> Result<pg_sys::Datum> {
    let name = required(call, 0, "project_name")?;
    let privilege = privilege(&required(call, 1, "privilege")?)?;
    let snapshot = names::snapshot();
    let Some(project) = lookup::project_named(&name, snapshot.get())? else { return boolean(false) };
    boolean(access::may(&project, privilege, snapshot.get())?)
}

/// The project, the role (0 for PUBLIC) and the privileges of a grant that the current role may make.
fn subject(call: &Call) -> Result<(Project, pg_sys::Oid, Vec<Privilege>)> {
    let project = owned(call)?;
    let role = match required(call, 1, "role")?.as_str() {
        "public" => pg_sys::InvalidOid,
        name => role(name)?,
    };
    let privileges = match required(call, 2, "privilege")?.as_str() {
        "all" => Privilege::ALL.to_vec(),
        name => vec![privilege(name)?],
    };
    Ok((project, role, privileges))
}

/// The project of the first argument, which the current role must own.
fn owned(call: &Call) -> Result<Project> {
    let name = call.text(0, "project_name", names::LONGEST)?.ok_or_else(|| Error::null_argument("project_name"))?;
    names::with_latest(|snapshot| match lookup::project_named(&name, snapshot)? {
        Some(project) => {
            access::require_own(&project, snapshot, || names::no_such_project(&name))?;
            Ok(project)
        }
        None => Err(names::no_such_project(&name)),
    })
}

fn required(call: &Call, index: usize, name: &str) -> Result<String> {
    let at_most = if index == 0 { names::LONGEST } else { LONGEST_NAME };
    call.text(index, name, at_most)?.ok_or_else(|| Error::null_argument(name))
}

fn role(name: &str) -> Result<pg_sys::Oid> {
    let missing = || Error::undefined(format!("role \"{name}\" does not exist"));
    let text = CString::new(name).map_err(|_| missing())?;
    // SAFETY: a catalog look-up by a NUL-terminated name.
    let role = unsafe { pg_sys::get_role_oid(text.as_ptr(), true) };
    if role == pg_sys::InvalidOid { Err(missing()) } else { Ok(role) }
}

fn privilege(name: &str) -> Result<Privilege> {
    Privilege::parse(name).ok_or_else(|| {
        let names = Privilege::ALL.map(|privilege| format!("'{}'", privilege.name()));
        Error::invalid(format!("privilege \"{name}\" does not exist"))
            .hint(format!("Possible values: {} and 'all'.", names.join(", ")))
    })
}

fn boolean(value: bool) -> Result<pg_sys::Datum> {
    Ok(pg_sys::Datum::from(value))
}

/// `pgml.project_allows(project_id, privilege)`: whether the current role has the privilege; any of them for 'any', and
/// 'own' is that the project is its own.
fn project_allows(call: &Call) -> Result<pg_sys::Datum> {
    let (Some(id), Some(wanted)) = (call.i64(0), call.text(1, "privilege", LONGEST_NAME)?) else {
        return Ok(call.null());
    };
    let snapshot = names::snapshot();
    let project = lookup::project(id, snapshot.get())?;
    boolean(allows(project.as_ref(), &wanted, snapshot.get())?)
}

/// `pgml.model_allows(model_id, privilege)`: the same of a model's project.
fn model_allows(call: &Call) -> Result<pg_sys::Datum> {
    let (Some(id), Some(wanted)) = (call.i64(0), call.text(1, "privilege", LONGEST_NAME)?) else {
        return Ok(call.null());
    };
    let snapshot = names::snapshot();
    let project = lookup::project_of_model(id, snapshot.get())?;
    boolean(allows(project.as_ref(), &wanted, snapshot.get())?)
}

/// `pgml.snapshot_allows(snapshot_id, privilege)`: the same of a project with a model that was trained on the snapshot.
fn snapshot_allows(call: &Call) -> Result<pg_sys::Datum> {
    let (Some(id), Some(wanted)) = (call.i64(0), call.text(1, "privilege", LONGEST_NAME)?) else {
        return Ok(call.null());
    };
    let snapshot = names::snapshot();
    for project in lookup::projects_of_data(id, snapshot.get())? {
        let project = lookup::project(project, snapshot.get())?;
        if allows(project.as_ref(), &wanted, snapshot.get())? {
            return boolean(true);
        }
    }
    boolean(false)
}

fn allows(project: Option<&Project>, wanted: &str, snapshot: pg_sys::Snapshot) -> Result<bool> {
    let Some(project) = project else { return Ok(false) };
    match wanted {
        "any" => access::knows(project, snapshot),
        "own" => Ok(access::owns(project)),
        name => access::may(project, privilege(name)?, snapshot),
    }
}
