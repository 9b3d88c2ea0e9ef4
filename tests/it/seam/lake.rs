//! The bucket that several processes of the catalog share, each linked with the library.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use commit_log::adoption::FreshLog;
use commit_log::commit_store as library;
use commit_log::log::LogOptions;
use commit_log::record::ContentRule;
use commit_log::slot::PageSize;
use commit_log_kit::scripted::ScriptedBucket;

use crate::embedder::{self, READER_POLL};
use crate::support::{PAGE, ROOT};

use super::catalog::{Catalog, Opener, Transactions, one_head_stamp};
use super::glue::{self, Provider, Store};
use super::traits::{CommitLogSettings, CommitStore, Error, Result, SlotOffer};

/// A bucket, and the processes of the catalog that share it.
pub(crate) struct Lake(pub(super) embedder::Lake);

/// One process: what it opens catalogs with, and its requests.
pub(crate) struct Process {
    pub(crate) opener: Opener,
    pub(crate) scripted: ScriptedBucket,
}

impl Lake {
    pub(crate) fn new() -> Lake {
        Lake(embedder::Lake::new())
    }

    /// One that links the catalog with the library.
    pub(crate) fn process(&self) -> Process {
        let process = self.0.process();
        let environment = process.place.bucket().environment().clone();
        let transactions = Transactions { process: environment.randomness.number(), count: AtomicU64::new(0) };
        let fresh =
            FreshLog { page_size: PageSize::new(PAGE).unwrap(), content_rule: ContentRule::OneMember, ..FreshLog::default() };
        let options = LogOptions::default();
        let provider = Provider { environment, fresh, options, retain_pages: NonZeroU32::MIN, external_compaction: false };
        let settings = CommitLogSettings {
            fold_every: NonZeroU64::new(1024).unwrap(),
            flush_slots: 512,
            retain_slots: 0,
            published: None,
            fold_poll: Duration::from_millis(100),
            committer_poll: READER_POLL,
        };
        let opener = Opener {
            provider: Arc::new(provider),
            object_store: process.store(),
            path: ROOT.into(),
            settings,
            clock_of: glue::clock,
            inspect: Arc::new(one_head_stamp),
            l0_limit: 8,
            transactions: Arc::new(transactions),
        };
        Process { opener, scripted: process.scripted }
    }

    pub(crate) async fn open(&self) -> Catalog {
        self.process().opener.open().await.unwrap()
    }

    pub(crate) async fn attach(&self) -> Catalog {
        self.process().opener.attach().await.unwrap()
    }

    /// One that is on its log up to slot `head`, and that nobody has open.
    pub(crate) async fn written_through(head: u64) -> Lake {
        let lake = Lake::new();
        let catalog = lake.open().await;
        for _ in 1..head {
            catalog.count_up().await;
        }
        catalog.store.close().await.unwrap();
        lake
    }

    /// What a fresh open reads.
    pub(crate) async fn read(&self, keys: [&str; 2]) -> [u64; 2] {
        let catalog = self.open().await;
        let read = [catalog.number(keys[0]).await, catalog.number(keys[1]).await];
        catalog.store.close().await.unwrap();
        read
    }
}

#[track_caller]
pub(crate) fn assert_won(offer: &Result<SlotOffer>, at: u64) {
    assert!(matches!(offer, Ok(SlotOffer::Won { sequence }) if *sequence == at), "{offer:?}");
}

#[track_caller]
pub(crate) fn assert_lost(offer: &Result<SlotOffer>, at: u64, served: u64) {
    let Ok(SlotOffer::Lost { sequence, winner, through }) = offer else { panic!("{offer:?}") };
    assert_eq!((*sequence, winner.sequence, *through), (at, at, served));
}

#[track_caller]
pub(crate) fn assert_unknown(offer: &Result<SlotOffer>, at: u64) {
    assert!(matches!(offer, Err(Error::CommitOutcomeUnknown { sequence, .. }) if *sequence == at), "{offer:?}");
}

/// The library's own store, behind one of the seam.
pub(crate) fn library_of(store: &dyn CommitStore) -> &library::CommitStore {
    &store.as_any().downcast_ref::<Store>().unwrap().library
}
