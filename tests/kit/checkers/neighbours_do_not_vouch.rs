//! A re-created slot is not vouched for by the one before it, which may have been re-created as well.

use super::Evidence;
use crate::log_world::told::Claim;

/// No slot is acknowledged or believed that is a zombie on top of another zombie.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    let zombies = evidence.chronicle.zombies();
    for zombie in zombies {
        let sequence = zombie.slot.sequence();
        let neighbour = zombies.iter().find(|other| Some(other.slot.sequence()) == sequence.previous());
        let Some(neighbour) = neighbour else { continue };
        for told in evidence.told.iter().filter(|told| told.heard.effects > zombie.effect.max(neighbour.effect)) {
            let vouched = match &told.claim {
                Claim::Won(attempt) => attempt.sequence == sequence && zombie.slot.carries(attempt.transaction),
                Claim::Believed(slots) | Claim::Served { slots, .. } => slots.iter().any(|seen| seen.own_id == zombie.own_id()),
                Claim::Lost(..) | Claim::Behind(_) | Claim::Unknown(_) | Claim::NothingSent(_) => false,
                Claim::Outcome(..) | Claim::StillOpen(_) | Claim::Opened(_) | Claim::End(_) => false,
                Claim::Retired { .. } | Claim::Withheld(_) | Claim::Corrupt(_) => false,
            };
            let genuine = evidence.chronicle.genuine().get(&sequence);
            if vouched && genuine.is_none_or(|genuine| genuine.own_id() != zombie.own_id()) {
                return Err(format!("{zombie:?} was taken for genuine on top of {neighbour:?}"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn a_zombie_that_a_zombie_vouches_for_is_found() {
        let two = || Story::new().land(1, 7).land(2, 8).retire(0).delete(1).delete(2).land(1, 9).land(2, 10);
        assert!(two().behind(10, 2).run(check).is_ok());
        assert!(two().won(10, 2).run(check).is_err());
        assert!(two().believed(&[(2, 10)]).run(check).is_err());
    }
}
