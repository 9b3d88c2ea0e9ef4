//! The rows of a world's store: a bank, registers, and for every transaction a row that says what it read.

use bytes::Bytes;

use super::checks::Rows;

/// The prefix of the accounts.
pub const ACCOUNTS: &str = "account/";
/// The prefix of the registers.
pub const REGISTERS: &str = "register/";
/// The prefix of the rows in which transactions say what they did.
pub const DEEDS: &str = "deed/";
/// How many accounts there are.
pub const ACCOUNT_COUNT: u64 = 6;
/// What each holds at the beginning.
pub const OPENING: u64 = 100;
/// What all hold together, always.
pub const TOTAL: u64 = ACCOUNT_COUNT * OPENING;
/// How many registers there are.
pub const REGISTER_COUNT: u64 = 4;

/// The key of an account.
pub fn account(number: u64) -> Bytes {
    format!("{ACCOUNTS}{number:02}").into()
}

/// The key of a register.
pub fn register(number: u64) -> Bytes {
    format!("{REGISTERS}{number:02}").into()
}

/// What an account's row says.
pub fn amount(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

pub(super) fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(b"\0")
}

/// What a transaction says that it read, in a row of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Did {
    /// Keys and what they held.
    pub read: Vec<(String, Option<String>)>,
    /// The prefix that was scanned to its end; what is in `read` is then all it held.
    pub scanned: Option<String>,
}

impl Did {
    /// A row's value.
    pub fn encode(&self) -> Bytes {
        let mut text = format!("scan {}\n", self.scanned.as_deref().unwrap_or("nothing"));
        for (key, value) in &self.read {
            text += &match value {
                Some(value) => format!("{key}={value}\n"),
                None => format!("{key}\n"),
            };
        }
        text.into()
    }

    /// Reads a row, if it is one of these.
    pub fn decode(key: &[u8], value: &[u8]) -> Option<Did> {
        if !key.starts_with(DEEDS.as_bytes()) {
            return None;
        }
        let mut lines = std::str::from_utf8(value).unwrap().lines();
        let scanned = lines.next().unwrap().strip_prefix("scan ").unwrap();
        let read = lines.map(|line| match line.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => (line.to_owned(), None),
        });
        Some(Did { read: read.collect(), scanned: (scanned != "nothing").then(|| scanned.to_owned()) })
    }

    /// Adds what a key held.
    pub fn note(&mut self, key: &[u8], value: Option<&Bytes>) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        self.read.push((text(key), value.map(|value| text(value))));
    }

    /// Whether all of it is so in `state`.
    pub fn holds_over(&self, state: &Rows) -> Result<(), String> {
        for (key, value) in &self.read {
            let holds = state.get(key.as_bytes()).map(|value| String::from_utf8(value.to_vec()).unwrap());
            if holds != *value {
                return Err(format!("{key} was read as {value:?} and held {holds:?}"));
            }
        }
        let Some(prefix) = &self.scanned else { return Ok(()) };
        let held = state.keys().filter(|key| key.starts_with(prefix.as_bytes())).count();
        match held == self.read.len() {
            true => Ok(()),
            false => Err(format!("a scan of {prefix} saw {} rows of {held}", self.read.len())),
        }
    }
}
