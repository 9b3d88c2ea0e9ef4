//! What must hold of a world, judged from what its clients were told and from the bucket's own history. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use commit_log::identity::TransactionId;

use super::record::{Incarnation, Observation, Recorded, Step, Told};
use super::rows::{self, Did};
use crate::linearizability::{self, End, Operation, Verdict};

/// One slot, as it is in the bucket.
#[derive(Clone, Debug)]
pub struct Landed {
    /// Its sequence.
    pub sequence: u64,
    /// Its place among the effects on the bucket.
    pub effect: usize,
    /// Its members.
    pub members: Vec<TransactionId>,
    /// Its rows, none for a delete.
    pub writes: Vec<(Bytes, Option<Bytes>)>,
}

/// One manifest, as it was written.
#[derive(Clone, Copy, Debug)]
pub struct Manifest {
    /// Its id.
    pub id: u64,
    /// Its place among the effects on the bucket.
    pub effect: usize,
    /// The process that wrote it.
    pub process: u32,
    /// The writer epoch in it.
    pub epoch: u64,
    /// The last slot in L0.
    pub covered: u64,
    /// The replay point.
    pub replay_point: u64,
}

/// The rows of the store, by key.
pub type Rows = BTreeMap<Bytes, Bytes>;

/// Slots follow one another from the first on.
pub fn slots_are_whole(landed: &[Landed]) -> Result<(), String> {
    let expected = 1..;
    match landed.iter().zip(expected).find(|(slot, expected)| slot.sequence != *expected) {
        Some((slot, expected)) => Err(format!("expected slot {expected}, found slot {}", slot.sequence)),
        None => Ok(()),
    }
}

/// What was acknowledged is in its slot and nowhere else; what was refused is nowhere; nothing is anywhere it was not offered.
pub fn each_is_committed_once(recorded: &Recorded, landed: &[Landed]) -> Result<(), String> {
    let mut places: BTreeMap<TransactionId, Vec<u64>> = BTreeMap::new();
    for slot in landed {
        for member in &slot.members {
            places.entry(*member).or_default().push(slot.sequence);
        }
    }
    for (transaction, tried) in &recorded.transactions {
        let found = places.get(transaction).map_or(&[] as &[u64], Vec::as_slice);
        let fits = match tried.told {
            Told::Committed(sequence) => found == [sequence],
            Told::NotCommitted(_) => found.is_empty(),
            Told::Unknown(sequence) => found.is_empty() || found == [sequence],
            Told::Nothing => found.is_empty() || found == tried.offered.last().copied().as_slice(),
        };
        if !fits {
            return Err(format!(
                "{transaction} was told {:?}, was offered at {:?} and is in {found:?}",
                tried.told, tried.offered
            ));
        }
    }
    Ok(())
}

/// Every process sees its own commits and never goes back; the latest view has all that was acknowledged before.
pub fn sessions_move_forward(sessions: &BTreeMap<Incarnation, Vec<Step>>) -> Result<(), String> {
    for (who, steps) in sessions {
        let mut least = 0;
        for step in steps {
            match *step {
                Step::Saw(head) if head < least => {
                    return Err(format!("{who:?} saw slot {head} as head after it had come to slot {least}"));
                }
                Step::Latest { acknowledged, head } if head < acknowledged.max(least) => {
                    return Err(format!("{who:?} got a latest view of slot {head} after slot {acknowledged} was acknowledged"));
                }
                Step::Saw(head) | Step::Latest { head, .. } => least = head,
                Step::Committed(sequence) => least = least.max(sequence),
            }
        }
    }
    Ok(())
}

/// What every transaction says it read is what the store held right before its slot.
pub fn reads_are_serial(landed: &[Landed]) -> Result<(), String> {
    let mut state = Rows::new();
    for slot in landed {
        for did in slot.writes.iter().filter_map(|(key, value)| Did::decode(key, value.as_ref()?)) {
            if let Err(wrong) = did.holds_over(&state) {
                return Err(format!("slot {}: {wrong}", slot.sequence));
            }
        }
        apply(&mut state, slot);
    }
    Ok(())
}

/// Every read saw exactly the rows that the slots up to its view's head make, and its bank was whole.
pub fn observations_are_true(observations: &[Observation], landed: &[Landed]) -> Result<Rows, String> {
    let mut by_head: Vec<&Observation> = observations.iter().collect();
    by_head.sort_by_key(|observation| observation.head);
    let mut state = Rows::new();
    let mut slots = landed.iter().peekable();
    for observation in by_head {
        while let Some(slot) = slots.next_if(|slot| slot.sequence <= observation.head) {
            apply(&mut state, slot);
        }
        bank_is_whole(observation)?;
        let expected = state.iter().filter(|(key, _)| key.starts_with(observation.prefix.as_bytes()));
        let expected: Vec<(Bytes, Bytes)> = expected.map(|(key, value)| (key.clone(), value.clone())).collect();
        if let Some(difference) = difference(&expected, &observation.rows) {
            return Err(format!(
                "{} of {:?} at slot {}: {difference}",
                observation.reader, observation.prefix, observation.head
            ));
        }
    }
    slots.for_each(|slot| apply(&mut state, slot));
    Ok(state)
}

fn bank_is_whole(observation: &Observation) -> Result<(), String> {
    if !rows::ACCOUNTS.starts_with(observation.prefix) || observation.rows.is_empty() {
        return Ok(());
    }
    let accounts = observation.rows.iter().filter(|(key, _)| key.starts_with(rows::ACCOUNTS.as_bytes()));
    let total: u64 = accounts.map(|(_, value)| rows::amount(value)).sum();
    match total == rows::TOTAL {
        true => Ok(()),
        false => Err(format!("{} at slot {}: the bank holds {total}", observation.reader, observation.head)),
    }
}

fn difference(expected: &[(Bytes, Bytes)], found: &[(Bytes, Bytes)]) -> Option<String> {
    if expected == found {
        return None;
    }
    let place = expected.iter().zip(found).position(|(one, other)| one != other).unwrap_or(expected.len().min(found.len()));
    Some(format!(
        "expected {} rows, found {}; row {place}: expected {:?}, found {:?}",
        expected.len(),
        found.len(),
        expected.get(place),
        found.get(place)
    ))
}

pub(super) fn apply(state: &mut Rows, slot: &Landed) {
    for (key, value) in &slot.writes {
        match value {
            Some(value) if !rows::is_reserved(key) => state.insert(key.clone(), value.clone()),
            _ => state.remove(key),
        };
    }
}

/// The store is folded in the order of the slots, by one holder at a time. `manifests` are in the
/// order in which they were written, `takes` is who took the store under which epoch.
pub fn one_holder_folds(manifests: &[Manifest], takes: &BTreeMap<u64, u32>, landed: &[Landed]) -> Result<u64, String> {
    let mut folds = 0;
    let mut counting: Vec<&Manifest> = Vec::new();
    for manifest in manifests {
        // SlateDB counts the highest id only: one that lands late below it is nobody's.
        if counting.last().is_none_or(|newest| newest.id < manifest.id) {
            counting.push(manifest);
        }
    }
    for (before, after) in counting.iter().zip(counting.iter().skip(1)) {
        let Manifest { id, epoch, covered, replay_point, .. } = **after;
        if epoch < before.epoch {
            return Err(format!("manifest {id} was written under epoch {epoch} after one under epoch {}", before.epoch));
        }
        if covered < before.covered || replay_point < before.replay_point {
            return Err(format!("manifest {id} goes back from {before:?} to {after:?}"));
        }
        if covered == before.covered {
            continue;
        }
        folds += 1;
        if takes.get(&epoch) != Some(&after.process) {
            return Err(format!("{before:?}, then {after:?}: not by who took the store, {takes:?}"));
        }
        let landed_by_then = landed.iter().take_while(|slot| slot.effect < after.effect).map(|slot| slot.sequence).max();
        if Some(covered.max(replay_point)) > landed_by_then {
            return Err(format!("manifest {id} covers slot {covered} when the log ended at {landed_by_then:?}"));
        }
    }
    Ok(folds)
}

/// The calls on registers as a history, in which the log says what became of calls that were not answered.
pub fn history_of(recorded: &Recorded, landed: &[Landed]) -> Vec<Operation> {
    let members: std::collections::BTreeSet<TransactionId> = landed.iter().flat_map(|slot| slot.members.clone()).collect();
    let operation = |call: &super::record::Call| {
        let landed = call.transaction.is_some_and(|transaction| members.contains(&transaction));
        let end = match (call.answered, call.transaction) {
            (Some(at), None) => End::Answered(at),
            (Some(at), Some(_)) if landed => End::Answered(at),
            (None, Some(_)) if landed => End::Unheard,
            (Some(_) | None, _) => return None,
        };
        Some(Operation { key: call.key.clone(), action: call.action.clone()?, called: call.called, end })
    };
    recorded.calls.iter().filter_map(operation).collect()
}

/// The registers are linearizable.
pub fn registers_are_linearizable(history: &[Operation]) -> Result<(), String> {
    match linearizability::check(history) {
        Verdict::Linearizable => Ok(()),
        verdict @ (Verdict::Not { .. } | Verdict::Undecided { .. }) => Err(format!("{verdict:?}")),
    }
}

#[cfg(test)]
mod tests;
