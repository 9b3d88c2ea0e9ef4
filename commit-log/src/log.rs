//! The log: its head, its tail, offers, outcomes. It does not know SlateDB.

pub mod chain;
mod known;
mod offer;
mod outcome;
mod page;
pub mod settle;
mod tail;
mod unresolved;
mod win_check;

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::bucket::Bucket;
use crate::envelope::{Rules, Slot};
use crate::environment::Moment;
use crate::identity::TransactionId;
use crate::record::AdoptionRecord;
use crate::slot::{Page, Sequence};

use chain::Anchor;
use known::Known;
use unresolved::Unresolved;

pub use offer::{Commit, Offer, OfferError};
pub use outcome::{CloseError, Closing, Outcome};
pub use tail::{Proof, TailError};
pub use win_check::WinCheck;

/// An attempt that is about to be made: the pair to make durable, for whoever must know its outcome after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The transaction.
    pub transaction: TransactionId,
    /// The sequence it is about to be offered at.
    pub sequence: Sequence,
}

/// Called before the first put of every offer. An error withdraws the offer: nothing is sent.
pub type BeforePut =
    Arc<dyn Fn(Attempt) -> BoxFuture<'static, Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + Sync>;

/// How a log is read and written by this process.
#[derive(Clone)]
pub struct LogOptions {
    /// What envelopes must keep to beside the log's own rules.
    pub max_slot_bytes: usize,
    /// Which keys the store's segment extractor can route. `None` when it has none.
    pub route: Option<crate::envelope::Route>,
    /// How many bytes of slots are kept in memory below the head, so that whoever follows reads them without a request.
    pub remembered_bytes: usize,
    /// The end of the log is proved by a ledger read at every so many polls that find nothing.
    pub prove_every: u32,
    /// How many slots an open of the store as its writer replays at most. The rest is applied and flushed after it, piece by piece:
    /// an open moves the replay point when it is done, and one that is stopped before has moved nothing. SlateDB's ids do not go
    /// back, so it is more where the manifest has counted more.
    pub replay_slots: NonZeroU64,
    /// Called before the first put of every offer.
    pub before_put: Option<BeforePut>,
    /// When the ledger is read after a put was answered *created*. At every win on a log that does not promise the retention
    /// which this check needs, whatever is asked for.
    pub win_check: WinCheck,
}

impl Default for LogOptions {
    /// Slots up to 8 MiB; 64 MiB of them in memory; every sixteenth idle poll is proved, a sixteenth more requests for a
    /// reader that notices within sixteen polls that it slept past a retirement. An open replays 4,096 slots, 64 rounds of reads: a
    /// few seconds, and four times what the cadence leaves. The ledger is read at every win.
    fn default() -> LogOptions {
        LogOptions {
            max_slot_bytes: 8 << 20,
            route: None,
            remembered_bytes: 64 << 20,
            prove_every: 16,
            replay_slots: NonZeroU64::MIN.saturating_add(4095),
            before_put: None,
            win_check: WinCheck::Always,
        }
    }
}

impl fmt::Debug for LogOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogOptions")
            .field("max_slot_bytes", &self.max_slot_bytes)
            .field("remembered_bytes", &self.remembered_bytes)
            .field("prove_every", &self.prove_every)
            .field("replay_slots", &self.replay_slots)
            .field("win_check", &self.win_check)
            .finish_non_exhaustive()
    }
}

/// A shared commit log, as one process knows it. Clones share what is known.
///
/// - Everything up to the head is genuine: it was believed only after its page's ledger was read and found absent.
/// - The head only moves forward.
#[derive(Clone)]
pub struct SlotLog {
    inner: Arc<Inner>,
}

struct Inner {
    bucket: Bucket,
    record: AdoptionRecord,
    rules: Rules,
    options: LogOptions,
    /// As asked for, where the log allows it.
    win_check: WinCheck,
    known: Known,
    unresolved: Unresolved,
    absent_polls: AtomicU32,
    head: watch::Sender<Option<Sequence>>,
}

impl SlotLog {
    /// The log that `record` describes, with nothing read yet: call [`SlotLog::load`] before anything else.
    pub fn new(bucket: Bucket, record: AdoptionRecord, options: LogOptions) -> SlotLog {
        let rules = Rules {
            reserved_key: record.reserved_key.clone(),
            max_slot_bytes: options.max_slot_bytes,
            route: options.route.clone(),
        };
        let known = Known::new(Anchor { log: record.log, origin: record.origin, head: None }, options.remembered_bytes);
        let inner = Inner {
            bucket,
            win_check: options.win_check.allowed_by(&record),
            record,
            rules,
            options,
            known,
            unresolved: Unresolved::default(),
            absent_polls: AtomicU32::new(0),
            head: watch::Sender::new(None),
        };
        SlotLog { inner: Arc::new(inner) }
    }

    /// The record that put the store on this log.
    pub fn record(&self) -> &AdoptionRecord {
        &self.inner.record
    }

    /// The bucket it is in.
    pub fn bucket(&self) -> &Bucket {
        &self.inner.bucket
    }

    /// How this process reads and writes it.
    pub fn options(&self) -> &LogOptions {
        &self.inner.options
    }

    /// What envelopes must keep to.
    pub fn rules(&self) -> &Rules {
        &self.inner.rules
    }

    /// The last slot that is known. May lag.
    pub fn head(&self) -> Option<Sequence> {
        self.inner.known.anchor().head.map(|head| head.sequence)
    }

    /// The sequence after the last slot that is known: where the next offer goes. May lag.
    pub fn next(&self) -> Sequence {
        self.inner.known.anchor().next()
    }

    /// Tells of every move of the head.
    pub fn subscribe(&self) -> watch::Receiver<Option<Sequence>> {
        self.inner.head.subscribe()
    }

    /// The slots after `after` up to the head, from memory. `None` when memory does not reach back that far.
    pub fn remembered_after(&self, after: Option<Sequence>) -> Option<Vec<Arc<Slot>>> {
        self.inner.known.remembered_after(after)
    }

    fn page_of(&self, sequence: Sequence) -> Page {
        self.inner.record.page_size.page_of(sequence)
    }

    /// Now, by both clocks of this process.
    fn moment(&self) -> Moment {
        self.bucket().environment().stopwatch.read()
    }

    /// Takes note of genuine slots.
    fn advance(&self, slots: &[Arc<Slot>]) {
        self.inner.known.advance(slots);
        self.announce();
    }

    fn announce(&self) {
        let head = self.head();
        self.inner.head.send_if_modified(|known| {
            let moved = head > *known;
            if moved {
                *known = head;
            }
            moved
        });
    }

    /// Whether the end that this poll finds must be proved by a ledger read.
    fn proof_is_due(&self) -> bool {
        let polls = self.inner.absent_polls.fetch_add(1, Ordering::Relaxed) + 1;
        polls >= self.inner.options.prove_every
    }

    fn end_was_proved(&self) {
        self.inner.absent_polls.store(0, Ordering::Relaxed);
    }
}

impl fmt::Debug for SlotLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotLog {} with head {:?}", self.inner.record.log, self.head())
    }
}
