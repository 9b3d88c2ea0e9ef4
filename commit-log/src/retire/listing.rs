//! What one listing of the slots tells a collector: which pages are whole, how old they are, what lies below. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bucket::Listed;
use crate::slot::{Page, PageSize, Sequence, run};

/// The slots that a listing showed, with when the store says that each was written.
///
/// A listing is no snapshot. What it misses delays a page or leaves a zombie to the next pass; nothing is ever believed of it.
pub(super) struct Listing {
    size: PageSize,
    written_millis: BTreeMap<Sequence, i64>,
}

impl Listing {
    pub(super) fn new(size: PageSize, listed: &[Listed]) -> Listing {
        let slots = listed.iter().filter_map(|slot| Some((Sequence::from_name(&slot.name)?, slot.written_millis)));
        Listing { size, written_millis: slots.collect() }
    }

    /// The lowest page from `from` on of the slots that lead to the newest one without a gap: where to begin, most likely. A page
    /// that was listed whole below a gap was retired, and its names were created again.
    pub(super) fn lowest_whole_page(&self, from: Page) -> Option<Page> {
        let from = *self.size.sequences(from)?.start();
        let mut listed = self.written_millis.range(from..).map(|(sequence, _)| *sequence);
        let mut last = listed.next()?;
        let mut first = last;
        for sequence in listed {
            if sequence != last.next() {
                first = sequence;
            }
            last = sequence;
        }
        let page = self.size.page_of(first);
        let begins_page = self.size.sequences(page).is_some_and(|sequences| *sequences.start() == first);
        let page = if begins_page { page } else { page.next() };
        (*self.size.sequences(page)?.end() <= last).then_some(page)
    }

    /// Whether the newest slot is at least `age` younger than the one after the last of `page`, by the store's own clock.
    ///
    /// SUBTLE: not than the last one itself, which a store may date long before it has its name: a file is written first and
    /// linked then, and its process may sleep between the two. The slot after it names it as its parent, so nobody began to
    /// write that one before the last one was there to be read.
    pub(super) fn is_older_than(&self, page: Page, age: Duration) -> bool {
        if age.is_zero() {
            return true;
        }
        let after = self.size.sequences(page).and_then(|sequences| self.written_millis.get(&sequences.end().next()));
        let newest = self.written_millis.last_key_value().map(|(_, millis)| millis);
        let (Some(after), Some(newest)) = (after, newest) else { return false };
        u128::try_from(newest.saturating_sub(*after)).is_ok_and(|apart| apart >= age.as_millis())
    }

    /// The slots below `page` that were listed.
    pub(super) fn below(&self, page: Page) -> Vec<Sequence> {
        let below = self.written_millis.keys().copied();
        below.take_while(|sequence| self.size.page_of(*sequence) < page).collect()
    }
}

/// The sequences of a page.
pub(super) fn sequences(size: PageSize, page: Page) -> Vec<Sequence> {
    size.sequences(page).map_or_else(Vec::new, |sequences| run(*sequences.start(), *sequences.end()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(slots: &[(u64, i64)]) -> Listing {
        let listed = slots
            .iter()
            .map(|(number, millis)| Listed { name: Sequence::new(*number).unwrap().name(), written_millis: *millis });
        Listing::new(PageSize::new(2).unwrap(), &listed.collect::<Vec<_>>())
    }

    #[test]
    fn a_page_with_a_missing_slot_is_not_whole() {
        let listed = listing(&[(1, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0)]);
        assert_eq!(listed.lowest_whole_page(Page::new(0)), Some(Page::new(2)));
        assert_eq!(listed.lowest_whole_page(Page::new(3)), Some(Page::new(3)));
        assert_eq!(listed.lowest_whole_page(Page::new(4)), None);
        assert_eq!(listing(&[(1, 0), (3, 0)]).lowest_whole_page(Page::new(0)), None);
        assert_eq!(listed.below(Page::new(2)), [1, 4].map(|number| Sequence::new(number).unwrap()));
    }

    #[test]
    fn a_retired_page_that_was_created_again_whole_is_not_where_to_begin() {
        let listed = listing(&[(1, 9), (2, 9), (6, 0), (7, 0), (8, 0), (9, 0)]);
        assert_eq!(listed.lowest_whole_page(Page::new(0)), Some(Page::new(3)));
    }

    #[test]
    fn age_is_told_by_the_newest_slot_and_the_one_after_the_pages_last() {
        let listed = listing(&[(1, 500), (2, 700), (3, 1_000), (4, 2_000)]);
        let second = Duration::from_secs(1);
        assert!(listed.is_older_than(Page::new(0), second));
        assert!(!listed.is_older_than(Page::new(0), second + Duration::from_millis(1)));
        assert!(!listed.is_older_than(Page::new(1), Duration::from_millis(1)));
        assert!(listed.is_older_than(Page::new(1), Duration::ZERO));
    }

    #[test]
    fn a_last_slot_that_is_dated_before_it_had_its_name_makes_its_page_no_older() {
        let listed = listing(&[(1, 8_000), (2, 0), (3, 9_000), (4, 9_500)]);
        assert!(!listed.is_older_than(Page::new(0), Duration::from_secs(1)));
    }

    #[test]
    fn a_listing_that_misses_the_slot_after_the_pages_last_or_runs_backwards_only_delays() {
        assert!(!listing(&[(1, 0), (2, 0), (4, 9_000)]).is_older_than(Page::new(0), Duration::from_secs(1)));
        assert!(!listing(&[(1, 0), (2, 0), (3, 9_000), (4, 0)]).is_older_than(Page::new(0), Duration::from_secs(1)));
    }
}
