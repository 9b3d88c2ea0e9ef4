//! Time and randomness, which are always passed in. The one place that asks the operating system for either.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, RngExt, SeedableRng};
pub use slatedb_common::SystemClock;
use slatedb_common::clock::DefaultSystemClock;

/// Where a process takes its time and its random numbers from.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The clock. It paces retries, deadlines and polls; no correctness decision compares two machines' clocks.
    pub clock: Arc<dyn SystemClock>,
    /// The random numbers: identities, nonces, jitter.
    pub randomness: Arc<Randomness>,
}

impl Environment {
    /// The machine's own clock and the operating system's randomness.
    ///
    /// # Errors
    ///
    /// When the operating system has no random numbers to give.
    pub fn system() -> Result<Environment, NoRandomness> {
        let seed = StdRng::try_from_rng(&mut SysRng).map_err(|_| NoRandomness)?;
        Ok(Environment { clock: Arc::new(DefaultSystemClock::new()), randomness: Arc::new(Randomness(Mutex::new(seed))) })
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
