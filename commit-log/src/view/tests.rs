//! Views over real stores in memory.

mod base;
pub(crate) mod kit;
mod overlay;
mod reads;
mod views;
