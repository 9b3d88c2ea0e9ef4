//! A read that fails is an error: slots that are handed out are all that were asked for, in order, none left out.

use super::Evidence;
use crate::log_world::told::Claim;

/// Every run of slots that was served, and every run that was believed.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    for told in evidence.told {
        let (slots, last) = match &told.claim {
            Claim::Served { slots, first, last } => {
                if slots.first().is_none_or(|slot| slot.sequence != *first) {
                    return Err(format!("{:?} asked for {first:?} and got {:?}", told.process, slots.first()));
                }
                (slots, Some(*last))
            }
            Claim::Believed(slots) => (slots, None),
            Claim::Won(_) | Claim::Lost(..) | Claim::Behind(_) | Claim::Unknown(_) | Claim::NothingSent(_) => continue,
            Claim::Outcome(..) | Claim::StillOpen(_) | Claim::Opened(_) | Claim::End(_) => continue,
            Claim::Retired { .. } | Claim::Withheld(_) | Claim::Corrupt(_) => continue,
        };
        if let Some(pair) = slots.windows(2).find(|pair| pair[1].sequence != pair[0].sequence.next()) {
            return Err(format!("{:?} got {:?} after {:?}", told.process, pair[1], pair[0]));
        }
        if let (Some(last), got) = (last, slots.last())
            && got.is_none_or(|slot| slot.sequence != last)
        {
            return Err(format!("{:?} asked for slots up to {last:?} and got {got:?} as the last", told.process));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn a_short_answer_is_found() {
        let three = || Story::new().land(1, 7).land(2, 8).land(3, 9);
        assert!(three().served(1, 3, &[(1, 7), (2, 8), (3, 9)]).run(check).is_ok());
        assert!(three().served(1, 3, &[(1, 7), (2, 8)]).run(check).is_err());
        assert!(three().served(1, 3, &[(1, 7), (3, 9)]).run(check).is_err());
        assert!(three().served(1, 3, &[]).run(check).is_err());
        assert!(three().believed(&[(1, 7), (3, 9)]).run(check).is_err());
    }
}
