//! How far the store has come, as its WAL tells it: what is announced, what is applied, who listens.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slatedb::wal::{WalError, WalEvent, WalStatus, WalStatusListener};

use crate::slot::Sequence;

/// The state that the plug and its holder share.
///
/// - `last_flushed_wal_id` is the last slot **applied**, never the last one won: a freeze records it as the replay point.
/// - It moves in `append`, in the same task as the freeze; listeners hear of it only after the rows can be read.
#[derive(Default)]
pub(super) struct Cursor(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whether a store was opened over it.
    started: bool,
    last_wal_id: u64,
    last_seq: Option<u64>,
    announced: Option<Sequence>,
    closed: Option<WalError>,
    listeners: Vec<WalStatusListener>,
}

/// Why a write was refused. Refusing it closes the store's handle, which is the point: nothing gets in beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAnnounced {
    #[error("expected a write of slot {announced}, found one of {found}")]
    Other { announced: Sequence, found: u64 },
    #[error("a write of {found} came beside the commit log")]
    Nothing { found: u64 },
    #[error("a write has no rows, or rows of several sequences")]
    Rows,
}

impl Cursor {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every step below is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the replay will end, told before it begins: SlateDB wants the status to equal it.
    pub(super) fn start(&self, last_wal_id: u64) {
        let mut state = self.state();
        state.started = true;
        state.last_wal_id = last_wal_id;
        state.last_seq = None;
    }

    /// Whether a store was opened over it.
    pub(super) fn has_started(&self) -> bool {
        self.state().started
    }

    pub(super) fn announce(&self, sequence: Sequence) {
        self.state().announced = Some(sequence);
    }

    /// Takes a write in, if it is the announced one.
    pub(super) fn append(&self, found: Option<u64>) -> Result<(), NotAnnounced> {
        let mut state = self.state();
        let found = found.ok_or(NotAnnounced::Rows)?;
        match state.announced {
            Some(announced) if announced.get() == found => {
                state.announced = None;
                state.last_wal_id = found;
                state.last_seq = Some(found);
                Ok(())
            }
            Some(announced) => Err(NotAnnounced::Other { announced, found }),
            None => Err(NotAnnounced::Nothing { found }),
        }
    }

    /// Tells the listeners that `sequence` is applied and durable.
    pub(super) fn publish(&self, sequence: Sequence) {
        let (mut status, listeners) = {
            let state = self.state();
            (state.status(), state.listeners.clone())
        };
        status.last_flushed_wal_id = sequence.get();
        status.last_flushed_seq = Some(sequence.get());
        // Outside the lock: SlateDB's listener may ask for the status.
        listeners.iter().for_each(|listener| listener(WalEvent::WalFlushed(status.clone())));
    }

    pub(super) fn last_applied(&self) -> Option<Sequence> {
        Sequence::new(self.state().last_wal_id)
    }

    pub(super) fn last_wal_id(&self) -> u64 {
        self.state().last_wal_id
    }

    pub(super) fn status(&self) -> Result<WalStatus, WalStatus> {
        let state = self.state();
        let status = state.status();
        if state.closed.is_some() { Err(status) } else { Ok(status) }
    }

    pub(super) fn subscribe(&self, listener: WalStatusListener) {
        self.state().listeners.push(listener);
    }

    /// Closes it for good, for the first reason that is given.
    pub(super) fn close(&self, reason: WalError) {
        let closed = {
            let mut state = self.state();
            let first = state.closed.is_none();
            state.closed.get_or_insert(reason);
            first.then(|| (state.status(), state.listeners.clone()))
        };
        if let Some((status, listeners)) = closed {
            listeners.iter().for_each(|listener| listener(WalEvent::WalClosed(status.clone())));
        }
    }
}

impl State {
    fn status(&self) -> WalStatus {
        WalStatus {
            closed_reason: self.closed.clone(),
            estimated_bytes: 0,
            last_flushed_wal_id: self.last_wal_id,
            last_flushed_seq: self.last_seq,
            buffered_wal_entries_count: 0,
        }
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor at {}", self.last_wal_id())
    }
}

/// The cursor, as SlateDB watches it.
pub(super) struct Observer(pub(super) Arc<Cursor>);

#[async_trait::async_trait]
impl slatedb::wal::WalObserver for Observer {
    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.0.status()
    }

    fn subscribe(&self, listener: WalStatusListener) -> Result<(), WalError> {
        self.0.subscribe(listener);
        Ok(())
    }
}
