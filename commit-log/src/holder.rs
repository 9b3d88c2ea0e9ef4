//! The holder: the process that has the store open as SlateDB's writer, folds what lands and flushes it.

mod fold;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use slatedb::Db;
use tokio::sync::watch;

use crate::bucket::Deadline;
use crate::error::Unavailable;
use crate::inspect::{Inspect, Refusal};
use crate::log::{SlotLog, TailError};
use crate::manifest::ManifestUnread;
use crate::publish::{Publication, PublishFailure};
use crate::slot::Sequence;
use crate::take::{TakeError, TakeStore};
use crate::wal::WriterSession;

use fold::Fold;

/// How a holder holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingOptions {
    /// Flushes after so many slots.
    pub flush_slots: u64,
    /// Flushes after so many bytes of keys and values.
    pub flush_bytes: usize,
    /// How often the log is asked for more when nobody nudges.
    pub poll: Duration,
    /// The store's own limit of unmerged files, at which a flush would hang: the lower one of its settings `l0_max_ssts` and
    /// `l0_max_ssts_per_key`.
    pub l0_limit: usize,
    /// How long the holder stays for a compactor when unmerged files pile up: before a flush that would hang, and, unless
    /// `external_compaction` is set, when it gives the store back.
    pub compaction_wait: Duration,
    /// Whether what merges the store's files runs outside of it, in another process. A holder then leaves it no room when it gives
    /// the store back, and a store that is full is not taken: holding it would merge nothing.
    pub external_compaction: bool,
    /// How long opening, flushing or closing the store may take.
    pub store_call: Duration,
}

/// What a holder does when the store is at its limit of unmerged files, and a flush would hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It closes the store without a flush. The log grows until something compacts the store.
    GiveUp,
    /// It goes on, and what it folds waits in memory. When that is half of what it may be, it says so: see [`Folded::stuck_at`].
    GoOn {
        /// The store's `max_unflushed_bytes`: at it, SlateDB takes no write any more.
        max_unflushed_bytes: usize,
    },
}

impl Default for HoldingOptions {
    /// Flushes every 512 slots or 16 MiB: a take then replays at most that much. Asks every second. Stays up to two minutes
    /// for the compactor, which looks every five seconds by default and runs in the store that is taken.
    fn default() -> HoldingOptions {
        HoldingOptions {
            flush_slots: 512,
            flush_bytes: 16 << 20,
            poll: Duration::from_secs(1),
            l0_limit: slatedb::config::Settings::default().l0_max_ssts,
            compaction_wait: Duration::from_secs(120),
            external_compaction: false,
            store_call: Duration::from_secs(120),
        }
    }
}

/// Why a holder holds no longer. The log is intact: what was won and not folded, the next take folds.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// The store could not be taken.
    #[error(transparent)]
    Take(#[from] TakeError),
    /// Another process took the store.
    #[error("another process took the store")]
    Fenced,
    /// The store did not take a slot. It was closed without a flush, so that a reopen folds the slot: it has landed, and is
    /// not served yet.
    #[error("the store did not take slot {sequence}")]
    NotApplied {
        /// The slot.
        sequence: Sequence,
        /// What the store said.
        #[source]
        source: Arc<slatedb::Error>,
    },
    /// The store could not flush.
    #[error("the store could not flush")]
    NotFlushed(#[source] Arc<slatedb::Error>),
    /// The store is at its limit of unmerged files and nothing merged them. It was closed without a flush.
    #[error("the store has {files} unmerged files, its limit is {limit}: something must compact it")]
    L0Full {
        /// How many there are.
        files: usize,
        /// The limit.
        limit: usize,
    },
    /// SlateDB closed the store's handle under the holder. Nothing is lost: take the store again. It happens to a successor whose
    /// clock is slower than its predecessor's, when the predecessor's compactor began a job during the take.
    #[error("the store's handle was closed")]
    Closed(#[source] Arc<slatedb::Error>),
    /// A manifest of the store could not be read, so nobody knows whether it must be folded. Nothing was taken.
    #[error("a manifest of the store could not be read")]
    Manifest(#[source] Arc<slatedb::Error>),
    /// The runtime that it ran on is gone.
    #[error("the holder's runtime has ended")]
    RuntimeEnded,
    /// Opening, flushing or closing the store was not done in time.
    #[error("the store was not done in time with {doing}")]
    TimedOut {
        /// What it was doing.
        doing: &'static str,
    },
    /// The embedder's own check refuses a slot that has landed. Nothing from it on is folded: it is corruption.
    #[error("slot {sequence} is refused by the embedder's own check")]
    SlotRefused {
        /// The slot.
        sequence: Sequence,
        /// What the check said.
        #[source]
        source: Refusal,
    },
    /// What the store has could not be published. It has landed all the same, and the next publication has it.
    #[error("the store was not published: {0}")]
    NotPublished(#[source] PublishFailure),
    /// The publication was answered with success, and no live checkpoint of the agreed name covers the slot. Whoever publishes uses
    /// another name, or publishes something else.
    #[error("no live checkpoint of the agreed name covers slot {sequence}")]
    NotCovered {
        /// The slot.
        sequence: Sequence,
    },
    /// The log could not be read, or is damaged.
    #[error(transparent)]
    Tail(#[from] TailError),
}

impl From<Unavailable> for HoldError {
    fn from(failure: Unavailable) -> HoldError {
        HoldError::Tail(failure.into())
    }
}

impl From<ManifestUnread> for HoldError {
    fn from(unread: ManifestUnread) -> HoldError {
        match unread {
            ManifestUnread::Failed(error) => HoldError::Manifest(error),
            ManifestUnread::TimedOut(_) => HoldError::TimedOut { doing: "reading its manifest" },
        }
    }
}

/// How far the holder has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// The last slot that is in the store.
    pub applied: Option<Sequence>,
    /// The last slot that is durable in it.
    pub flushed: Option<Sequence>,
    /// How many unmerged files keep it from flushing, while what waits in memory is at least half of what it may be. Only of a
    /// store that its embedder opened as held; any other holder gives a full store back.
    pub stuck_at: Option<usize>,
}

/// How far what a holder has is published.
#[derive(Clone, Debug, Default)]
pub(crate) struct Publishing {
    /// The last slot that is.
    through: Option<Sequence>,
    /// The last slot of a publication that failed since, and why.
    failed: Option<(Sequence, HoldError)>,
}

/// A store that was opened as its writer, and the log it was opened over.
pub(crate) struct Taken {
    pub(crate) log: SlotLog,
    pub(crate) db: Db,
    pub(crate) session: WriterSession,
}

/// How a store is held.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) options: HoldingOptions,
    pub(crate) when_full: WhenFull,
    /// Checks every slot before it is folded; those that the open replayed, before the first flush.
    pub(crate) inspect: Inspect,
    /// Publishes what is folded, its own and what others landed.
    pub(crate) publication: Option<Publication>,
}

/// The store, held. It folds in a task of its own until it is stopped, fenced, or cannot go on.
///
/// Dropping it stops the task as [`Holder::stop`] does, without waiting for it.
pub struct Holder {
    stop: watch::Sender<bool>,
    folded: watch::Receiver<Folded>,
    publishing: watch::Receiver<Publishing>,
    ended: watch::Receiver<Option<Result<(), HoldError>>>,
}

impl Holder {
    /// Takes the store and holds it. Opening replays the log, which folds it.
    ///
    /// # Errors
    ///
    /// When it could not be taken. Whoever held it before may have been fenced all the same.
    pub async fn take(log: SlotLog, taker: &dyn TakeStore, options: HoldingOptions) -> Result<Holder, HoldError> {
        let (db, session) = open(&log, taker, &options).await?.ok_or(TakeError::Declined)?;
        let terms = Terms { options, when_full: WhenFull::GiveUp, inspect: Inspect::default(), publication: None };
        Ok(Holder::over(Taken { log, db, session }, terms))
    }

    /// Holds a store that is open.
    ///
    /// It begins at once, in a task of the runtime that this is called in.
    pub(crate) fn over(taken: Taken, terms: Terms) -> Holder {
        Holder::begin(taken, terms, Fold::run)
    }

    /// Publishes what has landed up to `sequence` at least, and gives the store back without a last flush. It ends by itself, and is
    /// not stopped before it has.
    pub(crate) fn to_publish(taken: Taken, terms: Terms, sequence: Sequence) -> Holder {
        Holder::begin(taken, terms, move |fold, _| fold.publish_only(sequence))
    }

    fn begin<Run>(taken: Taken, terms: Terms, run: impl FnOnce(Fold, watch::Receiver<bool>) -> Run) -> Holder
    where
        Run: Future<Output = Result<(), HoldError>> + Send + 'static,
    {
        let (folded_sender, folded) = watch::channel(Folded::default());
        let (publishing_sender, publishing) = watch::channel(Publishing::default());
        let (ended_sender, ended) = watch::channel(None);
        let (stop, stopped) = watch::channel(false);
        let running = run(Fold::new(taken, terms, folded_sender, publishing_sender), stopped);
        tokio::spawn(async move {
            let result = running.await;
            ended_sender.send_replace(Some(result));
        });
        Holder { stop, folded, publishing, ended }
    }

    /// How far it has come, and every move of that.
    pub fn folded(&self) -> watch::Receiver<Folded> {
        self.folded.clone()
    }

    /// Waits until it holds no longer, by itself.
    ///
    /// # Errors
    ///
    /// Why it holds no longer.
    pub async fn ended(&self) -> Result<(), HoldError> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(result) => result.clone().unwrap_or(Ok(())),
            // The task is gone with its runtime.
            Err(_) => Err(HoldError::RuntimeEnded),
        }
    }

    /// Folds what has landed, flushes, closes the store and gives it back.
    ///
    /// # Errors
    ///
    /// Why something of that was left undone. The log is intact, and the store is closed or will be.
    pub async fn stop(self) -> Result<(), HoldError> {
        self.give_back().await
    }

    /// The same, of a holder that others may still ask how it ended.
    pub(crate) async fn give_back(&self) -> Result<(), HoldError> {
        self.stop.send_replace(true);
        self.ended().await
    }

    /// Waits until the store has slot `sequence`. Else how the holder ended before.
    pub(crate) async fn applied(&self, sequence: Sequence) -> Option<Result<(), HoldError>> {
        let mut folded = self.folded();
        let has_it = |folded: &Folded| folded.applied >= Some(sequence);
        let ended = tokio::select! {
            biased;
            // Without a sender the task is over.
            applied = folded.wait_for(has_it) => match applied {
                Ok(_) => return None,
                Err(_) => None,
            },
            ended = self.ended() => Some(ended),
        };
        let ended = match ended {
            Some(ended) => ended,
            None => self.ended().await,
        };
        let in_the_end = *self.folded.borrow();
        (!has_it(&in_the_end)).then_some(ended)
    }

    /// Waits until slot `sequence`, which it has applied, is published. It is asked only where something is published at all.
    ///
    /// # Errors
    ///
    /// Why the publication that would have covered it did not, or how the holder ended before.
    pub(crate) async fn published(&self, sequence: Sequence) -> Result<(), HoldError> {
        let mut publishing = self.publishing.clone();
        let is_tried = |publishing: &Publishing| {
            publishing.through >= Some(sequence) || publishing.failed.as_ref().is_some_and(|(tried, _)| *tried >= sequence)
        };
        let tried = publishing.wait_for(is_tried).await.map(|publishing| publishing.clone());
        match tried {
            Ok(Publishing { through, .. }) if through >= Some(sequence) => Ok(()),
            Ok(Publishing { failed: Some((_, error)), .. }) => Err(error),
            // Without a sender the task is over. One that ended well published before it gave the store back.
            Ok(Publishing { failed: None, .. }) | Err(_) => self.ended().await,
        }
    }

    /// How it ended, if it has.
    pub(crate) fn how_it_ended(&self) -> Option<Result<(), HoldError>> {
        self.ended.borrow().clone()
    }
}

/// Has the store opened as SlateDB's writer, in the time that its options give. `None` when whoever opens it declined.
pub(crate) async fn open(
    log: &SlotLog,
    taker: &dyn TakeStore,
    options: &HoldingOptions,
) -> Result<Option<(Db, WriterSession)>, HoldError> {
    let deadline = Deadline::after(log.bucket().environment(), options.store_call);
    Ok(deadline.bound(taker.take()).await.map_err(|_| TakeError::TimedOut)??)
}

/// The same to publish what was won, which writes no file.
pub(crate) async fn open_to_publish(
    log: &SlotLog,
    taker: &dyn TakeStore,
    options: &HoldingOptions,
) -> Result<(Db, WriterSession), HoldError> {
    let deadline = Deadline::after(log.bucket().environment(), options.store_call);
    Ok(deadline.bound(taker.take_for_publication()).await.map_err(|_| TakeError::TimedOut)??)
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder with {:?}", *self.folded.borrow())
    }
}
