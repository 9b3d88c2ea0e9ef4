//! Rows as files hold them: a key and a value, in one of two formats, one row a line.

mod deal;
mod read;
mod write;

use std::fmt;

use bytes::Bytes;

pub use deal::deal;
pub use read::{ReadError, RowReader};
pub use write::{RowWriter, Unholdable, WriteError};

/// The longest line that is read. A slot is at most 16 MiB, and base64 and JSON's quotes make a row longer by a third;
/// escapes (`\u0000`) by six times, of which a sensible file has few.
pub const MAX_LINE_BYTES: usize = 32 << 20;

/// One row.
#[derive(Clone, PartialEq, Eq)]
pub struct Row {
    /// The key, never empty.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row \"{}\" of {} B", self.key.escape_ascii(), self.value.len())
    }
}

/// How a file holds rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Bytes as they are: the key, a TAB, the value, a line feed. The key ends at the first TAB, the value may hold more.
    Tsv,
    /// A JSON object a line: `key` or `key_base64`, `value` or `value_base64`.
    JsonLines,
}

#[cfg(test)]
mod tests;
