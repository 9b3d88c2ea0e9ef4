//! Whatever is forgotten was remembered first: no slot is deleted before the ledger of its page and all below it exist, and
//! a ledger exists only of a page whose slots had all landed.

use commit_log::slot::Sequence;

use super::Evidence;
use crate::log_world::chronicle::Retired;

/// Every delete against the ledgers, and the ledgers against one another.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    let chronicle = evidence.chronicle;
    for deleted in chronicle.deleted() {
        let retired = chronicle.retired().get(&chronicle.page_of(deleted.sequence));
        if retired.is_none_or(|retired| retired.effect >= deleted.effect) {
            return Err(format!("{deleted:?} before its page had a ledger"));
        }
    }
    let first = chronicle.page_of(chronicle.origin());
    let landed = |sequence: Sequence, retired: &Retired| {
        chronicle.genuine().get(&sequence).is_some_and(|landed| landed.effect < retired.effect)
    };
    for (page, retired) in chronicle.retired() {
        let below = page.previous().filter(|below| *below >= first);
        let before = below.is_none_or(|below| chronicle.retired().get(&below).is_some_and(|it| it.effect < retired.effect));
        if !before {
            return Err(format!("{page:?} had a ledger before the page below it"));
        }
        if let Some(missing) = chronicle.sequences_of(*page).find(|sequence| !landed(*sequence, retired)) {
            return Err(format!("{page:?} had a ledger before {missing:?} landed"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    #[test]
    fn a_delete_without_a_ledger_is_found() {
        assert!(Story::new().land(1, 7).land(2, 8).retire(0).delete(1).run(check).is_ok());
        assert!(Story::new().land(1, 7).land(2, 8).delete(1).retire(0).run(check).is_err());
    }

    #[test]
    fn a_ledger_out_of_order_is_found() {
        let story = Story::new().land(1, 7).land(2, 8).land(3, 9).land(4, 10);
        assert!(story.retire(1).retire(0).run(check).is_err());
    }

    #[test]
    fn a_ledger_of_a_page_that_was_not_whole_is_found() {
        assert!(Story::new().land(1, 7).retire_as(0, &[7, 8]).land(2, 8).run(check).is_err());
    }
}
