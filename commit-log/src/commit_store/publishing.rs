//! How a process that follows the store publishes what it won: by whoever holds the store, else by a take of its own.

use std::sync::Arc;

use futures::future::{Either, select};
use tokio::sync::MutexGuard;

use crate::holder::{HoldError, Holder, Taken, WhenFull, open_to_publish};
use crate::manifest::Manifests;
use crate::publish::Publisher;
use crate::slot::{Sequence, sequence_after};
use crate::take::{TakeError, TakeStore};

use super::folder::{FIRST_WAIT, Folder};
use super::role::{PublishStep, next_to_publish};

/// How often this process takes the store at most to publish one slot. Whoever fences it replays that slot, too, and publishes it
/// unless it dies.
const MAX_TAKES: u32 = 3;

/// How many bytes of slots are looked at together when the length of the tail is asked for.
const CHUNK_BYTES: usize = 8 << 20;

/// What a wait for the turn to take the store ended with.
enum Turn<'a> {
    /// It is this task's turn, and nobody had it meanwhile.
    Now(#[allow(dead_code, reason = "held until it is dropped")] MutexGuard<'a, ()>),
    /// Another task had it, and may have published.
    LookAgain,
}

impl Folder {
    /// Sees to it that slot `sequence`, which this process won, is published, where anything is.
    ///
    /// A holder publishes what it folds, so a live one is given two of its polls; and one that took the store since the last look is
    /// waited for: n processes that all publish would else fence each other before any of them has.
    pub(super) async fn publish(&self, sequence: Sequence) -> Result<(), HoldError> {
        let Some(publisher) = &self.publisher else { return Ok(()) };
        let (mut looks, mut takes) = (0, 0);
        // Bounded by the looks and the takes.
        loop {
            if let Some(holder) = self.held() {
                match holder.published(sequence).await {
                    // Fenced or given back: whoever has the store now may publish it.
                    Err(error) if holder.how_it_ended().is_none() => return Err(error),
                    Err(_) => {}
                    Ok(()) => return Ok(()),
                }
            }
            let before = self.looked().seen.map(|seen| seen.epoch);
            if self.is_published(publisher, sequence).await? {
                return Ok(());
            }
            let epoch = self.looked().seen.map(|seen| seen.epoch);
            let step = next_to_publish(epoch, before, looks);
            looks += 1;
            match step {
                PublishStep::WaitForThePoll => self.pause(self.settings().holding.poll).await,
                PublishStep::WaitForWork => self.pause(FIRST_WAIT).await,
                PublishStep::Take => {
                    let taker = self.hooks.take.as_ref().ok_or(TakeError::Declined)?;
                    let Turn::Now(_turn) = self.turn().await else { continue };
                    takes += 1;
                    match self.take_to_publish(&**taker, sequence).await {
                        Err(HoldError::Fenced | HoldError::Take(TakeError::Fenced)) if takes < MAX_TAKES => {}
                        ended => return ended,
                    }
                }
            }
        }
    }

    fn held(&self) -> Option<Arc<Holder>> {
        self.holder.borrow().clone()
    }

    async fn is_published(&self, publisher: &Publisher, sequence: Sequence) -> Result<bool, HoldError> {
        let Some(newest) = Manifests::of(self.log.bucket()).newest().await? else { return Ok(false) };
        self.saw(&newest);
        Ok(publisher.published(&newest).await?.is_some_and(|published| published.through >= sequence))
    }

    /// Waits until no other task of this process takes the store. One that keeps it publishes what this task waits for.
    async fn turn(&self) -> Turn<'_> {
        if let Ok(turn) = self.folding.try_lock() {
            return Turn::Now(turn);
        }
        let mut holder = self.holder.subscribe();
        let holds = Box::pin(holder.wait_for(Option::is_some));
        match select(Box::pin(self.folding.lock()), holds).await {
            Either::Left(_) | Either::Right(_) => Turn::LookAgain,
        }
    }

    async fn take_to_publish(&self, taker: &dyn TakeStore, sequence: Sequence) -> Result<(), HoldError> {
        self.check_that_it_fits().await?;
        // A tail that is longer than what an open replays is applied here. It is flushed as it grows where there is room for files.
        let terms = self.hooks.terms(WhenFull::GoOn { max_unflushed_bytes: self.settings().max_unflushed_bytes });
        let (db, session) = open_to_publish(&self.log, taker, &terms.options).await?;
        self.saw(&db.manifest());
        Holder::to_publish(Taken { log: self.log.clone(), db, session }, terms, sequence).ended().await
    }

    /// Refuses to open a store that can flush nothing and whose tail its memory cannot hold: that open would hang, with everybody else
    /// fenced.
    async fn check_that_it_fits(&self) -> Result<(), HoldError> {
        let limit = self.settings().holding.l0_limit;
        let Some(seen) = self.looked().seen.filter(|seen| seen.files >= limit) else { return Ok(()) };
        let Some(head) = self.log.head() else { return Ok(()) };
        let mut next = sequence_after(seen.covered, self.log.record().origin);
        let mut bytes = 0;
        while next <= head {
            let slots = self.log.slots(next, head, CHUNK_BYTES, &self.log.bucket().deadline()).await?;
            bytes += slots.iter().map(|slot| slot.row_bytes()).sum::<usize>();
            if bytes >= self.settings().max_unflushed_bytes {
                return Err(HoldError::L0Full { files: seen.files, limit });
            }
            next = slots.last().map_or(head, |slot| slot.sequence()).next();
        }
        Ok(())
    }
}
