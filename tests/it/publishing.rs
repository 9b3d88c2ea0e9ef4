//! Publication: a win is reported once a live checkpoint of the agreed name covers it, whoever makes it.

mod fenced;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use commit_log::commit_store::{CommitStore, CommitStoreError, CommitStoreSettings, Folding, Hooks, Role, SlotOffer};
use commit_log::holder::{HoldError, HoldingOptions};
use commit_log::identity::TransactionId;
use commit_log::publish::{Publication, Publish, PublishFailure};
use commit_log::take::{TakeError, TakeWith};
use commit_log::wal::{ReaderSession, Tail};
use commit_log_kit::bucket::Operation;
use commit_log_kit::scripted::{Fate, PathClass};
use slatedb::admin::AdminBuilder;
use slatedb::config::{CheckpointOptions, CheckpointScope, Settings};
use slatedb::{Checkpoint, Db, DbReader, DbReaderMode, VersionedManifest};

use crate::embedder::{Embedder, Lake, hooks, won};
use crate::holding::settings;
use crate::roles::{FOLD_EVERY, Member, STEP, folding, roomy};
use crate::support::{ROOT, is, sequence, until};

/// What the published checkpoints are called.
const NAME: &str = "head";

const LIFETIME: Duration = Duration::from_secs(600);

/// How long a follower gives a live holder: two of its polls, each of which its jitter may make half as long again.
const TWO_POLLS: Duration = Duration::from_millis(300);

pub(crate) fn published() -> Option<Publication> {
    Some(Publication::by_checkpoint(NAME, LIFETIME))
}

pub(crate) fn publishing() -> Hooks {
    Hooks { publication: published(), ..hooks() }
}

impl Lake {
    async fn newest(&self) -> VersionedManifest {
        AdminBuilder::new(ROOT, self.memory.clone()).build().read_manifest(None).await.unwrap().unwrap()
    }

    /// The newest checkpoint of the agreed name.
    async fn published(&self) -> Option<Checkpoint> {
        let newest = self.newest().await;
        newest
            .checkpoints()
            .iter()
            .filter(|checkpoint| checkpoint.name.as_deref() == Some(NAME))
            .max_by_key(|c| c.manifest_id)
            .cloned()
    }

    /// The last slot that it covers.
    pub(crate) async fn published_through(&self) -> u64 {
        let Some(checkpoint) = self.published().await else { return 0 };
        let admin = AdminBuilder::new(ROOT, self.memory.clone()).build();
        admin.read_manifest(Some(checkpoint.manifest_id)).await.unwrap().unwrap().next_wal_sst_id() - 1
    }

    /// The store as the published checkpoint has it.
    async fn open_published(&self) -> Arc<DbReader> {
        let checkpoint = self.published().await.unwrap();
        let session = ReaderSession::new(self.process().place, Tail::Hidden);
        let reader = DbReader::builder(ROOT, self.memory.clone())
            .with_wal_reader(session.reader())
            .with_reader_mode(DbReaderMode::Checkpoint(checkpoint.id))
            .build();
        Arc::new(Box::pin(reader).await.unwrap())
    }

    pub(crate) async fn assert_published(&self, transactions: &[TransactionId]) {
        let reader = self.open_published().await;
        for transaction in transactions {
            let row = reader.get(transaction.to_string()).await.unwrap();
            assert_eq!(row, Some(Bytes::from("value")), "row of {transaction}");
        }
        reader.close().await.unwrap();
    }

    fn now(&self) -> DateTime<Utc> {
        self.process().place.bucket().environment().clock.now()
    }

    async fn pass(&self, time: Duration) {
        self.process().place.bucket().environment().clock.sleep(time).await;
    }

    /// A process that holds a store which is on its log, and publishes.
    async fn publisher(&self) -> (Embedder, CommitStore) {
        let process = self.process();
        let store = process.held(publishing()).await;
        store.adopt(process.stamp()).await.unwrap();
        (process, store)
    }
}

impl Member {
    /// One that publishes what it wins.
    async fn publishing(lake: &Lake, folds: Folding) -> Member {
        Member::over(lake, Hooks { publication: published(), settings: folding(folds), ..hooks() }, roomy()).await
    }
}

pub(crate) fn not_published(offer: Result<SlotOffer, CommitStoreError>) -> (TransactionId, HoldError) {
    match offer {
        Err(CommitStoreError::NotPublished { transaction, source, .. }) => (transaction, source),
        other => panic!("published: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_win_of_a_holder_is_reported_once_a_checkpoint_covers_it() {
    let lake = Lake::new();
    let (process, store) = lake.publisher().await;
    assert_eq!(lake.published_through().await, 1);
    let commit = process.commit();
    let mark = process.scripted.mark();
    won(&store.write_at(sequence(2), commit.clone()).await);
    let counts = process.scripted.counts_since(mark);
    let expected = [
        ((Operation::Create, PathClass::Commits), 1),
        ((Operation::Get, PathClass::Retired), 1),
        // The checkpoint: a put, the read that finds nobody was faster, and SlateDB's two reads of the collector's boundary.
        ((Operation::Create, PathClass::Manifest), 1),
        ((Operation::Get, PathClass::Manifest), 1),
        ((Operation::Get, PathClass::Gc), 2),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
    // At this moment a reader of a fixed state has it.
    assert_eq!(lake.published_through().await, 2);
    lake.assert_published(&[commit.transaction]).await;
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_published_nothing_is_paid_for_it() {
    let lake = Lake::new();
    let (process, store) = lake.adopted().await;
    let mark = process.scripted.mark();
    won(&store.write_at(sequence(2), process.commit()).await);
    let counts = process.scripted.counts_since(mark);
    assert_eq!(
        counts,
        BTreeMap::from([((Operation::Create, PathClass::Commits), 1), ((Operation::Get, PathClass::Retired), 1)])
    );
    assert_eq!(lake.published().await, None);
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_holder_publishes_what_others_won_and_they_take_nothing() {
    let lake = Lake::new();
    let (_process, held) = lake.publisher().await;
    let member = Member::publishing(&lake, Folding::Never).await;
    let mut transactions = Vec::new();
    for number in 2..=12 {
        transactions.push(member.commit().await);
        assert!(lake.published_through().await >= number);
    }
    assert_eq!((member.takes(), held.role()), (0, Role::Holding));
    lake.assert_published(&transactions).await;
    member.store.close().await.unwrap();
    held.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_no_holder_alive_a_win_is_published_by_a_take_that_writes_no_file() {
    let lake = Lake::new();
    lake.adopted_through(3).await;
    let files = lake.newest().await.l0().len();
    let member = Member::publishing(&lake, Folding::Never).await;
    let first = member.commit().await;
    assert_eq!((member.takes(), lake.published_through().await), (1, 4));
    assert_eq!(member.store.role(), Role::Following);
    let second = member.commit().await;
    assert_eq!((member.takes(), lake.published_through().await), (2, 5));
    assert_eq!((lake.newest().await.l0().len(), member.covered().await), (files, 3), "nothing was flushed");
    lake.assert_published(&[first, second]).await;
    member.store.close().await.unwrap();
    lake.assert_has(&[first, second]).await;
}

#[tokio::test(start_paused = true)]
async fn a_win_whose_publication_is_late_is_committed_and_the_next_one_publishes_both() {
    let lake = Lake::new();
    let (process, store) = lake.publisher().await;
    let commit = process.commit();
    let slow = process.scripted.script(1, is(Operation::Create, PathClass::Manifest), Fate::Hold);
    let (transaction, source) = not_published(store.write_at(sequence(2), commit.clone()).await);
    assert_eq!(transaction, commit.transaction);
    assert!(matches!(source, HoldError::TimedOut { doing: "publishing" }), "{source:?}");
    slow.release();
    // It has landed, and the holder goes on: whoever offers it again finds it there.
    until(STEP, async || lake.published_through().await == 2).await;
    won(&store.write_at(sequence(2), commit.clone()).await);
    let next = process.commit();
    won(&store.write_at(sequence(3), next.clone()).await);
    lake.assert_published(&[commit.transaction, next.transaction]).await;
    store.close().await.unwrap();
}

/// Publishes in a way that a test decides.
struct Scripted(Box<dyn Fn(usize) -> Option<PublishFailure> + Send + Sync>, AtomicUsize);

#[derive(Debug, thiserror::Error)]
#[error("not today")]
struct NotToday;

#[async_trait]
impl Publish for Scripted {
    async fn publish(&self, db: &Db) -> Result<(), PublishFailure> {
        if let Some(failure) = (self.0)(self.1.fetch_add(1, Ordering::SeqCst)) {
            return Err(failure);
        }
        let name = Some("another".to_owned());
        let options = CheckpointOptions { lifetime: Some(LIFETIME), source: None, name };
        let made = db.create_checkpoint(CheckpointScope::Durable, &options).await;
        made.map(drop).map_err(|error| Arc::new(error) as PublishFailure)
    }
}

fn scripted(fate: impl Fn(usize) -> Option<PublishFailure> + Send + Sync + 'static) -> Arc<dyn Publish> {
    Arc::new(Scripted(Box::new(fate), AtomicUsize::new(0)))
}

#[tokio::test(start_paused = true)]
async fn what_the_embedder_says_about_a_publication_reaches_the_caller_and_the_store_goes_on() {
    let lake = Lake::new();
    let (process, adopted) = lake.adopted().await;
    adopted.close().await.unwrap();
    let often = scripted(|attempt| (attempt < 3).then(|| Arc::new(NotToday) as PublishFailure));
    let store = process.held(Hooks { publication: Some(Publication::new("another", often)), ..hooks() }).await;
    let (_, source) = not_published(store.write_at(sequence(2), process.commit()).await);
    assert!(matches!(&source, HoldError::NotPublished(failure) if failure.is::<NotToday>()), "{source:?}");
    assert_eq!(store.role(), Role::Holding);
    // The polls try again, and then the next win is published at once.
    until(STEP, async || lake.newest().await.checkpoints().iter().any(|c| c.name.as_deref() == Some("another"))).await;
    won(&store.write_at(sequence(3), process.commit()).await);
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_publication_under_another_name_is_none() {
    let lake = Lake::new();
    let (process, adopted) = lake.adopted().await;
    adopted.close().await.unwrap();
    let store = process.held(Hooks { publication: Some(Publication::new(NAME, scripted(|_| None))), ..hooks() }).await;
    let (_, source) = not_published(store.write_at(sequence(2), process.commit()).await);
    assert!(matches!(source, HoldError::NotCovered { sequence: at } if at == sequence(2)), "{source:?}");
    assert!(matches!(store.close().await, Err(CommitStoreError::HoldEnded(HoldError::NotCovered { .. }))));
}

#[tokio::test(start_paused = true)]
async fn a_flush_republishes_before_the_store_is_given_back() {
    let lake = Lake::new();
    let (process, store) = lake.publisher().await;
    for number in 2..=6 {
        won(&store.write_at(sequence(number), process.commit()).await);
    }
    store.close().await.unwrap();
    // A reader of the fixed state replays nothing.
    let checkpoint = lake.published().await.unwrap();
    let own = AdminBuilder::new(ROOT, lake.memory.clone())
        .build()
        .read_manifest(Some(checkpoint.manifest_id))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((own.replay_after_wal_id(), own.last_l0_seq(), own.next_wal_sst_id()), (6, 6, 7));
}

#[tokio::test(start_paused = true)]
async fn a_fold_by_cadence_publishes_the_state_that_it_flushed() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let silent = Member::of(&lake, Folding::Never).await;
    for _ in 2..FOLD_EVERY {
        silent.commit().await;
    }
    let member = Member::publishing(&lake, Folding::ByCadence).await;
    member.store.fold().await.unwrap();
    assert_eq!(lake.published_through().await, FOLD_EVERY - 1);
    let checkpoint = lake.published().await.unwrap();
    let own = AdminBuilder::new(ROOT, lake.memory.clone())
        .build()
        .read_manifest(Some(checkpoint.manifest_id))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(own.last_l0_seq(), FOLD_EVERY - 1, "the files, not the slots");
    assert_eq!(lake.newest().await.checkpoints().len(), 1, "once a fold");
    member.store.close().await.unwrap();
    silent.store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_holder_renews_what_is_published_before_it_lapses() {
    let lake = Lake::new();
    let (_process, store) = lake.publisher().await;
    let first = lake.published().await.unwrap();
    lake.pass(LIFETIME / 3).await;
    assert_eq!(lake.published().await.unwrap().id, first.id, "it is young");
    lake.pass(LIFETIME / 3).await;
    let second = lake.published().await.unwrap();
    assert!(second.expire_time > first.expire_time);
    assert_eq!(lake.newest().await.checkpoints().len(), 2, "once");
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_lapsed_publishes_nothing() {
    let lake = Lake::new();
    let (process, store) = lake.publisher().await;
    store.close().await.unwrap();
    let mut commit = process.commit();
    let follower = Member::publishing(&lake, Folding::Never).await;
    follower.commit().await;
    assert_eq!(follower.takes(), 1);
    // The same slot, asked for again when its checkpoint is gone, is published again.
    commit.transaction = follower.commit().await;
    lake.pass(LIFETIME * 2).await;
    let last = follower.process.commit();
    won(&follower.store.write_at(sequence(4), last.clone()).await);
    let takes = follower.takes();
    lake.pass(LIFETIME * 2).await;
    won(&follower.store.write_at(sequence(4), last).await);
    assert_eq!(follower.takes(), takes + 1);
    follower.store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn followers_that_all_publish_settle_after_a_take_each_at_most() {
    const FOLLOWERS: usize = 6;
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let mut members = Vec::new();
    for _ in 0..FOLLOWERS {
        members.push(Member::publishing(&lake, Folding::Never).await);
    }
    for round in 1..=5 {
        let transactions = futures::future::join_all(members.iter().map(Member::commit)).await;
        let takes: usize = members.iter().map(Member::takes).sum();
        assert!(takes <= round * FOLLOWERS, "{takes} takes in {round} rounds");
        lake.assert_published(&transactions).await;
    }
    for member in members {
        member.store.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_l0_does_not_keep_a_win_from_being_published() {
    let lake = Lake::new();
    lake.adopted_through(3).await;
    let few = Settings { l0_max_ssts: 1, l0_max_ssts_per_key: 1, ..settings() };
    let holding = HoldingOptions { l0_limit: 1, external_compaction: true, ..hooks().settings.holding };
    let settings = CommitStoreSettings { holding, ..folding(Folding::ByCadence) };
    let member = Member::over(&lake, Hooks { publication: published(), settings, ..hooks() }, few).await;
    let mut transactions = Vec::new();
    for _ in 0..2 * FOLD_EVERY {
        transactions.push(member.commit().await);
    }
    assert_eq!(member.covered().await, 3, "no flush");
    lake.assert_published(&transactions).await;
    member.store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tail_that_a_full_store_cannot_hold_is_not_opened_to_publish() {
    let lake = Lake::new();
    lake.adopted_through(3).await;
    let holding = HoldingOptions { l0_limit: 1, external_compaction: true, ..hooks().settings.holding };
    let settings = CommitStoreSettings { holding, max_unflushed_bytes: 1 << 10, ..folding(Folding::Never) };
    let member = Member::over(&lake, Hooks { publication: published(), settings, ..hooks() }, roomy()).await;
    let epoch = lake.newest().await.writer_epoch();
    let large = member.process.commit_of(&[("large", Some(&"x".repeat(1 << 10)))]);
    let (_, source) = not_published(member.store.write_at(sequence(4), large).await);
    assert!(matches!(source, HoldError::L0Full { files: 1, limit: 1 }), "{source:?}");
    assert_eq!((member.takes(), lake.newest().await.writer_epoch()), (0, epoch), "nobody was fenced");
    member.store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_taker_that_declines_leaves_a_win_unpublished() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let process = lake.process();
    let take = TakeWith::new(process.place.clone(), |_| async { Ok::<_, TakeError>(None) });
    let (_, store) = process.followed(Hooks { take: Some(Arc::new(take)), ..publishing() }).await;
    let (_, source) = not_published(store.write_at(sequence(2), process.commit()).await);
    assert!(matches!(source, HoldError::Take(TakeError::Declined)), "{source:?}");
    // So does a process that has none.
    let without = lake.process();
    let (_, store_without) = without.followed(publishing()).await;
    store_without.fold_tail().await.unwrap();
    let (_, source) = not_published(store_without.write_at(sequence(3), without.commit()).await);
    assert!(matches!(source, HoldError::Take(TakeError::Declined)), "{source:?}");
    store.close().await.unwrap();
    store_without.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_live_holder_is_given_two_polls_before_it_is_fenced() {
    let lake = Lake::new();
    let (_process, held) = lake.publisher().await;
    let member = Member::publishing(&lake, Folding::Never).await;
    let begun = lake.now();
    member.commit().await;
    let waited = (lake.now() - begun).to_std().unwrap();
    assert!(waited <= TWO_POLLS, "{waited:?}");
    assert_eq!(member.takes(), 0);
    member.store.close().await.unwrap();
    held.close().await.unwrap();
}
