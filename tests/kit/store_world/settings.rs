//! What a world is made of, drawn from its seed: how many take part, what goes wrong, how small everything is.

use std::num::NonZeroU64;
use std::time::Duration;

use chrono::TimeDelta;
use commit_log::bucket::Pace;
use commit_log::commit_store::Folding;
use commit_log::holder::HoldingOptions;
use commit_log::slot::PageSize;
use commit_log::store::Looks;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, GarbageCollectorDirectoryOptions, GarbageCollectorOptions, Settings,
};

use crate::bucket::{Faults, Latency, Rates};
use crate::clock::Skew;

/// How long a superseded file is kept, at least: three looks, and no more.
const CHECKPOINT_LIFETIME: Duration = Duration::from_secs(9);

/// How long a holder stays for the compactor: several times as long as a dead compactor's jobs are left alone.
const COMPACTION_WAIT: Duration = Duration::from_secs(10);

/// What one world is made of.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    pub(super) seed: u64,
    pub(super) processes: u32,
    pub(super) clients: u32,
    pub(super) deeds: u32,
    pub(super) faults: Faults,
    pub(super) holding: HoldingOptions,
    pub(super) looks: Looks,
    pub(super) page_size: PageSize,
}

impl Draw {
    pub(super) fn of(seed: u64) -> Draw {
        let mut random = StdRng::seed_from_u64(seed);
        let processes = random.random_range(2..=4);
        let clients = random.random_range(1..=2);
        Draw {
            seed,
            processes,
            clients,
            deeds: 240 / (processes * clients),
            faults: faults(&mut random),
            holding: HoldingOptions {
                flush_slots: random.random_range(2..=12),
                flush_bytes: random.random_range(512..8192),
                poll: Duration::from_millis(random.random_range(50..1000)),
                compaction_wait: COMPACTION_WAIT,
                store_call: Duration::from_secs(60),
                ..HoldingOptions::default()
            },
            looks: Looks { slots: random.random_range(4..=24), bytes: 4096, interval: CHECKPOINT_LIFETIME / 3 },
            page_size: PageSize::new(random.random_range(2..=16)).expect("between one and the most"),
        }
    }

    /// A random stream of this world's own for one purpose.
    pub(super) fn stream(&self, purpose: [u32; 3]) -> StdRng {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&self.seed.to_le_bytes());
        for (place, number) in purpose.iter().enumerate() {
            bytes[8 + 4 * place..12 + 4 * place].copy_from_slice(&number.to_le_bytes());
        }
        bytes[31] = 1;
        StdRng::from_seed(bytes)
    }

    /// What one process does to have the store folded, beside being told to hold it.
    pub(super) fn folding(&self, process: u32) -> Folding {
        match self.stream([process, 0, 8]).random_range(0..8) {
            0 => Folding::Hold,
            1 | 2 => Folding::Never,
            _ => Folding::ByCadence,
        }
    }

    /// The winner of every so many slots folds. The same in every process.
    pub(super) fn fold_every(&self) -> NonZeroU64 {
        NonZeroU64::MIN.saturating_add(self.stream([0, 0, 9]).random_range(7..40))
    }

    /// How the clock of one process is off: by hours, and running at another pace.
    pub(super) fn skew(&self, process: u32) -> Skew {
        let mut random = self.stream([process, 0, 7]);
        Skew { offset: TimeDelta::seconds(random.random_range(-10_000..10_000)), drift_ppm: random.random_range(-500..500) }
    }
}

/// A quarter of the worlds each: slow only; answers lost; that and hangs and late landings; nearly all that an honest store does.
fn faults(random: &mut StdRng) -> Faults {
    let millis = Duration::from_millis;
    let latency = Latency { usual: millis(1)..=millis(40), tail: 0.02, tail_up_to: Duration::from_secs(1) };
    let slow = Faults { latency, page_size: 1..=20, shuffled_pages: 0.1, cut_by_kill: 0.5, ..Faults::none() };
    let lost = Rates { dropped: 0.01, answer_lost: 0.03, resent: 0.01, ..Rates::default() };
    let hang = Some(Duration::from_secs(5));
    match random.random_range(0..4) {
        0 => slow,
        1 => Faults { puts: lost, gets: lost, ..slow },
        2 => {
            let hung = Rates { dropped_hanging: 0.005, answer_lost_hanging: 0.005, late: 0.005, ..lost };
            Faults { puts: hung, late_by: Duration::from_secs(60), hang, spurious_exists: 0.01, ..slow }
        }
        _ => {
            let each = Rates::each(0.01);
            let late_by = Duration::from_secs(120);
            let bursts = Faults { bursts: 0.001, burst_up_to: Duration::from_secs(4), broken_bodies: 0.01, ..slow };
            Faults { puts: each, gets: each, lists: each, deletes: each, hang, late_by, spurious_exists: 0.01, ..bursts }
        }
    }
}

pub(super) fn pace() -> Pace {
    Pace {
        call: Duration::from_secs(10),
        attempt: Duration::from_secs(2),
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(500),
        log_every: Duration::from_secs(5),
    }
}

/// Small files, few of them, and a collector that takes what it may at once.
pub(super) fn engine() -> Settings {
    let collect = GarbageCollectorDirectoryOptions {
        interval: Some(Duration::from_secs(3)),
        min_age: Duration::from_secs(1),
        ..GarbageCollectorDirectoryOptions::default()
    };
    let retire = GarbageCollectorDirectoryOptions { min_age: Duration::ZERO, ..collect };
    let collector = GarbageCollectorOptions {
        wal_options: Some(retire),
        manifest_options: Some(collect),
        compacted_options: Some(collect),
        compactions_options: Some(collect),
        ..GarbageCollectorOptions::default()
    };
    let worker = CompactionWorkerOptions {
        compactions_poll_interval: Duration::from_millis(500),
        heartbeat_interval: Duration::from_secs(1),
        ..CompactionWorkerOptions::default()
    };
    let compactor = CompactorOptions {
        poll_interval: Duration::from_secs(1),
        checkpoint_lifetime: CHECKPOINT_LIFETIME,
        worker_heartbeat_timeout: COMPACTION_WAIT / 3,
        worker: Some(worker),
        ..CompactorOptions::default()
    };
    Settings {
        flush_interval: None,
        manifest_poll_interval: Duration::from_secs(1),
        l0_sst_size_bytes: 4096,
        l0_max_ssts: 8,
        compactor_options: Some(compactor),
        garbage_collector_options: Some(collector),
        ..Settings::default()
    }
}
