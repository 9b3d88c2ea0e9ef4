//! What a reader of the store serves, and why it could not go on: told by its plug and by its clock.

use std::sync::OnceLock;

use slatedb::DbStatus;
use tokio::sync::watch;

use crate::slot::Sequence;

use super::AccessError;

/// What is known of a reader. Everybody who waits is told of every change.
#[derive(Debug)]
pub(crate) struct Watermark {
    state: watch::Sender<State>,
    /// What the reader says of itself.
    status: OnceLock<watch::Receiver<DbStatus>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    served: Option<Sequence>,
    last_error: Option<AccessError>,
    /// How many looks at the store have ended, by the reader's clock. Zero for ever when it was opened with another.
    looks: u64,
}

impl State {
    pub(crate) fn served(&self) -> Option<Sequence> {
        self.served
    }

    pub(crate) fn looks(&self) -> u64 {
        self.looks
    }
}

impl Default for Watermark {
    fn default() -> Watermark {
        Watermark { state: watch::Sender::new(State::default()), status: OnceLock::new() }
    }
}

impl Watermark {
    /// The last slot that the reader serves.
    pub(crate) fn served(&self) -> Option<Sequence> {
        self.state.borrow().served
    }

    pub(crate) fn last_error(&self) -> Option<AccessError> {
        self.state.borrow().last_error.clone()
    }

    /// Tells of every change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// From now on the reader's own status is read at the end of each look.
    pub(crate) fn watches(&self, status: watch::Receiver<DbStatus>) {
        // A session serves one reader: whose status came first is the one.
        let _ = self.status.set(status);
    }

    pub(super) fn serves(&self, served: Option<Sequence>) {
        self.state.send_if_modified(|state| {
            let moved = served > state.served;
            state.served = state.served.max(served);
            moved
        });
    }

    pub(super) fn failed(&self, error: AccessError) {
        self.state.send_modify(|state| state.last_error = Some(error));
    }

    pub(super) fn goes_on(&self) {
        self.state.send_if_modified(|state| state.last_error.take().is_some());
    }

    /// The reader waits for its next look, so the one before has ended.
    ///
    /// SUBTLE: what the reader publishes as durable runs ahead of what it serves, by a few instructions of one look. Between two
    /// looks the two are the same.
    pub(super) fn look_ended(&self) {
        let durable = self.status.get().and_then(|status| Sequence::new(status.borrow().durable_seq));
        self.state.send_modify(|state| {
            state.served = state.served.max(durable);
            state.looks += 1;
        });
    }
}
