//! While the fate of a transaction at one sequence is open, it is put at no other. A put where it is known never to land is
//! a straggler that can harm nobody: the sequence is decided.

use std::collections::BTreeMap;

use super::Evidence;

/// Every put of a transaction against its earlier puts elsewhere and what its client had been told of them.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut earlier = BTreeMap::new();
    for sent in evidence.chronicle.sent() {
        for member in &sent.slot.envelope().members {
            let before: &mut Vec<_> = earlier.entry(*member).or_default();
            let mut elsewhere = before.iter().filter(|at| **at != sent.sequence);
            let told_never =
                |at| evidence.told.iter().any(|told| told.heard.sent <= sent.number && told.says_never(*member, at));
            if let Some(at) = elsewhere.find(|at| !told_never(**at))
                && !told_never(sent.sequence)
            {
                return Err(format!("{sent:?}, and {member:?} was open at {at:?}"));
            }
            if !before.contains(&sent.sequence) {
                before.push(sent.sequence);
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
    fn a_transaction_that_is_open_twice_is_found() {
        assert!(Story::new().land(1, 7).send(2, 8).land(2, 9).lost(8, 2, 9).send(3, 8).run(check).is_ok());
        assert!(Story::new().land(1, 7).send(2, 8).send(3, 8).run(check).is_err());
        assert!(Story::new().send(1, 8).lost(8, 1, 7).send(2, 8).send(1, 8).run(check).is_ok());
    }
}
