//! The ideal store: the manifests that an ideal holder has written, and the checkpoints that are held on them.

use commit_log::retire::{ManifestPoint, Pins};
use commit_log::slot::Sequence;

use super::told::Mark;

/// The manifest of a store that has folded nothing.
const EMPTY: ManifestPoint = ManifestPoint { replay_after_wal_id: 0, last_l0_seq: 0, next_wal_sst_id: 1 };

/// A checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    /// The manifest that it names.
    pub point: ManifestPoint,
    /// When it was taken.
    pub taken: Mark,
    /// When it was dropped, `None` while it is held.
    pub dropped: Option<Mark>,
}

/// Which checkpoint: its place among all that were ever taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckpointNumber(pub usize);

/// Everything that the store's manifests ever said.
///
/// - Manifests only move forward.
/// - A new checkpoint names the newest manifest, or one that a held checkpoint names.
#[derive(Clone, Debug)]
pub struct Manifests {
    origin: Sequence,
    written: Vec<(Mark, ManifestPoint)>,
    checkpoints: Vec<Checkpoint>,
}

/// The last slot that an open of the manifest does not need.
fn floor(point: ManifestPoint) -> u64 {
    point.replay_after_wal_id.min(point.last_l0_seq)
}

impl Manifests {
    /// Those of a store that has folded nothing of a log that begins at `origin`.
    pub fn new(origin: Sequence) -> Manifests {
        Manifests { origin, written: vec![(Mark::default(), EMPTY)], checkpoints: Vec::new() }
    }

    /// The newest manifest.
    pub fn latest(&self) -> ManifestPoint {
        self.written.last().map_or(EMPTY, |(_, point)| *point)
    }

    /// What a look at the store pins now.
    pub fn pins(&self) -> Pins {
        Pins { latest: self.latest(), checkpoints: self.held().map(|(_, checkpoint)| checkpoint.point).collect() }
    }

    /// The last slot that the store has in its files.
    pub fn covered(&self) -> Option<Sequence> {
        self.in_log(self.latest().last_l0_seq)
    }

    /// The last slot that an open of the manifest that was the newest before effect `effect` does not need.
    pub fn floor_before(&self, effect: usize) -> Option<Sequence> {
        let newest = self.written.iter().rev().find(|(mark, _)| mark.effects <= effect);
        newest.and_then(|(_, point)| self.in_log(floor(*point)))
    }

    /// The last slot that an open of the newest manifest does not need.
    pub fn floor(&self) -> Option<Sequence> {
        self.floor_before(usize::MAX)
    }

    fn in_log(&self, sequence: u64) -> Option<Sequence> {
        Sequence::new(sequence).filter(|sequence| *sequence >= self.origin)
    }

    /// Writes the next manifest.
    pub fn write(&mut self, at: Mark, point: ManifestPoint) {
        self.written.push((at, point));
    }

    /// Takes a checkpoint of the newest manifest, or of the one that `of` names.
    pub fn take_checkpoint(&mut self, at: Mark, of: Option<CheckpointNumber>) -> CheckpointNumber {
        let point = of.map_or(self.latest(), |of| self.checkpoints[of.0].point);
        self.checkpoints.push(Checkpoint { point, taken: at, dropped: None });
        CheckpointNumber(self.checkpoints.len() - 1)
    }

    /// Drops a checkpoint, if it is held.
    pub fn drop_checkpoint(&mut self, at: Mark, number: CheckpointNumber) {
        self.checkpoints[number.0].dropped.get_or_insert(at);
    }

    /// Every checkpoint that was ever taken.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.checkpoints
    }

    /// A checkpoint.
    pub fn checkpoint(&self, number: CheckpointNumber) -> &Checkpoint {
        &self.checkpoints[number.0]
    }

    /// The checkpoints that are held.
    pub fn held(&self) -> impl Iterator<Item = (CheckpointNumber, &Checkpoint)> {
        let all = self.checkpoints.iter().enumerate().map(|(number, checkpoint)| (CheckpointNumber(number), checkpoint));
        all.filter(|(_, checkpoint)| checkpoint.dropped.is_none())
    }

    /// The slots that a reader of a checkpoint replays, first and last. `None` when there are none.
    pub fn replayed_by(&self, checkpoint: &Checkpoint) -> Option<(Sequence, Sequence)> {
        let first = self.in_log(floor(checkpoint.point)).map_or(self.origin, Sequence::next);
        let last = self.in_log(checkpoint.point.next_wal_sst_id.saturating_sub(1))?;
        (first <= last).then_some((first, last))
    }
}
