//! Models of the log's protocol, in pairs: a naive version that must be caught, a safe one that must hold.
//!
//! If a naive version stops being caught, the model has lost its teeth; nothing was fixed. Nothing here runs the
//! library: the models are the protocol's rules as pure state machines, explored by `explore` and `schedules`.
//! `MODEL_SCHEDULES=<n>` sets the seeded schedules of a pair, `MODEL_SEED=<seed>` replays a single one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod design;
mod explore;
mod log;
mod pair;
mod schedules;
mod violation;

mod bytes_and_ids;
mod holder_win_check;
mod incarnations;
mod offer_verdicts;
mod outcome_and_closing;
mod resolution;
mod retiring;
mod tail_belief;
mod unknown_and_loss;
