//! A missing slot above the floor is damage, and nothing else is: a listing is no snapshot, and a retired page is no hole.

use super::Evidence;
use crate::log_world::told::Claim;

/// No corruption is reported of a bucket that nobody damaged, and none is retired that has no ledger. What is reported of a
/// damaged one is judged by the damage itself.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    for told in evidence.told {
        match &told.claim {
            Claim::Corrupt(corruption) => {
                return Err(format!("{:?} was told of damage in a sound bucket: {corruption}", told.process));
            }
            Claim::Retired { after } => {
                let lowest = after.map_or(evidence.chronicle.origin(), |after| after.next());
                if !evidence.chronicle.was_retired_by(evidence.chronicle.page_of(lowest), told.heard) {
                    return Err(format!("{:?} was told that {lowest:?} is retired, and it is not", told.process));
                }
            }
            Claim::Won(_) | Claim::Lost(..) | Claim::Behind(_) | Claim::Unknown(_) | Claim::NothingSent(_) => {}
            Claim::Outcome(..) | Claim::StillOpen(_) | Claim::Opened(_) | Claim::Believed(_) => {}
            Claim::Served { .. } | Claim::Withheld(_) | Claim::End(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn damage_that_is_none_is_found() {
        assert!(Story::new().land(1, 7).run(check).is_ok());
        assert!(Story::new().land(1, 7).corrupt(1).run(check).is_err());
    }

    #[test]
    fn a_retirement_that_is_none_is_found() {
        assert!(Story::new().land(1, 7).land(2, 8).retire(0).gone(None).run(check).is_ok());
        assert!(Story::new().land(1, 7).land(2, 8).gone(None).run(check).is_err());
    }
}
