//! A collector, for tests only: retires whole pages as the protocol says, and is killed anywhere.

use std::sync::Arc;

use commit_log::bucket::{Bucket, Found, ObjectName};
use commit_log::envelope::Slot;
use commit_log::error::{Corruption, Unavailable};
use commit_log::identity::LogId;
use commit_log::ledger::Ledger;
use commit_log::record::AdoptionRecord;
use commit_log::slot::{Page, Sequence, run};

use super::process::door;
use super::state::Shared;
use super::tally::Event;
use super::told::Claim;
use crate::bucket::Process;

/// One pass of one collector.
pub(super) struct Collector {
    shared: Arc<Shared>,
    process: Process,
    bucket: Bucket,
    record: AdoptionRecord,
}

/// Why a pass ended early. The next one goes on where it stopped.
#[derive(Debug)]
enum Stopped {
    Unavailable,
    Corrupt(Corruption),
    /// A page could not be sealed yet: its ledger appeared while it was read.
    Again,
}

impl From<Unavailable> for Stopped {
    fn from(_: Unavailable) -> Stopped {
        Stopped::Unavailable
    }
}

impl Collector {
    /// A collector with a link of its own.
    pub(super) fn new(shared: &Arc<Shared>, process: Process, record: AdoptionRecord) -> Collector {
        let bucket = door(shared, process);
        Collector { shared: Arc::clone(shared), process, bucket, record }
    }

    /// Retires every page that may go, in ascending order, then sweeps what was created again in retired ones.
    pub(super) async fn pass(&self) {
        self.shared.step();
        let asked = self.shared.mark();
        match self.retire_and_sweep().await {
            Ok(()) | Err(Stopped::Unavailable | Stopped::Again) => {}
            Err(Stopped::Corrupt(corruption)) => self.shared.tell(self.process, asked, Claim::Corrupt(corruption)),
        }
    }

    async fn retire_and_sweep(&self) -> Result<(), Stopped> {
        let Some(floor) = self.shared.state().covered else { return Ok(()) };
        let size = self.record.page_size;
        let mut page = size.page_of(self.record.origin);
        // The page of the floor always stays: the next offer needs its parent.
        while page < size.page_of(floor) {
            // Deletes begin only after the ledger was read back, whoever wrote it; and the next page only after this one's.
            if self.ledger(page).await?.is_none() {
                self.seal(page).await?;
                self.ledger(page).await?.ok_or(Stopped::Again)?;
            }
            page = Page::new(page.get() + 1);
        }
        self.sweep(page).await
    }

    async fn ledger(&self, page: Page) -> Result<Option<Ledger>, Stopped> {
        let AdoptionRecord { log, page_size, .. } = self.record;
        let name = ObjectName::Ledger(log, page);
        let decode = |bytes| Ledger::decode(&bytes, log, page, page_size);
        match self.bucket.read_decoded(name, &self.bucket.deadline(), decode).await? {
            Found::Absent => Ok(None),
            Found::Present(ledger) => Ok(Some(ledger)),
            Found::Damaged(corruption) => Err(Stopped::Corrupt(corruption)),
        }
    }

    /// Writes the ledger of a page that had none.
    async fn seal(&self, page: Page) -> Result<(), Stopped> {
        let AdoptionRecord { log, page_size, .. } = self.record;
        let (first, last) = page_size.sequences(page).expect("a page of a short log").into_inner();
        let mut slots = Vec::new();
        for sequence in run(first, last) {
            slots.push(Arc::new(self.slot(log, page, sequence).await?));
        }
        // Read after the slots: while it is absent they are genuine.
        if self.ledger(page).await?.is_some() {
            return Err(Stopped::Again);
        }
        let broken = |_| Stopped::Corrupt(Corruption::BrokenChain { sequence: first });
        let ledger = Ledger::seal(log, page, page_size, &slots).map_err(broken)?;
        self.bucket.create_settled(ObjectName::Ledger(log, page), ledger.encode(), &self.bucket.deadline()).await?;
        Ok(())
    }

    async fn slot(&self, log: LogId, page: Page, sequence: Sequence) -> Result<Slot, Stopped> {
        let name = ObjectName::Slot(log, sequence);
        let decode = |bytes| Slot::decode(bytes, log, sequence);
        let found = self.bucket.read_decoded(name, &self.bucket.deadline(), decode).await?;
        let corruption = match found {
            Found::Present(slot) => return Ok(slot),
            Found::Absent => Corruption::Hole { missing: sequence, below: sequence.next() },
            Found::Damaged(corruption) => corruption,
        };
        // Another collector may have been faster.
        match self.ledger(page).await? {
            Some(_) => Err(Stopped::Again),
            None => Err(Stopped::Corrupt(corruption)),
        }
    }

    /// Deletes every slot in a page below `kept`. All of those have ledgers that were read.
    async fn sweep(&self, kept: Page) -> Result<(), Stopped> {
        let AdoptionRecord { log, page_size, origin, .. } = self.record;
        let names = self.bucket.list_from(ObjectName::Slot(log, origin), &self.bucket.deadline()).await?;
        let listed = names.iter().filter_map(|name| Sequence::from_name(name));
        for sequence in listed.filter(|sequence| page_size.page_of(*sequence) < kept) {
            let zombie = self.shared.state().chronicle.zombies().iter().any(|zombie| zombie.slot.sequence() == sequence);
            self.bucket.delete(ObjectName::Slot(log, sequence)).await?;
            if zombie {
                self.shared.count(Event::ZombieSwept);
            }
        }
        Ok(())
    }
}
