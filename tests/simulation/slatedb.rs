//! A real SlateDB over the simulated bucket.
