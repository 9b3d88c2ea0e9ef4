//! What one process knows of the log: the head, and the slots below it that are still in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::envelope::Slot;
use crate::environment::Moment;
use crate::slot::Sequence;

use super::chain::Anchor;
use super::win_check::Free;

/// What is known.
///
/// - Only genuine slots come in, in order, each the child of the one before.
/// - The slots in memory are the last ones, without a gap, bounded in bytes.
pub(super) struct Known(Mutex<State>);

struct State {
    anchor: Anchor,
    slots: VecDeque<Arc<Slot>>,
    bytes: usize,
    max_bytes: usize,
    free: Option<Free>,
}

impl Known {
    pub(super) fn new(anchor: Anchor, max_bytes: usize) -> Known {
        Known(Mutex::new(State { anchor, slots: VecDeque::new(), bytes: 0, max_bytes, free: None }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No step below leaves the state half done, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn anchor(&self) -> Anchor {
        self.state().anchor
    }

    /// Takes genuine slots in. Those that are known already are skipped; what does not follow ends it.
    pub(super) fn advance(&self, slots: &[Arc<Slot>]) {
        let mut state = self.state();
        for slot in slots {
            if slot.sequence() == state.anchor.next() {
                state.push(slot);
            }
        }
    }

    /// Takes note of a sequence that was free. The highest one is kept: it is the next that is offered.
    pub(super) fn note_free(&self, free: Free) {
        let mut state = self.state();
        if state.free.is_none_or(|known| known.sequence <= free.sequence) {
            state.free = Some(free);
        }
    }

    /// When `sequence` was free, as far as that is known.
    pub(super) fn free_at(&self, sequence: Sequence) -> Option<Moment> {
        self.state().free.filter(|free| free.sequence == sequence).map(|free| free.at)
    }

    /// Starts again further on, at an anchor that was read from the store. Never goes back.
    pub(super) fn restart(&self, anchor: Anchor) {
        let mut state = self.state();
        if anchor.head.map(|head| head.sequence) > state.anchor.head.map(|head| head.sequence) {
            state.anchor = anchor;
            state.slots.clear();
            state.bytes = 0;
        }
    }

    /// The slots from `first` on up to `last`, as far down from `last` as memory reaches.
    pub(super) fn remembered_up_to(&self, first: Sequence, last: Sequence) -> Vec<Arc<Slot>> {
        let state = self.state();
        let (Some(oldest), Some(newest)) = (state.slots.front(), state.slots.back()) else { return Vec::new() };
        if newest.sequence() < last {
            return Vec::new();
        }
        // Without a gap, so the place of a slot is its distance from the oldest.
        let place = |sequence: Sequence| usize::try_from(sequence.above(Some(oldest.sequence()))).unwrap_or(usize::MAX);
        let wanted = place(first)..place(last.next()).min(state.slots.len());
        if last < oldest.sequence() { Vec::new() } else { state.slots.range(wanted).cloned().collect() }
    }

    pub(super) fn remembered_after(&self, after: Option<Sequence>) -> Option<Vec<Arc<Slot>>> {
        let state = self.state();
        let head = state.anchor.head.map(|head| head.sequence);
        if after >= head {
            return Some(Vec::new());
        }
        let wanted = after.map_or(state.anchor.origin, Sequence::next);
        // `wanted` is at or below the head, so memory either reaches back to it or does not.
        let first = state.slots.front()?.sequence();
        // Without a gap, so the place of a slot is its distance from the first: no walk over what lies below.
        let place = usize::try_from(wanted.get().checked_sub(first.get())?).ok()?;
        Some(state.slots.range(place..).cloned().collect())
    }
}

impl State {
    fn push(&mut self, slot: &Arc<Slot>) {
        self.anchor = self.anchor.after(slot);
        self.bytes += held_bytes(slot);
        self.slots.push_back(slot.clone());
        while self.bytes > self.max_bytes {
            let Some(oldest) = self.slots.pop_front() else { return };
            self.bytes -= held_bytes(&oldest);
        }
    }
}

/// About how many bytes a slot takes in memory. Its stored bytes may be compressed, its rows are not.
pub(super) fn held_bytes(slot: &Slot) -> usize {
    slot.bytes().len().max(slot.row_bytes())
}
