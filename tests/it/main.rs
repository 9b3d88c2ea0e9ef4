//! The library over a bucket in memory, with every request counted or scripted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

mod store;
