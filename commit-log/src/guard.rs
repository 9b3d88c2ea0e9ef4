//! The guard: an undecodable object in the native `wal/` folder that bars or ends native history. Pure.
//!
//! A SlateDB without the log's plug that opens the store meets the guard, cannot read it and refuses, instead of opening
//! without the log's tail and losing it.

use bytes::Bytes;

use crate::identity::LogId;

/// The native WAL id of the guard on a store that has no native history.
pub const FRESH_GUARD_ID: u64 = 1;

const OPENING: &str = "This store is committed to through a shared commit log. Open it with the commit-log library.\nlog ";
const CLOSING: &str = "\nend of guard\n";

/// The size of every guard, in bytes: what has another size need not be read to know that it is none.
pub const GUARD_BYTES: u64 = (OPENING.len() + 32 + CLOSING.len()) as u64;

/// The guard's bytes: readable text that names the library and the log. More than SlateDB's footer, so that it is not taken
/// for an empty file, and its last two bytes are no format version of SlateDB's.
pub fn guard(log: LogId) -> Bytes {
    Bytes::from(format!("{OPENING}{log}{CLOSING}"))
}

/// The log whose guard this is. `None` for anything else; the whole body is compared.
pub fn guarded_log(bytes: &[u8]) -> Option<LogId> {
    let text = std::str::from_utf8(bytes).ok()?;
    LogId::parse(text.strip_prefix(OPENING)?.strip_suffix(CLOSING)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_names_its_log_and_nothing_else_is_a_guard() {
        let log = LogId::from_bytes([0xab; 16]);
        let bytes = guard(log);
        assert!(bytes.len() >= 64);
        assert_eq!(bytes.len() as u64, GUARD_BYTES);
        assert_eq!(guarded_log(&bytes), Some(log));
        for length in 0..bytes.len() {
            assert_eq!(guarded_log(&bytes[..length]), None);
        }
        assert_eq!(guarded_log(b"\0\0\0\x01"), None);
    }
}
