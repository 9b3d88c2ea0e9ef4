//! A view: a base under the tail, as one value.

mod base;
mod error;
mod frozen;
mod manifest;
mod overlay;
mod range;
mod reaper;
mod scan;

use std::sync::Arc;

use bytes::Bytes;
use slatedb::ByteRangeBounds;

use crate::envelope::Slot;
use crate::identity::OwnId;
use crate::slot::{Sequence, sequence_after};

pub use base::{Base, BaseSettings, Customise, MAX_READ_RETRIES, SCAN_READ_AHEAD_BYTES, SharedCache};
pub use error::{Cause, Gap, OlderBase, ReadError};
pub use frozen::FrozenBucket;
pub use manifest::{MAX_MANIFEST_BYTES, MAX_SEARCHES, ManifestObject, fetch_manifest, newest_manifest};
pub(crate) use overlay::Layer;
pub use overlay::{Entry, MAX_RECENT_BYTES, Overlay};
pub use range::{KeyRange, ScanOrder};
pub use reaper::{MAX_SUPERSEDED, Reaper};
pub use scan::Scan;

/// What is known of the head slot beside its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadSlot {
    /// Its own id.
    pub own_id: OwnId,
    /// Its stamp, in ms since the Unix epoch by the log's own time.
    pub stamp: u64,
}

impl From<&Slot> for HeadSlot {
    fn from(slot: &Slot) -> HeadSlot {
        HeadSlot { own_id: slot.own_id(), stamp: slot.envelope().stamp }
    }
}

/// The store as of one slot: a base, and over it the tail past what the base covers. A value; copies are cheap.
///
/// - A view never changes. Advancing it or replacing its base makes another view, and the old one stays true.
/// - The overlay holds every row of every slot above what the base covers, up to the head.
/// - The key that the log keeps for itself is never seen through it.
#[derive(Clone, Debug)]
pub struct View {
    base: Arc<Base>,
    overlay: Overlay,
    head: Option<Sequence>,
    head_slot: Option<HeadSlot>,
    reserved_key: Bytes,
}

impl View {
    /// The view of a base without a tail. `origin` is the log's first sequence, `reserved_key` the log's own key.
    pub fn new(base: Arc<Base>, origin: Sequence, reserved_key: Bytes) -> View {
        // What a store held before its adoption is below the origin and no slot.
        let head = base.covered().filter(|covered| *covered >= origin);
        View { base, overlay: Overlay::new(origin), head, head_slot: None, reserved_key }
    }

    /// The last slot that is seen through it. `None` before the log's first.
    pub fn head(&self) -> Option<Sequence> {
        self.head
    }

    /// More of the head slot. `None` when the base covers it and it was never seen here.
    pub fn head_slot(&self) -> Option<HeadSlot> {
        self.head_slot
    }

    /// The slot that comes next.
    pub fn next_sequence(&self) -> Sequence {
        sequence_after(self.head, self.overlay.origin())
    }

    /// Its base.
    pub fn base(&self) -> &Arc<Base> {
        &self.base
    }

    /// Its tail: how large it is, and the slots for conflict checks.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// The value of `key`, `None` when there is no row. A value from a file keeps its block in memory; copy it to keep it.
    ///
    /// # Errors
    ///
    /// See [`ReadError`]. Dropping the future has no effect.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        if self.reserved_key == key {
            return Ok(None);
        }
        match self.overlay.get(key) {
            Some(entry) => Ok(entry.value.clone()),
            None => self.base.get(key).await,
        }
    }

    /// Scans a range of keys. No request before the first row is asked for.
    pub fn scan(&self, range: impl ByteRangeBounds, order: ScanOrder) -> Scan {
        self.scan_under(None, KeyRange::new(range), order)
    }

    /// Scans the keys that begin with `prefix`.
    pub fn scan_prefix(&self, prefix: &[u8], order: ScanOrder) -> Scan {
        self.scan_under(None, KeyRange::prefix(prefix), order)
    }

    /// Scans with one more layer on top.
    pub(crate) fn scan_under(&self, top: Option<Box<dyn Layer>>, range: KeyRange, order: ScanOrder) -> Scan {
        let tail: Box<dyn Layer> = Box::new(self.overlay.layer());
        let layers = top.into_iter().chain([tail]).collect();
        Scan::new(Arc::clone(&self.base), layers, range, order, self.reserved_key.clone())
    }

    /// The view with `slots` on top, which follow its head one after the other. Slots at or below the head add no rows but
    /// are kept for conflict checks.
    ///
    /// # Errors
    ///
    /// [`Gap`] when a slot is missing. This view stays as it is in any case.
    pub fn advanced<'a>(&self, slots: impl IntoIterator<Item = &'a Arc<Slot>>) -> Result<View, Gap> {
        let mut view = self.clone();
        for slot in slots {
            let expected = view.next_sequence();
            let found = slot.sequence();
            if found > expected {
                return Err(Gap { expected, found });
            }
            view.overlay = if found == expected { view.overlay.apply(slot) } else { view.overlay.remember(slot) };
            if found == expected || view.head == Some(found) {
                view.head = Some(found);
                view.head_slot = Some(HeadSlot::from(slot.as_ref()));
            }
        }
        Ok(view)
    }

    /// The view on another base, which may cover more, even more than this view's head. Only what the base does not cover
    /// stays in the tail.
    ///
    /// # Errors
    ///
    /// [`OlderBase`] when it covers less. This view stays as it is.
    pub fn rebased(&self, base: Arc<Base>) -> Result<View, OlderBase> {
        let found = base.covered();
        if let Some(covered) = self.base.covered().filter(|covered| Some(*covered) > found) {
            return Err(OlderBase { covered, found });
        }
        let overlay = self.overlay.trimmed(found);
        let head = self.head.max(found.filter(|found| *found >= overlay.origin()));
        let head_slot = match head {
            head if head == self.head => self.head_slot,
            Some(head) => overlay.slot(head).map(|slot| HeadSlot::from(slot.as_ref())),
            None => None,
        };
        Ok(View { base, overlay, head, head_slot, reserved_key: self.reserved_key.clone() })
    }
}

#[cfg(test)]
pub(crate) mod tests;
