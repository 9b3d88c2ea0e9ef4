//! A slot that is handed out was put under the name of its sequence, with just those bytes.

use super::Evidence;
use crate::log_world::told::{Claim, SeenSlot};

/// Every slot that was handed out against the puts under its name.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    let was_put = |seen: &SeenSlot| {
        let chronicle = evidence.chronicle;
        let genuine = chronicle.genuine().get(&seen.sequence).into_iter();
        let zombies = chronicle.zombies().iter().filter(|zombie| zombie.slot.sequence() == seen.sequence);
        genuine.chain(zombies).any(|landed| landed.own_id() == seen.own_id && landed.content == seen.content)
    };
    for told in evidence.told {
        let (Claim::Believed(slots) | Claim::Served { slots, .. }) = &told.claim else { continue };
        if let Some(seen) = slots.iter().find(|seen| !was_put(seen)) {
            return Err(format!("{:?} was handed {seen:?}, which nobody put there", told.process));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn a_slot_that_nobody_put_is_found() {
        assert!(Story::new().land(1, 7).believed(&[(1, 7)]).run(check).is_ok());
        assert!(Story::new().land(1, 7).believed(&[(1, 8)]).run(check).is_err());
    }
}
