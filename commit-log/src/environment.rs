//! Time and randomness, which are always passed in. The one place that asks the operating system for either.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rand::rngs::{StdRng, SysRng};
use rand::{Rng, RngExt, SeedableRng};
pub use slatedb_common::SystemClock;
use slatedb_common::clock::DefaultSystemClock;
use tokio::time::Instant;

/// Where a process takes its time and its random numbers from.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The clock. It paces retries, deadlines and polls; no correctness decision compares two machines' clocks.
    pub clock: Arc<dyn SystemClock>,
    /// Tells how long something took, where more than a pause hangs on it.
    pub stopwatch: Arc<dyn Stopwatch>,
    /// The random numbers: identities, nonces, jitter.
    pub randomness: Arc<Randomness>,
}

impl Environment {
    /// The machine's own clocks and the operating system's randomness.
    ///
    /// # Errors
    ///
    /// When the operating system has no random numbers to give.
    pub fn system() -> Result<Environment, NoRandomness> {
        let seed = StdRng::try_from_rng(&mut SysRng).map_err(|_| NoRandomness)?;
        Ok(Environment {
            clock: Arc::new(DefaultSystemClock::new()),
            stopwatch: Arc::new(SystemStopwatch::start()),
            randomness: Arc::new(Randomness(Mutex::new(seed))),
        })
    }

    /// The clock's time in ms since the Unix epoch, zero for a clock that stands before it.
    pub fn now_millis(&self) -> u64 {
        u64::try_from(self.clock.now().timestamp_millis()).unwrap_or(0)
    }

    /// `duration`, made shorter or longer by up to half of itself, so that many waiters do not come back at once.
    pub(crate) fn jittered(&self, duration: Duration) -> Duration {
        duration.mul_f64(0.5 + self.randomness.fraction())
    }
}

/// Two clocks of one process, read together: each sees what the other may miss.
pub trait Stopwatch: fmt::Debug + Send + Sync {
    /// Now, by both clocks.
    fn read(&self) -> Moment;
}

/// A moment by both clocks of one process. It means nothing to another process, nor after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time since some fixed moment, by a clock that is never set. It may stand still while the machine is suspended.
    pub monotonic: Duration,
    /// The calendar's time, which may be set at any moment. It has gone on when a suspended machine wakes.
    pub wall: DateTime<Utc>,
}

impl Moment {
    /// How long `earlier` was ago, by the clock that says more. `None` when a clock went backwards since.
    pub fn since(self, earlier: Moment) -> Option<Duration> {
        let by_monotonic = self.monotonic.checked_sub(earlier.monotonic)?;
        let by_wall = (self.wall - earlier.wall).to_std().ok()?;
        Some(by_monotonic.max(by_wall))
    }
}

/// The machine's own two clocks.
///
/// SUBTLE: SlateDB's clock does not serve as the second one. It asks for the calendar's time once and counts on from there by
/// the monotonic clock, so it misses what that one misses.
#[derive(Debug)]
pub struct SystemStopwatch(Instant);

#[allow(clippy::disallowed_methods, reason = "what hands the machine's clocks to everything else must read them")]
impl SystemStopwatch {
    /// One that counts from now.
    pub fn start() -> SystemStopwatch {
        SystemStopwatch(Instant::now())
    }
}

#[allow(clippy::disallowed_methods, reason = "what hands the machine's clocks to everything else must read them")]
impl Stopwatch for SystemStopwatch {
    fn read(&self) -> Moment {
        Moment { monotonic: self.0.elapsed(), wall: Utc::now() }
    }
}

/// The operating system has no random numbers to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random numbers")]
pub struct NoRandomness;

/// A source of random numbers that several tasks of one process share.
pub struct Randomness(Mutex<StdRng>);

impl Randomness {
    /// Random numbers that are the same for the same seed.
    pub fn from_seed(seed: u64) -> Randomness {
        Randomness(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// Sixteen random bytes.
    pub fn bytes(&self) -> [u8; 16] {
        self.with(|numbers| {
            let mut bytes = [0; 16];
            numbers.fill_bytes(&mut bytes);
            bytes
        })
    }

    /// A random number.
    pub fn number(&self) -> u64 {
        self.with(|numbers| numbers.next_u64())
    }

    /// A random number from zero to one, one not included.
    pub fn fraction(&self) -> f64 {
        self.with(|numbers| numbers.random())
    }

    fn with<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> T {
        // A generator has no state that a panic could leave half done.
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Randomness")
    }
}
