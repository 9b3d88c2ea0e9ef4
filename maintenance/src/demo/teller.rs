//! A child's voice: what it tells its parent, with the time.

use std::io;

use commit_log::environment::Environment;

use super::events::{Event, Line};

/// Tells the parent.
#[derive(Clone, Debug)]
pub struct Teller {
    environment: Environment,
    began_at: u64,
}

impl Teller {
    /// Tells times since `began_at`, in ms since the Unix epoch.
    pub fn new(environment: Environment, began_at: u64) -> Teller {
        Teller { environment, began_at }
    }

    /// Time and randomness of this process.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Tells one thing, at once.
    ///
    /// # Errors
    ///
    /// When the parent is gone.
    pub fn tell(&self, event: Event) -> io::Result<()> {
        let at = self.environment.now_millis().saturating_sub(self.began_at);
        Line { at, event }.write(&mut io::stdout().lock())
    }
}
