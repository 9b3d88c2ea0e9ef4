//! What an offer may conclude: won, lost and behind, each only after a ledger read that follows the slot's.

use crate::design::{AbsentRule, Design, ExistsRule, LossRule, OwnObject, WinCheck};
use crate::log::{Bounds, Closing, Collecting, FloorMoves, Log, Verdicts, Zombies};
use crate::pair::{Pair, must_be_caught, must_hold_once};
use crate::violation::Violation;

const SAFE: Design = Design::safe();

#[test]
fn created_without_a_later_ledger_read_is_no_win() {
    let naive = Design { win_check: WinCheck::None, ..SAFE };
    Pair::new("no win check", naive, Violation::FalseWin).check();
}

#[test]
fn a_win_check_before_the_put_proves_nothing() {
    let naive = Design { win_check: WinCheck::BeforePut, ..SAFE };
    Pair::new("win check before the put", naive, Violation::FalseWin).check();
}

#[test]
fn a_neighbour_that_still_exists_vouches_for_nothing() {
    let naive = Design { win_check: WinCheck::PredecessorExists, ..SAFE };
    Pair::new("neighbour vouches", naive, Violation::FalseWin).check();
}

#[test]
fn another_id_and_an_absent_slot_both_need_the_ledger_to_name_us() {
    let naive = Design { loss: LossRule::SlotAlone, absent: AbsentRule::LedgerThereIsBehind, ..SAFE };
    Pair::new("slot decides, ledger not searched", naive, Violation::FalseBehind).check();
}

#[test]
fn behind_is_said_only_after_the_ledger_was_searched_for_our_id() {
    let naive = Design { absent: AbsentRule::LedgerThereIsBehind, ..SAFE };
    Pair::new("absent, a ledger: behind", naive, Violation::FalseBehind).check();
}

#[test]
fn lost_is_said_only_after_a_later_ledger_read() {
    let naive = Design { loss: LossRule::SlotAlone, ..SAFE };
    Pair::new("another id: lost", naive, Violation::FalseLoss).check();
}

#[test]
fn a_ledger_read_before_the_slot_decides_nothing() {
    let naive = Design { loss: LossRule::LedgerThenSlot, ..SAFE };
    Pair::new("ledger, then slot", naive, Violation::FalseWin).check();
}

/// Real late puts of two committers, a real collector, no filler: no reduction that could invent a trace.
const UNREDUCED: Bounds = Bounds {
    committers: 2,
    batch: 0,
    floor: FloorMoves::ByPage,
    collecting: Collecting::Explicit(1),
    zombies: Zombies::SentOnly,
    closing: Closing::No,
    verdicts: Verdicts::EndToEnd,
    ..Bounds::small()
};

#[test]
fn a_false_behind_ends_in_a_double_commit() {
    let design = Design { absent: AbsentRule::LedgerThereIsBehind, ..SAFE };
    let bounds = Bounds { committers: 1, ..UNREDUCED };
    must_be_caught("behind, end to end", &Log { design, bounds }, Violation::DoubleCommit);
}

#[test]
fn a_false_loss_ends_in_a_double_commit() {
    let design = Design { loss: LossRule::SlotAlone, ..SAFE };
    must_be_caught("lost, end to end", &Log { design, bounds: UNREDUCED }, Violation::DoubleCommit);
}

#[test]
fn the_protocol_end_to_end_commits_nothing_twice() {
    let bounds = Bounds { verdicts: Verdicts::EndToEnd, ..Bounds::small() };
    must_hold_once("end to end", Log { design: SAFE, bounds });
}

#[test]
fn an_offer_that_meets_its_own_object_has_won() {
    let naive = Design { own_object: OwnObject::TakenForAnothers, ..SAFE };
    Pair::new("own object not recognised", naive, Violation::FalseLoss).check();
}

#[test]
fn already_exists_is_no_loss_before_the_slot_is_read() {
    let naive = Design { exists: ExistsRule::Lost, ..SAFE };
    Pair::new("exists: lost", naive, Violation::FalseLoss).check();
}

#[test]
fn one_ledger_read_serves_the_winner_and_the_slots_after_it() {
    let bounds = Bounds { batch: 1, ..Bounds::small() };
    must_hold_once("one ledger read a loss, batch of one", Log { design: SAFE, bounds });
    must_hold_once("one ledger read a loss, batch of two", Log { design: SAFE, bounds: Bounds::small() });
}
