//! The holder's task: apply in order, flush by count and bytes, look at the unmerged files first, publish, always close.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use slatedb::config::{CloseOptions, FlushOptions, FlushType, WriteOptions};
use slatedb::{CloseReason, Db, ErrorKind};
use tokio::sync::watch;

use crate::bucket::Deadline;
use crate::envelope::Slot;
use crate::error::Unavailable;
use crate::inspect::{Content, Inspect};
use crate::log::{Proof, SlotLog, TailError};
use crate::manifest::{Manifests, unmerged_files};
use crate::publish::{Published, Publisher};
use crate::slot::{Sequence, sequence_after};
use crate::wal::{WriterSession, write_batch};

use super::{Folded, HoldError, HoldingOptions, Publishing, Taken, Terms, WhenFull};

/// How many bytes of slots are read at once to be applied.
const CHUNK_BYTES: usize = 8 << 20;

/// How often the holder looks whether the compactor has merged files, while it waits for that.
const COMPACTION_LOOK: Duration = Duration::from_secs(1);

pub(super) struct Fold {
    log: SlotLog,
    db: Db,
    session: WriterSession,
    options: HoldingOptions,
    when_full: WhenFull,
    inspect: Inspect,
    folded: watch::Sender<Folded>,
    unflushed: Unflushed,
    publisher: Option<Publisher>,
    publishing: watch::Sender<Publishing>,
    published: Option<Published>,
    /// Whether a flush came after what is published, which sends its readers to slots that are in files by now.
    flushed_since_published: bool,
}

#[derive(Default)]
struct Unflushed {
    slots: u64,
    bytes: usize,
}

/// Where the holder looks for slots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Up to the head that this process knows, which a commit of its own has moved: nothing needs to be asked.
    AtTheKnownHead,
    InTheBucket,
}

/// How far the holder came with the tail.
enum Progress {
    /// Up to the head.
    Folded,
    /// The bucket had a bad moment.
    Waits(Unavailable),
}

/// What a failure to read the log means to a holder.
fn waits(error: TailError) -> Result<Progress, HoldError> {
    match error {
        // A bad moment of the bucket ends nothing: what landed waits in the log.
        TailError::Unavailable(failure) => {
            tracing::warn!("folding waits: {failure}");
            Ok(Progress::Waits(failure))
        }
        // The log is retired below what a store covers. That this one does not cover it means that another is ahead.
        TailError::Behind { .. } => Err(HoldError::Fenced),
        error @ TailError::Corrupt(_) => Err(error.into()),
    }
}

impl Fold {
    pub(super) fn new(
        taken: Taken,
        terms: Terms,
        folded: watch::Sender<Folded>,
        publishing: watch::Sender<Publishing>,
    ) -> Fold {
        let Taken { log, db, session } = taken;
        let Terms { options, when_full, inspect, publication } = terms;
        let publisher = publication.map(|publication| Publisher::new(log.bucket().clone(), publication));
        let applied = session.last_applied();
        // What is below the origin came with the store, and there is nothing of it to flush.
        let before_origin = applied.filter(|applied| *applied < log.record().origin);
        let flushed = Sequence::new(db.manifest().last_l0_seq()).max(before_origin);
        // What was replayed counts once it is checked.
        folded.send_replace(Folded { applied: if inspect.passes_all() { applied } else { None }, flushed, stuck_at: None });
        // What was replayed waits for a flush like what is applied.
        let unflushed = Unflushed { slots: applied.map_or(0, |applied| applied.above(flushed)), bytes: 0 };
        Fold {
            log,
            db,
            session,
            options,
            when_full,
            inspect,
            folded,
            unflushed,
            publisher,
            publishing,
            published: None,
            flushed_since_published: false,
        }
    }

    /// Holds until told to stop, or until it cannot go on. Whatever happens, the store is closed at the end.
    pub(super) async fn run(mut self, mut stopped: watch::Receiver<bool>) -> Result<(), HoldError> {
        let held = self.hold(&mut stopped).await;
        let ended = match held {
            Ok(()) => self.give_back().await,
            Err(error) => Err(error),
        };
        self.close(ended).await
    }

    /// Publishes what the tail has up to slot `sequence` at least, and closes the store.
    pub(super) async fn publish_only(mut self, sequence: Sequence) -> Result<(), HoldError> {
        let published = match self.fold_through(sequence).await {
            Ok(()) => self.publish(sequence).await,
            Err(error) => Err(error),
        };
        self.close(published).await
    }

    /// Applies what the open left of a long tail, as far as slot `sequence` at least.
    async fn fold_through(&mut self, sequence: Sequence) -> Result<(), HoldError> {
        self.inspect_replayed().await?;
        if self.session.last_applied() < Some(sequence)
            && let Progress::Waits(failure) = self.fold_tail(Look::AtTheKnownHead).await?
        {
            return Err(failure.into());
        }
        // Only a log that lost what it had acknowledged ends before it.
        if self.session.last_applied() < Some(sequence) { Err(HoldError::NotCovered { sequence }) } else { Ok(()) }
    }

    async fn close(&self, ended: Result<(), HoldError>) -> Result<(), HoldError> {
        self.session.closes();
        // SUBTLE: no flush here. After a slot that was not applied, a flush would move the replay point past it.
        let options = CloseOptions { flush_type: None };
        let closed = self.in_time("closing", self.db.close_with_options(options)).await;
        ended?;
        match closed? {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::Closed(CloseReason::Fenced) => Err(HoldError::Fenced),
            Err(error) => Err(HoldError::Closed(Arc::new(error))),
        }
    }

    /// Folds what lands. Bounded by the stop.
    async fn hold(&mut self, stopped: &mut watch::Receiver<bool>) -> Result<(), HoldError> {
        let clock = self.log.bucket().environment().clock.clone();
        let mut head = self.log.subscribe();
        let mut look = Look::InTheBucket;
        self.inspect_replayed().await?;
        loop {
            // What was replayed may be due already, and a flush that was put off may be possible by now.
            self.flush_if_due().await?;
            let reached = match self.fold_tail(look).await? {
                Progress::Folded => self.session.last_applied(),
                // What could not be read is tried again at the next poll, not at once.
                Progress::Waits(_) => self.log.head(),
            };
            if !*stopped.borrow() {
                // Told to stop, it publishes once, after its last flush.
                self.publish_if_due().await?;
            }
            // Commits of this process move the head; those of others are seen by the poll.
            let moved = Box::pin(head.wait_for(|head| *head > reached));
            let pause = Box::pin(select(clock.sleep(self.options.poll), moved));
            // Told to stop, or dropped: one as the other.
            let told = Box::pin(stopped.wait_for(|stopped| *stopped));
            look = match select(told, pause).await {
                Either::Left(_) => return Ok(()),
                Either::Right((Either::Left(_), _)) => Look::InTheBucket,
                Either::Right((Either::Right(_), _)) => Look::AtTheKnownHead,
            };
        }
    }

    /// Reads what has landed and applies it.
    async fn fold_tail(&mut self, look: Look) -> Result<Progress, HoldError> {
        self.check_open()?;
        let mut progress = Progress::Folded;
        if look == Look::InTheBucket
            && let Err(error) = self.log.catch_up(Proof::NowAndThen, &self.log.bucket().deadline()).await
        {
            progress = waits(error)?;
        }
        let flush_slots = self.flush_slots();
        while let Some(head) = self.log.head().filter(|head| Some(*head) > self.session.last_applied()) {
            let next = sequence_after(self.session.last_applied(), self.log.record().origin);
            // Applying may take longer than a call of the bucket, so each chunk is read by a deadline of its own.
            match self.log.slots(next, head, CHUNK_BYTES, &self.log.bucket().deadline()).await {
                Ok(slots) => {
                    for slot in slots {
                        self.apply(slot, flush_slots).await?;
                    }
                }
                Err(error) => return waits(error),
            }
        }
        Ok(progress)
    }

    /// Checks what the open has replayed. It is in the store's memory by now and in none of its files: closed without a flush, the
    /// store is what it was.
    async fn inspect_replayed(&self) -> Result<(), HoldError> {
        if self.inspect.passes_all() {
            return Ok(());
        }
        let (applied, flushed) = (self.session.last_applied(), self.folded.borrow().flushed);
        let origin = self.log.record().origin;
        let last = applied.max(origin.previous());
        let mut next = sequence_after(flushed, origin);
        while let Some(last) = last.filter(|last| next <= *last) {
            let slots = self.log.slots(next, last, CHUNK_BYTES, &self.log.bucket().deadline()).await?;
            slots.iter().try_for_each(|slot| self.inspect_one(slot))?;
            next = slots.last().map_or(last, |slot| slot.sequence()).next();
        }
        self.folded.send_modify(|folded| folded.applied = applied);
        Ok(())
    }

    fn inspect_one(&self, slot: &Slot) -> Result<(), HoldError> {
        let sequence = slot.sequence();
        self.inspect.check(&Content::from(slot)).map_err(|source| HoldError::SlotRefused { sequence, source })
    }

    async fn apply(&mut self, slot: Arc<Slot>, flush_slots: u64) -> Result<(), HoldError> {
        let sequence = slot.sequence();
        self.inspect_one(&slot)?;
        self.session.announce(sequence);
        let options = WriteOptions { seqnum: sequence.get() };
        let written = self.db.write_with_options(write_batch(&slot), &options);
        match self.in_time("applying a slot", written).await? {
            Ok(_) => self.session.applied(sequence),
            Err(source) => {
                let not_applied = || HoldError::NotApplied { sequence, source: Arc::new(source) };
                return Err(self.why_closed().unwrap_or_else(not_applied));
            }
        }
        self.unflushed.slots += 1;
        self.unflushed.bytes += slot.row_bytes();
        self.folded.send_modify(|folded| folded.applied = Some(sequence));
        self.flush_if_due_after(flush_slots).await
    }

    async fn flush_if_due(&mut self) -> Result<(), HoldError> {
        self.flush_if_due_after(self.options.flush_slots).await
    }

    async fn flush_if_due_after(&mut self, slots: u64) -> Result<(), HoldError> {
        if self.unflushed.slots >= slots || self.unflushed.bytes >= self.options.flush_bytes {
            self.flush(self.when_full).await?;
        }
        Ok(())
    }

    /// After how many slots the store is flushed while the tail is folded. Of one that grew long, as many as an open replays go into
    /// one file: there is a limit of files.
    fn flush_slots(&self) -> u64 {
        let (flush_slots, replay_slots) = (self.options.flush_slots, self.log.options().replay_slots.get());
        let behind = self.log.head().map_or(0, |head| head.above(self.session.last_applied()));
        if behind < replay_slots { flush_slots } else { flush_slots.max(replay_slots) }
    }

    /// Folds the rest, flushes, and leaves the store with room for the next holder.
    async fn give_back(&mut self) -> Result<(), HoldError> {
        self.fold_tail(Look::InTheBucket).await?;
        self.flush(WhenFull::GiveUp).await?;
        if let Some(applied) = self.unpublished().or(self.session.last_applied().filter(|_| self.flushed_since_published)) {
            self.publish(applied).await?;
        }
        if self.options.external_compaction {
            return Ok(());
        }
        // Holders one after another, each too short for the compactor, would fill L0 together.
        self.wait_for_compaction(self.options.l0_limit.div_ceil(2)).await.map(|_| ())
    }

    async fn flush(&mut self, when_full: WhenFull) -> Result<(), HoldError> {
        let applied = self.session.last_applied();
        if applied <= self.folded.borrow().flushed {
            return Ok(());
        }
        let limit = self.options.l0_limit;
        match when_full {
            WhenFull::GiveUp => {
                let files = self.wait_for_compaction(limit).await?;
                if files >= limit {
                    return Err(HoldError::L0Full { files, limit });
                }
            }
            WhenFull::GoOn { max_unflushed_bytes } => {
                let files = unmerged_files(&self.db.manifest());
                if files >= limit {
                    let is_much = self.unflushed.bytes >= max_unflushed_bytes / 2;
                    self.folded.send_modify(|folded| folded.stuck_at = is_much.then_some(files));
                    return Ok(());
                }
            }
        }
        let flush = self.db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable });
        match self.in_time("flushing", flush).await? {
            Ok(()) => {}
            Err(source) => return Err(self.why_closed().unwrap_or_else(|| HoldError::NotFlushed(Arc::new(source)))),
        }
        self.unflushed = Unflushed::default();
        self.flushed_since_published = true;
        self.folded.send_modify(|folded| (folded.flushed, folded.stuck_at) = (applied, None));
        Ok(())
    }

    /// The last slot that the store has, if it is not published and should be. A holder publishes what others landed, too.
    fn unpublished(&self) -> Option<Sequence> {
        let through = self.published.map(|published| published.through);
        self.session.last_applied().filter(|applied| self.publisher.is_some() && Some(*applied) > through)
    }

    /// Publishes what is not, and renews what grows old. A failure is told to whoever waits for it, and the next look tries again.
    async fn publish_if_due(&mut self) -> Result<(), HoldError> {
        let now = self.now_millis();
        let ages = |published: &Published| {
            let half_life = published.half_life_millis;
            half_life.is_some_and(|half_life| now.saturating_sub(published.made_millis) >= half_life)
        };
        let aged = self.published.filter(ages).and(self.session.last_applied());
        let Some(applied) = self.unpublished().or(aged) else { return Ok(()) };
        match self.publish(applied).await {
            Err(
                error @ (HoldError::NotPublished(_)
                | HoldError::NotCovered { .. }
                | HoldError::Manifest(_)
                | HoldError::TimedOut { .. }),
            ) => {
                tracing::warn!("the store is folded and not published: {error}");
                self.publishing.send_modify(|publishing| publishing.failed = Some((applied, error)));
                Ok(())
            }
            published => published,
        }
    }

    /// Publishes all that is applied, which has `sequence` in it, if anything is published at all.
    async fn publish(&mut self, sequence: Sequence) -> Result<(), HoldError> {
        let Some(publisher) = &self.publisher else { return Ok(()) };
        let made_millis = self.now_millis();
        let through = self.session.last_applied().unwrap_or(sequence);
        if let Err(failure) = self.in_time("publishing", publisher.publish(&self.db)).await? {
            return Err(self.why_closed().unwrap_or(HoldError::NotPublished(failure)));
        }
        let published = match self.published {
            // SUBTLE: the store's own copy of its manifest does not show the checkpoint before its next look, and a look costs
            // requests. So the first publication of a hold is checked, and the later ones are the work of the same hands.
            Some(before) => Published { through, made_millis, ..before },
            None => {
                let newest = Manifests::of(self.log.bucket()).newest().await?;
                let found = match &newest {
                    Some(newest) => publisher.published(newest).await?,
                    None => None,
                };
                found.filter(|found| found.through >= through).ok_or(HoldError::NotCovered { sequence: through })?
            }
        };
        self.published = Some(published);
        self.flushed_since_published = false;
        self.publishing.send_replace(Publishing { through: Some(published.through), failed: None });
        Ok(())
    }

    fn now_millis(&self) -> i64 {
        self.session.clock().now().timestamp_millis()
    }

    /// Stays while the compactor works, until there are less than `enough` unmerged files, within a bound. Tells how
    /// many there are.
    async fn wait_for_compaction(&self, enough: usize) -> Result<usize, HoldError> {
        let environment = self.log.bucket().environment();
        let deadline = Deadline::after(environment, self.options.compaction_wait);
        loop {
            let files = unmerged_files(&self.db.manifest());
            if files < enough || deadline.bound(environment.clock.sleep(COMPACTION_LOOK)).await.is_err() {
                return Ok(files);
            }
            self.check_open()?;
            // A look that fails shows the old count, and the next one is a second away.
            let _ = deadline.bound(self.db.refresh_manifest()).await;
        }
    }

    fn check_open(&self) -> Result<(), HoldError> {
        self.why_closed().map_or(Ok(()), Err)
    }

    /// What closed the store, if something did. It counts before what a call said: any of SlateDB's own tasks may have closed it.
    fn why_closed(&self) -> Option<HoldError> {
        match self.db.status().close_reason {
            None => None,
            Some(CloseReason::Fenced) => Some(HoldError::Fenced),
            // Whatever is asked of a closed store tells why it is closed.
            Some(_) => self.db.snapshot().err().map(|reason| HoldError::Closed(Arc::new(reason))),
        }
    }

    async fn in_time<T>(&self, doing: &'static str, call: impl Future<Output = T>) -> Result<T, HoldError> {
        let deadline = Deadline::after(self.log.bucket().environment(), self.options.store_call);
        deadline.bound(call).await.map_err(|_| HoldError::TimedOut { doing })
    }
}
