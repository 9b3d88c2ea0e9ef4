//! A reader's clock: its pause between two looks can be cut short, and it hears when a look has ended.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::future::select;
use slatedb_common::clock::SystemClockTicker;
use tokio::sync::Notify;

use crate::environment::SystemClock;

use super::clock::RatchetClock;
use super::watermark::Watermark;

/// The clock that a reader is opened with.
///
/// Its tickers wait by a clock of their own, so a pause of a retry in the middle of a look is not taken for the end of it. A reader
/// has one ticker, the one of its looks.
#[derive(Debug)]
pub(super) struct ReaderClock {
    looks: LookClock,
}

/// What the reader's ticker waits by.
#[derive(Debug)]
struct LookClock {
    clock: RatchetClock,
    nudged: Notify,
    watermark: Arc<Watermark>,
}

impl ReaderClock {
    pub(super) fn new(clock: RatchetClock, watermark: Arc<Watermark>) -> ReaderClock {
        ReaderClock { looks: LookClock { clock, nudged: Notify::new(), watermark } }
    }

    /// Ends the pause before the next look. During a look it is remembered, and the next one follows at once.
    pub(super) fn nudge(&self) {
        self.looks.nudged.notify_one();
    }
}

impl SystemClock for ReaderClock {
    fn now(&self) -> DateTime<Utc> {
        self.looks.now()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.looks.clock.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        self.looks.ticker(duration)
    }
}

impl SystemClock for LookClock {
    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.watermark.look_ended();
        Box::pin(async move {
            select(self.clock.sleep(duration), Box::pin(self.nudged.notified())).await;
        })
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}
