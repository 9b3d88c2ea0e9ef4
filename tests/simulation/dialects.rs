//! Stores that keep to less than they promise: refused at open where it matters, and of no matter where it does not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code: a broken expectation must stop the test that met it")]

use std::time::Duration;

use commit_log::adoption::{AdoptionError, FreshLog, find_or_begin};
use commit_log::log::Offer;
use commit_log_kit::bucket::{Action, Dialect, Match, Operation, Process};

use crate::calm::{calm, commit, commit_all, door, open};

#[test]
fn a_store_that_ignores_conditions_is_refused_at_open() {
    calm(|world, bucket| async move {
        bucket.speak(Dialect::IgnoresConditions);
        let door = door(&world, &bucket, Process(1));
        let opened = find_or_begin(&door, &FreshLog::default(), &door.deadline()).await;
        assert!(matches!(opened, Err(AdoptionError::Distrusted(_))), "{opened:?}");
        let kept = bucket.objects("").into_iter().map(|(path, _)| path.to_string()).collect::<Vec<_>>();
        assert_eq!(kept, Vec::<String>::new());
    });
}

#[test]
fn a_store_that_drops_metadata_holds_a_log_like_any_other() {
    calm(|world, bucket| async move {
        bucket.speak(Dialect::DropsMetadata);
        let first = open(&world, &bucket, Process(1)).await;
        // An answer that was lost is found by the slot's own bytes.
        bucket.stage(Match::first().operation(Operation::Create).path("commits/"), Action::LoseAnswer);
        commit_all(&first, 1..=5).await;
        let second = open(&world, &bucket, Process(2)).await;
        assert_eq!(second.head(), first.head());
    });
}

#[test]
fn an_offer_outlasts_a_store_that_answers_conflict_for_a_while() {
    calm(|world, bucket| async move {
        let log = open(&world, &bucket, Process(1)).await;
        let put = Match::every().operation(Operation::Create).path("commits/");
        let conflict = bucket.stage(put, Action::SpuriousExists);
        let offer = tokio::spawn({
            let log = log.clone();
            async move { log.offer(log.next(), commit(1), &log.bucket().deadline()).await }
        });
        let timeline = world.timeline();
        timeline.sleep_until(timeline.elapsed() + Duration::from_secs(10)).await;
        assert!(conflict.hits() > 1 && !offer.is_finished());
        conflict.release();
        assert!(matches!(offer.await.unwrap(), Ok(Offer::Won { .. })));
    });
}
