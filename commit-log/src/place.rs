//! Where a log is, or is to begin: what a session knows before anybody has looked.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use crate::adoption::{AdoptionError, FreshLog, StoreSeen, begin_unless_there, find};
use crate::bucket::{Bucket, Deadline};
use crate::log::{LogOptions, SlotLog};
use crate::record::AdoptionRecord;

/// The folder of one store, and how its log is read, written and begun by this process.
///
/// Clones share what was found: one log, with one memory of it, serves every session that is made of them. Making one does no I/O.
#[derive(Clone)]
pub struct LogPlace {
    inner: Arc<Inner>,
}

struct Inner {
    bucket: Bucket,
    fresh: FreshLog,
    options: LogOptions,
    log: OnceCell<SlotLog>,
}

impl LogPlace {
    /// The store in the folder of `bucket`. `fresh` are the properties of its log where none is yet; a log that is there keeps
    /// its own.
    pub fn new(bucket: Bucket, fresh: FreshLog, options: LogOptions) -> LogPlace {
        LogPlace { inner: Arc::new(Inner { bucket, fresh, options, log: OnceCell::new() }) }
    }

    /// The bucket it is in.
    pub fn bucket(&self) -> &Bucket {
        &self.inner.bucket
    }

    /// The log, if anybody has found it yet. No request.
    pub fn known(&self) -> Option<SlotLog> {
        self.inner.log.get().cloned()
    }

    /// Finds the log that is here. Writes nothing. What was found once is not looked for again.
    ///
    /// # Errors
    ///
    /// [`AdoptionError::NoLog`] when there is none, which is no answer for later: it may begin at any time.
    pub async fn find(&self, deadline: &Deadline) -> Result<SlotLog, AdoptionError> {
        match self.known() {
            Some(log) => Ok(log),
            None => self.learn(Box::pin(find(&self.inner.bucket, deadline))).await,
        }
    }

    /// Finds the log that is here, or begins it where nothing else is. `store` is what the caller has seen of the store.
    pub(crate) async fn find_or_begin(&self, store: StoreSeen, deadline: &Deadline) -> Result<SlotLog, AdoptionError> {
        let Inner { bucket, fresh, .. } = &*self.inner;
        self.learn(Box::pin(begin_unless_there(bucket, fresh, store, deadline))).await
    }

    /// The log of `record`, unless another task was faster.
    async fn learn(&self, record: BoxFuture<'_, Result<AdoptionRecord, AdoptionError>>) -> Result<SlotLog, AdoptionError> {
        let Inner { bucket, options, log, .. } = &*self.inner;
        let found = log.get_or_try_init(async || Ok(SlotLog::new(bucket.clone(), record.await?, options.clone())));
        found.await.cloned()
    }
}

impl From<SlotLog> for LogPlace {
    /// The place of a log that is known.
    fn from(log: SlotLog) -> LogPlace {
        let (bucket, options) = (log.bucket().clone(), log.options().clone());
        let inner = Inner { bucket, fresh: FreshLog::default(), options, log: OnceCell::new_with(Some(log)) };
        LogPlace { inner: Arc::new(inner) }
    }
}

impl fmt::Debug for LogPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some(log) => write!(f, "the place of {log:?}"),
            None => write!(f, "the place {} of a log", self.inner.bucket.root()),
        }
    }
}
