//! `outcome`, and closing a sequence whose offer ended unknown.

use crate::design::{Design, FillerCheck, OutcomeOrder};
use crate::log::{Bounds, Log};
use crate::pair::{Pair, must_be_caught, must_hold_on_schedules, must_hold_once};
use crate::violation::Violation;

const SAFE: Design = Design::safe();

#[test]
fn a_slot_that_is_there_does_not_decide_an_outcome_alone() {
    let naive = Design { outcome: OutcomeOrder::LedgerOnlyIfAbsent, ..SAFE };
    Pair::new("outcome: slot decides alone", naive, Violation::FalseLanded).check();
}

#[test]
fn open_needs_the_ledger_read_after_the_slot() {
    let naive = Design { outcome: OutcomeOrder::LedgerThenSlot, ..SAFE };
    Pair::new("outcome: ledger, then slot", naive, Violation::FalseOpen).check();
}

#[test]
fn a_filler_needs_the_win_check_of_an_offer() {
    let naive = Design { filler: FillerCheck::None, ..SAFE };
    let name = "filler without a win check";
    must_be_caught(name, &Log { design: naive, bounds: Bounds::small() }, Violation::FalseNever);
    must_hold_once(name, Log { design: SAFE, bounds: Bounds::small() });
    // Chance meets the naive version's fault once in some 50,000 schedules, so that only the search is asked to.
    must_hold_on_schedules(name, &Log { design: SAFE, bounds: Bounds::large() });
}
