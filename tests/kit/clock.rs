//! Time in a world: the one timeline that everything shares, and each process's own view of it.
//!
//! ```text
//! timeline   ──0 s────────10 s────────20 s──────▶   tokio's paused time, moved only by sleeps
//! process A  ──┼ 12:00:00 ┼ 12:00:10 ┼ 12:00:20     offset 0, drift 0
//! process B  ──┼ 12:03:00 ┼ 12:03:11 ┼ 12:03:22     offset 180 s, drift +100,000 ppm
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "the only file that reads tokio's instant: everything else is given this timeline"
)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use commit_log::environment::{Moment, Stopwatch};
use slatedb_common::{SystemClock, SystemClockTicker};
use tokio::time::{Instant, sleep, sleep_until};

/// 2030-01-01T00:00:00Z, where every world's timeline begins.
const BEGINNING_MILLIS: i64 = 1_893_456_000_000;

const MILLION: i128 = 1_000_000;

/// The true time of one world, counted from the moment the world began.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    beginning: Instant,
}

impl Timeline {
    /// Begins a timeline now. Call it once a world, inside the world's runtime.
    pub fn begin() -> Self {
        Self { beginning: Instant::now() }
    }

    /// Simulated time since the world began.
    pub fn elapsed(&self) -> Duration {
        self.beginning.elapsed()
    }

    /// The calendar time of an instant of this timeline: what the bucket stamps on objects.
    pub fn at(&self, elapsed: Duration) -> DateTime<Utc> {
        beginning() + elapsed
    }

    /// Waits until the timeline reaches `elapsed`, rounded up to tokio's millisecond.
    pub async fn sleep_until(&self, elapsed: Duration) {
        sleep_until(self.beginning + elapsed).await;
    }
}

fn beginning() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(BEGINNING_MILLIS).expect("a constant in range")
}

/// Whether a process's clock may run backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockMode {
    /// A jump back freezes the clock until true time has caught up. SlateDB's tickers need this: they panic on a
    /// clock that goes back.
    Steady,
    /// A jump back is seen as it is. For code that must survive it; not for a SlateDB with tickers.
    Wild,
}

/// How one process's clock differs from the timeline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Skew {
    /// Added to every reading.
    pub offset: TimeDelta,
    /// Parts per million by which the clock runs fast (or slow, below zero).
    pub drift_ppm: i64,
}

/// One process's clock: SlateDB's [`SystemClock`] over the world's timeline.
///
/// Sleeps follow the drift, never a jump, as a monotonic clock would.
#[derive(Debug)]
pub struct SimulatedClock {
    timeline: Timeline,
    mode: ClockMode,
    drift_ppm: i64,
    state: Mutex<ClockState>,
}

#[derive(Debug)]
struct ClockState {
    offset: TimeDelta,
    latest: DateTime<Utc>,
}

impl SimulatedClock {
    /// A clock over `timeline` that differs from it by `skew`.
    pub fn new(timeline: Timeline, mode: ClockMode, skew: Skew) -> Self {
        let Skew { offset, drift_ppm } = skew;
        assert!(drift_ppm > -1_000_000, "a clock must go forward");
        Self { timeline, mode, drift_ppm, state: Mutex::new(ClockState { offset, latest: DateTime::<Utc>::MIN_UTC }) }
    }

    /// Moves the clock by `by`, forward or back. What a step back looks like is the [`ClockMode`]'s.
    pub fn jump(&self, by: TimeDelta) {
        self.state.lock().unwrap().offset += by;
    }

    /// How far this clock has counted since the world began, drift included, jumps and offset not.
    fn counted(&self) -> TimeDelta {
        let micros = i128::try_from(self.timeline.elapsed().as_micros()).expect("fits");
        let drifted = micros + micros * i128::from(self.drift_ppm) / MILLION;
        TimeDelta::microseconds(i64::try_from(drifted).expect("a world lasts less than 292,000 years"))
    }

    /// The true time that passes while this clock counts `duration`.
    fn true_duration(&self, duration: Duration) -> Duration {
        if self.drift_ppm == 0 {
            return duration;
        }
        let rate = u128::try_from(MILLION + i128::from(self.drift_ppm)).expect("checked at construction");
        let micros = duration.as_micros().saturating_mul(1_000_000) / rate;
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

impl SystemClock for SimulatedClock {
    fn now(&self) -> DateTime<Utc> {
        let mut state = self.state.lock().unwrap();
        let raw = beginning() + self.counted() + state.offset;
        match self.mode {
            ClockMode::Wild => raw,
            ClockMode::Steady => {
                state.latest = state.latest.max(raw);
                state.latest
            }
        }
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(sleep(self.true_duration(duration)))
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

impl Stopwatch for SimulatedClock {
    /// A jump moves the wall clock alone, whatever the mode: the machine of a steady clock was set back all the same.
    fn read(&self) -> Moment {
        let (counted, offset) = (self.counted(), self.state.lock().unwrap().offset);
        Moment { monotonic: counted.to_std().expect("a clock goes forward"), wall: beginning() + counted + offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Limits, run_world};

    fn clock(mode: ClockMode, skew: Skew) -> SimulatedClock {
        SimulatedClock::new(Timeline::begin(), mode, skew)
    }

    #[test]
    fn a_fast_clock_counts_more_and_sleeps_less() {
        run_world(1, Limits::default(), |world| async move {
            let skew = Skew { offset: TimeDelta::seconds(180), drift_ppm: 100_000 };
            let clock = SimulatedClock::new(world.timeline(), ClockMode::Wild, skew);
            world.timeline().sleep_until(Duration::from_secs(10)).await;
            assert_eq!(clock.now() - beginning(), TimeDelta::seconds(191));
            clock.sleep(Duration::from_secs(11)).await;
            assert_eq!(world.timeline().elapsed(), Duration::from_secs(20));
        })
        .unwrap();
    }

    #[test]
    fn a_jump_back_is_seen_by_a_wild_clock_and_freezes_a_steady_one() {
        run_world(1, Limits::default(), |_| async move {
            for (mode, seen) in [(ClockMode::Wild, -60), (ClockMode::Steady, 0)] {
                let clock = clock(mode, Skew::default());
                let before = clock.now();
                clock.jump(TimeDelta::seconds(-60));
                assert_eq!(clock.now() - before, TimeDelta::seconds(seen), "{mode:?}");
                clock.sleep(Duration::from_secs(61)).await;
                assert_eq!(clock.now() - before, TimeDelta::seconds(1), "{mode:?}");
            }
        })
        .unwrap();
    }
}
