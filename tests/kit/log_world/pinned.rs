//! A reader that holds a checkpoint: it reads every slot that the checkpoint's manifest replays, again and again, until some
//! time after the checkpoint was dropped.

use std::sync::Arc;

use commit_log::log::TailError;
use commit_log::slot::Sequence;
use rand::RngExt;
use rand::rngs::StdRng;

use super::manifests::CheckpointNumber;
use super::plan::stream;
use super::process::Running;
use super::state::Shared;
use super::tally::Event;
use super::told::{Claim, SeenSlot};
use crate::bucket::Process;

/// One reader.
pub(super) struct PinnedReader {
    running: Running,
    checkpoint: CheckpointNumber,
    random: StdRng,
}

impl PinnedReader {
    /// Starts one as `process`, now and then with a log that has read nothing.
    pub(super) async fn start(shared: &Arc<Shared>, process: Process, checkpoint: CheckpointNumber) -> PinnedReader {
        let mut random = stream(shared.plan.seed, 5_000_000 + u64::from(process.0));
        let running = match random.random_bool(0.5) {
            true => Running::start_unread(shared, process).await,
            false => Running::start(shared, process, None).await,
        };
        PinnedReader { running, checkpoint, random }
    }

    /// Reads until the checkpoint is dropped, and once more.
    pub(super) async fn work(mut self) {
        loop {
            let dropped = self.running.shared.state().manifests.checkpoint(self.checkpoint).dropped;
            drop(self.read().await);
            if dropped.is_some() {
                return;
            }
            self.running.sleep(&mut self.random, 50, 10_000).await;
        }
    }

    /// Reads every slot that the checkpoint's manifest replays.
    pub(super) async fn read(&self) -> Result<(), TailError> {
        let Running { shared, log, .. } = &self.running;
        let replayed = {
            let manifests = &shared.state().manifests;
            manifests.replayed_by(manifests.checkpoint(self.checkpoint))
        };
        let Some((first, last)) = replayed else { return Ok(()) };
        shared.step();
        let asked = shared.mark();
        match log.slots(first, last, usize::MAX, &self.running.deadline()).await {
            Ok(slots) => {
                let slots = slots.iter().map(|slot| SeenSlot::of(slot)).collect();
                self.running.tell(asked, Claim::Served { first, last, slots });
                self.count_served(first);
                Ok(())
            }
            Err(error) => {
                if let TailError::Behind { .. } = error {
                    self.running.tell(asked, Claim::Withheld(self.checkpoint));
                }
                self.running.note_error(asked, &error);
                Err(error)
            }
        }
    }

    fn count_served(&self, first: Sequence) {
        let mut state = self.running.shared.state();
        if state.manifests.checkpoint(self.checkpoint).dropped.is_some() {
            return;
        }
        state.tally.count(Event::CheckpointRead);
        let page_of_floor = state.manifests.floor().map(|floor| state.chronicle.page_of(floor));
        if Some(state.chronicle.page_of(first)) < page_of_floor {
            state.tally.count(Event::KeptByCheckpoint);
        }
    }
}
