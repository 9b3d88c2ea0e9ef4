//! For every sequence, over all time, one content and one winner.

use std::collections::BTreeMap;

use commit_log::log::Outcome;

use super::Evidence;
use crate::log_world::chronicle::Oddity;
use crate::log_world::told::Claim;

/// The winners that were acknowledged, and the creates of one name.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    if let Some(odd) = evidence.chronicle.oddities().iter().find(|odd| matches!(odd, Oddity::CreatedTwice(_))) {
        return Err(format!("{odd:?}"));
    }
    let mut winners = BTreeMap::new();
    for told in evidence.told {
        let (Claim::Won(attempt) | Claim::Outcome(attempt, Outcome::Landed)) = &told.claim else { continue };
        let winner = winners.entry(attempt.sequence).or_insert(attempt.transaction);
        if *winner != attempt.transaction {
            return Err(format!("{winner:?} and {:?} were both acknowledged at {:?}", attempt.transaction, attempt.sequence));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn two_winners_are_found() {
        assert!(Story::new().land(1, 7).won(7, 1).won(7, 1).run(check).is_ok());
        assert!(Story::new().land(1, 7).won(7, 1).won(8, 1).run(check).is_err());
    }

    #[test]
    fn a_name_that_was_created_twice_is_found() {
        assert!(Story::new().land(1, 7).delete(1).land(1, 8).run(check).is_err());
    }
}
