//! What is believed or served under a name is the slot that was genuine there: no zombie, and nothing of a store that stood
//! at the same place before.

use super::Evidence;
use crate::log_world::chronicle::Oddity;
use crate::log_world::told::{Claim, SeenSlot, Told};

/// Every slot that was handed out against the genuine one; every open against the log that the store is on.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    let chronicle = evidence.chronicle;
    if let Some(odd) = chronicle.oddities().iter().find(|odd| matches!(odd, Oddity::OtherLog(_))) {
        return Err(format!("{odd:?}"));
    }
    let genuine = |told: &Told, seen: &SeenSlot| match chronicle.genuine_by(seen.sequence, told.heard) {
        Some(landed) if landed.own_id() == seen.own_id => Ok(()),
        landed => Err(format!("{:?} took {seen:?} for genuine, and {landed:?} is", told.process)),
    };
    for told in evidence.told {
        match &told.claim {
            Claim::Believed(slots) | Claim::Served { slots, .. } => {
                slots.iter().try_for_each(|seen| genuine(told, seen))?;
            }
            Claim::Lost(_, winner) => genuine(told, winner)?,
            Claim::Opened(log) if *log != chronicle.log() => {
                return Err(format!("{:?} opened {log:?}, and the store is on {:?}", told.process, chronicle.log()));
            }
            Claim::Opened(_) | Claim::Won(_) | Claim::Behind(_) | Claim::Unknown(_) | Claim::NothingSent(_) => {}
            Claim::Outcome(..) | Claim::StillOpen(_) | Claim::End(_) | Claim::Retired { .. } => {}
            Claim::Withheld(_) | Claim::Corrupt(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn a_zombie_that_is_believed_is_found() {
        let retired = || Story::new().land(1, 7).land(2, 8).retire(0).delete(1).land(1, 9);
        assert!(retired().believed(&[(1, 7)]).run(check).is_ok());
        assert!(retired().believed(&[(1, 9)]).run(check).is_err());
        assert!(retired().lost(10, 1, 9).run(check).is_err());
    }

    #[test]
    fn an_open_of_the_store_before_is_found() {
        assert!(Story::new().opened(Story::LOG).run(check).is_ok());
        assert!(Story::new().opened(Story::OTHER_LOG).run(check).is_err());
    }
}
