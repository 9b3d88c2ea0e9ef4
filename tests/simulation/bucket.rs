//! The simulated bucket under a small workload of four processes: one seed is one run, and every fault lands.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a broken expectation must stop the test that met it"
)]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use commit_log_kit::bucket::{Counters, Fault, Faults, Process, SimulatedBucket};
use commit_log_kit::fingerprint::Hash128;
use commit_log_kit::runtime::{Limits, World, run_world};
use futures::StreamExt;
use futures::future::join_all;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What one world leaves to look at.
struct Run {
    fingerprint: Hash128,
    counters: Counters,
}

/// Four processes put, create, get, list and delete on few names; one is killed and started again.
async fn workload(world: World, faults: Faults, steps: usize) -> Run {
    let bucket = SimulatedBucket::start(&world, faults);
    let tasks = (0..4u32).map(|process| {
        let bucket = bucket.clone();
        let seed = world.seed() * 4 + u64::from(process);
        tokio::spawn(async move { work(bucket.link(Process(process)), seed, steps).await })
    });
    let tasks: Vec<_> = tasks.collect();
    world.timeline().sleep_until(Duration::from_millis(200)).await;
    bucket.pause(Process(2));
    world.timeline().sleep_until(Duration::from_millis(400)).await;
    bucket.resume(Process(2));
    tasks[3].abort();
    bucket.kill(Process(3));
    let again = work(bucket.link(Process(3)), world.seed(), steps);
    tokio::join!(again, join_all(tasks.into_iter().take(3)));
    bucket.settle().await;
    Run { fingerprint: bucket.fingerprint(), counters: bucket.counters() }
}

async fn work(store: Arc<dyn ObjectStore>, seed: u64, steps: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    for step in 0..steps {
        let path = Path::from(format!("commits/{}", random.random_range(0..20)));
        let content = format!("{seed} at {step}");
        // Every answer is fine here: the outcomes are in the fingerprint.
        match random.random_range(0..10) {
            0..3 => drop(store.put_opts(&path, content.into(), PutMode::Create.into()).await),
            3..5 => drop(store.put(&path, content.into()).await),
            5..7 => {
                if let Ok(got) = store.get(&path).await {
                    drop(got.bytes().await);
                }
            }
            7 => drop(store.list(Some(&Path::from("commits"))).collect::<Vec<_>>().await),
            _ => drop(store.delete(&path).await),
        }
    }
}

fn run(seed: u64, faults: &Faults, steps: usize) -> Run {
    let faults = faults.clone();
    run_world(seed, Limits::default(), |world| workload(world, faults, steps)).expect("a live world")
}

#[test]
fn one_seed_is_one_run_and_no_two_seeds_are_alike() {
    let harsh = Faults::harsh();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let (first, second) = (run(seed, &harsh, 40), run(seed, &harsh, 40));
        assert_eq!(first.fingerprint, second.fingerprint, "seed {seed} ran twice, differently");
        assert!(seen.insert(first.fingerprint), "seed {seed} ran like an earlier one");
    }
}

/// Set in the child process of the test below, which prints its fingerprints and checks nothing.
const CHILD: &str = "SIMULATION_CHILD";

fn fingerprints() -> String {
    let each = (0..20).map(|seed| run(seed, &Faults::harsh(), 40).fingerprint.to_string());
    format!("fingerprints {}", each.collect::<Vec<_>>().join(","))
}

#[test]
fn one_seed_is_one_run_in_two_processes() {
    if std::env::var_os(CHILD).is_some() {
        println!("{}", fingerprints());
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "bucket::one_seed_is_one_run_in_two_processes", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8(child.stdout).unwrap();
    assert!(printed.contains(&fingerprints()), "the other process printed {printed}");
}

#[test]
fn every_fault_of_harsh_lands() {
    let elsewhere = [Fault::DeleteAnsweredNotDone, Fault::TruncatedBody, Fault::FlippedByte, Fault::Partitioned];
    let mut landed = Counters::default();
    for seed in 0..200 {
        landed.add(&run(seed, &Faults::harsh(), 100).counters);
    }
    for (fault, count) in landed.iter() {
        assert_eq!(count == 0, elsewhere.contains(&fault), "{fault:?} landed {count} times");
    }
}

#[test]
fn every_damage_lands_where_it_is_switched_on() {
    let damage = Faults { truncated_bodies: 0.1, flipped_bytes: 0.1, false_deletes: 0.1, ..Faults::none() };
    let landed = run(1, &damage, 500).counters;
    for fault in [Fault::DeleteAnsweredNotDone, Fault::TruncatedBody, Fault::FlippedByte] {
        assert!(landed.of(fault) > 0, "{fault:?}");
    }
}

#[test]
fn a_healthy_bucket_lets_no_fault_land() {
    let landed = run(1, &Faults::none(), 500).counters;
    let healthy = [Fault::HeldByPause, Fault::LandedAfterKill];
    for (fault, count) in landed.iter() {
        assert!(count == 0 || healthy.contains(&fault), "{fault:?} landed {count} times");
    }
}
