//! Two takers create the store at one moment: the loser is told so, and its second take works.

use std::sync::Arc;

use commit_log::holder::{HoldError, Holder, HoldingOptions};
use commit_log::take::TakeError;
use commit_log_kit::bucket::Operation;
use commit_log_kit::scripted::{Fate, PathClass, ScriptedBucket};

use crate::holding::{Taker, assert_has, settings};
use crate::support::{World, is};

#[tokio::test(start_paused = true)]
async fn who_loses_the_race_to_create_the_store_is_told_so_and_a_second_take_works() {
    let world = World::new().await;
    let committer = world.commit_through(3).await;
    // Given a taker whose first manifest is on its way.
    let requests = ScriptedBucket::new(world.memory.clone());
    let manifest = requests.script(1, is(Operation::Create, PathClass::Manifest), Fate::Hold);
    let process = world.process().await;
    let taker = Arc::new(Taker { log: process.log.clone(), store: Arc::new(requests), settings: settings() });
    let loser = tokio::spawn({
        let taker = taker.clone();
        async move { Holder::take(taker.log.clone(), &taker.over(), HoldingOptions::default()).await.map(|_| ()) }
    });
    manifest.reached().await;
    // When another creates the store meanwhile.
    let other = world.process().await;
    let winner = Taker { log: other.log.clone(), store: world.memory.clone(), settings: settings() };
    let holder = Holder::take(other.log.clone(), &winner.over(), HoldingOptions::default()).await.unwrap();
    manifest.release();
    // Then the loser is told what happened.
    let lost = loser.await.unwrap();
    assert!(matches!(lost, Err(HoldError::Take(TakeError::OpenRaced))), "{lost:?}");
    holder.stop().await.unwrap();
    // And its second take works.
    let holder = Holder::take(taker.log.clone(), &taker.over(), HoldingOptions::default()).await.unwrap();
    let transaction = committer.commit().await;
    holder.stop().await.unwrap();
    assert_has(&world, &[transaction]).await;
}
