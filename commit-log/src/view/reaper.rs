//! Closing bases that were superseded, once nobody reads them any more.

use std::collections::VecDeque;
use std::sync::Arc;

use super::base::Base;

/// The most superseded bases that stay open for their views. Each is a task and some hundred KB; at one look every five
/// minutes this many are hours, far beyond the lifetime that keeps their files.
pub const MAX_SUPERSEDED: usize = 64;

/// The superseded bases of one store, oldest first. Its owner calls it at every change of base and when idle.
///
/// - A base is closed when this holds the last handle to it: nobody can get another one then.
/// - Past the bound the oldest is closed under its views, which then fail with [`super::ReadError::Outlived`].
#[derive(Debug, Default)]
pub struct Reaper {
    superseded: VecDeque<Arc<Base>>,
}

impl Reaper {
    /// A reaper with nothing to do.
    pub fn new() -> Reaper {
        Reaper::default()
    }

    /// Takes over a base that was replaced, and closes what can be closed. No request. Gives how many were closed.
    /// A call that was dropped keeps the base and closes it the next time.
    pub async fn supersede(&mut self, base: Arc<Base>) -> usize {
        self.superseded.push_back(base);
        self.reap().await
    }

    /// Closes those that nobody reads any more, and the oldest past the bound. Gives how many were closed.
    pub async fn reap(&mut self) -> usize {
        let mut closed = 0;
        while let Some(place) = self.next_to_close() {
            self.superseded[place].close().await;
            self.superseded.remove(place);
            closed += 1;
        }
        closed
    }

    /// Closes all, in use or not: the store is being closed.
    pub async fn close(&mut self) {
        while let Some(base) = self.superseded.front() {
            base.close().await;
            self.superseded.pop_front();
        }
    }

    /// How many are still open.
    pub fn waiting(&self) -> usize {
        self.superseded.len()
    }

    fn next_to_close(&self) -> Option<usize> {
        let unread = self.superseded.iter().position(|base| Arc::strong_count(base) == 1);
        unread.or_else(|| (self.superseded.len() > MAX_SUPERSEDED).then_some(0))
    }
}
