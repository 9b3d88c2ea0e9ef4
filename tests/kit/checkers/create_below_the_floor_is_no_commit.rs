//! A create in a retired page can succeed, since the bucket has no memory; it is never acknowledged.

use commit_log::log::Outcome;

use super::Evidence;
use crate::log_world::told::Claim;

/// No *won* or *landed* for a transaction that only a zombie carries.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    for told in evidence.told {
        let (Claim::Won(attempt) | Claim::Outcome(attempt, Outcome::Landed)) = &told.claim else { continue };
        let carries = |slot: &commit_log::envelope::Slot| slot.carries(attempt.transaction);
        let genuine = evidence.chronicle.genuine().get(&attempt.sequence).is_some_and(|landed| carries(&landed.slot));
        let zombie = evidence.chronicle.zombies().iter().find(|zombie| {
            zombie.effect < told.heard.effects && zombie.slot.sequence() == attempt.sequence && carries(&zombie.slot)
        });
        if let (false, Some(zombie)) = (genuine, zombie) {
            return Err(format!("{attempt:?} was acknowledged for {zombie:?}, created in a retired page"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn an_acknowledged_zombie_is_found() {
        let retired = || Story::new().land(1, 7).land(2, 8).retire(0).delete(1).land(1, 9);
        assert!(retired().behind(9, 1).run(check).is_ok());
        assert!(retired().won(9, 1).run(check).is_err());
    }
}
