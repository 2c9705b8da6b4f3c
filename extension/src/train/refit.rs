//! The fit on all rows, once the score is known of the one that has not seen the rows held out. It is the model that
//! answers; the other one is kept beside it, and is what is compared and measured on held-out rows.

use std::time::Duration;

use learn::preprocess::Role;
use learn::split::Split;

use super::base::Base;
use super::columns::Data;
use super::engine::{Engine, Fitted};
use super::roles::Roles;
use super::{Fit, Plan, Request, fit, report};
use crate::activity::{self, Phase};
use crate::error::{Error, Result};
use crate::guc::{self, Refit};

/// What is cheap: so many rows, and a first fit of so long. A training of millions of rows does not take twice as long
/// unless that was asked for; it has learnt from enough of them, too.
const MOST_ROWS: u64 = 500_000;
const LONGEST_FIT: Duration = Duration::from_secs(60);

/// Whether a model is to be fitted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    No,
    IfCheap,
    Yes,
}

impl Wanted {
    /// By the argument, or else the setting.
    pub fn of(request: &Request, plan: &Plan, roles: &Roles) -> Wanted {
        let marked = roles.has(Role::Test);
        if plan.snapshot.test_size == 0.0 && !marked {
            return Wanted::No;
        }
        match (request.refit, guc::refit()) {
            (Some(true), _) | (None, Refit::On) => Wanted::Yes,
            (Some(false), _) | (None, Refit::Off) => Wanted::No,
            // Who marks the test rows will measure on them with statements of their own.
            (None, Refit::Auto) if marked => Wanted::No,
            (None, Refit::Auto) => Wanted::IfCheap,
        }
    }

    /// Whether it is, now that it is known how long the first fit took.
    pub fn is_due(self, rows: u64, first: Duration) -> bool {
        match self {
            Wanted::No => false,
            Wanted::IfCheap => rows <= MOST_ROWS && first <= LONGEST_FIT,
            Wanted::Yes => true,
        }
    }
}

/// Fits again, on all rows. `rounds` are those that the first fit found best where it stopped early. `None` where that
/// cannot be, and was not asked for.
pub fn run(
    wanted: Wanted,
    plan: &Plan,
    data: &Data,
    engine: &dyn Engine,
    base: Option<&Base>,
    rounds: Option<u32>,
) -> Result<Option<Fitted>> {
    activity::phase(Phase::Refitting);
    let all = Split::none(data.spool.rows());
    let again = || {
        let base = base.map(Base::whole).transpose()?;
        fit(plan, data, &all, engine, base.as_ref(), Fit::Again(rounds))
    };
    match again() {
        Ok(fitted) => Ok(Some(fitted)),
        Err(Error::Report(why)) if wanted != Wanted::Yes => {
            report::warning(&format!("the model is not fitted again on all rows: {}", why.message));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
