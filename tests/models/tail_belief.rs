//! When slots that were read are believed, and when their absence is.

use crate::design::{BatchCheck, ChainCheck, CorruptionReport, Design, EndRule, HoleRule, RetireOrder};
use crate::log::{Bounds, Log, Reading, Resolution};
use crate::pair::{Pair, must_hold_once};
use crate::violation::Violation;

const SAFE: Design = Design::safe();

fn read(name: &'static str, naive: Design, caught: Violation) -> Pair {
    let bounds = Bounds::reader(Reading::Warm);
    Pair { bounds, ..Pair::new(name, naive, caught) }
}

#[test]
fn a_committer_folds_no_batch_without_a_ledger_read() {
    let naive = Design { batch: BatchCheck::None, ..SAFE };
    Pair::new("committer's batch, no check", naive, Violation::FoldedNotGenuine).check();
}

#[test]
fn a_winner_is_not_folded_without_a_ledger_read() {
    let naive = Design { batch: BatchCheck::None, ..SAFE };
    let bounds = Bounds { batch: 1, ..Bounds::small() };
    Pair { bounds, ..Pair::new("one slot, no check", naive, Violation::FoldedNotGenuine) }.check();
}

#[test]
fn a_reader_serves_no_batch_without_a_ledger_read() {
    let naive = Design { batch: BatchCheck::None, ..SAFE };
    read("reader's batch, no check", naive, Violation::FoldedNotGenuine).check();
}

#[test]
fn a_committers_batch_is_checked_after_its_last_read() {
    let naive = Design { batch: BatchCheck::Before, ..SAFE };
    Pair::new("committer's batch, check first", naive, Violation::FoldedNotGenuine).check();
}

#[test]
fn a_readers_batch_is_checked_after_its_last_read() {
    let naive = Design { batch: BatchCheck::Before, ..SAFE };
    read("reader's batch, check first", naive, Violation::FoldedNotGenuine).check();
}

#[test]
fn the_lowest_pages_ledger_vouches_only_while_pages_retire_in_order() {
    let naive = Design { retire_order: RetireOrder::Any, ..SAFE };
    read("pages retire in any order", naive, Violation::FoldedNotGenuine).check();
}

#[test]
fn the_last_pages_ledger_vouches_only_with_the_chain() {
    let safe = Design { batch: BatchCheck::LastPage, ..SAFE };
    let naive = Design { chain: ChainCheck::Off, ..safe };
    Pair { safe, ..read("last page, no chain", naive, Violation::FoldedNotGenuine) }.check();
}

#[test]
fn other_checks_that_would_hold() {
    let bounds = Bounds::reader(Reading::Warm);
    let holds = |name, design| must_hold_once(name, Log { design, bounds });
    holds("lowest page, no chain", Design { chain: ChainCheck::Off, ..SAFE });
    let every = Design { batch: BatchCheck::EveryPage, ..SAFE };
    holds("every page", every);
    holds("every page, any order", Design { retire_order: RetireOrder::Any, ..every });
    let last = Design { batch: BatchCheck::LastPage, ..SAFE };
    holds("last page, any order", Design { retire_order: RetireOrder::Any, ..last });
}

#[test]
fn a_broken_chain_is_damage_only_after_the_ledger_read() {
    let naive = Design { corruption: CorruptionReport::BeforeLedger, ..SAFE };
    read("chain break reported first, reader", naive, Violation::FalseCorruption).check();
    Pair::new("chain break reported first, committer", naive, Violation::FalseCorruption).check();
}

#[test]
fn a_gap_in_a_list_is_damage_only_after_a_direct_read_and_the_ledger() {
    let naive = Design { hole: HoleRule::ReportedAtOnce, ..SAFE };
    let pair = read("gap in a list reported at once", naive, Violation::FalseCorruption);
    let bounds = Bounds::reader(Reading::ListWalk);
    let schedules = Bounds { reading: Reading::ListWalk, ..Bounds::large() };
    Pair { bounds, schedules, ..pair }.check();
    let bounds = Bounds::reader(Reading::ListSnapshot);
    must_hold_once("list that sees one moment", Log { design: SAFE, bounds });
}

#[test]
fn an_absent_slot_is_the_end_only_after_the_ledger_read() {
    let naive = Design { end: EndRule::AbsentSlot, ..SAFE };
    let pair = read("absent: the end", naive, Violation::StuckReader);
    let bounds = Bounds { resolution: Resolution::Checked, ..pair.bounds };
    let schedules = Bounds { resolution: Resolution::Checked, ..pair.schedules };
    Pair { bounds, schedules, ..pair }.check();
}
