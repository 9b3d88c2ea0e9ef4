//! Which pages the store still needs. Pure; no clock takes part.

use std::num::NonZeroU32;

use crate::record::AdoptionRecord;
use crate::slot::{Page, Sequence};

/// What one manifest of the store says of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestPoint {
    /// Its `replay_after_wal_id`.
    pub replay_after_wal_id: u64,
    /// Its `last_l0_seq`.
    pub last_l0_seq: u64,
    /// Its `next_wal_sst_id`.
    pub next_wal_sst_id: u64,
}

impl ManifestPoint {
    /// The last slot that an open of the manifest does not need.
    ///
    /// Of the two points the lower one counts: a flush that died half way may have moved one of them alone.
    fn floor(self) -> u64 {
        self.replay_after_wal_id.min(self.last_l0_seq)
    }

    /// Whether the manifest counts slots of this log past its floor.
    fn replays(self, origin: Sequence) -> bool {
        let last = self.next_wal_sst_id.saturating_sub(1);
        last > self.floor() && last >= origin.get()
    }
}

/// What holds pages back: the newest manifest, and those that checkpoints name.
///
/// A checkpoint that lapsed pins until SlateDB's collector takes it out of the manifest. So no clock is asked here, and a reader
/// that holds it meets an error of SlateDB's, never a hole of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    /// The newest manifest.
    pub latest: ManifestPoint,
    /// The manifests of all checkpoints that the newest one names.
    pub checkpoints: Vec<ManifestPoint>,
}

/// The lowest page that stays. All below it may go.
///
/// ```text
///      may go        │ retain_pages │ the tail
///   ─────────────────┼──────────────┤
///                first kept      floor's page
/// ```
///
/// - The page of the floor stays: the next offer needs its parent. `retain_pages` counts it.
/// - A checkpoint keeps the page of its own floor, and all above it. One that replays nothing of this log pins nothing.
/// - Manifests only move forward and a new checkpoint names a manifest at least as new as the newest, or one that another
///   checkpoint named: what was read a while ago pins too much, never too little.
pub fn first_kept(record: &AdoptionRecord, pins: &Pins, retain_pages: NonZeroU32) -> Page {
    let origin = record.page_size.page_of(record.origin);
    let page_of_floor = |point: ManifestPoint| {
        let floor = Sequence::new(point.floor()).filter(|floor| *floor >= record.origin);
        floor.map_or(origin, |floor| record.page_size.page_of(floor))
    };
    let latest = page_of_floor(pins.latest);
    let retained = Page::new(latest.get().saturating_sub(u64::from(retain_pages.get()) - 1));
    let replaying = pins.checkpoints.iter().copied().filter(|point| point.replays(record.origin));
    replaying.map(page_of_floor).fold(retained, Page::min).max(origin)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::identity::LogId;
    use crate::record::{AdoptedFrom, ContentRule};
    use crate::slot::PageSize;

    fn record(origin: u64) -> AdoptionRecord {
        AdoptionRecord {
            log: LogId::from_bytes([7; 16]),
            page_size: PageSize::new(10).unwrap(),
            origin: Sequence::new(origin).unwrap(),
            content_rule: ContentRule::Free,
            reserved_key: Bytes::from_static(b"reserved"),
            least_retention_millis: 0,
            guard_id: 1,
            adopted_from: AdoptedFrom::default(),
        }
    }

    fn flushed_to(last: u64) -> ManifestPoint {
        ManifestPoint { replay_after_wal_id: last, last_l0_seq: last, next_wal_sst_id: last + 1 }
    }

    fn kept(origin: u64, latest: ManifestPoint, checkpoints: &[ManifestPoint], retain_pages: u32) -> u64 {
        let pins = Pins { latest, checkpoints: checkpoints.to_vec() };
        first_kept(&record(origin), &pins, NonZeroU32::new(retain_pages).unwrap()).get()
    }

    #[test]
    fn the_page_of_the_floor_stays_also_when_the_floor_is_its_last_slot() {
        assert_eq!(kept(1, flushed_to(29), &[], 1), 2);
        assert_eq!(kept(1, flushed_to(30), &[], 1), 2);
        assert_eq!(kept(1, flushed_to(31), &[], 1), 3);
    }

    #[test]
    fn nothing_goes_before_the_first_flush() {
        assert_eq!(kept(1, ManifestPoint { replay_after_wal_id: 0, last_l0_seq: 0, next_wal_sst_id: 90 }, &[], 1), 0);
    }

    #[test]
    fn retained_pages_count_the_one_of_the_floor() {
        assert_eq!(kept(1, flushed_to(95), &[], 3), 7);
        assert_eq!(kept(1, flushed_to(95), &[], 30), 0);
    }

    #[test]
    fn a_checkpoint_keeps_the_page_of_its_own_floor() {
        let checkpoint = ManifestPoint { replay_after_wal_id: 44, last_l0_seq: 44, next_wal_sst_id: 60 };
        assert_eq!(kept(1, flushed_to(95), &[flushed_to(80), checkpoint], 1), 4);
    }

    #[test]
    fn a_checkpoint_that_replays_nothing_pins_nothing() {
        assert_eq!(kept(1, flushed_to(95), &[flushed_to(44)], 1), 9);
    }

    #[test]
    fn a_checkpoint_from_before_the_adoption_pins_nothing() {
        let native = ManifestPoint { replay_after_wal_id: 3, last_l0_seq: 40, next_wal_sst_id: 9 };
        assert_eq!(kept(51, flushed_to(95), &[native], 1), 9);
    }

    #[test]
    fn of_a_half_applied_manifest_the_lower_point_counts() {
        let replay_point_leads = ManifestPoint { replay_after_wal_id: 95, last_l0_seq: 41, next_wal_sst_id: 96 };
        let replay_point_lags = ManifestPoint { replay_after_wal_id: 41, last_l0_seq: 95, next_wal_sst_id: 96 };
        assert_eq!(kept(1, replay_point_leads, &[], 1), 4);
        assert_eq!(kept(1, replay_point_lags, &[], 1), 4);
        assert_eq!(kept(1, flushed_to(95), &[replay_point_leads], 1), 4);
    }

    #[test]
    fn nothing_goes_below_the_origin() {
        assert_eq!(kept(51, flushed_to(40), &[], 1), 5);
        assert_eq!(kept(51, flushed_to(70), &[], 9), 5);
    }
}
