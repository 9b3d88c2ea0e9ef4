//! What may go of the log, and its going: pages that nothing needs, whole and in ascending order. Their ledgers stay.

mod collect;
mod listing;
mod manifests;
mod plan;

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::adoption::AdoptionError;
use crate::bucket::DeadlinePassed;
use crate::error::{Corruption, Unavailable};
use crate::manifest::ManifestUnread;
use crate::slot::Page;

pub use collect::Collector;
pub use plan::{ManifestPoint, Pins, first_kept};

/// What a pass keeps beside what the store needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetireOptions {
    /// How many pages stay up to the page of the floor, that one included.
    pub retain_pages: NonZeroU32,
    /// A page stays until the newest slot is so much younger than the one after the page's last, by the store's own timestamps.
    /// The log's least retention age is kept in any case. It only delays: no clock of any process is asked.
    pub min_age: Duration,
}

impl Default for RetireOptions {
    /// The page of the floor and the one before, so that a process that is a little behind needs no reload; no age.
    fn default() -> RetireOptions {
        RetireOptions { retain_pages: NonZeroU32::MIN.saturating_add(1), min_age: Duration::ZERO }
    }
}

/// What a pass does with what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetireMode {
    /// Retires and sweeps.
    Retire,
    /// Only tells. It sends no put and no delete.
    DryRun,
}

/// What a pass did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retired {
    /// The pages that went. Empty when none did.
    pub pages: Range<Page>,
    /// Names that were found in pages retired earlier, and were deleted: put there by offers that slept, or left by a pass that
    /// was killed.
    pub swept: u64,
    /// The lowest page that stays because the store, a checkpoint or an option needs it. What lies between the pages that
    /// went and this one is too young, or is left to the next pass.
    pub first_kept: Page,
}

impl Retired {
    fn nothing(at: Page) -> Retired {
        Retired { pages: at..at, swept: 0, first_kept: at }
    }
}

/// Why a pass ended early. What it had done stays done; the next pass goes on from there.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetireError {
    /// The store is not on this log any more.
    #[error(transparent)]
    Adoption(AdoptionError),
    /// The log is damaged. No page from the damage on is retired.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The bucket failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A manifest of the store could not be read, so nobody knows what it needs.
    #[error("a manifest of the store could not be read")]
    Manifest(#[source] Arc<slatedb::Error>),
    /// A checkpoint names a manifest that is not there, again and again.
    #[error("a checkpoint of the store names a manifest that is not there")]
    CheckpointWithoutManifest,
    /// The deadline passed.
    #[error(transparent)]
    TimedOut(#[from] DeadlinePassed),
}

impl From<ManifestUnread> for RetireError {
    fn from(unread: ManifestUnread) -> RetireError {
        match unread {
            ManifestUnread::Failed(error) => RetireError::Manifest(error),
            ManifestUnread::TimedOut(passed) => passed.into(),
        }
    }
}

impl From<AdoptionError> for RetireError {
    fn from(error: AdoptionError) -> RetireError {
        error.sorted(RetireError::Adoption)
    }
}
