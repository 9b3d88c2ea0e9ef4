//! Resolution: from every reachable state a process that runs alone, without faults, gets where it wants.

use super::bounds::Reading;
use super::world::{Phase, World};
use super::{Chance, Log, Step};
use crate::explore::Next;
use crate::violation::Violation;

/// Steps to a verdict. The longest path asks its outcome, closes with a filler, meets another's slot and judges it:
/// ten steps; twice that says "bounded" without pinning each read.
const STEPS_TO_A_VERDICT: usize = 24;

/// Steps to the head: at most six a slot (three names listed, a read, a direct read, a ledger) for six slots.
const STEPS_TO_THE_HEAD: usize = 48;

impl Log {
    pub(super) fn alone(&self, world: &World) -> Option<Violation> {
        let committers = (0..self.bounds.committers).filter_map(|who| self.verdict_alone(world, who));
        committers.chain(self.head_alone(world)).next()
    }

    fn verdict_alone(&self, world: &World, who: usize) -> Option<Violation> {
        let mut world = *world;
        for _ in 0..STEPS_TO_A_VERDICT {
            if matches!(world.committers[who].phase, Phase::Ready | Phase::Tail { .. } | Phase::Done) {
                return None;
            }
            let mut steps = Vec::new();
            self.committer_steps(&world, who, &mut steps);
            match calm(&steps) {
                Some(Ok(next)) => world = next,
                Some(Err(violation)) => return Some(violation),
                None => return Some(Violation::NoVerdict),
            }
        }
        Some(Violation::NoVerdict)
    }

    fn head_alone(&self, world: &World) -> Option<Violation> {
        if self.bounds.reading == Reading::None {
            return None;
        }
        let mut world = *world;
        for _ in 0..STEPS_TO_THE_HEAD {
            if world.reader.head == world.true_head() {
                return None;
            }
            let mut steps = Vec::new();
            self.reader_steps(&world, &mut steps);
            match calm(&steps) {
                Some(Ok(next)) => world = next,
                Some(Err(violation)) => return Some(violation),
                None => return Some(Violation::StuckReader),
            }
        }
        Some(Violation::StuckReader)
    }
}

/// The first step that needs no fault: each process lists the one that ends its doubt first.
fn calm(steps: &[(Step, Next<World>)]) -> Option<Next<World>> {
    steps.iter().find(|(step, _)| step.chance == Chance::Calm).map(|(_, next)| *next)
}
