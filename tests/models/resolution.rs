//! The protocol at bounds of its own: more committers, real collectors, and that a process alone gets its answer.

use crate::design::Design;
use crate::log::{Again, Bounds, Closing, FloorMoves, Log, Reading, Resolution, Zombies};
use crate::pair::{must_hold_on_schedules, must_hold_once};

const SAFE: Design = Design::safe();

fn holds(name: &str, bounds: Bounds) {
    must_hold_once(name, Log { design: SAFE, bounds });
}

#[test]
fn a_committer_alone_reaches_a_verdict_from_every_state() {
    holds("verdict alone", Bounds { resolution: Resolution::Checked, ..Bounds::small() });
    let bounds = Bounds { resolution: Resolution::Checked, ..Bounds::large() };
    must_hold_on_schedules("verdict alone, three committers", &Log { design: SAFE, bounds });
}

#[test]
fn two_committers_agree_on_one_page() {
    let bounds =
        Bounds { sequences: 2, committers: 2, batch: 0, floor: FloorMoves::BySlot, closing: Closing::No, ..Bounds::small() };
    holds("two committers, one page", bounds);
}

#[test]
fn two_committers_agree_on_two_pages() {
    let bounds = Bounds {
        committers: 2,
        batch: 0,
        zombies: Zombies::SentOnly,
        again: Again::Stops,
        closing: Closing::No,
        ..Bounds::small()
    };
    holds("two committers, two pages", bounds);
}

#[test]
fn a_committer_and_a_reader_agree() {
    let bounds = Bounds { sequences: 2, floor: FloorMoves::BySlot, reading: Reading::Warm, ..Bounds::small() };
    holds("committer and reader", bounds);
}

#[test]
fn a_committer_beside_a_real_collector() {
    holds("committer and collector", Bounds::explicit(1));
}
