//! A history and what clients were told of it, written down by hand, so that each checker can be shown a bad one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use commit_log::bucket::ObjectName;
use commit_log::envelope::{Envelope, Rules, Slot, SlotKind, Turn, Write, first_parent};
use commit_log::error::Corruption;
use commit_log::identity::{LogId, TransactionId};
use commit_log::ledger::Ledger;
use commit_log::log::{Attempt, Outcome};
use commit_log::retire::ManifestPoint;
use commit_log::slot::{Page, PageSize, Sequence};
use object_store::path::Path;

use super::{Check, Evidence};
use crate::bucket::{Operation, Process, RequestId};
use crate::fingerprint::Hash128;
use crate::history::{Change, Effect, History, Sent};
use crate::log_world::chronicle::Chronicle;
use crate::log_world::manifests::{CheckpointNumber, Manifests};
use crate::log_world::told::{Claim, Mark, SeenSlot, Told};

const ROOT: &str = "store";

/// A story with pages of two slots. A transaction is a number, and so is a sequence.
pub(super) struct Story {
    history: History,
    told: Vec<Told>,
    asked: Option<Mark>,
    slots: BTreeMap<(u64, u8), Arc<Slot>>,
    last: BTreeMap<u64, Arc<Slot>>,
    genuine: BTreeMap<u64, u8>,
    manifests: Manifests,
}

fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap()
}

fn page_size() -> PageSize {
    PageSize::new(2).unwrap()
}

fn attempt(transaction: u8, number: u64) -> Attempt {
    Attempt { transaction: TransactionId::from_bytes([transaction; 16]), sequence: sequence(number) }
}

impl Story {
    pub(super) const LOG: LogId = LogId::from_bytes([1; 16]);
    pub(super) const OTHER_LOG: LogId = LogId::from_bytes([2; 16]);

    /// A story in which the store has folded all that lands.
    pub(super) fn new() -> Story {
        Story::unfolded().applied(1_000).flushed(1_000)
    }

    /// A story in which the store has folded nothing yet.
    pub(super) fn unfolded() -> Story {
        Story {
            history: History::default(),
            told: Vec::new(),
            asked: None,
            slots: BTreeMap::new(),
            last: BTreeMap::new(),
            genuine: BTreeMap::new(),
            manifests: Manifests::new(Sequence::FIRST),
        }
    }

    fn mark(&self) -> Mark {
        Mark { effects: self.history.effects().len(), sent: self.history.sent().len() }
    }

    fn slot(&mut self, number: u64, transaction: u8) -> Arc<Slot> {
        let below = self.last.get(&(number - 1)).map_or(first_parent(Self::LOG), |slot| slot.own_id());
        let envelope = Envelope {
            log: Self::LOG,
            sequence: sequence(number),
            nonce: [transaction; 16],
            parent: below,
            kind: SlotKind::Commit,
            validated_head: Bytes::new(),
            changes_made: Bytes::new(),
            members: vec![TransactionId::from_bytes([transaction; 16])],
            stamp: number,
            turn: Turn::default(),
            writes: vec![Write::put("key", "value")],
        };
        let rules = Rules { reserved_key: Bytes::from_static(b"\0"), max_slot_bytes: 1 << 20, route: None };
        let new = || Arc::new(Slot::seal(envelope, &rules).unwrap());
        self.slots.entry((number, transaction)).or_insert_with(new).clone()
    }

    fn effect(&mut self, name: ObjectName, change: Change, bytes: Option<Bytes>) {
        self.history.append(Effect {
            number: 0,
            request: RequestId(0),
            process: Process(1),
            operation: if bytes.is_some() { Operation::Create } else { Operation::Delete },
            path: Arc::from(name.path(&Path::from(ROOT)).as_ref()),
            change,
            generation: 1,
            content: bytes.as_ref().map_or(Hash128([0; 16]), Hash128::of),
            size: 0,
            bytes,
            at: Duration::ZERO,
        });
    }

    /// Somebody's put of a transaction is accepted.
    pub(super) fn send(mut self, number: u64, transaction: u8) -> Story {
        let slot = self.slot(number, transaction);
        self.history.append_sent(Sent {
            request: RequestId(0),
            process: Process(1),
            operation: Operation::Create,
            path: Arc::from(ObjectName::Slot(Self::LOG, sequence(number)).path(&Path::from(ROOT)).as_ref()),
            content: Hash128::of(slot.bytes()),
            bytes: Some(slot.bytes().clone()),
            at: Duration::ZERO,
        });
        self
    }

    /// A transaction lands.
    pub(super) fn land(mut self, number: u64, transaction: u8) -> Story {
        let slot = self.slot(number, transaction);
        self.last.insert(number, Arc::clone(&slot));
        self.genuine.entry(number).or_insert(transaction);
        self.effect(ObjectName::Slot(Self::LOG, sequence(number)), Change::Created, Some(slot.bytes().clone()));
        self
    }

    pub(super) fn delete(mut self, number: u64) -> Story {
        self.effect(ObjectName::Slot(Self::LOG, sequence(number)), Change::Deleted { former: 1 }, None);
        self
    }

    /// A page is retired with the slots that are genuine.
    pub(super) fn retire(self, page: u64) -> Story {
        let winners = [page * 2 + 1, page * 2 + 2].map(|number| self.genuine[&number]);
        self.retire_as(page, &winners)
    }

    pub(super) fn retire_as(mut self, page: u64, winners: &[u8]) -> Story {
        let mut slots = Vec::new();
        for (number, winner) in (page * 2 + 1..).zip(winners) {
            let slot = self.slot(number, *winner);
            self.last.insert(number, Arc::clone(&slot));
            slots.push(slot);
        }
        let ledger = Ledger::seal(Self::LOG, Page::new(page), page_size(), &slots).unwrap();
        self.effect(ObjectName::Ledger(Self::LOG, Page::new(page)), Change::Created, Some(ledger.encode()));
        self
    }

    fn write(mut self, point: ManifestPoint) -> Story {
        self.manifests.write(self.mark(), point);
        self
    }

    /// The holder has applied the slots up to `number`.
    pub(super) fn applied(self, number: u64) -> Story {
        let latest = self.manifests.latest();
        self.write(ManifestPoint { next_wal_sst_id: number + 1, ..latest })
    }

    /// The holder has flushed the slots up to `number`.
    pub(super) fn flushed(self, number: u64) -> Story {
        let latest = self.manifests.latest();
        self.write(ManifestPoint { replay_after_wal_id: number, last_l0_seq: number, ..latest })
    }

    /// A flush up to `number` died half way, and moved the replay point alone.
    pub(super) fn half_flushed(self, number: u64) -> Story {
        let latest = self.manifests.latest();
        self.write(ManifestPoint { replay_after_wal_id: number, ..latest })
    }

    pub(super) fn take_checkpoint(mut self) -> Story {
        self.manifests.take_checkpoint(self.mark(), None);
        self
    }

    pub(super) fn drop_checkpoint(mut self, number: usize) -> Story {
        self.manifests.drop_checkpoint(self.mark(), CheckpointNumber(number));
        self
    }

    pub(super) fn withheld(self, number: usize) -> Story {
        self.tell(Claim::Withheld(CheckpointNumber(number)))
    }

    /// The next answer was asked for now.
    pub(super) fn asked(mut self) -> Story {
        self.asked = Some(self.mark());
        self
    }

    fn tell(mut self, claim: Claim) -> Story {
        let heard = self.mark();
        let asked = self.asked.take().unwrap_or(heard);
        self.told.push(Told { process: Process(1), asked, heard, claim });
        self
    }

    fn seen(&mut self, slots: &[(u64, u8)]) -> Vec<SeenSlot> {
        slots.iter().map(|(number, transaction)| SeenSlot::of(&self.slot(*number, *transaction))).collect()
    }

    pub(super) fn won(self, transaction: u8, number: u64) -> Story {
        self.tell(Claim::Won(attempt(transaction, number)))
    }

    pub(super) fn lost(mut self, transaction: u8, number: u64, winner: u8) -> Story {
        let winner = self.seen(&[(number, winner)])[0];
        self.tell(Claim::Lost(attempt(transaction, number), winner))
    }

    pub(super) fn behind(self, transaction: u8, number: u64) -> Story {
        self.tell(Claim::Behind(attempt(transaction, number)))
    }

    pub(super) fn nothing_sent(self, transaction: u8, number: u64) -> Story {
        self.tell(Claim::NothingSent(attempt(transaction, number)))
    }

    pub(super) fn outcome(self, transaction: u8, number: u64, outcome: Outcome) -> Story {
        self.tell(Claim::Outcome(attempt(transaction, number), outcome))
    }

    pub(super) fn opened(self, log: LogId) -> Story {
        self.tell(Claim::Opened(log))
    }

    pub(super) fn believed(mut self, slots: &[(u64, u8)]) -> Story {
        let slots = self.seen(slots);
        self.tell(Claim::Believed(slots))
    }

    pub(super) fn served(mut self, first: u64, last: u64, slots: &[(u64, u8)]) -> Story {
        let slots = self.seen(slots);
        self.tell(Claim::Served { first: sequence(first), last: sequence(last), slots })
    }

    pub(super) fn end(self, head: u64) -> Story {
        self.tell(Claim::End(Sequence::new(head)))
    }

    pub(super) fn gone(self, after: Option<u64>) -> Story {
        self.tell(Claim::Retired { after: after.and_then(Sequence::new) })
    }

    pub(super) fn corrupt(self, missing: u64) -> Story {
        self.tell(Claim::Corrupt(Corruption::Hole { missing: sequence(missing), below: sequence(missing + 1) }))
    }

    /// Shows the story to a checker.
    pub(super) fn run(self, check: Check) -> Result<(), String> {
        let root = Path::from(ROOT);
        let mut chronicle = Chronicle::new(&root, Self::LOG, page_size(), Sequence::FIRST, Mark::default());
        chronicle.read_on(&self.history);
        check(&Evidence { chronicle: &chronicle, told: &self.told, manifests: &self.manifests })
    }
}
