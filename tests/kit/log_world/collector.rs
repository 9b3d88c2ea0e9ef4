//! A collector: the library's own, in a process of its own or beside a committer whose log it shares. It works by what it read
//! of the store some time ago, and is killed anywhere.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use commit_log::log::SlotLog;
use commit_log::retire::{Collector, Pins, RetireError, RetireMode, RetireOptions};
use rand::RngExt;
use rand::rngs::StdRng;

use super::plan::{log_uniform, stream};
use super::process::Running;
use super::state::Shared;
use super::tally::Event;
use super::told::Claim;
use crate::bucket::Process;

/// Where a collector's log comes from.
pub(super) enum Memory {
    /// A log of its own, with nothing read of it.
    Empty,
    /// A log of its own, read to its end.
    Loaded,
    /// The log of a process that commits, with what that remembers.
    Shared(SlotLog),
}

/// One collector.
pub(super) struct Collecting {
    shared: Arc<Shared>,
    /// The process whose link it uses.
    process: Process,
    /// Its own number, which is the process's, too, if it has that for itself.
    number: Process,
    random: StdRng,
}

impl Collecting {
    /// A collector with the number `number`, in `process`.
    pub(super) fn new(shared: &Arc<Shared>, process: Process, number: Process) -> Collecting {
        let random = stream(shared.plan.seed, 4_000_000 + u64::from(number.0));
        Collecting { shared: Arc::clone(shared), process, number, random }
    }

    /// Makes a few passes.
    pub(super) async fn work(mut self, memory: Memory) {
        let log = match memory {
            Memory::Empty => Running::start_unread(&self.shared, self.process).await.log,
            Memory::Loaded => Running::start(&self.shared, self.process, None).await.log,
            Memory::Shared(log) => log,
        };
        let collector = Collector::new(log.clone());
        for _ in 0..self.random.random_range(1..=2) {
            let pins = self.shared.state().manifests.pins();
            if self.random.random_bool(0.3) {
                self.sleep_before_using(&log, &pins).await;
            }
            let options = self.options();
            self.pass(&collector, &pins, &options).await;
        }
    }

    /// What was read may be old by the time it is used.
    async fn sleep_before_using(&mut self, log: &SlotLog, pins: &Pins) {
        let pause = log_uniform(&mut self.random, Duration::from_millis(10), Duration::from_secs(20));
        log.bucket().environment().clock.sleep(pause).await;
        let mut state = self.shared.state();
        if state.manifests.pins() != *pins {
            state.tally.count(Event::StalePins);
        }
    }

    fn options(&mut self) -> RetireOptions {
        let retain_pages = NonZeroU32::new(self.random.random_range(1..=3)).expect("not zero");
        let min_age = match self.random.random_bool(0.15) {
            true => log_uniform(&mut self.random, Duration::from_millis(100), Duration::from_secs(10)),
            false => Duration::ZERO,
        };
        RetireOptions { retain_pages, min_age }
    }

    /// One pass.
    pub(super) async fn pass(&self, collector: &Collector, pins: &Pins, options: &RetireOptions) {
        self.shared.step();
        let asked = self.shared.mark();
        self.shared.state().collecting.insert(self.number);
        let retired = collector.retire(pins, options, RetireMode::Retire).await;
        self.shared.state().collecting.remove(&self.number);
        match retired {
            Ok(retired) if retired.pages.end < retired.first_kept => self.shared.count(Event::TooYoung),
            Ok(_) | Err(RetireError::Unavailable(_) | RetireError::TimedOut(_)) => {}
            Err(RetireError::Corrupt(corruption)) => self.shared.tell(self.process, asked, Claim::Corrupt(corruption)),
            Err(error) => panic!("a pass ended with {error}"),
        }
    }
}

/// What a pass keeps that is to leave nothing behind.
pub(super) fn everything() -> RetireOptions {
    RetireOptions { retain_pages: NonZeroU32::MIN, min_age: Duration::ZERO }
}

/// One pass of a new collector that retires everything that it may.
pub(super) async fn pass_once(shared: &Arc<Shared>) {
    let process = shared.new_process();
    let log = Running::start_unread(shared, process).await.log;
    let pins = shared.state().manifests.pins();
    Collecting::new(shared, process, process).pass(&Collector::new(log), &pins, &everything()).await;
}
