//! Reads rows, a line at a time, and says in which line of which file something is wrong.

use std::io::{self, BufRead, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;

use super::{MAX_LINE_BYTES, Row, RowFormat};

/// Why rows could not be read. Every message names the file and the line.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error("{file}, line {line}: the file cannot be read: {}", source.kind())]
    File {
        /// The file.
        file: String,
        /// The line that was being read.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// A line that is longer than any row.
    #[error("{file}, line {line}: expected at most {MAX_LINE_BYTES} B, the line is longer")]
    TooLong {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// A line of a TSV file without a TAB.
    #[error("{file}, line {line}: expected a key, a tab and a value, the line has no tab; is it JSON? then use --json")]
    NoTab {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// A row without a key.
    #[error("{file}, line {line}: the key is empty")]
    EmptyKey {
        /// The file.
        file: String,
        /// The line.
        line: u64,
    },
    /// A line that is not such a JSON object.
    #[error(
        "{file}, line {line}: expected a JSON object with `key` or `key_base64` and `value` or `value_base64` (column {})",
        source.column()
    )]
    Json {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A field that is there in both spellings or in none.
    #[error("{file}, line {line}: expected exactly one of `{field}` and `{field}_base64`")]
    Field {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// `key` or `value`.
        field: &'static str,
    },
    /// A field that is no base64.
    #[error("{file}, line {line}: `{field}_base64` is not base64")]
    Base64 {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// `key` or `value`.
        field: &'static str,
        /// What is wrong with it.
        source: base64::DecodeError,
    },
}

/// The rows of a file, in its order. Ends after the first error.
///
/// The last line may lack its line feed.
#[derive(Debug)]
pub struct RowReader<R> {
    input: R,
    format: RowFormat,
    file: String,
    line: u64,
    failed: Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    No,
    Yes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
}

impl<R: BufRead> RowReader<R> {
    /// Reads `input`, which errors call `file`.
    pub fn new(input: R, format: RowFormat, file: impl Into<String>) -> RowReader<R> {
        RowReader { input, format, file: file.into(), line: 0, failed: Failed::No }
    }

    /// The line that was read last, counted from one.
    pub fn line(&self) -> u64 {
        self.line
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        self.line += 1;
        let mut bytes = Vec::new();
        let bound = MAX_LINE_BYTES as u64 + 1;
        self.input.by_ref().take(bound).read_until(b'\n', &mut bytes).map_err(|source| ReadError::File {
            file: self.file.clone(),
            line: self.line,
            source,
        })?;
        match bytes.pop() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(bytes)),
            Some(_) if bytes.len() >= MAX_LINE_BYTES => Err(ReadError::TooLong { file: self.file.clone(), line: self.line }),
            Some(last) => {
                bytes.push(last);
                Ok(Some(bytes))
            }
        }
    }

    fn row(&self, bytes: Vec<u8>) -> Result<Row, ReadError> {
        let row = match self.format {
            RowFormat::Tsv => self.tsv(bytes)?,
            RowFormat::JsonLines => self.json(&bytes)?,
        };
        match row.key.is_empty() {
            true => Err(ReadError::EmptyKey { file: self.file.clone(), line: self.line }),
            false => Ok(row),
        }
    }

    fn tsv(&self, bytes: Vec<u8>) -> Result<Row, ReadError> {
        let Some(tab) = bytes.iter().position(|byte| *byte == b'\t') else {
            return Err(ReadError::NoTab { file: self.file.clone(), line: self.line });
        };
        let bytes = Bytes::from(bytes);
        Ok(Row { key: bytes.slice(..tab), value: bytes.slice(tab + 1..) })
    }

    fn json(&self, bytes: &[u8]) -> Result<Row, ReadError> {
        let fields: Fields = serde_json::from_slice(bytes).map_err(|source| ReadError::Json {
            file: self.file.clone(),
            line: self.line,
            source,
        })?;
        Ok(Row {
            key: self.field("key", fields.key, fields.key_base64)?,
            value: self.field("value", fields.value, fields.value_base64)?,
        })
    }

    fn field(&self, field: &'static str, text: Option<String>, encoded: Option<String>) -> Result<Bytes, ReadError> {
        let (file, line) = (self.file.clone(), self.line);
        match (text, encoded) {
            (Some(text), None) => Ok(Bytes::from(text)),
            (None, Some(encoded)) => match STANDARD.decode(encoded) {
                Ok(bytes) => Ok(Bytes::from(bytes)),
                Err(source) => Err(ReadError::Base64 { file, line, field, source }),
            },
            (Some(_), Some(_)) | (None, None) => Err(ReadError::Field { file, line, field }),
        }
    }
}

impl<R: BufRead> Iterator for RowReader<R> {
    type Item = Result<Row, ReadError>;

    fn next(&mut self) -> Option<Result<Row, ReadError>> {
        if self.failed == Failed::Yes {
            return None;
        }
        let row = self.next_line().transpose()?.and_then(|bytes| self.row(bytes));
        if row.is_err() {
            self.failed = Failed::Yes;
        }
        Some(row)
    }
}
