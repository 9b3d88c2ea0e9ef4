//! What a transfer reads and writes: the rows of accounts and transfers, as text that `scan` shows. Pure.

use commit_log::identity::TransactionId;
use serde::{Deserialize, Serialize};

use super::plan::{Account, Transfer};

/// What one transfer left in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRow {
    /// The transaction that wrote it.
    pub transaction: TransactionId,
    /// Where the money came from.
    pub from: Account,
    /// Where it went.
    pub to: Account,
    /// How much was moved.
    pub moved: u64,
}

/// The two balances that a transfer touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balances {
    /// Of the account that the money comes from.
    pub from: u64,
    /// Of the account that it goes to.
    pub to: u64,
}

/// A row's value that no demo writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row `{key}`: expected {expected}, found \"{}\"", actual.escape_ascii())]
pub struct BadRow {
    /// The row.
    pub key: String,
    /// What a demo writes.
    pub expected: &'static str,
    /// What is there, shortened.
    pub actual: Vec<u8>,
}

/// The most bytes of a bad value that a message shows.
const MAX_SHOWN_BYTES: usize = 80;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    from: u32,
    to: u32,
    moved: u64,
    transaction: String,
}

impl TransferRow {
    /// Its value in the store.
    pub fn value(&self) -> String {
        let TransferRow { transaction, from, to, moved } = self;
        format!(r#"{{"from":{},"to":{},"moved":{moved},"transaction":"{transaction}"}}"#, from.0, to.0)
    }

    /// Reads the value of row `key` back.
    ///
    /// # Errors
    ///
    /// For everything that [`TransferRow::value`] does not write.
    pub fn parse(key: &str, value: &[u8]) -> Result<TransferRow, BadRow> {
        let text: Option<Text> = serde_json::from_slice(value).ok();
        let row = text.and_then(|Text { from, to, moved, transaction }| {
            let transaction = TransactionId::parse(&transaction)?;
            Some(TransferRow { transaction, from: Account(from), to: Account(to), moved })
        });
        row.ok_or_else(|| bad(key, "a transfer", value))
    }
}

/// Reads the value of row `key`, a balance in decimal digits.
///
/// # Errors
///
/// For everything else.
pub fn balance(key: &str, value: &[u8]) -> Result<u64, BadRow> {
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| bad(key, "a balance", value))
}

/// The balances after `transfer`, and how much it moved: what it would, or what there is.
pub fn moved(transfer: Transfer, before: Balances) -> (Balances, u64) {
    // No balance overflows: all money together is far below a `u64`.
    let moved = transfer.amount.min(before.from);
    (Balances { from: before.from - moved, to: before.to.saturating_add(moved) }, moved)
}

fn bad(key: &str, expected: &'static str, value: &[u8]) -> BadRow {
    BadRow { key: key.to_owned(), expected, actual: value.iter().take(MAX_SHOWN_BYTES).copied().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back() {
        let transaction = TransactionId::from_bytes([0xab; 16]);
        let row = TransferRow { transaction, from: Account(3), to: Account(14), moved: 77 };
        let value = row.value();
        assert_eq!(value, r#"{"from":3,"to":14,"moved":77,"transaction":"abababababababababababababababab"}"#);
        assert_eq!(TransferRow::parse("k", value.as_bytes()), Ok(row));
        assert_eq!(balance("k", b"1000"), Ok(1_000));
    }

    #[test]
    fn rows_that_no_demo_writes_are_named() {
        for value in ["", "x", "-1", "+1", " 1", "99999999999999999999999"] {
            assert!(balance("account/000001", value.as_bytes()).is_err(), "{value}");
        }
        let error = TransferRow::parse("transfer/00/0000001", b"{}").unwrap_err();
        assert_eq!(error.to_string(), "row `transfer/00/0000001`: expected a transfer, found \"{}\"");
    }

    #[test]
    fn a_transfer_moves_what_there_is_and_no_money_is_made() {
        let transfer = Transfer { from: Account(0), to: Account(1), amount: 50 };
        for (held, expected) in [(1_000, 50), (50, 50), (20, 20), (0, 0)] {
            let (after, actual) = moved(transfer, Balances { from: held, to: 7 });
            assert_eq!(actual, expected);
            assert_eq!(after, Balances { from: held - expected, to: 7 + expected });
        }
    }
}
