//! The counting of the audit, one check a function.

use std::collections::{BTreeMap, BTreeSet};

use commit_log::identity::TransactionId;
use commit_log::slot::Sequence;

use super::super::journal::{Entry, Word};
use super::super::plan::{OPENING_BALANCE, TransferId};
use super::{Answer, Evidence, Finding, MAX_NAMED_FINDINGS, Verdict};

/// What a journal says of one transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// The transfer that it makes.
    pub(super) transfer: u32,
    /// Whether a line says that it is in.
    pub(super) is_in: bool,
    /// Its last put, when no line says what became of it.
    pub(super) doubtful: Option<Sequence>,
}

/// What `journal` says of each transaction. A later put means that the one before it was lost: a transaction is at no
/// two slots at once.
pub(super) fn transactions(journal: &[Entry]) -> BTreeMap<TransactionId, Seen> {
    let mut all: BTreeMap<TransactionId, Seen> = BTreeMap::new();
    for entry in journal {
        let seen = all.entry(entry.transaction).or_default();
        seen.transfer = entry.transfer;
        match entry.word {
            Word::Attempt | Word::Unknown => seen.doubtful = Some(entry.sequence),
            Word::Lost | Word::Never => seen.doubtful = None,
            Word::Acknowledged | Word::Landed => (seen.is_in, seen.doubtful) = (true, None),
        }
    }
    all
}

/// What the audit has counted so far.
pub(super) struct Count<'e> {
    evidence: &'e Evidence<'e>,
    verdict: Verdict,
    /// The transactions that are in, by transfer, as journals and log say.
    promised: BTreeMap<TransferId, BTreeSet<TransactionId>>,
}

impl<'e> Count<'e> {
    pub(super) fn new(evidence: &'e Evidence<'e>) -> Count<'e> {
        Count { evidence, verdict: Verdict::default(), promised: BTreeMap::new() }
    }

    pub(super) fn verdict(mut self) -> Verdict {
        self.total();
        self.balances();
        self.promises();
        self.kept();
        self.rows();
        self.unfinished();
        self.verdict
    }

    fn found(&mut self, finding: Finding) {
        self.verdict.findings_count += 1;
        if self.verdict.findings.len() < MAX_NAMED_FINDINGS {
            self.verdict.findings.push(finding);
        }
    }

    fn total(&mut self) {
        let accounts = u64::from(self.evidence.plan.shape().accounts);
        let (expected, actual) = (accounts * OPENING_BALANCE, self.evidence.balances.values().sum::<u64>());
        let found = self.evidence.transfers.len() as u64;
        self.verdict = Verdict { accounts, total_before: expected, total_after: actual, found, ..Verdict::default() };
        if expected != actual {
            self.found(Finding::Total { expected, actual });
        }
    }

    /// Every account holds what the transfers' rows add up to.
    fn balances(&mut self) {
        let accounts = self.evidence.plan.shape().accounts;
        let opening = i64::try_from(OPENING_BALANCE).unwrap_or(i64::MAX);
        let mut expected: BTreeMap<u32, i64> = (0..accounts).map(|account| (account, opening)).collect();
        for row in self.evidence.transfers.values() {
            let moved = i64::try_from(row.moved).unwrap_or(i64::MAX);
            for (account, change) in [(row.from.0, moved.saturating_neg()), (row.to.0, moved)] {
                let balance = expected.entry(account).or_insert(0);
                *balance = balance.saturating_add(change);
            }
        }
        let actual: BTreeMap<u32, u64> = self.evidence.balances.iter().map(|(account, held)| (account.0, *held)).collect();
        let everyone: BTreeSet<u32> = expected.keys().chain(actual.keys()).copied().collect();
        for account in everyone {
            match (expected.get(&account), actual.get(&account)) {
                (Some(expected), Some(actual)) if account < accounts => {
                    if i64::try_from(*actual) != Ok(*expected) {
                        self.found(Finding::Balance { account, expected: *expected, actual: *actual });
                    }
                }
                (Some(_) | None, Some(_) | None) => self.found(Finding::Account { account }),
            }
        }
    }

    /// What the journals, and the log where they do not know, say is in.
    fn promises(&mut self) {
        for (writer, journal) in (0_u16..).zip(self.evidence.journals) {
            self.verdict.acknowledged += journal.iter().filter(|entry| entry.word == Word::Acknowledged).count() as u64;
            for (transaction, seen) in transactions(journal) {
                let id = TransferId { writer, number: seen.transfer };
                let answer = seen.doubtful.map(|sequence| (sequence, self.evidence.answers.get(&(transaction, sequence))));
                let landed = match answer {
                    None => false,
                    Some((_, Some(Answer::Landed))) => true,
                    Some((_, Some(Answer::Never))) => false,
                    Some((sequence, Some(Answer::Open) | None)) => {
                        self.found(Finding::Unresolved { transfer: id.key(), sequence: sequence.get() });
                        false
                    }
                };
                if seen.is_in || landed {
                    self.promised.entry(id).or_default().insert(transaction);
                }
                self.verdict.unknown_landed += u64::from(landed);
                self.verdict.unknown_never += u64::from(matches!(answer, Some((_, Some(Answer::Never)))));
            }
            let said = |word: Word| journal.iter().filter(|entry| entry.word == word).count() as u64;
            self.verdict.unknown_landed += said(Word::Landed);
            self.verdict.unknown_never += said(Word::Never);
        }
    }

    /// Everything that is said to be in is there, once.
    fn kept(&mut self) {
        for (id, transactions) in std::mem::take(&mut self.promised) {
            let row = self.evidence.transfers.get(&id).map(|row| row.transaction);
            if transactions.len() > 1 {
                self.found(Finding::Doubled { transfer: id.key() });
            }
            match row {
                None => self.found(Finding::Missing { transfer: id.key() }),
                Some(row) if !transactions.contains(&row) => self.found(Finding::Overwritten { transfer: id.key() }),
                Some(_) => {}
            }
            self.promised.insert(id, transactions);
        }
    }

    /// Every row was announced, and moves what was planned.
    fn rows(&mut self) {
        for (id, row) in self.evidence.transfers {
            let planned = self.evidence.plan.transfer(*id);
            let is_planned = id.number < self.evidence.plan.transfers_of(id.writer);
            let as_planned = (row.from, row.to) == (planned.from, planned.to) && row.moved <= planned.amount;
            if is_planned && !as_planned {
                self.found(Finding::Altered { transfer: id.key() });
            }
            if !is_planned || !self.promised.contains_key(id) {
                self.found(Finding::Unannounced { transfer: id.key() });
            }
        }
    }

    fn unfinished(&mut self) {
        for writer in 0..self.evidence.plan.shape().writers {
            let planned = self.evidence.plan.transfers_of(writer);
            let is_there = |number: &u32| self.evidence.transfers.contains_key(&TransferId { writer, number: *number });
            let count = u64::from(planned) - (0..planned).filter(is_there).count() as u64;
            if count > 0 {
                self.found(Finding::Unfinished { writer, count });
            }
        }
    }
}
