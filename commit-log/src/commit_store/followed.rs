//! A store that its embedder opened as a reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{Either, select};
use slatedb::DbReader;

use crate::adoption::AdoptionError;
use crate::bucket::Deadline;
use crate::log::{Proof, SlotLog, TailError};
use crate::slot::Sequence;
use crate::wal::ReaderSession;

use super::{CommitStoreError, NotServing, Role};

/// How many looks of the reader may be in vain before the next one is put off. One may have been under way already when the slot
/// landed.
const LOOKS_AT_ONCE: u32 = 2;

pub(super) struct Followed {
    reader: Arc<DbReader>,
    session: ReaderSession,
    closed: AtomicBool,
}

impl Followed {
    pub(super) fn new(reader: Arc<DbReader>, session: ReaderSession) -> Followed {
        session.watermark_source().watches(reader.subscribe());
        Followed { reader, session, closed: AtomicBool::new(false) }
    }

    pub(super) fn role(&self) -> Role {
        if self.check_open().is_ok() { Role::Following } else { Role::Ended }
    }

    pub(super) async fn log(&self) -> Result<SlotLog, CommitStoreError> {
        self.check_open()?;
        let place = self.session.place();
        match place.find(&place.bucket().deadline()).await {
            Err(AdoptionError::NoLog) => Err(CommitStoreError::NotAdopted),
            found => Ok(found?),
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

    /// The last slot that is in the files of the manifest that the reader reads.
    pub(super) fn covered(&self) -> Option<Sequence> {
        Sequence::new(self.reader.manifest().last_l0_seq())
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
        self.reader.close().await.map_err(|error| CommitStoreError::NotClosed(Arc::new(error)))
    }
}
