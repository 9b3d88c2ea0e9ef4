//! Writes rows, and names the row that a format cannot hold.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::{Row, RowFormat};

/// The most bytes of a key that a message shows.
const MAX_SHOWN_KEY_BYTES: usize = 80;

/// Why a row could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A row that would come back as another one.
    #[error("row \"{key}\": a TSV line cannot hold {what}; use --json")]
    TsvCannotHold {
        /// The row's key, escaped and shortened.
        key: String,
        /// What it has.
        what: Unholdable,
    },
    /// The output took no more.
    #[error("row \"{key}\": the output cannot be written: {}", source.kind())]
    Output {
        /// The row's key, escaped and shortened.
        key: String,
        /// Why.
        source: io::Error,
    },
    /// The output could not be completed.
    #[error("the output cannot be completed: {}", source.kind())]
    Finish {
        /// Why.
        source: io::Error,
    },
}

/// What a TSV line cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unholdable {
    /// The key would end there.
    TabInKey,
    /// The row would end there.
    LineFeedInKey,
    /// The row would end there.
    LineFeedInValue,
}

impl std::fmt::Display for Unholdable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unholdable::TabInKey => "a key with a tab",
            Unholdable::LineFeedInKey => "a key with a line feed",
            Unholdable::LineFeedInValue => "a value with a line feed",
        })
    }
}

#[derive(Serialize)]
struct Fields<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

/// Writes rows, a line each, every line with its line feed.
#[derive(Debug)]
pub struct RowWriter<W> {
    output: W,
    format: RowFormat,
}

impl<W: Write> RowWriter<W> {
    /// Writes to `output`, which had better be buffered.
    pub fn new(output: W, format: RowFormat) -> RowWriter<W> {
        RowWriter { output, format }
    }

    /// Writes one row. Nothing of a row that the format cannot hold is written.
    ///
    /// # Errors
    ///
    /// A row that TSV cannot hold, and an output that takes no more.
    pub fn write(&mut self, row: &Row) -> Result<(), WriteError> {
        let written = match self.format {
            RowFormat::Tsv => {
                if let Some(what) = unholdable(row) {
                    return Err(WriteError::TsvCannotHold { key: shown(&row.key), what });
                }
                self.tsv(row)
            }
            RowFormat::JsonLines => self.json(row),
        };
        written.map_err(|source| WriteError::Output { key: shown(&row.key), source })
    }

    /// Hands everything on, and the output back.
    ///
    /// # Errors
    ///
    /// When the output takes no more.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.output.flush().map_err(|source| WriteError::Finish { source })?;
        Ok(self.output)
    }

    fn tsv(&mut self, row: &Row) -> io::Result<()> {
        self.output.write_all(&row.key)?;
        self.output.write_all(b"\t")?;
        self.output.write_all(&row.value)?;
        self.output.write_all(b"\n")
    }

    fn json(&mut self, row: &Row) -> io::Result<()> {
        let (key, value) = (std::str::from_utf8(&row.key).ok(), std::str::from_utf8(&row.value).ok());
        let key_base64 = key.is_none().then(|| STANDARD.encode(&row.key));
        let value_base64 = value.is_none().then(|| STANDARD.encode(&row.value));
        serde_json::to_writer(&mut self.output, &Fields { key, key_base64, value, value_base64 })?;
        self.output.write_all(b"\n")
    }
}

fn unholdable(row: &Row) -> Option<Unholdable> {
    if row.key.contains(&b'\t') {
        Some(Unholdable::TabInKey)
    } else if row.key.contains(&b'\n') {
        Some(Unholdable::LineFeedInKey)
    } else if row.value.contains(&b'\n') {
        Some(Unholdable::LineFeedInValue)
    } else {
        None
    }
}

fn shown(key: &[u8]) -> String {
    match key.get(..MAX_SHOWN_KEY_BYTES) {
        Some(start) => format!("{}…", start.escape_ascii()),
        None => key.escape_ascii().to_string(),
    }
}
