//! The log and its bucket, request by request: exact counts, lost answers, retired pages, stores that lie.
//!
//! Each test is a claim of the protocol. The bucket is an honest one in memory, and what goes wrong is scripted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a broken expectation must stop the test that met it"
)]

mod admin;
mod cloning;
mod closing;
mod collecting;
mod creation_race;
mod embedder;
mod figures;
mod followed;
mod frozen;
mod held;
mod holding;
mod long_tails;
mod offers;
mod opening;
mod pins;
mod publishing;
mod retired;
mod retiring;
mod roles;
mod seam;
mod store;
mod stores;
mod support;
mod tail;
mod traced;
mod win_check;
