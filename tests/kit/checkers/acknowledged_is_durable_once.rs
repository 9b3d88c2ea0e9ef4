//! Whatever was acknowledged is in the log from then on, at its sequence, once, and its page's ledger remembers it.

use commit_log::log::Outcome;

use super::Evidence;
use crate::log_world::told::Claim;

/// The claims *won* and *landed* against the genuine slots; every ledger against the slots of its page.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    let chronicle = evidence.chronicle;
    for told in evidence.told {
        let (Claim::Won(attempt) | Claim::Outcome(attempt, Outcome::Landed)) = &told.claim else { continue };
        let genuine = chronicle.genuine_by(attempt.sequence, told.heard);
        if !genuine.is_some_and(|landed| landed.slot.carries(attempt.transaction)) {
            return Err(format!("{attempt:?} was acknowledged, and {genuine:?} is genuine"));
        }
    }
    for (transaction, places) in chronicle.places_of() {
        if places.len() > 1 {
            return Err(format!("{transaction:?} is committed at {places:?}"));
        }
    }
    for (page, retired) in chronicle.retired() {
        let Some(ledger) = &retired.ledger else { return Err(format!("the ledger of {page:?} is unreadable")) };
        for (sequence, landed) in chronicle.genuine().iter().filter(|(sequence, _)| chronicle.page_of(**sequence) == *page) {
            let entry = ledger.entry(*sequence);
            if !entry.is_some_and(|entry| entry.own_id == landed.own_id() && entry.members == landed.slot.envelope().members) {
                return Err(format!("{landed:?} is genuine, and its ledger says {entry:?}"));
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
    fn an_acknowledged_commit_that_is_nowhere_is_found() {
        assert!(Story::new().land(1, 7).won(7, 1).run(check).is_ok());
        assert!(Story::new().won(7, 1).land(1, 7).run(check).is_err());
        assert!(Story::new().land(1, 8).won(7, 1).run(check).is_err());
    }

    #[test]
    fn a_commit_that_is_there_twice_is_found() {
        assert!(Story::new().land(1, 7).land(2, 7).run(check).is_err());
    }

    #[test]
    fn a_ledger_that_remembers_another_is_found() {
        assert!(Story::new().land(1, 7).land(2, 8).retire(0).run(check).is_ok());
        assert!(Story::new().land(1, 7).land(2, 8).retire_as(0, &[8, 7]).run(check).is_err());
    }
}
