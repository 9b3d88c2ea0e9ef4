//! A store that its embedder opened as a reader.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use futures::future::{Either, select};
use slatedb::DbReader;
use tokio::runtime::Handle;

use crate::adoption::AdoptionError;
use crate::bucket::Deadline;
use crate::holder::{HoldError, Holder};
use crate::log::{Proof, SlotLog, TailError};
use crate::manifest::Manifests;
use crate::slot::Sequence;
use crate::wal::ReaderSession;

use super::folder::{Duty, FoldEnd, Folder};
use super::role::Reason;
use super::{CommitStoreError, Hooks, NotServing, Role};

/// How many looks of the reader may be in vain before the next one is put off. One may have been under way already when the slot
/// landed.
const LOOKS_AT_ONCE: u32 = 2;

pub(super) struct Followed {
    reader: Arc<DbReader>,
    session: ReaderSession,
    hooks: Hooks,
    /// What folds the store on its behalf, once the log is known.
    duty: OnceLock<Duty>,
    closed: AtomicBool,
}

impl Followed {
    pub(super) fn new(reader: Arc<DbReader>, session: ReaderSession, hooks: &Hooks) -> Followed {
        session.watermark_source().watches(reader.subscribe());
        let followed =
            Followed { reader, session, hooks: hooks.clone(), duty: OnceLock::new(), closed: AtomicBool::new(false) };
        if let (Some(log), Ok(_)) = (followed.session.place().known(), Handle::try_current()) {
            followed.duty(&log);
        }
        followed
    }

    /// What folds the store on behalf of this process.
    fn duty(&self, log: &SlotLog) -> &Duty {
        self.duty.get_or_init(|| {
            let folder = Folder::new(log.clone(), self.hooks.clone());
            folder.saw(&self.reader.manifest());
            Duty::begin(folder)
        })
    }

    fn holder(&self) -> Option<Arc<Holder>> {
        self.duty.get()?.holder()
    }

    pub(super) fn role(&self) -> Role {
        match (self.check_open(), self.holder()) {
            (Ok(()), None) => Role::Following,
            (Ok(()), Some(_)) => Role::Holding,
            (Err(_), _) => Role::Ended,
        }
    }

    /// This process won `sequence`.
    pub(super) fn won(&self, sequence: Sequence) {
        if let Some(duty) = self.duty.get() {
            duty.won(sequence);
        }
    }

    pub(super) async fn fold(&self, reason: Reason) -> Result<FoldEnd, CommitStoreError> {
        let log = self.log().await?;
        self.duty(&log).fold(reason).await.map_err(CommitStoreError::NotFolded)
    }

    /// Sees to it that slot `sequence` is published, which this process won and serves.
    pub(super) async fn publish(&self, log: &SlotLog, sequence: Sequence) -> Result<(), HoldError> {
        self.duty(log).publish(sequence).await
    }

    pub(super) async fn log(&self) -> Result<SlotLog, CommitStoreError> {
        self.check_open()?;
        let place = self.session.place();
        match place.find(&place.bucket().deadline()).await {
            Err(AdoptionError::NoLog) => Err(CommitStoreError::NotAdopted),
            Err(error) => Err(error.into()),
            Ok(log) => {
                self.duty(&log);
                Ok(log)
            }
        }
    }

    fn check_open(&self) -> Result<(), CommitStoreError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(CommitStoreError::Closed);
        }
        let closed = self.reader.status().close_reason;
        closed.map_or(Ok(()), |reason| Err(CommitStoreError::ReaderClosed { reason }))
    }

    pub(super) fn served(&self) -> Option<Sequence> {
        self.session.watermark()
    }

    /// The last slot that is in the files of the manifest that the reader reads. May lag.
    fn covered(&self) -> Option<Sequence> {
        Sequence::new(self.reader.manifest().last_l0_seq())
    }

    /// The last slot that is in the store's files, by a look at the newest manifest.
    pub(super) async fn flushed(&self) -> Result<Option<Sequence>, CommitStoreError> {
        let newest = Manifests::of(self.session.place().bucket()).newest().await;
        let newest = newest.map_err(|unread| CommitStoreError::NotFolded(unread.into()))?;
        Ok(newest.and_then(|manifest| Sequence::new(manifest.last_l0_seq())))
    }

    pub(super) async fn catch_up(&self, log: &SlotLog, proof: Proof, deadline: &Deadline) -> Result<(), CommitStoreError> {
        let mut backoff = log.bucket().pace().backoff(log.bucket().environment());
        // Bounded by the deadline.
        loop {
            match log.catch_up(proof, deadline).await {
                Err(TailError::Behind { .. }) => {}
                caught_up => return Ok(caught_up?),
            }
            // The store was folded past what this process knows: its reader finds the newer manifest, and the log begins again there.
            self.session.nudge();
            match log.load(self.covered(), deadline).await {
                Err(TailError::Behind { .. }) => {}
                loaded => return Ok(loaded?),
            }
            deadline.bound(backoff.wait()).await.map_err(|_| CommitStoreError::Behind)?;
        }
    }

    pub(super) async fn serve(&self, sequence: Sequence, deadline: &Deadline) -> Result<(), NotServing> {
        if let Some(holder) = self.holder() {
            // One that ends meanwhile has given the store back, and the reader is what there is.
            deadline.bound(holder.applied(sequence)).await?;
        }
        let watermark = self.session.watermark_source();
        let mut state = watermark.subscribe();
        let mut status = self.reader.subscribe();
        let environment = self.session.place().bucket().environment();
        let mut backoff = self.session.place().bucket().pace().backoff(environment);
        let mut looks_in_vain = 0;
        // Bounded by the deadline.
        loop {
            let looks = state.borrow_and_update().looks();
            if watermark.served() >= Some(sequence) {
                return Ok(());
            }
            if looks_in_vain >= LOOKS_AT_ONCE {
                deadline.bound(backoff.wait()).await.map_err(|_| self.late())?;
            }
            self.session.nudge();
            let looked = state.wait_for(|state| state.served() >= Some(sequence) || state.looks() != looks);
            let closed = status.wait_for(|status| status.close_reason.is_some());
            match deadline.bound(select(Box::pin(looked), Box::pin(closed))).await {
                Ok(Either::Left(_)) => looks_in_vain += 1,
                Ok(Either::Right(_)) => return Err(NotServing::ReaderClosed),
                Err(_) => return Err(self.late()),
            }
        }
    }

    /// What kept the reader, if it told anybody.
    fn late(&self) -> NotServing {
        self.session.last_error().map_or(NotServing::TimedOut, NotServing::Reader)
    }

    pub(super) async fn close(&self) -> Result<(), CommitStoreError> {
        if self.closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        if let Some(duty) = self.duty.get() {
            duty.end().await;
        }
        self.reader.close().await.map_err(|error| CommitStoreError::NotClosed(Arc::new(error)))
    }
}
