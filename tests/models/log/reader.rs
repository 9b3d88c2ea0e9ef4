//! A reader: a list where it has one, the slots after its head, a reload when it is behind.

use super::bounds::Reading;
use super::tail::Belief;
use super::world::{Batch, Id, Reader, ReaderPhase, Sequence, World};
use super::{Actor, Log, Moves, Step};
use crate::explore::Next;

fn with(world: &World, reader: Reader) -> World {
    World { reader, ..*world }
}

impl Log {
    pub(super) fn reader_steps(&self, world: &World, out: &mut Vec<(Step, Next<World>)>) {
        let moves = &mut Moves { out, actor: Actor::Reader };
        match world.reader.phase {
            ReaderPhase::Idle => self.start_reading(world, moves),
            ReaderPhase::Listing { next, names } => self.list(world, next, names, moves),
            ReaderPhase::Reading { batch } => self.read_on(world, batch, moves),
        }
    }

    fn start_reading(&self, world: &World, moves: &mut Moves<'_>) {
        let head = world.reader.head;
        let next = head.after(1);
        if next.0 > self.bounds.sequences {
            return;
        }
        let phase = match self.bounds.reading {
            Reading::None => return,
            Reading::Warm => ReaderPhase::Reading { batch: Batch::unread(self.bounds.reader_batch) },
            Reading::ListWalk => ReaderPhase::Listing { next, names: 0 },
            Reading::ListSnapshot => {
                let there = self.sequences().filter(|at| world.slot(*at).is_there());
                self.listed(head, there.fold(0, |names, at| names | at.bit()))
            }
        };
        moves.step("starts to read the slots from", next.0, with(world, Reader { head, phase }));
    }

    fn list(&self, world: &World, at: Sequence, names: u8, moves: &mut Moves<'_>) {
        let head = world.reader.head;
        let names = if world.slot(at).is_there() { names | at.bit() } else { names };
        let next = at.after(1);
        let ends = at.0 == self.bounds.sequences || at == head.after(self.bounds.reader_batch);
        let phase = if ends { self.listed(head, names) } else { ReaderPhase::Listing { next, names } };
        moves.step("lists the name of", at.0, with(world, Reader { head, phase }));
    }

    /// What was listed is read; what was not counts as absent.
    fn listed(&self, head: Sequence, names: u8) -> ReaderPhase {
        let mut batch = Batch::unread(self.bounds.reader_batch);
        let last = self.bounds.sequences.min(head.0 + self.bounds.reader_batch);
        for at in (head.0 + 1..=last).map(Sequence) {
            if names & at.bit() == 0 {
                batch.seen[usize::from(at.0 - head.0) - 1] = Id::ABSENT;
            }
        }
        ReaderPhase::Reading { batch }
    }

    fn read_on(&self, world: &World, batch: Batch, moves: &mut Moves<'_>) {
        let head = world.reader.head;
        let idle = |head| Reader { head, phase: ReaderPhase::Idle };
        if let Some(belief) = self.believe(world, head, &batch) {
            let next = match belief {
                Belief::Going(batch) => Ok(with(world, Reader { head, phase: ReaderPhase::Reading { batch } })),
                Belief::Head(head) => Ok(with(world, idle(head))),
                Belief::Behind => Ok(with(world, idle(head.max(world.floor)))),
                Belief::Wrong(violation) => Err(violation),
            };
            moves.step("checks, and believes, its batch from", head.0 + 1, next);
        }
        for index in self.reads(head, &batch) {
            let batch = Self::read(world, head, &batch, index);
            let phase = ReaderPhase::Reading { batch };
            moves.step("reads slot", head.0 + 1 + index as u8, with(world, Reader { head, phase }));
        }
    }
}
