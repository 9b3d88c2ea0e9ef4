//! `outcome`, and closing a sequence whose offer ended unknown.

use crate::design::{Design, FillerCheck, OutcomeOrder};
use crate::log::Bounds;
use crate::pair::Pair;
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
    let pair = Pair::new("filler without a win check", naive, Violation::FalseNever);
    // Chance rarely gets through an unknown end, a closing and a retirement: one page, and nothing beside.
    let schedules = Bounds { sequences: 2, batch: 0, ..Bounds::small() };
    Pair { schedules, ..pair }.check();
}
