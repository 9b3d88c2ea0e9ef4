//! Several processes commit to one SlateDB store through a shared commit log in the bucket.

pub mod adoption;
pub mod bucket;
pub mod commit_store;

pub mod envelope;
pub mod environment;
pub mod error;
pub mod frame;
pub mod guard;
pub mod holder;
pub mod identity;
pub mod inspect;
pub mod ledger;
pub mod log;
mod manifest;
pub mod place;
pub mod publish;
pub mod record;
pub mod retire;
pub mod slot;
pub mod store;
pub mod take;
pub mod transaction;
pub mod view;
pub mod wal;
