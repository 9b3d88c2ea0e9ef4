//! Which of several writers gets a row.

use std::num::NonZeroUsize;

/// The writer, counted from zero, that gets every row of `key`: rows of one key keep the file's order, since one writer
/// commits them all. The same in every version, so that a load that broke off can be told which rows are whose.
pub fn deal(key: &[u8], writers: NonZeroUsize) -> usize {
    // FNV-1a, then mixed: its low bits alone would deal keys that end alike to one writer.
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let share = (u128::from(mixed) * writers.get() as u128) >> 64;
    usize::try_from(share).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn four() -> NonZeroUsize {
        NonZeroUsize::new(4).unwrap()
    }

    #[test]
    fn a_key_has_the_same_writer_in_every_version() {
        let dealt: Vec<_> = ["", "a", "b", "src/main.rs:1", "src/main.rs:2"].map(|key| deal(key.as_bytes(), four())).into();
        assert_eq!(dealt, GOLDEN);
    }

    const GOLDEN: [usize; 5] = [2, 2, 1, 3, 2];

    #[test]
    fn every_writer_gets_its_share() {
        let mut counts = [0_usize; 4];
        for number in 0..40_000 {
            counts[deal(format!("row-{number}").as_bytes(), four())] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        assert_eq!(deal(b"anything", NonZeroUsize::MIN), 0);
    }
}
