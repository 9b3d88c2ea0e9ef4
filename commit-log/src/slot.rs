//! Positions in the log: sequences, pages and runs of sequences. All position arithmetic is here; nothing here does I/O.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};
use std::ops::RangeInclusive;

/// A slot's number in the log.
///
/// It is also the slot's SlateDB WAL file id and the SlateDB sequence number of all its rows, so nothing converts.
///
/// - Never zero: zero means "before everything" and is an `Option::None` here.
/// - A sequence that came from outside is at most [`Sequence::MAX_FROM_OUTSIDE`], so counting on from it cannot overflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(NonZeroU64);

impl Sequence {
    /// The first sequence there can be.
    pub const FIRST: Sequence = Sequence(NonZeroU64::MIN);

    /// The highest sequence that is accepted from a caller or from the bucket. A log that wins a million slots a second
    /// needs more than a hundred thousand years to reach it, and three times as long again to overflow a `u64`.
    pub const MAX_FROM_OUTSIDE: u64 = 1 << 62;

    /// The digits of a sequence in an object's name: the longest `u64`, so that names sort as numbers do.
    pub const DIGITS: usize = 20;

    /// Checks a number that came from outside. `None` for zero and above [`Sequence::MAX_FROM_OUTSIDE`].
    pub fn new(number: u64) -> Option<Sequence> {
        NonZeroU64::new(number).filter(|number| number.get() <= Self::MAX_FROM_OUTSIDE).map(Sequence)
    }

    /// The number itself.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The sequence after this one.
    #[must_use]
    pub fn next(self) -> Sequence {
        self.plus(1)
    }

    /// The sequence `count` after this one. Counts are sizes of batches, so the sum stays far below `u64::MAX`.
    #[must_use]
    pub fn plus(self, count: u32) -> Sequence {
        Sequence(self.0.saturating_add(u64::from(count)))
    }

    /// The sequence before this one, `None` for the first.
    pub fn previous(self) -> Option<Sequence> {
        NonZeroU64::new(self.get() - 1).map(Sequence)
    }

    /// How many slots lie above `lower` up to this one, zero when there are none. `None` counts from the very beginning.
    pub fn above(self, lower: Option<Sequence>) -> u64 {
        self.get().saturating_sub(lower.map_or(0, Sequence::get))
    }

    /// The name of the object that holds this position: twenty digits.
    pub fn name(self) -> String {
        format!("{:020}", self.get())
    }

    /// Reads a name back. `None` for anything that [`Sequence::name`] does not write.
    pub fn from_name(name: &str) -> Option<Sequence> {
        parse_number(name).and_then(Sequence::new)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.0)
    }
}

/// The sequence that follows `head`, where no head is an empty log that begins at `origin`.
pub fn sequence_after(head: Option<Sequence>, origin: Sequence) -> Sequence {
    head.map_or(origin, Sequence::next)
}

/// The sequences from `first` to `last`, both included. Empty when `last` is the lower one.
pub fn run(first: Sequence, last: Sequence) -> impl DoubleEndedIterator<Item = Sequence> + Clone + Send {
    // Both ends are sequences, so every number between them is one.
    (first.get()..=last.get()).filter_map(|number| NonZeroU64::new(number).map(Sequence))
}

/// A fixed run of sequences that is forgotten as a whole: page `p` holds `p × size + 1 ..= (p + 1) × size`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page(u64);

impl Page {
    /// The page with this number.
    pub fn new(number: u64) -> Page {
        Page(number)
    }

    /// The number itself.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The page after this one.
    #[must_use]
    pub fn next(self) -> Page {
        Page(self.0.saturating_add(1))
    }

    /// The page before this one, `None` for the first.
    pub fn previous(self) -> Option<Page> {
        self.0.checked_sub(1).map(Page)
    }

    /// The name of the object that holds this page's ledger: twenty digits.
    pub fn name(self) -> String {
        format!("{:020}", self.0)
    }

    /// Reads a name back. `None` for anything that [`Page::name`] does not write.
    pub fn from_name(name: &str) -> Option<Page> {
        parse_number(name).map(Page)
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}

/// How many sequences a page has. Written into the adoption record and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize(NonZeroU32);

impl PageSize {
    /// What a log has unless somebody asked for another size.
    pub const DEFAULT: PageSize = match PageSize::new(1024) {
        Some(size) => size,
        None => unreachable!(),
    };

    /// The largest page: its ledger, under 2.5 KiB a slot, stays under the bound on any object of the log.
    pub const MAX: u32 = 8_192;

    /// Checks a size. `None` for zero and above [`PageSize::MAX`].
    pub const fn new(size: u32) -> Option<PageSize> {
        match NonZeroU32::new(size) {
            Some(size) if size.get() <= Self::MAX => Some(PageSize(size)),
            _ => None,
        }
    }

    /// The number of sequences.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    /// The page that holds `sequence`.
    pub fn page_of(self, sequence: Sequence) -> Page {
        Page((sequence.get() - 1) / u64::from(self.get()))
    }

    /// The sequences of `page`. `None` for a page past every sequence there can be.
    pub fn sequences(self, page: Page) -> Option<RangeInclusive<Sequence>> {
        let first = page.0.checked_mul(u64::from(self.get()))?.checked_add(1)?;
        let last = first.checked_add(u64::from(self.get()) - 1)?;
        Some(Sequence::new(first)?..=Sequence::new(last)?)
    }
}

fn parse_number(name: &str) -> Option<u64> {
    let only_digits = name.len() == Sequence::DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| name.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(number: u64) -> Sequence {
        Sequence::new(number).unwrap()
    }

    #[test]
    fn names_sort_as_numbers_do_and_read_back() {
        let numbers = [1, 9, 10, 1024, 1025, Sequence::MAX_FROM_OUTSIDE];
        let names: Vec<_> = numbers.iter().map(|number| sequence(*number).name()).collect();
        assert!(names.is_sorted());
        assert!(names.iter().all(|name| name.len() == Sequence::DIGITS));
        let back: Vec<_> = names.iter().map(|name| Sequence::from_name(name).unwrap().get()).collect();
        assert_eq!(back, numbers);
    }

    #[test]
    fn names_that_nobody_writes_are_refused() {
        for name in ["", "1", "00000000000000000000", "+0000000000000000001", "0000000000000000000a", "000000000000000000001"] {
            assert_eq!(Sequence::from_name(name), None, "{name}");
        }
        assert_eq!(Sequence::from_name("18446744073709551615"), None);
    }

    #[test]
    fn a_page_holds_its_sequences_and_no_others() {
        let size = PageSize::new(4).unwrap();
        for number in 1..=40 {
            let page = size.page_of(sequence(number));
            assert!(size.sequences(page).unwrap().contains(&sequence(number)));
        }
        assert_eq!(size.page_of(sequence(4)), Page::new(0));
        assert_eq!(size.page_of(sequence(5)), Page::new(1));
        assert_eq!(size.sequences(Page::new(1)), Some(sequence(5)..=sequence(8)));
        assert_eq!(size.sequences(Page::new(u64::MAX)), None);
    }

    #[test]
    fn a_run_counts_both_ends() {
        assert_eq!(run(sequence(3), sequence(5)).map(Sequence::get).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(run(sequence(3), sequence(2)).count(), 0);
        assert_eq!(sequence(5).above(Some(sequence(2))), 3);
        assert_eq!(sequence(5).above(None), 5);
        assert_eq!(sequence(2).above(Some(sequence(5))), 0);
    }
}
