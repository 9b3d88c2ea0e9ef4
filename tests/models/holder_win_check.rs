//! When the holder may skip the ledger read after "created": it alone retires while nobody took the store.

use crate::design::{Design, HolderCheck};
use crate::log::{Bounds, Closing, FloorMoves, Log};
use crate::pair::{Pair, must_hold_once};
use crate::violation::Violation;

const SAFE: Design = Design { holder: HolderCheck::FenceAfterPut, ..Design::safe() };

fn hold(name: &'static str, naive: Design) -> Pair {
    Pair { safe: SAFE, ..Pair::new(name, naive, Violation::FalseWin) }
}

#[test]
fn believing_oneself_unfenced_is_no_win_check() {
    hold("holder believes itself unfenced", Design { holder: HolderCheck::BelievesUnfenced, ..SAFE }).check();
}

#[test]
fn a_look_at_the_fence_before_the_put_is_no_win_check() {
    hold("holder looks before the put", Design { holder: HolderCheck::FenceBeforePut, ..SAFE }).check();
}

#[test]
fn a_holder_nobody_can_fence_needs_no_check() {
    let design = Design { holder: HolderCheck::SoleRetirer, ..Design::safe() };
    must_hold_once("sole retirer", Log { design, bounds: Bounds::small() });
}

#[test]
fn a_look_at_the_fence_after_the_put_serves_beside_another_committer() {
    let bounds = Bounds { sequences: 2, committers: 2, floor: FloorMoves::BySlot, closing: Closing::No, ..Bounds::small() };
    must_hold_once("holder looks after the put, two committers", Log { design: SAFE, bounds });
}
