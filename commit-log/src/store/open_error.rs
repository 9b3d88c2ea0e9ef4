//! Why a store was not opened.

use std::fmt;
use std::time::Duration;

use crate::adoption::AdoptionError;
use crate::environment::NoRandomness;
use crate::error::{Corruption, Unavailable};
use crate::log::TailError;
use crate::view::ReadError;

use super::StoreError;

/// Why a store was not opened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no log, another one, or none may be begun.
    #[error(transparent)]
    Adoption(AdoptionError),
    /// The log is damaged.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The bucket failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The tail is longer than this process may hold: fold it first.
    #[error("the tail has more than {limit} bytes: fold the store first")]
    TailTooLong {
        /// The most that is allowed, in bytes.
        limit: usize,
    },
    /// The log was retired faster than it could be read. Open again.
    #[error("the log was retired faster than it could be read")]
    Behind,
    /// The open was not done in time.
    #[error("the store was not opened in time")]
    TimedOut,
    /// The compactor would delete the files of a view before the view's base is replaced.
    #[error("the compactor's checkpoint_lifetime is {}, expected at least {}", Seconds(*found), Seconds(*expected))]
    CheckpointLifetime {
        /// The least that is allowed.
        expected: Duration,
        /// The setting.
        found: Duration,
    },
    /// The log's reserved key is not one that the segment extractor routes.
    #[error("the log's reserved key has no prefix of {prefix_bytes} bytes by the segment extractor")]
    ReservedKeyNotRouted {
        /// The prefix length that was stated.
        prefix_bytes: usize,
    },
    /// The log does not promise to keep its pages long enough for the win check that was asked for.
    #[error("expected a least retention of {} for this win check, found {}", Seconds(*expected), Seconds(*found))]
    LeastRetention {
        /// The least that is allowed.
        expected: Duration,
        /// What the log's adoption record promises, for ever.
        found: Duration,
    },
    /// There is no randomness to draw identities from.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

impl From<AdoptionError> for OpenError {
    fn from(error: AdoptionError) -> OpenError {
        error.sorted(OpenError::Adoption)
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.0.as_secs_f64())
    }
}

impl From<TailError> for OpenError {
    fn from(error: TailError) -> OpenError {
        match error {
            TailError::Behind { .. } => OpenError::Behind,
            TailError::Corrupt(corruption) => corruption.into(),
            TailError::Unavailable(failure) => failure.into(),
        }
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> OpenError {
        match error {
            StoreError::Corrupt(corruption) => corruption.into(),
            StoreError::Unavailable(failure) => failure.into(),
            StoreError::Read(error) => error.into(),
            StoreError::TailTooLong { limit, .. } => OpenError::TailTooLong { limit },
            StoreError::Behind => OpenError::Behind,
            StoreError::Adoption(error) => error.into(),
            StoreError::TimedOut(_) | StoreError::Closed => OpenError::TimedOut,
        }
    }
}
