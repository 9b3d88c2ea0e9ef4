//! One pass: ledger, read back, deletes, page by page; then what was created again under retired names.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::adoption::still_on;
use crate::bucket::{Deadline, Found, ObjectName};
use crate::error::Corruption;
use crate::ledger::{Ledger, NotSealable};
use crate::log::SlotLog;
use crate::slot::{Page, Sequence};

use super::listing::{Listing, sequences};
use super::manifests::read_pins;
use super::plan::{Pins, first_kept};
use super::{RetireError, RetireMode, RetireOptions, Retired};

/// How many pages one pass retires at most. A pass is then over in minutes on a slow bucket, and looks at the manifests again.
const MAX_PAGES_A_PASS: u64 = 256;

/// How many slots are listed at most, some hundred MB of memory. Beyond it a checkpoint pins a very long log; buckets list in
/// order, so what is cut off is the end of it.
const MAX_LISTED_SLOTS: usize = 1 << 20;

/// How long the listing may take: a thousand answers of a thousand names each, on a slow bucket.
const LISTING_TIME: Duration = Duration::from_secs(600);

/// Retires what nothing needs any more of one log. Several may race, in one process or in many.
///
/// - A page goes only when the ledger of the one before it was read, so ledgers appear in ascending order: whoever reads a
///   batch of slots asks for the ledger of the lowest one alone.
/// - No slot is deleted before the ledger of its page was read back. What is stored counts, whoever wrote it.
/// - Every step may be the last one, and may be done twice: a pass that was dropped, killed or failed is simply run again.
#[derive(Clone)]
pub struct Collector {
    log: SlotLog,
    /// The last page whose ledger this process has read.
    seen: Arc<Mutex<Option<Arc<Ledger>>>>,
}

impl Collector {
    /// A collector of `log`.
    pub fn new(log: SlotLog) -> Collector {
        Collector { log, seen: Arc::default() }
    }

    /// One pass, by what the store's manifests say now.
    ///
    /// # Errors
    ///
    /// See [`RetireError`]. In doubt nothing is retired.
    pub async fn run(&self, options: &RetireOptions, mode: RetireMode) -> Result<Retired, RetireError> {
        match read_pins(self.log.bucket()).await? {
            Some(pins) => self.retire(&pins, options, mode).await,
            None => Ok(Retired::nothing(self.origin())),
        }
    }

    /// One pass, by `pins`, which were read from the store before.
    ///
    /// A page costs a put, a read back, the read of the ledger before it unless this process has read that, and its slots that
    /// are not in memory, up to 64 at once. A pass costs a look at the adoption record and one listing besides.
    ///
    /// # Errors
    ///
    /// See [`RetireError`].
    pub async fn retire(&self, pins: &Pins, options: &RetireOptions, mode: RetireMode) -> Result<Retired, RetireError> {
        // SUBTLE: after the pins were read. While the record is ours so was the store whose manifests they are.
        let bucket = self.log.bucket();
        still_on(bucket, self.log.record().log, &bucket.deadline()).await?;
        let record = self.log.record();
        let kept = first_kept(record, pins, options.retain_pages);
        let listing = self.list().await?;
        let age = options.min_age.max(record.least_retention());
        let first = self.first_unretired(&listing, kept).await?;
        let limit = kept.min(Page::new(first.get().saturating_add(MAX_PAGES_A_PASS)));
        let mut page = first;
        while page < limit && listing.is_older_than(page, age) {
            if mode == RetireMode::Retire {
                self.retire_page(page).await?;
            }
            page = page.next();
        }
        let zombies = listing.below(first);
        let swept = zombies.len() as u64;
        if mode == RetireMode::Retire {
            self.delete(zombies).await?;
        }
        Ok(Retired { pages: first..page, swept, first_kept: kept })
    }

    fn origin(&self) -> Page {
        self.log.record().page_size.page_of(self.log.record().origin)
    }

    async fn list(&self) -> Result<Listing, RetireError> {
        let (bucket, record) = (self.log.bucket(), self.log.record());
        let deadline = Deadline::after(bucket.environment(), LISTING_TIME);
        let first = ObjectName::Slot(record.log, record.origin);
        let listed = bucket.list_dated_from(first, MAX_LISTED_SLOTS, &deadline).await?;
        Ok(Listing::new(record.page_size, &listed))
    }

    /// The lowest page without a ledger, at most `kept`. The ledger of the page before it was read by then.
    ///
    /// Mostly one read, where the listing begins; where that is not it, a bisection, since ledgers appear in ascending order.
    async fn first_unretired(&self, listing: &Listing, kept: Page) -> Result<Page, RetireError> {
        let seen = self.seen().map(|ledger| ledger.page().next());
        let mut lower = seen.unwrap_or(self.origin());
        let mut upper = listing.lowest_whole_page(lower).map_or(kept, |page| page.min(kept)).max(lower);
        let mut probe = upper;
        // Every page below `lower` has a ledger, and none from `upper` on does, as far as was seen.
        while lower < upper {
            let Some(before) = probe.previous() else { break };
            if self.ledger(before).await?.is_some() {
                lower = probe;
            } else {
                upper = before;
            }
            probe = Page::new(lower.get() + (upper.get() - lower.get()).div_ceil(2));
        }
        Ok(lower)
    }

    /// Retires one page: all below it are.
    async fn retire_page(&self, page: Page) -> Result<(), RetireError> {
        let before = match page.previous().filter(|_| page > self.origin()) {
            Some(before) => Some(self.ledger_before(before).await?),
            None => None,
        };
        if let Some(ledger) = self.seal(page, before.as_deref()).await? {
            self.store(page, ledger).await?;
        }
        // Only now: the ledger was read.
        self.delete(sequences(self.log.record().page_size, page)).await
    }

    async fn ledger_before(&self, page: Page) -> Result<Arc<Ledger>, RetireError> {
        match self.seen().filter(|ledger| ledger.page() == page) {
            Some(ledger) => Ok(ledger),
            None => self.stored(page).await,
        }
    }

    /// The ledger of a page that was retired, or whose ledger was just put. If it is gone, so is what the log rests on.
    async fn stored(&self, page: Page) -> Result<Arc<Ledger>, RetireError> {
        self.ledger(page).await?.ok_or_else(|| Corruption::LedgerMissing { page }.into())
    }

    /// Makes the ledger of `page` from its slots. `None` when it has one by now, which was read.
    ///
    /// SUBTLE: whether they are genuine is decided by the put. If it creates the ledger there was none before, so nothing of the
    /// page had been deleted when it was read. If it does not, what is stored counts.
    async fn seal(&self, page: Page, before: Option<&Ledger>) -> Result<Option<Ledger>, RetireError> {
        let record = self.log.record();
        let slots = self.log.unbelieved_page(page, before, &self.log.bucket().deadline()).await?;
        let sealed = slots.and_then(|slots| {
            Ledger::seal(record.log, page, record.page_size, &slots).map_err(|error| match error {
                NotSealable::BrokenChain { sequence } => Corruption::BrokenChain { sequence },
                // Of a page past every sequence there can be.
                NotSealable::OtherSlots { page } => Corruption::LedgerMissing { page },
            })
        });
        match sealed {
            Ok(ledger) => Ok(Some(ledger)),
            // Another collector was faster, and zombies or nothing lie there by now.
            Err(damage) => match self.ledger(page).await? {
                Some(_) => Ok(None),
                None => Err(damage.into()),
            },
        }
    }

    /// Puts the ledger of `page` and reads it back.
    async fn store(&self, page: Page, ledger: Ledger) -> Result<(), RetireError> {
        let bucket = self.log.bucket();
        let name = ObjectName::Ledger(self.log.record().log, page);
        bucket.create_settled(name, ledger.encode(), &bucket.deadline()).await?;
        self.stored(page).await.map(drop)
    }

    async fn ledger(&self, page: Page) -> Result<Option<Arc<Ledger>>, RetireError> {
        match self.log.find_ledger(page, &self.log.bucket().deadline()).await? {
            Found::Absent => Ok(None),
            Found::Damaged(corruption) => Err(corruption.into()),
            Found::Present(ledger) => {
                let ledger = Arc::new(ledger);
                self.see(ledger.clone());
                Ok(Some(ledger))
            }
        }
    }

    fn seen(&self) -> Option<Arc<Ledger>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn see(&self, ledger: Arc<Ledger>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.as_ref().is_none_or(|seen| seen.page() < ledger.page()) {
            *seen = Some(ledger);
        }
    }

    async fn delete(&self, slots: Vec<Sequence>) -> Result<(), RetireError> {
        let (bucket, log) = (self.log.bucket(), self.log.record().log);
        let names = slots.into_iter().map(|sequence| ObjectName::Slot(log, sequence)).collect();
        Ok(bucket.delete_all(names, &bucket.deadline()).await?)
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collector of {:?} with {:?}", self.log, self.seen().map(|ledger| ledger.page()))
    }
}
