//! Retiring under real stores: who drives it, and what a process meets that slept meanwhile.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use commit_log::adoption::{AdoptionError, FreshLog};
use commit_log::bucket::{ObjectName, Pace};
use commit_log::commit_store::Folding;
use commit_log::holder::{HoldError, Holder};
use commit_log::log::Outcome;
use commit_log::retire::{RetireError, RetireMode};
use commit_log::slot::{Page, PageSize};
use commit_log::store::{BodyError, CommitError, Committed, Store, StoreBuilder, StoreError};
use commit_log::transaction::Transaction;
use commit_log_kit::bucket::Operation;
use commit_log_kit::clock::Timeline;
use commit_log_kit::scripted::{Cue, Fate, PathClass, ScriptedBucket};
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use slatedb::config::{GarbageCollectorDirectoryOptions, GarbageCollectorOptions, Settings};
use tokio::task::JoinHandle;

use crate::holding::settings;
use crate::pins::{keep_least, nothing};
use crate::support::{PAGE, ROOT, environment, is, pages, sequence};

struct Stores {
    memory: Arc<InMemory>,
    timeline: Timeline,
}

impl Stores {
    fn new() -> Stores {
        Stores { memory: Arc::default(), timeline: Timeline::begin() }
    }

    /// A process with a script of its own. It never polls, and waits for an answer as long as the test likes.
    fn builder(&self, process: u64, page_size: u32) -> (ScriptedBucket, StoreBuilder) {
        let scripted = ScriptedBucket::new(self.memory.clone());
        let never = Duration::from_secs(1_000_000);
        let pace = Pace { attempt: never, call: never, ..Pace::default() };
        let fresh = FreshLog { page_size: PageSize::new(page_size).unwrap(), ..FreshLog::default() };
        let builder = Store::builder(ROOT, Arc::new(scripted.clone()) as Arc<dyn ObjectStore>)
            .environment(environment(self.timeline, process))
            .pace(pace)
            .poll(never)
            .fresh_log(fresh)
            .settings(settings())
            // These tests fold when they mean to, and nothing merges their files.
            .folding(Folding::Never)
            .retain_pages(NonZeroU32::MIN);
        (scripted, builder)
    }

    async fn has_slot(&self, store: &Store, number: u64) -> bool {
        let name = ObjectName::Slot(store.log().record().log, sequence(number));
        self.memory.head(&name.path(&Path::from(ROOT))).await.is_ok()
    }
}

async fn put(store: &Store, key: &'static str, value: u64) {
    let body = async |mut transaction: Transaction| {
        transaction.put(key, value.to_string())?;
        Ok::<_, BodyError>((transaction, ()))
    };
    store.transact(body).await.unwrap();
}

async fn value(store: &Store, key: &str) -> Option<Bytes> {
    store.latest().await.unwrap().get(key.as_bytes()).await.unwrap()
}

fn collecting(wal_options: Option<GarbageCollectorDirectoryOptions>) -> Settings {
    let options = GarbageCollectorOptions { wal_options, ..nothing() };
    Settings { garbage_collector_options: Some(options), ..settings() }
}

/// What has SlateDB's collector retire every second.
fn often(dry_run: bool, min_age: Duration) -> Option<GarbageCollectorDirectoryOptions> {
    let interval = Some(Duration::from_secs(1));
    Some(GarbageCollectorDirectoryOptions { interval, min_age, dry_run })
}

/// A store of fourteen slots, all of them flushed, whose holder has had ten seconds to collect.
async fn collected(builder: StoreBuilder) -> (Store, Holder) {
    let store = builder.open().await.unwrap();
    let holder = store.hold().await.unwrap();
    for number in 0..14 {
        put(&store, "key", number).await;
    }
    // A stop flushes; the next holder's collector has something to retire.
    holder.stop().await.unwrap();
    let holder = store.hold().await.unwrap();
    pass_time(Duration::from_secs(10)).await;
    (store, holder)
}

#[tokio::test(start_paused = true)]
async fn slatedbs_own_collector_retires_as_the_embedders_options_say() {
    let hour = Duration::from_secs(3600);
    let cases = [
        (often(false, Duration::ZERO), true),
        (often(true, Duration::ZERO), false),
        (often(false, hour), false),
        (None, false),
    ];
    for (wal_options, retires) in cases {
        let stores = Stores::new();
        let (_, builder) = stores.builder(1, PAGE);
        let (store, holder) = collected(builder.settings(collecting(wal_options))).await;
        assert_eq!(!stores.has_slot(&store, 12).await, retires, "{wal_options:?}");
        assert!(stores.has_slot(&store, 13).await);
        holder.stop().await.unwrap();
        let (_, fresh) = stores.builder(2, PAGE);
        assert_eq!(value(&fresh.open_existing().await.unwrap(), "key").await, Some(Bytes::from("13")));
    }
}

#[tokio::test(start_paused = true)]
async fn slatedbs_own_collector_keeps_as_many_pages_as_the_embedder_retains() {
    let stores = Stores::new();
    let (_, builder) = stores.builder(1, PAGE);
    let three = NonZeroU32::new(3).unwrap();
    let builder = builder.settings(collecting(often(false, Duration::ZERO))).retain_pages(three);
    let (store, holder) = collected(builder).await;
    // Of the pages 1 to 4, 5 to 8, 9 to 12, and the floor's.
    assert_eq!((stores.has_slot(&store, 4).await, stores.has_slot(&store, 5).await), (false, true));
    holder.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closing_the_store_does_not_wait_for_a_pass_of_its_collector() {
    let stores = Stores::new();
    let (scripted, builder) = stores.builder(1, PAGE);
    let often = GarbageCollectorDirectoryOptions { interval: None, min_age: Duration::ZERO, dry_run: false };
    let store = builder.settings(collecting(Some(often))).open().await.unwrap();
    for number in 0..9 {
        put(&store, "key", number).await;
    }
    store.hold().await.unwrap().stop().await.unwrap();
    // Given a pass that is never answered when it puts its first ledger.
    let cue = scripted.script(1, is(Operation::Create, PathClass::Retired), Fate::Hang);
    let holder = store.hold().await.unwrap();
    while !cue.was_reached() {
        pass_time(Duration::from_secs(1)).await;
    }
    holder.stop().await.unwrap();
}

/// Lets time pass, and whatever it wakes run.
async fn pass_time(duration: Duration) {
    let step = Duration::from_millis(100);
    for _ in 0..duration.as_millis() / step.as_millis() {
        tokio::time::advance(step).await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
}

/// When a committer falls asleep.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asleep {
    /// Before its put is sent.
    Before,
    /// While its put is under way.
    Within,
    /// After its put has landed, and its answer was lost.
    Unheard,
}

const COMMITS: u64 = 20_000;

/// Others commit 20,000 times, fold, flush and retire while a committer sleeps.
async fn sleeps_across_20_000_commits(asleep: Asleep) {
    let stores = Stores::new();
    let (_, awake) = stores.builder(1, 1_024);
    let awake = awake.open().await.unwrap();
    put(&awake, "first", 0).await;
    let (scripted, sleeper) = stores.builder(2, 1_024);
    let sleeper = sleeper.open().await.unwrap();
    let mut transaction = sleeper.begin();
    transaction.get(b"mine").await.unwrap();
    transaction.put("mine", "slept").unwrap();
    let resend = if asleep == Asleep::Unheard { 2 } else { 1 };
    let put_of_slot = || is(Operation::Create, PathClass::Commits);
    let cue = scripted.script(resend, put_of_slot(), Fate::Hold);
    if asleep == Asleep::Unheard {
        scripted.script(1, put_of_slot(), Fate::LoseAnswer);
    }
    let committing = sleeper.clone();
    let commit = async move { committing.commit(transaction).await };
    let mut waking = Some(commit);
    let running = if asleep == Asleep::Before { None } else { waking.take().map(tokio::spawn) };
    if running.is_some() {
        cue.reached().await;
    }
    for number in 1..=COMMITS {
        put(&awake, "key", number).await;
    }
    awake.hold().await.unwrap().stop().await.unwrap();
    let retired = awake.retire(&keep_least(), RetireMode::Retire).await.unwrap();
    assert_eq!(retired.pages, pages(0, 19));
    cue.release();
    let ended = match (running, waking) {
        (Some(running), _) => running.await.unwrap(),
        (None, Some(commit)) => commit.await,
        (None, None) => unreachable!(),
    };
    let expected = match (asleep, ended) {
        (Asleep::Unheard, Ok(committed)) => {
            assert_eq!(committed.sequence, sequence(2));
            let outcome = awake.outcome(committed.transaction, committed.sequence).await.unwrap();
            assert_eq!(outcome, Outcome::Landed);
            Some(Bytes::from("slept"))
        }
        (Asleep::Before | Asleep::Within, Err(CommitError::TooOld)) => None,
        (_, ended) => panic!("{asleep:?}: {ended:?}"),
    };
    // What it left under a retired name is nobody's, and is swept.
    assert!(stores.has_slot(&awake, 2).await);
    for store in [&awake, &sleeper] {
        assert_eq!(value(store, "mine").await, expected, "{asleep:?}");
        assert_eq!(value(store, "key").await, Some(Bytes::from(COMMITS.to_string())));
    }
    let (_, fresh) = stores.builder(3, 1_024);
    assert_eq!(value(&fresh.open_existing().await.unwrap(), "mine").await, expected);
    let swept = awake.retire(&keep_least(), RetireMode::Retire).await.unwrap().swept;
    assert_eq!((swept, stores.has_slot(&awake, 2).await), (1, false));
    // The sleeper goes on.
    put(&sleeper, "mine", 1).await;
    assert_eq!(value(&awake, "mine").await, Some(Bytes::from("1")));
}

#[tokio::test(start_paused = true)]
async fn a_committer_that_wakes_before_its_put_after_20_000_commits_starts_again_from_the_store() {
    Box::pin(sleeps_across_20_000_commits(Asleep::Before)).await;
}

#[tokio::test(start_paused = true)]
async fn a_committer_that_wakes_in_its_put_after_20_000_commits_has_committed_nothing() {
    Box::pin(sleeps_across_20_000_commits(Asleep::Within)).await;
}

#[tokio::test(start_paused = true)]
async fn a_committer_that_wakes_after_its_put_after_20_000_commits_has_committed_once() {
    Box::pin(sleeps_across_20_000_commits(Asleep::Unheard)).await;
}

/// A commit of `mine` whose put has landed as slot 2, whose answer was lost, and which is sent again when the cue says so.
async fn commit_unheard(scripted: &ScriptedBucket, store: &Store) -> (Cue, JoinHandle<Result<Committed, CommitError>>) {
    let mut transaction = store.begin();
    transaction.put("mine", "slept").unwrap();
    let put_of_slot = || is(Operation::Create, PathClass::Commits);
    scripted.script(1, put_of_slot(), Fate::LoseAnswer);
    let cue = scripted.script(2, put_of_slot(), Fate::Hold);
    let committing = store.clone();
    let running = tokio::spawn(async move { committing.commit(transaction).await });
    cue.reached().await;
    (cue, running)
}

#[tokio::test(start_paused = true)]
async fn a_process_that_takes_the_store_before_it_hears_of_its_win_reads_it_as_soon_as_it_hears() {
    let stores = Stores::new();
    let (scripted, sleeper) = stores.builder(1, PAGE);
    let sleeper = sleeper.open().await.unwrap();
    put(&sleeper, "first", 0).await;
    let (cue, running) = commit_unheard(&scripted, &sleeper).await;
    let (_, other) = stores.builder(2, PAGE);
    other.open_existing().await.unwrap().hold().await.unwrap().stop().await.unwrap();
    // Its own take starts the log again past the slot, which another has folded.
    let holder = sleeper.hold().await.unwrap();
    cue.release();
    assert_eq!(running.await.unwrap().unwrap().sequence, sequence(2));
    assert_eq!(sleeper.get(b"mine").await.unwrap(), Some(Bytes::from("slept")));
    holder.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_takes_the_store_before_it_hears_of_its_loss_goes_on_at_the_next_sequence() {
    let stores = Stores::new();
    let (scripted, sleeper) = stores.builder(1, PAGE);
    let sleeper = sleeper.open().await.unwrap();
    put(&sleeper, "first", 0).await;
    let mut transaction = sleeper.begin();
    transaction.put("mine", "slept").unwrap();
    let cue = scripted.script(1, is(Operation::Create, PathClass::Commits), Fate::Hold);
    let committing = sleeper.clone();
    let running = tokio::spawn(async move { committing.commit(transaction).await });
    cue.reached().await;
    let (_, other) = stores.builder(2, PAGE);
    let other = other.open_existing().await.unwrap();
    put(&other, "theirs", 1).await;
    other.hold().await.unwrap().stop().await.unwrap();
    // Its own take starts the log again past the slot that it lost to, which another has folded.
    let holder = sleeper.hold().await.unwrap();
    // Whoever asks for the lost sequence again and again is not answered for ever.
    scripted.script(50, is(Operation::Get, PathClass::Commits), Fate::Hang);
    cue.release();
    let committed = running.await.unwrap().unwrap();
    assert_eq!((committed.sequence, committed.lost_races), (sequence(3), 1));
    assert_eq!(sleeper.get(b"theirs").await.unwrap(), Some(Bytes::from("1")));
    assert_eq!(sleeper.get(b"mine").await.unwrap(), Some(Bytes::from("slept")));
    holder.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_win_whose_page_was_retired_and_whose_store_cannot_be_read_is_told_as_committed_and_not_served() {
    let stores = Stores::new();
    let (scripted, sleeper) = stores.builder(1, PAGE);
    let call = Duration::from_secs(3600);
    let sleeper = sleeper.pace(Pace { attempt: call, call, ..Pace::default() }).open().await.unwrap();
    put(&sleeper, "first", 0).await;
    let (cue, running) = commit_unheard(&scripted, &sleeper).await;
    let (_, awake) = stores.builder(2, PAGE);
    let awake = awake.open_existing().await.unwrap();
    for number in 0..14 {
        put(&awake, "key", number).await;
    }
    awake.hold().await.unwrap().stop().await.unwrap();
    assert_eq!(awake.retire(&keep_least(), RetireMode::Retire).await.unwrap().pages.start, Page::new(0));
    scripted.script(1, is(Operation::List, PathClass::Manifest), Fate::Hang);
    cue.release();
    let Err(CommitError::NotServed { transaction, sequence: at, .. }) = running.await.unwrap() else { panic!("served") };
    assert_eq!(at, sequence(2));
    assert_eq!(sleeper.get(b"mine").await.unwrap(), None);
    // It is committed all the same, and served as soon as the store can be read.
    assert_eq!(sleeper.outcome(transaction, at).await.unwrap(), Outcome::Landed);
    assert_eq!(value(&sleeper, "mine").await, Some(Bytes::from("slept")));
}

#[tokio::test(start_paused = true)]
async fn an_idle_reader_that_slept_past_a_retirement_reads_everything_and_its_old_view_stays_true() {
    let stores = Stores::new();
    let (_, awake) = stores.builder(1, PAGE);
    let awake = awake.open().await.unwrap();
    put(&awake, "key", 0).await;
    let (_, reader) = stores.builder(2, PAGE);
    let reader = reader.open_existing().await.unwrap();
    let old = reader.view();
    for number in 1..30 {
        put(&awake, "key", number).await;
    }
    awake.hold().await.unwrap().stop().await.unwrap();
    let retired = awake.retire(&keep_least(), RetireMode::Retire).await.unwrap();
    assert_eq!(retired.pages, pages(0, 7));
    assert_eq!(value(&reader, "key").await, Some(Bytes::from("29")));
    assert_eq!(old.get(b"key").await.unwrap(), Some(Bytes::from("0")));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_dropped_and_created_again_under_a_live_handle_never_shows_through_it() {
    let stores = Stores::new();
    let (_, old) = stores.builder(1, PAGE);
    let old = old.open().await.unwrap();
    put(&old, "old", 1).await;
    let objects: Vec<_> = stores.memory.list(None).try_collect().await.unwrap();
    for object in objects {
        stores.memory.delete(&object.location).await.unwrap();
    }
    let (_, new) = stores.builder(2, PAGE);
    let new = new.open().await.unwrap();
    for number in 0..14 {
        put(&new, "new", number).await;
    }
    new.hold().await.unwrap().stop().await.unwrap();
    // Every way by which the old handle meets the new store's files says so.
    let other_log = |error: &StoreError| matches!(error, StoreError::Adoption(AdoptionError::OtherLog));
    assert!(other_log(&old.look().await.unwrap_err()));
    assert!(matches!(old.retire(&keep_least(), RetireMode::Retire).await, Err(RetireError::Adoption(AdoptionError::OtherLog))));
    assert!(matches!(old.hold().await, Err(HoldError::Take(_))));
    assert_eq!(old.view().get(b"new").await.unwrap(), None);
    // And what it commits goes where the old store was: docs/decisions/0005.
    put(&old, "old", 2).await;
    assert_eq!(value(&new, "old").await, None);
    let (_, fresh) = stores.builder(3, PAGE);
    let fresh = fresh.open_existing().await.unwrap();
    assert_eq!((value(&fresh, "old").await, value(&fresh, "new").await), (None, Some(Bytes::from("13"))));
}
