//! What is not known becomes landed or never, and stays so. Neither is said before it is decided, nor *open* after.

use std::collections::BTreeMap;

use commit_log::log::{Attempt, Outcome};

use super::Evidence;
use crate::log_world::told::{Claim, Told};

/// Every answer about an attempt against the genuine slot, and against the answers before it.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut answers = BTreeMap::new();
    for told in evidence.told {
        if let Claim::StillOpen(attempt) = &told.claim {
            return Err(format!("{attempt:?} is open after it was closed"));
        }
        let Some((attempt, outcome)) = said(told) else { continue };
        let key = (attempt.sequence, attempt.transaction);
        let before = answers.get(&key);
        if let Some(before) = before.filter(|before| **before != outcome) {
            return Err(format!("{attempt:?} was {before:?} and is {outcome:?}"));
        }
        if outcome != Outcome::Open {
            answers.insert(key, outcome);
        }
        right(evidence, told, attempt, outcome)?;
    }
    Ok(())
}

/// Whether what was said is what was so.
fn right(evidence: &Evidence<'_>, told: &Told, attempt: Attempt, outcome: Outcome) -> Result<(), String> {
    let Attempt { transaction, sequence } = attempt;
    let by = if outcome == Outcome::Open { told.asked } else { told.heard };
    let genuine = evidence.chronicle.genuine_by(sequence, by);
    let is_so = match outcome {
        Outcome::Landed => genuine.is_some_and(|landed| landed.slot.carries(transaction)),
        Outcome::Never => genuine.is_some_and(|landed| !landed.slot.carries(transaction)),
        Outcome::Open => genuine.is_none(),
    };
    if is_so { Ok(()) } else { Err(format!("{attempt:?} was called {outcome:?}, and {genuine:?} is genuine")) }
}

/// What an answer says of an attempt.
fn said(told: &Told) -> Option<(Attempt, Outcome)> {
    match &told.claim {
        Claim::Won(attempt) => Some((*attempt, Outcome::Landed)),
        Claim::Lost(attempt, _) | Claim::Behind(attempt) => Some((*attempt, Outcome::Never)),
        Claim::Outcome(attempt, outcome) => Some((*attempt, *outcome)),
        Claim::Unknown(_) | Claim::NothingSent(_) | Claim::StillOpen(_) | Claim::Opened(_) => None,
        Claim::Believed(_) | Claim::Served { .. } | Claim::End(_) | Claim::Retired { .. } => None,
        Claim::Withheld(_) | Claim::Corrupt(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    use commit_log::log::Outcome;

    #[test]
    fn an_answer_that_flips_is_found() {
        let landed = || Story::new().land(1, 7).outcome(7, 1, Outcome::Landed);
        assert!(landed().outcome(7, 1, Outcome::Landed).run(check).is_ok());
        assert!(landed().outcome(7, 1, Outcome::Never).run(check).is_err());
        assert!(landed().outcome(7, 1, Outcome::Open).run(check).is_err());
    }

    #[test]
    fn an_answer_before_its_time_is_found() {
        assert!(Story::new().outcome(7, 1, Outcome::Never).land(1, 8).run(check).is_err());
        assert!(Story::new().asked().land(1, 8).outcome(7, 1, Outcome::Open).run(check).is_ok());
        assert!(Story::new().land(1, 8).asked().outcome(7, 1, Outcome::Open).run(check).is_err());
    }
}
