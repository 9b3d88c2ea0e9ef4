//! Who folds: by cadence, when the tail has stalled, for good; and how the store changes hands.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use commit_log::commit_store::{CommitStore, CommitStoreSettings, FoldEnd, Folding, Hooks, Rest, Role, SlotOffer};
use commit_log::holder::HoldingOptions;
use commit_log::identity::TransactionId;
use commit_log::take::{TakeError, TakeWith};
use commit_log_kit::bucket::Operation;
use commit_log_kit::runtime::simulated_runtime;
use commit_log_kit::scripted::PathClass;
use slatedb::DbReader;
use slatedb::config::Settings;

use crate::embedder::{Embedder, Lake, hooks, won};
use crate::holding::{compacting, settings};
use crate::support::{sequence, until};

/// The winner of every eighth slot folds.
pub(crate) const FOLD_EVERY: u64 = 8;

/// How far time goes on between two looks at what is waited for.
pub(crate) const STEP: Duration = Duration::from_millis(250);

/// More files than any test makes.
const ROOM: usize = 1 << 20;

/// A process that follows, and folds or holds.
pub(crate) struct Member {
    pub(crate) process: Embedder,
    pub(crate) reader: Arc<DbReader>,
    pub(crate) store: CommitStore,
    takes: Arc<AtomicUsize>,
}

pub(crate) fn folding(folding: Folding) -> CommitStoreSettings {
    let holding = HoldingOptions { external_compaction: true, l0_limit: ROOM, ..hooks().settings.holding };
    CommitStoreSettings { folding, fold_every: NonZeroU64::new(FOLD_EVERY).unwrap(), holding, ..hooks().settings }
}

pub(crate) fn roomy() -> Settings {
    Settings { l0_max_ssts: ROOM, l0_max_ssts_per_key: ROOM, ..settings() }
}

impl Member {
    /// Its store has room for as many files as any test makes.
    pub(crate) async fn of(lake: &Lake, folds: Folding) -> Member {
        Member::with(lake, folding(folds), roomy()).await
    }

    async fn with(lake: &Lake, settings: CommitStoreSettings, slatedb: Settings) -> Member {
        Member::over(lake, Hooks { settings, ..hooks() }, slatedb).await
    }

    /// Takes the store with those settings of SlateDB's.
    pub(crate) async fn over(lake: &Lake, hooks: Hooks, slatedb: Settings) -> Member {
        Member::by(lake.process(), hooks, slatedb).await
    }

    pub(crate) async fn by(process: Embedder, hooks: Hooks, slatedb: Settings) -> Member {
        let takes = Arc::<AtomicUsize>::default();
        let take = Some(process.taker(slatedb, &takes));
        let (reader, store) = process.followed(Hooks { take, ..hooks }).await;
        // Its task begins with the first call.
        store.adopted().await.unwrap();
        Member { process, reader, store, takes }
    }

    /// Commits at the next sequence, however often it loses.
    pub(crate) async fn commit(&self) -> TransactionId {
        let commit = self.process.commit();
        loop {
            let next = self.process.log().next();
            match self.store.write_at(next, commit.clone()).await {
                Ok(SlotOffer::Won { .. }) => return commit.transaction,
                Ok(SlotOffer::Lost { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    pub(crate) fn takes(&self) -> usize {
        self.takes.load(Ordering::SeqCst)
    }

    /// The last slot in the store's files, by a fresh look.
    pub(crate) async fn covered(&self) -> u64 {
        covered(&self.process).await
    }
}

async fn covered(process: &Embedder) -> u64 {
    let admin = slatedb::admin::AdminBuilder::new(crate::support::ROOT, process.store()).build();
    admin.read_manifest(None).await.unwrap().unwrap().last_l0_seq()
}

#[tokio::test(start_paused = true)]
async fn with_no_holder_alive_the_winner_of_each_cadence_folds_and_lets_go() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let (first, second) = (Member::of(&lake, Folding::ByCadence).await, Member::of(&lake, Folding::ByCadence).await);
    let mut transactions = Vec::new();
    for number in 2..=4 * FOLD_EVERY {
        let by = if number % FOLD_EVERY == 0 { &first } else { &second };
        transactions.push(by.commit().await);
        if number % FOLD_EVERY == 0 {
            until(STEP, async || by.covered().await >= number).await;
        }
    }
    assert_eq!((first.takes(), second.takes()), (4, 0), "its winner folds, and nobody else");
    assert_eq!((first.store.role(), second.store.role()), (Role::Following, Role::Following));
    // What is folded is retired, too.
    let retired = lake.memory.list_with_delimiter(Some(&"store/retired".into())).await.unwrap();
    assert_eq!(retired.common_prefixes.len(), 1);
    first.store.close().await.unwrap();
    second.store.close().await.unwrap();
    lake.assert_has(&transactions).await;
}

#[tokio::test(start_paused = true)]
async fn a_fold_by_cadence_costs_an_open_a_flush_a_close_and_the_reads_that_are_named_here() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let member = Member::of(&lake, Folding::Never).await;
    for _ in 0..3 {
        member.commit().await;
    }
    let mark = member.process.scripted.mark();
    assert_eq!(member.store.fold().await.unwrap(), FoldEnd::Through(Some(sequence(4))));
    let counts = member.process.scripted.counts_since(mark);
    let expected = [
        // The record of the take, and what SlateDB writes: the epoch's claim, the file of the flush, the manifest with it, the close.
        ((Operation::Create, PathClass::Takes), 1),
        ((Operation::Create, PathClass::Manifest), 3),
        ((Operation::Overwrite, PathClass::Compacted), 1),
        // Is there more to fold: before the take, in the open with its proof, after it, and before the store is given back.
        ((Operation::Get, PathClass::Commits), 4),
        ((Operation::Get, PathClass::Retired), 1),
        // Is the store still on the log, and has not left it: in the open; the first once more before anything is retired.
        ((Operation::List, PathClass::Adoption), 2),
        ((Operation::Get, PathClass::Adoption), 2),
        ((Operation::Get, PathClass::Other), 1),
        // The look before the take and the one of the collector, with SlateDB's own of its open, flush and close.
        ((Operation::List, PathClass::Manifest), 3),
        ((Operation::Get, PathClass::Manifest), 6),
        ((Operation::Get, PathClass::Gc), 9),
        // The collector, which finds nothing to retire.
        ((Operation::List, PathClass::Commits), 1),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
    member.store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_alive_is_left_alone_by_every_cadence() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let holder = lake.process();
    let held = holder.held_with(roomy(), Hooks { settings: folding(Folding::Never), ..hooks() }).await;
    let member = Member::of(&lake, Folding::ByCadence).await;
    for _ in 2..=10 * FOLD_EVERY {
        member.commit().await;
        held.fold_tail().await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!(member.takes(), 0);
    assert_eq!(held.role(), Role::Holding);
    member.store.close().await.unwrap();
    held.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_tail_whose_obliged_folder_is_gone_is_folded_by_whoever_sees_it() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    // Given one that wins every slot and never folds.
    let (careless, member) = (Member::of(&lake, Folding::Never).await, Member::of(&lake, Folding::ByCadence).await);
    for _ in 2..=2 * FOLD_EVERY {
        careless.commit().await;
    }
    assert_eq!(careless.store.fold_if_stalled().await.unwrap(), FoldEnd::Rested(Rest::Folded), "one slot short");
    careless.commit().await;
    // When another sees so many. One that only reads leaves it at that.
    let reader = Member::of(&lake, Folding::ByCadence).await;
    reader.store.fold_tail().await.unwrap();
    member.commit().await;
    member.store.fold_tail().await.unwrap();
    until(STEP, async || member.covered().await > 2 * FOLD_EVERY).await;
    assert_eq!((careless.takes(), reader.takes(), member.takes()), (0, 0, 1));
    reader.store.close().await.unwrap();
    careless.store.close().await.unwrap();
    member.store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_taken_since_the_last_look_is_waited_for() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let member = Member::of(&lake, Folding::Never).await;
    member.commit().await;
    // Given somebody who took the store and has folded nothing yet.
    let busy = lake.process();
    let taken = busy.held(Hooks { settings: folding(Folding::Never), ..hooks() }).await;
    // When this process is asked to fold, and the other is done while it waits.
    let (folded, ()) = futures::join!(member.store.fold(), async { taken.close().await.unwrap() });
    assert_eq!(folded.unwrap(), FoldEnd::Rested(Rest::Folded));
    assert_eq!(member.takes(), 0);
    // Of somebody who never gets done it does not wait for ever.
    member.commit().await;
    let stuck = lake.process();
    let never = stuck.open_db(&stuck.writer_session()).await.unwrap();
    assert_eq!(member.store.fold().await.unwrap(), FoldEnd::Through(Some(sequence(3))));
    assert_eq!(member.takes(), 1);
    drop(never);
    member.store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_l0_that_nothing_merges_is_left_alone_and_the_log_grows() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let few = HoldingOptions { l0_limit: 2, external_compaction: true, ..hooks().settings.holding };
    let commit_store = CommitStoreSettings { holding: few, ..folding(Folding::ByCadence) };
    let member = Member::with(&lake, commit_store, Settings { l0_max_ssts: 2, l0_max_ssts_per_key: 2, ..settings() }).await;
    let mut transactions = Vec::new();
    for _ in 2..=6 * FOLD_EVERY {
        transactions.push(member.commit().await);
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    assert_eq!(member.store.fold().await.unwrap(), FoldEnd::Rested(Rest::L0Full));
    assert_eq!(member.covered().await, FOLD_EVERY, "the stamp's file, and one of the cadence's");
    member.store.close().await.unwrap();
    lake.assert_has(&transactions).await;
}

#[tokio::test(start_paused = true)]
async fn a_taker_that_declines_leaves_the_store_unfolded() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let process = lake.process();
    let take = TakeWith::new(process.place.clone(), |_| async { Ok::<_, TakeError>(None) });
    let (_, store) = process.followed(Hooks { take: Some(Arc::new(take)), ..hooks() }).await;
    won(&store.write_at(sequence(2), process.commit()).await);
    assert_eq!(store.fold().await.unwrap(), FoldEnd::Rested(Rest::Declined));
    // So does a process that has none.
    let without = lake.process();
    let (_, store_without) = without.followed(hooks()).await;
    assert_eq!(store_without.fold().await.unwrap(), FoldEnd::Rested(Rest::Declined));
    store.close().await.unwrap();
    store_without.close().await.unwrap();
}

#[test]
fn a_hundred_folds_by_cadence_with_no_other_process_do_not_fill_l0() {
    simulated_runtime(11).block_on(async {
        let lake = Lake::new();
        lake.adopted_through(1).await;
        let holding = HoldingOptions { l0_limit: 6, ..hooks().settings.holding };
        let commit_store = CommitStoreSettings { holding, ..folding(Folding::ByCadence) };
        let member =
            Member::with(&lake, commit_store, Settings { l0_max_ssts: 6, l0_max_ssts_per_key: 6, ..compacting() }).await;
        let mut transactions = Vec::new();
        for number in 2..=100 * FOLD_EVERY {
            transactions.push(member.commit().await);
            if number % FOLD_EVERY == 0 {
                until(STEP, async || member.covered().await >= number).await;
            }
        }
        assert_eq!(member.takes(), 100);
        member.store.close().await.unwrap();
        lake.assert_has(&transactions).await;
    });
}

#[tokio::test(start_paused = true)]
async fn three_that_all_want_to_hold_settle_after_a_take_each() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let members = [
        Member::of(&lake, Folding::Hold).await,
        Member::of(&lake, Folding::Hold).await,
        Member::of(&lake, Folding::Hold).await,
    ];
    let holding = || members.iter().filter(|member| member.store.role() == Role::Holding).count();
    until(STEP, async || holding() == 1 && members.iter().all(|member| member.takes() == 1)).await;
    // They stay as they are while all of them commit.
    let mut transactions = Vec::new();
    for number in 0..20 * FOLD_EVERY {
        transactions.push(members[usize::try_from(number % 3).unwrap()].commit().await);
        tokio::time::advance(Duration::from_millis(300)).await;
    }
    assert_eq!(members.iter().map(Member::takes).sum::<usize>(), 3);
    // When the holder goes, it leaves nothing unfolded.
    for member in members {
        member.store.close().await.unwrap();
    }
    lake.assert_has(&transactions).await;
}

#[tokio::test(start_paused = true)]
async fn a_promoted_store_that_is_fenced_follows_again_and_its_next_commit_lands() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let member = Member::of(&lake, Folding::Hold).await;
    until(STEP, async || member.store.role() == Role::Holding).await;
    let own = member.commit().await;
    assert_eq!(member.reader.get(own.to_string()).await.unwrap(), Some(Bytes::from("value")));
    // When another takes the store, also while a commit is under way.
    let other = lake.process();
    let (taken, during) = futures::join!(other.held_with(roomy(), hooks()), member.commit());
    until(STEP, async || member.store.role() == Role::Following).await;
    let after = member.commit().await;
    for transaction in [during, after] {
        assert_eq!(member.reader.get(transaction.to_string()).await.unwrap(), Some(Bytes::from("value")));
    }
    assert_eq!(member.takes(), 1, "it leaves the new holder alone");
    // When that one is gone and leaves a tail, this one takes over.
    taken.close().await.unwrap();
    for _ in 0..3 * FOLD_EVERY {
        member.commit().await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    until(STEP, async || member.store.role() == Role::Holding).await;
    member.store.close().await.unwrap();
    assert_eq!(member.store.role(), Role::Ended);
    lake.assert_has(&[own, during, after]).await;
}

#[tokio::test(start_paused = true)]
async fn fifty_hand_overs_under_commits_that_never_stop_lose_nothing() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let committer = Arc::new(Member::of(&lake, Folding::Never).await);
    let stops = Arc::<AtomicBool>::default();
    let commits = tokio::spawn({
        let (committer, stops) = (committer.clone(), stops.clone());
        async move {
            let mut transactions = Vec::new();
            while !stops.load(Ordering::Relaxed) {
                transactions.push(committer.commit().await);
                committer.process.place.bucket().environment().clock.sleep(Duration::from_millis(10)).await;
            }
            transactions
        }
    });
    for _ in 0..25 {
        // One comes and goes, and one is fenced by the next.
        let first = Member::of(&lake, Folding::Hold).await;
        until(STEP, async || first.store.role() == Role::Holding).await;
        let second = Member::of(&lake, Folding::Hold).await;
        until(STEP, async || second.store.role() == Role::Holding && first.store.role() == Role::Following).await;
        first.store.close().await.unwrap();
        second.store.close().await.unwrap();
    }
    stops.store(true, Ordering::Relaxed);
    let transactions = commits.await.unwrap();
    assert!(transactions.len() > 100, "{} commits", transactions.len());
    lake.assert_has(&transactions).await;
}
