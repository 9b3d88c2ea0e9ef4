//! What a child of a demo or a load tells its parent: JSON lines on its standard output. A line that is none of these is an error.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::Role;
use super::audit::Verdict;

/// The longest line. The longest is a verdict with all the findings it names.
pub const MAX_LINE_BYTES: usize = 256 << 10;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// When, by the child's clock, in ms since the demo began.
    pub at: u64,
    /// What.
    pub event: Event,
}

/// What a child tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Event {
    /// It has opened the store and begins.
    Ready,
    /// It won a slot.
    Committed {
        /// The slot.
        sequence: u64,
    },
    /// Another won the slot that it tried.
    Lost {
        /// The slot.
        sequence: u64,
    },
    /// A deadline passed with something sent.
    Unknown {
        /// The slot.
        sequence: u64,
    },
    /// It learned what became of a put of its killed predecessor or of its own.
    Resolved {
        /// The slot.
        sequence: u64,
        /// What.
        as_what: Resolution,
    },
    /// It sees the log's head there.
    Head {
        /// The slot.
        sequence: u64,
    },
    /// It made everything up to this slot durable in the store.
    Folded {
        /// The slot.
        through: u64,
    },
    /// So many rows of its share are committed.
    Loaded {
        /// How many.
        rows: u64,
    },
    /// It found so many pages of the log retired.
    Retired(Pages),
    /// What it counted.
    Audited(Box<Verdict>),
    /// It did all it had to.
    Done,
    /// It cannot go on.
    Failed {
        /// One line that says why.
        why: String,
    },
}

/// How much of the log is retired, by what is in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    /// Pages with a ledger.
    pub retired: u64,
    /// Pages that the log has begun, those included.
    pub begun: u64,
    /// The last slot that is retired. `None` when none is.
    pub through: Option<u64>,
}

/// What became of a put that nothing was heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It is in.
    Landed,
    /// It is not in and never will be.
    Never,
}

/// A line that is not of this protocol.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Too long to be one.
    #[error("{role} wrote a line of more than {MAX_LINE_BYTES} B: expected an event")]
    TooLong {
        /// Who.
        role: Role,
    },
    /// No such event.
    #[error("{role} wrote `{start}`: expected an event")]
    Unknown {
        /// Who.
        role: Role,
        /// How it begins.
        start: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// The most characters of a wrong line that a message shows.
const MAX_SHOWN_CHARACTERS: usize = 60;

impl Line {
    /// Writes the line and hands it on at once, so that the parent never waits for a full buffer.
    ///
    /// # Errors
    ///
    /// When nobody reads any more: the parent is gone.
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        output.write_all(&text)?;
        output.flush()
    }

    /// Reads a line without its line feed.
    ///
    /// # Errors
    ///
    /// For everything that [`Line::write`] does not write.
    pub fn parse(text: &[u8], role: Role) -> Result<Line, EventError> {
        if text.len() > MAX_LINE_BYTES {
            return Err(EventError::TooLong { role });
        }
        serde_json::from_slice(text).map_err(|source| {
            let start = String::from_utf8_lossy(text).chars().take(MAX_SHOWN_CHARACTERS).collect::<String>();
            EventError::Unknown { role, start: start.escape_debug().to_string(), source }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_reads_back() {
        let events = [
            Event::Ready,
            Event::Committed { sequence: 7 },
            Event::Lost { sequence: 7 },
            Event::Unknown { sequence: 7 },
            Event::Resolved { sequence: 7, as_what: Resolution::Never },
            Event::Head { sequence: u64::MAX },
            Event::Folded { through: 9 },
            Event::Loaded { rows: 500 },
            Event::Retired(Pages { retired: 41, begun: 79, through: Some(2_624) }),
            Event::Audited(Box::default()),
            Event::Done,
            Event::Failed { why: "a\nb".into() },
        ];
        for event in events {
            let line = Line { at: 12, event };
            let mut bytes = Vec::new();
            line.write(&mut bytes).unwrap();
            assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(Line::parse(bytes.trim_ascii_end(), Role::Folder).unwrap(), line);
        }
    }

    #[test]
    fn a_line_looks_like_this() {
        let mut bytes = Vec::new();
        Line { at: 12, event: Event::Committed { sequence: 7 } }.write(&mut bytes).unwrap();
        assert_eq!(bytes, b"{\"at\":12,\"event\":{\"committed\":{\"sequence\":7}}}\n");
    }

    #[test]
    fn any_other_line_is_an_error_that_names_the_process() {
        for text in
            ["", "hello", "{}", r#"{"at":1,"event":"dance"}"#, r#"{"at":1,"event":"ready","more":1}"#, r#"{"event":"ready"}"#]
        {
            let error = Line::parse(text.as_bytes(), Role::Writer(1)).unwrap_err();
            assert!(error.to_string().starts_with("writer 2 wrote `"), "{error}");
        }
        let long = vec![b'x'; MAX_LINE_BYTES + 1];
        assert!(matches!(Line::parse(&long, Role::Folder), Err(EventError::TooLong { .. })));
    }
}
