//! What a writer writes down and tells, in one place, so that journal and parent hear the same.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use commit_log::log::{Attempt, BeforePut};
use commit_log::slot::Sequence;

use super::events::{Event, Resolution};
use super::journal::{Entry, Journal, JournalError, Word};
use super::teller::Teller;

/// Why a note could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// The journal does not take it.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The parent is gone.
    #[error("the parent is gone")]
    Parent(#[from] io::Error),
}

/// A writer's notes. Copies share them.
///
/// - What is acknowledged was told before it is written down: a kill between the two leaves a put in doubt, which the
///   successor asks the log about, and nothing that was told is forgotten.
#[derive(Clone, Debug)]
pub struct Notes(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    journal: Journal,
    teller: Teller,
    transfer: u32,
    /// The put that nothing was heard of yet.
    open: Option<Entry>,
}

impl Notes {
    /// Notes in `journal`, which holds `open` at its end.
    pub fn new(journal: Journal, teller: Teller, open: Option<Entry>) -> Notes {
        Notes(Arc::new(Mutex::new(Inner { journal, teller, transfer: 0, open })))
    }

    /// From here on it is about this transfer.
    pub fn begin(&self, transfer: u32) {
        self.inner().transfer = transfer;
    }

    /// What makes each attempt durable before its put. An attempt that cannot be written down is withdrawn.
    pub fn before_put(&self) -> BeforePut {
        let notes = self.clone();
        Arc::new(move |attempt| {
            let noted = notes.inner().attempt(attempt);
            Box::pin(async move { noted.map_err(Into::into) })
        })
    }

    /// The commit was answered: it is in.
    ///
    /// # Errors
    ///
    /// When it could not be noted.
    pub fn acknowledged(&self, sequence: Sequence) -> Result<(), NoteError> {
        self.inner().close(Word::Acknowledged, Event::Committed { sequence: sequence.get() })
    }

    /// Nothing of it is committed: the last put lost, if there was one.
    ///
    /// # Errors
    ///
    /// When it could not be noted.
    pub fn lost(&self) -> Result<(), NoteError> {
        self.inner().lost()
    }

    /// A deadline passed with something sent.
    ///
    /// # Errors
    ///
    /// When it could not be noted.
    pub fn unknown(&self, sequence: Sequence) -> Result<(), NoteError> {
        let mut inner = self.inner();
        inner.teller.tell(Event::Unknown { sequence: sequence.get() })?;
        match inner.open {
            Some(open) => Ok(inner.journal.note(Entry { word: Word::Unknown, ..open })?),
            None => Ok(()),
        }
    }

    /// It is known now what became of the put that nothing was heard of.
    ///
    /// # Errors
    ///
    /// When it could not be noted.
    pub fn resolved(&self, sequence: Sequence, as_what: Resolution) -> Result<(), NoteError> {
        let word = match as_what {
            Resolution::Landed => Word::Landed,
            Resolution::Never => Word::Never,
        };
        self.inner().close(word, Event::Resolved { sequence: sequence.get(), as_what })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every step leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn attempt(&mut self, Attempt { transaction, sequence }: Attempt) -> Result<(), NoteError> {
        let entry = Entry { word: Word::Attempt, transaction, sequence, transfer: self.transfer };
        // The same put again says nothing of itself; any other one means that the last lost.
        if self.open != Some(entry) {
            self.lost()?;
        }
        self.journal.note(entry)?;
        self.open = Some(entry);
        Ok(())
    }

    fn lost(&mut self) -> Result<(), NoteError> {
        match self.open {
            Some(open) => self.close(Word::Lost, Event::Lost { sequence: open.sequence.get() }),
            None => Ok(()),
        }
    }

    fn close(&mut self, word: Word, event: Event) -> Result<(), NoteError> {
        self.teller.tell(event)?;
        if let Some(open) = self.open.take() {
            self.journal.note(Entry { word, ..open })?;
        }
        Ok(())
    }
}
