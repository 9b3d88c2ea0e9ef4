//! What may go wrong on a link, how likely each is, and the counters that prove it did.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::request::OperationClass;

const HOUR: Duration = Duration::from_secs(3600);

/// The settings of one link. Every chance is a probability from 0 to 1, drawn from the link's own random stream.
#[derive(Clone, Debug)]
pub struct Faults {
    /// How long requests take.
    pub latency: Latency,
    /// What befalls puts, copies and multipart uploads.
    pub puts: Rates,
    /// What befalls reads of objects.
    pub gets: Rates,
    /// What befalls each page of a list: a failed page after the first breaks the list midway.
    pub lists: Rates,
    /// What befalls deletes.
    pub deletes: Rates,
    /// The most by which a late landing is late.
    pub late_by: Duration,
    /// How long a hang lasts before the caller's own client gives up; none is for ever.
    pub hang: Option<Duration>,
    /// A create of an absent name is answered with 409, and nothing lands.
    pub spurious_exists: f64,
    /// A delete is answered as done, and is not. No honest store does this: off in [`Faults::harsh`].
    pub false_deletes: f64,
    /// A request begins a burst in which the link sees nothing but 5xx.
    pub bursts: f64,
    /// The longest such burst.
    pub burst_up_to: Duration,
    /// The body of a get breaks off with an error.
    pub broken_bodies: f64,
    /// The body of a get is shorter than said, without an error. Damage: off in [`Faults::harsh`].
    pub truncated_bodies: f64,
    /// One byte of the body of a get is wrong. Damage: off in [`Faults::harsh`].
    pub flipped_bytes: f64,
    /// How many entries a page of a list holds, drawn for each page.
    pub page_size: RangeInclusive<usize>,
    /// The entries of a page come in no order.
    pub shuffled_pages: f64,
    /// A request that has not taken effect when its process is killed never does.
    pub cut_by_kill: f64,
}

/// How long requests take, from the send to the answer. The effect falls anywhere in between.
#[derive(Clone, Debug)]
pub struct Latency {
    /// The usual range, uniform.
    pub usual: RangeInclusive<Duration>,
    /// The chance of a slow request instead: logarithmically uniform from the usual range's end upwards.
    pub tail: f64,
    /// The slowest request.
    pub tail_up_to: Duration,
}

/// The chances of what may befall a request; at most one of them does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Dropped before it takes effect; the caller gets an error.
    pub dropped: f64,
    /// Dropped before it takes effect; the caller hangs.
    pub dropped_hanging: f64,
    /// It takes effect and the answer is lost; the caller gets an error.
    pub answer_lost: f64,
    /// It takes effect and the answer is lost; the caller hangs.
    pub answer_lost_hanging: f64,
    /// The caller gets an error or hangs; it takes effect much later. Reads are dropped instead.
    pub late: f64,
    /// The client sends it two or three times and reports the last copy's answer.
    pub resent: f64,
}

impl Rates {
    /// The same chance for each.
    pub fn each(chance: f64) -> Self {
        Self {
            dropped: chance,
            dropped_hanging: chance,
            answer_lost: chance,
            answer_lost_hanging: chance,
            late: chance,
            resent: chance,
        }
    }
}

impl Faults {
    /// A healthy link: one to five milliseconds, nothing lost, pages of a thousand.
    pub fn none() -> Self {
        Self {
            latency: Latency {
                usual: Duration::from_millis(1)..=Duration::from_millis(5),
                tail: 0.0,
                tail_up_to: Duration::ZERO,
            },
            puts: Rates::default(),
            gets: Rates::default(),
            lists: Rates::default(),
            deletes: Rates::default(),
            late_by: 24 * HOUR,
            hang: None,
            spurious_exists: 0.0,
            false_deletes: 0.0,
            bursts: 0.0,
            burst_up_to: Duration::ZERO,
            broken_bodies: 0.0,
            truncated_bodies: 0.0,
            flipped_bytes: 0.0,
            page_size: 1000..=1000,
            shuffled_pages: 0.0,
            cut_by_kill: 0.0,
        }
    }

    /// Everything that an honest store and its network may do, often. Hangs end after three minutes, the retry
    /// time-out of object_store's own clients.
    pub fn harsh() -> Self {
        let mild = Rates::each(0.01);
        Self {
            latency: Latency {
                usual: Duration::from_millis(1)..=Duration::from_millis(50),
                tail: 0.02,
                tail_up_to: Duration::from_secs(600),
            },
            puts: Rates::each(0.02),
            gets: mild,
            lists: mild,
            deletes: Rates::each(0.02),
            hang: Some(Duration::from_secs(180)),
            spurious_exists: 0.02,
            bursts: 0.002,
            burst_up_to: Duration::from_secs(60),
            broken_bodies: 0.01,
            page_size: 1..=10,
            shuffled_pages: 0.1,
            cut_by_kill: 0.5,
            ..Self::none()
        }
    }

    pub(crate) fn rates(&self, class: OperationClass) -> Rates {
        match class {
            OperationClass::Put => self.puts,
            OperationClass::Get => self.gets,
            OperationClass::List => self.lists,
            OperationClass::Delete => self.deletes,
        }
    }
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A fault that landed: counted when it did what it is for, not when it was drawn.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

faults! {
    /// An answer came later than usual.
    SlowAnswer,
    /// An error was answered and nothing took effect.
    Dropped,
    /// A caller was left hanging and nothing took effect.
    DroppedHanging,
    /// A change landed and its caller got an error.
    AnswerLost,
    /// A change landed and its caller was left hanging.
    AnswerLostHanging,
    /// A delete was done and answered with an error.
    DeleteDoneAnsweredFailed,
    /// A delete was not done and answered as done.
    DeleteAnsweredNotDone,
    /// A change landed after its caller had its error or hang.
    LateLanding,
    /// … on a name that had been deleted: the store has no memory.
    LateLandingOnDeletedName,
    /// A change landed after its sender was killed.
    LandedAfterKill,
    /// A change was cut by the kill of its sender.
    CutByKill,
    /// The server saw one more copy of a request.
    Resent,
    /// A create met the object of its own earlier copy.
    MetOwnObject,
    /// A create of an absent name was answered with 409.
    SpuriousExists,
    /// A request failed in a burst of 5xx.
    BurstError,
    /// A read was answered with an error.
    ReadError,
    /// A body broke off.
    BrokenBody,
    /// A body was shorter than said.
    TruncatedBody,
    /// A byte of a body was wrong.
    FlippedByte,
    /// A page of a list was answered with an error after earlier pages were read.
    ListBrokeMidway,
    /// A page of a list was read after the bucket had changed since the list's first page.
    ListMovedBetweenPages,
    /// A page of a list came in no order.
    ShuffledPage,
    /// A request or answer met a partition.
    Partitioned,
    /// An answer or a request waited for its paused process.
    HeldByPause,
}

/// How often each fault landed.
#[derive(Clone, Debug)]
pub struct Counters {
    landed: Vec<u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Self { landed: vec![0; Fault::ALL.len()] }
    }
}

impl Counters {
    pub(crate) fn count(&mut self, fault: Fault) {
        self.landed[fault as usize] += 1;
    }

    /// How often `fault` landed.
    pub fn of(&self, fault: Fault) -> u64 {
        self.landed[fault as usize]
    }

    /// Every fault with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64)> {
        Fault::ALL.iter().copied().zip(self.landed.iter().copied())
    }

    /// Adds another bucket's counts, for floors over many worlds.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.landed.iter_mut().zip(&other.landed) {
            *sum += more;
        }
    }
}
