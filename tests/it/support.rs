//! One bucket that several processes share, each behind a script of its own, and a collector that retires pages at once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chrono::TimeDelta;
use commit_log::adoption::{FreshLog, find_or_begin};
use commit_log::bucket::{Bucket, Deadline, ObjectName, Pace};
use commit_log::envelope::{Slot, Write};
use commit_log::environment::{Environment, Randomness};
use commit_log::identity::TransactionId;
use commit_log::ledger::Ledger;
use commit_log::log::{Commit, LogOptions, Offer, OfferError, SlotLog};
use commit_log::record::AdoptionRecord;
use commit_log::slot::{Page, PageSize, Sequence, run};
use commit_log_kit::bucket::Operation;
use commit_log_kit::clock::{ClockMode, SimulatedClock, Skew, Timeline};
use commit_log_kit::scripted::{Counts, Cue, Fate, Mark, PathClass, Request, ScriptedBucket};
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use object_store::{Error, ObjectStore, ObjectStoreExt};

/// The store's path in the bucket.
pub(crate) const ROOT: &str = "store";

/// How long a request takes, so that parallel ones overlap.
pub(crate) const LATENCY: Duration = Duration::from_millis(5);

/// Pages of four slots: small enough to retire by hand.
pub(crate) const PAGE: u32 = 4;

/// One bucket with one log.
pub(crate) struct World {
    pub(crate) memory: Arc<dyn ObjectStore>,
    pub(crate) record: AdoptionRecord,
    pub(crate) timeline: Timeline,
    seeds: AtomicU64,
}

/// One process: its view of the bucket, and the log as it knows it.
pub(crate) struct Process {
    pub(crate) scripted: ScriptedBucket,
    pub(crate) log: SlotLog,
}

/// Time and randomness of one process.
pub(crate) fn environment(timeline: Timeline, seed: u64) -> Environment {
    environment_by(machine_clock(timeline), seed)
}

fn machine_clock(timeline: Timeline) -> Arc<SimulatedClock> {
    Arc::new(SimulatedClock::new(timeline, ClockMode::Steady, Skew { offset: TimeDelta::zero(), drift_ppm: 0 }))
}

fn environment_by(clock: Arc<SimulatedClock>, seed: u64) -> Environment {
    Environment { clock: clock.clone(), stopwatch: clock, randomness: Arc::new(Randomness::from_seed(seed)) }
}

/// `store` as one process sees it, behind a script.
pub(crate) fn scripted(store: Arc<dyn ObjectStore>, timeline: Timeline, seed: u64) -> (ScriptedBucket, Bucket) {
    let scripted = ScriptedBucket::new(store);
    let bucket = Bucket::new(Arc::new(scripted.clone()), Path::from(ROOT), environment(timeline, seed), Pace::default());
    (scripted, bucket)
}

/// `store`, where each request takes [`LATENCY`].
pub(crate) fn distant(store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
    let config = ThrottleConfig {
        wait_get_per_call: LATENCY,
        wait_put_per_call: LATENCY,
        wait_list_per_call: LATENCY,
        wait_delete_per_call: LATENCY,
        ..ThrottleConfig::default()
    };
    Arc::new(ThrottledStore::new(store, config))
}

impl World {
    /// A log with pages of [`PAGE`] slots.
    pub(crate) async fn new() -> World {
        World::with(FreshLog { page_size: PageSize::new(PAGE).unwrap(), ..FreshLog::default() }).await
    }

    pub(crate) async fn with(fresh: FreshLog) -> World {
        World::over(Arc::new(InMemory::new()), fresh).await
    }

    /// A log in a bucket of another kind.
    pub(crate) async fn over(memory: Arc<dyn ObjectStore>, fresh: FreshLog) -> World {
        let timeline = Timeline::begin();
        let (_, bucket) = scripted(memory.clone(), timeline, 0);
        let record = find_or_begin(&bucket, &fresh, &bucket.deadline()).await.unwrap();
        World { memory, record, timeline, seeds: AtomicU64::new(1) }
    }

    /// The same bucket, seen from the runtime of processes that start later.
    pub(crate) fn in_this_runtime(self) -> World {
        World { timeline: Timeline::begin(), ..self }
    }

    /// A process that knows nothing of the log yet.
    pub(crate) fn process_with(&self, options: LogOptions) -> Process {
        self.process_over(self.memory.clone(), options)
    }

    /// A process that sees the bucket through `store`.
    pub(crate) fn process_over(&self, store: Arc<dyn ObjectStore>, options: LogOptions) -> Process {
        let (scripted, bucket) = scripted(store, self.timeline, self.seeds.fetch_add(1, Ordering::Relaxed));
        Process { scripted, log: SlotLog::new(bucket, self.record.clone(), options) }
    }

    /// A process that knows nothing of the log yet, and its clock.
    pub(crate) fn process_with_clock(&self, options: LogOptions) -> (Process, Arc<SimulatedClock>) {
        let clock = machine_clock(self.timeline);
        let environment = environment_by(clock.clone(), self.seeds.fetch_add(1, Ordering::Relaxed));
        let scripted = ScriptedBucket::new(self.memory.clone());
        let bucket = Bucket::new(Arc::new(scripted.clone()), Path::from(ROOT), environment, Pace::default());
        (Process { scripted, log: SlotLog::new(bucket, self.record.clone(), options) }, clock)
    }

    /// A process that has read the log from its origin on.
    pub(crate) async fn process(&self) -> Process {
        let process = self.process_with(LogOptions::default());
        process.load(None).await;
        process
    }

    /// A process that has read the log, and whose requests each take [`LATENCY`].
    pub(crate) async fn distant_process(&self) -> Process {
        let process = self.process_over(distant(self.memory.clone()), LogOptions::default());
        process.load(None).await;
        process
    }

    /// A process that has read the log as it was when its head was at `known`.
    pub(crate) async fn lagging_process(&self, known: u64) -> Process {
        let mut later = Vec::new();
        while let Some(bytes) = self.read(self.slot_name(known + 1 + later.len() as u64)).await {
            later.push(bytes);
        }
        let names: Vec<_> = (known + 1..).map(|number| self.slot_name(number)).take(later.len()).collect();
        for name in &names {
            self.delete(*name).await;
        }
        let process = self.process().await;
        assert_eq!(process.head(), known);
        for (name, bytes) in names.into_iter().zip(later) {
            self.write(name, bytes).await;
        }
        process
    }

    pub(crate) fn slot_name(&self, number: u64) -> ObjectName {
        ObjectName::Slot(self.record.log, sequence(number))
    }

    pub(crate) async fn read(&self, name: ObjectName) -> Option<Bytes> {
        match self.memory.get(&name.path(&Path::from(ROOT))).await {
            Ok(object) => Some(object.bytes().await.unwrap()),
            Err(Error::NotFound { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn write(&self, name: ObjectName, bytes: Bytes) {
        self.memory.put(&name.path(&Path::from(ROOT)), bytes.into()).await.unwrap();
    }

    /// Deletes every object of the store, and begins another one at the same path.
    pub(crate) async fn recreated(self) -> World {
        let objects: Vec<_> = self.memory.list(Some(&Path::from(ROOT))).try_collect().await.unwrap();
        for object in objects {
            self.memory.delete(&object.location).await.unwrap();
        }
        let (_, bucket) = scripted(self.memory.clone(), self.timeline, self.seeds.fetch_add(1, Ordering::Relaxed));
        let fresh = FreshLog { page_size: self.record.page_size, ..FreshLog::default() };
        let record = find_or_begin(&bucket, &fresh, &bucket.deadline()).await.unwrap();
        assert_ne!(record.log, self.record.log);
        World { record, ..self }
    }

    pub(crate) async fn delete(&self, name: ObjectName) {
        self.memory.delete(&name.path(&Path::from(ROOT))).await.unwrap();
    }

    /// The slot that lies there.
    pub(crate) async fn slot(&self, number: u64) -> Option<Slot> {
        let bytes = self.read(self.slot_name(number)).await?;
        Some(Slot::decode(bytes, self.record.log, sequence(number)).unwrap())
    }

    /// Seals a whole page and writes its ledger.
    pub(crate) async fn seal(&self, page: u64) {
        let page = Page::new(page);
        let mut slots = Vec::new();
        for sequence in self.sequences(page) {
            slots.push(Arc::new(self.slot(sequence.get()).await.unwrap()));
        }
        let ledger = Ledger::seal(self.record.log, page, self.record.page_size, &slots).unwrap();
        self.write(ObjectName::Ledger(self.record.log, page), ledger.encode()).await;
    }

    /// Seals a page and forgets its slots.
    pub(crate) async fn retire(&self, page: u64) {
        self.seal(page).await;
        for sequence in self.sequences(Page::new(page)) {
            self.delete(ObjectName::Slot(self.record.log, sequence)).await;
        }
    }

    fn sequences(&self, page: Page) -> Vec<Sequence> {
        let (first, last) = self.record.page_size.sequences(page).unwrap().into_inner();
        run(first, last).collect()
    }

    /// Others commit until the head is at `head`.
    pub(crate) async fn commit_through(&self, head: u64) -> Process {
        let process = self.process().await;
        while process.head() < head {
            process.commit().await;
        }
        process
    }
}

impl Process {
    pub(crate) fn deadline(&self) -> Deadline {
        self.log.bucket().deadline()
    }

    pub(crate) async fn load(&self, covered: Option<u64>) {
        self.log.load(covered.map(sequence), &self.deadline()).await.unwrap();
    }

    pub(crate) fn head(&self) -> u64 {
        self.log.head().map_or(0, Sequence::get)
    }

    /// A commit of one row, of a transaction of its own.
    pub(crate) fn new_commit(&self) -> Commit {
        let transaction = TransactionId::random(&self.log.bucket().environment().randomness);
        Commit::of(transaction, vec![Write::put(transaction.to_string(), "value")])
    }

    pub(crate) async fn offer(&self, number: u64, commit: Commit) -> Result<Offer, OfferError> {
        self.log.offer(sequence(number), commit, &self.deadline()).await
    }

    /// Wins the next sequence.
    pub(crate) async fn commit(&self) -> TransactionId {
        let commit = self.new_commit();
        let transaction = commit.transaction;
        let offer = self.offer(self.log.next().get(), commit).await.unwrap();
        assert!(matches!(offer, Offer::Won { slot: Some(_) }), "{offer:?}");
        transaction
    }

    /// Decides the fate of the `nth` put of a slot from now on.
    pub(crate) fn script_put(&self, nth: u64, fate: Fate) -> Cue {
        self.scripted.script(nth, is(Operation::Create, PathClass::Commits), fate)
    }

    /// Decides the fate of the `nth` read of a slot from now on.
    pub(crate) fn script_slot_read(&self, nth: u64, fate: Fate) -> Cue {
        self.scripted.script(nth, is(Operation::Get, PathClass::Commits), fate)
    }

    /// Decides the fate of the `nth` read of a ledger from now on.
    pub(crate) fn script_ledger_read(&self, nth: u64, fate: Fate) -> Cue {
        self.scripted.script(nth, is(Operation::Get, PathClass::Retired), fate)
    }

    pub(crate) fn mark(&self) -> Mark {
        self.scripted.reset_overlaps();
        self.scripted.mark()
    }

    /// What was requested since `mark`: puts, slot reads, ledger reads and lists; anything else fails the test.
    pub(crate) fn since(&self, mark: Mark) -> Spent {
        Spent::of(&self.scripted.counts_since(mark))
    }
}

/// What a step of the log cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) puts: u64,
    pub(crate) slot_reads: u64,
    pub(crate) ledger_reads: u64,
    pub(crate) lists: u64,
}

impl Spent {
    fn of(counts: &Counts) -> Spent {
        let mut spent = Spent::default();
        for ((operation, class), count) in counts {
            match (operation, class) {
                (Operation::Create, PathClass::Commits) => spent.puts = *count,
                (Operation::Get, PathClass::Commits) => spent.slot_reads = *count,
                (Operation::Get, PathClass::Retired) => spent.ledger_reads = *count,
                (Operation::List, PathClass::Commits) => spent.lists = *count,
                other => panic!("nothing else is asked for, found {other:?}"),
            }
        }
        spent
    }
}

/// Requests of one operation on one class.
pub(crate) fn is(operation: Operation, class: PathClass) -> impl Fn(&Request) -> bool + Send + 'static {
    move |request| request.operation == operation && request.class() == class
}

pub(crate) fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap()
}

/// The pages from `start` to before `end`.
pub(crate) fn pages(start: u64, end: u64) -> Range<Page> {
    Page::new(start)..Page::new(end)
}

pub(crate) fn won(offer: &Result<Offer, OfferError>) -> bool {
    matches!(offer, Ok(Offer::Won { .. }))
}

/// Lets every task go on until `holds`, in so many steps at most.
pub(crate) async fn until(step: Duration, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if holds().await {
            return;
        }
        tokio::time::advance(step).await;
        tokio::task::yield_now().await;
    }
    panic!("it never came about");
}
