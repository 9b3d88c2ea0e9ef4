//! The test kit: the simulated bucket with its history, clocks and runtime, and the scripted bucket.
//!
//! A failed expectation here is a failed test, so the kit panics where the library returns errors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a broken expectation must stop the test that met it"
)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the library's errors may grow; a world calls what it does not expect broken"
)]

pub mod bucket;
pub mod checkers;
pub mod clock;
pub mod fingerprint;
pub mod history;
pub mod linearizability;
pub mod log_world;
pub mod runtime;
pub mod scripted;
pub mod store_world;
