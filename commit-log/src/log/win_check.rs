//! Whether a put that was answered *created* is a win without a read of the ledger. Pure.

use std::time::Duration;

use crate::environment::Moment;
use crate::record::AdoptionRecord;
use crate::slot::Sequence;

/// How many times the bound of a check a log must keep its pages. The bound is by this process's clocks and the retention by
/// the store's: three bounds lie between the two for what they differ.
const BOUNDS_A_RETENTION: u32 = 4;

/// A bound below counts as this long when it is compared with the retention: a store's timestamps may be whole seconds.
const COARSEST_TIMESTAMP: Duration = Duration::from_secs(1);

/// When the ledger is read after a put was answered *created*, to learn that its name was not forgotten before.
///
/// All else that an offer may meet, such as a name that is taken, is settled with the ledger in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WinCheck {
    /// After every put.
    #[default]
    Always,
    /// Unless less than this time passed, by the monotonic clock of this process and by its wall clock, since its sequence was
    /// last proved free. It saves the one read of a commit that nobody races with.
    ///
    /// It rests on the log's promise to keep its pages for a while: see [`WinCheck::retention_needed`]. What it does not survive
    /// is a machine that sleeps without either of its clocks noticing, such as an image that is stopped and started again with
    /// its old time: its win may then be told of a slot that is forgotten.
    WhenSlow(Duration),
}

impl WinCheck {
    /// The least retention that a log must promise for this check: four times its bound, which counts as a second at least.
    pub fn retention_needed(self) -> Duration {
        match self {
            WinCheck::Always => Duration::ZERO,
            WinCheck::WhenSlow(bound) => bound.max(COARSEST_TIMESTAMP).saturating_mul(BOUNDS_A_RETENTION),
        }
    }

    /// This check where the log promises enough for it, else the one that needs no promise.
    pub(super) fn allowed_by(self, record: &AdoptionRecord) -> WinCheck {
        if self.retention_needed() <= record.least_retention() { self } else { WinCheck::Always }
    }

    /// Whether a put that was answered *created* is won as it stands: `free` is when its sequence was free, as far as that is
    /// known, and `now` is when the answer is used.
    pub(super) fn is_quick(self, free: Option<Moment>, now: Moment) -> bool {
        match self {
            WinCheck::Always => false,
            WinCheck::WhenSlow(bound) => free.and_then(|free| now.since(free)).is_some_and(|passed| passed < bound),
        }
    }
}

/// A sequence, and a moment at which no slot had ever had it.
///
/// ```text
///    free          put takes effect   answer used                  page of the sequence may go
///   ──┼──────────────────┼─────────────────┼──────────────────────────────────┼──────▶
///     │◀───────────── less than d ────────▶│                                  │
///     │◀──────────────────────── 4 d or more, by the store's clock ──────────▶│
/// ```
///
/// SUBTLE: a put that was answered *created* is no win only if the sequence had a slot before, and that was deleted with its
/// page. A page goes when the newest slot is the least retention younger than the one after the page's last. Nobody began to
/// write that one before the page was full, which was after the moment at which the sequence was free. So whoever uses the
/// answer less than d after that moment is too early for any deletion. The page's last slot would not do: its put may have been
/// on the way, and dated, long before that moment.
///
/// What shows that a sequence was free, each time from *before* the first request of it was sent:
/// - It was read as absent, and its page's ledger, or a lower page's, was absent in a *later* read: ledgers come before deletes,
///   stay for ever, and appear in ascending order. Absence alone shows nothing, since a retired page looks just so. Nor does a
///   head whose next slot nobody looked for.
/// - This process's own put created the slot just below, and that was won: no slot can name a parent that is not there yet. Only
///   the put that was answered *created* says when that was; one that met its own first copy does not.
///
/// Either was true at its moment and stays true, so an old one is useless, never wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free {
    pub(super) sequence: Sequence,
    pub(super) at: Moment,
}
