//! Taking the store now and then, or for good: by cadence, when the tail has stalled, or because somebody asked.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slatedb::VersionedManifest;
use tokio::sync::{Notify, watch};

use crate::bucket::Deadline;
use crate::holder::{HoldError, Holder, Taken, WhenFull, open};
use crate::log::{Proof, SlotLog};
use crate::manifest::{Manifests, unmerged_files};
use crate::publish::Publisher;
use crate::retire::{Collector, RetireMode, RetireOptions};
use crate::slot::Sequence;
use crate::take::{TakeError, TakeStore};

use super::role::{MAX_WAITS, Reason, Rest, Rule, Step, StoreSeen, due_at, next};
use super::{CommitStoreSettings, Folding, Hooks};

/// How long somebody else's fold is waited for at first; it grows with the tail that there is to fold.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest that is waited at once.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How a fold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldEnd {
    /// This process took the store, and its files have every slot up to this one. `None` when there was none.
    Through(Option<Sequence>),
    /// The store was left alone.
    Rested(Rest),
    /// Another process took the store meanwhile. It folds what is left.
    Fenced,
}

/// A task that folds or holds the store. It ends when it is told to, or when this is dropped, and finishes what it has begun.
pub(crate) struct Duty {
    folder: Arc<Folder>,
    /// Its sender is gone when the task has ended.
    ended: watch::Receiver<()>,
}

impl Duty {
    /// Begins, in the runtime that this is called in.
    pub(crate) fn begin(folder: Folder) -> Duty {
        let folder = Arc::new(folder);
        let (running, ended) = watch::channel(());
        tokio::spawn({
            let folder = folder.clone();
            async move {
                folder.run().await;
                drop(running);
            }
        });
        Duty { folder, ended }
    }

    /// This process won `sequence`.
    pub(crate) fn won(&self, sequence: Sequence) {
        self.folder.won(sequence);
    }

    /// Tells of every hold of this process, when it begins and when it ends.
    pub(crate) fn holding(&self) -> watch::Receiver<Option<Arc<Holder>>> {
        self.folder.holder.subscribe()
    }

    /// Who holds the store for this process, if anybody does.
    pub(crate) fn holder(&self) -> Option<Arc<Holder>> {
        self.folder.holder.borrow().clone()
    }

    /// Folds the store once, if that is due and nobody else is at it. A process that is fenced meanwhile has done its part.
    ///
    /// # Errors
    ///
    /// See [`HoldError`]. The log is intact.
    pub(crate) async fn fold(&self, reason: Reason) -> Result<FoldEnd, HoldError> {
        self.folder.fold(reason).await
    }

    /// Sees to it that slot `sequence`, which this process won, is published, where anything is.
    ///
    /// # Errors
    ///
    /// Why it is not, as far as this process knows. It has landed all the same.
    pub(crate) async fn publish(&self, sequence: Sequence) -> Result<(), HoldError> {
        self.folder.publish(sequence).await
    }

    /// Ends it: a fold that is under way is finished, and what is held is given back.
    pub(crate) async fn end(&self) {
        self.folder.stop.send_replace(true);
        drop(self.ended.clone().wait_for(|()| false).await);
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.folder.stop.send_replace(true);
    }
}

/// Takes the store on behalf of a process that follows it.
pub(crate) struct Folder {
    pub(super) log: SlotLog,
    pub(super) hooks: Hooks,
    /// What is published, where anything is.
    pub(super) publisher: Option<Publisher>,
    collector: Collector,
    looked: Mutex<Looked>,
    obliged: Notify,
    /// Whether this process has committed anything. One that only reads takes the store only if it is told to.
    has_committed: watch::Sender<bool>,
    stop: watch::Sender<bool>,
    pub(super) holder: watch::Sender<Option<Arc<Holder>>>,
    /// One take at a time.
    pub(super) folding: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Looked {
    /// What the last look showed.
    pub(super) seen: Option<StoreSeen>,
    /// The head when a fold was last thought of.
    head: Option<Sequence>,
}

/// How a hold ended.
enum HoldEnd {
    /// Told to stop.
    Stopped,
    /// Another process took the store and folds from now on.
    Fenced,
    /// Whoever opens the store declined.
    Declined,
}

impl Folder {
    pub(crate) fn new(log: SlotLog, hooks: Hooks) -> Folder {
        let collector = Collector::new(log.clone());
        let publisher = hooks.publication.clone().map(|publication| Publisher::new(log.bucket().clone(), publication));
        Folder {
            log,
            hooks,
            publisher,
            collector,
            looked: Mutex::default(),
            obliged: Notify::new(),
            has_committed: watch::Sender::new(false),
            stop: watch::Sender::new(false),
            holder: watch::Sender::new(None),
            folding: tokio::sync::Mutex::default(),
        }
    }

    fn won(&self, sequence: Sequence) {
        self.has_committed.send_replace(true);
        if sequence.get().is_multiple_of(self.rule().fold_every) {
            self.obliged.notify_one();
        }
    }

    /// Takes note of a manifest that the process has read for another purpose.
    pub(crate) fn saw(&self, manifest: &VersionedManifest) {
        let covered = Sequence::new(manifest.last_l0_seq()).max(self.log.record().origin.previous());
        self.looked().seen = Some(StoreSeen { epoch: manifest.writer_epoch(), covered, files: unmerged_files(manifest) });
    }

    /// Folds or holds as the settings say, until told to stop.
    async fn run(&self) {
        if self.hooks.take.is_none() {
            return;
        }
        match self.settings().folding {
            Folding::Never => {}
            Folding::ByCadence => self.fold_by_cadence().await,
            Folding::Hold => self.hold_again_and_again().await,
        }
    }

    async fn fold_by_cadence(&self) {
        // Bounded by the stop.
        while let Some(reason) = self.due().await {
            if let Err(error) = self.fold(reason).await {
                tracing::warn!("the store was not folded by this process: {error}");
            }
        }
    }

    /// Takes the store at once, and after a fence only when nobody folds it: of several that all want to hold, each takes once.
    async fn hold_again_and_again(&self) {
        // Bounded by the stop.
        while !self.is_stopped() {
            match self.hold().await {
                Ok(HoldEnd::Stopped) => return,
                Ok(HoldEnd::Fenced) => self.nobody_folds().await,
                Ok(HoldEnd::Declined) => self.pause(LONGEST_WAIT).await,
                Err(error) => {
                    tracing::warn!("the store is not held by this process: {error}");
                    self.pause(LONGEST_WAIT).await;
                }
            }
        }
    }

    /// Waits until the store must be folded and nobody is at it, or until told to stop.
    async fn nobody_folds(&self) {
        // Bounded by the stop.
        while let Some(reason) = self.due().await {
            match self.rests(reason).await {
                Ok(None) => return,
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::warn!("the store is not looked at by this process: {error}");
                    self.pause(LONGEST_WAIT).await;
                }
            }
        }
    }

    /// Waits until the store may have to be folded. `None` when told to stop.
    async fn due(&self) -> Option<Reason> {
        tokio::select! {
            biased;
            () = self.stopped() => None,
            () = self.obliged.notified() => Some(Reason::Obliged),
            () = self.stalled() => Some(Reason::Stalled),
        }
    }

    /// Waits until the tail is so long that nobody can be folding it.
    async fn stalled(&self) {
        // The senders are here, so these only end when it is so.
        if self.settings().folding != Folding::Hold {
            drop(self.has_committed.subscribe().wait_for(|committed| *committed).await);
        }
        drop(self.log.subscribe().wait_for(|head| self.has_stalled(*head)).await);
    }

    async fn stopped(&self) {
        // Its sender is here, so this only ends when told to.
        drop(self.stop.subscribe().wait_for(|stopped| *stopped).await);
    }

    pub(super) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits about so long, or until told to stop.
    pub(super) async fn pause(&self, pause: Duration) {
        let environment = self.log.bucket().environment();
        let deadline = Deadline::after(environment, environment.jittered(pause));
        let _ = deadline.bound(self.stopped()).await;
    }

    async fn fold(&self, reason: Reason) -> Result<FoldEnd, HoldError> {
        let Some(taker) = &self.hooks.take else { return Ok(FoldEnd::Rested(Rest::Declined)) };
        if self.holder.borrow().is_some() {
            return Ok(FoldEnd::Rested(Rest::Folded));
        }
        let _turn = self.folding.lock().await;
        if let Some(rest) = self.rests(reason).await? {
            return Ok(FoldEnd::Rested(rest));
        }
        let holder = match self.take(&**taker).await {
            Ok(Some(holder)) => holder,
            Ok(None) => return Ok(FoldEnd::Rested(Rest::Declined)),
            Err(HoldError::Take(TakeError::Fenced)) => return Ok(FoldEnd::Fenced),
            Err(error) => return Err(error),
        };
        let given_back = holder.give_back().await;
        let through = holder.folded().borrow().flushed;
        match given_back {
            Ok(()) => {}
            Err(HoldError::Fenced) => return Ok(FoldEnd::Fenced),
            Err(HoldError::L0Full { .. }) => return Ok(FoldEnd::Rested(Rest::L0Full)),
            Err(error) => return Err(error),
        }
        self.retire().await;
        Ok(FoldEnd::Through(through))
    }

    /// Takes the store and holds it, until told to stop or fenced.
    async fn hold(&self) -> Result<HoldEnd, HoldError> {
        let Some(taker) = &self.hooks.take else { return Ok(HoldEnd::Declined) };
        let _turn = self.folding.lock().await;
        let holder = match self.take(&**taker).await {
            Ok(Some(holder)) => Arc::new(holder),
            Ok(None) => return Ok(HoldEnd::Declined),
            Err(HoldError::Take(TakeError::Fenced)) => return Ok(HoldEnd::Fenced),
            Err(error) => return Err(error),
        };
        self.holder.send_replace(Some(holder.clone()));
        let by_itself = tokio::select! {
            biased;
            () = self.stopped() => None,
            ended = holder.ended() => Some(ended),
        };
        let ended = match by_itself {
            Some(ended) => ended,
            None => holder.give_back().await,
        };
        self.holder.send_replace(None);
        match ended {
            Ok(()) => Ok(HoldEnd::Stopped),
            Err(HoldError::Fenced) => Ok(HoldEnd::Fenced),
            Err(error) => Err(error),
        }
    }

    /// Looks until it is clear what to do. Why the store is left alone, or `None` when it is to be taken.
    async fn rests(&self, reason: Reason) -> Result<Option<Rest>, HoldError> {
        self.looked().head = self.log.head();
        for waits in 0..=MAX_WAITS {
            let before = self.looked().seen.map(|seen| seen.epoch);
            let Some(seen) = self.look().await? else { return Ok(None) };
            self.log.catch_up(Proof::NowAndThen, &self.log.bucket().deadline()).await?;
            let head = self.log.head();
            match next(seen, before, head, reason, self.rule(), waits) {
                Step::Wait => {
                    let tail = head.map_or(0, |head| head.above(seen.covered));
                    let rounds = u32::try_from(tail / self.rule().fold_every).unwrap_or(u32::MAX);
                    let pause = FIRST_WAIT.saturating_mul(rounds.saturating_add(1)).min(LONGEST_WAIT);
                    self.pause(pause).await;
                    if self.is_stopped() {
                        return Ok(Some(Rest::Closing));
                    }
                }
                Step::Rest(rest) => return Ok(Some(rest)),
                Step::Take => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Reads the newest manifest. `None` while there is no store.
    async fn look(&self) -> Result<Option<StoreSeen>, HoldError> {
        let manifest = Manifests::of(self.log.bucket()).newest().await?;
        if let Some(manifest) = &manifest {
            self.saw(manifest);
        }
        Ok(self.looked().seen.filter(|_| manifest.is_some()))
    }

    async fn take(&self, taker: &dyn TakeStore) -> Result<Option<Holder>, HoldError> {
        let terms = self.hooks.terms(WhenFull::GiveUp);
        let Some((db, session)) = open(&self.log, taker, &terms.options).await? else { return Ok(None) };
        // Its own epoch is nobody else's work.
        self.saw(&db.manifest());
        Ok(Some(Holder::over(Taken { log: self.log.clone(), db, session }, terms)))
    }

    async fn retire(&self) {
        let options = RetireOptions { retain_pages: self.settings().retain_pages, ..RetireOptions::default() };
        match Box::pin(self.collector.run(&options, RetireMode::Retire)).await {
            Ok(retired) => tracing::debug!(pages = ?retired.pages, "the commit log was retired"),
            // The next pass goes on where this one ended.
            Err(error) => tracing::warn!("the commit log was not retired: {error}"),
        }
    }

    /// Whether the tail is so long that nobody can be folding it, and has grown since the last look by as much as makes a new one
    /// worth its requests.
    fn has_stalled(&self, head: Option<Sequence>) -> bool {
        let Some(head) = head else { return false };
        let fold_every = self.rule().fold_every;
        let Looked { seen, head: head_then } = *self.looked();
        let covered = seen.and_then(|seen| seen.covered).max(self.log.record().origin.previous());
        let has_grown = head_then.is_none_or(|then| head.above(Some(then)) >= (fold_every / 4).max(1));
        has_grown && head.above(covered) >= due_at(Reason::Stalled, fold_every)
    }

    pub(super) fn looked(&self) -> MutexGuard<'_, Looked> {
        // Two plain fields: nothing is ever half written.
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn settings(&self) -> &CommitStoreSettings {
        &self.hooks.settings
    }

    fn rule(&self) -> Rule {
        let CommitStoreSettings { holding, fold_every, .. } = self.settings();
        // A holder that does not stay for its compactor has it merge nothing.
        let compacts = !holding.external_compaction && !holding.compaction_wait.is_zero();
        Rule { fold_every: fold_every.get(), l0_limit: holding.l0_limit, compacts }
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folder of {:?}", self.log)
    }
}
