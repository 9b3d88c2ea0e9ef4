//! The folder of the demo: holds the store and folds what the writers commit, until it is asked to end.

use std::num::NonZeroU32;
use std::time::Duration;

use commit_log::holder::{HoldError, Holder, HoldingOptions};
use commit_log::slot::Sequence;
use commit_log::store::Store;
use commit_log::take::TakeError;
use slatedb::config::{GarbageCollectorDirectoryOptions, Settings};

use super::events::Event;
use super::supervise::parent_gone;
use super::teller::Teller;
use crate::command::Exit;
use crate::connect::{builder, settings};
use crate::failure::Failure;
use crate::location::{Location, Purpose};

/// Slots between two flushes: small, so that a demo shows many folds.
const FLUSH_SLOTS: u64 = 100;

/// How often the folder asks for what the writers have committed.
const POLL: Duration = Duration::from_millis(50);

/// How often SlateDB's collector retires pages in the folder: many times in a run of some seconds.
const RETIRE_EVERY: Duration = Duration::from_millis(100);

/// Pages that stay up to the last fold. With the smallest number a writer that sleeps for a moment is behind.
const RETAIN_PAGES: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// How often a take is tried that another process disturbed.
const MAX_TAKES: usize = 5;

/// Folds.
///
/// # Errors
///
/// Why it cannot go on.
pub async fn run(location: &Location, teller: &Teller) -> Result<Exit, Failure> {
    let mut asked_to_end = Box::pin(parent_gone().map_err(|error| Failure::Child(error.kind().to_string()))?);
    let settings = retiring(settings(location));
    let holding = HoldingOptions { flush_slots: FLUSH_SLOTS, poll: POLL, ..HoldingOptions::default() };
    let builder =
        builder(location, Purpose::Read, teller.environment())?.settings(settings).holding(holding).retain_pages(RETAIN_PAGES);
    let store = builder.open_existing().await.map_err(|error| Failure::store(location, error))?;
    let holder = hold(&store).await.map_err(|error| Failure::store(location, error))?;
    tell(teller, Event::Ready)?;
    let mut folded = holder.folded();
    let mut told = None;
    // Bounded by the end of the hold, and by the parent.
    loop {
        let now = *folded.borrow_and_update();
        told = tell_folded(teller, told, now.flushed)?;
        if let Some(head) = now.applied {
            tell(teller, Event::Head { sequence: head.get() })?;
        }
        tokio::select! {
            () = &mut asked_to_end => break,
            ended = holder.ended() => match ended {
                Ok(()) => break,
                Err(error) => return Err(Failure::store(location, error)),
            },
            // A sender that is gone has ended the hold, which is seen above.
            changed = folded.changed(), if folded.has_changed().is_ok() => drop(changed),
        }
    }
    holder.stop().await.map_err(|error| Failure::store(location, error))?;
    let flushed = folded.borrow().flushed;
    tell_folded(teller, told, flushed)?;
    store.close().await;
    Ok(Exit::Well)
}

/// `settings` with a collector that retires pages while the demo runs.
///
/// A checkpoint of the compactor stays for many minutes, and keeps no page: it names a manifest of a fold, and the folder applies
/// nothing while it folds, so that an open of that manifest replays nothing.
fn retiring(mut settings: Settings) -> Settings {
    if let Some(collector) = &mut settings.garbage_collector_options {
        collector.wal_options = Some(GarbageCollectorDirectoryOptions {
            interval: Some(RETIRE_EVERY),
            min_age: Duration::ZERO,
            ..GarbageCollectorDirectoryOptions::default()
        });
    }
    settings
}

/// Takes the store; a killed predecessor is fenced by that.
async fn hold(store: &Store) -> Result<Holder, HoldError> {
    take(store, MAX_TAKES).await
}

/// Takes the store of `store` to hold it, again where another process disturbed the take, `tries` times at most.
///
/// # Errors
///
/// See [`HoldError`].
pub async fn take(store: &Store, tries: usize) -> Result<Holder, HoldError> {
    let bucket = store.log().bucket();
    let mut backoff = bucket.pace().backoff(bucket.environment());
    let mut last = HoldError::Take(TakeError::Declined);
    for _ in 0..tries {
        match store.hold().await {
            Ok(holder) => return Ok(holder),
            Err(error @ HoldError::Take(TakeError::OpenRaced | TakeError::Fenced | TakeError::Unavailable(_))) => last = error,
            Err(error) => return Err(error),
        }
        backoff.wait().await;
    }
    Err(last)
}

fn tell_folded(teller: &Teller, told: Option<Sequence>, flushed: Option<Sequence>) -> Result<Option<Sequence>, Failure> {
    match flushed {
        Some(through) if flushed > told => {
            tell(teller, Event::Folded { through: through.get() })?;
            Ok(flushed)
        }
        Some(_) | None => Ok(told),
    }
}

fn tell(teller: &Teller, event: Event) -> Result<(), Failure> {
    teller.tell(event).map_err(|error| Failure::Child(error.kind().to_string()))
}
