use super::super::bank::Balances;
use super::super::journal::Word;
use super::super::plan::{OPENING_BALANCE, Shape};
use super::*;

/// A run in which nothing went wrong, but for an unknown put that landed and one that never did.
struct World {
    plan: Plan,
    journals: Vec<Vec<Entry>>,
    answers: BTreeMap<Put, Answer>,
    balances: BTreeMap<Account, u64>,
    transfers: BTreeMap<TransferId, TransferRow>,
}

fn transaction(number: u64) -> TransactionId {
    TransactionId::from_bytes(u128::from(number).to_be_bytes())
}

fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap()
}

fn entry(word: Word, id: TransferId, number: u64) -> Entry {
    Entry { word, transaction: transaction(number), sequence: sequence(number), transfer: id.number }
}

impl World {
    fn new() -> World {
        let plan = Plan::new(Shape { seed: 5, writers: 2, accounts: 5, transfers: 40 });
        let mut world = World {
            journals: vec![Vec::new(), Vec::new()],
            answers: BTreeMap::new(),
            balances: (0..5).map(|account| (Account(account), OPENING_BALANCE)).collect(),
            transfers: BTreeMap::new(),
            plan,
        };
        let ids: Vec<_> = world.plan.ids().collect();
        for (number, id) in (1..).zip(ids) {
            world.transfer(id, number);
        }
        world
    }

    fn transfer(&mut self, id: TransferId, number: u64) {
        let planned = self.plan.transfer(id);
        let before = Balances { from: self.balances[&planned.from], to: self.balances[&planned.to] };
        let (after, moved) = super::super::bank::moved(planned, before);
        self.balances.extend([(planned.from, after.from), (planned.to, after.to)]);
        let row = TransferRow { transaction: transaction(number), from: planned.from, to: planned.to, moved };
        self.transfers.insert(id, row);
        let journal = &mut self.journals[usize::from(id.writer)];
        match id.number {
            // The log is asked: it landed.
            3 => {
                journal.push(entry(Word::Attempt, id, number));
                self.answers.insert((transaction(number), sequence(number)), Answer::Landed);
            }
            // Killed before the put, and made again by the successor.
            7 => {
                journal.push(entry(Word::Attempt, id, number + 1_000));
                self.answers.insert((transaction(number + 1_000), sequence(number + 1_000)), Answer::Never);
                journal.extend([entry(Word::Attempt, id, number), entry(Word::Acknowledged, id, number)]);
            }
            // Lost once under the same transaction.
            _ => journal.extend([
                Entry { sequence: sequence(number + 500), ..entry(Word::Attempt, id, number) },
                entry(Word::Attempt, id, number),
                entry(Word::Acknowledged, id, number),
            ]),
        }
    }

    fn verdict(&self) -> Verdict {
        let World { plan, journals, answers, balances, transfers } = self;
        audit(&Evidence { plan, journals, answers, balances, transfers })
    }

    fn findings(&self) -> Vec<Finding> {
        let verdict = self.verdict();
        assert_eq!(verdict.exit_code(), 1, "{verdict}");
        verdict.findings
    }

    fn acknowledged(&self) -> (TransferId, String) {
        let id = TransferId { writer: 1, number: 10 };
        (id, id.key())
    }
}

#[test]
fn a_clean_run_is_clean_and_every_unknown_put_is_resolved() {
    let world = World::new();
    let verdict = world.verdict();
    assert!(verdict.is_clean(), "{verdict}");
    assert_eq!((verdict.exit_code(), verdict.acknowledged, verdict.found), (0, 38, 40));
    assert_eq!((verdict.unknown_landed, verdict.unknown_never), (2, 2));
    assert_eq!((verdict.total_before, verdict.total_after), (5_000, 5_000));
    assert!(verdict.to_string().ends_with("clean: nothing was lost, nothing was doubled"));
}

#[test]
fn exactly_the_puts_without_an_answer_are_doubtful() {
    let world = World::new();
    let asked: Vec<_> = world.journals.iter().flat_map(|journal| doubtful(journal)).collect();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|put| world.answers.contains_key(put)));
}

#[test]
fn an_acknowledged_transfer_that_is_gone_is_found() {
    let mut world = World::new();
    let (id, transfer) = world.acknowledged();
    let row = world.transfers.remove(&id).unwrap();
    *world.balances.get_mut(&row.from).unwrap() += row.moved;
    *world.balances.get_mut(&row.to).unwrap() -= row.moved;
    assert_eq!(world.findings(), [Finding::Missing { transfer }, Finding::Unfinished { writer: 1, count: 1 }]);
}

#[test]
fn an_update_that_was_lost_from_one_account_is_found() {
    let mut world = World::new();
    *world.balances.get_mut(&Account(2)).unwrap() -= 1;
    let findings = world.findings();
    assert!(matches!(findings[..], [Finding::Total { expected: 5_000, actual: 4_999 }, Finding::Balance { account: 2, .. }]));
}

#[test]
fn a_transfer_that_was_made_twice_is_found() {
    let mut world = World::new();
    let (id, transfer) = world.acknowledged();
    world.journals[1].push(entry(Word::Acknowledged, id, 999));
    assert_eq!(world.findings(), [Finding::Doubled { transfer }]);
}

#[test]
fn a_row_that_the_acknowledged_transaction_did_not_write_is_found() {
    let mut world = World::new();
    let (id, transfer) = world.acknowledged();
    world.transfers.get_mut(&id).unwrap().transaction = TransactionId::from_bytes([9; 16]);
    assert_eq!(world.findings(), [Finding::Overwritten { transfer }]);
}

#[test]
fn a_row_that_no_journal_announced_or_the_log_denies_is_found() {
    let mut world = World::new();
    let (id, transfer) = world.acknowledged();
    world.journals[1].retain(|entry| entry.transfer != id.number);
    assert_eq!(world.findings(), [Finding::Unannounced { transfer }]);

    let mut world = World::new();
    world.answers.values_mut().for_each(|answer| *answer = Answer::Never);
    assert!(world.findings().iter().all(|finding| matches!(finding, Finding::Unannounced { .. })));
}

#[test]
fn a_put_that_nobody_can_tell_about_is_found() {
    for answer in [Some(Answer::Open), None] {
        let mut world = World::new();
        let put = *world.answers.iter().find(|(_, answer)| **answer == Answer::Never).unwrap().0;
        world.answers.remove(&put);
        world.answers.extend(answer.map(|answer| (put, answer)));
        let findings = world.findings();
        assert!(matches!(findings[..], [Finding::Unresolved { .. }]), "{findings:?}");
    }
}

#[test]
fn a_row_that_moves_something_else_is_found() {
    let mut world = World::new();
    let (id, transfer) = world.acknowledged();
    let row = world.transfers.get_mut(&id).unwrap();
    row.moved += 1_000;
    let findings = world.findings();
    assert!(findings.contains(&Finding::Altered { transfer }), "{findings:?}");
}

#[test]
fn an_account_that_is_missing_or_not_planned_is_found() {
    let mut world = World::new();
    let held = world.balances.remove(&Account(4)).unwrap();
    world.balances.insert(Account(17), held);
    assert_eq!(world.findings(), [Finding::Account { account: 4 }, Finding::Account { account: 17 }]);
}

#[test]
fn a_verdict_names_a_bounded_number_of_findings_and_counts_all() {
    let mut world = World::new();
    world.plan = Plan::new(Shape { accounts: 1_000, ..world.plan.shape() });
    let verdict = world.verdict();
    assert_eq!(verdict.findings.len(), MAX_NAMED_FINDINGS);
    assert!(verdict.findings_count > 995);
    assert!(verdict.to_string().ends_with("of them not shown"));
}
