//! Why a view could not be read, by what the reader does next.

use std::error::Error;
use std::sync::Arc;

use slatedb::ErrorKind;

use crate::slot::Sequence;

/// What lies under an error. Shared, so that an error can be given again to whoever asks again.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// A read that gave no answer. None of these ever stands for "no row": a view that cannot be read is an error, never a
/// shorter answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The files of the view's base were collected, or the base was closed because it was superseded for too long. Take a
    /// new view; this one never answers again where those files are needed.
    #[error("the view of manifest {manifest} outlived its files")]
    Outlived {
        /// The manifest that the view's base stands on.
        manifest: u64,
        /// What was missing.
        #[source]
        cause: Cause,
    },
    /// The bucket did not answer. The same read may be tried again.
    #[error("manifest {manifest} could not be read: the bucket did not answer")]
    Unavailable {
        /// The manifest in question, zero for the search for one.
        manifest: u64,
        /// What the bucket said.
        #[source]
        cause: Cause,
    },
    /// The store holds what it never should. Trying again does not help.
    #[error("manifest {manifest} or a file of it is damaged")]
    Corrupt {
        /// The manifest in question.
        manifest: u64,
        /// What is wrong.
        #[source]
        cause: Cause,
    },
    /// The store was written with other settings: another segment extractor, or a merge operator that is not given here.
    #[error("manifest {manifest} does not fit the reader's settings")]
    Settings {
        /// The manifest in question.
        manifest: u64,
        /// What does not fit.
        #[source]
        cause: Cause,
    },
    /// An earlier call of `next` on this scan was dropped before it answered, so where the scan stands is unknown.
    #[error("the scan was interrupted inside an earlier call: begin it again")]
    Interrupted,
    /// The scan's transaction was ended, so what is read now would not be checked.
    #[error("the scan's transaction has ended")]
    Ended,
}

impl ReadError {
    /// Sorts what SlateDB says of the store as of `manifest`.
    pub(crate) fn from_store(manifest: u64, error: slatedb::Error) -> ReadError {
        let kind = error.kind();
        let missing = names_a_missing_object(&error);
        let cause: Cause = Arc::new(error);
        if missing {
            return ReadError::Outlived { manifest, cause };
        }
        match kind {
            // Nobody closes a base but its owner, once it was superseded.
            ErrorKind::Closed(_) => ReadError::Outlived { manifest, cause },
            ErrorKind::Data => ReadError::Corrupt { manifest, cause },
            ErrorKind::Invalid => ReadError::Settings { manifest, cause },
            // What is not known to be lasting may pass.
            ErrorKind::Unavailable | ErrorKind::Internal | ErrorKind::Transaction | _ => {
                ReadError::Unavailable { manifest, cause }
            }
        }
    }
}

/// Whether a missing object is what lies under `error`.
///
/// SUBTLE: the kind does not tell: a missing file is `Data`, as damage is. Only the chain of causes says it.
fn names_a_missing_object(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    for _ in 0..MAX_CAUSES {
        let Some(error) = next else { return false };
        let direct = error.downcast_ref::<object_store::Error>();
        let shared = error.downcast_ref::<Arc<object_store::Error>>().map(Arc::as_ref);
        if matches!(direct.or(shared), Some(object_store::Error::NotFound { .. })) {
            return true;
        }
        next = error.source();
    }
    false
}

/// How far down a chain of causes is looked. Four wrappers are known; a chain this long is a loop.
const MAX_CAUSES: usize = 32;

/// A slot that does not follow the view's head. Applying it would leave a hole, so the view is to be loaded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected slot {expected} after the view's head, found slot {found}")]
pub struct Gap {
    /// The slot that follows the head.
    pub expected: Sequence,
    /// The slot that was given.
    pub found: Sequence,
}

/// A base that covers less than the one it was to replace. The view is kept as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a base that covers at least slot {covered}, found one up to {}", found.map_or(0, Sequence::get))]
pub struct OlderBase {
    /// What the present base covers.
    pub covered: Sequence,
    /// What the other one covers.
    pub found: Option<Sequence>,
}
