//! Bans: a server that is kept from reads for a time.
//!
//! A ban concerns reads. The primary is written to for as long as it lives, and is never banned by itself. Automatic
//! bans hold only while another replica serves: when no replica is left but banned ones that are well, their automatic
//! bans are lifted (better to try them than nobody). Bans by an administrator stay until they end or are lifted.

use crate::{FailureKind, Moment};

/// Why a server is banned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BanReason {
    /// A check in the background failed.
    FailedCheck(FailureKind),
    /// A statement could not get a connection to it.
    FailedCheckout,
    /// An administrator said so.
    Admin,
}

impl BanReason {
    /// How it is shown: PgCat's names.
    pub fn text(self) -> String {
        match self {
            Self::FailedCheck(kind) => format!("FailedHealthCheck ({})", kind.word()),
            Self::FailedCheckout => "FailedCheckout".to_owned(),
            Self::Admin => "AdminBan".to_owned(),
        }
    }
}

/// A ban.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ban {
    /// Why.
    pub reason: BanReason,
    /// When it began.
    pub since: Moment,
    /// When it ends.
    pub until: Moment,
}

impl Ban {
    /// Whether it may be lifted when nobody else is left.
    pub(crate) fn is_automatic(&self) -> bool {
        self.reason != BanReason::Admin
    }
}
