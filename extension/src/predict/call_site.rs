//! The values that a call site keeps between its calls: the model that its name means, and the conversion of its
//! arguments to a row.
//!
//! It hangs on the function's `fn_extra` and so lives as long as the executor's run (or PL/pgSQL's expression). When its
//! memory context goes, on errors too, it becomes a spare: a prepared query that predicts one row a run finds it again
//! by the types of its arguments, and need neither work out anew what feeds which feature nor, under an equal snapshot,
//! what its name means.

use std::cell::RefCell;
use std::ffi::c_void;
use std::rc::Rc;

use pgrx::pg_sys;

use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::features::text_bytes;
use crate::model::Model;
use crate::names::{self, Key, Resolved};
use crate::sql::too_long;

use super::input::Input;

/// Spares kept at most; each may hold a model mapped.
const SPARES: usize = 16;

thread_local! {
    #[expect(clippy::vec_box, reason = "a site keeps its address from fn_extra to the spares and back")]
    static SPARE: RefCell<Vec<Box<CallSite>>> = const { RefCell::new(Vec::new()) };
}

pub struct CallSite {
    /// Of its arguments: what the site was made for.
    types: Vec<pg_sys::Oid>,
    named_by: NamedBy,
    /// The argument that names the model; the features follow it.
    name_argument: usize,
    /// What the function does with the model.
    privilege: Privilege,
    input: Input,
    resolved: Option<Resolved>,
    row: Vec<f32>,
    scratch: Vec<f32>,
    /// The same features for another model of the project.
    beside: Option<Box<CallSite>>,
}

enum NamedBy {
    Project,
    Id,
}

/// A row ready to be predicted.
pub struct Ready<'a> {
    pub target: &'a Resolved,
    pub model: &'a Rc<Model>,
    pub row: &'a [f32],
    /// `model.num_values()` elements.
    pub scratch: &'a mut [f32],
}

impl CallSite {
    /// The site of this call; made at its first.
    ///
    /// # Safety
    /// `fcinfo` is that of the running call. `name_argument` is a text or a bigint; what follows are the features.
    pub unsafe fn of<'a>(
        fcinfo: pg_sys::FunctionCallInfo,
        name_argument: usize,
        privilege: Privilege,
    ) -> Result<&'a mut CallSite> {
        // SAFETY: as the caller promises.
        unsafe { CallSite::of_first(fcinfo, usize::MAX, name_argument, privilege) }
    }

    /// The same of a function that has arguments behind the features: only the first `arguments` are the site's.
    ///
    /// # Safety
    /// As [`CallSite::of`].
    pub unsafe fn of_first<'a>(
        fcinfo: pg_sys::FunctionCallInfo,
        arguments: usize,
        name_argument: usize,
        privilege: Privilege,
    ) -> Result<&'a mut CallSite> {
        // SAFETY: fn_extra belongs to this function: NULL, or what was put there below. No other reference to it exists,
        // since a function does not call itself through the same FmgrInfo.
        unsafe {
            let info = (*fcinfo).flinfo;
            if (*info).fn_extra.is_null() {
                let site = CallSite::take_or_make(fcinfo, arguments, name_argument, privilege)?;
                let callback: *mut pg_sys::MemoryContextCallback =
                    pg_sys::MemoryContextAlloc((*info).fn_mcxt, std::mem::size_of::<pg_sys::MemoryContextCallback>())
                        .cast();
                let site = Box::into_raw(site);
                (*callback).func = Some(drop_site);
                (*callback).arg = site.cast();
                (*callback).next = std::ptr::null_mut();
                pg_sys::MemoryContextRegisterResetCallback((*info).fn_mcxt, callback);
                (*info).fn_extra = site.cast();
            }
            Ok(&mut *(*info).fn_extra.cast())
        }
    }

    /// # Safety
    /// As [`CallSite::of`].
    unsafe fn take_or_make(
        fcinfo: pg_sys::FunctionCallInfo,
        arguments: usize,
        name_argument: usize,
        privilege: Privilege,
    ) -> Result<Box<CallSite>> {
        // SAFETY: as the caller promises.
        let mut types = unsafe { argument_types(fcinfo) };
        types.truncate(arguments);
        let spare = SPARE.with_borrow_mut(|spares| {
            let fits = |site: &CallSite| {
                site.name_argument == name_argument && site.privilege == privilege && site.types == types
            };
            spares.iter().rposition(|site| fits(site)).map(|position| spares.swap_remove(position))
        });
        match spare {
            Some(site) => Ok(site),
            None => CallSite::new(types, name_argument, privilege).map(Box::new),
        }
    }

    fn new(types: Vec<pg_sys::Oid>, name_argument: usize, privilege: Privilege) -> Result<CallSite> {
        if types.contains(&pg_sys::InvalidOid) {
            return Err(Error::unsupported(
                "predictions cannot be called where the types of the arguments are not known",
            ));
        }
        let named_by = match types[name_argument] {
            pg_sys::INT8OID => NamedBy::Id,
            _ => NamedBy::Project,
        };
        let input = Input::of(&types[name_argument + 1..], name_argument + 1)?;
        Ok(CallSite {
            types,
            named_by,
            name_argument,
            privilege,
            input,
            resolved: None,
            row: Vec::new(),
            scratch: Vec::new(),
            beside: None,
        })
    }

    /// The features of the same call for another model, by its id.
    ///
    /// # Safety
    /// As [`CallSite::ready`], which has made of this call a row already: no argument that must not be NULL is.
    pub unsafe fn ready_beside(&mut self, fcinfo: pg_sys::FunctionCallInfo, model: i64) -> Result<Option<Ready<'_>>> {
        if self.beside.is_none() {
            let site = CallSite::new(self.types.clone(), self.name_argument, self.privilege)?;
            self.beside = Some(Box::new(site));
        }
        let Some(beside) = &mut self.beside else { return Ok(None) };
        if !beside.resolved.as_ref().is_some_and(|resolved| resolved.answers_model(model)) {
            beside.resolve(Key::Model(model))?;
        }
        // SAFETY: as the caller promises; both sites have the types of this call.
        unsafe { beside.row(fcinfo) }
    }

    /// Resolves the name and reads the features. `None` where the name is NULL, or the array or row that holds all
    /// features is.
    ///
    /// # Safety
    /// `fcinfo` is that of the running call, made at this site.
    #[inline]
    pub unsafe fn ready(&mut self, fcinfo: pg_sys::FunctionCallInfo) -> Result<Option<Ready<'_>>> {
        // SAFETY: a call has `nargs` arguments.
        let arguments = unsafe { std::slice::from_raw_parts((*fcinfo).args.as_ptr(), (*fcinfo).nargs as usize) };
        let name = &arguments[self.name_argument];
        let first = self.name_argument + 1;
        if name.isnull || (!matches!(self.input, Input::Scalars(_)) && arguments[first].isnull) {
            return Ok(None);
        }
        // SAFETY: the argument is not NULL and of the type that `named_by` was told from.
        if !unsafe { self.answers(name.value) } {
            // SAFETY: as above.
            let key = unsafe { self.key(name.value)? };
            self.resolve(key)?;
        }
        // SAFETY: as the caller promises.
        unsafe { self.row(fcinfo) }
    }

    /// Reads the features for the model that was resolved.
    ///
    /// # Safety
    /// As [`CallSite::ready`].
    #[inline]
    unsafe fn row(&mut self, fcinfo: pg_sys::FunctionCallInfo) -> Result<Option<Ready<'_>>> {
        // SAFETY: a call has `nargs` arguments.
        let arguments = unsafe { std::slice::from_raw_parts((*fcinfo).args.as_ptr(), (*fcinfo).nargs as usize) };
        let first = self.name_argument + 1;
        let Some(target) = &self.resolved else { return Ok(None) };
        // SAFETY: the arguments are those of this site.
        unsafe { self.input.read(target, arguments, first, &mut self.row)? };
        Ok(Some(Ready { target, model: &target.model, row: &self.row, scratch: &mut self.scratch }))
    }

    /// # Safety
    /// `name` is a value of the type of the name argument.
    #[inline]
    unsafe fn answers(&self, name: pg_sys::Datum) -> bool {
        let Some(resolved) = &self.resolved else { return false };
        match self.named_by {
            // SAFETY: a text.
            NamedBy::Project => resolved.answers_project(unsafe { text_bytes(name) }),
            NamedBy::Id => resolved.answers_model(name.value() as i64),
        }
    }

    /// # Safety
    /// As `answers`.
    #[cold]
    unsafe fn key(&self, name: pg_sys::Datum) -> Result<Key> {
        match self.named_by {
            // SAFETY: a text.
            NamedBy::Project => unsafe { project_key(name) },
            NamedBy::Id => Ok(Key::Model(name.value() as i64)),
        }
    }

    #[cold]
    fn resolve(&mut self, key: Key) -> Result<()> {
        // Taken out first: should what follows fail, the input may fit neither the old model nor the new one.
        let before = self.resolved.take();
        let resolved = names::resolve(key, self.privilege)?;
        let unchanged = before.is_some_and(|before| Rc::ptr_eq(&before.model, &resolved.model));
        if !unchanged {
            self.input.fit(&resolved)?;
            self.scratch.resize(resolved.model.num_values(), 0.0);
        }
        self.resolved = Some(resolved);
        Ok(())
    }
}

/// A project's name in the registry: as it is, in the database's encoding.
///
/// # Safety
/// `name` is a text, not NULL.
pub unsafe fn project_key(name: pg_sys::Datum) -> Result<Key> {
    // SAFETY: as the caller promises.
    let name = unsafe { text_bytes(name) };
    if name.len() > names::LONGEST {
        return Err(too_long("project_name", name.len(), names::LONGEST));
    }
    Ok(Key::Project(String::from_utf8_lossy(name).into()))
}

/// The types of a call's arguments, as the parser resolved them; InvalidOid where nobody knows.
///
/// # Safety
/// `fcinfo` is that of a running call.
unsafe fn argument_types(fcinfo: pg_sys::FunctionCallInfo) -> Vec<pg_sys::Oid> {
    unsafe extern "C-unwind" {
        fn get_fn_expr_argtype(info: *mut pg_sys::FmgrInfo, argument: std::ffi::c_int) -> pg_sys::Oid;
    }
    // SAFETY: the call info is valid. An ERROR is turned into a panic once around the loop, as pgrx does around each
    // call; the vector's room is taken before, so that nothing is left half done.
    unsafe {
        let count = (*fcinfo).nargs;
        let mut types = Vec::with_capacity(count as usize);
        let types_inside = &mut types;
        pg_sys::ffi::pg_guard_ffi_boundary(move || {
            for argument in 0..count {
                types_inside.push(get_fn_expr_argtype((*fcinfo).flinfo, i32::from(argument)));
            }
        });
        types
    }
}

unsafe extern "C-unwind" fn drop_site(site: *mut c_void) {
    // SAFETY: made by Box::into_raw in `of`; a context's callbacks run once.
    let site = unsafe { Box::from_raw(site.cast::<CallSite>()) };
    // A composite type may change before the next run; its shape is not kept.
    if matches!(site.input, Input::Row(_)) {
        return;
    }
    // While the process ends there may be nothing left to put it into; then it is dropped.
    let _ = SPARE.try_with(|spares| {
        if let Ok(mut spares) = spares.try_borrow_mut() {
            if spares.len() == SPARES {
                spares.remove(0);
            }
            spares.push(site);
        }
    });
}
