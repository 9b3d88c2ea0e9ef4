//! How long anything may take: deadlines, and the one retry policy.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, Shared, select};

use crate::environment::{Environment, SystemClock};

/// How requests are paced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long one public call may take before it answers, whatever the bucket does.
    pub call: Duration,
    /// How long one request may take before it counts as unanswered.
    pub attempt: Duration,
    /// The pause before the second try.
    pub first_pause: Duration,
    /// The longest pause between two tries.
    pub longest_pause: Duration,
    /// How long a commit waits in silence before it logs what it waits for, and again after each such time.
    pub log_every: Duration,
}

impl Default for Pace {
    /// Thirty seconds a call: long enough for a bucket's bad moment, short enough for a person. Ten seconds a request: above
    /// the slowest put that a healthy store answers. Pauses from 50 ms to 2 s.
    fn default() -> Pace {
        Pace {
            call: Duration::from_secs(30),
            attempt: Duration::from_secs(10),
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_secs(2),
            log_every: Duration::from_secs(5),
        }
    }
}

impl Pace {
    /// The pauses between the tries of one request.
    pub fn backoff(&self, environment: &Environment) -> Backoff {
        Backoff { environment: environment.clone(), next: self.first_pause, longest: self.longest_pause }
    }
}

/// The pauses between the tries of one request: each twice as long as the one before, up to a bound, with jitter. The number
/// of tries is bounded by the deadline of the call.
#[derive(Debug)]
pub struct Backoff {
    environment: Environment,
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Waits for the next pause.
    pub async fn wait(&mut self) {
        let pause = self.environment.jittered(self.next);
        self.next = (self.next * 2).min(self.longest);
        self.environment.clock.sleep(pause).await;
    }
}

/// The instant at which a call answers, whatever happened by then. Copies share it.
///
/// It is a sleep of the process's own clock and compares no times, so a clock that jumps does not move it.
#[derive(Clone)]
pub struct Deadline(Shared<BoxFuture<'static, ()>>);

/// The deadline passed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline passed")]
pub struct DeadlinePassed;

impl Deadline {
    /// A deadline `duration` from now.
    pub fn after(environment: &Environment, duration: Duration) -> Deadline {
        Deadline::of_clock(environment.clock.clone(), duration)
    }

    /// A deadline `duration` from now, by `clock`.
    pub fn of_clock(clock: Arc<dyn SystemClock>, duration: Duration) -> Deadline {
        let passed = async move { clock.sleep(duration).await }.boxed().shared();
        // SUBTLE: the clock is asked at the first poll, and a deadline runs from now on, not from its first use.
        let _ = passed.clone().now_or_never();
        Deadline(passed)
    }

    /// Whether it has passed.
    pub fn has_passed(&self) -> bool {
        self.0.clone().now_or_never().is_some()
    }

    /// Waits for `work`, until the deadline. A work that is done when the deadline passes counts as done.
    ///
    /// # Errors
    ///
    /// When the deadline passes first; `work` is then dropped.
    pub async fn bound<T>(&self, work: impl Future<Output = T>) -> Result<T, DeadlinePassed> {
        match select(std::pin::pin!(work), self.0.clone()).await {
            Either::Left((result, _)) => Ok(result),
            Either::Right(((), _)) => Err(DeadlinePassed),
        }
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deadline")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use slatedb_common::clock::DefaultSystemClock;

    use super::*;
    use crate::environment::{Randomness, SystemStopwatch};

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_is_used_late_does_not_start_late() {
        let clock = Arc::new(DefaultSystemClock::new());
        let randomness = Arc::new(Randomness::from_seed(1));
        let environment = Environment { clock, stopwatch: Arc::new(SystemStopwatch::start()), randomness };
        // Given a deadline that nobody waited for yet.
        let deadline = Deadline::after(&environment, Duration::from_secs(30));
        // When most of its time has gone by.
        tokio::time::advance(Duration::from_secs(29)).await;
        // Then what takes longer than the rest is cut off.
        assert_eq!(deadline.bound(environment.clock.sleep(Duration::from_secs(2))).await, Err(DeadlinePassed));
    }
}
