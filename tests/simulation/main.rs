//! Worlds over the simulated bucket: determinism, faults that land, damage, the real log, and a real SlateDB.

mod bucket;
mod calm;
mod damage;
mod dialects;
mod log_worlds;
mod open_offers;
mod retired_names;
mod slatedb;
mod store;
mod store_worlds;
