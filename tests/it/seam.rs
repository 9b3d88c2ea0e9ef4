//! RFC 0027's seam over the library: a catalog that knows the seam only, and a provider that converts and decides nothing.

mod catalog;
mod glue;
mod lake;
mod publishing;
mod traits;

use std::any::Any;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use commit_log::commit_store::{CommitStoreError, FoldEnd, Rest, Role};
use commit_log::holder::HoldError;
use commit_log::take::TakeError;
use commit_log_kit::bucket::Operation;
use commit_log_kit::scripted::{Fate, PathClass};
use slatedb::Db;
use slatedb::config::CloseOptions;
use slatedb::wal::{WalReader, WriterInit};

use crate::embedder::{self, READER_POLL};
use crate::support::{PAGE, ROOT, is, sequence, until};

use catalog::{COUNTER, Catalog, FORMAT, Opener, STAMP, View};
use lake::{Lake, assert_lost, assert_unknown, assert_won, library_of};
use traits::{CatalogHooks, CommitStore, Error, ReaderSession, SlotAdoption, SlotCommit, SlotOffer, TakeStore, WriterSession};

#[tokio::test(start_paused = true)]
async fn a_read_write_open_adopts_and_a_second_opener_finds_that_stamp() {
    let lake = Lake::new();
    let process = lake.process();
    assert!(!process.opener.writer_session().adopted().await.unwrap());
    let first = process.opener.open().await.unwrap();
    assert!(first.store.adopted().await.unwrap());
    assert_eq!((first.head().await, first.get(FORMAT).await), (1, Some(Bytes::from("1"))));
    first.store.close().await.unwrap();
    // Another finds it before it opens, and has the stamp folded when it has opened.
    let process = lake.process();
    assert!(process.opener.writer_session().adopted().await.unwrap());
    let second = process.opener.open().await.unwrap();
    assert_eq!((second.head().await, second.get(FORMAT).await), (1, Some(Bytes::from("1"))));
    // One that adopts all the same is told whose stamp did.
    let SlotAdoption::Theirs { sequence, winner } = second.adopt().await.unwrap() else { panic!("adopted twice") };
    assert_eq!((sequence, winner.sequence, &winner.validated_head[..]), (1, 1, &b"0"[..]));
    assert!(matches!(&winner.writes[..], [(format, _), (head, _)] if format == FORMAT && head == STAMP), "{winner:?}");
    let follower = lake.attach().await;
    assert!(follower.store.adopted().await.unwrap());
    assert_eq!(follower.head().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stamp_that_lost_leaves_the_catalog_with_the_one_that_won() {
    let lake = Lake::new();
    let process = lake.process();
    let session = process.opener.writer_session();
    let db = process.opener.open_db(&*session).await.unwrap();
    let store = process.opener.provider.holding(db.clone(), session, process.opener.hooks());
    let reader = lake.attach().await;
    assert!(matches!(reader.adopt().await, Ok(SlotAdoption::Ours { sequence: 1 })));
    let late = reader.prepare_on(0, &[("late", "1")]).commit;
    assert!(matches!(store.adopt(late).await, Ok(SlotAdoption::Theirs { sequence: 1, .. })));
    assert_eq!(db.get(FORMAT).await.unwrap(), Some(Bytes::from("1")));
    assert_eq!(db.get("late").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_holder_applies_its_win_and_folds_a_loss() {
    let lake = Lake::new();
    let holder = lake.open().await;
    let follower = lake.attach().await;
    assert_won(&holder.write(holder.prepare(&[("mine", "1")]).await).await, 2);
    assert_eq!((holder.head().await, holder.number("mine").await), (2, 1));
    // When another is faster.
    let stale = holder.prepare(&[("mine", "2")]).await;
    follower.store.fold_tail().await.unwrap();
    let theirs = follower.prepare(&[("theirs", "3")]).await;
    assert_won(&follower.write(theirs.clone()).await, 3);
    let lost = holder.write(stale).await;
    // Then it has what that committed, and prepares again.
    assert_lost(&lost, 3, 3);
    let Ok(SlotOffer::Lost { winner, .. }) = lost else { panic!("{lost:?}") };
    assert_eq!((winner.transaction_id, &winner.changes_made[..]), (theirs.commit.transaction_id, &b"theirs"[..]));
    assert_eq!((holder.head().await, holder.number("theirs").await, holder.number("mine").await), (3, 3, 1));
    assert_won(&holder.write(holder.prepare(&[("mine", "2")]).await).await, 4);
    assert_eq!(holder.store.fold_tail().await.unwrap(), 0);
    holder.store.close().await.unwrap();
    assert!(matches!(holder.write(holder.prepare_on(4, &[("mine", "3")])).await, Err(Error::Closed)));
    assert_eq!(lake.read(["mine", "theirs"]).await, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_follower_is_served_its_win_and_waits_for_a_loss() {
    let lake = Lake::written_through(1).await;
    let (follower, other) = (lake.attach().await, lake.attach().await);
    assert_won(&follower.write(follower.prepare(&[("mine", "1")]).await).await, 2);
    assert_eq!((follower.head().await, follower.number("mine").await), (2, 1));
    // The other has not looked since.
    let stale = other.prepare(&[("theirs", "1")]).await;
    assert_won(&follower.write(follower.prepare(&[("mine", "2")]).await).await, 3);
    assert_lost(&other.write(stale).await, 2, 3);
    assert_eq!((other.head().await, other.number("mine").await), (3, 2));
    assert_won(&other.write(other.prepare(&[("theirs", "1")]).await).await, 4);
    assert_eq!(follower.store.fold_tail().await.unwrap(), 1);
    assert_eq!(follower.head().await, 4);
    assert_eq!(library_of(&*follower.store).unfolded().await.unwrap(), 3);
    other.store.close().await.unwrap();
    follower.store.close().await.unwrap();
}

/// The seam has no place for a session's clock, so a catalog that knows nothing else opens its reader without.
#[tokio::test(start_paused = true)]
async fn a_follower_whose_reader_has_no_clock_of_the_session_is_served_its_win_at_its_own_poll() {
    let lake = Lake::written_through(1).await;
    let mut opener = lake.process().opener;
    opener.clock_of = |_| None;
    opener.settings.committer_poll = Duration::from_secs(3);
    let follower = opener.attach().await.unwrap();
    for head in 2..=4 {
        follower.count_up().await;
        assert_eq!(follower.head().await, head);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_head_names_a_taken_slot_and_loses_however_stale_it_is() {
    let lake = Lake::written_through(9).await;
    let (holder, follower) = (lake.open().await, lake.attach().await);
    for catalog in [&holder, &follower] {
        // Nothing was refused as past the store, nor as gone by.
        for head in 0..9 {
            assert_lost(&catalog.write(catalog.prepare_on(head, &[("late", "1")])).await, head + 1, 9);
        }
        let past = catalog.write(catalog.prepare_on(10, &[("early", "1")])).await;
        assert!(matches!(past, Err(Error::Conflict(_))), "{past:?}");
        let none = catalog.store.write_at(0, catalog.prepare_on(0, &[]).commit).await;
        assert!(matches!(none, Err(Error::NoSequence { sequence: 0 })), "{none:?}");
    }
    assert_eq!(lake.read(["late", "early"]).await, [0, 0]);
}

/// What was forgotten loses, too, and the winner is what the ledger remembers.
#[tokio::test(start_paused = true)]
async fn a_head_that_is_so_stale_that_its_slot_is_retired_loses_to_what_is_remembered() {
    let lake = Lake::written_through(9).await;
    let process = lake.process();
    let collector = process.opener.provider.garbage_collector(process.opener.object_store.clone(), ROOT);
    collector.collect(Vec::new(), Duration::ZERO, false).await.unwrap();
    assert_eq!(process.scripted.counts().get(&(Operation::Delete, PathClass::Commits)), Some(&u64::from(2 * PAGE)));
    let follower = lake.attach().await;
    let lost = follower.write(follower.prepare_on(1, &[("late", "1")])).await;
    assert_lost(&lost, 2, 9);
    let Ok(SlotOffer::Lost { winner, .. }) = lost else { panic!("{lost:?}") };
    assert_eq!((&winner.validated_head[..], &winner.changes_made[..]), (&b"1"[..], COUNTER.as_bytes()));
    assert_eq!(winner.writes, []);
    assert_won(&follower.write(follower.prepare(&[("late", "1")]).await).await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_batch_against_a_head_that_the_reader_was_served_by_itself_wins_where_the_head_implies() {
    let lake = Lake::written_through(1).await;
    let (follower, other) = (lake.attach().await, lake.attach().await);
    follower.count_up().await;
    for _ in 0..5 {
        other.count_up().await;
    }
    // Its reader goes on by its own poll, and nobody tells the store behind it.
    until(READER_POLL, async || follower.head().await == 7).await;
    assert_won(&follower.write(follower.prepare(&[("mine", "1")]).await).await, 8);
    // A head that was read elsewhere is as good, though nobody here has heard of it.
    assert_eq!(other.head().await, 7);
    assert_won(&other.write(other.prepare_on(follower.head().await, &[("mine", "2")])).await, 9);
}

#[tokio::test(start_paused = true)]
async fn a_win_that_a_held_store_could_not_take_is_unknown_at_its_sequence_and_a_reopen_folds_it() {
    let lake = Lake::written_through(1).await;
    let process = lake.process();
    let holder = process.opener.open().await.unwrap();
    let View::Writer(db) = &holder.view else { panic!("opened as a reader") };
    let put = process.scripted.script(1, is(Operation::Create, PathClass::Commits), Fate::Hold);
    let prepared = holder.prepare(&[("mine", "1")]).await;
    let (written, ()) = futures::join!(holder.write(prepared), async {
        put.reached().await;
        db.close_with_options(CloseOptions { flush_type: None }).await.unwrap();
        put.release();
    });
    assert_unknown(&written, 2);
    let next = holder.write(holder.prepare_on(2, &[("mine", "2")])).await;
    assert!(matches!(next, Err(Error::Reopen(_))), "{next:?}");
    assert_eq!(lake.read(["mine", STAMP]).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_win_that_a_closed_reader_could_not_serve_is_unknown_at_its_sequence_and_a_reopen_folds_it() {
    let lake = Lake::written_through(1).await;
    let process = lake.process();
    let follower = process.opener.attach().await.unwrap();
    let View::Reader(reader) = &follower.view else { panic!("opened as the writer") };
    let put = process.scripted.script(1, is(Operation::Create, PathClass::Commits), Fate::Hold);
    let prepared = follower.prepare(&[("mine", "1")]).await;
    let (written, ()) = futures::join!(follower.write(prepared), async {
        put.reached().await;
        reader.close().await.unwrap();
        put.release();
    });
    assert_unknown(&written, 2);
    assert_eq!(lake.read(["mine", STAMP]).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_offer_without_an_answer_is_unknown_at_its_sequence() {
    let lake = Lake::written_through(1).await;
    let process = lake.process();
    let follower = process.opener.attach().await.unwrap();
    for nth in 1..200 {
        process.scripted.script(nth, is(Operation::Create, PathClass::Commits), Fate::LoseAnswer);
        process.scripted.script(nth, is(Operation::Get, PathClass::Commits), Fate::Fail);
    }
    let prepared = follower.prepare(&[("mine", "1")]).await;
    let transaction_id = prepared.commit.transaction_id;
    assert_unknown(&follower.write(prepared).await, 2);
    // Prepared for elsewhere, it is unknown where it was.
    let elsewhere = SlotCommit { transaction_id, ..follower.prepare_on(0, &[("mine", "1")]).commit };
    assert_unknown(&follower.store.write_at(1, elsewhere).await, 2);
    assert_eq!(lake.read(["mine", STAMP]).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_fence_on_a_held_store_is_fenced() {
    let lake = Lake::written_through(1).await;
    let holder = lake.open().await;
    let successor = lake.open().await;
    until(Duration::from_millis(100), async || library_of(&*holder.store).role() == Role::Ended).await;
    let fenced = holder.write(holder.prepare_on(1, &[("mine", "1")])).await;
    assert!(matches!(fenced, Err(Error::Fenced)), "{fenced:?}");
    assert!(matches!(holder.store.fold_tail().await, Err(Error::Fenced)));
    assert_won(&successor.write(successor.prepare(&[("theirs", "1")]).await).await, 2);
    successor.store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slot_with_two_head_stamps_is_corruption_and_is_not_folded() {
    let lake = Lake::new();
    let holder = lake.open().await;
    let two = [("head/other", "2"), ("mine", "1")];
    // One of its own is not even offered.
    let refused = holder.write(holder.prepare(&two).await).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    // Given a process that does not inspect.
    let mut opener = lake.process().opener;
    opener.inspect = Arc::new(|_, _| Ok(()));
    let careless = opener.attach().await.unwrap();
    assert_won(&careless.write(careless.prepare(&two).await).await, 2);
    assert_won(&careless.write(careless.prepare(&[("mine", "2")]).await).await, 3);
    let folded = holder.store.fold_tail().await;
    assert!(matches!(folded, Err(Error::Corrupt(_))), "{folded:?}");
    let next = holder.write(holder.prepare_on(3, &[("mine", "3")])).await;
    assert!(matches!(next, Err(Error::Corrupt(_))), "{next:?}");
    // Whoever opens it has the slot replayed, and puts it into no file either.
    let mut opener = lake.process().opener;
    opener.settings.flush_slots = 1;
    let reopened = opener.open().await.unwrap();
    assert!(matches!(reopened.store.fold_tail().await, Err(Error::Corrupt(_))));
    let View::Reader(reader) = lake.attach().await.view else { panic!("opened as the writer") };
    assert_eq!(reader.manifest().last_l0_seq(), 0);
}

/// A session that somebody wrapped. Its store is opened over our plug, and it is not our session.
struct Wrapped<S: ?Sized>(Arc<S>);

#[async_trait]
impl WriterSession for Wrapped<dyn WriterSession> {
    fn writer_init(&self) -> Box<dyn WriterInit> {
        self.0.writer_init()
    }

    async fn adopted(&self) -> traits::Result<bool> {
        self.0.adopted().await
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl ReaderSession for Wrapped<dyn ReaderSession> {
    fn reader(&self) -> Arc<dyn WalReader> {
        self.0.reader()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A take whose session somebody wrapped.
struct WrappingTake(Opener);

#[async_trait]
impl TakeStore for WrappingTake {
    async fn take(&self) -> traits::Result<Option<(Db, Arc<dyn WriterSession>)>> {
        let taken = self.0.take().await?;
        Ok(taken.map(|(db, session)| (db, Arc::new(Wrapped(session)) as Arc<dyn WriterSession>)))
    }
}

async fn assert_foreign(store: &dyn CommitStore, catalog: &Catalog) {
    let commit = catalog.prepare_on(1, &[]).commit;
    assert!(matches!(store.adopted().await, Err(Error::ForeignSession)));
    assert!(matches!(store.adopt(commit.clone()).await, Err(Error::ForeignSession)));
    assert!(matches!(store.write_at(2, commit).await, Err(Error::ForeignSession)));
    assert!(matches!(store.fold_tail().await, Err(Error::ForeignSession)));
    assert!(matches!(store.close().await, Err(Error::ForeignSession)));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_session_fails_every_call() {
    let lake = Lake::written_through(1).await;
    let (opener, catalog) = (lake.process().opener, lake.attach().await);
    let session: Arc<dyn ReaderSession> = Arc::new(Wrapped(opener.reader_session()));
    let reader = opener.open_reader(&*session).await.unwrap();
    assert_foreign(&*opener.provider.following(reader, session, opener.hooks()), &catalog).await;
    let session: Arc<dyn WriterSession> = Arc::new(Wrapped(opener.writer_session()));
    let db = opener.open_db(&*session).await.unwrap();
    assert_foreign(&*opener.provider.holding(db.clone(), session, opener.hooks()), &catalog).await;
    // So does one of ours that did not open the store.
    assert_foreign(&*opener.provider.holding(db, opener.writer_session(), opener.hooks()), &catalog).await;
    // Nor is a store taken with one.
    let session = opener.reader_session();
    let reader = opener.open_reader(&*session).await.unwrap();
    let hooks = CatalogHooks { take: Arc::new(WrappingTake(opener.clone())), ..opener.hooks() };
    let store = opener.provider.following(reader, session, hooks);
    catalog.count_up().await;
    let folded = library_of(&*store).fold().await;
    assert!(matches!(folded, Err(CommitStoreError::NotFolded(HoldError::Take(TakeError::Refused(_))))), "{folded:?}");
}

#[tokio::test(start_paused = true)]
async fn the_take_of_a_catalog_opens_its_store_for_the_library_and_may_be_declined() {
    let lake = Lake::written_through(1).await;
    let process = lake.process();
    let follower = process.opener.attach().await.unwrap();
    for _ in 0..3 {
        follower.count_up().await;
    }
    // At its limit of unmerged files a catalog declines, and one that knows nothing of publications refuses them with it.
    let full = Opener { l0_limit: 0, ..process.opener.clone() };
    assert!(matches!(publishing::OnlyTakes(full.clone()).take_for_publication().await, Err(Error::TakeRefused)));
    let full = full.attach().await.unwrap();
    assert_eq!(library_of(&*full.store).fold().await.unwrap(), FoldEnd::Rested(Rest::Declined));
    assert_eq!(library_of(&*full.store).unfolded().await.unwrap(), 3);
    assert_eq!(library_of(&*follower.store).fold().await.unwrap(), FoldEnd::Through(Some(sequence(4))));
    // A reader that was there before has not looked at the store's files since.
    let fresh = lake.attach().await;
    assert_eq!(library_of(&*fresh.store).unfolded().await.unwrap(), 0);
    // What is taken for publication is open.
    let (db, _) = process.opener.take_for_publication().await.unwrap();
    assert_eq!(db.get(COUNTER).await.unwrap(), Some(Bytes::from("3")));
    db.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_no_holder_alive_the_follower_that_lands_the_slot_of_the_cadence_folds_and_lets_go() {
    let lake = Lake::written_through(1).await;
    let mut opener = lake.process().opener;
    opener.settings.fold_every = NonZeroU64::new(4).unwrap();
    let follower = opener.attach().await.unwrap();
    for _ in 2..=4 {
        follower.count_up().await;
    }
    let manifest = async || opener.manifest().await.unwrap().unwrap();
    until(Duration::from_millis(100), async || manifest().await.last_l0_seq() > 1).await;
    let manifest = manifest().await;
    assert_eq!((manifest.last_l0_seq(), manifest.replay_after_wal_id()), (4, 4));
    assert_eq!(library_of(&*follower.store).role(), Role::Following);
    // Its own commits go on through the log.
    assert_won(&follower.write(follower.prepare(&[("mine", "1")]).await).await, 5);
    follower.store.close().await.unwrap();
}

/// Two processes over one bucket, each of which prepares again after each loss.
async fn assert_count_together(lake: &Lake, first: &Catalog, second: &Catalog) {
    const EACH: u64 = 20;
    let mut losses = 0;
    for _ in 0..EACH {
        losses += first.count_up().await + second.count_up().await;
    }
    assert!(losses > 0, "somebody lost, or nothing was raced for");
    let count = async |catalog: &Catalog| {
        let mut losses = 0;
        for _ in 0..EACH {
            losses += catalog.count_up().await;
        }
        losses
    };
    let (by_first, by_second) = futures::join!(count(first), count(second));
    assert!(by_first + by_second > 0, "somebody lost, or nothing was raced for");
    for catalog in [first, second] {
        catalog.store.fold_tail().await.unwrap();
        assert_eq!((catalog.number(COUNTER).await, catalog.head().await), (4 * EACH, 4 * EACH + 1));
        catalog.store.close().await.unwrap();
    }
    assert_eq!(lake.read([COUNTER, STAMP]).await, [4 * EACH, 4 * EACH + 1]);
}

#[tokio::test(start_paused = true)]
async fn of_what_a_holder_and_a_follower_count_nothing_is_lost_or_doubled() {
    let lake = Lake::new();
    let (holder, follower) = (lake.open().await, lake.attach().await);
    assert_count_together(&lake, &holder, &follower).await;
}

#[tokio::test(start_paused = true)]
async fn of_what_two_followers_count_nothing_is_lost_or_doubled() {
    let lake = Lake::written_through(1).await;
    let (first, second) = (lake.attach().await, lake.attach().await);
    assert_count_together(&lake, &first, &second).await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_over_a_held_store_costs_what_it_costs_the_library() {
    let bare = embedder::Lake::new();
    let (embedder, store) = bare.adopted().await;
    let lake = Lake::new();
    let process = lake.process();
    let catalog = process.opener.open().await.unwrap();
    for number in 2..=9 {
        let mark = embedder.scripted.mark();
        embedder::won(&store.write_at(sequence(number), embedder.commit()).await);
        let expected = embedder.scripted.counts_since(mark);
        assert_eq!(expected.get(&(Operation::Create, PathClass::Commits)), Some(&1));
        let mark = process.scripted.mark();
        assert_won(&catalog.write(catalog.prepare(&[("mine", "1")]).await).await, number);
        assert_eq!(process.scripted.counts_since(mark), expected, "commit {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_over_a_reader_costs_a_put_a_ledger_read_and_one_look() {
    let lake = Lake::written_through(1).await;
    let process = lake.process();
    let catalog = process.opener.attach().await.unwrap();
    // The look that every reader begins with is over by then.
    catalog.count_up().await;
    let expected = BTreeMap::from([
        ((Operation::Create, PathClass::Commits), 1),
        ((Operation::Get, PathClass::Retired), 1),
        ((Operation::Get, PathClass::Manifest), 1),
        ((Operation::Get, PathClass::Gc), 1),
    ]);
    for number in 3..=9 {
        let mark = process.scripted.mark();
        assert_won(&catalog.write(catalog.prepare(&[("mine", "1")]).await).await, number);
        assert_eq!(process.scripted.counts_since(mark), expected, "commit {number}");
    }
}
