//! Why a verb failed, as one line that says what to do.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use base64::DecodeError;

use crate::demo::supervise::SuperviseError;
use crate::location::{Location, LocationError, Trouble, in_one_line};
use crate::rows::{ReadError, WriteError};

/// What lies under the failure of a store.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The place cannot be used.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// The bucket's first answer says that it cannot be used.
    #[error("{location}: {trouble}")]
    Bucket {
        /// The store's place.
        location: Location,
        /// What is wrong.
        trouble: Trouble,
    },
    /// The store, or the log in it, gave no answer that may be used.
    #[error("{location}: {}", in_one_line(source.as_ref()))]
    Store {
        /// The store's place.
        location: Location,
        /// Why.
        source: Cause,
    },
    /// Rows could not be read.
    #[error(transparent)]
    Rows(#[from] ReadError),
    /// Rows could not be written.
    #[error(transparent)]
    Output(#[from] WriteError),
    /// A file could not be used.
    #[error("`{}`: {doing} failed: {}", path.display(), source.kind())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A file that can be read only once.
    #[error("`{}` is not a file: every writer reads it for itself, so save it to a file first", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// The file was written to while it was loaded.
    #[error("`{}` changed while it was loaded: it had {expected} rows, {loaded} were committed; load it again", path.display())]
    FileChanged {
        /// The file.
        path: PathBuf,
        /// How many rows it had at first.
        expected: u64,
        /// How many were committed.
        loaded: u64,
    },
    /// Everything is committed and waits to be folded.
    #[error("{location}: all rows are committed, but not folded into the store: {}", in_one_line(source.as_ref()))]
    NotFolded {
        /// The store's place.
        location: Location,
        /// Why.
        source: Cause,
    },
    /// A key that is no base64.
    #[error("the key is not base64")]
    Base64(#[source] DecodeError),
    /// A directory that a demo has used.
    #[error("`{}` holds a demo already: name another directory, or delete it", directory.display())]
    DirectoryUsed {
        /// The directory.
        directory: PathBuf,
    },
    /// A store that is there already.
    #[error("{location} holds a store already: a demo wants a place of its own")]
    StoreUsed {
        /// The store's place.
        location: Location,
    },
    /// A process that is told nothing cannot be supervised.
    #[error("a child process cannot do its work: {0}")]
    Child(String),
    /// Something in the demo's own files.
    #[error("{}", in_one_line(.0.as_ref()))]
    Demo(#[source] Cause),
    /// A child could not be supervised.
    #[error(transparent)]
    Supervise(#[from] SuperviseError),
    /// A child ended before its time.
    #[error("{who} ended before its time: {why}; every process was ended")]
    Ended {
        /// Which.
        who: String,
        /// What it said, or how it ended.
        why: String,
    },
    /// The user wants no more.
    #[error("interrupted: every process was ended; what was committed stays")]
    Interrupted,
    /// The operating system gave no runtime, time or randomness.
    #[error("this process cannot run: {0}")]
    System(String),
}

impl Failure {
    /// A failure of the store at `location`.
    pub fn store(location: &Location, source: impl Error + Send + Sync + 'static) -> Failure {
        Failure::Store { location: location.clone(), source: Box::new(source) }
    }

    /// Whether nobody reads any more what is printed: no failure of ours.
    pub fn is_closed_output(&self) -> bool {
        let of = |source: &io::Error| source.kind() == io::ErrorKind::BrokenPipe;
        if let Failure::Output(WriteError::Output { source, .. } | WriteError::Finish { source }) = self {
            of(source)
        } else {
            false
        }
    }
}
