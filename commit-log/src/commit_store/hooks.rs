//! What the embedder gives beside the store itself, and how the store is held and followed.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use slatedb::config::Settings;

use crate::holder::{HoldingOptions, Terms, WhenFull};
use crate::inspect::Inspect;
use crate::publish::Publication;
use crate::retire::RetireOptions;
use crate::take::TakeStore;

/// What the embedder gives beside the store itself.
#[derive(Clone, Default)]
pub struct Hooks {
    /// Opens the store as its writer, for a process that follows it. Without it that process never folds.
    pub take: Option<Arc<dyn TakeStore>>,
    /// Checks every slot before it is folded, and this process's own before they are offered.
    pub inspect: Inspect,
    /// Publishes every win before it is reported. Without it nothing is published, and nothing is paid for it.
    pub publication: Option<Publication>,
    /// How the store is held and followed.
    pub settings: CommitStoreSettings,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hooks { take, inspect, publication, settings } = self;
        f.debug_struct("Hooks")
            .field("take", &take.as_ref().map(|_| "TakeStore"))
            .field("inspect", inspect)
            .field("publication", publication)
            .field("settings", settings)
            .finish()
    }
}

impl Hooks {
    /// How the store is held.
    pub(crate) fn terms(&self, when_full: WhenFull) -> Terms {
        let Hooks { take: _, inspect, publication, settings } = self;
        Terms { options: settings.holding(), when_full, inspect: inspect.clone(), publication: publication.clone() }
    }
}

/// What a process that follows the store does to have it folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Folding {
    /// Nothing: others do.
    Never,
    /// It takes the store when it has won the slot that obliges its winner, or when it has committed anything and sees a tail that
    /// nobody folds. It folds, and gives the store back.
    #[default]
    ByCadence,
    /// It takes the store and keeps it, until another takes it. Then it waits for a tail that nobody folds.
    Hold,
}

/// How a [`CommitStore`](super::CommitStore) goes about its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitStoreSettings {
    /// What a process that follows the store does to have it folded.
    pub folding: Folding,
    /// The winner of every so many slots sees to it that the store is folded. The same in every process of a store. A holder
    /// flushes at least twice as often, whatever its own setting says.
    pub fold_every: NonZeroU64,
    /// How many pages of the log stay behind the store's last flush when a fold retires the others.
    pub retain_pages: NonZeroU32,
    /// How the store is held.
    pub holding: HoldingOptions,
    /// The store's own limit of unflushed bytes, `max_unflushed_bytes`. A store that was opened as held and is full goes on below
    /// half of it, and then refuses commits.
    pub max_unflushed_bytes: usize,
    /// How long a call waits at most until the store serves what has landed.
    pub serve_within: Duration,
}

impl Default for CommitStoreSettings {
    /// Folds by cadence, every 1,024 slots: no process of its own is needed, and an open replays a page or two. Waits half a minute,
    /// longer than a flush and a slow bucket take together.
    fn default() -> CommitStoreSettings {
        CommitStoreSettings {
            folding: Folding::default(),
            fold_every: NonZeroU64::MIN.saturating_add(1023),
            retain_pages: RetireOptions::default().retain_pages,
            holding: HoldingOptions::default(),
            max_unflushed_bytes: Settings::default().max_unflushed_bytes,
            serve_within: Duration::from_secs(30),
        }
    }
}

impl CommitStoreSettings {
    /// How the store is held: with two flushes at least in `fold_every` slots, so that whoever is obliged to fold sees that it is.
    pub(crate) fn holding(&self) -> HoldingOptions {
        let flush_slots = self.holding.flush_slots.min(self.fold_every.get() / 2).max(1);
        HoldingOptions { flush_slots, ..self.holding.clone() }
    }
}
