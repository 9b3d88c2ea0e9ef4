//! Retiring a page: what must be covered, and what a collector awaits before it deletes.

use crate::design::{DeleteOrder, Design, RetireWhen};
use crate::log::{Bounds, FloorMoves, Log, Reading};
use crate::pair::{Pair, must_hold_once};
use crate::violation::Violation;

const SAFE: Design = Design::safe();

/// Real collectors and real late puts: one page exhausted, three pages on schedules.
fn collect(name: &'static str, naive: Design, caught: Violation) -> Pair {
    let bounds = Bounds::explicit(1);
    let explicit = Bounds::explicit(2);
    let schedules = Bounds { sequences: 4, committers: 2, reading: Reading::Warm, ..explicit };
    Pair { bounds, schedules, ..Pair::new(name, naive, caught) }
}

#[test]
fn nothing_is_deleted_before_the_ledger() {
    let naive = Design { delete_order: DeleteOrder::DeletesFirst, ..SAFE };
    collect("deletes first", naive, Violation::TwoContents).check();
}

#[test]
fn nothing_is_deleted_before_the_ledger_was_answered() {
    let naive = Design { delete_order: DeleteOrder::LedgerUnawaited, ..SAFE };
    collect("ledger not awaited", naive, Violation::TwoContents).check();
}

#[test]
fn nothing_is_deleted_on_the_word_already_exists() {
    let naive = Design { delete_order: DeleteOrder::OnAlreadyExists, ..SAFE };
    collect("deletes on \"already exists\"", naive, Violation::TwoContents).check();
}

#[test]
fn a_page_retires_only_when_its_last_slot_is_covered() {
    let naive = Design { retire_when: RetireWhen::FirstSlotCovered, ..SAFE };
    collect("first slot covered", naive, Violation::LedgerDiffers).check();
    let pair = Pair::new("first slot covered, two pages", naive, Violation::LedgerDiffers);
    let bounds = Bounds { floor: FloorMoves::BySlot, ..Bounds::reader(Reading::Warm) };
    Pair { bounds, ..pair }.check();
}

#[test]
fn two_real_collectors_agree() {
    let bounds = Bounds { sequences: 4, committers: 0, ..Bounds::explicit(2) };
    must_hold_once("two collectors, two pages", Log { design: SAFE, bounds });
}

#[test]
fn a_list_that_walks_past_a_real_collector_sees_no_damage() {
    let reading = Reading::ListWalk;
    let bounds = Bounds { sequences: 4, committers: 0, reading, ..Bounds::explicit(1) };
    must_hold_once("list beside a collector", Log { design: SAFE, bounds });
}
