//! Scripted.
