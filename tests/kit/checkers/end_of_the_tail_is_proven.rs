//! The end of the log is where it was when the reader asked, or further on; never short of it.

use super::Evidence;
use crate::log_world::told::Claim;

/// Every proved end against the true head at the instant of the question.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    for told in evidence.told {
        let Claim::End(head) = &told.claim else { continue };
        let there = evidence.chronicle.head_by(told.asked);
        if *head < there {
            return Err(format!("{:?} was told that the log ends at {head:?}, and {there:?} was there", told.process));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn an_end_that_is_short_is_found() {
        assert!(Story::new().land(1, 7).asked().land(2, 8).end(1).run(check).is_ok());
        assert!(Story::new().land(1, 7).land(2, 8).asked().end(1).run(check).is_err());
    }
}
