//! The fingerprint of a run: one running hash over everything the bucket was asked, did and answered, in order.

use std::fmt;

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// A truncated sha256: enough to tell contents and runs apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash128(pub [u8; 16]);

impl Hash128 {
    /// The hash of `bytes`.
    pub fn of(bytes: &Bytes) -> Self {
        Self::truncate(Sha256::digest(bytes).as_slice())
    }

    fn truncate(full: &[u8]) -> Self {
        let mut short = [0; 16];
        short.copy_from_slice(&full[..16]);
        Self(short)
    }
}

impl fmt::Debug for Hash128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Hash128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The running hash. Two runs with one fingerprint asked the same, at the same times, with the same answers.
///
/// Records are delimited (every text carries its length), so no two sequences of records feed the same bytes.
#[derive(Clone, Debug, Default)]
pub struct Fingerprint {
    hasher: Sha256,
}

impl Fingerprint {
    /// Adds a number.
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.hasher.update(number.to_le_bytes());
        self
    }

    /// Adds a text with its length.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64);
        self.hasher.update(text.as_bytes());
        self
    }

    /// Adds a content hash.
    pub fn hash(&mut self, hash: Hash128) -> &mut Self {
        self.hasher.update(hash.0);
        self
    }

    /// The fingerprint of everything added so far.
    pub fn value(&self) -> Hash128 {
        Hash128::truncate(self.hasher.clone().finalize().as_slice())
    }
}
