//! A whole page, read to be retired.

use std::sync::Arc;

use crate::bucket::Deadline;
use crate::envelope::Slot;
use crate::error::{Corruption, Unavailable};
use crate::ledger::Ledger;
use crate::slot::{Page, Sequence};

use super::SlotLog;
use super::chain::{self, Anchor, Head};
use super::tail::{READS_AT_ONCE, RoundEnd};

impl SlotLog {
    /// The slots of `page`, which follow one another and the page before it, whose ledger is `before` (`None` at the origin).
    /// From memory as far as it reaches, else read in parallel rounds.
    ///
    /// They are *not* believed: while no ledger of `page` appears they are genuine, and so is the damage that is told here.
    pub(crate) async fn unbelieved_page(
        &self,
        page: Page,
        before: Option<&Ledger>,
        deadline: &Deadline,
    ) -> Result<Result<Vec<Arc<Slot>>, Corruption>, Unavailable> {
        let record = self.record();
        let Some(sequences) = record.page_size.sequences(page) else { return Ok(Ok(Vec::new())) };
        let (first, last) = sequences.into_inner();
        let remembered = self.inner.known.remembered_up_to(first, last);
        let mut slots = Vec::new();
        let mut next = first;
        let read_up_to = remembered.first().map_or(Some(last), |slot| slot.sequence().previous());
        while Some(next) <= read_up_to {
            let missing = read_up_to.map_or(0, |end| end.above(next.previous()));
            let width = u32::try_from(missing).unwrap_or(READS_AT_ONCE).min(READS_AT_ONCE);
            let round = self.read_round(next, width, deadline).await?;
            if let Some(last) = round.slots.last() {
                next = last.sequence().next();
            }
            slots.extend(round.slots);
            match round.end {
                RoundEnd::Full => {}
                RoundEnd::Damaged(corruption) => return Ok(Err(corruption)),
                RoundEnd::Absent | RoundEnd::Gap { .. } => {
                    return Ok(Err(Corruption::Hole { missing: next, below: last.next() }));
                }
            }
        }
        slots.extend(remembered);
        let anchor = Anchor { log: record.log, origin: record.origin, head: before.and_then(|ledger| head_of(ledger, first)) };
        Ok(chain::check(&anchor, &slots).map(|()| slots))
    }
}

/// The head that a retired page leaves to the slot `first` after it.
fn head_of(ledger: &Ledger, first: Sequence) -> Option<Head> {
    let sequence = first.previous()?;
    let entry = ledger.entry(sequence)?;
    Some(Head { sequence, own_id: entry.own_id, stamp: ledger.last_stamp() })
}
