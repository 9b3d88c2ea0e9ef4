//! The current view of one process, and how it moves: after its own wins, with what others landed, and as the store is folded.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::adoption::{AdoptionError, still_on};
use crate::bucket::{Deadline, DeadlinePassed};
use crate::envelope::Slot;
use crate::error::{Corruption, Unavailable};
use crate::log::{Proof, SlotLog, TailError};
use crate::slot::{Sequence, sequence_after};
use crate::view::{Base, BaseSettings, ManifestObject, ReadError, Reaper, View, newest_manifest};

/// How many bytes of slots are read at once when memory does not reach back to the view.
const CHUNK_BYTES: usize = 8 << 20;

/// How often a process that fell behind looks for a manifest that covers what was retired. It was retired because such a
/// manifest is there, so once is enough, unless the bucket's listing lags or the log is retired just then once more.
const RELOADS: usize = 5;

/// When a process looks whether the store was folded, whichever comes first. A look is one LIST; when it was, a GET of the
/// manifest, and a LIST and a GET that tell whether the store is still on the same log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks {
    /// After so many slots.
    pub slots: u64,
    /// After so many bytes of slots.
    pub bytes: usize,
    /// After so much time, idle too. Three of these must fit the lifetime of the compactor's checkpoints.
    pub interval: Duration,
}

impl Default for Looks {
    /// 256 slots, 8 MiB, five minutes: a third of the compactor's 15 minutes.
    fn default() -> Looks {
        Looks { slots: 256, bytes: 8 << 20, interval: Duration::from_secs(5 * 60) }
    }
}

/// Why the current view could not be moved.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The log is damaged. Nothing past the damage is served.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The bucket failed. Try again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The tail is longer than this process may hold: fold the store.
    #[error("the tail has {bytes} bytes, more than {limit}: fold the store")]
    TailTooLong {
        /// What it has.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// The log was retired faster than it could be read. Try again.
    #[error("the log was retired faster than it could be read")]
    Behind,
    /// The deadline passed.
    #[error(transparent)]
    TimedOut(#[from] DeadlinePassed),
    /// The store was closed.
    #[error("the store was closed")]
    Closed,
    /// The store is not on its log any more: open it anew.
    #[error(transparent)]
    Adoption(AdoptionError),
}

impl From<AdoptionError> for StoreError {
    fn from(error: AdoptionError) -> StoreError {
        error.sorted(StoreError::Adoption)
    }
}

impl From<TailError> for StoreError {
    fn from(error: TailError) -> StoreError {
        match error {
            TailError::Behind { .. } => StoreError::Behind,
            TailError::Corrupt(corruption) => corruption.into(),
            TailError::Unavailable(failure) => failure.into(),
        }
    }
}

/// The current view.
///
/// - It only moves forward.
/// - `moving` is held across requests and orders them; the view itself is only ever locked to be replaced.
pub(super) struct Current {
    log: SlotLog,
    base_settings: BaseSettings,
    looks: Looks,
    max_tail_bytes: usize,
    view: Mutex<View>,
    since_look: Mutex<SinceLook>,
    moving: tokio::sync::Mutex<Reaper>,
}

#[derive(Clone, Copy, Default)]
struct SinceLook {
    slots: u64,
    bytes: usize,
}

impl Current {
    /// Reads the store and the log's tail.
    pub(super) async fn load(
        log: SlotLog,
        base_settings: BaseSettings,
        looks: Looks,
        max_tail_bytes: usize,
        deadline: &Deadline,
    ) -> Result<Current, StoreError> {
        let record = log.record();
        let empty = View::new(Arc::new(Base::empty()), record.origin, record.reserved_key.clone());
        let current = Current {
            log,
            base_settings,
            looks,
            max_tail_bytes,
            view: Mutex::new(empty),
            since_look: Mutex::default(),
            moving: tokio::sync::Mutex::default(),
        };
        match current.begin(deadline).await {
            Ok(()) => Ok(current),
            Err(error) => {
                // The base that was opened on the way has a task, which nobody else could end.
                current.close().await;
                Err(error)
            }
        }
    }

    async fn begin(&self, deadline: &Deadline) -> Result<(), StoreError> {
        let mut reaper = self.moving.lock().await;
        self.look(&mut reaper, deadline).await?;
        self.start(&mut reaper, deadline).await
    }

    pub(super) fn log(&self) -> &SlotLog {
        &self.log
    }

    pub(super) fn view(&self) -> View {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, View> {
        // It is only ever replaced whole.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the view to the log's known head, from memory. When memory does not reach back to the view, that stays, and the next
    /// [`Current::catch_up`] reads what is missing.
    pub(super) fn install(&self) -> Result<(), StoreError> {
        let mut view = self.locked();
        let Some(slots) = self.log.remembered_after(view.head()) else { return Ok(()) };
        self.advance(&mut view, &slots)
    }

    /// Moves the view over `slots`, unless the tail would be longer than this process may hold: then it stays.
    fn advance(&self, view: &mut View, slots: &[Arc<Slot>]) -> Result<(), StoreError> {
        // A gap means that another task moved the view meanwhile, and then there is nothing to do.
        let Ok(advanced) = view.advanced(slots) else { return Ok(()) };
        let (bytes, limit) = (advanced.overlay().bytes(), self.max_tail_bytes);
        if bytes > limit && !slots.is_empty() {
            return Err(StoreError::TailTooLong { bytes, limit });
        }
        *view = advanced;
        self.count(slots.len() as u64, slots.iter().map(|slot| slot.bytes().len()).sum());
        Ok(())
    }

    /// Moves the view to `sequence`, which is known to have landed: from memory, or by reads where memory does not reach back to
    /// the view.
    pub(super) async fn show(&self, sequence: Sequence, deadline: &Deadline) -> Result<(), StoreError> {
        self.install()?;
        if !self.shows(sequence) {
            // An absent slot may not count as the end here: it has landed.
            self.catch_up(Proof::Always, deadline).await?;
        }
        if self.shows(sequence) { Ok(()) } else { Err(StoreError::Behind) }
    }

    /// Reads what others landed, and moves the view over it.
    pub(super) async fn catch_up(&self, proof: Proof, deadline: &Deadline) -> Result<(), StoreError> {
        let mut reaper = deadline.bound(self.moving.lock()).await?;
        match self.log.catch_up(proof, deadline).await {
            Ok(()) => {}
            Err(TailError::Behind { .. }) => self.reload(&mut reaper, deadline).await?,
            Err(error) => return Err(error.into()),
        }
        match self.fill(&mut reaper, deadline).await {
            // The store may have been folded since: only a look tells, and nothing else would ever make room.
            Err(StoreError::TailTooLong { .. }) => {
                self.look(&mut reaper, deadline).await?;
                self.fill(&mut reaper, deadline).await
            }
            Ok(()) if self.look_is_due() => self.look(&mut reaper, deadline).await,
            filled => filled,
        }
    }

    /// Looks whether the store was folded, and closes bases that nobody reads any more.
    pub(super) async fn look_now(&self, deadline: &Deadline) -> Result<(), StoreError> {
        let mut reaper = deadline.bound(self.moving.lock()).await?;
        self.look(&mut reaper, deadline).await
    }

    /// This process fell behind the log: starts again from the store, as an open does.
    pub(super) async fn reload_now(&self, deadline: &Deadline) -> Result<(), StoreError> {
        let mut reaper = deadline.bound(self.moving.lock()).await?;
        self.reload(&mut reaper, deadline).await?;
        self.fill(&mut reaper, deadline).await
    }

    /// Closes every base, in use or not.
    pub(super) async fn close(&self) {
        let mut reaper = self.moving.lock().await;
        reaper.close().await;
        let base = self.locked().base().clone();
        base.close().await;
    }

    /// Loads the log past what the view's base covers.
    async fn start(&self, reaper: &mut Reaper, deadline: &Deadline) -> Result<(), StoreError> {
        let covered = self.view().base().covered();
        match self.log.load(covered, deadline).await {
            Ok(()) => self.fill(reaper, deadline).await,
            Err(TailError::Behind { .. }) => {
                self.reload(reaper, deadline).await?;
                self.fill(reaper, deadline).await
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn reload(&self, reaper: &mut Reaper, deadline: &Deadline) -> Result<(), StoreError> {
        let mut backoff = self.log.bucket().pace().backoff(self.log.bucket().environment());
        for _ in 0..RELOADS {
            self.look(reaper, deadline).await?;
            match self.log.load(self.view().base().covered(), deadline).await {
                Ok(()) => return Ok(()),
                Err(TailError::Behind { .. }) => deadline.bound(backoff.wait()).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreError::Behind)
    }

    /// Moves the view to the log's known head, reading what memory has lost.
    async fn fill(&self, reaper: &mut Reaper, deadline: &Deadline) -> Result<(), StoreError> {
        // Bounded by the deadline: each round moves the view.
        loop {
            self.install()?;
            let view = self.view();
            let Some(head) = self.log.head().filter(|head| Some(*head) > view.head()) else { return Ok(()) };
            let next = sequence_after(view.head(), self.log.record().origin);
            match self.log.slots(next, head, CHUNK_BYTES, deadline).await {
                Ok(slots) => {
                    let mut view = self.locked();
                    self.advance(&mut view, &slots)?;
                }
                Err(TailError::Behind { .. }) => self.reload(reaper, deadline).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn look(&self, reaper: &mut Reaper, deadline: &Deadline) -> Result<(), StoreError> {
        let found = self.newest_manifest(deadline).await?;
        *self.since_look.lock().unwrap_or_else(PoisonError::into_inner) = SinceLook::default();
        let Some(manifest) = found else {
            reaper.reap().await;
            return Ok(());
        };
        // SUBTLE: after the manifest was read. It may be another store's, which was created where this one was dropped, and that
        // one's rows under this one's tail would be nobody's.
        still_on(self.log.bucket(), self.log.record().log, deadline).await?;
        let base = Arc::new(deadline.bound(Base::open(&self.base_settings, &manifest)).await??);
        let superseded = {
            let mut view = self.locked();
            match view.rebased(base.clone()) {
                Ok(rebased) => std::mem::replace(&mut *view, rebased).base().clone(),
                // A manifest that covers less than an older one is never written.
                Err(_) => base,
            }
        };
        reaper.supersede(superseded).await;
        Ok(())
    }

    /// Asks for the newest manifest until there is an answer, as every other read of the bucket does.
    async fn newest_manifest(&self, deadline: &Deadline) -> Result<Option<ManifestObject>, StoreError> {
        let known = self.view().base().manifest_id();
        let BaseSettings { bucket, path, .. } = &self.base_settings;
        let (pace, environment) = (self.log.bucket().pace(), self.log.bucket().environment());
        let mut backoff = pace.backoff(environment);
        // Bounded by the deadline.
        loop {
            // A search is a LIST and a GET, several times where the collector is faster.
            let attempt = Deadline::after(environment, pace.attempt * 2);
            let failed: StoreError = match deadline.bound(attempt.bound(newest_manifest(bucket, path, known))).await? {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(error @ ReadError::Unavailable { .. })) => error.into(),
                Ok(Err(error)) => return Err(error.into()),
                Err(passed) => passed.into(),
            };
            if deadline.bound(backoff.wait()).await.is_err() {
                return Err(failed);
            }
        }
    }

    fn look_is_due(&self) -> bool {
        let since = *self.since_look.lock().unwrap_or_else(PoisonError::into_inner);
        since.slots >= self.looks.slots || since.bytes >= self.looks.bytes || self.view().base().has_outlived()
    }

    fn count(&self, slots: u64, bytes: usize) {
        let mut since = self.since_look.lock().unwrap_or_else(PoisonError::into_inner);
        since.slots += slots;
        since.bytes += bytes;
    }

    /// Whether the view has come to `sequence`.
    pub(super) fn shows(&self, sequence: Sequence) -> bool {
        self.locked().head() >= Some(sequence)
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "current view with head {:?}", self.view().head())
    }
}
