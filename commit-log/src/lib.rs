//! Several processes commit to one SlateDB store through a shared commit log in the bucket.

pub mod envelope;
pub mod environment;
pub mod frame;
pub mod guard;
pub mod identity;
pub mod ledger;
pub mod record;
pub mod slot;
pub mod transaction;
pub mod view;
