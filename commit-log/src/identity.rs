//! The 128-bit names of things: logs, transactions and envelopes. No I/O; whoever needs a new one passes the randomness.

use std::fmt;

use crate::environment::Randomness;

/// Reads thirty-two lower-case hexadecimal digits.
fn from_hex(text: &str) -> Option<[u8; 16]> {
    let digits = text.as_bytes();
    let lower_case = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if digits.len() != 32 || !lower_case {
        return None;
    }
    u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)
}

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// The identity with these bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// Reads what a message of the log carries. `None` unless there are sixteen bytes.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self)
            }

            /// Its bytes.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// Reads thirty-two lower-case hexadecimal digits, the form in which it is printed.
            pub fn parse(text: &str) -> Option<Self> {
                from_hex(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", u128::from_be_bytes(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), " {}"), self)
            }
        }
    };
}

identity! {
    /// A log's identity. It stands in every object's name, so a store that was dropped and created again, or put back from
    /// a copy under a new identity, never meets the names of the one before.
    LogId
}

identity! {
    /// A transaction's identity: the same at every offer of one transaction, another for every transaction.
    TransactionId
}

identity! {
    /// An envelope's own id: a hash of its whole body, in which a random nonce stands. Equal ids mean equal bytes, also
    /// when two processes were started from one machine image and draw the same random numbers.
    OwnId
}

impl LogId {
    /// Draws a new identity.
    pub fn random(randomness: &Randomness) -> LogId {
        LogId(randomness.bytes())
    }
}

impl TransactionId {
    /// Draws a new identity.
    pub fn random(randomness: &Randomness) -> TransactionId {
        TransactionId(randomness.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back() {
        let id = LogId::from_bytes([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 254, 255]);
        assert_eq!(id.to_string(), "000102030405060708090a0b0c0dfeff");
        assert_eq!(LogId::parse(&id.to_string()), Some(id));
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "",
            "00",
            "000102030405060708090A0B0C0DFEFF",
            "+00102030405060708090a0b0c0dfeff",
            "000102030405060708090a0b0c0dfeff0",
        ] {
            assert_eq!(LogId::parse(text), None, "{text}");
        }
    }
}
