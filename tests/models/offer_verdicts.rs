//! What an offer may conclude: won, lost and behind, each only after a ledger read that follows the slot's.

use crate::design::{
    AbsentRule, Design, ExistsRule, LossRule, OwnObject, WinCheck,
};
use crate::log::{Bounds, Verdicts};
use crate::pair::Pair;
use crate::violation::Violation;

fn safe() -> Design {
    Design::safe()
}

#[test]
fn a_win_needs_a_check() {
    let naive = Design { win_check: WinCheck::None, ..safe() };
    Pair::new("no win check", naive, Violation::FalseWin).check();
}
