//! Counts whether anything was lost: what the writers' journals promise against what the store holds. Pure.

mod count;

use std::collections::BTreeMap;
use std::fmt;

use commit_log::identity::TransactionId;
use commit_log::slot::Sequence;
use serde::{Deserialize, Serialize};

use super::bank::TransferRow;
use super::journal::Entry;
use super::plan::{Account, Plan, TransferId};

/// The most findings that a verdict names; more are counted. One is enough to fail.
pub const MAX_NAMED_FINDINGS: usize = 50;

/// What became of a put, asked of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in.
    Landed,
    /// It is not in and never will be.
    Never,
    /// Nothing is there yet.
    Open,
}

/// A put, by what the log knows it.
pub type Put = (TransactionId, Sequence);

/// Everything the audit looks at.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// What was to be done.
    pub plan: &'a Plan,
    /// Each writer's journal.
    pub journals: &'a [Vec<Entry>],
    /// What the log says of the puts that [`doubtful`] names.
    pub answers: &'a BTreeMap<Put, Answer>,
    /// Every account in the store.
    pub balances: &'a BTreeMap<Account, u64>,
    /// Every transfer's row in the store.
    pub transfers: &'a BTreeMap<TransferId, TransferRow>,
}

/// The puts of `journal` that only the log can tell about: the last of each transaction that was not acknowledged.
pub fn doubtful(journal: &[Entry]) -> Vec<Put> {
    count::transactions(journal).into_iter().filter_map(|(transaction, seen)| Some((transaction, seen.doubtful?))).collect()
}

/// Something that is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Money came from nowhere or went there.
    Total {
        /// What there was.
        expected: u64,
        /// What there is.
        actual: u64,
    },
    /// An account that is there is not planned, or the other way round.
    Account {
        /// Which.
        account: u32,
    },
    /// A balance that the transfers' rows do not add up to.
    Balance {
        /// Whose.
        account: u32,
        /// What they add up to.
        expected: i64,
        /// What is there.
        actual: u64,
    },
    /// An acknowledged transfer that is not there.
    Missing {
        /// The row's key.
        transfer: String,
    },
    /// Two transactions of one transfer that are both in.
    Doubled {
        /// The row's key.
        transfer: String,
    },
    /// A row of another transaction than the one that the journal says is in.
    Overwritten {
        /// The row's key.
        transfer: String,
    },
    /// A row that no journal announced, or that was said never to land.
    Unannounced {
        /// The row's key.
        transfer: String,
    },
    /// A row that moves something else than planned.
    Altered {
        /// The row's key.
        transfer: String,
    },
    /// A put of which nobody can say what became of it.
    Unresolved {
        /// The row's key.
        transfer: String,
        /// The slot.
        sequence: u64,
    },
    /// Planned transfers that nobody made.
    Unfinished {
        /// The writer, counted from zero.
        writer: u16,
        /// How many.
        count: u64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Total { expected, actual } => write!(f, "the total: expected {expected}, found {actual}"),
            Finding::Account { account } => write!(f, "account {account} is there and not planned, or planned and not there"),
            Finding::Balance { account, expected, actual } => {
                write!(f, "account {account}: its transfers add up to {expected}, it holds {actual}")
            }
            Finding::Missing { transfer } => write!(f, "`{transfer}` was acknowledged and is not there"),
            Finding::Doubled { transfer } => write!(f, "`{transfer}` was made twice"),
            Finding::Overwritten { transfer } => write!(f, "`{transfer}` was written by another transaction than is said"),
            Finding::Unannounced { transfer } => write!(f, "`{transfer}` is there and no journal says that it may be"),
            Finding::Altered { transfer } => write!(f, "`{transfer}` moved something else than planned"),
            Finding::Unresolved { transfer, sequence } => {
                write!(f, "`{transfer}`: what became of its put to slot {sequence} is not known")
            }
            Finding::Unfinished { writer, count } => {
                write!(f, "writer {}: {count} planned transfers were not made", u32::from(*writer) + 1)
            }
        }
    }
}

/// What the audit counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// How many accounts there are.
    pub accounts: u64,
    /// What all accounts began with.
    pub total_before: u64,
    /// What all accounts hold.
    pub total_after: u64,
    /// Transfers whose commit was acknowledged.
    pub acknowledged: u64,
    /// Transfers in the store.
    pub found: u64,
    /// Puts that nothing was heard of and that turned out to be in.
    pub unknown_landed: u64,
    /// Puts that nothing was heard of and that turned out never to land.
    pub unknown_never: u64,
    /// How many findings there are.
    pub findings_count: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Whether nothing is off.
    pub fn is_clean(&self) -> bool {
        self.findings_count == 0
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.is_clean())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = self.unknown_landed + self.unknown_never;
        writeln!(f, "total      {} before, {} after, in {} accounts", self.total_before, self.total_after, self.accounts)?;
        writeln!(f, "transfers  {} acknowledged, {} in the store", self.acknowledged, self.found)?;
        writeln!(f, "unknown    {unknown}: {} landed, {} never did", self.unknown_landed, self.unknown_never)?;
        for finding in &self.findings {
            writeln!(f, "OFF        {finding}")?;
        }
        match (self.findings_count, self.findings_count - self.findings.len() as u64) {
            (0, _) => f.write_str("audit      clean: nothing was lost, nothing was doubled"),
            (count, 0) => write!(f, "audit      {count} off"),
            (count, more) => write!(f, "audit      {count} off, {more} of them not shown"),
        }
    }
}

/// Audits. Nothing is trusted that two sides do not agree on.
pub fn audit(evidence: &Evidence<'_>) -> Verdict {
    count::Count::new(evidence).verdict()
}

#[cfg(test)]
mod tests;
