//! Worlds over the simulated bucket: determinism, faults that land, and a real SlateDB.

mod bucket;
mod slatedb;
mod store;
mod store_worlds;
