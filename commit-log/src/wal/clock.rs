//! The holder's clock: never behind the last tick that the store has, and never going back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use slatedb_common::clock::SystemClockTicker;

use crate::environment::SystemClock;

/// A clock that only moves forward, from a floor on.
///
/// SlateDB refuses rows whose time is behind its last tick, and gives up a store whose clock stays behind for ten seconds. A
/// holder whose machine is an hour slow would never get its first slot in.
#[derive(Debug)]
pub(super) struct RatchetClock {
    clock: Arc<dyn SystemClock>,
    floor_millis: AtomicI64,
}

impl RatchetClock {
    pub(super) fn new(clock: Arc<dyn SystemClock>) -> RatchetClock {
        RatchetClock { clock, floor_millis: AtomicI64::new(i64::MIN) }
    }

    /// From now on the clock is never behind `millis`, in ms since the Unix epoch.
    pub(super) fn raise(&self, millis: i64) {
        self.floor_millis.fetch_max(millis, Ordering::SeqCst);
    }
}

impl SystemClock for RatchetClock {
    fn now(&self) -> DateTime<Utc> {
        let now = self.clock.now();
        let floor = self.floor_millis.fetch_max(now.timestamp_millis(), Ordering::SeqCst);
        if floor <= now.timestamp_millis() {
            return now;
        }
        // A tick that no date can hold was never written by a clock; then the machine's own time has to do.
        DateTime::from_timestamp_millis(floor).unwrap_or(now)
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.clock.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}
