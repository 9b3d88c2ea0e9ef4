//! How the library is given the store as its writer: the embedder opens it, over a session's plug.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use slatedb::{CloseReason, Db, ErrorKind};

use crate::place::LogPlace;
use crate::wal::WriterSession;

/// Opens the store as its writer.
#[async_trait]
pub trait TakeStore: Send + Sync + 'static {
    /// Opens the store over a fresh [`WriterSession`]: with the session's `writer_init` and its `clock`. The open's replay
    /// folds the log. `None` declines, for instance when the store is at its limit of unmerged files.
    ///
    /// Opening fences whoever held the store before. The future may be dropped when it takes too long.
    ///
    /// # Errors
    ///
    /// See [`TakeError`]; [`TakeError::from`] sorts SlateDB's errors.
    async fn take(&self) -> Result<Option<(Db, WriterSession)>, TakeError>;

    /// The same, to publish what this process has won and give the store back. No file is written, so a limit of unmerged files is no
    /// reason to decline. By default it is [`TakeStore::take`], which may have other reasons.
    ///
    /// # Errors
    ///
    /// See [`TakeError`]; [`TakeError::Declined`] when the take was declined all the same.
    async fn take_for_publication(&self) -> Result<(Db, WriterSession), TakeError> {
        self.take().await?.ok_or(TakeError::Declined)
    }
}

/// Why the store was not taken. Each says what the caller does next.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// Whoever opens the store declined.
    #[error("the take of the store was declined")]
    Declined,
    /// Another process created the store at the same moment. Take again: it is there now.
    #[error("another process created the store at the same moment")]
    OpenRaced,
    /// Another process took the store meanwhile. Nothing is lost; whoever must hold it waits and takes again.
    #[error("another process took the store meanwhile")]
    Fenced,
    /// The bucket failed.
    #[error("the store could not be opened: the bucket is unavailable")]
    Unavailable(#[source] Arc<slatedb::Error>),
    /// The open was not done in time.
    #[error("the store was not opened in time")]
    TimedOut,
    /// SlateDB, or the log under it, refused for a reason that does not pass.
    #[error("the store could not be opened: {0}")]
    Refused(#[source] Arc<slatedb::Error>),
}

/// What SlateDB says when it loses the race to write a manifest for the first time. It has no kind of its own for that.
const LOST_CREATION: &str = "transactional object (e.g. manifest) version already exists";

impl From<slatedb::Error> for TakeError {
    fn from(error: slatedb::Error) -> TakeError {
        let kind = error.kind();
        if kind == ErrorKind::Closed(CloseReason::Fenced) {
            TakeError::Fenced
        } else if kind == ErrorKind::Unavailable {
            TakeError::Unavailable(Arc::new(error))
        } else if kind == ErrorKind::Data && error.to_string().contains(LOST_CREATION) {
            // The one place that looks at a message; a test stages the lost race.
            TakeError::OpenRaced
        } else {
            TakeError::Refused(Arc::new(error))
        }
    }
}

/// A [`TakeStore`] made of a closure, which is given the session to open the store over.
pub struct TakeWith<F> {
    place: LogPlace,
    open: F,
}

impl<F> TakeWith<F> {
    /// Opens the store there with `open`.
    pub fn new(place: impl Into<LogPlace>, open: F) -> TakeWith<F> {
        TakeWith { place: place.into(), open }
    }
}

#[async_trait]
impl<F, Opening> TakeStore for TakeWith<F>
where
    F: Fn(WriterSession) -> Opening + Send + Sync + 'static,
    Opening: Future<Output = Result<Option<Db>, TakeError>> + Send,
{
    async fn take(&self) -> Result<Option<(Db, WriterSession)>, TakeError> {
        let session = WriterSession::new(self.place.clone());
        Ok((self.open)(session.clone()).await?.map(|db| (db, session)))
    }
}

impl<F> fmt::Debug for TakeWith<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeWith").field("place", &self.place).finish_non_exhaustive()
    }
}
