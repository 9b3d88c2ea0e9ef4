//! The kit.
