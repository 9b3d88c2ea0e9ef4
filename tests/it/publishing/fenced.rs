//! A holder that loses the store while it publishes, or before.

use commit_log::commit_store::{CommitStore, CommitStoreError, Folding, Role, SlotOffer};
use commit_log::holder::HoldError;
use commit_log::retire::{Collector, RetireMode};
use commit_log::slot::Page;
use commit_log_kit::bucket::Operation;
use commit_log_kit::scripted::{Fate, PathClass, Request};
use slatedb::admin::AdminBuilder;

use crate::embedder::{Lake, hooks, won};
use crate::pins::keep_least;
use crate::roles::{Member, STEP, roomy};
use crate::support::{PAGE, ROOT, is, sequence, until};

use super::publishing;

impl Lake {
    /// Another process takes the store, commits from slot 2 up to slot `head`, and retires the pages that it folded. What was
    /// published before has been deleted by then, and pins none of them.
    async fn fold_and_retire(&self, head: u64) {
        let process = self.process();
        let store = process.held(hooks()).await;
        for number in 2..=head {
            won(&store.write_at(sequence(number), process.commit()).await);
        }
        store.close().await.unwrap();
        let admin = AdminBuilder::new(ROOT, self.memory.clone()).build();
        for checkpoint in self.newest().await.checkpoints() {
            admin.delete_checkpoint(checkpoint.id).await.unwrap();
        }
        let retired = Collector::new(process.log()).run(&keep_least(), RetireMode::Retire).await.unwrap();
        assert!(retired.pages.contains(&Page::new(0)), "{retired:?}");
    }
}

/// Before the checkpoint is written, after it, and at every request between: the win is committed, and published by the next.
#[tokio::test(start_paused = true)]
async fn a_holder_that_is_fenced_while_it_publishes_has_committed_and_its_successor_publishes() {
    for at in [PathClass::Manifest, PathClass::Gc] {
        for nth in 1..=2 {
            let lake = Lake::new();
            let (process, store) = lake.publisher().await;
            let commit = process.commit();
            let test = move |request: &Request| request.class() == at;
            let held_back = process.scripted.script(nth, test, Fate::Hold);
            let (offer, successor) = futures::join!(store.write_at(sequence(2), commit.clone()), async {
                held_back.reached().await;
                let successor = lake.process();
                let taken = successor.held(publishing()).await;
                held_back.release();
                taken
            });
            match offer {
                // The checkpoint was written before the other came.
                Ok(SlotOffer::Won { .. }) => assert!((at, nth) != (PathClass::Manifest, 1), "fenced before the put"),
                Err(CommitStoreError::NotPublished { source: HoldError::Fenced, .. }) => {}
                other => panic!("{at:?} {nth}: {other:?}"),
            }
            until(STEP, async || lake.published_through().await == 2).await;
            lake.assert_published(&[commit.transaction]).await;
            successor.close().await.unwrap();
            drop(store.close().await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_promoted_store_that_is_fenced_while_it_publishes_absorbs_it() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let member = Member::publishing(&lake, Folding::Hold).await;
    until(STEP, async || member.store.role() == Role::Holding).await;
    until(STEP, async || lake.published_through().await == 1).await;
    let put = member.process.scripted.script(1, is(Operation::Create, PathClass::Manifest), Fate::Hold);
    let (transaction, other) = futures::join!(member.commit(), async {
        put.reached().await;
        let other = lake.process();
        let taken = other.held_with(roomy(), publishing()).await;
        put.release();
        taken
    });
    lake.assert_published(&[transaction]).await;
    assert_eq!(member.takes(), 1, "the other publishes it");
    other.close().await.unwrap();
    member.store.close().await.unwrap();
}

/// Why the ledger is read before a win is applied, though a checkpoint under an old epoch would fail: see decision 9.
#[tokio::test(start_paused = true)]
async fn a_holder_that_slept_past_a_retirement_shows_no_row_of_what_it_put_into_the_retired_page() {
    let lake = Lake::new();
    let process = lake.process();
    let session = process.writer_session();
    let db = process.open_db(&session).await.unwrap();
    let sleeper = CommitStore::held(db.clone(), session, publishing());
    sleeper.adopt(process.stamp()).await.unwrap();
    // While its put is under way, another takes the store, folds past it, and retires its page.
    let put = process.scripted.script(1, is(Operation::Create, PathClass::Commits), Fate::Hold);
    let commit = process.commit();
    let checkpoint = process.scripted.script(1, is(Operation::Create, PathClass::Manifest), Fate::Hold);
    let (offer, ()) = futures::join!(sleeper.write_at(sequence(2), commit.clone()), async {
        put.reached().await;
        lake.fold_and_retire(4 * u64::from(PAGE)).await;
        put.release();
    });
    assert!(!matches!(offer, Ok(SlotOffer::Won { .. })), "{offer:?}");
    assert_eq!(db.get(commit.transaction.to_string()).await.ok().flatten(), None);
    assert!(!checkpoint.was_reached(), "nothing is published of it");
}
