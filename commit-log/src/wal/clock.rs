//! The holder's clock: never behind the last tick that the store has, and never going back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use slatedb_common::clock::SystemClockTicker;

use crate::environment::SystemClock;

/// A clock that only moves forward, and runs on from where an earlier holder's clock was.
///
/// - SlateDB refuses rows whose time is behind its last tick, and gives up a store whose clock stays behind for ten seconds. A
///   holder whose machine is an hour slow would never get its first slot in.
/// - It is set forward, not stopped: by a clock that stands still for an hour nothing ever expires, and the jobs of a
///   compactor that died would not be taken over before that hour is up.
#[derive(Debug)]
pub(super) struct RatchetClock {
    clock: Arc<dyn SystemClock>,
    forward_millis: AtomicI64,
    floor_millis: AtomicI64,
}

impl RatchetClock {
    pub(super) fn new(clock: Arc<dyn SystemClock>) -> RatchetClock {
        RatchetClock { clock, forward_millis: AtomicI64::new(0), floor_millis: AtomicI64::new(i64::MIN) }
    }

    /// From now on the clock is never behind `millis`, in ms since the Unix epoch.
    pub(super) fn raise(&self, millis: i64) {
        let behind = millis.saturating_sub(self.clock.now().timestamp_millis());
        self.forward_millis.fetch_max(behind, Ordering::SeqCst);
        // SUBTLE: the machine's clock may have been ahead of `millis` just now, and go back before it is asked again.
        if DateTime::from_timestamp_millis(millis).is_some() {
            self.floor_millis.fetch_max(millis, Ordering::SeqCst);
        }
    }

    /// The machine's time, set forward. A time that no date can hold was never told by a clock; then the machine's has to do.
    fn forward(&self) -> DateTime<Utc> {
        let now = self.clock.now();
        let forward = TimeDelta::try_milliseconds(self.forward_millis.load(Ordering::SeqCst));
        forward.and_then(|forward| now.checked_add_signed(forward)).unwrap_or(now)
    }
}

impl SystemClock for RatchetClock {
    fn now(&self) -> DateTime<Utc> {
        let now = self.forward();
        let floor = self.floor_millis.fetch_max(now.timestamp_millis(), Ordering::SeqCst);
        if floor <= now.timestamp_millis() {
            return now;
        }
        // The machine's clock went back: stand still until it has caught up.
        DateTime::from_timestamp_millis(floor).unwrap_or(now)
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.clock.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

#[cfg(test)]
mod tests {
    use slatedb_common::clock::DefaultSystemClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_forward_runs_on() {
        let machine = Arc::new(DefaultSystemClock::new());
        let clock = RatchetClock::new(machine.clone());
        let ahead = machine.now() + TimeDelta::hours(1);
        clock.raise(ahead.timestamp_millis());
        clock.raise((ahead - TimeDelta::minutes(1)).timestamp_millis());
        assert_eq!(clock.now().timestamp_millis(), ahead.timestamp_millis());
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(clock.now().timestamp_millis(), (ahead + TimeDelta::seconds(30)).timestamp_millis());
    }

    /// A machine's clock that somebody sets back.
    #[derive(Debug)]
    struct SetBack(AtomicI64);

    impl SystemClock for SetBack {
        fn now(&self) -> DateTime<Utc> {
            DateTime::from_timestamp_millis(self.0.load(Ordering::SeqCst)).unwrap()
        }

        fn sleep<'a>(&'a self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
            unreachable!("nobody waits here")
        }

        fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
            SystemClockTicker::new(self, duration)
        }
    }

    #[test]
    fn a_machine_that_is_set_back_after_the_clock_was_raised_does_not_take_it_back() {
        let machine = Arc::new(SetBack(AtomicI64::new(5_000)));
        let clock = RatchetClock::new(machine.clone());
        clock.raise(4_900);
        machine.0.store(4_000, Ordering::SeqCst);
        assert_eq!(clock.now().timestamp_millis(), 4_900);
        machine.0.store(6_000, Ordering::SeqCst);
        assert_eq!(clock.now().timestamp_millis(), 6_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_that_no_date_can_hold_is_not_followed() {
        let machine = Arc::new(DefaultSystemClock::new());
        let clock = RatchetClock::new(machine.clone());
        clock.raise(i64::MAX);
        assert_eq!(clock.now().timestamp_millis(), machine.now().timestamp_millis());
        clock.raise(i64::MIN);
        assert_eq!(clock.now().timestamp_millis(), machine.now().timestamp_millis());
    }
}
