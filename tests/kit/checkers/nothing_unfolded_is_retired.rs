//! What the store has not folded stays: no slot above the floor of the newest manifest is deleted, and no page that reaches
//! past it, nor the one that the floor is in, gets a ledger.

use super::Evidence;

/// Every ledger and every delete against the manifest that was the newest at that instant.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    let Evidence { chronicle, manifests, .. } = evidence;
    for (page, retired) in chronicle.retired() {
        let floor = manifests.floor_before(retired.effect);
        if floor.is_none_or(|floor| *page >= chronicle.page_of(floor)) {
            return Err(format!("{page:?} was retired, and {floor:?} was the floor"));
        }
    }
    for deleted in chronicle.deleted() {
        let floor = manifests.floor_before(deleted.effect);
        if floor < Some(deleted.sequence) {
            return Err(format!("{deleted:?}, and {floor:?} was the floor"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    fn four() -> Story {
        Story::unfolded().land(1, 7).land(2, 8).land(3, 9).land(4, 10)
    }

    #[test]
    fn a_page_that_was_retired_before_it_was_flushed_is_found() {
        assert!(four().applied(3).flushed(3).retire(0).delete(1).run(check).is_ok());
        assert!(four().applied(3).retire(0).flushed(3).run(check).is_err());
    }

    #[test]
    fn the_page_of_the_floor_that_was_retired_is_found() {
        assert!(four().applied(2).flushed(2).retire(0).run(check).is_err());
    }

    #[test]
    fn a_page_that_was_retired_by_the_higher_point_of_a_half_applied_manifest_is_found() {
        assert!(four().applied(3).half_flushed(3).retire(0).run(check).is_err());
    }

    #[test]
    fn a_delete_above_the_floor_is_found() {
        assert!(four().applied(4).flushed(3).delete(3).run(check).is_ok());
        assert!(four().applied(4).flushed(3).delete(4).run(check).is_err());
    }
}
