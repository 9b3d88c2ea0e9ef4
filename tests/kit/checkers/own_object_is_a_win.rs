//! Whoever meets its own object has won: an offer whose transaction has the sequence is not lost and not behind.

use super::Evidence;
use crate::log_world::told::Claim;

/// Every *lost* and *behind* against the genuine slot, which must be there by then and another's.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    for told in evidence.told {
        let (Claim::Lost(attempt, _) | Claim::Behind(attempt)) = &told.claim else { continue };
        match evidence.chronicle.genuine_by(attempt.sequence, told.heard) {
            Some(landed) if !landed.slot.carries(attempt.transaction) => {}
            landed => return Err(format!("{:?}, and {landed:?} is genuine", told.claim)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn a_win_that_was_called_a_loss_is_found() {
        assert!(Story::new().land(1, 7).lost(8, 1, 7).run(check).is_ok());
        assert!(Story::new().land(1, 7).lost(7, 1, 7).run(check).is_err());
        assert!(Story::new().land(1, 7).behind(7, 1).run(check).is_err());
    }

    #[test]
    fn a_loss_to_nobody_is_found() {
        assert!(Story::new().behind(7, 1).run(check).is_err());
    }
}
