//! What goes wrong with the bucket and with what is in it. Errors of one verb stand beside the verb.

use std::sync::Arc;

use object_store::Error;

use crate::bucket::{Doing, ObjectName};
use crate::frame::Damage;
use crate::slot::{Page, Sequence};

/// The bucket did not do what it was asked. Nothing is said about the log; try again, or look at the bucket.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the {doing} {}", if source.is_some() { "failed" } else { "was not answered in time" })]
pub struct Unavailable {
    /// What was being done.
    pub doing: Doing,
    /// What the bucket said. `None` when it said nothing in time.
    pub source: Option<Arc<Error>>,
}

impl Unavailable {
    pub(crate) fn failed(doing: Doing, source: Error) -> Unavailable {
        Unavailable { doing, source: Some(Arc::new(source)) }
    }

    pub(crate) fn silent(doing: Doing) -> Unavailable {
        Unavailable { doing, source: None }
    }

    /// Whether a later try may fare better.
    pub(crate) fn may_pass(&self) -> bool {
        let Some(source) = &self.source else { return true };
        !matches!(
            **source,
            Error::InvalidPath { .. }
                | Error::NotSupported { .. }
                | Error::NotImplemented { .. }
                | Error::PermissionDenied { .. }
                | Error::Unauthenticated { .. }
                | Error::UnknownConfigurationKey { .. }
        )
    }
}

/// What is in the bucket is not what the log put there. Nothing past it is served and nothing is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corruption {
    /// An object that is not what its name says.
    #[error("{object} is damaged: {damage}")]
    Damaged {
        /// The object.
        object: ObjectName,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A slot that is missing below one that is there.
    #[error("slot {missing} is missing below slot {below}")]
    Hole {
        /// The missing slot.
        missing: Sequence,
        /// A later slot that is there, or that this process knows was there.
        below: Sequence,
    },
    /// A ledger that is missing below a retired page, or was put and is gone.
    #[error("the ledger of page {page} is missing")]
    LedgerMissing {
        /// Its page.
        page: Page,
    },
    /// A slot that does not follow the one before it.
    #[error("slot {sequence} does not follow the slot before it")]
    BrokenChain {
        /// The slot.
        sequence: Sequence,
    },
}
