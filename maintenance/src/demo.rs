//! The demo: processes move money through one store, some are killed, and an audit counts that nothing was lost.

pub mod audit;
pub mod auditor;
pub mod bank;
pub mod children;
pub mod directory;
pub mod events;
pub mod folder;
pub mod history;
pub mod journal;
pub mod notes;
pub mod page;
pub mod plan;
pub mod progress;
pub mod run;
pub mod summary;
pub mod supervise;
pub mod teller;
pub mod writer;

use std::fmt;

/// A process of a demo. The same name serves every one that takes over from a killed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The writer of this number, counted from zero.
    Writer(u16),
    /// The one that folds.
    Folder,
    /// The one that audits.
    Auditor,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // People count from one.
            Role::Writer(writer) => write!(f, "writer {}", u32::from(*writer) + 1),
            Role::Folder => f.write_str("folder"),
            Role::Auditor => f.write_str("auditor"),
        }
    }
}
