//! What a writer makes durable beside the store: one line before each put and one after each answer. The audit reads it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use commit_log::identity::TransactionId;
use commit_log::slot::Sequence;

/// The largest journal that is read: a million transfers, each tried several times, at about 70 B a line.
pub const MAX_JOURNAL_BYTES: u64 = 1 << 30;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// A put is about to be sent. Durable before it is.
    Attempt,
    /// The commit was answered: it is in.
    Acknowledged,
    /// Another won that slot.
    Lost,
    /// The deadline passed with something sent.
    Unknown,
    /// An unknown attempt, asked about later: it is in.
    Landed,
    /// An unknown attempt, asked about later: it is not in and never will be.
    Never,
}

/// Every word, as it is written.
const WORDS: [(Word, &str); 6] = [
    (Word::Attempt, "attempt"),
    (Word::Acknowledged, "acknowledged"),
    (Word::Lost, "lost"),
    (Word::Unknown, "unknown"),
    (Word::Landed, "landed"),
    (Word::Never, "never"),
];

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WORDS.iter().find(|(word, _)| word == self).map_or("", |(_, text)| text))
    }
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What happened.
    pub word: Word,
    /// To which transaction.
    pub transaction: TransactionId,
    /// At which slot.
    pub sequence: Sequence,
    /// Which of the writer's transfers it makes.
    pub transfer: u32,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.word, self.transaction, self.sequence, self.transfer)
    }
}

impl Entry {
    fn parse(line: &str) -> Option<Entry> {
        let mut parts = line.split(' ');
        let word = parts.next()?;
        let word = WORDS.iter().find(|(_, text)| *text == word).map(|(word, _)| *word)?;
        let transaction = TransactionId::parse(parts.next()?)?;
        let sequence = parts.next()?.parse().ok().and_then(Sequence::new)?;
        let transfer = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Entry { word, transaction, sequence, transfer })
    }
}

/// Why a journal is of no use.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It could not be read or written.
    #[error("journal `{}`: {doing} failed: {}", path.display(), source.kind())]
    File {
        /// The journal.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A whole line that no writer writes.
    #[error("journal `{}`, line {line}: expected a word, a transaction, a slot and a transfer", path.display())]
    Line {
        /// The journal.
        path: PathBuf,
        /// The line, counted from one.
        line: usize,
    },
    /// More than any demo writes.
    #[error("journal `{}`: expected at most {MAX_JOURNAL_BYTES} B, it is larger", path.display())]
    TooLarge {
        /// The journal.
        path: PathBuf,
    },
}

/// A journal that is being written.
///
/// - One process writes it; its successor opens it after that one's death.
/// - Every attempt that [`Journal::note`] returned from is on the disk, with all lines before it. A line that says what became
///   of one reaches the disk with the next attempt: without it, the log is asked.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// The journal of `writer` in `directory`.
    pub fn path(directory: &Path, writer: u16) -> PathBuf {
        directory.join(format!("writer-{}.journal", u32::from(writer) + 1))
    }

    /// Opens or creates a journal, cuts off a line that a killed process left torn, and returns what it holds.
    ///
    /// # Errors
    ///
    /// When the file cannot be used, and for a whole line that no writer writes.
    pub fn open(path: &Path) -> Result<(Journal, Vec<Entry>), JournalError> {
        let failed = |doing| move |source| JournalError::File { path: path.to_owned(), doing, source };
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(path).map_err(failed("opening"))?;
        let bytes = bounded(&mut file, path)?;
        let (entries, whole) = parse(&bytes, path)?;
        file.set_len(whole as u64).map_err(failed("cutting"))?;
        file.sync_all().map_err(failed("syncing"))?;
        if let Some(parent) = path.parent() {
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed("syncing"))?;
        }
        Ok((Journal { path: path.to_owned(), file }, entries))
    }

    /// Appends one line, and waits until it is on the disk where it is an attempt. A kill of the process loses no line.
    ///
    /// # Errors
    ///
    /// When it may not be there. Whoever was about to put something does not.
    pub fn note(&mut self, entry: Entry) -> Result<(), JournalError> {
        // One write call, so that a kill tears at most the last line.
        let written = self.file.write_all(format!("{entry}\n").as_bytes()).and_then(|()| match entry.word {
            Word::Attempt => self.file.sync_data(),
            Word::Acknowledged | Word::Lost | Word::Unknown | Word::Landed | Word::Never => Ok(()),
        });
        written.map_err(|source| JournalError::File { path: self.path.clone(), doing: "writing", source })
    }
}

/// What a journal holds, without opening it to write. A torn last line is left out.
///
/// # Errors
///
/// When the file cannot be read, and for a whole line that no writer writes.
pub fn read(path: &Path) -> Result<Vec<Entry>, JournalError> {
    let opened = File::open(path);
    let mut file = opened.map_err(|source| JournalError::File { path: path.to_owned(), doing: "opening", source })?;
    parse(&bounded(&mut file, path)?, path).map(|(entries, _)| entries)
}

fn bounded(file: &mut File, path: &Path) -> Result<Vec<u8>, JournalError> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_JOURNAL_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|source| JournalError::File { path: path.to_owned(), doing: "reading", source })?;
    match bytes.len() as u64 > MAX_JOURNAL_BYTES {
        true => Err(JournalError::TooLarge { path: path.to_owned() }),
        false => Ok(bytes),
    }
}

/// The entries of the whole lines, and how many bytes those lines are.
fn parse(bytes: &[u8], path: &Path) -> Result<(Vec<Entry>, usize), JournalError> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n');
    let entries = lines.enumerate().map(|(at, line)| {
        let text = std::str::from_utf8(&line[..line.len() - 1]).ok();
        text.and_then(Entry::parse).ok_or_else(|| JournalError::Line { path: path.to_owned(), line: at + 1 })
    });
    Ok((entries.collect::<Result<_, _>>()?, whole))
}

/// What a writer that takes over does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The first transfer of which no line says that it is in.
    pub next_transfer: u32,
    /// The last put that nothing was heard of: ask what became of it before going on.
    pub in_doubt: Option<Entry>,
}

impl Resume {
    /// Reads it off a journal.
    pub fn from(entries: &[Entry]) -> Resume {
        let is_in = |entry: &&Entry| matches!(entry.word, Word::Acknowledged | Word::Landed);
        let next_transfer = entries.iter().filter(is_in).map(|entry| entry.transfer + 1).max().unwrap_or(0);
        let last = entries.last().filter(|entry| matches!(entry.word, Word::Attempt | Word::Unknown));
        Resume { next_transfer, in_doubt: last.copied() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(word: Word, sequence: u64, transfer: u32) -> Entry {
        let transaction = TransactionId::from_bytes([7; 16]);
        Entry { word, transaction, sequence: Sequence::new(sequence).unwrap(), transfer }
    }

    #[test]
    fn what_was_noted_reads_back() {
        let home = tempfile::tempdir().unwrap();
        let path = Journal::path(home.path(), 0);
        let all: Vec<_> = (1..).zip(WORDS).map(|(at, (word, _))| entry(word, at, 9)).collect();
        let (mut journal, before) = Journal::open(&path).unwrap();
        assert_eq!(before, []);
        all.iter().for_each(|entry| journal.note(*entry).unwrap());
        assert_eq!(read(&path).unwrap(), all);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("attempt 07070707070707070707070707070707 1 9\n"), "{text}");
    }

    #[test]
    fn every_cut_loses_only_the_torn_line_and_the_next_writer_goes_on() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("j");
        let (first, second) = (entry(Word::Attempt, 1, 0), entry(Word::Acknowledged, 1, 0));
        let text = format!("{first}\n{second}\n");
        for cut in 0..=text.len() {
            std::fs::write(&path, &text[..cut]).unwrap();
            let whole = text[..cut].matches('\n').count();
            assert_eq!(read(&path).unwrap(), [first, second][..whole]);
            let (mut journal, entries) = Journal::open(&path).unwrap();
            assert_eq!(entries.len(), whole);
            journal.note(second).unwrap();
            assert_eq!(read(&path).unwrap().len(), whole + 1, "cut at {cut}");
        }
    }

    #[test]
    fn a_whole_line_that_nobody_writes_is_refused_with_its_number() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("j");
        let good = entry(Word::Attempt, 1, 0);
        for bad in ["", "x", "attempt", "attempt 00 1 2", &format!("{good} more"), &format!("{good} ").replace(" 1 ", " 0 ")] {
            std::fs::write(&path, format!("{good}\n{bad}\n{good}\n")).unwrap();
            let error = read(&path).unwrap_err();
            assert!(matches!(error, JournalError::Line { line: 2, .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn a_successor_asks_about_the_last_put_that_nothing_was_heard_of() {
        let (attempt, done) = (entry(Word::Attempt, 5, 3), entry(Word::Acknowledged, 5, 3));
        assert_eq!(Resume::from(&[]), Resume { next_transfer: 0, in_doubt: None });
        assert_eq!(Resume::from(&[attempt, done]), Resume { next_transfer: 4, in_doubt: None });
        let again = entry(Word::Attempt, 6, 4);
        assert_eq!(Resume::from(&[attempt, done, again]), Resume { next_transfer: 4, in_doubt: Some(again) });
        let landed = entry(Word::Landed, 6, 4);
        assert_eq!(Resume::from(&[attempt, done, again, landed]), Resume { next_transfer: 5, in_doubt: None });
    }
}
